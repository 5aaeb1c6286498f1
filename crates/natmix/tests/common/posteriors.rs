//! Small posteriors of every shape.

use natmix::family::{Covariances, Gaussian, Mixture};
use natmix::save::Posterior;
use serde_json::json;

pub fn full(count: usize, dim: usize) -> Mixture {
    let mean = |k: usize| (0..dim).map(|i| ((k * dim + i) as f64).sin() / 3.0).collect();
    let covariance = |k: usize| {
        let entry = |i: usize, j: usize| if i == j { 1.0 + k as f64 } else { 0.3 / (1.0 + i.abs_diff(j) as f64) };
        (0..dim).map(|i| (0..dim).map(|j| entry(i, j)).collect()).collect()
    };
    let weights: Vec<f64> = (0..count).map(|k| 1.0 / (k + 1) as f64).collect();
    let (means, covariances): (Vec<_>, Vec<_>) = (0..count).map(|k| (mean(k), covariance(k))).unzip();
    Mixture::from_moments(&weights, &means, Covariances::Full(&covariances)).unwrap()
}

pub fn diag(count: usize, dim: usize) -> Mixture {
    let component = |k: usize| Gaussian::isotropic(vec![0.1 - k as f64; dim], 0.7 / (k + 1) as f64);
    Mixture::new(&vec![0.1; count], (0..count).map(component).collect()).unwrap()
}

pub fn posterior(mixture: Mixture) -> Posterior {
    let names = (0..mixture.dim()).map(|i| format!("z{i}")).collect();
    Posterior { mixture, parameter_names: names, details: json!({"seed": 3}), answer: None }
}
