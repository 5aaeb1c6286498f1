//! Points that the mixture may miss: modes of the search, and points of the iterations where the target was far above it.
//!
//! A component can leave the mode that it began in, or lose its weight before it has found its shape. What was evaluated
//! there stays a witness: where the mixture comes to rest and `log p - log q` at a witness is still far above its mean, a
//! component with the curvature of `log p` there is added, with Laplace's estimate of the mass as weight.

use super::ascent::Summit;
use super::evaluate::LimitedEvaluator;
use super::laplace::laplace;
use super::shared::Shared;
use super::tuning::Tuning;
use crate::error::Error;
use crate::family::{Gaussian, Mixture};

/// Evaluated points, with how far the target was above the mixture there; infinite for modes, which are never displaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Witnesses {
    pub z: Vec<f64>,
    pub grad: Vec<f64>,
    pub log_p: Vec<f64>,
    pub excess: Vec<f64>,
}

impl Witnesses {
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

    /// Keeps the points of an iteration that lie farthest above the ELBO within reach.
    pub fn watch(&mut self, points: &Shared, elbo: f64, tuning: &Tuning) {
        for (z, grad, log_p, residual) in points.evaluated() {
            let excess = residual - elbo;
            if !(excess > tuning.missed_excess && excess.is_finite()) {
                continue;
            }
            let kept = self.excess.iter().enumerate().filter(|(_, excess)| excess.is_finite());
            if kept.clone().count() >= tuning.missed_max_points {
                match kept.min_by(|a, b| a.1.total_cmp(b.1)) {
                    Some((least, &low)) if low < excess => self.remove(least),
                    _ => continue,
                }
            }
            self.push(z, grad, log_p, excess);
        }
    }

    /// Gaussians at witnesses that `q` misses, each with its share of the whole mass by Laplace's estimate, if that is at
    /// least `least_mass`. Those witnesses are used up, and points that `q` covers by now are forgotten.
    pub fn missed(
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
                variance,
            };
            if let Some(gaussian) = laplace(evaluator, &summit, sd, q.covariance_kind(), tuning)? {
                // Bounded, so that an unbounded density gives a number.
                let mass = (summit.log_p - gaussian.log_norm() - elbo).min(tuning.missed_max_log_mass).exp();
                if mass >= least_mass {
                    added.push((gaussian, mass));
                }
            }
        }
        // From the back, so that the others keep their numbers.
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
    use super::*;
    use crate::evaluate::{Batch, Evaluator, Limits, of_target};
    use crate::strategy::Tools;
    use crate::workspace::ScratchPool;

    #[test]
    fn a_mode_without_a_component_gets_one_with_its_mass_and_is_used_up() {
        let at = |x: f64| Gaussian::isotropic(vec![x, 0.0], 1.0);
        let target = Mixture::new(&[0.7, 0.3], vec![at(0.0), at(20.0)]).unwrap();
        let q = Mixture::single(at(0.0));
        let mut witnesses = Witnesses::default();
        for (x, weight) in [(0.0, 0.7_f64), (20.0, 0.3)] {
            witnesses.add_mode(&[x, 0.0], &[0.0, 0.0], weight.ln() + at(x).log_norm());
        }
        let (scratch, mut always) = (ScratchPool::new(1), |_: &dyn Evaluator| true);
        let (mut whole, mut batch) = (of_target(&target, &scratch, Limits::default()), Batch::default());
        let mut tools = Tools { evaluator: &mut *whole, scratch: &scratch, iteration: 0, go_on: &mut always };
        let mut evaluator = LimitedEvaluator { most_evals: 100, ..LimitedEvaluator::new(&mut tools, &mut batch) };
        let elbo = 0.7_f64.ln();
        let added = witnesses.missed(&mut evaluator, &q, elbo, &[1.0, 1.0], 0.01, &Tuning::default()).unwrap();
        assert_eq!((added.len(), evaluator.evals(), witnesses.len()), (1, 2, 1));
        let (gaussian, mass) = &added[0];
        assert_eq!(gaussian.mean(), [20.0, 0.0]);
        assert!((mass - 0.3 / 0.7).abs() < 1e-3, "{mass}");
        assert!(witnesses.missed(&mut evaluator, &q, elbo, &[1.0, 1.0], 0.01, &Tuning::default()).unwrap().is_empty());
    }
}
