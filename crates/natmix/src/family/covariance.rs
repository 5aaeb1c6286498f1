//! Covariances with behaviour: all that the engine does with the covariance of a Gaussian, one file per kind.
//!
//! A kind holds the precision `S` with a factor `L`, `S = L L'`: a log density is a product with `L'`, a draw is a solve with
//! it. Rules, estimators, strategies and files reach it through [`Covariance`] alone and never ask which kind it is. The
//! sums of a target are separate: [`CurvatureShape`] is their layout, and each kind names the one that it consumes.
//!
//! Another kind is one file with an implementation of [`Covariance`], and one line in the list at the end of this one.
//!
//! ```
//! use natmix::family::{Diag, Full, Gaussian};
//! // The same Gaussian, as a diagonal and as a full matrix.
//! let narrow = Gaussian::new(vec![0.0; 2], Diag::new(vec![4.0, 1.0]).unwrap());
//! let full = Gaussian::new(vec![0.0; 2], Full::from_factor(2, vec![2.0, 0.0, 0.0, 1.0]));
//! assert_eq!(narrow.sd(), full.sd());
//! assert_eq!(narrow.kl(&full), 0.0);
//! ```

pub mod diag;
pub mod full;
pub mod low_rank;
#[cfg(test)]
mod spherical;
#[cfg(test)]
mod tests;

pub use diag::Diag;
pub use full::Full;
pub use low_rank::LowRank;
#[cfg(test)]
pub use spherical::Spherical;

use crate::linalg;
use crate::rule::StepInfo;
use crate::target::CurvatureShape;
use crate::workspace::Scratch;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

/// The inverse `eta` of a step size, from the eigenvalues of the whitened curvature and the components of the whitened gradient
/// along its eigenvectors; nothing where there is no such step.
pub type InverseRate<'a> = dyn Fn(&[f64], &[f64]) -> Option<f64> + 'a;

/// A kind of covariance. See the [module page](self).
///
/// Points are transposed where it says so: coordinate after coordinate, each a run of numbers that may be padded. Curvature
/// comes in the layout of [`Covariance::curvature_shape`]. Steps take the gradient `g` and the curvature `H` of the objective,
/// change mean and covariance together, and leave both as they were where they cannot.
pub trait Covariance: std::fmt::Debug + Send + Sync {
    /// The layout of the curvature sums that the steps consume.
    fn curvature_shape() -> CurvatureShape
    where
        Self: Sized;

    /// Numbers of the curvature that [`Covariance::regress`] writes and the steps read: those of that layout, and where a kind
    /// finds more in the points, what its page says.
    fn curvature_len(dim: usize) -> usize
    where
        Self: Sized,
    {
        Self::curvature_shape().len(dim)
    }

    /// Fewest points that [`Covariance::regress`] needs beyond those for any diagonal.
    fn regression_points() -> usize
    where
        Self: Sized,
    {
        0
    }

    /// Independent coordinates with these standard deviations; fails with the first whose square does not fit.
    fn from_sd(sd: &[f64]) -> Result<Self, usize>
    where
        Self: Sized;

    /// Independent coordinates with these precisions; fails with the first that does not fit.
    fn from_precisions(precisions: &[f64]) -> Result<Self, usize>
    where
        Self: Sized;

    /// From minus the Hessian at a mode, in units of `sd`: `d * d` entries, or its diagonal alone where the kind consumes no
    /// more. `bounded` makes a precision of any eigenvalue. Fails with the pivot at which it is not positive definite.
    fn from_curvature(curvature: &[f64], sd: &[f64], bounded: &dyn Fn(f64) -> f64) -> Result<Self, usize>
    where
        Self: Sized;

