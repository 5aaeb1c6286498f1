//! Networks trained on minibatches, from settings to the result.

use super::data::NetworkData;
use super::verdict::LossTrend;
use crate::Error;
use crate::finished::Finished;
use crate::settings::Settings;
use crate::settings::network::FEWEST_SCORE_DRAWS;
use natmix::observe::Cancel;
use natmix::stop::StopReason;
use natmix_models::ranks::Ranks;
use natmix_nets::predict::Averaging;
use natmix_nets::stack;
use natmix_nets::train::{Optimiser, Team, TrainConfig, TrainState, WeightStep};
use natmix_nets::training::{EpochRow, EpochWatch, Job, Stopped, Trained};
use natmix_nets::{Examples, measure};
use natmix_report::{ReportedEstimate, StopSummary};
use serde_json::json;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Draws per component for the ELBO.
const ELBO_DRAWS: usize = 4;

/// A training run that is ready to start.
#[derive(Debug)]
pub struct Training<'a> {
    /// Its resolved settings.
    pub config: TrainConfig,
    data: &'a NetworkData,
    /// Rows to train on, and validation rows if there are any.
    rows: Cow<'a, Examples>,
    validation: Option<Cow<'a, Examples>>,
    patience: usize,
    /// Draws per component for stacking.
    score_draws: usize,
    /// The processes that share the training, if there are several.
    team: Option<Team>,
}

impl<'a> Training<'a> {
    /// Resolves the settings and holds out validation rows if requested.
    pub fn new(settings: &Settings, data: &'a NetworkData, optimiser: Optimiser) -> Result<Self, Error> {
        let (rows, validation) = data.parts(settings)?;
        settings.check_training(optimiser, validation.is_some())?;
        let config = settings.network.train(&settings.engine, &data.network, rows.rows(), optimiser)?;
        let held_out = validation.as_ref().map_or(0, |rows| rows.rows());
        let score_draws = settings.network.score_draws(&data.network, held_out, FEWEST_SCORE_DRAWS);
        Ok(Self { config, data, rows, validation, patience: settings.network.patience(), score_draws, team: None })
    }

    /// Shares the training with these processes, if there are several.
    pub fn shared_by(self, ranks: Option<Arc<Ranks>>) -> Result<Self, Error> {
        let team = ranks.map(|ranks| Team::new(ranks, &self.config)).transpose()?;
        Ok(Self { team, ..self })
    }

    /// The number of training steps.
    pub fn steps(&self) -> u64 {
        (self.config.epochs * self.rows.rows().div_ceil(self.config.batch)) as u64
    }

    /// Reads the checkpoint of an interrupted run of this training.
    pub fn load(&self, path: &Path) -> Result<TrainState, Error> {
        Ok(TrainState::load(path, &self.data.network, &self.config)?)
    }

    /// Trains along with the process that leads, which has the result.
    pub fn help(&self) -> Result<(), Error> {
        struct Nothing;
        impl EpochWatch for Nothing {
            fn step(&mut self, _: u64) {}
            fn epoch(&mut self, _: &EpochRow) -> Result<(), natmix::Error> {
                Ok(())
            }
        }
        self.job().run(&mut Nothing)?;
        Ok(())
    }

    fn job(&self) -> Job<'_> {
        Job {
            network: &self.data.network,
            data: &self.rows,
            validation: self.validation.as_deref(),
            config: self.config.clone(),
            patience: self.patience,
            checkpoint: None,
            fingerprint: None,
            resumed: None,
            cancel: Cancel::default(),
            team: self.team.clone(),
        }
    }

    /// Trains. The state is saved to the file `checkpoint`, if given, at least after each epoch, with a fingerprint of the
    /// data.
    pub fn run(
        &self,
        checkpoint: Option<(PathBuf, Option<String>)>,
        resumed: Option<(TrainState, Vec<EpochRow>)>,
        cancel: Cancel,
        watch: &mut dyn EpochWatch,
    ) -> Result<Finished, Error> {
        let (config, network) = (&self.config, &self.data.network);
        let (checkpoint, fingerprint) = checkpoint.map_or((None, None), |(path, data)| (Some(path), data));
        let job = Job { checkpoint, fingerprint, resumed, cancel, ..self.job() };
        let Trained { mut mixture, epochs, iterations, seconds, stopped } = job.run(watch)?;
        if let (WeightStep::Stacked, Some(rows)) = (config.weight_step, &self.validation) {
            let averaging = Averaging::Draws { each: self.score_draws, seed: config.seed };
            mixture = stack::stacked(network, &mixture, rows, averaging)?;
        }
        let losses: Vec<f64> = epochs.iter().map(|epoch| epoch.train_nll).collect();
        let loss = LossTrend::of(&losses);
        let points = config.optimiser == Optimiser::Adam;
        let (mean, se) = match points {
            true => (f64::NAN, f64::NAN),
            false => measure::elbo(network, &self.rows, &mixture, &config.prior_precision, ELBO_DRAWS, config.seed)?,
        };
        Ok(Finished {
            sample: None,
            formation: None,
            search: None,
            trace: epochs.iter().map(|epoch| epoch.row.clone()).collect(),
            iterations,
            evals: iterations * (config.components * config.draws) as u64,
            diagnostic_evals: 0,
            chain_evals: 0,
            seconds,
            stop: StopSummary {
                reason: match stopped {
                    Stopped::Done => "epochs".into(),
                    Stopped::Early => "validation".into(),
                    Stopped::Interrupted => StopReason::Cancelled.name().into(),
                },
                converged: match stopped {
                    Stopped::Done => loss.is_some_and(|loss| loss.converged()),
                    Stopped::Early => true,
                    Stopped::Interrupted => false,
                },
            },
            elbo: ReportedEstimate { mean, se },
            diagnostics: None,
            answer: None,
            chains: None,
            loss,
            points,
            notes: notes(config, iterations),
            time: None,
            config: json!(config),
            mixture,
        })
    }
}

/// Remarks on what the posterior is.
fn notes(config: &TrainConfig, iterations: u64) -> Vec<String> {
    if config.optimiser == Optimiser::Adam {
        return vec!["plain networks: their weights are point estimates, not a posterior".into()];
    }
    let kept = (iterations as f64 * (-config.curvature_rate).ln_1p()).exp();
    vec![
        "individual weights of a network have no meaning on their own; judge it by its predictions on test rows".into(),
        if kept > 0.01 {
            format!(
                "the precision still contains {:.0}% of its initial value: these settings aim at good predictions, not at the \
                 best ELBO (a larger --curvature-rate comes closer to that)",
                100.0 * kept
            )
        } else {
            "the initial precision has been forgotten: these settings aim at the best ELBO".into()
        },
    ]
}
