//! Chains under way: whoever watches is told, and what it takes to resume the run within them is handed out.

use super::checkpoint::{Beginning, Checkpoint, Counts, State};
use super::observe::{Finishing, Observer, tell_finishing, tell_under_way};
use super::stop::StopReason;
use crate::chains::run::ChainProgress;
use crate::chains::state::ChainState;
use crate::config::Config;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::strategy::Strategy;
use std::time::Instant;

/// A run whose chains have completed one of their iterations.
#[derive(Debug)]
pub struct ChainsUnderWay<'a> {
    /// The settings of the run.
    pub config: &'a Config,
    strategy: &'a dyn Strategy,
    beginning: &'a Beginning,
    counts: Counts,
    /// Why the fit has ended.
    reason: StopReason,
    chains: &'a ChainState,
}

impl ChainsUnderWay<'_> {
    /// Where the chains are.
    pub fn progress(&self) -> ChainProgress {
        self.chains.progress
    }

    /// Everything that a resumed run needs; `None` if the chains have kept too many numbers to be saved, more than 20 million. A
    /// checkpoint from before leads to the same bits.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>, Error> {
        let Some(chains) = self.chains.save() else { return Ok(None) };
        let timed_out = self.config.max_seconds.filter(|_| self.reason == StopReason::MaxSeconds);
        let state =
            State::of(self.strategy, (self.counts, self.beginning), self.config)?.with_chains(chains, timed_out);
        Ok(Some(Checkpoint { state, config: self.config.clone() }))
    }
}

/// Why chains were stopped from outside.
pub(crate) struct Halt {
    pub reason: StopReason,
    /// What an observer failed with.
    pub error: Option<Error>,
    /// The state of the run, unless it is too large.
    pub state: Option<State>,
}

/// Tells observers about chains.
pub(crate) struct ChainWatch<'a, 'o> {
    pub observers: &'a mut [&'o mut dyn Observer],
    pub config: &'a Config,
    pub strategy: &'a dyn Strategy,
    pub beginning: &'a Beginning,
    /// The fit: its counts, why it has ended, and when.
    pub counts: Counts,
    pub reason: StopReason,
    pub clock: Instant,
    pub halt: Option<Halt>,
}

impl ChainWatch<'_, '_> {
    /// Tells everyone about an iteration; returns whether to go on.
    pub fn tell(&mut self, progress: &ChainProgress, chains: &ChainState, evaluator: &dyn Evaluator) -> bool {
        let Self { config, strategy, beginning, reason, .. } = *self;
        let seconds = self.counts.seconds + self.clock.elapsed().as_secs_f64();
        let finishing = Finishing { chains: *progress, evals: evaluator.spent().evals, seconds };
        let counts = Counts { seconds, ..self.counts };
        let under_way = ChainsUnderWay { config, strategy, beginning, counts, reason, chains };
        let stopped = tell_finishing(self.observers, &finishing).is_break();
        // After an observer has failed, what it has written may lack something.
        let failed = match stopped || reason == StopReason::ObserverFailed {
            true => None,
            false => tell_under_way(self.observers, &under_way).err(),
        };
        if stopped || failed.is_some() {
            let state = under_way.checkpoint().map(|checkpoint| checkpoint.map(|checkpoint| checkpoint.state));
            let (state, error) = state.map_or_else(|error| (None, Some(error)), |state| (state, None));
            let error = failed.or(error);
            let reason = if error.is_some() { StopReason::ObserverFailed } else { StopReason::Cancelled };
            self.halt = Some(Halt { reason, error, state });
        }
        self.halt.is_none()
    }
}
