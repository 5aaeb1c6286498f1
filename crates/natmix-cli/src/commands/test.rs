//! `natmix test`: posterior probabilities of statements about parameters.

use crate::args::TestArgs;
use crate::output;
use anyhow::Result;
use natmix_app::FitRecord;
use natmix_app::hypothesis::test;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &TestArgs) -> Result<ExitCode> {
    // Statements may begin with a minus sign, so that a flag after them arrives as one of them.
    let (flags, statements): (Vec<String>, Vec<String>) =
        args.statements.iter().cloned().partition(|statement| statement == "--json");
    let record = FitRecord::load(&args.dir)?;
    let found = test(&record, &statements)?;
    let doubtful = record.report.verdict.trusted == Some(false);
    if doubtful {
        output::note("note: the fit cannot be trusted, and so neither can this: its report says why");
    }
    output::print(&match args.json || !flags.is_empty() {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => found.iter().map(|tested| format!("{tested}\n")).collect(),
    })?;
    Ok(if doubtful { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
