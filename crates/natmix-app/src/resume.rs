//! Resuming: what an interrupted or killed run left behind, and whether this run may continue it.

use crate::Error;
use crate::folder::OutputFolder;
use crate::networks::train::Training;
use crate::record::files;
use crate::settings::Settings;
use crate::trace::earlier_trace;
use natmix::checkpoint::Checkpoint;
use natmix::save::checksum::Checksum;
use natmix::{Config, Parts, State};
use natmix_nets::train::TrainState;
use natmix_nets::training::EpochRow;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a run that was killed or failed left in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftBehind {
    /// Nothing, or results that are complete, or another process is at work there.
    Nothing,
    /// It had begun, but not written a checkpoint.
    Start,
    /// A checkpoint.
    Checkpoint,
}

/// What an unfinished run left in a folder.
pub fn left_behind(dir: &Path) -> LeftBehind {
    let stage = dir.join(files::STAGE);
    match (stage.join(files::CHECKPOINT).exists(), stage.exists()) {
        (false, false) => LeftBehind::Nothing,
        _ if OutputFolder::is_open(dir) => LeftBehind::Nothing,
        (true, _) => LeftBehind::Checkpoint,
        (false, true) => LeftBehind::Start,
    }
}

/// The checkpoint to resume from: in the same folder, that of a killed run is newer than that of an interrupted one. `None`
/// after a run that was killed before its first checkpoint: it starts again.
pub(crate) fn checkpoint_in(dir: &Path) -> Result<Option<PathBuf>, Error> {
    let places = [dir.join(files::STAGE).join(files::CHECKPOINT), dir.join(files::CHECKPOINT)];
    match places.into_iter().find(|path| path.exists()) {
        Some(path) => Ok(Some(path)),
        None if dir.join(files::STAGE).exists() => Ok(None),
        None => {
            let place = dir.display();
            Err(Error::Invalid(format!("there is nothing to resume: no run was interrupted in {place}")))
        }
    }
}

/// The state to continue from, if it has one, and if settings and data are those of the interrupted run.
pub(crate) fn resume_from(settings: &Settings, config: &Config, data: Option<&str>) -> Result<Option<State>, Error> {
    let dir = settings.out();
    let Some(path) = checkpoint_in(dir)? else { return Ok(None) };
    let checkpoint = Checkpoint::load(&path)?;
    // Budgets and threads may change; settings that affect the iterations may not.
    let comparable = |config: &Config| Config {
        threads: 0,
        max_evals: None,
        max_seconds: None,
        max_iterations: 1,
        tolerance: 1.0,
        check: true,
        // Follows from the data.
        ..config.clone().with_parts(|parts| Parts { trust_region: 1.0, ..parts })
    };
    check_data(settings, checkpoint.state.data(), data)?;
    if comparable(&checkpoint.config) != comparable(config) {
        let place = dir.display();
        return Err(Error::Invalid(format!(
            "the interrupted run in {place} had different settings: give the same ones again, or start afresh without resuming"
        )));
    }
    Ok(Some(checkpoint.state))
}

/// The state of an interrupted training, and its epochs.
pub(crate) fn resume_training(
    out: &OutputFolder,
    settings: &Settings,
    training: &Training<'_>,
    data: Option<&str>,
) -> Result<Option<(TrainState, Vec<EpochRow>)>, Error> {
    let Some(path) = checkpoint_in(settings.out())? else { return Ok(None) };
    let state = training.load(&path)?;
    check_data(settings, state.data(), data)?;
    let best = out.staged(files::BEST);
    if !best.exists() && path != out.staged(files::CHECKPOINT) {
        // There is none without validation rows.
        let _ = fs::copy(out.path(files::BEST), best);
    }
    let mut rows: Vec<EpochRow> = earlier_trace(out);
    rows.retain(|row| row.row.iteration <= state.iteration());
    Ok(Some((state, rows)))
}

/// Refuses data that have changed since a checkpoint was written.
fn check_data(settings: &Settings, then: Option<&str>, now: Option<&str>) -> Result<(), Error> {
    let (Some(then), Some(now)) = (then, now) else { return Ok(()) };
    if then == now {
        return Ok(());
    }
    let program = settings.fit.program.as_deref().filter(|_| settings.fit.data.is_some());
    let data = data_of(settings).map_or_else(|| "the data".to_owned(), |path| path.display().to_string());
    let data = program.map_or_else(|| data.clone(), |program| format!("{} or {data}", program.display()));
    let place = settings.out().display();
    Err(Error::Invalid(format!(
        "{data} has changed since the run in {place} was interrupted: restore it, or start afresh without resuming"
    )))
}

/// The file or folder of the data.
fn data_of(settings: &Settings) -> Option<&Path> {
    settings.fit.data.as_deref().or(settings.fit.spec.as_deref()).or(settings.fit.program.as_deref())
}

/// Identifies the data of a fit by the bytes of their file, or of all files with images to train on. `None` for what cannot be
/// read twice, such as a pipe.
pub(crate) fn fingerprint(settings: &Settings) -> Option<String> {
    let path = data_of(settings)?;
    let mut files = vec![path.to_owned()];
    // A Stan program belongs to what is fitted like the data.
    files.extend(settings.fit.data.as_ref().and(settings.fit.program.clone()));
    if path.is_dir() {
        files = fs::read_dir(path).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("train")));
        files.sort();
    } else if let Ok(parts) = natmix_models::source::files(path) {
        files.splice(..1, parts);
    }
    let mut checksum = Checksum::default();
    let mut buffer = vec![0; 1 << 16];
    for file in files {
        if !fs::metadata(&file).ok()?.is_file() {
            return None;
        }
        let mut file = File::open(file).ok()?;
        loop {
            match file.read(&mut buffer).ok()? {
                0 => break,
                count => checksum.update(&buffer[..count]),
            }
        }
    }
    Some(checksum.text())
}
