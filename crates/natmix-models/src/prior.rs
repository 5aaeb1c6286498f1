//! Independent Gaussian priors `N(0, sd_j^2)` on coefficients: the first part of every evaluation of a regression.
//!
//! ```
//! use natmix_models::prior::spread;
//! assert_eq!(spread(&[2.5], 3).unwrap(), [2.5; 3]);
//! assert!(spread(&[2.5, -1.0], 2).is_err());
//! ```

use natmix::Error;
use natmix::matrix::symmetrise;
use natmix::target::{CurvatureShape, EvalOut, Points, TargetError};

/// `log(2 pi)`.
pub const LOG_TAU: f64 = 1.837_877_066_409_345_5;

/// Whether `sd` can be a standard deviation: its square must not overflow or underflow.
pub fn usable_sd(sd: f64) -> bool {
    sd > 0.0 && (sd * sd).is_normal() && (sd * sd).recip().is_normal()
}

/// Standard deviations from one number for all of `count` coefficients, or one per coefficient.
pub fn spread(prior_sd: &[f64], count: usize) -> Result<Vec<f64>, Error> {
    let sd = if prior_sd.len() == 1 { vec![prior_sd[0]; count] } else { prior_sd.to_vec() };
    if sd.len() != count || sd.iter().any(|sd| !usable_sd(*sd)) {
        let problem = format!("prior sd needs 1 or {count} positive numbers with finite squares");
        return Err(Error::InvalidInput(problem));
    }
    Ok(sd)
}

/// The prior of the first coordinates of a point; others have a prior of their own elsewhere.
#[derive(Clone, Debug)]
pub struct Prior {
    prec: Vec<f64>,
    constant: f64,
}

impl Prior {
    /// From standard deviations that [`spread`] has checked.
    pub fn new(sd: &[f64]) -> Self {
        Self {
            prec: sd.iter().map(|sd| (sd * sd).recip()).collect(),
            constant: sd.iter().map(|sd| -sd.ln() - 0.5 * LOG_TAU).sum(),
        }
    }

    /// The standard deviations.
    pub(crate) fn sd(&self) -> Vec<f64> {
        self.prec.iter().map(|prec| prec.sqrt().recip()).collect()
    }

    /// Number of coordinates covered.
    pub fn dim(&self) -> usize {
        self.prec.len()
    }

    /// Evaluates a posterior: the prior, and what `add_likelihood` adds to it. The likelihood needs to fill one triangle of
    /// the sums of full matrices only; the other one is copied from it.
    pub fn with_likelihood(
        &self,
        z: Points<'_>,
        mut out: EvalOut<'_>,
        add_likelihood: impl FnOnce(&mut EvalOut<'_>) -> Result<(), TargetError>,
    ) -> Result<(), TargetError> {
        self.start(z, &mut out);
        add_likelihood(&mut out)?;
        if let Some(curv) = out.curv.filter(|curv| curv.shape == CurvatureShape::Full) {
            let d = z.dim();
            curv.sums.chunks_exact_mut(d * d).for_each(|sum| symmetrise(sum, d));
        }
        Ok(())
    }

    /// Overwrites all results with those of the prior, which is not rescaled for minibatches.
    pub fn start(&self, z: Points<'_>, out: &mut EvalOut<'_>) {
        let (d, n) = (z.dim(), z.len());
        for (log_p, z) in out.log_p.iter_mut().zip(z.iter()) {
            let quad: f64 = z.iter().zip(&self.prec).map(|(z, prec)| prec * z * z).sum();
            *log_p = self.constant - 0.5 * quad;
        }
        if let Some(grad) = &mut out.grad {
            grad.fill(0.0);
            for (grad, z) in grad.chunks_exact_mut(d).zip(z.iter()) {
                for ((g, z), prec) in grad.iter_mut().zip(z).zip(&self.prec) {
                    *g = -prec * z;
                }
            }
        }
        if let Some(curv) = &mut out.curv {
            curv.sums.fill(0.0);
            let step = if curv.shape == CurvatureShape::Full { d + 1 } else { 1 };
            // Without points there are no sums.
            let sums = curv.sums.chunks_exact_mut(curv.shape.len(d)).zip(curv.weights.chunks_exact(n.max(1)));
            for (sum, weights) in sums {
                let total: f64 = weights.iter().sum();
                sum.iter_mut().step_by(step).zip(&self.prec).for_each(|(s, prec)| *s = -prec * total);
            }
        }
    }
}
