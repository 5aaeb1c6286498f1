//! Chains from the draws of a mixture to draws with a certificate.
//!
//! 64 chains start in 8 groups, each at one draw of the widened mixture. They warm up in windows after each of which the metric
//! is estimated again from all of them, until that gains nothing, while the length of their steps follows the share of
//! accepted trajectories. Then iterations are kept, in rounds, until the [certificate](super::certificate) holds twice in a
//! row. If it does not for long, what was kept becomes one more window of the warm-up, and twice as many are tried.

use super::coordinates::Coordinates;
use super::draws::ChainDraws;
use super::earlier::Earlier;
use super::state::ChainState;
use super::walkers::{Group, Integrator, Moves};
use super::{Metric, Walkers};
use crate::error::Error;
use crate::evaluate::{Evaluator, Spent};
use crate::family::Mixture;
use crate::noise::{Noise, Purpose};
use crate::target::Target;

/// Chains, and how many of them start at one point.
pub(super) const CHAINS: usize = 64;
pub(super) const PER_START: usize = 8;
/// Groups of chains that start at one point each.
const GROUPS: usize = CHAINS / PER_START;
/// How much wider than the mixture the first points lie, so that chains which have forgotten them show that they have.
const WIDENED: f64 = 1.5;
/// First step, times the fourth root of the dimension.
const FIRST_STEP: f64 = 0.8;
/// Shortest and longest trajectory, as a share of their length.
const JITTER: (f64, f64) = (0.6, 1.4);
/// Where trajectories diverge, every so many iterations have steps that are shorter by a factor.
pub(super) const CAREFUL_EVERY: u64 = 8;
const CAREFUL: f64 = 0.25;
/// Most steps of a trajectory, and while warming up, when the metric may be poor.
const MOST_STEPS: usize = 128;
const WARMING_MOST_STEPS: usize = 16;
/// Share of accepted trajectories that steps aim at: their harmonic mean, so that chains which are stuck count.
const ACCEPTED: f64 = 0.65;
const LEAST_ACCEPTANCE: f64 = 0.05;
/// What is left of its distance from one where steps prove to be too long: in few dimensions, where narrow places are what is left
/// for chains, and in many.
const CLOSER: (f64, f64) = (0.3, 0.5);
/// Dimension up to which chains finish what many components could not fit, and are judged more strictly.
pub(crate) const FEW_DIMENSIONS: usize = 40;
/// Iterations per independent one, about, while warming up.
const CORRELATED: f64 = 3.0;

/// Where chains are, for those who watch them.
#[derive(Clone, Copy, Debug)]
pub struct ChainProgress {
    /// Iterations done, the warm-up included.
    pub iteration: u64,
    /// Iterations kept.
    pub kept: u64,
    /// Largest R-hat, once it is known.
    pub r_hat: f64,
}

/// Is told about every iteration, with all that it takes to resume the chains after it; says whether to go on.
pub(crate) type Watch<'a> = dyn FnMut(&ChainProgress, &ChainState, &dyn Evaluator) -> bool + 'a;

/// What chains are to do.
pub(crate) struct Plan<'a> {
    pub target: &'a dyn Target,
    /// Where they start, and in which metric.
    pub mixture: &'a Mixture,
    pub seed: u64,
    /// Most evaluations.
    pub most: u64,
    /// What other chains have come to before.
    pub earlier: &'a Earlier,
}

/// Chains that run.
pub(super) struct Run<'a, 'w> {
    pub target: &'a dyn Target,
    evaluator: &'a mut dyn Evaluator,
    watch: &'a mut Watch<'w>,
    pub stopped: bool,
    pub state: ChainState,
    /// What was spent before the chains, and evaluations at which to stop.
    began: Spent,
    limit: u64,
}

/// Runs chains until their certificate holds, their evaluations are used up, or `watch` says so. Takes and goes on
/// with those that an interrupted run has left, if they are those of this plan.
pub(crate) fn run(
    plan: &Plan<'_>,
    evaluator: &mut dyn Evaluator,
    watch: &mut Watch<'_>,
    from: &mut Option<ChainState>,
) -> Result<ChainDraws, Error> {
    let Plan { target, mixture, seed, most, earlier } = *plan;
    let began = evaluator.spent();
    let limit = began.evals.saturating_add(most);
    let state = match from.take_if(|state| state.seed == seed) {
        Some(state) => {
            evaluator.count(state.spent);
            state
        }
        None => {
            let points = first_points(evaluator, mixture, seed)?;
            let log_step = (FIRST_STEP * (mixture.dim() as f64).powf(-0.25)).ln();
            let walkers = Walkers::start(evaluator, points)?;
            ChainState::new(seed, walkers, Metric::of_mixture(mixture), (log_step, ACCEPTED), earlier.clone())
        }
    };
    let mut run = Run { target, evaluator, watch, stopped: false, state, began, limit };
    run.warm_up()?;
    run.keep()
}

/// One point for each group of chains; the mixture's mean where the density cannot be evaluated there.
fn first_points(evaluator: &mut dyn Evaluator, mixture: &Mixture, seed: u64) -> Result<Vec<f64>, Error> {
    let (d, mean) = (mixture.dim(), mixture.mean());
    let found = Walkers::start(evaluator, widened_draws(mixture, seed))?;
    let usable = |i: usize| found.log_p[i].is_finite() && found.grad[i * d..(i + 1) * d].iter().all(|g| g.is_finite());
    let each = (0..GROUPS).map(|i| if usable(i) { &found.z[i * d..(i + 1) * d] } else { &mean[..] });
    Ok(each.flat_map(|z| z.repeat(PER_START)).collect())
}

