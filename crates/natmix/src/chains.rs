//! Hamiltonian chains: moves that leave a density as it is, for many chains at once.

pub mod certificate;
pub mod draws;
pub(crate) mod evidence;
pub(crate) mod metric;
pub mod modes;
mod proposal;
pub mod run;
mod scales;
pub(crate) mod second_opinion;
mod statistics;
pub(crate) mod visits;
pub(crate) mod walkers;

pub(crate) use metric::Metric;
pub(crate) use walkers::Walkers;

#[cfg(test)]
mod exactness;
#[cfg(test)]
pub(crate) mod examples;
#[cfg(test)]
mod tests;
