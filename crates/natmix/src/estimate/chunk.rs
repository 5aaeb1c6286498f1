//! One task of an iteration: the values at a chunk of one component's points through mixture and estimator.

use super::trick::Coefficients;
use super::{Estimator, Setup, score, stein};
use crate::family::MixtureBlock;
use crate::lanes;
use crate::target::Points;
use crate::workspace::Scratch;

/// The sums over one chunk.
#[derive(Debug, Default)]
pub(crate) struct ChunkSums {
    /// For each component served: `[sum w, sum w b, sum w c (log N + H), sum w grad (d), sum w curvature (d or d^2)]`,
    /// or the score sums.
    pub sums: Vec<f64>,
}

/// A chunk's points with the target's answers, and where the results per point go.
pub(crate) struct ChunkPoints<'a> {
    pub z: &'a [f64],
    /// Not finite where a point could not be used.
    pub log_p: &'a [f64],
    /// Empty where no gradient is needed.
    pub grad: &'a [f64],
    /// Weighted sums over the usable points, one for each component served; empty where no curvature is needed.
    pub curv: &'a [f64],
    pub weight: &'a [f64],
    /// `b` at each point; NaN where it could not be used.
    pub residual: &'a mut [f64],
    /// `log N` of the component that drew the points.
    pub own: &'a mut [f64],
    /// `(grad b)'(z - m)`.
    pub lift: &'a mut [f64],
}

/// Ratio `N_c / q` at point `i` of a block.
pub(crate) fn delta(block: &MixtureBlock, c: usize, i: usize) -> f64 {
    (block.log_n[c * block.stride + i] - block.log_q[i]).exp()
}

/// Points per chunk when a component has `n`: few enough to share the work of one component among threads,
/// many enough for matrix products. Depends on nothing but `n`.
pub(crate) fn points_per_chunk(n: usize) -> usize {
    let most = n.div_ceil(8).clamp(8, 128);
    n.div_ceil(n.div_ceil(most).max(1)).max(1)
}

impl ChunkSums {
    /// Numbers that one served component takes in `sums`.
    pub fn width(setup: &Setup<'_>) -> usize {
        let (d, shape) = (setup.q.dim(), setup.q.curvature_shape());
        match setup.estimator {
            Estimator::Score => score::len(d, shape),
            _ => 3 + d + shape.len(d),
        }
    }

    /// Numbers in `sums`.
    pub fn len(setup: &Setup<'_>) -> usize {
        Self::width(setup) * setup.served()
    }

    /// Sums over the points of component `own`. Those that could not be used are left out.
    pub fn run(&mut self, setup: &Setup<'_>, own: usize, tricks: &[Coefficients], points: ChunkPoints<'_>) {
        setup.scratch.with(|scratch| self.add_usable(setup, own, tricks, points, scratch));
    }

    fn add_usable(
        &mut self,
        setup: &Setup<'_>,
        own: usize,
        tricks: &[Coefficients],
        mut points: ChunkPoints<'_>,
        scratch: &mut Scratch,
    ) {
        let (d, n) = (setup.q.dim(), points.weight.len());
        self.sums.fill(0.0);
        let all = points.log_p.iter().all(|x| x.is_finite());
        if all && self.add(setup, own, tricks, &mut points, scratch) {
            return;
        }
        // Rare: some points failed, so this path may allocate. The good ones make up a smaller chunk.
        let good: Vec<usize> =
            (0..n).filter(|&i| if all { points.residual[i] } else { points.log_p[i] }.is_finite()).collect();
        points.residual.fill(f64::NAN);
        // If only the density of the mixture failed, the target's sums still include the point.
        if good.is_empty() || all && !points.curv.is_empty() {
            return;
        }
        let pick = |from: &[f64], each: usize| -> Vec<f64> {
            good.iter().flat_map(|&i| &from[i * each..(i + 1) * each]).copied().collect()
        };
        let (z, log_p, weight) = (pick(points.z, d), pick(points.log_p, 1), pick(points.weight, 1));
        let grad = if points.grad.is_empty() { Vec::new() } else { pick(points.grad, d) };
        let mut results = vec![0.0; 3 * good.len()];
        let (residual, rest) = results.split_at_mut(good.len());
        let (own_density, lift) = rest.split_at_mut(good.len());
        let curv = points.curv;
        let kept =
            ChunkPoints { z: &z, log_p: &log_p, grad: &grad, curv, weight: &weight, residual, own: own_density, lift };
        // Fewer points each time, so this ends.
        self.add_usable(setup, own, tricks, kept, scratch);
        for (at, &i) in good.iter().enumerate() {
            points.residual[i] = results[at];
            points.own[i] = results[good.len() + at];
            points.lift[i] = results[2 * good.len() + at];
        }
    }

