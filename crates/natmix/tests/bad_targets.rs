//! Targets that misbehave: no result is corrupted, and every failure is reported.
//!
//! Every method that applies meets NaN, both infinities and errors, at some points or at all, in the value, the gradient or
//! the curvature. An observer checks the mixture after each iteration. Counts are compared exactly with what the target saw.

mod common;

use natmix::estimate::Estimator;
use natmix::family::{CovarianceKind, Gaussian, Mixture};
use natmix::observe::{Iteration, Observer};
use natmix::target::{ClosureTarget, log_p_at};
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Error, Fit, Fitted, Method, Parts, Scratch, fit};
use natmix_models::glm::{Glm, Likelihood};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong with a target.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Value(f64),
    Gradient(f64),
    Curvature(f64),
}

/// A standard normal with every kind of curvature that fails at the points `z` with `bad(z)`, or in one call.
struct Faulty {
    dim: usize,
    fault: Fault,
    bad: fn(&[f64]) -> bool,
    fails_at_call: Option<u64>,
    calls: AtomicU64,
    points: AtomicU64,
    bad_points: AtomicU64,
}

impl Faulty {
    fn new(dim: usize, fault: Fault, bad: fn(&[f64]) -> bool) -> Self {
        let count = AtomicU64::default;
        Self { dim, fault, bad, fails_at_call: None, calls: count(), points: count(), bad_points: count() }
    }
}

impl Target for Faulty {
    fn dim(&self) -> usize {
        self.dim
    }

    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        let call = 1 + self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fails_at_call.is_some_and(|last| call == last) {
            return Err("the solver of Faulty gave up".into());
        }
        self.points.fetch_add(z.len() as u64, Ordering::Relaxed);
        let bad: Vec<bool> = z.iter().map(self.bad).collect();
        self.bad_points.fetch_add(bad.iter().filter(|bad| **bad).count() as u64, Ordering::Relaxed);
        for ((log_p, z), bad) in out.log_p.iter_mut().zip(z.iter()).zip(&bad) {
            *log_p = match self.fault {
                Fault::Value(x) if *bad => x,
                _ => -0.5 * z.iter().map(|x| x * x).sum::<f64>(),
            };
        }
        if let Some(grad) = out.grad {
            grad.iter_mut().zip(z.data()).for_each(|(g, z)| *g = -z);
            if let Fault::Gradient(x) = self.fault {
                for (grad, _) in grad.chunks_exact_mut(self.dim).zip(&bad).filter(|(_, bad)| **bad) {
                    grad[self.dim - 1] = x;
                }
            }
        }
        if let Some(curv) = out.curv {
            let (step, len) = match curv.shape {
                CurvatureShape::Diag => (1, self.dim),
                CurvatureShape::Full => (self.dim + 1, self.dim * self.dim),
            };
            curv.sums.fill(0.0);
            for (sum, weights) in curv.sums.chunks_exact_mut(len).zip(curv.weights.chunks_exact(z.len())) {
                for (weight, bad) in weights.iter().zip(&bad) {
                    match self.fault {
                        Fault::Value(_) if *bad => {}
                        Fault::Curvature(x) if *bad => sum[0] += weight * x,
                        _ => sum.iter_mut().step_by(step).for_each(|s| *s -= weight),
                    }
                }
            }
        }
        Ok(())
    }

    fn gradient_is_tested(&self) -> bool {
        true // So that calls and points are those of the fit alone.
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        use Curvature::{EmpiricalFisher, Exact};
        &[(Exact, CurvatureShape::Full), (Exact, CurvatureShape::Diag), (EmpiricalFisher, CurvatureShape::Diag)]
    }
}

/// Every method with one and three components, diagonal and full where it can be.
fn settings() -> Vec<Config> {
    let mut all = Vec::new();
    for (method, ..) in Method::ALL {
        for components in [1, 3] {
            for covariance in [CovarianceKind::Diag, CovarianceKind::Full] {
                if method == Method::Vogn && covariance == CovarianceKind::Full {
                    continue;
                }
                let draws_per_component = if method == Method::Bbvi { 40 } else { 12 };
                all.push(Config {
                    covariance,
                    max_iterations: 40,
                    diagnostic_draws: 0,
                    threads: 1,
                    seed: 5,
                    ..Config::new(method)
                        .with_components(components)
                        .with_parts(|parts| Parts { draws_per_component, ..parts })
                });
            }
        }
    }
    assert_eq!(all.len(), 26);
    all
}

fn name(config: &Config) -> String {
    format!("{} with {} {} components", config.method().name(), config.components(), config.covariance.name())
}

fn needs(config: &Config, fault: Fault) -> bool {
    let estimator = config.parts().map_or(Estimator::Stein, |parts| parts.estimator);
    match fault {
        Fault::Value(_) => true,
        Fault::Gradient(_) => estimator.needs_gradient(),
        Fault::Curvature(_) => estimator.curvature().is_some(),
    }
}

