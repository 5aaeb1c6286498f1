//! Chains between two iterations: all that it takes to go on with them.

use super::earlier::Earlier;
use super::keep::{Kept, Round};
use super::run::ChainProgress;
use super::warm_up::Window;
use super::{Metric, Walkers};
use crate::evaluate::Spent;

/// Chains with their adaptation, and where they are in the course of things.
#[derive(Clone, Debug)]
pub(crate) struct ChainState {
    /// Of their noise: no two runs of chains in one fit have the same.
    pub seed: u64,
    pub walkers: Walkers,
    pub metric: Metric,
    pub log_step: f64,
    /// Share of accepted trajectories that steps aim at.
    pub accepted: f64,
    /// Whether some iterations have shorter steps than the others.
    pub careful: bool,
    /// Whether coordinates were ever found that set the scale of others.
    pub scaled: bool,
    /// Iterations done, and those since the metric changed.
    pub progress: ChainProgress,
    pub adapted: u64,
    /// What the chains have cost so far.
    pub spent: Spent,
    /// Whether the windows of the warm-up are done; the present one, and the draws that the metric is estimated from.
    pub warm: bool,
    pub window: Window,
    pub draws: Vec<f64>,
    /// The present round, what was kept, and what an earlier attempt has left, in case there is no time for another.
    pub round: Round,
    pub kept: Kept,
    pub before: Option<Kept>,
    /// What other chains have come to before these.
    pub earlier: Earlier,
}

impl ChainState {
    /// Chains that have not moved yet.
    pub fn new(
        seed: u64,
        walkers: Walkers,
        metric: Metric,
        (log_step, accepted): (f64, f64),
        earlier: Earlier,
    ) -> Self {
        Self {
            seed,
            walkers,
            metric,
            log_step,
            accepted,
            careful: false,
            scaled: false,
            progress: ChainProgress { iteration: 0, kept: 0, r_hat: f64::NAN },
            adapted: 0,
            spent: Spent::default(),
            warm: false,
            window: Window::default(),
            draws: Vec::new(),
            round: Round::default(),
            kept: Kept::default(),
            before: None,
            earlier,
        }
    }
}
