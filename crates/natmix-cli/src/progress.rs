//! A progress bar on standard error, hidden off a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use natmix::observe::{Iteration, Observer, Searching};
use std::ops::ControlFlow;
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

    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, natmix::Error> {
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
