//! Black-box gradients from values alone: `grad ELBO = E_q[(b - baseline) grad log q]`.
//!
//! Parameters are the logits of the weights, the means, and the factors `L_k` with logarithmic diagonal, so every
//! step keeps positive definiteness. With responsibilities `r_k` and `y = L_k'(z - m_k)`:
//!
//! ```text
//! logit_k      r_k - w_k
//! m_k          r_k L_k y
//! log L_jj     r_k (1 - L_jj D_jj)      D = L^-T y y'
//! L_ij, i > j  -r_k D_ij
//! ```
//!
//! The baseline is the mean of `b` over the other draws, so the estimate stays unbiased under independent draws. It is
//! constant where q = p, and the noise vanishes there.

use super::Moments;
use super::cell::Cell;
use crate::family::{Mixture, MixtureBlock};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;

/// Numbers that a component's score sums take: twice `(1, y, y y')`, for weights `v r` and `v b r`.
pub(crate) fn len(dim: usize, shape: CurvatureShape) -> usize {
    2 * (1 + dim + shape.len(dim))
}

/// Adds one chunk's score sums of component `k`; `v` and `b` cover the padding with zeros.
pub(crate) fn add(
    sums: &mut [f64],
    q: &Mixture,
    k: usize,
    block: &MixtureBlock,
    v: &[f64],
    b: &[f64],
    scratch: &mut Scratch,
) {
    let (d, stride, shape) = (q.dim(), block.stride, q.curvature_shape());
    let y = &block.y[k * d * stride..][..d * stride];
    let resp = &block.resp[k * stride..][..stride];
    let mut w = scratch.take(stride);
    let half = sums.len() / 2;
    let (plain, with_b) = sums.split_at_mut(half);
    for (sums, times_b) in [(plain, false), (with_b, true)] {
        for (((w, v), r), b) in w.iter_mut().zip(v).zip(resp).zip(b) {
            *w = v * r * if times_b { *b } else { 1.0 };
        }
        sums[0] += w.iter().sum::<f64>();
        for (sum, y) in sums[1..=d].iter_mut().zip(y.chunks_exact(stride)) {
            *sum += w.iter().zip(y).map(|(w, y)| w * y).sum::<f64>();
        }
        super::stein::add(&mut sums[1 + d..], &w, y, y, shape, scratch);
    }
    scratch.give(w);
}

/// Combines all chunks' sums of component `k` to the Euclidean gradients.
pub(crate) fn finish(out: &mut Moments, cells: &[Cell], q: &Mixture, k: usize, scratch: &mut Scratch) {
    let (d, shape) = (q.dim(), q.curvature_shape());
    let width = len(d, shape);
    let mut sums = scratch.take(width);
    let (mut total, mut mean_b, mut count) = (0.0, 0.0, 0.0);
    for cell in cells {
        for chunk in cell.chunks() {
            sums.iter_mut().zip(&chunk.sums[k * width..]).for_each(|(a, b)| *a += b);
        }
        for (v, b) in cell.weights().iter().zip(cell.residuals()).filter(|(_, b)| b.is_finite()) {
            total += v;
            mean_b += v * b;
            count += 1.0;
        }
    }
    out.usable = count >= 2.0 && total > 0.0;
    if out.usable {
        mean_b /= total;
        // The leave-one-out baseline differs from the mean by this factor.
        let scale = count / ((count - 1.0) * total);
        let (plain, with_b) = sums.split_at_mut(width / 2);
        with_b.iter_mut().zip(plain.iter()).for_each(|(b, a)| *b = scale * (*b - mean_b * a));
        let component = &q.components()[k];
        let (mass, rest) = with_b.split_at_mut(1);
        let (y, yy) = rest.split_at_mut(d);
        let mass = mass[0];
        component.precision().factor_gradient(&mut out.grad, &mut out.hess, mass, y, yy);
        out.value = mass;
    }
    scratch.give(sums);
}
