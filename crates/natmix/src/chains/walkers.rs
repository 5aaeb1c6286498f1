//! Chains that move together: one batch of evaluations per step of all of them.

use super::Metric;
use super::coordinates::Coordinates;
use crate::error::Error;
use crate::evaluate::{Batch, ChunkPoints, Evaluator, Part, Request};
use crate::noise::{Noise, Purpose};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Chains that one thread moves and evaluates: always as many, so that their bits do not depend on the threads. Products with fewer
/// columns are slower per column.
const CHUNK: usize = 32;
/// Work of a metric per chain below which it takes longer to hand chunks to other threads than to do them.
const SHARED: usize = 400;

/// Error of the energy, in nats, from which on a trajectory has diverged: its steps are too long for the place where it is.
const DIVERGED: f64 = 20.0;

/// How a trajectory is cut into steps. All steps move the points by as much; they differ in how much of the gradient the momenta
/// get before, between and after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integrator {
    /// Stable for the longest steps.
    Leapfrog,
    /// Pairs of steps, as in Blanes, Casas and Sanz-Serna (2014): with as many evaluations, a smaller error of the energy where
    /// steps are well below what is stable.
    TwoStage,
}

impl Integrator {
    /// The share of a pair of steps at its ends that makes the error in a Gaussian smallest.
    const END: f64 = 0.211781;

    /// Evaluations that a trajectory takes, if it is so many of the longest steps long.
    pub fn steps(self, length: f64, most: usize) -> usize {
        match self {
            Self::Leapfrog => (length.ceil() as usize).clamp(1, most),
            Self::TwoStage => 2 * ((0.5 * length).ceil() as usize).clamp(1, most / 2),
        }
    }

    /// The share of a step by which momenta change at either end of a trajectory.
    fn ends(self) -> f64 {
        match self {
            Self::Leapfrog => 0.5,
            Self::TwoStage => 2.0 * Self::END,
        }
    }

    /// The same after so many steps.
    fn kick(self, steps: usize) -> f64 {
        match self {
            Self::Leapfrog => 1.0,
            Self::TwoStage if steps.is_multiple_of(2) => 4.0 * Self::END,
            Self::TwoStage => 2.0 - 4.0 * Self::END,
        }
    }
}

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
    scales: Option<Coordinates>,
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
    pub fn restored(d: usize, (z, log_p, grad): (Vec<f64>, Vec<f64>, Vec<f64>), scales: Option<Coordinates>) -> Self {
        Self { d, z, log_p, grad, scales }
    }

    /// The same chains in other coordinates.
    pub fn in_coordinates(self, evaluator: &mut dyn Evaluator, scales: Option<Coordinates>) -> Result<Self, Error> {
        let mut walkers = Self::start(evaluator, self.points())?;
        if let Some(scales) = scales {
            scales.backward(&mut walkers.z);
            scales.pull_back(&walkers.z, &mut walkers.log_p, &mut walkers.grad);
            walkers.scales = Some(scales);
        }
        Ok(walkers)
    }

    /// The coordinates in which they move, if they are not the target's own.
    pub fn scales(&self) -> Option<&Coordinates> {
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

    /// One trajectory of so many steps for every chain, accepted or rejected. The groups cover all
    /// chains.
    pub fn advance(
        &mut self,
        evaluator: &mut dyn Evaluator,
        groups: &[Group<'_>],
        (integrator, steps): (Integrator, usize),
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
        // Travels to the evaluator and back, so that steps allocate nothing.
        let mut batch = batch_of(&self.z, d);
        batch.parts[0].grad.copy_from_slice(&self.grad);
        let mut own = self.z.clone();
        let leap = Leap { d, groups, scales: self.scales.as_ref() };
        let pieces: Vec<Mutex<Piece<'_>>> = momenta
            .chunks_mut(CHUNK * d)
            .zip(velocities.chunks_mut(CHUNK * d))
            .zip(own.chunks_mut(CHUNK * d))
            .enumerate()
            .map(|(at, ((momenta, velocities), own))| Mutex::new(Piece { first: at * CHUNK, momenta, velocities, own }))
            .collect();
        for step in 0..steps {
            let prepare = |_: usize, number: usize, points: ChunkPoints<'_>| {
                let mut piece = pieces[number].lock().unwrap_or_else(PoisonError::into_inner);
                match step {
                    0 => leap.begin(&mut piece, points.grad, integrator.ends()),
                    _ => leap.push(&mut piece, points.log_p, points.grad, integrator.kick(step)),
                }
                leap.drift(&mut piece, points.z);
            };
            let ticket = evaluator.submit_prepared(batch, &prepare);
            batch = evaluator.collect(ticket)?;
        }
        let end = &mut batch.parts[0];
        let least = if groups.iter().all(|group| group.metric.work(d) < SHARED) { usize::MAX } else { 1 };
        let values = end.log_p.par_chunks_mut(CHUNK).zip(end.grad.par_chunks_mut(CHUNK * d));
        pieces.into_par_iter().zip(values).with_min_len(least).for_each(|(piece, (log_p, grad))| {
            let mut piece = piece.into_inner().unwrap_or_else(PoisonError::into_inner);
            leap.push(&mut piece, log_p, grad, integrator.ends());
        });
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

/// What moves chains along their trajectories.
struct Leap<'a> {
    d: usize,
    groups: &'a [Group<'a>],
    scales: Option<&'a Coordinates>,
}

