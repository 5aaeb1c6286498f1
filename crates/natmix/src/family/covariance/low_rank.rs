//! A diagonal covariance with a few directions of correlation: linear in the dimension, for thousands of coordinates.
//!
//! ```text
//! S = R (I + V diag(v - 1) V') R,     L = R (I + V diag(sqrt v - 1) V')
//! ```
//!
//! `R` is diagonal, `V` has at most [`RANK`] orthonormal columns, and `v > 0` is the precision along each of them in units of
//! `R`: a direction in which the coordinates vary together has a `v` near zero. So `S` is positive definite by construction,
//! any power of it has the same form, and every product, solve, draw and log density costs `O(d RANK)`.
//!
//! Curvature comes as a diagonal, or from [`Covariance::regress`] as a diagonal followed by `RANK` vectors `w` and their
//! coefficients `c`: `H = diag(h) + sum_i c_i w_i w_i'`. A step adds directions, and keeps those of all that matter most.

mod regression;
mod steps;

use super::{AnyCovariance, CentredPoints, Covariance, InverseRate};
use crate::linalg::{self, Memory, Transpose};
use crate::rule::{StepInfo, move_both};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;
use std::borrow::Cow;

/// Most directions of correlation.
pub const RANK: usize = 10;
/// Points from which a regression can tell the directions, with as many to spare.
const REGRESSION_POINTS: usize = 4 * RANK;
/// Largest error of a product of two saved directions.
const ORTHONORMAL: f64 = 1e-8;
/// Limits of a precision along a direction, in units of the diagonal, where curvature is not positive.
const LIMITS: (f64, f64) = (1e-8, 1e8);

/// A diagonal precision with a few directions of correlation. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    /// The square of `R`, and `R` itself.
    prec: Vec<f64>,
    root: Vec<f64>,
    /// `V`, one direction after the other; zeros where there is none.
    directions: Vec<f64>,
    /// `v`; one where there is no direction.
    values: Vec<f64>,
}

/// Directions in this dimension.
fn rank(dim: usize) -> usize {
    RANK.min(dim)
}

fn fits(x: f64) -> bool {
    x > 0.0 && x.is_normal() && x.recip().is_normal()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Eight sums, so that the compiler can keep them in one register.
    let (a, rest_a) = a.as_chunks::<8>();
    let (b, rest_b) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f64>()
}

impl LowRank {
    /// Independent coordinates with these precisions; fails with the index of one that is not a positive number with a finite
    /// inverse.
    pub fn diagonal(prec: Vec<f64>) -> Result<Self, usize> {
        let d = prec.len();
        match prec.iter().position(|x| !fits(*x)) {
            Some(bad) => Err(bad),
            None => Ok(Self {
                root: prec.iter().map(|x| x.sqrt()).collect(),
                prec,
                directions: vec![0.0; rank(d) * d],
                values: vec![1.0; rank(d)],
            }),
        }
    }

    /// The covariance `diag(variances) + W W'` with the columns of `W` one after the other in `factors`, as in factor analysis:
    /// of more than [`RANK`] directions those that matter most. Fails with the index of a variance that is not positive.
    pub fn from_factors(variances: &[f64], factors: &[f64]) -> Result<Self, usize> {
        let d = variances.len();
        let mut found = Self::diagonal(variances.iter().map(|x| x.recip()).collect())?;
        // S^-1 = R^-1 (I + sum_i u_i u_i') R^-1 with u = R w, and S has the same directions.
        let scaled = factors.chunks_exact(d).flat_map(|w| w.iter().zip(&found.root).map(|(w, r)| w * r));
        let mut columns: Vec<f64> = scaled.collect();
        let ones = vec![1.0; columns.len() / d];
        if !steps::set_directions(&mut found, &mut columns, &ones, &mut Scratch::default()) {
            return Err(0);
        }
        found.values.iter_mut().for_each(|v| *v = v.recip());
        Ok(found)
    }

