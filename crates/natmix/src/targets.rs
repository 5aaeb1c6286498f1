//! Analytic targets, targets made from closures, and the file format that describes them.
//!
//! Every target here is evaluated point by point, with the value, its gradient and its Hessian; one shared
//! loop turns these into what [`Target::eval`] owes its caller, in particular the sums
//! `sums[c] = sum_i weights[c, i] * hess log p(z_i)`.
//!
//! A point where the value, the gradient or the Hessian is not finite adds nothing to any sum; if its value
//! alone was finite, it becomes NaN, so that the caller leaves the point out everywhere.
//!
//! ```
//! use natmix::targets::{log_p_at, Funnel};
//!
//! let funnel = Funnel::new(3, 2.0).unwrap();
//! let expected = -1.5 * (2.0 * std::f64::consts::PI).ln() - 2f64.ln();
//! assert!((log_p_at(&funnel, &[0.0; 3]).unwrap() - expected).abs() < 1e-12);
//! ```

pub mod beta_binomial;
mod check;
pub mod closure;
#[cfg(test)]
pub(crate) mod derivatives;
pub mod double_banana;
pub mod funnel;
pub mod glm;
pub mod notebook;
pub mod observations;
pub mod phase;
pub mod planar_robot;
pub mod prior;
pub mod spec;
pub mod student_mixture;

pub use beta_binomial::BetaBinomial;
pub use closure::{ClosureTarget, ClosureValue};
pub use double_banana::DoubleBanana;
pub use funnel::Funnel;
pub use glm::{Glm, Likelihood};
pub use notebook::PriorTimesMixture;
pub use observations::{Block, Dataset, Observations, RowSource, Stored};
pub use phase::Phase;
pub use planar_robot::PlanarRobot;
pub use spec::{Init, Kind, Spec};
pub use student_mixture::StudentMixture;

use crate::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use crate::workspace::Scratch;

/// What a target with a Hessian of its own answers to [`Target::curvatures`].
pub(crate) const EXACT: &[(Curvature, CurvatureShape)] =
    &[(Curvature::Exact, CurvatureShape::Diag), (Curvature::Exact, CurvatureShape::Full)];

/// `log p` at the single point `z`, for checks and examples; fits evaluate many points in one call.
pub fn log_p_at(target: &dyn Target, z: &[f64]) -> Result<f64, TargetError> {
    check_dim(target.dim(), z.len())?;
    let mut log_p = [f64::NAN];
    let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
    target.eval(Rows::All, Points::new(z, z.len()), out, &mut Scratch::default())?;
    Ok(log_p[0])
}

fn check_dim(dim: usize, found: usize) -> Result<(), TargetError> {
    if found == dim { Ok(()) } else { Err(format!("points have {found} coordinates, the target has {dim}").into()) }
}

/// The Hessian at one point, or its diagonal: what is added off the diagonal of a diagonal one is dropped.
#[derive(Debug)]
pub(crate) struct Hessian<'a> {
    shape: CurvatureShape,
    dim: usize,
    entries: &'a mut [f64],
}

impl Hessian<'_> {
    /// Adds `x` at `(i, j)` and, off the diagonal, at `(j, i)`.
    pub(crate) fn add(&mut self, i: usize, j: usize, x: f64) {
        match self.shape {
            CurvatureShape::Diag if i == j => self.entries[i] += x,
            CurvatureShape::Diag => {}
            CurvatureShape::Full => {
                self.entries[i * self.dim + j] += x;
                if i != j {
                    self.entries[j * self.dim + i] += x;
                }
            }
        }
    }

    /// Adds `factor * u u'`.
    pub(crate) fn add_outer(&mut self, factor: f64, u: &[f64]) {
        match self.shape {
            CurvatureShape::Diag => self.entries.iter_mut().zip(u).for_each(|(entry, u)| *entry += factor * u * u),
            CurvatureShape::Full => {
                for (row, u_i) in self.entries.chunks_exact_mut(self.dim).zip(u) {
                    row.iter_mut().zip(u).for_each(|(entry, u_j)| *entry += factor * (u_i * u_j));
                }
            }
        }
    }

    /// Adds `factor * matrix`, a whole symmetric one.
    pub(crate) fn add_matrix(&mut self, factor: f64, matrix: &[f64]) {
        // The diagonal of a row-major matrix lies `dim + 1` numbers apart.
        let stride = if self.shape == CurvatureShape::Diag { self.dim + 1 } else { 1 };
        self.entries.iter_mut().zip(matrix.iter().step_by(stride)).for_each(|(entry, x)| *entry += factor * x);
    }
}

