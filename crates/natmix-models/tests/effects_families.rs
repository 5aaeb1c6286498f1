//! Every family on 10,000 rows: with so many, the posterior is the normal distribution around the maximum of the likelihood.
//!
//! `testdata/effects/maximum_likelihood.py` simulates the same data and maximises densities of SciPy.

#[path = "common/normal_hierarchy.rs"]
mod normal_hierarchy;
#[path = "common/right.rs"]
mod right;

use natmix::target::Target;
use natmix::{Config, fit};
use natmix_models::effects::{EffectsData, EffectsModel, Family, PriorStatement};
use normal_hierarchy::{NORMAL, Stream};
use right::{Marginal, delivered, worst_error};

const ROWS: usize = 10_000;

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn normal(u: &[f64]) -> f64 {
    (-2.0 * u[0].ln()).sqrt() * (std::f64::consts::TAU * u[1]).cos()
}

/// The smallest count whose distribution function reaches `u`.
fn poisson(u: f64, mean: f64) -> f64 {
    let (mut count, mut p) = (0.0, (-mean).exp());
    let mut below = p;
    while below < u && count < 1e4 {
        count += 1.0;
        p *= mean / count;
        below += p;
    }
    count
}

/// The data of a family, and the priors that are changed so that they do not matter.
fn simulate(family: Family, seed: u64) -> (EffectsData, Vec<PriorStatement>) {
    let mut random = Stream::new(seed);
    let mut data =
        EffectsData { names: ["(intercept)", "x", "dummy"].map(String::from).to_vec(), ..Default::default() };
    let (mut trials, mut event) = (Vec::new(), Vec::new());
    for row in 0..ROWS {
        let u: Vec<f64> = (0..10).map(|_| random.uniform()).collect();
        let (x, dummy) = (3.0 + 2.0 * u[0], f64::from(u8::from(u[1] < 0.3)));
        data.x.extend([1.0, x, dummy]);
        let (eta, u) = (-0.9 + 0.4 * x - 0.5 * dummy, &u[2..]);
        data.y.push(match family {
            Family::Linear => eta + 1.5 * normal(u),
            Family::Logistic => f64::from(u8::from(u[0] < logistic(eta))),
            Family::Poisson => poisson(u[0], eta.exp()),
            Family::NegativeBinomial => poisson(u[0], -(u[1] * u[2]).ln() / 2.0 * eta.exp()),
            Family::Robust => eta + 1.2 * normal(u) * (2.0 / -(u[2] * u[3]).ln()).sqrt(),
            Family::Binomial => {
                trials.push((1 + row % 6) as f64);
                u[..1 + row % 6].iter().filter(|u| **u < logistic(eta)).count() as f64
            }
            Family::Ordinal { .. } => {
                let latent = eta + (u[0] / (1.0 - u[0])).ln();
                [-1.0, 0.3, 1.7].iter().filter(|cut| latent > **cut).count() as f64
            }
            Family::Gamma => -(u[0] * u[1] * u[2]).ln() / 3.0 * eta.exp(),
            Family::Survival => {
                let time = eta.exp() * (-u[0].ln()).powf(1.0 / 1.6);
                event.push(time < 2.0);
                time.min(2.0)
            }
        });
    }
    data.trials = (family == Family::Binomial).then_some(trials);
    data.event = (family == Family::Survival).then_some(event);
    let flat = if family == Family::Robust { vec!["df ~ lognormal(0, 30)".parse().unwrap()] } else { vec![] };
    (data, flat)
}

#[test]
fn large_samples_have_the_maximum_of_the_likelihood() {
    let families = [
        Family::Linear,
        Family::Logistic,
        Family::Poisson,
        Family::NegativeBinomial,
        Family::Robust,
        Family::Binomial,
        Family::Ordinal { categories: 4 },
        Family::Gamma,
        Family::Survival,
    ];
    for (family, seed) in families.into_iter().zip(1..) {
        let (data, priors) = simulate(family, seed);
        let model = EffectsModel::new(family, data, &priors).unwrap();
        let names = model.parameter_names();
        let lines = include_str!("../testdata/effects/maximum_likelihood.txt").lines();
        let own: Vec<Vec<&str>> =
            lines.map(|line| line.split(' ').collect::<Vec<_>>()).filter(|words| words[0] == family.name()).collect();
        assert_eq!(names, own.iter().map(|words| words[1]).collect::<Vec<_>>());
        let truth: Vec<Marginal> = own
            .iter()
            .map(|words| {
                let [estimate, se] = [2, 3].map(|at| words[at].parse::<f64>().unwrap());
                if words.len() < 5 {
                    let quantiles = NORMAL.map(|z| estimate + se * z);
                    return Marginal { quantiles, mean: estimate, sd: se, kurtosis: 3.0 };
                }
                // A positive parameter: the logarithm is closer to normal.
                let quantiles = NORMAL.map(|z| (estimate + se * z).exp());
                let mean = (estimate + 0.5 * se * se).exp();
                Marginal { quantiles, mean, sd: mean * (se * se).exp_m1().sqrt(), kurtosis: 3.0 }
            })
            .collect();
        let fitted = fit(&model, &Config::default()).unwrap();
        let (parameters, weights) = delivered(&model, &fitted);
        let (worst, place) = worst_error(&names, &truth, &parameters, &weights);
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        println!(
            "{}: {:?}, worst {worst:.2} ({place}), {} + {} evaluations, {:.2} s",
            family.name(),
            diagnostics.level,
            fitted.evals,
            fitted.chain_evals,
            fitted.seconds
        );
        assert!(diagnostics.verdict.trusted, "{family:?}: {:?}", diagnostics.verdict);
        assert!(worst <= 1.0, "{family:?}: {place} is off by {worst} limits");
    }
}
