//! Points that the mixture may miss: modes of the search, and points of the iterations where the target was far above it.
//!
//! A component can leave the mode that it began in, or lose its weight before it has found its shape. Points evaluated
//! there are remembered as candidates: if `log p - log q` at a candidate is still far above its mean once the mixture has
//! converged, a component with the curvature of `log p` there is added, with Laplace's estimate of the mass as weight.

use super::ascent::Summit;
use super::evaluate::LimitedEvaluator;
use super::laplace::laplace;
use super::shared::SharedPoints;
use super::tuning::Tuning;
use crate::error::Error;
use crate::family::{Gaussian, Mixture};

/// Points remembered for each that may become a component: many of them lie near each other.
const REMEMBERED: usize = 4;
/// Largest log mass of a component at a missed point, relative to what the mixture has: an unbounded density gives any
/// number.
const MAX_LOG_MASS: f64 = 20.0;

/// Evaluated points, with how far `log p - log q` was above the ELBO there; infinite for modes, which other points never
/// replace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CandidatePoints {
    pub z: Vec<f64>,
    pub grad: Vec<f64>,
    pub log_p: Vec<f64>,
    pub excess: Vec<f64>,
}

impl CandidatePoints {
    pub fn len(&self) -> usize {
        self.log_p.len()
    }

    /// Adds a mode.
    pub fn add_mode(&mut self, z: &[f64], grad: &[f64], log_p: f64) {
        self.push(z, grad, log_p, f64::INFINITY);
    }

    fn push(&mut self, z: &[f64], grad: &[f64], log_p: f64, excess: f64) {
        self.z.extend_from_slice(z);
        self.grad.extend_from_slice(grad);
        self.log_p.push(log_p);
        self.excess.push(excess);
    }

    fn remove(&mut self, i: usize) {
        let d = self.z.len() / self.len();
        self.z.drain(i * d..(i + 1) * d);
        self.grad.drain(i * d..(i + 1) * d);
        self.log_p.remove(i);
        self.excess.remove(i);
    }

    /// Remembers the points of an iteration at which `log p - log q` is farthest above `elbo`.
    pub fn collect_from(&mut self, points: &SharedPoints, elbo: f64, tuning: &Tuning) {
        for (z, grad, log_p, residual) in points.evaluated() {
            let excess = residual - elbo;
            if !(excess > tuning.missed_excess && excess.is_finite()) {
                continue;
            }
            let points = self.excess.iter().enumerate().filter(|(_, excess)| excess.is_finite());
            if points.clone().count() >= REMEMBERED * tuning.missed_max_added {
                match points.min_by(|a, b| a.1.total_cmp(b.1)) {
                    Some((least, &low)) if low < excess => self.remove(least),
                    _ => continue,
                }
            }
            self.push(z, grad, log_p, excess);
        }
    }

    /// Gaussians at candidates that `q` does not cover, each with its share of the whole mass by Laplace's estimate, if that
    /// is at least `least_mass`. These candidates are removed, and so are points that `q` covers by now.
    pub fn uncovered(
        &mut self,
        evaluator: &mut LimitedEvaluator<'_>,
        q: &Mixture,
        elbo: f64,
        sd: &[f64],
        least_mass: f64,
        tuning: &Tuning,
    ) -> Result<Vec<(Gaussian, f64)>, Error> {
        let d = q.dim();
        let log_q = if self.len() == 0 { Vec::new() } else { q.log_density(&self.z) };
        let missed: Vec<bool> =
            log_q.iter().zip(&self.log_p).map(|(q, p)| p - q - elbo > tuning.missed_excess).collect();
        let mut order: Vec<usize> = (0..self.len()).filter(|&i| missed[i]).collect();
        order.sort_by(|&a, &b| self.log_p[b].total_cmp(&self.log_p[a]));
        let mut added: Vec<(Gaussian, f64)> = Vec::new();
        for i in order {
            let z = &self.z[i * d..(i + 1) * d];
            let covered = |g: &(Gaussian, f64)| g.0.squared_distance(z) <= 2.0 * tuning.missed_excess + d as f64;
            if added.len() >= tuning.missed_max_added || added.iter().any(covered) || !evaluator.can_afford(d) {
                continue;
            }
            let nearest = q.components().iter().min_by(|a, b| a.squared_distance(z).total_cmp(&b.squared_distance(z)));
            let variance = nearest.map_or_else(|| vec![1.0; d], |g| g.sd().iter().map(|sd| sd * sd).collect());
            let summit = Summit {
                z: z.to_vec(),
                log_p: self.log_p[i],
                grad: self.grad[i * d..(i + 1) * d].to_vec(),
                joins: None,
                finished: true,
                variance,
                path: Vec::new(),
            };
            if let Some(gaussian) = laplace(evaluator, &summit, sd, q.covariance_kind(), tuning)? {
                // Bounded, since the estimate overflows for an unbounded density.
                let mass = (summit.log_p - gaussian.log_norm() - elbo).min(MAX_LOG_MASS).exp();
                if mass >= least_mass {
                    added.push((gaussian, mass));
                }
            }
        }
        // From the back, so that the indices of the others stay valid.
        for i in (0..self.len()).rev() {
            if self.excess[i].is_finite() || missed[i] {
                self.remove(i);
            }
        }
        let total: f64 = added.iter().map(|(_, mass)| mass).sum();
        let most = tuning.missed_max_weight;
        added.iter_mut().for_each(|(_, mass)| *mass *= most / total.max(most));
        Ok(added)
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::with_evaluator;
    use super::*;

    #[test]
    fn a_mode_without_a_component_gets_one_with_its_mass_and_is_removed() {
        let at = |x: f64| Gaussian::isotropic(vec![x, 0.0], 1.0);
        let target = Mixture::new(&[0.7, 0.3], vec![at(0.0), at(20.0)]).unwrap();
        let q = Mixture::single(at(0.0));
        let mut candidates = CandidatePoints::default();
        for (x, weight) in [(0.0, 0.7_f64), (20.0, 0.3)] {
            candidates.add_mode(&[x, 0.0], &[0.0, 0.0], weight.ln() + at(x).log_norm());
        }
        with_evaluator(&target, 100, |evaluator| {
            let mut uncovered = |candidates: &mut CandidatePoints| {
                let tuning = Tuning::default();
                candidates.uncovered(evaluator, &q, 0.7_f64.ln(), &[1.0, 1.0], 0.01, &tuning).unwrap()
            };
            let added = uncovered(&mut candidates);
            assert_eq!((added.len(), candidates.len()), (1, 1));
            let (gaussian, mass) = &added[0];
            assert_eq!(gaussian.mean(), [20.0, 0.0]);
            assert!((mass - 0.3 / 0.7).abs() < 1e-3, "{mass}");
            assert!(uncovered(&mut candidates).is_empty());
            assert_eq!(evaluator.evals(), 2);
        });
    }
}
