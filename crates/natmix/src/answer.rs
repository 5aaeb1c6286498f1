//! How far to trust a fit: diagnostics, importance weights and the verdict.

pub mod diagnose;
pub mod psis;
pub mod tails;
pub mod verdict;

pub use diagnose::diagnose;
