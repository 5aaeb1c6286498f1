//! Targets written for one point: value, gradient and Hessian there become the results of [`Target::eval`].
//!
//! One shared loop computes the sums `sums[c] = sum_i weights[c, i] * hess log p(z_i)`. A point where the value, the
//! gradient or the Hessian is not finite adds nothing to any sum; if its value alone was finite, it becomes NaN, so that
//! the caller leaves the point out everywhere.
//!
//! ```
//! use natmix::target::pointwise::{EXACT, Hessian, eval_points};
//! use natmix::target::{Curvature, EvalOut, Points, Rows, CurvatureShape, Target, TargetError, log_p_at};
//! use natmix::Scratch;
//!
//! struct Parabola;
//! impl Target for Parabola {
//!     fn dim(&self) -> usize { 1 }
//!     fn curvatures(&self) -> &[(Curvature, CurvatureShape)] { EXACT }
//!     fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
//!         eval_points(1, z, out, scratch, |z, grad, hess| {
//!             if let Some(grad) = grad { grad[0] = -z[0]; }
//!             if let Some(hess) = hess { hess.add(0, 0, -1.0); }
//!             Ok(-0.5 * z[0] * z[0])
//!         })
//!     }
//! }
//! assert_eq!(log_p_at(&Parabola, &[2.0]).unwrap(), -2.0);
//! ```

use crate::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use crate::workspace::Scratch;

/// What a target with a Hessian of its own answers to [`Target::curvatures`].
pub const EXACT: &[(Curvature, CurvatureShape)] =
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
pub struct Hessian<'a> {
    shape: CurvatureShape,
    dim: usize,
    entries: &'a mut [f64],
}

impl Hessian<'_> {
    /// Adds `x` at `(i, j)` and, off the diagonal, at `(j, i)`.
    pub fn add(&mut self, i: usize, j: usize, x: f64) {
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
    pub fn add_outer(&mut self, factor: f64, u: &[f64]) {
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
    pub fn add_matrix(&mut self, factor: f64, matrix: &[f64]) {
        // The diagonal of a row-major matrix lies `dim + 1` numbers apart.
        let stride = if self.shape == CurvatureShape::Diag { self.dim + 1 } else { 1 };
        self.entries.iter_mut().zip(matrix.iter().step_by(stride)).for_each(|(entry, x)| *entry += factor * x);
    }
}

/// Evaluates a target from `at(z, grad, hess)`, which returns `log p` at one point and, where asked, writes the
/// gradient and adds up the Hessian; both start at zero. The Hessian is not asked for where all weights are zero.
pub fn eval_points(
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
        let flat = crate::target::ClosureTarget::density_only(3, |_| 0.0).unwrap().with_hessian(|_, _| {});
        let message = log_p_at(&flat, &[0.0; 2]).unwrap_err().to_string();
        assert_eq!(message, "points have 2 coordinates, the target has 3");
        let (mut log_p, mut sums) = ([0.0], [0.0; 3]);
        let kind = Curvature::GaussNewton;
        let curv = CurvatureSums { kind, shape: CurvatureShape::Diag, weights: &[1.0], sums: &mut sums };
        let out = EvalOut { log_p: &mut log_p, grad: None, curv: Some(curv) };
        let result = flat.eval(Rows::All, Points::new(&[0.0; 3], 3), out, &mut Scratch::default());
        assert_eq!(result.unwrap_err().to_string(), "this target has no gauss-newton curvature, only exact");
    }
}
