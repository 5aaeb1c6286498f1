//! What chains leave, and what of it is delivered.

use super::certificate::{Certificate, judge_draws};
use super::coordinates::Coordinates;
use super::modes::ModeShares;
use crate::answer::delivered::{DeliveredChains, DeliveredDraws};

/// What the chains have left.
#[derive(Clone, Debug)]
pub struct ChainDraws {
    /// Points: iteration after iteration, all chains together.
    pub draws: Vec<f64>,
    /// Their log densities.
    pub log_p: Vec<f64>,
    /// The energies with which the trajectories that led to them started.
    pub energy: Vec<f64>,
    /// Which of these trajectories diverged; where some iterations have shorter steps than the others, of those alone.
    pub diverged: Vec<bool>,
    /// Number of chains; the first `per_start` of them have started at one point, the next at another, and so on.
    pub chains: usize,
    /// Chains that have started at one point.
    pub per_start: usize,
    /// Whether they may be relied on.
    pub certificate: Certificate,
    /// Whether some coordinates set the scale of others, as in a hierarchy or a funnel.
    pub scaled: bool,
    /// The coordinates in which the chains moved in the end, if they were not the target's own.
    pub(crate) scales: Option<Coordinates>,
    /// Whether they were told to stop.
    pub(crate) stopped: bool,
    /// The shares of modes, if chains ran within several.
    pub modes: Option<ModeShares>,
}

/// Most numbers that are delivered and stored, and between which numbers of draws they are.
const DELIVERED_NUMBERS: usize = 6_000_000;
const DELIVERED: (usize, usize) = (2_048, 16_384);

impl ChainDraws {
    /// The dimension of the draws.
    pub(crate) fn dim(&self) -> usize {
        self.draws.len().checked_div(self.log_p.len()).unwrap_or(0)
    }

    /// Draws of the first half of the iterations, which proposals are fitted to.
    pub(super) fn half(&self) -> usize {
        self.log_p.len().checked_div(self.chains).unwrap_or(0) / 2 * self.chains
    }

    /// R-hat of the log density.
    pub(crate) fn density_r_hat(&self) -> f64 {
        judge_draws(&self.log_p, 1, (self.chains, self.per_start)).first().map_or(f64::NAN, |one| one.r_hat)
    }

    /// Draws of equal weight, to deliver and store, chain after chain: of every so many iterations, if there are too many.
    pub fn delivered(&self) -> DeliveredDraws {
        let (total, chains) = (self.log_p.len(), self.chains);
        let d = self.dim();
        let most = DELIVERED_NUMBERS.checked_div(d).unwrap_or(0).clamp(DELIVERED.0, DELIVERED.1);
        let every = total.div_ceil(most).max(1);
        let iterations = total.checked_div(chains).unwrap_or(0);
        let places = || {
            let of_chain = move |chain| (0..iterations).step_by(every).map(move |t| t * chains + chain);
            (0..chains).flat_map(of_chain)
        };
        let change = |at: usize| match at + chains < total {
            true => self.energy[at + chains] - self.energy[at],
            false => self.energy[at] - self.energy[at.checked_sub(chains).unwrap_or(at)],
        };
        let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
        let count = places().count();
        DeliveredDraws {
            draws: places().flat_map(|at| self.draws[at * d..(at + 1) * d].iter().copied()).collect(),
            weights: vec![1.0 / count as f64; count],
            chains: Some(DeliveredChains {
                count: chains,
                per_start: self.per_start,
                every,
                log_p: places().map(|at| finite(self.log_p[at])).collect(),
                energy: places().map(|at| finite(self.energy[at])).collect(),
                energy_change: places().map(|at| finite(change(at))).collect(),
                diverged: places().map(|at| self.diverged[at]).collect(),
            }),
        }
    }
}