    /// Adds all points to the sums; returns whether that was possible.
    fn add(
        &mut self,
        setup: &Setup<'_>,
        own: usize,
        tricks: &[Coefficients],
        points: &mut ChunkPoints<'_>,
        scratch: &mut Scratch,
    ) -> bool {
        let (q, d, n) = (setup.q, setup.q.dim(), points.weight.len());
        let block = MixtureBlock::new(q, Points::new(points.z, d), setup.estimator.needs_gradient(), scratch);
        let stride = block.stride;
        let mut residual = scratch.take(stride);
        for ((b, log_p), log_q) in residual.iter_mut().zip(points.log_p).zip(&block.log_q) {
            *b = log_p - log_q;
        }
        points.residual.copy_from_slice(&residual[..n]);
        points.own.copy_from_slice(&block.log_n[own * stride..][..n]);
        points.lift.fill(0.0);
        let fine = points.residual.iter().all(|b| b.is_finite());
        if fine {
            self.accumulate(setup, own, tricks, &block, points, &residual, scratch);
        }
        scratch.give(residual);
        block.release(scratch);
        fine
    }

    #[allow(clippy::too_many_arguments)]
    fn accumulate(
        &mut self,
        setup: &Setup<'_>,
        own: usize,
        tricks: &[Coefficients],
        block: &MixtureBlock,
        points: &mut ChunkPoints<'_>,
        b: &[f64],
        scratch: &mut Scratch,
    ) {
        let (q, d, n, stride, shape) = (setup.q, setup.q.dim(), block.n, block.stride, setup.q.curvature_shape());
        let width = Self::width(setup);
        let mut w = scratch.take(stride);
        if setup.estimator == Estimator::Score {
            w[..n].copy_from_slice(points.weight);
            for (k, sums) in self.sums.chunks_exact_mut(width).enumerate() {
                score::add(sums, q, k, block, &w, b, scratch);
            }
            scratch.give(w);
            return;
        }
        // grad b, transposed.
        let mut residual = scratch.take_used(d * stride);
        lanes::transpose(&mut residual, points.grad, d);
        residual.iter_mut().zip(&block.grad).for_each(|(p, q)| *p -= q);
        let own_mean = q.components()[own].mean();
        for ((g, z), m) in residual.chunks_exact(stride).zip(block.z.chunks_exact(stride)).zip(own_mean) {
            for ((lift, g), z) in points.lift.iter_mut().zip(g).zip(z) {
                *lift += g * (z - m);
            }
        }

        let mut tilted = scratch.take_used(d * stride);
        let mut scale = scratch.take(stride);
        let first = if setup.shared { 0 } else { own };
        for (slot, sums) in self.sums.chunks_exact_mut(width).enumerate() {
            let c = first + slot;
            let component = &q.components()[c];
            let trick = tricks[c];
            // Weight of point i for component c: v_i, times delta_c = N_c / q where the mixture drew it.
            for (i, (w, v)) in w.iter_mut().zip(points.weight).enumerate() {
                *w = v * if setup.shared { delta(block, c, i) } else { 1.0 };
            }
            let y = &block.y[c * d * stride..][..d * stride];
            let (log_n, entropy) = (&block.log_n[c * stride..][..stride], component.entropy());
            for ((w, b), log_n) in w.iter().zip(b).zip(log_n).take(n) {
                sums[0] += w;
                sums[1] += w * b;
                sums[2] += w * (trick.value * (log_n + entropy));
            }
            // grad b + c a, with a = -L y.
            tilted.copy_from_slice(&residual);
            if trick.grad != 0.0 {
                scale.fill(-trick.grad);
                component.precision().add_scaled_times_factor(&mut tilted, &scale, y, scratch);
            }
            for (sum, g) in sums[3..3 + d].iter_mut().zip(tilted.chunks_exact(stride)) {
                *sum += w.iter().zip(g).map(|(w, g)| w * g).sum::<f64>();
            }
            let hess = &mut sums[3 + d..];
            match setup.estimator {
                Estimator::Stein => stein::add(hess, &w, y, &tilted, shape, scratch),
                _ => {
                    hess.copy_from_slice(&points.curv[slot * hess.len()..(slot + 1) * hess.len()]);
                    scale[..n].iter_mut().zip(&w).for_each(|(scale, w)| *scale = -w);
                    block.add_hessian(q, &scale[..n], shape, hess, scratch);
                }
            }
        }
        for buffer in [w, residual, tilted, scale] {
            scratch.give(buffer);
        }
    }
}
