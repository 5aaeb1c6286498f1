//! The one loop: iterate, count, tell the observers, and stop at a limit or when the strategy has finished.

use super::checkpoint::Counts;
use super::observe::{Iteration, Observer, Searching, tell, tell_searching};
use super::stop::StopReason;
use crate::config::Config;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::strategy::{Progress, Strategy, Tools};
use crate::workspace::ScratchPool;
use std::ops::ControlFlow;
use std::time::Instant;

/// A run in progress.
pub(crate) struct Driver<'a, 'o> {
    pub strategy: Box<dyn Strategy>,
    pub evaluator: &'a mut dyn Evaluator,
    pub scratch: &'a ScratchPool,
    pub config: &'a Config,
    pub observers: &'a mut [&'o mut dyn Observer],
    /// What was done before, in the run that this one resumes.
    pub counts: Counts,
}

/// A run that has ended.
pub(crate) struct Ended {
    pub strategy: Box<dyn Strategy>,
    pub counts: Counts,
    pub reason: StopReason,
    /// What an observer failed with.
    pub observer_error: Option<Error>,
}

impl Driver<'_, '_> {
    /// Runs to the end.
    pub fn run(mut self) -> Result<Ended, Error> {
        let (clock, before) = (Instant::now(), self.counts.seconds);
        let seconds = || before + clock.elapsed().as_secs_f64();
        let (reason, observer_error) = loop {
            if let Some(reason) = self.limit_reached() {
                break (reason, None);
            }
            let progress = self.iterate(&seconds)?;
            self.counts.spent = self.evaluator.spent();
            self.counts.seconds = seconds();
            let Progress::Iterated { elbo, se } = progress else { continue };
            self.counts.iteration += 1;
            match self.tell(elbo, se) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break (StopReason::Cancelled, None),
                Err(error) => break (StopReason::ObserverFailed, Some(error)),
            }
        };
        Ok(Ended { strategy: self.strategy, counts: self.counts, reason, observer_error })
    }

    /// Whether a limit is reached, or there is nothing left to do.
    fn limit_reached(&self) -> Option<StopReason> {
        let (config, strategy) = (self.config, &self.strategy);
        let limits = || {
            if self.counts.iteration >= config.max_iterations {
                Some(StopReason::MaxIterations)
            } else if !self.evaluator.affords(strategy.next_cost()) {
                Some(strategy.reason_when_spent())
            } else if config.max_seconds.is_some_and(|most| self.counts.seconds >= most) {
                Some(StopReason::MaxSeconds)
            } else {
                None
            }
        };
        strategy.finished().or_else(limits)
    }

    fn iterate(&mut self, seconds: &dyn Fn() -> f64) -> Result<Progress, Error> {
        let (observers, max_seconds) = (&mut *self.observers, self.config.max_seconds);
        let mut go_on = |evaluator: &dyn Evaluator| {
            let searching = Searching { evals: evaluator.spent().evals, seconds: seconds() };
            let flow = tell_searching(observers, &searching);
            flow.is_continue() && max_seconds.is_none_or(|most| searching.seconds < most)
        };
        let iteration = self.counts.iteration;
        let mut tools = Tools { evaluator: &mut *self.evaluator, scratch: self.scratch, iteration, go_on: &mut go_on };
        self.strategy.iterate(&mut tools)
    }

    fn tell(&mut self, elbo: f64, elbo_se: f64) -> Result<ControlFlow<()>, Error> {
        let strategy = &*self.strategy;
        let iteration = Iteration {
            iteration: self.counts.iteration,
            evals: self.counts.spent.evals,
            dropped: self.counts.spent.dropped,
            seconds: self.counts.seconds,
            elbo,
            elbo_se,
            mixture: strategy.mixture(),
            steps: strategy.steps(),
            config: self.config,
            strategy,
        };
        tell(self.observers, &iteration)
    }
}

#[cfg(test)]
mod tests;
