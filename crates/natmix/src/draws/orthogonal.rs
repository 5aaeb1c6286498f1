//! Pairs along the columns of random orthogonal matrices, each with a chi(d) length: marginally normal,
//! jointly spread out.

use super::antithetic::mirror;
use crate::linalg;
use crate::noise::Noise;
use crate::workspace::Scratch;

/// Dimension up to which Gram-Schmidt, run twice, beats a blocked factorisation.
const SMALL: usize = 24;

pub(super) fn fill(eps: &mut [f64], weights: &mut [f64], dim: usize, noise: &mut Noise, scratch: &mut Scratch) {
    directions(eps, dim, noise, scratch);
    for pair in eps.chunks_mut(2 * dim) {
        let (plus, minus) = pair.split_at_mut(dim);
        let length = noise.chi(dim);
        plus.iter_mut().for_each(|x| *x *= length);
        mirror(plus, minus);
    }
    weights.fill(1.0);
}

/// Writes orthonormal directions, uniform on the sphere, to every other point of `eps`.
pub(super) fn directions(eps: &mut [f64], dim: usize, noise: &mut Noise, scratch: &mut Scratch) {
    let count = eps.len() / (2 * dim);
    let mut frame = scratch.take(count * dim);
    noise.normals(&mut frame);
    if dim <= SMALL || count == 1 {
        gram_schmidt(&mut frame, dim);
    } else {
        // frame = Q R, so Q' solves R' Q' = frame'; a positive diagonal of R makes Q uniform.
        let mut lower = scratch.take(count * count);
        let mut work = scratch.take(count * dim);
        work.copy_from_slice(&frame);
        linalg::lower_from_stack(&mut lower, &mut work, dim, count, &mut scratch.memory);
        for (i, column) in frame.chunks_exact(dim).enumerate() {
            for (j, x) in column.iter().enumerate() {
                work[j * count + i] = *x;
            }
        }
        linalg::solve_lower(&lower, &mut work, count, dim);
        for (i, column) in frame.chunks_exact_mut(dim).enumerate() {
            for (j, x) in column.iter_mut().enumerate() {
                *x = work[j * count + i];
            }
        }
        scratch.give(lower);
        scratch.give(work);
    }
    for (pair, direction) in eps.chunks_mut(2 * dim).zip(frame.chunks_exact(dim)) {
        pair[..dim].copy_from_slice(direction);
    }
    scratch.give(frame);
}

/// Orthonormalises the columns. Twice is enough for full accuracy.
fn gram_schmidt(frame: &mut [f64], dim: usize) {
    for i in 0..frame.len() / dim {
        let (done, rest) = frame.split_at_mut(i * dim);
        let column = &mut rest[..dim];
        for _ in 0..2 {
            for earlier in done.chunks_exact(dim) {
                let dot: f64 = earlier.iter().zip(column.iter()).map(|(a, b)| a * b).sum();
                column.iter_mut().zip(earlier).for_each(|(x, e)| *x -= dot * e);
            }
            let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
            column.iter_mut().for_each(|x| *x /= norm);
        }
    }
}
