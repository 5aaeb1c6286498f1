//! The entropy trick: a component's own log density as control variate.
//!
//! Under `N_k` these expectations are known: `E[log N_k] = -H_k`, `E[a_k] = 0` with `a_k = grad log N_k`, and by
//! Stein's identity the curvature of `a_k` is `-S_k`. So for any coefficient `c`
//!
//! ```text
//! E_k[b]      = E_k[b + c (log N_k + H_k)]
//! E_k[grad b] = E_k[grad b + c a_k]
//! E_k[hess b] = Stein(grad b + c a_k) + c S_k
//! ```
//!
//! With `c = 1` (the draft's trick) the *entropy* part has no noise for one component, or for components that do
//! not overlap, but the noise of `log p` stays; with `c = 0` the noise of the *difference* `b` vanishes where q = p.
//! Near the optimum that costs far more than it gains (`cargo bench --bench entropy_trick` shows both), so the default
//! is `fitted`: on, with the coefficient that was best on the previous iteration's points. Those are independent of the
//! present points, so nothing is biased. Whole frames of cubature integrate `log N_k`, `a_k` and its curvature exactly, so
//! there every coefficient gives the same estimate of a component's own moments; under such draws the coefficient is
//! therefore zero, which costs nothing and shows the smallest spread. With exact curvature the third line changes nothing.

use super::cell::Cell;
use crate::config::{Parts, Source};
use crate::draws::Plan;
use crate::family::Gaussian;
use serde::{Deserialize, Serialize};

/// Fewest points from which a coefficient is fitted.
pub const FEWEST_TO_FIT: usize = 30;

/// Use of the entropy trick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trick {
    /// Coefficient one.
    On,
    /// Coefficient zero.
    Off,
    /// The best coefficient on the previous iteration's points; zero until there are enough, since a wrong one costs
    /// most near the optimum.
    Fitted,
}

/// Coefficients of one component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Coefficients {
    pub value: f64,
    pub grad: f64,
}

impl Trick {
    /// Whether the trick has anything to act on: not where a component's own points are whole frames of cubature.
    fn acts(self, parts: &Parts, dim: usize) -> bool {
        let whole_frames = parts.draws == Plan::Cubature
            && parts.source == Source::Component
            && parts.draws_per_component.is_multiple_of(2 * dim);
        self != Trick::Off && !whole_frames
    }

    /// Coefficients of the first iteration.
    pub(crate) fn start(self, parts: &Parts, dim: usize) -> Coefficients {
        let c = if self == Trick::On && self.acts(parts, dim) { 1.0 } else { 0.0 };
        Coefficients { value: c, grad: c }
    }

    /// Coefficients for the next iteration.
    pub(crate) fn next(self, parts: &Parts, present: Coefficients, cell: &Cell, q: &Gaussian) -> Coefficients {
        match self {
            Trick::Fitted if self.acts(parts, q.dim()) => cell.best_coefficients(q.log_norm()).unwrap_or(present),
            _ => present,
        }
    }
}

impl Coefficients {
    /// Least-squares coefficients from points with weights `v`, residuals `b`, own log densities `log_n` and
    /// `lift = (grad b)'(z - m)`; NaN marks dropped points. In the metric of `S_k^-1` the best coefficient of
    /// the gradient is `sum v lift / sum v |y|^2`, and `|y|^2 = 2 (log N_k(m) - log N_k(z))`.
    pub fn fit(v: &[f64], b: &[f64], log_n: &[f64], lift: &[f64], log_norm: f64) -> Option<Self> {
        let points = || v.iter().zip(b).zip(log_n).zip(lift).filter(|(((_, b), _), _)| b.is_finite());
        let (mut count, mut total, mut mean_b, mut mean_n) = (0, 0.0, 0.0, 0.0);
        for (((v, b), n), _) in points() {
            count += 1;
            total += v;
            mean_b += v * b;
            mean_n += v * n;
        }
        if count < FEWEST_TO_FIT {
            return None;
        }
        (mean_b, mean_n) = (mean_b / total, mean_n / total);
        let (mut cross, mut square, mut lifted, mut quad) = (0.0, 0.0, 0.0, 0.0);
        for (((v, b), n), lift) in points() {
            cross += v * (b - mean_b) * (n - mean_n);
            square += v * (n - mean_n).powi(2);
            lifted += v * lift;
            quad += v * 2.0 * (log_norm - n);
        }
        let (value, grad) = (-cross / square, lifted / quad);
        // A fit outside [0, 1] is noise: the meaningful coefficients lie between zero and one.
        (value.is_finite() && grad.is_finite())
            .then(|| Self { value: value.clamp(0.0, 1.0), grad: grad.clamp(0.0, 1.0) })
    }
}
