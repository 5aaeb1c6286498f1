//! `natmix report`: the page again, from what a fit saved.

use super::fit::{files, read_trace};
use crate::args::ReportArgs;
use crate::folder::{self, Folder};
use crate::report::{Draws, Report, page};
use crate::zarr;
use anyhow::{Context, Result};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    let dir = &args.dir;
    let path = dir.join(files::REPORT);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let report: Report =
        serde_json::from_str(&text).with_context(|| format!("{} is not a report of natmix", path.display()))?;
    let trace = read_trace(&dir.join(files::TRACE))?;
    let store = dir.join(files::DRAWS);
    let names: Vec<String> = report.parameters.iter().map(|parameter| parameter.name.clone()).collect();
    let columns: Vec<Vec<f64>> =
        names.iter().map(|name| Ok(zarr::read_array(&store, "posterior", name)?.1)).collect::<Result<_>>()?;
    let n = columns.iter().map(Vec::len).min().unwrap_or(0);
    let values = (0..n).flat_map(|i| columns.iter().map(move |column| column[i])).collect();
    let component = zarr::read_whole(&store, "sample_stats", "component")?.into_iter().map(|k| k as usize).collect();
    let out = Folder::open(dir, ".page", false)?;
    let written = page::write_page(out.stage(), &report, &trace, &Draws { names, values, component })
        .with_context(|| format!("cannot write the page in {}", dir.display()))
        .and_then(|()| out.publish());
    if written.is_err() {
        out.discard();
    }
    written?;
    folder::print(&format!("{}\n", dir.join("report.html").display()))?;
    Ok(ExitCode::SUCCESS)
}
