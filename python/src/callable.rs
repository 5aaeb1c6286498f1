//! A Python function as a target: one call for all points of an iteration.
//!
//! The function gets an array of its own, with one point per row, so it may modify or keep it. It returns values; or values
//! and gradients; or values, gradients and Hessians. Returned arrays of doubles are read without a copy.

use crate::arrays::{numbers, slice, tuple};
use natmix::Scratch;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target, TargetError};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where gradients come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradient {
    /// The function returns them.
    Given,
    /// Central differences of values, in the same call.
    Numerical,
    /// There are none.
    None,
}

/// A Python function of many points.
#[derive(Debug)]
pub struct Callable {
    pub function: Py<PyAny>,
    /// Returns the curvature of each point; without it, the function's third return value is used.
    pub curvature: Option<Py<PyAny>>,
    pub curvatures: Vec<(Curvature, CurvatureShape)>,
    /// The caller's context, so that the function sees its variables in any thread.
    pub context: Py<PyAny>,
    /// Whether a thread is in that context.
    pub entered: AtomicBool,
    pub dim: usize,
    pub names: Vec<String>,
    pub gradient: Gradient,
    /// Set when the user asks a second time to stop.
    pub abort: Arc<AtomicBool>,
}

/// What the function returned.
struct Returned<'py> {
    log_p: PyReadonlyArrayDyn<'py, f64>,
    grad: Option<Bound<'py, PyAny>>,
    hess: Option<Bound<'py, PyAny>>,
}

impl Callable {
    /// Calls `function` with points in an array of its own, in the caller's context.
    fn call<'py>(&self, py: Python<'py>, function: &Py<PyAny>, points: &[f64]) -> PyResult<Bound<'py, PyAny>> {
        let array = PyArray1::from_slice(py, points).reshape([points.len() / self.dim, self.dim])?;
        let context = self.context.bind(py);
        // A context cannot be entered twice at once: a second caller takes a copy.
        if self.entered.swap(true, Ordering::Acquire) {
            return context.call_method0(intern!(py, "copy"))?.call_method1(intern!(py, "run"), (function, array));
        }
        let result = context.call_method1(intern!(py, "run"), (function, array));
        self.entered.store(false, Ordering::Release);
        result
    }

    fn returned<'py>(&self, py: Python<'py>, points: &[f64]) -> PyResult<Returned<'py>> {
        let n = points.len() / self.dim;
        let value = self.call(py, &self.function, points)?;
        let (log_p, grad, hess) = match value.cast::<PyTuple>() {
            Err(_) => (value, None, None),
            Ok(parts) => match parts.len() {
                1 => (parts.get_item(0)?, None, None),
                2 => (parts.get_item(0)?, Some(parts.get_item(1)?), None),
                3 => (parts.get_item(0)?, Some(parts.get_item(1)?), Some(parts.get_item(2)?)),
                m => {
                    let message =
                        format!("the target returned {m} values, expected (log_p, grad) or (log_p, grad, hessian)");
                    return Err(PyTypeError::new_err(message));
                }
            },
        };
        Ok(Returned { log_p: numbers(&log_p, "log_p", &[n])?, grad, hess })
    }

    fn evaluate(&self, py: Python<'_>, z: Points<'_>, mut out: EvalOut<'_>) -> PyResult<()> {
        if self.gradient == Gradient::Numerical
            && let Some(grad) = &mut out.grad
        {
            return self.differences(py, z, out.log_p, grad);
        }
        let returned = self.returned(py, z.data())?;
        out.log_p.copy_from_slice(slice(&returned.log_p)?);
        if let Some(out) = out.grad {
            let Some(grad) = &returned.grad else {
                return Err(PyTypeError::new_err("the target returned a gradient before, but not this time"));
            };
            out.copy_from_slice(slice(&numbers(grad, "grad", &[z.len(), self.dim])?)?);
        }
        if let Some(request) = out.curv {
            let hess = match (&self.curvature, returned.hess) {
                (Some(function), _) => self.call(py, function, z.data())?,
                (None, Some(hess)) => hess,
                (None, None) => {
                    return Err(PyTypeError::new_err("the target returned a Hessian before, but not this time"));
                }
            };
            self.sum(&hess, z.len(), request)?;
        }
        Ok(())
    }

    /// Values and central differences, from one call.
    fn differences(&self, py: Python<'_>, z: Points<'_>, log_p: &mut [f64], grad: &mut [f64]) -> PyResult<()> {
        let (d, each) = (self.dim, 2 * self.dim + 1);
        let step = |x: f64| f64::EPSILON.cbrt() * x.abs().max(1.0);
        let mut points = Vec::with_capacity(z.len() * each * d);
        for z in z.iter() {
            points.extend_from_slice(z);
            for j in 0..d {
                for sign in [1.0, -1.0] {
                    let start = points.len();
                    points.extend_from_slice(z);
                    points[start + j] += sign * step(z[j]);
                }
            }
        }
        let returned = self.returned(py, &points)?;
        let values = slice(&returned.log_p)?;
        for (i, z) in z.iter().enumerate() {
            let values = &values[i * each..(i + 1) * each];
            log_p[i] = values[0];
            for j in 0..d {
                // The difference of the rounded points, not twice the step.
                let width = (z[j] + step(z[j])) - (z[j] - step(z[j]));
                grad[i * d + j] = (values[1 + 2 * j] - values[2 + 2 * j]) / width;
            }
        }
        Ok(())
    }

    /// Weighted sums of curvature.
    fn sum(&self, hess: &Bound<'_, PyAny>, n: usize, request: CurvatureSums<'_>) -> PyResult<()> {
        let d = self.dim;
        let full = self.curvatures.contains(&(Curvature::Exact, CurvatureShape::Full));
        let shape: &[usize] = if full { &[n, d, d] } else { &[n, d] };
        let hess = numbers(hess, "hessian", shape)?;
        let hess = slice(&hess)?;
        let width = request.shape.len(d);
        let matrix = |i: usize| {
            let stride = if full && request.shape == CurvatureShape::Diag { d + 1 } else { 1 };
            let each = if full { d * d } else { d };
            hess[i * each..(i + 1) * each].iter().step_by(stride)
        };
        request.sums.fill(0.0);
        for (sum, weights) in request.sums.chunks_exact_mut(width).zip(request.weights.chunks_exact(n)) {
            for (i, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                sum.iter_mut().zip(matrix(i)).for_each(|(sum, x)| *sum += weight * x);
            }
        }
        Ok(())
    }
}

impl Target for Callable {
    fn dim(&self) -> usize {
        self.dim
    }

    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        let fatal = |error: PyErr| TargetError(Box::new(error));
        if self.abort.load(Ordering::Relaxed) {
            return Err(fatal(PyKeyboardInterrupt::new_err("interrupted twice")));
        }
        if out.grad.is_some() && self.gradient == Gradient::None {
            return Err(format!("a function of {} returned values only", tuple(&[z.len(), self.dim])).into());
        }
        Python::attach(|py| self.evaluate(py, z, out)).map_err(fatal)
    }

    fn has_gradient(&self) -> bool {
        self.gradient != Gradient::None
    }

    fn gradient_is_tested(&self) -> bool {
        self.gradient == Gradient::Numerical
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &self.curvatures
    }

    fn whole_batches(&self) -> bool {
        true
    }

    fn host(&self, fit: &mut (dyn FnMut() + Send)) {
        // Attaches this thread to the interpreter for the whole fit: attaching for every call would take most of its time.
        Python::attach(|py| py.detach(fit));
    }

    fn parameter_names(&self) -> Vec<String> {
        self.names.clone()
    }
}
