//! Whether draws of chains may be relied on.
//!
//! Each part refuses something that the others do not see: R-hat, chains that have not forgotten where they started; the
//! trend, a drift that all chains share; the errors, too few effective draws; divergences, a place that steps cannot enter.

use super::statistics::{Ranked, Traces, mean_and_variance, normal_tail};
use crate::answer::accuracy::{
    Accuracy, ErrorShare, HEAVY_KURTOSIS, MEAN_LIMIT, PROBABILITIES, PROBABILITY_LIMIT, QUANTILE_LIMIT, SD_LIMIT,
    multiple_for,
};
use rayon::prelude::*;
use serde::Serialize;

/// Largest R-hat.
pub const R_HAT_LIMIT: f64 = 1.01;
/// Largest share of trajectories that diverge.
pub(super) const MOST_DIVERGED: f64 = 0.005;
/// Largest probability that the error of any figure of any parameter is beyond its limit, by the sum over all of them: few of
/// them are hard to know, and those should not need as many draws as if all were.
pub(super) const MOST_RISK: f64 = 0.01;
/// The same for the round that confirms: the risk is an estimate, too, and fluctuates.
pub(super) const CONFIRMING_RISK: f64 = 0.02;

/// Iterations below which nothing is known.
const FEWEST_ITERATIONS: usize = 4;

/// How well the chains know one parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainAccuracy {
    /// Largest of the nested R-hats of the ranks and of the folded ranks.
    pub r_hat: f64,
    /// Fewest effective draws for the median and the two outer quantiles.
    pub ess: f64,
    /// Difference of the first and the second half of the iterations, in standard errors: of ranks or folded ranks.
    pub trend: f64,
    /// Probability that the error of a quantile, the mean or the standard deviation is beyond its limit, at most.
    pub risk: f64,
    /// The same if there were twice as many draws.
    #[serde(skip)]
    pub risk_of_twice: f64,
    /// Errors of quantiles, mean and standard deviation.
    pub accuracy: Accuracy,
}

impl ChainAccuracy {
    fn holds(&self, multiple: f64, most_risk: f64) -> bool {
        self.risk <= most_risk && self.r_hat < R_HAT_LIMIT && self.trend < multiple
    }
}

/// What is known about the draws of chains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// One entry per parameter.
    pub parameters: Vec<ChainAccuracy>,
    /// Share of trajectories that diverged.
    pub diverged: f64,
    /// Why the draws may not be relied on; empty if they may.
    pub reasons: Vec<String>,
}

impl Certificate {
    /// The largest R-hat.
    pub fn r_hat(&self) -> f64 {
        self.parameters.iter().map(|one| one.r_hat).fold(1.0, |a, b| if b.is_nan() { b } else { a.max(b) })
    }

    /// The probability that some figure of some parameter is beyond its limit, at most.
    pub fn risk(&self) -> f64 {
        self.parameters.iter().map(|one| one.risk).sum()
    }

    /// The parameters with the largest risk, in descending order of it.
    pub(super) fn riskiest(&self, most: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.parameters.len()).collect();
        order.sort_by(|&a, &b| self.parameters[b].risk.total_cmp(&self.parameters[a].risk));
        order.truncate(most);
        order
    }

    /// Whether nothing but effective draws is missing, and twice as many iterations are likely to be enough.
    pub fn is_on_its_way(&self) -> bool {
        let risk: f64 = self.parameters.iter().map(|one| one.risk_of_twice).sum();
        risk <= MOST_RISK && self.r_hat() < R_HAT_LIMIT && self.diverged <= MOST_DIVERGED
    }

    /// The fewest effective draws of a parameter.
    pub fn least_ess(&self) -> f64 {
        self.parameters.iter().map(|one| one.ess).fold(f64::INFINITY, f64::min)
    }
}

