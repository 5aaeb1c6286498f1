//! Mass beside the mixture that its draws do not see, found by chains that walk out of it.
//!
//! The draws with the largest importance weights are those at the edge of what the mixture covers. Chains start at them and
//! move as the density demands. Call `E` the places with weights as large as theirs, whose mass is known, and `B` those whose weight is
//! clearly larger than that of every draw. A chain that leaves the density as it is goes from `E` to `B` as often as from `B` to `E`,
//! so that the mass of `B` is at least that of `E` times the share of chains that are found in `B`: a lower bound, with no
//! assumption about the tail. Where the draws are right it is about one over their number.

use super::diagnose::{Estimate, WeightedDraws};
use crate::chains::walkers::{Group, Integrator};
use crate::chains::{Metric, Walkers};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::{Mixture, MixtureBlock};
use crate::noise::{Noise, Purpose};
use crate::run::time_left::TimeLeft;
use crate::target::Points;
use crate::workspace::Scratch;

/// Trajectories of each chain, and their leapfrog steps: later, chains would be on their way back.
const TRAJECTORIES: u64 = 8;
const STEPS: usize = 3;
/// Chains at first, after a small fit, and added where mass seems to be missed.
const CHAINS: usize = 64;
const FEW_CHAINS: usize = 16;
const MORE_CHAINS: usize = 192;
/// Bound from which on more chains look, and from which on the mixture misses too much.
const SUSPICIOUS: f64 = 0.0008;
const MOST_MISSED: f64 = 0.0016;
/// Least mass of the draws at which chains start.
const EDGE: f64 = 0.03;
/// Length of a step in one dimension, in standard deviations of a component.
const STEP: f64 = 0.6;
/// How far beyond the largest log weight a place must lie: where weights have a bound, the places near it are never all met.
const MARGIN: f64 = 0.1;
/// Share of accepted trajectories below which steps are made shorter, and by which factor: chains that stay see nothing.
const FEW_ACCEPTED: f64 = 0.4;
const SHORTER: f64 = 0.6;

/// How many chains look around at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Few chains, after a small fit.
    Quick,
    /// As many as suit any other fit.
    Usual,
}

impl Effort {
    /// The largest effort up to this one for which there is time.
    pub fn within(self, time: &TimeLeft) -> Option<Self> {
        [self, Self::Quick].into_iter().find(|effort| time.allows(evaluations(effort.chains())))
    }

    fn chains(self) -> usize {
        match self {
            Self::Quick => FEW_CHAINS,
            Self::Usual => CHAINS,
        }
    }
}

/// Evaluations of so many chains.
fn evaluations(chains: usize) -> usize {
    chains * (1 + STEPS * TRAJECTORIES as usize)
}

/// Whether the mixture misses too much mass.
pub(super) fn is_too_much(missed: &Estimate) -> bool {
    missed.mean > MOST_MISSED && missed.mean > 2.0 * missed.se
}

/// A lower bound for the share of the mass that lies beside the mixture, with its error.
pub(super) fn missed_mass(
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    drawn: &WeightedDraws,
    (effort, time): (Effort, &TimeLeft),
    seed: u64,
) -> Result<Estimate, Error> {
    let Some(edge) = Edge::of(drawn) else { return Ok(Estimate { mean: f64::NAN, se: f64::NAN }) };
    let mut beyond = edge.walk(evaluator, q, effort.chains(), (seed, 0))?;
    let first = edge.bound(&beyond);
    if first.mean > SUSPICIOUS && time.allows(evaluations(MORE_CHAINS)) {
        beyond.extend(edge.walk(evaluator, q, MORE_CHAINS, (seed, 1))?);
    }
    Ok(edge.bound(&beyond))
}

/// The draws with the largest weights.
struct Edge<'a> {
    drawn: &'a WeightedDraws,
    weights: Vec<f64>,
    /// Positions of the draws, and their mass.
    members: Vec<usize>,
    mass: f64,
    /// The largest log weight.
    largest: f64,
}

impl<'a> Edge<'a> {
    fn of(drawn: &'a WeightedDraws) -> Option<Self> {
        let weights = drawn.weights();
        let mut order: Vec<usize> = (0..weights.len()).filter(|&i| drawn.log_ratios[i].is_finite()).collect();
        order.sort_by(|&i, &j| drawn.log_ratios[j].total_cmp(&drawn.log_ratios[i]));
        let largest = drawn.log_ratios[*order.first()?];
        let (mut mass, mut members) = (0.0, Vec::new());
        for i in order {
            if mass >= EDGE {
                break;
            }
            mass += weights[i];
            members.push(i);
        }
        Some(Self { drawn, weights, members, mass, largest })
    }

