//! What follows an iteration: components at missed points, a split, or the settling that ends a run.

use super::evaluate::LimitedEvaluator;
use super::{AutomaticStrategy, budget, fixed_components, grow, most_components};
use crate::error::Error;
use crate::run::history::History;
use crate::strategy::Tools;
use crate::strategy::start::spread_out;

/// A rough fit settles in this many times fewer iterations.
const ROUGHLY: u64 = 4;

impl AutomaticStrategy {
    /// Adds or splits components, or begins to settle, if it is time after `iteration` iterations.
    pub fn plan(&mut self, iteration: u64, tools: &mut Tools<'_>) -> Result<(), Error> {
        if self.state.phase.settling_left.is_some() {
            return Ok(());
        }
        let for_answer = self.is_for_answer() && fixed_components(&self.settings) == 0;
        if for_answer && self.look(iteration, tools)? {
            return Ok(());
        }
        let (tolerance, budget) = (self.config.tolerance, budget(&self.config));
        let (fixed, tuning) = (fixed_components(&self.settings), &self.settings.tuning);
        let most = most_components(&self.config, &self.settings);
        let (evals, count) = (tools.evaluator.spent().evals, self.state.mixture.len());
        let (history, phase) = (&self.state.record.history, &self.state.phase);
        let next: u64 = phase.draws.iter().map(|&n| n as u64).sum();
        let age = iteration.saturating_sub(phase.stage_start);
        // More points for the last iterations, but not more than a share of the budget.
        let settling_evals = tuning.settle_iterations * next;
        let affordable = budget.map_or(f64::INFINITY, |most| tuning.settle_share * most as f64 / settling_evals as f64);
        // A regression that needs many points has enough of them.
        let many = self.state.mixture.covariance_kind().regression_points() > 0;
        let factor = if many { 1 } else { tuning.draw_reuse_max_components / count }.max(tuning.settle_min_factor);
        let settling_factor = factor.min(affordable as usize).max(1);
        // A budget is used as long as a gain beyond the noise is expected.
        let strict = fixed == 0 && budget.is_some();
        let converged = if strict { history.surely_converged(tolerance) } else { history.converged(tolerance) };
        let first = phase.stage == 0 && count != fixed;
        // Which components to delete for a fixed number must be seen from weights that have converged.
        let cut = fixed > 0 && self.weight_beyond(fixed) > tuning.growth_min_misfit * tolerance;
        let rough = self.rough_gain();
        let enough = age >= tuning.stage_first_min && history.stopped_rising(tolerance.max(rough)) && !cut;
        let large = fixed == 0 && self.ends_with_one_gaussian(tools);
        // Noise must not pass for convergence where another stage does not follow.
        let quiet = !large || history.recent().is_some_and(|(_, se)| se <= tuning.one_gaussian_noise.max(rough));
        let over = first && (age >= tuning.stage_first_max && !large || enough && quiet);
        if large && (converged || over) && for_answer {
            // Chains are cheaper than components here; what they need is a metric.
            // In few dimensions points are cheap, and a Gaussian without their noise may hold by itself.
            let few = self.state.mixture.dim() < self.settings.tuning.one_gaussian_dim;
            self.settle(if few { settling_factor } else { 1 }, true);
            if rough > 0.0 {
                let left = &mut self.state.phase.settling_left;
                *left = left.map(|left| left / ROUGHLY);
            }
            return Ok(());
        }
        let spent = budget.is_some_and(|most| evals + settling_evals * settling_factor as u64 > most);
        if converged || over || cut && spent {
            if count > fixed {
                grow::merge(&mut self.state, tuning.merge_max_kl)?;
                if cut {
                    grow::keep_heaviest_modes(&mut self.state, fixed, tuning.search_same_distance)?;
                }
                grow::prune(&mut self.state, most, 0.0, tuning)?;
            }
            if cut && self.state.mixture.len() == fixed {
                // Those that are left converge anew.
                self.start_stage(iteration);
                self.discard_other_numbers();
                return Ok(());
            }
            if fixed == 0 && self.add_missed(iteration, tools)? || self.split(iteration, evals)? {
                return Ok(());
            }
            self.discard_other_numbers();
            if converged || self.misfit() < tolerance {
                self.settle(settling_factor, true);
            }
        } else if spent {
            let nearly = history.nearly_converged(tolerance);
            if fixed > count && self.split(iteration, evals)? {
                return Ok(());
            }
            self.settle(settling_factor, nearly);
        }
        Ok(())
    }

