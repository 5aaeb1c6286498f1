//! `natmix predict`: one line for each new row.

use super::sample::{check_count, write_csv};
use crate::args::PredictArgs;
use crate::output;
use anyhow::{Context, Result, bail};
use natmix::save::Posterior;
use natmix_app::folder;
use natmix_app::networks::data::Memory as NetworkMemory;
use natmix_app::networks::prediction;
use natmix_app::record::files;
use natmix_models::{Draws, Inputs, Memory, Predictions, predict};
use natmix_nets::predict::Averaging;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &PredictArgs) -> Result<ExitCode> {
    let posterior = Posterior::load(&args.posterior.join(files::POSTERIOR))?;
    if !posterior.details["network"].is_null() {
        return of_network(args, &posterior);
    }
    if args.means_only {
        bail!("--means-only goes with networks");
    }
    let memory: Option<Memory> = serde_json::from_value(posterior.details["memory"].clone())
        .context("the posterior's memory of the data is damaged")?;
    let memory = memory.context("this posterior is that of a density: there is nothing to predict")?;
    let rows = memory.encoding.read(&args.data)?;
    rows.refuse_extra_columns()?;
    if memory.kind.dim(rows.dim) != posterior.mixture.dim() {
        bail!("the posterior is damaged: its mixture does not belong to its model");
    }
    check_count("--draws", args.draws, posterior.mixture.dim())?;
    let z = posterior.mixture.sample(args.draws, args.seed);
    let draws = Draws::new(memory.kind, rows.dim, &z)?;
    let mut predictions = predict(&draws, Inputs::new(&rows.x, rows.dim, rows.offset.as_deref())?)?;
    let outcome = memory.encoding.outcome.as_ref();
    if let Some(outcome) = outcome {
        predictions.rescale(outcome.centre, outcome.scale);
    }
    let levels = outcome.and_then(|outcome| outcome.levels.clone());
    let (names, columns): (Vec<String>, Vec<Vec<f64>>) = match predictions {
        Predictions::Binary { probability, sd, entropy } => {
            (vec!["probability".into(), "sd".into(), "entropy".into()], vec![probability, sd, entropy])
        }
        Predictions::Real { mean, sd, q05, q50, q95 } => {
            (["mean", "sd", "q05", "q50", "q95"].map(String::from).to_vec(), vec![mean, sd, q05, q50, q95])
        }
        Predictions::Count { mean, sd } => (vec!["mean".into(), "sd".into()], vec![mean, sd]),
        Predictions::Classes { classes, probability, entropy } => {
            let level = |c: usize| levels.as_ref().and_then(|l| l.get(c).cloned()).unwrap_or_else(|| c.to_string());
            let mut names: Vec<String> = (0..classes).map(|c| format!("p[{}]", level(c))).collect();
            let mut columns: Vec<Vec<f64>> =
                (0..classes).map(|c| probability.iter().skip(c).step_by(classes).copied().collect()).collect();
            names.push("entropy".into());
            columns.push(entropy);
            (names, columns)
        }
    };
    let values: Vec<f64> = (0..rows.rows).flat_map(|i| columns.iter().map(move |column| column[i])).collect();
    write(args, &names, &values)
}

fn of_network(args: &PredictArgs, posterior: &Posterior) -> Result<ExitCode> {
    let memory: NetworkMemory = serde_json::from_value(posterior.details["network"].clone())
        .context("the posterior's memory of its network is damaged")?;
    // As many draws as asked for, over all components.
    let each = args.draws.div_ceil(posterior.mixture.len()).max(1);
    let averaging = match args.means_only {
        true => Averaging::Means,
        false => Averaging::Draws { each, seed: args.seed },
    };
    let (names, values) =
        prediction::table(&memory, &posterior.mixture, &memory.input.read(&args.data, false)?, averaging)?;
    write(args, &names, &values)
}

fn write(args: &PredictArgs, names: &[String], values: &[f64]) -> Result<ExitCode> {
    match &args.out {
        Some(path) => folder::write_whole(path, |file| write_csv(file, names, values))?,
        None => output::printed(write_csv(std::io::stdout().lock(), names, values))?,
    }
    Ok(ExitCode::SUCCESS)
}
