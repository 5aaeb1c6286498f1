//! What comes next: components at missed points, splits, or the end.

use super::evaluate::LimitedEvaluator;
use super::{AutomaticStrategy, budget, fixed_components, grow, most_components};
use crate::error::Error;
use crate::run::history::History;
use crate::strategy::Tools;
use crate::strategy::start::spread_out;

impl AutomaticStrategy {
    /// Splits components, or begins to settle, if it is time after so many iterations.
    pub fn plan(&mut self, iteration: u64, tools: &mut Tools<'_>) -> Result<(), Error> {
        let (tolerance, budget) = (self.config.tolerance, budget(&self.config));
        let (fixed, tuning) = (fixed_components(&self.settings), &self.settings.tuning);
        let most = most_components(&self.config, &self.settings);
        let (evals, count) = (tools.evaluator.spent().evals, self.state.mixture.len());
        let (history, phase) = (&self.state.record.history, &self.state.phase);
        if phase.settling.is_some() {
            return Ok(());
        }
        let next: u64 = phase.counts.iter().map(|&n| n as u64).sum();
        let age = iteration.saturating_sub(phase.since);
        // More points for the last iterations, but not more than a share of the budget.
        let settling = tuning.settle_iterations * next;
        let affordable = budget.map_or(f64::INFINITY, |most| tuning.settle_share * most as f64 / settling as f64);
        let factor = (tuning.settle_total_factor / count).max(tuning.settle_min_factor);
        let fuller = factor.min(affordable as usize).max(1);
        // Where a budget was given, it is used as long as there is anything to gain beyond the noise.
        let strict = fixed == 0 && budget.is_some();
        let at_rest = if strict { history.at_rest(tolerance) } else { history.converged(tolerance) };
        let first = phase.stage == 0 && count != fixed;
        let enough = age >= tuning.stage_first_min && history.settled(tolerance);
        let over = first && (age >= tuning.stage_first_max || enough);
        if at_rest || over {
            if count > fixed {
                grow::merge(&mut self.state, tuning.merge_max_kl)?;
                grow::prune(&mut self.state, most, 0.0, tuning)?;
            }
            if fixed == 0 && self.add_missed(iteration, tools)? || self.split(iteration, evals)? {
                return Ok(());
            }
            self.forget_other_numbers();
            if at_rest || self.misfit() < tolerance {
                self.settle(fuller, true);
            }
        } else if budget.is_some_and(|most| evals + settling * fuller as u64 > most) {
            let rested = history.converged(tuning.settle_near_convergence * tolerance);
            if fixed > count && self.split(iteration, evals)? {
                return Ok(());
            }
            self.settle(fuller, rested);
        }
        Ok(())
    }

    /// The best mixture so far counts no more if it has another number of components than was asked for.
    fn forget_other_numbers(&mut self) {
        let fixed = fixed_components(&self.settings);
        if fixed > 0 && self.state.record.best.as_ref().is_some_and(|best| best.mixture.len() != fixed) {
            self.state.record.best = None;
        }
    }

    fn settle(&mut self, fuller: usize, rested: bool) {
        let iterations = self.settings.tuning.settle_iterations;
        let phase = &mut self.state.phase;
        (phase.settling, phase.fuller, phase.rested) = (Some(iterations), fuller, rested);
        phase.counts.iter_mut().for_each(|count| *count *= fuller);
    }

    /// Half the variance of the residual: for small misfits, what is still to gain.
    fn misfit(&self) -> f64 {
        let (weights, most) = (grow::lasting_weights(&self.state), self.settings.tuning.growth_max_variance);
        weights.iter().zip(&self.state.phase.spread).map(|(w, spread)| 0.5 * w * spread.min(most)).sum()
    }

    /// Splits components if there is something to gain and the budget allows it.
    fn split(&mut self, iteration: u64, evals: u64) -> Result<bool, Error> {
        let (count, fixed) = (self.state.mixture.len(), fixed_components(&self.settings));
        let tolerance = self.config.tolerance;
        let most = most_components(&self.config, &self.settings);
        let now = self.state.record.history.recent().map_or(f64::NEG_INFINITY, |(elbo, _)| elbo);
        let misfit = self.misfit();
        let tuning = &self.settings.tuning;
        let phase = &self.state.phase;
        let gained = now - phase.before > tuning.growth_min_gain * tolerance;
        let worthwhile =
            misfit >= tuning.growth_min_misfit * tolerance && (phase.stage < tuning.growth_free_stages || gained);
        if misfit.is_nan() || fixed == 0 && !worthwhile || fixed > 0 && count >= fixed {
            return Ok(false);
        }
        if 2 * count > most {
            // Little room is left: the lightest make some.
            grow::prune(&mut self.state, most, tuning.growth_prune_share * tolerance, tuning)?;
        }
        let count = self.state.mixture.len();
        let added = (tuning.growth_per_tolerance * misfit / tolerance).max(tuning.growth_min_added);
        let useful = count + added.min(most as f64) as usize;
        let wanted = match (fixed, budget(&self.config)) {
            (0, Some(budget)) => {
                let left = budget.saturating_sub(evals) / tuning.growth_planned_draws;
                let few = (left / tuning.growth_min_iterations).min(2 * count as u64);
                ((left / tuning.growth_iterations).max(few) as usize).min(useful)
            }
            (0, None) => (tuning.growth_factor * count).max(tuning.growth_min_components).min(useful),
            (fixed, _) => fixed,
        };
        let wanted = wanted.min(most);
        if !grow::grow(&mut self.state, &self.config, &self.settings, wanted)? {
            return Ok(false);
        }
        let phase = &mut self.state.phase;
        phase.stage += 1;
        phase.before = now;
        self.start_stage(iteration);
        self.forget_other_numbers();
        Ok(true)
    }

    /// The ELBO of another mixture says nothing about the gains of this one.
    fn start_stage(&mut self, iteration: u64) {
        self.state.phase.since = iteration;
        self.state.record.history = History::default();
    }

    /// Adds components where the mixture misses mass; returns whether there is any.
    fn add_missed(&mut self, iteration: u64, tools: &mut Tools<'_>) -> Result<bool, Error> {
        let Some((elbo, _)) = self.state.record.history.recent() else { return Ok(false) };
        let elbo = elbo.max(grow::reachable(&self.state));
        let (_, sd) = spread_out(&self.config, self.state.mixture.dim())?;
        let (most, tuning) = (most_components(&self.config, &self.settings), &self.settings.tuning);
        let phase = &mut self.state.phase;
        let next: u64 = phase.counts.iter().map(|&n| n as u64).sum();
        // So much must be left for what is added to find its shape.
        let needed = tuning.growth_min_iterations * next;
        let most_evals = budget(&self.config).map_or(u64::MAX, |most| most.saturating_sub(needed));
        if phase.search.log_concave
            || phase.rounds >= tuning.missed_max_rounds
            || self.state.mixture.len() >= most
            || tools.evaluator.spent().evals >= most_evals
        {
            return Ok(false);
        }
        let mut evaluator = LimitedEvaluator { most_evals, ..LimitedEvaluator::new(tools, &mut self.work.batch) };
        let mut missed =
            phase.witnesses.missed(&mut evaluator, &self.state.mixture, elbo, &sd, self.config.tolerance, tuning)?;
        missed.truncate(most - self.state.mixture.len());
        if missed.is_empty() {
            return Ok(false);
        }
        phase.rounds += 1;
        grow::add(&mut self.state, missed, tuning.growth_child_trust_region)?;
        self.start_stage(iteration);
        Ok(true)
    }
}
