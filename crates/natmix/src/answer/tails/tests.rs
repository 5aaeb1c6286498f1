use super::*;
use crate::evaluate::{Limits, of_target};
use crate::family::{Covariances, Gaussian};
use crate::run::time_left::TimeLeft;
use crate::target::ClosureTarget;
use crate::workspace::ScratchPool;

const SEEDS: std::ops::Range<u64> = 0..20;

/// Examines a density whose gradient is by differences.
fn examined(q: &Mixture, log_p: &(dyn Fn(&[f64]) -> f64 + Sync), seed: u64) -> (TailReport, u64) {
    let gradient = |z: &[f64], grad: &mut [f64]| {
        for i in 0..z.len() {
            let (mut low, mut high) = (z.to_vec(), z.to_vec());
            let step = 1e-7 * z[i].abs().max(1e-12);
            (low[i], high[i]) = (z[i] - step, z[i] + step);
            grad[i] = (log_p(&high) - log_p(&low)) / (high[i] - low[i]);
        }
    };
    examined_with(q, log_p, &gradient, seed)
}

fn examined_with(
    q: &Mixture,
    log_p: &(dyn Fn(&[f64]) -> f64 + Sync),
    gradient: &(dyn Fn(&[f64], &mut [f64]) + Sync),
    seed: u64,
) -> (TailReport, u64) {
    let target = ClosureTarget::new(q.dim(), |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            gradient(z, grad);
        }
        log_p(z)
    })
    .unwrap();
    let scratch = ScratchPool::new(1);
    let mut evaluator = of_target(&target, &scratch, Limits::default());
    let facts = FitFacts { has_gradient: true, holds: true, start_sd: &vec![1.0; q.dim()] };
    let report = examine(&mut *evaluator, q, facts, seed, &TimeLeft::default()).unwrap().unwrap();
    (report, evaluator.spent().evals)
}

fn wide(d: usize, sd: f64) -> Mixture {
    Mixture::single(Gaussian::isotropic(vec![0.0; d], sd))
}

fn squares(z: &[f64]) -> f64 {
    z.iter().map(|z| z * z).sum()
}

fn names(d: usize) -> Vec<String> {
    (0..d).map(|i| format!("x{}", i + 1)).collect()
}

type LogDensity = Box<dyn Fn(&[f64]) -> f64 + Sync>;

#[test]
fn improper_densities_are_named() {
    type Case = (&'static str, Mixture, Box<dyn Fn(&[f64]) -> f64 + Sync>, &'static str);
    let ridge = Mixture::from_moments(
        &[1.0],
        &[vec![0.5, 0.5, 0.0]],
        Covariances::Full(&[vec![vec![25.5, -25.0, 0.0], vec![-25.0, 25.5, 0.0], vec![0.0, 0.0, 1.0]]]),
    );
    let cases: Vec<Case> = vec![
        ("reciprocal", wide(1, 10.0), Box::new(|z| -0.5 * (1.0 + z[0] * z[0]).ln()), "diverges along `x1`"),
        ("reciprocal of the radius", wide(2, 10.0), Box::new(|z| -0.5 * (1.0 + squares(z)).ln()), "improper"),
        ("radius to the power -3/2", wide(2, 10.0), Box::new(|z| -0.75 * (1.0 + squares(z)).ln()), "every direction"),
        (
            "product of reciprocals",
            wide(2, 10.0),
            Box::new(|z| z.iter().map(|z| -0.5 * (1.0 + z * z).ln()).sum()),
            "improper",
        ),
        ("one-sided logistic", wide(1, 3.0), Box::new(|z| -(-z[0]).exp().ln_1p()), "along `x1`"),
        (
            "logistic in one of three",
            wide(3, 1.0),
            Box::new(|z| -(-z[1]).exp().ln_1p() - z[0] * z[0] - z[2] * z[2]),
            "along `x2`",
        ),
        ("flat", wide(4, 1.0), Box::new(|_| 0.0), "improper"),
        ("exponential", wide(2, 1.0), Box::new(|z| z[0] - z[1] * z[1]), "without bound along `x1`"),
        (
            "ridge",
            ridge.unwrap(),
            Box::new(|z| -0.5 * (z[0] + z[1] - 1.0).powi(2) - 0.5 * z[2] * z[2]),
            "`x1` and `x2` move together",
        ),
    ];
    for (name, q, log_p, words) in cases {
        for seed in SEEDS {
            let (report, evals) = examined(&q, &log_p, seed);
            let reasons = report.reasons(&names(q.dim())).join("; ");
            assert!(reasons.contains(words), "{name}, seed {seed}: {reasons:?}");
            assert!(evals <= 500, "{name}: {evals}");
        }
    }
}

