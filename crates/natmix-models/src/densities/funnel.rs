//! The funnel (Neal 2003): a log variance and many variables that share it.
//!
//! `z_0 ~ N(0, sd0^2)` and `z_i ~ N(0, exp(z_0))` for the others, `exp(z_0)` being a variance. With
//! `u_i = z_i exp(-z_0 / 2)`, up to constants,
//!
//! ```text
//! log p = -z_0^2 / (2 sd0^2) - (d - 1) z_0 / 2 - 1/2 sum_i u_i^2
//! ```
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::densities::Funnel;
//!
//! let funnel = Funnel::new(2, 1.0).unwrap();
//! let difference = log_p_at(&funnel, &[0.0, 2.0]).unwrap() - log_p_at(&funnel, &[0.0, 0.0]).unwrap();
//! assert!((difference + 2.0).abs() < 1e-12);
//! ```

use super::check;
use crate::prior::LOG_TAU;
use natmix::Error;
use natmix::target::pointwise::Hessian;

/// A normalised funnel. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Funnel {
    dim: usize,
    sd0: f64,
}

impl Funnel {
    /// A funnel in `dim` coordinates, the first of standard deviation `sd0`.
    pub fn new(dim: usize, sd0: f64) -> Result<Self, Error> {
        check::positive("sd0", &[sd0], 1)?;
        Ok(Self { dim: check::dim(dim)?, sd0 })
    }

    fn at(&self, z: &[f64], grad: Option<&mut [f64]>, hess: Option<&mut Hessian<'_>>) -> f64 {
        let (z0, others) = (z[0], &z[1..]);
        // Half of the exponent at a time doubles the range of z_0 before anything overflows.
        let root_precision = (-0.5 * z0).exp();
        // An infinite precision times a coordinate of exactly zero is taken as zero.
        let times_root = |x: f64| if x == 0.0 { 0.0 } else { x * root_precision };
        let square_sum: f64 = others.iter().map(|&x| times_root(x) * times_root(x)).sum();
        let (standard, half_count) = (z0 / self.sd0, 0.5 * others.len() as f64);
        if let Some(grad) = grad {
            grad[0] = -standard / self.sd0 - half_count + 0.5 * square_sum;
            grad[1..].iter_mut().zip(others).for_each(|(g, &x)| *g = -times_root(times_root(x)));
        }
        if let Some(hess) = hess {
            hess.add(0, 0, -1.0 / (self.sd0 * self.sd0) - 0.5 * square_sum);
            for (i, &x) in others.iter().enumerate() {
                hess.add(0, i + 1, times_root(times_root(x)));
                hess.add(i + 1, i + 1, -root_precision * root_precision);
            }
        }
        let constant = -0.5 * self.dim as f64 * LOG_TAU - self.sd0.ln();
        constant - 0.5 * (standard * standard + square_sum) - half_count * z0
    }
}

pointwise_target!(Funnel, |density| density.dim);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::densities::derivatives::{Uniform, all_at, check_derivatives};
    use natmix::target::log_p_at;

    #[test]
    fn derivatives() {
        check_derivatives(&Funnel::new(4, 1.5).unwrap(), &Uniform(1).points(20, 4, 3.0), 1e-3);
        check_derivatives(&Funnel::new(1, 0.5).unwrap(), &[0.3, -2.0], 1e-3);
    }

    #[test]
    fn integrates_to_one() {
        let funnel = Funnel::new(2, 1.5).unwrap();
        let (h, mut integral) = (0.1, 0.0);
        for i in -120..=120 {
            for j in -80..=80 {
                let z0 = h * f64::from(i);
                // The second coordinate in units of its conditional scale, which is also the Jacobian.
                let scale = (0.5 * z0).exp();
                let z1 = scale * h * f64::from(j);
                integral += h * h * scale * log_p_at(&funnel, &[z0, z1]).unwrap().exp();
            }
        }
        assert!((integral - 1.0).abs() < 1e-12, "{integral}");
    }

    #[test]
    fn extreme_scales_are_finite_or_have_density_zero() {
        let funnel = Funnel::new(3, 3.0).unwrap();
        for (z, finite) in [
            ([-800.0, 0.0, 0.0], true),
            ([-800.0, 1e-200, 0.0], true),
            ([-2000.0, 0.0, 0.0], true),
            ([-2000.0, 1.0, 0.0], false),
            ([2000.0, 1.0, -1e3], true),
            ([-1e200, 0.0, 1.0], false),
        ] {
            let value = log_p_at(&funnel, &z).unwrap();
            assert!(if finite { value.is_finite() } else { value == f64::NEG_INFINITY }, "{value} at {z:?}");
        }
        assert!(all_at(&funnel, &[-1000.0, 1e-250, 0.0]).1.iter().all(|g| g.is_finite()));
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(Funnel::new(0, 1.0).is_err());
        for sd0 in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Funnel::new(2, sd0).is_err());
        }
    }
}
