//! Points that serve every component: importance weights, and moments from them.
//!
//! With `n_j` points drawn from component j (`n` in all) every point has the density `s(z) = sum_j n_j/n N_j(z)`, and
//! `omega_ki = N_k(z_i) / s(z_i)`, normalised over i, makes all of them serve component k. The effective number of points of
//! a component, `(sum omega)^2 / sum omega^2`, tells how many draws of its own it still needs.
//!
//! Weights never exceed `n / n_k`, so their sums need no logarithms, and points of far components fall out by themselves.

use super::evaluate::{CHUNK, LimitedEvaluator};
use super::moments::{View, Weighted};
use super::tuning::Tuning;
use crate::draws::{DrawPlan, Key, Plan, Radius};
use crate::error::Error;
use crate::family::{Mixture, MixtureBlock};
use crate::lanes;
use crate::target::Points;
use crate::workspace::ScratchPool;
use rayon::prelude::*;

/// Independent draws: the importance weights need points that follow their density one by one, and heavy tails want them.
const PLAN: DrawPlan = DrawPlan { plan: Plan::Independent, radius: Radius::Random };

/// Points of the iteration before, with what does not change about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    pub z: Vec<f64>,
    pub grad: Vec<f64>,
    pub log_p: Vec<f64>,
    /// `log s(z)`, the density that they were drawn from.
    pub log_s: Vec<f64>,
}

impl Kept {
    pub fn len(&self) -> usize {
        self.log_p.len()
    }

    pub fn clear(&mut self) {
        [&mut self.z, &mut self.grad, &mut self.log_p, &mut self.log_s].into_iter().for_each(Vec::clear);
    }
}

/// The points of an iteration, those kept first and then component after component, with all that is known about them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// How many of them are kept from the iteration before.
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

/// What the points say about the whole mixture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    pub elbo: f64,
    pub se: f64,
}

