//! One fit: takes a problem and settings, returns the result. The command line and Python share this path.

use crate::Error;
use crate::finished::Finished;
use crate::folder::OutputFolder;
use crate::formation::FormationRecorder;
use crate::networks::engine;
use crate::networks::train::Training;
use crate::problem::{Problem, TableNetwork};
use crate::record::{FitRecord, files};
use crate::saved::SavedPosterior;
use crate::settings::{FitMethod, Settings, start_at};
use crate::summary::MixtureSample;
use crate::trace::{EpochRecorder, IterationRecorder, TraceFile, earlier_rows, earlier_trace};
use natmix::checkpoint::{Checkpoint, Checkpointer};
use natmix::family::Mixture;
use natmix::observe::{Cancel, Searching, TraceRow};
use natmix::stop::StopReason;
use natmix::target::Target;
use natmix::{Config, Fit, Parts, State};
use natmix_models::start::from_sample;
use natmix_nets::train::{TrainState, with_threads};
use natmix_nets::training::EpochRow;
use std::fs;
use std::path::{Path, PathBuf};

/// Iterations between two checkpoints.
const CHECKPOINT_EVERY: u64 = 100;

/// Receives the progress of a fit.
pub trait FitWatch: Send {
    /// During the search for modes, before there is a mixture.
    fn searching(&mut self, _: &Searching) {}
    /// After each iteration of the engine.
    fn iteration(&mut self, _: &TraceRow) {}
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
}

