//! Checkpoints: a run saved in a file, to be resumed as if it had never stopped.
//!
//! A checkpoint holds the whole [`State`] and the [`Config`], exact to the bit, in the format of [`crate::save`]. All
//! noise is keyed by seed, component and iteration, so a resumed run gives the same bits as an uninterrupted one. While
//! chains finish a fit, it holds them too.
//!
//! ```
//! use natmix::checkpoint::{Checkpoint, Checkpointer};
//! use natmix::family::{Gaussian, Mixture};
//! use natmix::{Config, Fit};
//!
//! let path = std::env::temp_dir().join(format!("natmix-doc-checkpoint-{}", std::process::id()));
//! let target = Mixture::single(Gaussian::isotropic(vec![3.0], 0.5));
//! let config = Config { max_iterations: 6, ..Config::default() };
//! let unbroken = Fit::new(&target, config).observe(&mut Checkpointer::new(&path, 4)).run().unwrap();
//!
//! let Checkpoint { state, config } = Checkpoint::load(&path).unwrap();
//! assert_eq!(state.iteration(), 4);
//! let resumed = Fit::new(&target, config).resume(state).run().unwrap();
//! assert_eq!(resumed.mixture, unbroken.mixture);
//! # std::fs::remove_file(path).unwrap();
//! ```

use crate::chains::saved::{ChainsDocument, SavedChains};
use crate::config::Config;
use crate::error::Error;
use crate::evaluate::Spent;
use crate::family::Mixture;
use crate::run::observe::{ChainsUnderWay, Iteration, Observer};
use crate::save::bundle::{self, Layout, Stored, Tensors};
use crate::save::parts::check_all;
use crate::strategy::record::MOST_COUNT;
use crate::strategy::start::check_start;
use crate::strategy::{Strategy, kind_of};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Times as long as it takes to write chains that pass before they are written again, at least.
const LEAST_PAUSE: u32 = 20;

/// What the driver counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub iteration: u64,
    pub spent: Spent,
    pub seconds: f64,
}

/// What the verdict on a run needs to know about its beginning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Beginning {
    /// Standard deviation of the start, in each coordinate.
    pub sd: Vec<f64>,
    /// What the check of the gradient had to say.
    pub remark: Option<String>,
}

/// A run between two iterations: counts, and what its strategy has saved.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) counts: Counts,
    /// Checkpoints of earlier versions do not have it.
    pub(crate) beginning: Option<Beginning>,
    mixture: Mixture,
    /// Which kind of strategy it was.
    kind: &'static str,
    document: Value,
    tensors: Tensors,
    /// Identifies the data of the run.
    data: Option<String>,
    /// The chains, if they are under way.
    pub(crate) chains: Option<SavedChains>,
    /// The limit of time that had ended the fit before them, if one had.
    pub(crate) timed_out: Option<f64>,
}

impl State {
    /// The state of a run.
    pub(crate) fn of(
        strategy: &dyn Strategy,
        (counts, beginning): (Counts, &Beginning),
        config: &Config,
    ) -> Result<Self, Error> {
        let mut tensors = Tensors::default();
        let document = strategy.save(&mut tensors)?;
        let mixture = strategy.mixture().clone();
        let (kind, data, chains, timed_out) = (kind_of(config).name(), None, None, None);
        let beginning = Some(beginning.clone());
        Ok(Self { counts, beginning, mixture, kind, document, tensors, data, chains, timed_out })
    }

    /// The same state with chains that finish the fit.
    pub(crate) fn with_chains(mut self, chains: SavedChains, timed_out: Option<f64>) -> Self {
        (self.chains, self.timed_out) = (Some(chains), timed_out);
        self
    }

    /// The strategy as it was, for a run in dimension `dim` with the same settings.
    pub(crate) fn strategy(self, config: &Config, dim: usize) -> Result<Box<dyn Strategy>, Error> {
        check_start(&self.mixture, config, dim, None)?;
        let kind = kind_of(config);
        let fitting = || {
            if kind.name() != self.kind {
                return Err(format!("its strategy is `{}`", self.kind));
            }
            self.tensors.check(&kind.layout(&self.document)?)
        };
        let fitting = fitting().and_then(|()| kind.load(&self.document, self.tensors.clone()));
        fitting.map_err(|problem| {
            Error::InvalidInput(format!(
                "the state does not go with method `{}` ({problem}): resume with the settings of its run",
                config.method().name()
            ))
        })
    }

