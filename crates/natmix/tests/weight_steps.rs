//! Every rule of the mixture weights keeps them normalised and positive, whatever it is fed.

#[path = "common/random.rs"]
mod random;

use natmix::family::log_sum_exp;
use natmix::rule::weights;
use random::Random;

/// Random inputs per rule, and steps of one chain.
const INPUTS: usize = 100_000;
const CHAIN: usize = 1_000;

fn weight_values(random: &mut Random, k: usize) -> Vec<f64> {
    let kind = random.below(5);
    let (size, shift) = (random.size(), 1e3 * random.signed());
    let mut values: Vec<f64> = (0..k)
        .map(|_| match kind {
            0 => 0.0,
            1 => random.size() * random.signed(),
            2 => shift + random.signed(),
            _ => size * random.signed(),
        })
        .collect();
    if random.below(5) == 0 {
        let at = random.below(k);
        values[at] = random.broken();
    }
    values
}

fn check_weights(log_w: &[f64], what: &dyn Fn() -> String) {
    assert!(log_w.iter().all(|w| w.is_finite() && *w <= 1e-12), "{}: {log_w:?}", what());
    assert!(log_sum_exp(log_w).abs() < 1e-12, "{}: {log_w:?} is not normalised", what());
    // A weight that is zero could never come back.
    assert!(log_w.iter().all(|w| w.exp().is_normal()), "{}: {log_w:?}", what());
}

/// Runs `step` on fresh weights and along chains.
fn torture_weights(seed: u64, mut step: impl FnMut(&mut [f64], &[f64], f64)) {
    let mut random = Random(seed);
    let mut log_w = vec![0.0];
    for at in 0..INPUTS {
        // Chains of 1,000 in the second half.
        if at < INPUTS / 2 || at % CHAIN == 0 {
            let k = 1 + random.below(8);
            let spread = [0.0, 1.0, 50.0, 500.0][random.below(4)];
            log_w = (0..k).map(|_| spread * random.signed()).collect();
            let total = log_sum_exp(&log_w);
            log_w.iter_mut().for_each(|w| *w = (*w - total).max(-600.0));
            let total = log_sum_exp(&log_w);
            log_w.iter_mut().for_each(|w| *w -= total);
        }
        let values = weight_values(&mut random, log_w.len());
        let rate = random.decade(-6.0, 3.0);
        let before = log_w.clone();
        step(&mut log_w, &values, rate);
        check_weights(&log_w, &|| format!("{at}: {before:?} by {values:?} at rate {rate}"));
    }
}

#[test]
fn weights_plain() {
    torture_weights(12, weights::step);
}

#[test]
fn weights_trust_region() {
    let mut random = Random(13);
    torture_weights(14, |log_w, values, rate| {
        let bound = random.decade(-5.0, 2.0);
        let (old, mut buffer) = (log_w.to_vec(), vec![0.0; log_w.len()]);
        let taken = weights::trust_region_step(log_w, values, rate, bound, &mut buffer);
        assert!((0.0..=rate).contains(&taken), "{taken} of {rate}");
        let kl: f64 = log_w.iter().zip(&old).map(|(new, old)| new.exp() * (new - old)).sum();
        assert!(kl <= bound + 1e-12, "KL {kl} above {bound}: {old:?} to {log_w:?} by {values:?}");
    });
}

/// A value that is not finite says nothing about its component: it counts as average.
#[test]
fn values_that_are_not_finite_count_as_average() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut log_w = [0.2f64.ln(), 0.3f64.ln(), 0.5f64.ln()];
        weights::step(&mut log_w, &[2.0, bad, 2.0], 1.0);
        let expected = [0.2, 0.3, 0.5];
        assert!(log_w.iter().zip(expected).all(|(w, e)| (w.exp() - e).abs() < 1e-15), "{bad}: {log_w:?}");
        weights::step(&mut log_w, &[bad; 3], 1.0);
        assert!(log_w.iter().zip(expected).all(|(w, e)| (w.exp() - e).abs() < 1e-15), "{bad}: {log_w:?}");
    }
}
