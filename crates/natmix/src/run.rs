//! Runs: setting up a fit, the driver with its observers, and the conclusion.
//!
//! ```
//! use natmix::{Config, Fit};
//! use natmix::family::{Gaussian, Mixture};
//! let target = Mixture::single(Gaussian::isotropic(vec![1.0, -2.0], 0.5));
//! let fitted = Fit::new(&target, Config { seed: 1, ..Config::default() }).run().unwrap();
//! assert!(fitted.stop.converged);
//! assert!((fitted.mixture.mean()[1] + 2.0).abs() < 1e-6);
//! ```

pub mod checkpoint;
mod conclusion;
mod driver;
pub(crate) mod history;
pub mod observe;
pub mod stop;
pub(crate) mod time_left;
mod under_way;

pub use checkpoint::State;
pub use conclusion::Fitted;
pub use stop::Stop;

use crate::chains::state::ChainState;
use crate::check;
use crate::config::{Automatic, Config, Finish};
use crate::error::Error;
use crate::evaluate::{self, Limits};
use crate::family::{CovarianceKind, Mixture};
use crate::strategy::{Strategy, kind_of};
use crate::target::reduction::{self, Reduced, Reduction};
use crate::target::{Target, coordinate_names};
use crate::workspace::ScratchPool;
use checkpoint::{Beginning, Counts};
use conclusion::conclude;
use driver::{Driver, Ended};
use observe::Observer;
use stop::StopReason;
use time_left::TimeLeft;

/// Budget, in multiples of what a check of the gradient costs, below which there is none.
const SMALL_BUDGET: u64 = 20;

/// From which factor on a limit of time is longer than the one that ended the fit of a run that is resumed: the command line takes
/// off what has passed before the fit.
const LONGER: f64 = 1.1;

/// A fit before it runs: target, settings, start and observers.
pub struct Fit<'a> {
    target: &'a dyn Target,
    config: Config,
    start: Start,
    observers: Vec<&'a mut dyn Observer>,
}

enum Start {
    Settings,
    Mixture(Mixture),
    State(Box<State>),
}

/// Fits `target` with the given settings; [`Fit`] offers starts, observers and resuming.
pub fn fit(target: &dyn Target, config: &Config) -> Result<Fitted, Error> {
    Fit::new(target, config.clone()).run()
}

impl<'a> Fit<'a> {
    /// Prepares a fit of `target`.
    pub fn new(target: &'a dyn Target, config: Config) -> Self {
        Self { target, config, start: Start::Settings, observers: Vec::new() }
    }

    /// Starts from `mixture` instead of a start around `init_mean`.
    pub fn start(mut self, mixture: Mixture) -> Self {
        self.start = Start::Mixture(mixture);
        self
    }

    /// Continues from a state, such as that of a checkpoint. With the same settings the result has the same bits as that
    /// of an uninterrupted run. If its chains were under way, they go on, unless other limits let the fit itself go on: then they
    /// start from its new end.
    pub fn resume(mut self, state: State) -> Self {
        self.start = Start::State(Box::new(state));
        self
    }

    /// Adds an observer.
    pub fn observe(mut self, observer: &'a mut dyn Observer) -> Self {
        self.observers.push(observer);
        self
    }

    /// Runs the fit.
    pub fn run(self) -> Result<Fitted, Error> {
        self.run_from(false)
    }

