//! Every setting of a fit: what all runs read, and the strategy with what it alone reads.
//!
//! ```
//! use natmix::config::{Config, Parts};
//! use natmix::Method;
//! // The automatic mixture, and one with three components.
//! let config = Config { seed: 7, ..Config::default() };
//! config.with_components(3).validate().unwrap();
//! // A named method, with some of its parts changed.
//! let parts = Parts { rate: 0.2, components: 3, ..Parts::new(Method::Ngvi) };
//! let config = Config { max_iterations: 50, ..parts.into() };
//! config.validate().unwrap();
//! assert_eq!(config.method(), Method::Ngvi);
//! ```
//!
//! | type | what it holds |
//! |---|---|
//! | [`Config`] | what every run reads, and a [`StrategyConfig`] |
//! | [`Automatic`], [`Parts`] | what one strategy reads |
//! | [`Overrides`] | what a user set by name, each setting optional; layers of them become a [`Config`] for a target |

mod or_auto;
mod overlay;
mod overrides;
mod parts;
mod readers;

pub use or_auto::{OrAuto, PerCoordinate, in_words, parse};
pub use overrides::{About, Overrides};
pub use parts::{Parts, Source};

use crate::automatic::Tuning;
use crate::error::Error;
use crate::evaluate::check_threads;
use crate::family::CovarianceKind;
use crate::method::Method;
use crate::rule::Rule;
use serde::{Deserialize, Serialize};

/// Largest number of components, of draws per component, and of draws for diagnostics.
pub(crate) const MOST_COUNT: u64 = 1 << 24;
/// The default seed.
pub const DEFAULT_SEED: u64 = 1;

/// Settings of a fit. [`Config::new`] fills them for a named method; change what you like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How the mixture is found, with the settings that only this strategy reads.
    pub strategy: StrategyConfig,
    /// Kind of the covariances.
    pub covariance: CovarianceKind,
    /// Nats of expected gain below which the run stops.
    pub tolerance: f64,
    /// Maximum number of iterations.
    pub max_iterations: u64,
    /// Maximum number of points at which the target is evaluated, final diagnostics not counted. Checked before each
    /// iteration; repeated evaluations, without points that failed, may exceed it slightly.
    pub max_evals: Option<u64>,
    /// Maximum time in seconds.
    pub max_seconds: Option<f64>,
    /// Centre of the start: one number for all coordinates, or one for each.
    pub init_mean: Vec<f64>,
    /// Spread of the start: one number for all coordinates, or one for each.
    pub init_sd: Vec<f64>,
    /// Whether the gradient is [checked](crate::check) before a fit, where it is not known to be right.
    pub check: bool,
    /// Fresh draws for the final diagnostics; zero leaves them out.
    pub diagnostic_draws: usize,
    /// What the run is for: when it may stop.
    pub goal: Goal,
    /// When chains finish a fit.
    pub finish: Finish,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads; zero means one per core. Never changes a result.
    pub threads: usize,
}

/// What an automatic run is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Draws that hold: it stops as soon as they are seen to, by looks at doubling numbers of evaluations. In many dimensions it
    /// stops once a single Gaussian has converged, and leaves the rest to chains.
    #[default]
    Answer,
    /// The highest ELBO: it goes on until that has converged or the budget is spent.
    Elbo,
}

/// When Hamiltonian chains finish a fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// Where neither the mixture nor its weighted draws hold.
    #[default]
    Auto,
    /// Never.
    Never,
    /// After every fit.
    Always,
}

/// How the mixture is found: one variant per strategy, each with its own settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyConfig {
    /// The automatic mixture.
    Automatic(Automatic),
    /// A source of points, an estimator and a rule, combined: the methods of the paper.
    Parts(Parts),
}

/// Settings of the automatic mixture, see [`crate::automatic`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Automatic {
    /// Number of components; found by the method itself unless it is given.
    pub components: OrAuto<usize>,
    /// First KL bound of a component's steps; each adapts its own.
    pub trust_region: f64,
    /// Whether a Gaussian without correlations may take the place of one with a full covariance where its ELBO is higher at the
    /// start.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drop_correlations: bool,
    /// Constants of the method; written out only where they were changed.
    #[serde(skip_serializing_if = "Tuning::is_default")]
    pub tuning: Box<Tuning>,
}

impl Default for Automatic {
    fn default() -> Self {
        Self { components: OrAuto::Auto, trust_region: 1.0, drop_correlations: false, tuning: Box::default() }
    }
}

impl From<Automatic> for StrategyConfig {
    fn from(automatic: Automatic) -> Self {
        Self::Automatic(automatic)
    }
}

impl From<Parts> for StrategyConfig {
    fn from(parts: Parts) -> Self {
        Self::Parts(parts)
    }
}

impl From<Automatic> for Config {
    /// The automatic mixture with these settings.
    fn from(automatic: Automatic) -> Self {
        Self { strategy: automatic.into(), ..Self::default() }
    }
}

impl From<Parts> for Config {
    /// The method that the parts started from, with these parts.
    fn from(parts: Parts) -> Self {
        Self { strategy: parts.clone().into(), ..Self::new(parts.method) }
    }
}

impl Default for Config {
    /// The automatic mixture.
    fn default() -> Self {
        Self {
            strategy: Automatic::default().into(),
            covariance: CovarianceKind::Full,
            tolerance: 0.01,
            max_iterations: 10_000,
            max_evals: None,
            max_seconds: None,
            init_mean: vec![0.0],
            init_sd: vec![1.0],
            check: true,
            diagnostic_draws: 3_000,
            goal: Goal::Answer,
            finish: Finish::Auto,
            seed: DEFAULT_SEED,
            threads: 0,
        }
    }
}

