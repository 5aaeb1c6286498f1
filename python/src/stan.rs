//! Stan programs from Python: compiled while Ctrl-C is heard, and draws of their variables as arrays.

use crate::arrays::while_interruptible;
use crate::errors::raise;
use natmix::observe::Cancel;
use natmix_app::settings::{FitSettings, ModelKind, Settings};
use natmix_app::stan::{GroupedVariable, StanDraws, StanInput, StanProblem};
use natmix_stan::compile::{Compiling, StanSource};
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Name, group and draws of a variable.
pub type VariableDraws<'py> = (String, &'static str, Bound<'py, PyArrayDyn<f64>>);

/// A program or a library with its data, as Python gives them.
pub struct StanTexts {
    /// Either a file
    pub file: Option<PathBuf>,
    /// or the text of a program.
    pub code: Option<String>,
    /// The text of a JSON document, or nothing.
    pub data: String,
    /// Where the data come from, if from a file.
    pub data_file: Option<PathBuf>,
    /// The text of a JSON document.
    pub init: Option<String>,
    pub seed: u64,
    /// The folder of this package.
    pub httpstan: Option<PathBuf>,
}

impl StanTexts {
    /// The program with its data, and the settings with which the command line fits it. `tell` hears what takes long.
    pub fn compile(self, py: Python<'_>, tell: Py<PyAny>) -> PyResult<(StanProblem, Settings)> {
        let Self { file, code, data, data_file, init, seed, httpstan } = self;
        let source = match (&file, &code) {
            (Some(file), None) => StanSource::File(file),
            (None, Some(code)) => StanSource::Code(code),
            _ => return Err(PyValueError::new_err("a Stan program is either a file or text")),
        };
        let data_name = match &data_file {
            Some(file) => Some(file.display().to_string()),
            None => (!data.is_empty()).then(|| "`data`".to_owned()),
        };
        let input = StanInput { source, data: &data, data_name: data_name.as_deref(), init: init.as_deref(), seed };
        let cancel = Cancel::default();
        let stop = || cancel.cancel();
        let (compiled, failed) = while_interruptible(py, stop, || {
            let mut failed = None;
            let mut tell = |what: &str| {
                if let Err(error) = Python::attach(|py| tell.call1(py, (what,))) {
                    failed = Some(error);
                }
            };
            let (httpstan, cancel) = (httpstan.as_deref(), Some(cancel.clone()));
            let compiled = StanProblem::new(input, &mut Compiling { tell: &mut tell, httpstan, cancel });
            (compiled, failed)
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        // Only what is in files can be found again by the command line.
        let in_files = data_file.is_some() || data.is_empty();
        let fit = FitSettings {
            model: Some(ModelKind::Stan),
            program: file.filter(|_| in_files),
            data: data_file,
            ..FitSettings::default()
        };
        Ok((compiled.map_err(raise)?, Settings { fit, ..Settings::default() }))
    }
}

/// The draws of all variables, with their groups.
pub fn arrays<'py>(py: Python<'py>, draws: &StanDraws) -> PyResult<Vec<VariableDraws<'py>>> {
    let n = draws.values.len() / draws.names.len().max(1);
    let array = |GroupedVariable { variable, group }| {
        let shape = [&[n][..], &variable.shape].concat();
        let values = PyArray1::from_vec(py, draws.values_of(&variable)).reshape(shape)?;
        Ok((variable.name, group, values))
    };
    draws.variables().map(array).collect()
}
