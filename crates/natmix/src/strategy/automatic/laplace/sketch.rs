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
use crate::family::covariance::{CentredPoints, Covariance, LowRank};
use crate::family::{CovarianceKind, Gaussian};
use crate::lanes;
use crate::noise::{Noise, Purpose};

/// Most rounds.
const ROUNDS: u64 = 16;
/// Size of a step, relative to the precision, after which there is no other: the mixture takes over from there.
const LAST_STEP: f64 = 0.1;

/// Laplace's approximation at a summit, of low rank; `None` if no gradient near it can be evaluated.
pub(super) fn sketch(
    evaluator: &mut LimitedEvaluator<'_>,
    summit: &Summit,
    sd: &[f64],
    tuning: &Tuning,
) -> Result<Option<Gaussian>, Error> {
    let (d, n) = (sd.len(), CovarianceKind::LowRank.regression_points());
    let scales = summit.variance.iter().zip(sd).map(|(v, sd)| bounded(sd * sd / v) / (sd * sd));
    let Ok(mut found) = LowRank::diagonal(scales.collect()) else { return Ok(None) };
    let stride = lanes::padded(n);
    let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * d]);
    let (mut delta, mut z, mut pull) = (vec![0.0; n * d], vec![0.0; n * d], vec![0.0; d]);
    let (mut y, mut g) = (vec![0.0; stride * d], vec![0.0; stride * d]);
    let mut weights = vec![0.0; stride];
    weights[..n].fill(1.0 / n as f64);
    let (mut mean_y, mut mean_g) = (vec![0.0; d], vec![0.0; d]);
    let (mut gradient, mut curvature) = (vec![0.0; d], vec![0.0; LowRank::curvature_len(d)]);
    for round in 0..ROUNDS {
        if !evaluator.can_afford(n) || !evaluator.goes_on() {
            break;
        }
        Noise::new(0, Purpose::Sketch, 0, round, 0).normals(&mut delta);
        lanes::transpose(&mut y, &delta, d);
        found.colour(&mut delta);
        for (z, delta) in z.chunks_exact_mut(d).zip(delta.chunks_exact(d)) {
            z.iter_mut().zip(delta).zip(&summit.z).for_each(|((z, x), at)| *z = at + DIFFERENCE_STEP * x);
        }
        evaluator.evaluate(&z, &mut log_p, &mut grad)?;
        if grad.iter().any(|x| !x.is_finite()) {
            // Where the run has been stopped meanwhile, some differences are missing.
            if round == 0 && evaluator.goes_on() {
                return Ok(None);
            }
            break;
        }
        // The residual's gradient: the change of the target's, less that of the Gaussian's.
        for (grad, delta) in grad.chunks_exact_mut(d).zip(delta.chunks_exact(d)) {
            found.times(delta, &mut pull);
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
        let step = evaluator.scratch.with(|scratch| {
            found.regress(&points, tuning.moments_ridge, &mut gradient, &mut curvature, scratch);
            found.newton_step(&mut curvature, scratch)
        });
        if step < LAST_STEP {
            break;
        }
    }
    Ok(Some(Gaussian::new(summit.z.clone(), found)))
}
