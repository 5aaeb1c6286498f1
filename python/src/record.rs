//! The Python class `Record`: everything that is kept of a fit, with figures, files and the page.

use crate::arrays::{doubles, in_pool, points, rows, slice};
use crate::convert::{to_map, to_python};
use crate::errors::raise;
use crate::fit::PyRun;
use crate::mixture::PyMixture;
use crate::stan::{VariableDraws, arrays};
use crate::target::{PyTarget, table};
use natmix_app::compare::{ComparableFit, compare as compare_fits};
use natmix_app::loo_rows::LooRows;
use natmix_app::predictive::Predictive;
use natmix_app::record::{read_report, read_rows, write_trace};
use natmix_app::saved::{ExternalMemory, SavedVariable};
use natmix_app::stan::{StanDraws, StanMemory};
use natmix_app::summary::DeliveredSample;
use natmix_app::{Description, Predicted, Problem, SavedModel, SavedPosterior};
use natmix_models::Predictions;
use natmix_models::design::{Coding, Encoding};
use natmix_report::comparison::{page_html, text};
use natmix_report::{Draws, page};
use natmix_stan::names;
use numpy::{PyArray1, PyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Posterior, report, trace, draws and the component of each draw, in the formats of the files; the values of all variables of a
/// Stan program; and what each row contributes to leave-one-out.
type RecordParts<'py> = (
    Bound<'py, PyBytes>,
    String,
    String,
    Bound<'py, PyArray2<f64>>,
    Vec<usize>,
    Option<Bound<'py, PyArray2<f64>>>,
    Option<Bound<'py, PyBytes>>,
);

/// Name, shape and dimensions of a variable.
type VariableParts = (String, Vec<usize>, Vec<String>);

/// Features with their levels, and the names of the offset and exposure columns.
type NeededColumns = (Vec<(String, Option<Vec<String>>)>, Option<String>, Option<String>);

/// What is kept of a fit.
#[pyclass(frozen, module = "natmix._natmix", name = "Record")]
pub struct PyRecord {
    kept: natmix_app::FitRecord,
    /// Draws in the space that was fitted, if the fit ran in this process.
    sample: Option<DeliveredSample>,
    /// Figures of a regression's rows, computed when first asked for.
    rows: OnceLock<Predictive>,
}

