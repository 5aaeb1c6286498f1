//! A diagonal covariance: the mean-field family, elementwise throughout.

use super::{AnyCovariance, CentredPoints, Covariance, InverseRate};
use crate::rule::{Skipped, StepInfo, finite, move_both};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;
use std::borrow::Cow;

/// A diagonal precision with positive entries, held as itself and as its square root.
#[derive(Clone, Debug, PartialEq)]
pub struct Diag {
    prec: Vec<f64>,
    root: Vec<f64>,
}

impl Diag {
    /// From the entries of the precision; fails with the index of one that is not a positive number with a finite inverse.
    pub fn new(prec: Vec<f64>) -> Result<Self, usize> {
        match prec.iter().position(|x| !fits(*x)) {
            Some(bad) => Err(bad),
            None => Ok(Self { root: prec.iter().map(|x| x.sqrt()).collect(), prec }),
        }
    }

    /// From variances; fails with the index of one that is not a positive number with a finite inverse.
    pub fn from_variances(variances: &[f64]) -> Result<Self, usize> {
        match variances.iter().position(|x| !(x.is_finite() && *x > 0.0)) {
            Some(bad) => Err(bad),
            None => Self::new(variances.iter().map(|x| x.recip()).collect()),
        }
    }

    /// The entries of the precision.
    pub fn entries(&self) -> &[f64] {
        &self.prec
    }
    /// Their square roots: the factor.
    pub fn root(&self) -> &[f64] {
        &self.root
    }

    /// Replaces the entries, if all are as [`Diag::new`] wants them; otherwise leaves everything as it was.
    pub(crate) fn set(&mut self, prec: &[f64]) -> Result<(), usize> {
        if let Some(bad) = prec.iter().position(|x| !fits(*x)) {
            return Err(bad);
        }
        for ((old, root), new) in self.prec.iter_mut().zip(&mut self.root).zip(prec) {
            *old = *new;
            *root = new.sqrt();
        }
        Ok(())
    }
}

/// Whether a number can be a precision: the inverse of a smaller one than the normal ones may overflow.
fn fits(x: f64) -> bool {
    x > 0.0 && x.is_normal()
}

impl Covariance for Diag {
    fn curvature_shape() -> CurvatureShape {
        CurvatureShape::Diag
    }

    fn from_sd(sd: &[f64]) -> Result<Self, usize> {
        Self::new(sd.iter().map(|x| (x * x).recip()).collect())
    }

    fn from_precisions(precisions: &[f64]) -> Result<Self, usize> {
        Self::new(precisions.to_vec())
    }

    fn from_curvature(curvature: &[f64], sd: &[f64], bounded: &dyn Fn(f64) -> f64) -> Result<Self, usize> {
        let step = if curvature.len() == sd.len() { 1 } else { sd.len() + 1 };
        Self::new(curvature.iter().step_by(step).zip(sd).map(|(x, sd)| bounded(*x) / (sd * sd)).collect())
    }

    fn tensors(dim: usize) -> Vec<(&'static str, Vec<usize>)> {
        vec![("factors", vec![dim]), ("precisions", vec![dim])]
    }

    fn decode(_: usize, tensors: &[&[f64]]) -> Option<Self> {
        let [root, entries] = tensors else { return None };
        let diag = Self::new(entries.to_vec()).ok()?;
        (diag.root() == *root).then_some(diag)
    }

    fn copy_from(&mut self, other: &Self) {
        self.prec.copy_from_slice(&other.prec);
        self.root.copy_from_slice(&other.root);
    }

    fn encode(&self) -> Vec<Vec<f64>> {
        vec![self.root.clone(), self.prec.clone()]
    }

    fn dim(&self) -> usize {
        self.prec.len()
    }

    fn log_det(&self) -> f64 {
        self.prec.iter().map(|x| x.ln()).sum()
    }

    fn is_finite(&self) -> bool {
        self.prec.iter().chain(&self.root).all(|x| x.is_finite())
    }

