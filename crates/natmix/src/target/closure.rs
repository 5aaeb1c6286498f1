//! Closures as targets: a log density, with or without its derivatives, written at one point.
//!
//! A closure returns `log p` as a number, or as a `Result` whose error ends the run; NaN or minus infinity is for a
//! single point that cannot be evaluated. It is called from several threads at once.
//!
//! ```
//! use natmix::target::{log_p_at, ClosureTarget};
//!
//! let normal = ClosureTarget::new(2, |z, grad| {
//!     if let Some(grad) = grad {
//!         grad.iter_mut().zip(z).for_each(|(g, z)| *g = -z);
//!     }
//!     -0.5 * z.iter().map(|z| z * z).sum::<f64>()
//! })
//! .unwrap()
//! .with_hessian(|_, hess| hess.copy_from_slice(&[-1.0, 0.0, 0.0, -1.0]));
//! assert_eq!(log_p_at(&normal, &[3.0, 4.0]).unwrap(), -12.5);
//!
//! let checked = ClosureTarget::density_only(1, |z| if z[0] < 9.0 { Ok(-z[0].abs()) } else { Err("off the table") });
//! assert_eq!(log_p_at(&checked.unwrap(), &[10.0]).unwrap_err().to_string(), "off the table");
//! ```

use super::pointwise::{EXACT, eval_points};
use crate::error::Error;
use crate::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use crate::workspace::Scratch;

/// What a closure may return for `log p`: a number, or a `Result` with one.
pub trait ClosureValue {
    /// The value, or why the whole run must end.
    fn into_result(self) -> Result<f64, TargetError>;
}

impl ClosureValue for f64 {
    fn into_result(self) -> Result<f64, TargetError> {
        Ok(self)
    }
}

impl<E: Into<TargetError>> ClosureValue for Result<f64, E> {
    fn into_result(self) -> Result<f64, TargetError> {
        self.map_err(Into::into)
    }
}

type PointFn<'a> = Box<dyn Fn(&[f64], Option<&mut [f64]>) -> Result<f64, TargetError> + Send + Sync + 'a>;
type HessianFn<'a> = Box<dyn Fn(&[f64], &mut [f64]) + Send + Sync + 'a>;

/// A target made from closures, which may borrow what they use. See the [module page](self).
pub struct ClosureTarget<'a> {
    dim: usize,
    log_p: PointFn<'a>,
    has_gradient: bool,
    hessian: Option<HessianFn<'a>>,
    names: Option<Vec<String>>,
}

impl<'a> ClosureTarget<'a> {
    /// A target from `f(z, grad)`, which returns `log p(z)` and writes its gradient if `grad` is given, which
    /// holds zeros.
    pub fn new<V: ClosureValue>(
        dim: usize,
        f: impl Fn(&[f64], Option<&mut [f64]>) -> V + Send + Sync + 'a,
    ) -> Result<Self, Error> {
        let log_p: PointFn<'a> = Box::new(move |z, grad| f(z, grad).into_result());
        if dim == 0 {
            return Err(Error::InvalidInput("dim is 0, expected at least 1".into()));
        }
        Ok(Self { dim, log_p, has_gradient: true, hessian: None, names: None })
    }

    /// A target from `f(z)`, which returns `log p(z)` without a gradient.
    pub fn density_only<V: ClosureValue>(
        dim: usize,
        f: impl Fn(&[f64]) -> V + Send + Sync + 'a,
    ) -> Result<Self, Error> {
        Ok(Self { has_gradient: false, ..Self::new(dim, move |z, _| f(z))? })
    }

    /// Adds exact curvature: `f(z, hess)` writes all `dim * dim` entries of the symmetric Hessian of `log p`; `hess`
    /// holds zeros.
    pub fn with_hessian(mut self, f: impl Fn(&[f64], &mut [f64]) + Send + Sync + 'a) -> Self {
        self.hessian = Some(Box::new(f));
        self
    }

