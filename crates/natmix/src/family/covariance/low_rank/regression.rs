//! Gradient and curvature of a low-rank covariance by regression, with far fewer points than dimensions.
//!
//! In the scales `x = R (z - m)` the curvature is `diag(a) + K` with `K` of low rank. Each `a` is the slope of its own
//! coordinate of the gradient; what the present directions explain is taken off first, because along them the points lie far
//! apart. What remains of the gradients, `E = K x`, lies in the range of `K`, so its singular vectors are the directions. Half
//! of the points find them and the other half fit the curvature along them: directions chosen from the same points would
//! seem curved even where all is noise. For a quadratic target all of this is exact once `a` is, and the error of `a` is
//! proportional to `K`: a few steps converge.

use super::{LowRank, RANK};
use crate::family::Covariance;
use crate::family::covariance::CentredPoints;
use crate::lanes;
use crate::linalg::{self, Transpose};
use crate::workspace::Scratch;

/// Effective points per regressor below which fewer regressors are used.
const POINTS_PER_REGRESSOR: f64 = 2.0;
/// Most points that find directions.
const MOST_FINDING: usize = 6 * RANK;
/// Standard errors by which a curvature must differ from zero.
const CLEAR: f64 = 3.0;
/// Size of a singular value, relative to the largest, below which it is rounding.
const ROUNDING: f64 = 1e-12;

/// [`Covariance::regress`].
pub(super) fn regress(
    own: &LowRank,
    points: &CentredPoints<'_>,
    ridge: f64,
    (gradient, curvature): (&mut [f64], &mut [f64]),
    scratch: &mut Scratch,
) -> f64 {
    let CentredPoints { y, gradients, weights, mean_y, mean_gradient, .. } = *points;
    let (d, n) = (own.dim(), weights.len());
    let (diagonal, rest) = curvature.split_at_mut(d);
    let most = rest.len() / (d + 1);
    let (w, coefficients) = rest.split_at_mut(most * d);
    w.fill(0.0);
    coefficients.fill(0.0);
    let mut x = scratch.take_used(n * d);
    x.copy_from_slice(&y[..n * d]);
    own.stretch(&mut x, n, |v| v.sqrt().recip(), scratch);
    // The scaled gradients, later what is left of them, whitened.
    let mut residual = scratch.take_used(n * d);
    for ((to, g), root) in residual.chunks_exact_mut(n).zip(gradients.chunks_exact(n)).zip(&own.root) {
        to.iter_mut().zip(g).for_each(|(to, g)| *to = g / root);
    }
    slopes(own, points, &residual, ridge, diagonal, scratch);
    for ((to, x), a) in residual.chunks_exact_mut(n).zip(x.chunks_exact(n)).zip(&*diagonal) {
        to.iter_mut().zip(x).for_each(|(to, x)| *to -= a * x);
    }
    own.stretch(&mut residual, n, |v| v.sqrt().recip(), scratch);
    let found = curved_directions(own, points, &residual, ridge, (w, coefficients), scratch);

    // Back to where they were measured: gradient at the component's own mean, and the excess of the parabola.
    let mut delta = scratch.take_used(d);
    delta.copy_from_slice(mean_y);
    own.stretch_point(&mut delta, |v| v.sqrt().recip());
    let mut beyond = 0.0;
    let variance = own.stretched_diagonal(f64::recip);
    for (j, (x, a)) in x.chunks_exact(n).zip(diagonal.iter_mut()).enumerate() {
        let square: f64 = x.iter().zip(weights).map(|(x, w)| w * x * x).sum();
        beyond += 0.5 * *a * (square + delta[j] * delta[j] - variance[j]);
        gradient[j] = mean_gradient[j] - *a * own.root[j] * delta[j];
        *a *= own.prec[j];
    }
    let mut along = scratch.take_used(n);
    for (q, c) in w.chunks_exact_mut(d).zip(&*coefficients).take(found) {
        linalg::product(&mut along, false, 1.0, y, Transpose::No, q, (n, d, 1));
        let (mean, square) = (super::dot(q, mean_y), along.iter().zip(weights).map(|(x, w)| w * x * x).sum::<f64>());
        beyond += 0.5 * c * (square + mean * mean - super::dot(q, q));
        // From whitened coordinates to those of the target: L q.
        own.stretch_point(q, f64::sqrt);
        q.iter_mut().zip(&own.root).for_each(|(q, root)| *q *= root);
        gradient.iter_mut().zip(&*q).for_each(|(g, w)| *g -= c * mean * w);
    }
    for ((delta, g), root) in delta.iter().zip(gradient.iter()).zip(&own.root) {
        beyond += delta / root * g;
    }
    for buffer in [x, residual, delta, along] {
        scratch.give(buffer);
    }
    beyond
}

