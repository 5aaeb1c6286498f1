//! Stan models as targets of natmix.
//!
//! A `.stan` program is [compiled](compile) into a shared library with the Stan tools and the C++ compiler on the machine; the
//! library offers the C interface of BridgeStan. A library that BridgeStan itself has made is taken as it is. [`StanModel`]
//! evaluates it: `log p` with its gradient in the unconstrained space (Jacobian and all constants included), and converts
//! points to draws of parameters, transformed parameters and generated quantities.
//!
//! | module | what it holds |
//! |---|---|
//! | [`model`] | a model with its data: a target |
//! | [`library`] | the functions of a compiled model |
//! | [`names`] | from the names of values to variables with shapes |
//! | [`messages`] | what models print and complain about, each message once |
//! | [`toolchain`], [`compile`], [`mod@include`], [`cache`] | from a program to a library |

pub mod cache;
mod command;
pub mod compile;
mod error;
pub mod include;
pub mod library;
pub mod messages;
pub mod model;
pub mod names;
pub mod toolchain;

pub use error::Error;
pub use library::StanLibrary;
pub use model::StanModel;
