//! The automatic mixture: finds the modes, chooses the number of components, the steps and the draws, and stops.
//!
//! 1. **Search** (`search`): climbs from many starts, until new starts find no new modes. Each mode becomes a component
//!    with the curvature found there; the start distribution itself is one more.
//! 2. **Steps**: every iteration draws a few points from each component, uses all points for all components (`shared`),
//!    estimates moments by regression (`moments`), and moves every component within a KL bound of its own and the
//!    weights within theirs. A component for which the points of others are informative draws fewer itself.
//! 3. **Growth** (`stages`, `grow`): on convergence, components whose residual still varies are split, as far as the budget
//!    goes.
//!
//! The residual is `b = log p - log q`: constant where the mixture fits.
//!
//! Why so few points: a step is cheap to correct and costly to prepare. Ten points per component and many steps beat
//! hundreds of points and few steps on every target that we tried, because the regression is exact for what is quadratic
//! and the bounds average over the noise of the rest.

mod along;
mod ascent;
pub(crate) mod evaluate;
mod grow;
mod laplace;
mod looks;
mod missed;
mod moments;
mod search;
mod shared;
mod stages;
mod state;
mod tuning;
mod uncorrelated;

pub use search::SearchSummary;
pub use tuning::Tuning;

use super::record::Estimated;
use super::start::{check_start, precision_from_sd, spread_out};
use super::{Outcome, Progress, Strategy, StrategyKind, Tools, need_gradient};
use crate::config::{Automatic, Config};
use crate::error::Error;
use crate::evaluate::Batch;
use crate::family::{CovarianceKind, Gaussian, Mixture};
use crate::rule::{self, Skipped, StepInfo, trust_region};
use crate::run::stop::StopReason;
use crate::save::bundle::{Layout, Tensors};
use crate::target::{CurvatureShape, Target};
use crate::workspace::ScratchPool;
use along::BestPlaces;
use evaluate::LimitedEvaluator;
use moments::ComponentEstimate;
use rayon::prelude::*;
use search::{FoundMode, Search, StartFrom};
use serde_json::Value;
use shared::SharedPoints;
use state::{AutomaticState, StepMemory};

/// Evaluations where neither evaluations nor seconds are limited.
pub const DEFAULT_EVALS: u64 = 100_000;

/// Points that a component draws where the points of others are of no use to it.
fn unaided_draws(dim: usize, kind: CovarianceKind, tuning: &Tuning) -> usize {
    let more = (tuning.draw_per_dimension * dim as f64) as usize;
    match kind.curvature_shape() {
        CurvatureShape::Full => (tuning.draw_base + more).max(tuning.draw_min),
        // The regression is by coordinate, so the dimension does not matter.
        CurvatureShape::Diag => tuning.draw_min.max(kind.regression_points()),
    }
}

/// The budget of evaluations, if there is one.
fn budget(config: &Config) -> Option<u64> {
    config.max_evals.or(if config.max_seconds.is_none() { Some(DEFAULT_EVALS) } else { None })
}

/// The number of components that was asked for; zero if it is to be found.
fn fixed_components(settings: &Automatic) -> usize {
    settings.components.given().unwrap_or(0)
}

/// Most components that the settings allow.
fn most_components(config: &Config, settings: &Automatic) -> usize {
    let Tuning { max_components: most, max_components_evals: evals, .. } = *settings.tuning;
    let affordable = (budget(config).unwrap_or(0) / evals) as usize;
    match fixed_components(settings) {
        0 => affordable.clamp(most, 2 * most),
        fixed => fixed,
    }
}

