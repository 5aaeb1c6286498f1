//! One file a command.

pub mod bench;
pub mod compare;
pub mod demo;
pub mod experiments;
pub mod fit;
pub mod methods;
pub mod predict;
pub mod prior;
pub mod report;
pub mod reproduce;
pub mod sample;
mod stan_csv;
pub mod test;
