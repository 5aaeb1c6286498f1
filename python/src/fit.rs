//! A fit, called from Python: the engine works in threads of its own, while the caller's thread watches for Ctrl-C and
//! shows progress.

use crate::arrays::{TICK, rows};
use crate::errors::raise;
use crate::mixture::PyMixture;
use crate::settings;
use crate::target::PyTarget;
use natmix::family::Mixture;
use natmix::observe::{Cancel, Finishing, Searching, TraceRow};
use natmix_app::settings::Settings;
use natmix_app::{Finished, FitJob, FitWatch};
use natmix_nets::training::EpochRow;
use numpy::PyArray2;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Instant;

/// A finished run.
#[pyclass(frozen, module = "natmix._natmix", name = "Run")]
pub struct PyRun {
    pub finished: Finished,
    pub settings: Settings,
}

/// What is shown of a run: a row of its trace, and for chains the iterations kept so far and the largest R-hat.
type Shown = (TraceRow, Option<(u64, f64)>);

/// Keeps what is to be shown where the caller's thread can see it.
struct Latest {
    shown: Arc<Mutex<Option<Shown>>>,
    /// The iteration and its mixture, kept in case workers are lost.
    reached: Option<(u64, Mixture)>,
    keep: bool,
    iterations: u64,
}

impl Latest {
    fn show(&mut self, row: TraceRow, chains: Option<(u64, f64)>) {
        // Locked only while a row is being shown: skip this row, the next one will do.
        if let Ok(mut latest) = self.shown.try_lock() {
            *latest = Some((row, chains));
        }
    }

    /// Shows that much where there is no ELBO.
    fn show_without_elbo(&mut self, iteration: u64, evals: u64, seconds: f64, chains: Option<(u64, f64)>) {
        let (elbo, se, steps) = (f64::NAN, f64::NAN, Vec::new());
        self.show(TraceRow { iteration, evals, seconds, elbo, se, components: 0, steps }, chains);
    }
}

impl FitWatch for Latest {
    fn searching(&mut self, searching: &Searching) {
        self.show_without_elbo(0, searching.evals, searching.seconds, None);
    }

    fn finishing(&mut self, finishing: &Finishing) {
        let Finishing { chains, evals, seconds } = *finishing;
        self.show_without_elbo(chains.iteration, evals, seconds, Some((chains.kept, chains.r_hat)));
    }

    fn iteration(&mut self, row: &TraceRow) {
        self.iterations = row.iteration;
        self.show(row.clone(), None);
    }

    fn mixture(&mut self, mixture: &Mixture) {
        if self.keep {
            self.reached = Some((self.iterations, mixture.clone()));
        }
    }

    fn epoch(&mut self, row: &EpochRow) {
        self.show(row.row.clone(), None);
    }
}

/// Fits a mixture to a target. `keywords` are settings by name, in addition to those of the target itself.
/// `progress(iteration, evals, seconds, elbo, se, components, chains)` is called from time to time; the ELBO is NaN during the
/// search for modes and for chains, which have the iterations kept so far and the largest R-hat instead. With `finish`, the
/// number of evaluations made for the start, chains only finish that. `workers` evaluate the target in other processes: its
/// `stop()` is called when the user insists on stopping, and an error of the target gets an attribute `reached` with the last
/// iteration and its mixture.
#[pyfunction]
#[pyo3(signature = (target, keywords, start=None, progress=None, finish=None, workers=None))]
pub fn fit(
    py: Python<'_>,
    target: &Bound<'_, PyTarget>,
    keywords: &Bound<'_, PyDict>,
    start: Option<&Bound<'_, PyMixture>>,
    progress: Option<&Bound<'_, PyAny>>,
    finish: Option<u64>,
    workers: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyRun> {
    let began = Instant::now();
    let target = target.get();
    let settings = resolve(target, keywords)?;
    let start = start.map(|start| start.get().0.clone());
    let latest = Arc::default();
    let keep = workers.is_some();
    let mut watch = Latest { shown: Arc::clone(&latest), reached: None, keep, iterations: 0 };
    let cancel = Cancel::default();
    let stop = cancel.clone();
    target.abort.store(false, Ordering::Relaxed);
    let progress = progress.map(|progress| progress.clone().unbind());
    let workers = workers.map(|workers| workers.clone().unbind());
    let job = FitJob { problem: &target.problem, settings: &settings, start, cancel, watch: &mut watch, began };
    let (finished, raised, insisted) = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let result = match finish {
                    Some(before) => job.finish(before),
                    None => job.run(),
                };
                drop(done);
                result
            });
            let (mut raised, mut insisted, mut show) = (None, false, progress.as_ref());
            while let Err(mpsc::RecvTimeoutError::Timeout) = finished.recv_timeout(TICK) {
                let row = latest.lock().ok().and_then(|mut latest: MutexGuard<'_, Option<Shown>>| latest.take());
                if let Err(error) = tick(show, row) {
                    // A second request stops evaluations at once. Nothing is shown any more, so only a signal can be one.
                    insisted = raised.is_some();
                    target.abort.store(insisted, Ordering::Relaxed);
                    if let Some(workers) = workers.as_ref().filter(|_| insisted) {
                        // It only sets a flag.
                        let _ = Python::attach(|py| workers.call_method0(py, "stop"));
                    }
                    stop.cancel();
                    (raised, show) = (Some(error), None);
                }
            }
            (worker.join(), raised, insisted)
        })
    });
    if let Some(error) = raised.filter(|error| insisted || !error.is_instance_of::<PyKeyboardInterrupt>(py)) {
        return Err(error);
    }
    let finished = finished.map_err(|_| PyValueError::new_err("the engine panicked: please report this"))?;
    let finished = finished.map_err(|error| {
        let error = raise(error);
        if let Some((iteration, mixture)) = watch.reached {
            // An exception that takes no attributes is raised without it.
            let _ = error.value(py).setattr("reached", (iteration, PyMixture(mixture)));
        }
        error
    })?;
    Ok(PyRun { finished, settings })
}

/// Keywords over the settings of the target. A setting given in both is refused: it is not clear which one is meant.
fn resolve(target: &PyTarget, keywords: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let mut given = Settings::default();
    settings::set(&mut given, keywords, false)?;
    if let Some(twice) = given.engine.given().find(|name| target.settings.engine.given().any(|other| other == *name)) {
        return Err(PyValueError::new_err(format!("{twice} is given twice: to the model and to natmix.fit")));
    }
    Ok(given.over(target.settings.clone()))
}

/// Checks for signals and shows progress, in the caller's thread.
fn tick(progress: Option<&Py<PyAny>>, shown: Option<Shown>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let (Some(progress), Some((row, chains))) = (progress, shown) {
            progress.call1(py, (row.iteration, row.evals, row.seconds, row.elbo, row.se, row.components, chains))?;
        }
        Ok(())
    })
}

#[pymethods]
impl PyRun {
    /// Draws of the mixture, in the space that was fitted, from which summaries are computed.
    #[getter]
    fn draws<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let sample = self.finished.sample.as_ref();
        sample.map(|sample| rows(py, sample.z.clone(), self.finished.mixture.dim())).transpose()
    }
}
