//! `natmix reproduce`: the experiments of the paper.

use crate::args::reproduce::{Covariance, Protocol, ReproduceArgs, Which};
use crate::output;
use crate::settings::named;
use anyhow::Result;
use natmix_experiments::reproduce::{self, Experiment, ReproduceOptions};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let (experiment, folder) = match args.experiment {
        Which::DecisionBoundaries => (Experiment::DecisionBoundaries, "natmix-decision-boundaries"),
        Which::Mnist => (Experiment::Mnist, "natmix-mnist"),
        Which::Uci => (Experiment::Uci, "natmix-uci"),
    };
    let options = ReproduceOptions {
        out: args.out.clone().unwrap_or_else(|| folder.into()),
        paper: args.protocol == Protocol::Paper,
        seed: args.seed,
        seeds: args.seeds,
        hidden: args.hidden.clone(),
        epochs: args.epochs,
        sets: args.sets.clone(),
        splits: args.splits,
        components: args.components,
        full: args.covariance == Covariance::Full,
        threads: args.threads.unwrap_or(0),
        quiet: args.quiet,
    };
    output::print(&reproduce::run(experiment, &options).map_err(named)?)?;
    Ok(ExitCode::SUCCESS)
}