    /// Independent coordinates with these precisions, and any number of orthonormal directions, one after the other, with their
    /// precisions in units of the diagonal. With more than [`RANK`] it can be evaluated and drawn from, and narrowed to take steps.
    /// Fails with the index of a precision that does not fit.
    pub(crate) fn with_directions(
        prec: Vec<f64>,
        mut directions: Vec<f64>,
        mut values: Vec<f64>,
    ) -> Result<Self, usize> {
        let found = Self::diagonal(prec)?;
        if let Some(bad) = values.iter().position(|v| !fits(*v)) {
            return Err(bad);
        }
        let d = found.dim();
        let none = directions.chunks_exact_mut(d).zip(&values).filter(|(_, v)| **v == 1.0);
        none.for_each(|(direction, _)| direction.fill(0.0));
        directions.resize(directions.len().max(rank(d) * d), 0.0);
        values.resize(values.len().max(rank(d)), 1.0);
        Ok(Self { directions, values, ..found })
    }

    /// The number of directions, if there are more than [`RANK`].
    pub(crate) fn wide(&self) -> Option<usize> {
        Some(self.values.len()).filter(|count| *count > rank(self.dim()))
    }

    /// The same with the directions that matter most, no more than [`RANK`] of them.
    pub(crate) fn narrowed(&self) -> Self {
        let mut own = Self { directions: vec![0.0; rank(self.dim()) * self.dim()], ..self.clone() };
        own.values = vec![1.0; rank(self.dim())];
        steps::keep_most(&mut own, &self.directions, &self.values);
        own
    }

    /// [`Covariance::tensors`] for so many directions.
    pub(crate) fn tensors_of(dim: usize, rank: usize) -> Vec<(&'static str, Vec<usize>)> {
        vec![("precisions", vec![dim]), ("directions", vec![rank, dim]), ("values", vec![rank])]
    }

    /// The directions with their precisions in units of the diagonal.
    pub fn directions(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.directions.chunks_exact(self.dim()).zip(self.values.iter().copied()).filter(|(_, value)| *value != 1.0)
    }

    /// A whole step with curvature from [`Covariance::regress`]; returns how large it was. See [`steps::newton`].
    pub(crate) fn newton_step(&mut self, curvature: &mut [f64], scratch: &mut Scratch) -> f64 {
        steps::newton(self, curvature, scratch)
    }

    /// Directions in use: they come first.
    fn used(&self) -> usize {
        self.values.iter().rposition(|v| *v != 1.0).map_or(0, |last| last + 1)
    }

    /// `x <- (I + V diag(f(v) - 1) V') x` for one point.
    fn stretch_point(&self, x: &mut [f64], f: impl Fn(f64) -> f64) {
        for (v, value) in self.directions.chunks_exact(self.dim()).zip(&self.values).take(self.used()) {
            // One after the other: the directions are orthogonal.
            let along = (f(*value) - 1.0) * dot(v, x);
            x.iter_mut().zip(v).for_each(|(x, v)| *x += along * v);
        }
    }

    /// [`LowRank::stretch_point`] for transposed points.
    fn stretch(&self, x: &mut [f64], stride: usize, f: impl Fn(f64) -> f64, scratch: &mut Scratch) {
        let (d, used) = (self.dim(), self.used());
        if used == 0 {
            return;
        }
        let mut along = scratch.take_used(stride * used);
        linalg::product(&mut along, false, 1.0, x, Transpose::No, &self.directions, (stride, d, used));
        for (along, value) in along.chunks_exact_mut(stride).zip(&self.values) {
            let factor = f(*value) - 1.0;
            along.iter_mut().for_each(|x| *x *= factor);
        }
        linalg::product_bt(x, true, 1.0, &along, &self.directions, (stride, used, d));
        scratch.give(along);
    }

