//! A Gaussian prior times a mixture: small examples whose posterior and evidence are known exactly.
//!
//! ```text
//! p(z) = N(z; 0, prior_sd^2 I) sum_k w_k N(z; m_k, diag(s_k^2))
//! ```
//!
//! The product of two Gaussian densities is a constant times a Gaussian density, so the posterior is again a mixture:
//!
//! ```text
//! log Z     = log sum_k w_k N(m_k; 0, prior_sd^2 I + diag(s_k^2))
//! weight_k  = w_k N(m_k; 0, prior_sd^2 I + diag(s_k^2)) / Z
//! sd_k^-2   = prior_sd^-2 + s_k^-2,    mean_k = sd_k^2 s_k^-2 m_k        in each coordinate
//! ```
//!
//! ```
//! use natmix_models::densities::PriorTimesMixture;
//!
//! let target = PriorTimesMixture::two_wide();
//! assert!((target.log_evidence() + 3.2456).abs() < 5e-5);
//! let (weights, _means, _sds) = target.posterior();
//! assert!((weights[0] - 0.4004).abs() < 5e-5);
//! ```

use super::{NEGLIGIBLE_SHARE, add_gradient_spread, check, shares_of};
use crate::prior::LOG_TAU;
use natmix::Error;
use natmix::Scratch;
use natmix::target::pointwise::{EXACT, Hessian, eval_points};
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};

/// A centred Gaussian prior times a mixture with diagonal covariances. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct PriorTimesMixture {
    prior_sd: f64,
    weights: Vec<f64>,
    means: Vec<Vec<f64>>,
    sds: Vec<Vec<f64>>,
}

impl PriorTimesMixture {
    /// A prior of standard deviation `prior_sd` in every coordinate, times the mixture of these components.
    pub fn new(prior_sd: f64, weights: &[f64], means: &[Vec<f64>], sds: &[Vec<f64>]) -> Result<Self, Error> {
        check::positive("prior_sd", &[prior_sd], 1)?;
        let weights = check::weights(weights)?;
        check::count("means", means.len(), weights.len())?;
        check::count("sds", sds.len(), weights.len())?;
        let dim = check::dim(means[0].len())?;
        for (k, (mean, sd)) in means.iter().zip(sds).enumerate() {
            check::finite(&format!("means[{k}]"), mean, dim)?;
            check::positive(&format!("sds[{k}]"), sd, dim)?;
        }
        Ok(Self { prior_sd, weights, means: means.to_vec(), sds: sds.to_vec() })
    }

    /// `N(0, 10^2)` times `0.3 N(1, 0.2^2) + 0.7 N(4, 0.2^2)`: two narrow modes with nothing in between.
    pub fn two_narrow() -> Self {
        Self::two_in_one_dimension([0.3, 0.7], [1.0, 4.0], [0.2, 0.2])
    }

    /// `N(0, 10^2)` times `0.4 N(-2, 0.8^2) + 0.6 N(2, 1)`: two wide modes that overlap.
    pub fn two_wide() -> Self {
        Self::two_in_one_dimension([0.4, 0.6], [-2.0, 2.0], [0.8, 1.0])
    }

    fn two_in_one_dimension(weights: [f64; 2], means: [f64; 2], sds: [f64; 2]) -> Self {
        let rows = |values: [f64; 2]| values.iter().map(|&x| vec![x]).collect();
        Self { prior_sd: 10.0, weights: weights.to_vec(), means: rows(means), sds: rows(sds) }
    }

    /// The logarithm of the integral of the density.
    pub fn log_evidence(&self) -> f64 {
        self.weights_and_log_evidence().1
    }

    /// Weights, means and standard deviations of the normalised density, which is a mixture.
    pub fn posterior(&self) -> (Vec<f64>, Vec<Vec<f64>>, Vec<Vec<f64>>) {
        // s^2 prior_sd^2 / (s^2 + prior_sd^2) and similar terms, without squares that could overflow.
        let shrink = |sd: f64| self.prior_sd / self.prior_sd.hypot(sd);
        let each = |values: &[Vec<f64>], f: &dyn Fn(f64, f64) -> f64| {
            values
                .iter()
                .zip(&self.sds)
                .map(|(row, sds)| row.iter().zip(sds).map(|(&x, &sd)| f(x, sd)).collect())
                .collect()
        };
        let means = each(&self.means, &|mean, sd| mean * shrink(sd) * shrink(sd));
        let sds = each(&self.sds, &|_, sd| sd * shrink(sd));
        (self.weights_and_log_evidence().0, means, sds)
    }

    fn weights_and_log_evidence(&self) -> (Vec<f64>, f64) {
        let mut log_terms: Vec<f64> = self.weights.iter().map(|weight| weight.ln()).collect();
        for (term, (mean, sds)) in log_terms.iter_mut().zip(self.means.iter().zip(&self.sds)) {
            *term += mean.iter().zip(sds).map(|(&mean, &sd)| log_normal(mean, self.prior_sd.hypot(sd))).sum::<f64>();
        }
        let log_evidence = shares_of(&mut log_terms);
        (log_terms, log_evidence)
    }