fn assert_sound(mixture: &Mixture, what: &str) {
    let finite = |x: &[f64]| x.iter().all(|x| x.is_finite());
    assert!(finite(mixture.log_weights()), "{what}: weights {:?}", mixture.log_weights());
    assert!((mixture.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12, "{what}: weights {:?}", mixture.weights());
    for component in mixture.components() {
        let (s, l) = (component.precision().matrix(), common::factor(component));
        let step = if component.covariance_kind() == CovarianceKind::Full { component.dim() + 1 } else { 1 };
        assert!(
            finite(component.mean()) && finite(&s) && finite(l) && component.log_norm().is_finite(),
            "{what}: {component:?}"
        );
        assert!(l.iter().step_by(step).all(|x| *x > 0.0), "{what}: {component:?}");
    }
}

/// Checks the mixture after every iteration.
struct Sound(String);

impl Observer for Sound {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        assert_sound(it.mixture, &self.0);
        assert!(it.dropped <= it.evals, "{}: {} of {}", self.0, it.dropped, it.evals);
        Ok(ControlFlow::Continue(()))
    }
}

fn run(target: &dyn Target, config: &Config, what: &str) -> Result<Fitted, Error> {
    let mut sound = Sound(what.to_owned());
    let result = Fit::new(target, config.clone()).observe(&mut sound).run();
    if let Ok(fitted) = &result {
        assert_sound(&fitted.mixture, what);
    }
    result
}

/// Values that are no log density.
const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

