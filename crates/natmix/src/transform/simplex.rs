//! Probabilities: `s` positive entries that sum to one, by breaking a stick with `s - 1` coordinates.
//!
//! Break `a` takes the share `u_a = sigmoid(z_a - log r_a)` of what is left, where `r_a = s - 1 - a` entries
//! are still to come, so that `z = 0` is the uniform point:
//!
//! - `log x_a = log u_a + sum_{j<a} log(1 - u_j)`, and `1 - u_{s-1} = 0`: the last entry takes the rest;
//! - `dx_a/dz_a = x_a (1 - u_a)` and `dx_k/dz_a = -x_k u_a` for `k > a`;
//! - `log |det J| = sum_a log u_a + r_a log(1 - u_a)`, for `x` without its last entry; derivatives
//!   `(1 - u_a) - r_a u_a` and `-(1 + r_a) u_a (1 - u_a)`.

use super::chart::{Chart, Outside, Slopes, log_sigmoid, sigmoid};

/// How far a sum may be from one before it is an error: what text files with nine digits need.
const SUM_TOLERANCE: f64 = 1e-8;

/// The probability simplex, of the size of the slices that it is given.
#[derive(Debug)]
pub(super) struct Simplex;

/// `r_a` for a simplex with `breaks` coordinates.
fn entries_after(a: usize, breaks: usize) -> f64 {
    (breaks - a) as f64
}

impl Chart for Simplex {
    fn constrain(&self, z: &[f64], x: &mut [f64]) -> f64 {
        let (mut log_rest, mut log_jac) = (0.0, 0.0);
        for (a, z_a) in z.iter().enumerate() {
            let after = entries_after(a, z.len());
            let t = z_a - after.ln();
            let (log_share, log_left) = (log_sigmoid(t), log_sigmoid(-t));
            x[a] = (log_rest + log_share).exp();
            log_rest += log_left;
            log_jac += log_share + after * log_left;
        }
        x[z.len()] = log_rest.exp();
        log_jac
    }

    fn unconstrain(&self, x: &[f64], z: &mut [f64]) -> Result<(), Outside> {
        for (i, &x) in x.iter().enumerate() {
            Outside::check(x > 0.0 && x.is_finite(), i, || "finite and above 0".into())?;
        }
        let sum: f64 = x.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(Outside { entry: None, must: format!("of sum 1, but sums to {sum}") });
        }
        // Ratios of entries to the sum of those after them: no subtraction, and no need of an exact sum.
        let breaks = z.len();
        let mut rest = x[breaks];
        for a in (0..breaks).rev() {
            z[a] = x[a].ln() - rest.ln() + entries_after(a, breaks).ln();
            rest += x[a];
        }
        Ok(())
    }

    fn slopes(&self, z: &[f64], x: &[f64], slopes: Slopes<'_>) {
        for (a, z_a) in z.iter().enumerate() {
            let after = entries_after(a, z.len());
            let t = z_a - after.ln();
            let (share, left) = (sigmoid(t), sigmoid(-t));
            slopes.rate[a] = x[a] * left;
            slopes.bend[a] = left - share;
            slopes.share[a] = share;
            slopes.log_jac_grad[a] = left - after * share;
            slopes.log_jac_curv[a] = -(1.0 + after) * share * left;
        }
    }

    fn is_elementwise(&self) -> bool {
        false
    }

    fn pull(&self, x: &[f64], slopes: &Slopes<'_>, g: &[f64], out: &mut [f64]) {
        let breaks = out.len();
        let mut later = x[breaks] * g[breaks];
        for a in (0..breaks).rev() {
            out[a] = slopes.rate[a] * g[a] - slopes.share[a] * later;
            later += x[a] * g[a];
        }
    }

    fn mixed(&self, slopes: &Slopes<'_>, v: &[f64], a: usize, b: usize) -> f64 {
        -slopes.share[a] * v[b]
    }
}
