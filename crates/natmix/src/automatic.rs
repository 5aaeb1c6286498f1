//! The automatic mixture: finds the modes, chooses the number of components, the steps and the draws, and stops.
//!
//! 1. **Search** (`search`): climbs from many starts, until new starts find no new modes. Each mode becomes a component
//!    with the curvature found there; the start distribution itself is one more.
//! 2. **Steps**: every iteration draws a few points of each component, lets all points serve all components (`shared`),
//!    estimates moments by regression (`moments`), and moves every component within a KL bound of its own and the
//!    weights within theirs. A component that others serve well draws less itself.
//! 3. **Growth** (`grow`): at rest, components whose residual still varies are split, as far as the budget goes.
//!
//! Why so few points: a step is cheap to correct and costly to prepare. Ten points a component and many steps beat
//! hundreds of points and few steps on every target that we tried, because the regression is exact for what is quadratic
//! and the bounds average over the noise of the rest.

mod ascent;
mod evaluate;
mod grow;
mod laplace;
mod missed;
mod moments;
mod search;
mod shared;
mod stages;
mod tuning;

pub(crate) use missed::Witnesses;
pub use search::SearchSummary;
pub use tuning::Tuning;

use crate::config::Config;
use crate::error::Error;
use crate::estimate::ScratchPool;
use crate::family::{Gaussian, Mixture};
use crate::observe::{Iteration, Observer, Searching, tell};
use crate::rule::{self, Skipped, StepInfo, trust_region};
use crate::run::{Fitted, MOST_BARREN, conclude};
use crate::state::{Carried, State, precision_from_sd, spread_out};
use crate::stop::StopReason;
use crate::target::{Shape, Target};
use evaluate::Evaluator;
use moments::View;
use rayon::prelude::*;
use search::{Found, Search, StartFrom};
pub(crate) use shared::Kept;
use shared::Shared;
use std::ops::ControlFlow;
use std::time::Instant;

/// Evaluations where neither evaluations nor seconds are limited.
pub const DEFAULT_EVALS: u64 = 100_000;
/// Where an automatic run stands, beyond what every run carries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    pub search: SearchSummary,
    /// Splits done.
    pub stage: u64,
    /// Iterations done when the stage began.
    pub since: u64,
    /// ELBO with which the previous stage ended.
    pub before: f64,
    /// Iterations of settling that are left; none while there is still something to gain.
    pub settling: Option<u64>,
    /// Times as many points that are drawn while it settles.
    pub fuller: usize,
    /// Whether the run had come to rest when the settling began.
    pub rested: bool,
    pub next_id: u64,
    /// Points that each component draws next.
    pub counts: Vec<usize>,
    /// Running means of the residual's variance under each component, and of the share that goes with the distance.
    pub spread: Vec<f64>,
    pub radial: Vec<f64>,
    /// Rounds of components that were added where the mixture missed mass, and the points that tell where it may.
    pub rounds: u64,
    pub witnesses: Witnesses,
    /// Points of the iteration before, for use with those of the next.
    pub kept: Kept,
}

impl Phase {
    fn new(search: SearchSummary, count: usize, draws: usize) -> Self {
        Self {
            search,
            stage: 0,
            since: 0,
            before: f64::NEG_INFINITY,
            settling: None,
            fuller: 1,
            rested: false,
            next_id: count as u64,
            counts: vec![draws; count],
            spread: vec![f64::NAN; count],
            radial: vec![0.0; count],
            rounds: 0,
            witnesses: Witnesses::default(),
            kept: Kept::default(),
        }
    }
}

/// Points of a component that no other serves.
fn own_draws(dim: usize, shape: Shape, tuning: &Tuning) -> usize {
    let draws = match shape {
        Shape::Full => tuning.draw_base + (tuning.draw_per_dimension * dim as f64) as usize,
        Shape::Diag => tuning.draw_diagonal,
    };
    draws.max(tuning.draw_min)
}

/// The budget of evaluations, if there is one.
fn budget(config: &Config) -> Option<u64> {
    config.max_evals.or(if config.max_seconds.is_none() { Some(DEFAULT_EVALS) } else { None })
}

/// Most components that `config` allows.
fn most_components(config: &Config) -> usize {
    let most = config.tuning.max_components;
    let affordable = (budget(config).unwrap_or(0) / config.tuning.max_components_evals) as usize;
    if config.components == 0 { affordable.clamp(most, 2 * most) } else { config.components }
}

