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

use super::{Skipped, StepInfo, finite, move_both};
use crate::family::{Gaussian, Precision};
use crate::linalg;
use crate::workspace::Scratch;

/// After this many halvings the step would not be felt.
pub const MOST_HALVINGS: usize = 50;

/// Moves `component` by a step of size `rate` or a halved one.
pub fn step(component: &mut Gaussian, grad: &[f64], hess: &[f64], rate: f64, scratch: &mut Scratch) -> StepInfo {
    if !finite(grad, hess) || !rate.is_finite() {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    let mut new = scratch.take(hess.len());
    let mut factor = scratch.take(hess.len());
    let mut shift = scratch.take(grad.len());
    let mut t = rate;
    let mut info = StepInfo::skipped(Skipped::NotPositiveDefinite);
    for _ in 0..=MOST_HALVINGS {
        for ((new, old), hess) in new.iter_mut().zip(component.precision().matrix()).zip(hess) {
            *new = old - t * hess;
        }
        shift.iter_mut().zip(grad).for_each(|(s, g)| *s = t * g);
        let moved = component.update(|mean, prec| match prec {
            Precision::Diag(prec) => {
                shift.iter_mut().zip(&new).for_each(|(s, new)| *s /= new);
                move_both(mean, &shift, || prec.set(&new).is_ok())
            }
            Precision::Full(prec) => {
                let d = prec.dim();
                factor.copy_from_slice(&new);
                if linalg::cholesky(&mut factor, d, &mut scratch.memory).is_err() {
                    return false;
                }
                linalg::solve_lower(&factor, &mut shift, d, 1);
                linalg::solve_lower_transpose(&factor, &mut shift, d, 1);
                move_both(mean, &shift, || prec.set(&new, &factor))
            }
        });
        if moved {
            info = StepInfo::taken(t);
            break;
        }
        t *= 0.5;
    }
    for buffer in [new, factor, shift] {
        scratch.give(buffer);
    }
    info
}
