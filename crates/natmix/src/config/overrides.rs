//! Settings as users give them, all optional, and how they are resolved for a target: the same on the command line, in
//! files and in Python.
//!
//! Settings come in layers: flags override a file, which overrides the defaults. [`Overrides::resolve`] fills in the rest,
//! for a target, and refuses a setting that the chosen method does not read.
//!
//! Which method is chosen without a name: `bbvi` where there are no gradients; `component-draws` where a part is set that
//! the automatic mixture does not have (setting a rule implies a method that has one), and for one mode with very many
//! rows; else `auto`. Where `auto` is asked for by name, a setting of the parts is refused.

#[cfg(feature = "clap")]
use super::or_auto::parse;
use super::or_auto::{OrAuto, PerCoordinate};
use super::parts::{Parts, Source};
use super::readers::{check, is_of_parts, unread_by_auto};
use super::{Automatic, Config, Finish, Goal};
use crate::draws::{Plan, Radius};
use crate::error::Error;
use crate::estimate::{Estimator, Trick};
use crate::family::CovarianceKind;
use crate::method::Method;
use crate::rule::{Rule, WeightRule};

/// Dimension up to which covariances are full by default, and that up to which the automatic method makes them full where that is
/// worth its price.
const SURELY_FULL_UP_TO: usize = 300;
const FULL_UP_TO: usize = 1_024;
/// Components of a density where the method does not choose them.
const AUTO_COMPONENTS: usize = 30;
/// Most rows that the diagnostics evaluate, over all draws, and their fewest draws.
const DIAGNOSTIC_ROWS: usize = 400_000_000;
const FEWEST_DIAGNOSTIC_DRAWS: usize = 1_000;
/// Number of rows from which a posterior with one mode gets a single Gaussian by default: it is then close to one, and
/// every evaluation goes through all rows.
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
    /// let config = flags.over(file).resolve(None, &About { dim: 2, ..About::default() }).unwrap();
    /// let parts = config.parts().unwrap();
    /// assert_eq!((parts.components, parts.draws_per_component), (3, 40));
    /// ```
    #[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Method"))]
    pub struct Overrides {
        /// Number of components, or auto [default: auto]
        #[cfg_attr(feature = "clap", arg(long, value_name = "K", value_parser = parse::<OrAuto<usize>>))]
        pub components: OrAuto<usize>,
        /// Covariances: full, diag, low-rank or auto [default: auto: the method's, but diag above 300 dimensions; the method auto takes diag only above 1,024, or where correlations matter little]
        #[cfg_attr(feature = "clap", arg(long, value_name = "SHAPE", value_parser = parse::<OrAuto<CovarianceKind>>))]
        pub covariance: OrAuto<CovarianceKind>,
        /// Where points are drawn from: mixture, component [default: the method's]
        #[cfg_attr(feature = "clap", arg(long, value_name = "SOURCE", value_parser = parse::<Source>))]
        pub source: Source,
        /// Draw plan: independent, antithetic, orthogonal, cubature, auto [default: auto: the method's]
        #[cfg_attr(feature = "clap", arg(long, value_name = "PLAN", value_parser = parse::<OrAuto<Plan>>))]
        pub draws: OrAuto<Plan>,
        /// Radii of the cubature plan: random, fixed [default: random]
        #[cfg_attr(feature = "clap", arg(long, value_name = "RADIUS", value_parser = parse::<Radius>))]
        pub radius: Radius,
        /// Points per component and iteration [default: at least 40; for cubature with full covariances at least twice the
        /// dimension]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
        pub draws_per_component: usize,
        /// How curvature is estimated: exact, gauss-newton, empirical-fisher, stein, score [default: the method's]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = parse::<Estimator>))]
        pub estimator: Estimator,
        /// The entropy trick: on, off, fitted [default: fitted]
        #[cfg_attr(feature = "clap", arg(long, value_name = "WHEN", value_parser = parse::<Trick>))]
        pub entropy_trick: Trick,
        /// Update rule: plain, improved, trust-region, momentum, adam [default: the method's]
        #[cfg_attr(feature = "clap", arg(long, value_name = "RULE", value_parser = parse::<Rule>))]
        pub rule: Rule,
        /// Step size of every rule but trust-region [default: the method's]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub rate: f64,
        /// The step size falls as (1 + iteration)^-X [default: 0]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub decay: f64,
        /// Largest step of the improved rule, in units of a component's width [default: 3]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub step_cap: f64,
        /// First KL bound of a trust-region step [default: 1]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub trust_region: f64,
        /// Momentum of the rules momentum and adam, and of networks [default: 0.9]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub momentum: f64,
        /// Share of old curvature that a momentum step forgets [default: the step size; for networks 2.8 over the number
        /// of steps]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub curvature_rate: f64,
        /// Added to the precision that divides a momentum step [default: 0]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub damping: f64,
        /// How weights move: fixed, plain, trust-region [default: trust-region]
        #[cfg_attr(feature = "clap", arg(long, value_name = "RULE", value_parser = parse::<WeightRule>))]
        pub weight_rule: WeightRule,
        /// Step size of the weights [default: 1]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub weight_rate: f64,
        /// KL bound of a trust-region step of the weights [default: 0.01]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub weight_trust_region: f64,
        /// Rows in a minibatch [default: all rows; for networks 128, less for small data]
        #[cfg_attr(feature = "clap", arg(long, alias = "batch", value_name = "N"))]
        pub minibatch: usize,
        /// What an automatic run is for: answer, draws that hold (it stops as soon as they do; in more than 40 dimensions,
        /// for regressions 20, once a single Gaussian has converged, leaving the rest to chains), or elbo, the highest
        /// ELBO (it goes on until that has converged or the budget is spent) [default: answer]
        #[cfg_attr(feature = "clap", arg(long, value_name = "GOAL", value_parser = parse::<Goal>, help_heading = "Run"))]
        pub goal: Goal,
        /// When Hamiltonian chains finish a fit: auto, where neither the mixture nor its weighted draws hold; never; always.
        /// They start from the mixture, their draws become the answer once they agree (R-hat below 1.01), and their
        /// evaluations come on top of --max-evals [default: auto]
        #[cfg_attr(feature = "clap", arg(long, value_name = "WHEN", value_parser = parse::<Finish>, help_heading = "Run"))]
        pub finish: Finish,
        /// Nats of expected gain below which the run stops [default: 0.01]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Run"))]
        pub tolerance: f64,
        /// Most evaluations of the target [default: 100000 for auto unless --max-seconds is given, else no limit]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Run"))]
        pub max_evals: u64,
        /// Most seconds of fitting [default: no limit]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Run"))]
        pub max_seconds: f64,
        /// Centre of the start: a number, or one per coordinate [default: 0, or the spec's]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X", allow_hyphen_values = true, help_heading = "Run"))]
        pub init_mean: PerCoordinate,
        /// Spread of the start: a number, or one per coordinate [default: 1, or the spec's]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X", allow_hyphen_values = true, help_heading = "Run"))]
        pub init_sd: PerCoordinate,
        /// Whether the gradient of a function is checked before the fit.
        // Two flags, --check and --no-check.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub check: bool,
        /// Seed of all randomness [default: 1]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Run"))]
        pub seed: u64,
        /// Threads; never changes a result [default: one per core]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Run"))]
        pub threads: usize,
    }
}

