//! Every setting of a fit, in one plain struct.
//!
//! ```
//! use natmix::{Config, Method};
//! let config = Config { components: 3, seed: 7, ..Config::new(Method::ComponentDraws) };
//! config.validate().unwrap();
//! ```

use crate::automatic::Tuning;
use crate::draws::{DrawPlan, Plan, Radius};
use crate::error::Error;
use crate::estimate::{Estimator, Trick};
use crate::method::Method;
use crate::rule::{Rule, WeightRule, trust_region};
use crate::target::Shape;
use serde::{Deserialize, Serialize};

/// Most components, draws a component, and draws for diagnostics.
pub(crate) const MOST_COUNT: u64 = 1 << 24;

/// Where the points of an iteration are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The mixture; component `k` weighs each point by `delta_k = N_k / q`.
    Mixture,
    /// Each component for itself.
    Component,
}

/// Settings of a fit. [`Config::new`] fills them for a named method; change what you like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The named method that these settings started from.
    pub method: Method,
    /// Number of components; zero lets `auto` choose.
    pub components: usize,
    /// Shape of the covariances.
    pub covariance: Shape,
    /// Whether points come from the mixture or from each component.
    pub source: Source,
    /// Draw plan.
    pub draws: Plan,
    /// Radii of the cubature plan.
    pub radius: Radius,
    /// Points a component and iteration; pairs round up, a random radius adds one.
    pub draws_per_component: usize,
    /// How expectations are estimated from the points.
    pub estimator: Estimator,
    /// The entropy trick.
    pub entropy_trick: Trick,
    /// How a component moves.
    pub rule: Rule,
    /// Step size of plain, improved, momentum and adam. (The trust region has its bound instead.)
    pub rate: f64,
    /// The step size falls as `(1 + iteration)^-decay`; zero keeps it.
    pub decay: f64,
    /// Largest `|t L^-1 G L^-T|` (Frobenius norm) of an improved step.
    pub step_cap: f64,
    /// First KL bound of the trust region; each component adapts its own.
    pub trust_region: f64,
    /// Momentum `b1` of the momentum rule and of adam.
    pub momentum: f64,
    /// Rate `b2` at which the momentum rule forgets old curvature; the step size, with its decay, if not set.
    pub curvature_rate: Option<f64>,
    /// Added to the precision that divides a momentum step.
    pub damping: f64,
    /// How weights move.
    pub weight_rule: WeightRule,
    /// Step size of the weights.
    pub weight_rate: f64,
    /// KL bound of a trust-region step of the weights.
    pub weight_trust_region: f64,
    /// Rows in a minibatch; all rows if not set.
    pub minibatch: Option<usize>,
    /// Nats of expected gain below which the run stops.
    pub tolerance: f64,
    /// Most iterations.
    pub max_iterations: u64,
    /// Most points at which the target is evaluated, final diagnostics not counted. Checked before each iteration; second
    /// looks at points whose neighbours could not be evaluated may pass it by a little.
    pub max_evals: Option<u64>,
    /// Most seconds.
    pub max_seconds: Option<f64>,
    /// Centre of the start: one number for all coordinates, or one for each.
    pub init_mean: Vec<f64>,
    /// Spread of the start: one number for all coordinates, or one for each.
    pub init_sd: Vec<f64>,
    /// Fresh draws for the final diagnostics; zero leaves them out.
    pub diagnostic_draws: usize,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads; zero means one a core. Never changes a result.
    pub threads: usize,
    /// Constants of the automatic method; written out only where they were changed.
    #[serde(skip_serializing_if = "Tuning::is_default")]
    pub tuning: Tuning,
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Method::Auto)
    }
}

impl Config {
    /// The settings of a named method.
    pub fn new(method: Method) -> Self {
        let base = Self {
            method,
            components: 1,
            covariance: Shape::Full,
            source: Source::Component,
            draws: Plan::Cubature,
            radius: Radius::Random,
            draws_per_component: 50,
            estimator: Estimator::Stein,
            entropy_trick: Trick::Fitted,
            rule: Rule::TrustRegion,
            rate: 0.3,
            decay: 0.0,
            step_cap: 3.0,
            trust_region: 1.0,
            momentum: 0.9,
            curvature_rate: None,
            damping: 0.0,
            weight_rule: WeightRule::TrustRegion,
            weight_rate: 1.0,
            weight_trust_region: 0.01,
            minibatch: None,
            tolerance: 0.01,
            max_iterations: 10_000,
            max_evals: None,
            max_seconds: None,
            init_mean: vec![0.0],
            init_sd: vec![1.0],
            diagnostic_draws: 4_000,
            seed: 0,
            threads: 0,
            tuning: Tuning::default(),
        };
        method.configure(base)
    }

