//! Diagnostics of a fitted mixture, measured with fresh draws.
//!
//! With `b = log p - log q` at draws of q: the ELBO is the mean of b, the log evidence `log mean exp b`, and the tail
//! of the importance weights `exp b` tells, through its Pareto k-hat, whether q covers p.
//!
//! ```
//! use natmix::family::{Gaussian, Mixture};
//! let q = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
//! let diagnostics = natmix::diagnose(&q, &q, 1000, 0).unwrap();
//! assert!(diagnostics.verdict.trusted);
//! assert_eq!((diagnostics.elbo.mean, diagnostics.elbo.se), (0.0, 0.0));
//! ```

use super::accuracy::Accuracy;
use super::delivered::DeliveredDraws;
use super::level::{Decision, Level, decide, seconds_per_value};
use super::probe::{self, Effort};
use super::psis::{self, Psis};
use super::verdict::verdict;
use crate::chains::certificate::Certificate;
use crate::error::Error;
use crate::evaluate::{self, Batch, Evaluator, Limits, Part, Request};
use crate::family::{Mixture, log_sum_exp};
use crate::noise::Purpose;
use crate::run::time_left::TimeLeft;
use crate::target::Target;
use crate::workspace::ScratchPool;
use rayon::prelude::*;
use serde::Serialize;
use std::time::Instant;

pub use super::verdict::Verdict;

/// Points per chunk.
const CHUNK: usize = 64;
/// Effective draws that a weighted answer aims at.
const WANTED_EFFECTIVE: f64 = 3_000.0;
/// Most draws of a weighted answer, in multiples of the usual number.
const MOST_TIMES: usize = 5;
/// Times that draws are added.
const MOST_ROUNDS: u64 = 3;
/// Fewest draws after a run.
const FEWEST: usize = 1_000;
/// Draws from which on chains look around as usual.
const THOROUGH: usize = 2_500;
/// Relative variance of the weights up to which they are the same.
const EXACT: f64 = 1e-5;
/// k-hat beyond which more draws do not help.
const HOPELESS: f64 = 0.85;
/// Draws that show how long an evaluation takes, where the time is limited; also the fewest.
const TIMED: usize = 16;
/// Draws are planned with this much to spare.
const SPARE: f64 = 1.1;

/// An estimate with its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub mean: f64,
    /// Its Monte-Carlo standard error.
    pub se: f64,
}

/// Diagnostics of a mixture, from fresh draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnostics {
    /// Mean of `log p - log q`, over the draws where it is finite.
    pub elbo: Estimate,
    /// `log mean exp(log p - log q)`; at the level of chains by bridge sampling, unless the weights know it better. NaN if it is
    /// not known.
    pub log_evidence: Estimate,
    /// Shape of the tail of the importance weights.
    pub k_hat: f64,
    /// k-hat below which the weights can be trusted, for this number of draws.
    pub k_threshold: f64,
    /// Effective sample size of the smoothed weights, out of `draws`.
    pub ess: f64,
    /// Number of draws.
    pub draws: usize,
    /// Draws at which the density was zero.
    pub zero: usize,
    /// Draws at which the target could not be evaluated.
    pub failed: usize,
    /// Which draws may be relied on.
    pub level: Level,
    /// Lower bound for the share of the mass that lies beside the mixture, if it was sought.
    pub missed_mass: Option<Estimate>,
    /// What is known about the chains, if there were any.
    pub chains: Option<Certificate>,
    /// Whether weighted draws lie around those of chains, not only where the mixture has them.
    #[serde(skip)]
    pub around_chains: bool,
    /// The accuracy of every parameter at that level, in the order of [`Target::parameter_names`].
    pub accuracy: Vec<Accuracy>,
    /// Whether to trust the answer, and why not.
    pub verdict: Verdict,
}

/// Draws of a mixture with their importance weights.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedDraws {
    /// The draws, one after the other.
    pub draws: Vec<f64>,
    /// `log p - log q` at each draw.
    pub log_ratios: Vec<f64>,
    /// Pareto-smoothed weights.
    pub psis: Psis,
}

