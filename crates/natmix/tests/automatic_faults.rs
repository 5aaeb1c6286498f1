//! The automatic mixture on densities that misbehave, and when it is interrupted.

mod common;

use common::{distance, mixture};
use natmix::observe::{Cancel, Iteration, Observer, Searching};
use natmix::stop::StopReason;
use natmix::target::ClosureTarget;
use natmix::{Config, Error, Fit, fit};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

fn config(init_sd: f64, max_evals: u64, seed: u64) -> Config {
    Config { init_sd: vec![init_sd], max_evals: Some(max_evals), seed, ..Config::default() }
}

/// A standard normal in two dimensions, with what `value` makes of `log p`.
fn bent<'a>(value: impl Fn(&[f64], f64) -> f64 + Send + Sync + 'a) -> ClosureTarget<'a> {
    ClosureTarget::new(2, move |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.iter_mut().zip(z).for_each(|(g, z)| *g = -z);
        }
        value(z, -0.5 * (z[0] * z[0] + z[1] * z[1]))
    })
    .unwrap()
}

#[test]
fn regions_without_a_density_and_spikes_do_no_harm() {
    for hole in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
        // A corner far in the tail, which the search and wide components meet.
        let target = bent(|z, log_p| if z[0] + z[1] > 4.0 { hole } else { log_p });
        let fitted = fit(&target, &config(4.0, 5_000, 1)).unwrap();
        assert!(fitted.dropped > 0, "{hole}: never met");
        assert!(distance(&fitted.mixture.mean(), &[0.0, 0.0]) < 0.1, "{hole}: {:?}", fitted.mixture.mean());
        // The start, where the first climb begins, is the bad point.
        let target = bent(|z, log_p| if z[0].hypot(z[1]) < 1e-3 { hole } else { log_p });
        let fitted = fit(&target, &config(2.0, 5_000, 1)).unwrap();
        assert!(fitted.diagnostics.unwrap().elbo.mean > (2.0 * std::f64::consts::PI).ln() - 0.02, "{hole}");
    }
    // Half of the plane: the mixture must stay sound and the verdict must say what was left out.
    let target = bent(|z, log_p| if z[0] > 0.0 { f64::NAN } else { log_p });
    let fitted = fit(&target, &config(1.0, 5_000, 1)).unwrap();
    assert!(fitted.mixture.covariance().iter().all(|x| x.is_finite()));
    let verdict = fitted.diagnostics.unwrap().verdict;
    assert!(!verdict.trusted && verdict.reasons.iter().any(|r| r.contains("not finite")), "{verdict:?}");
}

#[test]
fn a_density_that_is_nowhere_finite_is_a_typed_error() {
    for value in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
        let error = fit(&bent(|_, _| value), &config(1.0, 5_000, 1)).unwrap_err();
        assert!(matches!(error, Error::NowhereFinite { iterations: 20, .. }), "{error}");
    }
    // Gradients that are never finite leave nothing either.
    let target = ClosureTarget::new(1, |_: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad[0] = f64::NAN;
        }
        0.0
    });
    let error = fit(&target.unwrap(), &config(1.0, 5_000, 1)).unwrap_err();
    assert!(matches!(error, Error::NowhereFinite { .. }), "{error}");
}

#[test]
fn an_error_of_the_target_comes_back_from_search_and_steps() {
    for last in [0, 49, 3_000] {
        let calls = AtomicU64::new(0);
        let target = ClosureTarget::new(2, |z: &[f64], grad: Option<&mut [f64]>| {
            if calls.fetch_add(1, Ordering::Relaxed) == last {
                return Err("the disk is full");
            }
            if let Some(grad) = grad {
                grad.iter_mut().zip(z).for_each(|(g, z)| *g = -z.powi(3));
            }
            Ok(-0.25 * z.iter().map(|z| z.powi(4)).sum::<f64>())
        });
        let error = fit(&target.unwrap(), &config(1.0, 5_000, 1)).unwrap_err();
        assert_eq!(error.to_string(), "the target failed: the disk is full");
    }
}

#[test]
fn flat_and_unbounded_densities_end() {
    let flat = ClosureTarget::new(2, |_: &[f64], _: Option<&mut [f64]>| 0.0).unwrap();
    let rising = ClosureTarget::new(2, |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.fill(1.0);
        }
        z[0] + z[1]
    })
    .unwrap();
    for target in [flat, rising] {
        let fitted = fit(&target, &config(1.0, 3_000, 1)).unwrap();
        assert!(fitted.mixture.mean().iter().chain(&fitted.mixture.covariance()).all(|x| x.is_finite()));
        assert!(!fitted.stop.converged && !fitted.diagnostics.unwrap().verdict.trusted);
    }
}

/// Breaks off in the search after `evals` evaluations, and at every iteration.
struct BreakOff(u64);

impl Observer for BreakOff {
    fn searching(&mut self, searching: &Searching) -> ControlFlow<()> {
        if searching.evals >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        Ok(ControlFlow::Break(()))
    }
}

#[test]
fn a_cancelled_search_ends_soon_with_what_was_found() {
    let target = mixture(20, 4, 30.0, 3);
    for evals in [0, 4, 30] {
        let fitted = Fit::new(&target, config(20.0, 1_000_000, 1)).observe(&mut BreakOff(evals)).run().unwrap();
        assert_eq!((fitted.stop.reason, fitted.iterations), (StopReason::Cancelled, 1));
        assert!(fitted.evals < 1_000, "{}", fitted.evals);
        assert!(!fitted.diagnostics.unwrap().verdict.trusted);
    }
    let mut cancel = Cancel::default();
    cancel.cancel();
    let fitted = Fit::new(&target, config(20.0, 1_000_000, 1)).observe(&mut cancel).run().unwrap();
    assert_eq!(fitted.stop.reason, StopReason::Cancelled);
}

#[test]
fn values_alone_are_not_enough() {
    let target = ClosureTarget::density_only(1, |z: &[f64]| -z[0] * z[0]).unwrap();
    let error = fit(&target, &Config::default()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }));
    assert_eq!(error.to_string(), "method needs gradients, but the target offers values only (try `bbvi`)");
}
