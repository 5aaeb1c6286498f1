//! The log evidence from draws of chains, by bridge sampling (Meng and Wong, 1996).
//!
//! One half of the chains shows what a Gaussian proposal should be, in the coordinates in which they moved; the bridge is between
//! that and the other half, which has not been used to fit it. Then the halves change places. The relative error of each estimate is
//! that of Fruehwirth-Schnatter (2004), with as many chain draws as are effective.
//!
//! In hundreds of dimensions a few thousand draws know a covariance badly, and a proposal that is off by a little in every
//! direction hardly overlaps with the target. Gradients know it far better: Stein's identity, `E[-g (y - m)'] = I` for the gradient
//! `g` of any log density, turns the regression of gradients on draws into an estimate of the precision without any noise where the
//! density is Gaussian, and with less the nearer it is to that.

use super::Metric;
use super::coordinates::Coordinates;
use super::draws::ChainDraws;
use super::statistics::Traces;
use crate::answer::diagnose::Estimate;
use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::family::covariance::Full;
use crate::family::{Gaussian, Mixture, log_sum_exp};
use crate::linalg::{self, Memory, Transpose};
use crate::noise::Purpose;
use crate::run::time_left::TimeLeft;

/// Draws from the proposal of each half, and draws of the chains at which gradients are asked for: at least so many, and so many
/// times the dimension.
const PROPOSED: usize = 1_000;
const GRADIENTS: usize = 800;
const GRADIENTS_PER_DIMENSION: f64 = 2.5;
/// Most dimensions: beyond, a whole covariance takes too many gradients.
pub(super) const MOST_DIMENSIONS: usize = 1_000;
/// Points per chunk.
const CHUNK: usize = 64;
/// Stream of random numbers, beyond those of iterations.
const STREAM: u64 = u64::MAX - 8;
/// Steps of the iteration for the optimal bridge, and the change at which it ends.
const STEPS: usize = 500;
const CONVERGED: f64 = 1e-9;
/// By how much errors are larger than the variances say: effective draws are an estimate, too.
const INFLATION: f64 = 1.1;
/// Largest error of the log evidence that is stated: beyond, the proposal overlaps too little for the error itself to be known.
const LARGEST_ERROR: f64 = 0.25;
/// Error by weights from which on nothing better is sought.
const SMALL_ERROR: f64 = 0.02;
/// Errors by which the two halves may differ, and a difference that only makes the error larger.
const MOST_APART: f64 = 4.0;
const NEAR: f64 = 0.1;
/// Share of draws of a proposal at which the density may fail.
const MOST_FAILED: f64 = 0.01;

/// What a verdict notes where it is not known.
pub(crate) const NOT_KNOWN: &str =
    "the log evidence is not known: no proposal fitted to the chains overlaps enough with them";
/// Evaluations that it takes, about.
pub(super) fn evaluations(d: usize, proposed: usize) -> usize {
    2 * (proposed + gradients(d))
}

/// Gradients that each proposal is fitted to, at most.
fn gradients(d: usize) -> usize {
    GRADIENTS.max((GRADIENTS_PER_DIMENSION * d as f64) as usize)
}

/// Which points (one after another) belong to what is integrated.
pub(crate) type Inside<'a> = dyn Fn(&[f64]) -> Vec<bool> + 'a;

/// The two halves of the chains, each with the proposal that was fitted to it.
pub(crate) struct Bridge {
    d: usize,
    scales: Option<Coordinates>,
    halves: [Half; 2],
    proposals: [Mixture; 2],
    /// Draws from each proposal.
    proposed: usize,
}

/// Every other group of chains that have started at one point.
struct Half {
    /// Iteration after iteration, in the target's coordinates and in those of the chains, with log densities in the latter.
    z: Vec<f64>,
    y: Vec<f64>,
    log_p: Vec<f64>,
    chains: usize,
    per_start: usize,
}

impl Bridge {
    /// Fits both proposals, of which so many draws will be `proposed`. None where the chains have too few for the dimension.
    pub fn fit(evaluator: &mut dyn Evaluator, chains: &ChainDraws, proposed: usize) -> Result<Option<Self>, Error> {
        let d = evaluator.dim();
        let starts = chains.chains.checked_div(chains.per_start).unwrap_or(0);
        if d > MOST_DIMENSIONS || starts < 2 || starts % 2 == 1 {
            return Ok(None);
        }
        let scales = chains.scales.clone();
        let halves = [0, 1].map(|which| Half::of(chains, which, scales.as_ref(), d));
        let mut proposals = Vec::new();
        for half in &halves {
            let Some(proposal) = half.proposal(evaluator, scales.as_ref(), d)? else { return Ok(None) };
            proposals.push(Mixture::single(proposal));
        }
        let Ok(proposals) = <[Mixture; 2]>::try_from(proposals) else { return Ok(None) };
        Ok(Some(Self { d, scales, halves, proposals, proposed }))
    }