/// Judges draws of so many parameters: iteration after iteration, all chains together, of which some have started at one
/// point each.
pub fn judge_draws(draws: &[f64], parameters: usize, (chains, per_start): (usize, usize)) -> Vec<ChainAccuracy> {
    let judge_one = |j: usize| {
        let values: Vec<f64> = draws.iter().skip(j).step_by(parameters).copied().collect();
        judge(Traces { values: &values, chains, per_start }, multiple_for(parameters))
    };
    (0..parameters).into_par_iter().map(judge_one).collect()
}

/// How much risk there may be, and by how many errors the halves of the iterations may differ.
#[derive(Clone, Copy)]
pub(crate) struct ChainLimits {
    pub most_risk: f64,
    pub multiple: f64,
}

/// Judges the values of all parameters: `column(j)` gives those of one.
pub(crate) fn certify(
    names: &[String],
    shape: (usize, usize),
    column: &(dyn Fn(usize) -> Vec<f64> + Sync),
    (diverged, limits): (f64, ChainLimits),
) -> Certificate {
    let ChainLimits { most_risk, multiple } = limits;
    let (chains, per_start) = shape;
    let parameters: Vec<ChainAccuracy> = (0..names.len())
        .into_par_iter()
        .map(|j| judge(Traces { values: &column(j), chains, per_start }, multiple))
        .collect();
    let mut reasons = Vec::new();
    if parameters.iter().any(|one| one.ess == 0.0 && one.r_hat.is_nan()) {
        reasons.push("the chains ended before they could be judged".into());
        return Certificate { parameters, diverged, reasons };
    }
    let worst = |figure: &dyn Fn(&ChainAccuracy) -> f64| {
        let number = |one: &ChainAccuracy| if figure(one).is_nan() { f64::INFINITY } else { figure(one) };
        let at = (0..names.len()).max_by(|&a, &b| number(&parameters[a]).total_cmp(&number(&parameters[b])));
        at.map(|at| (names[at].clone(), number(&parameters[at])))
    };
    let largest = |figure: &dyn Fn(&ChainAccuracy) -> f64, limit: f64| {
        worst(figure).filter(|(_, value)| value.is_nan() || *value >= limit)
    };
    if let Some((name, r_hat)) = largest(&|one| one.r_hat, R_HAT_LIMIT) {
        reasons.push(format!("the chains disagree: R-hat of {name} is {r_hat:.3} (below {R_HAT_LIMIT} is wanted)"));
    }
    if let Some((name, trend)) = largest(&|one| one.trend, multiple) {
        reasons.push(format!(
            "the chains still drift: the halves of their iterations differ by {trend:.1} errors in {name}"
        ));
    }
    let risk: f64 = parameters.iter().map(|one| one.risk).sum();
    if let (true, Some((name, ess))) = (risk > most_risk && reasons.is_empty(), worst(&|one| -one.ess)) {
        reasons.push(format!("the chains have too few effective draws: {:.0} for {name}", -ess));
    }
    if diverged > MOST_DIVERGED {
        reasons.push(format!(
            "{:.1}% of trajectories diverged: there is a place that the chains cannot enter",
            100.0 * diverged
        ));
    }
    if reasons.is_empty() && !parameters.iter().all(|one| one.holds(multiple, most_risk)) {
        reasons.push("the accuracy of the chains could not be measured".into());
    }
    Certificate { parameters, diverged, reasons }
}

/// What is known about a parameter after too few iterations.
fn unknown() -> ChainAccuracy {
    let nothing = ErrorShare { error: 0.0, se: f64::INFINITY };
    let accuracy =
        Accuracy { quantile: nothing, mean: nothing, sd: nothing, ess: 0.0, heavy_tails: false, holds: false };
    ChainAccuracy { r_hat: f64::NAN, ess: 0.0, trend: f64::NAN, risk: 1.0, risk_of_twice: 1.0, accuracy }
}

