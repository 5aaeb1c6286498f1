//! Looks: whether the run may stop because the answer holds, at doubling numbers of evaluations.

use super::AutomaticStrategy;
use super::moments::ComponentEstimate;
use crate::answer::look;
use crate::config::{Finish, Goal};
use crate::error::Error;
use crate::strategy::Tools;

/// Iterations of a stage after which its Gaussian can be seen to be exact: the ELBO of two is needed.
const EXACT_ITERATIONS: u64 = 2;

impl AutomaticStrategy {
    /// Whether the run is for an answer, which chains finish where the mixture does not hold.
    pub(super) fn is_for_answer(&self) -> bool {
        self.config.goal == Goal::Answer && self.config.finish != Finish::Never && self.config.diagnostic_draws > 0
    }

    /// Whether a run for an answer ends with the first Gaussian that has converged: chains are then cheaper than components.
    pub(super) fn ends_with_one_gaussian(&self, tools: &Tools<'_>) -> bool {
        let (d, tuning) = (self.state.mixture.dim(), &self.settings.tuning);
        d >= tuning.one_gaussian_dim
            || self.is_for_answer() && tools.evaluator.is_log_concave() && d >= tuning.one_gaussian_log_concave_dim
    }

    /// Gain over a few iterations below which a Gaussian that chains follow is good enough; zero if it must converge.
    pub(super) fn rough_gain(&self) -> f64 {
        let (d, tuning) = (self.state.mixture.dim(), &self.settings.tuning);
        if self.is_for_answer() { tuning.rough_gain * d.saturating_sub(tuning.rough_dim) as f64 } else { 0.0 }
    }

    /// Takes a look, if it is time for one after `iteration` iterations; returns whether that decides what follows: the run
    /// ends, or a new stage begins with components where the mixture missed mass.
    pub(super) fn look(&mut self, iteration: u64, tools: &mut Tools<'_>) -> Result<bool, Error> {
        let exact = self.is_exact(iteration);
        // In few dimensions draws are cheap, and may see what a handful of points did not.
        let without_draws = exact && self.ends_with_one_gaussian(tools);
        if !(without_draws || self.is_due(iteration, tools)) {
            return Ok(false);
        }
        if self.add_missed(iteration, tools)? {
            return Ok(true);
        }
        if !without_draws {
            let (seed, mixture) = (self.config.seed, &self.state.mixture);
            let holds = look::holds(tools.target, tools.evaluator, mixture, (seed, iteration), tools.scratch)?;
            self.state.phase.next_look = 2 * tools.evaluator.spent().evals;
            if !holds {
                return Ok(false);
            }
        }
        self.settle(1, true);
        let phase = &mut self.state.phase;
        phase.answer_holds = true;
        if exact {
            // Nothing is left to average over.
            phase.settling_left = Some(0);
        }
        Ok(true)
    }

    /// Whether one Gaussian has just been seen to be the density itself, at the points of the iteration.
    fn is_exact(&self, iteration: u64) -> bool {
        let tuning = &self.settings.tuning;
        let exact = |estimate: &ComponentEstimate| {
            estimate.moments.usable && estimate.residual_variance <= tuning.look_exact_variance
        };
        iteration >= self.state.phase.stage_start + EXACT_ITERATIONS
            && self.state.mixture.len() == 1
            && self.work.estimates.first().is_some_and(exact)
    }

    /// Whether draws should be spent on a look now.
    fn is_due(&self, iteration: u64, tools: &Tools<'_>) -> bool {
        let (phase, history, tuning) = (&self.state.phase, &self.state.record.history, &self.settings.tuning);
        let (draws, next) = (look::DRAWS as u64, phase.draws.iter().map(|&n| n as u64).sum::<u64>());
        // About twice the misfit with which a look succeeds: it is an estimate from few points.
        let most = if tools.evaluator.is_log_concave() { tuning.look_max_misfit } else { look::NEARLY_EXACT };
        tools.evaluator.spent().evals >= phase.next_look
            && iteration >= phase.stage_start + tuning.stage_first_min
            && !self.ends_with_one_gaussian(tools)
            && history.stopped_rising(self.config.tolerance)
            && self.misfit() <= most
            && tools.evaluator.affords(draws + tuning.settle_iterations * next)
            && (tools.has_time)(draws)
    }
}
