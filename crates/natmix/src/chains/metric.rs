//! The scale on which chains move: a covariance, as product and as factor.

use crate::family::{Gaussian, Mixture};
use crate::linalg::{self, Memory};
use crate::target::CurvatureShape;

/// Share of the distance between an old and a new metric that must be noise for nothing to have changed.
const UNCHANGED: f64 = 0.5;

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

    /// The metric of draws (one after another) that have moved in this one: their covariance, shrunk towards this metric by as
    /// much as its error demands (Ledoit and Wolf, in coordinates in which this metric is the identity). `effective` is how
    /// many independent draws they are worth. Also returns whether it differs from this one beyond that error.
    pub fn adapted(&self, draws: &[f64], effective: f64, d: usize) -> (Self, bool) {
        let count = draws.len() / d;
        let mut mean = vec![0.0; d];
        draws.chunks_exact(d).for_each(|z| mean.iter_mut().zip(z).for_each(|(m, z)| *m += z / count as f64));
        let mut y: Vec<f64> = draws.to_vec();
        y.chunks_exact_mut(d).for_each(|y| y.iter_mut().zip(&mean).for_each(|(y, m)| *y -= m));
        match self {
            Self::Diag(variances) => {
                let mut ratios = vec![0.0; d];
                for y in y.chunks_exact(d) {
                    ratios.iter_mut().zip(y).zip(variances).for_each(|((r, y), v)| *r += y * y / v / count as f64);
                }
                // A variance of n draws is known to sqrt(2 / n).
                let (noise, apart) = (ratios.iter().map(|r| 2.0 * r * r / effective).sum::<f64>(), distance(&ratios));
                let own = (noise / apart).min(1.0);
                let adapted = ratios.iter().zip(variances).map(|(r, v)| v * (own + (1.0 - own) * r)).collect();
                (Self::Diag(adapted), own < UNCHANGED)
            }
            Self::Dense { factor, .. } => {
                linalg::solve_lower(factor, &mut y, d, count);
                let mut within = vec![0.0; d * d];
                linalg::product_bt(&mut within, false, 1.0 / count as f64, &y, &y, (d, count, d));
                let fourth: f64 =
                    y.chunks_exact(d).map(|y| y.iter().map(|y| y * y).sum::<f64>().powi(2)).sum::<f64>() / count as f64;
                let square: f64 = within.iter().map(|x| x * x).sum();
                (0..d).for_each(|i| within[i * (d + 1)] -= 1.0);
                let apart: f64 = within.iter().map(|x| x * x).sum();
                let own = (((fourth - square) / effective) / apart).clamp(0.0, 1.0);
                within.iter_mut().for_each(|x| *x *= 1.0 - own);
                (0..d).for_each(|i| within[i * (d + 1)] += 1.0);
                // A (...) A'.
                let (mut half, mut covariance) = (vec![0.0; d * d], vec![0.0; d * d]);
                linalg::lower_times(&mut half, factor, &within, d, d);
                linalg::add_times_lower_transpose(&mut covariance, 1.0, &half, factor, d, d);
                linalg::symmetrise(&mut covariance, d);
                match Self::dense(covariance, d) {
                    dense @ Self::Dense { .. } => (dense, own < UNCHANGED),
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
            Self::Diag(variances) => normals
                .chunks_exact_mut(d)
                .for_each(|p| p.iter_mut().zip(variances).for_each(|(p, variance)| *p /= variance.sqrt())),
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

/// Squared distance of ratios from one.
fn distance(ratios: &[f64]) -> f64 {
    ratios.iter().map(|r| (r - 1.0).powi(2)).sum()
}
