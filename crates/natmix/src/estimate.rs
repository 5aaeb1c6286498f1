//! From points to expectations: `E_k[b]`, `E_k[grad b]` and `E_k[hess b]` with `b = log p - log q`.
//!
//! Everything is estimated on the residual `b`, so that noise vanishes where q is exact. Points come in chunks
//! of fixed size, one task each; partial sums combine in a fixed order, so results do not depend on threads.
//!
//! | estimator | needs | `E_k[hess b]` |
//! |---|---|---|
//! | exact, gauss-newton, empirical-fisher | that curvature of log p | its mean minus that of `hess log q` |
//! | stein | gradients | symmetric part of the mean of `S_k (z - m_k) (grad b)'` |
//! | score | values | none: Euclidean gradients for Adam, see [`score`] |

pub(crate) mod cell;
pub(crate) mod chunk;
pub mod score;
pub(crate) mod stein;
pub mod trick;

pub use trick::Trick;

use crate::error::Error;
use crate::evaluate::{self, Batch, Limits, Part, Request};
use crate::family::Mixture;
use crate::target::{Curvature, CurvatureShape, Target};
use crate::workspace::ScratchPool;
use serde::{Deserialize, Serialize};

/// How second-order information is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// The target's Hessian.
    Exact,
    /// The target's generalised Gauss-Newton matrix.
    GaussNewton,
    /// The target's squared per-example gradients.
    EmpiricalFisher,
    /// First-order: Stein's identity on the residual gradient.
    Stein,
    /// Zeroth-order: the score function with a baseline.
    Score,
}

impl Estimator {
    /// Every estimator, with its name and one line about it.
    pub const ALL: [(Estimator, &'static str, &'static str); 5] = [
        (Estimator::Exact, "exact", "the target's Hessian"),
        (Estimator::GaussNewton, "gauss-newton", "the target's generalised Gauss-Newton matrix"),
        (Estimator::EmpiricalFisher, "empirical-fisher", "the target's squared per-example gradients"),
        (Estimator::Stein, "stein", "curvature from gradients by Stein's identity (default)"),
        (Estimator::Score, "score", "score function with baseline: values only"),
    ];

    /// The name that configuration files use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }

    /// The curvature that a target must offer.
    pub fn curvature(self) -> Option<Curvature> {
        match self {
            Estimator::Exact => Some(Curvature::Exact),
            Estimator::GaussNewton => Some(Curvature::GaussNewton),
            Estimator::EmpiricalFisher => Some(Curvature::EmpiricalFisher),
            Estimator::Stein | Estimator::Score => None,
        }
    }

    /// Whether a target must offer gradients.
    pub fn needs_gradient(self) -> bool {
        self != Estimator::Score
    }
}

/// What one iteration estimates for one component.
///
/// For the score estimator the three slots hold the Euclidean gradients in logit, mean and factor instead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// `E_k[b]`.
    pub value: f64,
    /// `E_k[grad b]`.
    pub grad: Vec<f64>,
    /// `E_k[hess b]`, in the layout that the mixture's covariances consume.
    pub hess: Vec<f64>,
    /// Whether any point was usable; otherwise the rest means nothing.
    pub usable: bool,
}

impl Moments {
    pub(crate) fn new(dim: usize, shape: CurvatureShape) -> Self {
        Self::with_len(dim, shape.len(dim))
    }

    /// With this many numbers of curvature.
    pub(crate) fn with_len(dim: usize, curvature: usize) -> Self {
        Self { value: 0.0, grad: vec![0.0; dim], hess: vec![0.0; curvature], usable: false }
    }
}

/// What the estimates of an iteration work with.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub q: &'a Mixture,
    pub estimator: Estimator,
    /// Whether a component's points serve all components, through `delta_k`.
    pub shared: bool,
    pub scratch: &'a ScratchPool,
}

impl Setup<'_> {
    /// Components that the points of one component serve.
    pub fn served(&self) -> usize {
        if self.shared { self.q.len() } else { 1 }
    }
}

/// What must be asked about the points of a mixture with curvature of `shape`, where each serves `served` components.
pub(crate) fn request(estimator: Estimator, shape: CurvatureShape, served: usize) -> Request {
    Request {
        rows: None,
        gradient: estimator.needs_gradient(),
        curvature: estimator.curvature().map(|kind| (kind, shape)),
        sums_per_chunk: served,
        repeat_without_failed: true,
    }
}

/// Estimates the moments of component `k` from points of your own: a quadrature rule, or draws that you keep.
/// `weights` go with expectations under `N_k` and need not sum to one; `trick` is the coefficient of the entropy trick.
///
/// ```
/// use natmix::estimate::{moments_from, Estimator};
/// use natmix::family::{Gaussian, Mixture};
/// let (q, p) = (Gaussian::isotropic(vec![0.0], 1.0), Gaussian::isotropic(vec![3.0], 0.5));
/// // Two points of Gauss-Hermite quadrature integrate cubics exactly.
/// let moments = moments_from(&Mixture::single(p), &Mixture::single(q), 0, &[-1.0, 1.0], &[0.5, 0.5], Estimator::Stein, 0.0);
/// assert_eq!(moments.unwrap().grad, [12.0]);
/// ```
pub fn moments_from(
    target: &dyn Target,
    q: &Mixture,
    k: usize,
    points: &[f64],
    weights: &[f64],
    estimator: Estimator,
    trick: f64,
) -> Result<Moments, Error> {
    if k >= q.len() || points.len() != weights.len() * q.dim() || points.is_empty() || target.dim() != q.dim() {
        return Err(Error::InvalidInput(format!(
            "component {k} of {}, {} numbers for {} points of dimension {}, target of dimension {}",
            q.len(),
            points.len(),
            weights.len(),
            q.dim(),
            target.dim()
        )));
    }
    if estimator == Estimator::Score {
        return Err(Error::Config {
            setting: "estimator",
            problem: "must not be score, which gives no moments of b".into(),
        });
    }
    let scratch = ScratchPool::new(1);
    let setup = Setup { q, estimator, shared: false, scratch: &scratch };
    let tricks = vec![trick::Coefficients { value: trick, grad: trick }; q.len()];
    let mut cells: Vec<cell::Cell> = (0..q.len()).map(|_| cell::Cell::default()).collect();
    let mut batch = Batch { request: request(estimator, q.curvature_shape(), 1), parts: vec![Part::default()] };
    cells[k].take_points(&mut batch.parts[0], &batch.request, &setup, points, weights);
    let mut evaluator = evaluate::of_target(target, &scratch, Limits::default());
    let ticket = evaluator.submit(batch);
    let batch = evaluator.collect(ticket)?;
    cells[k].estimate(&batch.parts[0], &setup, k, &tricks, false);
    let mut moments = Moments::new(q.dim(), q.curvature_shape());
    scratch.with(|scratch| cell::reduce(&mut moments, &cells, &setup, k, tricks[k], scratch));
    Ok(moments)
}
