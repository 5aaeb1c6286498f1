//! How far a mixture can be trusted: measured with fresh draws.
//!
//! With `b = log p - log q` at draws of q: the ELBO is the mean of b, the log evidence `log mean exp b`, and the tail
//! of the importance weights `exp b` tells by its Pareto k-hat whether q covers p.
//!
//! ```
//! use natmix::family::{Gaussian, Mixture};
//! let q = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
//! let diagnostics = natmix::diagnose(&q, &q, 1000, 0).unwrap();
//! assert!(diagnostics.verdict.trusted);
//! assert_eq!((diagnostics.elbo.mean, diagnostics.elbo.se), (0.0, 0.0));
//! ```

use crate::automatic::SearchSummary;
use crate::error::Error;
use crate::estimate::ScratchPool;
use crate::family::{Mixture, log_sum_exp};
use crate::noise::{Noise, Purpose};
use crate::psis::{self, Psis};
use crate::target::{EvalOut, Points, Rows, Target, TargetError};
use rayon::prelude::*;
use serde::Serialize;

/// Points of one task.
const CHUNK: usize = 64;
/// Largest share of draws that may fall where the density is zero or cannot be evaluated.
const MOST_DROPPED: f64 = 0.01;

/// Relative variance of the importance weights below which k-hat is passed over: they then hardly differ (an effective
/// sample size of 98%), and the shape of their tail says nothing about the fit.
const EVEN: f64 = 0.02;

/// An estimate with its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub mean: f64,
    /// Its Monte-Carlo standard error.
    pub se: f64,
}

/// What fresh draws say about a mixture.
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
    /// The plain answer.
    pub verdict: Verdict,
}

/// Whether to trust a fit, and why not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The answer.
    pub trusted: bool,
    /// What speaks against it; each says what to try.
    pub reasons: Vec<String>,
    /// What is worth knowing, but does not count against it.
    pub notes: Vec<String>,
}

/// Draws of a mixture with their importance weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// The draws, one after the other.
    pub draws: Vec<f64>,
    /// `log p - log q` at each.
    pub log_ratios: Vec<f64>,
    /// Pareto-smoothed weights.
    pub psis: Psis,
}

/// Measures `q` against `target` with `draws` fresh draws.
pub fn diagnose(target: &dyn Target, q: &Mixture, draws: usize, seed: u64) -> Result<Diagnostics, Error> {
    diagnose_in_pool(target, q, draws, seed, None, &ScratchPool::new(rayon::current_num_threads()))
}

