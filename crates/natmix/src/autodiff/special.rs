//! The logarithm of the gamma function and its first two derivatives.
//!
//! `ln_gamma(x) = log |Gamma(x)|`, `digamma = ln_gamma'`, `trigamma = ln_gamma''`. Each is brought to an
//! argument where a series converges fast, and back by the recurrence `Gamma(x + 1) = x Gamma(x)`:
//!
//! - at `x >= 10` Stirling's series
//!   `ln_gamma(x) ~ (x - 1/2) ln x - x + ln(2 pi) / 2 + sum_k B_2k / (2k (2k - 1) x^(2k-1))`, differentiated term by
//!   term for the other two;
//! - below it, `ln_gamma(2 + e) = (1 - gamma) e + sum_{k >= 2} (-1)^k (zeta(k) - 1) e^k / k` for `|e| <= 1/2`, which
//!   keeps its relative accuracy at the zeros 1 and 2;
//! - for `x <= 0` the reflection `Gamma(x) Gamma(1 - x) = pi / sin(pi x)`.
//!
//! Relative errors are below 1e-13, except next to a zero that is not 1 or 2 (that of `digamma` at 1.46..., and those
//! of negative arguments), where the absolute error stays of that size. At the poles `0, -1, -2, ...` the even
//! functions `ln_gamma` and `trigamma` are infinite, `digamma`, which changes its sign there, is NaN.
//!
//! ```
//! use natmix::autodiff::special::{digamma, ln_gamma};
//! assert!((ln_gamma(5.0) - 24_f64.ln()).abs() < 1e-14);
//! assert!((digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-14); // minus Euler's constant
//! ```

use std::f64::consts::PI;

/// Bernoulli numbers `B_2, B_4, ..., B_16`: enough for the last bit at [`STIRLING_FROM`].
const BERNOULLI: [f64; 8] =
    [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0];

/// Where Stirling's series takes over.
const STIRLING_FROM: f64 = 10.0;

const HALF_LN_TWO_PI: f64 = 0.918_938_533_204_672_8;
const ONE_MINUS_EULER: f64 = 0.422_784_335_098_467_13;

/// `zeta(k) - 1` for `k = 2, 3, ...`.
const ZETA_MINUS_ONE: [f64; 26] = [
    0.6449340668482264,
    0.2020569031595943,
    0.08232323371113819,
    0.03692775514336993,
    0.01734306198444914,
    0.008349277381922827,
    0.00407735619794434,
    0.0020083928260822143,
    0.0009945751278180853,
    0.0004941886041194645,
    0.0002460865533080483,
    0.00012271334757848915,
    6.124813505870483e-05,
    3.058823630702049e-05,
    1.528225940865187e-05,
    7.637197637899763e-06,
    3.81729326499984e-06,
    1.908212716553939e-06,
    9.539620338727962e-07,
    4.769329867878064e-07,
    2.38450502727733e-07,
    1.1921992596531106e-07,
    5.960818905125948e-08,
    2.980350351465228e-08,
    1.4901554828365043e-08,
    7.45071178983543e-09,
];

/// `log |Gamma(x)|`; infinite at `0, -1, -2, ...`.
pub fn ln_gamma(x: f64) -> f64 {
    if x <= 0.0 {
        return (PI / sin_pi(x).abs()).ln() - ln_gamma(1.0 - x);
    }
    if x >= STIRLING_FROM {
        // (x - 1/2) ln x - x, in a form that stays infinite at infinity.
        return (x - 0.5) * (x.ln() - 1.0) - 0.5 + HALF_LN_TWO_PI + asymptotic(x, |n| 1.0 / (n * (n - 1.0)));
    }
    if x < 0.5 {
        return -x.ln() - x.ln_1p() + ln_gamma_near_two(x);
    }
    if x < 1.5 {
        return -(x - 1.0).ln_1p() + ln_gamma_near_two(x - 1.0);
    }
    let (mut product, mut rest) = (1.0, x);
    while rest > 2.5 {
        rest -= 1.0;
        product *= rest;
    }
    f64::ln(product) + ln_gamma_near_two(rest - 2.0)
}

/// The derivative of [`ln_gamma`]; NaN at `0, -1, -2, ...`.
pub fn digamma(x: f64) -> f64 {
    if x <= 0.0 {
        let fraction = x - x.round();
        return if fraction == 0.0 { f64::NAN } else { digamma(1.0 - x) - PI / (PI * fraction).tan() };
    }
    let (shifted, terms) = shift_up(x, |x| 1.0 / x);
    shifted.ln() - (0.5 + asymptotic(shifted, |n| 1.0 / n)) / shifted - terms
}

/// The second derivative of [`ln_gamma`]; infinite at `0, -1, -2, ...`.
pub fn trigamma(x: f64) -> f64 {
    if x <= 0.0 {
        return (PI / sin_pi(x)).powi(2) - trigamma(1.0 - x);
    }
    let (shifted, terms) = shift_up(x, |x| 1.0 / (x * x));
    (1.0 + (0.5 + asymptotic(shifted, |_| 1.0)) / shifted) / shifted + terms
}

/// `ln_gamma(2 + e)` for `|e| <= 1/2`.
fn ln_gamma_near_two(e: f64) -> f64 {
    const COEFFICIENTS: [f64; ZETA_MINUS_ONE.len()] = {
        let mut coefficients = ZETA_MINUS_ONE;
        let mut i = 0;
        while i < coefficients.len() {
            coefficients[i] /= (i + 2) as f64;
            i += 1;
        }
        coefficients
    };
    let series = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| coefficient - e * sum);
    e * (ONE_MINUS_EULER + e * series)
}

