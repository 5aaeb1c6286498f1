use super::*;
use crate::chains::certificate::Certificate;
use crate::chains::earlier::Earlier;
use crate::chains::examples::{Groups, log_gammas};
use crate::chains::run::{Plan, run};
use crate::evaluate::{Limits, of_target};
use crate::noise::Noise;
use crate::target::Target;
use crate::workspace::ScratchPool;

/// The log evidence by chains from a start.
fn by_chains(target: &dyn Target, start: &Mixture, seed: u64) -> Option<Estimate> {
    let pool = ScratchPool::new(1);
    let mut evaluator = of_target(target, &pool, Limits::default());
    let plan = Plan { target, mixture: start, seed, most: 400_000, earlier: &Earlier::default() };
    let chains = run(&plan, &mut *evaluator, &mut |_, _, _| true, &mut None).unwrap();
    let before = evaluator.spent().evals;
    let found = of_chains(&mut *evaluator, &chains, seed).unwrap();
    assert!(evaluator.spent().evals - before <= evaluations(evaluator.dim(), PROPOSED) as u64);
    found
}

/// The log evidence by independent draws of the target: as of chains that mix at once, in coordinates that were found by others.
fn by_draws(target: &dyn Target, draws: Vec<f64>, scales: Option<Coordinates>, seed: u64) -> Option<Estimate> {
    let (d, pool) = (target.dim(), ScratchPool::new(1));
    let mut evaluator = of_target(target, &pool, Limits::default());
    let (log_p, _) = evaluate(&mut *evaluator, &draws, d, false).unwrap();
    let count = log_p.len();
    let certificate = Certificate { parameters: Vec::new(), diverged: 0.0, reasons: Vec::new() };
    let (energy, diverged) = (vec![0.0; count], vec![false; count]);
    let (chains, per_start, scaled, stopped, modes) = (64, 8, scales.is_some(), false, None);
    let chains =
        ChainDraws { draws, log_p, energy, diverged, chains, per_start, certificate, scaled, scales, stopped, modes };
    of_chains(&mut *evaluator, &chains, seed).unwrap()
}

#[test]
fn the_evidence_of_a_gaussian_is_exact() {
    const D: usize = 60;
    let mut normals = vec![0.0; D * D];
    Noise::new(1, Purpose::Check, 0, 0, 0).normals(&mut normals);
    let mut covariance = linalg::diagonal([0.1; D], D);
    linalg::product_bt(&mut covariance, true, 1.0 / D as f64, &normals, &normals, (D, D, D));
    let target = Mixture::single(Gaussian::new(vec![0.5; D], Full::from_covariance(D, covariance).unwrap()));
    let found = by_chains(&target, &Mixture::single(Gaussian::isotropic(vec![0.0; D], 1.0)), 1).unwrap();
    assert!(found.mean.abs() < 1e-9 && found.se < 1e-9, "{found:?}");
}

#[test]
fn chains_of_skewed_and_hierarchical_densities_know_their_evidence() {
    let found = by_chains(&log_gammas(50, 3), &Mixture::single(Gaussian::isotropic(vec![1.0; 50], 0.6)), 1).unwrap();
    assert!(found.mean.abs() < 3.0 * found.se && found.se < 0.1, "{found:?}");
    let groups = Groups::simulated(100, 1);
    let start = Mixture::single(Gaussian::isotropic(vec![0.5; 102], 0.7));
    let found = by_chains(&groups.target(), &start, 1).unwrap();
    let off = found.mean - groups.log_evidence();
    assert!(off.abs() < 3.0 * found.se && found.se < 0.03, "{found:?} {off}");
}

#[test]
fn errors_are_honest() {
    let (mut beyond, mut squares, mut count) = (0, 0.0, 0.0);
    let mut judge = |found: Option<Estimate>, exact: f64, largest: f64| {
        let Estimate { mean, se } = found.unwrap();
        assert!(se < largest, "{se}");
        let off = (mean - exact) / se;
        beyond += usize::from(off.abs() > 2.0);
        squares += off * off;
        count += 1.0;
    };
    for seed in 1..=24 {
        let mut noise = Noise::new(seed, Purpose::Check, 1, 0, 0);
        // Logs of gamma variables: sums of exponential ones.
        let draws = (0..3_200 * 50).map(|_| -> f64 { (0..3).map(|_| -(1.0 - noise.uniform()).ln()).sum::<f64>().ln() });
        judge(by_draws(&log_gammas(50, 3), draws.collect(), None, seed), 0.0, 0.06);
        let groups = Groups::simulated(100, seed);
        // Coordinates fitted to the draws themselves would make them more Gaussian than they are, and the evidence too small.
        let scales = Coordinates::of(&groups.draws(1_200, seed + 100), 102, 1_200.0, None);
        let found = by_draws(&groups.target(), groups.draws(3_200, seed), scales, seed);
        judge(found, groups.log_evidence(), 0.06);
    }
    // With 48 estimates, 2.2 are expected beyond two errors, and a mean square of one.
    assert!(beyond <= 4 && squares / count < 1.5 && squares / count > 0.5, "{beyond} {}", squares / count);
}

#[test]
fn an_evidence_without_overlap_is_not_known() {
    // Logs of exponential variables in many dimensions: no Gaussian is near.
    let mut noise = Noise::new(1, Purpose::Check, 1, 0, 0);
    let draws = (0..3_200 * 400).map(|_| (-(1.0 - noise.uniform()).ln()).ln()).collect();
    assert_eq!(by_draws(&log_gammas(400, 1), draws, None, 1), None);
}

#[test]
fn halves_that_contradict_each_other_are_not_averaged() {
    let of = |mean, se| Estimate { mean, se };
    assert_eq!(combine(of(0.0, 0.05), of(1.0, 0.05)), None);
    assert_eq!(combine(of(0.0, 0.5), of(0.1, 0.5)), None);
    let near = combine(of(0.0, 0.01), of(0.08, 0.01)).unwrap();
    assert_eq!(near, of(0.04, 0.04));
    assert!((combine(of(0.0, 0.01), of(0.01, 0.01)).unwrap().se - 0.00778).abs() < 1e-5);
}