/// The `most` heaviest components of `mixture`: a run may end before it has reduced the modes to that number.
fn heaviest(mixture: &Mixture, most: usize) -> Mixture {
    let weights = mixture.weights();
    let mut order: Vec<usize> = (0..mixture.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    order.truncate(most);
    order.sort_unstable();
    let kept: Vec<f64> = order.iter().map(|&k| weights[k]).collect();
    let ids = order.iter().map(|&k| mixture.ids()[k]).collect();
    let components = order.iter().map(|&k| mixture.components()[k].clone()).collect();
    Mixture::new(&kept, components).map_or_else(|_| mixture.clone(), |heaviest| heaviest.with_ids(ids))
}

/// The automatic method with the settings of a run.
pub(crate) struct AutomaticKind<'a> {
    pub config: &'a Config,
    pub settings: &'a Automatic,
}

impl StrategyKind for AutomaticKind<'_> {
    fn name(&self) -> &'static str {
        "automatic"
    }

    fn check(&self, target: &dyn Target) -> Result<(), Error> {
        need_gradient(target)
    }

    fn budget(&self) -> Option<u64> {
        budget(self.config)
    }

    fn begin(&self, dim: usize, start: Option<Mixture>) -> Result<Box<dyn Strategy>, Error> {
        let config = self.config;
        let searched = start.is_some();
        let mixture = match start {
            Some(mixture) => {
                check_start(&mixture, config, dim, None)?;
                mixture
            }
            // Until the search is done.
            None => Mixture::single(start_component(config, dim)?),
        };
        let state = first_state(mixture, SearchSummary::default(), self.settings);
        Ok(Box::new(AutomaticStrategy::new(self, state, searched)))
    }

    fn layout(&self, document: &Value) -> Result<Layout, String> {
        state::layout(self.config, document)
    }

    fn load(&self, document: &Value, tensors: Tensors) -> Result<Box<dyn Strategy>, String> {
        // A run is saved after an iteration, so after its search.
        Ok(Box::new(AutomaticStrategy::new(self, state::load(document, tensors)?, true)))
    }
}

/// A state around a first mixture.
fn first_state(mixture: Mixture, search: SearchSummary, settings: &Automatic) -> AutomaticState {
    let draws = unaided_draws(mixture.dim(), mixture.covariance_kind(), &settings.tuning);
    AutomaticState::new(mixture, search, settings.trust_region, draws)
}

/// The start distribution as a component.
fn start_component(config: &Config, dim: usize) -> Result<Gaussian, Error> {
    let (centre, sd) = spread_out(config, dim)?;
    Ok(Gaussian::new(centre, precision_from_sd(&sd, config.covariance)?))
}

/// An automatic run.
#[derive(Debug)]
pub(crate) struct AutomaticStrategy {
    config: Config,
    settings: Automatic,
    state: AutomaticState,
    /// Whether modes have been searched for, or need not be.
    searched: bool,
    work: IterationBuffers,
}

/// Buffers of an iteration.
#[derive(Debug, Default)]
struct IterationBuffers {
    batch: Batch,
    shared: SharedPoints,
    estimates: Vec<ComponentEstimate>,
    steps: Vec<StepInfo>,
    values: Vec<f64>,
    new_weights: Vec<f64>,
}

impl AutomaticStrategy {
    fn new(kind: &AutomaticKind<'_>, state: AutomaticState, searched: bool) -> Self {
        let (config, settings) = (kind.config.clone(), kind.settings.clone());
        Self { config, settings, state, searched, work: IterationBuffers::default() }
    }

