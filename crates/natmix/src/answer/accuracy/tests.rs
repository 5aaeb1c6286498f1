use super::super::diagnose::diagnose;
use super::super::level::Level;
use super::*;
use crate::family::{Gaussian, Mixture};
use crate::target::ClosureTarget;

fn normal(mean: f64, sd: f64, d: usize) -> Mixture {
    Mixture::single(Gaussian::isotropic(vec![mean; d], sd))
}

fn judged(values: &[f64], weights: &[f64]) -> Judged {
    Judge { weights, k_hat: 0.0, parameters: 1 }.judge(values)
}

/// Sorted standard normal draws.
fn sorted_normals(n: usize) -> Vec<f64> {
    let mut draws = normal(0.0, 1.0, 1).sample(n, 3);
    draws.sort_by(f64::total_cmp);
    draws
}

#[test]
fn equal_weights_leave_only_the_monte_carlo_error() {
    let values = sorted_normals(4000);
    let Judged { mixture, weighted, .. } = judged(&values, &[1.0 / 4000.0; 4000]);
    assert!(mixture.holds && weighted.holds && !mixture.heavy_tails);
    assert!(mixture.quantile.se < 1e-9 && (mixture.mean.error - 0.158).abs() < 0.002 && mixture.sd.error < 0.13);
    // The mean of 4,000 draws: 0.0158 standard deviations, of a limit of 0.1.
    assert!((weighted.mean.se - 0.158).abs() < 0.002, "{}", weighted.mean.se);
    // Their standard deviation: sqrt(1/2/4000) = 0.0112, of a limit of 0.1.
    assert!((weighted.sd.se - 0.112).abs() < 0.01, "{}", weighted.sd.se);
    assert!((weighted.ess - 4000.0).abs() < 1.0);
}

#[test]
fn a_shift_of_the_weights_shows_in_every_figure() {
    let values = sorted_normals(4000);
    // Weights that turn N(0, 1) into N(0.3, 1).
    let raw: Vec<f64> = values.iter().map(|x| (0.3 * x).exp()).collect();
    let total: f64 = raw.iter().sum();
    let weights: Vec<f64> = raw.iter().map(|w| w / total).collect();
    let Judged { mixture, weighted, .. } = judged(&values, &weights);
    assert!(!mixture.holds && weighted.holds);
    assert!((mixture.mean.error - 3.0).abs() < 0.2, "{}", mixture.mean.error);
    assert!(weighted.ess < 4000.0 && weighted.ess > 3000.0, "{}", weighted.ess);
}

#[test]
fn a_gap_between_two_modes_does_not_decide() {
    // Half of the draws at each of two modes; the weights say 0.498 and 0.502, so that the median jumps over the gap.
    let values: Vec<f64> = sorted_normals(4000).iter().enumerate().map(|(i, x)| x + 20.0 * (i % 2) as f64).collect();
    let weights: Vec<f64> = (0..4000).map(|i| if i % 2 == 0 { 0.498 } else { 0.502 } / 2000.0).collect();
    assert!(judged(&values, &weights).mixture.holds);
    let weights: Vec<f64> = (0..4000).map(|i| if i % 2 == 0 { 0.4 } else { 0.6 } / 2000.0).collect();
    let Judged { mixture, weighted, .. } = judged(&values, &weights);
    assert!(!mixture.holds && weighted.holds);
}

#[test]
fn constants_and_nonsense_are_judged_without_a_panic() {
    let equal = [0.25; 4];
    assert!(judged(&[3.0; 4], &equal).weighted.holds);
    for values in [[f64::NAN; 4], [f64::INFINITY; 4], [0.0, f64::NAN, 1.0, f64::NEG_INFINITY]] {
        assert!(!judged(&values, &equal).weighted.holds, "{values:?}");
    }
    assert!(!judged(&[], &[]).mixture.holds);
}

#[test]
fn the_level_follows_the_misfit() {
    let target = normal(0.0, 1.0, 3);
    let level = |q: &Mixture| diagnose(&target, q, 4000, 1).unwrap();
    assert_eq!(level(&target).level, Level::Mixture);
    assert_eq!(level(&normal(0.02, 1.01, 3)).level, Level::Mixture);
    // 15% too narrow: the weights can repair it.
    let narrow = level(&normal(0.0, 0.85, 3));
    assert_eq!(narrow.level, Level::Weighted);
    assert!(narrow.verdict.trusted && narrow.k_hat < narrow.k_threshold);
    // Far too narrow.
    let bad = level(&normal(0.0, 0.5, 3));
    assert_eq!(bad.level, Level::None);
    assert!(!bad.verdict.trusted);
}

#[test]
fn too_few_effective_draws_refuse_an_answer_and_name_the_parameter() {
    let target = normal(0.0, 1.0, 2);
    // So wide that hardly any draw counts, with a light tail of the weights.
    let found = diagnose(&target, &normal(0.0, 4.0, 2), 1000, 1).unwrap();
    assert_eq!(found.level, Level::None);
    assert!(found.k_hat < found.k_threshold, "{}", found.k_hat);
    let reason = &found.verdict.reasons[0];
    assert!(reason.contains("not accurate enough for z") && reason.contains("effective draws of 1000"), "{reason}");
}

#[test]
fn heavy_tails_are_judged_by_quantiles_alone() {
    // Student's t with 3 degrees of freedom, represented by draws of itself.
    let noise = normal(0.0, 1.0, 4).sample(4000, 5);
    let values: Vec<f64> =
        noise.chunks_exact(4).map(|x| x[0] / ((x[1] * x[1] + x[2] * x[2] + x[3] * x[3]) / 3.0).sqrt()).collect();
    let Judged { mixture, weighted, .. } = judged(&values, &[1.0 / 4000.0; 4000]);
    assert!(weighted.heavy_tails && weighted.holds && mixture.holds);
}

#[test]
fn the_reported_scale_counts() {
    // Names come from the target; a closure has its coordinates.
    let target = ClosureTarget::new(1, |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad[0] = -z[0];
        }
        -0.5 * z[0] * z[0]
    });
    let found = diagnose(&target.unwrap(), &normal(0.0, 1.0, 1), 2000, 1).unwrap();
    assert_eq!((found.accuracy.len(), found.level), (1, Level::Mixture));
}
