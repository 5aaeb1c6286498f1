//! Predictions for new rows: averages over draws from the posterior, including the noise of the outcome.
//!
//! | model | results |
//! |---|---|
//! | logistic | `p = mean_s p_s`, the standard deviation of `p_s` over draws, entropy of `p` in nats |
//! | linear | mean and standard deviation of `y`, quantiles of the mixture `mean_s N(eta_s, sigma_s^2)` |
//! | poisson | mean of `y`, standard deviation `sqrt(mean rate + variance of the rate)`, quantiles of the mixture of Poissons |
//! | softmax | class probabilities, averaged over draws, and their entropy in nats |
//!
//! ```
//! use natmix_models::{CoefficientDraws, RegressionKind, Predictions, Inputs, predict};
//! let draws = CoefficientDraws::new(RegressionKind::Linear { noise_sd: None }, 1, &[1.0, 0.0, 3.0, 0.0]).unwrap();
//! let predictions = predict(&draws, Inputs::new(&[1.0], 1, None).unwrap()).unwrap();
//! let Predictions::Real { mean, sd, q50, .. } = predictions else { panic!() };
//! // Slopes 1 and 3, sigma 1: variance 1 + 1.
//! assert!((mean[0] - 2.0).abs() < 1e-12 && (sd[0] - 2f64.sqrt()).abs() < 1e-12 && (q50[0] - 2.0).abs() < 1e-6);
//! ```

use crate::draws::{CoefficientDraws, Inputs};
use crate::regression::RegressionKind;
use natmix::Error;
use serde::Serialize;

/// Levels of the quantiles, with the quantiles of the standard normal.
pub const LEVELS: [(f64, f64); 3] = [(0.05, -1.644_853_626_951_472_2), (0.5, 0.0), (0.95, 1.644_853_626_951_472_2)];

/// Predictions, one entry per row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Predictions {
    /// Of outcomes 0 and 1.
    Binary {
        /// Probability of outcome 1.
        probability: Vec<f64>,
        /// Its standard deviation over draws: the uncertainty of the probability itself.
        sd: Vec<f64>,
        /// Entropy of the outcome in nats.
        entropy: Vec<f64>,
    },
    /// Of real outcomes and of counts.
    Real {
        /// Mean.
        mean: Vec<f64>,
        /// Standard deviation, noise included.
        sd: Vec<f64>,
        /// 5% quantile.
        q05: Vec<f64>,
        /// Median.
        q50: Vec<f64>,
        /// 95% quantile.
        q95: Vec<f64>,
    },
    /// Of classes.
    Classes {
        /// Number of classes.
        classes: usize,
        /// Probabilities of all classes, row by row.
        probability: Vec<f64>,
        /// Entropy of the outcome in nats.
        entropy: Vec<f64>,
    },
}

impl Predictions {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Predictions::Binary { entropy, .. } | Predictions::Classes { entropy, .. } => entropy.len(),
            Predictions::Real { mean, .. } => mean.len(),
        }
    }

    /// Appends further rows, which must be of the same kind.
    pub fn append(&mut self, mut more: Self) {
        for (column, more) in self.columns_mut().into_iter().zip(more.columns_mut()) {
            column.append(more);
        }
    }

    fn columns_mut(&mut self) -> Vec<&mut Vec<f64>> {
        match self {
            Predictions::Binary { probability, sd, entropy } => vec![probability, sd, entropy],
            Predictions::Real { mean, sd, q05, q50, q95 } => vec![mean, sd, q05, q50, q95],
            Predictions::Classes { probability, entropy, .. } => vec![probability, entropy],
        }
    }

    /// Real predictions for `shift + scale y` (with `scale > 0`) instead of `y`; others stay as they are.
    pub fn rescale(&mut self, shift: f64, scale: f64) {
        if let Predictions::Real { mean, sd, q05, q50, q95 } = self {
            [mean, q05, q50, q95].into_iter().flatten().for_each(|x| *x = shift + scale * *x);
            sd.iter_mut().for_each(|sd| *sd *= scale);
        }
    }
}

