//! Bayesian neural networks: small ones as targets of the engine, large ones with their own training loop.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mlp`] | a network with its data and prior, as a target of the engine |
//! | [`train`], [`training`] | VOGN, IVON and Adam on minibatches in single precision; complete runs with checkpoints and validation |
//! | [`predict`](mod@predict), [`measure`], [`stack`] | averaged predictions, the ELBO of trained networks, weights of components that predict best |
#![forbid(unsafe_code)]

mod examples;
mod likelihood;
pub mod measure;
pub mod mlp;
mod network;
mod pass;
pub mod predict;
mod real;
pub mod stack;
pub mod train;
pub mod training;

pub use examples::Examples;
pub use likelihood::NetworkLikelihood;
pub use mlp::Mlp;
pub use network::{Activation, Layer, Network};
