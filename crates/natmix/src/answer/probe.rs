//! Mass beside the mixture that its draws do not see, found by chains that walk out of it.
//!
//! The draws with the largest importance weights are those at the edge of what the mixture covers. Chains start at them and
//! move as the density demands. Call `E` the set of these draws' region, of known mass, and `B` all places whose weight is
//! larger than that of every draw. A chain that leaves the density as it is goes from `E` to `B` as often as from `B` to `E`,
//! so that the mass of `B` is at least that of `E` times the share of chains that are found in `B`: a lower bound, with no
//! assumption about the tail. Where the draws are right it is about one over their number.

use super::diagnose::{Estimate, WeightedDraws};
use crate::chains::walkers::Group;
use crate::chains::{Metric, Walkers};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::{Mixture, MixtureBlock};
use crate::noise::{Noise, Purpose};
use crate::run::time_left::TimeLeft;
use crate::target::Points;
use crate::workspace::Scratch;

/// Leapfrog steps of a trajectory.
const STEPS: usize = 6;
/// Share of the mass from which on the mixture misses too much: in the battery's targets for which constants are chosen,
/// answers that are right stay below it.
const MOST_MISSED: f64 = 0.0025;
/// Least mass of the draws at which chains start.
const EDGE: f64 = 0.03;
/// Length of a step in one dimension, in standard deviations of a component.
const STEP: f64 = 0.6;

/// Share of accepted trajectories below which steps are made shorter, and by which factor: chains that stay see nothing.
const FEW_ACCEPTED: f64 = 0.4;
const SHORTER: f64 = 0.6;

/// How many chains look around, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// 384 evaluations.
    Quick,
    /// 1,536 evaluations.
    Usual,
    /// 4,608 evaluations.
    Thorough,
}

impl Effort {
    /// The largest effort up to this one for which there is time.
    pub fn within(self, time: &TimeLeft) -> Option<Self> {
        let allowed = |effort: &Self| {
            let (chains, trajectories) = effort.size();
            time.allows(chains * STEPS * trajectories as usize)
        };
        [self, Self::Quick].into_iter().find(allowed)
    }

    /// Chains, and trajectories of each.
    fn size(self) -> (usize, u64) {
        match self {
            Self::Quick => (16, 4),
            Self::Usual => (32, 8),
            Self::Thorough => (48, 16),
        }
    }
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
    effort: Effort,
    seed: u64,
) -> Result<Estimate, Error> {
    let (d, (chains, trajectories)) = (q.dim(), effort.size());
    let weights = drawn.weights();
    let mut order: Vec<usize> = (0..weights.len()).filter(|&i| drawn.log_ratios[i].is_finite()).collect();
    order.sort_by(|&i, &j| drawn.log_ratios[j].total_cmp(&drawn.log_ratios[i]));
    let Some(&first) = order.first() else { return Ok(Estimate { mean: f64::NAN, se: f64::NAN }) };
    let largest = drawn.log_ratios[first];
    let mut mass = 0.0;
    let edge: Vec<usize> = order
        .into_iter()
        .take_while(|&i| {
            let inside = mass < EDGE;
            mass += if inside { weights[i] } else { 0.0 };
            inside
        })
        .collect();
    // In proportion to the weights, so that the chains start with the density within the edge.
    let mut noise = Noise::new(seed, Purpose::Probe, u64::MAX, 0, 0);
    let (offset, mut up_to, mut at) = (noise.uniform(), weights[edge[0]], 0);
    let mut starts: Vec<(usize, usize)> = Vec::with_capacity(chains);
    for chain in 0..chains {
        let position = (chain as f64 + offset) / chains as f64 * mass;
        while up_to <= position && at + 1 < edge.len() {
            at += 1;
            up_to += weights[edge[at]];
        }
        let z = &drawn.draws[edge[at] * d..(edge[at] + 1) * d];
        starts.push((responsible(q, z), edge[at]));
    }
    starts.sort_unstable();
    let mut components: Vec<usize> = starts.iter().map(|(component, _)| *component).collect();
    components.dedup();
    let metrics: Vec<Metric> = components.iter().map(|&k| Metric::of(&q.components()[k])).collect();
    let points: Vec<f64> = starts.iter().flat_map(|&(_, i)| drawn.draws[i * d..(i + 1) * d].iter().copied()).collect();
    let mut walkers = Walkers::start(evaluator, points)?;
    let mut beyond = vec![0.0; chains];
    let (mut scratch, mut scale) = (Scratch::default(), 1.0);
    for trajectory in 0..trajectories {
        let step = scale * STEP * (d as f64).powf(-0.25) * (0.7 + 0.6 * noise.uniform());
        let groups: Vec<Group<'_>> = components
            .iter()
            .zip(&metrics)
            .map(|(&k, metric)| {
                let chains = starts.partition_point(|s| s.0 < k)..starts.partition_point(|s| s.0 <= k);
                Group { metric, chains, step }
            })
            .collect();
        let accepted = walkers.advance(evaluator, &groups, STEPS, (seed, Purpose::Probe, trajectory + 1))?;
        if accepted.iter().sum::<f64>() < FEW_ACCEPTED * chains as f64 {
            scale *= SHORTER;
        }
        if trajectory >= trajectories / 2 {
            let mut log_q = vec![0.0; chains];
            q.log_density_into(&walkers.z, &mut log_q, &mut scratch);
            for i in 0..chains {
                if walkers.log_p[i] - log_q[i] > largest {
                    beyond[i] += 1.0 / (trajectories - trajectories / 2) as f64;
                }
            }
        }
    }
    let share = beyond.iter().sum::<f64>() / chains as f64;
    let variance = beyond.iter().map(|b| (b - share).powi(2)).sum::<f64>() / (chains * (chains - 1)) as f64;
    Ok(Estimate { mean: mass * share, se: mass * variance.sqrt() })
}

/// The component that is most responsible for a point.
fn responsible(q: &Mixture, z: &[f64]) -> usize {
    let mut scratch = Scratch::default();
    let block = MixtureBlock::new(q, Points::new(z, q.dim()), false, &mut scratch);
    (0..q.len()).max_by(|&a, &b| block.resp[a * block.stride].total_cmp(&block.resp[b * block.stride])).unwrap_or(0)
}

#[cfg(test)]
mod tests;
