//! The Python class `Target`: what can be fitted.

use crate::arrays::{points, rows, slice, vector, while_interruptible};
use crate::callable::{Callable, Gradient};
use crate::compiled::Compiled;
use crate::convert::to_value;
use crate::errors::raise;
use crate::settings;
use crate::stan::{StanTexts, VariableDraws, arrays};
use natmix::evaluate::with_threads;
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows};
use natmix_app::Problem;
use natmix_app::problem::ExternalFunction;
use natmix_app::settings::{FitSettings, ModelKind, Settings};
use natmix_app::stan::StanProblem;
use natmix_models::{Formula, Table};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Values and gradients.
type ValueAndGrad<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>);

/// Points per task.
const CHUNK: usize = 64;

/// What can be fitted.
#[pyclass(frozen, module = "natmix._natmix", name = "Target")]
pub struct PyTarget {
    pub problem: Problem,
    /// Set to stop a run at once.
    pub abort: Arc<AtomicBool>,
    /// Settings given with the model, to which those of the fit are added.
    pub settings: Settings,
}

impl PyTarget {
    fn new(problem: Problem, settings: Settings) -> Self {
        Self { problem, abort: Arc::default(), settings }
    }

    fn external(target: Box<dyn natmix::target::Target + Send>, calls_per_point: u64, abort: Arc<AtomicBool>) -> Self {
        let problem = Problem::External(ExternalFunction { target, calls_per_point });
        Self { problem, abort, settings: Settings::default() }
    }

    /// Runs work in a pool of threads without the interpreter. Ctrl-C makes evaluations fail and is then raised.
    pub fn run<T: Send, E: Into<natmix_app::Error> + Send>(
        &self,
        py: Python<'_>,
        threads: usize,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> PyResult<T> {
        self.abort.store(false, Ordering::Relaxed);
        let stop = || self.abort.store(true, Ordering::Relaxed);
        let done = while_interruptible(py, stop, || with_threads(threads, work));
        self.abort.store(false, Ordering::Relaxed);
        done?.map_err(raise)?.map_err(raise)
    }

    fn stan_problem(&self) -> Option<&StanProblem> {
        match &self.problem {
            Problem::Stan(stan) => Some(stan),
            _ => None,
        }
    }

    /// The target as the engine sees it.
    pub fn engine(&self) -> PyResult<&dyn natmix::target::Target> {
        self.problem.target().map_err(raise)
    }
}

/// A table from Python.
pub fn table(values: &Bound<'_, PyAny>, names: Vec<String>, levels: BTreeMap<usize, Vec<String>>) -> PyResult<Table> {
    let values = points(values, "the table", names.len())?;
    let mut table = Table::from_values("the table", names, slice(&values)?.to_vec()).map_err(raise)?;
    table.levels = levels;
    Ok(table)
}

/// Columns that hold levels.
fn categorical(table: &Table) -> Option<Vec<String>> {
    let names = table.levels.keys().filter_map(|column| table.names.get(*column).cloned());
    Some(names.collect()).filter(|names: &Vec<String>| !names.is_empty())
}

/// A setting that counts as given only where it is not the default, as on the command line.
fn unless<T: PartialEq>(default: T, value: T) -> Option<T> {
    (value != default).then_some(value)
}

#[pymethods]
impl PyTarget {
    /// A Python function of points `(n, dim)`.
    #[staticmethod]
    #[pyo3(signature = (function, context, names, gradient, curvature=None, curvature_function=None))]
    fn callable(
        function: Py<PyAny>,
        context: Py<PyAny>,
        names: Vec<String>,
        gradient: &str,
        curvature: Option<&str>,
        curvature_function: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let gradient = match gradient {
            "given" => Gradient::Given,
            "numerical" => Gradient::Numerical,
            "none" => Gradient::None,
            other => return Err(PyValueError::new_err(format!("gradient: {other}"))),
        };
        let curvatures = match curvature {
            None => Vec::new(),
            Some("diag") => vec![(Curvature::Exact, CurvatureShape::Diag)],
            Some(_) => vec![(Curvature::Exact, CurvatureShape::Full), (Curvature::Exact, CurvatureShape::Diag)],
        };
        let abort = Arc::new(AtomicBool::new(false));
        let (dim, curvature) = (names.len(), curvature_function);
        let callable = Callable {
            function,
            curvature,
            curvatures,
            context,
            entered: AtomicBool::new(false),
            dim,
            names,
            gradient,
            abort: Arc::clone(&abort),
        };
        let calls_per_point = if gradient == Gradient::Numerical { 2 * dim as u64 + 1 } else { 1 };
        Ok(Self::external(Box::new(callable), calls_per_point, abort))
    }

