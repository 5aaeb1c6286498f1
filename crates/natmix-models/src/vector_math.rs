//! Exponentials and logarithms without branches, so that loops over them can be vectorised.
//!
//! None of them passes a NaN on reliably: callers check their input.

/// Terms of `exp(r)` beyond the first two, from the last one on: `1 / 13!` to `1 / 2!`.
const EXP_TERMS: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];
/// Half of `log 2`: within it `exp` needs no power of two.
const NEAR_ZERO: f64 = 0.34;

/// `(exp(r) - 1 - r) / r^2` for `|r| <= log(2) / 2`.
#[inline(always)]
fn exp_beyond_linear(r: f64) -> f64 {
    let mut p = EXP_TERMS[0];
    for term in &EXP_TERMS[1..] {
        p = p * r + term;
    }
    p
}

/// `exp(x)` for `-708 <= x <= 709`.
#[inline(always)]
fn exp_within(x: f64) -> f64 {
    // Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let shifted = x * std::f64::consts::LOG2_E + MAGIC;
    let k = shifted - MAGIC;
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    let p = (exp_beyond_linear(r) * r + 1.0) * r + 1.0;
    p * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0_f64.to_bits()))
}

/// `exp(x)` for `x <= 0`. Within 2 ulp; zero below -708.
#[inline(always)]
pub(crate) fn exp_of_negative(x: f64) -> f64 {
    let value = exp_within(x.max(-708.0));
    if x < -708.0 { 0.0 } else { value }
}

/// `exp(x)`, within 2 ulp; zero below -708, infinite above 709.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let value = exp_within(x.clamp(-708.0, 709.0));
    let value = if x < -708.0 { 0.0 } else { value };
    if x > 709.0 { f64::INFINITY } else { value }
}

/// `exp(x) - 1 - x`, accurate where it is small.
#[inline(always)]
pub(crate) fn exp_without_line(x: f64) -> f64 {
    let near = x.clamp(-NEAR_ZERO, NEAR_ZERO);
    let small = exp_beyond_linear(near) * near * near;
    let large = exp(x) - 1.0 - x;
    if x.abs() < NEAR_ZERO { small } else { large }
}

/// `log(1 + x)` for `x >= 0`, within 2 ulp.
#[inline(always)]
pub(crate) fn ln_1p(x: f64) -> f64 {
    let x = x.min(f64::MAX);
    let sum = 1.0 + x;
    // What rounding took from the sum.
    let lost = (x - (sum - 1.0)) / sum;
    ln(sum) + lost
}

/// `log(x)` for positive, normal, finite `x`: the method of fdlibm, within 1 ulp.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const TERMS: [f64; 7] = [
        1.479_819_860_511_658_6e-1,
        1.531_383_769_920_937_3e-1,
        1.818_357_216_161_805e-1,
        2.222_219_843_214_978_4e-1,
        2.857_142_874_366_239e-1,
        3.999_999_999_940_942e-1,
        6.666_666_666_666_735e-1,
    ];
    // Subtracting the bits of sqrt(1/2) puts the mantissa between sqrt(1/2) and sqrt(2).
    const ROOT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    const MANTISSA: u64 = (1 << 52) - 1;
    // An integer below 2^52 in the low bits of 2^52 becomes a number without a conversion.
    const TWO_52: u64 = 0x4330_0000_0000_0000;
    let from_root = x.to_bits().wrapping_sub(ROOT_HALF);
    // The exponent as a signed number, shifted up so that it is not negative.
    let biased = from_root.wrapping_add(2048 << 52) >> 52;
    let k = f64::from_bits(TWO_52 | biased) - (4_503_599_627_370_496.0 + 2048.0);
    let f = f64::from_bits((from_root & MANTISSA).wrapping_add(ROOT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let square = s * s;
    let mut sum = TERMS[0];
    for term in &TERMS[1..] {
        sum = sum * square + term;
    }
    let half_square = 0.5 * f * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + sum * square) + k * LN2_LOW)) - f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_accurate() {
        for i in 0..200_000 {
            let x = -708.0 * (f64::from(i) / 200_000.0).powi(3);
            for (x, ours) in [(x, exp_of_negative(x)), (x, exp(x)), (-x, exp(-x))] {
                assert!((ours / x.exp() - 1.0).abs() < 4.5e-16, "{x} {ours} {}", x.exp());
            }
            let exact = if x > -1e-5 { 0.5 * x * x + x * x * x / 6.0 } else { x.exp_m1() - x };
            let ours = exp_without_line(x);
            assert!((ours - exact).abs() <= 1e-9 * exact.abs() + 1e-300, "{x} {ours} {exact}");
        }
        assert_eq!((exp_of_negative(-1e4), exp(-1e4), exp(1e4)), (0.0, 0.0, f64::INFINITY));
    }

    #[test]
    fn the_exponential_without_its_line_is_accurate() {
        // Sums of the series, which alternate or not; the library's exp_m1 - x loses digits here.
        for x in [-0.339f64, -0.1, -1e-3, -1e-8, 1e-12, 1e-4, 0.02, 0.33] {
            let (mut term, mut exact) = (x, 0.0);
            for k in 2..40 {
                term *= x / f64::from(k);
                exact += term;
            }
            assert!((exp_without_line(x) / exact - 1.0).abs() < 1e-15, "{x}");
        }
    }

    #[test]
    fn logarithms_are_accurate() {
        for i in 0..200_000 {
            for x in [(f64::from(i) * 3e-3 - 300.0).exp(), f64::from(i) / 1e5, f64::from(i) * 1e-9] {
                let (ours, exact) = (ln_1p(x), x.ln_1p());
                assert!((ours - exact).abs() <= 4.5e-16 * exact, "{x} {ours} {exact}");
            }
        }
        assert_eq!(ln_1p(0.0), 0.0);
        for large in [1e300, f64::MAX] {
            assert!((ln_1p(large) / large.ln() - 1.0).abs() < 4.5e-16, "{large}");
        }
        assert_eq!(ln_1p(f64::INFINITY), ln_1p(f64::MAX));
    }
}
