//! The two longer steps of a full covariance.

use super::Full;
use crate::family::Covariance;
use crate::family::covariance::InverseRate;
use crate::linalg::{self, Transpose};
use crate::rule::{Skipped, StepInfo, finite, move_both};
use crate::workspace::Scratch;

/// [`Covariance::improved_step`].
pub(super) fn improved(
    full: &mut Full,
    mean: &mut [f64],
    (g, h): (&[f64], &[f64]),
    rate: &dyn Fn(f64) -> f64,
    scratch: &mut Scratch,
) -> StepInfo {
    let d = full.dim;
    let mut half = scratch.take(d * d);
    let mut whitened = scratch.take(d * d);
    // With G = -H, whose sign the sum below puts right: half = -L^-1 G, whitened = -L^-1 G L^-T.
    linalg::whiten_symmetric(&mut half, &mut whitened, h, &full.factor, d);
    let norm = whitened.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut info = StepInfo::skipped(Skipped::NotFinite);
    if norm.is_finite() && half.iter().all(|x| x.is_finite()) {
        let t = rate(norm);
        // The new precision is (S + U'U)/2 with U = L' + t L^-1 G. Its factor comes from a QR of the stacked
        // [L'; U]/sqrt 2: factoring the sum itself would lose digits to the squares.
        let mut stack = scratch.take(2 * d * d);
        let root = std::f64::consts::FRAC_1_SQRT_2;
        for j in 0..d {
            for i in 0..d {
                let upper = full.factor[j + i * d];
                stack[i + j * 2 * d] = root * upper;
                stack[d + i + j * 2 * d] = root * (upper - t * half[i + j * d]);
            }
        }
        let mut shift = scratch.take(d);
        shift.iter_mut().zip(g).for_each(|(s, g)| *s = t * g);
        full.solve(&mut shift);
        info = if !linalg::lower_from_stack(&mut whitened, &mut stack, 2 * d, d, &mut scratch.memory) {
            StepInfo::skipped(Skipped::NotPositiveDefinite)
        } else if move_both(mean, &shift, || full.set_factor(&whitened, scratch)) {
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

/// [`Covariance::spectral_step`].
pub(super) fn spectral(
    full: &mut Full,
    mean: &mut [f64],
    (g, h): (&[f64], &[f64]),
    eta: &InverseRate<'_>,
    scratch: &mut Scratch,
) -> StepInfo {
    let d = full.dim;
    let mut a = scratch.take(d * d);
    let mut b = scratch.take(d * d);
    let mut vectors = scratch.take(d * d);
    let mut lam = scratch.take(d);
    let mut white = scratch.take(d);
    let mut c = scratch.take(d);
    // b = -L^-1 H L^-T.
    linalg::whiten_symmetric(&mut a, &mut b, h, &full.factor, d);
    b.iter_mut().for_each(|x| *x = -*x);
    linalg::symmetrise(&mut b, d);
    white.copy_from_slice(g);
    linalg::solve_lower(&full.factor, &mut white, d, 1);

    let mut info = StepInfo::skipped(Skipped::NotFinite);
    if finite(&white, &b) && linalg::symmetric_eigen(&mut lam, &mut vectors, &b, d, &mut scratch.memory) {
        linalg::product(&mut c, false, 1.0, &vectors, Transpose::Yes, &white, (d, d, 1));
        if let Some(eta) = eta(&lam, &c) {
            for i in 0..d {
                let s = 1.0 + lam[i] / eta;
                c[i] = c[i] / eta / s;
                lam[i] = s.sqrt();
            }
            linalg::product(&mut white, false, 1.0, &vectors, Transpose::No, &c, (d, d, 1));
            linalg::solve_lower_transpose(&full.factor, &mut white, d, 1);
            // New factor: the triangle of diag(sqrt s) U' L', whose square is L U diag(s) U' L'.
            for (column, root) in vectors.chunks_exact_mut(d).zip(&lam) {
                column.iter_mut().for_each(|x| *x *= root);
            }
            linalg::lower_times(&mut a, &full.factor, &vectors, d, d);
            linalg::transpose(&mut b, &a, d);
            info = if !linalg::lower_from_stack(&mut a, &mut b, d, d, &mut scratch.memory) {
                StepInfo::skipped(Skipped::NotPositiveDefinite)
            } else if move_both(mean, &white, || full.set_factor(&a, scratch)) {
                StepInfo::taken(eta.recip())
            } else {
                StepInfo::skipped(Skipped::NotFinite)
            };
        }
    }
    for buffer in [a, b, vectors, lam, white, c] {
        scratch.give(buffer);
    }
    info
}
