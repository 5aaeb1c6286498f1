//! The Gaussian with the curvature at a summit, from differences of gradients.

mod sketch;

use super::ascent::Summit;
use super::evaluate::LimitedEvaluator;
use super::tuning::Tuning;
use crate::error::Error;
use crate::family::{CovarianceKind, Gaussian};
use crate::linalg;
use crate::target::CurvatureShape;

/// Step of the differences of gradients, in standard deviations: between truncation and rounding error.
const DIFFERENCE_STEP: f64 = 1e-4;
/// Largest precision, in units of the start's: beyond it no digits are left.
const MAX_PRECISION: f64 = 1e14;
/// Smallest precision, in units of the start's: a component should not be much wider than the start.
const MIN_PRECISION: f64 = 1e-2;
/// The same where the ELBO will tell whether it is too wide.
const LEAST_PRECISION: f64 = 1e-12;

/// Laplace's approximation at a summit; `None` if no gradient near it can be evaluated. Directions along which `log p` is
/// convex get the absolute value of their curvature, and none is much wider than the start.
pub(crate) fn laplace(
    evaluator: &mut LimitedEvaluator<'_>,
    summit: &Summit,
    sd: &[f64],
    kind: CovarianceKind,
    tuning: &Tuning,
) -> Result<Option<Gaussian>, Error> {
    if is_sketched(kind, sd.len(), tuning) {
        return sketch::sketch(evaluator, summit, sd, tuning);
    }
    let Some(curvature) = curvature_at(evaluator, summit, sd, kind, tuning)? else { return Ok(None) };
    let prec = kind.with_curvature(&curvature, sd, &bounded);
    Ok(prec.ok().map(|prec| Gaussian::new(summit.z.clone(), prec)))
}

/// Laplace's approximation, and the Gaussian to which a Newton step with the same curvature leads, as wide as that says: for a
/// Gaussian the exact one, wherever the climb was given up.
pub(crate) fn laplace_and_newton(
    evaluator: &mut LimitedEvaluator<'_>,
    summit: &Summit,
    sd: &[f64],
    kind: CovarianceKind,
    tuning: &Tuning,
) -> Result<(Option<Gaussian>, Option<Gaussian>), Error> {
    if is_sketched(kind, sd.len(), tuning) {
        return Ok((sketch::sketch(evaluator, summit, sd, tuning)?, None));
    }
    let Some(curvature) = curvature_at(evaluator, summit, sd, kind, tuning)? else { return Ok((None, None)) };
    let at_summit = kind.with_curvature(&curvature, sd, &bounded).ok();
    let wide =
        |precision: f64| if precision.is_nan() { 1.0 } else { precision.abs().clamp(LEAST_PRECISION, MAX_PRECISION) };
    let newton = kind.with_curvature(&curvature, sd, &wide).ok().map(|precision| {
        let mut mean = summit.grad.clone();
        precision.solve(&mut mean);
        mean.iter_mut().zip(&summit.z).for_each(|(m, z)| *m += z);
        Gaussian::new(mean, precision)
    });
    Ok((at_summit.map(|precision| Gaussian::new(summit.z.clone(), precision)), newton))
}

/// Whether the curvature is sought by a regression instead of by differences.
fn is_sketched(kind: CovarianceKind, d: usize, tuning: &Tuning) -> bool {
    kind == CovarianceKind::LowRank && d > tuning.laplace_max_diagonal
}

/// Minus the Hessian at a summit, in units of the start's standard deviations, by the best means that there are.
fn curvature_at(
    evaluator: &mut LimitedEvaluator<'_>,
    summit: &Summit,
    sd: &[f64],
    kind: CovarianceKind,
    tuning: &Tuning,
) -> Result<Option<Vec<f64>>, Error> {
    let d = sd.len();
    Ok(if kind.curvature_shape() == CurvatureShape::Diag && d > tuning.laplace_max_diagonal {
        Some(summit.variance.iter().zip(sd).map(|(v, sd)| sd * sd / v).collect())
    } else if evaluator.can_afford(d) && evaluator.goes_on() {
        let differences = difference_curvature(evaluator, summit, sd)?;
        // Where the run has been stopped meanwhile, some differences are missing.
        if differences.is_none() && !evaluator.goes_on() { Some(climb_curvature(summit, sd)) } else { differences }
    } else {
        Some(climb_curvature(summit, sd))
    })
}

fn bounded(precision: f64) -> f64 {
    if precision.is_nan() { 1.0 } else { precision.abs().clamp(MIN_PRECISION, MAX_PRECISION) }
}

/// The diagonal that the climb itself has estimated, in units of the start's standard deviations: for the end of a budget.
fn climb_curvature(summit: &Summit, sd: &[f64]) -> Vec<f64> {
    linalg::diagonal(summit.variance.iter().zip(sd).map(|(v, sd)| bounded(sd * sd / v)), sd.len())
}

/// Minus the Hessian, in units of the start's standard deviations; forward differences, since the gradient at the summit is
/// known.
fn difference_curvature(
    evaluator: &mut LimitedEvaluator<'_>,
    summit: &Summit,
    sd: &[f64],
) -> Result<Option<Vec<f64>>, Error> {
    let d = sd.len();
    let mut z: Vec<f64> = summit.z.repeat(d);
    for i in 0..d {
        z[i * d + i] += DIFFERENCE_STEP * summit.variance[i].sqrt().min(sd[i]);
    }
    let (mut log_p, mut grad) = (vec![0.0; d], vec![0.0; d * d]);
    evaluator.evaluate(&z, &mut log_p, &mut grad)?;
    let mut curvature = vec![0.0; d * d];
    for i in 0..d {
        let h = z[i * d + i] - summit.z[i];
        for j in 0..d {
            curvature[i * d + j] = sd[i] * sd[j] * (summit.grad[j] - grad[i * d + j]) / h;
        }
    }
    linalg::symmetrise(&mut curvature, d);
    Ok(curvature.iter().all(|x| x.is_finite()).then_some(curvature))
}

#[cfg(test)]
mod tests;
