//! `natmix predict`: one line per new row.

use super::sample::{check_count, write_csv};
use crate::args::PredictArgs;
use crate::output;
use anyhow::Result;
use natmix_app::record::files;
use natmix_app::{Predicted, SavedModel, SavedPosterior, folder};
use std::process::ExitCode;

/// Lines of a table.
#[derive(Default)]
struct Lines {
    names: Vec<String>,
    values: Vec<f64>,
}

impl Lines {
    /// Adds one line per predicted row, each beginning with `first`.
    fn add(&mut self, first: &[(&str, f64)], predicted: Predicted) {
        let columns = predicted.columns();
        self.names = first.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.names.extend(columns.iter().map(|(name, _)| name.clone()));
        for row in 0..columns.first().map_or(0, |(_, column)| column.len()) {
            self.values.extend(first.iter().map(|(_, value)| value));
            self.values.extend(columns.iter().map(|(_, column)| column[row]));
        }
    }
}

/// Runs the command.
pub fn run(args: &PredictArgs) -> Result<ExitCode> {
    folder::settle(&args.posterior)?;
    let posterior = SavedPosterior::load(&args.posterior.join(files::POSTERIOR))?;
    if matches!(posterior.model, SavedModel::Regression(_) | SavedModel::Effects(_)) {
        check_count("--draws", args.draws, posterior.mixture.dim())?;
    }
    let (rows, notes) = posterior.read_rows(&args.data)?;
    notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    let (draws, seed, means_only) = (args.draws, args.seed, args.means_only);
    let mut lines = Lines::default();
    if args.per_component {
        let each = posterior.predict_each(&rows, draws, seed, means_only)?;
        for ((k, predicted), weight) in each.into_iter().enumerate().zip(posterior.mixture.weights()) {
            lines.add(&[("component", k as f64), ("weight", weight)], predicted);
        }
    } else {
        lines.add(&[], posterior.predict(&rows, draws, seed, means_only)?);
    }
    let Lines { names, values } = lines;
    match &args.out {
        Some(path) => folder::write_whole(path, |file| write_csv(file, &names, &values))?,
        None => output::printed(write_csv(std::io::stdout().lock(), &output::header(names), &values))?,
    }
    Ok(ExitCode::SUCCESS)
}
