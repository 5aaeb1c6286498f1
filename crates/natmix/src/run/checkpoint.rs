//! Checkpoints: a run saved in a file, to be resumed as if it had never stopped.
//!
//! A checkpoint holds the whole [`State`] and the [`Config`], exact to the bit, in the format of [`crate::save`]. All
//! noise is keyed by seed, component and iteration, so a resumed run gives the same bits as an uninterrupted one.
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

use crate::config::Config;
use crate::error::Error;
use crate::evaluate::Spent;
use crate::family::Mixture;
use crate::run::observe::{Iteration, Observer};
use crate::save::bundle::{self, Layout, Stored, Tensors};
use crate::save::parts::check_all;
use crate::strategy::record::MOST_COUNT;
use crate::strategy::start::check_start;
use crate::strategy::{Strategy, kind_of};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// What the driver counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub iteration: u64,
    pub spent: Spent,
    pub seconds: f64,
}

/// A run between two iterations: counts, and what its strategy has saved.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) counts: Counts,
    mixture: Mixture,
    /// Which kind of strategy it was.
    kind: &'static str,
    document: Value,
    tensors: Tensors,
}

impl State {
    /// The state of a run.
    pub(crate) fn of(strategy: &dyn Strategy, counts: Counts, config: &Config) -> Result<Self, Error> {
        let mut tensors = Tensors::default();
        let document = strategy.save(&mut tensors)?;
        Ok(Self { counts, mixture: strategy.mixture().clone(), kind: kind_of(config).name(), document, tensors })
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
        let State { counts, mixture: _, kind: _, document, tensors } = &self.state;
        let mut tensors = tensors.clone();
        tensors.add("seconds", vec![1], vec![counts.seconds]);
        let document = CheckpointDocument {
            config: self.config.clone(),
            iteration: counts.iteration,
            evals: counts.spent.evals,
            dropped: counts.spent.dropped,
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
}

impl Checkpointer {
    /// Writes to `path` after every `every_iterations` iterations; zero counts as one.
    pub fn new(path: impl Into<PathBuf>, every_iterations: u64) -> Self {
        Self { path: path.into(), every: every_iterations.max(1) }
    }
}

impl Observer for Checkpointer {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        if it.iteration.is_multiple_of(self.every) {
            it.checkpoint()?.save(&self.path)?;
        }
        Ok(ControlFlow::Continue(()))
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
    /// The strategy's own document.
    strategy: Value,
}

impl Stored for Checkpoint {
    const KIND: &'static str = "checkpoint";
    // Format 1 laid out the state of every strategy here.
    const FORMAT: u64 = 2;
    type Document = CheckpointDocument;

    fn layout(document: &CheckpointDocument) -> Result<Layout, String> {
        let CheckpointDocument { config, iteration, evals, dropped, strategy } = document;
        config.validate().map_err(|error| error.to_string())?;
        if [iteration, evals, dropped].iter().any(|count| **count > MOST_COUNT) {
            return Err("a counter is out of range".into());
        }
        let mut layout = kind_of(config).layout(strategy)?;
        layout.push(("seconds".into(), vec![1]));
        Ok(layout)
    }

    fn assemble(document: CheckpointDocument, mut tensors: Tensors) -> Result<Self, String> {
        let CheckpointDocument { config, iteration, evals, dropped, strategy } = document;
        let seconds = tensors.take("seconds");
        check_all("seconds", &seconds, |x| x.is_finite() && x >= 0.0)?;
        let kind = kind_of(&config);
        let (name, loaded) = (kind.name(), kind.load(&strategy, tensors.clone())?);
        drop(kind);
        let state = State {
            counts: Counts { iteration, spent: Spent { evals, dropped }, seconds: seconds[0] },
            mixture: loaded.mixture().clone(),
            kind: name,
            document: strategy,
            tensors,
        };
        Ok(Self { state, config })
    }
}
