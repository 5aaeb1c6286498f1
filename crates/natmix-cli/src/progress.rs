//! A progress bar on standard error, hidden off a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use natmix::Error;
use natmix::observe::{Iteration, Observer, Searching};
use natmix_app::networks::train::Training;
use natmix_nets::train::Optimiser;
use natmix_nets::training::{EpochRow, Watch};
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// Shows ELBO, components, evaluations a second and time while a fit runs.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar; `quiet` hides it.
    pub fn new(quiet: bool, most_evals: Option<u64>) -> Self {
        let bar = match (quiet, most_evals) {
            (true, _) => ProgressBar::hidden(),
            (false, Some(most)) => ProgressBar::new(most),
            (false, None) => ProgressBar::new_spinner(),
        };
        let template = if most_evals.is_some() {
            "{bar:24} {pos}/{len} evaluations  {msg}  {elapsed}"
        } else {
            "{spinner} {pos} evaluations  {msg}  {elapsed}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Observer for Bar {
    fn searching(&mut self, searching: &Searching) -> ControlFlow<()> {
        self.0.set_position(searching.evals);
        self.0.set_message("looking for modes");
        ControlFlow::Continue(())
    }

    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.0.set_position(it.evals);
        let rate = it.evals as f64 / it.seconds.max(1e-9);
        self.0.set_message(format!(
            "ELBO {:.3} +- {:.3}  {} component{}  {rate:.0}/s",
            it.elbo,
            it.elbo_se,
            it.mixture.len(),
            if it.mixture.len() == 1 { "" } else { "s" },
        ));
        Ok(ControlFlow::Continue(()))
    }
}

/// Shows how training goes on, and writes a line an epoch to the trace.
pub struct EpochBar {
    bar: ProgressBar,
    trace: File,
    path: PathBuf,
    epochs: usize,
    /// Plain networks have no ELBO.
    plain: bool,
}

impl EpochBar {
    /// A bar; `quiet` hides it. `trace` is the open file at `path`.
    pub fn new(quiet: bool, training: &Training<'_>, trace: File, path: PathBuf) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(training.steps()) };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}  {elapsed} (left {eta})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, trace, path, epochs: training.config.epochs, plain: training.config.optimiser == Optimiser::Adam }
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watch for EpochBar {
    fn step(&mut self, iteration: u64) {
        self.bar.set_position(iteration);
    }

    fn epoch(&mut self, row: &EpochRow) -> Result<(), Error> {
        let validation = row.validation_nll.map_or(String::new(), |nll| format!("  validation {nll:.4}"));
        let elbo = if self.plain { String::new() } else { format!("  ELBO {:.0}", row.row.elbo) };
        let (epoch, nll) = (row.epoch, row.train_nll);
        self.bar.set_message(format!("epoch {epoch}/{}{elbo}  train {nll:.4}{validation}", self.epochs));
        let line = serde_json::to_string(row).map_err(std::io::Error::from);
        line.and_then(|line| writeln!(self.trace, "{line}"))
            .map_err(|source| Error::Io { file: self.path.display().to_string(), source })
    }
}
