//! How far the delivered draws may be from the posterior, per parameter: in quantiles, mean and standard deviation.
//!
//! The importance weights of fresh draws give an estimate of every figure of the posterior, with an error. For the draws of
//! the mixture itself, the difference between the unweighted and the weighted figure is the error; for the weighted draws,
//! only the Monte Carlo error is left. An error counts with a multiple of its own uncertainty, which grows with the number
//! of figures: among many, some differ by chance.

use super::psis;
use serde::Serialize;

/// Probabilities of the quantiles that are judged.
pub const PROBABILITIES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
/// Largest error of a quantile, as a share of the distance from the 5% to the 95% quantile.
pub const QUANTILE_LIMIT: f64 = 0.05;
/// Largest error of the probability below a quantile; the smaller of the two errors counts, so that a median between two
/// modes, where there is hardly any density, does not decide.
pub const PROBABILITY_LIMIT: f64 = 0.02;
/// Largest error of a mean, in standard deviations.
pub const MEAN_LIMIT: f64 = 0.1;
/// Largest relative error of a standard deviation.
pub const SD_LIMIT: f64 = 0.1;
/// Kurtosis from which on mean and standard deviation are shown but do not decide: rare draws determine them.
pub const HEAVY_KURTOSIS: f64 = 10.0;
/// Draws of the mixture that are delivered; their own Monte Carlo error counts.
pub const DELIVERED: usize = 4_000;
/// k-hat up to which the delta method describes the error of a weighted mean; beyond, errors are larger than it says.
const LIGHT_TAIL: f64 = 0.5;
/// Factor at a k-hat of 0.7 on the part of the errors that comes from unequal weights.
const HEAVY_TAIL_FACTOR: f64 = 2.0;

/// An estimated error and its uncertainty, as a share of the limit: at most one where the figure holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ErrorShare {
    /// The estimated error, with the Monte Carlo error of the delivered draws.
    pub error: f64,
    /// Its standard error.
    pub se: f64,
}

impl ErrorShare {
    pub(crate) fn bound(&self, multiple: f64) -> f64 {
        self.error + multiple * self.se
    }

    pub(crate) fn worse(self, other: Self, multiple: f64) -> Self {
        // A NaN is worse than anything.
        if self.bound(multiple) >= other.bound(multiple) || self.bound(multiple).is_nan() { self } else { other }
    }
}

/// The accuracy of one parameter. Errors are shares of their limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Of the worst quantile.
    pub quantile: ErrorShare,
    /// Of the mean.
    pub mean: ErrorShare,
    /// Of the standard deviation.
    pub sd: ErrorShare,
    /// Effective draws for the mean of this parameter.
    pub ess: f64,
    /// Whether the tails are so heavy that mean and standard deviation do not decide.
    pub heavy_tails: bool,
    /// Whether every figure that decides is within its limit.
    pub holds: bool,
}

/// Standard errors by which every figure of so many parameters must be below its limit.
pub(crate) fn multiple_for(parameters: usize) -> f64 {
    let figures = (PROBABILITIES.len() + 2) * parameters.max(1);
    (2.0 * (10.0 * figures as f64).ln()).sqrt()
}

/// Draws with normalised weights, to judge parameters by.
pub(crate) struct Judge<'a> {
    /// Normalised weights of the draws; zero where a draw cannot be used.
    pub weights: &'a [f64],
    /// Shape of the tail of the weights.
    pub k_hat: f64,
    /// Number of parameters.
    pub parameters: usize,
}

/// The accuracy of a parameter for both kinds of draws.
pub(crate) struct Judged {
    pub mixture: Accuracy,
    pub weighted: Accuracy,
    /// Times as many draws that the weighted figures need, about.
    pub needed: f64,
}

