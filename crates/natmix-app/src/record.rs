//! All that is kept of a fit, as files in a folder: read back as it was written.

use crate::settings::Settings;
use crate::zarr;
use natmix::Error;
use natmix::observe::TraceRow;
use natmix::save::Posterior;
use natmix_report::formation::Formation;
use natmix_report::{Draws, Report, page};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Names of the files in the folder of a fit.
pub mod files {
    /// The report as JSON.
    pub const REPORT: &str = "report.json";
    /// The mixture and what is needed to make sense of it.
    pub const POSTERIOR: &str = "posterior.safetensors";
    /// A line an iteration.
    pub const TRACE: &str = "trace.jsonl";
    /// Draws that ArviZ opens.
    pub const DRAWS: &str = "draws.zarr";
    /// How the mixture formed, where that was asked for.
    pub const FRAMES: &str = "frames.json";
    /// What an interrupted run goes on from.
    pub const CHECKPOINT: &str = "checkpoint.safetensors";
    /// Folder of what is not complete yet.
    pub const STAGE: &str = ".part";
    /// Settings that repeat the fit.
    pub const CONFIG: &str = "config.toml";
}

/// What is kept of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The mixture.
    pub posterior: Posterior,
    /// The figures.
    pub report: Report,
    /// The way there.
    pub trace: Vec<TraceRow>,
    /// Draws on the user's own scale.
    pub draws: Draws,
    /// How the mixture formed, where that was asked for.
    pub formation: Option<Formation>,
}

impl Record {
    /// Writes everything into a folder, the page with its pictures included. The posterior comes last: a folder that has
    /// one is complete.
    pub fn save(&self, dir: &Path, log_likelihood: Option<&(usize, Vec<f64>)>) -> Result<(), Error> {
        fs::create_dir_all(dir).map_err(|source| Error::Io { file: dir.display().to_string(), source })?;
        write(dir, files::TRACE, &write_trace(&self.trace))?;
        self.save_beside_trace(dir, log_likelihood)
    }

    /// The same where a folder is there that holds the trace already.
    pub fn save_beside_trace(&self, dir: &Path, log_likelihood: Option<&(usize, Vec<f64>)>) -> Result<(), Error> {
        let other =
            |name: &str, source: std::io::Error| Error::Io { file: dir.join(name).display().to_string(), source };
        store(&self.draws, log_likelihood).write(&dir.join(files::DRAWS))?;
        // The command line can repeat only what it has a name for.
        if let Ok(settings) = serde_json::from_value::<Settings>(self.posterior.details["settings"].clone())
            && settings.model.is_some()
        {
            let text = toml::to_string_pretty(&settings).map_err(|e| other(files::CONFIG, std::io::Error::other(e)))?;
            write(dir, files::CONFIG, &text)?;
        }
        let report = serde_json::to_string_pretty(&self.report).map_err(|error| other(files::REPORT, error.into()))?;
        write(dir, files::REPORT, &report)?;
        let formation = self.formation.as_ref();
        match formation {
            Some(formation) => write(dir, files::FRAMES, &write_frames(formation))?,
            // What an earlier fit left here would be taken for this one's.
            None => page::remove(&dir.join(files::FRAMES)).map_err(|error| other(files::FRAMES, error))?,
        }
        page::write_page(dir, &self.report, &self.trace, &self.draws, formation)
            .map_err(|error| other("report.html", error))?;
        self.posterior.save(&dir.join(files::POSTERIOR))
    }

    /// Reads what a fit left in a folder.
    pub fn load(dir: &Path) -> Result<Self, Error> {
        let posterior = Posterior::load(&dir.join(files::POSTERIOR))?;
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path).map_err(|source| Error::Io { file: path.display().to_string(), source })
        };
        let report = read_report(&read(files::REPORT)?, &dir.join(files::REPORT).display().to_string())?;
        let trace = read_trace(&read(files::TRACE)?);
        let draws = read_draws(&dir.join(files::DRAWS), &report)?;
        let formation = read_frames(dir)?;
        Ok(Self { posterior, report, trace, draws, formation })
    }
}

