//! From a problem and settings to a fit and its record on disk: the layer shared by the command line and Python.
//!
//! [`Problem`] and [`Settings`](settings::Settings) make a [`FitJob`]; it returns a [`Finished`] fit, which becomes the
//! [`FitRecord`] that is kept. A [`SavedPosterior`] predicts and converts draws to the user's own scale.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | every setting of a fit, by name |
//! | [`problem`], [`effects`], [`networks`], [`stan`] | what is fitted, with its data |
//! | [`fit`], [`finished`] | from a problem and settings to the result |
//! | [`summary`], [`predictive`] | the report of a fit: parameters, scores on rows |
//! | [`loo_rows`], [`outcome_mark`], [`compare`](mod@compare) | what rows contribute to leave-one-out, and models compared by it |
//! | [`hypothesis`] | probabilities of statements about parameters |
//! | [`prior_predictive`] | what priors expect before there are data |
//! | [`saved`], [`predict`] | the posterior in its file, and predictions for new rows |
//! | [`record`], [`zarr`], [`folder`] | the record of a fit, written completely or not at all |
//! | [`resume`] | what an interrupted or killed run left behind |
//! | [`memory`] | how much memory is available for a table |
#![forbid(unsafe_code)]

mod coefficients;
pub mod compare;
pub mod effects;
pub mod error;
pub mod finished;
pub mod fit;
pub mod folder;
mod formation;
pub mod hypothesis;
pub mod loo_rows;
pub mod memory;
mod model_checks;
pub mod networks;
pub mod outcome_mark;
pub mod predict;
pub mod predictive;
pub mod prior_predictive;
pub mod problem;
pub mod record;
pub mod resume;
pub mod saved;
pub mod settings;
mod shared;
pub mod stan;
pub mod summary;
mod table;
mod time;
mod trace;
pub mod zarr;

pub use error::Error;
pub use finished::{Description, Finished};
pub use fit::{FitJob, FitWatch};
pub use predict::{NewRows, Predicted};
pub use problem::Problem;
pub use record::FitRecord;
pub use saved::{SavedModel, SavedPosterior};