impl Judge<'_> {
    /// Standard errors by which a figure must be below its limit.
    pub fn multiple(&self) -> f64 {
        multiple_for(self.parameters)
    }

    /// Judges a parameter by its values at the draws.
    pub fn judge(&self, values: &[f64]) -> Judged {
        let order = {
            let mut order: Vec<usize> = (0..values.len()).filter(|&i| values[i].is_finite()).collect();
            order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
            order
        };
        let n = order.len() as f64;
        let sorted: Vec<f64> = order.iter().map(|&i| values[i]).collect();
        let weights: Vec<f64> = order.iter().map(|&i| self.weights[i]).collect();
        let moments = Moments::of(&sorted, &weights);
        let plain = Moments::of(&sorted, &vec![1.0 / n; sorted.len()]);
        let cumulative = Cumulative::of(&weights);
        let width = cumulative.quantile(&sorted, 0.95) - cumulative.quantile(&sorted, 0.05);
        let inflation = 1.0 + (HEAVY_TAIL_FACTOR - 1.0) * ((self.k_hat - LIGHT_TAIL) / (0.7 - LIGHT_TAIL)).max(0.0);
        let excess: Vec<f64> = weights.iter().map(|w| w - 1.0 / n).collect();
        let delivered = DELIVERED as f64;
        let multiple = self.multiple();

        let (mut mixture_quantile, mut weighted_quantile) = (ErrorShare::default(), ErrorShare::default());
        let (mut own_fits, mut index) = (true, 0);
        for p in PROBABILITIES {
            let at = cumulative.quantile(&sorted, p);
            index += sorted[index..].partition_point(|x| *x <= at);
            let share = |list: &[f64]| {
                let below: f64 = list[..index].iter().map(|w| w * w).sum();
                let above: f64 = list[index..].iter().map(|w| w * w).sum();
                (below * (1.0 - p).powi(2) + above * p * p).sqrt()
            };
            let around = |se: f64| {
                0.5 * (cumulative.quantile(&sorted, (p + se).min(1.0))
                    - cumulative.quantile(&sorted, (p - se).max(0.0)))
            };
            // The better of the two measures counts.
            let pick = |value: f64, value_se: f64, probability: f64, probability_se: f64| {
                let by_value =
                    ErrorShare { error: value / (QUANTILE_LIMIT * width), se: value_se / (QUANTILE_LIMIT * width) };
                let by_share =
                    ErrorShare { error: probability / PROBABILITY_LIMIT, se: probability_se / PROBABILITY_LIMIT };
                if by_share.bound(multiple) < by_value.bound(multiple) { by_share } else { by_value }
            };
            let own = (p * (1.0 - p) / n).sqrt().hypot(inflation * share(&excess)).min(inflation * share(&weights));
            let own = pick(0.0, around(own), 0.0, own);
            weighted_quantile = own.worse(weighted_quantile, multiple);
            own_fits &= own.se <= 0.5;
            let of_difference = inflation * share(&excess);
            let chance = (p * (1.0 - p) / delivered).sqrt();
            let moved = (equal_quantile(&sorted, p) - at).abs().hypot(around(chance));
            let off = (index as f64 / n - p).abs().hypot(chance);
            let difference = pick(moved, around(of_difference), off, of_difference);
            mixture_quantile = difference.worse(mixture_quantile, multiple);
        }

        let Moments { mean, sd, kurtosis } = moments;
        let about = |list: &[f64], power: &dyn Fn(f64) -> f64| {
            let terms = sorted.iter().zip(list).map(|(x, w)| (w * power((x - mean) / sd)).powi(2));
            inflation * terms.sum::<f64>().sqrt()
        };
        // As for equal weights, and the part that comes from unequal ones. Where draws reach further than the posterior, their weights
        // alone tell more.
        let (of_mean, of_sd) = (|y: f64| y, |y: f64| 0.5 * (y * y - 1.0));
        let mean_se = n.sqrt().recip().hypot(about(&excess, &of_mean)).min(about(&weights, &of_mean));
        let sd_se = (0.25 * (kurtosis - 1.0) / n).sqrt().hypot(about(&excess, &of_sd)).min(about(&weights, &of_sd));
        let weighted_mean = ErrorShare { error: 0.0, se: mean_se / MEAN_LIMIT };
        let weighted_sd = ErrorShare { error: 0.0, se: sd_se / SD_LIMIT };
        let mixture_mean = ErrorShare {
            error: ((plain.mean - mean) / sd).hypot(delivered.sqrt().recip()) / MEAN_LIMIT,
            se: about(&excess, &of_mean) / MEAN_LIMIT,
        };
        let mixture_sd = ErrorShare {
            error: (plain.sd / sd - 1.0).hypot((0.25 * (kurtosis - 1.0) / delivered).sqrt()) / SD_LIMIT,
            se: about(&excess, &of_sd) / SD_LIMIT,
        };
        own_fits &= weighted_mean.se <= 0.5;
        let heavy_tails = kurtosis >= HEAVY_KURTOSIS || !kurtosis.is_finite();
        // Where the squares have no variance under the weights, the standard deviation is not known.
        let sd_known = heavy_tails || self.k_hat_of_squares(&sorted, &weights, mean) < 0.7;
        let within = |quantile: ErrorShare, mean: ErrorShare, sd: ErrorShare| {
            let fits = |share: ErrorShare| share.bound(multiple) <= 1.0;
            fits(quantile) && (heavy_tails || fits(mean) && fits(sd) && sd_known)
        };
        let constant = width == 0.0 && sorted.first() == sorted.last();
        let accuracy = |quantile, mean, sd, more: bool| Accuracy {
            quantile,
            mean,
            sd,
            ess: if mean_se > 0.0 { mean_se.powi(-2).min(n) } else { n },
            heavy_tails,
            holds: constant || more && within(quantile, mean, sd),
        };
        own_fits &= heavy_tails || weighted_sd.se <= 0.5;
        let bounds = [weighted_quantile, weighted_mean, weighted_sd].map(|share| share.bound(multiple).powi(2));
        Judged {
            needed: if heavy_tails { bounds[0] } else { bounds.into_iter().fold(0.0, f64::max) },
            mixture: accuracy(mixture_quantile, mixture_mean, mixture_sd, own_fits),
            weighted: accuracy(weighted_quantile, weighted_mean, weighted_sd, true),
        }
    }

    /// Shape of the tail of the weighted squares.
    fn k_hat_of_squares(&self, values: &[f64], weights: &[f64], mean: f64) -> f64 {
        let logs: Vec<f64> = values
            .iter()
            .zip(weights)
            .map(|(x, w)| w.ln() + 2.0 * (x - mean).abs().ln())
            .filter(|log| log.is_finite())
            .collect();
        psis::k_hat(&logs)
    }
}

