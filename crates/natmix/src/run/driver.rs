//! The one loop: iterate, count, tell the observers, and stop at a limit or when the strategy has finished.

use super::checkpoint::{Beginning, Counts};
use super::observe::{Iteration, Observer, Searching, tell, tell_searching};
use super::stop::StopReason;
use super::time_left::IterationTime;
use crate::config::Config;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::strategy::{Progress, Strategy, Tools};
use crate::target::Target;
use crate::workspace::ScratchPool;
use std::ops::ControlFlow;
use std::time::Instant;

/// A run in progress.
pub(crate) struct Driver<'a, 'o> {
    pub target: &'a dyn Target,
    pub strategy: Box<dyn Strategy>,
    pub evaluator: &'a mut dyn Evaluator,
    pub scratch: &'a ScratchPool,
    pub config: &'a Config,
    pub observers: &'a mut [&'o mut dyn Observer],
    /// What was done before, in the run that this one resumes.
    pub counts: Counts,
    /// Whether that run had ended its iterations for want of time: then there is none now, whatever the pace.
    pub out_of_time: bool,
    pub beginning: &'a Beginning,
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
        let time = IterationTime::of(self.config, self.evaluator.dim());
        // Seconds per evaluation in the latest iteration.
        let mut pace = 0.0;
        let (reason, observer_error) = loop {
            if let Some(reason) = self.limit_reached(time, pace) {
                break (reason, None);
            }
            let (began, evals) = (self.counts.seconds, self.counts.spent.evals);
            let progress = self.iterate(&seconds, time, pace)?;
            self.counts.spent = self.evaluator.spent();
            self.counts.seconds = seconds();
            let Progress::Iterated { elbo, se } = progress else { continue };
            self.counts.iteration += 1;
            pace = (self.counts.seconds - began) / (self.counts.spent.evals - evals).max(1) as f64;
            match self.tell(elbo, se) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break (StopReason::Cancelled, None),
                Err(error) => break (StopReason::ObserverFailed, Some(error)),
            }
        };
        Ok(Ended { strategy: self.strategy, counts: self.counts, reason, observer_error })
    }

    /// Whether a limit is reached, or there is nothing left to do.
    fn limit_reached(&self, time: Option<IterationTime>, pace: f64) -> Option<StopReason> {
        let (config, strategy) = (self.config, &self.strategy);
        let limits = || {
            if self.counts.iteration >= config.max_iterations {
                Some(StopReason::MaxIterations)
            } else if !self.evaluator.affords(strategy.next_cost()) {
                Some(strategy.reason_when_spent())
            } else if time.is_some_and(|time| {
                let Counts { seconds, spent, .. } = self.counts;
                time.is_over(seconds, spent.evals) || time.would_be_late(seconds, pace * strategy.next_cost() as f64)
            }) {
                Some(StopReason::MaxSeconds)
            } else {
                self.out_of_time.then_some(StopReason::MaxSeconds)
            }
        };
        strategy.finished().or_else(limits)
    }

    fn iterate(
        &mut self,
        seconds: &dyn Fn() -> f64,
        time: Option<IterationTime>,
        pace: f64,
    ) -> Result<Progress, Error> {
        let observers = &mut *self.observers;
        let mut go_on = |evaluator: &dyn Evaluator| {
            let searching = Searching { evals: evaluator.spent().evals, seconds: seconds() };
            let flow = tell_searching(observers, &searching);
            flow.is_continue() && time.is_none_or(|time| !time.is_over(searching.seconds, searching.evals))
        };
        let iteration = self.counts.iteration;
        let has_time = |evals: u64| time.is_none_or(|time| !time.would_be_late(seconds(), pace * evals as f64));
        let mut tools = Tools {
            target: self.target,
            evaluator: &mut *self.evaluator,
            scratch: self.scratch,
            iteration,
            go_on: &mut go_on,
            has_time: &has_time,
        };
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
            beginning: self.beginning,
        };
        tell(self.observers, &iteration)
    }
}

#[cfg(test)]
mod tests;
