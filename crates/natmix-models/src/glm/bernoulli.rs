//! Logistic terms of a block of rows, written so that the compiler can vectorise the loops.

use crate::observations::RowBlock;
use crate::vector_math::exp_of_negative;
use pulp::{Simd, WithSimd};

/// Number of factors `1 + exp(-|eta|) <= 2` that are multiplied before one logarithm is taken.
const PRODUCT: usize = 64;

/// [`bernoulli`] compiled for the widest vector instructions available.
pub(super) struct Bernoulli<'a, 'b>(pub &'a mut [f64], pub &'a mut [f64], pub &'a RowBlock<'b>);

impl WithSimd for Bernoulli<'_, '_> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        bernoulli(self.0, self.1, self.2)
    }
}

/// `sum_r u_r (y eta - log(1 + exp eta))`, slopes `y - sigmoid(eta)` and curvatures `sigmoid (1 - sigmoid)`.
#[inline(always)]
fn bernoulli(eta: &mut [f64], curv: &mut [f64], rows: &RowBlock<'_>) -> f64 {
    let mut value = 0.0;
    let mut small = [0.0; PRODUCT];
    for (block, eta) in eta.chunks_mut(PRODUCT).enumerate() {
        let first = block * PRODUCT;
        let y = &rows.outcome[first..first + eta.len()];
        let small = &mut small[..eta.len()];
        for (t, eta) in small.iter_mut().zip(eta.iter()) {
            *t = exp_of_negative(-eta.abs());
        }
        match rows.weights {
            None => {
                // One logarithm for many rows: the product of numbers in [1, 2] cannot overflow.
                let (mut linear, mut product) = (0.0, [1.0; 8]);
                for (at, ((t, eta), y)) in small.iter().zip(eta.iter()).zip(y).enumerate() {
                    linear += y * eta - eta.max(0.0);
                    product[at % 8] *= 1.0 + t;
                }
                value += linear - product.iter().product::<f64>().ln();
            }
            Some(weights) => {
                for (((t, eta), y), u) in small.iter().zip(eta.iter()).zip(y).zip(&weights[first..]) {
                    value += u * (y * eta - eta.max(0.0) - t.ln_1p());
                }
            }
        }
        if let Some(curv) = curv.get_mut(first..first + eta.len()) {
            for (curv, t) in curv.iter_mut().zip(small.iter()) {
                *curv = t / ((1.0 + t) * (1.0 + t));
            }
        }
        for ((eta, t), y) in eta.iter_mut().zip(small.iter()).zip(y) {
            let sigmoid = (if *eta >= 0.0 { 1.0 } else { *t }) / (1.0 + t);
            *eta = y - sigmoid;
        }
    }
    value
}
