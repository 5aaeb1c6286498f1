//! One component's share of an iteration: its points, and the sums over their values.

use super::chunk::{ChunkPoints, ChunkSums, delta, points_per_chunk};
use super::trick::Coefficients;
use super::{Estimator, Moments, Setup, score};
use crate::draws::{DrawPlan, Key};
use crate::evaluate::{Part, Request};
use crate::family::{Mixture, MixtureBlock};
use crate::linalg;
use crate::target::{CurvatureShape, Points};
use crate::workspace::Scratch;
use rayon::prelude::*;

/// Smallest share of a component's weight that must remain when points are dropped.
const FEWEST_KEPT: f64 = 0.1;

/// How the points of a component are drawn.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    pub count: usize,
    /// Sum of their weights.
    pub share: f64,
    pub plan: DrawPlan,
    pub key: Key,
}

/// The points of one component, which stand in a [`Part`] of the iteration's batch, with what goes with each of them.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    weight: Vec<f64>,
    residual: Vec<f64>,
    own: Vec<f64>,
    lift: Vec<f64>,
    chunks: Vec<ChunkSums>,
    /// How many chunks this iteration has.
    active: usize,
    /// Weighted mean of `b` alone.
    raw_mean: f64,
    /// Weighted mean of `b` with the entropy trick, and the variance of that mean.
    pub mean: f64,
    pub variance: f64,
    /// Sum of the weights of usable points.
    pub total: f64,
}

impl Cell {
    /// Makes room for `count` points, here and in their part of the batch.
    pub fn resize(&mut self, part: &mut Part, request: &Request, count: usize, dim: usize) {
        part.resize(count, dim, points_per_chunk(count), request);
        for buffer in [&mut self.weight, &mut self.residual, &mut self.own, &mut self.lift] {
            buffer.resize(count, 0.0);
        }
        self.active = part.chunks();
        // Never shortened: a chunk that is idle now keeps its buffers for the next time.
        if self.chunks.len() < self.active {
            self.chunks.resize_with(self.active, ChunkSums::default);
        }
    }

    /// Fills a part with `draw.count` points of component `k`, with weights that sum to `draw.share`, in parallel.
    pub fn draw(&mut self, part: &mut Part, request: &Request, setup: &Setup<'_>, k: usize, draw: Draw) {
        let Draw { count, share, plan, key } = draw;
        let d = setup.q.dim();
        self.resize(part, request, count, d);
        if count == 0 {
            return;
        }
        let block = plan.block(d);
        let drawn = plan.count_without_centre(count);
        let blocks = part.z[..drawn * d].par_chunks_mut(block * d).zip(self.weight[..drawn].par_chunks_mut(block));
        blocks.enumerate().for_each(|(at, (eps, weight))| {
            setup.scratch.with(|scratch| plan.fill(eps, weight, key, at, scratch));
        });
        plan.finish(&mut part.z, &mut self.weight);
        setup.q.components()[k].place(&mut part.z);
        self.weight.iter_mut().for_each(|w| *w *= share);
        self.weigh_curvature(part, setup);
    }

    /// Takes points from elsewhere.
    pub fn take_points(
        &mut self,
        part: &mut Part,
        request: &Request,
        setup: &Setup<'_>,
        points: &[f64],
        weights: &[f64],
    ) {
        self.resize(part, request, weights.len(), setup.q.dim());
        part.z.copy_from_slice(points);
        self.weight.copy_from_slice(weights);
        self.weigh_curvature(part, setup);
    }

    /// Sets the weights of the curvature sums, where there are any: one sum for each component that is served.
    fn weigh_curvature(&self, part: &mut Part, setup: &Setup<'_>) {
        if part.weights.is_empty() {
            return;
        }
        let (d, c, served) = (setup.q.dim(), part.chunk, setup.served());
        let chunks = part.z.par_chunks(c * d).zip(self.weight.par_chunks(c));
        chunks.zip(part.weights.par_chunks_mut(c * served)).for_each(|((z, base), weights)| {
            if !setup.shared {
                weights.copy_from_slice(base);
                return;
            }
            setup.scratch.with(|scratch| {
                let block = MixtureBlock::new(setup.q, Points::new(z, d), false, scratch);
                for (k, weights) in weights.chunks_exact_mut(base.len()).enumerate() {
                    weights.iter_mut().zip(base).enumerate().for_each(|(i, (w, v))| *w = v * delta(&block, k, i));
                }
                block.release(scratch);
            });
        });
    }

