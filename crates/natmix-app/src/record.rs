//! The record of a fit as files in a folder: written, and read back.

use crate::Error;
use crate::folder::{OutputFolder, Scope, settle};
use crate::loo_rows::LooRows;
use crate::saved::{SavedModel, SavedPosterior};
use crate::stan::StanDraws;
use crate::stan::store::{ShapedVariables, add_variables, groups, read_variables};
use crate::zarr;
use natmix::answer::delivered::DeliveredChains;
use natmix::observe::TraceRow;
use natmix::save::checksum::Checksum;
use natmix_report::formation::Formation;
use natmix_report::{Draws, Report, page};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Names of the files in the folder of a fit.
pub mod files {
    /// The report as JSON.
    pub const REPORT: &str = "report.json";
    /// The mixture and what is needed to interpret it.
    pub const POSTERIOR: &str = "posterior.safetensors";
    /// One line per iteration.
    pub const TRACE: &str = "trace.jsonl";
    /// Draws that ArviZ opens.
    pub const DRAWS: &str = "draws.zarr";
    /// What each row contributes to leave-one-out, if there are rows.
    pub const LOO: &str = "loo.safetensors";
    /// How the mixture formed, if requested.
    pub const FRAMES: &str = "frames.json";
    /// The state from which an interrupted run is resumed.
    pub const CHECKPOINT: &str = "checkpoint.safetensors";
    /// The best state so far of a training with validation rows.
    pub const BEST: &str = "checkpoint.best";
    /// Folder of files that are not complete yet.
    pub const STAGE: &str = ".part";
    /// The same for a page that is written again.
    pub const PAGE_STAGE: &str = ".page";
    /// Settings that repeat the fit.
    pub const CONFIG: &str = "config.toml";
    /// The page.
    pub const PAGE: &str = "report.html";
    /// The pictures of the page.
    pub const FIGURES: &str = "figures";
    /// What it takes to resume a run.
    pub const CHECKPOINTS: [&str; 2] = [CHECKPOINT, BEST];
    /// All of them; other files in the folder are the user's own.
    pub const RESULTS: [&str; 11] =
        [POSTERIOR, REPORT, DRAWS, TRACE, PAGE, FIGURES, CONFIG, FRAMES, LOO, CHECKPOINT, BEST];
}

/// Most parameters that have an array each in `draws.zarr`: four files or folders per parameter take long to write. More are in
/// one array.
pub(crate) const MOST_ARRAYS: usize = 300;
/// The array of all parameters, and its last dimension.
const TOGETHER: &str = "parameters";
const TOGETHER_BY: &str = "parameter";
/// Name of the checksum in `report.json`.
const CHECKSUM: &str = "checksum";

/// The record of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FitRecord {
    /// The mixture.
    pub posterior: SavedPosterior,
    /// The report.
    pub report: Report,
    /// One row per iteration or epoch.
    pub trace: Vec<TraceRow>,
    /// Draws on the user's own scale.
    pub draws: Draws,
    /// How the mixture formed, if requested.
    pub formation: Option<Formation>,
    /// The number of rows, and the log likelihood of each for the first draws, if measured.
    pub log_likelihood: Option<(usize, Vec<f64>)>,
    /// What each row contributes to leave-one-out, if measured.
    pub loo_rows: Option<LooRows>,
    /// Draws of all variables of a Stan program.
    pub variables: Option<StanDraws>,
}

impl FitRecord {
    /// Writes everything into a folder, including the page with its pictures: earlier files stay until all is complete.
    pub fn save(&self, dir: &Path) -> Result<(), Error> {
        let mut out = OutputFolder::open(dir, files::STAGE, false)?;
        let written = write(out.stage(), files::TRACE, &write_trace(&self.trace))
            .and_then(|()| self.write_beside_trace(out.stage()))
            .and_then(|()| out.publish(Scope::Finished));
        if written.is_err() {
            out.discard();
        }
        written
    }

