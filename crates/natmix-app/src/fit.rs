//! One fit: takes a problem and settings, returns the result. The command line and Python share this path.

use crate::Error;
use crate::finished::Finished;
use crate::folder::{self, OutputFolder, Scope};
use crate::formation::FormationRecorder;
use crate::networks::engine;
use crate::networks::train::Training;
use crate::problem::{Problem, TableNetwork};
use crate::record::{FitRecord, files};
use crate::resume::{LeftBehind, checkpoint_in, fingerprint, left_behind, resume_from, resume_training};
use crate::saved::SavedPosterior;
use crate::settings::{FitMethod, Settings, start_at};
use crate::summary::{DRAWS, DeliveredSample};
use crate::time::ResultsTime;
use crate::trace::{EpochRecorder, IterationRecorder, TraceFile, earlier_rows};
use natmix::checkpoint::{Checkpoint, Checkpointer};
use natmix::config::About;
use natmix::family::{CovarianceKind, Mixture};
use natmix::observe::{Cancel, Finishing, Searching, TraceRow};
use natmix::stop::StopReason;
use natmix::target::{Target, reduction};
use natmix::{Config, Fit, State};
use natmix_models::start::from_sample;
use natmix_nets::train::with_threads;
use natmix_nets::training::EpochRow;
use std::time::{Duration, Instant};

/// Iterations between two checkpoints, and the time after which one is written in any case.
const CHECKPOINT_EVERY: u64 = 100;
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// Receives the progress of a fit.
pub trait FitWatch: Send {
    /// During the search for modes, before there is a mixture.
    fn searching(&mut self, _: &Searching) {}
    /// After each iteration of the chains that finish a fit.
    fn finishing(&mut self, _: &Finishing) {}
    /// After each iteration of the engine.
    fn iteration(&mut self, _: &TraceRow) {}
    /// The mixture after each iteration of the engine.
    fn mixture(&mut self, _: &Mixture) {}
    /// Before a network is trained on minibatches.
    fn training(&mut self, _: &Training<'_>) {}
    /// After each training step.
    fn step(&mut self, _: u64) {}
    /// After each epoch.
    fn epoch(&mut self, _: &EpochRow) {}
}

/// A fit that is ready to run.
pub struct FitJob<'a> {
    /// What is fitted.
    pub problem: &'a Problem,
    /// How.
    pub settings: &'a Settings,
    /// Where to start, overriding the settings.
    pub start: Option<Mixture>,
    /// Stops the fit after its current iteration.
    pub cancel: Cancel,
    /// Receives the progress.
    pub watch: &'a mut dyn FitWatch,
    /// When the command began, from which on `max_seconds` are counted.
    pub began: Instant,
}

/// Where a fit writes to while it runs.
struct Destination<'a> {
    out: &'a OutputFolder,
    /// Identifies the data, for checkpoints.
    data: Option<String>,
}

/// Configuration and start for the engine, resolved before anything is written.
struct Prepared {
    config: Config,
    start: Option<Mixture>,
    resumed: Option<State>,
}

