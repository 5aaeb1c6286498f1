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

use super::{Skipped, StepInfo, finite, move_mean};
use crate::family::{Gaussian, Precision};
use crate::workspace::Scratch;

/// After this many halvings the step would not be felt.
pub const MOST_HALVINGS: usize = 50;

/// Moves `component` by a step of size `rate` or a halved one.
pub fn step(component: &mut Gaussian, grad: &[f64], hess: &[f64], rate: f64, scratch: &mut Scratch) -> StepInfo {
    if !finite(grad, hess) || !rate.is_finite() {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    let mut old = scratch.take(hess.len());
    let mut new = scratch.take(hess.len());
    let mut shift = scratch.take(grad.len());
    old.copy_from_slice(component.precision().matrix());
    let mut t = rate;
    let mut info = StepInfo::skipped(Skipped::NotPositiveDefinite);
    for _ in 0..=MOST_HALVINGS {
        for ((new, old), hess) in new.iter_mut().zip(&old).zip(hess) {
            *new = old - t * hess;
        }
        let moved = component.update(|mean, prec| {
            let fits = match &mut *prec {
                Precision::Diag(prec) => prec.set(&new).is_ok(),
                Precision::Full(prec) => prec.set_precision(&new, scratch).is_ok(),
            };
            if !fits {
                return false;
            }
            shift.iter_mut().zip(grad).for_each(|(s, g)| *s = t * g);
            prec.solve(&mut shift);
            let moved = move_mean(mean, &shift);
            if !moved {
                // Back to where it was: the old matrix is positive definite.
                let restored = match prec {
                    Precision::Diag(prec) => prec.set(&old),
                    Precision::Full(prec) => prec.set_precision(&old, scratch),
                };
                debug_assert!(restored.is_ok());
            }
            moved
        });
        if moved {
            info = StepInfo::taken(t);
            break;
        }
        t *= 0.5;
    }
    for buffer in [old, new, shift] {
        scratch.give(buffer);
    }
    info
}
