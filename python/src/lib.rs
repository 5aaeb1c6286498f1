//! Glue between Python and the engine: arrays in, arrays out. Names, checks and words for people are in the Python files.

mod arrays;
mod callable;
mod compiled;
mod convert;
mod errors;
mod fit;
mod mixture;
mod record;
mod settings;
mod target;

use pyo3::prelude::*;

/// The engine of natmix.
#[pymodule]
mod _natmix {
    #[pymodule_export]
    use super::fit::{Run, fit};
    #[pymodule_export]
    use super::mixture::Mixture;
    #[pymodule_export]
    use super::record::Record;
    #[pymodule_export]
    use super::target::Target;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
