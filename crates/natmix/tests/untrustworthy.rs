//! Wrong gradients and improper densities: refused by name before and after a fit, and right ones are not.

use natmix::answer::verdict::Verdict;
use natmix::checkpoint::{Checkpoint, read_checkpoint_bytes};
use natmix::family::{CovarianceKind, Gaussian, Mixture};
use natmix::target::{ClosureTarget, EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Error, Fit, Method, Parts, Scratch, fit};
use std::sync::atomic::{AtomicU64, Ordering};

/// A normal density in two dimensions, its gradient times a factor; counts the points.
struct Normal {
    factor: f64,
    tested: bool,
    points: AtomicU64,
}

impl Normal {
    fn new(factor: f64) -> Self {
        Self { factor, tested: false, points: AtomicU64::default() }
    }
}

impl Target for Normal {
    fn dim(&self) -> usize {
        2
    }
    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        self.points.fetch_add(z.len() as u64, Ordering::Relaxed);
        for (log_p, z) in out.log_p.iter_mut().zip(z.iter()) {
            *log_p = -0.5 * ((z[0] - 1.0).powi(2) + 4.0 * z[1] * z[1]);
        }
        if let Some(grad) = out.grad {
            for (grad, z) in grad.chunks_exact_mut(2).zip(z.iter()) {
                grad.copy_from_slice(&[-self.factor * (z[0] - 1.0), -self.factor * 4.0 * z[1]]);
            }
        }
        Ok(())
    }
    fn gradient_is_tested(&self) -> bool {
        self.tested
    }
    fn parameter_names(&self) -> Vec<String> {
        vec!["slope".into(), "log sd".into()]
    }
}

#[test]
fn a_wrong_gradient_ends_the_fit_before_it_begins() {
    for method in [Method::Auto, Method::ComponentDraws, Method::Ngvi] {
        let target = Normal::new(2.0);
        let error = fit(&target, &Config::new(method)).unwrap_err();
        assert!(matches!(&error, Error::WrongGradient { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("2 times too large") && message.contains("ratio 2"), "{message}");
        assert!(message.contains("`slope`") || message.contains("`log sd`"), "{message}");
        assert!(target.points.load(Ordering::Relaxed) < 80);
        // A user may insist.
        fit(&Normal::new(2.0), &Config { check: false, max_iterations: 30, ..Config::new(method) }).unwrap();
    }
    // Black-box inference does not use the gradient.
    fit(&Normal::new(2.0), &Config { max_iterations: 5, ..Config::new(Method::Bbvi) }).unwrap();
}

#[test]
fn the_check_costs_a_dozen_evaluations_and_changes_nothing_else() {
    let base = Config { diagnostic_draws: 0, ..Parts { components: 2, ..Parts::new(Method::ComponentDraws) }.into() };
    let checked = fit(&Normal::new(1.0), &base).unwrap();
    let unchecked = fit(&Normal::new(1.0), &Config { check: false, ..base.clone() }).unwrap();
    assert_eq!(checked.evals, unchecked.evals + natmix::check::EVALUATIONS);
    assert_eq!((checked.mixture, checked.iterations), (unchecked.mixture, unchecked.iterations));
    let tested = fit(&Normal { tested: true, ..Normal::new(1.0) }, &base).unwrap();
    assert_eq!(tested.evals, unchecked.evals);
    // A resumed run is not checked again.
    let half = fit(&Normal::new(1.0), &Config { max_iterations: 10, ..base.clone() }).unwrap();
    let target = Normal::new(1.0);
    let resumed = Fit::new(&target, base).resume(half.state).run().unwrap();
    assert_eq!(resumed.evals, checked.evals);
}

#[test]
fn a_noisy_density_gets_a_note() {
    let target = ClosureTarget::new(1, |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad[0] = -z[0];
        }
        // Noise that no step size averages out.
        -0.5 * z[0] * z[0] + 3.0 * (1e9 * z[0]).sin()
    })
    .unwrap();
    let config = Config { max_evals: Some(3_000), ..Config::default() };
    let verdict = verdict_of_both(&target, &config, None);
    let notes = verdict.notes.join("; ");
    assert!(notes.contains("the gradient could not be checked"), "{notes}");
}

