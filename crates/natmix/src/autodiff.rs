//! Automatic differentiation: write the density, and its derivatives follow.
//!
//! Write `log p` once, as a [`Density`], in any number type `R:` [`Real`]; [`AutoDiff`] makes a [`Target`] of it:
//!
//! - values in plain `f64`;
//! - gradients by recording the arithmetic on a [`Tape`] and reading it backwards: one sweep per point;
//! - exact Hessians by doing that with [`Dual`] numbers, forward over reverse: `H e_j = d/dt grad log p(z + t e_j)`,
//!   a few columns per sweep.
//!
//! All are exact up to rounding. A gradient costs a small multiple of a value, a Hessian about `d` times that: a
//! density with a cheap closed form for it is worth a [`Target`] of its own.
//!
//! ```
//! use natmix::Scratch;
//! use natmix::autodiff::{AutoDiff, Density, Real};
//! use natmix::target::{Curvature, CurvatureSums, EvalOut, Points, Rows, CurvatureShape, Target};
//!
//! /// The banana `-(1 - x)^2 - 100 (y - x^2)^2`.
//! struct Banana;
//! impl Density for Banana {
//!     fn dim(&self) -> usize { 2 }
//!     fn log_p<R: Real>(&self, z: &[R]) -> R {
//!         let (x, y) = (z[0], z[1]);
//!         -(x - 1.0).powi(2) - (y - x * x).powi(2) * 100.0
//!     }
//! }
//! let (mut log_p, mut grad, mut sums) = ([0.0], [0.0; 2], [0.0; 4]);
//! let curv = CurvatureSums { kind: Curvature::Exact, shape: CurvatureShape::Full, weights: &[1.0], sums: &mut sums };
//! let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
//! AutoDiff(Banana).eval(Rows::All, Points::new(&[1.0, 1.0], 2), out, &mut Scratch::default()).unwrap();
//! assert_eq!((log_p, grad, sums), ([0.0], [0.0; 2], [-802.0, 400.0, 400.0, -200.0]));
//! ```

mod dual;
mod real;
pub mod special;
mod tape;
#[cfg(test)]
mod tests;

pub use dual::Dual;
pub use real::{Real, Scalar, log_sum_exp};
pub use tape::{Tape, Var};

use crate::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target, TargetError};
use crate::workspace::Scratch;
use std::cell::Cell;
use tape::Recorder;

/// An un-normalised log density over `R^d`, written for any number type. [`AutoDiff`] makes a [`Target`] of it.
pub trait Density: Sync {
    /// Dimension `d`.
    fn dim(&self) -> usize;

    /// `log p` at `z`: NaN where it cannot be evaluated, minus infinity where the density is zero.
    fn log_p<R: Real>(&self, z: &[R]) -> R;

    /// Names of the parameters, as [`Target::parameter_names`].
    fn parameter_names(&self) -> Vec<String> {
        (0..self.dim()).map(|i| format!("z{i}")).collect()
    }

    /// The parameters of point `z` on their own scale, as [`Target::to_parameters`].
    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        parameters.copy_from_slice(z);
    }
}

/// A [`Density`] with its derivatives. See the [module page](self).
///
/// A point where a requested gradient or Hessian is not finite cannot be evaluated: its `log p` is NaN, unless it is
/// infinite itself, its gradient is all NaN, and it adds nothing to the curvature sums.
///
/// Each thread keeps the memory of its longest record until it ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct AutoDiff<D>(pub D);

/// Columns of a Hessian that one sweep gives: enough to spread the cost of `exp` and the like, few enough to stay in
/// registers.
const LANES: usize = 4;

#[derive(Default)]
struct Recorders {
    first_order: Recorder<f64>,
    second_order: Recorder<Dual<LANES>>,
}

thread_local! {
    static SPARE: Cell<Recorders> = Cell::default();
}

impl Recorders {
    fn gradient<D: Density>(&mut self, density: &D, z: &[f64], grad: &mut [f64]) -> f64 {
        let (log_p, adjoints) = self.first_order.differentiate(density, z.iter().copied());
        grad.copy_from_slice(&adjoints[..z.len()]);
        log_p
    }

