//! Moments of one component from weighted points, by regression on the points themselves.
//!
//! With whitened `y = L'(z - m)` and weights `omega` that sum to one, the slope of `grad b` on `y` is
//!
//! ```text
//! A = (1 + r) (C + r I)^-1 cov(y, grad b),   C = cov(y),   r = ridge d / ess
//! E_k[hess b] ~ sym(L A),   E_k[grad b] ~ mean(grad b) - A' mean(y),   E_k[b] likewise with its parabola
//! ```
//!
//! Many points make `C` the identity and `A` Stein's estimate. With few points the regression knows where they happen to
//! lie: it is exact for quadratic `b` (up to the ridge), where Stein's estimate has the noise of a sample covariance. The
//! ridge keeps it defined with fewer points than dimensions.

use super::tuning::Tuning;
use crate::estimate::Moments;
use crate::family::{Diag, Full, Gaussian, Precision};
use crate::lanes;
use crate::linalg::{self, Transpose};
use crate::target::Shape;
use crate::workspace::Scratch;

/// All points of an iteration.
#[derive(Clone, Copy)]
pub(crate) struct Weighted<'a> {
    pub z: &'a [f64],
    pub residual: &'a [f64],
    pub grad_residual: &'a [f64],
}

/// What the points say about one component.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub moments: Moments,
    /// Effective number of points that serve the component.
    pub ess: f64,
    /// Variance of `b` under the component.
    pub spread: f64,
    /// Share of that variance that goes with the distance from the mean alone: tails, not directions.
    pub radial: f64,
    /// Which points serve the component, and their weights.
    pub index: Vec<usize>,
    pub omega: Vec<f64>,
    radius: Vec<f64>,
    mean_y: Vec<f64>,
    mean_g: Vec<f64>,
}

impl View {
    pub fn new(dim: usize, shape: Shape) -> Self {
        Self {
            moments: Moments::new(dim, shape),
            ess: 0.0,
            spread: 0.0,
            radial: 0.0,
            index: Vec::new(),
            omega: Vec::new(),
            radius: Vec::new(),
            mean_y: vec![0.0; dim],
            mean_g: vec![0.0; dim],
        }
    }

    /// Standard error of `moments.value`.
    pub fn noise(&self) -> f64 {
        (self.spread / self.ess).sqrt()
    }

    /// Estimates the moments of `component` from the points in `index`.
    pub fn look(&mut self, component: &Gaussian, points: Weighted<'_>, scratch: &mut Scratch, tuning: &Tuning) {
        let d = component.dim();
        let (sum, squares) = self.omega.iter().fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
        self.ess = if squares > 0.0 { sum * sum / squares } else { 0.0 };
        self.moments.usable = self.ess > tuning.moments_min_points;
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

        let mean_b = self.weigh(points.residual, &y, stride);
        centre(&mut y, &mut self.mean_y, &w, n);
        centre(&mut g, &mut self.mean_g, &w, n);
        let value = match component.precision() {
            Precision::Full(prec) => self.full(prec, &y, &g, &w, tuning.moments_ridge, scratch),
            Precision::Diag(prec) => self.diagonal(prec, &y, &g, &w, tuning.moments_ridge),
        };
        // A parabola through few points far from their target may say anything: what it takes off is noise, so no more.
        let noise = tuning.moments_max_correction * self.noise();
        self.moments.value = mean_b - value.clamp(-noise, noise);
        for buffer in [gathered, g, y, w, log_n] {
            scratch.give(buffer);
        }
    }

    /// Mean of `b`; sets its variance and the share that goes with the distance.
    fn weigh(&mut self, b: &[f64], y: &[f64], stride: usize) -> f64 {
        self.radius.clear();
        self.radius.resize(self.index.len(), 0.0);
        for y in y.chunks_exact(stride) {
            self.radius.iter_mut().zip(y).for_each(|(r, y)| *r += y * y);
        }
        let (omega, index) = (&self.omega, &self.index);
        let mean_b: f64 = omega.iter().zip(index).map(|(w, &i)| w * b[i]).sum();
        let mean_r: f64 = omega.iter().zip(&self.radius).map(|(w, r)| w * r).sum();
        let spread_r: f64 = omega.iter().zip(&self.radius).map(|(w, r)| w * (r - mean_r).powi(2)).sum();
        // Least squares of b on x, the standardised squared distance, and x^2 (whose mean is one).
        let (mut xxx, mut xxxx, mut bx, mut bxx, mut bb) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for ((w, &i), r) in omega.iter().zip(index).zip(&self.radius) {
            let (x, b) = ((r - mean_r) / spread_r.sqrt(), b[i] - mean_b);
            let square = x * x - 1.0;
            xxx += w * x * square;
            xxxx += w * square * square;
            bx += w * b * x;
            bxx += w * b * square;
            bb += w * b * b;
        }
        self.spread = bb;
        let determinant = xxxx - xxx * xxx;
        self.radial = if bb > 0.0 && determinant > 1e-9 * xxxx {
            let (slope, bend) = ((xxxx * bx - xxx * bxx) / determinant, (bxx - xxx * bx) / determinant);
            ((slope * bx + bend * bxx) / bb).clamp(0.0, 1.0)
        } else {
            0.0
        };
        mean_b
    }

