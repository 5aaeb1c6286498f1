//! Varying effects against the exact answer.

#[path = "common/normal_hierarchy.rs"]
mod normal_hierarchy;
#[path = "common/right.rs"]
mod right;

use natmix::target::Target;
use natmix::{Config, fit};
use natmix_models::effects::{EffectsModel, Family};
use normal_hierarchy::{exact, simulate};
use right::{delivered, worst_error};

fn check(what: &str, sizes: &[usize], tau: f64, sigma: f64, seeds: std::ops::RangeInclusive<u64>) {
    let data = simulate(sizes, tau, sigma, 7);
    let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
    let (truth, evidence) = exact(&data, &model);
    let names = model.parameter_names();
    for seed in seeds {
        let fitted = fit(&model, &Config { seed, ..Config::default() }).unwrap();
        let (parameters, weights) = delivered(&model, &fitted);
        let (worst, place) = worst_error(&names, &truth, &parameters, &weights);
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        let evals = fitted.evals + fitted.diagnostic_evals + fitted.chain_evals;
        println!(
            "{what}, seed {seed}: {:?}, trusted {}, worst {worst:.2} ({place}), {evals} evaluations, {:.2} s, log evidence {:.3} ({evidence:.3})",
            diagnostics.level, diagnostics.verdict.trusted, fitted.seconds, diagnostics.log_evidence.mean,
        );
        assert!(diagnostics.verdict.trusted, "{what}, seed {seed}: {:?}", diagnostics.verdict);
        assert!(worst <= 1.0, "{what}, seed {seed}: {place} is off by {worst} limits");
    }
}

/// Sizes from 1 to `most`, which look random.
fn unbalanced(groups: usize, most: usize) -> Vec<usize> {
    let mut random = normal_hierarchy::Stream::new(3);
    (0..groups).map(|_| 1 + (random.uniform() * most as f64) as usize).collect()
}

#[test]
fn ten_groups() {
    check("10 groups of 8", &[8; 10], 0.7, 1.0, 1..=5);
    check("10 groups of 1 to 8", &unbalanced(10, 8), 0.7, 1.0, 1..=5);
}

#[test]
fn eighty_five_groups() {
    check("85 groups of 11", &[11; 85], 0.4, 0.75, 1..=5);
    check("85 groups of 1 to 20", &unbalanced(85, 20), 0.4, 0.75, 1..=5);
}
