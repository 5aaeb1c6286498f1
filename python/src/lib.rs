//! The compiled module behind the Python package: arrays in, arrays out. The public API, checks and texts are in the Python
//! files.

mod arrays;
mod callable;
mod compiled;
mod convert;
mod errors;
mod fit;
mod mixture;
mod record;
mod settings;
mod stan;
mod target;

use pyo3::prelude::*;

/// The engine of natmix.
#[pymodule]
mod _natmix {
    #[pymodule_export]
    use super::fit::{PyRun, fit};
    #[pymodule_export]
    use super::mixture::PyMixture;
    #[pymodule_export]
    use super::record::{PyRecord, compare};
    #[pymodule_export]
    use super::target::PyTarget;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
