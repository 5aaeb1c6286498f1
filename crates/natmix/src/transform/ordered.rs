//! Increasing values: `x_0 = z_0`, `x_a = x_{a-1} + exp(z_a)`.
//!
//! `dx_k/dz_a = exp(z_a)` for `k >= a > 0` and 1 for `a = 0`; `log |det J| = sum_{a>0} z_a`.

use super::chart::{Chart, Outside, Slopes};

/// Strictly increasing entries.
#[derive(Debug)]
pub(super) struct Ordered;

impl Chart for Ordered {
    fn constrain(&self, z: &[f64], x: &mut [f64]) -> f64 {
        x[0] = z[0];
        for a in 1..z.len() {
            x[a] = x[a - 1] + z[a].exp();
        }
        z[1..].iter().sum()
    }

    fn unconstrain(&self, x: &[f64], z: &mut [f64]) -> Result<(), Outside> {
        Outside::check(x[0].is_finite(), 0, || "finite".into())?;
        z[0] = x[0];
        for a in 1..x.len() {
            let gap = x[a] - x[a - 1];
            Outside::check(gap > 0.0 && gap.is_finite(), a, || {
                format!("finite and above the entry before it, {}", x[a - 1])
            })?;
            z[a] = gap.ln();
        }
        Ok(())
    }

    fn slopes(&self, z: &[f64], _x: &[f64], slopes: Slopes<'_>) {
        for (a, z) in z.iter().enumerate() {
            let is_gap = a > 0;
            slopes.rate[a] = if is_gap { z.exp() } else { 1.0 };
            slopes.bend[a] = f64::from(is_gap);
            slopes.log_jac_grad[a] = f64::from(is_gap);
            slopes.log_jac_curv[a] = 0.0;
        }
    }

    fn is_elementwise(&self) -> bool {
        false
    }

    fn pull(&self, _x: &[f64], slopes: &Slopes<'_>, g: &[f64], out: &mut [f64]) {
        let mut from_here_on = 0.0;
        for a in (0..out.len()).rev() {
            from_here_on += g[a];
            out[a] = slopes.rate[a] * from_here_on;
        }
    }
}
