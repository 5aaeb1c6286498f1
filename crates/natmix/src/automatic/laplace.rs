//! The Gaussian with the curvature at a summit, from differences of gradients.

use super::ascent::Summit;
use super::evaluate::Evaluator;
use super::tuning::Tuning;
use crate::error::Error;
use crate::family::{Full, Gaussian, Precision, identity};
use crate::linalg;
use crate::target::Shape;
use crate::workspace::Scratch;

/// `None` if no gradient near the summit can be evaluated. Directions that do not bend downwards get the size of their
/// curvature, and none is much wider than the start.
pub(crate) fn laplace(
    evaluator: &mut Evaluator<'_>,
    summit: &Summit,
    sd: &[f64],
    shape: Shape,
    tuning: &Tuning,
) -> Result<Option<Gaussian>, Error> {
    let d = sd.len();
    let bounded = |precision: f64| bounded(precision, tuning);
    let prec = match shape {
        Shape::Diag if d > tuning.laplace_max_diagonal => Precision::from_matrix(
            d,
            summit.variance.iter().zip(sd).map(|(v, sd)| bounded(sd * sd / v) / (sd * sd)).collect(),
        ),
        _ => {
            let known = if evaluator.can_afford(d) {
                differences(evaluator, summit, sd, tuning.laplace_difference)?
            } else {
                Some(seen(summit, sd, tuning))
            };
            let Some(curvature) = known else { return Ok(None) };
            match shape {
                Shape::Diag => {
                    let entries = (0..d).map(|i| bounded(curvature[i * (d + 1)]) / (sd[i] * sd[i])).collect();
                    Precision::from_matrix(d, entries)
                }
                Shape::Full => full(curvature, sd, tuning),
            }
        }
    };
    Ok(prec.ok().map(|prec| Gaussian::new(summit.z.clone(), prec)))
}

fn bounded(precision: f64, tuning: &Tuning) -> f64 {
    let Tuning { laplace_min_precision: least, laplace_max_precision: most, .. } = *tuning;
    if precision.is_nan() { 1.0 } else { precision.abs().clamp(least, most) }
}

/// The diagonal that the climb has seen, in units of the start's spread: for the end of a budget.
fn seen(summit: &Summit, sd: &[f64], tuning: &Tuning) -> Vec<f64> {
    let d = sd.len();
    let mut curvature = vec![0.0; d * d];
    let diagonal = curvature.iter_mut().step_by(d + 1);
    diagonal.zip(summit.variance.iter().zip(sd)).for_each(|(x, (v, sd))| *x = bounded(sd * sd / v, tuning));
    curvature
}

/// Minus the Hessian, in units of the start's spread; forward differences with a step in standard deviations, since the
/// gradient at the summit is known.
fn differences(
    evaluator: &mut Evaluator<'_>,
    summit: &Summit,
    sd: &[f64],
    step: f64,
) -> Result<Option<Vec<f64>>, Error> {
    let d = sd.len();
    let mut z: Vec<f64> = summit.z.repeat(d);
    for i in 0..d {
        z[i * d + i] += step * summit.variance[i].sqrt().min(sd[i]);
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

fn full(curvature: Vec<f64>, sd: &[f64], tuning: &Tuning) -> Result<Precision, usize> {
    let d = sd.len();
    let (mut values, mut vectors) = (vec![0.0; d], vec![0.0; d * d]);
    if !linalg::symmetric_eigen(&mut values, &mut vectors, &curvature, d, &mut Scratch::default().memory) {
        (values, vectors) = (vec![1.0; d], identity(d));
    }
    let scaled: Vec<f64> = vectors
        .chunks_exact(d)
        .zip(&values)
        .flat_map(|(vector, value)| {
            let root = bounded(*value, tuning).sqrt();
            vector.iter().zip(sd).map(move |(x, sd)| root * x / sd)
        })
        .collect();
    let mut matrix = vec![0.0; d * d];
    linalg::product_bt(&mut matrix, false, 1.0, &scaled, &scaled, (d, d, d));
    linalg::symmetrise(&mut matrix, d);
    Full::from_precision(d, &matrix).map(Precision::Full)
}
