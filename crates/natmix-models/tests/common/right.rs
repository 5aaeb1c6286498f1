//! Whether delivered draws are right: the definition of the verdict.
//!
//! For every parameter each of five quantiles must lie within 0.05 of the true 5-95% width, or have a probability within 0.02 of the
//! true one. Where the kurtosis is below 10, the mean must also be within 0.1 standard deviations and the standard deviation within 10%.
#![allow(dead_code)] // Each test file uses its own share of these.

use natmix::Fitted;
use natmix::answer::level::Level;
use natmix::target::Target;

pub const PROBABILITIES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// What is true of a parameter.
#[derive(Clone, Debug)]
pub struct Marginal {
    pub quantiles: [f64; 5],
    pub mean: f64,
    pub sd: f64,
    pub kurtosis: f64,
}

/// The parameters at the draws that a fit delivers, one after the other, and the weights of the draws.
pub fn delivered(target: &dyn Target, fitted: &Fitted) -> (Vec<f64>, Vec<f64>) {
    let d = target.dim();
    let level = fitted.diagnostics.as_ref().unwrap().level;
    let (draws, weights) = match level {
        Level::Weighted => {
            let delivered = fitted.weighted.as_ref().unwrap().delivered();
            (delivered.draws, delivered.weights)
        }
        Level::Chains => {
            let delivered = fitted.chains.as_ref().unwrap().delivered();
            (delivered.draws, delivered.weights)
        }
        _ => (fitted.mixture.sample(20_000, 99), vec![1.0 / 20_000.0; 20_000]),
    };
    let mut parameters = vec![0.0; draws.len()];
    for (z, parameters) in draws.chunks_exact(d).zip(parameters.chunks_exact_mut(d)) {
        target.to_parameters(z, parameters);
    }
    (parameters, weights)
}

/// The largest error of all parameters in units of its limit, and which parameter has it: right up to one.
pub fn worst_error(names: &[String], truth: &[Marginal], parameters: &[f64], weights: &[f64]) -> (f64, String) {
    let d = names.len();
    assert_eq!(truth.len(), d);
    let mut worst = (0.0, String::new());
    for (j, truth) in truth.iter().enumerate() {
        let mut sorted: Vec<(f64, f64)> =
            parameters.iter().skip(j).step_by(d).copied().zip(weights.iter().copied()).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = weights.iter().sum();
        let quantile = |p: f64| {
            let mut below = 0.0;
            let at = sorted.iter().position(|(_, w)| {
                below += w / total;
                below >= p
            });
            sorted[at.unwrap_or(sorted.len() - 1)].0
        };
        let mut report = |error: f64, what: String| {
            if error.is_nan() || error > worst.0 {
                worst = (error, format!("{} of {}", what, names[j]));
            }
        };
        let width = truth.quantiles[4] - truth.quantiles[0];
        for (p, exact) in PROBABILITIES.into_iter().zip(truth.quantiles) {
            let place = (quantile(p) - exact).abs() / (0.05 * width);
            let share: f64 = sorted.iter().filter(|(x, _)| *x < exact).map(|(_, w)| w / total).sum();
            report(place.min((share - p).abs() / 0.02), format!("quantile {p}"));
        }
        if truth.kurtosis < 10.0 {
            let mean: f64 = sorted.iter().map(|(x, w)| x * w / total).sum();
            let variance: f64 = sorted.iter().map(|(x, w)| (x - mean).powi(2) * w / total).sum();
            report((mean - truth.mean).abs() / (0.1 * truth.sd), "mean".into());
            report((variance.sqrt() / truth.sd - 1.0).abs() / 0.1, "sd".into());
        }
    }
    worst
}
