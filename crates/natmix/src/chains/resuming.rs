//! Chains that were interrupted and go on from a file are the same, bit for bit, as those that were not.

use super::draws::ChainDraws;
use super::earlier::Earlier;
use super::run::{ChainProgress, Plan, run};
use super::saved::{ChainsDocument, SavedChains};
use super::state::ChainState;
use super::tests::funnel;
use crate::evaluate::{Evaluator, Limits, Spent, of_target, with_threads};
use crate::family::{Gaussian, Mixture};
use crate::save::bundle::{Layout, Stored, Tensors, encode, read_bytes};
use crate::target::Target;
use crate::workspace::ScratchPool;
use std::sync::Arc;

/// A file with chains and nothing else.
struct ChainsFile(SavedChains);

impl Stored for ChainsFile {
    const KIND: &'static str = "chains";
    type Document = ChainsDocument;
    fn layout(document: &ChainsDocument) -> Result<Layout, String> {
        document.layout()
    }
    fn assemble(document: ChainsDocument, mut tensors: Tensors) -> Result<Self, String> {
        SavedChains::take(document, &mut tensors).map(Self)
    }
}

fn through_a_file(state: &ChainState) -> ChainState {
    let saved = state.save().unwrap();
    let bytes = encode::<ChainsFile>(&saved.document, &saved.tensors).unwrap();
    let ChainsFile(read) = read_bytes(&bytes, "chains").unwrap();
    assert!(read == saved);
    read.restore().unwrap()
}

/// A run with its own evaluator, until it ends or has done so many iterations: then its state.
fn run_for(
    (target, seed, most): (&dyn Target, u64, u64),
    mut from: Option<ChainState>,
    iterations: u64,
) -> (ChainDraws, u64, Option<ChainState>) {
    let pool = ScratchPool::new(2);
    let mut evaluator = of_target(target, &pool, Limits::default());
    let d = target.dim();
    let mixture = Mixture::single(Gaussian::isotropic(vec![0.0; d], 1.0));
    let (mut done, mut saved) = (0, None);
    let mut watch = |_: &ChainProgress, state: &ChainState, _: &dyn Evaluator| {
        done += 1;
        if done == iterations {
            saved = Some(through_a_file(state));
        }
        done < iterations
    };
    let found = run(
        &Plan { target, mixture: &mixture, seed, most, earlier: &Earlier::default() },
        &mut *evaluator,
        &mut watch,
        &mut from,
    )
    .unwrap();
    (found, evaluator.spent().evals, saved)
}

fn bits(found: &ChainDraws) -> (Vec<u64>, Vec<bool>, String) {
    let numbers = found.draws.iter().chain(&found.log_p).chain(&found.energy).map(|x| x.to_bits()).collect();
    (numbers, found.diverged.clone(), format!("{:?} {:?} {}", found.certificate, found.scales, found.scaled))
}

/// Runs in one go, and interrupted after every so many iterations on other threads; hands over the states in between.
fn check(target: &dyn Target, (seed, most): (u64, u64), every: u64, mut seen: impl FnMut(&ChainState) + Send) {
    let plan = (target, seed, most);
    let (unbroken, evals, _) = with_threads(1, || run_for(plan, None, u64::MAX)).unwrap();
    let (resumed, again) = with_threads(2, || {
        let (mut from, mut iteration) = (None, 0);
        loop {
            let (found, evals, saved) = run_for(plan, from, every);
            let Some(state) = saved else { return (found, evals) };
            iteration += every;
            assert_eq!(state.progress.iteration, iteration, "nothing is repeated");
            seen(&state);
            from = Some(state);
        }
    })
    .unwrap();
    assert_eq!(evals, again);
    assert!(bits(&resumed) == bits(&unbroken) && !unbroken.draws.is_empty());
}

#[test]
fn chains_interrupted_after_every_iteration_are_the_same() {
    // A hierarchy in few dimensions: scales are found, and it is walked twice.
    let (mut scaled, mut settling, mut again, mut left_out) = (false, false, false, false);
    check(&funnel(5, 1.0), (6, 400_000), 1, |state| {
        scaled |= !state.warm && state.walkers.scales().is_some();
        settling |= state.warm && state.round.settled < 4;
        again |= state.round.attempt == 2 && state.before.is_some() && state.kept.log_p.len() > 1_000;
        left_out |= state.round.left_out;
    });
    assert!(scaled && settling && again, "{scaled} {settling} {again} {left_out}");
}

#[test]
fn chains_that_diverge_or_end_early_resume_too() {
    let (mut careful, mut dense) = (false, false);
    check(&funnel(20, 2.0), (1, 400_000), 9, |state| careful |= state.careful);
    // Ends without a certificate, for want of evaluations.
    check(&funnel(45, 3.0), (9, 100_000), 17, |state| careful |= state.careful);
    let covariance = vec![4.0, 1.5, 0.0, 1.5, 1.0, -0.3, 0.0, -0.3, 0.25];
    let precision = crate::family::Full::from_covariance(3, covariance).unwrap();
    let gaussian = Mixture::single(Gaussian::new(vec![1.0, -2.0, 0.5], precision));
    check(&gaussian, (2, 100_000), 11, |state| dense |= matches!(state.metric, super::Metric::Dense { .. }));
    assert!(careful, "no steps were shortened");
}

