use super::*;
use crate::noise::{Noise, Purpose};

/// Draws of which the first coordinate is the log of an exponential variable (an exponential tail to the left), the second its
/// negative shifted, and the others are normal.
fn draws(n: usize, d: usize, seed: u64) -> Vec<f64> {
    let mut draws = vec![0.0; n * d];
    let mut noise = Noise::new(seed, Purpose::Check, 0, 0, 0);
    noise.normals(&mut draws);
    for z in draws.chunks_exact_mut(d) {
        z[0] = (-noise.uniform().ln()).ln();
        z[1] = 7.0 - 0.1 * (-noise.uniform().ln()).ln();
    }
    draws
}

fn found() -> Tails {
    Tails::of(&draws(4_000, 6, 1), 6, 4_000.0, &[])
}

#[test]
fn exponential_tails_are_found_on_their_side() {
    let tails = found();
    let [first, second] = tails.each[..] else { panic!("{tails:?}") };
    assert_eq!((first.coordinate, second.coordinate), (0, 1));
    assert!(first.shape.left > 0.3 && first.shape.right < 0.1, "{first:?}");
    assert!(second.shape.right > 0.3 && second.shape.left < 0.1, "{second:?}");
    // In the coordinates of the chains they are as short as those of a Gaussian.
    let mut others = draws(20_000, 6, 2);
    tails.backward(&mut others);
    for j in 0..2 {
        let (mean, variance) = mean_and_variance(others.iter().skip(j).step_by(6).copied());
        let fourth = others.iter().skip(j).step_by(6).map(|x| (x - mean).powi(4)).sum::<f64>() / 20_000.0;
        let kurtosis = fourth / (variance * variance);
        // 5.4 before; its standard error is 0.035 for normal draws.
        assert!((2.3..3.3).contains(&kurtosis), "{j}: {kurtosis}");
    }
    assert!(Tails::of(&others, 6, 20_000.0, &[]).is_empty());
    // Those that are set apart stay as they are.
    assert_eq!(Tails::of(&draws(4_000, 6, 1), 6, 4_000.0, &[0]).len(), 1);
}

#[test]
fn normal_draws_have_no_long_tails() {
    for seed in 1..=20 {
        let mut draws = vec![0.0; 1_000 * 30];
        Noise::new(seed, Purpose::Check, 1, 0, 0).normals(&mut draws);
        assert!(Tails::of(&draws, 30, 1_000.0, &[]).is_empty(), "seed {seed}");
    }
}

#[test]
fn draws_that_say_nothing_have_no_tails() {
    for draws in [vec![1.0; 600], vec![f64::NAN; 600], vec![0.5; 6], (0..600).map(|i| f64::from(i % 7)).collect()] {
        assert!(Tails::of(&draws, 6, 100.0, &[]).is_empty());
    }
}

#[test]
fn forward_and_backward_are_inverse() {
    let tails = found();
    let points: Vec<f64> = (-300..300).map(|i| f64::from(i) * 0.37).collect();
    let mut there = points.clone();
    tails.forward(&mut there);
    tails.backward(&mut there);
    assert!(there.iter().zip(&points).all(|(a, b)| (a - b).abs() < 1e-11 * (1.0 + b.abs())));
}

#[test]
fn values_that_cannot_be_stay_what_they_are() {
    let tails = found();
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300] {
        let mut z = vec![wrong; 6];
        tails.backward(&mut z);
        tails.forward(&mut z);
        assert!(z[0].is_nan() || z[0].abs() > 1e290);
    }
}

#[test]
fn gradients_are_those_of_the_density_that_chains_see() {
    let tails = found();
    // log p(z) = -z'z / 2 + z_0 z_1.
    let density = |z: &[f64]| -0.5 * z.iter().map(|z| z * z).sum::<f64>() + z[0] * z[1];
    let seen = |y: &[f64]| {
        let mut z = y.to_vec();
        tails.forward(&mut z);
        density(&z) + tails.log_det(y)
    };
    for y in draws(20, 6, 3).chunks_exact(6) {
        let mut z = y.to_vec();
        tails.forward(&mut z);
        let mut grad: Vec<f64> = z.iter().map(|z| -z).collect();
        (grad[0], grad[1]) = (z[1] - z[0], z[0] - z[1]);
        let mut log_p = [density(&z)];
        tails.pull_back(y, &mut log_p, &mut grad);
        assert!((log_p[0] - seen(y)).abs() < 1e-11 * (1.0 + log_p[0].abs()));
        for i in 0..6 {
            let at = |h: f64| {
                let mut y = y.to_vec();
                y[i] += h;
                seen(&y)
            };
            let quotient = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((grad[i] - quotient).abs() < 1e-6 * (1.0 + quotient.abs()), "{i}: {} {quotient}", grad[i]);
        }
    }
}

#[test]
fn numbers_that_are_no_tails_are_refused() {
    let (tails, numbers) = (found(), found().numbers());
    assert_eq!(Tails::of_numbers(&numbers, 6).unwrap(), tails);
    for (at, wrong) in [(0, 6.0), (0, 0.5), (0, -1.0), (2, 0.0), (2, f64::NAN), (3, -0.1), (4, f64::NAN)] {
        let mut numbers = numbers.clone();
        numbers[at] = wrong;
        assert!(Tails::of_numbers(&numbers, 6).is_none(), "{at}: {wrong}");
    }
}