    /// Starts for chains in proportion to the weights, so that they have the density within the edge: components whose metric
    /// they use, and positions of draws.
    fn starts(&self, q: &Mixture, chains: usize, offset: f64) -> Vec<(usize, usize)> {
        let (d, mut at) = (q.dim(), 0);
        let mut up_to = self.weights[self.members[0]];
        let mut starts = Vec::with_capacity(chains);
        for chain in 0..chains {
            let position = (chain as f64 + offset) / chains as f64 * self.mass;
            while up_to <= position && at + 1 < self.members.len() {
                at += 1;
                up_to += self.weights[self.members[at]];
            }
            let i = self.members[at];
            starts.push((responsible(q, &self.drawn.draws[i * d..(i + 1) * d]), i));
        }
        starts.sort_unstable();
        starts
    }

    /// For each chain, the share of the later half of its trajectories that end beyond the edge.
    fn walk(
        &self,
        evaluator: &mut dyn Evaluator,
        q: &Mixture,
        chains: usize,
        (seed, round): (u64, u64),
    ) -> Result<Vec<f64>, Error> {
        let d = q.dim();
        let mut noise = Noise::new(seed, Purpose::Probe, u64::MAX, 0, round);
        let starts = self.starts(q, chains, noise.uniform());
        let mut components: Vec<usize> = starts.iter().map(|(component, _)| *component).collect();
        components.dedup();
        let metrics: Vec<Metric> = components.iter().map(|&k| Metric::of(&q.components()[k])).collect();
        let points: Vec<f64> =
            starts.iter().flat_map(|&(_, i)| self.drawn.draws[i * d..(i + 1) * d].iter().copied()).collect();
        let mut walkers = Walkers::start(evaluator, points)?;
        let (mut beyond, later) = (vec![0.0; chains], TRAJECTORIES / 2);
        let (mut scratch, mut scale) = (Scratch::default(), 1.0);
        for trajectory in 1..=TRAJECTORIES {
            let step = scale * STEP * (d as f64).powf(-0.25) * (0.7 + 0.6 * noise.uniform());
            let of_component = |(&k, metric)| {
                let chains = starts.partition_point(|s| s.0 < k)..starts.partition_point(|s| s.0 <= k);
                Group { metric, chains, step }
            };
            let groups: Vec<Group<'_>> = components.iter().zip(&metrics).map(of_component).collect();
            let key = (seed, Purpose::Probe, round * TRAJECTORIES + trajectory);
            let moves = walkers.advance(evaluator, &groups, (Integrator::Leapfrog, STEPS), key)?;
            if moves.acceptance.iter().sum::<f64>() < FEW_ACCEPTED * chains as f64 {
                scale *= SHORTER;
            }
            if trajectory > TRAJECTORIES - later {
                let mut log_q = vec![0.0; chains];
                q.log_density_into(&walkers.z, &mut log_q, &mut scratch);
                for (i, beyond) in beyond.iter_mut().enumerate() {
                    let outside = walkers.log_p[i] - log_q[i] > self.largest + MARGIN;
                    *beyond += f64::from(u8::from(outside)) / later as f64;
                }
            }
        }
        Ok(beyond)
    }

    fn bound(&self, beyond: &[f64]) -> Estimate {
        let chains = beyond.len() as f64;
        let share = beyond.iter().sum::<f64>() / chains;
        let variance = beyond.iter().map(|b| (b - share).powi(2)).sum::<f64>() / (chains * (chains - 1.0));
        Estimate { mean: self.mass * share, se: self.mass * variance.sqrt() }
    }
}

/// The component that is most responsible for a point.
fn responsible(q: &Mixture, z: &[f64]) -> usize {
    let mut scratch = Scratch::default();
    let block = MixtureBlock::new(q, Points::new(z, q.dim()), false, &mut scratch);
    (0..q.len()).max_by(|&a, &b| block.resp[a * block.stride].total_cmp(&block.resp[b * block.stride])).unwrap_or(0)
}

#[cfg(test)]
mod tests;
