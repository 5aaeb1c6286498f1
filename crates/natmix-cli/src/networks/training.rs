//! Training with a progress bar, a checkpoint an epoch, validation and a clean stop.

use crate::settings::mlp::MlpSettings;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use natmix::observe::{Cancel, TraceRow};
use natmix_models::mlp::predict::{Averaging, predict};
use natmix_models::mlp::train::{Epoch, Optimiser, TrainConfig, TrainState, Trainer};
use natmix_models::mlp::{Examples, Network};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Draws a component for validation figures.
const VALIDATION_DRAWS: usize = 10;

/// One line of the trace: an epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochRow {
    #[serde(flatten)]
    pub row: TraceRow,
    pub epoch: usize,
    /// Mean negative log likelihood of rows while they were trained on.
    pub train_nll: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation_nll: Option<f64>,
    pub kl: f64,
    pub weights: Vec<f64>,
}

/// What training left.
pub struct Trained {
    pub mixture: natmix::family::Mixture,
    pub epochs: Vec<EpochRow>,
    pub iterations: u64,
    pub seconds: f64,
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

/// A run of training.
pub struct Job<'a> {
    pub network: &'a Network,
    pub data: &'a Examples,
    pub validation: Option<&'a Examples>,
    pub config: TrainConfig,
    pub settings: &'a MlpSettings,
    /// Where to save the state, and a state and epochs to go on from.
    pub checkpoint: Option<PathBuf>,
    pub resumed: Option<(TrainState, Vec<EpochRow>)>,
    pub cancel: Cancel,
    pub quiet: bool,
}

impl Job<'_> {
    /// Trains; every epoch goes to `trace` as a line.
    pub fn run(self, mut trace: impl Write) -> Result<Trained> {
        let Self { network, data, validation, config, settings, checkpoint, resumed, cancel, quiet } = self;
        let clock = Instant::now();
        let (mut trainer, mut epochs) = match resumed {
            Some((state, epochs)) => (Trainer::resume(network, data, config.clone(), state)?, epochs),
            None => (Trainer::new(network, data, config.clone())?, Vec::new()),
        };
        let before = epochs.last().map_or(0.0, |row: &EpochRow| row.row.seconds);
        let bar = progress(quiet, config.epochs as u64 * trainer.steps_per_epoch());
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
                bar.set_position(trainer.state().iteration());
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
            bar.set_message(message(&epoch, &config, validation_nll));
            writeln!(trace, "{}", serde_json::to_string(&row)?).context("cannot write the trace")?;
            trace.flush().context("cannot write the trace")?;
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
                } else if best.as_ref().is_some_and(|best| epoch.epoch - best.1 >= settings.patience()) {
                    stopped = Stopped::Early;
                    break;
                }
            }
        }
        bar.finish_and_clear();
        let iterations = trainer.state().iteration();
        if stopped == Stopped::Interrupted {
            if let Some(path) = &checkpoint {
                trainer.state().save(path, network, &config)?;
            }
        } else {
            if let Some((_, _, state)) = best {
                trainer = Trainer::resume(network, data, config, state)?;
            }
            for path in [checkpoint, best_path].into_iter().flatten() {
                let _ = std::fs::remove_file(path);
            }
        }
        let seconds = before + clock.elapsed().as_secs_f64();
        Ok(Trained { mixture: trainer.mixture()?, epochs, iterations, seconds, stopped })
    }
}

/// The least validation figure, and its epoch.
fn least(epochs: &[EpochRow]) -> Option<(f64, usize)> {
    let figures = epochs.iter().filter_map(|row| row.validation_nll.map(|nll| (nll, row.epoch)));
    figures.min_by(|a, b| a.0.total_cmp(&b.0))
}

fn validate(trainer: &Trainer<'_>, network: &Network, rows: &Examples, config: &TrainConfig) -> Result<f64> {
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

fn message(epoch: &Epoch, config: &TrainConfig, validation_nll: Option<f64>) -> String {
    let validation = validation_nll.map_or(String::new(), |nll| format!("  validation {nll:.4}"));
    let elbo = match config.optimiser {
        Optimiser::Adam => String::new(),
        _ => format!("  ELBO {:.0}", epoch.elbo),
    };
    format!("epoch {}/{}{elbo}  train {:.4}{validation}", epoch.epoch, config.epochs, -epoch.log_likelihood)
}

fn progress(quiet: bool, steps: u64) -> ProgressBar {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(steps) };
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}  {elapsed} (left {eta})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
