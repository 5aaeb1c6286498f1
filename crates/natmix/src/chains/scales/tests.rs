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
    Scales::of(&funnel(4_000, 6, 1.0), 6, 4_000.0, None).unwrap()
}

#[test]
fn the_scale_of_a_funnel_is_found() {
    let scales = scales();
    assert_eq!(scales.from.len(), 1);
    assert_eq!((scales.from[0].coordinate, scales.scaled.len()), (0, 5));
    // The first coordinate is the log of a variance, and nothing else determines the others.
    assert!((scales.from[0].k / scales.from[0].sd - 0.5).abs() < 1e-12);
    assert!(scales.scaled.iter().all(|one| one.form.centred && one.form.share > 0.9), "{scales:?}");
    // In the coordinates of the chains the spread no longer depends on it.
    let mut draws = funnel(4_000, 6, 1.0);
    scales.backward(&mut draws);
    assert!(Scales::of(&draws, 6, 4_000.0, None).is_none());
}

/// Draws of groups around a common mean: coordinate 0 is the log of their standard deviation, coordinate 1 their mean.
fn groups(n: usize, d: usize) -> Vec<f64> {
    let mut draws = vec![0.0; n * d];
    Noise::new(6, Purpose::Check, 0, 0, 0).normals(&mut draws);
    for z in draws.chunks_exact_mut(d) {
        z[0] = -1.0 + 0.7 * z[0];
        let (scale, centre) = (z[0].exp(), z[1]);
        z[2..].iter_mut().for_each(|z| *z = centre + scale * *z);
    }
    draws
}

#[test]
fn groups_shrink_around_their_mean() {
    let scales = Scales::of(&groups(4_000, 10), 10, 4_000.0, None).unwrap();
    assert_eq!((scales.from[0].coordinate, scales.from.len()), (0, 1));
    assert_eq!(scales.around.iter().map(|g| g.0).collect::<Vec<_>>(), [1]);
    assert!(scales.scaled.iter().all(|one| (one.shift[0] - 1.0).abs() < 0.05), "{scales:?}");
    assert!(scales.scaled.iter().all(|one| one.form.centred && one.form.share > 0.9), "{scales:?}");
    assert!((scales.from[0].k / scales.from[0].sd - 1.0).abs() < 1e-12);
}

#[test]
fn a_gaussian_has_no_scales() {
    for seed in 1..=20 {
        let mut draws = vec![0.0; 1_000 * 30];
        Noise::new(seed, Purpose::Check, 1, 0, 0).normals(&mut draws);
        draws.chunks_exact_mut(30).for_each(|z| z[3] += z[2] + 0.5 * z[1]);
        assert!(Scales::of(&draws, 30, 1_000.0, None).is_none(), "seed {seed}");
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

/// Draws of groups with data: given the first coordinate, the log of a standard deviation, the others are normal with the mean
/// and precision that data with variance one and that prior leave, in the form in which a group has the prior as its scale.
fn groups_with_data(n: usize, d: usize, centred: bool) -> Vec<f64> {
    let mut draws = vec![0.0; n * d];
    Noise::new(7, Purpose::Check, 0, 0, 0).normals(&mut draws);
    for z in draws.chunks_exact_mut(d) {
        z[0] *= 0.8;
        let tau = z[0].exp();
        let precision = tau.powi(-2) + 1.0;
        for (i, z) in z.iter_mut().enumerate().skip(1) {
            *z = 0.3 * (i as f64 - 4.0) / precision + *z / precision.sqrt();
            if !centred {
                *z /= tau;
            }
        }
    }
    draws
}

#[test]
fn groups_with_data_are_normal_in_the_coordinates_of_the_chains() {
    for centred in [true, false] {
        let mut draws = groups_with_data(4_000, 8, centred);
        let scales = Scales::of(&draws, 8, 4_000.0, None).unwrap();
        assert_eq!(scales.from[0].coordinate, 0);
        // Precisions of prior and data are the same where the first coordinate is zero, its mean.
        let right = |one: &Scaled| one.form.centred == centred && (0.35..0.7).contains(&one.form.share);
        assert!(scales.scaled.len() == 7 && scales.scaled.iter().all(right), "{centred} {scales:?}");
        check_inverse(&scales, &draws[..400]);
        check_gradients_at(&scales, &draws[..40], 8);
        scales.backward(&mut draws);
        assert!(Scales::of(&draws, 8, 4_000.0, None).is_none(), "{centred}");
    }
}

fn check_inverse(scales: &Scales, points: &[f64]) {
    let mut there = points.to_vec();
    scales.forward(&mut there);
    scales.backward(&mut there);
    assert!(there.iter().zip(points).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs())));
}

#[test]
fn gradients_are_those_of_the_density_that_chains_see() {
    check_gradients(&scales());
    check_gradients(&Scales::of(&groups(2_000, 6), 6, 2_000.0, None).unwrap());
}

fn check_gradients(scales: &Scales) {
    check_gradients_at(scales, &funnel(5, 6, 1.0), 6);
}

fn check_gradients_at(scales: &Scales, points: &[f64], d: usize) {
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
    for y in points.chunks_exact(d) {
        let mut z = y.to_vec();
        scales.forward(&mut z);
        let (mut log_p, mut grad) = (vec![density(&z)], gradient(&z));
        scales.pull_back(y, &mut log_p, &mut grad);
        assert!((log_p[0] - seen(y)).abs() < 1e-10 * (1.0 + log_p[0].abs()));
        for i in 0..d {
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
