//! The warm-up of chains: windows after each of which coordinates and metric are estimated again.

use super::certificate::MOST_DIVERGED;
use super::run::{CAREFUL_EVERY, CHAINS, Run};
use crate::error::Error;
use serde::{Deserialize, Serialize};

/// Iterations with short trajectories, and of each window; fewest and most windows.
const SHORT: u64 = 12;
const WINDOW: u64 = 20;
const WINDOWS: (usize, usize) = (2, 6);
/// Length of a trajectory, in standard deviations.
const WARMING_TRAJECTORY: f64 = 1.5;
const SHORT_TRAJECTORY: f64 = 0.5;

/// A window of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Window {
    /// The first is one.
    pub number: usize,
    /// Iterations done.
    pub done: u64,
    /// Trajectories that diverged.
    pub diverged: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { number: 1, done: 0, diverged: 0 }
    }
}

impl Run<'_, '_> {
    /// Goes on with the warm-up, until a new metric gains nothing or time is over.
    pub(super) fn warm_up(&mut self) -> Result<(), Error> {
        while self.state.progress.iteration < SHORT && !self.is_over() {
            self.iterate(SHORT_TRAJECTORY, true)?;
            self.tell();
        }
        while !self.state.warm {
            while self.state.window.done < WINDOW {
                if self.is_over() {
                    return Ok(());
                }
                let moves = self.iterate(WARMING_TRAJECTORY, true)?;
                self.state.window.diverged += self.diverged(&moves).filter(|diverged| *diverged).count();
                self.state.window.done += 1;
                self.state.draws.extend(self.state.walkers.points());
                self.tell();
            }
            self.end_window()?;
        }
        Ok(())
    }

    fn end_window(&mut self) -> Result<(), Error> {
        let Window { number, diverged, .. } = self.state.window;
        // The first window may still have been on its way.
        let counted = WINDOW / if self.state.careful { CAREFUL_EVERY } else { 1 };
        let too_long = number > 1 && diverged as f64 > MOST_DIVERGED * (counted as usize * CHAINS) as f64;
        if too_long {
            self.shorten_steps();
        }
        let changed = self.adapt(self.state.draws.clone())?;
        let enough = !changed && !too_long && number >= WINDOWS.0;
        if enough || number >= WINDOWS.1 {
            (self.state.warm, self.state.draws) = (true, Vec::new());
            return Ok(());
        }
        self.state.window = Window { number: number + 1, done: 0, diverged: 0 };
        // The last two windows say more than one, and the first was on its way.
        let draws = &mut self.state.draws;
        let left_out = if number >= 2 { draws.len() / 2 } else { draws.len() };
        draws.drain(..left_out);
        Ok(())
    }
}
