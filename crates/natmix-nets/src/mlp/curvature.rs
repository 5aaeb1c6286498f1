//! Gauss-Newton matrices and empirical Fisher of a network: squares and outer products of the gradients of seeds.
//!
//! A curvature is minus a sum of `+- v v'`, one `v` per row and seed (see [`crate::likelihood`]). Full matrices take
//! products of the columns `v`; diagonals need only squares, which are one matrix product per layer.

use super::Mlp;
use crate::likelihood::{NetworkLikelihood, WeightedOutcomes};
use crate::pass::{Pass, row_gradient};
use natmix::Scratch;
use natmix::matrix::product_bt;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums};
use natmix_models::observations::RowBlock;

impl Mlp {
    /// Adds the curvature at point `i` to every sum, after a forward pass there.
    pub(super) fn add_curvature(
        &self,
        request: &mut CurvatureSums<'_>,
        pass: &mut Pass<'_, f64>,
        z: &[f64],
        (i, block): (usize, RowBlock<'_>),
        scale: f64,
        scratch: &mut Scratch,
    ) {
        let (d, r, kind, shape) = (z.len(), block.rows(), request.kind, request.shape);
        let (likelihood, noise_at) = (self.network.likelihood(), self.network.noise_at());
        let log_noise = z.get(noise_at).copied().unwrap_or(0.0);
        let rows = WeightedOutcomes { outcome: block.outcome, weights: block.weights };
        let mut sum = scratch.take(shape.len(d));
        let mut room = scratch.take_used(match shape {
            CurvatureShape::Full => d * r,
            CurvatureShape::Diag => Pass::<f64>::squared_room(&self.network, r),
        });
        for seed in 0..likelihood.seeds(kind) {
            let (outputs, delta) = pass.outputs_and_deltas();
            let sign = likelihood.seed(kind, seed, outputs, delta, rows, log_noise);
            pass.backward(z);
            let by_noise = |r| match kind {
                Curvature::EmpiricalFisher => {
                    rows.weight(r).sqrt() * likelihood.by_noise(pass.outputs(), rows, log_noise, r)
                }
                _ => 0.0,
            };
            match shape {
                CurvatureShape::Full => {
                    for (r, column) in room.chunks_exact_mut(d).enumerate() {
                        row_gradient(pass, block.x, r, column);
                        if let Some(last) = column.get_mut(noise_at) {
                            *last = by_noise(r);
                        }
                    }
                    product_bt(&mut sum, true, sign * scale, &room, &room, (d, r, d));
                }
                CurvatureShape::Diag => {
                    pass.add_squares(block.x, sign * scale, &mut sum, &mut room);
                    if let Some(last) = sum.get_mut(noise_at) {
                        *last += scale * (0..r).map(|r| by_noise(r).powi(2)).sum::<f64>();
                    }
                }
            }
        }
        if likelihood == NetworkLikelihood::Gaussian && kind == Curvature::GaussNewton {
            // The Fisher information of the logarithm of the noise is 2 per row.
            let at = if shape == CurvatureShape::Full { noise_at * (d + 1) } else { noise_at };
            sum[at] += 2.0 * scale * block.total_weight();
        }
        let n = request.weights.len() / (request.sums.len() / shape.len(d));
        for (total, weights) in request.sums.chunks_exact_mut(shape.len(d)).zip(request.weights.chunks_exact(n)) {
            total.iter_mut().zip(&sum).for_each(|(total, x)| *total -= weights[i] * x);
        }
        scratch.give(sum);
        scratch.give(room);
    }
}
