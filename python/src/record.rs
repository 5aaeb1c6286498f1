//! All that is kept of a fit, as Python holds it: figures, files, the page.

use crate::arrays::{in_pool, points, rows, slice};
use crate::errors::raise;
use crate::fit::{Outcome, Run};
use crate::mixture::Mixture;
use crate::target::{Kind, Target, table, wrong};
use natmix::save::{Posterior, read_posterior_bytes};
use natmix_app::describe::Subject;
use natmix_app::networks::data::Memory as NetworkMemory;
use natmix_app::predictive::Predictive;
use natmix_app::record::{read_report, read_trace, write_trace};
use natmix_app::summary;
use natmix_models::{Draws as ModelDraws, Inputs, Memory, Predictions, predict};
use natmix_nets::predict::{self as network, Averaging};
use natmix_report::{Draws, page};
use numpy::{PyArray1, PyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Posterior, report, trace, draws and the component of each draw, in the formats of the files.
type Parts<'py> = (Bound<'py, PyBytes>, String, String, Bound<'py, PyArray2<f64>>, Vec<usize>);

/// What is kept of a fit.
#[pyclass(frozen, module = "natmix._natmix")]
pub struct Record {
    kept: natmix_app::record::Record,
    /// Figures of a regression's rows, measured when somebody wants to see them.
    rows: OnceLock<Predictive>,
}

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
        kind: &str,
        what: &str,
        details: &str,
        names: Option<Vec<String>>,
        draws: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (engine, settings) = (target.engine(), &run.settings);
        let fitted = match (&run.outcome, &target.kind) {
            (Outcome::Fitted(fitted), _) => fitted,
            (Outcome::Network(found), Kind::Network(network)) => {
                let record = in_pool(py, settings.threads(), || found.clone().record(settings, &network.data))?;
                return Ok(record.into());
            }
            (Outcome::Network(_), _) => return Err(PyValueError::new_err("the run is not that of this target")),
        };
        let q = &fitted.mixture;
        let mut all = py.detach(|| summary::draws(engine, q, summary::DRAWS, settings.seed()).0);
        if let (Some(names), Some(draws)) = (names, draws) {
            let values = points(draws, "draws", names.len())?;
            if values.shape()[0] != all.component.len() {
                return Err(PyValueError::new_err("one row of draws is needed for each draw of the mixture"));
            }
            (all.names, all.values) = (names, slice(&values)?.to_vec());
        }
        let mut details: Value =
            serde_json::from_str(details).map_err(|error| PyValueError::new_err(error.to_string()))?;
        details["settings"] = json!(settings);
        details["memory"] = json!(target.study().map(|study| &study.memory));
        details["spec"] = json!(target.spec());
        let subject = Subject { target: engine, study: target.study(), kind, summary: what, settings };
        let report = py.detach(|| subject.report(fitted, &all)).map_err(raise)?;
        let posterior = Posterior { mixture: q.clone(), parameter_names: all.names.clone(), details };
        Ok(natmix_app::record::Record { posterior, report, trace: run.trace.clone(), draws: all, formation: None }
            .into())
    }

    /// Reads what a fit left in a folder.
    #[staticmethod]
    fn load(dir: PathBuf) -> PyResult<Self> {
        natmix_app::record::Record::load(&dir).map(Self::from).map_err(raise)
    }

    /// Writes everything into a folder, with figures of the rows if the target is at hand.
    #[pyo3(signature = (dir, target=None))]
    fn save(&self, py: Python<'_>, dir: PathBuf, target: Option<&Target>) -> PyResult<()> {
        let whole = self.whole(py, target)?;
        let log_likelihood = self.rows.get().and_then(|rows| rows.log_likelihood.as_ref());
        py.detach(|| whole.save(&dir, log_likelihood)).map_err(raise)
    }

    /// Everything as bytes and text, in the formats of the files: for pickling.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Parts<'py>> {
        let posterior = self.kept.posterior.to_bytes().map_err(raise)?;
        let report =
            serde_json::to_string(&self.kept.report).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let draws = rows(py, self.kept.draws.values.clone(), self.kept.draws.names.len())?;
        Ok((
            PyBytes::new(py, &posterior),
            report,
            write_trace(&self.kept.trace),
            draws,
            self.kept.draws.component.clone(),
        ))
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
        Ok(natmix_app::record::Record { posterior, report, trace: read_trace(trace), draws, formation: None }.into())
    }

    /// `report.json`.
    #[getter]
    fn report(&self) -> PyResult<String> {
        serde_json::to_string(&self.kept.report).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// What was remembered beside the mixture, as JSON.
    #[getter]
    fn details(&self) -> String {
        self.kept.posterior.details.to_string()
    }

    #[getter]
    fn mixture(&self) -> Mixture {
        Mixture(self.kept.posterior.mixture.clone())
    }

    #[getter]
    fn parameter_names(&self) -> Vec<String> {
        self.kept.posterior.parameter_names.clone()
    }

    /// Draws on the user's own scale, and the component that each came from.
    #[getter]
    fn draws<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        rows(py, self.kept.draws.values.clone(), self.kept.draws.names.len())
    }

    /// The trace by columns: iteration, evals, seconds, elbo, se, components.
    #[getter]
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let trace = &self.kept.trace;
        columns.set_item("iteration", PyArray1::from_iter(py, trace.iter().map(|row| row.iteration)))?;
        columns.set_item("evals", PyArray1::from_iter(py, trace.iter().map(|row| row.evals)))?;
        columns.set_item("seconds", PyArray1::from_iter(py, trace.iter().map(|row| row.seconds)))?;
        columns.set_item("elbo", PyArray1::from_iter(py, trace.iter().map(|row| row.elbo)))?;
        columns.set_item("se", PyArray1::from_iter(py, trace.iter().map(|row| row.se)))?;
        columns.set_item("components", PyArray1::from_iter(py, trace.iter().map(|row| row.components as u64)))?;
        Ok(columns)
    }

    /// The page of the report, with figures of the rows if the target is at hand.
    #[pyo3(signature = (target=None))]
    fn html(&self, py: Python<'_>, target: Option<&Target>) -> PyResult<String> {
        let whole = self.whole(py, target)?;
        Ok(py.detach(|| page::page_html(&whole.report, &whole.trace, &whole.draws, whole.formation.as_ref())))
    }

    /// Draws in the fitted space on the scale of a regression's own parameters.
    fn to_user_scale<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let memory = self.memory()?;
        let d = self.kept.posterior.mixture.dim();
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
        let z = points(z, "z", self.kept.posterior.mixture.dim())?;
        let z = slice(&z)?.to_vec();
        let rows_of_table = memory.encoding.encode(table(values, names, levels)?).map_err(wrong)?;
        let mut predictions = in_pool(py, threads, || {
            let draws = ModelDraws::new(memory.kind, rows_of_table.dim, &z)?;
            predict(&draws, Inputs::new(&rows_of_table.x, rows_of_table.dim, rows_of_table.offset.as_deref())?)
        })?;
        if let Some(outcome) = &memory.encoding.outcome {
            predictions.rescale(outcome.centre, outcome.scale);
        }
        to_dict(py, predictions)
    }

    /// Predictions of a network, averaged over draws of its weights.
    #[pyo3(signature = (values, names, levels, draws, seed, threads))]
    #[allow(clippy::too_many_arguments)]
    fn predict_network<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        names: Vec<String>,
        levels: BTreeMap<usize, Vec<String>>,
        draws: usize,
        seed: u64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let posterior = &self.kept.posterior;
        let memory: NetworkMemory = serde_json::from_value(posterior.details["network"].clone())
            .map_err(|_| PyValueError::new_err("this posterior is not that of a network"))?;
        let rows = memory.input.encode(table(values, names, levels)?).map_err(wrong)?;
        // As many draws as asked for, over all components.
        let each = draws.div_ceil(posterior.mixture.len()).max(1);
        let averaging = if memory.points { Averaging::Means } else { Averaging::Draws { each, seed } };
        let mut found =
            in_pool(py, threads, || network::predict(&memory.network, &posterior.mixture, rows.x(), averaging))?;
        let information = found.mutual_information();
        let (centre, scale) = memory.input.outcome_scale();
        found.predictions.rescale(centre, scale);
        let result = to_dict(py, found.predictions)?;
        if !information.is_empty() {
            result.set_item("expected_entropy", PyArray1::from_vec(py, found.expected_entropy))?;
            result.set_item("mutual_information", PyArray1::from_vec(py, information))?;
        }
        Ok(result)
    }
}

