//! What is delivered, and how far to trust it: diagnostics, importance weights and the verdict.

pub mod diagnose;
pub mod psis;
pub mod verdict;

pub use diagnose::diagnose;
