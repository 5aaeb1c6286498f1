//! One fit: a problem and settings in, what was found out. Command line and Python go the same way.

use crate::Error;
use crate::film::Filming;
use crate::finished::Finished;
use crate::folder::OutputFolder;
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

/// Who is told how a fit goes on.
pub trait FitWatch: Send {
    /// Modes are searched for: there is no mixture yet.
    fn searching(&mut self, _: &Searching) {}
    /// After each iteration of the engine.
    fn iteration(&mut self, _: &TraceRow) {}
    /// Before a network is trained on minibatches.
    fn training(&mut self, _: &Training<'_>) {}
    /// After each step of that.
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
    /// Where to start, if not where the settings say.
    pub start: Option<Mixture>,
    /// Ends the fit after its present iteration.
    pub cancel: Cancel,
    /// Who is told.
    pub watch: &'a mut dyn FitWatch,
}

/// Whether a run in this folder was cut short, so that it can go on.
pub fn was_cut_short(dir: &Path) -> bool {
    dir.join(files::STAGE).join(files::CHECKPOINT).exists()
}

/// What the engine is told, resolved before anything is written.
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

    /// Fits into the folder that the settings name: the trace and checkpoints while it runs, the record at its end. With
    /// `resume`, goes on with an interrupted or killed run. What was in the folder stays until all that is new is complete.
    pub fn run_into_folder(self, resume: bool) -> Result<FitRecord, Error> {
        let (problem, settings) = (self.problem, self.settings);
        // What a killed run had reached stays until it is overtaken.
        let keep = resume && was_cut_short(settings.out());
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
                // That of an earlier, interrupted run: its results are replaced.
                let _ = fs::remove_file(out.path(files::CHECKPOINT));
            }
            Ok(record)
        })();
        if done.is_err() && !keep {
            out.discard();
        }
        done
    }

    /// Finds what can be found wrong before a folder is opened; nothing is prepared for a network.
    fn prepare(&self, resume: bool) -> Result<Option<Prepared>, Error> {
        let (problem, settings) = (self.problem, self.settings);
        if let Problem::Network(_) = problem {
            return match resume && FitMethod::optimiser(settings.fit.method).is_none() {
                true => Err(Error::setting("resume", "goes with methods vogn, ivon and adam for networks")),
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

    /// Where to start, if that is given.
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

    /// Anything but a network.
    fn fit_target(self, out: Option<&OutputFolder>, prepared: Prepared) -> Result<Finished, Error> {
        let Prepared { mut config, start, resumed } = prepared;
        let (problem, settings, mut cancel) = (self.problem, self.settings, self.cancel);
        let chosen = start.is_some() || settings.has_start();
        let sample = match problem.study() {
            // Again for a resumed run, whose evaluations are to be those of an unbroken one.
            Some(study) if !chosen => from_sample(study, &config, &mut cancel)?,
            _ => None,
        };
        let before = sample.as_ref().map_or(0, |sample| sample.evals);
        if let Some(sample) = &sample {
            sample.prepare(&mut config);
        }
        let filming = match out {
            Some(out) => Filming::new(settings, out, resumed.is_some())?,
            None => None,
        };
        let start = start.or(sample.map(|sample| sample.mixture));
        let target = problem.target()?;
        let run = EngineRun { target, config, start, resumed, before, filming, checkpoints: true };
        let mut finished = run.run(out, cancel, self.watch)?;
        finished.evals *= problem.calls_per_point();
        finished.sample = Some(MixtureSample::of(&finished.mixture, settings.seed()));
        Ok(finished)
    }

    /// A network: trained on minibatches, or by the engine if it is small.
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
            let run = EngineRun { target, config, start, resumed: None, before: 0, filming: None, checkpoints: false };
            return run.run(out, self.cancel, self.watch);
        };
        if self.start.is_some() {
            let problem = "goes with methods of the engine (ngvi, von, ...), not with vogn, ivon or adam";
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

/// Networks use the threads of the caller's pool.
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
    /// Evaluations ahead of the run.
    before: u64,
    filming: Option<Filming>,
    checkpoints: bool,
}

impl EngineRun<'_> {
    fn run(self, out: Option<&OutputFolder>, mut cancel: Cancel, watch: &mut dyn FitWatch) -> Result<Finished, Error> {
        let Self { target, config, start, resumed, before, mut filming, checkpoints } = self;
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
        if let Some(filming) = &mut filming {
            fit = fit.observe(&mut filming.film);
        }
        let mut fitted = fit.run()?;
        fitted.evals += before;
        let IterationRecorder { file, rows, .. } = recorder;
        if fitted.observer_error.is_none() && fitted.diagnostics_error.is_none() {
            // Dropping a buffer would pass over what its last write says.
            file.map_or(Ok(()), TraceFile::finish)?;
            if let (Some((_, path)), true) = (&out, checkpoints) {
                if fitted.stop.reason == StopReason::Cancelled {
                    Checkpoint { state: fitted.state.clone(), config: fitted.config.clone() }.save(path)?;
                } else {
                    let _ = fs::remove_file(path);
                }
            }
        }
        let formation = filming.map(|filming| filming.finish(target, &fitted, before));
        Ok(Finished { formation, ..Finished::of_fitted(fitted, rows)? })
    }
}

/// The checkpoint of an interrupted run: a killed run is later than an interrupted one in the same folder.
fn checkpoint_in(dir: &Path) -> Result<PathBuf, Error> {
    let places = [dir.join(files::STAGE).join(files::CHECKPOINT), dir.join(files::CHECKPOINT)];
    let nothing =
        || Error::Invalid(format!("there is nothing to resume: nothing was interrupted in {}", dir.display()));
    places.into_iter().find(|path| path.exists()).ok_or_else(nothing)
}

fn resume_from(dir: &Path, config: &Config) -> Result<State, Error> {
    let checkpoint = Checkpoint::load(&checkpoint_in(dir)?)?;
    // Budgets and threads may change; what decides the path of the run may not.
    let comparable = |config: &Config| Config {
        threads: 0,
        max_evals: None,
        max_seconds: None,
        max_iterations: 1,
        tolerance: 1.0,
        // Follows from the rows.
        ..config.clone().with_parts(|parts| Parts { trust_region: 1.0, ..parts })
    };
    if comparable(&checkpoint.config) != comparable(config) {
        let place = dir.display();
        return Err(Error::Invalid(format!(
            "the interrupted run in {place} had other settings: give them again, or do not resume it"
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
