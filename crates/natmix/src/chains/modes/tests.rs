use super::*;
use crate::evaluate::{Limits, of_target};
use crate::family::{Diag, log_sum_exp};
use crate::target::{ClosureTarget, Target};
use crate::workspace::ScratchPool;

/// Logs of gamma variables with this shape, moved; in the second mode with the other sign.
fn skewed_modes(d: usize, shares: Vec<f64>, places: Vec<f64>) -> ClosureTarget<'static> {
    const SHAPE: f64 = 3.0;
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        let sign = |m: usize| if m.is_multiple_of(2) { 1.0 } else { -1.0 };
        let of = |m: usize| {
            let each = z.iter().map(|z| sign(m) * (z - places[m])).map(|x| SHAPE * x - x.exp() - 2f64.ln());
            shares[m].ln() + each.sum::<f64>()
        };
        let logs: Vec<f64> = (0..places.len()).map(of).collect();
        let all = log_sum_exp(&logs);
        if let Some(grad) = grad {
            grad.fill(0.0);
            for (m, log) in logs.iter().enumerate().filter(|(_, log)| *log - all > -40.0) {
                let r = (log - all).exp();
                grad.iter_mut().zip(z).for_each(|(g, z)| {
                    *g += r * sign(m) * (SHAPE - (sign(m) * (z - places[m])).exp());
                });
            }
        }
        all
    };
    ClosureTarget::new(d, density).unwrap()
}

/// One Gaussian near each of the modes of [`skewed_modes`], all with the same weight.
fn rough(d: usize, places: &[f64]) -> Mixture {
    let near = |(m, place): (usize, &f64)| {
        Gaussian::isotropic(vec![place + if m.is_multiple_of(2) { 0.8 } else { -0.8 }; d], 0.7)
    };
    Mixture::new(&vec![1.0; places.len()], places.iter().enumerate().map(near).collect()).unwrap()
}

fn run_within(target: &dyn Target, mixture: &Mixture, seed: u64) -> Option<ChainDraws> {
    let pool = ScratchPool::new(1);
    let mut evaluator = of_target(target, &pool, Limits::default());
    let plan = Plan { target, mixture, seed, most: 400_000, earlier: &Earlier::default() };
    Modes::of(mixture)
        .unwrap()
        .run(&plan, &mut *evaluator, (&mut |_, _, _| true, &TimeLeft::default()), &mut None)
        .unwrap()
}

#[test]
fn modes_have_the_shares_of_their_evidence() {
    const D: usize = 50;
    for (shares, places) in [(vec![0.7, 0.3], vec![0.0, 6.0]), (vec![0.2, 0.5, 0.3], vec![0.0, 7.0, 13.0])] {
        for seed in 1..=2 {
            let found = run_within(&skewed_modes(D, shares.clone(), places.clone()), &rough(D, &places), seed).unwrap();
            assert_eq!(found.certificate.reasons, [] as [String; 0]);
            let modes = found.modes.as_ref().unwrap();
            assert_eq!(modes.left, vec![0.0; shares.len()]);
            let evidence = modes.log_evidence.unwrap();
            assert!(evidence.mean.abs() < 3.0 * evidence.se && evidence.se < 0.05, "{evidence:?}");
            for ((estimate, exact), place) in modes.shares.iter().zip(&shares).zip(&places) {
                assert!((estimate.mean - exact).abs() < 0.02, "{modes:?}");
                // What is delivered has these shares, in every group of chains that have started together.
                let here = |z: &[f64]| (z[0] - place).abs() < 3.0 && (z[1] - place).abs() < 3.0;
                let count = |start: usize| {
                    let rows = found.draws.chunks_exact(D).enumerate().filter(|(row, _)| row % 64 / 8 == start);
                    rows.clone().filter(|(_, z)| here(z)).count() as f64 / rows.count() as f64
                };
                assert!((0..8).all(|start| (count(start) - estimate.mean).abs() < 0.02), "{place}");
            }
        }
    }
}

#[test]
fn connected_modes_are_left_to_chains_from_the_whole_mixture() {
    // One wide Gaussian, which two components have divided between them.
    const D: usize = 10;
    let mut variances = vec![1.0; D];
    variances[0] = 9.0;
    let target = Mixture::single(Gaussian::new(vec![0.0; D], Diag::from_variances(&variances).unwrap()));
    let at = |x: f64| {
        let mut mean = vec![0.0; D];
        mean[0] = x;
        Gaussian::isotropic(mean, 1.0)
    };
    let mixture = Mixture::new(&[0.5, 0.5], vec![at(-3.0), at(3.0)]).unwrap();
    assert!(run_within(&target, &mixture, 1).is_none());
}

#[test]
fn shares_and_their_errors_follow_from_the_evidence() {
    let (found, all) =
        shares(&[Estimate { mean: 0.7f64.ln() - 5.0, se: 0.03 }, Estimate { mean: 0.3f64.ln() - 5.0, se: 0.04 }]);
    assert!((found[0].mean - 0.7).abs() < 1e-12 && (found[1].mean - 0.3).abs() < 1e-12);
    // Of two shares: 0.7 * 0.3 times the error of the difference of the logs.
    assert!(found.iter().all(|one| (one.se - 0.21 * 0.05).abs() < 1e-12), "{found:?}");
    assert!((all.mean + 5.0).abs() < 1e-12 && (all.se - 0.021f64.hypot(0.012)).abs() < 1e-12);
}
