//! Dual numbers, which carry their derivatives along: forward-mode differentiation.
//!
//! A [`Dual`] is `x + sum_l t_l e_l` with `e_l e_m = 0`, so that `f(x + t e) = f(x) + f'(x) t e`: `t_l` is the
//! derivative of the number along direction `l`. All `N` directions share one evaluation of `f` and `f'`.
//!
//! ```
//! use natmix::autodiff::{Dual, Real};
//! let x = Dual::<1>::along(3.0, 0);
//! let y = x * x + x.recip(); // slope 2 x - 1 / x^2
//! assert!((y.slopes[0] - (6.0 - 1.0 / 9.0)).abs() < 1e-15);
//! ```

use super::real::{Real, Scalar, derivative_rules, derived_operators};
use super::special;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A number and its derivatives along `N` directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual<const N: usize> {
    /// The number itself.
    pub value: f64,
    /// Its derivatives.
    pub slopes: [f64; N],
}

impl<const N: usize> Dual<N> {
    /// The coordinate `value` with slope one along direction `lane`; a constant if there is no such direction.
    pub fn along(value: f64, lane: usize) -> Self {
        Self { value, slopes: std::array::from_fn(|l| if l == lane { 1.0 } else { 0.0 }) }
    }
    fn chain(self, value: f64, slope: f64) -> Self {
        Self { value, slopes: self.slopes.map(|t| t * slope) }
    }
    fn join(self, slope: f64, other: Self, other_slope: f64, value: f64) -> Self {
        Self { value, slopes: std::array::from_fn(|l| self.slopes[l] * slope + other.slopes[l] * other_slope) }
    }
}

impl<const N: usize> Add for Dual<N> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.join(1.0, other, 1.0, self.value + other.value)
    }
}

impl<const N: usize> Sub for Dual<N> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.join(1.0, other, -1.0, self.value - other.value)
    }
}

derived_operators!([const N: usize] Dual<N>);

impl<const N: usize> Real for Dual<N> {
    fn constant(value: f64) -> Self {
        Self { value, slopes: [0.0; N] }
    }
    fn value(self) -> f64 {
        self.value
    }
    derivative_rules!();
}

impl<const N: usize> Scalar for Dual<N> {
    fn digamma(self) -> Self {
        self.chain(special::digamma(self.value), special::trigamma(self.value))
    }
    fn is_zero(self) -> bool {
        self.value == 0.0 && self.slopes.iter().all(|&t| t == 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_do_not_mix() {
        let (x, y) = (Dual::<3>::along(0.7, 0), Dual::along(1.9, 2));
        let z = (x * y).sin() / y - x;
        let product = 0.7_f64 * 1.9;
        let along_y = (product.cos() * 0.7 * 1.9 - product.sin()) / (1.9 * 1.9);
        assert!((z.slopes[0] - (product.cos() - 1.0)).abs() < 1e-15);
        assert_eq!(z.slopes[1], 0.0);
        assert!((z.slopes[2] - along_y).abs() < 1e-15);
    }

    #[test]
    fn digamma_has_the_slope_trigamma() {
        let x = Dual::<1>::along(2.3, 0);
        assert_eq!(Scalar::digamma(x).slopes, [special::trigamma(2.3)]);
        assert_eq!(Real::ln_gamma(x).slopes, [special::digamma(2.3)]);
    }
}