/// Predicts every row of `inputs`.
pub fn predict(draws: &CoefficientDraws, inputs: Inputs<'_>) -> Result<Predictions, Error> {
    match draws.kind() {
        RegressionKind::Logistic => {
            let [probability, sd, entropy] = columns(draws, inputs, |eta, out: &mut [f64; 3]| {
                eta.iter_mut().for_each(|eta| *eta = sigmoid(*eta));
                let (mean, variance) = moments(eta);
                *out = [mean, variance.sqrt(), entropy_of(&[mean, 1.0 - mean])];
            })?;
            Ok(Predictions::Binary { probability, sd, entropy })
        }
        RegressionKind::Linear { .. } => {
            let noise = noise_variance(draws);
            let equal = vec![1.0 / draws.len() as f64; draws.len()];
            let [mean, sd, q05, q50, q95] = columns(draws, inputs, |eta, out: &mut [f64; 5]| {
                let (mean, variance) = moments(eta);
                let sd = (variance + noise).sqrt();
                let [low, middle, high] = LEVELS.map(|level| quantile(level, eta, draws.sigma(), &equal, mean, sd));
                *out = [mean, sd, low, middle, high];
            })?;
            Ok(Predictions::Real { mean, sd, q05, q50, q95 })
        }
        RegressionKind::Poisson => {
            let [mean, sd, q05, q50, q95] = columns(draws, inputs, |eta, out: &mut [f64; 5]| {
                let [mean, sd] = moments_of_counts(eta);
                let [low, middle, high] = count_quantiles(eta, mean, sd);
                *out = [mean, sd, low, middle, high];
            })?;
            Ok(Predictions::Real { mean, sd, q05, q50, q95 })
        }
        RegressionKind::Softmax { classes } => {
            let mut probability = vec![0.0; inputs.rows() * classes];
            draws.for_rows(inputs, classes, &mut probability, |_, eta, out| average_shares(eta, out))?;
            let entropy = probability.chunks_exact(classes).map(entropy_of).collect();
            Ok(Predictions::Classes { classes, probability, entropy })
        }
    }
}

/// Like [`predict`], but without the quantiles of real outcomes, which take most of the time; enough for scores.
pub(crate) fn predict_moments(draws: &CoefficientDraws, inputs: Inputs<'_>) -> Result<Predictions, Error> {
    let counts = match draws.kind() {
        RegressionKind::Linear { .. } => false,
        RegressionKind::Poisson => true,
        _ => return predict(draws, inputs),
    };
    let noise = if counts { 0.0 } else { noise_variance(draws) };
    let [mean, sd] = columns(draws, inputs, |eta, out: &mut [f64; 2]| {
        *out = if counts {
            moments_of_counts(eta)
        } else {
            let (mean, variance) = moments(eta);
            [mean, (variance + noise).sqrt()]
        };
    })?;
    Ok(Predictions::Real { mean, sd, q05: Vec::new(), q50: Vec::new(), q95: Vec::new() })
}

/// Mean and standard deviation of a mixture of Poissons; turns predictors into rates.
fn moments_of_counts(eta: &mut [f64]) -> [f64; 2] {
    eta.iter_mut().for_each(|eta| *eta = eta.exp());
    let (mean, variance) = moments(eta);
    [mean, (mean + variance).sqrt()]
}

/// Rates from which on counts are as good as normal.
pub(crate) const LARGE_RATE: f64 = 400.0;

/// The smallest counts that the mixture of Poissons with these rates does not exceed with the probabilities of [`LEVELS`].
fn count_quantiles(rates: &[f64], mean: f64, sd: f64) -> [f64; 3] {
    let equal = 1.0 / rates.len() as f64;
    if !rates.iter().all(|rate| *rate < LARGE_RATE) {
        let (spread, weights): (Vec<f64>, Vec<f64>) = rates.iter().map(|rate| (rate.sqrt(), equal)).unzip();
        return LEVELS.map(|level| match mean.is_finite() {
            true => quantile(level, rates, &spread, &weights, mean, sd).round().max(0.0),
            false => f64::INFINITY,
        });
    }
    let mut terms: Vec<f64> = rates.iter().map(|rate| equal * (-rate).exp()).collect();
    let (mut count, mut below) = (0.0, terms.iter().sum::<f64>());
    LEVELS.map(|(level, _)| {
        // Ends: all but rounding errors lies below twice the largest rate.
        while below < level && count < 2.0 * LARGE_RATE {
            count += 1.0;
            terms.iter_mut().zip(rates).for_each(|(term, rate)| *term *= rate / count);
            below += terms.iter().sum::<f64>();
        }
        count
    })
}

/// Mean variance of a linear regression's noise.
fn noise_variance(draws: &CoefficientDraws) -> f64 {
    draws.sigma().iter().map(|sigma| sigma * sigma).sum::<f64>() / draws.len() as f64
}

