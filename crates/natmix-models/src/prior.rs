//! Independent Gaussian priors `N(0, sd_j^2)` on coefficients: where every evaluation starts.

use natmix::Error;
use natmix::target::{EvalOut, Points, Shape};

pub(crate) const LOG_TAU: f64 = 1.837_877_066_409_345_5;

/// A square that over- or underflows is no variance.
pub(crate) fn usable_sd(sd: f64) -> bool {
    sd > 0.0 && (sd * sd).is_normal() && (sd * sd).recip().is_normal()
}

/// One number for all of `count` coefficients, or one for each.
pub(crate) fn spread(prior_sd: &[f64], count: usize) -> Result<Vec<f64>, Error> {
    let sd = if prior_sd.len() == 1 { vec![prior_sd[0]; count] } else { prior_sd.to_vec() };
    if sd.len() != count || sd.iter().any(|sd| !usable_sd(*sd)) {
        let problem = format!("prior sd needs 1 or {count} positive numbers with finite squares");
        return Err(Error::InvalidInput(problem));
    }
    Ok(sd)
}

/// The prior of the first coordinates of a point; others have a prior elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Prior {
    prec: Vec<f64>,
    constant: f64,
}

impl Prior {
    pub fn new(sd: &[f64]) -> Self {
        Self {
            prec: sd.iter().map(|sd| (sd * sd).recip()).collect(),
            constant: sd.iter().map(|sd| -sd.ln() - 0.5 * LOG_TAU).sum(),
        }
    }

    /// Overwrites all results with those of the prior, which no minibatch rescales.
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
            let step = if curv.shape == Shape::Full { d + 1 } else { 1 };
            let sums = curv.sums.chunks_exact_mut(curv.shape.len(d)).zip(curv.weights.chunks_exact(n));
            for (sum, weights) in sums {
                let total: f64 = weights.iter().sum();
                sum.iter_mut().step_by(step).zip(&self.prec).for_each(|(s, prec)| *s = -prec * total);
            }
        }
    }
}