    /// Names and sizes of the tensors that hold one covariance of dimension `dim` in a file.
    fn tensors(dim: usize) -> Vec<(&'static str, Vec<usize>)>
    where
        Self: Sized;

    /// From the entries of its tensors; none if they do not belong to one positive matrix.
    fn decode(dim: usize, tensors: &[&[f64]]) -> Option<Self>
    where
        Self: Sized;

    /// Makes `self` a copy of `other`, which has the same dimension, without allocation.
    fn copy_from(&mut self, other: &Self)
    where
        Self: Sized;

    /// The entries of its tensors, row-major; what is decoded from them equals `self` to the bit.
    fn encode(&self) -> Vec<Vec<f64>>;

    /// Dimension.
    fn dim(&self) -> usize;
    /// `log det S`.
    fn log_det(&self) -> f64;
    /// Whether every number is finite.
    fn is_finite(&self) -> bool;
    /// `S`: the `d` entries of a diagonal, or `d * d`.
    fn matrix(&self) -> Cow<'_, [f64]>;
    /// `S^-1`: the `d` entries of a diagonal, or `d * d`. For reports; the engine never needs it.
    fn covariance(&self) -> Vec<f64>;
    /// Variance of each coordinate.
    fn variances(&self) -> Vec<f64>;

    /// `S^-1` as a `d * d` matrix, whatever the kind.
    fn covariance_full(&self) -> Vec<f64> {
        expand(self.covariance(), self.dim())
    }
    /// `S` as a `d * d` matrix, whatever the kind.
    fn full_matrix(&self) -> Vec<f64> {
        expand(self.matrix().into_owned(), self.dim())
    }
    /// The trace of `other.S S^-1`, which the KL divergence from `self` to `other` needs.
    fn trace_under(&self, other: &dyn Covariance) -> f64 {
        let (d, own) = (self.dim(), self.covariance());
        if own.len() == d {
            let mut diagonal = vec![0.0; d];
            other.add_to(&mut diagonal, 1.0, CurvatureShape::Diag);
            return own.iter().zip(&diagonal).map(|(a, b)| a * b).sum();
        }
        own.iter().zip(&other.full_matrix()).map(|(a, b)| a * b).sum()
    }

    /// `out = S x`.
    fn times(&self, x: &[f64], out: &mut [f64]);
    /// `x <- S^-1 x`.
    fn solve(&self, x: &mut [f64]);
    /// `sum += factor * S`, in the layout `shape`.
    fn add_to(&self, sum: &mut [f64], factor: f64, shape: CurvatureShape);
    /// The same covariance with standard deviations times `width`.
    fn widened(&self, width: f64) -> AnyCovariance;

    /// `y = L'(z - mean)` and its squared length `quad`, for transposed `z` and `y`.
    fn whiten(&self, y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], scratch: &mut Scratch);
    /// `eps <- L^-T eps`, for points one after the other: standard normal ones become draws around zero.
    fn colour(&self, eps: &mut [f64]);
    /// `out += scale * L y`, one scale for each point, for transposed `y` and `out`.
    fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64], scratch: &mut Scratch);
    /// `constant - |L'(z - mean)|^2 / 2` for points one after the other, where the kind has a faster way than
    /// [`Covariance::whiten`]; returns whether it has.
    fn log_density_at_once(&self, _log_q: &mut [f64], _points: &[f64], _mean: &[f64], _constant: f64) -> bool {
        false
    }

    /// Turns the slope `M` of gradients on whitened points, in `curvature`, into the symmetric part of `L M`.
    fn unwhiten_slope(&self, curvature: &mut [f64], scratch: &mut Scratch);
    /// Gradient and curvature by regression of the gradients on the points, with a ridge of `ridge` times the number of
    /// regressors over the number of points. Returns by how much the mean of the fitted parabola over these points exceeds
    /// its expectation.
    fn regress(
        &self,
        points: &CentredPoints<'_>,
        ridge: f64,
        gradient: &mut [f64],
        curvature: &mut [f64],
        scratch: &mut Scratch,
    ) -> f64;
    /// Gradients of an expectation in the mean and in `L` with logarithmic diagonal, from score sums `mass = sum w`,
    /// `y = sum w y_i` and `yy = sum w y_i y_i'`; the last is destroyed.
    fn factor_gradient(&self, gradient: &mut [f64], factor: &mut [f64], mass: f64, y: &[f64], yy: &mut [f64]);

    /// `S <- S - rate H`, `mean <- mean + rate S_new^-1 g`; returns whether the new precision is positive definite.
    fn natural_step(&mut self, mean: &mut [f64], g: &[f64], h: &[f64], rate: f64, scratch: &mut Scratch) -> bool;
    /// `S <- S - t H + t^2/2 H S^-1 H`, `mean <- mean + t S^-1 g` with the old `S`; `rate` gives `t` from the norm of the
    /// whitened curvature.
    fn improved_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        rate: &dyn Fn(f64) -> f64,
        scratch: &mut Scratch,
    ) -> StepInfo;
    /// The natural step of size `1 / eta`; `eta` comes from the eigenvalues of `-L^-1 H L^-T` and the components of `L^-1 g`
    /// along its eigenvectors.
    fn spectral_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        eta: &InverseRate<'_>,
        scratch: &mut Scratch,
    ) -> StepInfo;
    /// Adds `shift` to the mean and `turn` to the factor with logarithmic diagonal, where no entry moves by more than
    /// `most_log`; returns whether the result fits.
    fn factor_step(
        &mut self,
        mean: &mut [f64],
        shift: &[f64],
        turn: &[f64],
        most_log: f64,
        scratch: &mut Scratch,
    ) -> bool;
}

