use super::*;
use crate::observations::Observations;

/// Draws of an intercept and a slope close to the given values.
fn posterior(kind: RegressionKind, values: &[f64]) -> CoefficientDraws {
    let z: Vec<f64> = (0..200)
        .flat_map(|s| values.iter().enumerate().map(move |(j, v)| v + 0.02 * (1.7 * (s * 7 + j * 3) as f64).sin()))
        .collect();
    CoefficientDraws::new(kind, 2, &z).unwrap()
}

/// Rows with an intercept and a feature, and outcomes made by `outcome` from the feature and random numbers.
fn rows(n: usize, outcome: impl Fn(f64, &mut Pair) -> f64) -> Dataset {
    seeded_rows(3, n, outcome)
}

fn seeded_rows(seed: u64, n: usize, outcome: impl Fn(f64, &mut Pair) -> f64) -> Dataset {
    let mut noise = Pair::new(seed, 0);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let feature = noise.normal();
        x.extend([1.0, feature]);
        y.push(outcome(feature, &mut noise));
    }
    Observations::new(x, 2, y).unwrap().into()
}

fn check(draws: &CoefficientDraws, table: &Dataset, statistic: &str) -> PredictiveCheck {
    let all = predictive_checks(draws, table, (0.0, 1.0), 1).unwrap().statistics;
    all.into_iter().find(|check| check.statistic == statistic).unwrap()
}

#[test]
fn a_model_that_made_the_data_reproduces_them() {
    let poisson = posterior(RegressionKind::Poisson, &[1.0, 0.5]);
    let counts = rows(600, |x, noise| noise.count((1.0 + 0.5 * x).exp()));
    let linear = posterior(RegressionKind::Linear { noise_sd: None }, &[1.0, 0.5, 0.0]);
    let numbers = rows(600, |x, noise| 1.0 + 0.5 * x + noise.normal());
    let logistic = posterior(RegressionKind::Logistic, &[0.3, 1.0]);
    // With seed 3 the calibration of the data is among the worst 1% by chance.
    let binary = seeded_rows(1, 600, |x, noise| f64::from(u8::from(noise.uniform() < 1.0 / (1.0 + (-0.3 - x).exp()))));
    for (draws, table) in [(&poisson, &counts), (&linear, &numbers), (&logistic, &binary)] {
        let found = predictive_checks(draws, table, (0.0, 1.0), 1).unwrap();
        for check in found.statistics {
            assert!((0.01..=0.99).contains(&check.p) && check.replicated.len() == 200, "{check:?}");
        }
        // About one bar in ten lies outside the middle 90% of its own shares; five of 24 would be too many.
        let bars = found.outcome.unwrap();
        let shares = bars.observed.iter().zip(&bars.replicated);
        let outside = shares.filter(|(share, [low, _, high])| !(low..=high).contains(share)).count();
        assert!(bars.edges.len() == bars.observed.len() + 1 && outside <= 4, "{bars:?}");
        assert!((bars.replicated.iter().map(|share| share[1]).sum::<f64>() - 1.0).abs() < 0.1, "{bars:?}");
    }
}

#[test]
fn counts_that_vary_too_much_are_seen() {
    let draws = posterior(RegressionKind::Poisson, &[1.0, 0.5]);
    // A factor of 0 or 2: many zeros, and a variance of m + m^2.
    let table = rows(600, |x, noise| {
        let factor = if noise.uniform() < 0.5 { 0.0 } else { 2.0 };
        noise.count(factor * (1.0 + 0.5 * x).exp())
    });
    let dispersion = check(&draws, &table, "dispersion");
    assert!(dispersion.p < 0.01 && dispersion.observed > 3.0, "{dispersion:?}");
    let mean = dispersion.replicated.iter().sum::<f64>() / 200.0;
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
    let zeros = check(&draws, &table, "zeros");
    assert!(zeros.p < 0.01 && zeros.observed > 0.45, "{zeros:?}");
}

#[test]
fn outliers_and_wrong_curves_are_seen() {
    let linear = posterior(RegressionKind::Linear { noise_sd: None }, &[1.0, 0.5, 0.0]);
    let table = rows(300, |x, noise| if x > 2.5 { 30.0 } else { 1.0 + 0.5 * x + noise.normal() });
    assert!(check(&linear, &table, "largest residual").p < 0.01);
    // A probability that falls on both sides.
    let logistic = posterior(RegressionKind::Logistic, &[0.0, 1.0]);
    let table = rows(600, |x, noise| f64::from(u8::from(noise.uniform() < 1.0 / (1.0 + (x * x - 1.0).exp()))));
    assert!(check(&logistic, &table, "calibration").p < 0.01);
    let known = posterior(RegressionKind::Linear { noise_sd: Some(1.0) }, &[1.0, 0.5]);
    let table = rows(300, |x, noise| 1.0 + 0.5 * x + 0.3 * noise.normal());
    let dispersion = check(&known, &table, "dispersion");
    assert!(dispersion.p > 0.99 && (dispersion.observed - 0.09).abs() < 0.03, "{dispersion:?}");
}

/// Softmax with two classes is the logistic regression: the same events where class 1 is likelier.
#[test]
fn classes_are_checked_by_their_likeliest() {
    let z: Vec<f64> = (0..100).flat_map(|s| [5.0, 0.1 * (f64::from(s) * 1.3).sin()]).collect();
    let softmax = CoefficientDraws::new(RegressionKind::Softmax { classes: 2 }, 2, &z).unwrap();
    let table = rows(200, |_, _| 1.0);
    let likeliest = check(&softmax, &table, "likeliest");
    assert!(likeliest.observed == 1.0 && likeliest.replicated.iter().all(|share| *share > 0.95));
}

#[test]
fn counts_have_the_mean_and_variance_of_a_poisson() {
    let mut noise = Pair::new(1, 1);
    for mean in [0.1, 3.0, 90.0, 150.0, 1e6] {
        let n = 20_000;
        let counts: Vec<f64> = (0..n).map(|_| noise.count(mean)).collect();
        let average = counts.iter().sum::<f64>() / f64::from(n);
        let variance = counts.iter().map(|y| (y - average).powi(2)).sum::<f64>() / f64::from(n);
        let error = (mean / f64::from(n)).sqrt();
        assert!((average - mean).abs() < 5.0 * error, "{mean}: {average}");
        assert!((variance / mean - 1.0).abs() < 0.08, "{mean}: {variance}");
    }
}

#[test]
fn replicated_classes_have_their_probabilities() {
    // Class probabilities 1:2:3 in every row.
    let draws =
        CoefficientDraws::new(RegressionKind::Softmax { classes: 3 }, 1, &[2f64.ln(), 3f64.ln()].repeat(200)).unwrap();
    let y: Vec<f64> = (0..600).map(|i| [0.0, 1.0, 1.0, 2.0, 2.0, 2.0][i % 6]).collect();
    let table: Dataset = Observations::new(vec![1.0; 600], 1, y).unwrap().into();
    let bars = predictive_checks(&draws, &table, (0.0, 1.0), 4).unwrap().outcome.unwrap();
    for ((share, [low, middle, high]), truth) in bars.observed.iter().zip(&bars.replicated).zip([1.0, 2.0, 3.0]) {
        // The median of 200 shares of 600 rows is within 0.01 of the probability, with room for five errors.
        assert!((share - truth / 6.0).abs() < 1e-12 && (middle - share).abs() < 0.01 && low < share && share < high);
    }
}