#[test]
fn chains_with_another_seed_are_left_to_theirs() {
    let target = funnel(5, 1.0);
    let (_, _, mut from) = run_for((&target, 6, 400_000), None, 30);
    let pool = ScratchPool::new(1);
    let mut evaluator = of_target(&target, &pool, Limits::default());
    let mixture = Mixture::single(Gaussian::isotropic(vec![0.0; 5], 1.0));
    let mut run_with = |seed: u64, from: &mut Option<ChainState>| {
        let mut seen = Vec::new();
        let mut watch = |progress: &ChainProgress, _: &ChainState, _: &dyn Evaluator| {
            seen.push(progress.iteration);
            seen.len() < 2
        };
        let plan = Plan { target: &target, mixture: &mixture, seed, most: 400_000, earlier: &Earlier::default() };
        run(&plan, &mut *evaluator, &mut watch, from).unwrap();
        seen
    };
    assert_eq!((run_with(7, &mut from), run_with(6, &mut from)), (vec![1, 2], vec![31, 32]));
    assert!(from.is_none());
}

#[test]
fn chains_that_cannot_be_are_refused() {
    let target = funnel(5, 1.0);
    let (_, _, state) = run_for((&target, 6, 400_000), None, 60);
    let state = state.unwrap();
    assert!(state.walkers.scales().is_some() && state.fits(5, 5) && !state.fits(4, 5));
    let saved = state.save().unwrap();
    let refused = |document: serde_json::Value, tensors: Tensors| {
        let document: ChainsDocument = serde_json::from_value(document).unwrap();
        let layout = document.layout();
        layout.is_err() || tensors.check(&layout.unwrap()).is_err() || {
            let mut tensors = tensors;
            SavedChains::take(document, &mut tensors).is_err()
        }
    };
    let document = serde_json::to_value(&saved.document).unwrap();
    assert!(!refused(document.clone(), saved.tensors.clone()));
    for (name, value) in [("dim", 6), ("iteration", 1_u64 << 60), ("drawn", 1), ("kept", 3), ("evals", 1 << 60)] {
        let mut other = document.clone();
        other[name] = value.into();
        assert!(refused(other, saved.tensors.clone()), "{name}");
    }
    // The first scaled coordinate, and what it takes its scale from, are beyond all.
    for at in 0..2 {
        let mut tensors = saved.tensors.clone();
        let mut scaled = tensors.take("chains_scaled");
        scaled[at] = 17.0;
        let shape = document["scales"]["scales"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize);
        let [_, locations, count] = shape.collect::<Vec<_>>().try_into().unwrap();
        tensors.add("chains_scaled", vec![count, 7 + locations], scaled);
        assert!(refused(document.clone(), tensors), "{at}");
    }
    // Too large to be saved.
    let mut large = state;
    large.draws = vec![0.0; 20_000_005];
    assert!(large.save().is_none());
}

#[test]
fn modes_that_are_done_go_through_a_file() {
    let target = funnel(5, 1.0);
    let (found, spent, _) = run_for((&target, 6, 400_000), None, u64::MAX);
    assert!(found.scales.is_some());
    let (_, _, state) = run_for((&target, 7, 400_000), None, 20);
    let mut state = state.unwrap();
    let spent = Spent { evals: spent, dropped: 2 };
    state.earlier = Earlier { modes: [(); 2].map(|()| Arc::new(found.clone())).into(), iterations: 90, spent };
    let read = through_a_file(&state).earlier;
    assert_eq!((read.iterations, read.spent, read.modes.len()), (90, spent, 2));
    // What is known about the parameters is found again from the draws.
    let judged = read.judged(&target);
    assert!(judged.modes.iter().all(|mode| bits(mode) == bits(&found)) && bits(&read.modes[0]) != bits(&found));

    let SavedChains { document, tensors } = state.save().unwrap();
    let document = serde_json::to_value(&document).unwrap();
    let layout = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut document = document.clone();
        change(&mut document["earlier"]);
        serde_json::from_value::<ChainsDocument>(document).unwrap().layout()
    };
    assert!(tensors.check(&layout(&|_| ()).unwrap()).is_ok());
    assert!(layout(&|earlier| earlier["modes"][1]["kept"] = 0.into()).is_err());
    assert!(layout(&|earlier| earlier["modes"][1]["kept"] = 65.into()).is_err());
    assert!(layout(&|earlier| earlier["evals"] = (1_u64 << 60).into()).is_err());
    let seven = |earlier: &mut serde_json::Value| earlier["modes"] = vec![earlier["modes"][0].clone(); 7].into();
    assert!(layout(&seven).is_err());
    let another = |earlier: &mut serde_json::Value| earlier["modes"][0]["kept"] = 64.into();
    assert!(tensors.check(&layout(&another).unwrap()).is_err());
    // Too large to be saved, all modes together.
    let large = Arc::new(ChainDraws { draws: vec![0.0; 10_000_000], ..found });
    state.earlier.modes = vec![Arc::clone(&large), large];
    assert!(state.save().is_none());
}
