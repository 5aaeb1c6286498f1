//! A full covariance, held as the precision `S = L L'` with its factor; the inverse is never formed.

mod steps;

use super::{AnyCovariance, CentredPoints, Covariance, InverseRate};
use crate::lanes;
use crate::linalg::{self, Memory, Transpose};
use crate::rule::{StepInfo, move_both};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Largest `|S - L L'|` of a saved pair in units of `sqrt(S_ii S_jj)`: far above rounding errors, far below any real mismatch.
const FACTOR_TOLERANCE: f64 = 1e-8;

/// A symmetric positive definite precision, held as itself and as its lower-triangular factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Full {
    dim: usize,
    prec: Vec<f64>,
    factor: Vec<f64>,
}

impl Full {
    /// From a lower-triangular factor of the precision with positive diagonal (column-major `d * d`).
    pub fn from_factor(dim: usize, factor: Vec<f64>) -> Self {
        let mut prec = vec![0.0; dim * dim];
        linalg::lower_square(&mut prec, &factor, dim);
        Self { dim, prec, factor }
    }

    /// From the precision; fails with the pivot at which it is not positive definite.
    pub fn from_precision(dim: usize, prec: &[f64]) -> Result<Self, usize> {
        let mut factor = prec.to_vec();
        linalg::cholesky(&mut factor, dim, &mut Memory::default())?;
        Ok(Self { dim, prec: prec.to_vec(), factor })
    }

    /// From the covariance; fails with the pivot at which it is not positive definite.
    pub fn from_covariance(dim: usize, mut entries: Vec<f64>) -> Result<Self, usize> {
        linalg::cholesky(&mut entries, dim, &mut Memory::default())?;
        // S = C^-T C^-1 for the covariance's factor C: stack C^-1 and take its triangular factor.
        let mut inverse = linalg::diagonal(std::iter::repeat(1.0), dim);
        linalg::solve_lower(&entries, &mut inverse, dim, dim);
        let mut factor = vec![0.0; dim * dim];
        match linalg::lower_from_stack(&mut factor, &mut inverse, dim, dim, &mut Memory::default()) {
            true => Ok(Self::from_factor(dim, factor)),
            false => Err(0),
        }
    }

    /// `S`, column-major.
    pub fn entries(&self) -> &[f64] {
        &self.prec
    }
    /// `L`, column-major with zeros above the diagonal.
    pub fn factor(&self) -> &[f64] {
        &self.factor
    }

    /// Replaces matrix and factor, which belong together, if all numbers are finite and no pivot is so small that its
    /// square is lost; otherwise leaves everything as it was.
    #[must_use]
    fn set(&mut self, prec: &[f64], factor: &[f64]) -> bool {
        let fits = prec.iter().chain(factor).all(|x| x.is_finite())
            && factor.iter().step_by(self.dim + 1).all(|pivot| *pivot > 0.0 && (pivot * pivot).is_normal());
        if fits {
            self.prec.copy_from_slice(prec);
            self.factor.copy_from_slice(factor);
        }
        fits
    }

    /// Replaces the factor, and the matrix with it, as [`Full::set`] does.
    #[must_use]
    fn set_factor(&mut self, factor: &[f64], scratch: &mut Scratch) -> bool {
        let mut prec = scratch.take(self.dim * self.dim);
        linalg::lower_square(&mut prec, factor, self.dim);
        let fits = self.set(&prec, factor);
        scratch.give(prec);
        fits
    }
}

impl Covariance for Full {
    fn curvature_shape() -> CurvatureShape {
        CurvatureShape::Full
    }

    fn from_sd(sd: &[f64]) -> Result<Self, usize> {
        let factor = linalg::diagonal(sd.iter().map(|sd| sd.recip()), sd.len());
        Ok(Self::from_factor(sd.len(), factor))
    }

    fn from_precisions(precisions: &[f64]) -> Result<Self, usize> {
        let d = precisions.len();
        Self::from_precision(d, &linalg::diagonal(precisions.iter().copied(), d))
    }

