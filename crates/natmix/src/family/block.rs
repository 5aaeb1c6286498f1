//! A mixture evaluated at a block of points: densities, responsibilities, gradient and Hessian sums.

use super::mixture::Mixture;
use crate::lanes;
use crate::linalg::{self, Transpose};
use crate::target::{CurvatureShape, Points};
use crate::workspace::Scratch;

/// A mixture evaluated at a block of points; everything is transposed, see [`crate::lanes`].
pub(crate) struct MixtureBlock {
    pub n: usize,
    pub stride: usize,
    /// The points.
    pub z: Vec<f64>,
    /// Whitened points `L_k'(z - m_k)`, component after component.
    pub y: Vec<f64>,
    /// `log N_k`, component after component.
    pub log_n: Vec<f64>,
    pub log_q: Vec<f64>,
    /// Responsibilities, component after component.
    pub resp: Vec<f64>,
    /// `grad log q`, if asked for.
    pub grad: Vec<f64>,
}

impl MixtureBlock {
    pub fn new(q: &Mixture, points: Points<'_>, want_grad: bool, scratch: &mut Scratch) -> Self {
        let (d, count, n) = (q.dim(), q.len(), points.len());
        let stride = lanes::padded(n);
        let mut z = scratch.take_used(d * stride);
        lanes::transpose(&mut z, points.data(), d);
        let mut block = Self {
            n,
            stride,
            z,
            y: scratch.take_used(count * d * stride),
            log_n: scratch.take_used(count * stride),
            log_q: scratch.take_used(stride),
            resp: scratch.take_used(count * stride),
            grad: scratch.take(if want_grad { d * stride } else { 0 }),
        };
        let parts = block.y.chunks_exact_mut(d * stride).zip(block.log_n.chunks_exact_mut(stride));
        for ((y, log_n), component) in parts.zip(q.components()) {
            component.log_density_block(y, log_n, &block.z, scratch);
        }
        block.mix(q.log_weights());
        if want_grad {
            for (k, component) in q.components().iter().enumerate() {
                let (resp, y) = (&mut block.resp[k * stride..][..stride], &block.y[k * d * stride..][..d * stride]);
                component.precision().add_scaled_times_factor(&mut block.grad, resp, y, scratch);
            }
            // The products above gave sum_k r_k S_k (z - m_k).
            block.grad.iter_mut().for_each(|x| *x = -*x);
        }
        block
    }

    /// Log-sum-exp over the components, point by point.
    fn mix(&mut self, log_w: &[f64]) {
        let stride = self.stride;
        if let [only] = log_w {
            // Exactly one component: no rounding may enter, so that K = 1 is the single Gaussian.
            self.log_q.iter_mut().zip(&self.log_n).for_each(|(q, n)| *q = only + n);
            self.resp.fill(1.0);
            return;
        }
        self.log_q.fill(f64::NEG_INFINITY);
        for (log_n, w) in self.log_n.chunks_exact(stride).zip(log_w) {
            for (max, n) in self.log_q.iter_mut().zip(log_n) {
                *max = max.max(w + n);
            }
        }
        for ((resp, log_n), w) in self.resp.chunks_exact_mut(stride).zip(self.log_n.chunks_exact(stride)).zip(log_w) {
            for ((r, n), max) in resp.iter_mut().zip(log_n).zip(&self.log_q) {
                *r = lanes::exp(w + n - max);
            }
        }
        for i in 0..stride {
            if self.log_q[i] == f64::NEG_INFINITY {
                // So far away that every density is zero, or a NaN that `f64::max` ignored: no component is responsible.
                self.log_q[i] = self.log_n[i..].iter().step_by(stride).sum();
                self.resp[i..].iter_mut().step_by(stride).for_each(|r| *r = 0.0);
                continue;
            }
            let total: f64 = self.resp[i..].iter().step_by(stride).sum();
            for r in self.resp[i..].iter_mut().step_by(stride) {
                *r /= total;
            }
            self.log_q[i] += total.ln();
        }
    }

    pub fn release(self, scratch: &mut Scratch) {
        for buffer in [self.z, self.y, self.log_n, self.log_q, self.resp, self.grad] {
            scratch.give(buffer);
        }
    }

    /// Adds `sum_i weights[i] hess log q(z_i)` to `sum`. Needs the gradient.
    pub fn add_hessian(
        &self,
        q: &Mixture,
        weights: &[f64],
        shape: CurvatureShape,
        sum: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let (d, stride) = (q.dim(), self.stride);
        if let [only] = q.components() {
            only.precision().add_to(sum, -weights.iter().sum::<f64>(), shape);
            return;
        }
        let mut a = scratch.take_used(d * stride);
        let mut scaled = scratch.take_used(d * stride);
        let mut w = scratch.take(stride);
        let minus = {
            let mut minus = scratch.take(stride);
            minus.fill(-1.0);
            minus
        };
        for (k, component) in q.components().iter().enumerate() {
            let resp = &self.resp[k * stride..][..stride];
            for ((w, weight), r) in w.iter_mut().zip(weights).zip(resp) {
                *w = weight * r;
            }
            if w[..self.n].iter().all(|w| *w == 0.0) {
                continue;
            }
            a.fill(0.0);
            let y = &self.y[k * d * stride..][..d * stride];
            component.precision().add_scaled_times_factor(&mut a, &minus, y, scratch);
            // Centred: far away, a difference of large squares would lose its digits.
            a.iter_mut().zip(&self.grad).for_each(|(a, g)| *a -= g);
            add_outer(sum, &a, &w, shape, d, stride, &mut scaled);
            component.precision().add_to(sum, -w[..self.n].iter().sum::<f64>(), shape);
        }
        for buffer in [a, scaled, w, minus] {
            scratch.give(buffer);
        }
    }
}

/// `sum += sum_i w_i x_i x_i'` for transposed `x`; weights of padding must be zero.
fn add_outer(
    sum: &mut [f64],
    x: &[f64],
    w: &[f64],
    shape: CurvatureShape,
    d: usize,
    stride: usize,
    scaled: &mut [f64],
) {
    match shape {
        CurvatureShape::Diag => {
            for (sum, x) in sum.iter_mut().zip(x.chunks_exact(stride)) {
                *sum += x.iter().zip(w).map(|(x, w)| w * x * x).sum::<f64>();
            }
        }
        CurvatureShape::Full => {
            lanes::scale(scaled, x, w);
            linalg::product(sum, true, 1.0, scaled, Transpose::Yes, x, (d, stride, d));
        }
    }
}
