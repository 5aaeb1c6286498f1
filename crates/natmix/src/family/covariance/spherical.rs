//! One variance for all coordinates: an example for tests, which shows that a kind is one file and one line in the list.

use super::{AnyCovariance, CentredPoints, Covariance, Diag, InverseRate};
use crate::rule::{Skipped, StepInfo, finite, move_both};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;
use std::borrow::Cow;

/// The precision `prec` times the identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Spherical {
    dim: usize,
    prec: f64,
}

impl Spherical {
    pub(crate) fn new(dim: usize, prec: f64) -> Option<Self> {
        (prec > 0.0 && prec.is_normal()).then_some(Self { dim, prec })
    }

    fn root(&self) -> f64 {
        self.prec.sqrt()
    }

    /// The diagonal covariance that is the same.
    fn diag(&self) -> Diag {
        Diag::new(vec![self.prec; self.dim]).expect("a precision")
    }

    /// Moves the mean and replaces the precision: both, or neither.
    fn move_to(&mut self, mean: &mut [f64], shift: &[f64], prec: f64) -> bool {
        let new = Self::new(self.dim, prec);
        move_both(mean, shift, || {
            new.is_some_and(|new| {
                *self = new;
                true
            })
        })
    }
}

fn average(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

impl Covariance for Spherical {
    fn curvature_shape() -> CurvatureShape {
        CurvatureShape::Diag
    }

    fn from_sd(sd: &[f64]) -> Result<Self, usize> {
        Self::new(sd.len(), average(&sd.iter().map(|sd| sd * sd).collect::<Vec<_>>()).recip()).ok_or(0)
    }

    fn from_precisions(precisions: &[f64]) -> Result<Self, usize> {
        Self::new(precisions.len(), average(precisions)).ok_or(0)
    }

    fn from_curvature(curvature: &[f64], sd: &[f64], bounded: &dyn Fn(f64) -> f64) -> Result<Self, usize> {
        Self::from_precisions(Diag::from_curvature(curvature, sd, bounded)?.entries())
    }

    fn tensors(_: usize) -> Vec<(&'static str, Vec<usize>)> {
        vec![("precisions", vec![])]
    }

    fn decode(dim: usize, tensors: &[&[f64]]) -> Option<Self> {
        let [[prec]] = tensors else { return None };
        Self::new(dim, *prec)
    }

    fn copy_from(&mut self, other: &Self) {
        self.clone_from(other);
    }

    fn encode(&self) -> Vec<Vec<f64>> {
        vec![vec![self.prec]]
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn log_det(&self) -> f64 {
        self.dim as f64 * self.prec.ln()
    }

    fn is_finite(&self) -> bool {
        self.prec.is_finite()
    }

    fn matrix(&self) -> Cow<'_, [f64]> {
        Cow::Owned(vec![self.prec; self.dim])
    }

    fn covariance(&self) -> Vec<f64> {
        vec![self.prec.recip(); self.dim]
    }

    fn variances(&self) -> Vec<f64> {
        self.covariance()
    }

    fn times(&self, x: &[f64], out: &mut [f64]) {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = self.prec * x);
    }

    fn solve(&self, x: &mut [f64]) {
        x.iter_mut().for_each(|x| *x /= self.prec);
    }

    fn add_to(&self, sum: &mut [f64], factor: f64, shape: CurvatureShape) {
        sum.iter_mut().step_by(shape.diagonal_step(self.dim)).for_each(|sum| *sum += factor * self.prec);
    }

    fn widened(&self, width: f64) -> AnyCovariance {
        Self::new(self.dim, self.prec / (width * width)).unwrap_or_else(|| self.clone()).into()
    }

    fn whiten(&self, y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], scratch: &mut Scratch) {
        self.diag().whiten(y, quad, z, mean, scratch);
    }

    fn colour(&self, eps: &mut [f64]) {
        eps.iter_mut().for_each(|z| *z /= self.root());
    }

    fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64], scratch: &mut Scratch) {
        self.diag().add_scaled_times_factor(out, scale, y, scratch);
    }

    fn unwhiten_slope(&self, curvature: &mut [f64], _: &mut Scratch) {
        curvature.iter_mut().for_each(|h| *h *= self.root());
    }

    fn regress(
        &self,
        points: &CentredPoints<'_>,
        ridge: f64,
        gradient: &mut [f64],
        curvature: &mut [f64],
        scratch: &mut Scratch,
    ) -> f64 {
        self.diag().regress(points, ridge, gradient, curvature, scratch)
    }

    fn factor_gradient(&self, gradient: &mut [f64], factor: &mut [f64], mass: f64, y: &[f64], yy: &mut [f64]) {
        self.diag().factor_gradient(gradient, factor, mass, y, yy);
    }

    fn natural_step(&mut self, mean: &mut [f64], g: &[f64], h: &[f64], rate: f64, _: &mut Scratch) -> bool {
        let new = self.prec - rate * average(h);
        let shift: Vec<f64> = g.iter().map(|g| rate * g / new).collect();
        self.move_to(mean, &shift, new)
    }

    fn improved_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        rate: &dyn Fn(f64) -> f64,
        _: &mut Scratch,
    ) -> StepInfo {
        let h = average(h) / self.prec;
        let t = rate(h.abs() * (self.dim as f64).sqrt());
        let shift: Vec<f64> = g.iter().map(|g| t * g / self.prec).collect();
        let u = 1.0 - t * h;
        match self.move_to(mean, &shift, 0.5 * self.prec * (1.0 + u * u)) {
            true => StepInfo::taken(t),
            false => StepInfo::skipped(Skipped::NotFinite),
        }
    }

    fn spectral_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        eta: &InverseRate<'_>,
        _: &mut Scratch,
    ) -> StepInfo {
        let lam = vec![-average(h) / self.prec; self.dim];
        let c: Vec<f64> = g.iter().map(|g| g / self.root()).collect();
        if let Some(eta) = finite(&lam, &c).then(|| eta(&lam, &c)).flatten() {
            let s = 1.0 + lam[0] / eta;
            let shift: Vec<f64> = c.iter().map(|c| c / eta / s / self.root()).collect();
            if self.move_to(mean, &shift, s * self.prec) {
                return StepInfo::taken(eta.recip());
            }
        }
        StepInfo::skipped(Skipped::NotFinite)
    }

    fn factor_step(&mut self, mean: &mut [f64], shift: &[f64], turn: &[f64], most_log: f64, _: &mut Scratch) -> bool {
        let step = average(turn).clamp(-most_log, most_log);
        self.move_to(mean, shift, (self.root() * step.exp()).powi(2))
    }
}