    fn from_curvature(curvature: &[f64], sd: &[f64], bounded: &dyn Fn(f64) -> f64) -> Result<Self, usize> {
        let d = sd.len();
        let (mut values, mut vectors) = (vec![0.0; d], vec![0.0; d * d]);
        if !linalg::symmetric_eigen(&mut values, &mut vectors, curvature, d, &mut Memory::default()) {
            (values, vectors) = (vec![1.0; d], linalg::diagonal(std::iter::repeat(1.0), d));
        }
        let scaled: Vec<f64> = vectors
            .chunks_exact(d)
            .zip(&values)
            .flat_map(|(vector, value)| {
                let root = bounded(*value).sqrt();
                vector.iter().zip(sd).map(move |(x, sd)| root * x / sd)
            })
            .collect();
        let mut matrix = vec![0.0; d * d];
        linalg::product_bt(&mut matrix, false, 1.0, &scaled, &scaled, (d, d, d));
        linalg::symmetrise(&mut matrix, d);
        Self::from_precision(d, &matrix)
    }

    fn tensors(dim: usize) -> Vec<(&'static str, Vec<usize>)> {
        vec![("factors", vec![dim, dim]), ("precisions", vec![dim, dim])]
    }

    fn decode(dim: usize, tensors: &[&[f64]]) -> Option<Self> {
        let [factor, entries] = tensors else { return None };
        let (factor, entries) = (transposed(factor, dim), transposed(entries, dim));
        let diagonal = |matrix: &[f64], i: usize| matrix[i * (dim + 1)];
        let positive = (0..dim).all(|i| diagonal(&factor, i) > 0.0 && diagonal(&entries, i) > 0.0);
        let lower = (0..dim).all(|column| factor[column * dim..][..column].iter().all(|x| *x == 0.0));
        if !(positive && lower) {
            return None;
        }
        let computed = Self::from_factor(dim, factor);
        let scale: Vec<f64> = (0..dim).map(|i| diagonal(&entries, i).sqrt()).collect();
        let close =
            |(at, (a, b)): (usize, (&f64, &f64))| (a - b).abs() <= FACTOR_TOLERANCE * scale[at % dim] * scale[at / dim];
        // Matrix and factor as they were saved: neither follows from the other to the bit.
        computed.prec.iter().zip(&entries).enumerate().all(close).then_some(Self { prec: entries, ..computed })
    }

    fn copy_from(&mut self, other: &Self) {
        self.prec.copy_from_slice(&other.prec);
        self.factor.copy_from_slice(&other.factor);
    }

    fn encode(&self) -> Vec<Vec<f64>> {
        vec![transposed(&self.factor, self.dim), transposed(&self.prec, self.dim)]
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn log_det(&self) -> f64 {
        2.0 * (0..self.dim).map(|i| self.factor[i * (self.dim + 1)].ln()).sum::<f64>()
    }

    fn is_finite(&self) -> bool {
        self.prec.iter().chain(&self.factor).all(|x| x.is_finite())
    }

    fn matrix(&self) -> Cow<'_, [f64]> {
        Cow::Borrowed(&self.prec)
    }

    fn covariance(&self) -> Vec<f64> {
        let d = self.dim;
        let mut inverse = linalg::diagonal(std::iter::repeat(1.0), d);
        linalg::solve_lower(&self.factor, &mut inverse, d, d);
        linalg::solve_lower_transpose(&self.factor, &mut inverse, d, d);
        linalg::symmetrise(&mut inverse, d);
        inverse
    }

    fn variances(&self) -> Vec<f64> {
        self.covariance().into_iter().step_by(self.dim + 1).collect()
    }

    fn times(&self, x: &[f64], out: &mut [f64]) {
        linalg::product(out, false, 1.0, &self.prec, Transpose::No, x, (self.dim, self.dim, 1));
    }

    fn solve(&self, x: &mut [f64]) {
        linalg::solve_lower(&self.factor, x, self.dim, 1);
        linalg::solve_lower_transpose(&self.factor, x, self.dim, 1);
    }

