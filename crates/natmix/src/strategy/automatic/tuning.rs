//! The constants of the automatic method in one place, each with its meaning and its reason.
//!
//! Nobody needs to set them: they are the same for every target. They are a struct so that `natmix bench --vary` can show
//! what each of them does.
//!
//! ```
//! use natmix::automatic::Tuning;
//! let mut tuning = Tuning::default();
//! tuning.set("search_share", 0.1).unwrap();
//! assert_eq!(tuning.get("search_share"), Some(0.1));
//! assert!(tuning.set("search_shares", 0.1).is_err());
//! ```

use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Declares the struct and its defaults together, so that a value stands next to its reason.
macro_rules! tuning {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $value:expr,)*) => {
        /// Constants of the automatic method. The defaults are the method; other values are for experiments.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Tuning {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for Tuning {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }
    };
}

tuning! {
    /// Most components unless a number is asked for. More cost time per iteration and rarely gain anything.
    max_components: usize = 128,
    /// Evaluations in the budget for each component beyond `max_components`, up to twice as many: a large budget can shape
    /// more components.
    max_components_evals: u64 = 4000,

    /// Share of the evaluations that the search for modes may spend: the larger part is needed to shape the components.
    search_share: f64 = 0.3,
    /// Smallest share of the search, in many dimensions.
    search_min_share: f64 = 0.01,
    /// Most starts: a mode to which 0.8% of starts lead is then found with 99% probability.
    search_max_starts: usize = 600,
    /// Starts of the first batch: enough to see whether all of them lead to one mode. The second has three times as many,
    /// and each later one as many as all before it.
    search_first_starts: usize = 4,
    /// Squared distance, in a mode's own metric, within which another summit is the same mode: two standard deviations.
    /// A climb counts as leading to a mode if a Newton step from it lands within half of that.
    search_same_distance: f64 = 4.0,
    /// Log of the smallest mass of a mode, relative to the heaviest by Laplace's estimate, that gets a component: below it
    /// the estimate would have to be wrong by many orders of magnitude.
    search_min_log_mass: f64 = -30.0,

    /// Dimension from which on a fit begins with one Gaussian, the best along the climbs, and splits it only once it has
    /// converged: many components would share too few points. From there the share of the search falls with the square of the
    /// dimension, since chains need what is left.
    one_gaussian_dim: usize = 41,
    /// The same for densities that are known to be log-concave, of a run that is for an answer: chains have no modes to miss.
    one_gaussian_log_concave_dim: usize = 21,
    /// Error of the ELBO, in nats, below which such a Gaussian can be seen to have converged.
    one_gaussian_noise: f64 = 1.0,
    /// Dimension beyond which a run for an answer fits such a Gaussian only roughly: an iteration with a full covariance then takes
    /// as long as thousands of steps of the chains that follow, and these do not need the last nats.
    rough_dim: usize = 300,
    /// Gain of the ELBO over four iterations, in nats per dimension beyond `rough_dim`, below which it is good enough.
    rough_gain: f64 = 0.02,
    /// How far the ELBO of such a Gaussian must fall below the best before the run returns to that one: in nats, and in
    /// standard errors.
    retreat_nats: f64 = 10.0,
    /// The latter.
    retreat_errors: f64 = 4.0,
    /// Factor on the bound of its steps afterwards.
    retreat_shrink: f64 = 0.25,

    /// Expected gain in nats below which a climb has arrived: the mixture takes over from there. A parabola that errs by less,
    /// as a share of the drop from the mode too, counts as exact.
    climb_tolerance: f64 = 1e-3,

    /// Dimension up to which diagonal covariances take one evaluation per dimension; beyond, the climb's own estimate is
    /// used.
    laplace_max_diagonal: usize = 512,

    /// First weight of the start distribution as a component, relative to the modes: in case narrow peaks lie far from the
    /// mass.
    start_weight: f64 = 0.05,

    /// Fewest points per component and iteration: with fewer the regression is mostly its ridge. Enough for a diagonal
    /// covariance in any dimension, since its regression is by coordinate.
    draw_min: usize = 10,
    /// Points of a component with a full covariance that no other component lends points to: this many, and more per
    /// dimension.
    draw_base: usize = 5,
    /// Points per dimension beyond `draw_base`. Few points and many steps beat many points and few steps.
    draw_per_dimension: f64 = 0.5,
    /// Effective points that a component should have, in multiples of its own: where others lend them, it draws less.
    draw_effective_factor: usize = 3,
    /// Standard error of a component's value, times its weight, above which it draws more: noise would throw the weights
    /// about.
    draw_noise_limit: f64 = 0.1,
    /// Most times as many points as it would draw otherwise.
    draw_noise_max_factor: f64 = 4.0,
    /// Number of components up to which the points of the previous iteration are used once more: there every point counts,
    /// and with many components that lend each other points it gains nothing at twice the time. In the last iterations so few
    /// components also draw as many more points as make up for their small number.
    draw_reuse_max_components: usize = 8,

    /// Ridge of the regression, times dimension over effective points: defined with fewer points than dimensions.
    moments_ridge: f64 = 0.35,
    /// Standard errors by which the fitted parabola may correct the mean of the residual: through few points far from the
    /// target it may say anything.
    moments_max_correction: f64 = 2.0,

    /// Iterations of a stage before the weights move: a component must not lose its weight before it has found its shape.
    weight_wait: u64 = 8,
    /// KL bound on a step of the weights before the first split: the modes' masses are only Laplace's estimates.
    weight_trust_region_first: f64 = 0.1,
    /// KL bound on a step of the weights after the first split: smaller, since children begin with equal weights that are
    /// nearly right.
    weight_trust_region: f64 = 0.03,

    /// Fewest iterations before the first split.
    stage_first_min: u64 = 12,
    /// Most iterations before the first split: modes need not be exact before they are split.
    stage_first_max: u64 = 30,

    /// Iterations that a split should have left in the budget: the number of components follows from it.
    growth_iterations: u64 = 80,
    /// Fewest iterations that a split may have left, where the number of components at most doubles.
    growth_min_iterations: u64 = 30,
    /// Points per component and iteration that this planning assumes.
    growth_planned_draws: u64 = 11,
    /// Misfit, in tolerances, above which a split is worthwhile: two overlapping modes that share a component cost little.
    /// As much may be lost by deleting light components to make room for others.
    growth_min_misfit: f64 = 0.25,
    /// Gain of the last split, in tolerances, without which there is no further one.
    growth_min_gain: f64 = 2.0,
    /// Fewest components that a split adds, and fewest children that differ in width.
    growth_min_added: f64 = 3.0,
    /// Components that a split may add per tolerance of misfit.
    growth_per_tolerance: f64 = 4.0,
    /// Times as many components after a split where no budget of evaluations says how many; at least the square of this.
    growth_factor: usize = 4,
    /// Share of the residual's variance that must follow the distance from the mean alone for children of different widths.
    growth_radial_share: f64 = 0.4,
    /// Log of the widest child's width over its parent's, where children differ in width.
    growth_ladder_log_width: f64 = 1.2,
    /// Most children of different widths.
    growth_ladder_max: usize = 9,
    /// Spread of the children's means, in the parent's standard deviations. With `growth_child_width` the children together
    /// keep about the parent's covariance: 0.7^2 + 0.5 = 0.99.
    growth_child_distance: f64 = 0.7,
    /// Width of such children, in the parent's standard deviations.
    growth_child_width: f64 = std::f64::consts::FRAC_1_SQRT_2,
    /// First KL bound of a child: its place is a guess, so it may move quickly.
    growth_child_trust_region: f64 = 0.3,
    /// Variance of the residual beyond which it says no more about what a split would gain; what was far off once should
    /// soon be forgotten.
    growth_max_variance: f64 = 4.0,
    /// Share of the newest value in the running means of the residual's variance and its radial share.
    growth_smoothing: f64 = 0.3,

    /// KL divergence below which two components are merged.
    merge_max_kl: f64 = 1e-3,
    /// Weight below which a component is deleted: it cannot change the ELBO but goes on drawing points.
    prune_min_weight: f64 = 1e-6,

    /// Nats by which a point must lie above the ELBO to be missed: the mixture has a twentieth of the density there.
    missed_excess: f64 = 3.0,
    /// Most components added at missed points at a time.
    missed_max_added: usize = 8,
    /// Most of the weight that these get together: Laplace's estimate may be far too large.
    missed_max_weight: f64 = 0.5,
    /// Most times that components are added at missed points: each costs a stage.
    missed_max_rounds: u64 = 4,

    /// Variance of the residual, in squared nats, at which one Gaussian is the density itself as far as can be seen.
    look_exact_variance: f64 = 1e-6,
    /// Misfit, in nats, up to which a look can succeed where the density is log-concave.
    look_max_misfit: f64 = 0.5,

    /// Iterations at the end in which the trust regions shrink, so that the last steps average over the noise.
    settle_iterations: u64 = 16,
    /// Factor by which they shrink in each of these iterations.
    settle_shrink: f64 = 0.8,
    /// Share of the budget that these iterations may take.
    settle_share: f64 = 0.25,
    /// Times as many points in these iterations where the share allows it: the bias of few points counts more at the end.
    settle_min_factor: usize = 2,
}

