//! The kinds of covariance that a Gaussian can have.

pub mod diag;
pub mod full;

pub use diag::Diag;
pub use full::Full;
