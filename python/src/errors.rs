//! Errors of the engine as exceptions of Python; those that began in Python come back as they were.

use natmix::Error;
use natmix::target::TargetError;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

/// The exception for an error of the engine.
pub fn raise(error: Error) -> PyErr {
    match error {
        Error::Target(TargetError(inner)) => match inner.downcast::<PyErr>() {
            Ok(original) => *original,
            Err(other) => PyRuntimeError::new_err(format!("the target failed: {other}")),
        },
        Error::Io { .. } => PyOSError::new_err(error.to_string()),
        Error::NowhereFinite { .. } | Error::NotPositiveDefinite { .. } | Error::Threads { .. } => {
            PyRuntimeError::new_err(error.to_string())
        }
        _ => PyValueError::new_err(error.to_string()),
    }
}