pub(crate) fn diagnose_in_pool(
    target: &dyn Target,
    q: &Mixture,
    draws: usize,
    seed: u64,
    converged: Option<bool>,
    scratch: &ScratchPool,
) -> Result<Diagnostics, Error> {
    let Weighted { log_ratios, psis, .. } = weigh(target, q, draws, seed, Purpose::Diagnostics, scratch)?;
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

/// Share of starts in modes met only once, and agreement of two halves of the starts, beyond which the search itself says
/// that it has not seen everything.
const MANY_SINGLES: f64 = 0.2;
const LITTLE_AGREEMENT: f64 = 0.5;

impl Verdict {
    /// Adds what the search for modes knows: never more than it has seen.
    pub(crate) fn add_search(&mut self, search: &SearchSummary) {
        if search.log_concave {
            self.notes.push("the density is log-concave: it has one mode".into());
            return;
        }
        if search.starts == 0 {
            return;
        }
        let share = search.share_of_singles();
        if share > MANY_SINGLES && search.agreement < LITTLE_AGREEMENT {
            self.trusted = false;
            self.reasons.push(format!(
                "{:.0}% of {} starts ended in a place that no other start found: there is more to find \
                 (allow more evaluations, or start nearer to the mass)",
                100.0 * share,
                search.starts
            ));
        } else {
            self.notes.push(format!(
                "{} starts ended in {} place{}, {:.0}% of them in one that no other start found; \
                 modes that no start leads to would not be seen",
                search.starts,
                search.modes,
                if search.modes == 1 { "" } else { "s" },
                100.0 * share
            ));
        }
    }
}

fn verdict(diagnostics: &Diagnostics, weights_variance: f64, infinite: usize, converged: Option<bool>) -> Verdict {
    let Diagnostics { k_hat, k_threshold, draws, zero, failed, .. } = diagnostics;
    let (mut reasons, mut notes) = (Vec::new(), Vec::new());
    if converged == Some(false) {
        reasons.push("the ELBO had not come to rest when the run ended: allow more evaluations".to_owned());
    }
    if !k_hat.is_finite() {
        reasons.push("k-hat could not be computed: too few usable draws, or weights without a tail to fit".to_owned());
    } else if k_hat >= k_threshold && weights_variance <= EVEN {
        notes.push(format!(
            "k-hat {k_hat:.2} is above {k_threshold:.2}, but the importance weights hardly differ, so their tail carries nothing"
        ));
    } else if k_hat >= k_threshold {
        reasons.push(format!(
            "k-hat {k_hat:.2} is above {k_threshold:.2}: the mixture misses part of the posterior \
             (try more components or a full covariance)"
        ));
    }
    if infinite > 0 {
        reasons.push(format!(
            "the density is infinite at {infinite} of {draws} draws, and all of its mass may be there: \
             constrain the parameters away from such points"
        ));
    }
    if (zero + failed) as f64 > MOST_DROPPED * *draws as f64 {
        reasons.push(format!(
            "log p was not finite at {} of {draws} draws, which the ELBO leaves out: \
             constrain the parameters to where the density is positive",
            zero + failed
        ));
    }
    Verdict { trusted: reasons.is_empty(), reasons, notes }
}

/// Importance-weighs `draws` fresh draws of `q`.
pub fn weigh_draws(target: &dyn Target, q: &Mixture, draws: usize, seed: u64) -> Result<Weighted, Error> {
    weigh(target, q, draws, seed, Purpose::Sample, &ScratchPool::new(rayon::current_num_threads()))
}

fn weigh(
    target: &dyn Target,
    q: &Mixture,
    draws: usize,
    seed: u64,
    purpose: Purpose,
    scratch: &ScratchPool,
) -> Result<Weighted, Error> {
    let d = q.dim();
    if target.dim() != d {
        let problem = format!("the target has dimension {}, the mixture {d}", target.dim());
        return Err(Error::InvalidInput(problem));
    }
    let mut z = vec![0.0; draws * d];
    q.draw(&mut z, seed, purpose, 0);
    let mut log_ratios = vec![0.0; draws];
    let whole = target.whole_batches();
    if whole {
        let out = EvalOut { log_p: &mut log_ratios, grad: None, curv: None };
        scratch.with(|scratch| target.eval(Rows::All, Points::new(&z, d), out, scratch))?;
    }
    z.par_chunks(CHUNK * d).zip(log_ratios.par_chunks_mut(CHUNK)).try_for_each(|(z, b)| {
        scratch.with(|scratch| -> Result<(), TargetError> {
            if !whole {
                target.eval(Rows::All, Points::new(z, d), EvalOut { log_p: b, grad: None, curv: None }, scratch)?;
            }
            let mut log_q = scratch.take(b.len());
            q.log_density_into(z, &mut log_q, scratch);
            b.iter_mut().zip(&log_q).for_each(|(b, q)| *b -= q);
            scratch.give(log_q);
            Ok(())
        })
    })?;
    // A point that cannot be evaluated has no weight; one of infinite density would have all of it, falsely.
    let usable: Vec<f64> = log_ratios.iter().copied().filter(|b| *b < f64::INFINITY).collect();
    Ok(Weighted { psis: psis::smooth(&usable), draws: z, log_ratios })
}

impl Weighted {
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
