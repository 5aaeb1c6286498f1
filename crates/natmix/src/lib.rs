//! Bayesian inference by natural-gradient variational inference with Gaussian mixtures.
#![forbid(unsafe_code)]

pub mod autodiff;
pub mod checkpoint;
pub mod config;
pub mod diagnose;
pub mod draws;
pub mod error;
pub mod estimate;
pub mod family;
mod lanes;
mod linalg;
pub mod method;
mod minibatch;
mod noise;
pub mod observe;
pub mod psis;
pub mod rule;
pub mod run;
pub mod save;
pub mod state;
pub mod stop;
pub mod target;
pub mod targets;
pub mod testing;
pub mod transform;
mod workspace;

pub use config::{Config, Source};
pub use diagnose::diagnose;
pub use error::Error;
pub use method::Method;
pub use run::{Fit, Fitted, fit};
pub use state::State;
pub use workspace::Scratch;