    /// Draw plan and radius.
    pub fn plan(&self) -> DrawPlan {
        DrawPlan { plan: self.draws, radius: self.radius }
    }

    /// Checks every setting, alone and together.
    pub fn validate(&self) -> Result<(), Error> {
        let fail = |setting, problem: String| Err(Error::Config { setting, problem });
        for (setting, x, most) in [
            ("rate", self.rate, 1e3),
            ("step_cap", self.step_cap, 1e6),
            ("trust_region", self.trust_region, trust_region::MOST),
            ("curvature_rate", self.curvature_rate.unwrap_or(self.rate), 1.0),
            ("weight_rate", self.weight_rate, 1e6),
            ("weight_trust_region", self.weight_trust_region, 1e6),
            ("tolerance", self.tolerance, f64::MAX),
            ("max_seconds", self.max_seconds.unwrap_or(1.0), f64::MAX),
        ] {
            // The rate of curvature is only used by the momentum rule.
            let unused = setting == "curvature_rate" && self.rule != Rule::Momentum;
            if !(unused || x > 0.0 && x <= most) {
                let unset = if setting == "curvature_rate" && self.curvature_rate.is_none() {
                    " (not set, so taken from `rate`)"
                } else {
                    ""
                };
                let range = if most == f64::MAX { "a positive number".into() } else { format!("in (0, {most}]") };
                return fail(setting, format!("{x} is not {range}{unset}"));
            }
        }
        for (setting, x) in [("momentum", self.momentum), ("decay", self.decay)] {
            if !(0.0..1.0).contains(&x) {
                return fail(setting, format!("{x} is not in [0, 1)"));
            }
        }
        if !(self.damping >= 0.0 && self.damping.is_finite()) {
            return fail("damping", format!("{} is not a finite number of at least 0", self.damping));
        }
        for (setting, x) in [
            ("components", self.components as u64),
            ("draws_per_component", self.draws_per_component as u64),
            ("minibatch", self.minibatch.unwrap_or(1) as u64),
            ("max_iterations", self.max_iterations),
            ("max_evals", self.max_evals.unwrap_or(1)),
        ] {
            if x == 0 && !(setting == "components" && self.method == Method::Auto) {
                return fail(setting, "must be at least 1".into());
            }
            let counts = ["components", "draws_per_component"];
            if counts.contains(&setting) && x > MOST_COUNT {
                return fail(setting, format!("{x} is more than {MOST_COUNT}"));
            }
        }
        if self.diagnostic_draws as u64 > MOST_COUNT {
            return fail("diagnostic_draws", format!("{} is more than {MOST_COUNT}", self.diagnostic_draws));
        }
        if self.trust_region < trust_region::LEAST {
            return fail("trust_region", format!("{} is less than {}", self.trust_region, trust_region::LEAST));
        }
        if self.init_mean.is_empty() || self.init_mean.iter().any(|x| !x.is_finite()) {
            return fail("init_mean", "needs finite numbers".into());
        }
        let bad_sd = |x: &f64| !(*x > 0.0 && (x * x).is_normal() && (x * x).recip().is_normal());
        if self.init_sd.is_empty() || self.init_sd.iter().any(bad_sd) {
            return fail("init_sd", "needs positive numbers whose squares are finite".into());
        }
        let score = self.estimator == Estimator::Score;
        if score != (self.rule == Rule::Adam) {
            return fail("rule", "adam goes with the score estimator, and only with it".into());
        }
        if score && self.source != Source::Mixture {
            return fail("source", "the score estimator draws from the mixture".into());
        }
        if self.rule == Rule::Momentum && self.covariance != Shape::Diag {
            return fail("rule", "momentum needs diagonal covariances (`covariance = \"diag\"`)".into());
        }
        if self.estimator == Estimator::Score && self.plan().count(self.draws_per_component) < 2 {
            return fail("draws_per_component", "the score estimator's baseline needs at least 2".into());
        }
        if self.method == Method::Auto {
            self.validate_automatic()?;
            self.tuning.validate()?;
        }
        Ok(())
    }

    /// The automatic mixture has its own estimator, rule and draws: what contradicts them is refused, not ignored.
    fn validate_automatic(&self) -> Result<(), Error> {
        let fail = |setting, problem: &str| Err(Error::Config { setting, problem: problem.into() });
        if self.rule != Rule::TrustRegion || self.estimator != Estimator::Stein || self.source != Source::Component {
            return fail("method", "auto has its own rule, estimator and source: choose `component-draws` to set them");
        }
        if self.draws != Plan::Independent {
            return fail("draws", "auto draws independently: choose `component-draws` for another plan");
        }
        if self.minibatch.is_some() {
            return fail("minibatch", "auto evaluates all rows: choose `component-draws` for minibatches");
        }
        Ok(())
    }
}
