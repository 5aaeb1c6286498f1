//! How far to trust a fit: diagnostics, importance weights and the verdict.

pub mod accuracy;
pub mod delivered;
pub mod diagnose;
pub mod level;
pub(crate) mod look;
mod probe;
pub mod psis;
pub mod tails;
pub mod verdict;

pub use diagnose::diagnose;
