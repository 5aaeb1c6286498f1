//! Strategies: each is a way to fit a mixture, iteration by iteration, under one common [driver](crate::run).
//!
//! | strategy | what it does |
//! |---|---|
//! | `parts` | the methods of the paper, as combinations of draws, estimator and rule |
//! | [`automatic`] | finds modes, number of components, steps and draws by itself |
//!
//! A strategy owns its state: the driver counts, tells observers and stops, and knows nothing of the internals. Another
//! one is a folder beside these, with a `Strategy` and a `StrategyKind`, and a line in `kind_of`.

pub mod automatic;
pub(crate) mod parts;
pub(crate) mod record;
pub(crate) mod start;

use crate::config::{Config, StrategyConfig};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::Mixture;
use crate::rule::StepInfo;
use crate::run::stop::StopReason;
use crate::save::bundle::{Layout, Tensors};
use crate::target::Target;
use crate::workspace::ScratchPool;
use automatic::SearchSummary;
use serde_json::Value;
use std::fmt::Debug;

/// What the driver lends to a strategy for one iteration.
pub(crate) struct Tools<'a> {
    /// The target, for what it knows of its parameters.
    pub target: &'a dyn Target,
    /// Evaluates points, and counts them.
    pub evaluator: &'a mut dyn Evaluator,
    /// Buffers for the threads of the run.
    pub scratch: &'a ScratchPool,
    /// Iterations done.
    pub iteration: u64,
    /// Whether to continue: for strategies that do much work before their first iteration, to be asked at intervals.
    pub go_on: &'a mut dyn FnMut(&dyn Evaluator) -> bool,
    /// Whether there is time for so many evaluations.
    pub has_time: &'a dyn Fn(u64) -> bool,
}

/// What one call of [`Strategy::iterate`] has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Progress {
    /// Something before the first iteration, such as a search for modes.
    Prepared,
    /// An iteration, with the ELBO of the mixture before it and the standard error of that.
    Iterated { elbo: f64, se: f64 },
}

/// The result of a strategy.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub mixture: Mixture,
    /// ELBO from the points of the latest iterations, and its standard error.
    pub running_elbo: (f64, f64),
    /// What a search for modes found, if there was one.
    pub search: Option<SearchSummary>,
}

/// A way to fit a mixture, with all that it carries from one iteration to the next.
pub(crate) trait Strategy: Debug + Send {
    /// Does the next iteration, or prepares the first.
    fn iterate(&mut self, tools: &mut Tools<'_>) -> Result<Progress, Error>;

    /// The current mixture.
    fn mixture(&self) -> &Mixture;

    /// The outcome of each component's step in the latest iteration.
    fn steps(&self) -> &[StepInfo];

    /// Most evaluations that the next iteration needs, not counting repeated ones.
    fn next_cost(&self) -> u64;

    /// Why the strategy has finished, if it has by its own rule.
    fn finished(&self) -> Option<StopReason>;

    /// The reason to report when the evaluations are used up.
    fn reason_when_spent(&self) -> StopReason {
        StopReason::MaxEvals
    }

    /// The result, if the run ends here.
    fn outcome(&self) -> Outcome;

    /// All that another run needs to resume from here, as a document and tensors.
    fn save(&self, tensors: &mut Tensors) -> Result<Value, Error>;
}

/// How strategies of one kind are created and loaded, with the settings of one run.
pub(crate) trait StrategyKind {
    /// The name that messages and checkpoints use.
    fn name(&self) -> &'static str;

    /// Whether the target offers what these settings need.
    fn check(&self, target: &dyn Target) -> Result<(), Error>;

    /// Most evaluations of a run.
    fn budget(&self) -> Option<u64>;

    /// A fresh strategy in dimension `dim`, from a mixture or from where the settings say.
    fn begin(&self, dim: usize, start: Option<Mixture>) -> Result<Box<dyn Strategy>, Error>;

    /// The tensors that go with a document of [`Strategy::save`]; fails with what is wrong in the document.
    fn layout(&self, document: &Value) -> Result<Layout, String>;

    /// The strategy that was saved; the tensors have the layout of the document. Fails with what is wrong in them.
    fn load(&self, document: &Value, tensors: Tensors) -> Result<Box<dyn Strategy>, String>;
}

/// The kind of strategy that the settings ask for.
pub(crate) fn kind_of(config: &Config) -> Box<dyn StrategyKind + '_> {
    match &config.strategy {
        StrategyConfig::Automatic(settings) => Box::new(automatic::AutomaticKind { config, settings }),
        StrategyConfig::Parts(settings) => Box::new(parts::PartsKind { config, settings }),
    }
}

/// Fails if the target has no gradients.
pub(crate) fn need_gradient(target: &dyn Target) -> Result<(), Error> {
    if target.has_gradient() {
        return Ok(());
    }
    Err(Error::Unsupported { needed: "gradients".into(), offered: "values only (try `bbvi`)".into() })
}