#[pymethods]
impl PyRecord {
    /// The record of a run. `draws` are those of the run, mapped to the user's own scale; without them the target's own
    /// scale is used.
    #[new]
    #[pyo3(signature = (run, target, kind, what, variables, coords, names=None, draws=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        run: &PyRun,
        target: &PyTarget,
        kind: String,
        what: String,
        variables: Vec<VariableParts>,
        coords: &Bound<'_, PyDict>,
        names: Option<Vec<String>>,
        draws: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let own_scale = match (names, draws) {
            (Some(names), Some(draws)) => {
                let values = slice(&points(draws, "draws", names.len())?)?.to_vec();
                Some((names, values))
            }
            _ => None,
        };
        let variables = variables.into_iter().map(|(name, shape, dims)| SavedVariable { name, shape, dims });
        let memory = ExternalMemory { variables: variables.collect(), coords: to_map(coords)? };
        let description = Description { kind, summary: what, memory, own_scale };
        let (finished, settings) = (run.finished.clone(), &run.settings);
        let sample = finished.sample.clone();
        let kept =
            target.run(py, settings.threads(), || finished.record(&target.problem, settings, Some(description)))?;
        Ok(Self { kept, sample, rows: OnceLock::new() })
    }

    /// Reads what a fit wrote to a folder.
    #[staticmethod]
    fn load(dir: PathBuf) -> PyResult<Self> {
        natmix_app::FitRecord::load(&dir).map(Self::from).map_err(raise)
    }

    /// Writes everything to a folder, with figures of the rows if the target is given.
    #[pyo3(signature = (dir, target=None))]
    fn save(&self, py: Python<'_>, dir: PathBuf, target: Option<&PyTarget>) -> PyResult<()> {
        let whole = self.whole(py, target)?;
        py.detach(|| whole.save(&dir)).map_err(raise)
    }

    /// Everything as bytes and text, in the formats of the files: for pickling.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<RecordParts<'py>> {
        let posterior = self.kept.posterior.to_bytes().map_err(raise)?;
        let report =
            serde_json::to_string(&self.kept.report).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let draws = rows(py, self.kept.draws.values.clone(), self.kept.draws.names.len())?;
        let variables = self.kept.variables.as_ref();
        let variables = variables.map(|all| rows(py, all.values.clone(), all.names.len())).transpose()?;
        let loo = self.kept.loo_rows.as_ref().map(LooRows::to_bytes).transpose().map_err(raise)?;
        Ok((
            PyBytes::new(py, &posterior),
            report,
            write_trace(&self.kept.trace),
            draws,
            self.kept.draws.component.clone(),
            variables,
            loo.map(|bytes| PyBytes::new(py, &bytes)),
        ))
    }

    /// The inverse of `parts`.
    #[staticmethod]
    #[pyo3(signature = (posterior, report, trace, draws, component, variables=None, loo=None))]
    fn from_parts(
        posterior: &[u8],
        report: &str,
        trace: &str,
        draws: &Bound<'_, PyAny>,
        component: Vec<usize>,
        variables: Option<&Bound<'_, PyAny>>,
        loo: Option<&[u8]>,
    ) -> PyResult<Self> {
        let posterior = SavedPosterior::from_bytes(posterior).map_err(raise)?;
        let report = read_report(report, "the report").map_err(raise)?;
        let names: Vec<String> = report.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        let values = slice(&points(draws, "draws", names.len())?)?.to_vec();
        let chains = posterior.answer.as_ref().and_then(|answer| answer.chains.clone());
        let chains = chains.filter(|chains| chains.fits(component.len()));
        let draws = Draws { names, values, component, chains };
        let trace = read_rows(trace);
        let variables = match (&posterior.model, variables) {
            (SavedModel::Stan(memory), Some(values)) => {
                let all = doubles(values, "variables")?.shape().get(1) == Some(&memory.names.len());
                let columns = if all { memory.names.len() } else { memory.before_generated };
                let values = points(values, "variables", columns)?;
                Some(StanDraws::of_values(memory, slice(&values)?.to_vec(), all))
            }
            _ => None,
        };
        let loo_rows = loo.map(LooRows::from_bytes).transpose().map_err(raise)?;
        let (formation, log_likelihood) = (None, None);
        let parts =
            natmix_app::FitRecord { posterior, report, trace, draws, formation, log_likelihood, loo_rows, variables };
        Ok(parts.into())
    }

    /// What each row contributes to leave-one-out: its log predictive density, k-hat and effective draws, and the numbers of all rows
    /// and of draws; computed from the target if it is given and they are not known yet.
    #[pyo3(signature = (target=None))]
    fn loo_rows<'py>(&self, py: Python<'py>, target: Option<&PyTarget>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let whole = self.whole(py, target)?;
        let (Some(rows), Some(loo)) = (&whole.loo_rows, &whole.report.loo) else { return Ok(None) };
        let all = PyDict::new(py);
        for (name, value) in [("elpd", loo.elpd), ("se", loo.se), ("p_loo", loo.p_loo)] {
            all.set_item(name, value)?;
        }
        all.set_item("rows", rows.about.rows)?;
        all.set_item("draws", rows.about.draws)?;
        all.set_item("k_threshold", rows.about.k_threshold)?;
        all.set_item("pointwise", PyArray1::from_slice(py, &rows.elpd))?;
        all.set_item("k_hats", PyArray1::from_slice(py, &rows.k_hats))?;
        Ok(Some(all))
    }

    /// What the draws say about a statement: what the command line prints as JSON, and its line.
    fn test<'py>(&self, py: Python<'py>, statement: String) -> PyResult<(Bound<'py, PyAny>, String)> {
        let found = natmix_app::hypothesis::test(&self.kept, &[statement]).map_err(raise)?;
        let value = serde_json::to_value(&found[0]).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((to_python(py, &value)?, found[0].to_string()))
    }

    /// What `report.json` holds.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report =
            serde_json::to_value(&self.kept.report).map_err(|error| PyValueError::new_err(error.to_string()))?;
        to_python(py, &report)
    }

    /// What `report.json` holds, with figures of the rows if the target is given.
    #[pyo3(signature = (target=None))]
    fn whole_report<'py>(&self, py: Python<'py>, target: Option<&PyTarget>) -> PyResult<Bound<'py, PyAny>> {
        let report = serde_json::to_value(&self.whole(py, target)?.report);
        to_python(py, &report.map_err(|error| PyValueError::new_err(error.to_string()))?)
    }

    /// Kind of model that was fitted: `density`, `regression`, `network`, `stan` or `external`.
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.kept.posterior.model {
            SavedModel::Density(_) => "density",
            SavedModel::Regression(_) | SavedModel::Effects(_) => "regression",
            SavedModel::Network(_) => "network",
            SavedModel::Stan(_) => "stan",
            SavedModel::External(_) => "external",
        }
    }

    /// The model's own variables, for models defined in Python and Stan programs.
    #[getter]
    fn variables(&self) -> Vec<VariableParts> {
        if let Some(memory) = self.stan() {
            let dims = |name: &str| memory.dims.get(name).cloned().unwrap_or_default();
            let variables = names::variables(&memory.names).into_iter();
            return variables.map(|one| (one.name.clone(), one.shape, dims(&one.name))).collect();
        }
        let known = self.external().map_or(&[][..], |memory| &memory.variables[..]);
        known.iter().cloned().map(|SavedVariable { name, shape, dims }| (name, shape, dims)).collect()
    }

    /// Labels along the dimensions of the variables.
    #[getter]
    fn coords<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let coords = PyDict::new(py);
        let known = self.external().map(|memory| &memory.coords).or(self.stan().map(|memory| &memory.coords));
        for (name, labels) in known.into_iter().flatten() {
            coords.set_item(name, to_python(py, labels)?)?;
        }
        Ok(coords)
    }

    /// The delivered draws of all variables of a Stan program: name, group and values of each.
    #[getter]
    fn variable_draws<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<VariableDraws<'py>>>> {
        self.kept.variables.as_ref().map(|draws| arrays(py, draws)).transpose()
    }

    /// Whether a Stan posterior is that of a target; `None` if it cannot be, since its variables are others.
    fn is_of(&self, target: &PyTarget) -> Option<bool> {
        let (memory, Problem::Stan(stan)) = (self.stan()?, &target.problem) else { return None };
        stan.has_variables_of(memory).then(|| stan.is_of(memory))
    }

    /// Features with their levels, and names of the columns for offset and exposure: what a table of new rows needs. None
    /// if the model was not fitted to a table.
    #[getter]
    fn columns(&self) -> Option<NeededColumns> {
        if let SavedModel::Effects(memory) = &self.kept.posterior.model {
            return Some((memory.encoding.needed(), None, None));
        }
        let encoding = self.encoding()?;
        if let Some(formula) = &encoding.formula {
            return Some((formula.encoding.needed(), None, None));
        }
        let features = encoding.features.iter().map(|feature| {
            let levels = match &feature.coding {
                Coding::Levels { levels, .. } => Some(levels.clone()),
                Coding::Number { .. } => None,
            };
            (feature.column.clone(), levels)
        });
        Some((features.collect(), encoding.offset.clone(), encoding.exposure.clone()))
    }

    #[getter]
    fn mixture(&self) -> PyMixture {
        PyMixture(self.kept.posterior.mixture.clone())
    }

    /// Whether the answer consists of weighted draws, which are stored.
    #[getter]
    fn has_weighted_draws(&self) -> bool {
        self.kept.posterior.has_weighted_draws()
    }

    /// The chains that the draws are from, if they are: how many, how many of them have started at one point, iterations
    /// from one draw to the next, and arrays with one entry per draw, chain after chain. `z` has the draws in the space
    /// that was fitted.
    #[getter]
    fn chains<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let answer = self.kept.posterior.answer.as_ref();
        let (Some(answer), Some(chains)) = (answer, &self.kept.draws.chains) else { return Ok(None) };
        let all = PyDict::new(py);
        all.set_item("count", chains.count)?;
        all.set_item("per_start", chains.per_start)?;
        all.set_item("every", chains.every)?;
        all.set_item("lp", PyArray1::from_slice(py, &chains.log_p))?;
        all.set_item("energy", PyArray1::from_slice(py, &chains.energy))?;
        all.set_item("energy_change", PyArray1::from_slice(py, &chains.energy_change))?;
        all.set_item("diverging", PyArray1::from_slice(py, &chains.diverged))?;
        all.set_item("z", rows(py, answer.draws.clone(), answer.dim())?)?;
        Ok(Some(all))
    }

    /// Draws of the answer, in the space that was fitted.
    fn sample<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let posterior = &self.kept.posterior;
        let draws = py.detach(|| posterior.sample(n, seed));
        rows(py, draws, posterior.mixture.dim())
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

    /// The page of the report, with figures of the rows if the target is given.
    #[pyo3(signature = (target=None))]
    fn html(&self, py: Python<'_>, target: Option<&PyTarget>) -> PyResult<String> {
        let whole = self.whole(py, target)?;
        Ok(py.detach(|| page::page_html(&whole.report, &whole.trace, &whole.draws, whole.formation.as_ref())))
    }

    /// Points of the fitted space on the scale of the parameters.
    fn to_own_scale<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let posterior = &self.kept.posterior;
        let z = points(z, "z", posterior.mixture.dim())?;
        let values = posterior.to_own_scale(slice(&z)?).map_err(raise)?;
        rows(py, values, posterior.names().len())
    }

    /// Predictions for the rows of a table with the columns of the fit, averaged over draws: a dictionary of arrays, or
    /// one per component of a network.
    #[allow(clippy::too_many_arguments)]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        names: Vec<String>,
        levels: BTreeMap<usize, Vec<String>>,
        draws: usize,
        seed: u64,
        threads: usize,
        per_component: bool,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let posterior = &self.kept.posterior;
        let rows = posterior.encode_rows(table(values, names, levels)?).map_err(raise)?;
        let found = in_pool(py, threads, || match per_component {
            true => posterior.predict_each(&rows, draws, seed, false),
            false => Ok(vec![posterior.predict(&rows, draws, seed, false)?]),
        })?;
        found.into_iter().map(|predicted| to_dict(py, predicted)).collect()
    }
}

