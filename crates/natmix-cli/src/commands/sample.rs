//! `natmix sample`: draws of a saved posterior on the parameters' own scale.

use crate::args::SampleArgs;
use crate::output;
use crate::settings::Settings;
use anyhow::{Context, Result, bail};
use natmix::save::Posterior;
use natmix::target::Target;
use natmix_app::folder;
use natmix_app::problem::Problem;
use natmix_app::record::files;
use natmix_models::Memory;
use natmix_models::densities::Spec;
use std::io::Write;
use std::process::ExitCode;

/// Draws that are weighed for each one that is resampled.
const WEIGHED: usize = 4;

/// Most numbers that are drawn in one call.
const MOST_NUMBERS: usize = 500_000_000;

/// Runs the command.
pub fn run(args: &SampleArgs) -> Result<ExitCode> {
    let mut posterior = Posterior::load(&args.posterior.join(files::POSTERIOR))?;
    if posterior.parameter_names.is_empty() {
        // Large networks keep no names.
        posterior.parameter_names = (0..posterior.mixture.dim()).map(|i| format!("w{i}")).collect();
    }
    let q = &posterior.mixture;
    check_count("-n", args.n, q.dim().max(posterior.parameter_names.len()) * if args.resample { WEIGHED } else { 1 })?;
    if posterior.details["variables"].as_array().is_some_and(|variables| !variables.is_empty()) {
        bail!("this posterior has variables that only its Python model knows: draw from it in Python");
    }
    let z = match args.resample {
        false => q.sample(args.n, args.seed),
        true => {
            let settings: Settings = serde_json::from_value(posterior.details["settings"].clone())
                .context("the posterior does not say how it was made")?;
            let problem = Problem::load(&settings).context("--resample needs the data of the fit in place")?;
            if problem.target().dim() != q.dim() {
                bail!("--resample needs the data of the fit: what is in its place now has other parameters");
            }
            let weighted = natmix::diagnose::weigh_draws(problem.target(), q, WEIGHED * args.n.max(250), args.seed)?;
            let z = weighted.resample(args.n, args.seed);
            if z.is_empty() {
                bail!("no draw has a usable importance weight");
            }
            z
        }
    };
    let (names, values) = (&posterior.parameter_names, on_own_scale(&posterior, &z)?);
    match &args.out {
        Some(path) if path.extension().is_some_and(|ending| ending == "npy") => {
            let write = |file: &mut _| natmix_models::npy::write_rows(file, args.n, names.len(), &values);
            folder::write_whole(path, write)?;
        }
        Some(path) => folder::write_whole(path, |file| write_csv(file, names, &values))?,
        None => output::printed(write_csv(std::io::stdout().lock(), names, &values))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses more draws than memory can be expected to hold.
pub fn check_count(option: &str, draws: usize, numbers_each: usize) -> Result<()> {
    match draws.checked_mul(numbers_each.max(1)) {
        Some(numbers) if numbers <= MOST_NUMBERS => Ok(()),
        _ => bail!("{option} {draws} is too many at once: take fewer, several times with other values of --seed"),
    }
}

/// Draws of a posterior on the scale of its parameters.
fn on_own_scale(posterior: &Posterior, z: &[f64]) -> Result<Vec<f64>> {
    let (d, p) = (posterior.mixture.dim(), posterior.parameter_names.len());
    let memory: Option<Memory> = serde_json::from_value(posterior.details["memory"].clone())
        .context("the posterior's memory of the data is damaged")?;
    let spec = &posterior.details["spec"];
    let density = match spec.is_null() {
        true => None,
        false => Some(Spec::from_json(&spec.to_string()).and_then(|spec| spec.target())?),
    };
    let fits = match (&memory, &density) {
        (Some(memory), _) => p == d && memory.kind.dim(memory.encoding.dim()) == d,
        (None, Some(target)) => target.dim() == d && target.parameter_names().len() == p,
        (None, None) => p == d,
    };
    if !fits {
        bail!("the posterior is damaged: its parameters do not belong to its mixture");
    }
    let mut values = vec![0.0; z.len() / d * p];
    for (z, out) in z.chunks_exact(d).zip(values.chunks_exact_mut(p)) {
        match (&memory, &density) {
            (Some(memory), _) => memory.to_user_scale(z, out),
            (None, Some(target)) => target.to_parameters(z, out),
            (None, None) => out.copy_from_slice(z),
        }
    }
    Ok(values)
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
