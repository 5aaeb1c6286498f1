//! Networks, for command line and Python: their data, their training, what it finds, their scores and predictions.

pub mod data;
pub mod engine;
pub mod found;
pub mod prediction;
pub mod score;
pub mod train;
