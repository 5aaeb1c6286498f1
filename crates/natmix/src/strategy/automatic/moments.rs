//! Moments of one component from weighted points, by regression on the points themselves.
//!
//! With whitened `y = L'(z - m)` and weights `omega` that sum to one, the slope of `grad b` on `y` is
//!
//! ```text
//! A = (1 + r) (C + r I)^-1 cov(y, grad b),   C = cov(y),   r = ridge d / ess
//! E_k[hess b] ~ sym(L A),   E_k[grad b] ~ mean(grad b) - A' mean(y),   E_k[b] likewise with its parabola
//! ```
//!
//! With many points `C` tends to the identity and `A` to Stein's estimate. With few points the regression corrects for where
//! they happen to lie: it is exact for quadratic `b` (up to the ridge), where Stein's estimate has the noise of a sample
//! covariance. The ridge keeps it defined with fewer points than dimensions.

use super::tuning::Tuning;
use crate::estimate::Moments;
use crate::family::covariance::CentredPoints;
use crate::family::{CovarianceKind, Gaussian};
use crate::lanes;
use crate::workspace::Scratch;

/// Effective points below which a component is left as it is.
const MIN_POINTS: f64 = 1.5;

/// All points of an iteration, with the residual `b = log p - log q` and its gradient.
#[derive(Clone, Copy)]
pub(crate) struct ResidualPoints<'a> {
    pub z: &'a [f64],
    pub residual: &'a [f64],
    pub grad_residual: &'a [f64],
}

/// Moments of one component, and how its residual varies, estimated from the points of all components.
#[derive(Clone, Debug)]
pub(crate) struct ComponentEstimate {
    pub moments: Moments,
    /// Effective number of points, by their importance weights.
    pub ess: f64,
    /// Variance of `b` under the component.
    pub residual_variance: f64,
    /// Share of that variance that a function of the distance from the mean explains: a misfit of the tails.
    pub radial_share: f64,
    /// The points with a weight that is not negligible, and these weights.
    pub index: Vec<usize>,
    pub omega: Vec<f64>,
    radius: Vec<f64>,
    mean_y: Vec<f64>,
    mean_g: Vec<f64>,
}

impl ComponentEstimate {
    pub fn new(dim: usize, kind: CovarianceKind) -> Self {
        Self {
            moments: Moments::with_len(dim, kind.curvature_len(dim)),
            ess: 0.0,
            residual_variance: 0.0,
            radial_share: 0.0,
            index: Vec::new(),
            omega: Vec::new(),
            radius: Vec::new(),
            mean_y: vec![0.0; dim],
            mean_g: vec![0.0; dim],
        }
    }

    /// Standard error of `moments.value`.
    pub fn noise(&self) -> f64 {
        (self.residual_variance / self.ess).sqrt()
    }

    /// Estimates the moments of `component` from the points in `index`.
    pub fn update(&mut self, component: &Gaussian, points: ResidualPoints<'_>, scratch: &mut Scratch, tuning: &Tuning) {
        let d = component.dim();
        let (sum, squares) = self.omega.iter().fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
        self.ess = if squares > 0.0 { sum * sum / squares } else { 0.0 };
        self.moments.usable = self.ess > MIN_POINTS;
        if !self.moments.usable {
            return;
        }
        self.omega.iter_mut().for_each(|w| *w /= sum);
        let n = self.index.len();
        let stride = lanes::padded(n);
        let mut gathered = scratch.take_used(n * d);
        let mut g = scratch.take_used(stride * d);
        let mut y = scratch.take_used(stride * d);
        let mut w = scratch.take(stride);
        w[..n].copy_from_slice(&self.omega);
        gather(&mut gathered, points.z, &self.index);
        lanes::transpose(&mut g, &gathered, d);
        let mut log_n = scratch.take_used(stride);
        component.log_density_block(&mut y, &mut log_n, &g, scratch);
        gather(&mut gathered, points.grad_residual, &self.index);
        lanes::transpose(&mut g, &gathered, d);

        let mean_b = self.describe_residual(points.residual, &y, stride);
        centre(&mut y, &mut self.mean_y, &w, n);
        centre(&mut g, &mut self.mean_g, &w, n);
        let points = CentredPoints {
            y: &y,
            gradients: &g,
            weights: &w,
            mean_y: &self.mean_y,
            mean_gradient: &self.mean_g,
            ess: self.ess,
        };
        let Moments { grad, hess, .. } = &mut self.moments;
        let value = component.precision().regress(&points, tuning.moments_ridge, grad, hess, scratch);
        // The correction removes sampling noise, so a few standard errors are its largest sensible size: a parabola through
        // few points far from the target can be arbitrarily wrong.
        let noise = tuning.moments_max_correction * self.noise();
        self.moments.value = mean_b - value.clamp(-noise, noise);
        for buffer in [gathered, g, y, w, log_n] {
            scratch.give(buffer);
        }
    }

    /// Mean of `b`; sets its variance and the radial share of that.
    fn describe_residual(&mut self, b: &[f64], y: &[f64], stride: usize) -> f64 {
        self.radius.clear();
        self.radius.resize(self.index.len(), 0.0);
        for y in y.chunks_exact(stride) {
            self.radius.iter_mut().zip(y).for_each(|(r, y)| *r += y * y);
        }
        let (omega, index) = (&self.omega, &self.index);
        let mean_b: f64 = omega.iter().zip(index).map(|(w, &i)| w * b[i]).sum();
        let mean_r: f64 = omega.iter().zip(&self.radius).map(|(w, r)| w * r).sum();
        let variance_r: f64 = omega.iter().zip(&self.radius).map(|(w, r)| w * (r - mean_r).powi(2)).sum();
        // Least squares of b on x, the standardised squared distance, and x^2 (whose mean is one).
        let (mut xxx, mut xxxx, mut bx, mut bxx, mut bb) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for ((w, &i), r) in omega.iter().zip(index).zip(&self.radius) {
            let (x, b) = ((r - mean_r) / variance_r.sqrt(), b[i] - mean_b);
            let square = x * x - 1.0;
            xxx += w * x * square;
            xxxx += w * square * square;
            bx += w * b * x;
            bxx += w * b * square;
            bb += w * b * b;
        }
        self.residual_variance = bb;
        let determinant = xxxx - xxx * xxx;
        self.radial_share = if bb > 0.0 && determinant > 1e-9 * xxxx {
            let (slope, bend) = ((xxxx * bx - xxx * bxx) / determinant, (bxx - xxx * bx) / determinant);
            ((slope * bx + bend * bxx) / bb).clamp(0.0, 1.0)
        } else {
            0.0
        };
        mean_b
    }
}

fn gather(to: &mut [f64], from: &[f64], index: &[usize]) {
    let d = to.len() / index.len();
    for (to, &i) in to.chunks_exact_mut(d).zip(index) {
        to.copy_from_slice(&from[i * d..(i + 1) * d]);
    }
}

/// Takes the weighted mean off each coordinate of transposed `x`; padding has no weight.
pub(super) fn centre(x: &mut [f64], mean: &mut [f64], w: &[f64], n: usize) {
    for (x, mean) in x.chunks_exact_mut(w.len()).zip(mean) {
        *mean = x.iter().zip(w).map(|(x, w)| x * w).sum();
        x[..n].iter_mut().for_each(|x| *x -= *mean);
    }
}

#[cfg(test)]
mod tests;