    /// The current mixture.
    pub fn mixture(&self) -> &Mixture {
        &self.mixture
    }
    /// Iterations done.
    pub fn iteration(&self) -> u64 {
        self.counts.iteration
    }
    /// Points at which the target was evaluated.
    pub fn evals(&self) -> u64 {
        self.counts.spent.evals
    }
    /// Whether the fit had ended, and chains were under way.
    pub fn has_chains(&self) -> bool {
        self.chains.is_some()
    }
    /// What identifies the data of the run, if its owner has said it: see [`State::with_data`].
    pub fn data(&self) -> Option<&str> {
        self.data.as_deref()
    }
    /// The same state with a fingerprint of the data, so that whoever resumes the run can see whether they are the same.
    pub fn with_data(mut self, fingerprint: Option<String>) -> Self {
        self.data = fingerprint;
        self
    }
}

/// A run between two iterations, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The state of the run.
    pub state: State,
    /// Its settings.
    pub config: Config,
}

impl Checkpoint {
    /// Writes the checkpoint to a file. A file of that name is replaced only when the new one is complete.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        bundle::write_file(path, &self.to_bytes()?)
    }

    /// Reads a checkpoint from a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        bundle::read_file(path)
    }

    /// The bytes that [`Checkpoint::save`] writes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let State { counts, beginning, mixture: _, kind: _, document, tensors, data, chains, timed_out } = &self.state;
        let mut tensors = tensors.clone();
        if let Some(chains) = chains {
            tensors.join(&chains.tensors);
        }
        tensors.add("seconds", vec![1], vec![counts.seconds]);
        if let Some(Beginning { sd, .. }) = beginning {
            tensors.add("start_sd", vec![sd.len()], sd.clone());
        }
        let document = CheckpointDocument {
            config: self.config.clone(),
            iteration: counts.iteration,
            evals: counts.spent.evals,
            dropped: counts.spent.dropped,
            data: data.clone(),
            start_dim: beginning.as_ref().map(|beginning| beginning.sd.len()),
            remark: beginning.as_ref().and_then(|beginning| beginning.remark.clone()),
            chains: chains.as_ref().map(|chains| chains.document.clone()),
            timed_out: *timed_out,
            strategy: document.clone(),
        };
        bundle::encode::<Checkpoint>(&document, &tensors)
    }
}

/// Reads a checkpoint from the bytes of a file, with the same checks as [`Checkpoint::load`].
pub fn read_checkpoint_bytes(bytes: &[u8]) -> Result<Checkpoint, Error> {
    bundle::read_bytes(bytes, "checkpoint")
}

/// An observer that writes a checkpoint at intervals, always to the same file.
#[derive(Clone, Debug)]
pub struct Checkpointer {
    path: PathBuf,
    every: u64,
    interval: Duration,
    saved: Instant,
    data: Option<String>,
    has_chains: bool,
    /// How long it took to write the last one with chains.
    writing: Duration,
}

impl Checkpointer {
    /// Writes to `path` after every `every_iterations` iterations; zero counts as one.
    pub fn new(path: impl Into<PathBuf>, every_iterations: u64) -> Self {
        let (every, interval, saved) = (every_iterations.max(1), Duration::MAX, Instant::now());
        let (data, has_chains, writing) = (None, false, Duration::ZERO);
        Self { path: path.into(), every, interval, saved, data, has_chains, writing }
    }

