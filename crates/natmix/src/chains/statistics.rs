//! How well chains have mixed: R-hat and effective draws.
//!
//! Values of one quantity come iteration by iteration, all chains of an iteration together. Chains of a superchain have
//! started at one point; superchains at different ones (Margossian and others, 2024, *Nested R-hat*).

/// Values of one quantity along all chains.
#[derive(Clone, Copy)]
pub(crate) struct Traces<'a> {
    /// Iteration after iteration, one value per chain.
    pub values: &'a [f64],
    pub chains: usize,
    /// Chains that have started at one point.
    pub per_start: usize,
}

impl Traces<'_> {
    pub fn iterations(&self) -> usize {
        self.values.len() / self.chains
    }

    /// Split nested R-hat: the spread of the superchains' means beside the spread within them.
    pub fn nested_r_hat(&self) -> f64 {
        let (iterations, groups) = (self.iterations(), self.chains / self.per_start);
        let half = iterations / 2;
        if half < 2 || groups < 2 {
            return f64::NAN;
        }
        let mut means = Vec::with_capacity(groups);
        let mut within = 0.0;
        for group in 0..groups {
            // Each half of a chain counts as a chain.
            let mut parts = Vec::with_capacity(2 * self.per_start);
            for chain in group * self.per_start..(group + 1) * self.per_start {
                for from in [0, iterations - half] {
                    let values = (from..from + half).map(|t| self.values[t * self.chains + chain]);
                    parts.push(mean_and_variance(values));
                }
            }
            let (mean, between) = mean_and_variance(parts.iter().map(|part| part.0));
            within += between + parts.iter().map(|part| part.1).sum::<f64>() / parts.len() as f64;
            means.push(mean);
        }
        let (_, between) = mean_and_variance(means.into_iter());
        (1.0 + between / (within / groups as f64)).sqrt()
    }

    /// Effective draws for the mean, by the autocorrelations over all chains (Geyer's initial monotone sequence). They are
    /// about the mean of all chains, so that chains which stay apart count for little. At most the number of draws.
    pub fn effective(&self) -> f64 {
        let (n, chains) = (self.iterations(), self.chains);
        let total = (n * chains) as f64;
        let (mean, variance) = mean_and_variance(self.values.iter().copied());
        if !(variance > 0.0 && variance.is_finite()) {
            return if variance == 0.0 { total } else { 0.0 };
        }
        let correlation = |lag: usize| {
            let pairs = self.values.iter().zip(&self.values[lag * chains..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / ((n - lag) * chains) as f64 / variance
        };
        let (mut time, mut last, mut lag) = (-1.0, f64::INFINITY, 0);
        while lag + 1 < n {
            let pair = correlation(lag) + correlation(lag + 1);
            if pair <= 0.0 {
                break;
            }
            last = pair.min(last);
            time += 2.0 * last;
            lag += 2;
        }
        (total / time.max(1e-3)).min(total)
    }
}

/// Mean and variance (with n - 1) of some values.
pub(crate) fn mean_and_variance(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let (mut count, mut sum) = (0.0, 0.0);
    for value in values.clone() {
        count += 1.0;
        sum += value;
    }
    let mean = sum / count;
    (mean, values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0))
}

/// The normal scores of values: their ranks, as quantiles of a standard normal distribution. Equal values share a rank.
pub(crate) fn normal_scores(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut scores = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let mut to = from + 1;
        while to < order.len() && values[order[to]] == values[order[from]] {
            to += 1;
        }
        let rank = 0.5 * (from + to + 1) as f64;
        let score = normal_quantile((rank - 0.375) / (values.len() as f64 + 0.25));
        order[from..to].iter().for_each(|&i| scores[i] = score);
        from = to;
    }
    scores
}

/// Probability beyond `z` of the standard normal distribution, for `z` of at least zero (Abramowitz and Stegun 26.2.17, error
/// below 1e-7).
pub(crate) fn normal_tail(z: f64) -> f64 {
    const B: [f64; 5] = [1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153];
    let t = 1.0 / (1.0 + 0.2316419 * z);
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    density * t * B.iter().fold(0.0, |sum, b| sum * t + b)
}

/// Quantile of the standard normal distribution (Acklam's rational approximation, relative error below 1.2e-9).
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.38357751867269e+02,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 5] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 4] = [7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00];
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    if p < 0.02425 {
        tail(p)
    } else if p > 1.0 - 0.02425 {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        q * polynomial(&A, q * q) / (polynomial(&B, q * q) * q * q + 1.0)
    }
}