impl FitJob<'_> {
    /// Fits in memory.
    pub fn run(self) -> Result<Finished, Error> {
        let prepared = self.prepare(false, None)?;
        self.run_in(None, false, prepared)
    }

    /// Does not fit: lets chains finish the start, for which `before` evaluations were made.
    pub fn finish(self, before: u64) -> Result<Finished, Error> {
        match self.prepare(false, None)? {
            Some(prepared) => self.fit_target(None, prepared, Some(before)),
            None => Err(Error::Invalid(
                "chains cannot finish a network: its predictions average over the mixture, which they would not change"
                    .into(),
            )),
        }
    }

    /// Fits into the folder that the settings name: writes the trace and checkpoints while it runs, and the record at
    /// its end. With `resume`, continues an interrupted or killed run. Earlier files in the folder stay until all new
    /// ones are complete.
    pub fn run_into_folder(self, resume: bool) -> Result<FitRecord, Error> {
        let (problem, settings) = (self.problem, self.settings);
        folder::settle(settings.out())?;
        let data = fingerprint(settings);
        // What a killed run left stays until this run has passed it.
        let keep = resume && left_behind(settings.out()) != LeftBehind::Nothing;
        let prepared = self.prepare(resume, data.as_deref())?;
        let mut out = OutputFolder::open(settings.out(), files::STAGE, keep)?;
        let to = Destination { out: &out, data };
        let saved = (|| {
            let finished = self.run_in(Some(&to), resume, prepared)?;
            let scope = if finished.interrupted() { Scope::Interrupted } else { Scope::Finished };
            let record = in_threads(problem, settings, || finished.record_with_rows(problem, settings))?;
            record.write_beside_trace(out.stage())?;
            Ok((record, scope))
        })();
        let done = saved.and_then(|(record, scope)| out.publish(scope).map(|()| record));
        done.map_err(|error| {
            if !out.staged(files::CHECKPOINT).exists() {
                out.discard();
                return error;
            }
            out.keep_checkpoint();
            let place = settings.out().display();
            Error::because(format!("no results were written, but what was reached is kept in {place} for --resume"))(
                error,
            )
        })
    }

    /// Checks as much as possible before the output folder is opened; networks need no preparation.
    fn prepare(&self, resume: bool, data: Option<&str>) -> Result<Option<Prepared>, Error> {
        let (problem, settings) = (self.problem, self.settings);
        if let Problem::Network(_) = problem {
            if resume && FitMethod::optimiser(settings.fit.method).is_none() {
                return Err(Error::setting("resume", "works for networks only with methods vogn, ivon and adam"));
            }
            if resume {
                checkpoint_in(settings.out())?;
            }
            return Ok(None);
        }
        let (about, target) = (problem.about()?, problem.target()?);
        let mut config = settings.config(&about)?;
        let mut reduced = false;
        if let Some(reduction) = target.reduction() {
            // The kind of covariances is chosen for the dimension in which the fit runs.
            let within = settings.config(&About { dim: reduction.subspace.reduced_dim(), ..about })?;
            reduced = reduction::is_allowed(&within);
            config = if reduced { within } else { config };
        }
        let start = self.begin(target.dim())?;
        if let Some(start) = &start {
            start_at(&mut config, start);
            // One of an earlier fit in fewer dimensions has full covariances there.
            if reduced && config.covariance == CovarianceKind::LowRank {
                config.covariance = CovarianceKind::Full;
            }
        }
        let resumed = if resume { resume_from(settings, &config, data)? } else { None };
        Ok(Some(Prepared { config, start, resumed }))
    }

    /// The given start, if any.
    fn begin(&self, dim: usize) -> Result<Option<Mixture>, Error> {
        let (None, Some(dir)) = (&self.start, self.settings.fit.init_posterior.as_deref()) else {
            return Ok(self.start.clone());
        };
        let wants = "`init_posterior` must be the folder of an earlier fit".to_owned();
        folder::settle(dir)?;
        let start = SavedPosterior::load(&dir.join(files::POSTERIOR)).map_err(Error::because(wants))?.mixture;
        match start.dim() {
            found if found != dim => {
                let problem = format!("{}: that one has {found} parameters, this one {dim}", dir.display());
                Err(Error::setting("init_posterior", problem))
            }
            _ => Ok(Some(start)),
        }
    }

    fn run_in(self, to: Option<&Destination<'_>>, resume: bool, prepared: Option<Prepared>) -> Result<Finished, Error> {
        let (problem, settings) = (self.problem, self.settings);
        match (problem, prepared) {
            (Problem::Network(network), _) => in_threads(problem, settings, || self.fit_network(network, to, resume)),
            (Problem::Stan(stan), Some(prepared)) => {
                self.fit_target(to, prepared, None).map_err(|error| stan.explain(error))
            }
            (_, Some(prepared)) => self.fit_target(to, prepared, None),
            (_, None) => Err(Error::Invalid("the fit was not prepared".into())),
        }
    }

    /// Fits anything but a network; only finishes the start if that was `given`, with the evaluations made for it.
    fn fit_target(
        self,
        to: Option<&Destination<'_>>,
        prepared: Prepared,
        given: Option<u64>,
    ) -> Result<Finished, Error> {
        let Prepared { mut config, start, resumed } = prepared;
        let (problem, settings, mut cancel) = (self.problem, self.settings, self.cancel);
        let chosen = start.is_some() || settings.has_start();
        let sample = match problem.study() {
            // Done again for a resumed run, so that its evaluation count equals that of an uninterrupted run.
            Some(study) if !chosen => from_sample(study, &config, &mut cancel)?,
            _ => None,
        };
        let before = given.map(|evals| evals / problem.calls_per_point());
        let before = before.unwrap_or_else(|| sample.as_ref().map_or(0, |sample| sample.evals));
        if let Some(sample) = &sample {
            sample.prepare(&mut config);
        }
        let frames = match to {
            Some(to) => FormationRecorder::new(settings, to.out, resumed.is_some())?,
            None => None,
        };
        let start = start.or(sample.map(|sample| sample.mixture));
        let target = problem.target()?;
        let given = given.is_some();
        let time = ResultsTime::new(self.began, config.max_seconds, target.parameter_names().len(), to.is_some());
        let (rows, features) = problem.study().map_or((0, 0), |study| {
            let table = study.regression.data();
            (table.rows(), table.features())
        });
        let max_seconds = time.of_fit(rows, features);
        let run = EngineRun { target, config, start, resumed, before, given, frames, checkpoints: true, max_seconds };
        let mut finished = run.run(to, cancel, self.watch)?;
        finished.evals *= problem.calls_per_point();
        finished.diagnostic_evals *= problem.calls_per_point();
        finished.chain_evals *= problem.calls_per_point();
        let time = time.after(finished.seconds);
        let draws = time.draws();
        if let Some(diagnostics) = finished.diagnostics.as_mut().filter(|_| draws < DRAWS) {
            diagnostics.verdict.notes.push(format!("there was time for {draws} draws only to deliver and store"));
        }
        let answer = finished.answer.as_ref();
        finished.sample = Some(DeliveredSample::with_draws(&finished.mixture, answer, draws, settings.seed()));
        finished.time = time.is_limited().then_some(time);
        Ok(finished)
    }

    /// Fits a network: trained on minibatches, or by the engine if it is small.
    fn fit_network(
        self,
        network: &TableNetwork,
        to: Option<&Destination<'_>>,
        resume: bool,
    ) -> Result<Finished, Error> {
        let settings = self.settings;
        let Some(optimiser) = FitMethod::optimiser(settings.fit.method) else {
            if network.ranks.is_some() {
                let problem = "must be vogn, ivon or adam where several processes share the training of a network";
                return Err(Error::setting("method", problem));
            }
            let start = self.begin(network.data.network.weights())?;
            let built;
            let target = match &network.target {
                Some(target) => target,
                None => {
                    built = engine::target(settings, &network.data)?;
                    &built
                }
            };
            let (mut config, random) = engine::prepare(settings, target)?;
            if let Some(start) = &start {
                start_at(&mut config, start);
            }
            let start = Some(start.unwrap_or(random));
            let max_seconds = config.max_seconds;
            let (resumed, frames, given, checkpoints) = (None, None, false, false);
            let run = EngineRun { target, config, start, resumed, before: 0, given, frames, checkpoints, max_seconds };
            return run.run(to, self.cancel, self.watch);
        };
        if self.start.is_some() {
            let problem = "works with methods of the engine (ngvi, von, ...), not with vogn, ivon or adam";
            return Err(Error::setting("start", problem));
        }
        let training = Training::new(settings, &network.data, optimiser)?.shared_by(network.ranks.clone())?;
        let data = to.and_then(|to| to.data.clone());
        let resumed = match (to, resume) {
            (Some(to), true) => resume_training(to.out, settings, &training, data.as_deref())?,
            _ => None,
        };
        let earlier = resumed.as_ref().map_or(&[][..], |(_, rows)| &rows[..]);
        let mut trace = to.map(|to| TraceFile::open(to.out, earlier)).transpose()?;
        self.watch.training(&training);
        let mut watch = EpochRecorder { trace: trace.as_mut(), watch: self.watch };
        let checkpoint = to.map(|to| (to.out.staged(files::CHECKPOINT), data));
        let finished = training.run(checkpoint, resumed, self.cancel, &mut watch)?;
        trace.map_or(Ok(()), TraceFile::finish)?;
        Ok(finished)
    }
}

