//! A fit, called from Python: the engine works in threads of its own, while the caller's thread watches for Ctrl-C and
//! shows progress.

use crate::errors::raise;
use crate::mixture::Mixture;
use crate::settings;
use crate::target::{Kind, Network, Target};
use natmix::config::About;
use natmix::observe::{Cancel, Iteration, Observer, Searching, TraceRow};
use natmix::{Error, Fit, Fitted};
use natmix_app::networks::engine;
use natmix_app::networks::found::Found;
use natmix_app::networks::train::Training;
use natmix_app::settings::{FitMethod, Settings, start_at};
use natmix_models::start::from_sample;
use natmix_nets::train::with_threads;
use natmix_nets::training::{self, EpochRow};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

/// Time between two looks at signals and progress.
const TICK: Duration = Duration::from_millis(50);

/// What a run found.
pub enum Outcome {
    Fitted(Box<Fitted>),
    Network(Box<Found>),
}

/// A finished run.
#[pyclass(frozen, module = "natmix._natmix")]
pub struct Run {
    pub outcome: Outcome,
    pub trace: Vec<TraceRow>,
    pub settings: Settings,
}

/// Keeps the trace, and the latest row of it where the caller's thread can see it.
struct Watch {
    trace: Vec<TraceRow>,
    latest: Arc<Mutex<Option<TraceRow>>>,
}

impl Watch {
    fn tell(&mut self, row: TraceRow) {
        self.show(row.clone());
        self.trace.push(row);
    }

    fn show(&mut self, row: TraceRow) {
        // Whoever holds it is only showing it: the next row will do.
        if let Ok(mut latest) = self.latest.try_lock() {
            *latest = Some(row);
        }
    }
}

impl Observer for Watch {
    fn searching(&mut self, searching: &Searching) -> ControlFlow<()> {
        // There is no mixture yet.
        let unknown = f64::NAN;
        let Searching { evals, seconds } = *searching;
        let (elbo, se, steps) = (unknown, unknown, Vec::new());
        self.show(TraceRow { iteration: 0, evals, seconds, elbo, se, components: 0, steps });
        ControlFlow::Continue(())
    }

    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.tell(TraceRow::of(iteration));
        Ok(ControlFlow::Continue(()))
    }
}

impl training::Watch for Watch {
    fn step(&mut self, _: u64) {}

    fn epoch(&mut self, row: &EpochRow) -> Result<(), Error> {
        self.tell(row.row.clone());
        Ok(())
    }
}

