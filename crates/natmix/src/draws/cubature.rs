//! Pairs along random orthogonal frames at radii that integrate every cubic exactly.
//!
//! A whole frame with radius `sqrt(d)` and equal weights has the mean and covariance of the normal. With
//! radius `r ~ chi(d+2)`, weight `d / r^2` and the rest on the centre the rule is unbiased as well (Genz and
//! Monahan 1998).

use super::Radius;
use super::antithetic::mirror;
use super::orthogonal::directions;
use crate::noise::Noise;
use crate::workspace::Scratch;

pub(super) fn fill(
    eps: &mut [f64],
    weights: &mut [f64],
    dim: usize,
    radius: Radius,
    noise: &mut Noise,
    scratch: &mut Scratch,
) {
    directions(eps, dim, noise, scratch);
    let squared = dim as f64;
    for (pair, weights) in eps.chunks_mut(2 * dim).zip(weights.chunks_mut(2)) {
        let (plus, minus) = pair.split_at_mut(dim);
        let r = match radius {
            Radius::Fixed => squared.sqrt(),
            Radius::Random => noise.chi(dim + 2),
        };
        plus.iter_mut().for_each(|x| *x *= r);
        mirror(plus, minus);
        weights.fill(match radius {
            Radius::Fixed => 1.0,
            Radius::Random => squared / (r * r),
        });
    }
}
