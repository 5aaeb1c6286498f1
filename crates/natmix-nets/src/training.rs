//! A training run with an observer, checkpoints at least once per epoch, validation, early stopping and cancellation.

use crate::predict::{Averaging, predict};
use crate::train::{Decision, Epoch, Optimiser, Team, TrainConfig, TrainState, Trainer};
use crate::{Examples, Network};
use natmix::Error;
use natmix::observe::{Cancel, TraceRow};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Draws per component for the validation loss.
const VALIDATION_DRAWS: usize = 10;
/// Time after which a checkpoint is written within an epoch. It decides when to save, and nothing else.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// One line of the trace, for one epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochRow {
    /// The columns that every trace has.
    #[serde(flatten)]
    pub row: TraceRow,
    /// Completed epochs.
    pub epoch: usize,
    /// Mean negative log likelihood of rows while they were trained on.
    pub train_nll: f64,
    /// Mean negative log likelihood of validation rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation_nll: Option<f64>,
    /// KL divergence from the prior.
    pub kl: f64,
    /// Weights of the components.
    pub weights: Vec<f64>,
}

/// The result of training.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The mixture over the weights.
    pub mixture: natmix::family::Mixture,
    /// One row per epoch.
    pub epochs: Vec<EpochRow>,
    /// Completed steps.
    pub iterations: u64,
    /// Seconds.
    pub seconds: f64,
    /// Why training ended.
    pub stopped: Stopped,
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All epochs are done.
    Done,
    /// The validation loss no longer improved; the best state is kept.
    Early,
    /// It was interrupted.
    Interrupted,
}

/// Observer of a training run.
pub trait EpochWatch {
    /// After each step.
    fn step(&mut self, iteration: u64);
    /// After each epoch.
    fn epoch(&mut self, row: &EpochRow) -> Result<(), Error>;
}

/// A run of training.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The network.
    pub network: &'a Network,
    /// Rows to train on.
    pub data: &'a Examples,
    /// Validation rows.
    pub validation: Option<&'a Examples>,
    /// Settings.
    pub config: TrainConfig,
    /// Epochs without improvement of the validation loss before training stops.
    pub patience: usize,
    /// Where to save the state; its owner removes the file, and that of [`best_path`], when the results are safe.
    pub checkpoint: Option<PathBuf>,
    /// A fingerprint of the data, to be saved with the state.
    pub fingerprint: Option<String>,
    /// A saved state and its epochs, to resume from.
    pub resumed: Option<(TrainState, Vec<EpochRow>)>,
    /// Ends training after the current step when set.
    pub cancel: Cancel,
    /// The processes that share the training, each of which runs the same job. Rank 0 decides when to stop and to save, and has the result.
    pub team: Option<Team>,
}

