//! The run loop: draw, evaluate, update, watch, stop.
//!
//! ```
//! use natmix::{Config, Fit};
//! use natmix::family::{Gaussian, Mixture};
//! let target = Mixture::single(Gaussian::isotropic(vec![1.0, -2.0], 0.5));
//! let fitted = Fit::new(&target, Config { seed: 1, ..Config::default() }).run().unwrap();
//! assert!(fitted.stop.converged);
//! assert!((fitted.mixture.mean()[1] + 2.0).abs() < 1e-6);
//! ```

use crate::automatic::{self, SearchSummary};
use crate::config::{Config, OrAuto, Parts, Source, StrategyConfig};
use crate::diagnose::{Diagnostics, diagnose_in_pool};
use crate::draws::Key;
use crate::error::Error;
use crate::estimate::batch::Batch;
use crate::estimate::cell::{Cell, elbo, reduce};
use crate::estimate::{Estimator, Moments, ScratchPool, Setup};
use crate::family::Mixture;
use crate::method::Method;
use crate::minibatch::Minibatches;
use crate::noise::{Noise, Purpose};
use crate::observe::{Iteration, Observer, tell};
use crate::rule::{self, Rule, Skipped, StepInfo, WeightRule};
use crate::state::{State, first_mixture};
use crate::step::Step;
use crate::stop::StopReason;
use crate::target::Target;
use rayon::prelude::*;
use std::ops::ControlFlow;
use std::time::Instant;

/// Iterations in a row without a single usable point after which a run gives up.
pub(crate) const MOST_BARREN: u64 = 20;

/// Numbers up to which room is made for draws that may never be needed.
const MOST_RESERVED: usize = 1 << 23;

/// Coordinates of all points of an iteration that can be held: 64 GB of them.
const MOST_NUMBERS: u64 = 1 << 33;

/// A fit in preparation.
pub struct Fit<'a> {
    target: &'a dyn Target,
    config: Config,
    start: Option<Start>,
    observers: Vec<&'a mut dyn Observer>,
}

enum Start {
    Mixture(Mixture),
    State(Box<State>),
}

/// A finished fit.
#[derive(Debug)]
pub struct Fitted {
    /// The last mixture, unless an earlier one was better beyond the noise.
    pub mixture: Mixture,
    /// ELBO from the points of the last iterations, and its standard error. The diagnostics have a fresh one.
    pub running_elbo: (f64, f64),
    /// Measured with fresh draws, unless switched off.
    pub diagnostics: Option<Diagnostics>,
    /// Why the run ended.
    pub stop: Stop,
    /// Iterations done.
    pub iterations: u64,
    /// Points at which the target was evaluated, diagnostics not counted.
    pub evals: u64,
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
    /// The state at the end, to go on from.
    pub state: State,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The reason.
    pub reason: StopReason,
    /// Whether the ELBO had come to rest.
    pub converged: bool,
}

/// Fits with the given settings: [`Fit`] has the rest.
pub fn fit(target: &dyn Target, config: &Config) -> Result<Fitted, Error> {
    Fit::new(target, config.clone()).run()
}

impl<'a> Fit<'a> {
    /// Prepares a fit of `target`.
    pub fn new(target: &'a dyn Target, config: Config) -> Self {
        Self { target, config, start: None, observers: Vec::new() }
    }

    /// Starts from `mixture` instead of a start around `init_mean`.
    pub fn start(mut self, mixture: Mixture) -> Self {
        self.start = Some(Start::Mixture(mixture));
        self
    }

    /// Goes on from a state, as a checkpoint gives it. With the same settings the result has the same bits as an
    /// unbroken run.
    pub fn resume(mut self, state: State) -> Self {
        self.start = Some(Start::State(Box::new(state)));
        self
    }

    /// Adds an observer.
    pub fn observe(mut self, observer: &'a mut dyn Observer) -> Self {
        self.observers.push(observer);
        self
    }

