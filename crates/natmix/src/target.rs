//! What is to be inferred: an un-normalised log density, evaluated at many points in one call.
//!
//! A [`Target`] gives `log p(z) = log prior(z) + sum_n log lik_n(z)` and, if it can, the gradient and
//! *weighted sums* of curvature. Updates of a mixture need one curvature sum per component, never one
//! matrix per point; for a generalised linear model such a sum is a single matrix product.
//!
//! Every derivative in this crate is one of `log p`, never of `-log p`: curvature of a log-concave
//! target is negative definite, whatever its [`Curvature`] kind.
//!
//! ```
//! use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
//! use natmix::Scratch;
//!
//! /// A standard normal, up to its constant.
//! struct Normal;
//! impl Target for Normal {
//!     fn dim(&self) -> usize { 3 }
//!     fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
//!         for (log_p, z) in out.log_p.iter_mut().zip(z.iter()) {
//!             *log_p = -0.5 * z.iter().map(|x| x * x).sum::<f64>();
//!         }
//!         if let Some(grad) = out.grad {
//!             for (g, z) in grad.iter_mut().zip(z.data()) { *g = -z; }
//!         }
//!         Ok(())
//!     }
//! }
//! let mut log_p = [0.0];
//! let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
//! Normal.eval(Rows::All, Points::new(&[1.0, 2.0, 2.0], 3), out, &mut Scratch::default()).unwrap();
//! assert_eq!(log_p[0], -4.5);
//! ```

pub mod closure;
pub mod pointwise;
pub mod reduction;

pub use closure::{ClosureTarget, ClosureValue};
pub use pointwise::log_p_at;
pub use reduction::Reduction;

use crate::workspace::Scratch;
use serde::{Deserialize, Serialize};

/// Points in `R^d`: point `i` is `data[i * dim..(i + 1) * dim]`, as in a C-order `(n, d)` array.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    data: &'a [f64],
    dim: usize,
}

impl<'a> Points<'a> {
    /// Wraps `data` as points of `dim` coordinates each.
    ///
    /// # Panics
    /// If `dim` is zero or does not divide the length of `data`.
    pub fn new(data: &'a [f64], dim: usize) -> Self {
        assert!(dim > 0 && data.len().is_multiple_of(dim), "{} numbers are not points of dimension {dim}", data.len());
        Self { data, dim }
    }
    /// How many points there are.
    pub fn len(&self) -> usize {
        self.data.len() / self.dim
    }
    /// Whether there is no point at all.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
    /// Coordinates of a point.
    pub fn dim(&self) -> usize {
        self.dim
    }
    /// All coordinates, one point after the other.
    pub fn data(&self) -> &'a [f64] {
        self.data
    }
    /// Point `i`.
    pub fn point(&self, i: usize) -> &'a [f64] {
        &self.data[i * self.dim..(i + 1) * self.dim]
    }
    /// The points in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'a, f64> {
        self.data.chunks_exact(self.dim)
    }
}

/// Layout of a curvature sum: how much of the matrix a target sums. Each kind of covariance names the layout that it consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CurvatureShape {
    /// Diagonal only: `d` numbers.
    Diag,
    /// A full symmetric matrix: `d * d` numbers.
    Full,
}

impl CurvatureShape {
    /// Numbers that a matrix of this shape takes in dimension `dim`.
    pub fn len(self, dim: usize) -> usize {
        match self {
            CurvatureShape::Diag => dim,
            CurvatureShape::Full => dim * dim,
        }
    }
    /// The name that messages use.
    pub fn name(self) -> &'static str {
        match self {
            CurvatureShape::Diag => "diag",
            CurvatureShape::Full => "full",
        }
    }
    /// Numbers from one entry of the diagonal to the next.
    pub fn diagonal_step(self, dim: usize) -> usize {
        match self {
            CurvatureShape::Diag => 1,
            CurvatureShape::Full => dim + 1,
        }
    }
}

/// Which second-order information a curvature sum holds. All kinds have the sign of `hess log p`
/// and include the prior's exact Hessian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Curvature {
    /// The Hessian of `log p`.
    Exact,
    /// The generalised Gauss-Newton matrix `-J' W J` of the likelihood.
    GaussNewton,
    /// Minus the sum of squared per-example gradients, as VOGN uses.
    EmpiricalFisher,
}

impl Curvature {
    /// The name that configuration files and messages use.
    pub fn name(self) -> &'static str {
        match self {
            Curvature::Exact => "exact",
            Curvature::GaussNewton => "gauss-newton",
            Curvature::EmpiricalFisher => "empirical-fisher",
        }
    }
}

/// Which rows of the data enter an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Every row.
    All,
    /// A minibatch: the likelihood of these rows is scaled by `N / |subset|`, the prior is not.
    Subset(&'a [u32]),
}

/// Where an evaluation leaves its results; everything is overwritten.
#[derive(Debug)]
pub struct EvalOut<'a> {
    /// `log p` at each point. A point that cannot be evaluated gets NaN (or minus infinity where
    /// the density is zero); it is counted and left out of every average, and should add nothing to `curv`.
    pub log_p: &'a mut [f64],
    /// Gradients, one point after the other.
    pub grad: Option<&'a mut [f64]>,
    /// Weighted sums of curvature.
    pub curv: Option<CurvatureSums<'a>>,
}