/// Fits a mixture to a target. `keywords` are settings by name, beside those that the target has of its own.
/// `progress(iteration, evals, seconds, elbo, se, components)` is called now and then; the ELBO is NaN while modes are
/// looked for.
#[pyfunction]
#[pyo3(signature = (target, keywords, start=None, progress=None))]
pub fn fit(
    py: Python<'_>,
    target: &Bound<'_, Target>,
    keywords: &Bound<'_, PyDict>,
    start: Option<&Bound<'_, Mixture>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let target = target.get();
    let settings = resolve(target, keywords)?;
    let start = start.map(|start| start.get().0.clone());
    let latest = Arc::default();
    let mut watch = Watch { trace: Vec::new(), latest: Arc::clone(&latest) };
    let mut cancel = Cancel::default();
    let stop = cancel.clone();
    target.abort.store(false, Ordering::Relaxed);
    let progress = progress.map(|progress| progress.clone().unbind());
    let work = || match &target.kind {
        Kind::Network(network) => fit_network(network, &settings, start, &mut watch, cancel),
        _ => fit_target(target, &settings, start, &mut watch, &mut cancel),
    };
    let (outcome, raised, insisted) = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let result = work();
                drop(done);
                result
            });
            let (mut raised, mut insisted, mut show) = (None, false, progress.as_ref());
            while let Err(mpsc::RecvTimeoutError::Timeout) = finished.recv_timeout(TICK) {
                let row = latest.lock().ok().and_then(|mut latest: MutexGuard<'_, Option<TraceRow>>| latest.take());
                if let Err(error) = tick(show, row) {
                    // Asked for twice: no further evaluation. Only signals ask again: nothing is shown any more.
                    insisted = raised.is_some();
                    target.abort.store(insisted, Ordering::Relaxed);
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
    let outcome =
        outcome.map_err(|_| PyValueError::new_err("the engine panicked: please report this"))?.map_err(raise)?;
    Ok(Run { outcome, trace: watch.trace, settings })
}

/// Anything but a network.
fn fit_target(
    target: &Target,
    settings: &Settings,
    start: Option<natmix::family::Mixture>,
    watch: &mut Watch,
    cancel: &mut Cancel,
) -> Result<Outcome, Error> {
    let engine = target.engine();
    let init: (&[f64], &[f64]) = match &target.kind {
        Kind::Density { init, .. } => (&init.0, &init.1),
        _ => (&[0.0], &[1.0]),
    };
    let gradient = engine.has_gradient();
    let about = About { dim: engine.dim(), rows: engine.num_rows(), gradient, init, ..About::default() };
    let mut config = settings.config(&about)?;
    if let Some(start) = &start {
        start_at(&mut config, start);
    }
    let chosen = start.is_some() || settings.has_start();
    let sample = match target.study() {
        Some(study) if !chosen => from_sample(study, &config, cancel)?,
        _ => None,
    };
    let before = sample.as_ref().map_or(0, |sample| sample.evals);
    if let Some(sample) = &sample {
        sample.prepare(&mut config);
    }
    let mut fit = Fit::new(engine, config).observe(watch).observe(cancel);
    if let Some(start) = start.or(sample.map(|sample| sample.mixture)) {
        fit = fit.start(start);
    }
    let mut fitted = fit.run()?;
    fitted.evals = (fitted.evals + before) * target.calls_per_point();
    match fitted.diagnostics_error.take() {
        Some(error) => Err(error),
        None => Ok(Outcome::Fitted(Box::new(fitted))),
    }
}

/// A network: trained on minibatches, or by the engine if it is small.
fn fit_network(
    network: &Network,
    settings: &Settings,
    start: Option<natmix::family::Mixture>,
    watch: &mut Watch,
    mut cancel: Cancel,
) -> Result<Outcome, Error> {
    let found = match FitMethod::optimiser(settings.fit.method) {
        Some(_) if start.is_some() => {
            let problem = "goes with methods of the engine (ngvi, von, ...), not with vogn, ivon or adam".into();
            return Err(Error::Config { setting: "start", problem });
        }
        Some(optimiser) => {
            let training = Training::new(settings, &network.data, optimiser)?;
            with_threads(settings.threads(), || training.run(None, None, cancel, watch))??
        }
        None => {
            let (mut config, random) = engine::prepare(settings, &network.target)?;
            if let Some(start) = &start {
                start_at(&mut config, start);
            }
            let fit = Fit::new(&network.target, config).start(start.unwrap_or(random));
            let fitted = fit.observe(&mut *watch).observe(&mut cancel).run()?;
            Found::of_fitted(fitted, watch.trace.clone())?
        }
    };
    Ok(Outcome::Network(Box::new(found)))
}

/// Keywords over the settings of the target. What both set is refused: it is not clear which one is meant.
fn resolve(target: &Target, keywords: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let mut given = Settings::default();
    settings::set(&mut given, keywords, false)?;
    if let Some(twice) = given.engine.given().find(|name| target.settings.engine.given().any(|other| other == *name)) {
        return Err(PyValueError::new_err(format!("{twice} is given twice: to the model and to natmix.fit")));
    }
    Ok(given.over(target.settings.clone()))
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
        Mixture(match &self.outcome {
            Outcome::Fitted(fitted) => fitted.mixture.clone(),
            Outcome::Network(found) => found.mixture.clone(),
        })
    }

    /// Seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.settings.seed()
    }
}
