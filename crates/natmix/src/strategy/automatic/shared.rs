//! Points shared by all components: importance weights, and moments from them.
//!
//! With `n_j` points drawn from component j (`n` in all) every point has the density `s(z) = sum_j n_j/n N_j(z)`, and
//! `omega_ki = N_k(z_i) / s(z_i)`, normalised over i, are importance weights for component k. Its effective number of
//! points, `(sum omega)^2 / sum omega^2`, tells how many draws of its own it still needs.
//!
//! Weights never exceed `n / n_k`, so their sums need no logarithms, and points of distant components get weights near zero.

use super::evaluate::{CHUNK, LimitedEvaluator};
use super::moments::{ComponentEstimate, ResidualPoints};
use super::tuning::Tuning;
use crate::draws::{DrawPlan, Key, Plan, Radius};
use crate::error::Error;
use crate::family::{Mixture, MixtureBlock};
use crate::lanes;
use crate::target::Points;
use crate::workspace::ScratchPool;
use rayon::prelude::*;

/// Importance weight below which a point is left out of a component's sums; a point of its own has a weight near one.
const MIN_IMPORTANCE: f64 = 1e-5;
/// Independent draws: the importance weights assume that each point alone follows the density `s`.
const PLAN: DrawPlan = DrawPlan { plan: Plan::Independent, radius: Radius::Random };

/// Points of the previous iteration, with those values that do not depend on the mixture.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PreviousPoints {
    pub z: Vec<f64>,
    pub grad: Vec<f64>,
    pub log_p: Vec<f64>,
    /// `log s(z)`, the density that they were drawn from.
    pub log_s: Vec<f64>,
}

impl PreviousPoints {
    pub fn len(&self) -> usize {
        self.log_p.len()
    }

    pub fn clear(&mut self) {
        [&mut self.z, &mut self.grad, &mut self.log_p, &mut self.log_s].into_iter().for_each(Vec::clear);
    }
}

/// The points of an iteration with their values: those of the previous iteration first, then component after component.
#[derive(Debug, Default)]
pub(crate) struct SharedPoints {
    /// How many of them come from the previous iteration.
    old: usize,
    z: Vec<f64>,
    log_p: Vec<f64>,
    grad: Vec<f64>,
    /// `log N_k`, in blocks of `CHUNK` points: component after component within a block.
    log_n: Vec<f64>,
    log_q: Vec<f64>,
    /// `log s(z)`.
    log_s: Vec<f64>,
    log_counts: Vec<f64>,
    /// `b = log p - log q`, and its gradient.
    residual: Vec<f64>,
    grad_residual: Vec<f64>,
}

/// The ELBO of the mixture and its standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElboEstimate {
    pub elbo: f64,
    pub se: f64,
}

impl SharedPoints {
    /// Draws `draws[k]` points of each component and evaluates target and mixture there.
    pub fn draw(
        &mut self,
        evaluator: &mut LimitedEvaluator<'_>,
        q: &Mixture,
        draws: &[usize],
        (seed, iteration): (u64, u64),
        previous: &PreviousPoints,
    ) -> Result<(), Error> {
        let (d, count) = (q.dim(), q.len());
        self.old = previous.len();
        let n: usize = self.old + draws.iter().sum::<usize>();
        self.z.resize(n * d, 0.0);
        self.grad.resize(n * d, 0.0);
        self.grad_residual.resize(n * d, 0.0);
        self.log_n.resize(n.div_ceil(CHUNK) * CHUNK * count, 0.0);
        for buffer in [&mut self.log_p, &mut self.log_q, &mut self.log_s, &mut self.residual] {
            buffer.resize(n, 0.0);
        }
        self.log_p[..self.old].copy_from_slice(&previous.log_p);
        self.log_s[..self.old].copy_from_slice(&previous.log_s);
        self.grad[..self.old * d].copy_from_slice(&previous.grad);
        let (old, mut rest) = self.z.split_at_mut(self.old * d);
        old.copy_from_slice(&previous.z);
        for (k, &own) in draws.iter().enumerate() {
            let (z, others) = rest.split_at_mut(own * d);
            rest = others;
            let key = Key { seed, id: q.ids()[k], iteration };
            let block = PLAN.block(d);
            evaluator.scratch.with(|scratch| {
                let mut weights = scratch.take_used(block);
                for (at, z) in z.chunks_mut(block * d).enumerate() {
                    let n = z.len() / d;
                    PLAN.fill(z, &mut weights[..n], key, at, scratch);
                }
                scratch.give(weights);
            });
            q.components()[k].place(z);
        }
        let (old, old_d) = (self.old, self.old * d);
        evaluator.evaluate(&self.z[old_d..], &mut self.log_p[old..], &mut self.grad[old_d..])?;
        self.mix(q, draws, evaluator.scratch);
        Ok(())
    }

