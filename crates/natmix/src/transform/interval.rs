//! Intervals: `x = low + (high - low) s(z)`, `s(z) = 1 / (1 + exp(-z))`.
//!
//! With `c = s(-z) = 1 - s`: `dx/dz = (high - low) s c`, `d2x/dz2 = (c - s) dx/dz`,
//! `log |dx/dz| = log(high - low) + log s + log c`, whose derivatives are `c - s` and `-2 s c`.

use super::chart::{Chart, Outside, Slopes, log_sigmoid, sigmoid};

/// The values between two bounds.
#[derive(Debug)]
pub(super) struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Chart for Interval {
    fn constrain(&self, z: &[f64], x: &mut [f64]) -> f64 {
        let width = self.high - self.low;
        let mut log_jac = z.len() as f64 * width.ln();
        for (x, &z) in x.iter_mut().zip(z) {
            // Counted from the nearer end, which keeps the digits of the distance to it.
            *x = if z < 0.0 { self.low + width * sigmoid(z) } else { self.high - width * sigmoid(-z) };
            log_jac += log_sigmoid(z) + log_sigmoid(-z);
        }
        log_jac
    }

    fn unconstrain(&self, x: &[f64], z: &mut [f64]) -> Result<(), Outside> {
        let Self { low, high } = *self;
        for (i, (&x, z)) in x.iter().zip(z).enumerate() {
            Outside::check(x > low && x < high, i, || format!("between {low} and {high}"))?;
            *z = (x - low).ln() - (high - x).ln();
        }
        Ok(())
    }

    fn slopes(&self, z: &[f64], _x: &[f64], slopes: Slopes<'_>) {
        for (a, &z) in z.iter().enumerate() {
            let (s, c) = (sigmoid(z), sigmoid(-z));
            slopes.rate[a] = (self.high - self.low) * s * c;
            slopes.bend[a] = c - s;
            slopes.log_jac_grad[a] = c - s;
            slopes.log_jac_curv[a] = -2.0 * s * c;
        }
    }
}
