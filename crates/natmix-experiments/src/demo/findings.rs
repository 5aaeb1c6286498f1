//! What the fits of one data set show, in words: nothing is claimed that their figures do not say.

use super::measure::Measured;
use super::{DemoSet, FailedFit};
use crate::reproduce::curves::TrainingCurve;
use natmix_report::number;

/// Standard errors by which two ELBOs must differ to be called different.
const CLEAR: f64 = 2.0;
/// Test log likelihoods per point closer than this are called alike.
const ALIKE: f64 = 0.005;

/// Weight below which a component no longer counts.
pub const LOST: f64 = 0.01;

/// One sentence per finding.
pub fn sentences(set: &DemoSet) -> Vec<String> {
    let mut sentences = Vec::new();
    for FailedFit { components, steps, error } in &set.failed {
        let steps = number::count(*steps);
        sentences.push(format!("The fit with K = {components} failed after {steps} steps: {error}."));
    }
    let (Some(first), Some(last)) = (set.fits.first(), set.fits.last()) else { return sentences };
    sentences.push(if set.curves.is_empty() { convergence(&set.fits) } else { drift(set) });
    if last.components > first.components {
        sentences.push(elbo(first, last, &set.fits));
        sentences.push(test_log_likelihood(first, last, &set.fits));
    }
    let lost = set.fits.iter().map(|fit| (fit.weights.iter().filter(|w| **w < LOST).count(), fit.components));
    let lost: Vec<String> = lost.filter(|(lost, _)| *lost > 0).map(|(lost, k)| format!("{lost} of {k}")).collect();
    if !lost.is_empty() {
        sentences.push(format!("Components have lost their weight (below 1%): {}.", lost.join(", ")));
    }
    let lower = set.fits.iter().filter(|fit| fit.entropy_off_data <= fit.entropy_on_data).map(|fit| fit.components);
    let lower: Vec<String> = lower.map(|k| k.to_string()).collect();
    sentences.push(match lower.is_empty() {
        true => "The predictive entropy is higher away from the data than on them, for every K.".into(),
        false => format!(
            "With K = {} the predictive entropy is not higher away from the data than on them.",
            lower.join(", ")
        ),
    });
    sentences
}

fn convergence(fits: &[Measured]) -> String {
    let not: Vec<String> = fits.iter().filter(|fit| !fit.converged).map(|fit| fit.components.to_string()).collect();
    match not.is_empty() {
        true => "Every fit has converged.".into(),
        false => format!("The fits with K = {} had not converged when they stopped.", not.join(", ")),
    }
}

/// How far the ELBO still moved in the last fifth of the steps: a fixed number of steps says nothing about convergence.
fn drift(set: &DemoSet) -> String {
    let finished = |curve: &&TrainingCurve| set.fits.iter().any(|fit| curve.name == format!("K = {}", fit.components));
    let moved = set.curves.iter().filter(finished).filter_map(|curve| {
        let last = &curve.points[curve.points.len() - curve.points.len() / 5..];
        let (early, late) = last.split_at(last.len() / 2);
        let mean = |part: &[(f64, f64)]| part.iter().map(|point| point.1).sum::<f64>() / part.len() as f64;
        (!early.is_empty()).then(|| format!("{} ({})", signed(mean(late) - mean(early), 2), curve.name))
    });
    let moved: Vec<String> = moved.collect();
    format!(
        "Whether the fits converged was not judged: all steps were taken. From the last but one tenth of the steps to the last, \
         the mean ELBO changed by {} nats.",
        moved.join(", ")
    )
}

/// Compares all fits, so that nothing in between is passed over.
fn test_log_likelihood(first: &Measured, last: &Measured, fits: &[Measured]) -> String {
    let all = || fits.iter().map(|fit| fit.test_log_likelihood);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if most - least < ALIKE {
        return format!("The test log likelihood per point is the same for every K, to within {ALIKE}.");
    }
    let (from, to) = (first.components, last.components);
    let gain = signed(last.test_log_likelihood - first.test_log_likelihood, 3);
    let range = format!("{} and {}", number::fixed(least, 3), number::fixed(most, 3));
    format!("From K = {from} to {to} the test log likelihood per point changes by {gain}; it lies between {range}.")
}

fn elbo(first: &Measured, last: &Measured, fits: &[Measured]) -> String {
    let (gain, error) = (last.elbo - first.elbo, first.elbo_se.hypot(last.elbo_se));
    let falls: Vec<String> = fits
        .windows(2)
        .filter(|pair| pair[1].elbo < pair[0].elbo - CLEAR * pair[0].elbo_se.hypot(pair[1].elbo_se))
        .map(|pair| format!("from K = {} to {}", pair[0].components, pair[1].components))
        .collect();
    let falls = match falls.is_empty() {
        true => String::new(),
        false => format!("; it falls {}", falls.join(" and ")),
    };
    format!(
        "From K = {} to {} the ELBO changes by {} ± {} nats{falls}. Copies of one function with its hidden units in another order \
         can gain {}.",
        first.components,
        last.components,
        signed(gain, 2),
        number::fixed(error, 2),
        number::fixed(last.symmetry - first.symmetry, 2)
    )
}

fn signed(x: f64, decimals: usize) -> String {
    format!("{}{}", if x > 0.0 { "+" } else { "" }, number::fixed(x, decimals))
}
