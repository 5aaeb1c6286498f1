//! From a problem and settings to a fit and its record on disk: what the command line and Python share.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | every setting of a fit, by name |
//! | [`problem`], [`networks`] | what is fitted, with its data |
//! | [`describe`], [`summary`], [`predictive`] | the report of a fit: parameters, figures, predictions |
//! | [`record`], [`zarr`], [`film`], [`folder`] | all that is kept of a fit, and how it is written whole or not at all |
//! | [`memory`] | how much memory there is for a table |
#![forbid(unsafe_code)]

pub mod describe;
pub mod film;
pub mod folder;
pub mod memory;
pub mod networks;
pub mod predictive;
pub mod problem;
pub mod record;
pub mod settings;
pub mod summary;
pub mod zarr;
