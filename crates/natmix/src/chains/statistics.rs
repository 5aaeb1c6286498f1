//! How well chains have mixed: R-hat and effective draws.
//!
//! Values of one quantity come iteration by iteration, all chains of an iteration together. Chains of a superchain have
//! started at one point; superchains at different ones (Margossian and others, 2024, *Nested R-hat*).

use std::ops::Range;

/// Sums that are made at once.
const LANES: usize = 8;

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
        let halves = [0, iterations - half].map(|from| self.of_each_chain(from..from + half));
        let mut means = Vec::with_capacity(groups);
        let mut within = 0.0;
        for group in 0..groups {
            // Each half of a chain counts as a chain.
            let chains = group * self.per_start..(group + 1) * self.per_start;
            let parts = chains.flat_map(|chain| [halves[0][chain], halves[1][chain]]);
            let (mean, between) = mean_and_variance(parts.clone().map(|part| part.0));
            within += between + parts.map(|part| part.1).sum::<f64>() / (2 * self.per_start) as f64;
            means.push(mean);
        }
        let (_, between) = mean_and_variance(means.into_iter());
        (1.0 + between / (within / groups as f64)).sqrt()
    }

    /// Mean and variance of some iterations of each chain.
    fn of_each_chain(&self, iterations: Range<usize>) -> Vec<(f64, f64)> {
        let count = iterations.len() as f64;
        let values = &self.values[iterations.start * self.chains..iterations.end * self.chains];
        // All chains of an iteration lie together.
        let mut found = vec![(0.0, 0.0); self.chains];
        for row in values.chunks_exact(self.chains) {
            found.iter_mut().zip(row).for_each(|((mean, _), value)| *mean += value);
        }
        found.iter_mut().for_each(|(mean, _)| *mean /= count);
        for row in values.chunks_exact(self.chains) {
            found.iter_mut().zip(row).for_each(|((mean, square), value)| *square += (value - *mean).powi(2));
        }
        found.iter_mut().for_each(|(_, square)| *square /= count - 1.0);
        found
    }

    /// Effective draws for the mean, by the autocorrelations over all chains (Geyer's initial monotone sequence). They are
    /// about the mean of all chains, so that chains which stay apart count for little. At most the number of draws.
    pub fn effective(&self) -> f64 {
        let (n, chains) = (self.iterations(), self.chains);
        let total = (n * chains) as f64;
        let mean = sum_of_products(self.values, None) / total;
        let centred: Vec<f64> = self.values.iter().map(|value| value - mean).collect();
        let variance = sum_of_products(&centred, Some(&centred)) / (total - 1.0);
        if !(variance > 0.0 && variance.is_finite()) {
            return if variance == 0.0 { total } else { 0.0 };
        }
        let correlation = |lag: usize| {
            let count = (n - lag) * chains;
            sum_of_products(&centred[..count], Some(&centred[lag * chains..])) / count as f64 / variance
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

/// The sum of values, or of their products with others: in several sums at once, which is several times as fast as one.
fn sum_of_products(a: &[f64], b: Option<&[f64]>) -> f64 {
    let (wide, rest) = a.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    match b {
        None => {
            wide.iter().for_each(|a| (0..LANES).for_each(|k| sums[k] += a[k]));
            sums.iter().chain(rest).sum()
        }
        Some(b) => {
            let (others, end) = b[..a.len()].as_chunks::<LANES>();
            wide.iter().zip(others).for_each(|(a, b)| (0..LANES).for_each(|k| sums[k] += a[k] * b[k]));
            sums.iter().sum::<f64>() + rest.iter().zip(end).map(|(a, b)| a * b).sum::<f64>()
        }
    }
}

/// Values in order, and where each of them was.
pub(crate) struct Ranked {
    pub sorted: Vec<f64>,
    places: Vec<usize>,
}

impl Ranked {
    pub fn of(values: &[f64]) -> Self {
        // In the order of `f64::total_cmp`, as whole numbers with the place below: these sort fastest.
        let key = |(at, value): (usize, &f64)| {
            let bits = value.to_bits();
            let ordered = bits ^ ((bits.cast_signed() >> 63).cast_unsigned() | 1 << 63);
            u128::from(ordered) << 64 | at as u128
        };
        let mut keys: Vec<u128> = values.iter().enumerate().map(key).collect();
        keys.sort_unstable();
        let places: Vec<usize> = keys.into_iter().map(|key| key as u64 as usize).collect();
        Self { sorted: places.iter().map(|&at| values[at]).collect(), places }
    }

    /// The distances from some value.
    pub fn distances(&self, from: f64) -> Self {
        let count = self.sorted.len();
        // From there outwards, to whichever side is nearer.
        let mut above = self.sorted.partition_point(|x| *x < from);
        let mut below = above;
        let (mut sorted, mut places) = (Vec::with_capacity(count), Vec::with_capacity(count));
        while below > 0 || above < count {
            let nearer = above == count || below > 0 && from - self.sorted[below - 1] < self.sorted[above] - from;
            let at = if nearer { below - 1 } else { above };
            sorted.push((self.sorted[at] - from).abs());
            places.push(self.places[at]);
            if nearer { below -= 1 } else { above += 1 }
        }
        Self { sorted, places }
    }

    /// The normal scores of the values: their ranks, as quantiles of a standard normal distribution. Equal values share a rank.
    pub fn normal_scores(&self) -> Vec<f64> {
        let mut scores = vec![0.0; self.places.len()];
        let mut from = 0;
        while from < scores.len() {
            let mut to = from + 1;
            while to < scores.len() && self.sorted[to] == self.sorted[from] {
                to += 1;
            }
            let rank = 0.5 * (from + to + 1) as f64;
            let score = normal_quantile((rank - 0.375) / (scores.len() as f64 + 0.25));
            self.places[from..to].iter().for_each(|&i| scores[i] = score);
            from = to;
        }
        scores
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(i: usize) -> f64 {
        (i as f64 * 12.9898).sin()
    }

    #[test]
    fn distances_are_ranked_as_if_they_were_values() {
        // With equal values, zeros of both signs, and a value from which some distances are equal.
        let values: Vec<f64> = (0..999).map(|i| (20.0 * wave(i)).round() / 4.0).chain([0.0, -0.0]).collect();
        for from in [0.25, 0.1, -9.0, 9.0] {
            let distances: Vec<f64> = values.iter().map(|x| (x - from).abs()).collect();
            assert_eq!(Ranked::of(&values).distances(from).normal_scores(), Ranked::of(&distances).normal_scores());
        }
        let sorted = Ranked::of(&values).sorted;
        assert!(sorted.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn effective_draws_of_an_autoregression_are_right() {
        // Of a stationary series with correlation r, n (1 - r) / (1 + r) are left: a third here.
        let (chains, iterations) = (7, 6_000);
        let mut values = vec![0.0; chains * iterations];
        crate::noise::Noise::new(2, crate::noise::Purpose::Check, 0, 0, 0).normals(&mut values);
        for at in chains..values.len() {
            values[at] += 0.5 * values[at - chains];
        }
        let traces = Traces { values: &values, chains, per_start: 1 };
        let share = traces.effective() / values.len() as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
        assert!((traces.nested_r_hat() - 1.0).abs() < 0.002);
    }
}
