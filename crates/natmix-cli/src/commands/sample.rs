//! `natmix sample`: draws of a saved posterior on the parameters' own scale.

use crate::args::{DrawFormat, DrawLevel, SampleArgs};
use crate::commands::stan_csv::StanCsv;
use crate::output;
use anyhow::{Context, Result, bail};
use natmix::target::Target;
use natmix_app::record::files;
use natmix_app::stan::StanMemory;
use natmix_app::{Problem, SavedModel, SavedPosterior, folder};
use natmix_stan::names::shown;
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
    let in_memory = posterior.settings.as_ref().is_some_and(|settings| settings.fit.program.is_none());
    if in_memory && matches!(posterior.model, SavedModel::Stan(_)) {
        bail!(
            "this Stan program was fitted in Python, with code or data that are in no file: draw from it there, after \
             natmix.load(dir, target)"
        );
    }
    let (q, names) = (&posterior.mixture, posterior.names());
    let level = if args.resample { DrawLevel::Weighted } else { args.level };
    let weigh = level == DrawLevel::Weighted && !posterior.has_weighted_draws();
    check_count("-n", args.n, q.dim().max(names.len()) * if weigh { WEIGHTED_PER_DRAW } else { 1 })?;
    let z = match level {
        DrawLevel::Mixture => q.sample(args.n, args.seed),
        _ if weigh => resample(&posterior, args)?,
        _ => posterior.sample(args.n, args.seed),
    };
    let drawn = match &posterior.model {
        SavedModel::Stan(memory) => stan(&posterior, memory, z, args)?,
        _ => NamedDraws { names, values: posterior.to_own_scale(&z)?, log_density: None },
    };
    let npy = args.out.as_ref().is_some_and(|path| path.extension().is_some_and(|ending| ending == "npy"));
    match (args.format.unwrap_or(if npy { DrawFormat::Npy } else { DrawFormat::Csv }), &args.out) {
        (DrawFormat::Npy, Some(path)) => {
            let write = |file: &mut _| natmix_models::npy::write_rows(file, args.n, drawn.names.len(), &drawn.values);
            folder::write_whole(path, write)?;
        }
        (DrawFormat::Npy, None) => bail!("--format npy needs a file: give --out"),
        (DrawFormat::StanCsv, out) => {
            let (Some(log_density), SavedModel::Stan(memory)) = (&drawn.log_density, &posterior.model) else {
                bail!("--format stan-csv is for posteriors of Stan programs");
            };
            let model = memory.program.trim_end_matches(".stan").to_owned() + "_model";
            let table = StanCsv { draws: &drawn, log_density, model: &model, seed: args.seed };
            match out {
                Some(path) => folder::write_whole(path, |file| table.write(file))?,
                None => output::printed(table.write(std::io::stdout().lock()))?,
            }
        }
        (DrawFormat::Csv, Some(path)) => {
            folder::write_whole(path, |file| write_csv(file, &drawn.names, &drawn.values))?;
        }
        (DrawFormat::Csv, None) => {
            output::printed(write_csv(std::io::stdout().lock(), &output::header(drawn.names), &drawn.values))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws on the parameters' own scale.
pub struct NamedDraws {
    /// Names of the values; for a file of CmdStan as there, else as tools show them.
    pub names: Vec<String>,
    /// Values, one draw after another.
    pub values: Vec<f64>,
    /// For a file of CmdStan, the log density of each draw.
    pub log_density: Option<Vec<f64>>,
}

/// Draws of all variables of a Stan program, which must still be what was fitted.
fn stan(posterior: &SavedPosterior, memory: &StanMemory, z: Vec<f64>, args: &SampleArgs) -> Result<NamedDraws> {
    let needs = "draws of a Stan program need the program and the data of the fit at their original paths";
    let settings = posterior.settings.as_ref().context("the posterior does not record how it was fitted")?;
    let mut tell = |what: &str| output::note(&format!("note: {what}"));
    let problem = Problem::load_and_tell(settings, &mut tell).context(needs)?;
    let Problem::Stan(stan) = &problem else { bail!(needs) };
    if !stan.is_of(memory) {
        bail!("{needs}, but {} or its data have changed since", memory.program);
    }
    check_count("-n", args.n, memory.names.len())?;
    let values = stan.model.draws(&z, args.seed)?;
    let as_in_cmdstan = args.format == Some(DrawFormat::StanCsv);
    let log_density = || z.chunks_exact(stan.model.dim()).map(|z| stan.model.log_density(z, None).unwrap_or(f64::NAN));
    problem.take_messages().iter().for_each(|message| output::note(&format!("note: the model says: {message}")));
    Ok(NamedDraws {
        names: memory.names.iter().map(|name| if as_in_cmdstan { name.clone() } else { shown(name) }).collect(),
        values,
        log_density: as_in_cmdstan.then(|| log_density().collect()),
    })
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

/// A field of a table, in quotes where necessary.
pub fn quoted(name: &str) -> String {
    match name.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    }
}
