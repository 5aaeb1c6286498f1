//! Time of training by kind of work, in seconds summed over threads.
//!
//! A step takes milliseconds and reads the clock about a hundred times, at tens of nanoseconds each, so it is always on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A kind of work in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingWork {
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
    /// Checking whether components overlap.
    Overlap,
}

impl TrainingWork {
    /// All kinds, with their names in reports.
    pub const ALL: [(TrainingWork, &'static str); 7] = [
        (TrainingWork::Products, "products"),
        (TrainingWork::Draws, "draws of weights"),
        (TrainingWork::Squares, "squares"),
        (TrainingWork::Updates, "updates"),
        (TrainingWork::Rows, "gathering rows"),
        (TrainingWork::Units, "units and likelihood"),
        (TrainingWork::Overlap, "overlap"),
    ];
}

/// Nanoseconds spent on each kind of work.
#[derive(Debug, Default)]
pub(crate) struct TrainingTimer([AtomicU64; TrainingWork::ALL.len()]);

impl TrainingTimer {
    /// Runs `work` and records its time. It must not hand work to other threads, or that would count twice.
    pub fn measure<T>(&self, kind: TrainingWork, work: impl FnOnce() -> T) -> T {
        let clock = Instant::now();
        let found = work();
        self.0[kind as usize].fetch_add(clock.elapsed().as_nanos() as u64, Ordering::Relaxed);
        found
    }

    pub fn seconds(&self, kind: TrainingWork) -> f64 {
        self.0[kind as usize].load(Ordering::Relaxed) as f64 * 1e-9
    }
}

/// Runs `work`, and records its time if there is a timer.
pub(crate) fn measure<T>(timer: Option<&TrainingTimer>, kind: TrainingWork, work: impl FnOnce() -> T) -> T {
    match timer {
        Some(timer) => timer.measure(kind, work),
        None => work(),
    }
}
