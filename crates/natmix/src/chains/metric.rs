//! The scale on which chains move: a covariance, as product and as factor.

use crate::family::{Gaussian, Mixture};
use crate::linalg::{self, Memory};
use crate::target::CurvatureShape;

/// Shares of the present metric that a new one may keep, but for all of it.
const KEPT: [f64; 5] = [0.03, 0.1, 0.25, 0.5, 0.8];
/// Gain of the log likelihood per draw from which on a metric has changed: per dimension, and at least.
const CHANGED: f64 = 0.005;
const LEAST_CHANGE: f64 = 0.5;
/// Factor between the variance of a direction and the next one from which on it stands alone, with those below it; most such
/// directions; and the dimensions in which they are sought: beyond, it takes too long.
const ISOLATED: f64 = 2.5;
const MOST_ISOLATED: usize = 12;
const DECOMPOSED: std::ops::RangeInclusive<usize> = 41..=400;
/// Most draws that metrics are compared by.
const COMPARED: usize = 1_000;

/// Dimension up to which a mixture's whole covariance is used: beyond, it takes too much memory.
const MOST_DENSE: usize = 2_000;

/// A covariance `S = A A'`. Velocities are `S p` for momenta `p` that have covariance `S^-1`.
#[derive(Clone, Debug)]
pub(crate) enum Metric {
    /// The variances.
    Diag(Vec<f64>),
    /// The covariance, and its lower-triangular factor `A`.
    Dense { covariance: Vec<f64>, factor: Vec<f64> },
}

impl Metric {
    /// The covariance of a Gaussian; its variances alone where the whole is not positive definite to rounding.
    pub fn of(gaussian: &Gaussian) -> Self {
        let precision = gaussian.precision();
        if gaussian.curvature_shape() == CurvatureShape::Diag {
            return Self::Diag(precision.variances());
        }
        Self::dense(precision.covariance_full(), gaussian.dim())
    }

    /// The covariance of a whole mixture.
    pub fn of_mixture(mixture: &Mixture) -> Self {
        match mixture.components() {
            [only] => Self::of(only),
            // Of its heaviest component: near enough for a start.
            [first, ..] if mixture.dim() > MOST_DENSE => Self::Diag(first.precision().variances()),
            _ => Self::dense(mixture.covariance(), mixture.dim()),
        }
    }

    /// A whole covariance; its variances alone where it is not positive definite to rounding.
    pub fn dense(covariance: Vec<f64>, d: usize) -> Self {
        let mut factor = covariance.clone();
        match linalg::cholesky(&mut factor, d, &mut Memory::default()) {
            Ok(()) => Self::Dense { covariance, factor },
            Err(_) => Self::Diag((0..d).map(|i| covariance[i * (d + 1)]).collect()),
        }
    }

    /// The metric of draws that have moved in this one: iteration after iteration, so many chains together. It lies between this
    /// metric and their covariance, where the draws of one half of the chains make those of the other half most likely: few draws
    /// know a covariance badly, and directions in which this metric is far too wide count as much as those in which it is too
    /// narrow. Also returns whether that is more likely than this metric by enough to matter.
    pub fn adapted(&self, draws: &[f64], chains: usize, d: usize) -> (Self, bool) {
        let (count, worthwhile) = (draws.len() / d, (CHANGED * d as f64).max(LEAST_CHANGE));
        let mut mean = vec![0.0; d];
        draws.chunks_exact(d).for_each(|z| mean.iter_mut().zip(z).for_each(|(m, z)| *m += z / count as f64));
        // In coordinates in which this metric is the identity.
        let mut y: Vec<f64> = draws.to_vec();
        y.chunks_exact_mut(d).for_each(|y| y.iter_mut().zip(&mean).for_each(|(y, m)| *y -= m));
        match self {
            Self::Diag(variances) => {
                y.chunks_exact_mut(d).for_each(|y| y.iter_mut().zip(variances).for_each(|(y, v)| *y /= v.sqrt()));
            }
            Self::Dense { factor, .. } => linalg::solve_lower(factor, &mut y, d, count),
        }
        let [first, second] = halves(&y, chains, d);
        let thinned = thin(&second, d);
        match self {
            Self::Diag(variances) => {
                let (known, other, all) = (mean_squares(&first, d), mean_squares(&second, d), mean_squares(&y, d));
                let gain = |own: f64| {
                    let each = known.iter().zip(&other).map(|(known, other)| {
                        let variance = own + (1.0 - own) * known;
                        0.5 * (other - other / variance - variance.ln())
                    });
                    Some(each.sum())
                };
                let (own, gain) = best(gain);
                let adapted = all.iter().zip(variances).map(|(ratio, v)| v * (own + (1.0 - own) * ratio)).collect();
                (Self::Diag(adapted), gain > worthwhile)
            }
            Self::Dense { factor, .. } => {
                let known = products(&first, d);
                let squares = |y: &[f64]| y.iter().map(|y| y * y).sum::<f64>() / (y.len() / d) as f64;
                let before = squares(&thinned);
                let gain = |own: f64| {
                    let mut within = shrunk(&known, own, d);
                    linalg::cholesky(&mut within, d, &mut Memory::default()).ok()?;
                    let mut y = thinned.clone();
                    linalg::solve_lower(&within, &mut y, d, thinned.len() / d);
                    let log_det: f64 = (0..d).map(|i| within[i * (d + 1)].ln()).sum();
                    Some(0.5 * (before - squares(&y)) - log_det)
                };
                let (own, gain) = best(gain);
                let all = products(&y, d);
                let mut within = shrunk(&all, own, d);
                let isolated = isolated(&all, d);
                for (value, direction) in &isolated {
                    // As if nothing of this metric were kept in that direction.
                    for i in 0..d {
                        let entry = own * (value - 1.0) * direction[i];
                        (0..d).for_each(|j| within[i * d + j] += entry * direction[j]);
                    }
                }
                // A (...) A'.
                let (mut half, mut covariance) = (vec![0.0; d * d], vec![0.0; d * d]);
                linalg::lower_times(&mut half, factor, &within, d, d);
                linalg::add_times_lower_transpose(&mut covariance, 1.0, &half, factor, d, d);
                linalg::symmetrise(&mut covariance, d);
                match Self::dense(covariance, d) {
                    dense @ Self::Dense { .. } => (dense, gain > worthwhile || !isolated.is_empty()),
                    Self::Diag(_) => (self.clone(), false),
                }
            }
        }
    }

