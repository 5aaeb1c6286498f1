//! A full precision matrix `S = L L'` with its factor; the covariance is never formed.

use crate::lanes;
use crate::linalg::{self, Memory};
use crate::workspace::Scratch;

/// A symmetric positive definite matrix, held as itself and as its lower-triangular factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Full {
    dim: usize,
    prec: Vec<f64>,
    factor: Vec<f64>,
}

impl Full {
    /// From a lower-triangular factor with positive diagonal (column-major `d * d`).
    pub fn from_factor(dim: usize, factor: Vec<f64>) -> Self {
        let mut prec = vec![0.0; dim * dim];
        linalg::lower_square(&mut prec, &factor, dim);
        Self { dim, prec, factor }
    }

    /// From the matrix; fails with the pivot at which it is not positive definite.
    pub fn from_precision(dim: usize, prec: &[f64]) -> Result<Self, usize> {
        let mut factor = prec.to_vec();
        linalg::cholesky(&mut factor, dim, &mut Memory::default())?;
        Ok(Self { dim, prec: prec.to_vec(), factor })
    }

    /// From the matrix and its factor, as they were saved: neither follows from the other to the bit.
    pub(crate) fn from_parts(dim: usize, prec: Vec<f64>, factor: Vec<f64>) -> Self {
        Self { dim, prec, factor }
    }

    /// Dimension.
    pub fn dim(&self) -> usize {
        self.dim
    }
    /// `S`, column-major.
    pub fn matrix(&self) -> &[f64] {
        &self.prec
    }
    /// `L`, column-major with zeros above the diagonal.
    pub fn factor(&self) -> &[f64] {
        &self.factor
    }
    /// `log det S`.
    pub fn log_det(&self) -> f64 {
        2.0 * (0..self.dim).map(|i| self.factor[i * (self.dim + 1)].ln()).sum::<f64>()
    }

    /// Replaces matrix and factor, which belong together, if all numbers are finite and no pivot is so small that its
    /// square is lost; otherwise leaves everything as it was.
    #[must_use]
    pub(crate) fn set(&mut self, prec: &[f64], factor: &[f64]) -> bool {
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
    pub(crate) fn set_factor(&mut self, factor: &[f64], scratch: &mut Scratch) -> bool {
        let mut prec = scratch.take(self.dim * self.dim);
        linalg::lower_square(&mut prec, factor, self.dim);
        let fits = self.set(&prec, factor);
        scratch.give(prec);
        fits
    }

    pub(crate) fn copy_from(&mut self, other: &Full) {
        self.prec.copy_from_slice(&other.prec);
        self.factor.copy_from_slice(&other.factor);
    }

    /// `y = (z - mean) L` and its squared length, for transposed points.
    pub(crate) fn whiten(&self, y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], scratch: &mut Scratch) {
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

    /// `out += (scale * y) L'`, one scale a point, for transposed `y` and `out`.
    pub(crate) fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64], scratch: &mut Scratch) {
        let (d, stride) = (self.dim, scale.len());
        if d <= lanes::MAX_DIM {
            lanes::add_scaled_times_factor(out, scale, y, &self.factor, d, stride);
        } else if scale.iter().any(|x| *x != 0.0) {
            let mut scaled = scratch.take_used(d * stride);
            for (scaled, y) in scaled.chunks_exact_mut(stride).zip(y.chunks_exact(stride)) {
                for ((scaled, y), scale) in scaled.iter_mut().zip(y).zip(scale) {
                    *scaled = scale * y;
                }
            }
            linalg::add_times_lower_transpose(out, 1.0, &scaled, &self.factor, stride, d);
            scratch.give(scaled);
        }
    }
}