    fn add_to(&self, sum: &mut [f64], factor: f64, shape: CurvatureShape) {
        let step = match shape {
            CurvatureShape::Diag => self.dim + 1,
            CurvatureShape::Full => 1,
        };
        for (sum, s) in sum.iter_mut().zip(self.prec.iter().step_by(step)) {
            *sum += factor * s;
        }
    }

    fn widened(&self, width: f64) -> AnyCovariance {
        Self::from_factor(self.dim, self.factor.iter().map(|x| x / width).collect()).into()
    }

    fn whiten(&self, y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], scratch: &mut Scratch) {
        let (d, stride) = (self.dim, quad.len());
        if d <= lanes::MAX_DIM {
            lanes::whiten(y, quad, z, mean, &self.factor, stride);
            return;
        }
        let mut delta = scratch.take_used(d * stride);
        for ((delta, z), m) in delta.chunks_exact_mut(stride).zip(z.chunks_exact(stride)).zip(mean) {
            for (delta, z) in delta.iter_mut().zip(z) {
                *delta = z - m;
            }
        }
        linalg::times_lower(y, &delta, &self.factor, stride, d);
        scratch.give(delta);
        quad.fill(0.0);
        for y in y.chunks_exact(stride).take(d) {
            for (quad, y) in quad.iter_mut().zip(y) {
                *quad += y * y;
            }
        }
    }

    fn colour(&self, eps: &mut [f64]) {
        linalg::solve_lower_transpose(&self.factor, eps, self.dim, eps.len() / self.dim);
    }

    fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64], scratch: &mut Scratch) {
        let (d, stride) = (self.dim, scale.len());
        if d <= lanes::MAX_DIM {
            lanes::add_scaled_times_factor(out, scale, y, &self.factor, d, stride);
        } else if scale.iter().any(|x| *x != 0.0) {
            let mut scaled = scratch.take_used(d * stride);
            lanes::scale(&mut scaled, y, scale);
            linalg::add_times_lower_transpose(out, 1.0, &scaled, &self.factor, stride, d);
            scratch.give(scaled);
        }
    }

    fn log_density_at_once(&self, log_q: &mut [f64], points: &[f64], mean: &[f64], constant: f64) -> bool {
        let small = self.dim <= lanes::MAX_DIM;
        if small {
            lanes::log_density(log_q, points, mean, &self.factor, constant);
        }
        small
    }

    fn unwhiten_slope(&self, curvature: &mut [f64], scratch: &mut Scratch) {
        let d = self.dim;
        let mut product = scratch.take_used(d * d);
        linalg::lower_times(&mut product, &self.factor, curvature, d, d);
        linalg::symmetrise(&mut product, d);
        curvature.copy_from_slice(&product);
        scratch.give(product);
    }

    fn regress(
        &self,
        points: &CentredPoints<'_>,
        ridge: f64,
        gradient: &mut [f64],
        curvature: &mut [f64],
        scratch: &mut Scratch,
    ) -> f64 {
        let CentredPoints { y, gradients, weights, mean_y, mean_gradient, ess } = *points;
        let (d, stride) = (self.dim, weights.len());
        let ridge = ridge * d as f64 / ess;
        let mut weighted = scratch.take_used(d * stride);
        lanes::scale(&mut weighted, y, weights);
        let mut spread = scratch.take_used(d * d);
        let mut slope = scratch.take_used(d * d);
        linalg::product(&mut spread, false, 1.0, &weighted, Transpose::Yes, y, (d, stride, d));
        linalg::product(&mut slope, false, 1.0, &weighted, Transpose::Yes, gradients, (d, stride, d));
        // Second moment of the points about the component's own mean, less the identity that it should be.
        let mut excess = scratch.take_used(d * d);
        for (column, (excess, spread)) in excess.chunks_exact_mut(d).zip(spread.chunks_exact(d)).enumerate() {
            for (row, (excess, spread)) in excess.iter_mut().zip(spread).enumerate() {
                let identity = if row == column { 1.0 } else { 0.0 };
                *excess = spread + mean_y[row] * mean_y[column] - identity;
            }
        }
        spread.iter_mut().step_by(d + 1).for_each(|x| *x += ridge);
        // Positive definite by the ridge; where rounding spoils that, the plain covariance is Stein's estimate.
        if linalg::cholesky(&mut spread, d, &mut scratch.memory).is_ok() {
            linalg::solve_lower(&spread, &mut slope, d, d);
            linalg::solve_lower_transpose(&spread, &mut slope, d, d);
            slope.iter_mut().for_each(|x| *x *= 1.0 + ridge);
        }
        for ((gradient, mean), slope) in gradient.iter_mut().zip(mean_gradient).zip(slope.chunks_exact(d)) {
            *gradient = mean - slope.iter().zip(mean_y).map(|(s, y)| s * y).sum::<f64>();
        }
        linalg::lower_times(curvature, &self.factor, &slope, d, d);
        linalg::symmetrise(curvature, d);
        let mut white = scratch.take_used(d);
        white.copy_from_slice(gradient);
        linalg::solve_lower(&self.factor, &mut white, d, 1);
        // `spread` and `slope` are not needed any more: reuse their memory.
        linalg::whiten_symmetric(&mut spread, &mut slope, curvature, &self.factor, d);
        let linear: f64 = white.iter().zip(mean_y).map(|(a, b)| a * b).sum();
        let quadratic: f64 = slope.iter().zip(&excess).map(|(a, b)| a * b).sum();
        for buffer in [weighted, spread, slope, excess, white] {
            scratch.give(buffer);
        }
        linear + 0.5 * quadratic
    }

    fn factor_gradient(&self, gradient: &mut [f64], factor: &mut [f64], mass: f64, y: &[f64], yy: &mut [f64]) {
        let d = self.dim;
        linalg::lower_times(gradient, &self.factor, y, d, 1);
        linalg::solve_lower_transpose(&self.factor, yy, d, d);
        for (at, (factor, yy)) in factor.iter_mut().zip(yy.iter()).enumerate() {
            *factor = match (at % d).cmp(&(at / d)) {
                Ordering::Less => 0.0,
                Ordering::Equal => mass - self.factor[at] * yy,
                Ordering::Greater => -yy,
            };
        }
    }

    fn natural_step(&mut self, mean: &mut [f64], g: &[f64], h: &[f64], rate: f64, scratch: &mut Scratch) -> bool {
        let d = self.dim;
        let mut new = scratch.take_used(d * d);
        let mut factor = scratch.take_used(d * d);
        let mut shift = scratch.take_used(d);
        for ((new, old), h) in new.iter_mut().zip(&self.prec).zip(h) {
            *new = old - rate * h;
        }
        factor.copy_from_slice(&new);
        let mut moved = linalg::cholesky(&mut factor, d, &mut scratch.memory).is_ok();
        if moved {
            shift.iter_mut().zip(g).for_each(|(s, g)| *s = rate * g);
            linalg::solve_lower(&factor, &mut shift, d, 1);
            linalg::solve_lower_transpose(&factor, &mut shift, d, 1);
            moved = move_both(mean, &shift, || self.set(&new, &factor));
        }
        for buffer in [new, factor, shift] {
            scratch.give(buffer);
        }
        moved
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

    fn factor_step(
        &mut self,
        mean: &mut [f64],
        shift: &[f64],
        turn: &[f64],
        most_log: f64,
        scratch: &mut Scratch,
    ) -> bool {
        let d = self.dim;
        let mut new = scratch.take_used(d * d);
        for (at, (new, l)) in new.iter_mut().zip(&self.factor).enumerate() {
            *new = match (at % d).cmp(&(at / d)) {
                Ordering::Less => 0.0,
                Ordering::Equal => l * turn[at].clamp(-most_log, most_log).exp(),
                Ordering::Greater => l + turn[at],
            };
        }
        let moved = move_both(mean, shift, || self.set_factor(&new, scratch));
        scratch.give(new);
        moved
    }
}

fn transposed(matrix: &[f64], d: usize) -> Vec<f64> {
    let mut out = vec![0.0; d * d];
    linalg::transpose(&mut out, matrix, d);
    out
}
