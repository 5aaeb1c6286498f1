use super::*;
use natmix::target::log_p_at;
use natmix::testing::{CheckOptions, check_target};

fn data(rows: usize, d: usize) -> Vec<f64> {
    (0..rows * d).map(|i| (i as f64 * 1.7).sin()).collect()
}

#[test]
fn derivatives_and_minibatches_are_right_for_every_likelihood() {
    let (rows, d) = (300, 3);
    let x = data(rows, d);
    for likelihood in [Likelihood::Gaussian { sd: 0.7 }, Likelihood::Bernoulli, Likelihood::Poisson] {
        let y: Vec<f64> = (0..rows).map(|r| f64::from(u8::from(r % 3 == 0))).collect();
        let plain = Glm::new(likelihood, &x, d, y, &[2.0, 1.0, 0.5]).unwrap();
        let full = plain
            .clone()
            .with_offset((0..rows).map(|r| 0.1 * (r % 5) as f64).collect())
            .and_then(|m| m.with_weights((0..rows).map(|r| (r % 4) as f64).collect()))
            .unwrap();
        for model in [&plain, &full] {
            let report = check_target(model, &CheckOptions::default()).unwrap();
            assert!(report.passed(), "{likelihood:?}: {report}");
        }
    }
}

#[test]
fn known_values() {
    let poisson = Glm::new(Likelihood::Poisson, &[1.0], 1, vec![3.0], &[1.0]).unwrap();
    let expected = -0.5 * LOG_TAU - 0.5 * 0.04 + (3.0 * 0.2 - 0.2f64.exp() - 6f64.ln());
    assert!((log_p_at(&poisson, &[0.2]).unwrap() - expected).abs() < 1e-13);
    // Separated and extreme predictors stay finite.
    let logistic = Glm::new(Likelihood::Bernoulli, &[1.0, -1.0], 1, vec![1.0, 0.0], &[1e3]).unwrap();
    let far = log_p_at(&logistic, &[1e4]).unwrap();
    assert!((far - (-(1e3f64).ln() - 0.5 * LOG_TAU - 50.0)).abs() < 1e-9, "{far}");
    assert!((log_p_at(&logistic, &[-1e4]).unwrap() - far + 2e4).abs() < 1e-6);
}

#[test]
fn a_predictor_that_is_nan_is_passed_on() {
    let model = Glm::new(Likelihood::Bernoulli, &[1.0], 1, vec![1.0], &[1.0]).unwrap();
    assert!(log_p_at(&model, &[f64::NAN]).unwrap().is_nan());
}

#[test]
fn a_weight_counts_as_repeated_rows() {
    let x = data(5, 2);
    let y = vec![0.0, 1.0, 1.0, 0.0, 1.0];
    let weighted = Glm::new(Likelihood::Bernoulli, &x, 2, y.clone(), &[1.0]).unwrap();
    let weighted = weighted.with_weights(vec![1.0, 2.0, 1.0, 1.0, 0.0]).unwrap();
    let repeated = |list: &[f64], width: usize| -> Vec<f64> {
        [0, 1, 1, 2, 3].iter().flat_map(|&r| list[r * width..(r + 1) * width].to_vec()).collect()
    };
    let plain = Glm::new(Likelihood::Bernoulli, repeated(&x, 2), 2, repeated(&y, 1), &[1.0]).unwrap();
    let z = [0.3, -1.1];
    assert!((log_p_at(&weighted, &z).unwrap() - log_p_at(&plain, &z).unwrap()).abs() < 1e-13);
}

#[test]
fn bad_data_are_named() {
    let message = |model: Result<Glm, Error>| model.unwrap_err().to_string();
    assert!(message(Glm::new(Likelihood::Bernoulli, &[1.0], 1, vec![2.0], &[1.0])).contains("row 0 is 2"));
    assert!(message(Glm::new(Likelihood::Poisson, &[1.0], 1, vec![0.5], &[1.0])).contains("count"));
    assert!(message(Glm::new(Likelihood::Poisson, &[f64::NAN], 1, vec![1.0], &[1.0])).contains("column 0 is NaN"));
    assert!(message(Glm::new(Likelihood::Bernoulli, &[1.0, 2.0], 1, vec![1.0], &[1.0])).contains("rows"));
    assert!(message(Glm::new(Likelihood::Gaussian { sd: 0.0 }, &[1.0], 1, vec![1.0], &[1.0])).contains("noise"));
    assert!(message(Glm::new(Likelihood::Bernoulli, &[1.0], 1, vec![1.0], &[-1.0])).contains("prior"));
}
