//! `natmix compare`: models of the same outcomes beside each other.

use crate::args::CompareArgs;
use crate::output;
use anyhow::Result;
use natmix_app::{compare, folder};
use natmix_report::comparison::{page_html, text};
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &CompareArgs) -> Result<ExitCode> {
    let comparison = compare::compare(&compare::load_all(&args.dirs)?)?;
    if let Some(path) = &args.out {
        folder::write_whole(path, |file| file.write_all(page_html(&comparison).as_bytes()))?;
    }
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&comparison)? + "\n",
        false => text(&comparison),
    })?;
    let doubtful = comparison.models.iter().any(|model| model.trusted == Some(false));
    Ok(if doubtful { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