/// The properties of a target that settings depend on.
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
    /// Mean and standard deviation of the start, unless the settings give them.
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
    fn choose_method(&self, named: Option<Method>, about: &About<'_>) -> Result<Method, Error> {
        let part = self.parts_given().next();
        match named {
            Some(Method::Auto) | None => {}
            Some(method) => return Ok(method),
        }
        if let (Some(Method::Auto), Some(part)) = (named, part) {
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

    /// The settings of the engine for a target: those of the method that is named, or else chosen, with these over them.
    pub fn resolve(&self, method: Option<Method>, about: &About<'_>) -> Result<Config, Error> {
        let method = self.choose_method(method, about)?;
        let mut config = Config::new(method);
        replace!(self, config: goal, finish, tolerance, max_evals, max_seconds, check, seed, threads);
        if config.finish == Finish::Always && !about.gradient {
            let problem = "must not be always for a target without gradients, which chains need".into();
            return Err(Error::Config { setting: "finish", problem });
        }
        config.init_mean = self.init_mean.clone().map_or_else(|| about.init.0.to_vec(), Vec::from);
        config.init_sd = self.init_sd.clone().map_or_else(|| about.init.1.to_vec(), Vec::from);
        config.diagnostic_draws = diagnostic_draws(config.diagnostic_draws, about.rows);
        let full_up_to = if method == Method::Auto { FULL_UP_TO } else { SURELY_FULL_UP_TO };
        config.covariance = match self.covariance.unwrap_or_default() {
            OrAuto::Is(shape) => shape,
            OrAuto::Auto if about.dim > full_up_to => CovarianceKind::Diag,
            OrAuto::Auto => config.covariance,
        };
        let components = self.components.unwrap_or_default();
        config.strategy = match method {
            Method::Auto => {
                let auto = matches!(self.covariance.unwrap_or_default(), OrAuto::Auto);
                let drop_correlations = auto && (SURELY_FULL_UP_TO + 1..=FULL_UP_TO).contains(&about.dim);
                Automatic { components, drop_correlations, ..Automatic::default() }.into()
            }
            Method::Bbvi
            | Method::Ngvi
            | Method::Von
            | Method::Vogn
            | Method::MixtureDraws
            | Method::ComponentDraws => self.resolve_parts(method, config.covariance, components, about)?.into(),
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