impl Tuning {
    /// The constants' names.
    pub fn names() -> Vec<String> {
        Self::default().fields().keys().cloned().collect()
    }

    /// The constant of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.fields().get(name).and_then(Value::as_f64)
    }

    /// Sets the constant of that name; a count is rounded.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), Error> {
        let mut fields = self.fields();
        let Some(field) = fields.get_mut(name) else {
            return refuse(format!("{name} is not one of {}", Self::names().join(", ")));
        };
        *field = match field {
            Value::Number(old) if !old.is_f64() && value >= 0.0 => Value::from(value.round() as u64),
            _ => Value::from(value),
        };
        match serde_json::from_value::<Self>(Value::Object(fields)) {
            Ok(changed) => {
                changed.validate()?;
                *self = changed;
                Ok(())
            }
            Err(_) => refuse(format!("{name} cannot be {value}")),
        }
    }

    /// Checks that every constant has a value that the method can work with.
    pub fn validate(&self) -> Result<(), Error> {
        for (name, value) in self.fields() {
            let x = value.as_f64().unwrap_or(f64::NAN);
            let (least, most): (f64, f64) = match &name[..] {
                "search_min_log_mass" => (f64::MIN, 0.0),
                "draw_noise_max_factor" => (1.0, f64::MAX),
                "missed_max_weight" => (0.0, 0.99),
                "settle_shrink" => (0.0, 1.0),
                shares if shares.ends_with("_share") || shares.ends_with("_smoothing") => (0.0, 1.0),
                _ => (0.0, f64::MAX),
            };
            let positive = x != 0.0 || least < 0.0;
            if !(positive && (least..=most).contains(&x)) {
                return refuse(format!("{name} cannot be {value}"));
            }
        }
        Ok(())
    }

    /// Whether nothing was changed; used to leave the constants out of saved settings.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        }
    }
}

