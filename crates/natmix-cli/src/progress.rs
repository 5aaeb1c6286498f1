//! A progress bar on standard error, shown only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use natmix::observe::{Finishing, Searching, TraceRow};
use natmix_app::FitWatch;
use natmix_app::networks::train::Training;
use natmix_nets::train::Optimiser;
use natmix_nets::training::EpochRow;
use std::time::Duration;

/// Shows the progress of a fit: ELBO, components, evaluations per second and time; for networks in training, their
/// epochs.
pub struct Bar {
    bar: ProgressBar,
    quiet: bool,
    epochs: usize,
    /// Plain networks have no ELBO.
    plain: bool,
}

impl Bar {
    /// A bar; `quiet` hides it.
    pub fn new(quiet: bool, most_evals: Option<u64>) -> Self {
        let bar = match (quiet, most_evals) {
            (true, _) => ProgressBar::hidden(),
            (false, Some(most)) => ProgressBar::new(most),
            (false, None) => ProgressBar::new_spinner(),
        };
        let bar = Self { bar, quiet, epochs: 0, plain: false };
        bar.style(match most_evals {
            Some(_) => "{bar:24} {pos}/{len} evaluations  {msg}  {elapsed}",
            None => "{spinner} {pos} evaluations  {msg}  {elapsed}",
        });
        bar
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    /// Removes the bar from the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl FitWatch for Bar {
    fn searching(&mut self, searching: &Searching) {
        self.bar.set_position(searching.evals);
        self.bar.set_message("searching for modes");
    }

    fn finishing(&mut self, finishing: &Finishing) {
        let Finishing { chains, evals, .. } = finishing;
        // They have a budget of their own.
        self.bar.set_length(self.bar.length().unwrap_or(0).max(*evals));
        self.bar.set_position(*evals);
        let r_hat = if chains.r_hat.is_nan() { String::new() } else { format!(", R-hat {:.3}", chains.r_hat) };
        self.bar.set_message(match chains.kept {
            0 => format!("chains: warm-up, iteration {}", chains.iteration),
            kept => format!("chains: {kept} iterations kept{r_hat}"),
        });
    }

    fn iteration(&mut self, row: &TraceRow) {
        self.bar.set_position(row.evals);
        let rate = row.evals as f64 / row.seconds.max(1e-9);
        self.bar.set_message(format!(
            "ELBO {:.3} +- {:.3}  {} component{}  {rate:.0}/s",
            row.elbo,
            row.se,
            row.components,
            if row.components == 1 { "" } else { "s" },
        ));
    }

    fn training(&mut self, training: &Training<'_>) {
        if !self.quiet {
            self.bar.finish_and_clear();
            self.bar = ProgressBar::new(training.steps());
            self.style("{bar:24} {msg}  {elapsed} (left {eta})");
        }
        (self.epochs, self.plain) = (training.config.epochs, training.config.optimiser == Optimiser::Adam);
    }

    fn step(&mut self, iteration: u64) {
        self.bar.set_position(iteration);
    }

    fn epoch(&mut self, row: &EpochRow) {
        let validation = row.validation_nll.map_or(String::new(), |nll| format!("  validation {nll:.4}"));
        let elbo = if self.plain { String::new() } else { format!("  ELBO {:.0}", row.row.elbo) };
        let (epoch, nll) = (row.epoch, row.train_nll);
        self.bar.set_message(format!("epoch {epoch}/{}{elbo}  train {nll:.4}{validation}", self.epochs));
    }
}
