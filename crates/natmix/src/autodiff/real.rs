//! The number types that a density can be written in, with each derivative rule in one place.
//!
//! A rule is a pair `f(x), f'(x)`. Both the forward number [`Dual`](super::Dual) and the recorded number
//! [`Var`](super::Var) are made from the same pairs, written in the numbers underneath them: so a `Var` over
//! `Dual` differentiates `f'` once more, and no second derivative is written anywhere.
//!
//! ```
//! use natmix::autodiff::{Real, log_sum_exp};
//! assert_eq!(log_sum_exp(&[-1e4, -1e4]), 2_f64.ln() - 1e4);
//! assert_eq!(Real::log1p_exp(800.0), 800.0);
//! ```

use super::special;
use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A real number that may carry derivatives.
///
/// Arithmetic takes another such number or an `f64` on the right. Where a constant must stand on the left, write
/// `R::constant(2.0) * x`, `-x + 1.0` for `1 - x` or `x.recip() * 2.0` for `2 / x`. Branch on [`Real::value`].
///
/// A NaN always passes through, [`Real::max`] and [`Real::min`] included, so that a bad point stays a bad point.
pub trait Real:
    Copy
    + Debug
    + Sum
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + AddAssign<f64>
    + SubAssign<f64>
    + MulAssign<f64>
    + DivAssign<f64>
{
    /// A constant: all derivatives are zero.
    fn constant(value: f64) -> Self;
    /// The number without its derivatives.
    fn value(self) -> f64;

    /// `e^x`.
    fn exp(self) -> Self;
    /// `e^x - 1`, exact for small `x`.
    fn exp_m1(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + x)`, exact for small `x`.
    fn ln_1p(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `1 / x`.
    fn recip(self) -> Self;
    /// `x^n`.
    fn powi(self, n: i32) -> Self;
    /// `x^p` for a constant `p`.
    fn powf(self, p: f64) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The cosine.
    fn cos(self) -> Self;
    /// The tangent.
    fn tan(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The inverse tangent.
    fn atan(self) -> Self;
    /// `1 / (1 + e^-x)`; its logarithm is best written `-(-x).log1p_exp()`.
    fn sigmoid(self) -> Self;
    /// `ln(1 + e^x)`, without overflow.
    fn log1p_exp(self) -> Self;
    /// `log |Gamma(x)|`.
    fn ln_gamma(self) -> Self;

    /// `|x|`, with slope 1 at zero.
    fn abs(self) -> Self {
        if self.value() < 0.0 { -self } else { self }
    }
    /// The larger of the two, with its derivatives; `other` if they are equal.
    fn max(self, other: Self) -> Self {
        if self.value() > other.value() || self.value().is_nan() { self } else { other }
    }
    /// The smaller of the two, with its derivatives; `other` if they are equal.
    fn min(self, other: Self) -> Self {
        if self.value() < other.value() || self.value().is_nan() { self } else { other }
    }
    /// `sum_i coefficients[i] * x[i]`: for data times parameters, much cheaper than term by term where derivatives
    /// are recorded.
    ///
    /// # Panics
    /// If the lengths differ.
    fn dot(coefficients: &[f64], x: &[Self]) -> Self {
        assert_eq!(coefficients.len(), x.len(), "as many coefficients as numbers");
        coefficients.iter().zip(x).fold(Self::constant(0.0), |sum, (&c, &x)| sum + x * c)
    }
}

/// `ln(sum_i e^(x_i))`, without overflow; minus infinity for no terms at all.
pub fn log_sum_exp<R: Real>(x: &[R]) -> R {
    let largest = x.iter().map(|x| x.value()).fold(f64::NEG_INFINITY, Real::max);
    if !largest.is_finite() {
        return R::constant(largest);
    }
    // As a constant: the shift cancels, and so do its derivatives.
    x.iter().map(|&x| (x - largest).exp()).sum::<R>().ln() + largest
}

/// What the numbers under a [`Tape`](super::Tape) must offer beyond [`Real`].
pub trait Scalar: Real + 'static {
    /// The slope of [`Real::ln_gamma`].
    fn digamma(self) -> Self;
    /// Whether the number and all its derivatives are zero.
    fn is_zero(self) -> bool;
}

impl Real for f64 {
    fn constant(value: f64) -> Self {
        value
    }
    fn value(self) -> f64 {
        self
    }
    fn exp(self) -> Self {
        f64::exp(self)
    }
    fn exp_m1(self) -> Self {
        f64::exp_m1(self)
    }
    fn ln(self) -> Self {
        f64::ln(self)
    }
    fn ln_1p(self) -> Self {
        f64::ln_1p(self)
    }
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    fn recip(self) -> Self {
        f64::recip(self)
    }
    fn powi(self, n: i32) -> Self {
        f64::powi(self, n)
    }
    fn powf(self, p: f64) -> Self {
        f64::powf(self, p)
    }
    fn sin(self) -> Self {
        f64::sin(self)
    }
    fn cos(self) -> Self {
        f64::cos(self)
    }
    fn tan(self) -> Self {
        f64::tan(self)
    }
    fn tanh(self) -> Self {
        f64::tanh(self)
    }
    fn atan(self) -> Self {
        f64::atan(self)
    }
    fn sigmoid(self) -> Self {
        // The exponent is never positive, so nothing overflows and small values keep all their digits.
        let e = (-self.abs()).exp();
        if self < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
    }
    fn log1p_exp(self) -> Self {
        f64::max(self, 0.0) + (-self.abs()).exp().ln_1p()
    }
    fn ln_gamma(self) -> Self {
        special::ln_gamma(self)
    }
}

impl Scalar for f64 {
    fn digamma(self) -> Self {
        special::digamma(self)
    }
    fn is_zero(self) -> bool {
        self == 0.0
    }
}

/// The methods of [`Real`] for a type with a field `value` and `chain(self, f, slope)`, which makes a number
/// with value `f` and `slope` times the derivatives of `self`.
macro_rules! derivative_rules {
    () => {
        fn exp(self) -> Self {
            let y = self.value.exp();
            self.chain(y, y)
        }
        fn exp_m1(self) -> Self {
            self.chain(self.value.exp_m1(), self.value.exp())
        }
        fn ln(self) -> Self {
            self.chain(self.value.ln(), self.value.recip())
        }
        fn ln_1p(self) -> Self {
            self.chain(self.value.ln_1p(), (self.value + 1.0).recip())
        }
        fn sqrt(self) -> Self {
            let y = self.value.sqrt();
            self.chain(y, y.recip() * 0.5)
        }
        fn recip(self) -> Self {
            let y = self.value.recip();
            self.chain(y, -(y * y))
        }
        fn powi(self, n: i32) -> Self {
            let y = self.value.powi(n);
            // Not 0 * x^-1, which is NaN at zero.
            let slope = if n == 0 { Real::constant(0.0) } else { self.value.powi(n.saturating_sub(1)) * f64::from(n) };
            self.chain(y, slope)
        }
        fn powf(self, p: f64) -> Self {
            let y = self.value.powf(p);
            let slope = if p == 0.0 { Real::constant(0.0) } else { self.value.powf(p - 1.0) * p };
            self.chain(y, slope)
        }
        fn sin(self) -> Self {
            self.chain(self.value.sin(), self.value.cos())
        }
        fn cos(self) -> Self {
            self.chain(self.value.cos(), -self.value.sin())
        }
        fn tan(self) -> Self {
            let y = self.value.tan();
            self.chain(y, y * y + 1.0)
        }
        fn tanh(self) -> Self {
            // 1 - tanh^2, without its cancellation where tanh is almost 1.
            let twice = self.value * 2.0;
            self.chain(self.value.tanh(), twice.sigmoid() * (-twice).sigmoid() * 4.0)
        }
        fn atan(self) -> Self {
            self.chain(self.value.atan(), (self.value * self.value + 1.0).recip())
        }
        fn sigmoid(self) -> Self {
            let y = self.value.sigmoid();
            self.chain(y, y * (-self.value).sigmoid())
        }
        fn log1p_exp(self) -> Self {
            self.chain(self.value.log1p_exp(), self.value.sigmoid())
        }
        fn ln_gamma(self) -> Self {
            self.chain(Real::ln_gamma(self.value), Scalar::digamma(self.value))
        }
    };
}
pub(super) use derivative_rules;

/// All operators but `+` and `-`, for a type as [`derivative_rules`] takes it that also has
/// `join(self, slope, other, other_slope, f)`, which does for two numbers what `chain` does for one.
macro_rules! derived_operators {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> Neg for $type {
            type Output = Self;
            fn neg(self) -> Self {
                self.chain(-self.value, Real::constant(-1.0))
            }
        }
        impl<$($generics)*> Mul for $type {
            type Output = Self;
            fn mul(self, other: Self) -> Self {
                self.join(other.value, other, self.value, self.value * other.value)
            }
        }
        impl<$($generics)*> Div for $type {
            type Output = Self;
            fn div(self, other: Self) -> Self {
                let (ratio, inverse) = (self.value / other.value, other.value.recip());
                self.join(inverse, other, -(ratio * inverse), ratio)
            }
        }
        impl<$($generics)*> Add<f64> for $type {
            type Output = Self;
            fn add(self, c: f64) -> Self {
                Self { value: self.value + c, ..self }
            }
        }
        impl<$($generics)*> Sub<f64> for $type {
            type Output = Self;
            fn sub(self, c: f64) -> Self {
                Self { value: self.value - c, ..self }
            }
        }
        impl<$($generics)*> Mul<f64> for $type {
            type Output = Self;
            fn mul(self, c: f64) -> Self {
                self.chain(self.value * c, Real::constant(c))
            }
        }
        impl<$($generics)*> Div<f64> for $type {
            type Output = Self;
            fn div(self, c: f64) -> Self {
                self.chain(self.value / c, Real::constant(c.recip()))
            }
        }
        impl<$($generics)*> Sum for $type {
            fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
                terms.fold(Real::constant(0.0), |sum, x| sum + x)
            }
        }
        derived_operators!(@assign [$($generics)*] $type, AddAssign add_assign +, SubAssign sub_assign -);
        derived_operators!(@assign [$($generics)*] $type, MulAssign mul_assign *, DivAssign div_assign /);
    };
    (@assign $generics:tt $type:ty, $a:ident $b:ident $c:tt, $d:ident $e:ident $f:tt) => {
        derived_operators!(@assign $generics $type, Self, $a $b $c);
        derived_operators!(@assign $generics $type, f64, $a $b $c);
        derived_operators!(@assign $generics $type, Self, $d $e $f);
        derived_operators!(@assign $generics $type, f64, $d $e $f);
    };
    (@assign [$($generics:tt)*] $type:ty, $right:ty, $trait:ident $method:ident $operator:tt) => {
        impl<$($generics)*> $trait<$right> for $type {
            fn $method(&mut self, right: $right) {
                *self = *self $operator right;
            }
        }
    };
}
pub(super) use derived_operators;
