//! One Gaussian: mean and precision with its factor.
//!
//! Natural parameters are `(S m, -S/2)`, expectation parameters `(m, S^-1 + m m')`.
//!
//! ```
//! use natmix::family::Gaussian;
//! let q = Gaussian::isotropic(vec![1.0, 2.0], 0.5);
//! let (eta1, eta2) = q.natural();
//! assert_eq!((eta1[1], eta2[0]), (8.0, -2.0));
//! // 1/2 log det(2 pi e / 4), twice the entropy of one coordinate.
//! assert!((q.entropy() - (std::f64::consts::TAU * std::f64::consts::E * 0.25).ln()).abs() < 1e-12);
//! ```

use super::LOG_TAU;
use super::covariance::{AnyCovariance, CovarianceKind, Diag};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;

/// A Gaussian `N(m, S^-1)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    mean: Vec<f64>,
    prec: AnyCovariance,
    /// `log N` at the mean.
    log_norm: f64,
}

impl Gaussian {
    /// From mean and precision.
    ///
    /// # Panics
    /// If their dimensions differ.
    pub fn new(mean: Vec<f64>, prec: impl Into<AnyCovariance>) -> Self {
        let mut gaussian = Self { mean, prec: prec.into(), log_norm: 0.0 };
        assert_eq!(gaussian.mean.len(), gaussian.prec.dim(), "mean and precision differ in dimension");
        gaussian.refresh();
        gaussian
    }

    /// A diagonal Gaussian with the same standard deviation in every direction.
    ///
    /// # Panics
    /// If `sd` is not a positive number whose square and inverse square are finite.
    pub fn isotropic(mean: Vec<f64>, sd: f64) -> Self {
        let prec = Diag::new(vec![(sd * sd).recip(); mean.len()]).expect("a positive standard deviation");
        Self::new(mean, prec)
    }

    /// From natural parameters `(S m, -S/2)`; `eta2` has `d` or `d * d` entries. Fails with the pivot at
    /// which `-2 eta2` is not positive definite.
    pub fn from_natural(eta1: &[f64], eta2: &[f64]) -> Result<Self, usize> {
        let prec: Vec<f64> = eta2.iter().map(|x| -2.0 * x).collect();
        let prec = AnyCovariance::from_matrix(eta1.len(), prec)?;
        let mut mean = eta1.to_vec();
        prec.solve(&mut mean);
        Ok(Self::new(mean, prec))
    }

    /// From expectation parameters `(m, S^-1 + m m')`; `second` has `d` or `d * d` entries. Fails with
    /// the pivot at which the covariance is not positive definite.
    pub fn from_expectation(mean: &[f64], second: &[f64]) -> Result<Self, usize> {
        let d = mean.len();
        let covariance: Vec<f64> = if second.len() == d {
            second.iter().zip(mean).map(|(x, m)| x - m * m).collect()
        } else {
            (0..d * d).map(|at| second[at] - mean[at % d] * mean[at / d]).collect()
        };
        Ok(Self::new(mean.to_vec(), AnyCovariance::from_covariance(d, covariance)?))
    }

    /// Natural parameters `(S m, -S/2)`.
    pub fn natural(&self) -> (Vec<f64>, Vec<f64>) {
        let mut eta1 = vec![0.0; self.dim()];
        self.prec.times(&self.mean, &mut eta1);
        (eta1, self.prec.matrix().iter().map(|x| -0.5 * x).collect())
    }

    /// Expectation parameters `(m, S^-1 + m m')`.
    pub fn expectation(&self) -> (Vec<f64>, Vec<f64>) {
        let d = self.dim();
        let mut second = self.prec.covariance();
        let diagonal = second.len() == d;
        for (at, x) in second.iter_mut().enumerate() {
            *x += if diagonal { self.mean[at] * self.mean[at] } else { self.mean[at % d] * self.mean[at / d] };
        }
        (self.mean.clone(), second)
    }

    /// Dimension.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }
    /// The kind of its covariance.
    pub fn covariance_kind(&self) -> CovarianceKind {
        self.prec.kind()
    }
    /// The layout of the curvature sums that its steps consume.
    pub fn curvature_shape(&self) -> CurvatureShape {
        self.prec.kind().curvature_shape()
    }
    /// Mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }
    /// The covariance, which is held as a precision.
    pub fn precision(&self) -> &AnyCovariance {
        &self.prec
    }
    /// Whether mean, precision and factor are finite and the factor's diagonal positive.
    pub(crate) fn is_sound(&self) -> bool {
        self.mean.iter().chain([&self.log_norm]).all(|x| x.is_finite()) && self.prec.is_finite()
    }
    /// Standard deviation of each coordinate.
    pub fn sd(&self) -> Vec<f64> {
        self.prec.variances().iter().map(|x| x.sqrt()).collect()
    }
    /// `1/2 log det(2 pi e S^-1)`.
    pub fn entropy(&self) -> f64 {
        0.5 * self.dim() as f64 - self.log_norm
    }
    /// `log N` at the mean.
    pub fn log_norm(&self) -> f64 {
        self.log_norm
    }

    /// `KL(self || other)`.
    ///
    /// # Panics
    /// If the dimensions differ.
    pub fn kl(&self, other: &Gaussian) -> f64 {
        let (trace, distance) = (self.prec.trace_under(&*other.prec), other.squared_distance(&self.mean));
        0.5 * (trace - self.dim() as f64 + distance) + self.log_norm - other.log_norm
    }

    /// Squared distance of `z` from the mean, in the Gaussian's own metric.
    pub(crate) fn squared_distance(&self, z: &[f64]) -> f64 {
        let delta: Vec<f64> = z.iter().zip(&self.mean).map(|(a, b)| a - b).collect();
        let mut stretched = vec![0.0; z.len()];
        self.prec.times(&delta, &mut stretched);
        delta.iter().zip(&stretched).map(|(a, b)| a * b).sum()
    }

    /// Moves standard normal `eps` (points one after the other) to draws `m + L^-T eps`, in place.
    pub(crate) fn place(&self, eps: &mut [f64]) {
        self.prec.colour(eps);
        for z in eps.chunks_exact_mut(self.dim()) {
            for (z, m) in z.iter_mut().zip(&self.mean) {
                *z += m;
            }
        }
    }

    /// Whitened points and their log densities, for transposed `z`.
    pub(crate) fn log_density_block(&self, y: &mut [f64], log_n: &mut [f64], z: &[f64], scratch: &mut Scratch) {
        self.prec.whiten(y, log_n, z, &self.mean, scratch);
        for x in log_n {
            *x = self.log_norm - 0.5 * *x;
        }
    }

    /// Changes mean and precision through `change`; all that follows from them is kept in step.
    pub(crate) fn update<R>(&mut self, change: impl FnOnce(&mut [f64], &mut AnyCovariance) -> R) -> R {
        let result = change(&mut self.mean, &mut self.prec);
        self.refresh();
        result
    }

    /// Makes `self` a copy of `other` of the same dimension and kind, in place.
    pub(crate) fn copy_from(&mut self, other: &Gaussian) {
        self.mean.copy_from_slice(&other.mean);
        self.prec.copy_from(&other.prec);
        self.log_norm = other.log_norm;
    }

    fn refresh(&mut self) {
        self.log_norm = 0.5 * (self.prec.log_det() - self.dim() as f64 * LOG_TAU);
    }
}
