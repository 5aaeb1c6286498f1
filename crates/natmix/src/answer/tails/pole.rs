//! Poles: points at which log p is infinite, like `-a log |z - z0|`.
//!
//! Near a pole the slope is `a` over the distance, so two slopes on the way tell where it is, and the climb gets ten times
//! nearer with each step while log p rises by the same amount again and again. At a maximum the slope falls, at a kink it is
//! constant, and at a cusp that is finite the rises shrink.

use super::{EndlessDirection, evaluate};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::Mixture;

/// Component means among which the climb starts at the highest.
const MOST_MEANS: usize = 24;
/// Steps in a row that must rise, by how much at least, and with slopes that grow by what factor.
const STEPS: usize = 5;
const LEAST_RISE: f64 = 0.3;
const LEAST_GROWTH: f64 = 2.0;
/// Share of the estimated distance that a step covers, and that of the distance to a pole of strength one which the first
/// step does.
const COVERED: f64 = 0.9;
const PROBE: f64 = 0.1;

/// Climbs towards a pole near the highest of the components' means; stops at the first step that shows that there is none.
pub(super) fn find(evaluator: &mut dyn Evaluator, q: &Mixture, sd: &[f64]) -> Result<Option<EndlessDirection>, Error> {
    let d = q.dim();
    let mut narrow: Vec<usize> = (0..q.len()).collect();
    narrow.sort_by(|&a, &b| q.components()[b].log_norm().total_cmp(&q.components()[a].log_norm()));
    narrow.truncate(MOST_MEANS);
    let means: Vec<f64> = narrow.iter().flat_map(|&k| q.components()[k].mean().to_vec()).collect();
    let (log_p, grad) = evaluate(evaluator, &means, true)?;
    let finite = (0..narrow.len()).filter(|&i| log_p[i].is_finite());
    let Some(best) = finite.max_by(|&a, &b| log_p[a].total_cmp(&log_p[b])) else { return Ok(None) };
    let mut z = means[best * d..(best + 1) * d].to_vec();
    let (mut log_p, mut grad) = (log_p[best], grad[best * d..(best + 1) * d].to_vec());
    let mut strength = None;
    for _ in 0..=STEPS {
        // In units of the standard deviations.
        let ascent: Vec<f64> = grad.iter().zip(sd).map(|(g, sd)| g * sd).collect();
        let slope = ascent.iter().map(|x| x * x).sum::<f64>().sqrt();
        // The first step only finds out how strong a pole would be.
        let step = strength.map_or(PROBE / slope, |strength: f64| COVERED * strength / slope).min(1.0);
        let next: Vec<f64> = z.iter().zip(&ascent).zip(sd).map(|((z, x), sd)| z + step * sd * x / slope).collect();
        let (next_log_p, next_grad) = evaluate(evaluator, &next, true)?;
        let next_slope = next_grad.iter().zip(sd).map(|(g, sd)| (g * sd).powi(2)).sum::<f64>().sqrt();
        let toward = next_grad.iter().zip(sd).zip(&ascent).map(|((g, sd), x)| g * sd * x).sum::<f64>() > 0.0;
        let near = match strength {
            None => toward && next_slope > slope,
            Some(_) => next_log_p[0] > log_p + LEAST_RISE && next_slope > LEAST_GROWTH * slope,
        };
        if !(near && next_log_p[0].is_finite()) {
            return Ok(None);
        }
        // On the other side of the pole nothing is learnt about its strength.
        if toward {
            strength = Some(step / (1.0 / slope - 1.0 / next_slope));
        }
        (z, log_p, grad) = (next, next_log_p[0], next_grad);
    }
    let size = grad.iter().zip(sd).map(|(g, sd)| (g * sd).powi(2)).sum::<f64>().sqrt();
    let direction = grad.iter().zip(sd).map(|(g, sd)| g * sd / size).collect();
    Ok(Some(EndlessDirection { direction, everywhere: false, pole: Some(z) }))
}
