//! Coordinates in which long tails are short: the logs of standard deviations, of lengths and of rates often have a tail that falls
//! like an exponential, and a trajectory of a few standard deviations takes many iterations to come back from there.
//!
//! The chains move in `y = m + s v` instead of the coordinate `z = m + s h(v)`, where
//!
//! ```text
//! h(v) = v + r q(v - c) - l q(-v - c),    q(x) = (x + sqrt(x^2 + w^2))^2 / 4
//! ```
//!
//! rises like `r v^2` to the right and `l v^2` to the left: an exponential tail of `z` is that of a Gaussian in `v`. Shapes and
//! units are read off the quantiles of draws, where they make the draws clearly more likely than a Gaussian. The map is one to one
//! for any `l, r >= 0`, so that a poor choice makes chains slow, not wrong.

use super::statistics::{mean_and_variance, normal_tail};
use rayon::prelude::*;

/// `c` and `w`.
const BEGIN: f64 = 0.5;
const WIDTH: f64 = 0.5;
/// Gain of the log likelihood, of effective draws, from which on a tail is long; most draws that it is measured by; the largest
/// `l` or `r`, and the smallest that matters.
const LEAST_GAIN: f64 = 30.0;
const COMPARED: usize = 2_000;
const LONGEST: f64 = 3.0;
const SHORTEST: f64 = 0.3;
/// Normal scores of the quantiles that shapes are read off, and draws beyond the outermost.
const SCORES: std::ops::RangeInclusive<i32> = -9..=9;
const SCORE: f64 = 0.3;
const BEYOND: f64 = 5.0;

/// Numbers that a tail is stored as.
pub(super) const TAIL: usize = 5;

/// Coordinates with long tails.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tails {
    d: usize,
    each: Vec<Tail>,
}

/// A coordinate with a long tail.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tail {
    coordinate: usize,
    centre: f64,
    scale: f64,
    shape: Shape,
}

/// `l` and `r`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    left: f64,
    right: f64,
}

impl Shape {
    /// `h` and the first two derivatives.
    fn at(&self, v: f64) -> [f64; 3] {
        let (right, left) = (bend(v - BEGIN), bend(-v - BEGIN));
        [
            v + self.right * right[0] - self.left * left[0],
            1.0 + self.right * right[1] + self.left * left[1],
            self.right * right[2] - self.left * left[2],
        ]
    }

    /// The inverse of `h`, whose slope is at least one.
    fn inverse(&self, x: f64) -> f64 {
        let off = (self.at(x)[0] - x).abs();
        let (mut low, mut high, mut v) = (x - off, x + off, x);
        if self.right > 0.0 && x > BEGIN {
            v = x.min(BEGIN + (x / self.right).sqrt());
        } else if self.left > 0.0 && x < -BEGIN {
            v = x.max(-BEGIN - (-x / self.left).sqrt());
        }
        for _ in 0..100 {
            let [h, slope, _] = self.at(v);
            let error = h - x;
            if error > 0.0 {
                high = high.min(v)
            } else {
                low = low.max(v)
            }
            let next = v - error / slope;
            let next = if next >= low && next <= high { next } else { 0.5 * (low + high) };
            if (next - v).abs() <= 1e-15 * (1.0 + v.abs()) || next.is_nan() {
                break;
            }
            v = next;
        }
        v
    }
}

/// `q` and its first two derivatives.
fn bend(x: f64) -> [f64; 3] {
    let r = x.hypot(WIDTH);
    // Of what nearly cancels on the left there is another form.
    let s = if x < 0.0 { 0.5 * WIDTH * WIDTH / (r - x) } else { 0.5 * (x + r) };
    let rise = s / r;
    [s * s, 2.0 * s * rise, 2.0 * rise * rise + s * WIDTH * WIDTH / (r * r * r)]
}

impl Tails {
    pub fn len(&self) -> usize {
        self.each.len()
    }

    /// For each tail, `TAIL` numbers.
    pub fn numbers(&self) -> Vec<f64> {
        let of = |Tail { coordinate, centre, scale, shape }: &Tail| {
            [*coordinate as f64, *centre, *scale, shape.left, shape.right]
        };
        self.each.iter().flat_map(of).collect()
    }

    /// From these numbers; `None` if they do not describe tails in dimension `d`.
    pub fn of_numbers(numbers: &[f64], d: usize) -> Option<Self> {
        let tail = |&[at, centre, scale, left, right]: &[f64; TAIL]| {
            let possible =
                at >= 0.0 && at < d as f64 && at.fract() == 0.0 && scale > 0.0 && left >= 0.0 && right >= 0.0;
            possible.then_some(Tail { coordinate: at as usize, centre, scale, shape: Shape { left, right } })
        };
        Some(Self { d, each: numbers.as_chunks::<TAIL>().0.iter().map(tail).collect::<Option<_>>()? })
    }

    /// The long tails that draws (one after another) show in coordinates other than `apart`. They are worth `effective` independent
    /// draws.
    pub fn of(draws: &[f64], d: usize, effective: f64, apart: &[usize]) -> Self {
        let find = |coordinate: usize| {
            if apart.contains(&coordinate) {
                return None;
            }
            let values: Vec<f64> = draws.iter().skip(coordinate).step_by(d).copied().collect();
            Tail::of(coordinate, values, effective)
        };
        Self { d, each: (0..d).into_par_iter().filter_map(find).collect() }
    }