    /// A compiled function at an address, with the signature that nutpie uses; `owner` keeps it alive.
    #[staticmethod]
    fn compiled(address: usize, user_data: usize, owner: Py<PyAny>, names: Vec<String>) -> PyResult<Self> {
        if address == 0 {
            return Err(PyValueError::new_err("the address of the compiled function is zero"));
        }
        // SAFETY: only `natmix.from_pymc` calls this, with a function that numba compiled to exactly this signature; `owner`
        // holds the compiled function.
        #[allow(unsafe_code)]
        let compiled = unsafe { Compiled::new(address, user_data, owner, names.len(), names) };
        Ok(Self::external(Box::new(compiled), 1, Arc::default()))
    }

    /// A regression: a table with named columns, including the outcome.
    #[staticmethod]
    #[pyo3(signature = (kind, values, names, levels, outcome, offset, exposure, weights, standardize, intercept, prior_sd, noise_sd))]
    #[allow(clippy::too_many_arguments)]
    fn regression(
        kind: &str,
        values: &Bound<'_, PyAny>,
        names: Vec<String>,
        levels: BTreeMap<usize, Vec<String>>,
        outcome: String,
        offset: Option<String>,
        exposure: Option<String>,
        weights: Option<String>,
        standardize: bool,
        intercept: bool,
        prior_sd: f64,
        noise_sd: Option<f64>,
    ) -> PyResult<Self> {
        let model = ModelKind::ALL.into_iter().find(|model| model.name() == kind);
        let Some(model) = model.filter(|model| model.regression().is_some()) else {
            return Err(PyValueError::new_err(format!("no regression is called {kind}")));
        };
        let table = table(values, names, levels)?;
        let fit = FitSettings {
            model: Some(model),
            outcome: Some(outcome),
            categorical: categorical(&table),
            weights,
            offset,
            exposure,
            standardize: unless(true, standardize),
            intercept: unless(true, intercept),
            prior_sd: unless(Settings::default().prior_sd(), prior_sd),
            noise_sd,
            ..FitSettings::default()
        };
        let settings = Settings { fit, ..Settings::default() };
        let problem = Problem::regression(table, &settings).map_err(raise)?;
        Ok(Self::new(problem, settings))
    }

    /// A regression by a formula: a table with named columns, and settings by name.
    #[staticmethod]
    fn formula(
        kind: &str,
        values: &Bound<'_, PyAny>,
        names: Vec<String>,
        levels: BTreeMap<usize, Vec<String>>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let model = ModelKind::ALL.into_iter().find(|model| model.name() == kind && model.is_regression());
        let Some(model) = model else {
            let known = ModelKind::ALL.into_iter().filter(|model| model.is_regression());
            let known: Vec<&str> = known.map(ModelKind::name).collect();
            return Err(PyValueError::new_err(format!("family must be one of {}, not {kind}", known.join(", "))));
        };
        let table = table(values, names, levels)?;
        let fit = FitSettings { model: Some(model), categorical: categorical(&table), ..FitSettings::default() };
        let mut settings = Settings { fit, ..Settings::default() };
        settings::set(&mut settings, given, false)?;
        let problem = Problem::regression(table, &settings).map_err(raise)?;
        Ok(Self::new(problem, settings))
    }

