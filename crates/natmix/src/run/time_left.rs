//! The time that `max_seconds` leaves: iterations end early enough for the diagnostics, and these keep to what is left.
//!
//! The clock only ever shortens: where there is time enough, and where there is no limit, nothing depends on it.

use crate::config::Config;
use std::time::{Duration, Instant};

/// Largest share of the time that is set aside for the diagnostics.
const DIAGNOSTICS_SHARE: f64 = 0.15;
/// Seconds that judging takes per draw and dimension, for planning.
const JUDGING: f64 = 2e-7;
/// How far past the limit a run may end: a share of it, or so many seconds, whichever is more. Half of what is promised, since
/// durations are guesses.
const OVERTIME: (f64, f64) = (0.05, 0.25);
/// Times as long as an evaluation that the whole work around it is expected to take.
const CAUTION: f64 = 3.0;

/// Seconds after which a run should end at the latest.
fn latest(max_seconds: f64) -> f64 {
    max_seconds + (OVERTIME.0 * max_seconds).max(OVERTIME.1)
}

/// When the iterations of a run should end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IterationTime {
    max_seconds: f64,
    /// Draws of the diagnostics, and the dimension.
    draws: u64,
    dim: usize,
}

impl IterationTime {
    /// If the time is limited.
    pub fn of(config: &Config, dim: usize) -> Option<Self> {
        config.max_seconds.map(|max_seconds| Self { max_seconds, draws: config.diagnostic_draws as u64, dim })
    }

    /// Whether iterations should end after these seconds and evaluations.
    pub fn is_over(&self, seconds: f64, evals: u64) -> bool {
        let pace = if evals == 0 { f64::INFINITY } else { seconds / evals as f64 };
        let diagnostics = match self.draws {
            0 => 0.0,
            draws => draws as f64 * (pace + JUDGING * self.dim as f64),
        };
        seconds >= self.max_seconds - diagnostics.min(DIAGNOSTICS_SHARE * self.max_seconds)
    }

    /// Whether an iteration that takes `next` seconds would end too late.
    pub fn would_be_late(&self, seconds: f64, next: f64) -> bool {
        seconds + next > latest(self.max_seconds)
    }
}

/// The time left for what follows the iterations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeLeft {
    until: Option<Instant>,
    /// Seconds per evaluation, once known.
    per_eval: f64,
}

impl TimeLeft {
    /// For a run of which `done` seconds have passed.
    pub fn of(config: &Config, done: f64) -> Self {
        let left = |most: f64| Duration::try_from_secs_f64((latest(most) - done).max(0.0)).ok();
        let until = config.max_seconds.and_then(left).and_then(|left| Instant::now().checked_add(left));
        Self { until, per_eval: 0.0 }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.until.is_some()
    }

    /// Learns from `evals` evaluations since `began` how long one takes.
    pub fn learn(&mut self, evals: usize, began: Instant) {
        self.per_eval = began.elapsed().as_secs_f64() / evals.max(1) as f64;
    }

    /// Whether there is time for `evals` evaluations, with what follows from them.
    pub fn allows(&self, evals: usize) -> bool {
        self.seconds().is_none_or(|left| CAUTION * evals as f64 * self.per_eval <= left)
    }

    /// How many draws can be evaluated and then judged, at `judging` seconds for each; no number if that is not limited. A
    /// third of the time is left for other examinations.
    pub fn draws(&self, judging: f64) -> Option<usize> {
        self.seconds().map(|left| (left / (1.5 * (self.per_eval + judging))) as usize)
    }

    fn seconds(&self) -> Option<f64> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(max_seconds: f64) -> Config {
        Config { max_seconds: Some(max_seconds), diagnostic_draws: 4000, ..Config::default() }
    }

    #[test]
    fn iterations_leave_time_for_the_diagnostics_but_at_most_a_share() {
        assert!(IterationTime::of(&Config::default(), 2).is_none());
        let time = |dim| IterationTime::of(&limited(100.0), dim).unwrap();
        // A microsecond per evaluation: four milliseconds.
        assert!(!time(2).is_over(99.9, 99_900_000) && time(2).is_over(99.998, 99_998_000));
        // Four seconds of judging.
        assert!(!time(5000).is_over(95.0, 95_000_000) && time(5000).is_over(96.1, 96_100_000));
        assert!(!time(2).is_over(84.9, 10) && time(2).is_over(85.0, 10));
        assert!(time(2).would_be_late(80.0, 26.0) && !time(2).would_be_late(80.0, 24.0));
    }

    #[test]
    fn what_follows_is_allowed_while_there_is_time() {
        let unlimited = TimeLeft::of(&Config::default(), 1e9);
        assert!(unlimited.allows(usize::MAX) && unlimited.draws(1.0).is_none());
        let spent = TimeLeft { per_eval: 1e-3, ..TimeLeft::of(&limited(1.0), 9.0) };
        assert!(!spent.allows(1) && spent.draws(0.0) == Some(0));
        let early = TimeLeft { per_eval: 1.0, ..TimeLeft::of(&limited(3000.0), 0.0) };
        assert!(early.allows(900) && !early.allows(1100));
        assert!(early.draws(0.0).is_some_and(|n| (2000..=2100).contains(&n)));
        assert!(early.draws(1.0).is_some_and(|n| (1000..=1050).contains(&n)));
    }
}