/// Draws of the widened mixture, one for each group of chains.
pub(super) fn widened_draws(mixture: &Mixture, seed: u64) -> Vec<f64> {
    let (d, mean) = (mixture.dim(), mixture.mean());
    let mut points = vec![0.0; GROUPS * d];
    mixture.draw(&mut points, seed, Purpose::Chains, 4);
    for z in points.chunks_exact_mut(d) {
        z.iter_mut().zip(&mean).for_each(|(z, m)| *z = m + WIDENED * (*z - m));
    }
    points
}

impl Run<'_, '_> {
    /// Tells who watches, when an iteration is complete.
    pub fn tell(&mut self) {
        self.state.spent = self.evaluator.spent().since(self.began);
        self.stopped |= !(self.watch)(&self.state.progress, &self.state, &*self.evaluator);
    }

    /// Shorter steps can enter what longer ones cannot: those of all iterations, and much shorter ones of some.
    pub fn shorten_steps(&mut self) {
        let closer = if self.state.walkers.d <= FEW_DIMENSIONS { CLOSER.0 } else { CLOSER.1 };
        self.state.accepted = 1.0 - closer * (1.0 - self.state.accepted);
        self.state.careful = true;
    }

    /// Whether this iteration has shorter steps than others.
    fn is_careful(&self) -> bool {
        self.state.careful && self.state.progress.iteration.is_multiple_of(CAREFUL_EVERY)
    }

    /// Which trajectories diverged for good: where some iterations have shorter steps, they go where others diverge.
    pub fn diverged<'m>(&self, moves: &'m Moves) -> impl Iterator<Item = bool> + 'm {
        let counts = !self.state.careful || self.is_careful();
        moves.diverged().map(move |diverged| counts && diverged)
    }

    pub fn is_over(&self) -> bool {
        self.stopped || self.evaluator.spent().evals >= self.limit
    }

    /// Takes coordinates and metric from draws; returns whether they have changed beyond the noise.
    pub fn adapt(&mut self, mut draws: Vec<f64>) -> Result<bool, Error> {
        let d = self.state.walkers.d;
        let effective = (draws.len() / d) as f64 / CORRELATED;
        // A log-concave density has no funnels: what looks like one is noise.
        let scales = match self.evaluator.is_log_concave() {
            true => None,
            false => Coordinates::of(&draws, d, effective, self.state.walkers.scales()),
        };
        let hierarchy = scales.as_ref().is_some_and(|found| found.scales().is_some());
        let new = scales.is_some() && self.state.walkers.scales().is_none();
        self.state.scaled |= hierarchy;
        // The narrow places of a funnel need shorter steps than most of it.
        self.state.careful |= hierarchy;
        self.state.walkers = self.state.walkers.clone().in_coordinates(self.evaluator, scales)?;
        self.state.walkers.to_coordinates(&mut draws);
        let (metric, changed) = self.state.metric.adapted(&draws, CHAINS, d);
        self.state.metric = metric;
        self.state.adapted = 0;
        Ok(changed || new)
    }

    /// One trajectory of every chain; while `warming` up, the step adapts.
    pub fn iterate(&mut self, length: f64, warming: bool) -> Result<Moves, Error> {
        self.state.progress.iteration += 1;
        let iteration = self.state.progress.iteration;
        let mut noise = Noise::new(self.state.seed, Purpose::Chains, 1, iteration, 1);
        let length = length * (JITTER.0 + (JITTER.1 - JITTER.0) * noise.uniform());
        let shorter = if self.is_careful() { CAREFUL } else { 1.0 };
        let (length, longest) = (shorter * length, shorter * self.state.log_step.exp());
        let left = self.limit.saturating_sub(self.evaluator.spent().evals) / CHAINS as u64;
        let most = if warming { WARMING_MOST_STEPS } else { MOST_STEPS };
        let most = most.min(usize::try_from(left).unwrap_or(most)).max(1);
        // Where places are narrow, and while it is not known yet whether some are, the most stable steps are the longest.
        let is_smooth = self.state.warm && !self.state.careful && self.state.walkers.d > FEW_DIMENSIONS;
        let integrator = if is_smooth && most >= 2 { Integrator::TwoStage } else { Integrator::Leapfrog };
        let steps = integrator.steps(length / longest, most);
        let step = (length / steps as f64).min(longest);
        let groups = [Group { metric: &self.state.metric, chains: 0..self.state.walkers.len(), step }];
        let key = (self.state.seed, Purpose::Chains, iteration);
        let moves = self.state.walkers.advance(self.evaluator, &groups, (integrator, steps), key)?;
        if warming && !self.is_careful() {
            self.state.adapted += 1;
            let inverse: f64 = moves.acceptance.iter().map(|a| 1.0 / a.max(LEAST_ACCEPTANCE)).sum();
            let harmonic = moves.acceptance.len() as f64 / inverse;
            self.state.log_step += (harmonic - self.state.accepted) / (self.state.adapted as f64).powf(0.4);
        } else if !warming {
            self.state.progress.kept += 1;
        }
        Ok(moves)
    }
}