/// Evaluates a target from `at(z, grad, hess)`, which returns `log p` at one point and, where asked, writes the
/// gradient and adds up the Hessian; both start at zero. The Hessian is not asked for where all weights are zero.
pub(crate) fn eval_points(
    dim: usize,
    z: Points<'_>,
    out: EvalOut<'_>,
    scratch: &mut Scratch,
    mut at: impl FnMut(&[f64], Option<&mut [f64]>, Option<&mut Hessian<'_>>) -> Result<f64, TargetError>,
) -> Result<(), TargetError> {
    check_dim(dim, z.dim())?;
    let n = z.len();
    let EvalOut { log_p, mut grad, mut curv } = out;
    let shape = curv.as_ref().map_or(CurvatureShape::Diag, |request| request.shape);
    let matrix_len = shape.len(dim);
    if let Some(request) = &mut curv {
        if request.kind != Curvature::Exact {
            let wanted = request.kind.name();
            return Err(format!("this target has no {wanted} curvature, only {}", Curvature::Exact.name()).into());
        }
        request.sums.fill(0.0);
    }
    let mut entries = scratch.take(if curv.is_some() { matrix_len } else { 0 });
    for (i, z) in z.iter().enumerate() {
        let mut grad_i = grad.as_deref_mut().map(|grad| &mut grad[i * dim..(i + 1) * dim]);
        if let Some(grad) = &mut grad_i {
            grad.fill(0.0);
        }
        let wanted = curv.as_mut().filter(|request| request.weights[i..].iter().step_by(n).any(|&w| w != 0.0));
        let Some(request) = wanted else {
            log_p[i] = at(z, grad_i, None)?;
            continue;
        };
        entries.fill(0.0);
        log_p[i] = at(z, grad_i.as_deref_mut(), Some(&mut Hessian { shape, dim, entries: &mut entries }))?;
        if !log_p[i].is_finite() {
            continue;
        }
        if !entries.iter().chain(grad_i.as_deref().unwrap_or_default()).all(|x| x.is_finite()) {
            log_p[i] = f64::NAN;
            continue;
        }
        let weights = request.weights[i..].iter().step_by(n);
        for (&weight, sum) in weights.zip(request.sums.chunks_exact_mut(matrix_len)) {
            if weight != 0.0 {
                sum.iter_mut().zip(&entries).for_each(|(sum, entry)| *sum += weight * entry);
            }
        }
    }
    scratch.give(entries);
    Ok(())
}

/// Turns the terms `log w_k p_k(z)` into the shares `w_k p_k(z) / p(z)` and returns `log p(z)`.
///
/// Where every term is minus infinity so is the result, and the shares are zero.
pub(crate) fn shares_of(log_terms: &mut [f64]) -> f64 {
    let largest = log_terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        // `f64::max` passes over NaN; the sum does not.
        let log_p = log_terms.iter().sum();
        log_terms.fill(0.0);
        return log_p;
    }
    let mut total = 0.0;
    for term in log_terms.iter_mut() {
        *term = (*term - largest).exp();
        total += *term;
    }
    log_terms.iter_mut().for_each(|term| *term /= total);
    largest + total.ln()
}

/// Adds what the spread of the components' gradients `g_k` gives to a mixture's Hessian,
/// `sum_k r_k (g_k - g)(g_k - g)'` with `g = sum_k r_k g_k`. Overwrites each `g_k` by `g_k - g`.
///
/// The centred form keeps its sign and its digits where one component has all of the share.
pub(crate) fn add_gradient_spread(shares: &[f64], component_grads: &mut [f64], grad: &[f64], hess: &mut Hessian<'_>) {
    for (&share, component_grad) in shares.iter().zip(component_grads.chunks_exact_mut(grad.len())) {
        if share > NEGLIGIBLE_SHARE {
            component_grad.iter_mut().zip(grad).for_each(|(g_k, g)| *g_k -= g);
            hess.add_outer(share, component_grad);
        }
    }
}

