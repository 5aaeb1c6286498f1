//! `natmix bench`: the automatic method against reference ELBOs, for every seed.

use crate::args::BenchArgs;
use crate::output;
use crate::settings::with_option_name_of_experiment;
use anyhow::Result;
use natmix_experiments::bench::{self, BenchOptions, RowOutcome};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let options = BenchOptions {
        data: std::env::var_os("NATMIX_DATA").map(Into::into),
        targets: args.targets.clone(),
        max_evals: args.max_evals,
        seeds: args.seeds,
        goal: args.goal,
        threads: args.threads,
    };
    let mut print = |text: &str| if args.json { Ok(()) } else { output::print(text) };
    if !args.vary.is_empty() {
        let effects = bench::vary(&options, &args.vary, &mut print).map_err(with_option_name_of_experiment)?;
        output::print(&if args.json { serde_json::to_string_pretty(&effects)? + "\n" } else { effects.to_string() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes = bench::run(&options, &mut print).map_err(with_option_name_of_experiment)?;
    if args.json {
        output::print(&(serde_json::to_string_pretty(&outcomes)? + "\n"))?;
    }
    Ok(if outcomes.iter().any(RowOutcome::failed) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
