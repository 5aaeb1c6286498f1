//! `natmix report`: writes the HTML report again, from the files of a fit.

use crate::args::ReportArgs;
use crate::output;
use anyhow::Result;
use natmix_app::record::rewrite_page;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    rewrite_page(&args.dir)?;
    output::print(&format!("{}\n", args.dir.join("report.html").display()))?;
    Ok(ExitCode::SUCCESS)
}