/// Measures `q` against `target` with `draws` fresh draws.
pub fn diagnose(target: &dyn Target, q: &Mixture, draws: usize, seed: u64) -> Result<Diagnostics, Error> {
    let scratch = ScratchPool::new(rayon::current_num_threads());
    let mut evaluator = evaluate::of_target(target, &scratch, Limits::default());
    let plan =
        Plan { first: draws, fewest: draws, draws, most: draws, chains_follow: false, seen_to_hold: false, seed };
    let (found, _) = diagnose_with(target, &mut *evaluator, q, plan, (&scratch, &mut TimeLeft::default()))?;
    Ok(found.judge(&target.parameter_names()))
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Draws to begin with, and the fewest that the mixture is judged by.
    pub first: usize,
    pub fewest: usize,
    /// Draws from which on only a weighted answer gets more.
    pub draws: usize,
    /// Most draws, where a weighted answer needs more.
    pub most: usize,
    /// Whether chains take over where neither the mixture nor weighted draws hold: they are a better use of evaluations than
    /// draws whose weights are hardly usable.
    pub chains_follow: bool,
    /// Whether the run ended because the answer was seen to hold, in many dimensions.
    pub seen_to_hold: bool,
    pub seed: u64,
}

impl Plan {
    /// For the end of a run that took `evals` evaluations of its budget, if it had one: what is soon fitted is soon measured.
    pub fn after_run((draws, seed): (usize, u64), evals: u64, budget: Option<u64>, chains_follow: bool) -> Self {
        let draws_of = |evals: u64| usize::try_from(evals).unwrap_or(usize::MAX);
        let affordable = budget.map_or(usize::MAX, |budget| draws_of(budget / 3));
        let most = (MOST_TIMES * draws).min(affordable).max(draws);
        let fewest = draws.min(draws_of(evals).max(FEWEST));
        let first = if chains_follow { fewest.min(FEWEST) } else { fewest };
        Self { first, fewest, draws, most, chains_follow, seen_to_hold: false, seed }
    }

    /// With as many draws as there is time for.
    fn within(self, time: &TimeLeft, parameters: usize) -> Self {
        let most = time.draws(parameters as f64 * seconds_per_value()).unwrap_or(usize::MAX).max(TIMED);
        Self { first: self.first.min(most), draws: self.draws.min(most), most: self.most.min(most), ..self }
    }

    /// How many draws there should be after these, if more can help.
    fn wanted(&self, drawn: &WeightedDraws, measured: &Measured) -> Option<usize> {
        let (have, most) = (drawn.log_ratios.len() as f64, self.most as f64);
        let k_hat = drawn.psis.k_hat;
        let hopeless = !k_hat.is_finite() || k_hat > HOPELESS;
        // Where all weights are the same once more, further draws would tell nothing new.
        let exact = self.seen_to_hold && measured.weights_variance <= EXACT;
        let enough = have >= self.fewest as f64 || exact;
        if measured.level == Level::Mixture && enough || self.chains_follow && hopeless {
            return None;
        }
        if have < self.draws as f64 {
            // After a small fit: fewer draws know k-hat less well, too.
            return Some(self.draws);
        }
        if hopeless || self.chains_follow && !drawn.psis.trusted() {
            return None;
        }
        let for_all = SPARE * WANTED_EFFECTIVE / drawn.psis.ess * have;
        let wanted = match measured.level {
            Level::Weighted => for_all.min(most),
            // A k-hat just above its limit may be there by chance.
            _ if !drawn.psis.trusted() => most,
            _ if measured.needed * have < most => for_all.max(SPARE * measured.needed * have).min(most),
            _ => return None,
        };
        (wanted > have).then_some(wanted as usize)
    }
}

pub(crate) fn diagnose_with(
    target: &dyn Target,
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    plan: Plan,
    (scratch, time): (&ScratchPool, &mut TimeLeft),
) -> Result<(Unjudged, WeightedDraws), Error> {
    let wished = plan;
    let parameters = target.parameter_names().len();
    if time.is_limited() {
        let began = Instant::now();
        weigh(evaluator, q, (TIMED, plan.seed), Purpose::Diagnostics, MOST_ROUNDS + 1, scratch)?;
        time.learn(TIMED, began);
    }
    let mut plan = plan.within(time, parameters);
    let mut drawn = weigh(evaluator, q, (plan.first, plan.seed), Purpose::Diagnostics, 0, scratch)?;
    let mut measured = measure(target, &drawn, false);
    for round in 1..=MOST_ROUNDS {
        plan = plan.within(time, parameters);
        let Some(wanted) = plan.wanted(&drawn, &measured) else { break };
        let missing = wanted - drawn.log_ratios.len();
        drawn.append(weigh(evaluator, q, (missing, plan.seed), Purpose::Diagnostics, round, scratch)?);
        measured = measure(target, &drawn, wanted > plan.draws);
    }
    let Measured { mut diagnostics, weights_variance, .. } = measured;
    let mut omitted = Vec::new();
    if plan.draws < wished.draws && drawn.log_ratios.len() < wished.draws {
        omitted.push(format!("there was time for {} draws only to measure the fit with", drawn.log_ratios.len()));
    }
    if diagnostics.level.holds() && target.has_gradient() {
        let effort = if drawn.log_ratios.len() < THOROUGH { Effort::Quick } else { Effort::Usual };
        if let Some(effort) = effort.within(time) {
            let missed = probe::missed_mass(evaluator, q, &drawn, (effort, time), plan.seed)?;
            if probe::is_too_much(&missed) {
                diagnostics.level = Level::None;
            }
            diagnostics.missed_mass = Some(missed);
        } else {
            omitted.push("there was no time left to look for mass beside the mixture".to_owned());
        }
    }
    let infinite = drawn.log_ratios.iter().filter(|b| **b == f64::INFINITY).count();
    Ok((Unjudged { diagnostics, weights_variance, infinite, omitted }, drawn))
}