    /// Runs.
    pub fn run(self) -> Result<Fitted, Error> {
        let Self { target, config, start, observers } = self;
        config.validate()?;
        check_support(target, &config)?;
        let dim = target.dim();
        let parts = config.parts().cloned().unwrap_or_else(|| Parts::new(Method::Auto));
        let (components, draws) = (config.components().given().unwrap_or(0), parts.draws_per_component);
        let points = parts.plan().count(draws) as u64;
        let numbers = (components as u64).checked_mul(points).and_then(|n| n.checked_mul(dim as u64));
        if dim == 0 || numbers.is_none_or(|n| n > MOST_NUMBERS) {
            return Err(Error::InvalidInput(format!(
                "{components} components with {draws} draws each in dimension {dim} are more than can be held"
            )));
        }
        let pool = || {
            rayon::ThreadPoolBuilder::new()
                .num_threads(config.threads)
                .build()
                .map_err(|error| Error::Threads { threads: config.threads, problem: error.to_string() })
        };
        let StrategyConfig::Parts(parts) = config.strategy.clone() else {
            let start = match start {
                None => Ok(None),
                Some(Start::Mixture(mixture)) => Ok(Some(check_start(mixture, &config, dim)?)),
                Some(Start::State(state)) => Err(check_state(state, &config, dim)?),
            };
            let pool = pool()?;
            let threads = pool.current_num_threads();
            return pool.install(|| hosted(target, move || automatic::run(target, config, start, threads, observers)));
        };
        let state = match start {
            None => State::new(first_mixture(&config, parts.components, dim)?, &config),
            Some(Start::Mixture(mixture)) => State::new(check_start(mixture, &config, dim)?, &config),
            Some(Start::State(state)) => *check_state(state, &config, dim)?,
        };
        let pool = pool()?;
        let threads = pool.current_num_threads();
        // Inside once and for all: entering a pool costs more than a small iteration.
        pool.install(|| hosted(target, move || Runner::new(target, config, parts, state, threads)?.run(observers)))
    }
}

/// Lets the target host a fit in this thread.
fn hosted(target: &dyn Target, fit: impl FnOnce() -> Result<Fitted, Error> + Send) -> Result<Fitted, Error> {
    let (mut fit, mut result) = (Some(fit), None);
    target.host(&mut || result = fit.take().map(|fit| fit()));
    result.unwrap_or_else(|| Err(Error::InvalidInput("the target did not run the fit that it hosts".into())))
}