#[test]
fn poles_are_found() {
    for (d, strength) in [(1, 1.0), (1, 0.5), (3, 2.0)] {
        // Components that have begun to close in on the pole at 0.25.
        let component = |offset: f64, sd: f64| Gaussian::isotropic(vec![0.25 + offset; d], sd);
        let q = Mixture::new(&[0.8, 0.2], vec![component(0.2, 1.0), component(1e-3, 1e-2)]).unwrap();
        let log_p = |z: &[f64]| {
            let distance = z.iter().map(|z| (z - 0.25).powi(2)).sum::<f64>().sqrt();
            -strength * distance.ln() - 0.5 * squares(z)
        };
        let gradient = |z: &[f64], grad: &mut [f64]| {
            let squared = z.iter().map(|z| (z - 0.25).powi(2)).sum::<f64>();
            grad.iter_mut().zip(z).for_each(|(g, z)| *g = -strength * (z - 0.25) / squared - z);
        };
        for seed in SEEDS {
            let (report, _) = examined_with(&q, &log_p, &gradient, seed);
            let reasons = report.reasons(&names(d)).join("; ");
            assert!(reasons.contains("= 0.25") && reasons.contains("pole"), "{d}: {reasons:?}");
        }
    }
}

#[test]
fn proper_densities_pass() {
    type Case = (&'static str, Mixture, Box<dyn Fn(&[f64]) -> f64 + Sync>);
    fn student(nu: f64) -> LogDensity {
        Box::new(move |z| -0.5 * (nu + z.len() as f64) * (1.0 + squares(z) / nu).ln())
    }
    let spike = vec![Gaussian::isotropic(vec![0.0; 2], 1.0), Gaussian::isotropic(vec![1.0; 2], 1e-6)];
    let spike = Mixture::new(&[0.7, 0.3], spike).unwrap();
    let same = spike.clone();
    let cases: Vec<Case> = vec![
        ("normal", wide(3, 1.0), Box::new(|z| -0.5 * squares(z))),
        ("Cauchy", wide(1, 3.0), student(1.0)),
        ("Student-t, 2 degrees", wide(1, 1.5), student(2.0)),
        ("Student-t, 3 degrees, d = 5", wide(5, 1.5), student(3.0)),
        ("Student-t, 2 degrees, d = 30", wide(30, 1.5), student(2.0)),
        ("Cauchys", wide(5, 3.0), Box::new(|z| z.iter().map(|z| -(1.0 + z * z).ln()).sum())),
        ("Laplace", wide(3, 1.0), Box::new(|z| -z.iter().map(|z| z.abs()).sum::<f64>())),
        ("cusp", wide(1, 1.0), Box::new(|z| -z[0].abs().sqrt())),
        ("vague prior", wide(2, 1.0), Box::new(|z| -0.5 * (z[0] + z[1]).powi(2) - 0.5 * squares(z) / 1e6)),
        ("spike", spike, Box::new(move |z| same.log_density(z)[0])),
        (
            "funnel",
            wide(10, 3.0),
            Box::new(|z| {
                let rest = squares(&z[1..]);
                -z[0] * z[0] / 18.0 - 0.5 * rest * (-z[0]).exp() - 4.5 * z[0]
            }),
        ),
        (
            // Its density grows without bound where all groups are equal and their spread vanishes, but it is proper.
            "groups around a mean, centred",
            wide(10, 2.0),
            Box::new(|z| {
                let (mean, log_sd) = (z[0], z[1]);
                let groups: f64 = z[2..].iter().map(|z| (z - mean).powi(2)).sum();
                let prior = log_sd - (1.0 + (2.0 * log_sd).exp() / 25.0).ln() - 0.02 * mean * mean;
                let data: f64 = z[2..].iter().map(|z| -0.005 * (z - 3.0).powi(2)).sum();
                prior - 8.0 * log_sd - 0.5 * groups * (-2.0 * log_sd).exp() + data
            }),
        ),
    ];
    for (name, q, log_p) in cases {
        for seed in SEEDS {
            let (report, evals) = examined(&q, &log_p, seed);
            let reasons = report.reasons(&names(q.dim()));
            assert!(reasons.is_empty(), "{name}, seed {seed}: {reasons:?}");
            assert!(evals <= 500, "{name}: {evals}");
        }
    }
}
