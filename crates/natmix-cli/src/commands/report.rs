//! `natmix report`: the page again, from what a fit saved.

use crate::args::ReportArgs;
use crate::output;
use anyhow::{Context, Result};
use natmix_app::folder::Folder;
use natmix_app::record::files;
use natmix_app::record::{read_draws, read_frames, read_report, read_trace};
use natmix_report::page;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    let dir = &args.dir;
    let read = |name: &str| {
        let path = dir.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let report = read_report(&read(files::REPORT)?, &dir.join(files::REPORT).display().to_string())?;
    let trace = read_trace(&read(files::TRACE)?);
    let draws = read_draws(&dir.join(files::DRAWS), &report)?;
    let formation = read_frames(dir)?;
    let out = Folder::open(dir, ".page", false)?;
    let written = page::write_page(out.stage(), &report, &trace, &draws, formation.as_ref())
        .with_context(|| format!("cannot write the page in {}", dir.display()))
        .and_then(|()| out.publish());
    if written.is_err() {
        out.discard();
    }
    written?;
    output::print(&format!("{}\n", dir.join("report.html").display()))?;
    Ok(ExitCode::SUCCESS)
}
