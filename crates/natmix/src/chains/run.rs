//! Chains from a Gaussian start to draws with a certificate.
//!
//! 64 chains start in 8 groups, each at one point drawn from a widened start. They warm up with short trajectories, then in
//! windows after each of which the metric is estimated again from all of them, while the length of their steps follows the
//! share of accepted trajectories. Then iterations are kept, in rounds, until the [certificate](super::certificate) holds
//! twice in a row. If it does not for long, what was kept becomes one more window of the warm-up, and twice as many are tried.

use super::certificate::{Certificate, certify};
use super::start::ChainStart;
use super::walkers::{Group, Moves};
use super::{Metric, Walkers};
use crate::answer::delivered::{DeliveredChains, DeliveredDraws};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::noise::{Noise, Purpose};
use crate::target::Target;

/// Chains, and how many of them start at one point.
const CHAINS: usize = 64;
const PER_START: usize = 8;
/// Groups of chains that start at one point each.
pub(crate) const GROUPS: usize = CHAINS / PER_START;
/// Iterations with short trajectories, of each window, and to settle the step at the end.
const SHORT: u64 = 30;
const WINDOW: u64 = 25;
const WINDOWS: usize = 4;
const SETTLING: u64 = 15;
/// Length of a trajectory, in standard deviations, and of the short ones.
const TRAJECTORY: f64 = 1.5;
const SHORT_TRAJECTORY: f64 = 0.5;
/// Shortest and longest trajectory, as a share of their length.
const JITTER: (f64, f64) = (0.6, 1.4);
/// Most steps of a trajectory.
const MOST_STEPS: usize = 128;
/// Share of accepted trajectories that steps aim at: their harmonic mean, so that chains which are stuck count.
const ACCEPTED: f64 = 0.65;
const LEAST_ACCEPTANCE: f64 = 0.05;
/// Kept iterations per round, and rounds before the first certificate and before a new warm-up.
const ROUND: u64 = 25;
const FEWEST_ROUNDS: usize = 3;
const MOST_ROUNDS: usize = 12;
/// Iterations per independent one, about, while warming up.
const CORRELATED: f64 = 3.0;
/// Largest acceptance of a trajectory that has diverged.
const DIVERGED: f64 = 1e-8;

/// What the chains have left.
#[derive(Clone, Debug)]
pub struct ChainDraws {
    /// Points: iteration after iteration, all chains together.
    pub draws: Vec<f64>,
    /// Their log densities.
    pub log_p: Vec<f64>,
    /// The energies with which the trajectories that led to them started.
    pub energy: Vec<f64>,
    /// Number of chains; the first `per_start` of them have started at one point, the next at another, and so on.
    pub chains: usize,
    /// Chains that have started at one point.
    pub per_start: usize,
    /// Whether they may be relied on.
    pub certificate: Certificate,
    /// Whether the run ended before the certificate held for want of evaluations.
    pub exhausted: bool,
}

/// Most numbers that are delivered and stored, and between which numbers of draws they are.
const DELIVERED_NUMBERS: usize = 6_000_000;
const DELIVERED: (usize, usize) = (2_048, 16_384);

impl ChainDraws {
    /// Draws of equal weight, to deliver and store, chain after chain: of every so many iterations, if there are too many.
    pub fn delivered(&self) -> DeliveredDraws {
        let (total, chains) = (self.log_p.len(), self.chains);
        let d = self.draws.len().checked_div(total).unwrap_or(0);
        let most = DELIVERED_NUMBERS.checked_div(d).unwrap_or(0).clamp(DELIVERED.0, DELIVERED.1);
        let every = total.div_ceil(most).max(1);
        let iterations = total.checked_div(chains).unwrap_or(0);
        let places = || {
            let of_chain = move |chain| (0..iterations).step_by(every).map(move |t| t * chains + chain);
            (0..chains).flat_map(of_chain)
        };
        let change = |at: usize| match at + chains < total {
            true => self.energy[at + chains] - self.energy[at],
            false => self.energy[at] - self.energy[at.checked_sub(chains).unwrap_or(at)],
        };
        let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
        let count = places().count();
        DeliveredDraws {
            draws: places().flat_map(|at| self.draws[at * d..(at + 1) * d].iter().copied()).collect(),
            weights: vec![1.0 / count as f64; count],
            chains: Some(DeliveredChains {
                count: chains,
                per_start: self.per_start,
                every,
                log_p: places().map(|at| finite(self.log_p[at])).collect(),
                energy: places().map(|at| finite(self.energy[at])).collect(),
                energy_change: places().map(|at| finite(change(at))).collect(),
            }),
        }
    }
}

/// Chains with their adaptation.
struct Run<'a> {
    target: &'a dyn Target,
    evaluator: &'a mut dyn Evaluator,
    walkers: Walkers,
    metric: Metric,
    log_step: f64,
    /// Iterations done, and those since the metric changed.
    iteration: u64,
    adapted: u64,
    seed: u64,
    /// Evaluations at which to stop.
    limit: u64,
}

/// Runs chains from `start` until their certificate holds, with at most `most` evaluations.
pub(crate) fn run(
    target: &dyn Target,
    evaluator: &mut dyn Evaluator,
    start: &ChainStart,
    seed: u64,
    most: u64,
) -> Result<ChainDraws, Error> {
    let d = start.gaussian.dim();
    let limit = evaluator.spent().evals.saturating_add(most);
    let points = first_points(evaluator, start)?;
    let walkers = Walkers::start(evaluator, points)?;
    let log_step = (0.4 * (d as f64).powf(-0.25)).ln();
    let metric = Metric::of(&start.gaussian);
    let mut run = Run { target, evaluator, walkers, metric, log_step, iteration: 0, adapted: 0, seed, limit };
    run.warm_up()?;
    run.keep()
}

