//! Curvature from gradients: `E_k[hess b] = E_k[S_k (z - m_k) (grad b)']` (Stein, Price).
//!
//! With whitened `y = L'(z - m)` the sum over points is `M = sum_i w_i y_i (grad b_i)'`, one matrix product, and
//! the estimate is the symmetric part of `L M`.

use crate::lanes;
use crate::linalg::{self, Transpose};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;

/// Adds `sum_i w_i y_i g_i'` (or its diagonal) to `sum`, for transposed `y` and `g`; `w` covers the padding.
pub(crate) fn add(sum: &mut [f64], w: &[f64], y: &[f64], g: &[f64], shape: CurvatureShape, scratch: &mut Scratch) {
    let stride = w.len();
    let d = y.len() / stride;
    match shape {
        CurvatureShape::Diag => {
            for ((sum, y), g) in sum.iter_mut().zip(y.chunks_exact(stride)).zip(g.chunks_exact(stride)) {
                *sum += w.iter().zip(y).zip(g).map(|((w, y), g)| w * y * g).sum::<f64>();
            }
        }
        CurvatureShape::Full => {
            let mut weighted = scratch.take_used(d * stride);
            lanes::scale(&mut weighted, y, w);
            linalg::product(sum, true, 1.0, &weighted, Transpose::Yes, g, (d, stride, d));
            scratch.give(weighted);
        }
    }
}