    /// Computes the sums over all points, chunk by chunk, in parallel.
    pub fn estimate(&mut self, part: &Part, setup: &Setup<'_>, k: usize, tricks: &[Coefficients], paired: bool) {
        let (d, c) = (setup.q.dim(), part.chunk);
        let len = ChunkSums::len(setup);
        // Idle ones too, so that they are ready when they are needed.
        self.chunks.iter_mut().for_each(|chunk| chunk.sums.resize(len, 0.0));
        let results = self.residual.par_chunks_mut(c).zip(self.own.par_chunks_mut(c)).zip(self.lift.par_chunks_mut(c));
        let points = part.z.par_chunks(c * d).zip(part.log_p.par_chunks(c)).zip(self.weight.par_chunks(c));
        points.zip(results).zip(&mut self.chunks[..self.active]).enumerate().for_each(
            |(at, ((((z, log_p), weight), ((residual, own), lift)), chunk))| {
                let grad = if part.grad.is_empty() { &[][..] } else { &part.grad[at * c * d..][..z.len()] };
                let curv = part.curv_of(at);
                chunk.run(setup, k, tricks, ChunkPoints { z, log_p, grad, curv, weight, residual, own, lift });
            },
        );
        self.summarise(tricks[k].value, setup.q.components()[k].entropy(), paired);
    }

    /// Mean of the residual with the entropy trick, and its variance from the spread of independent groups:
    /// antithetic pairs, or single points.
    fn summarise(&mut self, trick: f64, entropy: f64, paired: bool) {
        let value = |i: usize| self.residual[i] + trick * (self.own[i] + entropy);
        let (mut total, mut sum, mut raw) = (0.0, 0.0, 0.0);
        for (i, v) in self.weight.iter().enumerate().filter(|(i, _)| self.residual[*i].is_finite()) {
            total += v;
            sum += v * value(i);
            raw += v * self.residual[i];
        }
        // Weights of a random radius can be negative: with points dropped, what is left may cancel to almost nothing.
        let enough = total > FEWEST_KEPT * self.weight.iter().sum::<f64>();
        (self.total, self.mean) = if enough { (total, sum / total) } else { (0.0, f64::NAN) };
        self.raw_mean = raw / total;
        let group = if paired { 2 } else { 1 };
        let (mut groups, mut spread) = (0.0, 0.0);
        for first in (0..self.weight.len()).step_by(group) {
            let mut pull = 0.0;
            let mut any = false;
            for i in (first..(first + group).min(self.weight.len())).filter(|&i| self.residual[i].is_finite()) {
                pull += self.weight[i] / total * (value(i) - self.mean);
                any = true;
            }
            if any {
                groups += 1.0;
                spread += pull * pull;
            }
        }
        self.variance = if groups > 1.0 { spread * groups / (groups - 1.0) } else { f64::INFINITY };
    }

    pub fn chunks(&self) -> &[ChunkSums] {
        &self.chunks[..self.active]
    }
    pub fn weights(&self) -> &[f64] {
        &self.weight
    }
    pub fn residuals(&self) -> &[f64] {
        &self.residual
    }
    pub fn count(&self) -> usize {
        self.weight.len()
    }
    /// Points of this iteration that could not be used.
    fn lost(&self) -> u64 {
        self.residual.iter().filter(|b| !b.is_finite()).count() as u64
    }

    /// The coefficients that would have been best for these points.
    pub fn best_coefficients(&self, log_norm: f64) -> Option<Coefficients> {
        Coefficients::fit(&self.weight, &self.residual, &self.own, &self.lift, log_norm)
    }
}

