//! Half lines: `x = bound + exp(z)` above a bound (0 for positive values), `x = bound - exp(z)` below one.
//!
//! `dx/dz = +-exp(z)`, `d2x/dz2 = dx/dz`, `log |dx/dz| = z`.

use super::chart::{Chart, Outside, Slopes};

/// The values on one side of a bound.
#[derive(Debug)]
pub(super) struct HalfLine {
    pub bound: f64,
    /// 1 for the values above the bound, -1 for those below it.
    pub sign: f64,
}

impl Chart for HalfLine {
    fn constrain(&self, z: &[f64], x: &mut [f64]) -> f64 {
        for (x, z) in x.iter_mut().zip(z) {
            *x = self.bound + self.sign * z.exp();
        }
        z.iter().sum()
    }

    fn unconstrain(&self, x: &[f64], z: &mut [f64]) -> Result<(), Outside> {
        for (i, (x, z)) in x.iter().zip(z).enumerate() {
            let distance = self.sign * (x - self.bound);
            let side = if self.sign > 0.0 { "above" } else { "below" };
            Outside::check(distance > 0.0 && distance.is_finite(), i, || format!("finite and {side} {}", self.bound))?;
            *z = distance.ln();
        }
        Ok(())
    }

    fn slopes(&self, z: &[f64], _x: &[f64], slopes: Slopes<'_>) {
        // From z, not from x - bound, which has no digits left near the bound.
        for (rate, z) in slopes.rate.iter_mut().zip(z) {
            *rate = self.sign * z.exp();
        }
        slopes.bend.fill(1.0);
        slopes.log_jac_grad.fill(1.0);
        slopes.log_jac_curv.fill(0.0);
    }
}
