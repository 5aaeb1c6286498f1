use super::*;
use crate::family::{Covariances, Mixture};

/// The estimate for the only component of `q` from `n` of its own draws, with `b` and its gradient from `residual`.
fn estimate_of(
    q: &Mixture,
    n: usize,
    tuning: &Tuning,
    residual: impl Fn(&[f64], &mut [f64]) -> f64,
) -> (ComponentEstimate, Vec<f64>) {
    let d = q.dim();
    let (z, mut gradients) = (q.sample(n, 5), vec![0.0; n * d]);
    let values: Vec<f64> =
        z.chunks_exact(d).zip(gradients.chunks_exact_mut(d)).map(|(z, grad)| residual(z, grad)).collect();
    let mut estimate = ComponentEstimate::new(d, q.covariance_kind());
    estimate.index = (0..n).collect();
    estimate.omega = vec![1.0; n];
    let points = ResidualPoints { z: &z, residual: &values, grad_residual: &gradients };
    estimate.update(&q.components()[0], points, &mut Scratch::default(), tuning);
    (estimate, z)
}

/// No ridge, and no bound on the correction of the value.
fn plain_regression() -> Tuning {
    Tuning { moments_ridge: 0.0, moments_max_correction: f64::MAX, ..Tuning::default() }
}

fn close(a: &[f64], b: &[f64], error: f64) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() <= error, "{a} {b}"));
}

const MEAN: [f64; 2] = [1.0, -2.0];
const COVARIANCE: [[f64; 2]; 2] = [[4.0, 1.0], [1.0, 1.0]];

fn full() -> Mixture {
    let covariance = COVARIANCE.map(Vec::from).to_vec();
    Mixture::from_moments(&[1.0], &[MEAN.to_vec()], Covariances::Full(&[covariance])).unwrap()
}

fn standard(d: usize) -> Mixture {
    Mixture::from_moments(&[1.0], &[vec![0.0; d]], Covariances::Diag(&[vec![1.0; d]])).unwrap()
}

/// `b = 3 + g z + z' H z / 2`.
fn parabola<'a>(g: [f64; 2], hess: &'a [f64; 4]) -> impl Fn(&[f64], &mut [f64]) -> f64 + 'a {
    move |z, grad| {
        let bend = [hess[0] * z[0] + hess[1] * z[1], hess[2] * z[0] + hess[3] * z[1]];
        grad.copy_from_slice(&[g[0] + bend[0], g[1] + bend[1]]);
        3.0 + (g[0] + 0.5 * bend[0]) * z[0] + (g[1] + 0.5 * bend[1]) * z[1]
    }
}

#[test]
fn few_points_are_exact_on_a_parabola() {
    let hess = [-3.0, 0.5, 0.5, 2.0];
    let (estimate, _) = estimate_of(&full(), 7, &plain_regression(), parabola([1.0, 4.0], &hess));
    let mut gradient = [0.0; 2];
    // The expectation of the value is that at the mean plus half the trace of H S.
    let trace = hess[0] * COVARIANCE[0][0] + 2.0 * hess[1] * COVARIANCE[0][1] + hess[3] * COVARIANCE[1][1];
    let value = parabola([1.0, 4.0], &hess)(&MEAN, &mut gradient) + 0.5 * trace;
    close(&[estimate.moments.value], &[value], 1e-9);
    close(&estimate.moments.grad, &gradient, 1e-9);
    close(&estimate.moments.hess, &hess, 1e-9);
    assert!((estimate.ess - 7.0).abs() < 1e-9);
}

#[test]
fn diagonal_covariances_are_exact_on_a_sum_of_parabolas() {
    let hess = [-3.0, 0.0, 0.0, 2.0];
    let (estimate, _) = estimate_of(&standard(2), 5, &plain_regression(), parabola([1.0, 4.0], &hess));
    close(&[estimate.moments.value], &[3.0 + 0.5 * (2.0 - 3.0)], 1e-9);
    close(&estimate.moments.grad, &[1.0, 4.0], 1e-9);
    close(&estimate.moments.hess, &[-3.0, 2.0], 1e-9);
}