    /// The diagonal of `I + V diag(f(v) - 1) V'`.
    fn stretched_diagonal(&self, f: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut diagonal = vec![1.0; self.dim()];
        for (v, value) in self.directions() {
            let factor = f(value) - 1.0;
            diagonal.iter_mut().zip(v).for_each(|(sum, v)| *sum += factor * v * v);
        }
        diagonal
    }

    /// `R^p (I + V diag(f(v) - 1) V') R^p` as a `d * d` matrix, with `R^p` in `scale`.
    fn dense(&self, scale: &[f64], f: impl Fn(f64) -> f64) -> Vec<f64> {
        let d = self.dim();
        let mut dense = linalg::diagonal(std::iter::repeat_n(1.0, d), d);
        for (v, value) in self.directions() {
            let factor = f(value) - 1.0;
            for (column, x) in dense.chunks_exact_mut(d).zip(v) {
                column.iter_mut().zip(v).for_each(|(sum, v)| *sum += factor * v * x);
            }
        }
        for (column, x) in dense.chunks_exact_mut(d).zip(scale) {
            column.iter_mut().zip(scale).for_each(|(sum, v)| *sum *= v * x);
        }
        linalg::symmetrise(&mut dense, d);
        dense
    }
}

impl Covariance for LowRank {
    fn curvature_shape() -> CurvatureShape {
        CurvatureShape::Diag
    }

    fn curvature_len(dim: usize) -> usize {
        dim + rank(dim) * (dim + 1)
    }

    fn regression_points() -> usize {
        REGRESSION_POINTS
    }

    fn from_sd(sd: &[f64]) -> Result<Self, usize> {
        Self::diagonal(sd.iter().map(|x| (x * x).recip()).collect())
    }

    fn from_precisions(precisions: &[f64]) -> Result<Self, usize> {
        Self::diagonal(precisions.to_vec())
    }

    fn from_curvature(curvature: &[f64], sd: &[f64], bounded: &dyn Fn(f64) -> f64) -> Result<Self, usize> {
        let d = sd.len();
        let step = if curvature.len() == d { 1 } else { d + 1 };
        let diagonal: Vec<f64> = curvature.iter().step_by(step).map(|x| bounded(*x)).collect();
        let mut found = Self::diagonal(diagonal.iter().zip(sd).map(|(x, sd)| x / (sd * sd)).collect())?;
        let (mut values, mut vectors) = (vec![0.0; d], vec![0.0; d * d]);
        if step == 1 {
            return Ok(found);
        }
        let correlation: Vec<f64> =
            curvature.iter().enumerate().map(|(at, x)| x / (diagonal[at % d] * diagonal[at / d]).sqrt()).collect();
        if linalg::symmetric_eigen(&mut values, &mut vectors, &correlation, d, &mut Memory::default()) {
            values.iter_mut().for_each(|x| *x = x.abs().clamp(LIMITS.0, LIMITS.1));
            steps::keep_most(&mut found, &vectors, &values);
        }
        Ok(found)
    }

    fn tensors(dim: usize) -> Vec<(&'static str, Vec<usize>)> {
        Self::tensors_of(dim, rank(dim))
    }

    fn decode(dim: usize, tensors: &[&[f64]]) -> Option<Self> {
        let [entries, directions, values] = tensors else { return None };
        let mut found = Self::diagonal(entries.to_vec()).ok()?;
        (found.directions, found.values) = (directions.to_vec(), values.to_vec());
        let orthonormal = |i: usize, j: usize| {
            let product = dot(&directions[i * dim..][..dim], &directions[j * dim..][..dim]);
            (product - f64::from(i == j && values[i] != 1.0)).abs() <= ORTHONORMAL
        };
        let orthonormal = (0..values.len()).all(|i| (0..=i).all(|j| orthonormal(i, j)));
        (orthonormal && values.iter().all(|v| fits(*v))).then_some(found)
    }

    fn copy_from(&mut self, other: &Self) {
        self.prec.copy_from_slice(&other.prec);
        self.root.copy_from_slice(&other.root);
        self.directions.copy_from_slice(&other.directions);
        self.values.copy_from_slice(&other.values);
    }

