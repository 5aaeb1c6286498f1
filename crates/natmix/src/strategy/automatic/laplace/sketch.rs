//! The curvature at a summit in many dimensions, from differences of gradients along a few random directions.
//!
//! The same regression that moves a component serves here: points close to the summit, spread as the Gaussian found so far,
//! and a whole natural step with their slopes. Each round knows the scales better, and so sees the directions better.

use super::super::ascent::Summit;
use super::super::evaluate::LimitedEvaluator;
use super::super::moments::centre;
use super::super::tuning::Tuning;
use super::{DIFFERENCE_STEP, bounded};
use crate::error::Error;
use crate::family::covariance::CentredPoints;
use crate::family::{CovarianceKind, Gaussian};
use crate::lanes;
use crate::noise::{Noise, Purpose};

/// Rounds: the scales, the directions, and twice what is left.
const ROUNDS: u64 = 4;

/// Laplace's approximation at a summit for a kind that finds directions in points; `None` if no gradient near it can be
/// evaluated.
pub(super) fn sketch(
    evaluator: &mut LimitedEvaluator<'_>,
    summit: &Summit,
    sd: &[f64],
    kind: CovarianceKind,
    tuning: &Tuning,
) -> Result<Option<Gaussian>, Error> {
    let (d, n) = (sd.len(), kind.regression_points());
    let diagonal: Vec<f64> =
        summit.variance.iter().zip(sd).map(|(v, sd)| bounded(sd * sd / v) / (sd * sd)).collect();
    let Ok(prec) = kind.with_precisions(&diagonal) else { return Ok(None) };
    let mut gaussian = Gaussian::new(summit.z.clone(), prec);
    let stride = lanes::padded(n);
    let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * d]);
    let (mut y, mut g) = (vec![0.0; stride * d], vec![0.0; stride * d]);
    let mut weights = vec![0.0; stride];
    weights[..n].fill(1.0 / n as f64);
    let (mut mean_y, mut mean_g) = (vec![0.0; d], vec![0.0; d]);
    let (mut gradient, mut curvature) = (vec![0.0; d], vec![0.0; kind.curvature_len(d)]);
    for round in 0..ROUNDS {
        if !evaluator.can_afford(n) || !evaluator.goes_on() {
            break;
        }
        let mut delta = vec![0.0; n * d];
        Noise::new(0, Purpose::Sketch, 0, round, 0).normals(&mut delta);
        lanes::transpose(&mut y, &delta, d);
        gaussian.precision().colour(&mut delta);
        let points = delta.chunks_exact(d).flat_map(|x| x.iter().zip(&summit.z).map(|(x, z)| z + DIFFERENCE_STEP * x));
        let z: Vec<f64> = points.collect();
        evaluator.evaluate(&z, &mut log_p, &mut grad)?;
        if grad.iter().any(|x| !x.is_finite()) {
            return Ok((round > 0 || !evaluator.goes_on()).then_some(gaussian));
        }
        // The residual's gradient: the target's changes, and minus the Gaussian's.
        let mut pull = vec![0.0; d];
        for (grad, delta) in grad.chunks_exact_mut(d).zip(delta.chunks_exact(d)) {
            gaussian.precision().times(delta, &mut pull);
            for ((grad, at), pull) in grad.iter_mut().zip(&summit.grad).zip(&pull) {
                *grad = (*grad - at) / DIFFERENCE_STEP + pull;
            }
        }
        lanes::transpose(&mut g, &grad, d);
        centre(&mut y, &mut mean_y, &weights, n);
        centre(&mut g, &mut mean_g, &weights, n);
        let points = CentredPoints {
            y: &y,
            gradients: &g,
            weights: &weights,
            mean_y: &mean_y,
            mean_gradient: &mean_g,
            ess: n as f64,
        };
        evaluator.scratch.with(|scratch| {
            gaussian.precision().regress(&points, tuning.moments_ridge, &mut gradient, &mut curvature, scratch);
            gradient.fill(0.0);
            gaussian.update(|mean, prec| prec.spectral_step(mean, &gradient, &curvature, &|_, _| Some(1.0), scratch));
        });
    }
    Ok(Some(gaussian))
}
