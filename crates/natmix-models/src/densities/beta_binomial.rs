//! Beta-binomial counts: the mixture example of Lin, Khan and Schmidt (2019).
//!
//! City `i` has `y_i` cases among `n_i`; rates vary between cities as a beta distribution of mean `m` and concentration `K`,
//! with the prior `1 / (m (1 - m) (1 + K)^2)`. Over `z = (logit m, log K)`, with `a = K m`, `b = K (1 - m)` and
//! `R(a, n) = log Gamma(a + n) - log Gamma(a)`, up to a constant,
//!
//! ```text
//! log p = z_1 - 2 log(1 + exp z_1) + sum_i R(a, y_i) + R(b, n_i - y_i) - R(K, n_i)
//! ```
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::densities::BetaBinomial;
//!
//! // One case of two: R(a, 1) = log a, R(K, 2) = log K + log(K + 1), and m = 1/2, K = 1 is z = 0.
//! let target = BetaBinomial::new(&[2.0], &[1.0]).unwrap();
//! assert!((log_p_at(&target, &[0.0, 0.0]).unwrap() - (1.0_f64 / 4.0 * 0.25 / 2.0).ln()).abs() < 1e-12);
//! ```

use super::check;
use crate::gamma_ratios::rising;
use natmix::Error;
use natmix::target::pointwise::Hessian;

/// The posterior of rates that vary between groups. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct BetaBinomial {
    /// Cases and numbers at risk.
    groups: Vec<(f64, f64)>,
}

impl BetaBinomial {
    /// Takes the numbers at risk and the numbers of cases, group by group.
    pub fn new(at_risk: &[f64], cases: &[f64]) -> Result<Self, Error> {
        check::positive("at_risk", at_risk, at_risk.len().max(1))?;
        check::finite("cases", cases, at_risk.len())?;
        let groups: Vec<(f64, f64)> = cases.iter().copied().zip(at_risk.iter().copied()).collect();
        match groups.iter().find(|(y, n)| !(0.0..=*n).contains(y)) {
            Some((y, n)) => check::invalid(format!("{y} cases among {n}, expected none to {n}")),
            None => Ok(Self { groups }),
        }
    }

    fn at(&self, z: &[f64], grad: Option<&mut [f64]>, hess: Option<&mut Hessian<'_>>) -> f64 {
        let (m, rest, share) = (logistic(z[0]), logistic(-z[0]), logistic(z[1]));
        let total = z[1].exp();
        let (a, b) = (total * m, total * rest);
        let mut sums = [[0.0; 3]; 3];
        for &(y, n) in &self.groups {
            for (sum, (start, steps)) in sums.iter_mut().zip([(a, y), (b, n - y), (total, n)]) {
                sum.iter_mut().zip(rising(start, steps)).for_each(|(sum, x)| *sum += x);
            }
        }
        let [by_a, by_b, by_total] = sums;
        let width = total * m * rest;
        if let Some(grad) = grad {
            grad[0] = width * (by_a[1] - by_b[1]);
            grad[1] = 1.0 - 2.0 * share + a * by_a[1] + b * by_b[1] - total * by_total[1];
        }
        if let Some(hess) = hess {
            let difference = width * (by_a[1] - by_b[1]);
            hess.add(0, 0, width * width * (by_a[2] + by_b[2]) + (rest - m) * difference);
            hess.add(0, 1, width * (a * by_a[2] - b * by_b[2]) + difference);
            let twice = |x: f64, by: [f64; 3]| x * by[1] + x * x * by[2];
            hess.add(1, 1, twice(a, by_a) + twice(b, by_b) - twice(total, by_total) - 2.0 * share * (1.0 - share));
        }
        z[1] - 2.0 * softplus(z[1]) + by_a[0] + by_b[0] - by_total[0]
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

pointwise_target!(BetaBinomial, |_density| 2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::densities::derivatives::{Uniform, check_derivatives};

    #[test]
    fn derivatives() {
        let target = BetaBinomial::new(&[10.0, 1000.0, 40.0], &[0.0, 3.0, 40.0]).unwrap();
        check_derivatives(&target, &Uniform(1).points(20, 2, 6.0), 1e-3);
    }

    #[test]
    fn impossible_counts_are_errors() {
        for (at_risk, cases) in
            [(&[5.0][..], &[6.0][..]), (&[5.0], &[-1.0]), (&[5.0], &[]), (&[0.0], &[0.0]), (&[], &[])]
        {
            assert!(BetaBinomial::new(at_risk, cases).is_err(), "{at_risk:?} {cases:?}");
        }
        assert!(BetaBinomial::new(&[5.0], &[f64::NAN]).is_err());
    }
}
