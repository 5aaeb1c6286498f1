//! The same bits for any number of threads.

mod common;

use common::mixture;
use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::family::{CovarianceKind, Gaussian, LowRank, Mixture};
use natmix::observe::Trace;
use natmix::{Config, Fit, Method, Parts};
use natmix_models::glm::{Glm, Likelihood};

fn regression() -> Glm {
    let (rows, d) = (700, 5);
    let x: Vec<f64> = (0..rows * d).map(common::wave).collect();
    let y = (0..rows).map(|r| f64::from(u8::from(x[r * d] + 0.3 * common::wave(r + 9) > 0.0))).collect();
    Glm::new(Likelihood::Bernoulli, &x, d, y, &[3.0]).unwrap()
}

#[test]
fn one_two_and_eight_threads_give_identical_bits() {
    let model = regression();
    for method in natmix::Method::ALL.map(|entry| entry.0) {
        for components in [1, 5] {
            for draws in [Plan::Independent, Plan::Cubature] {
                if method == Method::Auto && draws != Plan::Independent {
                    // It has its own plan.
                    continue;
                }
                let run = |threads| {
                    let mut trace = Trace::default();
                    let config = Config {
                        tolerance: 1e-300,
                        max_iterations: 8,
                        diagnostic_draws: 500,
                        seed: 9,
                        threads,
                        ..Config::new(method).with_components(components).with_parts(|parts| Parts {
                            draws,
                            minibatch: (method == Method::Vogn).then_some(64),
                            // More than one chunk per component, and a last one that is not full.
                            draws_per_component: 75,
                            ..parts
                        })
                    };
                    let fitted = Fit::new(&model, config).observe(&mut trace).run().unwrap();
                    let elbos: Vec<u64> = trace.0.iter().map(|row| row.elbo.to_bits()).collect();
                    (fitted.mixture, elbos, format!("{:?}", fitted.diagnostics), fitted.evals)
                };
                let one = run(1);
                assert_eq!(one, run(2), "{method:?} K={components} {draws:?}");
                assert_eq!(one, run(8), "{method:?} K={components} {draws:?}");
            }
        }
    }
}

#[test]
fn large_dimensions_take_the_library_paths_and_agree_too() {
    let target = mixture(70, 3, 1.0, 2);
    for (estimator, shape) in [(Estimator::Stein, CovarianceKind::Full), (Estimator::Exact, CovarianceKind::Diag)] {
        let run = |threads| {
            let config = Config {
                covariance: shape,
                tolerance: 1e-300,
                max_iterations: 4,
                diagnostic_draws: 0,
                threads,
                ..Parts { components: 3, estimator, draws_per_component: 140, ..Parts::new(Method::ComponentDraws) }
                    .into()
            };
            Fit::new(&target, config).run().unwrap().mixture
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(8));
    }
}

#[test]
fn low_rank_covariances_agree_too() {
    let factors: Vec<f64> = (0..3 * 600).map(common::wave).collect();
    let part = |at: f64| Gaussian::new(vec![at; 600], LowRank::from_factors(&[0.5; 600], &factors).unwrap());
    let target = Mixture::new(&[0.6, 0.4], vec![part(0.0), part(3.0)]).unwrap();
    let run = |threads| {
        let config = Config {
            covariance: CovarianceKind::LowRank,
            max_iterations: 6,
            max_evals: Some(5_000),
            diagnostic_draws: 0,
            threads,
            ..Config::default()
        };
        Fit::new(&target, config).run().unwrap().mixture
    };
    let one = run(1);
    assert_eq!(one.covariance_kind(), CovarianceKind::LowRank);
    assert_eq!(one, run(2));
    assert_eq!(one, run(8));
}

/// In few dimensions and in so many that threads share the work on the chains, with a metric of either kind.
#[test]
fn chains_agree_too() {
    for (d, start) in [(4, CovarianceKind::Full), (30, CovarianceKind::Full), (410, CovarianceKind::Diag)] {
        let target = mixture(d, 1, 1.0, 2);
        let sd = start.with_sd(&vec![1.5; d]).unwrap();
        let start = Mixture::single(Gaussian::new(vec![0.3; d], sd));
        let run = |threads| {
            let config =
                Config { threads, max_evals: Some(6_000), diagnostic_draws: 100, seed: 4, ..Config::default() };
            let fitted = Fit::new(&target, config).start(start.clone()).finish().unwrap();
            let chains = fitted.chains.unwrap();
            assert!(!chains.draws.is_empty());
            let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            (bits(&chains.draws), bits(&chains.log_p), bits(&chains.energy), chains.certificate, fitted.chain_evals)
        };
        let one = run(1);
        assert!(one == run(2) && one == run(8), "d = {d}");
    }
}
