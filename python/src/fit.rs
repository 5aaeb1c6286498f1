//! A fit, called from Python: the engine works in threads of its own, while the caller's thread watches for Ctrl-C and
//! shows progress.

use crate::errors::raise;
use crate::mixture::Mixture;
use crate::target::{Kind, Target};
use natmix::choices::About;
use natmix::observe::{Cancel, Iteration, Observer, TraceRow};
use natmix::{Error, Fit, Fitted};
use natmix_models::start::from_sample;
use natmix_report::settings::{Settings, start_at};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

/// Time between two looks at signals and progress.
const TICK: Duration = Duration::from_millis(50);

/// A finished run.
#[pyclass(frozen, module = "natmix._natmix")]
pub struct Run {
    pub fitted: Fitted,
    pub trace: Vec<TraceRow>,
    pub settings: Settings,
}

/// Keeps the trace, and the latest row of it where the caller's thread can see it.
struct Watch {
    trace: Vec<TraceRow>,
    latest: Arc<Mutex<Option<TraceRow>>>,
}

impl Observer for Watch {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        let row = TraceRow::of(iteration);
        // Whoever holds it is only showing it: the next row will do.
        if let Ok(mut latest) = self.latest.try_lock() {
            *latest = Some(row.clone());
        }
        self.trace.push(row);
        Ok(ControlFlow::Continue(()))
    }
}

/// Fits a mixture to a target. `settings` are in JSON, beside those that the target has of its own. `progress(iteration, evals,
/// seconds, elbo, se, components)` is called now and then.
#[pyfunction]
#[pyo3(signature = (target, settings, start=None, progress=None))]
pub fn fit(
    py: Python<'_>,
    target: &Bound<'_, Target>,
    settings: &str,
    start: Option<&Bound<'_, Mixture>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let target = target.get();
    let settings = resolve(target, settings)?;
    let engine = target.engine();
    let init: (&[f64], &[f64]) = match &target.kind {
        Kind::Density { init, .. } => (&init.0, &init.1),
        _ => (&[0.0], &[1.0]),
    };
    let gradient = engine.has_gradient();
    let about = About { dim: engine.dim(), rows: engine.num_rows(), gradient, init, ..About::default() };
    let mut config = settings.engine(&about).map_err(raise)?;
    let start = start.map(|start| start.get().0.clone());
    if let Some(start) = &start {
        start_at(&mut config, start);
    }
    let chosen = start.is_some() || settings.init_mean.is_some() || settings.init_sd.is_some();

    let latest = Arc::default();
    let mut watch = Watch { trace: Vec::new(), latest: Arc::clone(&latest) };
    let mut cancel = Cancel::default();
    let stop = cancel.clone();
    target.abort.store(false, Ordering::Relaxed);
    let progress = progress.map(|progress| progress.clone().unbind());
    let work = || {
        let sample = match target.study() {
            Some(study) if !chosen => from_sample(study, &config, &mut cancel)?,
            _ => None,
        };
        let before = sample.as_ref().map_or(0, |sample| sample.evals);
        if let Some(sample) = &sample {
            sample.prepare(&mut config);
        }
        let mut fit = Fit::new(engine, config).observe(&mut watch).observe(&mut cancel);
        if let Some(start) = start.or(sample.map(|sample| sample.mixture)) {
            fit = fit.start(start);
        }
        let mut fitted = fit.run()?;
        fitted.evals = (fitted.evals + before) * target.calls_per_point();
        Ok(fitted)
    };
    let (fitted, raised, insisted) = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let result = work();
                drop(done);
                result
            });
            let (mut raised, mut insisted) = (None, false);
            while let Err(mpsc::RecvTimeoutError::Timeout) = finished.recv_timeout(TICK) {
                let row = latest.lock().ok().and_then(|mut latest: MutexGuard<'_, Option<TraceRow>>| latest.take());
                if let Err(error) = tick(progress.as_ref(), row) {
                    // Asked for twice: no further evaluation.
                    insisted = raised.is_some();
                    target.abort.store(insisted, Ordering::Relaxed);
                    stop.cancel();
                    raised = Some(error);
                }
            }
            (worker.join(), raised, insisted)
        })
    });
    let fitted: Fitted =
        fitted.map_err(|_| PyValueError::new_err("the engine panicked: please report this"))?.map_err(raise)?;
    if let Some(error) = raised.filter(|error| insisted || !error.is_instance_of::<PyKeyboardInterrupt>(py)) {
        return Err(error);
    }
    if let Some(error) = fitted.diagnostics_error {
        return Err(raise(error));
    }
    Ok(Run { fitted, trace: watch.trace, settings })
}

/// Settings in JSON over those of the target.
fn resolve(target: &Target, settings: &str) -> PyResult<Settings> {
    let wrong = |error: serde_json::Error| PyValueError::new_err(format!("settings: {error}"));
    let given: serde_json::Map<String, Value> = serde_json::from_str(settings).map_err(wrong)?;
    let mut all = serde_json::to_value(&target.settings).map_err(wrong)?;
    if let Value::Object(all) = &mut all {
        all.extend(given);
    }
    serde_json::from_value(all).map_err(wrong)
}

/// What the caller's thread does now and then.
fn tick(progress: Option<&Py<PyAny>>, row: Option<TraceRow>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        if let (Some(progress), Some(row)) = (progress, row) {
            progress.call1(py, (row.iteration, row.evals, row.seconds, row.elbo, row.se, row.components))?;
        }
        Ok(())
    })
}

#[pymethods]
impl Run {
    /// The mixture that was found.
    #[getter]
    fn mixture(&self) -> Mixture {
        Mixture(self.fitted.mixture.clone())
    }

    /// Seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.settings.seed
    }
}
