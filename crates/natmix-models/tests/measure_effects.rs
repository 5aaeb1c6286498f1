//! Temporary.
#[path = "common/normal_hierarchy.rs"]
mod normal_hierarchy;
#[path = "common/right.rs"]
mod right;
use natmix::target::Target;
use natmix::{Config, fit};
use natmix_models::effects::{EffectsModel, Family};
use normal_hierarchy::{exact, simulate};
use right::{delivered, worst_error};
#[test]
fn measure() {
    let mut random = normal_hierarchy::Stream::new(3);
    let mixed: Vec<usize> = (0..85).map(|_| (random.uniform() * 5.0).exp() as usize).map(|n| n.max(1)).collect();
    for (what, sizes, tau, sigma) in [
        ("10x8 weak", vec![8; 10], 0.3, 1.0),
        ("10x200 strong", vec![200; 10], 1.0, 1.0),
        ("85x5 weak", vec![5; 85], 0.2, 1.0),
        ("85x100 strong", vec![100; 85], 1.0, 1.0),
        ("85 mixed 1..148", mixed, 0.7, 1.0),
        ("300x3 weak", vec![3; 300], 0.3, 1.0),
        ("300x30 strong", vec![30; 300], 1.0, 1.0),
    ] {
        let data = simulate(&sizes, tau, sigma, 7);
        let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
        let (truth, _) = exact(&data, &model);
        let names = model.parameter_names();
        for seed in 1..=2 {
            let fitted = fit(&model, &Config { seed, ..Config::default() }).unwrap();
            let (parameters, weights) = delivered(&model, &fitted);
            let (worst, place) = worst_error(&names, &truth, &parameters, &weights);
            let diagnostics = fitted.diagnostics.as_ref().unwrap();
            println!(
                "MEASURE {} {what}, seed {seed}: {:?}, trusted {}, worst {worst:.2} ({place}), evals {} + {}, {:.2} s",
                std::env::var("EFFECTS_CENTRED").unwrap_or("non".into()),
                diagnostics.level, diagnostics.verdict.trusted, fitted.evals, fitted.chain_evals, fitted.seconds,
            );
        }
    }
}
