//! One fit of a posterior at default settings, judged.

use super::catalogue::Posterior;
use super::clock::Clock;
use super::files::{DrawsFile, read_text};
use super::reference::Reference;
use crate::battery::judge::{FigureError, judge};
use crate::battery::outcome::{Unwatched, delivered, in_full};
use crate::battery::sample::WeightedSample;
use crate::battery::truth::Truth;
use anyhow::{Context, Result};
use natmix::answer::level::Level;
use natmix_app::settings::Settings;
use natmix_app::stan::{StanInput, StanProblem};
use natmix_app::{FitJob, FitRecord, Problem};
use natmix_stan::compile::{Compiling, StanSource};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A posterior, ready to be fitted.
pub struct PreparedPosterior {
    posterior: Posterior,
    problem: Problem,
    /// What its answers are judged by, if that is known.
    reference: Option<Reference>,
}

/// About a posterior, for whoever reads the report.
#[derive(Clone, Debug, Serialize)]
pub struct PosteriorSummary {
    /// Its name.
    pub name: &'static str,
    /// Number of unconstrained coordinates.
    pub dim: usize,
    /// The compiled program.
    pub library: PathBuf,
    /// The file of its data.
    pub data: PathBuf,
    /// Whether answers are judged up to the order of components.
    pub relabelled: bool,
    /// The parameters that are judged.
    pub judged: Vec<String>,
    /// The largest standard error of a figure of the reference, in units of the limit for errors.
    pub resolution: Option<f64>,
}

/// How draws compare with the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether they are right.
    pub right: bool,
    /// The figure that is furthest off, in units of its limit.
    pub worst: Option<FigureError>,
    /// The largest error of a mean, in standard deviations.
    pub mean_error: f64,
    /// The ratio of standard deviations that is furthest from one.
    pub sd_ratio: f64,
}

/// One fit.
#[derive(Clone, Debug, Serialize)]
pub struct PosteriorFit {
    /// Name of the posterior.
    pub posterior: &'static str,
    /// Seed of the fit.
    pub seed: u64,
    /// Which draws were delivered.
    pub level: Option<Level>,
    /// The verdict; `None` where the fit ended with an error.
    pub trusted: Option<bool>,
    /// How the answer compares with the reference, if there is one.
    pub comparison: Option<Comparison>,
    /// The error that the fit ended with.
    pub error: Option<String>,
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// Shape of the tail of the importance weights.
    pub k_hat: Option<f64>,
    /// Largest R-hat of a parameter, if chains delivered the draws.
    pub r_hat: Option<f64>,
    /// Evaluations while fitting, for the verdict, and of chains.
    pub evals: [u64; 3],
    /// Components of the mixture.
    pub components: usize,
    /// Seconds of the fit without compiling.
    pub seconds: f64,
    /// Processor time of the fit; `None` where several fits ran at a time.
    pub cpu_seconds: Option<f64>,
}

impl PreparedPosterior {
    /// Compiles the program, unless that was done before, and reads data and reference; `own` holds references for posteriors
    /// without one in the database.
    pub fn new(posterior: Posterior, data: &Path, own: Option<&Path>, tell: &mut dyn FnMut(&str)) -> Result<Self> {
        let folder = data.join(posterior.folder);
        let program = program_file(&posterior)?;
        let text = read_text(&data_file(&folder))?;
        let (source, data) = (StanSource::File(&program), &text[..]);
        let input = StanInput { source, data, data_name: None, init: None, seed: 1 };
        let problem = StanProblem::new(input, &mut Compiling::new(tell)).map_err(anyhow::Error::from)?;
        let reference = match own {
            _ if posterior.referenced => Some(Reference::of_database(&folder)?),
            Some(own) if own.join(format!("{}.json", posterior.name)).exists() => {
                Some(Reference::of_draws(own, posterior.name)?)
            }
            _ => None,
        };
        Ok(Self { posterior, problem: Problem::Stan(Box::new(problem)), reference })
    }

    /// About it; `data` is the folder of all data.
    pub fn summary(&self, data: &Path) -> Result<PosteriorSummary> {
        let Problem::Stan(stan) = &self.problem else { unreachable!("posteriors are Stan programs") };
        Ok(PosteriorSummary {
            name: self.posterior.name,
            dim: self.problem.target()?.dim(),
            library: stan.model.library().file().to_owned(),
            data: data_file(&data.join(self.posterior.folder)),
            relabelled: self.posterior.exchangeable.is_some(),
            judged: self.reference.as_ref().map(Reference::names).unwrap_or_default(),
            resolution: self.reference.as_ref().map(|reference| reference.resolution),
        })
    }

