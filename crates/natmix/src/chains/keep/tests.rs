//! Attempts that are merely slow count together.

use super::*;
use crate::chains::earlier::Earlier;
use crate::chains::run::{ChainProgress, Plan, run};
use crate::chains::state::ChainState;
use crate::evaluate::{Evaluator, Limits, of_target};
use crate::family::{Gaussian, Mixture};
use crate::noise::{Noise, Purpose};
use crate::target::ClosureTarget;
use crate::workspace::ScratchPool;

fn kept(from: usize, iterations: usize) -> Kept {
    let numbers = |times: usize| (times * from * CHAINS..times * (from + iterations) * CHAINS).map(|i| i as f64);
    let diverged = (from..from + iterations).flat_map(|i| [i % 2 == 0; CHAINS]).collect();
    Kept { draws: numbers(3).collect(), log_p: numbers(1).collect(), energy: numbers(1).collect(), diverged }
}

#[test]
fn what_was_kept_is_put_together_by_whole_iterations() {
    let both = kept(0, 7).later_half_and(&kept(7, 2));
    let whole = kept(3, 6);
    assert!(both.draws == whole.draws && both.log_p == whole.log_p && both.energy == whole.energy);
    assert_eq!(both.diverged, whole.diverged);
    assert_eq!(Kept::default().later_half_and(&kept(0, 1)).draws, kept(0, 1).draws);
}

/// A random walk of log variances with its level, persistence and size, non-centred: the level is slow where it hardly matters.
fn volatility(steps: usize) -> ClosureTarget<'static> {
    let mut noise = vec![0.0; 2 * steps];
    Noise::new(7, Purpose::Check, 0, 0, 0).normals(&mut noise);
    let mut level = 0.0;
    let y: Vec<f64> = (0..steps)
        .map(|t| {
            level = 0.95 * level + 0.3 * noise[t];
            (0.5 * level - 0.5).exp() * noise[steps + t]
        })
        .collect();
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        let (mu, phi, s, e) = (z[0], 1.0 / (1.0 + (-z[1]).exp()), z[2].exp(), &z[3..]);
        let mut log_p = -mu * mu / 8.0 + 20.0 * phi.ln() + 1.5 * (1.0 - phi).ln() - 2.0 * s * s + z[2];
        let mut h = vec![mu; steps + 1];
        for t in 0..steps {
            h[t + 1] = mu + phi * (h[t] - mu) + s * e[t];
            log_p -= 0.5 * (e[t] * e[t] + h[t + 1] + y[t] * y[t] * (-h[t + 1]).exp());
        }
        let Some(grad) = grad else { return log_p };
        let (mut of_h, mut of_mu, mut of_phi, mut of_s) = (0.0, -mu / 4.0, 0.0, 0.0);
        for t in (0..steps).rev() {
            of_h += 0.5 * (y[t] * y[t] * (-h[t + 1]).exp() - 1.0);
            grad[3 + t] = of_h * s - e[t];
            of_s += of_h * e[t];
            of_phi += of_h * (h[t] - mu);
            of_mu += of_h * (1.0 - phi);
            of_h *= phi;
        }
        grad[0] = of_mu + of_h;
        grad[1] = 20.0 * (1.0 - phi) - 1.5 * phi + of_phi * phi * (1.0 - phi);
        grad[2] = 1.0 - 4.0 * s * s + of_s * s;
        log_p
    };
    ClosureTarget::new(steps + 3, density).unwrap()
}

/// Runs chains on it, from the state `from` on; returns what they found, the iterations they kept in their last attempt, and
/// their state when they had kept `at`.
fn run_from(seed: u64, mut from: Option<ChainState>, at: u64) -> (ChainDraws, u64, Option<ChainState>) {
    const STEPS: usize = 60;
    let target = volatility(STEPS);
    let pool = ScratchPool::new(1);
    let mut evaluator = of_target(&target, &pool, Limits::default());
    let start = Mixture::single(Gaussian::isotropic(vec![0.0; STEPS + 3], 0.5));
    let (mut kept, mut found) = (0, None);
    let mut watch = |progress: &ChainProgress, state: &ChainState, _: &dyn Evaluator| {
        kept = progress.kept;
        if kept == at {
            found = Some(state.clone());
        }
        true
    };
    let plan = Plan { target: &target, mixture: &start, seed, most: 600_000, earlier: &Earlier::default() };
    let draws = run(&plan, &mut *evaluator, &mut watch, &mut from).unwrap();
    (draws, kept, found)
}

#[test]
fn an_attempt_that_was_merely_slow_counts() {
    const EARLIER: u64 = 60;
    // As if chains that took one attempt had begun another after some time.
    let again = |seed: u64, state: &Option<ChainState>, continues: bool| {
        let mut state = state.clone().unwrap();
        state.before = Some(std::mem::take(&mut state.kept));
        state.progress.kept = 0;
        state.round = Round::first(2, 2 * MOST_ROUNDS, continues);
        let (found, kept, _) = run_from(seed, Some(state), u64::MAX);
        (found.log_p.len() / CHAINS, kept as usize, found.certificate.reasons.is_empty())
    };
    let mut helped = 0;
    for seed in 1..=8 {
        let (alone, needed, state) = run_from(seed, None, EARLIER);
        if needed <= EARLIER || alone.log_p.len() as u64 != needed * CHAINS as u64 {
            continue;
        }
        let (count, kept, holds) = again(seed, &state, true);
        assert!(holds, "seed {seed}");
        helped += usize::from(count == EARLIER as usize / 2 + kept && kept < needed as usize);
        // One that was not only slow does not count.
        let (count, kept, _) = again(seed, &state, false);
        assert!(count <= kept, "seed {seed}: {count} {kept}");
    }
    assert!(helped > 0);
}
