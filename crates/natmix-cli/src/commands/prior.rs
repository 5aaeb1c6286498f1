//! `natmix prior`: the priors of a regression, and what they expect of parameters and outcomes.

use super::sample::{check_count, write_csv};
use crate::args::PriorArgs;
use crate::output;
use crate::settings::with_option_name;
use anyhow::{Result, bail};
use natmix_app::prior_predictive::{PriorRange, prior_predictive};
use natmix_app::settings::Settings;
use natmix_app::{Problem, folder};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &PriorArgs) -> Result<ExitCode> {
    let mut fit = args.fit.clone();
    // Regressions without varying effects have the same priors.
    fit.prior.get_or_insert_default();
    let settings = Settings { fit, ..Settings::default() };
    settings.check().map_err(with_option_name)?;
    let problem = Problem::load(&settings).map_err(with_option_name)?;
    let Problem::Effects(effects) = &problem else {
        bail!("natmix prior is for regressions, but not for softmax: its priors are in report.json of a fit");
    };
    problem.notes().iter().chain(problem.warnings()).for_each(|note| output::note(&format!("note: {note}")));
    let rows = effects.study.rows.rows;
    check_count("--draws", args.draws, rows)?;
    let found = prior_predictive(&effects.study, args.draws, args.seed);
    if let Some(path) = args.fit.out.as_deref() {
        let names: Vec<String> = (1..=rows).map(|row| format!("row {row}")).collect();
        folder::write_whole(path, |file| write_csv(file, &names, &found.drawn))?;
    }
    if args.json {
        output::print(&(serde_json::to_string_pretty(&found)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::from("Priors, in the units of the data:\n");
    found.priors.iter().for_each(|prior| text += &format!("  {prior}\n"));
    text += "(that of an intercept is for the predictor where every column has its mean)\n";
    let names = found.parameters.iter().chain(&found.outcomes).map(|range| range.name.chars().count());
    let width = names.max().unwrap_or(0).clamp(9, 40);
    let mut table = |title: &str, ranges: &[PriorRange]| {
        text += &format!("\n{title:<width$} {:>11} {:>11} {:>11}", "5%", "50%", "95%");
        text += if ranges.iter().any(|range| range.observed.is_some()) { "    observed\n" } else { "\n" };
        for PriorRange { name, q05, q50, q95, observed } in ranges {
            text += &format!("{name:<width$} {q05:>11.4} {q50:>11.4} {q95:>11.4}");
            text += &observed.map_or_else(String::new, |observed| format!(" {observed:>11.4}"));
            text += "\n";
        }
    };
    table("parameter", &found.parameters);
    table("outcomes", &found.outcomes);
    text += &format!("\n{} draws from the prior, with outcomes for {rows} rows each\n", found.draws);
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