    /// Multiplications per chain and velocity, about.
    pub fn work(&self, d: usize) -> usize {
        match self {
            Self::Diag(_) => d,
            Self::Dense { .. } => d * d,
        }
    }

    /// Turns standard normals (one chain after another) into momenta.
    pub fn momenta(&self, normals: &mut [f64], d: usize) {
        match self {
            Self::Diag(variances) => {
                let inverse: Vec<f64> = variances.iter().map(|variance| variance.sqrt().recip()).collect();
                normals.chunks_exact_mut(d).for_each(|p| p.iter_mut().zip(&inverse).for_each(|(p, sd)| *p *= sd));
            }
            Self::Dense { factor, .. } => linalg::solve_lower_transpose(factor, normals, d, normals.len() / d),
        }
    }

    /// `out = S p`, for one chain after another.
    pub fn velocities(&self, out: &mut [f64], momenta: &[f64], d: usize) {
        match self {
            Self::Diag(variances) => out.chunks_exact_mut(d).zip(momenta.chunks_exact(d)).for_each(|(out, p)| {
                out.iter_mut().zip(p).zip(variances).for_each(|((out, p), variance)| *out = variance * p);
            }),
            Self::Dense { covariance, .. } => {
                let count = momenta.len() / d;
                linalg::product(out, false, 1.0, covariance, linalg::Transpose::No, momenta, (d, d, count));
            }
        }
    }
}

/// The share of a metric to keep that gains most, and its gain; nothing is gained by keeping all of it.
fn best(gain: impl Fn(f64) -> Option<f64>) -> (f64, f64) {
    let tried = KEPT.into_iter().filter_map(|own| Some((own, gain(own).filter(|gain| gain.is_finite())?)));
    tried.chain([(1.0, 0.0)]).fold((1.0, 0.0), |best, one| if one.1 > best.1 { one } else { best })
}

/// The points of the first and of the second half of the chains.
fn halves(y: &[f64], chains: usize, d: usize) -> [Vec<f64>; 2] {
    let of = |second: bool| {
        let rows = y.chunks_exact(d).enumerate().filter(move |(row, _)| (row % chains >= chains / 2) == second);
        rows.flat_map(|(_, y)| y.iter().copied()).collect()
    };
    [of(false), of(true)]
}

/// Some of the points, evenly.
fn thin(y: &[f64], d: usize) -> Vec<f64> {
    let every = (y.len() / d).div_ceil(COMPARED).max(1);
    y.chunks_exact(d).step_by(every).flatten().copied().collect()
}

fn mean_squares(y: &[f64], d: usize) -> Vec<f64> {
    let mut squares = vec![0.0; d];
    let count = (y.len() / d) as f64;
    y.chunks_exact(d).for_each(|y| squares.iter_mut().zip(y).for_each(|(s, y)| *s += y * y / count));
    squares
}

/// Mean products of the coordinates of points.
fn products(y: &[f64], d: usize) -> Vec<f64> {
    let (mut products, count) = (vec![0.0; d * d], y.len() / d);
    linalg::product_bt(&mut products, false, 1.0 / count as f64, y, y, (d, count, d));
    products
}

/// Variances far below those of all other directions, and these directions: a single one in which a metric is far too wide makes all
/// steps short, and in many dimensions is too little to show in how likely the draws are.
fn isolated(covariance: &[f64], d: usize) -> Vec<(f64, Vec<f64>)> {
    if !DECOMPOSED.contains(&d) {
        return Vec::new();
    }
    let (mut values, mut vectors) = (vec![0.0; d], vec![0.0; d * d]);
    if !linalg::symmetric_eigen(&mut values, &mut vectors, covariance, d, &mut Memory::default()) {
        return Vec::new();
    }
    let alone = |&k: &usize| values[k - 1] > 0.0 && values[k - 1] < values[k] / ISOLATED;
    let count = (1..=MOST_ISOLATED).rev().find(alone).unwrap_or(0);
    (0..count).map(|k| (values[k], vectors[k * d..(k + 1) * d].to_vec())).collect()
}

/// Between the identity and a covariance.
fn shrunk(covariance: &[f64], own: f64, d: usize) -> Vec<f64> {
    let mut within: Vec<f64> = covariance.iter().map(|x| (1.0 - own) * x).collect();
    (0..d).for_each(|i| within[i * (d + 1)] += own);
    within
}