    /// Writes all but the trace. The posterior comes last: a folder that has one is complete.
    pub(crate) fn write_beside_trace(&self, dir: &Path) -> Result<(), Error> {
        store(&self.draws, self.log_likelihood.as_ref(), self.variables.as_ref()).write(&dir.join(files::DRAWS))?;
        // The command line can only repeat fits of its own models.
        if let Some(settings) = self.posterior.settings.as_ref().filter(|settings| settings.fit.model.is_some()) {
            let text = toml::to_string_pretty(settings).map_err(std::io::Error::other);
            write(dir, files::CONFIG, &text.map_err(Error::io(format!("write {}", files::CONFIG)))?)?;
        }
        write(dir, files::REPORT, &write_report(&self.report)?)?;
        match &self.formation {
            Some(formation) => write(dir, files::FRAMES, &write_frames(formation))?,
            // A killed run may have left frames.
            None => page::remove(&dir.join(files::FRAMES)).map_err(Error::io(format!("remove {}", files::FRAMES)))?,
        }
        match &self.loo_rows {
            Some(rows) => rows.save(&dir.join(files::LOO))?,
            // The same holds for what each row contributes.
            None => page::remove(&dir.join(files::LOO)).map_err(Error::io(format!("remove {}", files::LOO)))?,
        }
        write_page(dir, &self.report, &self.trace, &self.draws, self.formation.as_ref())?;
        self.posterior.save(&dir.join(files::POSTERIOR))
    }

    /// Reads what a fit left in a folder.
    pub fn load(dir: &Path) -> Result<Self, Error> {
        settle(dir)?;
        let posterior = SavedPosterior::load(&dir.join(files::POSTERIOR))?;
        let (report, trace, draws, formation) = read_shown(dir)?;
        let variables = match &posterior.model {
            SavedModel::Stan(memory) => Some(read_variables(&dir.join(files::DRAWS), memory, draws.component.len())?),
            _ => None,
        };
        let loo_rows = LooRows::load(&dir.join(files::LOO))?;
        Ok(Self { posterior, report, trace, draws, formation, log_likelihood: None, loo_rows, variables })
    }
}

/// Reads what the page of a fit shows.
fn read_shown(dir: &Path) -> Result<(Report, Vec<TraceRow>, Draws, Option<Formation>), Error> {
    let read = |name: &str| {
        let path = dir.join(name);
        fs::read_to_string(&path).map_err(Error::io(format!("read {}", path.display())))
    };
    let report = read_report(&read(files::REPORT)?, &dir.join(files::REPORT).display().to_string())?;
    let trace = read_rows(&read(files::TRACE)?);
    let draws = read_draws(&dir.join(files::DRAWS), &report)?;
    Ok((report, trace, draws, read_frames(dir)?))
}

/// Rewrites the page in the folder of a fit from its other files.
pub fn rewrite_page(dir: &Path) -> Result<(), Error> {
    settle(dir)?;
    let (report, trace, draws, formation) = read_shown(dir)?;
    let mut out = OutputFolder::open(dir, files::PAGE_STAGE, false)?;
    let written =
        write_page(out.stage(), &report, &trace, &draws, formation.as_ref()).and_then(|()| out.publish(Scope::Page));
    if written.is_err() {
        out.discard();
    }
    written
}

/// Writes the page with its pictures.
fn write_page(
    dir: &Path,
    report: &Report,
    trace: &[TraceRow],
    draws: &Draws,
    formation: Option<&Formation>,
) -> Result<(), Error> {
    // Rows that the trace file cannot hold are not shown: the page can always be rewritten from the files.
    let readable =
        |row: &&TraceRow| [row.seconds, row.elbo, row.se].iter().chain(&row.steps).all(|number| number.is_finite());
    let trace: Vec<TraceRow> = trace.iter().filter(readable).cloned().collect();
    page::write_page(dir, report, &trace, draws, formation)
        .map_err(Error::io(format!("write the page in {}", dir.display())))
}

/// How a mixture formed, as JSON.
pub fn write_frames(formation: &Formation) -> String {
    // Numbers, names and lists of them always have a JSON form.
    serde_json::to_string(formation).unwrap_or_default() + "\n"
}

/// How the mixture of a fit formed, if its folder has frames.
pub fn read_frames(dir: &Path) -> Result<Option<Formation>, Error> {
    let path = dir.join(files::FRAMES);
    let file = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(Formation::read(&text, &file)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("read {file}"))(error)),
    }
}

