//! `natmix predict`: one line per new row.

use super::sample::{check_count, quoted, write_csv};
use crate::args::PredictArgs;
use crate::output;
use anyhow::Result;
use natmix_app::record::files;
use natmix_app::{Predicted, SavedModel, SavedPosterior, folder};
use std::io::Write;
use std::process::ExitCode;

/// Lines of a table.
#[derive(Default)]
struct Lines {
    names: Vec<String>,
    values: Vec<f64>,
    /// The likeliest class of each line, for classifiers.
    classes: Vec<String>,
}

impl Lines {
    /// Adds one line per predicted row, each beginning with `first`.
    fn add(&mut self, first: &[(&str, f64)], predicted: Predicted) {
        self.classes.extend(predicted.classes().unwrap_or_default());
        let columns = predicted.columns();
        self.names = first.iter().map(|(name, _)| (*name).to_owned()).collect();
        self.names.extend(columns.iter().map(|(name, _)| name.clone()));
        for row in 0..columns.first().map_or(0, |(_, column)| column.len()) {
            self.values.extend(first.iter().map(|(_, value)| value));
            self.values.extend(columns.iter().map(|(_, column)| column[row]));
        }
    }

    /// Writes them as a table. The class comes last, so that the numbers keep their places.
    fn write(&self, mut out: impl Write, names: Vec<String>) -> std::io::Result<()> {
        if self.classes.is_empty() {
            return write_csv(out, &names, &self.values);
        }
        let header: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        writeln!(out, "{},class", header.join(","))?;
        for (row, class) in self.values.chunks_exact(names.len().max(1)).zip(&self.classes) {
            let fields: Vec<String> = row.iter().map(f64::to_string).collect();
            writeln!(out, "{},{}", fields.join(","), quoted(class))?;
        }
        out.flush()
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
    let names = lines.names.clone();
    match &args.out {
        Some(path) => folder::write_whole(path, |file| lines.write(file, names))?,
        None => {
            // Names of classes, like those of columns, come from a file.
            lines.classes = output::header(lines.classes);
            output::printed(lines.write(std::io::stdout().lock(), output::header(names)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