    /// Does not fit: measures the [start](Fit::start) as it is, and lets chains finish it.
    ///
    /// ```
    /// use natmix::{Config, Fit};
    /// use natmix::answer::level::Level;
    /// use natmix::family::{Gaussian, Mixture};
    /// let target = Mixture::single(Gaussian::isotropic(vec![1.0, -2.0], 0.5));
    /// let rough = Mixture::single(Gaussian::isotropic(vec![0.5, -1.0], 2.0));
    /// let fitted = Fit::new(&target, Config::default()).start(rough).finish().unwrap();
    /// assert_eq!(fitted.diagnostics.unwrap().level, Level::Chains);
    /// ```
    pub fn finish(mut self) -> Result<Fitted, Error> {
        if !self.target.has_gradient() {
            let problem = "must not be always for a target without gradients, which chains need".into();
            return Err(Error::Config { setting: "finish", problem });
        }
        // The mixture stays as it is, of whatever kind and size.
        self.config.strategy = Automatic::default().into();
        match &self.start {
            Start::Settings => {}
            Start::Mixture(mixture) => self.config.covariance = mixture.covariance_kind(),
            Start::State(state) => self.config.covariance = state.mixture().covariance_kind(),
        }
        self.config.finish = Finish::Always;
        self.config.diagnostic_draws = self.config.diagnostic_draws.max(1);
        self.run_from(true)
    }

    /// Runs, if the start is `given` without its iterations; in fewer dimensions if the target has an equivalent problem there.
    fn run_from(self, given: bool) -> Result<Fitted, Error> {
        let Some(reduction) = self.reduction(given) else { return self.run_whole(given) };
        let Self { target, config, start, observers } = self;
        config.validate()?;
        let start = match start {
            Start::Mixture(mixture) => Start::Mixture(reduction.subspace.project_mixture(&mixture)?),
            other => other,
        };
        let whole_config = config.clone();
        let config = Config { covariance: CovarianceKind::Full, ..config };
        let target = Reduced { whole: target, reduction };
        let observers = observers.into_iter().map(|observer| observer as &mut dyn Observer).collect();
        let mut fitted = Fit { target: &target, config, start, observers }.run_whole(given)?;
        reduction.lift(&mut fitted)?;
        fitted.config = whole_config;
        Ok(fitted)
    }

    /// The equivalent problem in fewer dimensions in which this fit may run.
    fn reduction(&self, given: bool) -> Option<&'a Reduction> {
        let mut config = self.config.clone();
        match &self.start {
            // A lifted mixture of low rank is one with full covariances in fewer dimensions.
            Start::Mixture(mixture) if given || mixture.covariance_kind() == CovarianceKind::LowRank => {
                config.covariance = CovarianceKind::Full;
            }
            _ => {}
        }
        let reduction = self.target.reduction().filter(|_| reduction::is_allowed(&config))?;
        match &self.start {
            Start::State(state) if state.mixture().dim() != reduction.subspace.reduced_dim() => None,
            _ => Some(reduction),
        }
    }

    /// Runs in the coordinates of the target.
    fn run_whole(self, given: bool) -> Result<Fitted, Error> {
        let Self { target, config, start, observers } = self;
        config.validate()?;
        let kind = kind_of(&config);
        kind.check(target)?;
        let dim = target.dim();
        if dim == 0 {
            return Err(Error::InvalidInput("the target has dimension 0, expected at least 1".into()));
        }
        let check = !matches!(start, Start::State(_)) && wants_check(target, &config);
        let begun = match start {
            Start::Settings => Begun::with(kind.begin(dim, None)?),
            Start::Mixture(mixture) => Begun::with(kind.begin(dim, Some(mixture.narrowed()))?),
            Start::State(state) => Begun::resumed(*state, &config, target)?,
        };
        drop(kind);
        // Entered only once: entering a pool costs more than a small iteration.
        evaluate::with_threads(config.threads, || {
            let threads = rayon::current_num_threads();
            hosted(target, move || run_in_pool(target, config, begun, (check, given), threads, observers))
        })?
    }
}

/// Where a run begins.
struct Begun {
    strategy: Box<dyn Strategy>,
    /// What was done before, in a run that this one resumes; its chains; and whether there is still no time to go on with
    /// its fit.
    counts: Counts,
    chains: Option<ChainState>,
    out_of_time: bool,
    /// How that run had begun.
    beginning: Option<Beginning>,
}

impl Begun {
    fn with(strategy: Box<dyn Strategy>) -> Self {
        Self { strategy, counts: Counts::default(), chains: None, out_of_time: false, beginning: None }
    }

