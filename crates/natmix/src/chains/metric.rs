//! The scale on which chains move: a covariance, as product and as factor.

use crate::family::Gaussian;
use crate::linalg::{self, Memory};

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
        if precision.covariance().len() == gaussian.dim() {
            return Self::Diag(precision.variances());
        }
        Self::dense(precision.covariance_full(), gaussian.dim())
    }

    /// A whole covariance; its variances alone where it is not positive definite to rounding.
    pub fn dense(covariance: Vec<f64>, d: usize) -> Self {
        let mut factor = covariance.clone();
        match linalg::cholesky(&mut factor, d, &mut Memory::default()) {
            Ok(()) => Self::Dense { covariance, factor },
            Err(_) => Self::Diag((0..d).map(|i| covariance[i * (d + 1)]).collect()),
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
