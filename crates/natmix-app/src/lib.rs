//! From a problem and settings to a fit and its record on disk: what the command line and Python share.
//!
//! [`Problem`] and [`Settings`](settings::Settings) make a [`FitJob`]; it finds a [`Finished`] mixture, and of that comes the
//! [`FitRecord`], which is all that is kept. A [`SavedPosterior`] predicts and returns to the user's own scale.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | every setting of a fit, by name |
//! | [`problem`], [`networks`] | what is fitted, with its data |
//! | [`fit`], [`finished`] | the one way from both to what was found |
//! | [`summary`], [`predictive`] | the report of a fit: parameters, figures of rows |
//! | [`saved`], [`predict`] | the posterior in its file, and what it says about new rows |
//! | [`record`], [`zarr`], [`folder`] | all that is kept of a fit, written whole or not at all |
//! | [`memory`] | how much memory there is for a table |
#![forbid(unsafe_code)]

pub mod error;
mod film;
pub mod finished;
pub mod fit;
pub mod folder;
pub mod memory;
pub mod networks;
pub mod predict;
pub mod predictive;
pub mod problem;
pub mod record;
pub mod saved;
pub mod settings;
pub mod summary;
mod trace;
pub mod zarr;

pub use error::Error;
pub use finished::{Description, Finished};
pub use fit::{FitJob, FitWatch};
pub use predict::{NewRows, Predicted};
pub use problem::Problem;
pub use record::FitRecord;
pub use saved::{SavedModel, SavedPosterior};