/// Combines the chunks that serve component `k` into its moments.
pub(crate) fn reduce(
    out: &mut Moments,
    cells: &[Cell],
    setup: &Setup<'_>,
    k: usize,
    trick: Coefficients,
    scratch: &mut Scratch,
) {
    if setup.estimator == Estimator::Score {
        score::finish(out, cells, setup.q, k, scratch);
        return;
    }
    let (q, d) = (setup.q, setup.q.dim());
    let width = ChunkSums::width(setup);
    let mut sums = scratch.take(width);
    let (serving, slot) = if setup.shared { (cells, k) } else { (&cells[k..=k], 0) };
    for chunk in serving.iter().flat_map(Cell::chunks) {
        sums.iter_mut().zip(&chunk.sums[slot * width..(slot + 1) * width]).for_each(|(a, b)| *a += b);
    }
    let total: f64 = serving.iter().map(|cell| cell.total).sum();
    out.usable = total > 0.0;
    if out.usable {
        let scale = total.recip();
        out.value = if setup.shared && q.len() > 1 {
            baselined(serving, sums[0] * scale, sums[1] * scale) + sums[2] * scale
        } else {
            (sums[1] + sums[2]) * scale
        };
        out.grad.iter_mut().zip(&sums[3..]).for_each(|(g, s)| *g = s * scale);
        out.hess.iter_mut().zip(&sums[3 + d..]).for_each(|(h, s)| *h = s * scale);
        if setup.estimator != Estimator::Stein {
            if q.curvature_shape() == CurvatureShape::Full {
                // A target may sum its matrices in an order that is not symmetric to the last bit.
                linalg::symmetrise(&mut out.hess, d);
            }
        } else {
            let component = &q.components()[k];
            component.precision().unwhiten_slope(&mut out.hess, scratch);
            // E[delta] = 1, but not its average: the known curvature of the control variate has no noise.
            component.precision().add_to(&mut out.hess, trick.grad, q.curvature_shape());
        }
    }
    scratch.give(sums);
}

/// `E_k[b]` from draws of the mixture. The mean of delta_k is one only on average, so `b` is taken relative to its
/// mean over the other draws: a baseline that is independent of each draw and leaves the estimate unbiased. (Under plans
/// whose draws depend on each other that is true up to one over their number.)
fn baselined(cells: &[Cell], delta: f64, delta_b: f64) -> f64 {
    let total: f64 = cells.iter().map(|cell| cell.total).sum();
    let usable = cells.iter().filter(|cell| cell.total > 0.0);
    let mean = usable.map(|cell| cell.total * cell.raw_mean).sum::<f64>() / total;
    let n: f64 = cells.iter().map(|cell| (cell.count() as u64 - cell.lost()) as f64).sum();
    let loo = if n > 1.0 { n / (n - 1.0) } else { 1.0 };
    mean + loo * (delta_b - mean * delta)
}

/// ELBO of the iteration with the variance of its estimate: `sum_k w_k E_k[b]`. Components without a usable point
/// are left out.
pub(crate) fn elbo(cells: &[Cell], q: &Mixture, shared: bool) -> (f64, f64) {
    let (mut total, mut mean, mut variance) = (0.0, 0.0, 0.0);
    for (cell, log_w) in cells.iter().zip(q.log_weights()).filter(|(cell, _)| cell.total > 0.0) {
        let share = if shared { cell.total } else { log_w.exp() };
        total += share;
        mean += share * cell.mean;
        // A lone draw has no spread of its own: its variance is infinite, and so is the error of the whole.
        variance += share * share * cell.variance;
    }
    mean /= total;
    variance /= total * total;
    if shared {
        // How many draws each component got is random as well.
        let draws: f64 = cells.iter().map(|cell| cell.count() as f64).sum();
        let between = cells.iter().filter(|cell| cell.total > 0.0);
        variance += between.map(|cell| cell.total / total * (cell.mean - mean).powi(2)).sum::<f64>() / draws;
    }
    (mean, variance.sqrt())
}
