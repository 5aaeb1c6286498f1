//! Wrong gradients are refused by name before a fit, and right ones are not.

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
    let fitted = fit(&target, &Config { max_evals: Some(3_000), ..Config::default() }).unwrap();
    let notes = fitted.diagnostics.unwrap().verdict.notes.join("; ");
    assert!(notes.contains("the gradient could not be checked"), "{notes}");
}

