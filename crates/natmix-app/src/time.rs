//! The time that `max_seconds` leaves for results: draws, summaries, figures of rows, files.
//!
//! Part of it is set aside before the fit. What follows the fit then keeps to what is left: it uses fewer draws. The clock only
//! ever shortens: where there is time enough, and where there is no limit, nothing depends on it.

use crate::record::MOST_ARRAYS;
use crate::summary::DRAWS;
use std::time::Instant;

/// How far past the limit a command may end: a share of it, or so many seconds, whichever is more. Less than is promised, since
/// durations are guesses.
const OVERTIME: (f64, f64) = (0.07, 0.35);
/// Largest share of the time that is set aside.
const LARGEST_SHARE: f64 = 0.3;
/// Fewest draws that are delivered.
const FEWEST_DRAWS: usize = 200;
/// Seconds to draw, summarise and store one number, for planning.
const PER_NUMBER: f64 = 1.5e-7;
/// Seconds to report one parameter, and to store an array of its own.
const PER_PARAMETER: f64 = 5e-5;
const PER_ARRAY: f64 = 3e-3;
/// Seconds for the page with its pictures, and for each parameter in them, up to a number.
const PAGE: f64 = 0.25;
const PER_PICTURED: f64 = 4e-4;
const MOST_PICTURED: usize = 1_000;
/// Seconds for the figures of one row per draw, without and for each feature.
const PER_ROW: (f64, f64) = (1.5e-6, 2e-9);
/// Draws that these figures usually use.
const ROW_DRAWS: f64 = 1_000.0;
/// Times as long as log likelihoods that all figures of the rows take.
const PASSES: f64 = 20.0;

/// When the results of a fit should be complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultsTime {
    began: Instant,
    max_seconds: Option<f64>,
    /// Seconds of the run that this one resumes.
    earlier: f64,
    parameters: usize,
    /// Whether files are written.
    files: bool,
}

impl ResultsTime {
    /// For a command that began at `began`.
    pub fn new(began: Instant, max_seconds: Option<f64>, parameters: usize, files: bool) -> Self {
        Self { began, max_seconds, earlier: 0.0, parameters, files }
    }

    /// The limit of a fit to `rows` rows of `features` numbers that is to begin now.
    pub fn of_fit(&self, rows: usize, features: usize) -> Option<f64> {
        let max = self.max_seconds?;
        let rows = if self.files { ROW_DRAWS * rows as f64 * (PER_ROW.0 + PER_ROW.1 * features as f64) } else { 0.0 };
        let results = self.fixed() + PER_NUMBER * (DRAWS * self.parameters) as f64 + rows;
        let passed = self.began.elapsed().as_secs_f64();
        Some((max - passed - results.min(LARGEST_SHARE * max)).max(0.1 * max))
    }

    /// After a fit that took `seconds` in all, with the runs that it resumed.
    pub fn after(mut self, seconds: f64) -> Self {
        self.earlier = (seconds - self.began.elapsed().as_secs_f64()).max(0.0);
        self
    }

    /// How many draws to deliver.
    pub fn draws(&self) -> usize {
        let Some(left) = self.left() else { return DRAWS };
        let affordable = (left - self.fixed()) / (PER_NUMBER * self.parameters.max(1) as f64);
        (affordable as usize).clamp(FEWEST_DRAWS, DRAWS)
    }

    /// How many draws to measure the rows with, if log likelihoods take `each` seconds per draw; no number if that is not limited.
    pub fn draws_for_rows(&self, each: f64) -> Option<usize> {
        Some(((self.left()? - self.fixed()).max(0.0) / (PASSES * each)) as usize)
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.max_seconds.is_some()
    }

    /// Seconds for what does not depend on the number of draws.
    fn fixed(&self) -> f64 {
        let arrays = if self.parameters <= MOST_ARRAYS { self.parameters } else { 0 };
        let page = PAGE + PER_PICTURED * self.parameters.min(MOST_PICTURED) as f64;
        let files = if self.files { page + PER_ARRAY * arrays as f64 } else { 0.0 };
        files + PER_PARAMETER * self.parameters as f64
    }

    fn left(&self) -> Option<f64> {
        let latest = |max: f64| max + (OVERTIME.0 * max).max(OVERTIME.1);
        self.max_seconds.map(|max| latest(max) - self.earlier - self.began.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(max_seconds: f64, parameters: usize) -> ResultsTime {
        ResultsTime::new(Instant::now(), Some(max_seconds), parameters, true)
    }

    #[test]
    fn time_is_set_aside_but_at_most_a_share() {
        assert!(time(100.0, 2).of_fit(0, 0).is_some_and(|fit| (99.0..100.0).contains(&fit)));
        assert!(time(100.0, 10_000).of_fit(0, 0).is_some_and(|fit| (92.0..94.0).contains(&fit)));
        assert!(time(100.0, 2).of_fit(100_000, 10).is_some_and(|fit| (69.0..=70.0).contains(&fit)));
    }

    #[test]
    fn draws_are_fewer_only_where_time_is_short() {
        assert_eq!(ResultsTime::new(Instant::now(), None, 1_000_000, true).after(1e9).draws(), DRAWS);
        assert_eq!(time(1_000.0, 10_000).after(900.0).draws(), DRAWS);
        assert_eq!(time(1_000.0, 10_000).after(2_000.0).draws(), FEWEST_DRAWS);
        assert!((1_000..3_000).contains(&time(1_000.0, 10_000).after(1_067.0).draws()));
        assert_eq!(time(1_000.0, 2).after(2_000.0).draws_for_rows(1.0), Some(0));
        assert!(time(1_000.0, 2).after(0.0).draws_for_rows(1.0).is_some_and(|draws| (40..60).contains(&draws)));
    }
}
