//! Curvature from gradients: `E_k[hess b] = E_k[S_k (z - m_k) (grad b)']` (Stein, Price).
//!
//! With whitened `y = L'(z - m)` the sum over points is `M = sum_i w_i y_i (grad b_i)'`, one matrix product, and
//! the estimate is the symmetric part of `L M`.

use crate::family::{Gaussian, Precision};
use crate::linalg::{self, Transpose};
use crate::target::Shape;
use crate::workspace::Scratch;

/// Adds `sum_i w_i y_i g_i'` (or its diagonal) to `sum`, for transposed `y` and `g`; `w` covers the padding.
pub(crate) fn add(sum: &mut [f64], w: &[f64], y: &[f64], g: &[f64], shape: Shape, scratch: &mut Scratch) {
    let stride = w.len();
    let d = y.len() / stride;
    match shape {
        Shape::Diag => {
            for ((sum, y), g) in sum.iter_mut().zip(y.chunks_exact(stride)).zip(g.chunks_exact(stride)) {
                *sum += w.iter().zip(y).zip(g).map(|((w, y), g)| w * y * g).sum::<f64>();
            }
        }
        Shape::Full => {
            let mut weighted = scratch.take_used(d * stride);
            for (weighted, y) in weighted.chunks_exact_mut(stride).zip(y.chunks_exact(stride)) {
                for ((weighted, y), w) in weighted.iter_mut().zip(y).zip(w) {
                    *weighted = w * y;
                }
            }
            linalg::product(sum, true, 1.0, &weighted, Transpose::Yes, g, (d, stride, d));
            scratch.give(weighted);
        }
    }
}

/// Turns the sum `M` in `hess` into the symmetric part of `L M`.
pub(crate) fn finish(hess: &mut [f64], component: &Gaussian, scratch: &mut Scratch) {
    match component.precision() {
        Precision::Diag(prec) => hess.iter_mut().zip(prec.root()).for_each(|(h, root)| *h *= root),
        Precision::Full(prec) => {
            let d = prec.dim();
            let mut product = scratch.take_used(d * d);
            linalg::lower_times(&mut product, prec.factor(), hess, d, d);
            linalg::symmetrise(&mut product, d);
            hess.copy_from_slice(&product);
            scratch.give(product);
        }
    }
}