/// The verdict on a fit, which is also that on the fit resumed from its end.
fn verdict_of_both(target: &dyn Target, config: &Config, start: Option<Mixture>) -> Verdict {
    let fit = || Fit::new(target, config.clone());
    let fitted = start.map_or_else(fit, |start| fit().start(start)).run().unwrap();
    let bytes = Checkpoint { state: fitted.state, config: config.clone() }.to_bytes().unwrap();
    let resumed = fit().resume(read_checkpoint_bytes(&bytes).unwrap().state).run().unwrap();
    let verdict = fitted.diagnostics.unwrap().verdict;
    assert_eq!(resumed.diagnostics.unwrap().verdict, verdict);
    verdict
}

#[test]
fn a_mixture_far_wider_than_its_start_is_not_trusted_before_it_has_converged() {
    let start = Mixture::single(Gaussian::isotropic(vec![0.0, 0.0], 1e-8));
    let target = Mixture::single(Gaussian::isotropic(vec![0.0, 0.0], 1.0));
    let config = Config { max_iterations: 80, tolerance: 1e-300, ..Parts::new(Method::Ngvi).into() };
    let config = Config { covariance: CovarianceKind::Diag, ..config };
    let reasons = verdict_of_both(&target, &config, Some(start)).reasons.join("; ");
    assert!(reasons.contains("improper"), "{reasons}");
}

/// Fits with defaults; the reasons against it.
fn reasons(dim: usize, log_p: impl Fn(&[f64], &mut [f64]) -> f64 + Send + Sync, seed: u64) -> (bool, String) {
    let target = ClosureTarget::new(dim, move |z: &[f64], grad: Option<&mut [f64]>| match grad {
        Some(grad) => log_p(z, grad),
        None => log_p(z, &mut vec![0.0; dim]),
    });
    match fit(&target.unwrap(), &Config { seed, max_evals: Some(20_000), ..Config::default() }) {
        Ok(fitted) => {
            let verdict = fitted.diagnostics.unwrap().verdict;
            (verdict.trusted, verdict.reasons.join("; "))
        }
        Err(error) => (false, error.to_string()),
    }
}

#[test]
fn improper_densities_are_refused_by_name() {
    type Density = fn(&[f64], &mut [f64]) -> f64;
    let cases: [(&str, usize, Density, &str); 6] = [
        (
            "reciprocal",
            1,
            |z, grad| {
                grad[0] = -z[0] / (1.0 + z[0] * z[0]);
                -0.5 * (1.0 + z[0] * z[0]).ln()
            },
            "improper",
        ),
        (
            "one-sided logistic",
            1,
            |z, grad| {
                grad[0] = 1.0 / (1.0 + z[0].exp());
                -(-z[0].abs()).exp().ln_1p() - (-z[0]).max(0.0)
            },
            "improper",
        ),
        (
            "flat",
            2,
            |_, grad| {
                grad.fill(0.0);
                1.0
            },
            "improper",
        ),
        (
            "growing",
            2,
            |z, grad| {
                grad.copy_from_slice(&[1.0, -z[1]]);
                z[0] - 0.5 * z[1] * z[1]
            },
            "without bound along `z0`",
        ),
        (
            "ridge",
            3,
            |z, grad| {
                let sum = z[0] + z[1] - 1.0;
                grad.copy_from_slice(&[-sum, -sum, -z[2]]);
                -0.5 * sum * sum - 0.5 * z[2] * z[2]
            },
            "improper",
        ),
        (
            "pole",
            1,
            |z, grad| {
                let x = z[0] - 0.3;
                grad[0] = -1.0 / x - z[0];
                -x.abs().ln() - 0.5 * z[0] * z[0]
            },
            "without bound near `z0` = 0.3",
        ),
    ];
    let mut problems = Vec::new();
    for (name, dim, density, words) in cases {
        for seed in 1..=3 {
            let (trusted, found) = reasons(dim, density, seed);
            if trusted || !found.contains(words) {
                problems.push(format!("{name}, seed {seed}: {found:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn proper_densities_are_not_called_improper() {
    for seed in 1..=2 {
        for nu in [1.0, 2.0, 3.0] {
            let student = move |z: &[f64], grad: &mut [f64]| {
                grad[0] = -(nu + 1.0) * z[0] / (nu + z[0] * z[0]);
                -0.5 * (nu + 1.0) * (1.0 + z[0] * z[0] / nu).ln()
            };
            let (_, found) = reasons(1, student, seed);
            assert!(!found.contains("improper") && !found.contains("bound"), "{nu} degrees: {found}");
        }
        let q = Mixture::single(Gaussian::isotropic(vec![0.0; 4], 1.0));
        let verdict = fit(&q, &Config { seed, ..Config::default() }).unwrap().diagnostics.unwrap().verdict;
        assert!(verdict.trusted, "{verdict:?}");
    }
}
