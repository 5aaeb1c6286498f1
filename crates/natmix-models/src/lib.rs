//! Built-in models and data readers for natmix.
//!
//! | module | what it holds |
//! |---|---|
//! | [`table`], [`idx`], [`npy`], [`splits`], [`row_file`] | readers of CSV, IDX and NumPy files, and of sets with fixed splits; rows that stay on disk |
//! | [`design`] | from columns to features, and back to the user's own scale |
//! | [`regression`], [`linear`], [`softmax`], [`mlp`], [`study`] | the models, as targets of the engine; with a table |
//! | [`draws`], [`predict`](mod@predict), [`scores`], [`loo`](mod@loo) | what a posterior says about rows |
#![forbid(unsafe_code)]

pub mod datasets;
pub mod design;
pub mod draws;
pub mod error;
pub mod idx;
pub mod linear;
pub mod loo;
pub mod mlp;
mod normal_equations;
pub mod npy;
pub mod observations;
pub mod predict;
mod prior;
pub mod regression;
pub mod row_file;
pub mod scores;
pub mod softmax;
mod source;
pub mod splits;
pub mod start;
pub mod study;
pub mod table;

pub use design::{Design, DesignOptions, EncodedRows, Encoding, OutcomeKind};
pub use draws::{Draws, Inputs};
pub use error::DataError;
pub use linear::Linear;
pub use loo::Loo;
pub use mlp::Mlp;
pub use observations::{Dataset, Observations};
pub use predict::{Predictions, predict};
pub use regression::{Kind, Regression};
pub use scores::{Scored, Scores, score};
pub use softmax::Softmax;
pub use study::{Memory, Study};
pub use table::Table;