/// The `most` heaviest components of `mixture`: a run may end before it has come to choose between the modes.
pub(crate) fn at_most(mixture: &Mixture, most: usize) -> Mixture {
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

/// Runs; `start` is a mixture to begin with in place of a search, or a state to go on from.
pub(crate) fn run(
    target: &dyn Target,
    config: Config,
    start: Result<Option<Mixture>, Box<State>>,
    threads: usize,
    mut observers: Vec<&mut dyn Observer>,
) -> Result<Fitted, Error> {
    let clock = Instant::now();
    let scratch = ScratchPool::new(threads);
    let state = match start {
        Err(state) => *state,
        Ok(Some(mixture)) => begin(mixture, SearchSummary::default(), &config),
        Ok(None) => first_state(target, &config, &scratch, &mut observers, &clock)?,
    };
    Runner {
        target,
        scratch,
        shared: Shared::default(),
        views: Vec::new(),
        steps: Vec::new(),
        values: Vec::new(),
        new_weights: Vec::new(),
        before: state.seconds,
        clock,
        config,
        state,
    }
    .run(observers)
}

/// A state around a first mixture.
fn begin(mixture: Mixture, search: SearchSummary, config: &Config) -> State {
    let count = mixture.len();
    let draws = own_draws(mixture.dim(), mixture.shape(), &config.tuning);
    let mut state = State::new(mixture, config);
    state.automatic = Some(Phase::new(search, count, draws));
    state
}

/// Searches for modes and makes a mixture of them.
fn first_state(
    target: &dyn Target,
    config: &Config,
    scratch: &ScratchPool,
    observers: &mut [&mut dyn Observer],
    clock: &Instant,
) -> Result<State, Error> {
    let (dim, tuning) = (target.dim(), &config.tuning);
    let (centre, sd) = spread_out(config, dim)?;
    let mut go_on = |evals: u64| {
        let seconds = clock.elapsed().as_secs_f64();
        let searching = Searching { evals, seconds };
        // Every observer hears of it, also when one has had enough.
        let mut stop = false;
        for observer in observers.iter_mut() {
            stop |= observer.searching(&searching) == ControlFlow::Break(());
        }
        !stop && config.max_seconds.is_none_or(|most| seconds < most)
    };
    let budget = budget(config);
    let limit = budget.map_or(tuning.search_max_evals, |most| (tuning.search_share * most as f64) as u64);
    let most_evals = budget.unwrap_or(u64::MAX);
    let mut evaluator = Evaluator { limit, most_evals, ..Evaluator::new(target, scratch, (0, 0), &mut go_on) };
    let most = most_components(config);
    let from = StartFrom { centre: &centre, sd: &sd, seed: config.seed };
    let search = Search::run(&mut evaluator, from, config.covariance, tuning)?;
    let (evals, dropped) = (evaluator.evals, evaluator.dropped);
    let mut modes: Vec<&Found> = search.modes.iter().collect();
    modes.sort_by(|a, b| b.log_mass().total_cmp(&a.log_mass()));
    let heaviest = modes.first().map_or(0.0, |mode| mode.log_mass());
    modes.retain(|mode| mode.log_mass() - heaviest > tuning.search_min_log_mass);
    modes.truncate(most.max(1).max(tuning.max_components.min(modes.len())));
    let mut components: Vec<Gaussian> = modes.iter().map(|mode| mode.gaussian.clone()).collect();
    let mut masses: Vec<f64> = modes.iter().map(|mode| (mode.log_mass() - heaviest).exp()).collect();
    let summary = search.summary();
    if !(summary.log_concave || search.is_parabola(tuning)) || components.is_empty() {
        // The start itself, in case that narrow peaks lie far from the mass.
        components.push(Gaussian::new(centre, precision_from_sd(&sd, config.covariance)?));
        masses.push(tuning.start_weight * masses.iter().sum::<f64>().max(1.0));
    }
    let mut state = begin(Mixture::new(&masses, components)?, summary, config);
    if let Some(phase) = &mut state.automatic {
        // A single mode has the single component.
        let several = modes.len() > 1;
        modes.iter().filter(|_| several).for_each(|m| phase.witnesses.add_mode(m.gaussian.mean(), &m.grad, m.log_p));
    }
    (state.evals, state.dropped) = (evals, dropped);
    if search.modes.is_empty() {
        state.barren.1 = evals;
    }
    state.seconds = clock.elapsed().as_secs_f64();
    Ok(state)
}

/// A run with its buffers.
struct Runner<'a> {
    target: &'a dyn Target,
    config: Config,
    state: State,
    scratch: ScratchPool,
    shared: Shared,
    views: Vec<View>,
    steps: Vec<StepInfo>,
    values: Vec<f64>,
    new_weights: Vec<f64>,
    /// Seconds of earlier runs that this one goes on from.
    before: f64,
    clock: Instant,
}