/// Diagnostics before the verdict, with what else it needs.
pub(crate) struct Unjudged {
    pub diagnostics: Diagnostics,
    weights_variance: f64,
    infinite: usize,
    /// What there was no time for.
    omitted: Vec<String>,
}

impl Unjudged {
    /// Takes what chains have found.
    pub fn finish(&mut self, certificate: &Certificate) {
        if certificate.reasons.is_empty() {
            self.diagnostics.level = Level::Chains;
            self.diagnostics.accuracy = certificate.parameters.iter().map(|one| one.accuracy.clone()).collect();
        }
        self.diagnostics.chains = Some(certificate.clone());
    }

    /// Takes draws with importance weights from another proposal than the mixture, if they hold; returns whether they do.
    pub fn weigh_again(&mut self, target: &dyn Target, drawn: &WeightedDraws) -> bool {
        let Some(Measured { diagnostics: found, weights_variance, .. }) = weighted_answer(target, drawn) else {
            return false;
        };
        self.weights_variance = weights_variance;
        let own = &mut self.diagnostics;
        (own.level, own.log_evidence, own.accuracy) = (found.level, found.log_evidence, found.accuracy);
        (own.k_hat, own.k_threshold, own.ess, own.draws) = (found.k_hat, found.k_threshold, found.ess, found.draws);
        (own.zero, own.failed, own.around_chains) = (found.zero, found.failed, true);
        true
    }

    pub fn judge(self, names: &[String]) -> Diagnostics {
        let Self { mut diagnostics, weights_variance, infinite, omitted } = self;
        diagnostics.verdict = verdict(&diagnostics, names, weights_variance, infinite);
        diagnostics.verdict.notes.extend(omitted);
        diagnostics
    }
}

/// By how much the error of the log evidence is larger than the variance of the weights says: with heavy tails the variance is
/// mostly underestimated. `tests/evidence.rs` simulates what remains beyond two errors.
fn evidence_inflation(k_hat: f64) -> f64 {
    (1.0 + 2.5 * (k_hat - 0.15)).clamp(1.0, 2.2)
}

/// Diagnostics without a verdict yet.
pub(super) struct Measured {
    diagnostics: Diagnostics,
    pub weights_variance: f64,
    pub needed: f64,
}

impl std::ops::Deref for Measured {
    type Target = Diagnostics;

    fn deref(&self) -> &Diagnostics {
        &self.diagnostics
    }
}

pub(super) fn measure(target: &dyn Target, drawn: &WeightedDraws, more: bool) -> Measured {
    let WeightedDraws { log_ratios, psis, .. } = drawn;
    let draws = log_ratios.len();
    let finite: Vec<f64> = log_ratios.iter().copied().filter(|b| b.is_finite()).collect();
    let zero = log_ratios.iter().filter(|b| **b == f64::NEG_INFINITY).count();
    let failed = draws - finite.len() - zero;
    let n = finite.len() as f64;
    let mean = finite.iter().sum::<f64>() / n;
    let variance = finite.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let log_evidence = log_sum_exp(&finite) - ((draws - failed) as f64).ln();
    let relative = |b: &f64| ((b - log_evidence).exp() - 1.0).powi(2);
    let weights_variance = (finite.iter().map(relative).sum::<f64>() + zero as f64) / (draws - failed).max(1) as f64;
    let Decision { level, accuracy, needed } = decide(target, drawn, weights_variance, more);
    let diagnostics = Diagnostics {
        elbo: Estimate { mean, se: (variance / n).sqrt() },
        log_evidence: Estimate {
            mean: log_evidence,
            se: evidence_inflation(psis.k_hat) * (weights_variance / ((draws - failed).max(2) as f64 - 1.0)).sqrt(),
        },
        k_hat: psis.k_hat,
        k_threshold: psis::trust_threshold(psis.log_weights.len()),
        ess: psis.ess,
        draws,
        zero,
        failed,
        level,
        missed_mass: None,
        chains: None,
        around_chains: false,
        accuracy,
        verdict: Verdict { trusted: true, reasons: Vec::new(), notes: Vec::new() },
    };
    Measured { diagnostics, weights_variance, needed }
}