/// Whether a run in this folder was interrupted and can be resumed.
pub fn was_interrupted(dir: &Path) -> bool {
    dir.join(files::STAGE).join(files::CHECKPOINT).exists()
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
        let prepared = self.prepare(false)?;
        self.run_in(None, false, prepared)
    }

    /// Fits into the folder that the settings name: writes the trace and checkpoints while it runs, and the record at
    /// its end. With `resume`, continues an interrupted or killed run. Earlier files in the folder stay until all new
    /// ones are complete.
    pub fn run_into_folder(self, resume: bool) -> Result<FitRecord, Error> {
        let (problem, settings) = (self.problem, self.settings);
        // The checkpoint of a killed run stays until this run has passed it.
        let keep = resume && was_interrupted(settings.out());
        let prepared = self.prepare(resume)?;
        let out = OutputFolder::open(settings.out(), files::STAGE, keep)?;
        let done = (|| {
            let finished = self.run_in(Some(&out), resume, prepared)?;
            let interrupted = finished.interrupted();
            let record = in_threads(problem, settings, || finished.record_with_rows(problem, settings))?;
            record.write_beside_trace(out.stage())?;
            out.publish()?;
            record.remove_stale(&out);
            if !interrupted {
                // The checkpoint of an earlier, interrupted run, whose results are replaced.
                let _ = fs::remove_file(out.path(files::CHECKPOINT));
            }
            Ok(record)
        })();
        if done.is_err() && !keep {
            out.discard();
        }
        done
    }

    /// Checks as much as possible before the output folder is opened; networks need no preparation.
    fn prepare(&self, resume: bool) -> Result<Option<Prepared>, Error> {
        let (problem, settings) = (self.problem, self.settings);
        if let Problem::Network(_) = problem {
            return match resume && FitMethod::optimiser(settings.fit.method).is_none() {
                true => Err(Error::setting("resume", "works for networks only with methods vogn, ivon and adam")),
                false => Ok(None),
            };
        }
        let mut config = settings.config(&problem.about()?)?;
        let start = self.begin(problem.target()?.dim())?;
        if let Some(start) = &start {
            start_at(&mut config, start);
        }
        let resumed = if resume { Some(resume_from(settings.out(), &config)?) } else { None };
        Ok(Some(Prepared { config, start, resumed }))
    }

    /// The given start, if any.
    fn begin(&self, dim: usize) -> Result<Option<Mixture>, Error> {
        let (None, Some(dir)) = (&self.start, self.settings.fit.init_posterior.as_deref()) else {
            return Ok(self.start.clone());
        };
        let wants = "`init_posterior` must be the folder of an earlier fit".to_owned();
        let start = SavedPosterior::load(&dir.join(files::POSTERIOR)).map_err(Error::because(wants))?.mixture;
        match start.dim() {
            found if found != dim => {
                let problem = format!("{}: that one has {found} parameters, this one {dim}", dir.display());
                Err(Error::setting("init_posterior", problem))
            }
            _ => Ok(Some(start)),
        }
    }

    fn run_in(self, out: Option<&OutputFolder>, resume: bool, prepared: Option<Prepared>) -> Result<Finished, Error> {
        let (problem, settings) = (self.problem, self.settings);
        match (problem, prepared) {
            (Problem::Network(network), _) => in_threads(problem, settings, || self.fit_network(network, out, resume)),
            (_, Some(prepared)) => self.fit_target(out, prepared),
            (_, None) => Err(Error::Invalid("the fit was not prepared".into())),
        }
    }

    /// Fits anything but a network.
    fn fit_target(self, out: Option<&OutputFolder>, prepared: Prepared) -> Result<Finished, Error> {
        let Prepared { mut config, start, resumed } = prepared;
        let (problem, settings, mut cancel) = (self.problem, self.settings, self.cancel);
        let chosen = start.is_some() || settings.has_start();
        let sample = match problem.study() {
            // Done again for a resumed run, so that its evaluation count equals that of an uninterrupted run.
            Some(study) if !chosen => from_sample(study, &config, &mut cancel)?,
            _ => None,
        };
        let before = sample.as_ref().map_or(0, |sample| sample.evals);
        if let Some(sample) = &sample {
            sample.prepare(&mut config);
        }
        let frames = match out {
            Some(out) => FormationRecorder::new(settings, out, resumed.is_some())?,
            None => None,
        };
        let start = start.or(sample.map(|sample| sample.mixture));
        let target = problem.target()?;
        let run = EngineRun { target, config, start, resumed, before, frames, checkpoints: true };
        let mut finished = run.run(out, cancel, self.watch)?;
        finished.evals *= problem.calls_per_point();
        finished.sample = Some(MixtureSample::of(&finished.mixture, settings.seed()));
        Ok(finished)
    }

    /// Fits a network: trained on minibatches, or by the engine if it is small.
    fn fit_network(self, network: &TableNetwork, out: Option<&OutputFolder>, resume: bool) -> Result<Finished, Error> {
        let settings = self.settings;
        let Some(optimiser) = FitMethod::optimiser(settings.fit.method) else {
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
            let run = EngineRun { target, config, start, resumed: None, before: 0, frames: None, checkpoints: false };
            return run.run(out, self.cancel, self.watch);
        };
        if self.start.is_some() {
            let problem = "works with methods of the engine (ngvi, von, ...), not with vogn, ivon or adam";
            return Err(Error::setting("start", problem));
        }
        let training = Training::new(settings, &network.data, optimiser)?;
        let resumed = match (out, resume) {
            (Some(out), true) => Some(resume_training(out, settings, &training)?),
            _ => None,
        };
        let earlier = resumed.as_ref().map_or(&[][..], |(_, rows)| &rows[..]);
        let mut trace = out.map(|out| TraceFile::open(out, earlier)).transpose()?;
        self.watch.training(&training);
        let mut watch = EpochRecorder { trace: trace.as_mut(), watch: self.watch };
        let checkpoint = out.map(|out| out.staged(files::CHECKPOINT));
        let finished = training.run(checkpoint, resumed, self.cancel, &mut watch)?;
        trace.map_or(Ok(()), TraceFile::finish)?;
        Ok(finished)
    }
}

