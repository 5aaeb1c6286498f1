//! The trace of a fit: kept in memory, passed to the watcher, and written to its file while the fit runs.

use crate::Error;
use crate::fit::FitWatch;
use crate::folder::{self, OutputFolder};
use crate::record::{files, read_rows};
use natmix::checkpoint::Checkpointer;
use natmix::observe::{ChainsUnderWay, Finishing, Iteration, Observer, Searching, TraceRow};
use natmix_nets::training::{EpochRow, EpochWatch};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{LineWriter, Write};
use std::ops::ControlFlow;

/// The trace file of a run, written line by line so that a checkpoint is never ahead of it.
pub(crate) struct TraceFile {
    file: LineWriter<File>,
    name: String,
}

impl TraceFile {
    /// Opens the file and writes the rows of the run that is resumed.
    pub fn open(out: &OutputFolder, earlier: &[impl Serialize]) -> Result<Self, Error> {
        let (path, name) = (out.staged(files::TRACE), out.path(files::TRACE).display().to_string());
        let lines: String =
            earlier.iter().filter_map(|row| serde_json::to_string(row).ok()).map(|line| line + "\n").collect();
        folder::write_whole(&path, |file| file.write_all(lines.as_bytes()))?;
        let file = fs::OpenOptions::new().append(true).open(&path).map_err(Error::io(format!("write {name}")))?;
        Ok(Self { file: LineWriter::new(file), name })
    }

    fn write(&mut self, row: &impl Serialize) -> Result<(), natmix::Error> {
        let line = serde_json::to_string(row).map_err(std::io::Error::from);
        line.and_then(|line| writeln!(self.file, "{line}"))
            .map_err(|source| natmix::Error::Io { file: self.name.clone(), source })
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(Error::io(format!("write {}", self.name)))
    }
}

/// Records the trace of a run of the engine, and its checkpoints: one whose trace cannot be written is never made.
pub(crate) struct IterationRecorder<'a> {
    pub file: Option<TraceFile>,
    pub rows: Vec<TraceRow>,
    pub checkpointer: Option<Checkpointer>,
    pub watch: &'a mut dyn FitWatch,
}

impl Observer for IterationRecorder<'_> {
    fn searching(&mut self, searching: &Searching) -> ControlFlow<()> {
        self.watch.searching(searching);
        ControlFlow::Continue(())
    }

    fn finishing(&mut self, finishing: &Finishing) -> ControlFlow<()> {
        self.watch.finishing(finishing);
        ControlFlow::Continue(())
    }

    fn chains_under_way(&mut self, chains: &ChainsUnderWay<'_>) -> Result<(), natmix::Error> {
        self.checkpointer.as_mut().map_or(Ok(()), |checkpointer| checkpointer.chains_under_way(chains))
    }

    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, natmix::Error> {
        let row = TraceRow::of(iteration);
        self.watch.iteration(&row);
        self.watch.mixture(iteration.mixture);
        if let Some(file) = &mut self.file {
            file.write(&row)?;
        }
        self.rows.push(row);
        self.checkpointer
            .as_mut()
            .map_or(Ok(ControlFlow::Continue(())), |checkpointer| checkpointer.iteration(iteration))
    }
}

/// Records the trace of a training run.
pub(crate) struct EpochRecorder<'a> {
    pub trace: Option<&'a mut TraceFile>,
    pub watch: &'a mut dyn FitWatch,
}

impl EpochWatch for EpochRecorder<'_> {
    fn step(&mut self, iteration: u64) {
        self.watch.step(iteration);
    }

    fn epoch(&mut self, row: &EpochRow) -> Result<(), natmix::Error> {
        self.watch.epoch(row);
        self.trace.as_mut().map_or(Ok(()), |trace| trace.write(row))
    }
}

/// Rows of the trace of an interrupted or killed run, up to an iteration.
pub(crate) fn earlier_rows(out: &OutputFolder, iteration: u64) -> Vec<TraceRow> {
    let mut rows: Vec<TraceRow> = earlier_trace(out);
    rows.retain(|row| row.iteration <= iteration);
    rows
}

pub(crate) fn earlier_trace<T: DeserializeOwned>(out: &OutputFolder) -> Vec<T> {
    let staged = out.staged(files::TRACE);
    let path = if staged.exists() { staged } else { out.path(files::TRACE) };
    read_rows(&fs::read_to_string(path).unwrap_or_default())
}