    fn hessian<D: Density>(
        &mut self,
        density: &D,
        z: &[f64],
        grad: &mut [f64],
        shape: CurvatureShape,
        hess: &mut [f64],
    ) -> f64 {
        let dim = z.len();
        let mut value = f64::NAN;
        for start in (0..dim).step_by(LANES) {
            let inputs = z.iter().enumerate().map(|(i, &z)| Dual::along(z, i.wrapping_sub(start)));
            let (log_p, adjoints) = self.second_order.differentiate(density, inputs);
            value = log_p.value;
            if !value.is_finite() {
                break;
            }
            for (g, adjoint) in grad.iter_mut().zip(adjoints.iter()) {
                *g = adjoint.value;
            }
            for column in start..dim.min(start + LANES) {
                match shape {
                    CurvatureShape::Diag => hess[column] = adjoints[column].slopes[column - start],
                    // Mirrored, so that rounding cannot make the matrix asymmetric.
                    CurvatureShape::Full => {
                        for row in column..dim {
                            let entry = adjoints[row].slopes[column - start];
                            (hess[row * dim + column], hess[column * dim + row]) = (entry, entry);
                        }
                    }
                }
            }
        }
        value
    }
}

impl<D: Density> Target for AutoDiff<D> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let Self(density) = self;
        let dim = density.dim();
        if z.dim() != dim {
            return Err(format!("points of dimension {}, but the density has dimension {dim}", z.dim()).into());
        }
        if let Rows::Subset(_) = rows {
            return Err("a density has no data rows to take a minibatch of".into());
        }
        let EvalOut { log_p, mut grad, mut curv } = out;
        if let Some(CurvatureSums { kind, sums, .. }) = &mut curv {
            if *kind != Curvature::Exact {
                return Err(format!("curvature '{}' is not available, only 'exact'", kind.name()).into());
            }
            sums.fill(0.0);
        }
        let wants_grad = grad.is_some();
        let mut spare_grad = scratch.take(dim);
        let mut hess = scratch.take(curv.as_ref().map_or(0, |curv| curv.shape.len(dim)));
        let mut recorders = SPARE.take();
        for (i, point) in z.iter().enumerate() {
            let point_grad = grad.as_mut().map_or(&mut spare_grad[..], |grad| &mut grad[i * dim..(i + 1) * dim]);
            let sums = curv.as_mut().filter(|curv| weights_of(curv, i, z.len()).any(|weight| weight != 0.0));
            let value = match &sums {
                Some(curv) => recorders.hessian(density, point, point_grad, curv.shape, &mut hess),
                None if wants_grad => recorders.gradient(density, point, point_grad),
                None => density.log_p(point),
            };
            log_p[i] = value;
            if !wants_grad && sums.is_none() {
                continue;
            }
            let all_finite = |numbers: &[f64]| numbers.iter().all(|x| x.is_finite());
            if !value.is_finite() || !all_finite(point_grad) || (sums.is_some() && !all_finite(&hess)) {
                log_p[i] = if value.is_finite() { f64::NAN } else { value };
                point_grad.fill(f64::NAN);
            } else if let Some(curv) = sums {
                for (c, sum) in curv.sums.chunks_exact_mut(hess.len()).enumerate() {
                    let weight = curv.weights[c * z.len() + i];
                    sum.iter_mut().zip(&hess).for_each(|(sum, h)| *sum += weight * h);
                }
            }
        }
        SPARE.set(recorders);
        scratch.give(spare_grad);
        scratch.give(hess);
        Ok(())
    }

    fn gradient_is_tested(&self) -> bool {
        true
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &[(Curvature::Exact, CurvatureShape::Diag), (Curvature::Exact, CurvatureShape::Full)]
    }

    fn parameter_names(&self) -> Vec<String> {
        self.0.parameter_names()
    }

    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.0.to_parameters(z, parameters);
    }
}

/// The weight of point `i` of `n` in each sum.
fn weights_of(curv: &CurvatureSums<'_>, i: usize, n: usize) -> impl Iterator<Item = f64> {
    curv.weights.iter().skip(i).step_by(n).copied()
}
