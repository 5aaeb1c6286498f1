//! Settings of networks: the table `[mlp]` of `config.toml`. What is not set follows from data size and fan-in.

use crate::args::mlp::MlpArgs;
use anyhow::{Result, bail};
use natmix_models::mlp::train::{CurvatureKind, Optimiser, Schedule, TrainConfig, WeightStep};
use natmix_models::mlp::{Activation, Network};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Weight draws a component that scores average over.
const SCORE_DRAWS: usize = 50;
/// Epochs of patience.
const PATIENCE: usize = 5;

/// What networks can be told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MlpSettings {
    pub hidden: Option<Vec<usize>>,
    pub activation: Option<String>,
    pub likelihood: Option<String>,
    pub epochs: Option<usize>,
    pub batch: Option<usize>,
    pub ood: Option<PathBuf>,
    pub prior_precision: Option<f64>,
    pub first_precision: Option<f64>,
    pub curvature_rate: Option<f64>,
    pub momentum: Option<f64>,
    pub damping: Option<f64>,
    pub schedule: Option<String>,
    pub warm_up: Option<f64>,
    pub curvature: Option<String>,
    pub weight_step: Option<String>,
    pub ensemble: Option<usize>,
    pub weight_decay: Option<f64>,
    pub validation: Option<f64>,
    pub patience: Option<usize>,
    pub score_draws: Option<usize>,
}

impl MlpSettings {
    /// Flags win.
    pub fn take(&mut self, args: &MlpArgs) {
        fn some<T: Clone>(mine: &mut Option<T>, given: &Option<T>) {
            if given.is_some() {
                mine.clone_from(given);
            }
        }
        if !args.hidden.is_empty() {
            self.hidden = Some(args.hidden.clone());
        }
        some(&mut self.activation, &args.activation);
        some(&mut self.likelihood, &args.likelihood);
        some(&mut self.epochs, &args.epochs);
        some(&mut self.batch, &args.batch);
        some(&mut self.ood, &args.ood);
        some(&mut self.prior_precision, &args.prior_precision);
        some(&mut self.first_precision, &args.first_precision);
        some(&mut self.curvature_rate, &args.curvature_rate);
        some(&mut self.momentum, &args.momentum);
        some(&mut self.damping, &args.damping);
        some(&mut self.schedule, &args.schedule);
        some(&mut self.warm_up, &args.warm_up);
        some(&mut self.curvature, &args.curvature);
        some(&mut self.weight_step, &args.weight_step);
        some(&mut self.ensemble, &args.ensemble);
        some(&mut self.weight_decay, &args.weight_decay);
        some(&mut self.validation, &args.validation);
        some(&mut self.patience, &args.patience);
        some(&mut self.score_draws, &args.score_draws);
    }

    /// Whether anything is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What hidden units do.
    pub fn activation(&self) -> Result<Activation> {
        let choices = [("relu", Activation::Relu), ("tanh", Activation::Tanh)];
        by_name("activation", self.activation.as_deref().unwrap_or("relu"), &choices)
    }

    /// Draws a component for scores.
    pub fn score_draws(&self) -> usize {
        self.score_draws.unwrap_or(SCORE_DRAWS).max(1)
    }

    /// Epochs of patience.
    pub fn patience(&self) -> usize {
        self.patience.unwrap_or(PATIENCE).max(1)
    }

    /// Settings of training, from the defaults for these data.
    pub fn train(&self, network: &Network, rows: usize, run: Run) -> Result<TrainConfig> {
        let base = TrainConfig::for_data(network, rows);
        let base = if run.optimiser == Optimiser::Adam { base.adam() } else { base };
        if self.ensemble.is_some() && run.optimiser != Optimiser::Adam {
            bail!("--ensemble goes with --method adam; mixtures have --components");
        }
        let curvatures =
            [("empirical-fisher", CurvatureKind::EmpiricalFisher), ("gauss-newton", CurvatureKind::GaussNewton)];
        let steps =
            [("equal", WeightStep::Equal), ("bounded", WeightStep::Bounded), ("tempered", WeightStep::Tempered)];
        let schedules = [("cosine", Schedule::Cosine), ("constant", Schedule::Constant)];
        fn chosen<T: Copy>(flag: &str, name: &Option<String>, choices: &[(&str, T)], default: T) -> Result<T> {
            name.as_deref().map_or(Ok(default), |name| by_name(flag, name, choices))
        }
        let batch = self.batch.or(run.minibatch).unwrap_or(base.batch);
        if batch == 0 || batch > rows {
            bail!("--batch {batch} is not from 1 to the {rows} rows there are");
        }
        let epochs = self.epochs.unwrap_or(if batch == base.batch {
            base.epochs
        } else {
            // As many steps as with the batch that the defaults are for.
            base.epochs.min((base.epochs * batch / base.batch).max(20))
        });
        let config = TrainConfig {
            optimiser: run.optimiser,
            curvature: chosen("curvature", &self.curvature, &curvatures, base.curvature)?,
            components: self.ensemble.unwrap_or(run.components),
            epochs,
            batch,
            rate: run.rate.unwrap_or(base.rate),
            schedule: chosen("schedule", &self.schedule, &schedules, base.schedule)?,
            momentum: self.momentum.unwrap_or(base.momentum),
            curvature_rate: self.curvature_rate.unwrap_or(TrainConfig::fading(epochs * rows.div_ceil(batch))),
            damping: self.damping.unwrap_or(base.damping),
            first_precision: self.first_precision.unwrap_or(base.first_precision),
            prior_precision: match self.prior_precision {
                Some(precision) => vec![precision; network.layers().len()],
                None => base.prior_precision.clone(),
            },
            warm_up: self.warm_up.unwrap_or(base.warm_up),
            draws: run.draws.unwrap_or(base.draws),
            weight_step: chosen("weight-step", &self.weight_step, &steps, base.weight_step)?,
            weight_decay: self.weight_decay.unwrap_or(base.weight_decay),
            seed: run.seed,
            ..base
        };
        config.validate(network, rows)?;
        Ok(config)
    }
}

fn by_name<T: Copy>(flag: &str, name: &str, choices: &[(&str, T)]) -> Result<T> {
    match choices.iter().find(|choice| choice.0 == name) {
        Some(choice) => Ok(choice.1),
        None => {
            let names: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
            bail!("--{flag} {name} is not one of {}", names.join(", "))
        }
    }
}

/// What networks take from the settings that all fits have.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How components move.
    pub optimiser: Optimiser,
    /// Components.
    pub components: usize,
    /// Step size, if given.
    pub rate: Option<f64>,
    /// Draws a component, if given.
    pub draws: Option<usize>,
    /// Rows in a minibatch, if given.
    pub minibatch: Option<usize>,
    /// Seed.
    pub seed: u64,
}
