//! What a constraint must supply: a smooth map `x(z)` of one block and its derivatives.
//!
//! For every map here `dx_k/dz_a = 0` for `a > k`, and products with its Jacobian `J` cost `O(size)`; no
//! Jacobian is ever formed. With `v = J' g` the second-order term `sum_k g_k d2x_k/dz_a dz_b` is
//! `bend_a v_a` on the diagonal and, for a simplex alone, `-share_a v_b` off it (`a < b`).

use std::fmt::Debug;
use std::ops::Range;

/// The map from unconstrained coordinates `z` to the constrained entries `x` of one block.
pub(super) trait Chart: Debug + Send + Sync {
    /// Writes `x(z)` and returns `log |det dx/dz|`.
    fn constrain(&self, z: &[f64], x: &mut [f64]) -> f64;

    /// Writes the `z` that maps to `x`.
    fn unconstrain(&self, x: &[f64], z: &mut [f64]) -> Result<(), Outside>;

    /// Writes the derivatives at `z`, where `x = x(z)`.
    fn slopes(&self, z: &[f64], x: &[f64], slopes: Slopes<'_>);

    /// Whether every entry depends on its own coordinate only, so that `J` is diagonal.
    fn is_elementwise(&self) -> bool {
        true
    }

    /// Writes `J' g`.
    fn pull(&self, _x: &[f64], slopes: &Slopes<'_>, g: &[f64], out: &mut [f64]) {
        for ((out, rate), g) in out.iter_mut().zip(&*slopes.rate).zip(g) {
            *out = rate * g;
        }
    }

    /// The mixed derivative `sum_k g_k d2x_k/dz_a dz_b` for `a < b`, given `v = J' g`.
    fn mixed(&self, _slopes: &Slopes<'_>, _v: &[f64], _a: usize, _b: usize) -> f64 {
        0.0
    }
}

/// Why a block of values has no unconstrained counterpart.
pub(super) struct Outside {
    /// The entry at fault, or `None` where it is the block as a whole.
    pub entry: Option<usize>,
    /// What it must be.
    pub must: String,
}

impl Outside {
    /// Checks one entry.
    pub fn check(inside: bool, entry: usize, must: impl FnOnce() -> String) -> Result<(), Self> {
        if inside { Ok(()) } else { Err(Self { entry: Some(entry), must: must() }) }
    }
}

/// Derivatives at a point, one number per coordinate in each slice.
pub(super) struct Slopes<'a> {
    /// `dx_a/dz_a`.
    pub rate: &'a mut [f64],
    /// The factor of `v_a` in the second-order term.
    pub bend: &'a mut [f64],
    /// The share of the stick that a simplex breaks off; unused by the others.
    pub share: &'a mut [f64],
    /// Gradient of `log |det J|`.
    pub log_jac_grad: &'a mut [f64],
    /// Diagonal of the Hessian of `log |det J|`; its other entries are zero.
    pub log_jac_curv: &'a mut [f64],
}

impl<'a> Slopes<'a> {
    /// Numbers to reserve for each coordinate.
    pub const NUMBERS: usize = 5;

    /// Divides a buffer of [`Slopes::NUMBERS`] numbers per coordinate.
    pub fn split(buffer: &'a mut [f64]) -> Self {
        let dim = buffer.len() / Self::NUMBERS;
        let (rate, rest) = buffer.split_at_mut(dim);
        let (bend, rest) = rest.split_at_mut(dim);
        let (share, rest) = rest.split_at_mut(dim);
        let (log_jac_grad, log_jac_curv) = rest.split_at_mut(dim);
        Self { rate, bend, share, log_jac_grad, log_jac_curv }
    }

    /// The part that belongs to some of the coordinates.
    pub fn of(&mut self, coords: Range<usize>) -> Slopes<'_> {
        Slopes {
            rate: &mut self.rate[coords.clone()],
            bend: &mut self.bend[coords.clone()],
            share: &mut self.share[coords.clone()],
            log_jac_grad: &mut self.log_jac_grad[coords.clone()],
            log_jac_curv: &mut self.log_jac_curv[coords],
        }
    }
}

/// No constraint: `x = z`.
#[derive(Debug)]
pub(super) struct Free;

impl Chart for Free {
    fn constrain(&self, z: &[f64], x: &mut [f64]) -> f64 {
        x.copy_from_slice(z);
        0.0
    }

    fn unconstrain(&self, x: &[f64], z: &mut [f64]) -> Result<(), Outside> {
        for (i, (&x, z)) in x.iter().zip(z).enumerate() {
            Outside::check(x.is_finite(), i, || "finite".into())?;
            *z = x;
        }
        Ok(())
    }

    fn slopes(&self, _z: &[f64], _x: &[f64], slopes: Slopes<'_>) {
        slopes.rate.fill(1.0);
        slopes.bend.fill(0.0);
        slopes.log_jac_grad.fill(0.0);
        slopes.log_jac_curv.fill(0.0);
    }
}

/// `1 / (1 + exp(-t))`, with full relative precision however small it is.
pub(super) fn sigmoid(t: f64) -> f64 {
    let e = (-t.abs()).exp();
    if t < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// `log sigmoid(t)`.
pub(super) fn log_sigmoid(t: f64) -> f64 {
    t.min(0.0) - (-t.abs()).exp().ln_1p()
}
