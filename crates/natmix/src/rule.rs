//! Update rules: how a component moves, given its estimated moments.
//!
//! Every rule keeps positive definiteness for every input; one that cannot make a step leaves the component as it
//! was and says why.
//!
//! | rule | step | page |
//! |---|---|---|
//! | plain | `S - t E[hess b]`, then `m + t S_new^-1 E[grad b]` | Lin, Khan, Schmidt 2019 |
//! | improved | `m + t S^-1 E[grad b]`, `S + t G + t^2/2 G S^-1 G` | Lin, Schmidt, Khan 2020 |
//! | trust-region | the plain step of the largest size within a KL ball | Abdolmaleki et al. 2015, Arenz et al. 2018 |
//! | momentum | VOGN: momentum on the gradient, bounded decay of the curvature | Khan et al. 2018, Osawa et al. 2019 |
//! | adam | Euclidean, for the score estimator | Kingma, Ba 2015 |

pub mod adam;
pub mod improved;
pub mod momentum;
pub mod plain;
pub mod trust_region;
pub mod weights;

pub use weights::WeightRule;

use serde::{Deserialize, Serialize};

/// How a component moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The natural-gradient step, halved until the precision is positive definite.
    Plain,
    /// The natural-gradient step with a second-order term that keeps the precision positive definite.
    Improved,
    /// The largest natural-gradient step within a KL bound.
    TrustRegion,
    /// VOGN's step with momentum and damping; diagonal only.
    Momentum,
    /// Adam on Euclidean gradients; for the score estimator.
    Adam,
}

impl Rule {
    /// Every rule, with its name and one line about it.
    pub const ALL: [(Rule, &'static str, &'static str); 5] = [
        (Rule::Plain, "plain", "natural-gradient step, halved until positive definite"),
        (Rule::Improved, "improved", "natural-gradient step with second-order term, always positive definite"),
        (Rule::TrustRegion, "trust-region", "largest natural-gradient step within a KL bound (default)"),
        (Rule::Momentum, "momentum", "VOGN's step: momentum, damping, slowly forgotten curvature; diagonal"),
        (Rule::Adam, "adam", "Adam on Euclidean gradients, for the score estimator"),
    ];

    /// The name that configuration files use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct StepInfo {
    /// The step size that was taken, after halving or scaling; zero if none was.
    pub rate: f64,
    /// Why no step was taken.
    pub skipped: Option<Skipped>,
}

/// Why a component stayed as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// None of its points could be evaluated.
    #[error("no usable point")]
    NoPoints,
    /// Its moments hold NaN or infinities.
    #[error("moments are not finite")]
    NotFinite,
    /// No step of a reasonable size keeps the precision positive definite.
    #[error("precision would not be positive definite")]
    NotPositiveDefinite,
}

impl StepInfo {
    pub(crate) fn taken(rate: f64) -> Self {
        Self { rate, skipped: None }
    }
    pub(crate) fn skipped(why: Skipped) -> Self {
        Self { rate: 0.0, skipped: Some(why) }
    }
}

/// Whether gradient and curvature can be used at all.
pub(crate) fn finite(grad: &[f64], hess: &[f64]) -> bool {
    grad.iter().chain(hess).all(|x| x.is_finite())
}

/// Moves a mean by `step` and the precision through `set`, which returns whether it could: both, or neither.
pub(crate) fn move_both(mean: &mut [f64], step: &[f64], set: impl FnOnce() -> bool) -> bool {
    let moved = mean.iter().zip(step).all(|(m, s)| (m + s).is_finite()) && set();
    if moved {
        mean.iter_mut().zip(step).for_each(|(m, s)| *m += s);
    }
    moved
}