    /// The log of the integral of the density over what is `inside`, with its standard error. None where it is not known.
    pub fn log_evidence(
        &self,
        evaluator: &mut dyn Evaluator,
        inside: &Inside<'_>,
        seed: u64,
    ) -> Result<Option<Estimate>, Error> {
        let mut found = Vec::new();
        for (which, proposal) in self.proposals.iter().enumerate() {
            let half = &self.halves[1 - which];
            let Some(one) = self.across(evaluator, (proposal, half), inside, (seed, STREAM + which as u64))? else {
                return Ok(None);
            };
            found.push(one);
        }
        Ok(combine(found[0], found[1]))
    }

    /// Log density of both proposals together, at points in the target's coordinates.
    pub fn log_density(&self, points: &[f64]) -> Vec<f64> {
        let mut y = points.to_vec();
        let mut log_det = vec![0.0; points.len() / self.d];
        if let Some(scales) = &self.scales {
            scales.backward(&mut y);
            log_det = scales.log_det(&y);
        }
        let each = self.proposals.each_ref().map(|proposal| proposal.log_density(&y));
        let both = each[0].iter().zip(&each[1]).zip(log_det);
        both.map(|((a, b), log_det)| log_sum_exp(&[*a, *b]) - std::f64::consts::LN_2 - log_det).collect()
    }

    fn across(
        &self,
        evaluator: &mut dyn Evaluator,
        (proposal, half): (&Mixture, &Half),
        inside: &Inside<'_>,
        (seed, stream): (u64, u64),
    ) -> Result<Option<Estimate>, Error> {
        let mut y = vec![0.0; self.proposed * self.d];
        proposal.draw(&mut y, seed, Purpose::Chains, stream);
        let mut z = y.clone();
        if let Some(scales) = &self.scales {
            scales.forward(&mut z);
        }
        let (mut log_p, _) = evaluate(evaluator, &z, self.d, false)?;
        if log_p.iter().filter(|log_p| log_p.is_nan()).count() as f64 > MOST_FAILED * self.proposed as f64 {
            return Ok(None);
        }
        if let Some(scales) = &self.scales {
            log_p.iter_mut().zip(scales.log_det(&y)).for_each(|(log_p, log_det)| *log_p += log_det);
        }
        let kept = |log_p: &[f64], y: &[f64], z: &[f64]| -> Vec<Option<f64>> {
            let ratios = log_p.iter().zip(proposal.log_density(y)).zip(inside(z));
            ratios.map(|((log_p, log_q), inside)| inside.then_some(log_p - log_q)).collect()
        };
        let proposed = kept(&log_p, &y, &z).into_iter();
        // Where the density is zero or fails, and outside, nothing is counted.
        let proposed =
            proposed.map(|ratio| ratio.filter(|ratio| !ratio.is_nan()).unwrap_or(f64::NEG_INFINITY)).collect();
        let chains = kept(&half.log_p, &half.y, &half.z);
        Ok(Ratios { chains, proposed, shape: (half.chains, half.per_start) }.bridge())
    }
}

/// The log evidence by weights, if they can be relied on, or by chains, whichever is known better. None where it is not known.
pub(crate) fn best(
    evaluator: &mut dyn Evaluator,
    (by_weights, chains): (Option<Estimate>, &ChainDraws),
    seed: u64,
    time: &TimeLeft,
) -> Result<Option<Estimate>, Error> {
    let well_known = by_weights.is_some_and(|known| known.se <= SMALL_ERROR);
    let found = match &chains.modes {
        Some(modes) => modes.log_evidence,
        None if well_known || chains.stopped || !time.allows(evaluations(evaluator.dim(), PROPOSED)) => None,
        None => of_chains(evaluator, chains, seed)?,
    };
    Ok(match (by_weights, found) {
        (Some(known), Some(found)) => {
            let better = if found.se < known.se { found } else { known };
            let apart = (found.mean - known.mean).abs();
            let contradict = apart > 2.0 * found.se.hypot(known.se);
            Some(if contradict { Estimate { se: better.se.max(0.5 * apart), ..better } } else { better })
        }
        (known, found) => known.or(found),
    })
}

