//! From the outputs of a network to log likelihoods, and their derivatives with respect to the outputs.
//!
//! | likelihood | outputs | `log lik` | derivative in output `o` | Gauss-Newton weight |
//! |---|---|---|---|---|
//! | Bernoulli | 1 | `y e - log(1 + exp e)` | `y - s` | `s (1 - s)` |
//! | categorical | classes | `e_y - log sum exp e` | `[y = o] - p_o` | `diag p - p p'` |
//! | Gaussian | 1 | `-log sigma - (y - e)^2 / (2 sigma^2) - log(2 pi) / 2` | `(y - e) / sigma^2` | `1 / sigma^2` |
//!
//! A curvature of a row is a sum of `+- v v'` over few vectors `v`: with `c` such a vector in the space of outputs, its *seed*,
//! `v` is the result of a backward pass from `c`. The empirical Fisher has the derivative itself as its only seed; the
//! categorical Gauss-Newton matrix has `sqrt(p_o) e_o` for each class, minus `p`.

use super::real::NetworkFloat;
use natmix::Error;
use natmix::target::Curvature;
use natmix_models::prior::LOG_TAU;
use serde::{Deserialize, Serialize};

/// How outputs become probabilities of outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkLikelihood {
    /// Outcomes 0 and 1; one output, the log odds.
    Bernoulli,
    /// Outcomes `0..classes`; one output per class.
    Categorical {
        /// Number of classes.
        classes: usize,
    },
    /// Real outcomes with normal noise of unknown standard deviation.
    Gaussian,
}

