//! `natmix demo`: decision boundaries of a small network.

use crate::args::DemoArgs;
use crate::output;
use anyhow::Result;
use natmix_experiments::demo;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    output::print(&demo::run(&args.out, args.seed, args.quiet, false)?)?;
    Ok(ExitCode::SUCCESS)
}