/// The log evidence of a target by its chains. None where it is not known.
fn of_chains(evaluator: &mut dyn Evaluator, chains: &ChainDraws, seed: u64) -> Result<Option<Estimate>, Error> {
    let everywhere = |points: &[f64]| vec![true; points.len() / chains.dim().max(1)];
    match Bridge::fit(evaluator, chains, PROPOSED)? {
        Some(bridge) => bridge.log_evidence(evaluator, &everywhere, seed),
        None => Ok(None),
    }
}

/// What two independent estimates say together. None where that is too little, or where they contradict each other.
fn combine(a: Estimate, b: Estimate) -> Option<Estimate> {
    let (apart, together) = ((a.mean - b.mean).abs(), INFLATION * a.se.hypot(b.se));
    let se = if apart > 2.0 * together { 0.5 * apart } else { 0.5 * together };
    let known = apart <= NEAR.max(MOST_APART * together) && se <= LARGEST_ERROR;
    known.then_some(Estimate { mean: 0.5 * (a.mean + b.mean), se })
}

impl Half {
    fn of(chains: &ChainDraws, which: usize, scales: Option<&Coordinates>, d: usize) -> Self {
        let (count, per_start) = (chains.chains, chains.per_start);
        let own = |row: &usize| row % count / per_start % 2 == which;
        let rows: Vec<usize> = (0..chains.log_p.len()).filter(own).collect();
        let z: Vec<f64> = rows.iter().flat_map(|&row| &chains.draws[row * d..(row + 1) * d]).copied().collect();
        let mut log_p: Vec<f64> = rows.iter().map(|&row| chains.log_p[row]).collect();
        let mut y = z.clone();
        if let Some(scales) = scales {
            scales.backward(&mut y);
            log_p.iter_mut().zip(scales.log_det(&y)).for_each(|(log_p, log_det)| *log_p += log_det);
        }
        Self { z, y, log_p, chains: count / 2, per_start }
    }

    /// A Gaussian near these draws, in the coordinates of the chains.
    fn proposal(
        &self,
        evaluator: &mut dyn Evaluator,
        scales: Option<&Coordinates>,
        d: usize,
    ) -> Result<Option<Gaussian>, Error> {
        let count = self.log_p.len();
        let wanted = gradients(d).min(count);
        if 2 * wanted < 3 * d {
            return Ok(None);
        }
        let rows = || (0..wanted).map(|i| i * count / wanted);
        let some =
            |points: &[f64]| -> Vec<f64> { rows().flat_map(|row| &points[row * d..(row + 1) * d]).copied().collect() };
        let (z, y) = (some(&self.z), some(&self.y));
        let (mut log_p, mut grad) = evaluate(evaluator, &z, d, true)?;
        if let Some(scales) = scales {
            scales.pull_back(&y, &mut log_p, &mut grad);
        }
        if grad.iter().any(|g| !g.is_finite()) {
            return Ok(None);
        }
        let Some((mean, covariance)) = by_gradients(&y, grad, d) else { return Ok(None) };
        let Metric::Dense { covariance, .. } = Metric::dense(covariance, d).adapted(&self.y, self.chains, d).0 else {
            return Ok(None);
        };
        Ok(Full::from_covariance(d, covariance).ok().map(|precision| Gaussian::new(mean, precision)))
    }
}

/// Log densities, and gradients if they are wanted.
fn evaluate(evaluator: &mut dyn Evaluator, z: &[f64], d: usize, gradient: bool) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let request = Request { gradient, ..Request::default() };
    let part = Part::new(z, d, CHUNK, &request);
    let ticket = evaluator.submit(Batch { request, parts: vec![part] });
    let Part { log_p, grad, .. } = evaluator.collect(ticket)?.parts.pop().unwrap_or_default();
    Ok((log_p, grad))
}

/// Mean and covariance of draws, by the regression of their gradients on them; by the draws alone where that is not positive
/// definite.
fn by_gradients(draws: &[f64], mut grad: Vec<f64>, d: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let count = draws.len() / d;
    let mut x = draws.to_vec();
    let (mut mean, slope) = (centre(&mut x, d), centre(&mut grad, d));
    let mut factor = vec![0.0; d * d];
    linalg::product_bt(&mut factor, false, 1.0 / count as f64, &x, &x, (d, count, d));
    let sample = factor.clone();
    linalg::cholesky(&mut factor, d, &mut Memory::default()).ok()?;
    // In coordinates in which the draws have unit covariance.
    linalg::solve_lower(&factor, &mut x, d, count);
    let mut steep = vec![0.0; count * d];
    linalg::product(&mut steep, false, 1.0, &factor, Transpose::Yes, &grad, (d, d, count));
    let mut precision = vec![0.0; d * d];
    linalg::product_bt(&mut precision, false, -1.0 / count as f64, &steep, &x, (d, count, d));
    linalg::symmetrise(&mut precision, d);
    if linalg::cholesky(&mut precision, d, &mut Memory::default()).is_err() {
        return Some((mean, sample));
    }
    let (mut half, mut covariance) = (vec![0.0; d * d], vec![0.0; d * d]);
    linalg::transpose(&mut half, &factor, d);
    linalg::solve_lower(&precision, &mut half, d, d);
    linalg::product(&mut covariance, false, 1.0, &half, Transpose::Yes, &half, (d, d, d));
    linalg::symmetrise(&mut covariance, d);
    // Gradients are zero on average: where they are not, the draws are off.
    let mut step = vec![0.0; d];
    linalg::product(&mut step, false, 1.0, &covariance, Transpose::No, &slope, (d, d, 1));
    mean.iter_mut().zip(&step).for_each(|(mean, step)| *mean += step);
    Some((mean, covariance))
}