#[test]
fn the_ridge_shrinks_curvature_only_where_points_are_few() {
    let hess = [-3.0, 0.5, 0.5, 2.0];
    let error = |n: usize| {
        let (estimate, _) = estimate_of(&full(), n, &Tuning::default(), parabola([1.0, 4.0], &hess));
        estimate.moments.hess.iter().zip(&hess).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    assert!(error(5) < 3.0 && error(1000) < 0.01, "{} {}", error(5), error(1000));
}

#[test]
fn with_many_points_the_regression_agrees_with_steins_estimate() {
    // Not quadratic: b = sin(u), u = z0 + z1 / 2.
    let direction = [1.0, 0.5];
    let wave = |z: &[f64], grad: &mut [f64]| {
        let u = z[0] + 0.5 * z[1];
        grad.copy_from_slice(&direction.map(|x| x * u.cos()));
        u.sin()
    };
    let (n, mean, sd) = (20_000, [0.4, 0.2], 0.8);
    let covariance = vec![vec![sd * sd, 0.0], vec![0.0, sd * sd]];
    let q = Mixture::from_moments(&[1.0], &[mean.to_vec()], Covariances::Full(&[covariance])).unwrap();
    let (estimate, z) = estimate_of(&q, n, &Tuning::default(), wave);
    // E[hess b] = E[y grad b'] / sd with y = (z - m) / sd.
    let u = mean[0] + 0.5 * mean[1];
    let bend = -u.sin() * (-0.5 * sd * sd * 1.25_f64).exp();
    for (i, j) in [(0, 0), (0, 1), (1, 1)] {
        let mut gradient = [0.0; 2];
        let terms: Vec<f64> = z
            .chunks_exact(2)
            .map(|z| {
                wave(z, &mut gradient);
                0.5 * ((z[i] - mean[i]) * gradient[j] + (z[j] - mean[j]) * gradient[i]) / (sd * sd)
            })
            .collect();
        let stein = terms.iter().sum::<f64>() / n as f64;
        let variance = terms.iter().map(|x| (x - stein).powi(2)).sum::<f64>() / n as f64;
        let se = (variance / n as f64).sqrt();
        let found = estimate.moments.hess[2 * i + j];
        assert!((found - stein).abs() < 4.0 * se, "{found} {stein} {se}");
        let exact = bend * direction[i] * direction[j];
        assert!((found - exact).abs() < 4.0 * se, "{found} {exact} {se}");
    }
    let exact = u.sin() * (-0.5 * sd * sd * 1.25_f64).exp();
    assert!((estimate.moments.value - exact).abs() < 4.0 * estimate.noise());
}

#[test]
fn the_correction_of_the_value_is_bounded_by_its_noise() {
    let hess = [-3.0, 0.5, 0.5, 2.0];
    let value = |most: f64| {
        let tuning = Tuning { moments_max_correction: most, ..plain_regression() };
        let (estimate, _) = estimate_of(&full(), 7, &tuning, parabola([30.0, 4.0], &hess));
        (estimate.moments.value, estimate.noise())
    };
    let ((plain, noise), (bounded, _)) = (value(0.0), value(0.1));
    assert!((plain - bounded).abs() <= 0.1 * noise * (1.0 + 1e-12));
    assert!((plain - value(f64::MAX).0).abs() > 0.1 * noise);
}

#[test]
fn too_few_effective_points_are_not_usable() {
    let mut estimate = ComponentEstimate::new(1, CovarianceKind::Diag);
    (estimate.index, estimate.omega) = (vec![0, 1], vec![1.0, 1e-3]);
    let points = ResidualPoints { z: &[0.0, 1.0], residual: &[0.0, 1.0], grad_residual: &[0.0, 1.0] };
    estimate.update(&standard(1).components()[0], points, &mut Scratch::default(), &Tuning::default());
    assert!(!estimate.moments.usable && estimate.ess < 1.01);
}

#[test]
fn a_residual_in_the_tails_is_radial_and_one_in_a_direction_is_not() {
    let d = 4;
    let share = |b: fn(&[f64]) -> f64| {
        let (estimate, _) = estimate_of(&standard(d), 2000, &Tuning::default(), |z, _| b(z));
        assert!(estimate.residual_variance > 0.0);
        estimate.radial_share
    };
    // Student-t with five degrees of freedom over a Gaussian.
    let student = |z: &[f64]| {
        let square: f64 = z.iter().map(|x| x * x).sum();
        0.5 * square - 4.5 * (1.0 + square / 5.0).ln()
    };
    let (tails, bend, cubic) = (share(student), share(|z| z[0] * z[1]), share(|z| z[0].powi(3)));
    assert!(tails > 0.9 && bend < 0.02 && cubic < 0.02, "{tails} {bend} {cubic}");
    let limit = Tuning::default().growth_radial_share;
    assert!(tails > limit && bend < limit);
}
