//! Settings of networks: the table `[mlp]` of `config.toml`. What is not set follows from data size and fan-in.

use natmix::Error;
use natmix_nets::train::{CurvatureKind, Optimiser, Schedule, TrainConfig, WeightStep};
use natmix_nets::{Activation, Network};
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
    /// Units of the hidden layers.
    pub hidden: Option<Vec<usize>>,
    /// What hidden units do: `relu` or `tanh`.
    pub activation: Option<String>,
    /// `bernoulli`, `categorical` or `gaussian`.
    pub likelihood: Option<String>,
    /// Passes over the data.
    pub epochs: Option<usize>,
    /// Rows in a minibatch.
    pub batch: Option<usize>,
    /// Rows of another kind.
    pub ood: Option<PathBuf>,
    /// Prior precision of every weight.
    pub prior_precision: Option<f64>,
    /// Precision at the start.
    pub first_precision: Option<f64>,
    /// Step size of the precision.
    pub curvature_rate: Option<f64>,
    /// Momentum.
    pub momentum: Option<f64>,
    /// What is added to the precision.
    pub damping: Option<f64>,
    /// How the step size goes on: `cosine` or `constant`.
    pub schedule: Option<String>,
    /// Share of the steps in which the step size grows.
    pub warm_up: Option<f64>,
    /// `empirical-fisher` or `gauss-newton`.
    pub curvature: Option<String>,
    /// `equal`, `bounded` or `tempered`.
    pub weight_step: Option<String>,
    /// Plain networks.
    pub ensemble: Option<usize>,
    /// Weight decay of plain networks.
    pub weight_decay: Option<f64>,
    /// Share of rows that is held back.
    pub validation: Option<f64>,
    /// Epochs without improvement that are waited for.
    pub patience: Option<usize>,
    /// Weight draws a component that scores average over.
    pub score_draws: Option<usize>,
}

impl MlpSettings {
    /// Whether anything is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What hidden units do.
    pub fn activation(&self) -> Result<Activation, Error> {
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
    pub fn train(&self, network: &Network, rows: usize, run: TrainingRun) -> Result<TrainConfig, Error> {
        let base = TrainConfig::for_data(network, rows);
        let base = if run.optimiser == Optimiser::Adam { base.adam() } else { base };
        if self.ensemble.is_some() && run.optimiser != Optimiser::Adam {
            return wrong("ensemble", "goes with --method adam; mixtures have --components".into());
        }
        let curvatures =
            [("empirical-fisher", CurvatureKind::EmpiricalFisher), ("gauss-newton", CurvatureKind::GaussNewton)];
        let steps =
            [("equal", WeightStep::Equal), ("bounded", WeightStep::Bounded), ("tempered", WeightStep::Tempered)];
        let schedules = [("cosine", Schedule::Cosine), ("constant", Schedule::Constant)];
        fn chosen<T: Copy>(
            flag: &'static str,
            name: &Option<String>,
            choices: &[(&str, T)],
            default: T,
        ) -> Result<T, Error> {
            name.as_deref().map_or(Ok(default), |name| by_name(flag, name, choices))
        }
        let batch = self.batch.or(run.minibatch).unwrap_or(base.batch);
        if batch == 0 || batch > rows {
            return wrong("batch", format!("{batch} is not from 1 to the {rows} rows there are"));
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
            weight_step: chosen("weight_step", &self.weight_step, &steps, base.weight_step)?,
            weight_decay: self.weight_decay.unwrap_or(base.weight_decay),
            seed: run.seed,
            ..base
        };
        config.validate(network, rows)?;
        Ok(config)
    }
}

fn by_name<T: Copy>(setting: &'static str, name: &str, choices: &[(&str, T)]) -> Result<T, Error> {
    match choices.iter().find(|choice| choice.0 == name) {
        Some(choice) => Ok(choice.1),
        None => {
            let names: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
            wrong(setting, format!("{name} is not one of {}", names.join(", ")))
        }
    }
}

fn wrong<T>(setting: &'static str, problem: String) -> Result<T, Error> {
    Err(Error::Config { setting, problem })
}

/// What networks take from the settings that all fits have.
#[derive(Clone, Copy, Debug)]
pub struct TrainingRun {
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