    /// Searches for modes and makes a mixture of them.
    fn search(&mut self, tools: &mut Tools<'_>) -> Result<(), Error> {
        let newton = self.is_for_answer();
        let (config, tuning) = (&self.config, &self.settings.tuning);
        let (centre, sd) = spread_out(config, tools.evaluator.dim())?;
        let budget = budget(config);
        let large = centre.len() >= tuning.one_gaussian_dim;
        let share = match large {
            true => tuning.search_share * (tuning.one_gaussian_dim as f64 / centre.len() as f64).powi(2),
            false => tuning.search_share,
        };
        let share = share.max(tuning.search_min_share);
        let limit = (share * budget.unwrap_or(DEFAULT_EVALS) as f64) as u64;
        let most_evals = budget.unwrap_or(u64::MAX);
        let mut evaluator =
            LimitedEvaluator { limit, most_evals, ..LimitedEvaluator::new(tools, &mut self.work.batch) };
        let most = most_components(config, &self.settings);
        let from = StartFrom { centre: &centre, sd: &sd, seed: config.seed };
        let mut search = Search::run(&mut evaluator, from, config.covariance, tuning)?;
        let BestPlaces { best: best_place, early } = std::mem::take(&mut search.places);
        let summary = search.summary();
        let mut modes: Vec<&FoundMode> = search.modes.iter().collect();
        modes.sort_by(|a, b| b.log_mass().total_cmp(&a.log_mass()));
        let heaviest = modes.first().map_or(0.0, |mode| mode.log_mass());
        modes.retain(|mode| mode.log_mass() - heaviest > tuning.search_min_log_mass);
        if large {
            modes.truncate(summary.heavy_modes as usize);
        }
        modes.truncate(most.max(1).max(tuning.max_components.min(modes.len())));
        let mut components: Vec<Gaussian> = modes.iter().map(|mode| mode.gaussian.clone()).collect();
        let mut masses: Vec<f64> = modes.iter().map(|mode| (mode.log_mass() - heaviest).exp()).collect();
        if let (Some(best), true) = (best_place, components.len() < 2) {
            let (about, with) = ((&sd[..], config.covariance, config.seed), (&**tuning, newton));
            if let Some(best) = along::best_gaussian(&mut evaluator, best, &components, about, with)? {
                (components, masses) = (vec![best], vec![1.0]);
            }
        } else if !(summary.log_concave || search.is_gaussian(tuning)) || components.is_empty() {
            // The start distribution as well, in case the modes are narrow peaks far from most of the mass.
            components.push(start_component(config, centre.len())?);
            masses.push(tuning.start_weight * masses.iter().sum::<f64>().max(1.0));
        }
        self.state = first_state(Mixture::new(&masses, components)?, summary, &self.settings);
        // A single mode is covered by its component.
        let several = modes.len() > 1;
        let candidates = &mut self.state.phase.candidates;
        modes.iter().filter(|_| several).for_each(|m| candidates.add_mode(m.gaussian.mean(), &m.grad, m.log_p));
        let searched = tools.evaluator.spent().evals;
        self.searched = true;
        // The curvature at the mode of a log-concave density is a good start, however wide.
        let one = self.state.mixture.len() == 1 && !self.state.phase.search.log_concave;
        if one {
            let early: Vec<Gaussian> = early.into_iter().map(|place| place.gaussian).collect();
            self.without_correlations(&early, tools)?;
        }
        if self.settings.drop_correlations && one {
            let full = self.state.mixture.components()[0].clone();
            self.without_correlations(&[full], tools)?;
        }
        if search.modes.is_empty() {
            self.state.record.without_points.points = searched;
        }
        Ok(())
    }

    /// Draws points and estimates the moments of every component; returns the ELBO and its standard error.
    fn estimate(&mut self, tools: &mut Tools<'_>) -> Result<(f64, f64), Error> {
        let (state, work, tuning) = (&mut self.state, &mut self.work, &self.settings.tuning);
        let (key, before) = ((self.config.seed, tools.iteration), tools.evaluator.spent().evals);
        let mut evaluator = LimitedEvaluator::new(tools, &mut work.batch);
        work.shared.draw(&mut evaluator, &state.mixture, &state.phase.draws, key, &state.phase.previous_points)?;
        let points = evaluator.evals() - before;
        work.shared.estimate(&state.mixture, &mut work.estimates, tools.scratch, tuning);
        let shared::ElboEstimate { elbo, se } = work.shared.elbo();
        state.record.enter(&state.mixture, Estimated { elbo, se, points, minibatch: false })?;
        let reachable_elbo = grow::reachable_elbo(state).max(elbo);
        state.phase.candidates.collect_from(&work.shared, reachable_elbo, tuning);
        if state.mixture.len() <= tuning.draw_reuse_max_components {
            work.shared.copy_new(&mut state.phase.previous_points);
        } else {
            state.phase.previous_points.clear();
        }
        Ok((elbo, se))
    }