    /// Also writes after the first iteration that ends at least `interval` after the last checkpoint; while chains finish the fit
    /// only then, since there is more to write. The clock decides when to save, and nothing else.
    pub fn and_after(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Adds a fingerprint of the data to each checkpoint.
    pub fn with_data(mut self, fingerprint: Option<String>) -> Self {
        self.data = fingerprint;
        self
    }

    /// Whether the last checkpoint holds chains under way.
    pub fn has_chains(&self) -> bool {
        self.has_chains
    }

    fn write(&mut self, Checkpoint { state, config }: Checkpoint) -> Result<(), Error> {
        let has_chains = state.has_chains();
        Checkpoint { state: state.with_data(self.data.clone()), config }.save(&self.path)?;
        (self.saved, self.has_chains) = (Instant::now(), has_chains);
        Ok(())
    }
}

impl Observer for Checkpointer {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        if it.iteration.is_multiple_of(self.every) || self.saved.elapsed() >= self.interval {
            self.write(it.checkpoint()?)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn chains_under_way(&mut self, chains: &ChainsUnderWay<'_>) -> Result<(), Error> {
        let due = match self.interval {
            Duration::MAX => chains.progress().iteration.is_multiple_of(self.every),
            interval => self.saved.elapsed() >= interval.max(LEAST_PAUSE * self.writing),
        };
        let began = Instant::now();
        if let Some(checkpoint) = due.then(|| chains.checkpoint()).transpose()?.flatten() {
            self.write(checkpoint)?;
            self.writing = began.elapsed();
        }
        Ok(())
    }
}

/// All of a checkpoint but its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[doc(hidden)]
pub struct CheckpointDocument {
    config: Config,
    iteration: u64,
    evals: u64,
    dropped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Length of `start_sd`, and the remark of the check of the gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_dim: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chains: Option<ChainsDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timed_out: Option<f64>,
    /// The strategy's own document.
    strategy: Value,
}

impl Stored for Checkpoint {
    const KIND: &'static str = "checkpoint";
    // Format 1 laid out the state of every strategy here.
    const FORMAT: u64 = 2;
    type Document = CheckpointDocument;

    fn layout(document: &CheckpointDocument) -> Result<Layout, String> {
        let CheckpointDocument { config, iteration, evals, dropped, strategy, start_dim, chains, .. } = document;
        config.validate().map_err(|error| error.to_string())?;
        if [iteration, evals, dropped].iter().any(|count| **count > MOST_COUNT) {
            return Err("a counter is out of range".into());
        }
        let mut layout = kind_of(config).layout(strategy)?;
        layout.push(("seconds".into(), vec![1]));
        layout.extend(start_dim.map(|d| ("start_sd".to_owned(), vec![d])));
        if let Some(chains) = chains {
            layout.extend(chains.layout()?);
        }
        Ok(layout)
    }

    fn assemble(document: CheckpointDocument, mut tensors: Tensors) -> Result<Self, String> {
        let CheckpointDocument {
            config,
            iteration,
            evals,
            dropped,
            data,
            start_dim,
            remark,
            chains,
            timed_out,
            strategy,
        } = document;
        let chains = chains.map(|chains| SavedChains::take(chains, &mut tensors)).transpose()?;
        let beginning = start_dim.map(|_| Beginning { sd: tensors.take("start_sd"), remark });
        let seconds = tensors.take("seconds");
        check_all("seconds", &seconds, |x| x.is_finite() && x >= 0.0)?;
        let kind = kind_of(&config);
        let (name, loaded) = (kind.name(), kind.load(&strategy, tensors.clone())?);
        drop(kind);
        let state = State {
            counts: Counts { iteration, spent: Spent { evals, dropped }, seconds: seconds[0] },
            beginning,
            mixture: loaded.mixture().clone(),
            kind: name,
            document: strategy,
            tensors,
            data,
            chains,
            timed_out,
        };
        let dim = state.mixture.dim();
        if state.beginning.as_ref().is_some_and(|beginning| beginning.sd.len() != dim) {
            return Err("`start_sd` has another dimension than its mixture".into());
        }
        Ok(Self { state, config })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Gaussian;
    use crate::run::Fit;

    #[test]
    fn a_checkpoint_without_chains_and_beginning_is_read_and_resumed() {
        let target = Mixture::single(Gaussian::isotropic(vec![3.0], 0.5));
        let config = Config { max_iterations: 6, ..Config::default() };
        let mut state = Fit::new(&target, config.clone()).run().unwrap().state;
        state.beginning = None;
        let checkpoint = Checkpoint { state, config };
        let bytes = checkpoint.to_bytes().unwrap();
        // As an earlier version wrote it.
        for name in ["start_sd", "start_dim", "chains", "timed_out", "remark"] {
            assert!(!bytes.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
        }
        let read = read_checkpoint_bytes(&bytes).unwrap();
        assert_eq!(read, checkpoint);
        assert_eq!(Fit::new(&target, read.config).resume(read.state).run().unwrap().iterations, 6);
    }
}