/// One point for each group of chains; the mean where the density cannot be evaluated there.
fn first_points(evaluator: &mut dyn Evaluator, start: &ChainStart) -> Result<Vec<f64>, Error> {
    let d = start.gaussian.dim();
    let found = Walkers::start(evaluator, start.points.clone())?;
    let usable = |i: usize| found.log_p[i].is_finite() && found.grad[i * d..(i + 1) * d].iter().all(|g| g.is_finite());
    let each = (0..GROUPS).map(|i| if usable(i) { &found.z[i * d..(i + 1) * d] } else { start.gaussian.mean() });
    Ok(each.flat_map(|z| z.repeat(PER_START)).collect())
}

impl Run<'_> {
    fn warm_up(&mut self) -> Result<(), Error> {
        for _ in 0..SHORT {
            self.iterate(SHORT_TRAJECTORY, Some(1.0 / 3.0))?;
        }
        for _ in 0..WINDOWS {
            let mut window = Vec::new();
            for _ in 0..WINDOW {
                self.iterate(TRAJECTORY, Some(1.0))?;
                window.extend_from_slice(&self.walkers.z);
            }
            self.adapt(&window);
        }
        for _ in 0..SETTLING {
            self.iterate(TRAJECTORY, Some(1.0))?;
        }
        Ok(())
    }

    /// Takes the metric from draws.
    fn adapt(&mut self, draws: &[f64]) {
        let d = self.walkers.d;
        let effective = (draws.len() / d) as f64 / CORRELATED;
        self.metric = self.metric.adapted(draws, effective, d);
        self.adapted = 0;
    }

    /// One trajectory of every chain. While warming up, the step adapts, and is used at a `share` of its length. Returns what
    /// they came to.
    fn iterate(&mut self, length: f64, warming: Option<f64>) -> Result<Moves, Error> {
        self.iteration += 1;
        let mut noise = Noise::new(self.seed, Purpose::Chains, 1, self.iteration, 1);
        let length = length * (JITTER.0 + (JITTER.1 - JITTER.0) * noise.uniform());
        let longest = self.log_step.exp() * warming.unwrap_or(1.0);
        let steps = ((length / longest).ceil() as usize).clamp(1, MOST_STEPS);
        let step = (length / steps as f64).min(longest);
        let groups = [Group { metric: &self.metric, chains: 0..self.walkers.len(), step }];
        let key = (self.seed, Purpose::Chains, self.iteration);
        let moves = self.walkers.advance(self.evaluator, &groups, steps, key)?;
        if warming.is_some() {
            self.adapted += 1;
            let inverse: f64 = moves.acceptance.iter().map(|a| 1.0 / a.max(LEAST_ACCEPTANCE)).sum();
            let harmonic = moves.acceptance.len() as f64 / inverse;
            self.log_step += (harmonic - ACCEPTED) / (self.adapted as f64).powf(0.4);
        }
        Ok(moves)
    }

    /// Keeps rounds of iterations until the certificate holds twice.
    fn keep(mut self) -> Result<ChainDraws, Error> {
        let mut most_rounds = MOST_ROUNDS;
        loop {
            let (mut draws, mut log_p, mut energy) = (Vec::new(), Vec::new(), Vec::new());
            let (mut diverged, mut held) = (0, false);
            for round in 1.. {
                for _ in 0..ROUND {
                    let moves = self.iterate(TRAJECTORY, None)?;
                    diverged += moves.acceptance.iter().filter(|a| **a <= DIVERGED).count();
                    energy.extend_from_slice(&moves.energy);
                    draws.extend_from_slice(&self.walkers.z);
                    log_p.extend_from_slice(&self.walkers.log_p);
                }
                let exhausted = self.evaluator.spent().evals >= self.limit;
                if round < FEWEST_ROUNDS && !exhausted {
                    continue;
                }
                let certificate = self.certify(&draws, diverged as f64 / log_p.len() as f64);
                let holds = certificate.reasons.is_empty();
                if holds && held || exhausted {
                    let (chains, per_start, exhausted) = (CHAINS, PER_START, !holds);
                    return Ok(ChainDraws { draws, log_p, energy, chains, per_start, certificate, exhausted });
                }
                held = holds;
                if round >= most_rounds && !held {
                    break;
                }
            }
            // The first half may still have been on its way.
            let later = draws.len() / self.walkers.d / 2 * self.walkers.d;
            self.adapt(&draws[later..]);
            for _ in 0..SETTLING {
                self.iterate(TRAJECTORY, Some(1.0))?;
            }
            most_rounds *= 2;
        }
    }

    fn certify(&self, draws: &[f64], diverged: f64) -> Certificate {
        let (d, target) = (self.walkers.d, self.target);
        let names = target.parameter_names();
        let mut parameters = vec![0.0; draws.len() / d * names.len()];
        for (z, row) in draws.chunks_exact(d).zip(parameters.chunks_exact_mut(names.len())) {
            target.to_parameters(z, row);
        }
        let column = |j: usize| parameters.iter().skip(j).step_by(names.len()).copied().collect();
        certify(&names, (CHAINS, PER_START), &column, diverged)
    }
}
