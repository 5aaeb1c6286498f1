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

use super::{Diag, Full, LOG_TAU};
use crate::linalg;
use crate::target::Shape;
use crate::workspace::Scratch;

/// A precision matrix of either shape.
///
/// The shape is chosen at run time (from a file, a flag, a Python keyword), so it is an enum and not a
/// type parameter; the choice is made once for each block of points.
#[derive(Clone, Debug, PartialEq)]
pub enum Precision {
    /// Diagonal.
    Diag(Diag),
    /// Full.
    Full(Full),
}

/// A Gaussian `N(m, S^-1)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    mean: Vec<f64>,
    prec: Precision,
    /// `log N` at the mean.
    log_norm: f64,
}

impl Gaussian {
    /// From mean and precision.
    ///
    /// # Panics
    /// If their dimensions differ.
    pub fn new(mean: Vec<f64>, prec: Precision) -> Self {
        let mut gaussian = Self { mean, prec, log_norm: 0.0 };
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
        Self::new(mean, Precision::Diag(prec))
    }

    /// From natural parameters `(S m, -S/2)`; `eta2` has `d` or `d * d` entries. Fails with the pivot at
    /// which `-2 eta2` is not positive definite.
    pub fn from_natural(eta1: &[f64], eta2: &[f64]) -> Result<Self, usize> {
        let prec: Vec<f64> = eta2.iter().map(|x| -2.0 * x).collect();
        let prec = Precision::from_matrix(eta1.len(), prec)?;
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
        Ok(Self::new(mean.to_vec(), Precision::from_covariance(d, covariance)?))
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
        for (at, x) in second.iter_mut().enumerate() {
            *x += match self.shape() {
                Shape::Diag => self.mean[at] * self.mean[at],
                Shape::Full => self.mean[at % d] * self.mean[at / d],
            };
        }
        (self.mean.clone(), second)
    }

    /// Dimension.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }
    /// Whether the covariance is diagonal or full.
    pub fn shape(&self) -> Shape {
        self.prec.shape()
    }
    /// Mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }
    /// Precision.
    pub fn precision(&self) -> &Precision {
        &self.prec
    }
    /// Whether mean, precision and factor are finite and the factor's diagonal positive.
    pub(crate) fn is_sound(&self) -> bool {
        let numbers = self.mean.iter().chain(self.prec.matrix()).chain(self.prec.factor());
        numbers.chain([&self.log_norm]).all(|x| x.is_finite())
    }
    /// Standard deviation of each coordinate.
    pub fn sd(&self) -> Vec<f64> {
        let covariance = self.prec.covariance();
        let step = match self.shape() {
            Shape::Diag => 1,
            Shape::Full => self.dim() + 1,
        };
        covariance.iter().step_by(step).map(|x| x.sqrt()).collect()
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
        let d = self.dim();
        let delta: Vec<f64> = self.mean.iter().zip(&other.mean).map(|(a, b)| a - b).collect();
        let mut stretched = vec![0.0; d];
        other.prec.times(&delta, &mut stretched);
        let distance: f64 = delta.iter().zip(&stretched).map(|(a, b)| a * b).sum();
        let (mine, theirs) = (self.prec.covariance_full(), other.prec.full_matrix());
        let trace: f64 = mine.iter().zip(&theirs).map(|(a, b)| a * b).sum();
        0.5 * (trace - d as f64 + distance) + self.log_norm - other.log_norm
    }

    /// Moves standard normal `eps` (points one after the other) to draws `m + L^-T eps`, in place.
    pub(crate) fn place(&self, eps: &mut [f64]) {
        let d = self.dim();
        match &self.prec {
            Precision::Diag(prec) => {
                for z in eps.chunks_exact_mut(d) {
                    for (z, root) in z.iter_mut().zip(prec.root()) {
                        *z /= root;
                    }
                }
            }
            Precision::Full(prec) => linalg::solve_lower_transpose(prec.factor(), eps, d, eps.len() / d),
        }
        for z in eps.chunks_exact_mut(d) {
            for (z, m) in z.iter_mut().zip(&self.mean) {
                *z += m;
            }
        }
    }

    /// Whitened points and their log densities, for transposed `z`.
    pub(crate) fn log_density_block(&self, y: &mut [f64], log_n: &mut [f64], z: &[f64], scratch: &mut Scratch) {
        match &self.prec {
            Precision::Diag(prec) => prec.whiten(y, log_n, z, &self.mean),
            Precision::Full(prec) => prec.whiten(y, log_n, z, &self.mean, scratch),
        }
        for x in log_n {
            *x = self.log_norm - 0.5 * *x;
        }
    }

    /// Changes mean and precision through `change`; all that follows from them is kept in step.
    pub(crate) fn update<R>(&mut self, change: impl FnOnce(&mut [f64], &mut Precision) -> R) -> R {
        let result = change(&mut self.mean, &mut self.prec);
        self.refresh();
        result
    }

    /// Makes `self` a copy of `other` of the same shape, in place.
    pub(crate) fn copy_from(&mut self, other: &Gaussian) {
        self.mean.copy_from_slice(&other.mean);
        match (&mut self.prec, &other.prec) {
            (Precision::Full(mine), Precision::Full(theirs)) => mine.copy_from(theirs),
            (Precision::Diag(mine), Precision::Diag(theirs)) => mine.copy_from(theirs),
            (mine, theirs) => *mine = theirs.clone(),
        }
        self.log_norm = other.log_norm;
    }

