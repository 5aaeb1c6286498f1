//! VOGN's step for diagonal precisions, as trained on networks.
//!
//! With `g = E[grad b]`, curvature rate `b2`, momentum `b1` and iteration `t` of the run:
//!
//! ```text
//! v <- b1 v + (1 - b1) g
//! S <- max(S - b2 E[hess b], S/2)
//! m <- m + rate / (1 - b1^t) * v / (S + damping)
//! ```
//!
//! For one component `S - b2 E[hess b] = (1 - b2) S + b2 h` with `h` the positive curvature of `-log p`. The floor
//! `S/2` keeps the precision positive for every input.

use super::{Skipped, StepInfo, finite, move_both};
use crate::family::{AnyCovariance, Gaussian};
use crate::workspace::Scratch;

/// Settings of the step.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    /// Step size.
    pub rate: f64,
    /// Momentum `b1`.
    pub momentum: f64,
    /// Curvature rate `b2`.
    pub curvature_rate: f64,
    /// Added to the precision that divides the step.
    pub damping: f64,
    /// Iteration of the run, from one on.
    pub iteration: u64,
}

/// Moves a diagonal `component`; `velocity` is the momentum that it carries.
pub fn step(
    component: &mut Gaussian,
    velocity: &mut [f64],
    grad: &[f64],
    hess: &[f64],
    settings: Momentum,
    scratch: &mut Scratch,
) -> StepInfo {
    if !finite(grad, hess) {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    component.update(|mean, prec| {
        let AnyCovariance::Diag(prec) = prec else { return StepInfo::skipped(Skipped::NotPositiveDefinite) };
        let Momentum { rate, momentum, curvature_rate, damping, iteration } = settings;
        let mut new = scratch.take(grad.len());
        let mut shift = scratch.take(grad.len());
        for ((new, s), h) in new.iter_mut().zip(prec.entries()).zip(hess) {
            *new = (s - curvature_rate * h).max(0.5 * s);
        }
        let correction = 1.0 - momentum.powi(iteration.min(1 << 20) as i32);
        for ((shift, v), (g, s)) in shift.iter_mut().zip(velocity.iter()).zip(grad.iter().zip(&new)) {
            *shift = rate / correction * (momentum * v + (1.0 - momentum) * g) / (s + damping);
        }
        let info = if move_both(mean, &shift, || prec.set(&new).is_ok()) {
            velocity.iter_mut().zip(grad).for_each(|(v, g)| *v = momentum * *v + (1.0 - momentum) * g);
            StepInfo::taken(rate)
        } else {
            StepInfo::skipped(Skipped::NotFinite)
        };
        scratch.give(new);
        scratch.give(shift);
        info
    })
}