/// Runs `work` in a pool of the requested number of threads for networks and Stan programs, which use the caller's pool.
fn in_threads<T: Send>(
    problem: &Problem,
    settings: &Settings,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    match problem {
        Problem::Network(_) | Problem::Stan(_) => with_threads(settings.threads(), work)?,
        _ => work(),
    }
}

/// A run of the engine.
struct EngineRun<'a> {
    target: &'a dyn Target,
    config: Config,
    start: Option<Mixture>,
    resumed: Option<State>,
    /// Evaluations made before the run.
    before: u64,
    /// Whether the start is only finished.
    given: bool,
    frames: Option<FormationRecorder>,
    checkpoints: bool,
    /// The time of the run, less than that of the settings where results need some.
    max_seconds: Option<f64>,
}

impl EngineRun<'_> {
    fn run(
        self,
        to: Option<&Destination<'_>>,
        mut cancel: Cancel,
        watch: &mut dyn FitWatch,
    ) -> Result<Finished, Error> {
        let Self { target, config, start, resumed, before, given, mut frames, checkpoints, max_seconds } = self;
        let of_settings = config.max_seconds;
        let earlier = match (to, &resumed) {
            (Some(to), Some(state)) => earlier_rows(to.out, state.iteration()),
            _ => Vec::new(),
        };
        let checkpoint = to.filter(|_| checkpoints).map(|to| (to.out.staged(files::CHECKPOINT), to.data.clone()));
        let checkpointer = checkpoint.clone().map(|(path, data)| {
            Checkpointer::new(path, CHECKPOINT_EVERY).and_after(CHECKPOINT_INTERVAL).with_data(data)
        });
        let mut recorder = IterationRecorder {
            file: to.map(|to| TraceFile::open(to.out, &earlier)).transpose()?,
            rows: earlier,
            checkpointer,
            watch,
        };
        let mut fit = Fit::new(target, Config { max_seconds, ..config });
        if let Some(state) = resumed {
            fit = fit.resume(state);
        } else if let Some(start) = start {
            fit = fit.start(start);
        }
        fit = fit.observe(&mut recorder);
        fit = fit.observe(&mut cancel);
        if let Some(frames) = &mut frames {
            fit = fit.observe(&mut frames.film);
        }
        let mut fitted = if given { fit.finish()? } else { fit.run()? };
        fitted.evals += before;
        fitted.config.max_seconds = of_settings;
        let IterationRecorder { file, rows, checkpointer, .. } = recorder;
        // One with chains leaves less to repeat than the end of the fit.
        let latest = fitted.state.has_chains() || !checkpointer.is_some_and(|checkpointer| checkpointer.has_chains());
        if let Some((path, data)) = checkpoint.filter(|_| latest && fitted.observer_error.is_none()) {
            // Whatever happens before the results are complete, the run can be resumed from its end. After an observer has
            // failed the trace may lack rows, and the last checkpoint that it covers stays.
            let state = fitted.state.clone().with_data(data);
            let saved = Checkpoint { state, config: fitted.config.clone() }.save(&path);
            if fitted.stop.reason == StopReason::Cancelled {
                saved?;
            }
        }
        if fitted.observer_error.is_none() && fitted.diagnostics_error.is_none() {
            // Dropping the buffer instead would ignore an error of its last write.
            file.map_or(Ok(()), TraceFile::finish)?;
        }
        let formation = frames.map(|frames| frames.finish(target, &fitted, before)).transpose()?;
        Ok(Finished { formation, ..Finished::of_fitted(fitted, rows)? })
    }
}