    fn resumed(mut state: State, config: &Config, target: &dyn Target) -> Result<Self, Error> {
        let (counts, beginning) = (state.counts, state.beginning.take());
        let in_time = |then: f64| config.max_seconds.is_none_or(|now| now > LONGER * then);
        let out_of_time = state.timed_out.is_some_and(|then| !in_time(then));
        let chains = state.chains.take().map(|chains| {
            let chains = chains.restore().ok();
            let fitting = chains.filter(|chains| chains.fits(target.dim(), target.parameter_names().len()));
            fitting.ok_or_else(|| {
                Error::InvalidInput("the state has chains of another target: resume with its own".into())
            })
        });
        let chains = chains.transpose()?;
        Ok(Self { strategy: state.strategy(config, target.dim())?, counts, chains, out_of_time, beginning })
    }
}

/// Lets the target host a fit in this thread.
fn hosted(target: &dyn Target, fit: impl FnOnce() -> Result<Fitted, Error> + Send) -> Result<Fitted, Error> {
    let (mut fit, mut result) = (Some(fit), None);
    target.host(&mut || result = fit.take().map(|fit| fit()));
    result.unwrap_or_else(|| Err(Error::InvalidInput("the target did not run the fit that it hosts".into())))
}

fn run_in_pool(
    target: &dyn Target,
    config: Config,
    Begun { strategy, mut counts, chains, out_of_time, beginning }: Begun,
    (check, given): (bool, bool),
    threads: usize,
    mut observers: Vec<&mut dyn Observer>,
) -> Result<Fitted, Error> {
    let scratch = ScratchPool::new(threads);
    let max_evals = kind_of(&config).budget().unwrap_or(u64::MAX);
    let mut evaluator = evaluate::of_target(target, &scratch, Limits { spent: counts.spent, max_evals });
    // Not worth a share of a very small budget.
    let remark = if check && evaluator.affords(SMALL_BUDGET * check::EVALUATIONS) {
        let names = || coordinate_names(target);
        let remark = check::check_gradient(&mut *evaluator, strategy.mixture(), &names, config.seed)?;
        counts.spent = evaluator.spent();
        remark
    } else {
        None
    };
    let begin = || Beginning { sd: check::typical_sd(strategy.mixture()), remark };
    let beginning = beginning.unwrap_or_else(begin);
    let ended = if given {
        Ended { strategy, counts, reason: StopReason::Given, observer_error: None }
    } else {
        let driver = Driver {
            target,
            strategy,
            evaluator: &mut *evaluator,
            scratch: &scratch,
            config: &config,
            observers: &mut observers,
            counts,
            out_of_time,
            beginning: &beginning,
        };
        driver.run()?
    };
    // If the fit has gone on, they would have started elsewhere.
    let same = (ended.counts.iteration, ended.counts.spent) == (counts.iteration, counts.spent);
    let chains = chains.filter(|_| same);
    let mut time = TimeLeft::of(&config, ended.counts.seconds);
    let seen = (&beginning, &mut observers[..]);
    let mut fitted = conclude(ended, config, target, &mut *evaluator, (&scratch, &mut time), seen, chains)?;
    if let Some(diagnostics) = &mut fitted.diagnostics {
        diagnostics.verdict.notes.extend(beginning.remark);
    }
    if let Some(diagnostics) = fitted.diagnostics.as_mut().filter(|_| !(fitted.stop.converged || given)) {
        diagnostics.verdict.add_not_converged();
    }
    fitted.diagnostic_evals = evaluator.spent().evals - fitted.evals - fitted.chain_evals;
    Ok(fitted)
}

/// Whether there is a gradient that should be checked: one that the method uses, on all rows, not known to be right.
fn wants_check(target: &dyn Target, config: &Config) -> bool {
    let used = config.parts().is_none_or(|parts| parts.estimator.needs_gradient() && parts.minibatch.is_none());
    config.check && used && target.has_gradient() && !target.gradient_is_tested()
}
