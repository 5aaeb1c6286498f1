//! `natmix report`: the page again, from what a fit saved.

use crate::args::ReportArgs;
use crate::output;
use anyhow::Result;
use natmix_app::record::renew_page;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    renew_page(&args.dir)?;
    output::print(&format!("{}\n", args.dir.join("report.html").display()))?;
    Ok(ExitCode::SUCCESS)
}