/// Weighted points and gradients with their means taken off, both transposed, for [`Covariance::regress`].
#[derive(Clone, Copy, Debug)]
pub struct CentredPoints<'a> {
    /// Whitened points.
    pub y: &'a [f64],
    /// Gradients.
    pub gradients: &'a [f64],
    /// Weights that sum to one; zero for padding.
    pub weights: &'a [f64],
    /// The mean that was taken off the points.
    pub mean_y: &'a [f64],
    /// The mean that was taken off the gradients.
    pub mean_gradient: &'a [f64],
    /// Effective number of points.
    pub ess: f64,
}

fn expand(entries: Vec<f64>, d: usize) -> Vec<f64> {
    if entries.len() == d * d { entries } else { linalg::diagonal(entries, d) }
}

/// Declares the kinds: each with its type, the name that settings and files use, and a line about it.
macro_rules! kinds {
    ($($(#[$only:meta])* $kind:ident, $name:literal, $about:literal;)*) => {
        /// A kind of covariance by name: what settings choose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum CovarianceKind {
            $($(#[$only])* #[doc = $about] #[serde(rename = $name)] $kind,)*
        }

        impl CovarianceKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$($(#[$only])* Self::$kind,)*];

            /// The name that settings and files use.
            pub fn name(self) -> &'static str {
                match self { $($(#[$only])* Self::$kind => $name,)* }
            }
            /// The layout of the curvature sums that this kind consumes.
            pub fn curvature_shape(self) -> CurvatureShape {
                match self { $($(#[$only])* Self::$kind => $kind::curvature_shape(),)* }
            }
            /// [`Covariance::curvature_len`] of this kind.
            pub(crate) fn curvature_len(self, dim: usize) -> usize {
                match self { $($(#[$only])* Self::$kind => $kind::curvature_len(dim),)* }
            }
            /// [`Covariance::regression_points`] of this kind.
            pub(crate) fn regression_points(self) -> usize {
                match self { $($(#[$only])* Self::$kind => $kind::regression_points(),)* }
            }
            /// [`Covariance::from_sd`] of this kind.
            pub fn with_sd(self, sd: &[f64]) -> Result<AnyCovariance, usize> {
                match self { $($(#[$only])* Self::$kind => $kind::from_sd(sd).map(Into::into),)* }
            }
            /// [`Covariance::from_precisions`] of this kind.
            pub fn with_precisions(self, precisions: &[f64]) -> Result<AnyCovariance, usize> {
                match self { $($(#[$only])* Self::$kind => $kind::from_precisions(precisions).map(Into::into),)* }
            }
            pub(crate) fn with_curvature(
                self,
                curvature: &[f64],
                sd: &[f64],
                bounded: &dyn Fn(f64) -> f64,
            ) -> Result<AnyCovariance, usize> {
                match self { $($(#[$only])* Self::$kind => $kind::from_curvature(curvature, sd, bounded).map(Into::into),)* }
            }
            pub(crate) fn tensors(self, dim: usize) -> Vec<(&'static str, Vec<usize>)> {
                match self { $($(#[$only])* Self::$kind => $kind::tensors(dim),)* }
            }
            pub(crate) fn decode(self, dim: usize, tensors: &[&[f64]]) -> Option<AnyCovariance> {
                match self { $($(#[$only])* Self::$kind => $kind::decode(dim, tensors).map(Into::into),)* }
            }
        }

        /// A covariance of any kind; used through the methods of [`Covariance`].
        ///
        /// The kind is chosen at run time (from a file, a flag, a Python keyword), so this is an enum and not a type
        /// parameter; the choice is made once for each block of points.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyCovariance {
            $($(#[$only])* #[doc = $about] $kind($kind),)*
        }

        impl AnyCovariance {
            /// Its kind.
            pub fn kind(&self) -> CovarianceKind {
                match self { $($(#[$only])* Self::$kind(_) => CovarianceKind::$kind,)* }
            }

            /// Makes `self` a copy of `other`; in place where kind and dimension are the same.
            pub(crate) fn copy_from(&mut self, other: &Self) {
                match (self, other) {
                    $($(#[$only])* (Self::$kind(mine), Self::$kind(theirs)) => mine.copy_from(theirs),)*
                    (mine, theirs) => *mine = theirs.clone(),
                }
            }
        }

        impl Deref for AnyCovariance {
            type Target = dyn Covariance;
            fn deref(&self) -> &Self::Target {
                match self { $($(#[$only])* Self::$kind(own) => own,)* }
            }
        }

        impl DerefMut for AnyCovariance {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self { $($(#[$only])* Self::$kind(own) => own,)* }
            }
        }

        $($(#[$only])* impl From<$kind> for AnyCovariance {
            fn from(own: $kind) -> Self {
                Self::$kind(own)
            }
        })*
    };
}

kinds! {
    Full, "full", "A full symmetric matrix.";
    Diag, "diag", "Independent coordinates.";
    LowRank, "low-rank", "Independent coordinates with a few directions of correlation: linear in the dimension.";
    #[cfg(test)] Spherical, "spherical", "One variance for all coordinates.";
}

impl AnyCovariance {
    /// From the precision: the `d` entries of a diagonal, or `d * d`. Fails with the pivot at which it is not positive definite.
    pub fn from_matrix(dim: usize, entries: Vec<f64>) -> Result<Self, usize> {
        let shape = if entries.len() == dim { CurvatureShape::Diag } else { CurvatureShape::Full };
        Self::from_precision(dim, entries, shape)
    }

    /// From the covariance: the `d` entries of a diagonal, or `d * d`. Fails as [`AnyCovariance::from_matrix`] does.
    pub fn from_covariance(dim: usize, entries: Vec<f64>) -> Result<Self, usize> {
        if entries.len() == dim {
            Diag::from_variances(&entries).map(Into::into)
        } else {
            Full::from_covariance(dim, entries).map(Into::into)
        }
    }

    /// The number of directions of a covariance of low rank that has more than its steps can keep.
    pub(crate) fn wide(&self) -> Option<usize> {
        match self {
            Self::LowRank(own) => own.wide(),
            _ => None,
        }
    }

    /// Keeps no more directions than steps can.
    pub(crate) fn narrow(&mut self) {
        if let Self::LowRank(own) = self
            && own.wide().is_some()
        {
            *own = own.narrowed();
        }
    }

    /// From the precision in the layout of a curvature sum: the kind that holds exactly that.
    pub(crate) fn from_precision(dim: usize, entries: Vec<f64>, shape: CurvatureShape) -> Result<Self, usize> {
        match shape {
            CurvatureShape::Diag => Diag::new(entries).map(Into::into),
            CurvatureShape::Full => Full::from_precision(dim, &entries).map(Into::into),
        }
    }
}
