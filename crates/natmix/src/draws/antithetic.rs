//! Pairs `(eps, -eps)`: odd functions, and with them the gradient of a quadratic, have no noise.

use crate::noise::Noise;

pub(super) fn fill(eps: &mut [f64], weights: &mut [f64], dim: usize, noise: &mut Noise) {
    for pair in eps.chunks_mut(2 * dim) {
        let (plus, minus) = pair.split_at_mut(dim);
        noise.normals(plus);
        mirror(plus, minus);
    }
    weights.fill(1.0);
}

pub(super) fn mirror(plus: &[f64], minus: &mut [f64]) {
    for (minus, plus) in minus.iter_mut().zip(plus) {
        *minus = -plus;
    }
}