/// A request for `sums[c] = sum_i weights[c * n + i] * curvature(z_i)`, for each of several weightings `c`.
#[derive(Debug)]
pub struct CurvatureSums<'a> {
    /// Which curvature.
    pub kind: Curvature,
    /// Whole matrices or only their diagonals.
    pub shape: CurvatureShape,
    /// One run of `n` weights for each sum.
    pub weights: &'a [f64],
    /// One matrix of `shape.len(dim)` numbers for each sum.
    pub sums: &'a mut [f64],
}

/// Why a target could not be evaluated at all; ends the run. (A single bad point is NaN instead.)
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub Box<dyn std::error::Error + Send + Sync>);

impl From<String> for TargetError {
    fn from(message: String) -> Self {
        Self(message.into())
    }
}

impl From<&str> for TargetError {
    fn from(message: &str) -> Self {
        Self(message.into())
    }
}

/// An un-normalised log density over `R^d`. See the [module page](self).
pub trait Target: Sync {
    /// Dimension `d`.
    fn dim(&self) -> usize;

    /// Evaluates all points of `z`. Called from several threads at once, with chunks of the points, unless the target
    /// asks for [whole batches](Target::whole_batches).
    ///
    /// `scratch` lends buffers, so that an evaluation need not allocate.
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError>;

    /// Whether [`Target::eval`] can fill `grad`.
    fn has_gradient(&self) -> bool {
        true
    }

    /// The curvatures that [`Target::eval`] can sum.
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &[]
    }

    /// Whether the density is known to be log-concave: then it has one mode, and no search for others is needed.
    fn is_log_concave(&self) -> bool {
        false
    }

    /// Whether the gradient is known to be right, so that it need not be [checked](crate::check) before a fit.
    fn gradient_is_tested(&self) -> bool {
        false
    }

    /// Number of data rows, where minibatches make sense.
    fn num_rows(&self) -> Option<usize> {
        None
    }

    /// Whether the points of an iteration should come in one call instead of chunks from several threads: for targets
    /// whose every call is expensive, such as one into another language. Curvature is then asked for as the sums of all
    /// chunks at once, with weights of zero for the points outside: a point of weight zero should add nothing, whatever its
    /// curvature.
    fn whole_batches(&self) -> bool {
        false
    }

    /// Runs a whole fit, in the thread that will ask for [whole batches](Target::whole_batches): for targets that need
    /// something from that thread, once and not for every call.
    fn host(&self, fit: &mut (dyn FnMut() + Send)) {
        fit();
    }

    /// Names of the parameters, `z0, z1, ...` by default.
    fn parameter_names(&self) -> Vec<String> {
        (0..self.dim()).map(|i| format!("z{i}")).collect()
    }

    /// Writes the parameters of point `z` on their own scale, one for each name.
    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        parameters.copy_from_slice(z);
    }

    /// [`Target::to_parameters`] for several points, one after the other. The first one is draw number `first`: parameters of a
    /// [reduced problem](reduction) are partly noise, of which each draw has its own.
    fn points_to_parameters(&self, points: Points<'_>, _first: usize, parameters: &mut [f64]) {
        let names = parameters.len().checked_div(points.len()).unwrap_or(0).max(1);
        for (z, parameters) in points.iter().zip(parameters.chunks_exact_mut(names)) {
            self.to_parameters(z, parameters);
        }
    }

    /// An equivalent problem in fewer dimensions, if there is one: automatic fits run there, and their results are
    /// [lifted](reduction).
    fn reduction(&self) -> Option<&Reduction> {
        None
    }
}

/// A name for each coordinate: the parameters' own, unless there are more or fewer of them.
pub(crate) fn coordinate_names(target: &dyn Target) -> Vec<String> {
    let names = target.parameter_names();
    if names.len() == target.dim() { names } else { (0..target.dim()).map(|i| format!("z{i}")).collect() }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<T: Target + ?Sized> Target for $pointer {
            fn dim(&self) -> usize {
                (**self).dim()
            }
            fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
                (**self).eval(rows, z, out, scratch)
            }
            fn has_gradient(&self) -> bool {
                (**self).has_gradient()
            }
            fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
                (**self).curvatures()
            }
            fn is_log_concave(&self) -> bool {
                (**self).is_log_concave()
            }
            fn gradient_is_tested(&self) -> bool {
                (**self).gradient_is_tested()
            }
            fn num_rows(&self) -> Option<usize> {
                (**self).num_rows()
            }
            fn whole_batches(&self) -> bool {
                (**self).whole_batches()
            }
            fn host(&self, fit: &mut (dyn FnMut() + Send)) {
                (**self).host(fit)
            }
            fn parameter_names(&self) -> Vec<String> {
                (**self).parameter_names()
            }
            fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
                (**self).to_parameters(z, parameters)
            }
            fn points_to_parameters(&self, points: Points<'_>, first: usize, parameters: &mut [f64]) {
                (**self).points_to_parameters(points, first, parameters)
            }
            fn reduction(&self) -> Option<&Reduction> {
                (**self).reduction()
            }
        }
    )*};
}

forward!(&T, Box<T>);