#[test]
fn bad_points_are_left_out_and_counted() {
    for config in settings() {
        for bad in BAD {
            for fault in [Fault::Value(bad), Fault::Gradient(bad), Fault::Curvature(bad)] {
                if !needs(&config, fault) {
                    continue;
                }
                for dim in [1, 2] {
                    let what = format!("{}, {fault:?} in dimension {dim}", name(&config));
                    let target = Faulty::new(dim, fault, |z| z[0] < 0.1);
                    let fitted = run(&target, &config, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(fitted.dropped > 0, "{what}");
                    let points = target.points.into_inner();
                    assert_eq!(fitted.evals, points, "{what}: evaluations");
                    // Points whose curvature alone is bad are evaluated more than once.
                    if !matches!(fault, Fault::Curvature(_)) {
                        assert_eq!(fitted.dropped, target.bad_points.into_inner(), "{what}: dropped");
                    }
                }
            }
        }
    }
}

#[test]
fn a_density_that_fails_on_half_of_the_space_is_not_trusted() {
    for config in settings() {
        for bad in BAD {
            let config = Config { diagnostic_draws: 500, ..config.clone() };
            let what = format!("{}, {bad}", name(&config));
            // The start is at the edge, and the density as good as flat: the mixture cannot get away.
            let target = Faulty::new(2, Fault::Value(bad), |z| z[0] + z[1] < 0.0);
            let fitted = run(&target, &Config { max_iterations: 5, ..config }, &what).unwrap();
            let diagnostics = fitted.diagnostics.unwrap();
            assert!(!diagnostics.verdict.trusted, "{what}: {diagnostics:?}");
            let lost = diagnostics.zero + diagnostics.failed;
            assert!(lost > 10, "{what}: {lost} draws lost");
            assert_eq!(diagnostics.zero > 0, bad == f64::NEG_INFINITY, "{what}: {diagnostics:?}");
            let (expected, reasons) = (format!("{lost} of {} draws", diagnostics.draws), &diagnostics.verdict.reasons);
            assert!(reasons.iter().any(|reason| reason.contains(&expected)), "{what}: {reasons:?}");
            assert!(diagnostics.elbo.mean.is_finite(), "{what}: {diagnostics:?}");
        }
    }
}

#[test]
fn a_density_that_is_finite_nowhere_is_an_error() {
    for config in settings() {
        for bad in BAD {
            for fault in [Fault::Value(bad), Fault::Gradient(bad), Fault::Curvature(bad)] {
                if !needs(&config, fault) {
                    continue;
                }
                let what = format!("{}, {fault:?}", name(&config));
                let target = Faulty::new(2, fault, |_| true);
                match run(&target, &config, &what) {
                    Err(Error::NowhereFinite { points, iterations }) => {
                        assert_eq!(points, target.points.into_inner(), "{what}");
                        assert_eq!(iterations, 20, "{what}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
        }
    }
}

/// A start where nothing is finite must not stop a run that would get somewhere: only iterations in a row count.
#[test]
fn a_rare_finite_point_keeps_a_run_going() {
    for config in settings() {
        let what = name(&config);
        let target = Faulty::new(1, Fault::Value(f64::NAN), |z| z[0].abs() > 0.2);
        let fitted = run(&target, &config, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(fitted.dropped > 0 && fitted.dropped < fitted.evals, "{what}");
    }
}

#[test]
fn an_error_of_the_target_ends_the_run_by_name() {
    for config in settings() {
        for fault in [Fault::Value(-1.0), Fault::Curvature(f64::NAN)] {
            if !needs(&config, fault) {
                continue;
            }
            // With bad curvature some of these calls are repeated evaluations of single points.
            for call in [1, 2, 3, 4, 5, 6, 7, 50] {
                let what = format!("{}, {fault:?}, call {call}", name(&config));
                let mut target = Faulty::new(2, fault, |z| z[0] < 0.0);
                target.fails_at_call = Some(call);
                let config = Config { max_iterations: 100, diagnostic_draws: 100, ..config.clone() };
                let error = run(&target, &config, &what).expect_err(&what);
                assert!(matches!(error, Error::Target(_)), "{what}: {error:?}");
                assert_eq!(error.to_string(), "the target failed: the solver of Faulty gave up", "{what}");
            }
        }
    }
}

#[test]
fn an_error_in_the_diagnostics_comes_back_too() {
    // Values are fine until the run is over.
    let mut target = Faulty::new(1, Fault::Value(0.0), |_| false);
    let config = Config { max_iterations: 3, diagnostic_draws: 100, threads: 1, ..Config::new(Method::ComponentDraws) };
    fit(&target, &config).unwrap();
    let calls = target.calls.swap(0, Ordering::Relaxed);
    target.fails_at_call = Some(calls);
    // The fit itself stands; only the diagnostics are missing, with the reason.
    let fitted = fit(&target, &config).unwrap();
    assert!(fitted.diagnostics.is_none());
    assert!(matches!(fitted.diagnostics_error, Some(Error::Target(_))));
}

/// Where a density is infinite it has no integral that could be trusted, however rarely a draw falls there.
#[test]
fn infinite_spikes_are_never_trusted() {
    for (width, draws) in [(0.05, 500), (0.01, 4_000)] {
        for config in settings() {
            let what = format!("{}, spike of width {width}", name(&config));
            let bad: fn(&[f64]) -> bool = if width < 0.02 { |z| z[0].abs() < 0.01 } else { |z| z[0].abs() < 0.05 };
            let target = Faulty::new(1, Fault::Value(f64::INFINITY), bad);
            let config = Config { diagnostic_draws: draws, max_iterations: 30, tolerance: 1e6, ..config };
            let fitted = run(&target, &config, &what).unwrap();
            let diagnostics = fitted.diagnostics.unwrap();
            assert!(diagnostics.failed > 0, "{what}: no draw met the spike");
            assert!(!diagnostics.verdict.trusted, "{what}: {diagnostics:?}");
            assert!(diagnostics.elbo.mean.is_finite() && diagnostics.log_evidence.mean.is_finite(), "{what}");
        }
    }
}

/// Finite but absurd numbers: sums overflow, squares of residuals too.
#[test]
fn finite_but_enormous_values_do_no_harm() {
    for config in settings() {
        for size in [1e30, 1e155, 1e300, f64::MAX] {
            for fault in [Fault::Value(size), Fault::Value(-size), Fault::Gradient(size), Fault::Curvature(-size)] {
                if !needs(&config, fault) {
                    continue;
                }
                let what = format!("{}, {fault:?}", name(&config));
                let target = Faulty::new(2, fault, |z| z[0] < 0.1);
                let config = Config { diagnostic_draws: 200, ..config.clone() };
                // The observer has checked every mixture on the way.
                if let Err(error) = run(&target, &config, &what) {
                    assert!(matches!(error, Error::NowhereFinite { .. }), "{what}: {error}");
                }
            }
        }
    }
}

/// Models of data that carry little or contradictory information.
#[test]
fn awkward_data_do_no_harm() {
    let column = |f: fn(usize) -> f64| -> Vec<f64> { (0..20).map(f).collect() };
    let two = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).flat_map(|(a, b)| [*a, *b]).collect() };
    let (ones, zeros) = (vec![1.0; 20], vec![0.0; 20]);
    let x = column(|i| i as f64 - 9.5);
    let split = column(|i| f64::from(u8::from(i >= 10)));
    let counts = column(|i| (i % 4) as f64);
    let gaussian = Likelihood::Gaussian { sd: 0.5 };
    let models = [
        ("constant column", Glm::new(Likelihood::Bernoulli, two(&ones, &zeros), 2, split.clone(), &[10.0])),
        ("twice the same column", Glm::new(gaussian, two(&x, &x), 2, counts.clone(), &[10.0])),
        ("separable", Glm::new(Likelihood::Bernoulli, two(&ones, &x), 2, split.clone(), &[100.0])),
        ("separable in one dimension", Glm::new(Likelihood::Bernoulli, &x, 1, split, &[100.0])),
        ("one row", Glm::new(Likelihood::Bernoulli, &[1.0, -2.0, 3.0], 3, vec![1.0], &[1.0])),
        ("one number", Glm::new(gaussian, &[1.0], 1, vec![0.3], &[1.0])),
        ("one count", Glm::new(Likelihood::Poisson, &[1.0], 1, vec![0.0], &[3.0])),
        ("counts that are all zero", Glm::new(Likelihood::Poisson, two(&ones, &x), 2, zeros.clone(), &[5.0])),
        ("counts with a steep column", Glm::new(Likelihood::Poisson, two(&ones, &x), 2, counts, &[5.0])),
    ];
    for (data, model) in models {
        let model = model.unwrap();
        for config in settings() {
            let what = format!("{data}: {}", name(&config));
            let fitted = run(&model, &Config { diagnostic_draws: 300, ..config.clone() }, &what)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let diagnostics = fitted.diagnostics.unwrap();
            assert!(diagnostics.elbo.mean.is_finite(), "{what}: {diagnostics:?}");
            // exp(eta) overflows where a start is wide and a column steep; no other model here can fail.
            let steep = matches!(data, "counts with a steep column" | "counts that are all zero");
            assert!(steep || fitted.dropped == 0, "{what}: {} dropped", fitted.dropped);
            if model.num_rows() == Some(1) && config.method() != Method::Auto {
                let config = config.with_parts(|parts| Parts { minibatch: Some(1), ..parts });
                run(&model, &config, &format!("{what} in minibatches")).unwrap();
            }
        }
    }
}

/// A prior or a noise whose square is zero or infinite would make every point fail.
#[test]
fn deviations_without_a_square_are_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-200, 1e200] {
        assert!(Glm::new(Likelihood::Bernoulli, &[1.0], 1, vec![1.0], &[bad]).is_err(), "prior sd {bad}");
        assert!(Glm::new(Likelihood::Gaussian { sd: bad }, &[1.0], 1, vec![1.0], &[1.0]).is_err(), "noise sd {bad}");
    }
}

/// Conjugate models of one row have an exact answer, which the default finds.
#[test]
fn a_single_number_is_fitted_exactly() {
    let model = Glm::new(Likelihood::Gaussian { sd: 0.5 }, &[1.0], 1, vec![0.3], &[1.0]).unwrap();
    for covariance in [CovarianceKind::Diag, CovarianceKind::Full] {
        let fitted = fit(&model, &Config { covariance, ..Config::new(Method::ComponentDraws) }).unwrap();
        // Posterior precision 1 + 4, mean 4 * 0.3 / 5. A quadratic log density leaves no noise, only the tolerance.
        assert!((fitted.mixture.mean()[0] - 0.24).abs() < 1e-3 && (fitted.mixture.covariance()[0] - 0.2).abs() < 1e-3);
        assert!(fitted.diagnostics.unwrap().verdict.trusted);
    }
}

#[test]
fn closures_that_fail_come_back_by_name() {
    let target =
        ClosureTarget::density_only(1, |z: &[f64]| if z[0] > 3.0 { Err("ODE stiff at 3") } else { Ok(-z[0].abs()) });
    let target = target.unwrap();
    assert_eq!(log_p_at(&target, &[4.0]).unwrap_err().to_string(), "ODE stiff at 3");
    let config = Config { init_mean: vec![5.0], ..Config::new(Method::Bbvi) };
    assert_eq!(fit(&target, &config).unwrap_err().to_string(), "the target failed: ODE stiff at 3");
}

#[test]
fn a_run_that_had_not_converged_says_that_the_answer_holds_only_where_it_does() {
    let start = || Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
    let verdict = |largest: f64| {
        let target = ClosureTarget::new(1, move |z: &[f64], grad: Option<&mut [f64]>| {
            if let Some(grad) = grad {
                grad[0] = -z[0];
            }
            if z[0] > largest { f64::NAN } else { -0.5 * z[0] * z[0] }
        })
        .unwrap();
        let covariance = CovarianceKind::Diag;
        let config = Config { max_iterations: 2, seed: 1, check: false, covariance, ..Config::default() };
        Fit::new(&target, config).start(start()).run().unwrap().diagnostics.unwrap().verdict
    };
    let holds = |text: &String| text.contains("had not converged") && text.contains("the answer holds");
    let right = verdict(f64::INFINITY);
    assert!(right.trusted && right.notes.iter().any(holds), "{right:?}");
    let refused = verdict(2.0);
    assert!(!refused.trusted && !refused.notes.iter().any(holds), "{refused:?}");
    assert!(refused.reasons.iter().any(|reason| reason.contains("had not converged")), "{refused:?}");
}
