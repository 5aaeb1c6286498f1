//! Chains by themselves: a given mixture is finished, watched and cancelled.

use natmix::answer::level::Level;
use natmix::family::{Gaussian, Mixture};
use natmix::observe::{Cancel, Finishing, Iteration, Observer};
use natmix::stop::StopReason;
use natmix::{Config, Fit, Fitted};
use std::ops::ControlFlow;

const DIM: usize = 3;

fn target() -> Mixture {
    Mixture::single(Gaussian::isotropic(vec![1.0, -2.0, 0.5], 0.5))
}

fn rough() -> Mixture {
    Mixture::single(Gaussian::isotropic(vec![0.5, -1.0, 0.0], 1.5))
}

fn finish(threads: usize, observer: &mut dyn Observer) -> Fitted {
    let config = Config { threads, seed: 5, ..Config::default() };
    Fit::new(&target(), config).start(rough()).observe(observer).finish().unwrap()
}

/// Counts iterations of chains, and asks to stop after some.
struct Watching {
    seen: u64,
    most: u64,
    last: Option<Finishing>,
}

impl Observer for Watching {
    fn finishing(&mut self, finishing: &Finishing) -> ControlFlow<()> {
        (self.seen, self.last) = (self.seen + 1, Some(*finishing));
        if self.seen >= self.most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, natmix::Error> {
        panic!("nothing is fitted")
    }
}

#[test]
fn a_given_mixture_is_finished_and_every_iteration_is_seen() {
    let mut watching = Watching { seen: 0, most: u64::MAX, last: None };
    let fitted = finish(1, &mut watching);
    let diagnostics = fitted.diagnostics.as_ref().unwrap();
    assert_eq!((diagnostics.level, fitted.stop.reason), (Level::Chains, StopReason::Given));
    assert!(diagnostics.verdict.trusted, "{:?}", diagnostics.verdict);
    assert_eq!(fitted.mixture, rough());
    let last = watching.last.unwrap();
    assert_eq!(last.chains.iteration, watching.seen);
    assert!(fitted.evals == 0 && fitted.chain_evals > 64 * watching.seen && fitted.diagnostic_evals > 0);
    assert!(last.evals <= fitted.diagnostic_evals + fitted.chain_evals);

    let delivered = fitted.chains.as_ref().unwrap().delivered();
    let chains = delivered.chains.as_ref().unwrap();
    assert!(chains.fits(delivered.weights.len()) && chains.count == 64 && chains.starts() == 8);
    // Chain after chain: the log density of each draw is its own.
    let log_p = target().log_density(&delivered.draws);
    assert!(chains.log_p.iter().zip(&log_p).all(|(a, b)| (a - b).abs() < 1e-9));
    // Same bits with more threads.
    let again = finish(2, &mut Cancel::default());
    assert_eq!(again.chains.unwrap().delivered(), delivered);
    assert_eq!(delivered.draws.len(), delivered.weights.len() * DIM);
}

#[test]
fn chains_end_when_an_observer_asks() {
    let mut watching = Watching { seen: 0, most: 3, last: None };
    let fitted = finish(1, &mut watching);
    assert_eq!(fitted.stop.reason, StopReason::Cancelled);
    // Soon: what was begun is completed.
    assert!(watching.seen < 100, "{}", watching.seen);
    let chains = fitted.diagnostics.unwrap().chains.unwrap();
    assert_eq!(chains.reasons, ["the chains ended before they could be judged"]);
}