    /// One fit on one thread, with nothing set but the seed.
    pub fn fit(&self, seed: u64, alone: bool) -> PosteriorFit {
        let mut settings = Settings::default();
        (settings.engine.seed, settings.engine.threads) = (Some(seed), Some(1));
        let (clock, mut watch) = (Clock::start(), Unwatched);
        let job = FitJob {
            problem: &self.problem,
            settings: &settings,
            start: None,
            cancel: Default::default(),
            watch: &mut watch,
            began: clock.began(),
        };
        let record = job.run().and_then(|finished| finished.record(&self.problem, &settings, None));
        let (seconds, cpu_seconds) = clock.read();
        let mut fit = PosteriorFit {
            seconds,
            cpu_seconds: cpu_seconds.filter(|_| alone),
            ..PosteriorFit::of(self.posterior.name, seed)
        };
        match record {
            Ok(record) => {
                fit.describe(&record);
                fit.set(
                    self.problem
                        .target()
                        .map_err(anyhow::Error::from)
                        .and_then(|target| self.compare(delivered(&record, target))),
                );
            }
            Err(error) => fit.error = Some(in_full(&error)),
        }
        fit
    }

    /// Draws of another program, from `FOLDER/NAME.csv.gz`, judged as a fit's would be.
    pub fn judge_draws(&self, folder: &Path) -> PosteriorFit {
        let mut fit = PosteriorFit::of(self.posterior.name, 0);
        let draws = DrawsFile::read(&folder.join(format!("{}.csv.gz", self.posterior.name)));
        fit.set(draws.and_then(|draws| self.compare(draws.into())));
        fit
    }

    fn compare(&self, mut draws: WeightedSample) -> Result<Option<Comparison>> {
        let Some(reference) = &self.reference else { return Ok(None) };
        if let Some(exchangeable) = &self.posterior.exchangeable {
            exchangeable.sort(&mut draws);
        }
        Ok(Some(Comparison::of(&reference.truth, &draws.chosen(&reference.names())?)))
    }
}

impl Comparison {
    fn of(truth: &Truth, draws: &WeightedSample) -> Self {
        let judgement = judge(truth, draws);
        let (mut mean_error, mut sd_ratio) = (0.0f64, 1.0f64);
        for (j, marginal) in truth.marginals.iter().enumerate() {
            let (found, truth) = (draws.column(j).moments(), marginal.moments);
            mean_error = mean_error.max((found.mean - truth.mean).abs() / truth.sd);
            let ratio = found.sd / truth.sd;
            if ratio.ln().abs() > sd_ratio.ln().abs() {
                sd_ratio = ratio;
            }
        }
        Self { right: judgement.right, worst: judgement.worst, mean_error, sd_ratio }
    }
}

impl PosteriorFit {
    /// A fit of which nothing is known yet.
    pub(super) fn of(posterior: &'static str, seed: u64) -> Self {
        Self {
            posterior,
            seed,
            level: None,
            trusted: None,
            comparison: None,
            error: None,
            reasons: Vec::new(),
            k_hat: None,
            r_hat: None,
            evals: [0; 3],
            components: 0,
            seconds: 0.0,
            cpu_seconds: None,
        }
    }

    fn describe(&mut self, record: &FitRecord) {
        let report = &record.report;
        self.trusted = report.verdict.trusted;
        self.reasons.clone_from(&report.verdict.reasons);
        if let Some(answer) = &report.answer {
            (self.level, self.r_hat) = (Some(answer.level), answer.r_hat);
        }
        self.k_hat = report.k_hat.is_finite().then_some(report.k_hat);
        self.evals = [report.evals.points, report.evals.diagnostics, report.evals.chains];
        self.components = report.components.len();
    }

    fn set(&mut self, comparison: Result<Option<Comparison>>) {
        match comparison {
            Ok(comparison) => self.comparison = comparison,
            Err(error) => self.error = Some(format!("{error:#}")),
        }
    }

    /// Whether the answer is right; `None` where that is not known.
    pub fn right(&self) -> Option<bool> {
        self.comparison.as_ref().map(|comparison| comparison.right)
    }

    /// All evaluations.
    pub fn all_evals(&self) -> u64 {
        self.evals.iter().sum()
    }

    /// Right or wrong, trusted or refused.
    pub fn outcome(&self) -> String {
        let right = match self.right() {
            _ if self.error.is_some() => return "failed".into(),
            Some(true) => "right, ",
            Some(false) => "wrong, ",
            None => "",
        };
        format!("{right}{}", if self.trusted == Some(true) { "trusted" } else { "refused" })
    }
}

/// The file of the data in the folder of a posterior.
fn data_file(folder: &Path) -> PathBuf {
    let plain = folder.join("data.json");
    if plain.exists() { plain } else { folder.join("data.json.gz") }
}

/// The program as a file beside the compiled ones.
fn program_file(posterior: &Posterior) -> Result<PathBuf> {
    let folder = natmix_stan::cache::folder().join("posteriordb");
    let path = folder.join(format!("{}.stan", posterior.program));
    if fs::read(&path).is_ok_and(|code| code == posterior.code.as_bytes()) {
        return Ok(path);
    }
    // Renamed, so that another process never reads half of it.
    let part = folder.join(format!("{}.{}.part", posterior.program, std::process::id()));
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&part, posterior.code))
        .and_then(|()| fs::rename(&part, &path));
    written.with_context(|| format!("cannot write {} (NATMIX_CACHE names another folder)", path.display()))?;
    Ok(path)
}
