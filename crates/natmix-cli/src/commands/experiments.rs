//! `natmix experiments`: measurements of natmix itself.

use crate::args::experiments::{BatteryArgs, ExperimentCommand, HalfName};
use crate::output;
use crate::settings::with_option_name_of_experiment;
use anyhow::Result;
use natmix_experiments::battery::{self, BatteryOptions, TargetHalf};
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
pub fn run(experiment: &ExperimentCommand) -> Result<ExitCode> {
    match experiment {
        ExperimentCommand::Battery(args) => run_battery(args),
    }
}

fn run_battery(args: &BatteryArgs) -> Result<ExitCode> {
    let options = BatteryOptions {
        families: args.families.clone(),
        targets: args.targets.clone(),
        half: match args.half {
            HalfName::Choose => Some(TargetHalf::Choose),
            HalfName::Report => Some(TargetHalf::Report),
            HalfName::All => None,
        },
        seeds: args.seeds.0.clone(),
        threads: args.threads,
        max_evals: args.max_evals,
        goal: args.goal,
    };
    if args.basins {
        output::print(&battery::basins(&options).map_err(with_option_name_of_experiment)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    // A closed standard error must not end hours of fits.
    let tell = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
    let report = battery::run(&options, &tell).map_err(with_option_name_of_experiment)?;
    output::print(&if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.to_string() })?;
    Ok(ExitCode::SUCCESS)
}
