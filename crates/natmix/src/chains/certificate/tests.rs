//! Each part of the certificate refuses something that would otherwise pass.

use super::*;
use crate::noise::{Noise, Purpose};

const CHAINS: usize = 64;
const PER_START: usize = 8;

/// Independent normal values, `shift` added: it takes iteration and chain.
fn reasons(iterations: usize, diverged: f64, shift: impl Fn(usize, usize) -> f64) -> Vec<String> {
    let mut values = vec![0.0; iterations * CHAINS];
    Noise::new(3, Purpose::Check, 2, 0, 0).normals(&mut values);
    for (at, value) in values.iter_mut().enumerate() {
        *value += shift(at / CHAINS, at % CHAINS);
    }
    certify(
        &["x".into()],
        (CHAINS, PER_START),
        &|_| values.clone(),
        (diverged, ChainLimits { most_risk: MOST_RISK, multiple: multiple_for(1) }),
    )
    .reasons
}

fn assert_only(reasons: &[String], words: &str) {
    assert!(reasons.len() == 1 && reasons[0].contains(words), "{reasons:?}");
}

#[test]
fn independent_draws_pass() {
    assert_eq!(reasons(100, 0.0, |_, _| 0.0), [] as [String; 0]);
}

#[test]
fn groups_that_remember_their_start_are_refused() {
    // 0.2 standard deviations apart: R-hat of 1.02.
    let apart = |_, chain: usize| if chain < CHAINS / 2 { 0.0 } else { 0.4 };
    assert!(reasons(100, 0.0, apart)[0].contains("the chains disagree: R-hat of x"));
}

#[test]
fn chains_that_do_not_move_are_refused() {
    let stuck = |_, chain: usize| 100.0 * (chain / PER_START) as f64;
    assert!(reasons(100, 0.0, stuck)[0].contains("the chains disagree"));
}

#[test]
fn a_drift_that_all_chains_share_is_refused() {
    // The groups agree with each other at every time.
    assert_only(&reasons(100, 0.0, |iteration, _| if iteration < 50 { 0.0 } else { 0.2 }), "still drift");
}

#[test]
fn too_few_draws_are_refused() {
    assert_only(&reasons(8, 0.0, |_, _| 0.0), "too few effective draws");
}

#[test]
fn divergences_are_refused() {
    assert_only(&reasons(100, 0.01, |_, _| 0.0), "diverged");
    assert_eq!(reasons(100, 0.004, |_, _| 0.0), [] as [String; 0]);
}
