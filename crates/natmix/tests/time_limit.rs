//! `max_seconds` bounds the whole fit: the search, the iterations and the diagnostics after them.

use natmix::target::ClosureTarget;
use natmix::{Config, Fit, Fitted};
use std::time::Duration;

/// A Gaussian whose every evaluation takes `pause`.
fn fit_slowly(dim: usize, pause: Duration, config: Config) -> Fitted {
    let target = ClosureTarget::new(dim, move |z: &[f64], grad: Option<&mut [f64]>| {
        std::thread::sleep(pause);
        if let Some(grad) = grad {
            grad.iter_mut().zip(z).for_each(|(grad, z)| *grad = -z);
        }
        -0.5 * z.iter().map(|z| z * z).sum::<f64>()
    })
    .unwrap();
    Fit::new(&target, Config { seed: 1, threads: 1, ..config }).run().unwrap()
}

#[test]
fn diagnostics_are_shortened_to_the_time_that_is_left_and_say_so() {
    // The four thousand draws of the diagnostics alone would take eight seconds, and the chains beside the mixture another one.
    let config = Config { max_seconds: Some(0.6), ..Config::default() };
    let fitted = fit_slowly(2, Duration::from_millis(2), config);
    assert!(fitted.seconds < 3.0, "{}", fitted.seconds);
    let diagnostics = fitted.diagnostics.unwrap();
    assert!(diagnostics.draws < 2000, "{}", diagnostics.draws);
    let notes = diagnostics.verdict.notes.join("\n");
    assert!(notes.contains("there was time for"), "{notes}");
}

#[test]
fn a_search_whose_evaluations_are_slow_is_stopped_between_them() {
    // Hundreds of climbs at once: a single round of them would take longer than the limit.
    let config = Config { max_seconds: Some(0.6), ..Config::default() };
    let fitted = fit_slowly(20, Duration::from_millis(10), config);
    assert!(fitted.seconds < 3.0, "{}", fitted.seconds);
}

#[test]
fn a_limit_that_is_not_reached_changes_nothing() {
    let fit = |max_seconds| {
        fit_slowly(3, Duration::ZERO, Config { max_seconds, max_evals: Some(20_000), ..Config::default() })
    };
    let (free, limited) = (fit(None), fit(Some(1e6)));
    assert_eq!(free.mixture, limited.mixture);
    let [free, limited] = [free, limited].map(|fitted| fitted.diagnostics.unwrap());
    assert_eq!((free.elbo, free.k_hat, free.verdict), (limited.elbo, limited.k_hat, limited.verdict));
}