fn refuse<T>(problem: String) -> Result<T, Error> {
    Err(Error::Config { setting: "tuning", problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_can_be_read_and_doubled_or_halved() {
        let default = Tuning::default();
        assert!(Tuning::names().len() > 40 && default.is_default());
        default.validate().unwrap();
        for name in Tuning::names() {
            let old = default.get(&name).unwrap();
            let changed = [0.5, 2.0].map(|factor| {
                let mut tuning = default.clone();
                tuning.set(&name, factor * old).map(|()| tuning.get(&name).unwrap())
            });
            let [half, twice] = changed;
            assert!((half.unwrap() - 0.5 * old).abs() <= 0.5, "{name}");
            // A share of more than everything is refused.
            assert!(twice.map_or(old >= 0.5, |twice| twice == 2.0 * old), "{name}");
        }
    }

    #[test]
    fn counts_are_rounded_and_nonsense_is_refused() {
        let mut tuning = Tuning::default();
        tuning.set("draw_min", 6.6).unwrap();
        assert_eq!(tuning.draw_min, 7);
        for (name, value) in [("draw_min", -1.0), ("draw_min", 0.2), ("search_share", f64::NAN), ("search_share", 1.5)]
        {
            assert!(tuning.set(name, value).is_err(), "{name} {value}");
        }
        assert!(tuning.set("no_such", 1.0).unwrap_err().to_string().contains("search_share"));
        assert_eq!(tuning, Tuning { draw_min: 7, ..Tuning::default() });
    }
}
