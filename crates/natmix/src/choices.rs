//! Settings as people give them, by name and with `auto`, and what they become for a target: the same on the command
//! line and in Python.
//!
//! ```
//! use natmix::choices::{About, Choices};
//! let choices = Choices { components: "3".into(), draws: "cubature".into(), ..Choices::default() };
//! let config = choices.config(&About { dim: 2, ..About::default() }).unwrap();
//! assert_eq!((config.components, config.draws_per_component), (3, 40));
//! ```

use crate::config::Config;
use crate::draws::Plan;
use crate::error::Error;
use crate::estimate::Trick;
use crate::family::CovarianceKind;
use crate::method::Method;
use crate::rule::Rule;
use serde::{Deserialize, Serialize};

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
/// Fewest points a component by default.
const FEWEST_DRAWS: usize = 40;

/// Settings by name. `auto`, or nothing, leaves a choice to the target and the method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choices {
    /// Name of a [`Method`], or `auto`.
    pub method: String,
    /// A number, or `auto`.
    pub components: String,
    /// `full`, `diag` or `auto`.
    pub covariance: String,
    /// Name of a [`Rule`].
    pub rule: Option<String>,
    /// Step size.
    pub rate: Option<f64>,
    /// Step size of the weights.
    pub weight_rate: Option<f64>,
    /// Name of a draw plan, or `auto`.
    pub draws: String,
    /// Points a component and iteration.
    pub draws_per_component: Option<usize>,
    /// `on`, `off` or `fitted`.
    pub entropy_trick: String,
    /// Rows in a minibatch.
    pub minibatch: Option<usize>,
    /// Nats of expected gain below which the run stops.
    pub tolerance: f64,
    /// Most points at which the target is evaluated.
    pub max_evals: Option<u64>,
    /// Most seconds.
    pub max_seconds: Option<f64>,
    /// Centre of the start: one number, or one a coordinate.
    pub init_mean: Option<Vec<f64>>,
    /// Spread of the start.
    pub init_sd: Option<Vec<f64>>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads; zero means one a core.
    pub threads: usize,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            method: "auto".into(),
            components: "auto".into(),
            covariance: "auto".into(),
            rule: None,
            rate: None,
            weight_rate: None,
            draws: "auto".into(),
            draws_per_component: None,
            entropy_trick: "fitted".into(),
            minibatch: None,
            tolerance: 0.01,
            max_evals: None,
            max_seconds: None,
            init_mean: None,
            init_sd: None,
            seed: 1,
            threads: 0,
        }
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
    /// Where a start may be drawn from unless the choices say otherwise: mean and standard deviation.
    pub init: (&'a [f64], &'a [f64]),
}

impl Default for About<'_> {
    /// One dimension, no rows, any number of modes, a start around zero.
    fn default() -> Self {
        Self { dim: 1, rows: None, one_mode: false, gradient: true, init: (&[0.0], &[1.0]) }
    }
}

impl Choices {
    /// Whether a part is set that the automatic mixture does not have.
    fn sets_a_part(&self) -> bool {
        let numbers = self.rate.is_some() || self.weight_rate.is_some() || self.draws_per_component.is_some();
        let names = self.rule.is_some() || self.draws != "auto" || self.entropy_trick != "fitted";
        numbers || names || self.minibatch.is_some()
    }