    /// Gradient and curvature; returns what the parabola says about `b` at these points beyond its expectation.
    fn full(&mut self, prec: &Full, y: &[f64], g: &[f64], w: &[f64], ridge: f64, scratch: &mut Scratch) -> f64 {
        let (d, stride) = (prec.dim(), w.len());
        let ridge = ridge * d as f64 / self.ess;
        let mut weighted = scratch.take_used(d * stride);
        for (weighted, y) in weighted.chunks_exact_mut(stride).zip(y.chunks_exact(stride)) {
            for ((weighted, y), w) in weighted.iter_mut().zip(y).zip(w) {
                *weighted = w * y;
            }
        }
        let mut spread = scratch.take_used(d * d);
        let mut slope = scratch.take_used(d * d);
        linalg::product(&mut spread, false, 1.0, &weighted, Transpose::Yes, y, (d, stride, d));
        linalg::product(&mut slope, false, 1.0, &weighted, Transpose::Yes, g, (d, stride, d));
        // Second moment about the component's own mean, less the identity: what these points have too much.
        let mut excess = scratch.take_used(d * d);
        for (column, (excess, spread)) in excess.chunks_exact_mut(d).zip(spread.chunks_exact(d)).enumerate() {
            for (row, (excess, spread)) in excess.iter_mut().zip(spread).enumerate() {
                let identity = if row == column { 1.0 } else { 0.0 };
                *excess = spread + self.mean_y[row] * self.mean_y[column] - identity;
            }
        }
        spread.iter_mut().step_by(d + 1).for_each(|x| *x += ridge);
        // Positive definite by the ridge; should rounding say otherwise, the plain covariance is Stein's estimate.
        if linalg::cholesky(&mut spread, d, &mut scratch.memory).is_ok() {
            linalg::solve_lower(&spread, &mut slope, d, d);
            linalg::solve_lower_transpose(&spread, &mut slope, d, d);
            slope.iter_mut().for_each(|x| *x *= 1.0 + ridge);
        }
        let moments = &mut self.moments;
        for ((grad, mean), slope) in moments.grad.iter_mut().zip(&self.mean_g).zip(slope.chunks_exact(d)) {
            *grad = mean - slope.iter().zip(&self.mean_y).map(|(s, y)| s * y).sum::<f64>();
        }
        linalg::lower_times(&mut moments.hess, prec.factor(), &slope, d, d);
        linalg::symmetrise(&mut moments.hess, d);
        let mut white = scratch.take_used(d);
        white.copy_from_slice(&moments.grad);
        linalg::solve_lower(prec.factor(), &mut white, d, 1);
        // `spread` and `slope` have done their work.
        linalg::whiten_symmetric(&mut spread, &mut slope, &moments.hess, prec.factor(), d);
        let linear: f64 = white.iter().zip(&self.mean_y).map(|(a, b)| a * b).sum();
        let quadratic: f64 = slope.iter().zip(&excess).map(|(a, b)| a * b).sum();
        for buffer in [weighted, spread, slope, excess, white] {
            scratch.give(buffer);
        }
        linear + 0.5 * quadratic
    }

    /// As [`View::full`], coordinate by coordinate.
    fn diagonal(&mut self, prec: &Diag, y: &[f64], g: &[f64], w: &[f64], ridge: f64) -> f64 {
        let stride = w.len();
        let ridge = ridge / self.ess;
        let mut beyond = 0.0;
        let coordinates = y.chunks_exact(stride).zip(g.chunks_exact(stride)).enumerate();
        for (j, (y, g)) in coordinates {
            let (mut spread, mut slope) = (0.0, 0.0);
            for ((y, g), w) in y.iter().zip(g).zip(w) {
                spread += w * y * y;
                slope += w * y * g;
            }
            let slope = (1.0 + ridge) * slope / (spread + ridge);
            let (mean, root) = (self.mean_y[j], prec.root()[j]);
            self.moments.grad[j] = self.mean_g[j] - slope * mean;
            self.moments.hess[j] = slope * root;
            beyond += self.moments.grad[j] / root * mean + 0.5 * slope / root * (spread + mean * mean - 1.0);
        }
        beyond
    }
}

fn gather(to: &mut [f64], from: &[f64], index: &[usize]) {
    let d = to.len() / index.len();
    for (to, &i) in to.chunks_exact_mut(d).zip(index) {
        to.copy_from_slice(&from[i * d..(i + 1) * d]);
    }
}

/// Takes the weighted mean off each coordinate of transposed `x`; padding has no weight.
fn centre(x: &mut [f64], mean: &mut [f64], w: &[f64], n: usize) {
    for (x, mean) in x.chunks_exact_mut(w.len()).zip(mean) {
        *mean = x.iter().zip(w).map(|(x, w)| x * w).sum();
        x[..n].iter_mut().for_each(|x| *x -= *mean);
    }
}
