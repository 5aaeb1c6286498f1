//! Densities with a known evidence, for tests of chains.

use crate::family::log_sum_exp;
use crate::noise::{Noise, Purpose};
use crate::target::ClosureTarget;

/// Logs of gamma variables of this shape; normalised.
pub(crate) fn log_gammas(d: usize, shape: u32) -> ClosureTarget<'static> {
    let (log_gamma, shape) = ((1..shape).map(f64::from).product::<f64>().ln(), f64::from(shape));
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.iter_mut().zip(z).for_each(|(g, z)| *g = shape - z.exp());
        }
        z.iter().map(|z| shape * z - z.exp() - log_gamma).sum::<f64>()
    };
    ClosureTarget::new(d, density).unwrap()
}

/// Data of groups around a mean. The parameters are that mean, the log of the standard deviation of the groups, and the groups.
pub(crate) struct Groups(pub Vec<f64>);

impl Groups {
    /// So many of them.
    pub fn simulated(count: usize, seed: u64) -> Self {
        let mut data = vec![0.0; count];
        Noise::new(seed, Purpose::Check, 0, 0, 0).normals(&mut data);
        Self(data.into_iter().map(|y| 1.0 + 1.3 * y).collect())
    }

    pub fn target(&self) -> ClosureTarget<'_> {
        let data = &self.0;
        let density = move |z: &[f64], grad: Option<&mut [f64]>| {
            let (mu, log_tau, theta) = (z[0], z[1], &z[2..]);
            let precision = (-2.0 * log_tau).exp();
            let mut log_p = -0.5 * (mu / 5.0).powi(2) - 0.5 * (log_tau / 0.7).powi(2);
            let (mut by_mu, mut by_tau) = (-mu / 25.0, -log_tau / 0.49);
            let mut by_theta = vec![0.0; theta.len()];
            for ((theta, y), by_theta) in theta.iter().zip(data).zip(&mut by_theta) {
                let off = theta - mu;
                log_p -= 0.5 * off * off * precision + log_tau + 0.5 * (theta - y).powi(2);
                by_mu += off * precision;
                by_tau += off * off * precision - 1.0;
                *by_theta = -off * precision - (theta - y);
            }
            if let Some(grad) = grad {
                (grad[0], grad[1]) = (by_mu, by_tau);
                grad[2..].copy_from_slice(&by_theta);
            }
            log_p
        };
        ClosureTarget::new(data.len() + 2, density).unwrap()
    }

    /// Log of the density of log tau, and precision and mean of mu given it: the data are normal around mu with variance
    /// 1 + tau^2, and mu is normal.
    fn given(&self, log_tau: f64) -> (f64, f64, f64) {
        let n = self.0.len() as f64;
        let (sum, squares): (f64, f64) = (self.0.iter().sum(), self.0.iter().map(|y| y * y).sum());
        let variance = 1.0 + (2.0 * log_tau).exp();
        let precision = n / variance + 1.0 / 25.0;
        let fit = squares / variance - (sum / variance).powi(2) / precision;
        // Of the density above, which leaves the constants of its normal factors out.
        let constants = 0.5 * std::f64::consts::TAU.ln() * (n + 1.0) - 0.5 * precision.ln();
        let log_p = constants - 0.5 * n * variance.ln() - 0.5 * fit - 0.5 * (log_tau / 0.7).powi(2);
        (log_p, precision, sum / variance / precision)
    }

    /// By summing over log tau.
    pub fn log_evidence(&self) -> f64 {
        let steps: Vec<f64> = (-700..=700).map(|i| self.given(f64::from(i) * 0.01).0).collect();
        log_sum_exp(&steps) + 0.01f64.ln()
    }

    /// Independent draws.
    pub fn draws(&self, count: usize, seed: u64) -> Vec<f64> {
        let grid: Vec<f64> = (-700..=700).map(|i| f64::from(i) * 0.01).collect();
        let log_p: Vec<f64> = grid.iter().map(|&log_tau| self.given(log_tau).0).collect();
        let whole = log_sum_exp(&log_p);
        let mut noise = Noise::new(seed, Purpose::Check, 2, 0, 0);
        let mut draws = Vec::with_capacity(count * (self.0.len() + 2));
        for _ in 0..count {
            let mut left = noise.uniform();
            let beyond = log_p.iter().position(|log_p| {
                left -= (log_p - whole).exp();
                left < 0.0
            });
            let log_tau = beyond.map_or(7.0, |at| grid[at]) + 0.01 * (noise.uniform() - 0.5);
            let (_, precision, mean) = self.given(log_tau);
            let mut normals = vec![0.0; self.0.len() + 1];
            noise.normals(&mut normals);
            let mu = mean + normals[0] / precision.sqrt();
            draws.extend([mu, log_tau]);
            let prior = (-2.0 * log_tau).exp();
            let theta = |(y, normal): (&f64, &f64)| (y + prior * mu) / (1.0 + prior) + normal / (1.0 + prior).sqrt();
            draws.extend(self.0.iter().zip(&normals[1..]).map(theta));
        }
        draws
    }
}