    pub fn none(d: usize) -> Self {
        Self { d, each: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Turns points (one after another) from the coordinates of the chains into those of the target.
    pub fn forward(&self, points: &mut [f64]) {
        self.change(points, |shape, v| shape.at(v)[0]);
    }

    /// The inverse of [`Tails::forward`].
    pub fn backward(&self, points: &mut [f64]) {
        self.change(points, |shape, x| shape.inverse(x));
    }

    fn change(&self, points: &mut [f64], to: impl Fn(&Shape, f64) -> f64) {
        for y in points.chunks_exact_mut(self.d) {
            for Tail { coordinate, centre, scale, shape } in &self.each {
                let at = &mut y[*coordinate];
                *at = centre + scale * to(shape, (*at - centre) / scale);
            }
        }
    }

    /// Turns log densities and gradients at points of the target into those at the points `y` of the chains.
    pub fn pull_back(&self, y: &[f64], log_p: &mut [f64], grad: &mut [f64]) {
        for ((y, log_p), grad) in y.chunks_exact(self.d).zip(log_p).zip(grad.chunks_exact_mut(self.d)) {
            for Tail { coordinate, centre, scale, shape } in &self.each {
                let [_, slope, bend] = shape.at((y[*coordinate] - centre) / scale);
                *log_p += slope.ln();
                let g = &mut grad[*coordinate];
                *g = *g * slope + bend / slope / scale;
            }
        }
    }

    /// What [`Tails::pull_back`] adds to the log density at a point.
    pub fn log_det(&self, y: &[f64]) -> f64 {
        let each = self.each.iter().map(|tail| tail.shape.at((y[tail.coordinate] - tail.centre) / tail.scale)[1].ln());
        each.sum()
    }
}

impl Tail {
    fn of(coordinate: usize, mut values: Vec<f64>, effective: f64) -> Option<Self> {
        let (mean, variance) = mean_and_variance(values.iter().copied());
        let sd = variance.sqrt();
        if !(mean.is_finite() && sd > 0.0 && sd.is_finite()) {
            return None;
        }
        values.iter_mut().for_each(|x| *x = (*x - mean) / sd);
        values.sort_unstable_by(f64::total_cmp);
        let [centre, scale, left, right] = by_quantiles(&values, effective.min(values.len() as f64))?;
        let (left, right) = (left / scale, right / scale);
        if scale <= 0.0 || left.max(right) < SHORTEST {
            return None;
        }
        let shape = Shape { left: left.min(LONGEST), right: right.min(LONGEST) };
        let every = values.len().div_ceil(COMPARED).max(1);
        let (mut gain, mut count) = (0.0, 0.0);
        for x in values.iter().skip(every / 2).step_by(every) {
            let v = shape.inverse((x - centre) / scale);
            gain += 0.5 * (x * x - v * v) - (scale * shape.at(v)[1]).ln();
            count += 1.0;
        }
        (gain / count * effective > LEAST_GAIN).then_some(Self {
            coordinate,
            centre: mean + sd * centre,
            scale: sd * scale,
            shape,
        })
    }
}

/// `m`, `s`, `s l` and `s r` that fit the quantiles of sorted values best.
fn by_quantiles(sorted: &[f64], effective: f64) -> Option<[f64; 4]> {
    let count = sorted.len() as f64;
    let rows: Vec<([f64; 4], f64, f64)> = SCORES
        .filter_map(|k| {
            let v = f64::from(k) * SCORE;
            let below = if v > 0.0 { 1.0 - normal_tail(v) } else { normal_tail(-v) };
            if below.min(1.0 - below) * effective < BEYOND {
                return None;
            }
            let at = below * count - 0.5;
            let low = at.floor().clamp(0.0, count - 1.0);
            let (low, share) = (low as usize, at - low);
            let x = sorted[low] + share * (sorted[(low + 1).min(sorted.len() - 1)] - sorted[low]);
            let weight = (-v * v).exp() / (below * (1.0 - below));
            Some(([1.0, v, -bend(-v - BEGIN)[0], bend(v - BEGIN)[0]], x, weight))
        })
        .collect();
    let fit = |used: &[usize]| -> Option<[f64; 4]> {
        let k = used.len();
        if rows.len() <= k {
            return None;
        }
        let (mut matrix, mut right) = (vec![0.0; k * k], vec![0.0; k]);
        for (features, x, weight) in &rows {
            for (i, a) in used.iter().enumerate() {
                right[i] += weight * features[*a] * x;
                used.iter().enumerate().for_each(|(j, b)| matrix[i * k + j] += weight * features[*a] * features[*b]);
            }
        }
        crate::linalg::cholesky(&mut matrix, k, &mut crate::linalg::Memory::default()).ok()?;
        crate::linalg::solve_lower(&matrix, &mut right, k, 1);
        crate::linalg::solve_lower_transpose(&matrix, &mut right, k, 1);
        let mut found = [0.0; 4];
        used.iter().zip(right).for_each(|(a, x)| found[*a] = x);
        Some(found)
    };
    let both = fit(&[0, 1, 2, 3])?;
    match (both[2] >= 0.0, both[3] >= 0.0) {
        (true, true) => Some(both),
        (false, true) => fit(&[0, 1, 3]),
        (true, false) => fit(&[0, 1, 2]),
        (false, false) => None,
    }
    .filter(|found| found[2] >= 0.0 && found[3] >= 0.0 && found.iter().all(|x| x.is_finite()))
}

#[cfg(test)]
mod tests;