/// What is known about draws with importance weights from any proposal, if they hold.
fn weighted_answer(target: &dyn Target, drawn: &WeightedDraws) -> Option<Measured> {
    let measured = drawn.psis.trusted().then(|| measure(target, drawn, true));
    measured.filter(|measured| measured.level == Level::Weighted)
}

/// `draws` fresh draws of `q` with their importance weights.
pub fn weigh_draws(target: &dyn Target, q: &Mixture, draws: usize, seed: u64) -> Result<WeightedDraws, Error> {
    let scratch = ScratchPool::new(rayon::current_num_threads());
    let mut evaluator = evaluate::of_target(target, &scratch, Limits::default());
    weigh(&mut *evaluator, q, (draws, seed), Purpose::Sample, 0, &scratch)
}

pub(super) fn weigh(
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    (draws, seed): (usize, u64),
    purpose: Purpose,
    round: u64,
    scratch: &ScratchPool,
) -> Result<WeightedDraws, Error> {
    let d = q.dim();
    if evaluator.dim() != d {
        let problem = format!("the target has dimension {}, the mixture {d}", evaluator.dim());
        return Err(Error::InvalidInput(problem));
    }
    let request = Request::default();
    let mut part = Part::default();
    part.resize(draws, d, CHUNK, &request);
    q.draw(&mut part.z, seed, purpose, round);
    let ticket = evaluator.submit(Batch { request, parts: vec![part] });
    let Part { z, log_p: mut log_ratios, .. } = evaluator.collect(ticket)?.parts.pop().unwrap_or_default();
    z.par_chunks(CHUNK * d).zip(log_ratios.par_chunks_mut(CHUNK)).for_each(|(z, b)| {
        scratch.with(|scratch| {
            let mut log_q = scratch.take(b.len());
            q.log_density_into(z, &mut log_q, scratch);
            b.iter_mut().zip(&log_q).for_each(|(b, q)| *b -= q);
            scratch.give(log_q);
        });
    });
    Ok(WeightedDraws::new(z, log_ratios))
}

/// A point that cannot be evaluated has no weight; one of infinite density would have all of it, falsely.
fn smooth_usable(log_ratios: &[f64]) -> Psis {
    let usable: Vec<f64> = log_ratios.iter().copied().filter(|b| *b < f64::INFINITY).collect();
    psis::smooth(&usable)
}

impl WeightedDraws {
    /// Draws with the logs of their weights.
    pub(crate) fn new(draws: Vec<f64>, log_ratios: Vec<f64>) -> Self {
        Self { psis: smooth_usable(&log_ratios), draws, log_ratios }
    }

    /// Whether they hold as an answer by themselves.
    pub(crate) fn hold(&self, target: &dyn Target) -> bool {
        weighted_answer(target, self).is_some()
    }

    /// Adds draws of the same mixture, and smooths all weights again.
    fn append(&mut self, more: Self) {
        self.draws.extend(more.draws);
        self.log_ratios.extend(more.log_ratios);
        self.psis = smooth_usable(&self.log_ratios);
    }

    /// The smoothed weight of every draw; zero where a draw cannot be used.
    pub fn weights(&self) -> Vec<f64> {
        let mut smoothed = self.psis.log_weights.iter();
        let weight = |b: &f64| if *b < f64::INFINITY { smoothed.next().map_or(0.0, |log| log.exp()) } else { 0.0 };
        self.log_ratios.iter().map(weight).map(|w| if w.is_nan() { 0.0 } else { w }).collect()
    }

    /// The draws that have a weight, to deliver and store.
    pub fn delivered(&self) -> DeliveredDraws {
        let d = self.draws.len().checked_div(self.log_ratios.len()).unwrap_or(1).max(1);
        let (mut draws, mut weights) = (Vec::new(), Vec::new());
        for (z, weight) in self.draws.chunks_exact(d).zip(self.weights()) {
            if weight > 0.0 {
                draws.extend_from_slice(z);
                weights.push(weight);
            }
        }
        DeliveredDraws { draws, weights, chains: None }
    }
}
