//! Analytic densities with known answers, and the file format that describes them.
//!
//! Each density is defined by its value, gradient and Hessian at a single point.
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::densities::Funnel;
//!
//! let funnel = Funnel::new(3, 2.0).unwrap();
//! let expected = -1.5 * (2.0 * std::f64::consts::PI).ln() - 2f64.ln();
//! assert!((log_p_at(&funnel, &[0.0; 3]).unwrap() - expected).abs() < 1e-12);
//! ```

/// Implements [`Target`](natmix::target::Target) for a density whose `at(z, grad, hess)` needs no work space.
macro_rules! pointwise_target {
    ($density:ty, |$this:ident| $dim:expr) => {
        impl natmix::target::Target for $density {
            fn dim(&self) -> usize {
                let $this = self;
                $dim
            }
            fn eval(
                &self,
                _: natmix::target::Rows<'_>,
                z: natmix::target::Points<'_>,
                out: natmix::target::EvalOut<'_>,
                scratch: &mut natmix::Scratch,
            ) -> Result<(), natmix::target::TargetError> {
                natmix::target::pointwise::eval_points(self.dim(), z, out, scratch, |z, grad, hess| {
                    Ok(self.at(z, grad, hess))
                })
            }
            fn gradient_is_tested(&self) -> bool {
                true
            }
            fn curvatures(&self) -> &[(natmix::target::Curvature, natmix::target::CurvatureShape)] {
                natmix::target::pointwise::EXACT
            }
        }
    };
}

pub mod beta_binomial;
mod check;
#[cfg(test)]
pub(crate) mod derivatives;
pub mod double_banana;
pub mod funnel;
pub mod notebook;
pub mod phase;
pub mod planar_robot;
pub mod spec;
pub mod student_mixture;

pub use beta_binomial::BetaBinomial;
pub use double_banana::DoubleBanana;
pub use funnel::Funnel;
pub use notebook::PriorTimesMixture;
pub use phase::PhaseDensity;
pub use planar_robot::PlanarRobot;
pub use spec::{DensityKind, Init, Spec};
pub use student_mixture::StudentMixture;

use natmix::target::pointwise::Hessian;

/// Turns the terms `log w_k p_k(z)` into the shares `w_k p_k(z) / p(z)` and returns `log p(z)`.
///
/// Where every term is minus infinity so is the result, and the shares are zero.
pub(crate) fn shares_of(log_terms: &mut [f64]) -> f64 {
    let largest = log_terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        // `f64::max` passes over NaN; the sum does not.
        let log_p = log_terms.iter().sum();
        log_terms.fill(0.0);
        return log_p;
    }
    let mut total = 0.0;
    for term in log_terms.iter_mut() {
        *term = (*term - largest).exp();
        total += *term;
    }
    log_terms.iter_mut().for_each(|term| *term /= total);
    largest + total.ln()
}

/// Adds the contribution of the spread of the components' gradients `g_k` to a mixture's Hessian,
/// `sum_k r_k (g_k - g)(g_k - g)'` with `g = sum_k r_k g_k`. Overwrites each `g_k` by `g_k - g`.
///
/// The centred form keeps its sign and its precision where one component has all of the responsibility.
pub(crate) fn add_gradient_spread(shares: &[f64], component_grads: &mut [f64], grad: &[f64], hess: &mut Hessian<'_>) {
    for (&share, component_grad) in shares.iter().zip(component_grads.chunks_exact_mut(grad.len())) {
        if share > NEGLIGIBLE_SHARE {
            component_grad.iter_mut().zip(grad).for_each(|(g_k, g)| *g_k -= g);
            hess.add_outer(share, component_grad);
        }
    }
}

/// A component with a smaller share of a point does not change that point's derivatives in double precision.
pub(crate) const NEGLIGIBLE_SHARE: f64 = 1e-30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_survive_extreme_terms() {
        let mut terms = [-2000.0, -2000.0, f64::NEG_INFINITY];
        assert!((shares_of(&mut terms) - (-2000.0 + 2f64.ln())).abs() < 1e-12);
        assert_eq!(terms, [0.5, 0.5, 0.0]);
        assert_eq!(shares_of(&mut [f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
        assert!(shares_of(&mut [0.0, f64::NAN, -1.0]).is_nan());
        assert!(shares_of(&mut [f64::NAN, f64::NEG_INFINITY]).is_nan());
    }
}
