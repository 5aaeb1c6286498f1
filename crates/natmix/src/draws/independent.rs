//! Independent standard normals.

use crate::noise::Noise;

pub(super) fn fill(eps: &mut [f64], weights: &mut [f64], noise: &mut Noise) {
    noise.normals(eps);
    weights.fill(1.0);
}