/// Runs `work` in a pool of the requested number of threads for networks, which use the caller's pool.
fn in_threads<T: Send>(
    problem: &Problem,
    settings: &Settings,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    match problem {
        Problem::Network(_) => with_threads(settings.threads(), work)?,
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
    frames: Option<FormationRecorder>,
    checkpoints: bool,
}

impl EngineRun<'_> {
    fn run(self, out: Option<&OutputFolder>, mut cancel: Cancel, watch: &mut dyn FitWatch) -> Result<Finished, Error> {
        let Self { target, config, start, resumed, before, mut frames, checkpoints } = self;
        let out = out.map(|out| (out, out.staged(files::CHECKPOINT)));
        let earlier = match (&out, &resumed) {
            (Some((out, _)), Some(state)) => earlier_rows(out, state.iteration()),
            _ => Vec::new(),
        };
        let mut recorder = IterationRecorder {
            file: out.as_ref().map(|(out, _)| TraceFile::open(out, &earlier)).transpose()?,
            rows: earlier,
            watch,
        };
        let mut checkpointer = match &out {
            Some((_, path)) if checkpoints => Some(Checkpointer::new(path.clone(), CHECKPOINT_EVERY)),
            _ => None,
        };
        let mut fit = Fit::new(target, config);
        if let Some(state) = resumed {
            fit = fit.resume(state);
        } else if let Some(start) = start {
            fit = fit.start(start);
        }
        fit = fit.observe(&mut recorder);
        if let Some(checkpointer) = &mut checkpointer {
            fit = fit.observe(checkpointer);
        }
        fit = fit.observe(&mut cancel);
        if let Some(frames) = &mut frames {
            fit = fit.observe(&mut frames.film);
        }
        let mut fitted = fit.run()?;
        fitted.evals += before;
        let IterationRecorder { file, rows, .. } = recorder;
        if fitted.observer_error.is_none() && fitted.diagnostics_error.is_none() {
            // Dropping the buffer instead would ignore an error of its last write.
            file.map_or(Ok(()), TraceFile::finish)?;
            if let (Some((_, path)), true) = (&out, checkpoints) {
                if fitted.stop.reason == StopReason::Cancelled {
                    Checkpoint { state: fitted.state.clone(), config: fitted.config.clone() }.save(path)?;
                } else {
                    let _ = fs::remove_file(path);
                }
            }
        }
        let formation = frames.map(|frames| frames.finish(target, &fitted, before));
        Ok(Finished { formation, ..Finished::of_fitted(fitted, rows)? })
    }
}

/// The checkpoint to resume from: in the same folder, that of a killed run is newer than that of an interrupted one.
fn checkpoint_in(dir: &Path) -> Result<PathBuf, Error> {
    let places = [dir.join(files::STAGE).join(files::CHECKPOINT), dir.join(files::CHECKPOINT)];
    let nothing = || Error::Invalid(format!("there is nothing to resume: no run was interrupted in {}", dir.display()));
    places.into_iter().find(|path| path.exists()).ok_or_else(nothing)
}

fn resume_from(dir: &Path, config: &Config) -> Result<State, Error> {
    let checkpoint = Checkpoint::load(&checkpoint_in(dir)?)?;
    // Budgets and threads may change; settings that affect the iterations may not.
    let comparable = |config: &Config| Config {
        threads: 0,
        max_evals: None,
        max_seconds: None,
        max_iterations: 1,
        tolerance: 1.0,
        check: true,
        // Follows from the data.
        ..config.clone().with_parts(|parts| Parts { trust_region: 1.0, ..parts })
    };
    if comparable(&checkpoint.config) != comparable(config) {
        let place = dir.display();
        return Err(Error::Invalid(format!(
            "the interrupted run in {place} had different settings: give the same ones again, or start afresh without resuming"
        )));
    }
    Ok(checkpoint.state)
}

/// The state of an interrupted training, and its epochs.
fn resume_training(
    out: &OutputFolder,
    settings: &Settings,
    training: &Training<'_>,
) -> Result<(TrainState, Vec<EpochRow>), Error> {
    let state = training.load(&checkpoint_in(settings.out())?)?;
    let mut rows: Vec<EpochRow> = earlier_trace(out);
    rows.retain(|row| row.row.iteration <= state.iteration());
    Ok((state, rows))
}