/// Computes `N` columns of results, from a function of each row's predictors.
fn columns<const N: usize>(
    draws: &CoefficientDraws,
    inputs: Inputs<'_>,
    each: impl Fn(&mut [f64], &mut [f64; N]) + Sync,
) -> Result<[Vec<f64>; N], Error> {
    let mut results = vec![0.0; inputs.rows() * N];
    draws.for_rows(inputs, N, &mut results, |_, eta, out| {
        let mut row = [0.0; N];
        each(eta, &mut row);
        out.copy_from_slice(&row);
    })?;
    Ok(std::array::from_fn(|column| results.iter().skip(column).step_by(N).copied().collect()))
}

/// Averages class probabilities over draws, from predictors of all classes but the reference.
pub(crate) fn average_shares(predictors: &[f64], out: &mut [f64]) {
    let others = out.len() - 1;
    let share = (others as f64) / predictors.len() as f64;
    out.fill(0.0);
    for eta in predictors.chunks_exact(others) {
        let most = eta.iter().fold(0.0_f64, |most, eta| most.max(*eta));
        let total = (-most).exp() + eta.iter().map(|eta| (eta - most).exp()).sum::<f64>();
        out[0] += share * (-most).exp() / total;
        out[1..].iter_mut().zip(eta).for_each(|(out, eta)| *out += share * (eta - most).exp() / total);
    }
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    let small = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

fn moments(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
}

/// Entropy of probabilities, in nats.
pub fn entropy_of(probabilities: &[f64]) -> f64 {
    probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
}

/// Quantile of the mixture of `N(eta_s, sigma_s^2)` with these weights, within about 1e-6 standard deviations: Newton's
/// method, bounded by the smallest and largest quantile of the components.
pub fn quantile((level, normal): (f64, f64), eta: &[f64], sigma: &[f64], weights: &[f64], mean: f64, sd: f64) -> f64 {
    let parts = eta.iter().zip(sigma).map(|(eta, sigma)| eta + sigma * normal);
    let (mut low, mut high) =
        parts.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let mut x = (mean + sd * normal).clamp(low.min(high), high.max(low));
    for _ in 0..100 {
        let (mut below, mut density) = (0.0, 0.0);
        for ((eta, sigma), weight) in eta.iter().zip(sigma).zip(weights) {
            let (cdf, pdf) = normal_cdf((x - eta) / sigma);
            below += weight * cdf;
            density += weight * pdf / sigma;
        }
        let excess = below - level;
        if excess > 0.0 {
            high = x
        } else {
            low = x
        }
        let newton = x - excess / density;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - x).abs() <= 1e-7 * sd {
            return next;
        }
        x = next;
    }
    x
}

