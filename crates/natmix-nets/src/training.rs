//! Training with somebody who watches, a checkpoint an epoch, validation and a clean stop.

use crate::predict::{Averaging, predict};
use crate::train::{Epoch, Optimiser, TrainConfig, TrainState, Trainer};
use crate::{Examples, Network};
use natmix::Error;
use natmix::observe::{Cancel, TraceRow};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// Draws a component for validation figures.
const VALIDATION_DRAWS: usize = 10;

/// One line of the trace: an epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochRow {
    /// What every trace has.
    #[serde(flatten)]
    pub row: TraceRow,
    /// Epochs done.
    pub epoch: usize,
    /// Mean negative log likelihood of rows while they were trained on.
    pub train_nll: f64,
    /// The same of rows that were held back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation_nll: Option<f64>,
    /// KL divergence from the prior.
    pub kl: f64,
    /// Weights of the components.
    pub weights: Vec<f64>,
}

/// What training left.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The mixture over the weights.
    pub mixture: natmix::family::Mixture,
    /// A row an epoch.
    pub epochs: Vec<EpochRow>,
    /// Steps done.
    pub iterations: u64,
    /// Seconds.
    pub seconds: f64,
    /// Why it ended.
    pub stopped: Stopped,
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All epochs are done.
    Done,
    /// The validation figure no longer improved; the best state is kept.
    Early,
    /// Someone interrupted it.
    Interrupted,
}

/// Who is told how training goes on.
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
    /// Rows that are held back.
    pub validation: Option<&'a Examples>,
    /// Settings.
    pub config: TrainConfig,
    /// Epochs without improvement on the rows held back that are waited for.
    pub patience: usize,
    /// Where to save the state.
    pub checkpoint: Option<PathBuf>,
    /// A state and its epochs to go on from.
    pub resumed: Option<(TrainState, Vec<EpochRow>)>,
    /// Ends training after the present step.
    pub cancel: Cancel,
}

impl Job<'_> {
    /// Trains.
    pub fn run(self, watch: &mut dyn EpochWatch) -> Result<Trained, Error> {
        let Self { network, data, validation, config, patience, checkpoint, resumed, cancel } = self;
        let clock = Instant::now();
        let (mut trainer, mut epochs) = match resumed {
            Some((state, epochs)) => (Trainer::resume(network, data, config.clone(), state)?, epochs),
            None => (Trainer::new(network, data, config.clone())?, Vec::new()),
        };
        let before = epochs.last().map_or(0.0, |row: &EpochRow| row.row.seconds);
        let best_path = checkpoint.as_ref().map(|path| path.with_extension("best"));
        let mut best: Option<(f64, usize, TrainState)> = None;
        if let (Some(path), true) = (&best_path, validation.is_some())
            && let Some((nll, at)) = least(&epochs)
            && path.exists()
        {
            best = Some((nll, at, TrainState::load(path, network, &config)?));
        }
        let mut stopped = Stopped::Done;
        'epochs: while trainer.epochs_done() < config.epochs {
            loop {
                if cancel.is_cancelled() {
                    stopped = Stopped::Interrupted;
                    break 'epochs;
                }
                let left = trainer.step()?;
                watch.step(trainer.state().iteration());
                if left == 0 {
                    break;
                }
            }
            let epoch = trainer.finish_epoch();
            let validation_nll = match validation {
                Some(rows) => Some(validate(&trainer, network, rows, &config)?),
                None => None,
            };
            let seconds = before + clock.elapsed().as_secs_f64();
            let row = line(&epoch, &config, seconds, validation_nll);
            watch.epoch(&row)?;
            epochs.push(row);
            if let Some(path) = &checkpoint {
                trainer.state().save(path, network, &config)?;
            }
            if let Some(nll) = validation_nll {
                if best.as_ref().is_none_or(|best| nll < best.0) {
                    best = Some((nll, epoch.epoch, trainer.state().clone()));
                    if let Some(path) = &best_path {
                        trainer.state().save(path, network, &config)?;
                    }
                } else if best.as_ref().is_some_and(|best| epoch.epoch - best.1 >= patience) {
                    stopped = Stopped::Early;
                    break;
                }
            }
        }
        let iterations = trainer.state().iteration();
        if stopped == Stopped::Interrupted {
            if let Some(path) = &checkpoint {
                trainer.state().save(path, network, &config)?;
            }
        } else {
            if let Some((_, _, state)) = best {
                // The old one's memory first.
                drop(trainer);
                trainer = Trainer::resume(network, data, config, state)?;
            }
            for path in [checkpoint, best_path].into_iter().flatten() {
                let _ = std::fs::remove_file(path);
            }
        }
        let seconds = before + clock.elapsed().as_secs_f64();
        Ok(Trained { mixture: trainer.into_mixture()?, epochs, iterations, seconds, stopped })
    }
}

/// The least validation figure, and its epoch.
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
