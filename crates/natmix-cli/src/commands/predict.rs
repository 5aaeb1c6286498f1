//! `natmix predict`: one line per new row.

use super::sample::{check_count, write_csv};
use crate::args::PredictArgs;
use crate::output;
use anyhow::Result;
use natmix_app::record::files;
use natmix_app::{SavedModel, SavedPosterior, folder};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &PredictArgs) -> Result<ExitCode> {
    folder::settle(&args.posterior)?;
    let posterior = SavedPosterior::load(&args.posterior.join(files::POSTERIOR))?;
    if let SavedModel::Regression(_) = posterior.model {
        check_count("--draws", args.draws, posterior.mixture.dim())?;
    }
    let rows = posterior.read_rows(&args.data)?;
    let columns = posterior.predict(&rows, args.draws, args.seed, args.means_only)?.columns();
    let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    let rows = columns.first().map_or(0, |(_, column)| column.len());
    let values: Vec<f64> = (0..rows).flat_map(|i| columns.iter().map(move |(_, column)| column[i])).collect();
    match &args.out {
        Some(path) => folder::write_whole(path, |file| write_csv(file, &names, &values))?,
        None => output::printed(write_csv(std::io::stdout().lock(), &output::header(names), &values))?,
    }
    Ok(ExitCode::SUCCESS)
}