    /// Copies the new points, for the next iteration.
    pub fn copy_new(&self, previous: &mut PreviousPoints) {
        let d = self.z.len() / self.log_p.len().max(1);
        let copy = |to: &mut Vec<f64>, from: &[f64]| {
            to.clear();
            to.extend_from_slice(from);
        };
        copy(&mut previous.z, &self.z[self.old * d..]);
        copy(&mut previous.grad, &self.grad[self.old * d..]);
        copy(&mut previous.log_p, &self.log_p[self.old..]);
        copy(&mut previous.log_s, &self.log_s[self.old..]);
    }

    /// Evaluates the mixture at all points.
    fn mix(&mut self, q: &Mixture, draws: &[usize], scratch: &ScratchPool) {
        let (d, count) = (q.dim(), q.len());
        self.log_counts.clear();
        let total: usize = draws.iter().sum();
        self.log_counts.extend(draws.iter().map(|&n| (n as f64 / total as f64).ln()));
        let (log_counts, old) = (&self.log_counts, self.old);
        let tasks = self
            .z
            .par_chunks(CHUNK * d)
            .zip(self.log_p.par_chunks(CHUNK).zip(self.grad.par_chunks(CHUNK * d)))
            .zip(self.log_n.par_chunks_mut(CHUNK * count))
            .zip(self.log_q.par_chunks_mut(CHUNK).zip(self.log_s.par_chunks_mut(CHUNK)))
            .zip(self.residual.par_chunks_mut(CHUNK).zip(self.grad_residual.par_chunks_mut(CHUNK * d)))
            .enumerate();
        tasks.for_each(|(at, ((((z, (log_p, grad)), log_n), (log_q, log_s)), (residual, grad_residual)))| {
            scratch.with(|scratch| {
                let block = MixtureBlock::new(q, Points::new(z, d), true, scratch);
                let (n, stride) = (log_p.len(), block.stride);
                let mut sum = scratch.take(stride);
                let mut most = scratch.take_used(stride);
                most.fill(f64::NEG_INFINITY);
                for (k, log_count) in log_counts.iter().enumerate() {
                    let own = &block.log_n[k * stride..][..n];
                    log_n[k * CHUNK..][..n].copy_from_slice(own);
                    most.iter_mut().zip(own).for_each(|(most, x)| *most = most.max(x + log_count));
                }
                for (k, log_count) in log_counts.iter().enumerate() {
                    let own = &block.log_n[k * stride..][..n];
                    for ((sum, x), most) in sum.iter_mut().zip(own).zip(&most) {
                        *sum += lanes::exp(x + log_count - most);
                    }
                }
                for i in 0..n {
                    if at * CHUNK + i >= old {
                        log_s[i] = most[i] + sum[i].ln();
                    }
                    log_q[i] = block.log_q[i];
                    let gradient = &grad[i * d..(i + 1) * d];
                    residual[i] = log_p[i] - log_q[i];
                    for (j, (to, g)) in grad_residual[i * d..(i + 1) * d].iter_mut().zip(gradient).enumerate() {
                        *to = g - block.grad[j * stride + i];
                    }
                }
                scratch.give(sum);
                scratch.give(most);
                block.release(scratch);
            });
        });
    }

    /// Estimates the moments of every component of `q`, the mixture that drew the points.
    pub fn estimate(
        &self,
        q: &Mixture,
        estimates: &mut Vec<ComponentEstimate>,
        scratch: &ScratchPool,
        tuning: &Tuning,
    ) {
        let (d, count) = (q.dim(), q.len());
        let negligible = MIN_IMPORTANCE.ln();
        estimates.resize_with(count, || ComponentEstimate::new(d, q.covariance_kind()));
        estimates.par_iter_mut().enumerate().for_each(|(k, estimate)| {
            estimate.index.clear();
            estimate.omega.clear();
            for (block, at) in self.log_n.chunks_exact(CHUNK * count).zip((0..).step_by(CHUNK)) {
                let points = block[k * CHUNK..][..CHUNK].iter().zip(at..self.log_p.len());
                for (own, i) in points {
                    let omega = own - self.log_s[i];
                    if omega > negligible && self.residual[i].is_finite() {
                        estimate.index.push(i);
                        estimate.omega.push(omega.exp());
                    }
                }
            }
            let points = ResidualPoints { z: &self.z, residual: &self.residual, grad_residual: &self.grad_residual };
            scratch.with(|scratch| estimate.update(&q.components()[k], points, scratch, tuning));
        });
    }

