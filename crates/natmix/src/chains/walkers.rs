//! Chains that move together: one batch of evaluations per step of all of them.

use super::Metric;
use super::scales::Scales;
use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::noise::{Noise, Purpose};
use rayon::prelude::*;
use std::ops::Range;

/// Points per chunk.
const CHUNK: usize = 32;
/// Chains that one thread moves: always as many, so that their bits do not depend on the threads. Products with fewer columns
/// are slower per column.
const PIECE: usize = 32;
/// Work of a metric per chain below which it takes longer to hand pieces to other threads than to do them.
const SHARED: usize = 400;

/// Error of the energy, in nats, from which on a trajectory has diverged: its steps are too long for the place where it is.
const DIVERGED: f64 = 20.0;

/// A metric, the chains that move in it, and the length of their steps.
pub(crate) struct Group<'a> {
    pub metric: &'a Metric,
    pub chains: Range<usize>,
    pub step: f64,
}

/// What one trajectory of every chain has come to.
pub(crate) struct Moves {
    /// Probabilities with which they were accepted.
    pub acceptance: Vec<f64>,
    /// Energies at which they started, and what they lost of it by the error of the steps.
    pub energy: Vec<f64>,
    pub gain: Vec<f64>,
}

impl Moves {
    /// Which trajectories diverged; one that cannot be evaluated at its end has, too.
    pub fn diverged(&self) -> impl Iterator<Item = bool> + '_ {
        self.gain.iter().map(|gain| gain.is_nan() || *gain < -DIVERGED)
    }
}

/// Chains at their present points.
#[derive(Clone, Debug)]
pub(crate) struct Walkers {
    pub d: usize,
    /// Points, one after the other, with log densities and gradients: in the coordinates in which they move.
    pub z: Vec<f64>,
    pub log_p: Vec<f64>,
    pub grad: Vec<f64>,
    /// These coordinates, if they are not the target's own.
    scales: Option<Scales>,
}

impl Walkers {
    /// Chains at these points.
    pub fn start(evaluator: &mut dyn Evaluator, z: Vec<f64>) -> Result<Self, Error> {
        let d = evaluator.dim();
        let ticket = evaluator.submit(batch_of(&z, d));
        let Part { z, log_p, grad, .. } = evaluator.collect(ticket)?.parts.pop().unwrap_or_default();
        Ok(Self { d, z, log_p, grad, scales: None })
    }

    /// Chains as they were: points, log densities and gradients, in these coordinates.
    pub fn restored(d: usize, (z, log_p, grad): (Vec<f64>, Vec<f64>, Vec<f64>), scales: Option<Scales>) -> Self {
        Self { d, z, log_p, grad, scales }
    }

    /// The same chains in other coordinates.
    pub fn in_coordinates(self, evaluator: &mut dyn Evaluator, scales: Option<Scales>) -> Result<Self, Error> {
        let mut walkers = Self::start(evaluator, self.points())?;
        if let Some(scales) = scales {
            scales.backward(&mut walkers.z);
            scales.pull_back(&walkers.z, &mut walkers.log_p, &mut walkers.grad);
            walkers.scales = Some(scales);
        }
        Ok(walkers)
    }

    /// The coordinates in which they move, if they are not the target's own.
    pub fn scales(&self) -> Option<&Scales> {
        self.scales.as_ref()
    }

    /// The points in the target's own coordinates.
    pub fn points(&self) -> Vec<f64> {
        let mut points = self.z.clone();
        if let Some(scales) = &self.scales {
            scales.forward(&mut points);
        }
        points
    }

    /// The log densities of the target.
    pub fn log_densities(&self) -> Vec<f64> {
        let mut log_p = self.log_p.clone();
        if let Some(scales) = &self.scales {
            log_p.iter_mut().zip(scales.log_det(&self.z)).for_each(|(log_p, log_det)| *log_p -= log_det);
        }
        log_p
    }

    /// Points of the target in the coordinates in which the chains move.
    pub fn to_coordinates(&self, points: &mut [f64]) {
        if let Some(scales) = &self.scales {
            scales.backward(points);
        }
    }

    pub fn len(&self) -> usize {
        self.log_p.len()
    }