/// Distribution function and density of the standard normal, from one exponential; the former within 1e-7 (Abramowitz
/// and Stegun 7.1.26), far below the error of an average over draws.
pub(crate) fn normal_cdf(x: f64) -> (f64, f64) {
    let exponential = (-0.5 * x * x).exp();
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs() * std::f64::consts::FRAC_1_SQRT_2);
    let polynomial =
        ((((1.061_405_429 * t - 1.453_152_027) * t + 1.421_413_741) * t - 0.284_496_736) * t + 0.254_829_592) * t;
    let tail = 0.5 * polynomial * exponential;
    const INV_SQRT_TAU: f64 = 0.398_942_280_401_432_7;
    (if x > 0.0 { 1.0 - tail } else { tail }, INV_SQRT_TAU * exponential)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: RegressionKind, features: usize, z: &[f64], x: &[f64], offset: f64) -> Predictions {
        let draws = CoefficientDraws::new(kind, features, z).unwrap();
        predict(&draws, Inputs::new(x, features, Some(&[offset])).unwrap()).unwrap()
    }

    #[test]
    fn averages_by_hand() {
        // Probabilities 1/2 and 3/4.
        let binary = row(RegressionKind::Logistic, 1, &[0.0, 1.0], &[3f64.ln()], 0.0);
        let Predictions::Binary { probability, sd, entropy } = binary else { panic!() };
        assert!((probability[0] - 0.625).abs() < 1e-14 && (sd[0] - 0.125).abs() < 1e-14);
        assert!((entropy[0] + 0.625 * 0.625f64.ln() + 0.375 * 0.375f64.ln()).abs() < 1e-14);
        // Rates 2 and 6, the offset doubling 1 and 3.
        let counts = row(RegressionKind::Poisson, 1, &[0.0, 1.0], &[3f64.ln()], 2f64.ln());
        let Predictions::Real { mean, sd, .. } = counts else { panic!() };
        assert!((mean[0] - 4.0).abs() < 1e-13 && (sd[0] - 8f64.sqrt()).abs() < 1e-13);
        // Class probabilities 1:2:3 and 1:1:1.
        let classes = row(RegressionKind::Softmax { classes: 3 }, 1, &[2f64.ln(), 3f64.ln(), 0.0, 0.0], &[1.0], 0.0);
        let Predictions::Classes { probability, .. } = classes else { panic!() };
        for (p, sixths) in probability.iter().zip([1.5, 2.0, 2.5]) {
            assert!((p - sixths / 6.0).abs() < 1e-14);
        }
    }

    #[test]
    fn extremes_stay_finite() {
        let Predictions::Binary { probability, entropy, .. } = row(RegressionKind::Logistic, 1, &[1e4], &[1.0], 0.0)
        else {
            panic!()
        };
        assert_eq!((probability[0], entropy[0]), (1.0, 0.0));
        let classes = row(RegressionKind::Softmax { classes: 3 }, 1, &[1e4, -1e4], &[1.0], 0.0);
        let Predictions::Classes { probability, entropy, .. } = classes else { panic!() };
        assert_eq!((&probability[..], entropy[0]), (&[0.0, 1.0, 0.0][..], 0.0));
        let real = row(RegressionKind::Linear { noise_sd: None }, 1, &[1.0, -800.0], &[1.0], 0.0);
        let Predictions::Real { q05, q95, .. } = real else { panic!() };
        assert!(q05[0] <= q95[0] && (q95[0] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn quantiles_solve_their_equation() {
        // Two distant components: the 5% quantile is the 10% quantile of the lower one, N(-10, 1).
        let z = [-10.0, 0.0, 10.0, 2f64.ln()];
        let mut real = row(RegressionKind::Linear { noise_sd: None }, 1, &z, &[1.0], 0.0);
        let Predictions::Real { q05, q95, .. } = &real else { panic!() };
        const TENTH: f64 = 1.281_551_565_544_600_4;
        assert!((q05[0] - (-10.0 - TENTH)).abs() < 1e-5, "{}", q05[0]);
        assert!((q95[0] - (10.0 + 2.0 * TENTH)).abs() < 1e-5, "{}", q95[0]);
        let before = q05[0];
        real.rescale(1.0, 2.0);
        let Predictions::Real { mean, sd, q05, .. } = real else { panic!() };
        assert!((mean[0] - 1.0).abs() < 1e-12 && (sd[0] - 2.0 * 102.5f64.sqrt()).abs() < 1e-12);
        assert!((q05[0] - (1.0 + 2.0 * before)).abs() < 1e-12);
        // One component: the quantiles of a normal distribution.
        let Predictions::Real { q05, q50, .. } =
            row(RegressionKind::Linear { noise_sd: Some(3.0) }, 1, &[2.0], &[1.0], 0.5)
        else {
            panic!()
        };
        assert!((q05[0] - (2.5 + 3.0 * LEVELS[0].1)).abs() < 1e-5 && (q50[0] - 2.5).abs() < 1e-5);
    }

    #[test]
    fn counts_have_whole_quantiles() {
        // Of a Poisson with rate 2: P(y <= 0) = 0.135, P(y <= 2) = 0.677, P(y <= 4) = 0.947, P(y <= 5) = 0.983.
        assert_eq!(count_quantiles(&[2.0], 2.0, 2f64.sqrt()), [0.0, 2.0, 5.0]);
        // Half of the rates give zero for certain; P(y <= 20) = 0.559 of the other half, P(y <= 26) = 0.922.
        let mixed = count_quantiles(&[0.0, 20.0], 10.0, 110f64.sqrt());
        assert_eq!((mixed[0], mixed[2]), (0.0, 26.0));
        // Both ways agree where one takes over from the other.
        let (below, above) = (LARGE_RATE - 1e-9, LARGE_RATE);
        let of = |rate: f64| count_quantiles(&[rate], rate, rate.sqrt());
        assert!(of(below).iter().zip(of(above)).all(|(a, b)| (a - b).abs() <= 1.0), "{:?} {:?}", of(below), of(above));
        assert_eq!(count_quantiles(&[f64::INFINITY], f64::INFINITY, f64::NAN), [f64::INFINITY; 3]);
    }

    #[test]
    fn the_normal_distribution_function_is_accurate() {
        for (x, cdf) in [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-2.0, 0.022_750_131_948_179_2), (-40.0, 0.0)] {
            assert!((normal_cdf(x).0 - cdf).abs() < 1e-7, "{x}");
        }
    }
}