/// Weighted moments.
struct Moments {
    mean: f64,
    sd: f64,
    kurtosis: f64,
}

impl Moments {
    fn of(values: &[f64], weights: &[f64]) -> Self {
        let mean: f64 = values.iter().zip(weights).map(|(x, w)| w * x).sum();
        let (mut second, mut fourth) = (0.0, 0.0);
        for (x, w) in values.iter().zip(weights) {
            let square = (x - mean).powi(2);
            second += w * square;
            fourth += w * square * square;
        }
        Self { mean, sd: second.sqrt(), kurtosis: fourth / (second * second) }
    }
}

/// Cumulative weights of sorted draws, to the middle of each.
struct Cumulative(Vec<f64>);

impl Cumulative {
    fn of(weights: &[f64]) -> Self {
        let mut up_to = 0.0;
        let middle = weights.iter().map(|w| {
            up_to += w;
            up_to - 0.5 * w
        });
        Self(middle.collect())
    }

    /// The quantile of the sorted draws, by linear interpolation.
    fn quantile(&self, sorted: &[f64], p: f64) -> f64 {
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let high = self.0.partition_point(|up_to| *up_to < p);
        if high == 0 {
            return sorted[0];
        }
        if high > last {
            return sorted[last];
        }
        let (low, step) = (high - 1, self.0[high] - self.0[high - 1]);
        let part = if step > 0.0 { (p - self.0[low]) / step } else { 1.0 };
        sorted[low] + part * (sorted[high] - sorted[low])
    }
}

/// A quantile of sorted draws of equal weight.
fn equal_quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = (p * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let low = at as usize;
    sorted[low] + (at - low as f64) * (sorted[(low + 1).min(last)] - sorted[low])
}

#[cfg(test)]
mod tests;
