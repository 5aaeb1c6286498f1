//! `natmix experiments`: measurements of natmix itself.

use crate::args::experiments::{
    BatteryArgs, ExperimentCommand, HalfName, HierarchicalArgs, PosteriordbArgs, ScaleArgs, SplitName,
};
use crate::output;
use crate::settings::with_option_name_of_experiment;
use anyhow::{Context, Result};
use natmix_experiments::battery::{self, BatteryOptions, TargetHalf};
use natmix_experiments::posteriordb::{self, PosteriorOptions};
use natmix_experiments::scale::{self, ScaleOptions, Split};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs the command.
pub fn run(experiment: &ExperimentCommand) -> Result<ExitCode> {
    match experiment {
        ExperimentCommand::Battery(args) => run_battery(args),
        ExperimentCommand::Hierarchical(args) => run_hierarchical(args),
        ExperimentCommand::Posteriordb(args) => run_posteriordb(args),
        ExperimentCommand::Scale(args) => run_scale(args),
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

fn run_posteriordb(args: &PosteriordbArgs) -> Result<ExitCode> {
    let page = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    if let Some(path) = &args.markdown {
        // Before hours of fits.
        posteriordb::marked(&page(path)?).with_context(|| format!("--markdown {}", path.display()))?;
    }
    let options = PosteriorOptions {
        posteriors: args.posteriors.clone(),
        seeds: args.seeds.0.clone(),
        threads: args.threads,
        data: std::env::var_os("NATMIX_DATA").filter(|folder| !folder.is_empty()).map(PathBuf::from),
        reference: args.reference.clone(),
        draws: args.draws.clone(),
    };
    let tell = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
    let report = posteriordb::run(&options, &tell).map_err(with_option_name_of_experiment)?;
    output::print(&if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.to_string() })?;
    if let Some(path) = &args.markdown {
        let text = report.insert(&page(path)?)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_scale(args: &ScaleArgs) -> Result<ExitCode> {
    let report = scale::run(&ScaleOptions {
        split: match args.split {
            SplitName::Points => Split::Points,
            SplitName::Rows => Split::Rows,
        },
        seconds_per_point: args.seconds_per_point,
        variation: args.variation,
        points: args.points,
        batches: args.batches,
        chunk: args.chunk,
        latency: args.latency,
        dispatch: args.dispatch,
        bytes_per_point: args.bytes_per_point,
        bandwidth: args.bandwidth,
        engine_seconds: args.engine_seconds,
        workers: args.workers.clone(),
    })?;
    output::print(&if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.to_string() })?;
    Ok(ExitCode::SUCCESS)
}

/// The models are NumPyro's: a script of the repository builds the Python package and runs them.
fn run_hierarchical(args: &HierarchicalArgs) -> Result<ExitCode> {
    let here = std::env::current_dir()?;
    let script =
        here.ancestors().map(|folder| folder.join(SCRIPT)).find(|script| script.is_file()).with_context(|| {
            format!(
                "{SCRIPT} is neither in this folder nor above it: run the command in a checkout of natmix's repository"
            )
        })?;
    let status = Command::new("python3").arg(script).args(&args.arguments).status().context("python3 did not start")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

const SCRIPT: &str = "scripts/compare-nuts";
