//! Data for tests of the regressions.
#![allow(dead_code)] // Each test file uses its own share of these.

use natmix_models::{Observations, RegressionKind};

pub const LOG_TAU: f64 = 1.837_877_066_409_345_5;

/// Deterministic, irregular numbers in (-1, 1).
pub fn wave(i: usize) -> f64 {
    let x = (i as f64 * 12.9898 + 4.1414).sin() * 43_758.545_3;
    2.0 * (x - x.floor()) - 1.0
}

pub fn outcomes(kind: RegressionKind, rows: usize) -> Vec<f64> {
    let classes = match kind {
        RegressionKind::Logistic => 2,
        RegressionKind::Softmax { classes } => classes,
        RegressionKind::Poisson => 5,
        RegressionKind::Linear { .. } => return (0..rows).map(|r| 3.0 * wave(77 + r)).collect(),
    };
    (0..rows).map(|r| (r % classes) as f64).collect()
}

pub fn table(kind: RegressionKind, rows: usize, features: usize) -> Observations {
    let x = (0..rows * features).map(wave).collect();
    Observations::new(x, features, outcomes(kind, rows)).unwrap()
}

/// Adds offsets and row weights.
pub fn with_offset_and_weights(table: Observations) -> Observations {
    let rows = table.rows();
    let offset = (0..rows).map(|r| 0.1 * (r % 5) as f64).collect();
    let weights = (0..rows).map(|r| 0.5 * (r % 4) as f64).collect();
    table.with_offset(offset).and_then(|table| table.with_weights(weights)).unwrap()
}

pub const KINDS: [RegressionKind; 6] = [
    RegressionKind::Logistic,
    RegressionKind::Linear { noise_sd: Some(0.7) },
    RegressionKind::Linear { noise_sd: None },
    RegressionKind::Poisson,
    RegressionKind::Softmax { classes: 2 },
    RegressionKind::Softmax { classes: 4 },
];

pub fn assert_close(a: &[f64], b: &[f64], tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let gap = (a - b).abs() / a.abs().max(b.abs()).max(1.0);
        assert!(gap <= tolerance, "{what}, entry {at}: {a} against {b}");
    }
}