/// The slope of each coordinate of the scaled gradients on its own coordinate of the points, given the coordinates along the
/// present directions.
fn slopes(
    own: &LowRank,
    points: &CentredPoints<'_>,
    scaled: &[f64],
    ridge: f64,
    slopes: &mut [f64],
    scratch: &mut Scratch,
) {
    let (d, n, y) = (own.dim(), points.weights.len(), points.y);
    let affordable = (points.ess / POINTS_PER_REGRESSOR - 1.0).max(0.0) as usize;
    let mut given = own.used().min(affordable);
    // Coordinates along the directions, with their second moments.
    let mut along = scratch.take_used(n * given);
    let mut weighted = scratch.take_used(n * given);
    let mut factor = scratch.take_used(given * given);
    let (mut of_points, mut of_gradients) = (scratch.take_used(given * d), scratch.take_used(given * d));
    if given > 0 {
        linalg::product(&mut along, false, 1.0, y, Transpose::No, &own.directions, (n, d, given));
        lanes::scale(&mut weighted, &along, points.weights);
        linalg::product(&mut factor, false, 1.0, &weighted, Transpose::Yes, &along, (given, n, given));
        if linalg::cholesky(&mut factor, given, &mut scratch.memory).is_ok() {
            for (to, from) in [(&mut of_points, y), (&mut of_gradients, scaled)] {
                linalg::product(to, false, 1.0, &weighted, Transpose::Yes, from, (given, n, d));
                linalg::solve_lower(&factor, to, given, d);
            }
        } else {
            given = 0;
        }
    }
    let ridge = ridge * (1 + given) as f64 / points.ess;
    // What is left of the second moment of a standard normal coordinate.
    let left = 1.0 - given as f64 / points.ess;
    let coordinates = y.chunks_exact(n).zip(scaled.chunks_exact(n)).zip(slopes);
    for (j, ((y, g), a)) in coordinates.enumerate() {
        let (mut spread, mut slope) = (0.0, 0.0);
        for ((y, g), w) in y.iter().zip(g).zip(points.weights) {
            spread += w * y * y;
            slope += w * y * g;
        }
        if given > 0 {
            let (p, q) = (&of_points[j * given..(j + 1) * given], &of_gradients[j * given..(j + 1) * given]);
            spread -= super::dot(p, p);
            slope -= super::dot(p, q);
        }
        *a = (1.0 + ridge) * slope / left / (spread / left + ridge);
    }
    for buffer in [along, weighted, factor, of_points, of_gradients] {
        scratch.give(buffer);
    }
}

/// Whitened directions in which the residual gradients are curved, with their curvature; returns how many there are.
fn curved_directions(
    own: &LowRank,
    points: &CentredPoints<'_>,
    residual: &[f64],
    ridge: f64,
    (directions, coefficients): (&mut [f64], &mut [f64]),
    scratch: &mut Scratch,
) -> usize {
    let (d, n) = (own.dim(), points.weights.len());
    // The newest points come last. More than a few per direction would cost more than they show.
    let mut fitting = scratch.take(n);
    let mut finding = 0;
    for (i, w) in points.weights.iter().enumerate().rev().filter(|(_, w)| **w > 0.0) {
        if i % 2 == 1 || finding == MOST_FINDING { fitting[i] = *w } else { finding += 1 }
    }
    let (sum, squares) = fitting.iter().fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    let ess = if squares > 0.0 { sum * sum / squares } else { 0.0 };
    let most = ((ess / POINTS_PER_REGRESSOR) as usize).min(RANK).min(coefficients.len());
    let mut found = 0;
    if most > 0 && finding > 0 {
        let m = finding;
        let mut weighted = scratch.take_used(m * d);
        let chosen = || (0..n).filter(|&i| points.weights[i] > 0.0 && fitting[i] == 0.0);
        for (to, from) in weighted.chunks_exact_mut(m).zip(residual.chunks_exact(n)) {
            to.iter_mut().zip(chosen()).for_each(|(to, i)| *to = points.weights[i].sqrt() * from[i]);
        }
        fitting.iter_mut().for_each(|w| *w /= sum);
        let (mut gram, mut vectors, mut values) =
            (scratch.take_used(m * m), scratch.take_used(m * m), scratch.take_used(m));
        linalg::product_bt(&mut gram, false, 1.0, &weighted, &weighted, (m, d, m));
        if linalg::symmetric_eigen(&mut values, &mut vectors, &gram, m, &mut scratch.memory) {
            let largest = values[m - 1];
            found = values.iter().rev().take(most).take_while(|x| **x > ROUNDING * largest && **x > 0.0).count();
            // Ascending order: the largest come last.
            let last = &mut vectors[(m - found) * m..];
            for (vector, value) in last.chunks_exact_mut(m).zip(&values[m - found..]) {
                vector.iter_mut().for_each(|x| *x /= value.sqrt());
            }
            if found > 0 {
                linalg::product(directions, false, 1.0, &weighted, Transpose::Yes, last, (d, m, found));
                found = fit(points.y, residual, (&fitting, ess), ridge, (directions, coefficients), found, scratch);
            }
        }
        for buffer in [weighted, gram, vectors, values] {
            scratch.give(buffer);
        }
    }
    scratch.give(fitting);
    found
}

