//! One task of an iteration: a chunk of one component's points through target, mixture and estimator.

use super::trick::Coefficients;
use super::{Estimator, Setup, score, stein};
use crate::family::Block;
use crate::lanes;
use crate::target::{CurvatureSums, EvalOut, Points, TargetError};
use crate::workspace::Scratch;

/// What a chunk leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// For each component served: `[sum w, sum w b, sum w c (log N + H), sum w grad (d), sum w curvature (d or d^2)]`,
    /// or the score sums.
    pub sums: Vec<f64>,
    /// Points at which the target was evaluated, a second look at the good ones included.
    pub evals: u64,
    /// Points that could not be used.
    pub dropped: u64,
    pub error: Option<TargetError>,
}

/// A chunk's points and where its per-point results go.
pub(crate) struct ChunkPoints<'a> {
    pub z: &'a [f64],
    pub weight: &'a [f64],
    /// `b` at each point; NaN where it could not be used.
    pub residual: &'a mut [f64],
    /// `log N` of the component that drew the points.
    pub own: &'a mut [f64],
    /// `(grad b)'(z - m)`.
    pub lift: &'a mut [f64],
    /// What the target said about these points, if it was asked before.
    pub given: Option<Given<'a>>,
}

/// What a target said about points that it evaluated together with others.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub log_p: &'a [f64],
    /// Empty where no gradient is needed.
    pub grad: &'a [f64],
    /// A matrix a point; empty where no curvature is needed.
    pub curv: &'a [f64],
}

impl<'a> Given<'a> {
    /// The part about some of the points.
    pub fn slice(self, points: std::ops::Range<usize>) -> Self {
        let part = |x: &'a [f64]| {
            let each = x.len() / self.log_p.len().max(1);
            &x[points.start * each..points.end * each]
        };
        Self { log_p: &self.log_p[points.clone()], grad: part(self.grad), curv: part(self.curv) }
    }

    /// Copies of the parts about single points: values, gradients and matrices.
    fn pick(self, points: &[usize]) -> [Vec<f64>; 3] {
        let one = |&i: &usize| self.slice(i..i + 1);
        [
            points.iter().flat_map(|i| one(i).log_p).copied().collect(),
            points.iter().flat_map(|i| one(i).grad).copied().collect(),
            points.iter().flat_map(|i| one(i).curv).copied().collect(),
        ]
    }

    /// Hands out the results as an evaluation would.
    fn copy_to(self, out: EvalOut<'_>) {
        out.log_p.copy_from_slice(self.log_p);
        if let Some(grad) = out.grad {
            grad.copy_from_slice(self.grad);
        }
        if let Some(curv) = out.curv {
            let n = self.log_p.len();
            let width = self.curv.len() / n;
            curv.sums.fill(0.0);
            for (sum, weights) in curv.sums.chunks_exact_mut(width).zip(curv.weights.chunks_exact(n)) {
                for (matrix, weight) in self.curv.chunks_exact(width).zip(weights) {
                    sum.iter_mut().zip(matrix).for_each(|(sum, x)| *sum += weight * x);
                }
            }
        }
    }
}

/// Points a chunk holds when a component has `n`: few enough to share the work of one component among threads,
/// many enough for matrix products. Depends on nothing but `n`.
pub(crate) fn points_per_chunk(n: usize) -> usize {
    let most = n.div_ceil(8).clamp(8, 128);
    n.div_ceil(n.div_ceil(most).max(1)).max(1)
}

