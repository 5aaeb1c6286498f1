//! Settings of the methods that combine a source of points, an estimator and a rule; the named methods are presets.

use super::{at_least_one, at_most, positive};
use crate::draws::{DrawPlan, Plan, Radius};
use crate::error::Error;
use crate::estimate::{Estimator, Trick};
use crate::method::Method;
use crate::rule::{Rule, WeightRule, trust_region};
use serde::{Deserialize, Serialize};

/// Where the points of an iteration are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The mixture; component `k` weighs each point by `delta_k = N_k / q`.
    Mixture,
    /// Each component separately.
    Component,
}

impl Source {
    /// Every source, with its name and one line about it.
    pub const ALL: [(Source, &'static str, &'static str); 2] = [
        (Source::Mixture, "mixture", "points from the mixture, weighted for each component"),
        (Source::Component, "component", "points from each component separately (default)"),
    ];

    /// The name that configuration files use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }
}

/// The parts that a method combines. [`Parts::new`] fills them for a named method; change what you like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The named method that these parts started from.
    pub method: Method,
    /// Number of components.
    pub components: usize,
    /// Whether points come from the mixture or from each component.
    pub source: Source,
    /// Draw plan.
    pub draws: Plan,
    /// Radii of the cubature plan.
    pub radius: Radius,
    /// Points per component and iteration; pairs round up, a random radius adds one.
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
}

impl Parts {
    /// The parts of a named method. The automatic mixture is no combination of parts: for `auto` these are the parts of
    /// `component-draws`, to which it falls back.
    pub fn new(method: Method) -> Self {
        let base = Self {
            method,
            components: 1,
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
        };
        match method {
            Method::Auto | Method::ComponentDraws => Self { method: Method::ComponentDraws, ..base },
            Method::Bbvi => Self {
                source: Source::Mixture,
                draws: Plan::Independent,
                draws_per_component: 200,
                estimator: Estimator::Score,
                rule: Rule::Adam,
                rate: 0.02,
                ..base
            },
            Method::Ngvi => Self { rule: Rule::Plain, rate: 0.1, ..base },
            Method::Von => Self { estimator: Estimator::Exact, rule: Rule::Plain, ..base },
            Method::Vogn => Self { estimator: Estimator::EmpiricalFisher, rule: Rule::Momentum, rate: 0.1, ..base },
            Method::MixtureDraws => Self { source: Source::Mixture, rule: Rule::Plain, rate: 0.1, ..base },
        }
    }

    /// Draw plan and radius.
    pub fn plan(&self) -> DrawPlan {
        DrawPlan { plan: self.draws, radius: self.radius }
    }

    /// Checks every part, alone and together.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let fail = |setting, problem: String| Err(Error::Config { setting, problem });
        positive("rate", self.rate, 1e3)?;
        positive("step_cap", self.step_cap, 1e6)?;
        positive("trust_region", self.trust_region, trust_region::MOST)?;
        positive("weight_rate", self.weight_rate, 1e6)?;
        positive("weight_trust_region", self.weight_trust_region, 1e6)?;
        match self.curvature_rate {
            _ if self.rule != Rule::Momentum => {}
            Some(rate) => positive("curvature_rate", rate, 1.0)?,
            None if self.rate > 1.0 => {
                let problem = format!("must be at most 1, not {} (not set, so taken from `rate`)", self.rate);
                return fail("curvature_rate", problem);
            }
            None => {}
        }
        for (setting, x) in [("momentum", self.momentum), ("decay", self.decay)] {
            if !(0.0..1.0).contains(&x) {
                return fail(setting, format!("must be at least 0 and below 1, not {x}"));
            }
        }
        if !(self.damping >= 0.0 && self.damping.is_finite()) {
            return fail("damping", format!("must be a finite number of at least 0, not {}", self.damping));
        }
        at_least_one("draws_per_component", self.draws_per_component as u64)?;
        at_most("draws_per_component", self.draws_per_component)?;
        at_least_one("minibatch", self.minibatch.unwrap_or(1) as u64)?;
        if self.trust_region < trust_region::LEAST {
            return fail(
                "trust_region",
                format!("must be at least {}, not {}", trust_region::LEAST, self.trust_region),
            );
        }
        let score = self.estimator == Estimator::Score;
        if score != (self.rule == Rule::Adam) {
            return fail("rule", "must be adam with the score estimator, and only with it".into());
        }
        if score && self.source != Source::Mixture {
            return fail("source", "must be mixture with the score estimator".into());
        }
        if score && self.plan().count(self.draws_per_component) < 2 {
            return fail("draws_per_component", "must be at least 2 for the baseline of the score estimator".into());
        }
        Ok(())
    }
}