/// Curvature along `count` orthonormal directions by regression of the residual on the points, both in these directions;
/// turns them to those in which it is clearly not zero, and returns how many these are.
fn fit(
    y: &[f64],
    residual: &[f64],
    (weights, ess): (&[f64], f64),
    ridge: f64,
    (directions, coefficients): (&mut [f64], &mut [f64]),
    count: usize,
    scratch: &mut Scratch,
) -> usize {
    let (n, k) = (weights.len(), count);
    let d = directions.len() / coefficients.len();
    let ridge = ridge * k as f64 / ess;
    let [mut along, mut pull, mut weighted] = [(); 3].map(|()| scratch.take_used(n * k));
    let [mut spread, mut slope, mut turned] = [(); 3].map(|()| scratch.take_used(k * k));
    let mut values = scratch.take_used(k);
    for (to, from) in [(&mut along, y), (&mut pull, residual)] {
        linalg::product(to, false, 1.0, from, Transpose::No, directions, (n, d, k));
        for to in to.chunks_exact_mut(n) {
            let mean: f64 = to.iter().zip(weights).map(|(x, w)| x * w).sum();
            to.iter_mut().for_each(|x| *x -= mean);
        }
    }
    lanes::scale(&mut weighted, &along, weights);
    linalg::product(&mut spread, false, 1.0, &weighted, Transpose::Yes, &along, (k, n, k));
    linalg::product(&mut slope, false, 1.0, &weighted, Transpose::Yes, &pull, (k, n, k));
    spread.iter_mut().step_by(k + 1).for_each(|x| *x += ridge);
    let mut kept = 0;
    if linalg::cholesky(&mut spread, k, &mut scratch.memory).is_ok() {
        linalg::solve_lower(&spread, &mut slope, k, k);
        linalg::solve_lower_transpose(&spread, &mut slope, k, k);
        // What the regression leaves, before the slope is made symmetric.
        linalg::product(&mut pull, true, -1.0, &along, Transpose::No, &slope, (n, k, k));
        slope.iter_mut().for_each(|x| *x *= 1.0 + ridge);
        linalg::symmetrise(&mut slope, k);
        if linalg::symmetric_eigen(&mut values, &mut turned, &slope, k, &mut scratch.memory) {
            let left = (ess - k as f64).max(1.0);
            for i in 0..k {
                let vector = &turned[i * k..(i + 1) * k];
                let noise = (0..n).map(|at| {
                    let miss: f64 = vector.iter().zip(pull[at..].iter().step_by(n)).map(|(v, x)| v * x).sum();
                    weights[at] * miss * miss
                });
                if values[i].abs() > CLEAR * (noise.sum::<f64>() / left).sqrt() {
                    turned.copy_within(i * k..(i + 1) * k, kept * k);
                    values[kept] = values[i];
                    kept += 1;
                }
            }
        }
    }
    let mut old = scratch.take_used(d * k);
    old.copy_from_slice(&directions[..d * k]);
    directions.fill(0.0);
    if kept > 0 {
        linalg::product(directions, false, 1.0, &old, Transpose::No, &turned, (d, k, kept));
        coefficients[..kept].copy_from_slice(&values[..kept]);
    }
    for buffer in [along, pull, weighted, spread, slope, turned, values, old] {
        scratch.give(buffer);
    }
    kept
}