    fn refresh(&mut self) {
        self.log_norm = 0.5 * (self.prec.log_det() - self.dim() as f64 * LOG_TAU);
    }
}

impl Precision {
    /// From `d` or `d * d` entries; fails with the pivot at which the matrix is not positive definite.
    pub fn from_matrix(dim: usize, entries: Vec<f64>) -> Result<Self, usize> {
        if entries.len() == dim {
            Diag::new(entries).map(Precision::Diag)
        } else {
            Full::from_precision(dim, &entries).map(Precision::Full)
        }
    }

    /// From a covariance of `d` or `d * d` entries; fails as [`Precision::from_matrix`] does.
    pub fn from_covariance(dim: usize, mut entries: Vec<f64>) -> Result<Self, usize> {
        if entries.len() == dim {
            return match entries.iter().position(|x| !(x.is_finite() && *x > 0.0)) {
                Some(bad) => Err(bad),
                None => Self::from_matrix(dim, entries.iter().map(|x| x.recip()).collect()),
            };
        }
        linalg::cholesky(&mut entries, dim, &mut Default::default())?;
        // S = C^-T C^-1 for the covariance's factor C: stack C^-1 and take its triangular factor.
        let mut inverse = identity(dim);
        linalg::solve_lower(&entries, &mut inverse, dim, dim);
        let mut factor = vec![0.0; dim * dim];
        match linalg::lower_from_stack(&mut factor, &mut inverse, dim, dim, &mut Default::default()) {
            true => Ok(Precision::Full(Full::from_factor(dim, factor))),
            false => Err(0),
        }
    }

    /// Dimension.
    pub fn dim(&self) -> usize {
        match self {
            Precision::Diag(prec) => prec.dim(),
            Precision::Full(prec) => prec.dim(),
        }
    }
    /// Diagonal or full.
    pub fn shape(&self) -> Shape {
        match self {
            Precision::Diag(_) => Shape::Diag,
            Precision::Full(_) => Shape::Full,
        }
    }
    /// `S`: `d` or `d * d` entries.
    pub fn matrix(&self) -> &[f64] {
        match self {
            Precision::Diag(prec) => prec.entries(),
            Precision::Full(prec) => prec.matrix(),
        }
    }
    /// `L`: `d` or `d * d` entries.
    pub fn factor(&self) -> &[f64] {
        match self {
            Precision::Diag(prec) => prec.root(),
            Precision::Full(prec) => prec.factor(),
        }
    }
    /// `log det S`.
    pub fn log_det(&self) -> f64 {
        match self {
            Precision::Diag(prec) => prec.log_det(),
            Precision::Full(prec) => prec.log_det(),
        }
    }

    /// `S^-1`: `d` or `d * d` entries. For reports; the engine never needs it.
    pub fn covariance(&self) -> Vec<f64> {
        match self {
            Precision::Diag(prec) => prec.entries().iter().map(|x| x.recip()).collect(),
            Precision::Full(prec) => {
                let d = prec.dim();
                let mut inverse = identity(d);
                linalg::solve_lower(prec.factor(), &mut inverse, d, d);
                linalg::solve_lower_transpose(prec.factor(), &mut inverse, d, d);
                linalg::symmetrise(&mut inverse, d);
                inverse
            }
        }
    }

    /// `S^-1` as a `d * d` matrix, whatever the shape.
    pub fn covariance_full(&self) -> Vec<f64> {
        expand(self.covariance(), self.dim())
    }

    /// `S` as a `d * d` matrix, whatever the shape.
    pub fn full_matrix(&self) -> Vec<f64> {
        expand(self.matrix().to_vec(), self.dim())
    }

    /// `out = S x`.
    pub(crate) fn times(&self, x: &[f64], out: &mut [f64]) {
        match self {
            Precision::Diag(prec) => {
                for ((out, x), s) in out.iter_mut().zip(x).zip(prec.entries()) {
                    *out = s * x;
                }
            }
            Precision::Full(prec) => {
                let d = prec.dim();
                linalg::product(out, false, 1.0, prec.matrix(), linalg::Transpose::No, x, (d, d, 1));
            }
        }
    }

    /// `x <- S^-1 x`.
    pub(crate) fn solve(&self, x: &mut [f64]) {
        match self {
            Precision::Diag(prec) => {
                for (x, s) in x.iter_mut().zip(prec.entries()) {
                    *x /= s;
                }
            }
            Precision::Full(prec) => {
                let d = prec.dim();
                linalg::solve_lower(prec.factor(), x, d, 1);
                linalg::solve_lower_transpose(prec.factor(), x, d, 1);
            }
        }
    }

    /// `out += (scale * y) L'`, one scale a point, for transposed `y` and `out`.
    pub(crate) fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64], scratch: &mut Scratch) {
        match self {
            Precision::Diag(prec) => prec.add_scaled_times_factor(out, scale, y),
            Precision::Full(prec) => prec.add_scaled_times_factor(out, scale, y, scratch),
        }
    }
}

/// The identity, column-major.
pub(crate) fn identity(d: usize) -> Vec<f64> {
    let mut a = vec![0.0; d * d];
    a.iter_mut().step_by(d + 1).for_each(|x| *x = 1.0);
    a
}

fn expand(entries: Vec<f64>, d: usize) -> Vec<f64> {
    if entries.len() == d * d {
        return entries;
    }
    let mut matrix = vec![0.0; d * d];
    for (i, x) in entries.iter().enumerate() {
        matrix[i * (d + 1)] = *x;
    }
    matrix
}
