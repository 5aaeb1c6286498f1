//! A plain climb of `log p` by L-BFGS: to find a mode, and to estimate which share of starts leads to each.

use anyhow::{Result, anyhow};
use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows, Target};

/// Pairs of steps and gradient changes that a climb remembers.
const MEMORY: usize = 10;
/// Rounds after which a climb is given up.
const MAX_ROUNDS: usize = 1_000;
/// Share of the expected gain that a step must bring.
const ARMIJO: f64 = 1e-4;
/// Length of the first step per root of the dimension, in units of the start's spread.
const FIRST_STEP: f64 = 0.05;
/// Expected gain in nats below which a climb ends.
const ARRIVED: f64 = 1e-9;

/// Evaluates a target point by point.
pub struct PointEvaluator<'a> {
    target: &'a dyn Target,
    scratch: Scratch,
}

impl<'a> PointEvaluator<'a> {
    pub fn new(target: &'a dyn Target) -> Self {
        Self { target, scratch: Scratch::default() }
    }

    /// Writes the gradient at `z` and returns `log p`.
    pub fn at(&mut self, z: &[f64], grad: &mut [f64]) -> Result<f64> {
        let mut log_p = [f64::NAN];
        let out = EvalOut { log_p: &mut log_p, grad: Some(grad), curv: None };
        let points = Points::new(z, z.len());
        self.target.eval(Rows::All, points, out, &mut self.scratch).map_err(|error| anyhow!("{error}"))?;
        Ok(log_p[0])
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Climbs from `z` to the top that it leads to; `spread` is the spread of the starts.
pub fn climb_from(evaluator: &mut PointEvaluator<'_>, z: &mut Vec<f64>, spread: f64) -> Result<f64> {
    let d = z.len();
    let mut grad = vec![0.0; d];
    let mut log_p = evaluator.at(z, &mut grad)?;
    let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    let longest = FIRST_STEP * (d as f64).sqrt() * spread;
    let mut reach = longest;
    for _ in 0..MAX_ROUNDS {
        let mut direction = quasi_newton(&pairs, &grad);
        let mut slope = dot(&direction, &grad);
        if !(slope > 0.0 && slope.is_finite()) {
            pairs.clear();
            (direction, slope) = (grad.clone(), dot(&grad, &grad));
        }
        if slope <= ARRIVED || slope.is_nan() {
            break;
        }
        let length = dot(&direction, &direction).sqrt();
        let mut step = if pairs.is_empty() { reach / length } else { (2.0 * reach / length).min(1.0) };
        let mut next_grad = vec![0.0; d];
        let (next, next_log_p) = loop {
            let next: Vec<f64> = z.iter().zip(&direction).map(|(z, x)| z + step * x).collect();
            let value = evaluator.at(&next, &mut next_grad)?;
            if value >= log_p + ARMIJO * step * slope {
                break (next, value);
            }
            step *= 0.4;
            if step * length < 1e-13 * spread {
                return Ok(log_p);
            }
        };
        // Steps may grow only gradually, so that a climb does not jump into another basin.
        reach = (2.0 * step * length).max(0.5 * reach);
        let moved: Vec<f64> = next.iter().zip(z.iter()).map(|(a, b)| a - b).collect();
        let fall: Vec<f64> = grad.iter().zip(&next_grad).map(|(a, b)| a - b).collect();
        if dot(&moved, &fall) > 1e-10 * (dot(&moved, &moved) * dot(&fall, &fall)).sqrt() {
            if pairs.len() == MEMORY {
                pairs.remove(0);
            }
            pairs.push((moved, fall));
        }
        (*z, log_p, grad) = (next, next_log_p, next_grad);
    }
    Ok(log_p)
}

/// The gradient times the inverse curvature that the pairs show.
fn quasi_newton(pairs: &[(Vec<f64>, Vec<f64>)], grad: &[f64]) -> Vec<f64> {
    let mut direction = grad.to_vec();
    let mut factors = Vec::with_capacity(pairs.len());
    for (moved, fall) in pairs.iter().rev() {
        let factor = dot(moved, &direction) / dot(moved, fall);
        direction.iter_mut().zip(fall).for_each(|(x, fall)| *x -= factor * fall);
        factors.push(factor);
    }
    if let Some((moved, fall)) = pairs.last() {
        let scale = dot(moved, fall) / dot(fall, fall);
        direction.iter_mut().for_each(|x| *x *= scale);
    }
    for ((moved, fall), factor) in pairs.iter().zip(factors.into_iter().rev()) {
        let back = factor - dot(fall, &direction) / dot(moved, fall);
        direction.iter_mut().zip(moved).for_each(|(x, moved)| *x += back * moved);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;
    use natmix::family::{Covariances, Mixture};

    #[test]
    fn a_climb_ends_at_the_mode() {
        let covariance = vec![vec![vec![4.0, 1.9], vec![1.9, 1.0]]];
        let target = Mixture::from_moments(&[1.0], &[vec![3.0, -1.0]], Covariances::Full(&covariance)).unwrap();
        let mut z = vec![-5.0, 8.0];
        climb_from(&mut PointEvaluator::new(&target), &mut z, 1.0).unwrap();
        assert!((z[0] - 3.0).abs() < 1e-3 && (z[1] + 1.0).abs() < 1e-3, "{z:?}");
    }
}
