//! Arrays from and to Python: type and shape are checked before a number is read.

use crate::errors::raise;
use natmix::evaluate::with_threads;
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time between two checks for signals.
pub const TICK: Duration = Duration::from_millis(50);

/// Numbers of the given shape; anything but a C-ordered array of doubles is converted.
pub fn numbers<'py>(value: &Bound<'py, PyAny>, what: &str, shape: &[usize]) -> PyResult<PyReadonlyArrayDyn<'py, f64>> {
    let array = doubles(value, what)?;
    if array.shape() != shape {
        let message = format!("{what} has shape {}, expected {}", tuple(array.shape()), tuple(shape));
        return Err(PyValueError::new_err(message));
    }
    Ok(array)
}

/// Numbers of any shape, in C order.
pub fn doubles<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<PyReadonlyArrayDyn<'py, f64>> {
    if let Ok(array) = value.cast::<PyArrayDyn<f64>>()
        && array.is_c_contiguous()
    {
        return Ok(array.try_readonly()?);
    }
    let py = value.py();
    let numpy = numpy(py)?;
    let array = numpy.call_method1("asarray", (value,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    if !matches!(&kind[..], "f" | "i" | "u" | "b") {
        let dtype = array.getattr("dtype")?.str()?;
        return Err(PyTypeError::new_err(format!("{what} has dtype {dtype}, expected real numbers")));
    }
    let options = PyDict::new(py);
    options.set_item("dtype", "float64")?;
    let array = numpy.call_method("ascontiguousarray", (array,), Some(&options))?;
    // `ascontiguousarray` makes an array of one number from a scalar: the original shape is restored.
    let array = array.call_method1("reshape", (value_shape(value, &array)?,))?;
    Ok(array.cast::<PyArrayDyn<f64>>()?.try_readonly()?)
}

fn value_shape<'py>(value: &Bound<'py, PyAny>, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    numpy(value.py())?.call_method1("shape", (value,)).or_else(|_| array.getattr("shape"))
}

/// Points, one per row.
pub fn points<'py>(value: &Bound<'py, PyAny>, what: &str, dim: usize) -> PyResult<PyReadonlyArrayDyn<'py, f64>> {
    let array = doubles(value, what)?;
    match array.shape() {
        [_, d] if *d == dim => Ok(array),
        shape => Err(PyValueError::new_err(format!("{what} has shape {}, expected (n, {dim})", tuple(shape)))),
    }
}

/// The numbers of a checked array.
pub fn slice<'a>(array: &'a PyReadonlyArrayDyn<'_, f64>) -> PyResult<&'a [f64]> {
    array.as_slice().map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A new array of one dimension.
pub fn vector<'py>(py: Python<'py>, values: Vec<f64>) -> Bound<'py, PyArray1<f64>> {
    PyArray1::from_vec(py, values)
}

/// A new array of rows.
pub fn rows<'py>(py: Python<'py>, values: Vec<f64>, columns: usize) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let n = values.len() / columns.max(1);
    PyArray1::from_vec(py, values).reshape([n, columns])
}

/// A new array of square matrices.
pub fn matrices<'py>(py: Python<'py>, values: Vec<f64>, dim: usize) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let n = values.len() / (dim * dim).max(1);
    PyArray1::from_vec(py, values).reshape([n, dim, dim])
}

/// NumPy, imported once.
fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    Ok(NUMPY.get_or_try_init(py, || py.import("numpy").map(Bound::unbind))?.bind(py))
}

/// A shape as Python writes it.
pub fn tuple(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!("({})", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Runs work of the engine without the interpreter, in a pool of threads made for this call: a pool that outlives the call
/// would not survive a fork.
pub fn in_pool<T: Send, E: Into<natmix_app::Error> + Send>(
    py: Python<'_>,
    threads: usize,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(|| with_threads(threads, work)).map_err(raise)?.map_err(raise)
}

/// Runs work in a thread of its own and without the interpreter, while the caller's thread looks for Ctrl-C: that calls `stop`,
/// and is raised when the work has ended.
pub fn while_interruptible<T: Send>(
    py: Python<'_>,
    stop: impl Fn() + Send + Sync,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (done, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let (end, ended) = channel::<()>();
            let worker = scope.spawn(move || {
                let done = work();
                drop(end);
                done
            });
            let mut raised = None;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    stop();
                    raised = Some(error);
                }
            }
            (worker.join(), raised)
        })
    });
    match raised {
        Some(error) => Err(error),
        None => done.map_err(|_| PyValueError::new_err("the engine panicked: please report this")),
    }
}