    /// Returns to the best Gaussian met where the present one is far worse, with smaller steps: in many dimensions, a few
    /// points in the tails of a density that falls like the exponential of an exponential can mislead the regression.
    fn retreats(&mut self, elbo: f64) -> bool {
        let (state, tuning) = (&mut self.state, &self.settings.tuning);
        let alone = state.mixture.len() == 1 && state.mixture.dim() >= tuning.one_gaussian_dim;
        let Some(best) = state.record.best.as_ref().filter(|best| alone && best.mixture.len() == 1) else {
            return false;
        };
        if elbo >= best.elbo - tuning.retreat_nats - tuning.retreat_errors * best.se {
            return false;
        }
        state.mixture.copy_from(&best.mixture);
        state.phase.previous_points.clear();
        let memory = &mut state.step_memory[0];
        memory.bound = (memory.bound * tuning.retreat_shrink).max(trust_region::LEAST);
        memory.objective = f64::NAN;
        true
    }

    /// Moves every component and the weights; plans the next draws.
    fn update(&mut self, iteration: u64, scratch: &ScratchPool) {
        let count = self.state.mixture.len();
        let work = &mut self.work;
        let (estimates, tuning) = (&work.estimates, &self.settings.tuning);
        let most_draws = unaided_draws(self.state.mixture.dim(), self.state.mixture.covariance_kind(), tuning);
        let wanted_points = tuning.draw_effective_factor * most_draws;
        let phase = &mut self.state.phase;
        let settling = phase.settling_left.is_some();
        phase.settling_left = phase.settling_left.map(|left| left.saturating_sub(1));
        let weights = self.state.mixture.log_weights();
        for (k, estimate) in estimates[..count].iter().enumerate() {
            if !estimate.moments.usable {
                continue;
            }
            let mix = |old: f64, new: f64| if old.is_nan() { new } else { old + tuning.growth_smoothing * (new - old) };
            // Capped, so that an early, very bad fit is soon forgotten.
            phase.residual_variance[k] =
                mix(phase.residual_variance[k], estimate.residual_variance.min(tuning.growth_max_variance));
            phase.radial_share[k] = mix(phase.radial_share[k], estimate.radial_share);
            // Effective points from other components need not be drawn again.
            let borrowed = (estimate.ess - phase.draws[k] as f64).max(0.0)
                / if settling { phase.settling_factor as f64 } else { 1.0 };
            let base = wanted_points.saturating_sub(borrowed as usize).clamp(tuning.draw_min, most_draws);
            phase.draws[k] = if settling {
                // Towards the end the bias of few points matters more than their cost.
                base * phase.settling_factor
            } else if count > 1 {
                // A noisy value of a heavy component would make all weights noisy.
                let noise = weights[k].exp() * estimate.noise() / tuning.draw_noise_limit;
                base * (noise * noise).ceil().clamp(1.0, tuning.draw_noise_max_factor) as usize
            } else {
                base
            };
        }
        let (log_w, components) = self.state.mixture.parts_mut();
        work.steps.resize(count, StepInfo::default());
        let old_log_w = &*log_w;
        let tasks = components.par_iter_mut().zip(&mut self.state.step_memory).zip(&mut work.steps).enumerate();
        tasks.for_each(|(k, ((component, step_memory), info))| {
            let estimate = &estimates[k];
            *info = if estimate.moments.usable {
                advance(
                    component,
                    step_memory,
                    estimate,
                    old_log_w[k],
                    settling.then_some(tuning.settle_shrink),
                    scratch,
                )
            } else {
                StepInfo::skipped(Skipped::NoPoints)
            };
        });
        if count > 1 && iteration >= phase.stage_start + tuning.weight_wait {
            work.values.clear();
            work.values
                .extend(estimates[..count].iter().map(|v| if v.moments.usable { v.moments.value } else { f64::NAN }));
            let least = work.values.iter().copied().fold(f64::INFINITY, f64::min);
            // Where nothing can be evaluated there is no mass.
            work.values.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = least - 1.0);
            work.new_weights.resize(count, 0.0);
            let bound = if phase.stage == 0 { tuning.weight_trust_region_first } else { tuning.weight_trust_region };
            rule::weights::trust_region_step(log_w, &work.values, 1.0, bound, &mut work.new_weights);
        }
    }
}