    /// The weight of all components but the `most` heaviest.
    fn weight_beyond(&self, most: usize) -> f64 {
        if self.state.mixture.len() <= most {
            return 0.0;
        }
        let mut weights = self.state.mixture.weights();
        weights.sort_by(|a, b| b.total_cmp(a));
        weights[most..].iter().sum()
    }

    /// Discards the best mixture so far if its number of components is not the one asked for.
    fn discard_other_numbers(&mut self) {
        let fixed = fixed_components(&self.settings);
        if fixed > 0 && self.state.record.best.as_ref().is_some_and(|best| best.mixture.len() != fixed) {
            self.state.record.best = None;
        }
    }

    pub(super) fn settle(&mut self, settling_factor: usize, converged: bool) {
        let iterations = self.settings.tuning.settle_iterations;
        let phase = &mut self.state.phase;
        (phase.settling_left, phase.settling_factor, phase.converged) = (Some(iterations), settling_factor, converged);
        phase.draws.iter_mut().for_each(|count| *count *= settling_factor);
    }

    /// Half the variance of the residual: for small misfits, the ELBO that is still to be gained.
    pub(super) fn misfit(&self) -> f64 {
        let (weights, most) = (grow::lasting_weights(&self.state), self.settings.tuning.growth_max_variance);
        weights.iter().zip(&self.state.phase.residual_variance).map(|(w, variance)| 0.5 * w * variance.min(most)).sum()
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
        let gained = now - phase.previous_elbo > tuning.growth_min_gain * tolerance;
        let worthwhile = misfit >= tuning.growth_min_misfit * tolerance && gained;
        if misfit.is_nan() || fixed == 0 && !worthwhile || fixed > 0 && count >= fixed {
            return Ok(false);
        }
        if 2 * count > most {
            // Deleting the lightest components makes room for others.
            grow::prune(&mut self.state, most, tuning.growth_min_misfit * tolerance, tuning)?;
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
            (0, None) => (tuning.growth_factor * count.max(tuning.growth_factor)).min(useful),
            (fixed, _) => fixed,
        };
        let wanted = wanted.min(most);
        if !grow::grow(&mut self.state, &self.config, &self.settings, wanted)? {
            return Ok(false);
        }
        let phase = &mut self.state.phase;
        phase.stage += 1;
        phase.previous_elbo = now;
        self.start_stage(iteration);
        self.discard_other_numbers();
        Ok(true)
    }

    /// Begins a stage. The ELBO history of another mixture does not predict the gains of this one.
    fn start_stage(&mut self, iteration: u64) {
        self.state.phase.stage_start = iteration;
        self.state.record.history = History::default();
    }

    /// Adds components where the mixture misses mass; returns whether there is any.
    pub(super) fn add_missed(&mut self, iteration: u64, tools: &mut Tools<'_>) -> Result<bool, Error> {
        let Some((elbo, _)) = self.state.record.history.recent() else { return Ok(false) };
        let elbo = elbo.max(grow::reachable_elbo(&self.state));
        let (_, sd) = spread_out(&self.config, self.state.mixture.dim())?;
        let (most, tuning) = (most_components(&self.config, &self.settings), &self.settings.tuning);
        let phase = &mut self.state.phase;
        let next: u64 = phase.draws.iter().map(|&n| n as u64).sum();
        // Evaluations that the new components need to find their shape.
        let needed = tuning.growth_min_iterations * next;
        let most_evals = budget(&self.config).map_or(u64::MAX, |most| most.saturating_sub(needed));
        if phase.search.log_concave
            || phase.missed_rounds >= tuning.missed_max_rounds
            || self.state.mixture.len() >= most
            || tools.evaluator.spent().evals >= most_evals
        {
            return Ok(false);
        }
        let mut evaluator = LimitedEvaluator { most_evals, ..LimitedEvaluator::new(tools, &mut self.work.batch) };
        let mut missed = phase.candidates.uncovered(
            &mut evaluator,
            &self.state.mixture,
            elbo,
            &sd,
            self.config.tolerance,
            tuning,
        )?;
        missed.truncate(most - self.state.mixture.len());
        if missed.is_empty() {
            return Ok(false);
        }
        phase.missed_rounds += 1;
        grow::add_components(&mut self.state, missed, tuning.growth_child_trust_region)?;
        self.start_stage(iteration);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