/// `sum_k B_2k factor(2k) / x^(2k - 1)`.
fn asymptotic(x: f64, factor: impl Fn(f64) -> f64) -> f64 {
    let inverse_square = 1.0 / (x * x);
    let terms = BERNOULLI.iter().enumerate().rev();
    terms.fold(0.0, |sum, (i, bernoulli)| sum * inverse_square + bernoulli * factor((2 * i + 2) as f64)) / x
}

/// The first of `x, x + 1, ...` where Stirling's series holds, and the sum of `term` over those before it.
fn shift_up(mut x: f64, term: impl Fn(f64) -> f64) -> (f64, f64) {
    let mut sum = 0.0;
    while x < STIRLING_FROM {
        sum += term(x);
        x += 1.0;
    }
    (x, sum)
}

/// `sin(pi x)` up to its sign, exactly zero at integers.
fn sin_pi(x: f64) -> f64 {
    (PI * (x - x.round())).sin()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(x, ln_gamma, digamma, trigamma)`, from 40-digit arithmetic.
    #[rustfmt::skip]
    const REFERENCE: [(f64, f64, f64, f64); 24] = [
        (1e-300, 690.7755278982137, -9.999999999999999e+299, f64::INFINITY),
        (1e-9, 20.723265836369194, -1000000000.5772156, 9.999999999999999e+17),
        (0.1, 2.252712651734206, -10.423754940411076, 101.43329915079275),
        (0.5, 0.5723649429247001, -1.9635100260214235, 4.934802200544679),
        (0.9, 0.06637623973474295, -0.7549269499470513, 1.9225399594772035),
        (0.999999, 5.772164873855652e-07, -0.5772173098368019, 1.6449364709652798),
        (1.000001, -5.772148423874147e-07, -0.5772140199686682, 1.6449316627376673),
        (1.25, -0.09827183642181316, -0.22745353337626542, 1.1973291545071107),
        (1.4375, -0.12120242719902266, -0.023613544005297898, 0.9895029178956272),
        (1.75, -0.08440112102048555, 0.24747245354686118, 0.7641018698938287),
        (1.999999, -4.227840125965854e-07, 0.4227836901641983, 0.6449344709622797),
        (2.000001, 4.2278465762452923e-07, 0.422784980032332, 0.644933662734667),
        (2.5, 0.2846828704729192, 0.7031566406452432, 0.49035775610023485),
        (3.75, 1.486815578593417, 1.1825373886117962, 0.3053398526902531),
        (7.25, 7.0521854507385395, 1.910453526883736, 0.14787923315893217),
        (9.9375, 12.661298797363894, 2.2451580165141403, 0.10586151132136692),
        (10.0, 12.801827480081469, 2.251752589066721, 0.10516633568168575),
        (33.3, 82.60372358165495, 3.490467238520243, 0.030485444095338887),
        (1e3, 5905.220423209181, 6.907255195648812, 0.0010005001666666333),
        (1e300, 6.897755278982137e+302, 690.7755278982137, 1e-300),
        (-0.25, 1.589575312551186, 2.9141391202135276, 18.541879647671607),
        (-1.5, 0.860047015376481, 0.7031566406452432, 9.379246644989124),
        (-7.3, -7.779101629826852, 4.33730730551005, 14.951383181433922),
        (-30.0625, -72.09288852924188, 19.213671182267394, 259.2826742424286),
    ];

    fn close(got: f64, want: f64, absolute: f64) -> bool {
        got == want || (got - want).abs() <= 1e-13 * want.abs() + absolute
    }

    #[test]
    fn agree_with_reference_values() {
        for (x, log, first, second) in REFERENCE {
            assert!(close(ln_gamma(x), log, 0.0), "ln_gamma({x}) = {:e}, not {log:e}", ln_gamma(x));
            assert!(close(digamma(x), first, 0.0), "digamma({x}) = {:e}, not {first:e}", digamma(x));
            assert!(close(trigamma(x), second, 0.0), "trigamma({x}) = {:e}, not {second:e}", trigamma(x));
        }
    }

    #[test]
    fn obey_their_recurrences() {
        for i in 1..400 {
            let x = f64::from(i) / 16.0 + 1e-3 - 5.0;
            assert!(close(ln_gamma(x + 1.0), ln_gamma(x) + x.abs().ln(), 1e-13), "ln_gamma at {x}");
            assert!(close(digamma(x + 1.0), digamma(x) + 1.0 / x, 1e-13 / x.abs().min(1.0)), "digamma at {x}");
            let step = x.powi(-2);
            assert!(close(trigamma(x + 1.0), trigamma(x) - step, 1e-13 * step.max(1.0)), "trigamma at {x}");
        }
    }

    #[test]
    fn vanish_blow_up_and_pass_nan_on_where_they_should() {
        assert_eq!((ln_gamma(1.0), ln_gamma(2.0)), (0.0, 0.0));
        assert!(digamma(1.461_632_144_968_362_3).abs() < 4e-15);
        for pole in [0.0, -0.0, -1.0, -2.0, -1e20] {
            assert_eq!((ln_gamma(pole), trigamma(pole)), (f64::INFINITY, f64::INFINITY), "at {pole}");
            assert!(digamma(pole).is_nan());
        }
        let infinity = f64::INFINITY;
        assert_eq!((ln_gamma(infinity), digamma(infinity), trigamma(infinity)), (infinity, infinity, 0.0));
        for x in [f64::NAN, -infinity] {
            assert!(ln_gamma(x).is_nan() && digamma(x).is_nan() && trigamma(x).is_nan(), "at {x}");
        }
    }
}