fn check_support(target: &dyn Target, config: &Config) -> Result<(), Error> {
    let estimator = config.parts().map_or(Estimator::Stein, |parts| parts.estimator);
    if estimator.needs_gradient() && !target.has_gradient() {
        return Err(Error::Unsupported { needed: "gradients".into(), offered: "values only (try `bbvi`)".into() });
    }
    if let Some(kind) = estimator.curvature() {
        let offered = target.curvatures();
        let needed = (kind, config.covariance.curvature_shape());
        if !offered.contains(&needed) {
            let name = |(kind, shape): &(crate::target::Curvature, crate::target::CurvatureShape)| {
                format!("{} ({})", kind.name(), shape.name())
            };
            let offered: Vec<String> = offered.iter().map(name).collect();
            let offered = if offered.is_empty() { "no curvature (try `ngvi`)".into() } else { offered.join(", ") };
            return Err(Error::Unsupported { needed: name(&needed) + " curvature", offered });
        }
    }
    if let Some(rows) = config.parts().and_then(|parts| parts.minibatch) {
        match target.num_rows() {
            None => {
                return Err(Error::Unsupported { needed: "data rows, for minibatches".into(), offered: "none".into() });
            }
            Some(n) if rows > n => {
                return Err(Error::Config {
                    setting: "minibatch",
                    problem: format!("must be at most the {n} rows there are, not {rows}"),
                });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn check_start(mixture: Mixture, config: &Config, dim: usize) -> Result<Mixture, Error> {
    let number = config.parts().is_none_or(|parts| mixture.len() == parts.components);
    if mixture.dim() != dim || mixture.covariance_kind() != config.covariance || !number {
        return Err(Error::InvalidInput(format!(
            "the start has dimension {}, {} covariance and {} components; the run needs {dim}, {} and {}",
            mixture.dim(),
            mixture.covariance_kind().name(),
            mixture.len(),
            config.covariance.name(),
            config.components(),
        )));
    }
    if let Some(k) = mixture.components().iter().position(|component| !component.is_sound()) {
        return Err(Error::InvalidInput(format!("the start has no finite mean or precision in component {k}")));
    }
    Ok(mixture)
}

fn check_state(state: Box<State>, config: &Config, dim: usize) -> Result<Box<State>, Error> {
    check_start(state.mixture.clone(), config, dim)?;
    if !state.fits(config) {
        return Err(Error::InvalidInput(format!(
            "the state comes from a run with another method or rule than `{}` and `{}`: resume with the settings of that run",
            config.method().name(),
            config.parts().map_or(Rule::TrustRegion, |parts| parts.rule).name()
        )));
    }
    Ok(state)
}

/// Chooses the mixture to return, and measures it.
pub(crate) fn conclude(
    target: &dyn Target,
    config: Config,
    state: State,
    scratch: &ScratchPool,
    reason: StopReason,
    clock: (f64, Instant),
    observer_error: Option<Error>,
) -> Fitted {
    let converged = reason == StopReason::Converged;
    let (mixture, running_elbo) = state.choose();
    let mixture = match config.components() {
        OrAuto::Is(most) if mixture.len() > most => automatic::at_most(mixture, most),
        _ => mixture.clone(),
    };
    let search = state.automatic.as_ref().map(|phase| phase.search.clone());
    let (diagnostics, diagnostics_error) = match config.diagnostic_draws {
        0 => (None, None),
        n => match diagnose_in_pool(target, &mixture, n, config.seed, Some(converged), scratch) {
            Ok(mut diagnostics) => {
                if let Some(search) = &search {
                    diagnostics.verdict.add_search(search);
                }
                (Some(diagnostics), None)
            }
            // The fit stands: hours of work must not be lost to one evaluation at the end.
            Err(error) => (None, Some(error)),
        },
    };
    Fitted {
        mixture,
        running_elbo,
        diagnostics,
        stop: Stop { reason, converged },
        iterations: state.iteration,
        evals: state.evals,
        dropped: state.dropped,
        seconds: clock.0 + clock.1.elapsed().as_secs_f64(),
        config,
        observer_error,
        diagnostics_error,
        search,
        state,
    }
}

/// A run with its buffers.
struct Runner<'a> {
    target: &'a dyn Target,
    config: Config,
    parts: Parts,
    state: State,
    scratch: ScratchPool,
    batches: Option<Minibatches>,
    /// All points together, for a target that wants them so.
    whole: Option<Batch>,
    cells: Vec<Cell>,
    moments: Vec<Moments>,
    steps: Vec<StepInfo>,
    counts: Vec<usize>,
    /// Components in the order of their ids.
    by_id: Vec<usize>,
    values: Vec<f64>,
    new_weights: Vec<f64>,
    tricks: Vec<crate::estimate::trick::Coefficients>,
}

impl<'a> Runner<'a> {
    fn new(target: &'a dyn Target, config: Config, parts: Parts, state: State, threads: usize) -> Result<Self, Error> {
        let (k, dim, shape) = (state.mixture.len(), state.mixture.dim(), state.mixture.curvature_shape());
        let batches = match (parts.minibatch, target.num_rows()) {
            (Some(size), Some(rows)) => Some(Minibatches::new(rows, size, config.seed)?),
            _ => None,
        };
        let mut by_id: Vec<usize> = (0..k).collect();
        by_id.sort_by_key(|&k| state.mixture.ids()[k]);
        let mut cells: Vec<Cell> = (0..k).map(|_| Cell::default()).collect();
        let most = k * parts.plan().count(parts.draws_per_component);
        if parts.source == Source::Mixture && k * most * dim <= MOST_RESERVED {
            // Any component may get all the draws one day; making room now spares allocations later.
            cells.iter_mut().for_each(|cell| cell.reserve(most, dim));
        }
        Ok(Self {
            target,
            scratch: ScratchPool::new(threads),
            batches,
            whole: target.whole_batches().then(Batch::default),
            cells,
            moments: (0..k).map(|_| Moments::new(dim, shape)).collect(),
            steps: vec![StepInfo::default(); k],
            counts: vec![0; k],
            by_id,
            values: vec![0.0; k],
            new_weights: vec![0.0; k],
            tricks: state.carried.iter().map(|carried| carried.trick).collect(),
            config,
            parts,
            state,
        })
    }

    fn run(mut self, mut observers: Vec<&mut dyn Observer>) -> Result<Fitted, Error> {
        let clock = Instant::now();
        let before = self.state.seconds;
        let mut observer_error = None;
        let reason = loop {
            if let Some(reason) = self.exhausted() {
                break reason;
            }
            let (elbo, elbo_se) = self.iterate()?;
            self.state.seconds = before + clock.elapsed().as_secs_f64();
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
        Ok(conclude(self.target, self.config, self.state, &self.scratch, reason, (before, clock), observer_error))
    }

    /// Whether a budget is spent, or there is nothing left to gain.
    fn exhausted(&self) -> Option<StopReason> {
        let (state, config, parts) = (&self.state, &self.config, &self.parts);
        // Under mixture draws each component's share is rounded up by at most two.
        let rounding = if parts.source == Source::Mixture { 2 } else { 0 };
        let next = (parts.components * (parts.plan().count(parts.draws_per_component) + rounding)) as u64;
        if state.barren.0 >= MOST_BARREN {
            Some(StopReason::LostSupport)
        } else if state.history.converged(config.tolerance) {
            Some(StopReason::Converged)
        } else if state.iteration >= config.max_iterations {
            Some(StopReason::MaxIterations)
        } else if config.max_evals.is_some_and(|most| state.evals + next > most) {
            Some(StopReason::MaxEvals)
        } else if config.max_seconds.is_some_and(|most| state.seconds >= most) {
            Some(StopReason::MaxSeconds)
        } else {
            None
        }
    }

    /// One iteration; returns the ELBO estimate and its standard error.
    fn iterate(&mut self) -> Result<(f64, f64), Error> {
        self.count_draws();
        let (config, parts, state) = (&self.config, &self.parts, &self.state);
        let t = state.iteration;
        let plan = parts.plan();
        let shared = parts.source == Source::Mixture;
        let counts = &self.counts;
        let all: usize = counts.iter().sum();
        let setup = Setup {
            target: self.target,
            rows: match &mut self.batches {
                Some(batches) => batches.rows(t),
                None => crate::target::Rows::All,
            },
            q: &state.mixture,
            estimator: parts.estimator,
            shared,
            scratch: &self.scratch,
        };
        for (trick, carried) in self.tricks.iter_mut().zip(&state.carried) {
            *trick = carried.trick;
        }

        // First everything is evaluated under the old mixture ...
        let tricks = &self.tricks;
        let draw = |k: usize, cell: &mut Cell| {
            // As it was drawn: a plan that rounds its points up must not favour small components.
            let share = if shared { counts[k] as f64 / all as f64 } else { 1.0 };
            let key = Key { seed: config.seed, id: state.mixture.ids()[k], iteration: t };
            cell.draw(&setup, k, plan.count(counts[k]), share, plan, key);
        };
        if let Some(whole) = &mut self.whole {
            self.cells.par_iter_mut().enumerate().for_each(|(k, cell)| draw(k, cell));
            whole.evaluate(&setup, &self.cells)?;
        }
        let whole = self.whole.as_ref();
        self.cells.par_iter_mut().enumerate().for_each(|(k, cell)| {
            if whole.is_none() {
                draw(k, cell);
            }
            cell.evaluate(&setup, k, tricks, plan.paired(), whole.map(|whole| whole.of(k)));
        });
        if let Some(error) = self.cells.iter_mut().find_map(Cell::take_error) {
            return Err(error.into());
        }
        let cells = &self.cells;
        self.moments.par_iter_mut().enumerate().for_each(|(k, moments)| {
            setup.scratch.with(|scratch| reduce(moments, cells, &setup, k, tricks[k], scratch));
        });
        let (mean, se) = elbo(cells, &state.mixture, shared);

        // ... then every component moves.
        let points = self.count_evals(mean)?;
        self.state.judge(mean, se, points, self.batches.is_some());
        self.update();
        self.state.iteration += 1;
        Ok((mean, se))
    }

    /// Points of each component, before the plan rounds: as many each, or as the weights will have it.
    fn count_draws(&mut self) {
        let (config, parts, mixture) = (&self.config, &self.parts, &self.state.mixture);
        match parts.source {
            Source::Component => self.counts.fill(parts.draws_per_component),
            Source::Mixture if mixture.len() == 1 => self.counts.fill(parts.draws_per_component),
            Source::Mixture => {
                self.counts.fill(0);
                let mut noise = Noise::new(config.seed, Purpose::Assignment, u64::MAX, self.state.iteration, 0);
                // Components are drawn in the order of their ids, so that relabelling changes nothing.
                for _ in 0..parts.components * parts.draws_per_component {
                    let mut left = noise.uniform();
                    let found = self.by_id.iter().find(|&&k| {
                        left -= mixture.log_weights()[k].exp();
                        left < 0.0
                    });
                    // Rounding may leave a crumb beyond the last one.
                    let chosen = found.copied().unwrap_or(self.by_id[0]);
                    self.counts[chosen] += 1;
                }
            }
        }
    }

    fn count_evals(&mut self, elbo: f64) -> Result<u64, Error> {
        let points = self.whole.as_ref().map_or_else(|| self.cells.iter().map(Cell::evals).sum(), Batch::len);
        self.state.evals += points;
        self.state.dropped += self.cells.iter().map(Cell::dropped).sum::<u64>();
        if elbo.is_finite() {
            self.state.barren = (0, 0);
        } else {
            self.state.barren.0 += 1;
            self.state.barren.1 += points;
            // With a better place to return to, the run ends there; see `exhausted`.
            if self.state.barren.0 >= MOST_BARREN && self.state.best.is_none() {
                return Err(Error::NowhereFinite { points: self.state.barren.1, iterations: MOST_BARREN as usize });
            }
        }
        Ok(points)
    }

    fn update(&mut self) {
        let parts = &self.parts;
        let iteration = self.state.iteration + 1;
        let rate = parts.rate * (iteration as f64).powf(-parts.decay);
        let (log_w, components) = self.state.mixture.parts_mut();
        let old_log_w = &*log_w;
        let (moments, cells, scratch) = (&self.moments, &self.cells, &self.scratch);
        let tasks = components.par_iter_mut().zip(&mut self.state.carried).zip(&mut self.steps).zip(&mut self.values);
        tasks.enumerate().for_each(|(k, (((component, carried), info), value))| {
            let moments = &moments[k];
            *value = if moments.usable { moments.value } else { f64::NAN };
            *info = if !moments.usable {
                StepInfo::skipped(Skipped::NoPoints)
            } else {
                carried.trick = parts.entropy_trick.next(parts, carried.trick, &cells[k], component);
                scratch.with(|scratch| {
                    let (objective, noise) = (moments.value + old_log_w[k], cells[k].variance.sqrt());
                    let step = Step { parts, rate, iteration, objective, noise };
                    step.take(component, carried, moments, value, scratch)
                })
            };
        });
        if log_w.len() > 1 {
            match (parts.rule, parts.weight_rule) {
                (_, WeightRule::Fixed) => {}
                // Adam has moved the logits along with the rest.
                (Rule::Adam, _) => rule::weights::step(log_w, &self.values, 1.0),
                (_, WeightRule::Plain) => rule::weights::step(log_w, &self.values, parts.weight_rate),
                (_, WeightRule::TrustRegion) => {
                    let bound = parts.weight_trust_region;
                    rule::weights::trust_region_step(
                        log_w,
                        &self.values,
                        parts.weight_rate,
                        bound,
                        &mut self.new_weights,
                    );
                }
            }
        }
    }
}
