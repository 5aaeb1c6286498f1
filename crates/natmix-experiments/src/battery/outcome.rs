//! One fit of a target: refused, or delivered with a verdict and judged.

use super::BatteryOptions;
use super::judge::{FigureError, judge};
use super::modes::MissedMode;
use super::sample::WeightedSample;
use super::target::{BatteryTarget, Subject, TargetHalf};
use super::truth::Truth;
use anyhow::Result;
use natmix::answer::level::Level;
use natmix::target::Target;
use natmix_app::{FitJob, FitRecord, FitWatch};
use serde::Serialize;
use std::time::Instant;

/// A target with all that its fits are judged by.
pub struct PreparedTarget {
    pub target: BatteryTarget,
    pub subject: Subject,
    /// `None` where the fit must be refused.
    pub truth: Option<Truth>,
    /// The share of starts that lead to each known mode.
    pub basins: Vec<f64>,
}

/// One fit.
#[derive(Clone, Debug, Serialize)]
pub struct FitOutcome {
    /// Name of the target.
    pub target: &'static str,
    /// Its family.
    pub family: &'static str,
    /// Its half.
    pub half: TargetHalf,
    /// Seed of the fit.
    pub seed: u64,
    /// Whether the answer is right; `None` where there is no truth or nothing was delivered.
    pub right: Option<bool>,
    /// The verdict; `None` where the fit ended with an error.
    pub trusted: Option<bool>,
    /// Which draws were delivered.
    pub level: Option<Level>,
    /// Whether the fit must be refused: a wrong gradient or an improper density.
    pub to_be_refused: bool,
    /// The error that the fit ended with.
    pub error: Option<String>,
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// The figure that is furthest off.
    pub worst: Option<FigureError>,
    /// Modes that the target has, one entry for the share of starts that lead to each.
    pub basins: Vec<f64>,
    /// Known modes that the delivered draws lack.
    pub missed: Vec<MissedMode>,
    /// Shape of the tail of the importance weights.
    pub k_hat: Option<f64>,
    /// Lower bound for the share of the mass beside the mixture, and its error.
    pub missed_mass: Option<(f64, f64)>,
    /// Evaluations while fitting.
    pub evals: u64,
    /// Evaluations for the verdict.
    pub diagnostics: u64,
    /// Components of the mixture.
    pub components: usize,
    /// Seconds of the whole fit.
    pub seconds: f64,
}

/// Shows no progress.
pub struct Unwatched;

impl FitWatch for Unwatched {}

/// The draws that a fit delivers, on the scale on which the target's parameters are reported.
pub fn delivered(record: &FitRecord, target: &dyn Target) -> WeightedSample {
    let names = record.draws.names.clone();
    let Some(answer) = &record.posterior.answer else {
        return WeightedSample { names, values: record.draws.values.clone(), weights: None };
    };
    let (d, p) = (target.dim(), names.len());
    let mut values = vec![0.0; answer.draws.len() / d * p];
    answer.draws.chunks_exact(d).zip(values.chunks_exact_mut(p)).for_each(|(z, out)| target.to_parameters(z, out));
    WeightedSample { names, values, weights: Some(answer.weights.clone()) }
}

impl PreparedTarget {
    /// Makes the problem, its truth from this number of draws, and the basins of its modes.
    pub fn new(target: BatteryTarget, draws: usize) -> Result<Self> {
        let subject = target.subject()?;
        let truth = subject.truth(draws)?;
        let basins = match &subject.modes {
            Some(modes) => modes.basins(subject.problem.target()?, subject.start_sd)?,
            None => Vec::new(),
        };
        Ok(Self { target, subject, truth, basins })
    }

    /// One fit on one thread, with default settings unless the options give others.
    pub fn fit(&self, seed: u64, options: &BatteryOptions) -> FitOutcome {
        let Subject { problem, settings, .. } = &self.subject;
        let mut settings = settings.clone();
        (settings.engine.seed, settings.engine.threads) = (Some(seed), Some(1));
        (settings.engine.max_evals, settings.engine.goal) = (options.max_evals, options.goal);
        let clock = Instant::now();
        let mut watch = Unwatched;
        let cancel = Default::default();
        let job = FitJob { problem, settings: &settings, start: None, cancel, watch: &mut watch, began: clock };
        let record = job.run().and_then(|finished| Ok((finished.record(problem, &settings, None)?, problem.target()?)));
        let mut outcome = FitOutcome {
            target: self.target.name,
            family: self.target.family,
            half: self.target.half,
            seed,
            right: None,
            trusted: None,
            level: None,
            to_be_refused: self.truth.is_none(),
            error: None,
            reasons: Vec::new(),
            worst: None,
            basins: self.basins.clone(),
            missed: Vec::new(),
            k_hat: None,
            missed_mass: None,
            evals: 0,
            diagnostics: 0,
            components: 0,
            seconds: clock.elapsed().as_secs_f64(),
        };
        match record {
            Ok((record, target)) => self.judge(&record, target, &mut outcome),
            Err(error) => outcome.error = Some(in_full(&error)),
        }
        outcome
    }

    fn judge(&self, record: &FitRecord, target: &dyn Target, outcome: &mut FitOutcome) {
        let report = &record.report;
        let draws = delivered(record, target);
        if let Some(truth) = &self.truth {
            let judgement = judge(truth, &draws);
            (outcome.right, outcome.worst) = (Some(judgement.right), judgement.worst);
        }
        if let Some(modes) = &self.subject.modes {
            outcome.missed = modes.missed(&draws, &self.basins);
        }
        outcome.trusted = report.verdict.trusted;
        outcome.level = report.answer.as_ref().map(|answer| answer.level);
        outcome.reasons.clone_from(&report.verdict.reasons);
        outcome.missed_mass = report
            .answer
            .as_ref()
            .and_then(|answer| answer.missed_mass.as_ref())
            .map(|missed| (missed.mean, missed.se));
        outcome.k_hat = report.k_hat.is_finite().then_some(report.k_hat);
        (outcome.evals, outcome.diagnostics) = (report.evals.points, report.evals.diagnostics + report.evals.chains);
        outcome.components = report.components.len();
    }
}

/// An error with its causes.
pub fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        if !text.contains(&next.to_string()) {
            text = format!("{text}: {next}");
        }
        cause = next.source();
    }
    text
}

impl FitOutcome {
    /// Trusted although the answer is wrong.
    pub fn falsely_trusted(&self) -> bool {
        self.trusted == Some(true) && self.right == Some(false)
    }

    /// Whether all the modes that it misses are so rare among starts that they are counted apart.
    pub fn misses_rare_modes_only(&self) -> bool {
        !self.missed.is_empty() && self.missed.iter().all(|mode| mode.basin < super::modes::RARE_BASIN)
    }

    /// The fit in one line.
    pub fn line(&self) -> String {
        let right = match self.right {
            Some(true) => "right, ",
            Some(false) => "wrong, ",
            None => "",
        };
        let verdict = match (&self.error, self.trusted) {
            (Some(error), _) => error,
            (None, Some(true)) => "trusted",
            (None, _) => "not trusted",
        };
        let evals = self.evals + self.diagnostics;
        format!("{}: {right}{verdict}, {evals} evaluations, {:.1} s", self.label(), self.seconds)
    }

    /// Target and seed.
    pub fn label(&self) -> String {
        format!("{} seed {}", self.target, self.seed)
    }
}
