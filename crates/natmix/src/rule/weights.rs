//! Mixture weights in log space: `log w_k <- log w_k + t E_k[b]`, then normalised.
//!
//! `E_k[b]` is of the order of the data size, so the trust region takes the largest `t <= t_w` with
//! `KL(w_new || w_old) <= eps`. A common baseline changes nothing; weights are stationary where all `E_k[b]` are equal.
//!
//! ```
//! let mut log_w = [0.5f64.ln(), 0.5f64.ln()];
//! natmix::rule::weights::step(&mut log_w, &[1.0, 0.0], 1.0);
//! assert!((log_w[0] - log_w[1] - 1.0).abs() < 1e-15);
//! ```

use crate::family::mixture::normalise;
use serde::{Deserialize, Serialize};

/// How weights move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightRule {
    /// They stay.
    Fixed,
    /// A natural-gradient step of fixed size.
    Plain,
    /// The largest natural-gradient step within a KL bound.
    TrustRegion,
}

impl WeightRule {
    /// Every rule, with its name and one line about it.
    pub const ALL: [(WeightRule, &'static str, &'static str); 3] = [
        (WeightRule::Fixed, "fixed", "weights stay as they are"),
        (WeightRule::Plain, "plain", "natural-gradient step of fixed size"),
        (WeightRule::TrustRegion, "trust-region", "largest natural-gradient step within a KL bound (default)"),
    ];

    /// The name that configuration files use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }
}

/// Lowest logarithm of a weight: its exponential is still a normal number.
const LEAST_LOG_WEIGHT: f64 = -600.0;

/// Moves the weights by a step of size `rate`; entries of `values` that are not finite count as average.
pub fn step(log_w: &mut [f64], values: &[f64], rate: f64) {
    let reference = reference(log_w, values);
    for (w, value) in log_w.iter_mut().zip(values) {
        // Larger pulls have the same result, and a difference of infinities would be NaN.
        let pull = (rate * (value - reference)).clamp(2.0 * LEAST_LOG_WEIGHT, -2.0 * LEAST_LOG_WEIGHT);
        *w += if value.is_finite() && !pull.is_nan() { pull } else { 0.0 };
    }
    normalise(log_w);
    log_w.iter_mut().for_each(|w| *w = w.max(LEAST_LOG_WEIGHT));
    normalise(log_w);
}

/// Moves the weights by the largest step up to `rate` with `KL(new || old) <= bound`; returns its size.
pub fn trust_region_step(log_w: &mut [f64], values: &[f64], rate: f64, bound: f64, new: &mut [f64]) -> f64 {
    let mut try_step = |t: f64| {
        new.copy_from_slice(log_w);
        step(new, values, t);
        new.iter().zip(log_w.iter()).map(|(new, old)| new.exp() * (new - old)).sum::<f64>()
    };
    let mut t = rate;
    if try_step(rate) > bound {
        let (mut low, mut high) = (0.0, rate);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if try_step(middle) > bound {
                high = middle;
            } else {
                low = middle;
            }
        }
        t = low;
    }
    step(log_w, values, t);
    t
}

/// Weighted mean of the finite values.
fn reference(log_w: &[f64], values: &[f64]) -> f64 {
    let (mut total, mut sum) = (0.0, 0.0);
    for (w, value) in log_w.iter().zip(values).filter(|(_, value)| value.is_finite()) {
        total += w.exp();
        sum += w.exp() * value;
    }
    if total > 0.0 { sum / total } else { 0.0 }
}