/// The chains of a chunk on their way: where they are in the coordinates in which they move, with momenta and velocities.
struct Piece<'a> {
    first: usize,
    momenta: &'a mut [f64],
    velocities: &'a mut [f64],
    own: &'a mut [f64],
}

impl Leap<'_> {
    /// The groups that have chains in a piece, with the places of these in it.
    fn groups_of(&self, piece: &Piece<'_>) -> impl Iterator<Item = (&Group<'_>, Range<usize>)> + use<'_> {
        let (first, d) = (piece.first, self.d);
        let end = first + piece.own.len() / d;
        self.groups.iter().filter_map(move |group| {
            let chains = group.chains.start.max(first)..group.chains.end.min(end);
            (!chains.is_empty()).then(|| (group, (chains.start - first) * d..(chains.end - first) * d))
        })
    }

    /// The first change of the momenta, by a share of a step, from standard normals as momenta and gradients in the coordinates of the chains.
    fn begin(&self, piece: &mut Piece<'_>, grad: &[f64], share: f64) {
        for (group, rows) in self.groups_of(piece) {
            group.metric.momenta(&mut piece.momenta[rows], self.d);
        }
        self.kick(piece, grad, share);
    }

    /// Changes the momenta by a share of a step, from values of the target.
    fn push(&self, piece: &mut Piece<'_>, log_p: &mut [f64], grad: &mut [f64], share: f64) {
        if let Some(scales) = self.scales {
            scales.pull_back(piece.own, log_p, grad);
        }
        self.kick(piece, grad, share);
    }

    fn kick(&self, piece: &mut Piece<'_>, grad: &[f64], share: f64) {
        for (group, rows) in self.groups_of(piece) {
            let (p, v) = (&mut piece.momenta[rows.clone()], &mut piece.velocities[rows.clone()]);
            p.iter_mut().zip(&grad[rows]).for_each(|(p, g)| *p += share * group.step * g);
            group.metric.velocities(v, p, self.d);
        }
    }

    /// Moves the chains by a step; `z` are the points of the target.
    fn drift(&self, piece: &mut Piece<'_>, z: &mut [f64]) {
        for (group, rows) in self.groups_of(piece) {
            let (own, v) = (&mut piece.own[rows.clone()], &piece.velocities[rows]);
            own.iter_mut().zip(v).for_each(|(z, v)| *z += group.step * v);
        }
        z.copy_from_slice(piece.own);
        if let Some(scales) = self.scales {
            scales.forward(z);
        }
    }
}

/// Points whose log densities and gradients are wanted.
fn batch_of(z: &[f64], d: usize) -> Batch {
    let request = Request { gradient: true, ..Request::default() };
    Batch { parts: vec![Part::new(z, d, CHUNK, &request)], request }
}