/// Subtracts the mean of points, and returns it.
fn centre(points: &mut [f64], d: usize) -> Vec<f64> {
    let (mut mean, count) = (vec![0.0; d], (points.len() / d) as f64);
    points.chunks_exact(d).for_each(|z| mean.iter_mut().zip(z).for_each(|(m, z)| *m += z / count));
    points.chunks_exact_mut(d).for_each(|z| z.iter_mut().zip(&mean).for_each(|(z, m)| *z -= m));
    mean
}

/// Logs of the ratio of the density to that of the proposal.
struct Ratios {
    /// At draws of the chains, iteration after iteration; none outside.
    chains: Vec<Option<f64>>,
    /// At draws of the proposal.
    proposed: Vec<f64>,
    /// Number of chains, and how many have started at one point.
    shape: (usize, usize),
}

impl Ratios {
    /// The optimal bridge, and the error of its log.
    fn bridge(&self) -> Option<Estimate> {
        let inside: Vec<f64> = self.chains.iter().flatten().copied().collect();
        if inside.is_empty() || inside.iter().any(|ratio| !ratio.is_finite()) {
            return None;
        }
        let share_inside = inside.len() as f64 / self.chains.len() as f64;
        let effective = self.effective(|ratio| ratio) * share_inside;
        let proposed = self.proposed.len() as f64;
        let [of_chains, of_proposal] = [effective, proposed].map(|count| count / (effective + proposed));
        // One over what both densities together are, in units of that of the proposal; the density is divided by e^c.
        let weight = |ratio: f64, c: f64| 1.0 / (of_chains * (ratio - c).exp() + of_proposal);
        let mut sorted = inside.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut c = sorted[sorted.len() / 2];
        for _ in 0..STEPS {
            // By logs: a ratio may be far from e^c.
            let together = |ratio: f64| log_sum_exp(&[of_chains.ln() + ratio, of_proposal.ln() + c]);
            let above: Vec<f64> = self.proposed.iter().map(|&ratio| ratio - together(ratio)).collect();
            let below: Vec<f64> = inside.iter().map(|&ratio| -together(ratio)).collect();
            let mean = |logs: &[f64]| log_sum_exp(logs) - (logs.len() as f64).ln();
            let next = mean(&above) - mean(&below);
            let change = (next - c).abs();
            c = next;
            if change < CONVERGED || !c.is_finite() {
                break;
            }
        }
        let under_proposal = self.proposed.iter().map(|&ratio| {
            let odds = (ratio - c).exp();
            if odds.is_infinite() { 1.0 / of_chains } else { odds * weight(ratio, c) }
        });
        let under_chains = inside.iter().map(|&ratio| weight(ratio, c));
        let by_chains = self.effective(|ratio| weight(ratio, c)) * share_inside;
        let squared = relative_variance(under_proposal) / proposed + relative_variance(under_chains) / by_chains;
        (c.is_finite() && squared.is_finite()).then_some(Estimate { mean: c, se: squared.sqrt() })
    }

    /// Effective draws of the chains for some figure of the ratio.
    fn effective(&self, figure: impl Fn(f64) -> f64) -> f64 {
        let known = || self.chains.iter().flatten().map(|&ratio| figure(ratio));
        // What lies outside must not count as a movement.
        let middle = known().sum::<f64>() / known().count().max(1) as f64;
        let values: Vec<f64> = self.chains.iter().map(|ratio| ratio.map_or(middle, &figure)).collect();
        let (chains, per_start) = self.shape;
        Traces { values: &values, chains, per_start }.effective()
    }
}

fn relative_variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let (mean, variance) = super::statistics::mean_and_variance(values);
    variance / (mean * mean)
}

#[cfg(test)]
mod tests;