    /// One trajectory of `steps` leapfrog steps for every chain, accepted or rejected. The groups cover all
    /// chains.
    pub fn advance(
        &mut self,
        evaluator: &mut dyn Evaluator,
        groups: &[Group<'_>],
        steps: usize,
        (seed, purpose, iteration): (u64, Purpose, u64),
    ) -> Result<Moves, Error> {
        let (d, count) = (self.d, self.len());
        let mut noise = Noise::new(seed, purpose, u64::MAX, iteration, 0);
        let mut momenta = vec![0.0; count * d];
        noise.normals(&mut momenta);
        let kinetic: Vec<f64> = momenta.chunks_exact(d).map(|p| 0.5 * p.iter().map(|p| p * p).sum::<f64>()).collect();
        let energy = kinetic.iter().zip(&self.log_p).map(|(kinetic, log_p)| kinetic - log_p).collect();
        let accept: Vec<f64> = (0..count).map(|_| noise.uniform()).collect();
        let mut velocities = vec![0.0; count * d];
        let rows = |group: &Group<'_>| group.chains.start * d..group.chains.end * d;
        // Travels to the evaluator and back, so that steps allocate nothing.
        let mut batch = batch_of(&self.z, d);
        batch.parts[0].grad.copy_from_slice(&self.grad);
        let mut own = self.z.clone();
        for step in 0..=steps {
            let Part { z, log_p, grad, .. } = &mut batch.parts[0];
            // A half at both ends.
            let share = if step == 0 || step == steps { 0.5 } else { 1.0 };
            for group in groups {
                let (metric, rows, each) = (group.metric, rows(group), PIECE * d);
                let pieces = momenta[rows.clone()]
                    .par_chunks_mut(each)
                    .zip(velocities[rows.clone()].par_chunks_mut(each))
                    .zip(own[rows.clone()].par_chunks_mut(each))
                    .zip(z[rows.clone()].par_chunks_mut(each))
                    .zip(grad[rows.clone()].par_chunks_mut(each))
                    .zip(log_p[group.chains.clone()].par_chunks_mut(PIECE));
                let least = if metric.work(d) < SHARED { usize::MAX } else { 1 };
                pieces.with_min_len(least).for_each(|(((((p, v), own), z), grad), log_p)| {
                    if step == 0 {
                        metric.momenta(p, d);
                    } else if let Some(scales) = &self.scales {
                        scales.pull_back(own, log_p, grad);
                    }
                    p.iter_mut().zip(&*grad).for_each(|(p, g)| *p += share * group.step * g);
                    metric.velocities(v, p, d);
                    if step < steps {
                        own.iter_mut().zip(&*v).for_each(|(z, v)| *z += group.step * v);
                        z.copy_from_slice(own);
                        if let Some(scales) = &self.scales {
                            scales.forward(z);
                        }
                    }
                });
            }
            if step < steps {
                let ticket = evaluator.submit(batch);
                batch = evaluator.collect(ticket)?;
            }
        }
        let Part { log_p, grad, .. } = &batch.parts[0];
        let (mut acceptance, mut gain) = (vec![0.0; count], vec![0.0; count]);
        for i in 0..count {
            let row = i * d..(i + 1) * d;
            let end: f64 = momenta[row.clone()].iter().zip(&velocities[row.clone()]).map(|(p, v)| 0.5 * p * v).sum();
            let change = log_p[i] - self.log_p[i] - end + kinetic[i];
            gain[i] = change;
            // A point that cannot be evaluated is never accepted.
            acceptance[i] = if change.is_nan() { 0.0 } else { change.exp().min(1.0) };
            if accept[i] < acceptance[i] {
                self.z[row.clone()].copy_from_slice(&own[row.clone()]);
                self.grad[row.clone()].copy_from_slice(&grad[row]);
                self.log_p[i] = log_p[i];
            }
        }
        Ok(Moves { acceptance, energy, gain })
    }
}

/// Points whose log densities and gradients are wanted.
fn batch_of(z: &[f64], d: usize) -> Batch {
    let request = Request { gradient: true, ..Request::default() };
    Batch { parts: vec![Part::new(z, d, CHUNK, &request)], request }
}
