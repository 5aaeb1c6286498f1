//! Hamiltonian chains: moves that leave a density as it is, for many chains at once.

pub mod certificate;
mod coordinates;
pub mod draws;
pub(crate) mod earlier;
pub(crate) mod evidence;
mod keep;
pub(crate) mod metric;
pub mod modes;
mod proposal;
pub mod run;
pub(crate) mod saved;
mod scales;
pub(crate) mod second_opinion;
pub(crate) mod state;
mod statistics;
mod tails;
pub(crate) mod visits;
pub(crate) mod walkers;
mod warm_up;

pub(crate) use metric::Metric;
pub(crate) use walkers::Walkers;

#[cfg(test)]
mod exactness;
#[cfg(test)]
pub(crate) mod examples;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod tests;
