//! Settings as people give them, each of them optional, and what they become for a target: the same on the command line, in
//! files and in Python.
//!
//! Layers of settings lie over one another: flags over a file over the defaults. [`Overrides::resolve`] fills in the rest,
//! for a target, and refuses a setting that the chosen method does not read.
//!
//! Which method is chosen without a name: `bbvi` where there are no gradients; `component-draws` where a part is set that
//! the automatic mixture does not have (whoever sets a rule wants a method that has one), and for one mode with very many
//! rows; else `auto`. Where `auto` is asked for by name, a setting of the parts is refused.

use super::or_auto::{OrAuto, PerCoordinate};
use super::parts::{Parts, Source};
use super::readers::{check, is_of_parts, unread_by_auto};
use super::{Automatic, Config};
use crate::draws::{Plan, Radius};
use crate::error::Error;
use crate::estimate::{Estimator, Trick};
use crate::family::CovarianceKind;
use crate::method::Method;
use crate::rule::{Rule, WeightRule};

/// Dimension up to which covariances are full by default.
const FULL_UP_TO: usize = 300;
/// Components of a density where the method does not choose them.
const AUTO_COMPONENTS: usize = 30;
/// Rows that the diagnostics may look at, all draws together, and their fewest draws.
const DIAGNOSTIC_ROWS: usize = 400_000_000;
const FEWEST_DIAGNOSTIC_DRAWS: usize = 1_000;
/// Rows from which on a posterior with one mode gets one Gaussian by default: hardly any other shape is left to it, and every
/// evaluation goes through all rows.
const MANY_ROWS: usize = 50_000;
/// Fewest points per component by default.
const FEWEST_DRAWS: usize = 40;

crate::overlay! {
    /// Settings by name, each of them optional: what is not set is chosen for the target and the method.
    ///
    /// ```
    /// use natmix::config::{About, Overrides};
    /// use natmix::draws::Plan;
    /// let file = Overrides { components: Some(5.into()), ..Overrides::default() };
    /// let flags = Overrides { components: Some(3.into()), draws: Some(Plan::Cubature.into()), ..Overrides::default() };
    /// let config = flags.over(file).resolve(&About { dim: 2, ..About::default() }).unwrap();
    /// let parts = config.parts().unwrap();
    /// assert_eq!((parts.components, parts.draws_per_component), (3, 40));
    /// ```
    pub struct Overrides {
        /// Method.
        pub method: Method,
        /// Number of components.
        pub components: OrAuto<usize>,
        /// Kind of the covariances.
        pub covariance: OrAuto<CovarianceKind>,
        /// Where points are drawn from.
        pub source: Source,
        /// Draw plan.
        pub draws: OrAuto<Plan>,
        /// Radii of the cubature plan.
        pub radius: Radius,
        /// Points per component and iteration.
        pub draws_per_component: usize,
        /// How expectations are estimated.
        pub estimator: Estimator,
        /// The entropy trick.
        pub entropy_trick: Trick,
        /// Update rule.
        pub rule: Rule,
        /// Step size.
        pub rate: f64,
        /// Power by which the step size falls.
        pub decay: f64,
        /// Largest step of the improved rule.
        pub step_cap: f64,
        /// First KL bound of the trust region.
        pub trust_region: f64,
        /// Momentum of the momentum rule and of adam.
        pub momentum: f64,
        /// Rate at which the momentum rule forgets old curvature.
        pub curvature_rate: f64,
        /// Added to the precision that divides a momentum step.
        pub damping: f64,
        /// How weights move.
        pub weight_rule: WeightRule,
        /// Step size of the weights.
        pub weight_rate: f64,
        /// KL bound of a step of the weights.
        pub weight_trust_region: f64,
        /// Rows in a minibatch.
        pub minibatch: usize,
        /// Nats of expected gain below which the run stops.
        pub tolerance: f64,
        /// Most points at which the target is evaluated.
        pub max_evals: u64,
        /// Most seconds.
        pub max_seconds: f64,
        /// Centre of the start.
        pub init_mean: PerCoordinate,
        /// Spread of the start.
        pub init_sd: PerCoordinate,
        /// Seed of all randomness.
        pub seed: u64,
        /// Threads; zero means one per core.
        pub threads: usize,
    }
}

/// What the choices must know about a target.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Dimension.
    pub dim: usize,
    /// Rows of data, if there are any.
    pub rows: Option<usize>,
    /// Whether the posterior is known to have one mode: one component finds it.
    pub one_mode: bool,
    /// Whether the target has gradients.
    pub gradient: bool,
    /// Where a start may be drawn from unless the settings say otherwise: mean and standard deviation.
    pub init: (&'a [f64], &'a [f64]),
}

