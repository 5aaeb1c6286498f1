//! The improved step: `m <- m + t S^-1 E[grad b]` with the old S, `S <- S + t G + t^2/2 G S^-1 G`, `G = -E[hess b]`.
//!
//! The new precision is `(S + U'U)/2` with `U = L' + t L^-1 G`, positive definite for every symmetric G and never
//! below `S/2`. Its factor comes from a QR of the stacked `[L'; U]/sqrt 2`: factoring the sum would lose what the
//! squares lose. The step is scaled so that `|t L^-1 G L^-T|` stays under a cap, since it overshoots beyond.
//!
//! ```
//! use natmix::family::Gaussian;
//! let mut q = Gaussian::isotropic(vec![0.0], 1.0);
//! natmix::rule::improved::step(&mut q, &[1.0], &[-1.0], 0.5, 1.0, &mut Default::default());
//! assert_eq!(q.mean()[0], 0.5);
//! assert!((q.precision().matrix()[0] - (1.0 + 0.5 + 0.125)).abs() < 1e-15);
//! ```

use super::{Skipped, StepInfo, finite, move_both};
use crate::family::{Diag, Full, Gaussian, Precision};
use crate::linalg;
use crate::workspace::Scratch;

/// Moves `component` by a step of size `rate`, or a smaller one that respects `cap`.
pub fn step(
    component: &mut Gaussian,
    grad: &[f64],
    hess: &[f64],
    rate: f64,
    cap: f64,
    scratch: &mut Scratch,
) -> StepInfo {
    if !finite(grad, hess) || !rate.is_finite() {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    component.update(|mean, prec| match prec {
        Precision::Diag(prec) => diagonal(mean, prec, grad, hess, rate, cap, scratch),
        Precision::Full(prec) => full(mean, prec, grad, hess, rate, cap, scratch),
    })
}

fn capped(rate: f64, norm: f64, cap: f64) -> f64 {
    if rate * norm > cap { cap / norm } else { rate }
}

fn diagonal(
    mean: &mut [f64],
    prec: &mut Diag,
    grad: &[f64],
    hess: &[f64],
    rate: f64,
    cap: f64,
    scratch: &mut Scratch,
) -> StepInfo {
    let norm = hess.iter().zip(prec.entries()).map(|(h, s)| (h / s).powi(2)).sum::<f64>().sqrt();
    if !norm.is_finite() {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    let t = capped(rate, norm, cap);
    let mut shift = scratch.take(grad.len());
    let mut new = scratch.take(grad.len());
    for ((shift, g), s) in shift.iter_mut().zip(grad).zip(prec.entries()) {
        *shift = t * g / s;
    }
    for ((new, h), s) in new.iter_mut().zip(hess).zip(prec.entries()) {
        let u = 1.0 - t * h / s;
        *new = 0.5 * s * (1.0 + u * u);
    }
    let info = if move_both(mean, &shift, || prec.set(&new).is_ok()) {
        StepInfo::taken(t)
    } else {
        StepInfo::skipped(Skipped::NotFinite)
    };
    scratch.give(shift);
    scratch.give(new);
    info
}

fn full(
    mean: &mut [f64],
    prec: &mut Full,
    grad: &[f64],
    hess: &[f64],
    rate: f64,
    cap: f64,
    scratch: &mut Scratch,
) -> StepInfo {
    let d = prec.dim();
    let mut half = scratch.take(d * d);
    let mut whitened = scratch.take(d * d);
    // Of -G, whose sign the sum below puts right: half = -L^-1 G, whitened = -L^-1 G L^-T.
    linalg::whiten_symmetric(&mut half, &mut whitened, hess, prec.factor(), d);
    let norm = whitened.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut info = StepInfo::skipped(Skipped::NotFinite);
    if norm.is_finite() && half.iter().all(|x| x.is_finite()) {
        let t = capped(rate, norm, cap);
        let mut stack = scratch.take(2 * d * d);
        let root = std::f64::consts::FRAC_1_SQRT_2;
        for j in 0..d {
            for i in 0..d {
                let upper = prec.factor()[j + i * d];
                stack[i + j * 2 * d] = root * upper;
                stack[d + i + j * 2 * d] = root * (upper - t * half[i + j * d]);
            }
        }
        let mut shift = scratch.take(d);
        shift.iter_mut().zip(grad).for_each(|(s, g)| *s = t * g);
        linalg::solve_lower(prec.factor(), &mut shift, d, 1);
        linalg::solve_lower_transpose(prec.factor(), &mut shift, d, 1);
        info = if !linalg::lower_from_stack(&mut whitened, &mut stack, 2 * d, d, &mut scratch.memory) {
            StepInfo::skipped(Skipped::NotPositiveDefinite)
        } else if move_both(mean, &shift, || prec.set_factor(&whitened, scratch)) {
            StepInfo::taken(t)
        } else {
            StepInfo::skipped(Skipped::NotFinite)
        };
        scratch.give(stack);
        scratch.give(shift);
    }
    scratch.give(half);
    scratch.give(whitened);
    info
}
