//! The variational families: Gaussians and mixtures of Gaussians, and the covariances that they can have.
//!
//! A component is held as mean `m`, precision `S` and the factor `L` of `S = L L'`. Then a log density is
//! a product with `L'` and a draw is a solve with it: no inverse is ever formed.

pub(crate) mod block;
pub mod covariance;
pub mod gaussian;
pub mod mixture;
pub mod modes;

pub(crate) use block::MixtureBlock;
pub use covariance::{AnyCovariance, Covariance, CovarianceKind, Diag, Full, LowRank};
pub use gaussian::Gaussian;
pub use mixture::{Covariances, Mixture};
pub use modes::Mode;

/// `log(2 pi)`.
pub(crate) const LOG_TAU: f64 = 1.837_877_066_409_345_5;

/// `log(sum(exp(x)))` without overflow; minus infinity for nothing or for zeros only, NaN if any entry is.
///
/// ```
/// assert_eq!(natmix::family::log_sum_exp(&[-1000.0, -1000.0]), -1000.0 + 2f64.ln());
/// ```
pub fn log_sum_exp(x: &[f64]) -> f64 {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max.is_finite() {
        max + x.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
    } else if x.iter().any(|x| x.is_nan()) {
        // `f64::max` ignores it.
        f64::NAN
    } else {
        max
    }
}