impl Strategy for AutomaticStrategy {
    fn iterate(&mut self, tools: &mut Tools<'_>) -> Result<Progress, Error> {
        if !self.searched {
            self.search(tools)?;
            return Ok(Progress::Prepared);
        }
        let (elbo, se) = self.estimate(tools)?;
        if self.retreats(elbo) {
            return Ok(Progress::Iterated { elbo, se });
        }
        self.update(tools.iteration, tools.scratch);
        let done = tools.iteration + 1;
        if done > self.settings.tuning.stage_first_min && self.state.mixture.len() > fixed_components(&self.settings) {
            // Cheap, and a component without weight would go on drawing points.
            grow::prune(&mut self.state, usize::MAX, 0.0, &self.settings.tuning)?;
        }
        self.plan(done, tools)?;
        Ok(Progress::Iterated { elbo, se })
    }

    fn mixture(&self) -> &Mixture {
        &self.state.mixture
    }

    fn steps(&self) -> &[StepInfo] {
        &self.work.steps
    }

    fn next_cost(&self) -> u64 {
        // The search keeps to limits of its own.
        if self.searched { self.state.phase.draws.iter().map(|&n| n as u64).sum() } else { 0 }
    }

    fn finished(&self) -> Option<StopReason> {
        let settled = || (self.state.phase.settling_left == Some(0)).then(|| self.reason_when_spent());
        self.state.record.lost_support().or_else(settled)
    }

    fn reason_when_spent(&self) -> StopReason {
        match &self.state.phase {
            phase if phase.answer_holds => StopReason::AnswerHolds,
            phase if phase.converged => StopReason::Converged,
            _ => StopReason::MaxEvals,
        }
    }

    fn outcome(&self) -> Outcome {
        let (mixture, running_elbo) = self.state.record.choose(&self.state.mixture);
        let most = fixed_components(&self.settings);
        let mixture = if most > 0 && mixture.len() > most { heaviest(mixture, most) } else { mixture.clone() };
        Outcome { mixture, running_elbo, search: Some(self.state.phase.search.clone()) }
    }

    fn save(&self, tensors: &mut Tensors) -> Result<Value, Error> {
        state::save(&self.state, tensors)
    }
}

/// One component's step within its bound, which adapts, or shrinks by a factor at the end of a run.
fn advance(
    component: &mut Gaussian,
    step_memory: &mut StepMemory,
    estimate: &ComponentEstimate,
    log_w: f64,
    shrink: Option<f64>,
    scratch: &ScratchPool,
) -> StepInfo {
    let objective = estimate.moments.value + log_w;
    if let Some(shrink) = shrink {
        step_memory.bound = (step_memory.bound * shrink).max(trust_region::LEAST);
    } else if !step_memory.objective.is_nan() {
        step_memory.bound = trust_region::adapt(step_memory.bound, objective - step_memory.objective, estimate.noise());
    }
    step_memory.objective = objective;
    let (grad, hess) = (&estimate.moments.grad, &estimate.moments.hess);
    scratch.with(|scratch| trust_region::step(component, grad, hess, step_memory.bound, scratch))
}
