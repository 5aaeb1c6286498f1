//! `natmix sample`: draws of a saved posterior on the parameters' own scale.

use crate::args::{DrawLevel, SampleArgs};
use crate::output;
use anyhow::{Context, Result, bail};
use natmix_app::record::files;
use natmix_app::{Problem, SavedPosterior, folder};
use std::io::Write;
use std::process::ExitCode;

/// Weighted draws per resampled draw.
const WEIGHTED_PER_DRAW: usize = 4;

/// Most numbers drawn in one call.
const MOST_NUMBERS: usize = 500_000_000;

/// Runs the command.
pub fn run(args: &SampleArgs) -> Result<ExitCode> {
    folder::settle(&args.posterior)?;
    let posterior = SavedPosterior::load(&args.posterior.join(files::POSTERIOR))?;
    let (q, names) = (&posterior.mixture, posterior.names());
    let level = if args.resample { DrawLevel::Weighted } else { args.level };
    let weigh = level == DrawLevel::Weighted && !posterior.has_weighted_draws();
    check_count("-n", args.n, q.dim().max(names.len()) * if weigh { WEIGHTED_PER_DRAW } else { 1 })?;
    let z = match level {
        DrawLevel::Mixture => q.sample(args.n, args.seed),
        _ if weigh => resample(&posterior, args)?,
        _ => posterior.sample(args.n, args.seed),
    };
    let values = posterior.to_own_scale(&z)?;
    match &args.out {
        Some(path) if path.extension().is_some_and(|ending| ending == "npy") => {
            let write = |file: &mut _| natmix_models::npy::write_rows(file, args.n, names.len(), &values);
            folder::write_whole(path, write)?;
        }
        Some(path) => folder::write_whole(path, |file| write_csv(file, &names, &values))?,
        None => output::printed(write_csv(std::io::stdout().lock(), &output::header(names), &values))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws corrected by their importance weights.
fn resample(posterior: &SavedPosterior, args: &SampleArgs) -> Result<Vec<f64>> {
    let q = &posterior.mixture;
    let settings = posterior.settings.as_ref().context("the posterior does not record how it was fitted")?;
    let problem = Problem::load(settings).context("weighted draws need the data of the fit at its original path")?;
    let target = problem.target()?;
    if target.dim() != q.dim() {
        bail!(
            "weighted draws need the data of the fit, but the file now at its path has a different number of parameters"
        );
    }
    let weighted = natmix::diagnose::weigh_draws(target, q, WEIGHTED_PER_DRAW * args.n.max(250), args.seed)?;
    let z = weighted.delivered().resample(args.n, args.seed);
    if z.is_empty() {
        bail!("no draw has a usable importance weight");
    }
    Ok(z)
}

/// Refuses more draws than memory can be expected to hold.
pub fn check_count(option: &str, draws: usize, numbers_each: usize) -> Result<()> {
    match draws.checked_mul(numbers_each.max(1)) {
        Some(numbers) if numbers <= MOST_NUMBERS => Ok(()),
        _ => bail!("{option} {draws} is too many at once: draw fewer, several times with different values of --seed"),
    }
}

/// A table with a header; names are quoted where necessary.
pub fn write_csv(mut out: impl Write, names: &[String], values: &[f64]) -> std::io::Result<()> {
    let header: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    writeln!(out, "{}", header.join(","))?;
    for row in values.chunks_exact(names.len().max(1)) {
        let fields: Vec<String> = row.iter().map(f64::to_string).collect();
        writeln!(out, "{}", fields.join(","))?;
    }
    out.flush()
}

fn quoted(name: &str) -> String {
    match name.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    }
}
