//! What comes next: components at missed points, splits, or the end.

use super::evaluate::LimitedEvaluator;
use super::grow::{self, MOST_SPREAD};
use super::{AutomaticStrategy, FEW_COMPONENTS, FIRST_STAGE, SETTLING, budget, fixed_components, most_components};
use crate::error::Error;
use crate::run::history::History;
use crate::strategy::Tools;
use crate::strategy::start::spread_out;

/// Iterations that a split should have left: wanted, and fewest.
const ITERATIONS: u64 = 80;
const FEWEST_ITERATIONS: u64 = 30;
/// Points a component and iteration that plans count with.
const PLANNED_DRAWS: u64 = 11;
/// Share of the tolerance above which a misfit is worth a split: two modes that overlap and share one component cost little.
const GROW_AT: f64 = 0.25;
/// Fewest components that a split adds.
const LEAST_MORE: f64 = 3.0;
/// Components that a split may add for each tolerance of misfit.
const A_TOLERANCE: f64 = 4.0;
/// Share of the tolerance that may be lost by deleting light components to make room.
const SPENT: f64 = 0.25;
/// Times as many components after a split where no budget says how many.
const GROWTH: usize = 4;
const LEAST_GROWTH: usize = 16;
/// Share of the budget that the settling at the end may take: its iterations draw twice as many points where that allows it,
/// and more where there are few components.
const SETTLING_SHARE: f64 = 0.25;
/// Tolerances of expected gain at which a run counts as rested when its evaluations are spent.
const NEAR_REST: f64 = 5.0;
/// Rounds of components at missed points: each costs a stage.
const MOST_ROUNDS: u64 = 4;

impl AutomaticStrategy {
    /// Splits components, or begins to settle, if it is time after so many iterations.
    pub fn plan(&mut self, iteration: u64, tools: &mut Tools<'_>) -> Result<(), Error> {
        let (tolerance, fixed, budget) = (self.config.tolerance, fixed_components(&self.config), budget(&self.config));
        let most = most_components(&self.config);
        let (evals, count) = (tools.evaluator.spent().evals, self.state.mixture.len());
        let (history, phase) = (&self.state.record.history, &self.state.phase);
        if phase.settling.is_some() {
            return Ok(());
        }
        let next: u64 = phase.counts.iter().map(|&n| n as u64).sum();
        let age = iteration.saturating_sub(phase.since);
        // More points for the last iterations, but not more than a share of the budget.
        let affordable = budget.map_or(f64::INFINITY, |most| SETTLING_SHARE * most as f64 / (SETTLING * next) as f64);
        let fuller = (FEW_COMPONENTS / count).max(2).min(affordable as usize).max(1);
        // Where a budget was given, it is used as long as there is anything to gain beyond the noise.
        let strict = fixed == 0 && budget.is_some();
        let at_rest = if strict { history.at_rest(tolerance) } else { history.converged(tolerance) };
        let first = phase.stage == 0 && count != fixed;
        let over = first && (age >= FIRST_STAGE.1 || age >= FIRST_STAGE.0 && history.settled(tolerance));
        if at_rest || over {
            if count > fixed {
                grow::merge(&mut self.state)?;
                grow::prune(&mut self.state, most, 0.0)?;
            }
            if fixed == 0 && self.add_missed(iteration, tools)? || self.split(iteration, evals)? {
                return Ok(());
            }
            self.forget_other_numbers();
            if at_rest || self.misfit() < tolerance {
                self.settle(fuller, true);
            }
        } else if budget.is_some_and(|most| evals + SETTLING * next * fuller as u64 > most) {
            let rested = history.converged(NEAR_REST * tolerance);
            if fixed > count && self.split(iteration, evals)? {
                return Ok(());
            }
            self.settle(fuller, rested);
        }
        Ok(())
    }

    /// The best mixture so far counts no more if it has another number of components than was asked for.
    fn forget_other_numbers(&mut self) {
        let fixed = fixed_components(&self.config);
        if fixed > 0 && self.state.record.best.as_ref().is_some_and(|best| best.mixture.len() != fixed) {
            self.state.record.best = None;
        }
    }

    fn settle(&mut self, fuller: usize, rested: bool) {
        let phase = &mut self.state.phase;
        (phase.settling, phase.fuller, phase.rested) = (Some(SETTLING), fuller, rested);
        phase.counts.iter_mut().for_each(|count| *count *= fuller);
    }

    /// Half the variance of the residual: for small misfits, what is still to gain.
    fn misfit(&self) -> f64 {
        let weights = grow::lasting_weights(&self.state);
        weights.iter().zip(&self.state.phase.spread).map(|(w, spread)| 0.5 * w * spread.min(MOST_SPREAD)).sum()
    }

    /// Splits components if there is something to gain and the budget allows it.
    fn split(&mut self, iteration: u64, evals: u64) -> Result<bool, Error> {
        let (count, fixed) = (self.state.mixture.len(), fixed_components(&self.config));
        let tolerance = self.config.tolerance;
        let most = most_components(&self.config);
        let now = self.state.record.history.recent().map_or(f64::NEG_INFINITY, |(elbo, _)| elbo);
        let misfit = self.misfit();
        let phase = &mut self.state.phase;
        let worthwhile = phase.stage < 2 || now - phase.before > 2.0 * tolerance;
        if misfit.is_nan() || fixed == 0 && (misfit < GROW_AT * tolerance || !worthwhile) || fixed > 0 && count >= fixed
        {
            return Ok(false);
        }
        if 2 * count > most {
            // Little room is left: the lightest make some.
            grow::prune(&mut self.state, most, SPENT * tolerance)?;
        }
        let count = self.state.mixture.len();
        let useful = count + (A_TOLERANCE * misfit / tolerance).max(LEAST_MORE).min(most as f64) as usize;
        let wanted = match (fixed, budget(&self.config)) {
            (0, Some(budget)) => {
                let left = budget.saturating_sub(evals) / PLANNED_DRAWS;
                let few = (left / FEWEST_ITERATIONS).min(2 * count as u64);
                ((left / ITERATIONS).max(few) as usize).min(useful)
            }
            (0, None) => (GROWTH * count).max(LEAST_GROWTH).min(useful),
            (fixed, _) => fixed,
        };
        let wanted = wanted.min(most);
        if !grow::grow(&mut self.state, &self.config, wanted)? {
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
        let most = most_components(&self.config);
        let phase = &mut self.state.phase;
        let next: u64 = phase.counts.iter().map(|&n| n as u64).sum();
        // So much must be left for what is added to find its shape.
        let most_evals = budget(&self.config).map_or(u64::MAX, |most| most.saturating_sub(FEWEST_ITERATIONS * next));
        if phase.search.log_concave
            || phase.rounds >= MOST_ROUNDS
            || self.state.mixture.len() >= most
            || tools.evaluator.spent().evals >= most_evals
        {
            return Ok(false);
        }
        let mut evaluator = LimitedEvaluator { most_evals, ..LimitedEvaluator::new(tools, &mut self.work.batch) };
        let mut missed =
            phase.witnesses.missed(&mut evaluator, &self.state.mixture, elbo, &sd, self.config.tolerance)?;
        missed.truncate(most - self.state.mixture.len());
        if missed.is_empty() {
            return Ok(false);
        }
        phase.rounds += 1;
        grow::add(&mut self.state, missed)?;
        self.start_stage(iteration);
        Ok(true)
    }
}