    /// The settings of the engine.
    pub fn config(&self, about: &About<'_>) -> Result<Config, Error> {
        let dim = about.dim;
        let method = match &self.method[..] {
            "auto" if !about.gradient => Method::Bbvi,
            // Whoever sets a part of the machine wants the machine that has this part.
            "auto" if self.sets_a_part() => Method::ComponentDraws,
            "auto" if about.one_mode && about.rows.is_some_and(|rows| rows >= MANY_ROWS) => Method::ComponentDraws,
            name => name.parse()?,
        };
        let base = Config::new(method);
        let covariance = match &self.covariance[..] {
            "auto" if base.covariance == CovarianceKind::Diag || dim > FULL_UP_TO => CovarianceKind::Diag,
            "auto" => CovarianceKind::Full,
            name => by_name("covariance", name, &[("full", CovarianceKind::Full), ("diag", CovarianceKind::Diag)])?,
        };
        let components = match &self.components[..] {
            "auto" if method == Method::Auto => 0,
            "auto" if about.one_mode || method == Method::Bbvi => 1,
            "auto" => AUTO_COMPONENTS,
            count => {
                let wrong = |problem| Error::Config { setting: "components", problem };
                let count = count.parse().map_err(|_| wrong(format!("{count} is neither auto nor a number")))?;
                if count == 0 {
                    return Err(wrong("must be at least 1".into()));
                }
                count
            }
        };
        let plans = Plan::ALL.map(|(plan, name, _)| (name, plan));
        let rules = Rule::ALL.map(|(rule, name, _)| (name, rule));
        let tricks = [("on", Trick::On), ("off", Trick::Off), ("fitted", Trick::Fitted)];
        let draws = match &self.draws[..] {
            "auto" => base.draws,
            name => by_name("draws", name, &plans)?,
        };
        // Whole frames of cubature are exact on cubics.
        let frame = 2 * dim.max(1);
        let by_default =
            if covariance == CovarianceKind::Full { frame * FEWEST_DRAWS.div_ceil(frame) } else { FEWEST_DRAWS };
        let by_default = if draws == Plan::Cubature { by_default } else { base.draws_per_component };
        let config = Config {
            components,
            covariance,
            draws,
            draws_per_component: self.draws_per_component.unwrap_or(by_default),
            entropy_trick: by_name("entropy_trick", &self.entropy_trick, &tricks)?,
            rule: match &self.rule {
                Some(name) => by_name("rule", name, &rules)?,
                None => base.rule,
            },
            rate: self.rate.unwrap_or(base.rate),
            weight_rate: self.weight_rate.unwrap_or(base.weight_rate),
            minibatch: self.minibatch,
            tolerance: self.tolerance,
            max_evals: self.max_evals,
            max_seconds: self.max_seconds,
            init_mean: self.init_mean.clone().unwrap_or_else(|| about.init.0.to_vec()),
            init_sd: self.init_sd.clone().unwrap_or_else(|| about.init.1.to_vec()),
            diagnostic_draws: diagnostic_draws(base.diagnostic_draws, about.rows),
            seed: self.seed,
            threads: self.threads,
            ..base
        };
        config.validate()?;
        Ok(config)
    }
}

/// Draws for the diagnostics: fewer where each costs a pass over many rows.
fn diagnostic_draws(most: usize, rows: Option<usize>) -> usize {
    rows.map_or(most, |rows| (DIAGNOSTIC_ROWS / rows.max(1)).clamp(FEWEST_DIAGNOSTIC_DRAWS, most))
}

fn by_name<T: Copy>(setting: &'static str, name: &str, choices: &[(&str, T)]) -> Result<T, Error> {
    choices.iter().find(|choice| choice.0 == name).map(|choice| choice.1).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|choice| choice.0).collect();
        Error::Config { setting, problem: format!("{name} is not one of {}", names.join(", ")) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_depends_on_the_target() {
        let auto = Choices::default();
        let many = auto.config(&About { dim: 25, ..About::default() }).unwrap();
        assert_eq!((many.method, many.components, many.covariance), (Method::Auto, 0, CovarianceKind::Full));
        let about =
            About { dim: 400, rows: Some(1_000_000), one_mode: true, init: (&[2.0], &[3.0]), ..About::default() };
        let one = auto.config(&about).unwrap();
        assert_eq!((one.covariance, one.diagnostic_draws), (CovarianceKind::Diag, 1_000));
        assert_eq!((one.method, one.components), (Method::ComponentDraws, 1));
        let few = auto.config(&About { rows: Some(1_000), ..about }).unwrap();
        assert_eq!((few.method, few.components), (Method::Auto, 0));
        let parts = Choices { draws: "cubature".into(), ..Choices::default() };
        let parts = parts.config(&About { one_mode: true, ..about }).unwrap();
        assert_eq!((parts.method, parts.components), (Method::ComponentDraws, 1));
        let values = auto.config(&About { gradient: false, ..About::default() }).unwrap();
        assert_eq!((values.method, values.components), (Method::Bbvi, 1));
        assert_eq!((&one.init_mean[..], &one.init_sd[..]), (&[2.0][..], &[3.0][..]));
    }

    #[test]
    fn wrong_names_are_told_with_the_right_ones() {
        let message = |choices: Choices| choices.config(&About::default()).unwrap_err().to_string();
        let wrong = |components: &str| Choices { components: components.into(), ..Choices::default() };
        assert_eq!(message(wrong("many")), "setting `components`: many is neither auto nor a number");
        assert!(message(wrong("0")).contains("at least 1"));
        let wrong = Choices { draws: "dice".into(), ..Choices::default() };
        assert!(message(wrong).starts_with("setting `draws`: dice is not one of independent, "));
    }
}
