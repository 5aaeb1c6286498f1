//! Demo data, the experiments of the paper, and the benchmark of the automatic method.
//!
//! | module | what it holds |
//! |---|---|
//! | [`demo`], [`datasets`] | decision boundaries of a small network, on built-in data |
//! | [`reproduce`], [`splits`] | the experiments of the paper, and the data sets with fixed splits that they use |
//! | [`bench`](mod@bench) | the automatic method on targets with known answers |
//! | [`battery`] | targets with known posteriors, and whether the verdict knows when an answer is right |
//! | [`posteriordb`] | the same for the posteriors of a public collection, as Stan programs |
//! | [`scale`] | a model of cost: time over 1 to 1,000 workers from measured constants |
#![forbid(unsafe_code)]

pub mod battery;
pub mod bench;
pub mod datasets;
pub mod demo;
pub mod posteriordb;
pub mod reproduce;
pub mod scale;
pub mod splits;