    /// Names the parameters, one for each coordinate.
    pub fn with_names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.len() != self.dim {
            let (found, expected) = (names.len(), self.dim);
            return Err(Error::InvalidInput(format!("names: found {found}, expected {expected}")));
        }
        self.names = Some(names);
        Ok(self)
    }
}

impl std::fmt::Debug for ClosureTarget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosureTarget")
            .field("dim", &self.dim)
            .field("has_gradient", &self.has_gradient)
            .field("has_hessian", &self.hessian.is_some())
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Target for ClosureTarget<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        if out.grad.is_some() && !self.has_gradient {
            return Err("this target was made from a density alone and has no gradient".into());
        }
        if out.curv.is_some() && self.hessian.is_none() {
            return Err("this target was made without a Hessian and has no curvature".into());
        }
        let mut matrix = scratch.take(if out.curv.is_some() { self.dim * self.dim } else { 0 });
        let result = eval_points(self.dim, z, out, scratch, |z, grad, hess| {
            if let (Some(hess), Some(write_hessian)) = (hess, &self.hessian) {
                matrix.fill(0.0);
                write_hessian(z, &mut matrix);
                hess.add_matrix(1.0, &matrix);
            }
            (self.log_p)(z, grad)
        });
        scratch.give(matrix);
        result
    }

    fn has_gradient(&self) -> bool {
        self.has_gradient
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        if self.hessian.is_some() { EXACT } else { &[] }
    }

    fn parameter_names(&self) -> Vec<String> {
        self.names.clone().unwrap_or_else(|| (0..self.dim).map(|i| format!("z{i}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::log_p_at;
    use crate::testing::{CheckOptions, check_target};

    /// `log p = -z0^4 - z0 z1 - z1^2`.
    fn quartic(z: &[f64], grad: Option<&mut [f64]>) -> f64 {
        if let Some(grad) = grad {
            grad.copy_from_slice(&[-4.0 * z[0].powi(3) - z[1], -z[0] - 2.0 * z[1]]);
        }
        -z[0].powi(4) - z[0] * z[1] - z[1] * z[1]
    }

    fn quartic_hessian(z: &[f64], hess: &mut [f64]) {
        hess.copy_from_slice(&[-12.0 * z[0] * z[0], -1.0, -1.0, -2.0]);
    }

    #[test]
    fn derivatives() {
        let target = ClosureTarget::new(2, quartic).unwrap().with_hessian(quartic_hessian);
        let report = check_target(&target, &CheckOptions::default()).unwrap();
        assert!(report.passed(), "{report}");
    }

    #[test]
    fn names_and_offers() {
        let offset = [1.0, 2.0];
        let target = ClosureTarget::density_only(2, |z| -(z[0] - offset[0]).abs() - (z[1] - offset[1]).abs()).unwrap();
        assert!(!target.has_gradient() && target.curvatures().is_empty());
        assert_eq!(target.parameter_names(), ["z0", "z1"]);
        assert_eq!(log_p_at(&target, &[0.0, 0.0]).unwrap(), -3.0);
        let target = target.with_names(["a", "b"]).unwrap().with_hessian(|_, _| {});
        assert_eq!(target.parameter_names(), ["a", "b"]);
        assert_eq!(target.curvatures().len(), 2);
        assert_eq!(target.with_names(["a"]).unwrap_err().to_string(), "names: found 1, expected 2");
        assert!(ClosureTarget::density_only(0, |_| 0.0).is_err());
    }

    #[test]
    fn errors_are_reported() {
        let failing = |_: &[f64], _: Option<&mut [f64]>| -> Result<f64, TargetError> { Err("solver failed".into()) };
        let target = ClosureTarget::new(1, failing).unwrap();
        assert_eq!(log_p_at(&target, &[0.0]).unwrap_err().to_string(), "solver failed");
        let target = ClosureTarget::density_only(1, |_| 0.0).unwrap();
        let (mut log_p, mut grad) = ([0.0], [0.0]);
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
        let result = target.eval(Rows::All, Points::new(&[0.0], 1), out, &mut Scratch::default());
        assert!(result.unwrap_err().to_string().contains("no gradient"));
    }
}
