//! `natmix reproduce`: the experiments of the paper.

use crate::args::reproduce::{ExperimentName, Protocol, ReproduceArgs, WeightCovariance};
use crate::output;
use crate::settings::with_option_name_of_experiment;
use anyhow::Result;
use natmix_experiments::reproduce::{self, Experiment, ReproduceOptions};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let (experiment, folder) = match args.experiment {
        ExperimentName::DecisionBoundaries => (Experiment::DecisionBoundaries, "natmix-decision-boundaries"),
        ExperimentName::Mnist => (Experiment::Mnist, "natmix-mnist"),
        ExperimentName::Uci => (Experiment::Uci, "natmix-uci"),
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
        full: args.covariance == WeightCovariance::Full,
        threads: args.threads.unwrap_or(0),
        quiet: args.quiet,
    };
    output::print(&reproduce::run(experiment, &options).map_err(with_option_name_of_experiment)?)?;
    Ok(ExitCode::SUCCESS)
}
