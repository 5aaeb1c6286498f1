//! The same bits for any number of threads.

mod common;

use common::mixture;
use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::observe::Trace;
use natmix::target::Shape;
use natmix::{Config, Fit, Method};
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
                        components,
                        draws,
                        minibatch: (method == Method::Vogn).then_some(64),
                        // More than one chunk a component, and a last one that is not full.
                        draws_per_component: 75,
                        tolerance: 1e-300,
                        max_iterations: 8,
                        diagnostic_draws: 500,
                        seed: 9,
                        threads,
                        ..Config::new(method)
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
    for (estimator, shape) in [(Estimator::Stein, Shape::Full), (Estimator::Exact, Shape::Diag)] {
        let run = |threads| {
            let config = Config {
                components: 3,
                estimator,
                covariance: shape,
                draws_per_component: 140,
                tolerance: 1e-300,
                max_iterations: 4,
                diagnostic_draws: 0,
                threads,
                ..Config::new(Method::ComponentDraws)
            };
            Fit::new(&target, config).run().unwrap().mixture
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(8));
    }
}
