//! The plain natural-gradient step: `S <- S - t E[hess b]`, `m <- m + t S_new^-1 E[grad b]`.
//!
//! It can leave the positive-definite cone; then `t` is halved, at most [`MOST_HALVINGS`] times.
//!
//! ```
//! use natmix::family::Gaussian;
//! // Target N(3, 1/4): grad b = 4 (3 - z) + z and hess b = -4 + 1. One step of size one solves it.
//! let mut q = Gaussian::isotropic(vec![0.0], 1.0);
//! natmix::rule::plain::step(&mut q, &[12.0], &[-3.0], 1.0, &mut Default::default());
//! assert_eq!((q.mean()[0], q.sd()[0]), (3.0, 0.5));
//! ```

use super::{Skipped, StepInfo, finite};
use crate::family::Gaussian;
use crate::workspace::Scratch;

/// After this many halvings the step would have no effect.
pub const MOST_HALVINGS: usize = 50;

/// Moves `component` by a step of size `rate` or a halved one.
pub fn step(component: &mut Gaussian, grad: &[f64], hess: &[f64], rate: f64, scratch: &mut Scratch) -> StepInfo {
    if !finite(grad, hess) || !rate.is_finite() {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    component.update(|mean, prec| {
        let mut t = rate;
        for _ in 0..=MOST_HALVINGS {
            if prec.natural_step(mean, grad, hess, t, scratch) {
                return StepInfo::taken(t);
            }
            t *= 0.5;
        }
        StepInfo::skipped(Skipped::NotPositiveDefinite)
    })
}
