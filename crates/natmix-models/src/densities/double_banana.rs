//! The double banana (Detommaso et al. 2018): one noisy reading of the logarithm of Rosenbrock's function.
//!
//! Prior `N(0, I)` in two dimensions, `observed ~ N(F(z), noise_variance)`,
//!
//! ```text
//! F(z) = log(a^2 + b^2),   a = 1 - z1,   b = 10 (z2 - z1^2)
//! grad F = 2 (a grad a + b grad b) / (a^2 + b^2)
//! ```
//!
//! At `(1, 1)`, where `F` is the logarithm of zero, the density is zero.
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::densities::DoubleBanana;
//!
//! let banana = DoubleBanana::new(0.0, 1.0).unwrap();
//! let expected = -1.5 * (2.0 * std::f64::consts::PI).ln();
//! assert!((log_p_at(&banana, &[0.0, 0.0]).unwrap() - expected).abs() < 1e-12);
//! ```

use super::check;
use crate::prior::LOG_TAU;
use natmix::Error;
use natmix::target::pointwise::Hessian;

/// The double banana, prior times likelihood with all constants. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct DoubleBanana {
    observed: f64,
    noise_variance: f64,
}

impl DoubleBanana {
    /// The posterior after reading `observed` with noise of variance `noise_variance`.
    pub fn new(observed: f64, noise_variance: f64) -> Result<Self, Error> {
        check::finite("observed", &[observed], 1)?;
        check::positive("noise_variance", &[noise_variance], 1)?;
        Ok(Self { observed, noise_variance })
    }

    fn at(&self, z: &[f64], grad: Option<&mut [f64]>, hess: Option<&mut Hessian<'_>>) -> f64 {
        let (x, y) = (z[0], z[1]);
        let (a, b) = (1.0 - x, 10.0 * (y - x * x));
        // Squares of a and b overflow long before their length does.
        let length = a.hypot(b);
        if length == 0.0 {
            return f64::NEG_INFINITY;
        }
        let residual = self.observed - 2.0 * length.ln();
        let (a_unit, b_unit) = (a / length, b / length);
        let (b_x, b_y, b_xx) = (-20.0 * x, 10.0, -20.0);
        let grad_f = [2.0 * (b_unit * b_x - a_unit) / length, 2.0 * b_unit * b_y / length];
        let pull = residual / self.noise_variance;
        if let Some(grad) = grad {
            grad[0] = -x + pull * grad_f[0];
            grad[1] = -y + pull * grad_f[1];
        }
        if let Some(hess) = hess {
            let factor = 2.0 * pull / length;
            hess.add(0, 0, -1.0 + factor * ((1.0 + b_x * b_x) / length + b_unit * b_xx));
            hess.add(0, 1, factor * (b_x * b_y) / length);
            hess.add(1, 1, -1.0 + factor * (b_y * b_y) / length);
            hess.add_outer(-pull - 1.0 / self.noise_variance, &grad_f);
        }
        let constant = -1.5 * LOG_TAU - 0.5 * self.noise_variance.ln();
        constant - 0.5 * (x * x + y * y + residual * pull)
    }
}

pointwise_target!(DoubleBanana, |_density| 2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::densities::derivatives::{Uniform, all_at, check_derivatives};
    use natmix::Scratch;
    use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target, log_p_at};

    fn banana() -> DoubleBanana {
        DoubleBanana::new(30f64.ln(), 0.09).unwrap()
    }

    #[test]
    fn derivatives() {
        check_derivatives(&banana(), &Uniform(2).points(40, 2, 2.0), 2e-4);
    }

    #[test]
    fn value_by_hand() {
        // (1 - 2)^2 + 100 (3 - 4)^2 = 101
        let residual = 30f64.ln() - 101f64.ln();
        let expected = -1.5 * LOG_TAU - 0.5 * 0.09f64.ln() - 0.5 * 13.0 - residual * residual / 0.18;
        assert!((log_p_at(&banana(), &[2.0, 3.0]).unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn the_singular_point_spoils_no_other() {
        let points = [1.0, 1.0, 0.5, 0.5];
        let (mut log_p, mut grad, mut sums) = ([0.0; 2], [0.0; 4], [0.0; 4]);
        let curv = CurvatureSums {
            kind: Curvature::Exact,
            shape: CurvatureShape::Full,
            weights: &[1.0, 1.0],
            sums: &mut sums,
        };
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
        banana().eval(Rows::All, Points::new(&points, 2), out, &mut Scratch::default()).unwrap();
        let (value, grad_alone, hess_alone) = all_at(&banana(), &points[2..]);
        assert_eq!((log_p, &grad[2..], &sums[..]), ([f64::NEG_INFINITY, value], &grad_alone[..], &hess_alone[..]));
        assert!(log_p_at(&banana(), &[1e100, 0.0]).unwrap().is_finite());
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(DoubleBanana::new(f64::NAN, 1.0).is_err());
        assert!(DoubleBanana::new(0.0, 0.0).is_err());
    }
}
