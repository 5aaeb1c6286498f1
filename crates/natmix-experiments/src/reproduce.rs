//! `natmix reproduce`: the paper's experiments, each with a page, its pictures and the figures behind them.

mod curves;
mod full;
mod mnist;
mod page;
mod uci;

use crate::args::DemoArgs;
use crate::args::reproduce::{Experiment, Protocol, ReproduceArgs};
use crate::report::number;
use anyhow::{Context, Result};
use natmix_models::mlp::train::with_threads;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let paper = args.protocol == Protocol::Paper;
    let out = args.out.clone().unwrap_or_else(|| {
        PathBuf::from(match args.experiment {
            Experiment::DecisionBoundaries => "natmix-decision-boundaries",
            Experiment::Mnist => "natmix-mnist",
            Experiment::Uci => "natmix-uci",
        })
    });
    let run = || match args.experiment {
        Experiment::DecisionBoundaries => {
            let demo = DemoArgs { out, seed: args.seed, quiet: args.quiet };
            super::demo::run(&demo, paper)
        }
        Experiment::Mnist => mnist::run(args, &out, paper),
        Experiment::Uci => uci::run(args, &out, paper),
    };
    with_threads(args.threads.unwrap_or(0), run)?
}

/// A folder of the data, found through the environment.
fn data(name: &str) -> Result<PathBuf> {
    let root = std::env::var_os("NATMIX_DATA").context(
        "the data are not part of natmix: put them into a folder and name it in the environment variable NATMIX_DATA",
    )?;
    let path = PathBuf::from(root).join(name);
    anyhow::ensure!(
        path.is_dir(),
        "{} is not there: NATMIX_DATA must name the folder that holds {name}",
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

/// The mean of some figures, with its standard error where there are several.
fn mean_with_error(values: &[f64], decimals: usize) -> String {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return number::fixed(mean, decimals);
    }
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    format!("{} ± {}", number::fixed(mean, decimals), number::fixed((variance / n).sqrt(), decimals))
}