impl Shared {
    /// Draws `counts[k]` points of each component and evaluates target and mixture there.
    pub fn draw(
        &mut self,
        evaluator: &mut LimitedEvaluator<'_>,
        q: &Mixture,
        counts: &[usize],
        (seed, iteration): (u64, u64),
        kept: &Kept,
    ) -> Result<(), Error> {
        let (d, count) = (q.dim(), q.len());
        self.old = kept.len();
        let n: usize = self.old + counts.iter().sum::<usize>();
        self.z.resize(n * d, 0.0);
        self.grad.resize(n * d, 0.0);
        self.grad_residual.resize(n * d, 0.0);
        self.log_n.resize(n.div_ceil(CHUNK) * CHUNK * count, 0.0);
        for buffer in [&mut self.log_p, &mut self.log_q, &mut self.log_s, &mut self.residual] {
            buffer.resize(n, 0.0);
        }
        self.log_p[..self.old].copy_from_slice(&kept.log_p);
        self.log_s[..self.old].copy_from_slice(&kept.log_s);
        self.grad[..self.old * d].copy_from_slice(&kept.grad);
        let (old, mut rest) = self.z.split_at_mut(self.old * d);
        old.copy_from_slice(&kept.z);
        for (k, &own) in counts.iter().enumerate() {
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
        self.mix(q, counts, evaluator.scratch);
        Ok(())
    }

    /// Hands the new points on to the next iteration.
    pub fn keep(&self, kept: &mut Kept) {
        let d = self.z.len() / self.log_p.len().max(1);
        let copy = |to: &mut Vec<f64>, from: &[f64]| {
            to.clear();
            to.extend_from_slice(from);
        };
        copy(&mut kept.z, &self.z[self.old * d..]);
        copy(&mut kept.grad, &self.grad[self.old * d..]);
        copy(&mut kept.log_p, &self.log_p[self.old..]);
        copy(&mut kept.log_s, &self.log_s[self.old..]);
    }

    /// Evaluates the mixture at all points.
    fn mix(&mut self, q: &Mixture, counts: &[usize], scratch: &ScratchPool) {
        let (d, count) = (q.dim(), q.len());
        self.log_counts.clear();
        let total: usize = counts.iter().sum();
        self.log_counts.extend(counts.iter().map(|&n| (n as f64 / total as f64).ln()));
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
    pub fn view(&self, q: &Mixture, views: &mut Vec<View>, scratch: &ScratchPool, tuning: &Tuning) {
        let (d, count) = (q.dim(), q.len());
        let negligible = tuning.draw_min_importance.ln();
        views.resize_with(count, || View::new(d, q.curvature_shape()));
        views.par_iter_mut().enumerate().for_each(|(k, view)| {
            view.index.clear();
            view.omega.clear();
            for (block, at) in self.log_n.chunks_exact(CHUNK * count).zip((0..).step_by(CHUNK)) {
                let points = block[k * CHUNK..][..CHUNK].iter().zip(at..self.log_p.len());
                for (own, i) in points {
                    let omega = own - self.log_s[i];
                    if omega > negligible && self.residual[i].is_finite() {
                        view.index.push(i);
                        view.omega.push(omega.exp());
                    }
                }
            }
            let points = Weighted { z: &self.z, residual: &self.residual, grad_residual: &self.grad_residual };
            scratch.with(|scratch| view.look(&q.components()[k], points, scratch, tuning));
        });
    }

    /// Every new point with its gradient, `log p` and `log p - log q`.
    pub fn evaluated(&self) -> impl Iterator<Item = (&[f64], &[f64], f64, f64)> {
        let d = self.z.len() / self.log_p.len().max(1);
        let points = self.z.chunks_exact(d.max(1)).zip(self.grad.chunks_exact(d.max(1)));
        points.zip(&self.log_p).zip(&self.residual).skip(self.old).map(|(((z, grad), log_p), b)| (z, grad, *log_p, *b))
    }

    /// ELBO from the new points, weighted to stand for draws of `q`: iteration by iteration they are independent.
    pub fn whole(&self) -> Whole {
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
        Whole { elbo: mean, se: (variance * factor).sqrt() }
    }
}

/// Lanes and chunks go together: a block of points is never padded beyond its chunk.
const _: () = assert!(CHUNK.is_multiple_of(lanes::LANES));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::{Batch, Evaluator, Limits, of_target};
    use crate::family::Gaussian;
    use crate::strategy::Tools;

    #[test]
    fn points_of_the_iteration_before_are_weighed_by_the_density_that_they_came_from() {
        let mixture = |x: f64| {
            let parts = vec![Gaussian::isotropic(vec![x, 0.0], 1.0), Gaussian::isotropic(vec![1.5, 0.5], 0.7)];
            Mixture::new(&[0.6, 0.4], parts).unwrap()
        };
        let (before, now) = (mixture(0.0), mixture(0.2));
        let (target, scratch, mut always) = (mixture(1.0), ScratchPool::new(1), |_: &dyn Evaluator| true);
        let (mut whole, mut batch) = (of_target(&target, &scratch, Limits::default()), Batch::default());
        let mut tools = Tools { evaluator: &mut *whole, scratch: &scratch, iteration: 0, go_on: &mut always };
        let mut evaluator = LimitedEvaluator::new(&mut tools, &mut batch);
        let (mut shared, mut kept, mut views) = (Shared::default(), Kept::default(), Vec::new());
        shared.draw(&mut evaluator, &before, &[30, 10], (1, 0), &kept).unwrap();
        shared.keep(&mut kept);
        shared.draw(&mut evaluator, &now, &[20, 20], (1, 1), &kept).unwrap();
        assert_eq!((kept.len(), evaluator.evals()), (40, 80));
        shared.view(&now, &mut views, &scratch, &Tuning::default());
        let density = |q: &Mixture, shares: [f64; 2], z: &[f64]| {
            let drawn = Mixture::new(&shares, q.components().to_vec()).unwrap();
            drawn.log_density(z)[0].exp()
        };
        for (k, view) in views.iter().enumerate() {
            assert!(view.index.iter().any(|&i| i < 40) && view.index.iter().any(|&i| i >= 40));
            let own = Mixture::single(now.components()[k].clone());
            let ratio = |&i: &usize| {
                let z = &shared.z[2 * i..2 * i + 2];
                let from = if i < 40 { density(&before, [0.75, 0.25], z) } else { density(&now, [0.5, 0.5], z) };
                own.log_density(z)[0].exp() / from
            };
            let total: f64 = view.index.iter().map(ratio).sum();
            for (i, omega) in view.index.iter().zip(&view.omega) {
                let wanted = ratio(i) / total;
                assert!((omega - wanted).abs() < 1e-12, "{omega} {wanted}");
            }
        }
        // The ELBO comes from the new points alone.
        assert_eq!(shared.evaluated().count(), 40);
    }
}
