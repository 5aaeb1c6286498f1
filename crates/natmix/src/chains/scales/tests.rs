use super::*;
use crate::noise::{Noise, Purpose};

/// Draws of a funnel: the first coordinate is the log of the variance of the others.
fn funnel(n: usize, d: usize, sd: f64) -> Vec<f64> {
    let mut draws = vec![0.0; n * d];
    Noise::new(5, Purpose::Check, 0, 0, 0).normals(&mut draws);
    for z in draws.chunks_exact_mut(d) {
        z[0] *= sd;
        let scale = (0.5 * z[0]).exp();
        z[1..].iter_mut().for_each(|z| *z = 2.0 + scale * *z);
    }
    draws
}

fn scales() -> Scales {
    Scales::of(&funnel(4_000, 6, 1.0), 6, 4_000.0).unwrap()
}

#[test]
fn the_scale_of_a_funnel_is_found() {
    let scales = scales();
    assert_eq!(scales.from.len(), 1);
    assert_eq!((scales.from[0].0, scales.scaled.len()), (0, 5));
    // The slope is half per unit of the first coordinate; its error is 0.5 * 2.2 / sqrt(4,000) = 0.018.
    assert!(scales.scaled.iter().all(|one| (one.slope[0] / scales.from[0].2 - 0.5).abs() < 0.09), "{scales:?}");
    // In the coordinates of the chains the spread no longer depends on it.
    let mut draws = funnel(4_000, 6, 1.0);
    scales.backward(&mut draws);
    assert!(Scales::of(&draws, 6, 4_000.0).is_none());
}

#[test]
fn a_gaussian_has_no_scales() {
    for seed in 1..=20 {
        let mut draws = vec![0.0; 1_000 * 30];
        Noise::new(seed, Purpose::Check, 1, 0, 0).normals(&mut draws);
        draws.chunks_exact_mut(30).for_each(|z| z[3] += z[2] + 0.5 * z[1]);
        assert!(Scales::of(&draws, 30, 1_000.0).is_none(), "seed {seed}");
    }
}

#[test]
fn forward_and_backward_are_inverse() {
    let (scales, mut points) = (scales(), funnel(50, 6, 2.0));
    let before = points.clone();
    scales.forward(&mut points);
    assert!(points.iter().zip(&before).any(|(a, b)| (a - b).abs() > 0.1));
    scales.backward(&mut points);
    assert!(points.iter().zip(&before).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs())));
}

#[test]
fn gradients_are_those_of_the_density_that_chains_see() {
    let scales = scales();
    // log p(z) = -sum_i (i + 1) z_i^2 / 2 with a correlation.
    let density = |z: &[f64]| {
        let squares: f64 = z.iter().enumerate().map(|(i, z)| -0.5 * (i + 1) as f64 * z * z).sum();
        squares - 0.3 * z[0] * z[1]
    };
    let gradient = |z: &[f64]| {
        let mut grad: Vec<f64> = z.iter().enumerate().map(|(i, z)| -((i + 1) as f64) * z).collect();
        grad[0] -= 0.3 * z[1];
        grad[1] -= 0.3 * z[0];
        grad
    };
    let seen = |y: &[f64]| {
        let mut z = y.to_vec();
        scales.forward(&mut z);
        density(&z) + scales.log_det(y)[0]
    };
    for y in funnel(5, 6, 1.0).chunks_exact(6) {
        let mut z = y.to_vec();
        scales.forward(&mut z);
        let (mut log_p, mut grad) = (vec![density(&z)], gradient(&z));
        scales.pull_back(y, &mut log_p, &mut grad);
        assert!((log_p[0] - seen(y)).abs() < 1e-10 * (1.0 + log_p[0].abs()));
        for i in 0..6 {
            let h = 1e-5;
            let at = |h: f64| {
                let mut y = y.to_vec();
                y[i] += h;
                seen(&y)
            };
            let quotient = (at(h) - at(-h)) / (2.0 * h);
            assert!((grad[i] - quotient).abs() < 1e-5 * (1.0 + quotient.abs()), "{i}: {} {quotient}", grad[i]);
        }
    }
}
