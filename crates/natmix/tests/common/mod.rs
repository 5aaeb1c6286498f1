//! Shared by the tests: data files, statistics, small matrices.
#![allow(dead_code)]

use natmix::family::{Full, Gaussian, Mixture, Precision};
use std::path::PathBuf;

/// A file below the folder that `NATMIX_DATA` names. Not set: nothing, said aloud. Set but missing: a failure.
pub fn data(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("NATMIX_DATA") else {
        eprintln!("not checked: NATMIX_DATA is not set, so {name} cannot be read");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}

/// Fails if the mean of `samples` is farther than 5 standard errors from `truth`, and if 5 standard errors are larger
/// than `resolution`: a test must not pass by being weak.
pub fn assert_mean(samples: &[f64], truth: f64, resolution: f64, what: &str) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let se = (samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    assert!(5.0 * se <= resolution, "{what}: 5 se = {} is coarser than {resolution}", 5.0 * se);
    assert!((mean - truth).abs() <= 5.0 * se + 1e-12, "{what}: mean {mean} +- {se} against {truth}");
}

/// Deterministic numbers in (-1, 1), without a generator.
pub fn wave(i: usize) -> f64 {
    let x = (i as f64 * 12.9898 + 4.1414).sin() * 43_758.545_3;
    2.0 * (x - x.floor()) - 1.0
}

/// A well-conditioned lower-triangular matrix with positive diagonal (column-major), the `salt`-th of its kind.
pub fn lower(d: usize, salt: usize) -> Vec<f64> {
    let mut l = vec![0.0; d * d];
    for j in 0..d {
        for i in j..d {
            let x = wave(1000 * salt + j * d + i);
            l[i + j * d] = if i == j { 1.0 + 0.5 * x } else { 0.6 * x / (d as f64).sqrt() };
        }
    }
    l
}

/// A full Gaussian, the `salt`-th of its kind; means spread over (-spread, spread).
pub fn gaussian(d: usize, spread: f64, salt: usize) -> Gaussian {
    let mean = (0..d).map(|i| spread * wave(7919 * salt + i)).collect();
    Gaussian::new(mean, Precision::Full(Full::from_factor(d, lower(d, salt))))
}

/// A mixture of `k` full Gaussians, the `salt`-th of its kind.
pub fn mixture(d: usize, k: usize, spread: f64, salt: usize) -> Mixture {
    let weights: Vec<f64> = (0..k).map(|i| 1.5 + wave(31 * salt + i)).collect();
    Mixture::new(&weights, (0..k).map(|i| gaussian(d, spread, salt * 100 + i)).collect()).unwrap()
}

/// Largest difference, relative to the larger of 1 and the values.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |worst, (a, b)| {
        let gap = (a - b).abs() / a.abs().max(b.abs()).max(1.0);
        if gap.is_nan() { f64::INFINITY } else { worst.max(gap) }
    })
}
