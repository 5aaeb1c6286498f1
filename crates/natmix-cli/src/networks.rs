//! Networks on the command line: their data, their training, their scores.

pub mod data;
pub mod prediction;
pub mod score;
pub mod training;
