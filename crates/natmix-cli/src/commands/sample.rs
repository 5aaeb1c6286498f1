//! `natmix sample`: draws of a saved posterior on the parameters' own scale.

use super::fit::files;
use crate::args::SampleArgs;
use crate::problem::Problem;
use crate::settings::Settings;
use anyhow::{Context, Result, bail};
use natmix::save::Posterior;
use natmix_models::Memory;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Draws that are weighed for each one that is resampled.
const WEIGHED: usize = 4;

/// Runs the command.
pub fn run(args: &SampleArgs) -> Result<ExitCode> {
    let posterior = Posterior::load(&args.posterior.join(files::POSTERIOR))?;
    let q = &posterior.mixture;
    let z = match args.resample {
        false => q.sample(args.n, args.seed),
        true => {
            let settings: Settings = serde_json::from_value(posterior.details["settings"].clone())
                .context("the posterior does not say how it was made")?;
            let problem = Problem::load(&settings).context("--resample needs the data of the fit in place")?;
            let weighted = natmix::diagnose::weigh_draws(problem.target(), q, WEIGHED * args.n.max(250), args.seed)?;
            let z = weighted.resample(args.n, args.seed);
            if z.is_empty() && args.n > 0 {
                bail!("no draw has a usable importance weight");
            }
            z
        }
    };
    let names = &posterior.parameter_names;
    let memory: Option<Memory> = serde_json::from_value(posterior.details["memory"].clone())
        .context("the posterior's memory of the data is damaged")?;
    let mut values = vec![0.0; args.n * names.len()];
    for (z, out) in z.chunks_exact(q.dim()).zip(values.chunks_exact_mut(names.len().max(1))) {
        match &memory {
            Some(memory) => memory.to_user_scale(z, out),
            None => out.copy_from_slice(z),
        }
    }
    match &args.out {
        Some(path) if path.extension().is_some_and(|ending| ending == "npy") => {
            let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            natmix_models::npy::write_rows(&mut BufWriter::new(file), args.n, names.len(), &values)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Some(path) => {
            let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            write_csv(BufWriter::new(file), names, &values)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => write_csv(std::io::stdout().lock(), names, &values)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A table with a header; names are quoted where they must be.
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