    fn at(
        &self,
        z: &[f64],
        grad: Option<&mut [f64]>,
        hess: Option<&mut Hessian<'_>>,
        [shares, component_grads, mixture_grad]: [&mut [f64]; 3],
    ) -> f64 {
        let components = self.weights.iter().zip(self.means.iter().zip(&self.sds));
        for (share, (weight, (mean, sds))) in shares.iter_mut().zip(components) {
            let coordinates = z.iter().zip(mean).zip(sds);
            *share = weight.ln() + coordinates.map(|((z, mean), &sd)| log_normal(z - mean, sd)).sum::<f64>();
        }
        let log_mixture = shares_of(shares);
        let prior_precision = 1.0 / (self.prior_sd * self.prior_sd);
        mixture_grad.fill(0.0);
        let terms = shares.iter().zip(component_grads.chunks_exact_mut(z.len()));
        for ((&share, component_grad), (mean, sds)) in terms.zip(self.means.iter().zip(&self.sds)) {
            if share > NEGLIGIBLE_SHARE {
                for j in 0..z.len() {
                    component_grad[j] = (mean[j] - z[j]) / (sds[j] * sds[j]);
                    mixture_grad[j] += share * component_grad[j];
                }
            }
        }
        if let Some(grad) = grad {
            grad.iter_mut().zip(&*mixture_grad).zip(z).for_each(|((g, m), z)| *g = m - prior_precision * z);
        }
        if let Some(hess) = hess {
            for j in 0..z.len() {
                let precision: f64 = shares.iter().zip(&self.sds).map(|(share, sds)| share / (sds[j] * sds[j])).sum();
                hess.add(j, j, -prior_precision - precision);
            }
            add_gradient_spread(shares, component_grads, mixture_grad, hess);
        }
        log_mixture + z.iter().map(|&z| log_normal(z, self.prior_sd)).sum::<f64>()
    }
}

/// `log N(x; 0, sd^2)`.
fn log_normal(x: f64, sd: f64) -> f64 {
    let standard = x / sd;
    -0.5 * (LOG_TAU + standard * standard) - sd.ln()
}

impl Target for PriorTimesMixture {
    fn dim(&self) -> usize {
        self.means[0].len()
    }
    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let (d, k) = (self.dim(), self.weights.len());
        let mut buffer = scratch.take(k + k * d + d);
        let (shares, rest) = buffer.split_at_mut(k);
        let (component_grads, mixture_grad) = rest.split_at_mut(k * d);
        let result = eval_points(d, z, out, scratch, |z, grad, hess| {
            Ok(self.at(z, grad, hess, [&mut *shares, &mut *component_grads, &mut *mixture_grad]))
        });
        scratch.give(buffer);
        result
    }
    fn gradient_is_tested(&self) -> bool {
        true
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        EXACT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::densities::derivatives::{Uniform, check_derivatives};
    use natmix::target::log_p_at;

    fn three_dimensional() -> PriorTimesMixture {
        let means = [vec![1.0, 0.0, -1.0], vec![-0.5, 1.0, 0.5]];
        let sds = [vec![0.5, 1.0, 2.0], vec![1.5, 0.7, 1.0]];
        PriorTimesMixture::new(2.0, &[0.25, 0.75], &means, &sds).unwrap()
    }

    #[test]
    fn derivatives() {
        check_derivatives(&three_dimensional(), &Uniform(6).points(20, 3, 2.0), 1e-3);
        check_derivatives(&PriorTimesMixture::two_wide(), &Uniform(7).points(20, 1, 4.0), 1e-3);
        check_derivatives(&PriorTimesMixture::two_narrow(), &Uniform(8).points(20, 1, 4.0), 1e-4);
    }

    #[test]
    fn density_is_evidence_times_posterior() {
        for target in [three_dimensional(), PriorTimesMixture::two_wide(), PriorTimesMixture::two_narrow()] {
            let (weights, means, sds) = target.posterior();
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-14);
            for z in Uniform(9).points(10, target.dim(), 3.0).chunks_exact(target.dim()) {
                let density: f64 = (0..weights.len())
                    .map(|k| {
                        let coordinates = z.iter().zip(&means[k]).zip(&sds[k]);
                        weights[k] * coordinates.map(|((z, m), &sd)| log_normal(z - m, sd)).sum::<f64>().exp()
                    })
                    .sum();
                let expected = target.log_evidence() + density.ln();
                assert!((log_p_at(&target, z).unwrap() - expected).abs() < 1e-10, "{z:?}");
            }
        }
    }

    #[test]
    fn evidence_by_quadrature() {
        for target in [PriorTimesMixture::two_wide(), PriorTimesMixture::two_narrow()] {
            let h = 0.01;
            let at = |i: i32| log_p_at(&target, &[h * f64::from(i)]).unwrap().exp();
            let integral: f64 = (-2000..=2000).map(|i| h * at(i)).sum();
            assert!((integral.ln() - target.log_evidence()).abs() < 1e-12);
        }
    }

    #[test]
    fn published_figures() {
        let target = PriorTimesMixture::two_wide();
        let (weights, ..) = target.posterior();
        assert!((target.log_evidence() + 3.2456).abs() < 5e-5);
        assert!((weights[0] - 0.4004).abs() < 5e-5 && (weights[1] - 0.5996).abs() < 5e-5);
    }

    #[test]
    fn bad_input_is_refused() {
        let row = [vec![1.0]];
        assert!(PriorTimesMixture::new(0.0, &[1.0], &row, &row).is_err());
        assert!(PriorTimesMixture::new(1.0, &[0.5], &row, &row).is_err());
        assert!(PriorTimesMixture::new(1.0, &[1.0], &row, &[vec![-1.0]]).is_err());
        assert!(PriorTimesMixture::new(1.0, &[1.0], &row, &[vec![1.0, 1.0]]).is_err());
        assert!(PriorTimesMixture::new(1.0, &[1.0], &[vec![]], &[vec![]]).is_err());
    }
}
