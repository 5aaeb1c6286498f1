//! `natmix reproduce`: the paper's experiments, each with a page, its pictures and the underlying numbers.

pub(crate) mod curves;
mod full;
mod mnist;
mod page;
mod uci;

use anyhow::{Context, Result};
use natmix_nets::train::with_threads;
use natmix_report::number;
use std::path::PathBuf;

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// A small network on built-in data.
    DecisionBoundaries,
    /// MNIST against Fashion-MNIST.
    Mnist,
    /// Eight UCI sets.
    Uci,
}

/// Options of an experiment.
#[derive(Clone, Debug)]
pub struct ReproduceOptions {
    /// Folder for the page, the pictures and the underlying JSON file.
    pub out: PathBuf,
    /// The settings of the draft instead of our defaults.
    pub paper: bool,
    /// First seed.
    pub seed: u64,
    /// Number of seeds (MNIST).
    pub seeds: u64,
    /// Sizes of the hidden layers (MNIST).
    pub hidden: Vec<usize>,
    /// Passes over the data (MNIST).
    pub epochs: Option<usize>,
    /// Sets; all if empty (UCI).
    pub sets: Vec<String>,
    /// Splits of each set (UCI).
    pub splits: usize,
    /// Components (UCI).
    pub components: usize,
    /// Whether to continue from diagonal to full covariances (UCI).
    pub full: bool,
    /// Threads; 0 is one per core.
    pub threads: usize,
    /// No progress.
    pub quiet: bool,
}

/// Runs an experiment, writes its page, and returns the table for the terminal.
pub fn run(experiment: Experiment, options: &ReproduceOptions) -> Result<String> {
    let run = || match experiment {
        Experiment::DecisionBoundaries => crate::demo::run(&options.out, options.seed, options.quiet, options.paper),
        Experiment::Mnist => mnist::run(options),
        Experiment::Uci => uci::run(options),
    };
    with_threads(options.threads, run)?
}

/// A folder below the one given by the environment variable NATMIX_DATA.
fn data(name: &str) -> Result<PathBuf> {
    let root = std::env::var_os("NATMIX_DATA").context(
        "the data are not part of natmix: put them into a folder and set the environment variable NATMIX_DATA to its path",
    )?;
    let path = PathBuf::from(root).join(name);
    anyhow::ensure!(
        path.is_dir(),
        "{} does not exist: NATMIX_DATA must be the path of the folder that contains {name}",
        path.display()
    );
    Ok(path)
}

fn bar(quiet: bool, steps: u64) -> indicatif::ProgressBar {
    let bar = if quiet { indicatif::ProgressBar::hidden() } else { indicatif::ProgressBar::new(steps) };
    if let Ok(style) = indicatif::ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

/// The mean of some values, with its standard error if there are several.
fn mean_with_error(values: &[f64], decimals: usize) -> String {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return number::fixed(mean, decimals);
    }
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    format!("{} ± {}", number::fixed(mean, decimals), number::fixed((variance / n).sqrt(), decimals))
}