    fn matrix(&self) -> Cow<'_, [f64]> {
        Cow::Borrowed(&self.prec)
    }

    fn covariance(&self) -> Vec<f64> {
        self.prec.iter().map(|x| x.recip()).collect()
    }

    fn variances(&self) -> Vec<f64> {
        self.covariance()
    }

    fn times(&self, x: &[f64], out: &mut [f64]) {
        for ((out, x), s) in out.iter_mut().zip(x).zip(&self.prec) {
            *out = s * x;
        }
    }

    fn solve(&self, x: &mut [f64]) {
        for (x, s) in x.iter_mut().zip(&self.prec) {
            *x /= s;
        }
    }

    fn add_to(&self, sum: &mut [f64], factor: f64, shape: CurvatureShape) {
        for (sum, s) in sum.iter_mut().step_by(shape.diagonal_step(self.dim())).zip(&self.prec) {
            *sum += factor * s;
        }
    }

    fn widened(&self, width: f64) -> AnyCovariance {
        // A width near one keeps a positive number positive; should it not, the old one stays.
        let wider = Self::new(self.prec.iter().map(|x| x / (width * width)).collect());
        wider.unwrap_or_else(|_| self.clone()).into()
    }

    fn whiten(&self, y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], _: &mut Scratch) {
        let stride = quad.len();
        quad.fill(0.0);
        let coordinates = y.chunks_exact_mut(stride).zip(z.chunks_exact(stride)).zip(mean.iter().zip(&self.root));
        for ((y, z), (mean, root)) in coordinates {
            for ((y, z), quad) in y.iter_mut().zip(z).zip(quad.iter_mut()) {
                *y = (z - mean) * root;
                *quad += *y * *y;
            }
        }
    }

    fn colour(&self, eps: &mut [f64]) {
        for z in eps.chunks_exact_mut(self.dim()) {
            for (z, root) in z.iter_mut().zip(&self.root) {
                *z /= root;
            }
        }
    }

    fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64], _: &mut Scratch) {
        let stride = scale.len();
        for ((out, y), root) in out.chunks_exact_mut(stride).zip(y.chunks_exact(stride)).zip(&self.root) {
            for ((out, y), scale) in out.iter_mut().zip(y).zip(scale) {
                *out += scale * y * root;
            }
        }
    }

    fn unwhiten_slope(&self, curvature: &mut [f64], _: &mut Scratch) {
        curvature.iter_mut().zip(&self.root).for_each(|(h, root)| *h *= root);
    }

    fn regress(
        &self,
        points: &CentredPoints<'_>,
        ridge: f64,
        gradient: &mut [f64],
        curvature: &mut [f64],
        _: &mut Scratch,
    ) -> f64 {
        let stride = points.weights.len();
        let ridge = ridge / points.ess;
        let mut beyond = 0.0;
        let coordinates = points.y.chunks_exact(stride).zip(points.gradients.chunks_exact(stride)).enumerate();
        for (j, (y, g)) in coordinates {
            let (mut spread, mut slope) = (0.0, 0.0);
            for ((y, g), w) in y.iter().zip(g).zip(points.weights) {
                spread += w * y * y;
                slope += w * y * g;
            }
            let slope = (1.0 + ridge) * slope / (spread + ridge);
            let (mean, root) = (points.mean_y[j], self.root[j]);
            gradient[j] = points.mean_gradient[j] - slope * mean;
            curvature[j] = slope * root;
            beyond += gradient[j] / root * mean + 0.5 * slope / root * (spread + mean * mean - 1.0);
        }
        beyond
    }

    fn factor_gradient(&self, gradient: &mut [f64], factor: &mut [f64], mass: f64, y: &[f64], yy: &mut [f64]) {
        for ((g, y), root) in gradient.iter_mut().zip(y.iter()).zip(&self.root) {
            *g = root * y;
        }
        for (factor, yy) in factor.iter_mut().zip(yy.iter()) {
            *factor = mass - yy;
        }
    }

    fn natural_step(&mut self, mean: &mut [f64], g: &[f64], h: &[f64], rate: f64, scratch: &mut Scratch) -> bool {
        let mut new = scratch.take_used(h.len());
        let mut shift = scratch.take_used(g.len());
        for ((new, old), h) in new.iter_mut().zip(&self.prec).zip(h) {
            *new = old - rate * h;
        }
        for ((shift, g), new) in shift.iter_mut().zip(g).zip(&new) {
            *shift = rate * g / new;
        }
        let moved = move_both(mean, &shift, || self.set(&new).is_ok());
        scratch.give(new);
        scratch.give(shift);
        moved
    }

    fn improved_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        rate: &dyn Fn(f64) -> f64,
        scratch: &mut Scratch,
    ) -> StepInfo {
        let norm = h.iter().zip(&self.prec).map(|(h, s)| (h / s).powi(2)).sum::<f64>().sqrt();
        if !norm.is_finite() {
            return StepInfo::skipped(Skipped::NotFinite);
        }
        let t = rate(norm);
        let mut shift = scratch.take(g.len());
        let mut new = scratch.take(g.len());
        for ((shift, g), s) in shift.iter_mut().zip(g).zip(&self.prec) {
            *shift = t * g / s;
        }
        for ((new, h), s) in new.iter_mut().zip(h).zip(&self.prec) {
            let u = 1.0 - t * h / s;
            *new = 0.5 * s * (1.0 + u * u);
        }
        let info = if move_both(mean, &shift, || self.set(&new).is_ok()) {
            StepInfo::taken(t)
        } else {
            StepInfo::skipped(Skipped::NotFinite)
        };
        scratch.give(shift);
        scratch.give(new);
        info
    }

    fn spectral_step(
        &mut self,
        mean: &mut [f64],
        g: &[f64],
        h: &[f64],
        eta: &InverseRate<'_>,
        scratch: &mut Scratch,
    ) -> StepInfo {
        let d = self.dim();
        let mut lam = scratch.take(d);
        let mut c = scratch.take(d);
        for i in 0..d {
            lam[i] = -h[i] / self.prec[i];
            c[i] = g[i] / self.root[i];
        }
        let mut info = StepInfo::skipped(Skipped::NotFinite);
        if let Some(eta) = finite(&lam, &c).then(|| eta(&lam, &c)).flatten() {
            for i in 0..d {
                let s = 1.0 + lam[i] / eta;
                c[i] = c[i] / eta / s / self.root[i];
                lam[i] = s * self.prec[i];
            }
            if move_both(mean, &c, || self.set(&lam).is_ok()) {
                info = StepInfo::taken(eta.recip());
            }
        }
        scratch.give(lam);
        scratch.give(c);
        info
    }

    fn factor_step(
        &mut self,
        mean: &mut [f64],
        shift: &[f64],
        turn: &[f64],
        most_log: f64,
        scratch: &mut Scratch,
    ) -> bool {
        let mut new = scratch.take_used(turn.len());
        for ((new, root), step) in new.iter_mut().zip(&self.root).zip(turn) {
            *new = (root * step.clamp(-most_log, most_log).exp()).powi(2);
        }
        let moved = move_both(mean, shift, || self.set(&new).is_ok());
        scratch.give(new);
        moved
    }
}
