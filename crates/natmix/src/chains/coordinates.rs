//! The coordinates in which chains move, where they are not the target's own: hierarchies in units of their scales, and long tails
//! made short.

mod stored;

use super::run::FEW_DIMENSIONS;
use super::scales::Scales;
use super::tails::Tails;
use std::borrow::Cow;

pub(super) use stored::CoordinateCounts;

/// A change of coordinates: the tails first, then the scales.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Coordinates {
    d: usize,
    tails: Tails,
    scales: Option<Scales>,
}

impl Coordinates {
    /// The coordinates that draws (one after another) show, if they show any. They are worth `effective` independent ones. What was
    /// found `before` need not be shown as clearly again.
    pub fn of(draws: &[f64], d: usize, effective: f64, before: Option<&Self>) -> Option<Self> {
        let scales = Scales::of(draws, d, effective, before.and_then(|before| before.scales.as_ref()));
        // The tails of what takes its scale from another come from there, and nothing should lead deeper into a neck.
        let apart: Vec<usize> = scales.iter().flat_map(|scales| scales.scaled().chain(scales.necks())).collect();
        // In few dimensions the weighted draws of the mixture know the tails.
        let tails = if d > FEW_DIMENSIONS { Tails::of(draws, d, effective, &apart) } else { Tails::none(d) };
        Self::from_parts(d, tails, scales)
    }

    /// None if they are the target's own.
    pub(super) fn from_parts(d: usize, tails: Tails, scales: Option<Scales>) -> Option<Self> {
        (scales.is_some() || !tails.is_empty()).then_some(Self { d, tails, scales })
    }

    pub fn scales(&self) -> Option<&Scales> {
        self.scales.as_ref()
    }

    /// Turns points (one after another) from the coordinates of the chains into those of the target.
    pub fn forward(&self, points: &mut [f64]) {
        self.tails.forward(points);
        self.scales.iter().for_each(|scales| scales.forward(points));
    }

    /// The inverse of [`Coordinates::forward`].
    pub fn backward(&self, points: &mut [f64]) {
        self.scales.iter().for_each(|scales| scales.backward(points));
        self.tails.backward(points);
    }

    /// Turns log densities and gradients at points of the target into those at the points `y` of the chains.
    pub fn pull_back(&self, y: &[f64], log_p: &mut [f64], grad: &mut [f64]) {
        if let Some(scales) = &self.scales {
            scales.pull_back(&self.between(y), log_p, grad);
        }
        self.tails.pull_back(y, log_p, grad);
    }

    /// What [`Coordinates::pull_back`] adds to the log density at each point.
    pub fn log_det(&self, y: &[f64]) -> Vec<f64> {
        let mut log_det: Vec<f64> = y.chunks_exact(self.d).map(|y| self.tails.log_det(y)).collect();
        if let Some(scales) = &self.scales {
            log_det.iter_mut().zip(scales.log_det(&self.between(y))).for_each(|(sum, one)| *sum += one);
        }
        log_det
    }

    /// Points on which the tails have acted, but not the scales.
    fn between<'a>(&self, y: &'a [f64]) -> Cow<'a, [f64]> {
        if self.tails.is_empty() {
            return Cow::Borrowed(y);
        }
        let mut points = y.to_vec();
        self.tails.forward(&mut points);
        Cow::Owned(points)
    }
}