    /// The columns that a formula names, and whether these are all that it uses: `.` stands for others.
    #[staticmethod]
    fn columns_of_formula(formula: &str) -> PyResult<(Vec<String>, bool)> {
        Formula::parse(formula)
            .map(|formula| formula.columns())
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// A network: a table with named columns, including the outcome, and settings of training. `test` and `validation`
    /// are further rows with the same columns.
    #[staticmethod]
    #[pyo3(signature = (values, names, levels, outcome, standardize, training, test=None, validation=None))]
    #[allow(clippy::too_many_arguments)]
    fn network(
        values: &Bound<'_, PyAny>,
        names: Vec<String>,
        levels: BTreeMap<usize, Vec<String>>,
        outcome: String,
        standardize: bool,
        training: &Bound<'_, PyDict>,
        test: Option<&Bound<'_, PyAny>>,
        validation: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let more = |rows: Option<&Bound<'_, PyAny>>| {
            rows.map(|values| table(values, names.clone(), levels.clone())).transpose()
        };
        let (test, validation) = (more(test)?, more(validation)?);
        let table = table(values, names, levels)?;
        let fit = FitSettings {
            model: Some(ModelKind::Mlp),
            outcome: Some(outcome),
            categorical: categorical(&table),
            standardize: unless(true, standardize),
            ..FitSettings::default()
        };
        let mut settings = Settings { fit, ..Settings::default() };
        settings::set(&mut settings, training, true)?;
        let problem = Problem::network_of_table(table, test, validation, &settings).map_err(raise)?;
        Ok(Self::new(problem, settings))
    }

    /// An analytic density from its description: the text of a file, or the same as a dictionary.
    #[staticmethod]
    fn density(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let text = match spec.extract::<String>() {
            Ok(text) => text,
            Err(_) => to_value(spec)?.to_string(),
        };
        let fit = FitSettings { model: Some(ModelKind::Density), ..FitSettings::default() };
        let settings = Settings { fit, ..Settings::default() };
        Ok(Self::new(Problem::density(&text, "").map_err(raise)?, settings))
    }

    /// A Stan program, or a library, in a file or as text. `data` and `init` are texts of JSON documents; `data_file` is where
    /// the data come from, if from a file. `httpstan` is the folder of that package; `tell` hears what takes long.
    #[staticmethod]
    #[pyo3(signature = (file, code, data, data_file, init, seed, httpstan, tell))]
    #[allow(clippy::too_many_arguments)]
    fn stan(
        py: Python<'_>,
        file: Option<PathBuf>,
        code: Option<String>,
        data: String,
        data_file: Option<PathBuf>,
        init: Option<String>,
        seed: u64,
        httpstan: Option<PathBuf>,
        tell: Py<PyAny>,
    ) -> PyResult<Self> {
        let texts = StanTexts { file, code, data, data_file, init, seed, httpstan };
        let (problem, settings) = texts.compile(py, tell)?;
        let abort = problem.model.stop_flag();
        Ok(Self { problem: Problem::Stan(Box::new(problem)), abort, settings })
    }

    /// The variables of a Stan program: name and shape.
    #[getter]
    fn variables(&self) -> Vec<(String, Vec<usize>)> {
        let variables = self.stan_problem().map_or_else(Vec::new, |stan| stan.model.variables());
        variables.into_iter().map(|variable| (variable.name, variable.shape)).collect()
    }

    /// The point around which to start, where a Stan program was given one.
    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.stan_problem()?.init().map(|z| PyArray1::from_slice(py, z))
    }

    /// What a Stan program has printed or complained about since the last call.
    fn take_messages(&self) -> Vec<String> {
        self.problem.take_messages()
    }