impl Config {
    /// The settings of a named method.
    pub fn new(method: Method) -> Self {
        let base = Self::default();
        match method {
            Method::Auto => base,
            // Its steps are small.
            Method::Bbvi => Self { strategy: Parts::new(method).into(), max_iterations: 100_000, ..base },
            // Its rule is for diagonal covariances.
            Method::Vogn => Self { strategy: Parts::new(method).into(), covariance: CovarianceKind::Diag, ..base },
            Method::Ngvi | Method::Von | Method::MixtureDraws | Method::ComponentDraws => {
                Self { strategy: Parts::new(method).into(), ..base }
            }
        }
    }

    /// The named method that these settings started from.
    pub fn method(&self) -> Method {
        match &self.strategy {
            StrategyConfig::Automatic(_) => Method::Auto,
            StrategyConfig::Parts(parts) => parts.method,
        }
    }

    /// The parts of the method; nothing for the automatic mixture.
    pub fn parts(&self) -> Option<&Parts> {
        match &self.strategy {
            StrategyConfig::Automatic(_) => None,
            StrategyConfig::Parts(parts) => Some(parts),
        }
    }

    /// Number of components, unless the method is to find it.
    pub fn components(&self) -> OrAuto<usize> {
        match &self.strategy {
            StrategyConfig::Automatic(automatic) => automatic.components,
            StrategyConfig::Parts(parts) => OrAuto::Is(parts.components),
        }
    }

    /// The same settings with another number of components.
    pub fn with_components(mut self, count: usize) -> Self {
        match &mut self.strategy {
            StrategyConfig::Automatic(automatic) => automatic.components = OrAuto::Is(count),
            StrategyConfig::Parts(parts) => parts.components = count,
        }
        self
    }

    /// First KL bound of a component's steps.
    pub fn trust_region(&self) -> f64 {
        match &self.strategy {
            StrategyConfig::Automatic(automatic) => automatic.trust_region,
            StrategyConfig::Parts(parts) => parts.trust_region,
        }
    }

    /// The same settings with another first KL bound.
    pub fn with_trust_region(mut self, bound: f64) -> Self {
        match &mut self.strategy {
            StrategyConfig::Automatic(automatic) => automatic.trust_region = bound,
            StrategyConfig::Parts(parts) => parts.trust_region = bound,
        }
        self
    }

    /// The same settings with other parts. The automatic mixture has none and stays as it is.
    pub fn with_parts(mut self, change: impl FnOnce(Parts) -> Parts) -> Self {
        if let StrategyConfig::Parts(parts) = self.strategy {
            self.strategy = change(parts).into();
        }
        self
    }

    /// Checks every setting, alone and together.
    pub fn validate(&self) -> Result<(), Error> {
        let fail = |setting, problem: String| Err(Error::Config { setting, problem });
        positive("tolerance", self.tolerance, f64::MAX)?;
        positive("max_seconds", self.max_seconds.unwrap_or(1.0), f64::MAX)?;
        at_least_one("max_iterations", self.max_iterations)?;
        at_least_one("max_evals", self.max_evals.unwrap_or(1))?;
        at_most("diagnostic_draws", self.diagnostic_draws)?;
        check_threads(self.threads)?;
        if self.init_mean.is_empty() || self.init_mean.iter().any(|x| !x.is_finite()) {
            return fail("init_mean", "must be finite numbers".into());
        }
        let bad_sd = |x: &f64| !(*x > 0.0 && (x * x).is_normal() && (x * x).recip().is_normal());
        if self.init_sd.is_empty() || self.init_sd.iter().any(bad_sd) {
            return fail("init_sd", "must be positive numbers whose squares are finite".into());
        }
        if let OrAuto::Is(count) = self.components() {
            at_least_one("components", count as u64)?;
            at_most("components", count)?;
        }
        match &self.strategy {
            StrategyConfig::Automatic(automatic) => automatic.tuning.validate(),
            StrategyConfig::Parts(parts) => {
                parts.validate()?;
                if self.covariance == CovarianceKind::LowRank {
                    let problem = "must be full or diag: only the method auto estimates low-rank curvature";
                    return fail("covariance", problem.into());
                }
                if parts.rule == Rule::Momentum && self.covariance != CovarianceKind::Diag {
                    return fail(
                        "rule",
                        "must not be momentum with full covariances (set `covariance` to diag)".into(),
                    );
                }
                Ok(())
            }
        }
    }
}

/// Refuses what is not in `(0, most]`.
fn positive(setting: &'static str, x: f64, most: f64) -> Result<(), Error> {
    if x > 0.0 && x <= most {
        return Ok(());
    }
    // For 0 or NaN the upper end does not matter.
    let range = if x > most && most < f64::MAX { format!("at most {most}") } else { "a positive number".into() };
    Err(Error::Config { setting, problem: format!("must be {range}, not {x}") })
}

fn at_least_one(setting: &'static str, count: u64) -> Result<(), Error> {
    if count > 0 { Ok(()) } else { Err(Error::Config { setting, problem: "must be at least 1".into() }) }
}

fn at_most(setting: &'static str, count: usize) -> Result<(), Error> {
    if count as u64 <= MOST_COUNT {
        return Ok(());
    }
    Err(Error::Config { setting, problem: format!("must be at most {MOST_COUNT}, not {count}") })
}