impl Chunk {
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
        Self::width(setup) * if setup.shared { setup.q.len() } else { 1 }
    }

    /// Evaluates the points of component `own`. A point that fails is left out, and the rest evaluated again where
    /// it could have spoilt a sum.
    pub fn run(&mut self, setup: &Setup<'_>, own: usize, tricks: &[Coefficients], points: ChunkPoints<'_>) {
        self.sums.fill(0.0);
        (self.evals, self.dropped, self.error) = (0, 0, None);
        setup.scratch.with(|scratch| {
            if let Err(error) = self.evaluate(setup, own, tricks, points, scratch) {
                self.error = Some(error);
            }
        });
    }

    fn evaluate(
        &mut self,
        setup: &Setup<'_>,
        own: usize,
        tricks: &[Coefficients],
        points: ChunkPoints<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        let (d, n) = (setup.q.dim(), points.weight.len());
        let Attempt { residual, own: own_density, lift, good } = self.attempt(setup, own, tricks, &points, scratch)?;
        points.residual.copy_from_slice(&residual[..n]);
        points.own.copy_from_slice(&own_density[..n]);
        points.lift.copy_from_slice(&lift[..n]);
        for buffer in [residual, own_density, lift] {
            scratch.give(buffer);
        }
        let Some(good) = good else { return Ok(()) };
        // Rare: some points failed, so this path may allocate. Keep the good ones and look again.
        self.dropped += (n - good.len()) as u64;
        self.sums.fill(0.0);
        points.residual.fill(f64::NAN);
        if good.is_empty() {
            return Ok(());
        }
        let z: Vec<f64> = good.iter().flat_map(|&i| points.z[i * d..(i + 1) * d].iter().copied()).collect();
        let weight: Vec<f64> = good.iter().map(|&i| points.weight[i]).collect();
        let mut results = vec![0.0; 3 * good.len()];
        let (residual, rest) = results.split_at_mut(good.len());
        let (own_density, lift) = rest.split_at_mut(good.len());
        let picked = points.given.map(|given| given.pick(&good));
        let given = picked.as_ref().map(|[log_p, grad, curv]| Given { log_p, grad, curv });
        let kept = ChunkPoints { z: &z, weight: &weight, residual, own: own_density, lift, given };
        // Fewer points each time, so this ends.
        self.evaluate(setup, own, tricks, kept, scratch)?;
        for (at, &i) in good.iter().enumerate() {
            points.residual[i] = results[at];
            points.own[i] = results[good.len() + at];
            points.lift[i] = results[2 * good.len() + at];
        }
        Ok(())
    }

    /// Evaluates all points and adds to the sums; tells which points were good if any was not.
    fn attempt(
        &mut self,
        setup: &Setup<'_>,
        own: usize,
        tricks: &[Coefficients],
        points: &ChunkPoints<'_>,
        scratch: &mut Scratch,
    ) -> Result<Attempt, TargetError> {
        let (q, d, n) = (setup.q, setup.q.dim(), points.weight.len());
        let (shape, curvature) = (q.curvature_shape(), setup.estimator.curvature());
        let served = if setup.shared { 0..q.len() } else { own..own + 1 };
        let want_grad = setup.estimator.needs_gradient();
        let block = Block::new(q, Points::new(points.z, d), want_grad, scratch);
        let stride = block.stride;

        // Weight of point i for component c: v_i, times delta_c = N_c / q where the mixture drew it.
        let mut weights = scratch.take_used(served.len() * n);
        for (weights, c) in weights.chunks_exact_mut(n).zip(served.clone()) {
            for (i, (w, v)) in weights.iter_mut().zip(points.weight).enumerate() {
                let delta = if setup.shared { (block.log_n[c * stride + i] - block.log_q[i]).exp() } else { 1.0 };
                *w = v * delta;
            }
        }

        let mut log_p = scratch.take_used(n);
        let mut grad = scratch.take_used(if want_grad { n * d } else { 0 });
        let mut curv = scratch.take_used(if curvature.is_some() { served.len() * shape.len(d) } else { 0 });
        let out = EvalOut {
            log_p: &mut log_p,
            grad: want_grad.then_some(&mut grad[..]),
            curv: curvature.map(|kind| CurvatureSums { kind, shape, weights: &weights, sums: &mut curv }),
        };
        match points.given {
            Some(given) => given.copy_to(out),
            None => {
                self.evals += n as u64;
                setup.target.eval(setup.rows, Points::new(points.z, d), out, scratch)?;
            }
        }

        let mut result = Attempt {
            residual: scratch.take(stride),
            own: scratch.take(stride),
            lift: scratch.take(stride),
            good: None,
        };
        for ((b, log_p), log_q) in result.residual.iter_mut().zip(&log_p).zip(&block.log_q) {
            *b = log_p - log_q;
        }
        result.own[..n].copy_from_slice(&block.log_n[own * stride..][..n]);
        let fine = |i: usize| {
            result.residual[i].is_finite() && (!want_grad || grad[i * d..(i + 1) * d].iter().all(|g| g.is_finite()))
        };
        let all_fine = (0..n).all(fine) && curv.iter().all(|x| x.is_finite());
        if !all_fine {
            let mut good: Vec<usize> = (0..n).filter(|&i| fine(i)).collect();
            if good.len() == n {
                // Only the curvature went wrong: find the points one by one.
                let mut finite = Vec::with_capacity(n);
                for (i, z) in points.z.chunks_exact(d).enumerate() {
                    finite.push(match points.given {
                        Some(given) => given.slice(i..i + 1).curv.iter().all(|x| x.is_finite()),
                        None => self.curvature_is_finite(setup, z, &mut curv, scratch)?,
                    });
                }
                good.retain(|&i| finite[i]);
            }
            if good.len() == n {
                // Finite one by one, but not their sum: nothing here can be used.
                good.clear();
            }
            result.good = Some(good);
        } else {
            self.accumulate(setup, own, tricks, &block, points.weight, &weights, &grad, &curv, &mut result, scratch);
        }
        for buffer in [weights, log_p, grad, curv] {
            scratch.give(buffer);
        }
        block.release(scratch);
        Ok(result)
    }

    #[allow(clippy::too_many_arguments)]
    fn accumulate(
        &mut self,
        setup: &Setup<'_>,
        own: usize,
        tricks: &[Coefficients],
        block: &Block,
        base: &[f64],
        weights: &[f64],
        grad: &[f64],
        curv: &[f64],
        result: &mut Attempt,
        scratch: &mut Scratch,
    ) {
        let (q, d, n, stride, shape) = (setup.q, setup.q.dim(), block.n, block.stride, setup.q.curvature_shape());
        let width = Self::width(setup);
        let mut w = scratch.take(stride);
        if setup.estimator == Estimator::Score {
            w[..n].copy_from_slice(base);
            for (k, sums) in self.sums.chunks_exact_mut(width).enumerate() {
                score::add(sums, q, k, block, &w, &result.residual, scratch);
            }
            scratch.give(w);
            return;
        }
        // grad b, transposed.
        let mut residual = scratch.take_used(d * stride);
        lanes::transpose(&mut residual, grad, d);
        residual.iter_mut().zip(&block.grad).for_each(|(p, q)| *p -= q);
        let own_mean = q.components()[own].mean();
        for ((g, z), m) in residual.chunks_exact(stride).zip(block.z.chunks_exact(stride)).zip(own_mean) {
            for ((lift, g), z) in result.lift.iter_mut().zip(g).zip(z) {
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
            w[..n].copy_from_slice(&weights[slot * n..(slot + 1) * n]);
            let y = &block.y[c * d * stride..][..d * stride];
            let (log_n, entropy) = (&block.log_n[c * stride..][..stride], component.entropy());
            for ((w, b), log_n) in w.iter().zip(&result.residual).zip(log_n).take(n) {
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
                    hess.copy_from_slice(&curv[slot * hess.len()..(slot + 1) * hess.len()]);
                    scale[..n].iter_mut().zip(&w).for_each(|(scale, w)| *scale = -w);
                    block.add_hessian(q, &scale[..n], shape, hess, scratch);
                }
            }
        }
        for buffer in [w, residual, tilted, scale] {
            scratch.give(buffer);
        }
    }

    fn curvature_is_finite(
        &mut self,
        setup: &Setup<'_>,
        z: &[f64],
        curv: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<bool, TargetError> {
        let (d, shape) = (setup.q.dim(), setup.q.curvature_shape());
        let Some(kind) = setup.estimator.curvature() else { return Ok(true) };
        let sums = &mut curv[..shape.len(d)];
        let (mut log_p, mut grad) = ([0.0], scratch.take(d));
        let request = CurvatureSums { kind, shape, weights: &[1.0], sums };
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(request) };
        self.evals += 1;
        setup.target.eval(setup.rows, Points::new(z, d), out, scratch)?;
        scratch.give(grad);
        Ok(curv[..shape.len(d)].iter().all(|x| x.is_finite()))
    }
}

/// Per-point results of one look at a chunk.
struct Attempt {
    residual: Vec<f64>,
    own: Vec<f64>,
    lift: Vec<f64>,
    /// Indices of the usable points, if some were not.
    good: Option<Vec<usize>>,
}