impl Job<'_> {
    /// Trains.
    pub fn run(self, watch: &mut dyn EpochWatch) -> Result<Trained, Error> {
        let Self { network, data, validation, config, patience, checkpoint, fingerprint, resumed, cancel, team } = self;
        let clock = Instant::now();
        let (mut trainer, mut epochs) = match resumed {
            Some((state, epochs)) => (Trainer::resume(network, data, config.clone(), state)?, epochs),
            None => (Trainer::new(network, data, config.clone())?, Vec::new()),
        };
        trainer.set_data(fingerprint);
        let leads = team.as_ref().is_none_or(Team::leads);
        if let Some(team) = team {
            trainer = trainer.share(team)?;
        }
        let before = epochs.last().map_or(0.0, |row: &EpochRow| row.row.seconds);
        let best_path = checkpoint.as_deref().map(best_path);
        let mut best: Option<(f64, usize, TrainState)> = None;
        if let (Some(path), true) = (&best_path, validation.is_some())
            && let Some((nll, at)) = least(&epochs)
            && path.exists()
        {
            best = Some((nll, at, TrainState::load(path, network, &config)?));
        }
        let mut stopped = Stopped::Done;
        let mut saved = Instant::now();
        'epochs: while trainer.epochs_done() < config.epochs {
            // Asked before an epoch, so that a run resumed from its last checkpoint ends there too.
            let mut enough = gave_up(best.as_ref(), trainer.epochs_done(), patience);
            loop {
                let wish = Decision {
                    stop: enough || cancel.is_cancelled(),
                    save: checkpoint.is_some() && saved.elapsed() >= CHECKPOINT_INTERVAL,
                };
                let decision = trainer.meet(wish)?;
                if decision.stop {
                    if !enough {
                        stopped = Stopped::Interrupted;
                    }
                    break 'epochs;
                }
                enough = false;
                if let Some(path) = checkpoint.as_ref().filter(|_| decision.save) {
                    trainer.state().save(path, network, &config)?;
                    saved = Instant::now();
                }
                let left = trainer.step()?;
                watch.step(trainer.state().iteration());
                if left == 0 {
                    break;
                }
            }
            let epoch = trainer.finish_epoch()?;
            let validation_nll = match validation.filter(|_| leads) {
                Some(rows) => Some(validate(&trainer, network, rows, &config)?),
                None => None,
            };
            let seconds = before + clock.elapsed().as_secs_f64();
            let row = line(&epoch, &config, seconds, validation_nll);
            watch.epoch(&row)?;
            epochs.push(row);
            if let Some(nll) = validation_nll
                && best.as_ref().is_none_or(|best| nll < best.0)
            {
                best = Some((nll, epoch.epoch, trainer.state().clone()));
                // Before the checkpoint: a run killed in between repeats this epoch, and finds it the best again.
                if let Some(path) = &best_path {
                    trainer.state().save(path, network, &config)?;
                }
            }
            if let Some(path) = &checkpoint {
                trainer.state().save(path, network, &config)?;
                saved = Instant::now();
            }
        }
        if stopped == Stopped::Done && gave_up(best.as_ref(), trainer.epochs_done(), patience) {
            stopped = Stopped::Early;
        }
        let iterations = trainer.state().iteration();
        if stopped == Stopped::Interrupted {
            if let Some(path) = &checkpoint {
                trainer.state().save(path, network, &config)?;
            }
        } else if let Some((_, _, state)) = best {
            // Free the memory of the old state first.
            drop(trainer);
            trainer = Trainer::resume(network, data, config, state)?;
        }
        let seconds = before + clock.elapsed().as_secs_f64();
        Ok(Trained { mixture: trainer.into_mixture()?, epochs, iterations, seconds, stopped })
    }
}

/// Where the best state is saved, beside the checkpoint at `path`.
pub fn best_path(path: &Path) -> PathBuf {
    path.with_extension("best")
}

/// Whether the validation loss has not improved for `patience` epochs.
fn gave_up(best: Option<&(f64, usize, TrainState)>, epochs: usize, patience: usize) -> bool {
    best.is_some_and(|best| epochs - best.1 >= patience.max(1))
}

/// The smallest validation loss, and its epoch.
fn least(epochs: &[EpochRow]) -> Option<(f64, usize)> {
    let figures = epochs.iter().filter_map(|row| row.validation_nll.map(|nll| (nll, row.epoch)));
    figures.min_by(|a, b| a.0.total_cmp(&b.0))
}

fn validate(trainer: &Trainer<'_>, network: &Network, rows: &Examples, config: &TrainConfig) -> Result<f64, Error> {
    let averaging = match config.optimiser {
        Optimiser::Adam => Averaging::Means,
        _ => Averaging::Draws { each: VALIDATION_DRAWS, seed: config.seed },
    };
    let found = predict(network, &trainer.mixture()?, rows.x(), averaging)?;
    Ok(-found.log_density(rows.outcome()).iter().sum::<f64>() / rows.rows() as f64)
}

fn line(epoch: &Epoch, config: &TrainConfig, seconds: f64, validation_nll: Option<f64>) -> EpochRow {
    EpochRow {
        row: TraceRow {
            iteration: epoch.iteration,
            evals: epoch.iteration * (config.components * config.draws) as u64,
            seconds,
            elbo: epoch.elbo,
            se: 0.0,
            components: config.components,
            steps: vec![config.rate; config.components],
        },
        epoch: epoch.epoch,
        train_nll: -epoch.log_likelihood,
        validation_nll,
        kl: epoch.kl,
        weights: epoch.weights.clone(),
    }
}
