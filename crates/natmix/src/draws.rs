//! Draw plans: where a component's standard normal points come from.
//!
//! A plan fills points `eps` of a standard normal together with weights that sum to one; the component then
//! moves them to `m + L^-T eps`. Every plan but `independent` lays its points out in antithetic pairs
//! `(eps, -eps)`, next to each other.
//!
//! | plan | unbiased | exact on |
//! |---|---|---|
//! | independent | yes | constants |
//! | antithetic | yes | odd functions |
//! | orthogonal | yes | odd functions; less noise on quadratics |
//! | cubature, random radius | yes | cubics (whole frames) |
//! | cubature, fixed radius | up to cubics | cubics (whole frames) |

mod antithetic;
mod cubature;
mod independent;
mod orthogonal;

use crate::noise::{Noise, Purpose};
use crate::workspace::Scratch;
use serde::{Deserialize, Serialize};

/// How the points of a component are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// Independent standard normals.
    Independent,
    /// Independent pairs `(eps, -eps)`.
    Antithetic,
    /// Pairs along random orthogonal frames, each with a length of its own.
    Orthogonal,
    /// Pairs along random orthogonal frames with radii that integrate cubics exactly.
    Cubature,
}

/// Radii of the cubature plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Radius {
    /// `sqrt(d)` for all points: least noise, but biased beyond cubics.
    Fixed,
    /// `chi(d + 2)` with compensating weights and a centre point: unbiased.
    Random,
}

/// A plan with its radius: what a run needs to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawPlan {
    /// The plan.
    pub plan: Plan,
    /// Radii, for cubature.
    pub radius: Radius,
}

impl Plan {
    /// Every plan, with its name and one line about it.
    pub const ALL: [(Plan, &'static str, &'static str); 4] = [
        (Plan::Independent, "independent", "independent draws; best for heavy tails"),
        (Plan::Antithetic, "antithetic", "independent pairs (z, -z) about the mean"),
        (Plan::Orthogonal, "orthogonal", "pairs along random orthogonal directions"),
        (Plan::Cubature, "cubature", "orthogonal pairs at radii that make cubics exact (default)"),
    ];

    /// The name that configuration files use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }
}

impl DrawPlan {
    /// Points that a component gets when `wanted` are asked for: pairs round up, and a random radius
    /// adds the centre.
    pub fn count(self, wanted: usize) -> usize {
        match (self.plan, self.radius) {
            _ if wanted == 0 => 0,
            (Plan::Independent, _) => wanted,
            (Plan::Cubature, Radius::Random) => wanted.next_multiple_of(2) + 1,
            _ => wanted.next_multiple_of(2),
        }
    }

    /// How many of `count` points lie off the centre.
    pub(crate) fn count_without_centre(self, count: usize) -> usize {
        match (self.plan, self.radius) {
            (Plan::Cubature, Radius::Random) => count.saturating_sub(1),
            _ => count,
        }
    }

    /// Points that one stream of noise fills: whole frames where there are frames.
    pub(crate) fn block(self, dim: usize) -> usize {
        match self.plan {
            Plan::Independent | Plan::Antithetic => 64,
            Plan::Orthogonal | Plan::Cubature => 2 * dim,
        }
    }

    /// Whether neighbouring points are pairs.
    pub(crate) fn paired(self) -> bool {
        self.plan != Plan::Independent
    }

    /// Fills one block of points and their weights, before normalisation.
    pub(crate) fn fill(self, eps: &mut [f64], weights: &mut [f64], key: Key, block: usize, scratch: &mut Scratch) {
        let dim = eps.len() / weights.len();
        let mut noise = Noise::new(key.seed, Purpose::Draws, key.id, key.iteration, block as u64);
        match self.plan {
            Plan::Independent => independent::fill(eps, weights, &mut noise),
            Plan::Antithetic => antithetic::fill(eps, weights, dim, &mut noise),
            Plan::Orthogonal => orthogonal::fill(eps, weights, dim, &mut noise, scratch),
            Plan::Cubature => cubature::fill(eps, weights, dim, self.radius, &mut noise, scratch),
        }
    }

    /// Makes the weights of all points of a component sum to one, and sets the centre, where there is one.
    pub(crate) fn finish(self, eps: &mut [f64], weights: &mut [f64]) {
        if self.plan == Plan::Cubature && self.radius == Radius::Random && !weights.is_empty() {
            let dim = eps.len() / weights.len();
            let last = weights.len() - 1;
            let scale = (last as f64).recip();
            weights[..last].iter_mut().for_each(|w| *w *= scale);
            // The centre takes 1 - mean(d / r^2), which may be negative.
            weights[last] = 1.0 - weights[..last].iter().sum::<f64>();
            eps[last * dim..].fill(0.0);
        } else {
            let scale = (weights.len() as f64).recip();
            weights.iter_mut().for_each(|w| *w *= scale);
        }
    }
}

/// What the noise of a component's draws is keyed by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub seed: u64,
    pub id: u64,
    pub iteration: u64,
}
