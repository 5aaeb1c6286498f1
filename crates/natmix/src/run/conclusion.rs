//! The end of a run: its result is chosen and measured with fresh draws.

use super::checkpoint::{Counts, State};
use super::driver::Ended;
use super::stop::{Stop, StopReason};
use super::time_left::TimeLeft;
use crate::answer::diagnose::{Diagnostics, Plan, WeightedDraws, diagnose_with};
use crate::config::Config;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::Mixture;
use crate::strategy::automatic::SearchSummary;
use crate::strategy::{Outcome, kind_of};
use crate::target::Target;
use crate::workspace::ScratchPool;
use std::time::Instant;

/// A finished fit.
#[derive(Debug)]
pub struct Fitted {
    /// The last mixture, unless an earlier one was better beyond the noise.
    pub mixture: Mixture,
    /// ELBO from the points of the last iterations, and its standard error. The diagnostics have a fresh one.
    pub running_elbo: (f64, f64),
    /// Measured with fresh draws, unless switched off.
    pub diagnostics: Option<Diagnostics>,
    /// The draws that the diagnostics were measured with, and their weights.
    pub weighted: Option<WeightedDraws>,
    /// Why the run ended.
    pub stop: Stop,
    /// Iterations done.
    pub iterations: u64,
    /// Points at which the target was evaluated, diagnostics not counted.
    pub evals: u64,
    /// Points at which it was evaluated for the diagnostics.
    pub diagnostic_evals: u64,
    /// Points that could not be used.
    pub dropped: u64,
    /// Seconds, diagnostics included.
    pub seconds: f64,
    /// The settings.
    pub config: Config,
    /// What an observer failed with; the result stands all the same.
    pub observer_error: Option<Error>,
    /// What the target failed with while the diagnostics were measured; the result stands all the same.
    pub diagnostics_error: Option<Error>,
    /// What the search for modes found, in an automatic run.
    pub search: Option<SearchSummary>,
    /// The state at the end, to resume from.
    pub state: State,
}

/// Chooses the mixture to return, and measures it.
pub(crate) fn conclude(
    ended: Ended,
    config: Config,
    target: &dyn Target,
    evaluator: &mut dyn Evaluator,
    (scratch, time): (&ScratchPool, &mut TimeLeft),
) -> Result<Fitted, Error> {
    let clock = Instant::now();
    let Ended { strategy, counts, reason, observer_error } = ended;
    let converged = reason == StopReason::Converged;
    let Outcome { mixture, running_elbo, search } = strategy.outcome();
    let (diagnostics, weighted, diagnostics_error) = match config.diagnostic_draws {
        0 => (None, None, None),
        n => {
            let plan = Plan::after_run(n, config.seed, counts.spent.evals, kind_of(&config).budget());
            match diagnose_with(target, evaluator, &mixture, plan, (scratch, time)) {
                Ok((mut diagnostics, weighted)) => {
                    if let Some(search) = &search {
                        diagnostics.verdict.add_search(search, mixture.len());
                    }
                    (Some(diagnostics), Some(weighted), None)
                }
                // The fit stands: hours of work must not be lost to one evaluation at the end.
                Err(error) => (None, None, Some(error)),
            }
        }
    };
    let state = State::of(&*strategy, counts, &config)?;
    let Counts { iteration: iterations, spent, seconds } = counts;
    Ok(Fitted {
        mixture,
        running_elbo,
        diagnostics,
        weighted,
        stop: Stop { reason, converged },
        iterations,
        evals: spent.evals,
        diagnostic_evals: 0,
        dropped: spent.dropped,
        seconds: seconds + clock.elapsed().as_secs_f64(),
        config,
        observer_error,
        diagnostics_error,
        search,
        state,
    })
}
