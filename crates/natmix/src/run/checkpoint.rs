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
use std::time::{Duration, Instant};

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
    /// Identifies the data of the run.
    data: Option<String>,
}

impl State {
    /// The state of a run.
    pub(crate) fn of(strategy: &dyn Strategy, counts: Counts, config: &Config) -> Result<Self, Error> {
        let mut tensors = Tensors::default();
        let document = strategy.save(&mut tensors)?;
        let mixture = strategy.mixture().clone();
        Ok(Self { counts, mixture, kind: kind_of(config).name(), document, tensors, data: None })
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
        let State { counts, mixture: _, kind: _, document, tensors, data } = &self.state;
        let mut tensors = tensors.clone();
        tensors.add("seconds", vec![1], vec![counts.seconds]);
        let document = CheckpointDocument {
            config: self.config.clone(),
            iteration: counts.iteration,
            evals: counts.spent.evals,
            dropped: counts.spent.dropped,
            data: data.clone(),
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
}

impl Checkpointer {
    /// Writes to `path` after every `every_iterations` iterations; zero counts as one.
    pub fn new(path: impl Into<PathBuf>, every_iterations: u64) -> Self {
        let (every, interval, saved) = (every_iterations.max(1), Duration::MAX, Instant::now());
        Self { path: path.into(), every, interval, saved, data: None }
    }

    /// Also writes after the first iteration that ends at least `interval` after the last checkpoint. The clock decides
    /// when to save, and nothing else.
    pub fn and_after(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Adds a fingerprint of the data to each checkpoint.
    pub fn with_data(mut self, fingerprint: Option<String>) -> Self {
        self.data = fingerprint;
        self
    }
}

impl Observer for Checkpointer {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        if it.iteration.is_multiple_of(self.every) || self.saved.elapsed() >= self.interval {
            let Checkpoint { state, config } = it.checkpoint()?;
            Checkpoint { state: state.with_data(self.data.clone()), config }.save(&self.path)?;
            self.saved = Instant::now();
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// The strategy's own document.
    strategy: Value,
}

impl Stored for Checkpoint {
    const KIND: &'static str = "checkpoint";
    // Format 1 laid out the state of every strategy here.
    const FORMAT: u64 = 2;
    type Document = CheckpointDocument;

    fn layout(document: &CheckpointDocument) -> Result<Layout, String> {
        let CheckpointDocument { config, iteration, evals, dropped, strategy, data: _ } = document;
        config.validate().map_err(|error| error.to_string())?;
        if [iteration, evals, dropped].iter().any(|count| **count > MOST_COUNT) {
            return Err("a counter is out of range".into());
        }
        let mut layout = kind_of(config).layout(strategy)?;
        layout.push(("seconds".into(), vec![1]));
        Ok(layout)
    }

    fn assemble(document: CheckpointDocument, mut tensors: Tensors) -> Result<Self, String> {
        let CheckpointDocument { config, iteration, evals, dropped, strategy, data } = document;
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
            data,
        };
        Ok(Self { state, config })
    }
}
