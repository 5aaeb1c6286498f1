//! Watching a run: traces, progress, checkpoints and cancellation are observers.
//!
//! ```
//! use natmix::observe::{Iteration, Observer};
//! use std::ops::ControlFlow;
//!
//! /// Stops when the ELBO is good enough.
//! struct GoodEnough(f64);
//! impl Observer for GoodEnough {
//!     fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, natmix::Error> {
//!         Ok(if it.elbo > self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
//!     }
//! }
//! ```

mod film;

pub use super::under_way::ChainsUnderWay;
pub use film::{Film, Frame};

use crate::chains::run::ChainProgress;
use crate::config::Config;
use crate::error::Error;
use crate::evaluate::Spent;
use crate::family::Mixture;
use crate::rule::StepInfo;
use crate::run::checkpoint::{Beginning, Checkpoint, Counts, State};
use crate::strategy::Strategy;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One iteration, just after its updates.
#[derive(Debug)]
pub struct Iteration<'a> {
    /// Iterations done, this one included.
    pub iteration: u64,
    /// Points at which the target was evaluated so far.
    pub evals: u64,
    /// Points so far that could not be used.
    pub dropped: u64,
    /// Seconds so far.
    pub seconds: f64,
    /// ELBO of the mixture before this iteration's updates, estimated from its points.
    pub elbo: f64,
    /// Its standard error.
    pub elbo_se: f64,
    /// The mixture after the updates.
    pub mixture: &'a Mixture,
    /// The outcome of each component's step.
    pub steps: &'a [StepInfo],
    /// The settings of the run.
    pub config: &'a Config,
    pub(crate) strategy: &'a dyn Strategy,
    pub(crate) beginning: &'a Beginning,
}

impl Iteration<'_> {
    /// Everything that a resumed run needs.
    pub fn checkpoint(&self) -> Result<Checkpoint, Error> {
        let counts = Counts {
            iteration: self.iteration,
            spent: Spent { evals: self.evals, dropped: self.dropped },
            seconds: self.seconds,
        };
        let state = State::of(self.strategy, (counts, self.beginning), self.config)?;
        Ok(Checkpoint { state, config: self.config.clone() })
    }
}

/// A search for modes in progress: before the first iteration of an automatic run.
#[derive(Clone, Copy, Debug)]
pub struct Searching {
    /// Points at which the target was evaluated so far.
    pub evals: u64,
    /// Seconds so far.
    pub seconds: f64,
}

/// Where the chains are that finish a fit.
#[derive(Clone, Copy, Debug)]
pub struct Finishing {
    /// Their iterations and R-hat.
    pub chains: ChainProgress,
    /// Points at which the target was evaluated so far.
    pub evals: u64,
    /// Seconds so far.
    pub seconds: f64,
}

/// Sees every iteration; may stop the run.
pub trait Observer: Send {
    /// Called at intervals while modes are searched for. `Break` ends the search; the run then continues with the
    /// modes found so far, until an observer ends it after an iteration.
    fn searching(&mut self, _: &Searching) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called after each iteration of the chains that finish a fit. `Break` ends them: the result is what they have by then.
    fn finishing(&mut self, _: &Finishing) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Called after [`finishing`](Observer::finishing), unless an observer asked to stop: for those who save the run. An error ends
    /// the chains and is handed over with the result.
    fn chains_under_way(&mut self, _: &ChainsUnderWay<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Called after each iteration. `Break` ends the run; an error ends it too and is handed over with the result.
    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, Error>;
}

/// Tells every observer, even if an earlier one asked to stop or failed; the first error wins.
pub(crate) fn tell(observers: &mut [&mut dyn Observer], iteration: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
    let (mut flow, mut failed) = (ControlFlow::Continue(()), None);
    for observer in observers {
        match observer.iteration(iteration) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => flow = ControlFlow::Break(()),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(flow), Err)
}

/// Tells every observer of a search, even if one asked to stop.
pub(crate) fn tell_searching(observers: &mut [&mut dyn Observer], searching: &Searching) -> ControlFlow<()> {
    tell_all(observers, |observer| observer.searching(searching))
}

fn tell_all(
    observers: &mut [&mut dyn Observer],
    mut told: impl FnMut(&mut dyn Observer) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut flow = ControlFlow::Continue(());
    for observer in observers {
        if told(&mut **observer).is_break() {
            flow = ControlFlow::Break(());
        }
    }
    flow
}

/// Tells every observer of the chains, even if one asked to stop.
pub(crate) fn tell_finishing(observers: &mut [&mut dyn Observer], finishing: &Finishing) -> ControlFlow<()> {
    tell_all(observers, |observer| observer.finishing(finishing))
}

/// Tells every observer that may save the run, even if an earlier one failed; the first error wins.
pub(crate) fn tell_under_way(observers: &mut [&mut dyn Observer], under_way: &ChainsUnderWay<'_>) -> Result<(), Error> {
    observers.iter_mut().map(|observer| observer.chains_under_way(under_way)).fold(Ok(()), Result::and)
}

/// A function that is called after every iteration: for progress bars.
pub struct OnIteration<F>(pub F);

impl<F: FnMut(&Iteration<'_>) + Send> Observer for OnIteration<F> {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        (self.0)(iteration);
        Ok(ControlFlow::Continue(()))
    }
}

/// Ends a run from another thread or a signal handler.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the run after its current iteration.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// Whether the run was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Cancel {
    fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Observer for Cancel {
    fn searching(&mut self, _: &Searching) -> ControlFlow<()> {
        self.flow()
    }
    fn finishing(&mut self, _: &Finishing) -> ControlFlow<()> {
        self.flow()
    }
    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        Ok(self.flow())
    }
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// Iterations done.
    pub iteration: u64,
    /// Points at which the target was evaluated so far.
    pub evals: u64,
    /// Seconds so far.
    pub seconds: f64,
    /// ELBO estimate.
    pub elbo: f64,
    /// Its standard error.
    pub se: f64,
    /// Number of components.
    pub components: usize,
    /// Step size of each component; zero where it stayed.
    pub steps: Vec<f64>,
}

impl TraceRow {
    /// The row of an iteration.
    pub fn of(it: &Iteration<'_>) -> Self {
        Self {
            iteration: it.iteration,
            evals: it.evals,
            seconds: it.seconds,
            elbo: it.elbo,
            se: it.elbo_se,
            components: it.mixture.len(),
            steps: it.steps.iter().map(|step| step.rate).collect(),
        }
    }
}

/// Collects a trace in memory.
#[derive(Clone, Debug, Default)]
pub struct Trace(pub Vec<TraceRow>);

impl Observer for Trace {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.0.push(TraceRow::of(iteration));
        Ok(ControlFlow::Continue(()))
    }
}

/// Writes a trace as JSON, one line per iteration.
pub struct TraceWriter<W> {
    writer: W,
    name: String,
}

impl<W: Write + Send> TraceWriter<W> {
    /// Writes to `writer`; `name` is used in messages.
    pub fn new(writer: W, name: impl Into<String>) -> Self {
        Self { writer, name: name.into() }
    }
}

impl<W: Write + Send> Observer for TraceWriter<W> {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        let io = |source| Error::Io { file: self.name.clone(), source };
        serde_json::to_writer(&mut self.writer, &TraceRow::of(iteration)).map_err(|e| io(e.into()))?;
        self.writer.write_all(b"\n").map_err(io)?;
        Ok(ControlFlow::Continue(()))
    }
}