/// How a mixture formed, as JSON.
pub fn write_frames(formation: &Formation) -> String {
    // Numbers, names and lists of them always have a JSON form.
    serde_json::to_string(formation).unwrap_or_default() + "\n"
}

/// How the mixture of a fit formed, if its folder says.
pub fn read_frames(dir: &Path) -> Result<Option<Formation>, Error> {
    let path = dir.join(files::FRAMES);
    let file = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => Formation::read(&text, &file).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { file, source }),
    }
}

/// Writes a file and waits until it is on the disk.
fn write(dir: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(name);
    File::create(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|source| Error::Io { file: path.display().to_string(), source })
}

/// Reads `report.json`.
pub fn read_report(text: &str, file: &str) -> Result<Report, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::BadFile { file: file.into(), problem: format!("is not a report of natmix ({error})") })
}

/// A trace as JSON, a line an iteration.
pub fn write_trace(trace: &[TraceRow]) -> String {
    // Numbers and lists of numbers always have a JSON form.
    trace.iter().filter_map(|row| serde_json::to_string(row).ok()).map(|line| line + "\n").collect()
}

/// Reads a trace; a last line that is cut off is passed over.
pub fn read_trace(text: &str) -> Vec<TraceRow> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The draws as a store that ArviZ opens.
pub fn store(draws: &Draws, log_likelihood: Option<&(usize, Vec<f64>)>) -> zarr::Store {
    let library = json!({"inference_library": "natmix", "inference_library_version": env!("CARGO_PKG_VERSION")});
    let mut store = zarr::Store::new(library.clone());
    let (n, p) = (draws.component.len(), draws.names.len());
    let whole: Vec<i64> = (0..n as i64).collect();
    let group = |store: &mut zarr::Store, name: &str, n: usize| {
        store.group(name, library.clone());
        store.array(name, "chain", &["chain"], &[1], zarr::Values::Int(&[0]));
        store.array(name, "draw", &["draw"], &[n], zarr::Values::Int(&whole[..n]));
    };
    group(&mut store, "posterior", n);
    let mut column = vec![0.0; n];
    for (j, name) in draws.names.iter().enumerate() {
        for (x, row) in column.iter_mut().zip(draws.values.chunks_exact(p)) {
            *x = row[j];
        }
        store.array("posterior", name, &["chain", "draw"], &[1, n], zarr::Values::Float(&column));
    }
    group(&mut store, "sample_stats", n);
    let component: Vec<i64> = draws.component.iter().map(|&k| k as i64).collect();
    store.array("sample_stats", "component", &["chain", "draw"], &[1, n], zarr::Values::Int(&component));
    if let Some((rows, values)) = log_likelihood {
        let n = values.len() / rows;
        group(&mut store, "log_likelihood", n);
        store.array(
            "log_likelihood",
            "outcome",
            &["chain", "draw", "row"],
            &[1, n, *rows],
            zarr::Values::Float(values),
        );
    }
    store
}

/// Draws from the store that a fit left.
pub fn read_draws(store: &Path, report: &Report) -> Result<Draws, Error> {
    let names: Vec<String> = report.parameters.iter().map(|parameter| parameter.name.clone()).collect();
    let columns: Vec<Vec<f64>> =
        names.iter().map(|name| Ok(zarr::read_array(store, "posterior", name)?.1)).collect::<Result<_, Error>>()?;
    let n = columns.iter().map(Vec::len).min().unwrap_or(0);
    let values = (0..n).flat_map(|i| columns.iter().map(move |column| column[i])).collect();
    let component: Vec<usize> =
        zarr::read_whole(store, "sample_stats", "component")?.into_iter().map(|k| k as usize).collect();
    Ok(Draws { names, values, component })
}