impl Runner<'_> {
    fn run(mut self, mut observers: Vec<&mut dyn Observer>) -> Result<Fitted, Error> {
        let mut observer_error = None;
        let reason = loop {
            if let Some(reason) = self.exhausted() {
                break reason;
            }
            let (elbo, elbo_se) = self.iterate()?;
            self.plan()?;
            self.state.seconds = self.before + self.clock.elapsed().as_secs_f64();
            let iteration = Iteration {
                iteration: self.state.iteration,
                evals: self.state.evals,
                dropped: self.state.dropped,
                seconds: self.state.seconds,
                elbo,
                elbo_se,
                mixture: &self.state.mixture,
                steps: &self.steps,
                state: &self.state,
                config: &self.config,
            };
            match tell(&mut observers, &iteration) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break StopReason::Cancelled,
                Err(error) => {
                    observer_error = Some(error);
                    break StopReason::ObserverFailed;
                }
            }
        };
        let clock = (self.before, self.clock);
        Ok(conclude(self.target, self.config, self.state, &self.scratch, reason, clock, observer_error))
    }

    fn phase(&mut self) -> &mut Phase {
        let draws = self.config.tuning.draw_min;
        self.state.automatic.get_or_insert_with(|| Phase::new(SearchSummary::default(), 0, draws))
    }

    /// Whether a budget is spent, or there is nothing left to gain.
    fn exhausted(&self) -> Option<StopReason> {
        let (state, config) = (&self.state, &self.config);
        let phase = state.automatic.as_ref()?;
        let next: u64 = phase.counts.iter().map(|&n| n as u64).sum();
        if state.barren.0 >= MOST_BARREN {
            Some(StopReason::LostSupport)
        } else if phase.settling == Some(0) {
            Some(if phase.rested { StopReason::Converged } else { StopReason::MaxEvals })
        } else if state.iteration >= config.max_iterations {
            Some(StopReason::MaxIterations)
        } else if budget(config).is_some_and(|most| state.evals + next > most) {
            Some(if phase.rested { StopReason::Converged } else { StopReason::MaxEvals })
        } else if config.max_seconds.is_some_and(|most| state.seconds >= most) {
            Some(StopReason::MaxSeconds)
        } else {
            None
        }
    }

    /// One iteration; returns the ELBO estimate and its standard error.
    fn iterate(&mut self) -> Result<(f64, f64), Error> {
        let Some(phase) = &self.state.automatic else { return Ok((f64::NAN, f64::NAN)) };
        let mut always = |_| true;
        let mut evaluator =
            Evaluator::new(self.target, &self.scratch, (self.state.evals, self.state.dropped), &mut always);
        let (seed, iteration) = (self.config.seed, self.state.iteration);
        self.shared.draw(&mut evaluator, &self.state.mixture, &phase.counts, (seed, iteration), &phase.kept)?;
        let points = evaluator.evals - self.state.evals;
        (self.state.evals, self.state.dropped) = (evaluator.evals, evaluator.dropped);
        self.shared.view(&self.state.mixture, &mut self.views, &self.scratch, &self.config.tuning);
        let whole = self.shared.whole();
        if whole.elbo.is_finite() {
            self.state.barren = (0, 0);
        } else {
            self.state.barren.0 += 1;
            self.state.barren.1 += points;
            if self.state.barren.0 >= MOST_BARREN && self.state.best.is_none() {
                let (iterations, points) = (MOST_BARREN as usize, self.state.barren.1);
                return Err(Error::NowhereFinite { points, iterations });
            }
        }
        self.state.judge(whole.elbo, whole.se, points, false);
        let reachable = grow::reachable(&self.state).max(whole.elbo);
        if let Some(phase) = &mut self.state.automatic {
            phase.witnesses.watch(&self.shared, reachable, &self.config.tuning);
            if self.state.mixture.len() <= self.config.tuning.draw_reuse_max_components {
                self.shared.keep(&mut phase.kept);
            } else {
                phase.kept.clear();
            }
        }
        self.update();
        self.state.iteration += 1;
        if self.state.iteration > self.config.tuning.stage_first_min
            && self.state.mixture.len() > self.config.components
        {
            // Cheap, and a component that has lost its weight would go on drawing points.
            grow::prune(&mut self.state, usize::MAX, 0.0, &self.config.tuning)?;
        }
        Ok((whole.elbo, whole.se))
    }

    /// Moves every component and the weights; plans the next draws.
    fn update(&mut self) {
        let count = self.state.mixture.len();
        let (views, scratch, tuning) = (&self.views, &self.scratch, &self.config.tuning);
        let most_draws = own_draws(self.state.mixture.dim(), self.state.mixture.shape(), tuning);
        let served = tuning.draw_effective_factor * most_draws;
        let Some(phase) = &mut self.state.automatic else { return };
        let settling = phase.settling.is_some();
        phase.settling = phase.settling.map(|left| left.saturating_sub(1));
        let weights = self.state.mixture.log_weights();
        for (k, view) in views[..count].iter().enumerate() {
            if !view.moments.usable {
                continue;
            }
            let mix = |old: f64, new: f64| if old.is_nan() { new } else { old + tuning.growth_smoothing * (new - old) };
            // Capped, so that what was wrong once is soon forgotten.
            phase.spread[k] = mix(phase.spread[k], view.spread.min(tuning.growth_outlying_variance));
            phase.radial[k] = mix(phase.radial[k], view.radial);
            // What the points of others are worth to it need not be drawn again.
            let lent = (view.ess - phase.counts[k] as f64).max(0.0) / if settling { phase.fuller as f64 } else { 1.0 };
            let base = served.saturating_sub(lent as usize).clamp(tuning.draw_min, most_draws);
            phase.counts[k] = if settling {
                // Towards the end the bias of few points counts more than their price.
                base * phase.fuller
            } else if count > 1 {
                // A heavy component with a noisy value would throw the weights about.
                let noise = weights[k].exp() * view.noise() / tuning.draw_noise_limit;
                base * (noise * noise).ceil().clamp(1.0, tuning.draw_noise_max_factor) as usize
            } else {
                base
            };
        }
        let (log_w, components) = self.state.mixture.parts_mut();
        self.steps.resize(count, StepInfo::default());
        let old_log_w = &*log_w;
        let tasks = components.par_iter_mut().zip(&mut self.state.carried).zip(&mut self.steps).enumerate();
        tasks.for_each(|(k, ((component, carried), info))| {
            let view = &views[k];
            *info = if view.moments.usable {
                advance(component, carried, view, old_log_w[k], settling.then_some(tuning.settle_shrink), scratch)
            } else {
                StepInfo::skipped(Skipped::NoPoints)
            };
        });
        if count > 1 && self.state.iteration >= phase.since + tuning.weight_wait {
            self.values.clear();
            self.values
                .extend(views[..count].iter().map(|v| if v.moments.usable { v.moments.value } else { f64::NAN }));
            let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
            // Where nothing can be evaluated there is no mass.
            self.values.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = least - 1.0);
            self.new_weights.resize(count, 0.0);
            let bound = if phase.stage == 0 { tuning.weight_trust_region_first } else { tuning.weight_trust_region };
            rule::weights::trust_region_step(log_w, &self.values, 1.0, bound, &mut self.new_weights);
        }
    }
}

/// One component's step within its bound, which adapts, or shrinks by a factor at the end of a run.
fn advance(
    component: &mut Gaussian,
    carried: &mut Carried,
    view: &View,
    log_w: f64,
    shrink: Option<f64>,
    scratch: &ScratchPool,
) -> StepInfo {
    let objective = view.moments.value + log_w;
    if let Some(shrink) = shrink {
        carried.bound = (carried.bound * shrink).max(trust_region::LEAST);
    } else if !carried.objective.is_nan() {
        carried.bound = trust_region::adapt(carried.bound, objective - carried.objective, view.noise());
    }
    carried.objective = objective;
    let (grad, hess) = (&view.moments.grad, &view.moments.hess);
    scratch.with(|scratch| trust_region::step(component, grad, hess, carried.bound, scratch))
}
