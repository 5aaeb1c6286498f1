//! Where the time of training goes: seconds of all threads together, by kind of work.
//!
//! A step takes milliseconds and reads the clock some hundred times, at tens of nanoseconds each, so it is always on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Matrix products.
    Products,
    /// Drawing weights.
    Draws,
    /// Squares of inputs, activations and derivatives.
    Squares,
    /// Moving mean, precision and velocity.
    Updates,
    /// Gathering the rows of a batch.
    Rows,
    /// Activations and their slopes, likelihood, sums for biases.
    Units,
    /// Looking whether components overlap.
    Overlap,
}

impl Doing {
    /// All kinds, with what they are called in reports.
    pub const ALL: [(Doing, &'static str); 7] = [
        (Doing::Products, "products"),
        (Doing::Draws, "draws of weights"),
        (Doing::Squares, "squares"),
        (Doing::Updates, "updates"),
        (Doing::Rows, "gathering rows"),
        (Doing::Units, "units and likelihood"),
        (Doing::Overlap, "overlap"),
    ];
}

/// Nanoseconds of each kind.
#[derive(Debug, Default)]
pub(crate) struct Spent([AtomicU64; Doing::ALL.len()]);

impl Spent {
    /// Does it, and notes how long it took. What is done must not hand work to other threads, or that would count twice.
    pub fn on<T>(&self, doing: Doing, work: impl FnOnce() -> T) -> T {
        let clock = Instant::now();
        let found = work();
        self.0[doing as usize].fetch_add(clock.elapsed().as_nanos() as u64, Ordering::Relaxed);
        found
    }

    pub fn seconds(&self, doing: Doing) -> f64 {
        self.0[doing as usize].load(Ordering::Relaxed) as f64 * 1e-9
    }
}

/// The same where nobody may be keeping count.
pub(crate) fn on<T>(spent: Option<&Spent>, doing: Doing, work: impl FnOnce() -> T) -> T {
    match spent {
        Some(spent) => spent.on(doing, work),
        None => work(),
    }
}
