//! Pareto-smoothed importance sampling: agreement with ArviZ, invariances, and inputs without an answer.

use natmix::psis::{Psis, gpd_fit, smooth, trust_threshold};
use serde::Deserialize;

/// The differences met are below 6e-15, but for 9e-14 in `k_hat` of the nearly equal ratios, where ArviZ subtracts
/// weights that agree in their first digits.
const TOLERANCE: f64 = 1e-12;

#[derive(Deserialize)]
struct Fixture {
    cases: Vec<PsisCase>,
    gpd: Vec<GpdCase>,
}

#[derive(Deserialize)]
struct PsisCase {
    name: String,
    n: usize,
    log_ratios: Option<Vec<Option<f64>>>,
    k_hat: Option<f64>,
    ess: f64,
    shown: Vec<usize>,
    log_weights: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct GpdCase {
    values: Vec<f64>,
    shape: f64,
    scale: f64,
}

impl PsisCase {
    fn ratios(&self) -> Vec<f64> {
        match &self.log_ratios {
            Some(ratios) => finite_or(ratios, f64::NEG_INFINITY),
            None => student_over_normal(self.n),
        }
    }
}

fn fixture() -> Fixture {
    serde_json::from_str(include_str!("../testdata/psis/fixture.json")).expect("fixture.json is valid")
}

fn finite_or(values: &[Option<f64>], otherwise: f64) -> Vec<f64> {
    values.iter().map(|v| v.unwrap_or(otherwise)).collect()
}

/// log t_3(x) - log N(x; 0, 1) up to a constant, at x by Box-Muller from a grid and the golden-ratio sequence; the same
/// formula as in make_fixture.py.
fn student_over_normal(n: usize) -> Vec<f64> {
    let ratio_at = |i: f64| {
        let radius_squared = -2.0 * ((i + 0.5) / n as f64).ln();
        let x = radius_squared.sqrt() * (2.0 * std::f64::consts::PI * (i * 0.6180339887498949).fract()).cos();
        0.5 * x * x - 2.0 * (x * x / 3.0).ln_1p()
    };
    (0..n).map(|i| ratio_at(i as f64)).collect()
}

/// Dyadic numbers, all different, with a tail: sums with other dyadic numbers are exact.
fn dyadic_ratios(n: usize) -> Vec<f64> {
    student_over_normal(n)
        .iter()
        .enumerate()
        .map(|(i, r)| (r * 1024.0).round() / 1024.0 + i as f64 / 2f64.powi(24))
        .collect()
}

/// Absolute below one, relative above; equal infinities are at distance zero.
fn distance(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { (a - b).abs() / b.abs().max(1.0) }
}

fn largest_distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    // Not f64::max, which would ignore a NaN.
    a.iter().zip(b).map(|(&a, &b)| distance(a, b)).fold(0.0, |worst, d| if d <= worst { worst } else { d })
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn log_sum_exp(values: &[f64]) -> f64 {
    values.iter().map(|v| v.exp()).sum::<f64>().ln()
}

fn assert_no_answer(psis: &Psis, n: usize) {
    assert!(psis.k_hat.is_nan() && psis.ess.is_nan() && !psis.trusted());
    assert!(psis.log_weights.len() == n && psis.log_weights.iter().all(|w| w.is_nan()));
}

#[test]
fn agrees_with_arviz() {
    for case in fixture().cases {
        let psis = smooth(&case.ratios());
        assert_eq!(psis.log_weights.len(), case.n);
        let mut ours: Vec<f64> = case.shown.iter().map(|&i| psis.log_weights[i]).collect();
        let mut theirs = finite_or(&case.log_weights, f64::NEG_INFINITY);
        if case.name == "ties" {
            // Which of two equal ratios gets the larger smoothed weight is up to the sort.
            (ours, theirs) = (sorted(ours), sorted(theirs));
        }
        let of_k_hat = distance(psis.k_hat, case.k_hat.unwrap_or(f64::INFINITY));
        let of_ess = distance(psis.ess, case.ess);
        let of_weights = largest_distance(&ours, &theirs);
        println!("{:45} k_hat {of_k_hat:.1e}  ess {of_ess:.1e}  log weights {of_weights:.1e}", case.name);
        assert!(of_k_hat <= TOLERANCE && of_ess <= TOLERANCE && of_weights <= TOLERANCE, "{}", case.name);
        assert!(log_sum_exp(&psis.log_weights).abs() < 1e-13, "{}", case.name);
    }
}

#[test]
fn fit_agrees_with_arviz() {
    for case in fixture().gpd {
        let (shape, scale) = gpd_fit(&case.values);
        println!("shape {:.1e}  scale {:.1e}", distance(shape, case.shape), (scale / case.scale - 1.0).abs());
        assert!(distance(shape, case.shape) <= TOLERANCE && (scale / case.scale - 1.0).abs() <= TOLERANCE);
    }
}

#[test]
fn a_shift_changes_nothing() {
    let ratios = dyadic_ratios(1000);
    for shift in [1024.0, -0.5, -65536.0] {
        let shifted: Vec<f64> = ratios.iter().map(|r| r + shift).collect();
        assert_eq!(smooth(&shifted), smooth(&ratios), "exact, as the shifted ratios are");
    }
}

#[test]
fn a_permutation_permutes_the_weights() {
    let ratios = dyadic_ratios(1000);
    let place = |i: usize| (i * 387 + 11) % 1000;
    let mut permuted = vec![0.0; 1000];
    (0..1000).for_each(|i| permuted[place(i)] = ratios[i]);
    let (straight, permuted) = (smooth(&ratios), smooth(&permuted));
    assert_eq!(straight.k_hat, permuted.k_hat);
    assert!(distance(permuted.ess, straight.ess) < 1e-13);
    let back: Vec<f64> = (0..1000).map(|i| permuted.log_weights[place(i)]).collect();
    assert!(largest_distance(&back, &straight.log_weights) < 1e-13);
}

#[test]
fn no_smoothed_weight_is_above_the_largest_raw_one() {
    for case in fixture().cases {
        let ratios = case.ratios();
        let smoothed = sorted(smooth(&ratios).log_weights);
        let raw = sorted(ratios);
        // The smallest weight is not smoothed, so the two scales are aligned there.
        if raw[0].is_finite() {
            let (raw_range, range) = (raw[case.n - 1] - raw[0], smoothed[case.n - 1] - smoothed[0]);
            assert!(range <= raw_range * (1.0 + 1e-14) + 1e-12, "{}", case.name);
        }
    }
}

#[test]
fn equal_ratios_are_perfect() {
    let rounding = [0.0, 1.1e-13, -2.3e-13, 5.7e-14];
    for ratios in [vec![-3.5; 100], (0..100).map(|i| 1e3 + rounding[i % 4]).collect()] {
        let psis = smooth(&ratios);
        assert_eq!(psis.k_hat, 0.0);
        assert!(psis.trusted() && (psis.ess - 100.0).abs() < 1e-9);
        assert!(psis.log_weights.iter().all(|w| (w + 100f64.ln()).abs() < 1e-12));
    }
    let one = smooth(&[7.0]);
    assert_eq!(one, Psis { k_hat: 0.0, log_weights: vec![0.0], ess: 1.0 });
    assert!(!one.trusted(), "one draw says nothing");
}

#[test]
fn short_tails_are_not_trusted() {
    let none = smooth(&[]);
    assert_eq!(none, Psis { k_hat: f64::INFINITY, log_weights: vec![], ess: 0.0 });
    assert!(!none.trusted());
    for n in 2..=20 {
        let ratios: Vec<f64> = (0..n).map(|i| 0.1 * i as f64).collect();
        let psis = smooth(&ratios);
        assert!(psis.k_hat == f64::INFINITY && !psis.trusted());
        let raw: Vec<f64> = ratios.iter().map(|r| r - log_sum_exp(&ratios)).collect();
        assert!(largest_distance(&psis.log_weights, &raw) < 1e-13);
    }
    // Equal above the cutoff, not below: as ArviZ, no tail.
    let step: Vec<f64> = (0..100).map(|i| if i < 50 { -1.0 } else { 0.0 }).collect();
    assert_eq!(smooth(&step).k_hat, f64::INFINITY);
}

#[test]
fn failed_evaluations_give_no_answer() {
    for bad in [f64::NAN, f64::INFINITY] {
        for place in [0, 57, 99] {
            let mut ratios = student_over_normal(100);
            ratios[place] = bad;
            assert_no_answer(&smooth(&ratios), 100);
        }
    }
    assert_no_answer(&smooth(&[f64::NEG_INFINITY; 30]), 30);
    assert_no_answer(&smooth(&[f64::NAN]), 1);
}

#[test]
fn extreme_ratios_give_weights_or_no_trust() {
    let one_left: Vec<f64> = (0..50).map(|i| if i == 31 { -1e300 } else { f64::NEG_INFINITY }).collect();
    let psis = smooth(&one_left);
    assert!(psis.k_hat == f64::INFINITY && psis.ess == 1.0 && psis.log_weights[31] == 0.0);

    // The span of the doubles; then a tail of equal values; then weights just above underflow.
    let span: Vec<f64> = (0..100).map(|i| (i as f64 - 50.0) * 3e306).collect();
    let flat_tail: Vec<f64> = (0..100).map(|i| (i as f64).min(85.0)).collect();
    let smallest = f64::MIN_POSITIVE.ln();
    let denormal: Vec<f64> =
        (0..100).map(|i| if i == 99 { 0.0 } else { smallest + 1e-12 * (i as f64 - 85.0) }).collect();
    assert!(smooth(&denormal).k_hat.is_nan(), "the inverse of a denormal exceedance overflows");
    for ratios in [span, flat_tail, denormal] {
        let psis = smooth(&ratios);
        assert!(log_sum_exp(&psis.log_weights).abs() < 1e-13 && psis.ess >= 1.0 - 1e-12, "{psis:?}");
    }
}

#[test]
fn fit_without_an_answer_is_nan() {
    for values in [&[][..], &[0.0], &[-1.0, 2.0, 3.0], &[0.0, 0.0, 1.0], &[1.0, f64::NAN], &[1.0, f64::INFINITY]] {
        let (shape, scale) = gpd_fit(values);
        assert!(shape.is_nan() && scale.is_nan(), "{values:?}: {shape} {scale}");
    }
}

#[test]
fn threshold_grows_with_the_number_of_draws() {
    assert_eq!(trust_threshold(0), f64::NEG_INFINITY);
    assert_eq!(trust_threshold(1), f64::NEG_INFINITY);
    assert_eq!(trust_threshold(10), 0.0);
    assert_eq!(trust_threshold(100), 0.5);
    assert_eq!(trust_threshold(10_000), 0.7);
    assert!((trust_threshold(1000) - 2.0 / 3.0).abs() < 1e-15);

    let light = smooth(&student_over_normal(1000).iter().map(|r| 0.1 * r).collect::<Vec<_>>());
    assert!(light.trusted(), "{}", light.k_hat);
}