impl From<natmix_app::FitRecord> for PyRecord {
    fn from(kept: natmix_app::FitRecord) -> Self {
        Self { kept, sample: None, rows: OnceLock::new() }
    }
}

impl PyRecord {
    /// The record with figures of the rows added, if there are rows and the record does not have them yet.
    fn whole(&self, py: Python<'_>, target: Option<&PyTarget>) -> PyResult<natmix_app::FitRecord> {
        let mut whole = self.kept.clone();
        let problem = target.map(|target| &target.problem).filter(|problem| problem.predicts_rows());
        let Some(problem) = problem.filter(|_| whole.report.train.is_none()) else { return Ok(whole) };
        if self.rows.get().is_none() {
            let (q, seed) = (&whole.posterior.mixture, whole.report.seed);
            let answer = whole.posterior.answer.as_ref();
            let measured = in_pool(py, 0, || {
                let sample = self.sample.clone().unwrap_or_else(|| DeliveredSample::of(q, answer, seed));
                let z = sample.equally_weighted_points(seed);
                problem.judge_rows(q, (&z, sample.chains.is_some()), seed)
            })?;
            if let Some(measured) = measured {
                // If another thread was first, it has computed the same.
                let _ = self.rows.set(measured);
            }
        }
        if let Some(rows) = self.rows.get() {
            rows.add_to(&mut whole.report);
            whole.log_likelihood.clone_from(&rows.log_likelihood);
            whole.loo_rows = Some(rows.loo_rows.clone());
        }
        Ok(whole)
    }

