//! All that is kept of a fit, as Python holds it: figures, files, the page.

use crate::arrays::{doubles, in_pool, points, rows, slice};
use crate::errors::raise;
use crate::fit::Run;
use crate::mixture::Mixture;
use crate::target::Target;
use natmix::save::{Posterior, read_posterior_bytes};
use natmix_models::{Draws as ModelDraws, Inputs, Memory, Predictions, Table, predict};
use natmix_report::record::{read_report, read_trace, write_trace};
use natmix_report::{Component, Draws, Estimate, Evals, Model, Report, Stop, page, summary};
use numpy::{PyArray1, PyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Posterior, report, trace, draws and the component of each draw, in the formats of the files.
type Parts<'py> = (Bound<'py, PyBytes>, String, String, Bound<'py, PyArray2<f64>>, Vec<usize>);

/// What is kept of a fit.
#[pyclass(frozen, module = "natmix._natmix")]
pub struct Record(natmix_report::record::Record);

#[pymethods]
impl Record {
    /// Draws that are kept with a posterior.
    #[classattr]
    const DRAWS: usize = summary::DRAWS;

    /// Puts together what a run found. `draws` are on the user's own scale, made from those of `mixture.sample(n, seed)`;
    /// without them the target's own scale is used.
    #[new]
    #[pyo3(signature = (run, target, kind, what, details, names=None, draws=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        run: &Run,
        target: &Target,
        kind: String,
        what: &str,
        details: &str,
        names: Option<Vec<String>>,
        draws: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (engine, fitted) = (target.engine(), &run.fitted);
        let (q, seed) = (&fitted.mixture, run.choices.seed);
        let Some(diagnostics) = &fitted.diagnostics else {
            return Err(PyValueError::new_err("no diagnostics were measured"));
        };
        let mut all = py.detach(|| summary::draws(engine, q, summary::DRAWS, seed).0);
        if let (Some(names), Some(draws)) = (names, draws) {
            let values = points(draws, "draws", names.len())?;
            if values.shape()[0] != all.component.len() {
                return Err(PyValueError::new_err("one row of draws is needed for each draw of the mixture"));
            }
            (all.names, all.values) = (names, slice(&values)?.to_vec());
        }
        let modes = py.detach(|| q.modes().len());
        let settings = serde_json::to_value(&run.choices).unwrap_or_default();
        let mut details: Value =
            serde_json::from_str(details).map_err(|error| PyValueError::new_err(error.to_string()))?;
        details["memory"] = json!(target.study().map(|study| &study.memory));
        details["spec"] = json!(target.spec());
        details["python"] = json!({"settings": settings, "kind": kind});
        let report = Report {
            verdict: summary::verdict(what, modes, q.len(), &diagnostics.verdict),
            elbo: Estimate { mean: diagnostics.elbo.mean, se: diagnostics.elbo.se },
            log_evidence: Estimate { mean: diagnostics.log_evidence.mean, se: diagnostics.log_evidence.se },
            k_hat: diagnostics.k_hat,
            k_threshold: diagnostics.k_threshold,
            ess: diagnostics.ess,
            modes,
            search: fitted.search.clone(),
            components: q
                .components()
                .iter()
                .zip(q.weights())
                .map(|(component, weight)| Component { weight, mean: component.mean().to_vec(), sd: component.sd() })
                .collect(),
            parameters: summary::parameters(&all),
            model: Model {
                kind,
                summary: what.to_owned(),
                rows: engine.num_rows(),
                priors: target.study().map_or_else(Vec::new, |study| study.regression.prior().to_vec()),
            },
            evals: Evals { points: fitted.evals * run.calls_per_point, diagnostics: diagnostics.draws as u64 },
            iterations: fitted.iterations,
            seconds: fitted.seconds,
            stop: Stop { reason: fitted.stop.reason.name().to_owned(), converged: fitted.stop.converged },
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: json!({"settings": settings, "engine": natmix::Config { threads: 0, ..fitted.config.clone() }}),
            train: None,
            test: None,
            ood: None,
            loo: None,
        };
        let posterior = Posterior { mixture: q.clone(), parameter_names: all.names.clone(), details };
        Ok(Self(natmix_report::record::Record {
            posterior,
            report,
            trace: run.trace.clone(),
            draws: all,
            formation: None,
        }))
    }

    /// Reads what a fit left in a folder.
    #[staticmethod]
    fn load(dir: PathBuf) -> PyResult<Self> {
        natmix_report::record::Record::load(&dir).map(Self).map_err(raise)
    }

    /// Writes everything into a folder.
    #[pyo3(signature = (dir, log_likelihood=None))]
    fn save(&self, py: Python<'_>, dir: PathBuf, log_likelihood: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let log_likelihood = match log_likelihood {
            None => None,
            Some(values) => {
                let values = doubles(values, "log_likelihood")?;
                let rows = values.shape().last().copied().unwrap_or(1).max(1);
                Some((rows, slice(&values)?.to_vec()))
            }
        };
        py.detach(|| self.0.save(&dir, log_likelihood.as_ref())).map_err(raise)
    }

    /// Everything as bytes and text, in the formats of the files: for pickling.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Parts<'py>> {
        let posterior = self.0.posterior.to_bytes().map_err(raise)?;
        let report = serde_json::to_string(&self.0.report).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let draws = rows(py, self.0.draws.values.clone(), self.0.draws.names.len())?;
        Ok((PyBytes::new(py, &posterior), report, write_trace(&self.0.trace), draws, self.0.draws.component.clone()))
    }

    /// The inverse of `parts`.
    #[staticmethod]
    fn from_parts(
        posterior: &[u8],
        report: &str,
        trace: &str,
        draws: &Bound<'_, PyAny>,
        component: Vec<usize>,
    ) -> PyResult<Self> {
        let posterior = read_posterior_bytes(posterior).map_err(raise)?;
        let report = read_report(report, "the report").map_err(raise)?;
        let names: Vec<String> = report.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        let values = slice(&points(draws, "draws", names.len())?)?.to_vec();
        let draws = Draws { names, values, component };
        Ok(Self(natmix_report::record::Record { posterior, report, trace: read_trace(trace), draws, formation: None }))
    }

    /// `report.json`.
    #[getter]
    fn report(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.report).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// What was remembered beside the mixture, as JSON.
    #[getter]
    fn details(&self) -> String {
        self.0.posterior.details.to_string()
    }

    #[getter]
    fn mixture(&self) -> Mixture {
        Mixture(self.0.posterior.mixture.clone())
    }

    #[getter]
    fn parameter_names(&self) -> Vec<String> {
        self.0.draws.names.clone()
    }

    /// Draws on the user's own scale, and the component that each came from.
    #[getter]
    fn draws<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        rows(py, self.0.draws.values.clone(), self.0.draws.names.len())
    }

    /// The trace by columns: iteration, evals, seconds, elbo, se, components.
    #[getter]
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let trace = &self.0.trace;
        columns.set_item("iteration", PyArray1::from_iter(py, trace.iter().map(|row| row.iteration)))?;
        columns.set_item("evals", PyArray1::from_iter(py, trace.iter().map(|row| row.evals)))?;
        columns.set_item("seconds", PyArray1::from_iter(py, trace.iter().map(|row| row.seconds)))?;
        columns.set_item("elbo", PyArray1::from_iter(py, trace.iter().map(|row| row.elbo)))?;
        columns.set_item("se", PyArray1::from_iter(py, trace.iter().map(|row| row.se)))?;
        columns.set_item("components", PyArray1::from_iter(py, trace.iter().map(|row| row.components as u64)))?;
        Ok(columns)
    }

    /// The page of the report.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| page::page_html(&self.0.report, &self.0.trace, &self.0.draws, self.0.formation.as_ref()))
    }

    /// Draws in the fitted space on the scale of a regression's own parameters.
    fn to_user_scale<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let memory = self.memory()?;
        let d = self.0.posterior.mixture.dim();
        let z = points(z, "z", d)?;
        let mut values = vec![0.0; slice(&z)?.len()];
        for (z, out) in slice(&z)?.chunks_exact(d).zip(values.chunks_exact_mut(d)) {
            memory.to_user_scale(z, out);
        }
        rows(py, values, d)
    }

    /// Predictions for the rows of a table with the columns of the fit: a dictionary of arrays.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        z: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        names: Vec<String>,
        levels: BTreeMap<usize, Vec<String>>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let memory = self.memory()?;
        let z = points(z, "z", self.0.posterior.mixture.dim())?;
        let z = slice(&z)?.to_vec();
        let values = points(values, "the table", names.len())?;
        let bad = |error: natmix_models::DataError| PyValueError::new_err(error.to_string());
        let mut table = Table::from_values("the table", names, slice(&values)?.to_vec()).map_err(bad)?;
        table.levels = levels;
        let rows_of_table = memory.encoding.encode(table).map_err(bad)?;
        let mut predictions = in_pool(py, threads, || {
            let draws = ModelDraws::new(memory.kind, rows_of_table.dim, &z)?;
            predict(&draws, Inputs::new(&rows_of_table.x, rows_of_table.dim, rows_of_table.offset.as_deref())?)
        })?;
        if let Some(outcome) = &memory.encoding.outcome {
            predictions.rescale(outcome.centre, outcome.scale);
        }
        to_dict(py, predictions)
    }
}

impl Record {
    fn memory(&self) -> PyResult<Memory> {
        serde_json::from_value(self.0.posterior.details["memory"].clone()).map_err(|_| {
            PyValueError::new_err("this posterior is not that of a regression: there is nothing to predict")
        })
    }
}

/// Predictions as a dictionary of arrays.
pub fn to_dict(py: Python<'_>, predictions: Predictions) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    let put = |name: &str, values: Vec<f64>| result.set_item(name, PyArray1::from_vec(py, values));
    match predictions {
        Predictions::Binary { probability, sd, entropy } => {
            put("probability", probability)?;
            put("sd", sd)?;
            put("entropy", entropy)?;
        }
        Predictions::Real { mean, sd, q05, q50, q95 } => {
            for (name, values) in [("mean", mean), ("sd", sd), ("q05", q05), ("q50", q50), ("q95", q95)] {
                put(name, values)?;
            }
        }
        Predictions::Count { mean, sd } => {
            put("mean", mean)?;
            put("sd", sd)?;
        }
        Predictions::Classes { classes, probability, entropy } => {
            put("entropy", entropy)?;
            result.set_item("probability", rows(py, probability, classes)?)?;
        }
    }
    Ok(result)
}