/// A component with a smaller share of a point changes no digit of that point's derivatives.
pub(crate) const NEGLIGIBLE_SHARE: f64 = 1e-30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::CurvatureSums;

    /// `log p = -z'z / 2`, undefined at negative first coordinates, its Hessian also at 7.
    fn eval(points: &[f64], weights: &[f64], shape: CurvatureShape, sums: &mut [f64]) -> Vec<f64> {
        let mut log_p = vec![0.0; points.len() / 2];
        let curv = Some(CurvatureSums { kind: Curvature::Exact, shape, weights, sums });
        let out = EvalOut { log_p: &mut log_p, grad: None, curv };
        eval_points(2, Points::new(points, 2), out, &mut Scratch::default(), |z, _, hess| {
            if let Some(hess) = hess {
                assert_ne!(z[1], 99.0, "asked for a Hessian that no sum needs");
                hess.add(0, 0, if z[0] == 7.0 { f64::INFINITY } else { -1.0 });
                hess.add(1, 1, -1.0);
                hess.add(0, 1, 0.5);
            }
            Ok(if z[0] < 0.0 { f64::NAN } else { -0.5 * (z[0] * z[0] + z[1] * z[1]) })
        })
        .unwrap();
        log_p
    }

    #[test]
    fn bad_points_and_points_without_weight_add_nothing() {
        let points = [1.0, 0.0, -1.0, 0.0, 7.0, 0.0, 0.0, 99.0, 2.0, 0.0];
        let weights = [1.0, 1.0, 1.0, 0.0, 2.0, 0.0, 5.0, 5.0, 0.0, 0.5];
        let mut sums = [f64::NAN; 8];
        let log_p = eval(&points, &weights, CurvatureShape::Full, &mut sums);
        assert_eq!(sums, [-3.0, 1.5, 1.5, -3.0, -0.5, 0.25, 0.25, -0.5]);
        assert_eq!((log_p[0], log_p[3]), (-0.5, -0.5 * 99.0 * 99.0));
        assert!(log_p[1].is_nan() && log_p[2].is_nan());
        let mut sums = [f64::NAN; 4];
        eval(&points, &weights, CurvatureShape::Diag, &mut sums);
        assert_eq!(sums, [-3.0, -3.0, -0.5, -0.5]);
    }

    #[test]
    fn no_points_give_zero_sums() {
        let mut sums = [f64::NAN; 4];
        assert!(eval(&[], &[], CurvatureShape::Full, &mut sums).is_empty());
        assert_eq!(sums, [0.0; 4]);
    }

    #[test]
    fn wrong_dimension_and_missing_curvature_are_errors() {
        let funnel = Funnel::new(3, 1.0).unwrap();
        let message = log_p_at(&funnel, &[0.0; 2]).unwrap_err().to_string();
        assert_eq!(message, "points have 2 coordinates, the target has 3");
        let (mut log_p, mut sums) = ([0.0], [0.0; 3]);
        let kind = Curvature::GaussNewton;
        let curv = CurvatureSums { kind, shape: CurvatureShape::Diag, weights: &[1.0], sums: &mut sums };
        let out = EvalOut { log_p: &mut log_p, grad: None, curv: Some(curv) };
        let result = funnel.eval(Rows::All, Points::new(&[0.0; 3], 3), out, &mut Scratch::default());
        assert_eq!(result.unwrap_err().to_string(), "this target has no gauss-newton curvature, only exact");
    }

    #[test]
    fn shares_survive_extreme_terms() {
        let mut terms = [-2000.0, -2000.0, f64::NEG_INFINITY];
        assert!((shares_of(&mut terms) - (-2000.0 + 2f64.ln())).abs() < 1e-12);
        assert_eq!(terms, [0.5, 0.5, 0.0]);
        assert_eq!(shares_of(&mut [f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
        assert!(shares_of(&mut [0.0, f64::NAN, -1.0]).is_nan());
        assert!(shares_of(&mut [f64::NAN, f64::NEG_INFINITY]).is_nan());
    }
}
