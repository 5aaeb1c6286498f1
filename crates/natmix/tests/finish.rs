//! Chains by themselves: a given mixture is finished, watched and cancelled.

use natmix::answer::level::Level;
use natmix::config::Finish;
use natmix::family::{Gaussian, Mixture};
use natmix::observe::{Cancel, Finishing, Iteration, Observer};
use natmix::stop::StopReason;
use natmix::target::ClosureTarget;
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

/// Two modes, each of them logs of gamma variables of shape 3 along every coordinate, with one or the other sign. Normalised.
fn two_modes(d: usize, share: f64) -> ClosureTarget<'static> {
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        let of = |x: f64| 3.0 * x - x.exp() - 2f64.ln();
        let first = share.ln() + z.iter().map(|z| of(*z)).sum::<f64>();
        let second = (1.0 - share).ln() + z.iter().map(|z| of(6.0 - z)).sum::<f64>();
        let all = first.max(second) + (-(first - second).abs()).exp().ln_1p();
        if let Some(grad) = grad {
            let weights = [first - all, second - all].map(f64::exp);
            let slope = |weight: f64, x: f64| if weight > 0.0 { weight * (3.0 - x.exp()) } else { 0.0 };
            grad.iter_mut().zip(z).for_each(|(g, z)| *g = slope(weights[0], *z) - slope(weights[1], 6.0 - z));
        }
        all
    };
    ClosureTarget::new(d, density).unwrap()
}

#[test]
fn several_modes_have_chains_of_their_own() {
    for (d, levels) in [(50, &[Level::Chains][..]), (10, &[Level::Chains, Level::Weighted][..])] {
        let (target, exact) = (two_modes(d, 0.7), [0.7, 0.3]);
        let near = |at: f64| Gaussian::isotropic(vec![at; d], 0.7);
        let start = Mixture::new(&[0.4, 0.6], vec![near(0.8), near(5.2)]).unwrap();
        let finish = |threads| {
            let config = Config { threads, seed: 2, ..Config::default() };
            Fit::new(&target, config).start(start.clone()).finish().unwrap()
        };
        let fitted = finish(1);
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        assert!(diagnostics.verdict.trusted && levels.contains(&diagnostics.level), "{:?}", diagnostics.verdict);
        let evidence = diagnostics.log_evidence;
        assert!(evidence.mean.abs() < 3.0 * evidence.se && evidence.se < 0.05, "{d} {evidence:?}");
        assert!(diagnostics.verdict.notes.iter().any(|note| note.contains("chains ran within 2 modes")));
        let chains = fitted.chains.as_ref().unwrap();
        let shares = &chains.modes.as_ref().unwrap().shares;
        // In the order of the weights of the mixture.
        let off = |place: usize| (shares[place].mean - exact[1 - place]).abs();
        assert!(off(0) < 0.02 && off(1) < 0.02, "{shares:?}");
        let delivered = chains.delivered();
        let first = delivered.draws.chunks_exact(d).filter(|z| z.iter().sum::<f64>() < 3.0 * d as f64).count();
        assert!((first as f64 / delivered.weights.len() as f64 - 0.7).abs() < 0.02);
        if d == 10 {
            assert_eq!(finish(2).chains.unwrap().delivered(), delivered);
        }
    }
}

#[test]
fn two_gaussians_are_finished_by_chains_if_that_is_asked_for() {
    let at = |x: f64| Gaussian::isotropic(vec![x; 5], 1.0);
    let target = Mixture::new(&[0.8, 0.2], vec![at(0.0), at(6.0)]).unwrap();
    let config = Config { finish: Finish::Always, seed: 1, ..Config::default() };
    let fitted = Fit::new(&target, config).start(target.clone()).finish().unwrap();
    let diagnostics = fitted.diagnostics.unwrap();
    assert!(diagnostics.level == Level::Chains && diagnostics.verdict.trusted, "{:?}", diagnostics.verdict);
    let shares = fitted.chains.unwrap().modes.unwrap().shares;
    assert!((shares[0].mean - 0.8).abs() < 0.005 && shares[0].se < 0.005, "{shares:?}");
}

#[test]
fn chains_without_time_for_every_mode_are_not_trusted() {
    let mut watching = Watching { seen: 0, most: 150, last: None };
    let at = |x: f64| Gaussian::isotropic(vec![x; 50], 0.7);
    let start = Mixture::new(&[0.4, 0.6], vec![at(0.8), at(5.2)]).unwrap();
    let target = two_modes(50, 0.7);
    let config = Config { seed: 2, ..Config::default() };
    let fitted = Fit::new(&target, config).start(start).observe(&mut watching).finish().unwrap();
    assert_eq!((watching.seen, watching.last.unwrap().chains.iteration), (150, 150));
    assert_eq!(fitted.stop.reason, StopReason::Cancelled);
    assert!(!fitted.diagnostics.unwrap().verdict.trusted);
}

#[test]
fn chains_in_many_dimensions_know_the_evidence() {
    let target = two_modes(60, 1.0);
    let start = Mixture::single(Gaussian::isotropic(vec![0.8; 60], 0.7));
    let fitted = Fit::new(&target, Config { seed: 3, ..Config::default() }).start(start).finish().unwrap();
    let diagnostics = fitted.diagnostics.unwrap();
    assert!(diagnostics.level == Level::Chains && diagnostics.verdict.trusted, "{:?}", diagnostics.verdict);
    // Weights of draws from the start are useless.
    assert!(diagnostics.k_hat > diagnostics.k_threshold);
    let evidence = diagnostics.log_evidence;
    assert!(evidence.mean.abs() < 3.0 * evidence.se && evidence.se < 0.1, "{evidence:?}");
}

#[test]
fn chains_that_end_before_they_keep_anything_do_no_harm() {
    for dim in [2, 60] {
        let target = two_modes(dim, 0.5);
        let config = Config { finish: Finish::Always, max_evals: Some(120), seed: 1, threads: 1, ..Config::default() };
        let fitted = Fit::new(&target, config).run().unwrap();
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        assert!(!diagnostics.verdict.trusted && fitted.diagnostics_error.is_none());
    }
}
