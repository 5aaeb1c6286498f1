//! Chains that move together: one batch of evaluations per step of all of them.

use super::Metric;
use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::noise::{Noise, Purpose};
use std::ops::Range;

/// Points per chunk.
const CHUNK: usize = 16;
/// Error of the energy, in nats, from which on a trajectory has left its path for good.
const DIVERGED: f64 = 1000.0;

/// A metric, the chains that move in it, and the length of their steps.
pub(crate) struct Group<'a> {
    pub metric: &'a Metric,
    pub chains: Range<usize>,
    pub step: f64,
}

/// What became of a trajectory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Move {
    /// Probability with which its end was accepted.
    pub acceptance: f64,
    pub diverged: bool,
}

/// Chains at their present points.
#[derive(Clone, Debug)]
pub(crate) struct Walkers {
    pub d: usize,
    /// Points, one after the other.
    pub z: Vec<f64>,
    pub log_p: Vec<f64>,
    pub grad: Vec<f64>,
}

impl Walkers {
    /// Chains at these points.
    pub fn start(evaluator: &mut dyn Evaluator, z: Vec<f64>) -> Result<Self, Error> {
        let d = evaluator.dim();
        let (z, log_p, grad) = evaluate(evaluator, z, d)?;
        Ok(Self { d, z, log_p, grad })
    }

    pub fn len(&self) -> usize {
        self.log_p.len()
    }

    /// One trajectory of `steps` leapfrog steps for every chain, accepted or rejected. The groups cover all chains.
    pub fn advance(
        &mut self,
        evaluator: &mut dyn Evaluator,
        groups: &[Group<'_>],
        steps: usize,
        (seed, purpose, iteration): (u64, Purpose, u64),
    ) -> Result<Vec<Move>, Error> {
        let (d, count) = (self.d, self.len());
        let mut noise = Noise::new(seed, purpose, u64::MAX, iteration, 0);
        let mut momenta = vec![0.0; count * d];
        noise.normals(&mut momenta);
        let kinetic: Vec<f64> = momenta.chunks_exact(d).map(|p| 0.5 * p.iter().map(|p| p * p).sum::<f64>()).collect();
        let accept: Vec<f64> = (0..count).map(|_| noise.uniform()).collect();
        let mut velocities = vec![0.0; count * d];
        let rows = |group: &Group<'_>| group.chains.start * d..group.chains.end * d;
        for group in groups {
            group.metric.momenta(&mut momenta[rows(group)], d);
        }
        let (mut z, mut log_p, mut grad) = (self.z.clone(), Vec::new(), self.grad.clone());
        let kick = |momenta: &mut [f64], grad: &[f64], share: f64| {
            for group in groups {
                let kicks = momenta[rows(group)].iter_mut().zip(&grad[rows(group)]);
                kicks.for_each(|(p, g)| *p += share * group.step * g);
            }
        };
        kick(&mut momenta, &grad, 0.5);
        for left in (0..steps).rev() {
            for group in groups {
                group.metric.velocities(&mut velocities[rows(group)], &momenta[rows(group)], d);
                z[rows(group)].iter_mut().zip(&velocities[rows(group)]).for_each(|(z, v)| *z += group.step * v);
            }
            (z, log_p, grad) = evaluate(evaluator, z, d)?;
            kick(&mut momenta, &grad, if left > 0 { 1.0 } else { 0.5 });
        }
        for group in groups {
            group.metric.velocities(&mut velocities[rows(group)], &momenta[rows(group)], d);
        }
        let mut moves = vec![Move::default(); count];
        for i in 0..count {
            let own = i * d..(i + 1) * d;
            let end: f64 = momenta[own.clone()].iter().zip(&velocities[own.clone()]).map(|(p, v)| 0.5 * p * v).sum();
            let change = log_p[i] - self.log_p[i] - end + kinetic[i];
            // A point that cannot be evaluated is never accepted.
            let acceptance = if change.is_nan() { 0.0 } else { change.exp().min(1.0) };
            moves[i] = Move { acceptance, diverged: change.is_nan() || change < -DIVERGED };
            if accept[i] < acceptance {
                self.z[own.clone()].copy_from_slice(&z[own.clone()]);
                self.grad[own.clone()].copy_from_slice(&grad[own]);
                self.log_p[i] = log_p[i];
            }
        }
        Ok(moves)
    }
}

/// The points back, their log densities and gradients.
fn evaluate(evaluator: &mut dyn Evaluator, z: Vec<f64>, d: usize) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>), Error> {
    let request = Request { gradient: true, ..Request::default() };
    let part = Part::new(&z, d, CHUNK, &request);
    let ticket = evaluator.submit(Batch { request, parts: vec![part] });
    let Part { z, log_p, grad, .. } = evaluator.collect(ticket)?.parts.pop().unwrap_or_default();
    Ok((z, log_p, grad))
}
