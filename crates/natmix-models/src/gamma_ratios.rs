//! Differences of logarithms of the gamma function, without the cancellation that plain subtraction has for large arguments.

use crate::prior::LOG_TAU;
use natmix::autodiff::special::{digamma, ln_gamma, trigamma};

/// Above `LARGE * (n + 1)` differences of `log Gamma` cancel, and three terms of a series are exact to double precision.
const LARGE: f64 = 1e5;
/// Where Stirling's series takes over: eight terms are then exact to double precision.
const STIRLING_FROM: f64 = 10.0;
/// Bernoulli numbers `B_2, B_4, ..., B_16`.
const BERNOULLI: [f64; 8] =
    [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0];

/// `log Gamma(a + n) - log Gamma(a)` and its first two derivatives with respect to `a`.
pub(crate) fn rising(a: f64, n: f64) -> [f64; 3] {
    if n == 0.0 {
        return [0.0; 3];
    }
    if a > LARGE * (n + 1.0) {
        let (first, second, third) = (n / a, n * (n - 1.0) / (a * a), n * (n - 1.0) * (2.0 * n - 1.0) / (a * a * a));
        return [
            n * a.ln() + a * (second / 2.0 - third / 12.0),
            first - second / 2.0 + third / 6.0,
            (-first + second - third / 2.0) / a,
        ];
    }
    [ln_gamma(a + n) - ln_gamma(a), digamma(a + n) - digamma(a), trigamma(a + n) - trigamma(a)]
}

/// `g(a) = a log a - a - log Gamma(a)`, with `a g'(a)` and `a^2 g''(a)`, which stay finite for large `a`.
pub(crate) fn stirling_gap(a: f64) -> [f64; 3] {
    if a < STIRLING_FROM {
        return [a * a.ln() - a - ln_gamma(a), a * (a.ln() - digamma(a)), a - a * a * trigamma(a)];
    }
    // log Gamma(a) = (a - 1/2) log a - a + log(2 pi)/2 + sum_k B_2k / (2k (2k - 1) a^(2k - 1)).
    let (mut value, mut slope, mut curv, mut power) = (0.5 * (a.ln() - LOG_TAU), 0.5, -0.5, a.recip());
    for (k, bernoulli) in BERNOULLI.iter().enumerate() {
        let n = (2 * k + 2) as f64;
        value -= bernoulli * power / (n * (n - 1.0));
        slope += bernoulli * power / n;
        curv -= bernoulli * power;
        power /= a * a;
    }
    [value, slope, curv]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_agrees_with_the_sum() {
        for (a, n) in [(1.01e5 * 8.0, 7.0), (1.01e5 * 3001.0, 3000.0)] {
            let plain: f64 = (0..n as i64).map(|i| (a + i as f64).ln()).sum();
            let slope: f64 = (0..n as i64).map(|i| 1.0 / (a + i as f64)).sum();
            let bend: f64 = (0..n as i64).map(|i| -1.0 / (a + i as f64).powi(2)).sum();
            for (found, expected) in rising(a, n).into_iter().zip([plain, slope, bend]) {
                assert!((found - expected).abs() < 1e-12 * expected.abs(), "{found} {expected}");
            }
        }
    }

    #[test]
    fn half_a_step_of_the_gamma_function_has_its_expansion() {
        // log Gamma(a + 1/2) - log Gamma(a) = log(a)/2 - 1/(8 a) + 1/(192 a^3) - ...
        for a in [2e5_f64, 1e9, 1e15] {
            let expected = 0.5 * a.ln() - 0.125 / a;
            assert!((rising(a, 0.5)[0] - expected).abs() < 1e-14 * expected, "{a}");
        }
    }

    #[test]
    fn the_gap_is_continuous_and_has_its_derivatives() {
        let (below, above) = (stirling_gap(STIRLING_FROM - 1e-9), stirling_gap(STIRLING_FROM));
        for (below, above) in below.into_iter().zip(above) {
            assert!((below - above).abs() < 1e-9, "{below} {above}");
        }
        for a in [0.01, 0.5, 3.0, 9.0, 20.0, 500.0] {
            let h = 1e-5 * a;
            let (up, down) = (stirling_gap(a + h), stirling_gap(a - h));
            let [_, slope, curv] = stirling_gap(a);
            assert!(((up[0] - down[0]) / (2.0 * h) * a - slope).abs() < 1e-7, "{a}");
            // (a g')' a = a g' + a^2 g''
            assert!(((up[1] - down[1]) / (2.0 * h) * a - slope - curv).abs() < 1e-7, "{a}");
        }
        assert!((stirling_gap(1e12)[1] - 0.5).abs() < 1e-12);
    }
}