impl Default for About<'_> {
    /// One dimension, no rows, any number of modes, a start around zero.
    fn default() -> Self {
        Self { dim: 1, rows: None, one_mode: false, gradient: true, init: (&[0.0], &[1.0]) }
    }
}

/// Replaces those fields of a struct that are set here.
macro_rules! replace {
    ($given:ident, $place:ident: $($field:ident),*) => {
        $(if let Some(value) = $given.$field.clone() {
            $place.$field = value.into();
        })*
    };
}

impl Overrides {
    /// The parts that are set; a draw plan of `auto` sets none.
    fn parts_given(&self) -> impl Iterator<Item = &'static str> {
        let auto_draws = self.draws == Some(OrAuto::Auto);
        self.given().filter(move |name| is_of_parts(name) && !(auto_draws && *name == "draws"))
    }

    /// The method for a target, see the top of this page.
    fn choose_method(&self, about: &About<'_>) -> Result<Method, Error> {
        let part = self.parts_given().next();
        match self.method {
            Some(Method::Auto) | None => {}
            Some(method) => return Ok(method),
        }
        if let (Some(Method::Auto), Some(part)) = (self.method, part) {
            return Err(unread_by_auto(part));
        }
        let many_rows = about.rows.is_some_and(|rows| rows >= MANY_ROWS);
        Ok(match part {
            _ if !about.gradient => Method::Bbvi,
            Some(_) => Method::ComponentDraws,
            None if about.one_mode && many_rows => Method::ComponentDraws,
            None => Method::Auto,
        })
    }

    /// The settings of the engine for a target.
    pub fn resolve(&self, about: &About<'_>) -> Result<Config, Error> {
        let method = self.choose_method(about)?;
        let mut config = Config::new(method);
        replace!(self, config: tolerance, max_evals, max_seconds, seed, threads);
        config.init_mean = self.init_mean.clone().map_or_else(|| about.init.0.to_vec(), Vec::from);
        config.init_sd = self.init_sd.clone().map_or_else(|| about.init.1.to_vec(), Vec::from);
        config.diagnostic_draws = diagnostic_draws(config.diagnostic_draws, about.rows);
        config.covariance = match self.covariance.unwrap_or_default() {
            OrAuto::Is(shape) => shape,
            OrAuto::Auto if about.dim > FULL_UP_TO => CovarianceKind::Diag,
            OrAuto::Auto => config.covariance,
        };
        let components = self.components.unwrap_or_default();
        config.strategy = match method {
            Method::Auto => Automatic { components }.into(),
            _ => self.resolve_parts(method, config.covariance, components, about)?.into(),
        };
        config.validate()?;
        Ok(config)
    }

    fn resolve_parts(
        &self,
        method: Method,
        covariance: CovarianceKind,
        components: OrAuto<usize>,
        about: &About<'_>,
    ) -> Result<Parts, Error> {
        let mut parts = Parts::new(method);
        parts.components = match components {
            OrAuto::Is(count) => count,
            OrAuto::Auto if about.one_mode || method == Method::Bbvi => 1,
            OrAuto::Auto => AUTO_COMPONENTS,
        };
        if let Some(OrAuto::Is(plan)) = self.draws {
            parts.draws = plan;
        }
        if parts.draws == Plan::Cubature {
            // Whole frames of cubature are exact on cubics.
            let frame = 2 * about.dim.max(1);
            let whole = frame * FEWEST_DRAWS.div_ceil(frame);
            parts.draws_per_component = if covariance == CovarianceKind::Full { whole } else { FEWEST_DRAWS };
        }
        replace!(self, parts: source, radius, draws_per_component, estimator, entropy_trick, rule, rate, decay, step_cap);
        replace!(self, parts: trust_region, momentum, curvature_rate, damping);
        replace!(self, parts: weight_rule, weight_rate, weight_trust_region, minibatch);
        check(&parts, self.parts_given())?;
        Ok(parts)
    }
}

/// Draws for the diagnostics: fewer where each costs a pass over many rows.
fn diagnostic_draws(most: usize, rows: Option<usize>) -> usize {
    rows.map_or(most, |rows| (DIAGNOSTIC_ROWS / rows.max(1)).clamp(FEWEST_DIAGNOSTIC_DRAWS, most))
}

#[cfg(test)]
mod tests;