    fn external(&self) -> Option<&ExternalMemory> {
        match &self.kept.posterior.model {
            SavedModel::External(memory) => Some(memory),
            _ => None,
        }
    }

    fn stan(&self) -> Option<&StanMemory> {
        match &self.kept.posterior.model {
            SavedModel::Stan(memory) => Some(memory),
            _ => None,
        }
    }

    fn encoding(&self) -> Option<&Encoding> {
        match &self.kept.posterior.model {
            SavedModel::Regression(memory) => Some(&memory.encoding),
            SavedModel::Network(memory) => memory.input.encoding(),
            _ => None,
        }
    }
}

/// Compares posteriors: what the command line prints as JSON and as text, and the page.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    names: Vec<String>,
    records: Vec<PyRef<'py, PyRecord>>,
    targets: Vec<Option<PyRef<'py, PyTarget>>>,
) -> PyResult<(Bound<'py, PyAny>, String, String)> {
    let mut fits = Vec::with_capacity(records.len());
    for ((name, record), target) in names.into_iter().zip(&records).zip(&targets) {
        fits.push(ComparableFit::of(record.whole(py, target.as_deref())?, name));
    }
    let comparison = compare_fits(&fits).map_err(raise)?;
    let value = serde_json::to_value(&comparison).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((to_python(py, &value)?, text(&comparison), page_html(&comparison)))
}

/// Predictions as a dictionary of arrays.
fn to_dict(py: Python<'_>, predicted: Predicted) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    let put = |name: &str, values: Vec<f64>| result.set_item(name, PyArray1::from_vec(py, values));
    match predicted.predictions {
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
        Predictions::Classes { classes, probability, entropy } => {
            put("entropy", entropy)?;
            result.set_item("probability", rows(py, probability, classes)?)?;
        }
    }
    let entropies =
        [("expected_entropy", predicted.expected_entropy), ("mutual_information", predicted.mutual_information)];
    for (name, values) in entropies.into_iter().filter(|(_, values)| !values.is_empty()) {
        put(name, values)?;
    }
    Ok(result)
}