    /// Draws of all variables of a Stan program at points `(n, dim)`.
    #[pyo3(signature = (z, seed, threads=0))]
    fn variables_at<'py>(
        &self,
        py: Python<'py>,
        z: &Bound<'py, PyAny>,
        seed: u64,
        threads: usize,
    ) -> PyResult<Vec<VariableDraws<'py>>> {
        let Some(stan) = self.stan_problem() else { return Ok(Vec::new()) };
        let z = points(z, "z", self.engine()?.dim())?;
        let z = slice(&z)?.to_vec();
        let draws = self.run(py, threads, || stan.all_draws(&z, seed))?;
        arrays(py, &draws)
    }

    /// Dimension of the space that is fitted.
    #[getter]
    fn dim(&self) -> PyResult<usize> {
        Ok(self.engine()?.dim())
    }

    /// Names of the parameters on their own scale.
    #[getter]
    fn parameter_names(&self) -> PyResult<Vec<String>> {
        Ok(self.engine()?.parameter_names())
    }

    /// A description in one line.
    #[getter]
    fn summary(&self) -> String {
        self.problem.summary()
    }

    /// Warnings about the data.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.problem.warnings().to_vec()
    }

    /// The prior in words.
    #[getter]
    fn priors(&self) -> Vec<String> {
        match self.problem {
            Problem::Network(_) => Vec::new(),
            _ => self.problem.priors(),
        }
    }

    /// Rows of data, if there are any.
    #[getter]
    fn rows(&self) -> PyResult<Option<usize>> {
        Ok(self.engine()?.num_rows())
    }

    /// Points `(n, dim)` on the scale of the parameters.
    fn to_parameters<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let target = self.engine()?;
        let d = target.dim();
        let p = target.parameter_names().len();
        let z = points(z, "z", d)?;
        let z = slice(&z)?;
        if let Some(stan) = self.stan_problem() {
            let z = z.to_vec();
            return rows(py, self.run(py, 0, || stan.model.parameters_at(&z))?, p);
        }
        let mut values = vec![0.0; z.len() / d * p];
        for (z, out) in z.chunks_exact(d).zip(values.chunks_exact_mut(p.max(1))) {
            target.to_parameters(z, out);
        }
        rows(py, values, p)
    }

    /// `log p` and its gradient at points `(n, dim)`.
    fn evaluate<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<ValueAndGrad<'py>> {
        let target = self.engine()?;
        let d = target.dim();
        let z = points(z, "z", d)?;
        let z = slice(&z)?.to_vec();
        let (mut log_p, mut grad) = (vec![0.0; z.len() / d], vec![0.0; z.len()]);
        py.detach(|| {
            let grad = target.has_gradient().then_some(&mut grad[..]);
            let out = EvalOut { log_p: &mut log_p, grad, curv: None };
            target.eval(Rows::All, Points::new(&z, d), out, &mut natmix::Scratch::default())
        })
        .map_err(|error| raise(natmix::Error::from(error)))?;
        Ok((vector(py, log_p), rows(py, grad, d)?))
    }

    /// `log p` alone at points `(n, dim)`, in chunks over threads of its own unless the target is a Python function.
    fn values<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let target = self.engine()?;
        let d = target.dim();
        let z = points(z, "z", d)?;
        let z = slice(&z)?.to_vec();
        let mut log_p = vec![0.0; z.len() / d];
        self.run(py, 0, || {
            let chunk = if target.whole_batches() { log_p.len().max(1) } else { CHUNK };
            log_p
                .par_chunks_mut(chunk)
                .zip(z.par_chunks(chunk * d))
                .try_for_each(|(log_p, z)| {
                    let out = EvalOut { log_p, grad: None, curv: None };
                    target.eval(Rows::All, Points::new(z, d), out, &mut natmix::Scratch::default())
                })
                .map_err(natmix::Error::from)
        })?;
        Ok(vector(py, log_p))
    }

    /// Log likelihoods `(n, rows)` of a regression's rows at points `(n, dim)`, in the outcome's own units.
    fn log_likelihood<'py>(
        &self,
        py: Python<'py>,
        z: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let z = points(z, "z", self.engine()?.dim())?;
        let z = slice(&z)?.to_vec();
        match self.run(py, 0, || self.problem.log_likelihood(&z))? {
            Some((count, values)) => rows(py, values, count).map(Some),
            None => Ok(None),
        }
    }
}
