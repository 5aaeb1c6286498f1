//! The scoreboard: posteriors of posteriordb as Stan programs, fitted at default settings and compared with references.
//!
//! The programs are written from the statements of the models in the folder of the data, and compiled like any program of a
//! user. What is right is what the [`battery`](crate::battery) calls right.

mod catalogue;
mod clock;
mod files;
mod outcome;
mod reference;
mod relabel;
mod tally;

pub use crate::battery::FigureError;
pub use outcome::{Comparison, PosteriorFit, PosteriorSummary};
pub use tally::{HEAD, PosteriorReport, PosteriorTally, marked};

use crate::battery::{TellLine, in_parallel};
use anyhow::{Context, Result, bail};
use catalogue::{Posterior, posteriors};
use outcome::PreparedPosterior;
use std::path::PathBuf;

/// The name for all posteriors without a reference in the database.
const HARDER: &str = "harder";

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct PosteriorOptions {
    /// Names of posteriors, or `harder`; all with a reference in the database if empty.
    pub posteriors: Vec<String>,
    /// Seeds of the fits.
    pub seeds: Vec<u64>,
    /// Fits at a time, each on one thread.
    pub threads: usize,
    /// The folder of the data.
    pub data: Option<PathBuf>,
    /// The folder of references for posteriors without one in the database.
    pub reference: Option<PathBuf>,
    /// Judge the draws in this folder instead of fitting.
    pub draws: Option<PathBuf>,
}

/// Fits and judges; `tell` receives a line of text after each fit.
pub fn run(options: &PosteriorOptions, tell: TellLine<'_>) -> Result<PosteriorReport> {
    let chosen = chosen(&options.posteriors)?;
    let data = options.data.as_deref().context(
        "the posteriors' data and references are not in the program: NATMIX_DATA must name the folder that holds posteriordb",
    )?;
    if !data.join("posteriordb").is_dir() {
        bail!("NATMIX_DATA is {}, where there is no folder posteriordb", data.display());
    }
    let mut prepared = Vec::with_capacity(chosen.len());
    for posterior in chosen {
        let name = posterior.name;
        let one = PreparedPosterior::new(posterior, data, options.reference.as_deref(), &mut |line| tell(line));
        prepared.push(one.with_context(|| name.to_owned())?);
    }
    let summaries = prepared.iter().map(|one| one.summary(data)).collect::<Result<Vec<_>>>()?;
    if let Some(folder) = &options.draws {
        return Ok(PosteriorReport::new(summaries, prepared.iter().map(|one| one.judge_draws(folder)).collect()));
    }
    let (each, alone) = (options.seeds.len(), options.threads == 1);
    let fits = in_parallel(prepared.len() * each, options.threads, |i| {
        let fit = prepared[i / each].fit(options.seeds[i % each], alone);
        tell(&fit.to_string());
        fit
    });
    Ok(PosteriorReport::new(summaries, fits))
}

/// The chosen posteriors, in the order of the catalogue.
fn chosen(names: &[String]) -> Result<Vec<Posterior>> {
    let all = posteriors();
    if let Some(unknown) = names.iter().find(|name| *name != HARDER && all.iter().all(|one| one.name != **name)) {
        let known: Vec<&str> = all.iter().map(|one| one.name).collect();
        bail!("--posteriors {unknown} is neither `{HARDER}` nor one of {}", known.join(", "));
    }
    let wanted = |one: &Posterior| match names {
        [] => one.referenced,
        names => names.iter().any(|name| name == one.name || name == HARDER && !one.referenced),
    };
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posteriors_are_chosen_by_name() {
        let count = |names: &[&str]| {
            chosen(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).map(|chosen| chosen.len())
        };
        assert_eq!(count(&[]).unwrap(), 33);
        assert_eq!(count(&["harder", "arK-arK"]).unwrap(), 14);
        assert!(count(&["arK"]).unwrap_err().to_string().contains("one of arK-arK, "));
    }

    #[test]
    fn missing_data_are_a_clear_error() {
        let run = |data: Option<&str>| {
            let options = PosteriorOptions { data: data.map(PathBuf::from), ..PosteriorOptions::default() };
            format!("{:#}", run(&options, &|_| {}).unwrap_err())
        };
        assert!(run(None).contains("NATMIX_DATA must name the folder"));
        assert!(run(Some("nowhere")).contains("NATMIX_DATA is nowhere"));
    }
}