impl NetworkLikelihood {
    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            NetworkLikelihood::Categorical { classes } if classes < 2 => {
                Err(Error::InvalidInput(format!("a categorical outcome needs at least 2 classes, not {classes}")))
            }
            _ => Ok(()),
        }
    }

    /// Outputs of the network.
    pub fn outputs(self) -> usize {
        match self {
            NetworkLikelihood::Categorical { classes } => classes,
            _ => 1,
        }
    }

    /// Number of parameters besides the weights: the logarithm of the noise.
    pub fn extra(self) -> usize {
        usize::from(self == NetworkLikelihood::Gaussian)
    }

    /// The name used by the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            NetworkLikelihood::Bernoulli => "bernoulli",
            NetworkLikelihood::Categorical { .. } => "categorical",
            NetworkLikelihood::Gaussian => "gaussian",
        }
    }

    /// Checks that every outcome is valid for the likelihood.
    pub fn check_outcomes(self, outcomes: impl IntoIterator<Item = f64>) -> Result<(), Error> {
        for (row, y) in outcomes.into_iter().enumerate() {
            let (good, expected) = match self {
                NetworkLikelihood::Bernoulli => (y == 0.0 || y == 1.0, "0 or 1".to_owned()),
                NetworkLikelihood::Categorical { classes } => {
                    (y >= 0.0 && y < classes as f64 && y.fract() == 0.0, format!("a class from 0 to {}", classes - 1))
                }
                NetworkLikelihood::Gaussian => (y.is_finite(), "a finite number".to_owned()),
            };
            if !good {
                return Err(Error::InvalidInput(format!("outcome: row {row} is {y}, not {expected}")));
            }
        }
        Ok(())
    }

    /// Sum of the rows' log likelihoods; writes their derivatives with respect to the outputs into `delta`, multiplied by row weights.
    /// Outputs and derivatives are stored output by output.
    pub(crate) fn evaluate<T: NetworkFloat>(
        self,
        outputs: &[T],
        delta: Option<&mut [T]>,
        rows: WeightedOutcomes<'_, T>,
        log_noise: f64,
    ) -> f64 {
        let n = rows.outcome.len();
        let mut sum = 0.0;
        let mut none = [];
        let (wanted, delta) = match delta {
            Some(delta) => (true, delta),
            None => (false, &mut none[..]),
        };
        match self {
            NetworkLikelihood::Bernoulli => {
                // One logarithm per 256 rows: their product of numbers in [1, 2] cannot overflow.
                let mut product = 1.0;
                for (r, eta) in outputs.iter().enumerate() {
                    let (eta, y, u): (f64, f64, f64) = ((*eta).into(), rows.outcome[r].into(), rows.weight(r));
                    let t = (-eta.abs()).exp();
                    sum += u * (y * eta - eta.max(0.0));
                    match rows.weights {
                        None => product *= 1.0 + t,
                        Some(_) => sum -= u * t.ln_1p(),
                    }
                    if r % 256 == 255 {
                        sum -= product.ln();
                        product = 1.0;
                    }
                    if wanted {
                        let share = 1.0 / (1.0 + t);
                        delta[r] = T::of(u * (y - if eta < 0.0 { t * share } else { share }));
                    }
                }
                sum -= product.ln();
            }
            NetworkLikelihood::Categorical { classes } => {
                for r in 0..n {
                    let u = rows.weight(r);
                    let class = Into::<f64>::into(rows.outcome[r]) as usize;
                    let (most, total) = log_sum_exp(outputs, r, n);
                    sum += u * (Into::<f64>::into(outputs[class * n + r]) - most - total.ln());
                    if wanted {
                        for o in 0..classes {
                            let p = (Into::<f64>::into(outputs[o * n + r]) - most).exp() / total;
                            delta[o * n + r] = T::of(u * (f64::from(u8::from(o == class)) - p));
                        }
                    }
                }
            }
            NetworkLikelihood::Gaussian => {
                let prec = (-2.0 * log_noise).exp();
                for (r, eta) in outputs.iter().enumerate() {
                    let (u, residual) = (rows.weight(r), Into::<f64>::into(rows.outcome[r]) - Into::<f64>::into(*eta));
                    sum -= u * (0.5 * LOG_TAU + log_noise + 0.5 * prec * residual * residual);
                    if wanted {
                        delta[r] = T::of(u * prec * residual);
                    }
                }
            }
        }
        sum
    }

    /// Derivative of the log likelihood of row `r` with respect to the logarithm of the noise.
    pub(crate) fn by_noise<T: NetworkFloat>(
        self,
        outputs: &[T],
        rows: WeightedOutcomes<'_, T>,
        log_noise: f64,
        r: usize,
    ) -> f64 {
        let residual = Into::<f64>::into(rows.outcome[r]) - Into::<f64>::into(outputs[r]);
        (-2.0 * log_noise).exp() * residual * residual - 1.0
    }

    /// Number of seeds of a curvature.
    pub(crate) fn seeds(self, kind: Curvature) -> usize {
        match (self, kind) {
            (NetworkLikelihood::Categorical { classes }, Curvature::GaussNewton) => classes + 1,
            _ => 1,
        }
    }

    /// Writes a seed of every row, multiplied by the square root of its weight; returns the sign of its term.
    pub(crate) fn seed(
        self,
        kind: Curvature,
        index: usize,
        outputs: &[f64],
        seed: &mut [f64],
        rows: WeightedOutcomes<'_, f64>,
        log_noise: f64,
    ) -> f64 {
        let n = rows.outcome.len();
        if kind == Curvature::EmpiricalFisher {
            // A row of weight u has u equal gradients.
            self.evaluate(outputs, Some(seed), WeightedOutcomes { weights: None, ..rows }, log_noise);
            for (at, seed) in seed.iter_mut().enumerate() {
                *seed *= rows.weight(at % n).sqrt();
            }
            return 1.0;
        }
        for r in 0..n {
            let root = rows.weight(r).sqrt();
            match self {
                NetworkLikelihood::Bernoulli => {
                    let (_, s) = logistic(outputs[r]);
                    seed[r] = root * (s * (1.0 - s)).sqrt();
                }
                NetworkLikelihood::Gaussian => seed[r] = root * (-log_noise).exp(),
                NetworkLikelihood::Categorical { classes } => {
                    let (most, total) = log_sum_exp(outputs, r, n);
                    for o in 0..classes {
                        let p = (outputs[o * n + r] - most).exp() / total;
                        seed[o * n + r] = match index {
                            _ if index == classes => root * p,
                            _ if index == o => root * p.sqrt(),
                            _ => 0.0,
                        };
                    }
                }
            }
        }
        match self {
            NetworkLikelihood::Categorical { classes } if index == classes => -1.0,
            _ => 1.0,
        }
    }
}

/// The outcomes of some rows, and how often each row counts.
#[derive(Clone, Copy)]
pub(crate) struct WeightedOutcomes<'a, T> {
    pub outcome: &'a [T],
    pub weights: Option<&'a [f64]>,
}

impl<T> WeightedOutcomes<'_, T> {
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row])
    }
}

/// `log(1 + exp eta)` and `1 / (1 + exp -eta)`, without overflow.
pub(crate) fn logistic(eta: f64) -> (f64, f64) {
    let t = (-eta.abs()).exp();
    let share = 1.0 / (1.0 + t);
    (eta.max(0.0) + t.ln_1p(), if eta < 0.0 { t * share } else { share })
}

/// The largest output of row `r` of `n`, and the sum of the exponentials of the differences from it.
pub(crate) fn log_sum_exp<T: NetworkFloat>(outputs: &[T], r: usize, n: usize) -> (f64, f64) {
    let of_row = || outputs[r..].iter().step_by(n).map(|x| Into::<f64>::into(*x));
    let most = of_row().fold(f64::NEG_INFINITY, f64::max);
    (most, of_row().map(|x| (x - most).exp()).sum())
}