/// Writes a file and waits until it is on the disk.
fn write(dir: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = dir.join(name);
    File::create(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(Error::io(format!("write {}", path.display())))
}

/// `report.json`, with a checksum of everything else in it.
pub fn write_report(report: &Report) -> Result<String, Error> {
    let text = || -> serde_json::Result<String> {
        let mut text = serde_json::to_string_pretty(report)?;
        let checksum = checksum_of(&serde_json::from_str(&text)?);
        text.truncate(text.len() - "\n}".len());
        Ok(format!("{text},\n  \"{CHECKSUM}\": \"{checksum}\"\n}}"))
    };
    text().map_err(|error| Error::io(format!("write {}", files::REPORT))(error.into()))
}

/// Reads `report.json`. Reports of version 0.1 have no checksum.
pub fn read_report(text: &str, file: &str) -> Result<Report, Error> {
    let bad = |problem: String| -> Error { natmix::Error::BadFile { file: file.into(), problem }.into() };
    let foreign = |error: serde_json::Error| bad(format!("is not a report written by natmix ({error})"));
    let mut report: Value = serde_json::from_str(text).map_err(foreign)?;
    let stated = report.as_object_mut().and_then(|report| report.remove(CHECKSUM));
    if stated.is_some_and(|stated| stated != checksum_of(&report)) {
        return Err(bad("is damaged or was edited (its checksum does not match its contents): fit again".into()));
    }
    serde_json::from_value(report).map_err(foreign)
}

/// The checksum of a report's contents, whatever the order and the spaces of its text.
fn checksum_of(report: &Value) -> String {
    Checksum::of(report.to_string().as_bytes())
}

/// A trace as JSON, one line per iteration.
pub fn write_trace(trace: &[TraceRow]) -> String {
    // Numbers and lists of numbers always have a JSON form.
    trace.iter().filter_map(|row| serde_json::to_string(row).ok()).map(|line| line + "\n").collect()
}

/// Reads a trace; an incomplete last line is skipped.
pub fn read_rows<T: DeserializeOwned>(text: &str) -> Vec<T> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The draws as a store that ArviZ opens. Chains that have started at one point are one after the other in one chain of
/// ArviZ: a chain of its own would be too short for ArviZ's R-hat, which then compares the starts, as ours does.
pub fn store(draws: &Draws, log_likelihood: Option<&(usize, Vec<f64>)>, variables: Option<&StanDraws>) -> zarr::Store {
    let library = json!({"inference_library": "natmix", "inference_library_version": env!("CARGO_PKG_VERSION")});
    let mut store = zarr::Store::new(library.clone());
    let (n, p) = (draws.component.len(), draws.names.len());
    let chains = draws.chains.as_ref().map_or(1, DeliveredChains::starts).max(1);
    let each = n / chains;
    let group = |store: &mut zarr::Store, name: &str, (chains, each): (usize, usize)| {
        let count = |n: usize| -> Vec<i64> { (0..n as i64).collect() };
        store.group(name, library.clone());
        let [chain, draw] = zarr::COORDINATES;
        store.array(name, chain, &[chain], &[chains], zarr::ZarrValues::Int(&count(chains)));
        store.array(name, draw, &[draw], &[each], zarr::ZarrValues::Int(&count(each)));
    };
    group(&mut store, "posterior", (chains, each));
    let mut column = vec![0.0; n];
    if let Some(variables) = variables {
        for name in groups(variables).skip(1) {
            group(&mut store, name, (chains, each));
        }
        add_variables(&mut store, variables, (chains, each));
    }
    if p > MOST_ARRAYS && variables.is_none() {
        store.array("posterior", TOGETHER_BY, &[TOGETHER_BY], &[p], zarr::ZarrValues::Text(&draws.names));
        let dims = ["chain", "draw", TOGETHER_BY];
        store.array("posterior", TOGETHER, &dims, &[chains, each, p], zarr::ZarrValues::Float(&draws.values));
    }
    for (j, name) in draws.names.iter().enumerate().filter(|_| p <= MOST_ARRAYS && variables.is_none()) {
        for (x, row) in column.iter_mut().zip(draws.values.chunks_exact(p)) {
            *x = row[j];
        }
        store.array("posterior", name, &["chain", "draw"], &[chains, each], zarr::ZarrValues::Float(&column));
    }
    group(&mut store, STATS, (chains, each));
    let whole = |store: &mut zarr::Store, name: &str, values: &mut dyn Iterator<Item = usize>| {
        let values: Vec<i64> = values.map(|value| value as i64).collect();
        store.array(STATS, name, &["chain", "draw"], &[chains, each], zarr::ZarrValues::Int(&values));
    };
    whole(&mut store, "component", &mut draws.component.iter().copied());
    if let Some(of) = &draws.chains {
        let length = of.length().max(1);
        whole(&mut store, WALKER, &mut (0..n).map(|at| at / length));
        whole(&mut store, ITERATION, &mut (0..n).map(|at| at % length * of.every));
        for (name, values) in OF_CHAINS.into_iter().zip([&of.log_p, &of.energy, &of.energy_change]) {
            store.array(STATS, name, &["chain", "draw"], &[chains, each], zarr::ZarrValues::Float(values));
        }
        let diverged = zarr::ZarrValues::Bool(&of.diverged);
        store.array(STATS, DIVERGING, &["chain", "draw"], &[chains, each], diverged);
    }
    if let Some((rows, values)) = log_likelihood {
        let n = values.len() / rows;
        group(&mut store, "log_likelihood", (1, n));
        store.array(
            "log_likelihood",
            "outcome",
            &["chain", "draw", "row"],
            &[1, n, *rows],
            zarr::ZarrValues::Float(values),
        );
    }
    store
}

/// The group beside the draws; in it, which of the chains each draw is from and from which iteration, and what else is known.
const STATS: &str = "sample_stats";
const WALKER: &str = "walker";
const ITERATION: &str = "iteration";
const DIVERGING: &str = "diverging";
const OF_CHAINS: [&str; 3] = ["lp", "energy", "energy_change"];

/// Reads the draws that a fit has stored.
pub fn read_draws(store: &Path, report: &Report) -> Result<Draws, Error> {
    let names: Vec<String> = report.parameters.iter().map(|parameter| parameter.name.clone()).collect();
    let mut folders = zarr::folders(store, "posterior")?;
    let mut shaped = ShapedVariables::new(store);
    let mut column = |name: &String| -> Result<Vec<f64>, Error> {
        // Coordinates, too, have their names.
        let own = |folder: &String| !zarr::COORDINATES.contains(&folder.as_str());
        if !folders.contains_key(name)
            && let Some(values) = shaped.part(name, &folders)
        {
            return Ok(values);
        }
        let known = folders.get_mut(name).and_then(|all| Some(all.remove(all.iter().position(own)?)));
        let folder = known.unwrap_or_else(|| zarr::first_file_name(name));
        Ok(zarr::read_array(store, "posterior", &folder)?.1)
    };
    // Earlier versions stored any number of parameters in arrays of their own.
    let together = match names.len() > MOST_ARRAYS && store.join("posterior").join(TOGETHER).is_dir() {
        true => Some(zarr::read_array(store, "posterior", TOGETHER)?),
        false => None,
    };
    let values: Vec<f64> = match together {
        Some((shape, values)) if shape.len() == 3 && shape[2] == names.len() => values,
        _ => {
            let columns: Vec<Vec<f64>> = names.iter().map(&mut column).collect::<Result<_, Error>>()?;
            let n = columns.iter().map(Vec::len).min().unwrap_or(0);
            (0..n).flat_map(|i| columns.iter().map(move |column| column[i])).collect()
        }
    };
    let n = values.len().checked_div(names.len()).unwrap_or(0);
    let component: Vec<usize> = zarr::read_whole(store, STATS, "component")?.into_iter().map(|k| k as usize).collect();
    let chains = read_chains(store)?.filter(|chains| chains.fits(n));
    Ok(Draws { names, values, component, chains })
}

/// Reads which chains the draws are from, if they are.
fn read_chains(store: &Path) -> Result<Option<DeliveredChains>, Error> {
    if !store.join(STATS).join(WALKER).is_dir() {
        return Ok(None);
    }
    let of = |name: &str| zarr::read_array(store, STATS, name);
    let [log_p, energy, energy_change] = OF_CHAINS.map(of);
    let (shape, log_p) = log_p?;
    let count = zarr::read_whole(store, STATS, WALKER)?.last().map_or(0, |last| *last as usize + 1);
    let iterations = zarr::read_whole(store, STATS, ITERATION)?;
    let every = iterations.get(1).map_or(1, |second| (*second as usize).max(1));
    let per_start = count.checked_div(shape.first().copied().unwrap_or(1)).unwrap_or(0);
    let (energy, energy_change) = (energy?.1, energy_change?.1);
    let diverged = zarr::read_flags(store, STATS, DIVERGING)?;
    Ok(Some(DeliveredChains { count, per_start, every, log_p, energy, energy_change, diverged }))
}
