//! Networks: their data, their training or fit by the engine, and the resulting record.

pub mod data;
pub mod engine;
pub(crate) mod record;
pub mod score;
pub mod train;
pub(crate) mod verdict;
