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

use super::psis::{self, Psis};
use super::verdict::verdict;
use crate::error::Error;
use crate::evaluate::{self, Batch, Evaluator, Limits, Part, Request};
use crate::family::{Mixture, log_sum_exp};
use crate::noise::{Noise, Purpose};
use crate::target::Target;
use crate::workspace::ScratchPool;
use rayon::prelude::*;
use serde::Serialize;

pub use super::verdict::Verdict;

/// Points per chunk.
const CHUNK: usize = 64;
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
    /// `log mean exp(log p - log q)`.
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
    /// Whether to trust the mixture, and why not.
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
    diagnose_with(&mut *evaluate::of_target(target, &scratch, Limits::default()), q, draws, seed, None, &scratch)
}

pub(crate) fn diagnose_with(
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    draws: usize,
    seed: u64,
    converged: Option<bool>,
    scratch: &ScratchPool,
) -> Result<Diagnostics, Error> {
    let WeightedDraws { log_ratios, psis, .. } = weigh(evaluator, q, draws, seed, Purpose::Diagnostics, scratch)?;
    let finite: Vec<f64> = log_ratios.iter().copied().filter(|b| b.is_finite()).collect();
    let zero = log_ratios.iter().filter(|b| **b == f64::NEG_INFINITY).count();
    let failed = draws - finite.len() - zero;
    let n = finite.len() as f64;
    let mean = finite.iter().sum::<f64>() / n;
    let variance = finite.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let log_evidence = log_sum_exp(&finite) - ((draws - failed) as f64).ln();
    let relative = |b: &f64| ((b - log_evidence).exp() - 1.0).powi(2);
    let weights_variance = (finite.iter().map(relative).sum::<f64>() + zero as f64) / (draws - failed).max(1) as f64;
    let mut diagnostics = Diagnostics {
        elbo: Estimate { mean, se: (variance / n).sqrt() },
        log_evidence: Estimate {
            mean: log_evidence,
            se: (weights_variance / ((draws - failed).max(2) as f64 - 1.0)).sqrt(),
        },
        k_hat: psis.k_hat,
        k_threshold: psis::trust_threshold(psis.log_weights.len()),
        ess: psis.ess,
        draws,
        zero,
        failed,
        verdict: Verdict { trusted: true, reasons: Vec::new(), notes: Vec::new() },
    };
    let infinite = log_ratios.iter().filter(|b| **b == f64::INFINITY).count();
    diagnostics.verdict = verdict(&diagnostics, weights_variance, infinite, converged);
    Ok(diagnostics)
}

/// `draws` fresh draws of `q` with their importance weights.
pub fn weigh_draws(target: &dyn Target, q: &Mixture, draws: usize, seed: u64) -> Result<WeightedDraws, Error> {
    let scratch = ScratchPool::new(rayon::current_num_threads());
    let mut evaluator = evaluate::of_target(target, &scratch, Limits::default());
    weigh(&mut *evaluator, q, draws, seed, Purpose::Sample, &scratch)
}

fn weigh(
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    draws: usize,
    seed: u64,
    purpose: Purpose,
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
    q.draw(&mut part.z, seed, purpose, 0);
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
    // A point that cannot be evaluated has no weight; one of infinite density would have all of it, falsely.
    let usable: Vec<f64> = log_ratios.iter().copied().filter(|b| *b < f64::INFINITY).collect();
    Ok(WeightedDraws { psis: psis::smooth(&usable), draws: z, log_ratios })
}

impl WeightedDraws {
    /// `n` draws with replacement, in proportion to the smoothed weights. Empty if there is no usable draw.
    pub fn resample(&self, n: usize, seed: u64) -> Vec<f64> {
        let Some(d) = self.draws.len().checked_div(self.log_ratios.len()) else { return Vec::new() };
        let usable = (0..self.log_ratios.len()).filter(|&i| self.log_ratios[i] < f64::INFINITY);
        let mut up_to = 0.0;
        let cumulative: Vec<(usize, f64)> = usable
            .zip(&self.psis.log_weights)
            .map(|(i, log_weight)| {
                up_to += log_weight.exp();
                (i, up_to)
            })
            .collect();
        if !(up_to > 0.0 && up_to.is_finite()) {
            return Vec::new();
        }
        let mut noise = Noise::new(seed, Purpose::Resample, u64::MAX, 0, 0);
        let mut chosen = Vec::with_capacity(n * d);
        for _ in 0..n {
            let u = noise.uniform() * up_to;
            let at = cumulative.partition_point(|(_, up_to)| *up_to <= u).min(cumulative.len() - 1);
            let i = cumulative[at].0;
            chosen.extend_from_slice(&self.draws[i * d..(i + 1) * d]);
        }
        chosen
    }
}