    /// Every new point with its gradient, `log p` and `log p - log q`.
    pub fn evaluated(&self) -> impl Iterator<Item = (&[f64], &[f64], f64, f64)> {
        let d = self.z.len() / self.log_p.len().max(1);
        let points = self.z.chunks_exact(d.max(1)).zip(self.grad.chunks_exact(d.max(1)));
        points.zip(&self.log_p).zip(&self.residual).skip(self.old).map(|(((z, grad), log_p), b)| (z, grad, *log_p, *b))
    }

    /// ELBO from the new points, weighted to stand for draws of `q`: iteration by iteration they are independent.
    pub fn elbo(&self) -> ElboEstimate {
        let usable = || {
            let points = self.log_q.iter().zip(&self.log_s).zip(&self.residual).skip(self.old);
            points.filter(|(_, b)| b.is_finite()).map(|((q, s), b)| (q - s, *b))
        };
        let most = usable().map(|(w, _)| w).fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut mean, mut count) = (0.0, 0.0, 0);
        for (w, b) in usable() {
            let w = (w - most).exp();
            total += w;
            mean += w * b;
            count += 1;
        }
        mean /= total;
        let variance: f64 = usable().map(|(w, b)| ((w - most).exp() / total * (b - mean)).powi(2)).sum();
        let factor = count as f64 / (count as f64 - 1.0);
        ElboEstimate { elbo: mean, se: (variance * factor).sqrt() }
    }
}

/// So that a block of points is never padded beyond its chunk.
const _: () = assert!(CHUNK.is_multiple_of(lanes::LANES));

#[cfg(test)]
mod tests {
    use super::super::evaluate::with_evaluator;
    use super::*;
    use crate::family::Gaussian;

    #[test]
    fn points_of_the_previous_iteration_are_weighted_by_the_density_that_they_were_drawn_from() {
        let mixture = |x: f64| {
            let parts = vec![Gaussian::isotropic(vec![x, 0.0], 1.0), Gaussian::isotropic(vec![1.5, 0.5], 0.7)];
            Mixture::new(&[0.6, 0.4], parts).unwrap()
        };
        let (before, now) = (mixture(0.0), mixture(0.2));
        let (mut shared, mut previous, mut estimates) =
            (SharedPoints::default(), PreviousPoints::default(), Vec::new());
        with_evaluator(&mixture(1.0), u64::MAX, |evaluator| {
            shared.draw(evaluator, &before, &[30, 10], (1, 0), &previous).unwrap();
            shared.copy_new(&mut previous);
            shared.draw(evaluator, &now, &[20, 20], (1, 1), &previous).unwrap();
            assert_eq!((previous.len(), evaluator.evals()), (40, 80));
            shared.estimate(&now, &mut estimates, evaluator.scratch, &Tuning::default());
        });
        let density = |q: &Mixture, shares: [f64; 2], z: &[f64]| {
            let drawn = Mixture::new(&shares, q.components().to_vec()).unwrap();
            drawn.log_density(z)[0].exp()
        };
        for (k, estimate) in estimates.iter().enumerate() {
            assert!(estimate.index.iter().any(|&i| i < 40) && estimate.index.iter().any(|&i| i >= 40));
            let own = Mixture::single(now.components()[k].clone());
            let ratio = |&i: &usize| {
                let z = &shared.z[2 * i..2 * i + 2];
                let from = if i < 40 { density(&before, [0.75, 0.25], z) } else { density(&now, [0.5, 0.5], z) };
                own.log_density(z)[0].exp() / from
            };
            let total: f64 = estimate.index.iter().map(ratio).sum();
            for (i, omega) in estimate.index.iter().zip(&estimate.omega) {
                let wanted = ratio(i) / total;
                assert!((omega - wanted).abs() < 1e-12, "{omega} {wanted}");
            }
        }
        // The ELBO comes from the new points alone.
        assert_eq!(shared.evaluated().count(), 40);
    }
}