    fn encode(&self) -> Vec<Vec<f64>> {
        vec![self.prec.clone(), self.directions.clone(), self.values.clone()]
    }

    fn dim(&self) -> usize {
        self.prec.len()
    }

    fn log_det(&self) -> f64 {
        self.prec.iter().chain(&self.values).map(|x| x.ln()).sum()
    }

    fn is_finite(&self) -> bool {
        self.prec.iter().chain(&self.values).chain(&self.directions).all(|x| x.is_finite())
    }

    fn matrix(&self) -> Cow<'_, [f64]> {
        Cow::Owned(self.dense(&self.root, |v| v))
    }

    fn covariance(&self) -> Vec<f64> {
        let inverse: Vec<f64> = self.root.iter().map(|x| x.recip()).collect();
        self.dense(&inverse, f64::recip)
    }

    fn variances(&self) -> Vec<f64> {
        self.stretched_diagonal(f64::recip).iter().zip(&self.prec).map(|(x, s)| x / s).collect()
    }

    fn trace_under(&self, other: &dyn Covariance) -> f64 {
        let d = self.dim();
        let mut diagonal = vec![0.0; d];
        other.add_to(&mut diagonal, 1.0, CurvatureShape::Diag);
        let mut sum: f64 = diagonal.iter().zip(&self.prec).map(|(theirs, mine)| theirs / mine).sum();
        let mut product = vec![0.0; d];
        for (v, value) in self.directions() {
            let scaled: Vec<f64> = v.iter().zip(&self.root).map(|(v, root)| v / root).collect();
            other.times(&scaled, &mut product);
            sum += (value.recip() - 1.0) * dot(&scaled, &product);
        }
        sum
    }

    fn times(&self, x: &[f64], out: &mut [f64]) {
        out.iter_mut().zip(x).zip(&self.root).for_each(|((out, x), root)| *out = x * root);
        self.stretch_point(out, |v| v);
        out.iter_mut().zip(&self.root).for_each(|(out, root)| *out *= root);
    }

    fn solve(&self, x: &mut [f64]) {
        x.iter_mut().zip(&self.root).for_each(|(x, root)| *x /= root);
        self.stretch_point(x, f64::recip);
        x.iter_mut().zip(&self.root).for_each(|(x, root)| *x /= root);
    }

    fn add_to(&self, sum: &mut [f64], factor: f64, shape: CurvatureShape) {
        match shape {
            CurvatureShape::Diag => {
                let diagonal = self.stretched_diagonal(|v| v);
                let entries = sum.iter_mut().zip(&diagonal).zip(&self.prec);
                entries.for_each(|((sum, x), s)| *sum += factor * x * s);
            }
            CurvatureShape::Full => {
                sum.iter_mut().zip(self.matrix().iter()).for_each(|(sum, s)| *sum += factor * s);
            }
        }
    }

    fn widened(&self, width: f64) -> AnyCovariance {
        // A width near one keeps a positive number positive; should it not, the old one stays.
        let mut wider = self.clone();
        if let Ok(scaled) = Self::diagonal(self.prec.iter().map(|x| x / (width * width)).collect()) {
            (wider.prec, wider.root) = (scaled.prec, scaled.root);
        }
        wider.into()
    }

    fn whiten(&self, y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], scratch: &mut Scratch) {
        let stride = quad.len();
        let coordinates = y.chunks_exact_mut(stride).zip(z.chunks_exact(stride)).zip(mean.iter().zip(&self.root));
        for ((y, z), (mean, root)) in coordinates {
            y.iter_mut().zip(z).for_each(|(y, z)| *y = (z - mean) * root);
        }
        self.stretch(y, stride, f64::sqrt, scratch);
        quad.fill(0.0);
        for y in y.chunks_exact(stride).take(self.dim()) {
            quad.iter_mut().zip(y).for_each(|(quad, y)| *quad += y * y);
        }
    }

    fn colour(&self, eps: &mut [f64]) {
        if self.wide().is_some() {
            let (d, used, count) = (self.dim(), self.used(), eps.len() / self.dim());
            let mut along = vec![0.0; used * count];
            linalg::product(&mut along, false, 1.0, &self.directions, Transpose::Yes, eps, (used, d, count));
            for along in along.chunks_exact_mut(used.max(1)) {
                along.iter_mut().zip(&self.values).for_each(|(x, v)| *x *= v.sqrt().recip() - 1.0);
            }
            linalg::product(eps, true, 1.0, &self.directions, Transpose::No, &along, (d, used, count));
            let scaled = eps.iter_mut().zip(self.root.iter().cycle());
            return scaled.for_each(|(z, root)| *z /= root);
        }
        for z in eps.chunks_exact_mut(self.dim()) {
            self.stretch_point(z, |v| v.sqrt().recip());
            z.iter_mut().zip(&self.root).for_each(|(z, root)| *z /= root);
        }
    }

    fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64], scratch: &mut Scratch) {
        let stride = scale.len();
        let mut scaled = scratch.take_used(self.dim() * stride);
        crate::lanes::scale(&mut scaled, y, scale);
        self.stretch(&mut scaled, stride, f64::sqrt, scratch);
        for ((out, x), root) in out.chunks_exact_mut(stride).zip(scaled.chunks_exact(stride)).zip(&self.root) {
            out.iter_mut().zip(x).for_each(|(out, x)| *out += root * x);
        }
        scratch.give(scaled);
    }

    fn unwhiten_slope(&self, curvature: &mut [f64], _: &mut Scratch) {
        let diagonal = self.stretched_diagonal(f64::sqrt);
        curvature.iter_mut().zip(&diagonal).zip(&self.root).for_each(|((h, x), root)| *h *= x * root);
    }

    fn regress(
        &self,
        points: &CentredPoints<'_>,
        ridge: f64,
        gradient: &mut [f64],
        curvature: &mut [f64],
        scratch: &mut Scratch,
    ) -> f64 {
        regression::regress(self, points, ridge, (gradient, curvature), scratch)
    }

    fn factor_gradient(&self, gradient: &mut [f64], factor: &mut [f64], mass: f64, y: &[f64], yy: &mut [f64]) {
        gradient.copy_from_slice(y);
        self.stretch_point(gradient, f64::sqrt);
        gradient.iter_mut().zip(&self.root).for_each(|(g, root)| *g *= root);
        // The scales alone move: `L` in its logarithm, with the directions as they are.
        factor.iter_mut().zip(yy.iter()).for_each(|(factor, yy)| *factor = mass - yy);
    }

    fn natural_step(&mut self, mean: &mut [f64], g: &[f64], h: &[f64], rate: f64, scratch: &mut Scratch) -> bool {
        steps::natural(self, mean, (g, h), rate, scratch)
    }

    fn improved_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        rate: &dyn Fn(f64) -> f64,
        scratch: &mut Scratch,
    ) -> StepInfo {
        steps::improved(self, mean, (g, h), rate, scratch)
    }

    fn spectral_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        eta: &InverseRate<'_>,
        scratch: &mut Scratch,
    ) -> StepInfo {
        steps::spectral(self, mean, (g, h), eta, scratch)
    }

    fn factor_step(&mut self, mean: &mut [f64], shift: &[f64], turn: &[f64], most_log: f64, _: &mut Scratch) -> bool {
        let step = |(root, step): (&f64, &f64)| (root * step.clamp(-most_log, most_log).exp()).powi(2);
        let Ok(scaled) = Self::diagonal(self.root.iter().zip(turn).map(step).collect()) else { return false };
        move_both(mean, shift, || {
            (self.prec, self.root) = (scaled.prec, scaled.root);
            true
        })
    }
}

#[cfg(test)]
mod tests;