impl From<natmix_app::record::Record> for Record {
    fn from(kept: natmix_app::record::Record) -> Self {
        Self { kept, rows: OnceLock::new() }
    }
}

impl Record {
    /// All there is to know: with figures of the rows, if there are rows and they were not measured before.
    fn whole(&self, py: Python<'_>, target: Option<&Target>) -> PyResult<natmix_app::record::Record> {
        let mut whole = self.kept.clone();
        let Some(study) = target.and_then(Target::study).filter(|_| whole.report.train.is_none()) else {
            return Ok(whole);
        };
        if self.rows.get().is_none() {
            let (q, seed) = (&whole.posterior.mixture, whole.report.seed);
            let measured = in_pool(py, 0, || Predictive::measure(study, None, q, seed))?;
            // Whoever came first has measured the same.
            let _ = self.rows.set(measured);
        }
        if let Some(rows) = self.rows.get() {
            rows.add_to(&mut whole.report);
        }
        Ok(whole)
    }

    fn memory(&self) -> PyResult<Memory> {
        serde_json::from_value(self.kept.posterior.details["memory"].clone()).map_err(|_| {
            PyValueError::new_err("this posterior is not that of a regression: there is nothing to predict")
        })
    }
}

/// Predictions as a dictionary of arrays.
fn to_dict(py: Python<'_>, predictions: Predictions) -> PyResult<Bound<'_, PyDict>> {
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