fn judge(traces: Traces<'_>, multiple: f64) -> ChainAccuracy {
    if traces.iterations() < FEWEST_ITERATIONS {
        return unknown();
    }
    let values = traces.values;
    let with = |values: &[f64]| Traces { values, ..traces }.effective();
    let ranked = Ranked::of(values);
    let sorted = &ranked.sorted;
    let quantile = |p: f64| {
        let at = (p * sorted.len() as f64 - 0.5).clamp(0.0, (sorted.len() - 1) as f64);
        let low = at as usize;
        sorted[low] + (at - low as f64) * (sorted[(low + 1).min(sorted.len() - 1)] - sorted[low])
    };
    let (mean, variance) = mean_and_variance(values.iter().copied());
    let sd = variance.sqrt();
    let median = quantile(0.5);
    let scores = ranked.normal_scores();
    let folded = ranked.distances(median).normal_scores();
    let r_hat = [&scores, &folded].map(|scores| Traces { values: scores, ..traces }.nested_r_hat());
    let r_hat = if r_hat.iter().any(|r| r.is_nan()) { f64::NAN } else { r_hat[0].max(r_hat[1]) };

    let constant = sorted.first() == sorted.last();
    let width = quantile(0.95) - quantile(0.05);
    let (mut worst, mut least) = (ErrorShare::default(), f64::INFINITY);
    let mut shares = Vec::with_capacity(PROBABILITIES.len() + 2);
    for p in PROBABILITIES {
        let at = quantile(p);
        let below: Vec<f64> = values.iter().map(|x| f64::from(u8::from(*x <= at))).collect();
        let ess = with(&below);
        least = least.min(ess);
        let se = (p * (1.0 - p) / ess).sqrt();
        let by_value = 0.5 * (quantile((p + se).min(1.0)) - quantile((p - se).max(0.0))) / (QUANTILE_LIMIT * width);
        let share = ErrorShare { error: 0.0, se: by_value.min(se / PROBABILITY_LIMIT) };
        worst = share.worse(worst, multiple);
        shares.push(share);
    }
    let squares: Vec<f64> = values.iter().map(|x| ((x - mean) / sd).powi(2)).collect();
    let kurtosis = squares.iter().map(|s| s * s).sum::<f64>() / squares.len() as f64;
    let heavy_tails = kurtosis >= HEAVY_KURTOSIS || !kurtosis.is_finite();
    let (of_mean, of_squares) = (with(values), with(&squares));
    let mean_share = ErrorShare { error: 0.0, se: of_mean.sqrt().recip() / MEAN_LIMIT };
    let sd_share = ErrorShare { error: 0.0, se: (0.25 * (kurtosis - 1.0) / of_squares).sqrt() / SD_LIMIT };
    if !heavy_tails {
        shares.extend([mean_share, sd_share]);
    }
    let risk_of = |times: f64| match constant {
        true => 0.0,
        false => shares.iter().map(|share| beyond(ErrorShare { se: share.se / times.sqrt(), ..*share })).sum(),
    };
    let risk = risk_of(1.0);
    let holds = risk <= MOST_RISK;
    let trend = [&scores, &folded].map(|scores| trend(Traces { values: scores, ..traces }));
    ChainAccuracy {
        r_hat: if constant { 1.0 } else { r_hat },
        ess: least.min(of_mean),
        trend: if constant { 0.0 } else { trend[0].max(trend[1]) },
        risk,
        risk_of_twice: risk_of(2.0),
        accuracy: Accuracy { quantile: worst, mean: mean_share, sd: sd_share, ess: of_mean, heavy_tails, holds },
    }
}

/// Probability that a normal error is beyond its limit.
fn beyond(share: ErrorShare) -> f64 {
    let tail = 2.0 * normal_tail(1.0 / share.se);
    if tail.is_nan() { 1.0 } else { tail }
}

/// Difference of the two halves of the iterations, in standard errors.
fn trend(traces: Traces<'_>) -> f64 {
    let middle = traces.iterations() / 2 * traces.chains;
    let (first, second) = traces.values.split_at(middle);
    let about = |values: &[f64]| {
        let (mean, variance) = mean_and_variance(values.iter().copied());
        (mean, variance / Traces { values, ..traces }.effective())
    };
    let ((a, of_a), (b, of_b)) = (about(first), about(second));
    (a - b).abs() / (of_a + of_b).sqrt()
}

#[cfg(test)]
mod tests;
