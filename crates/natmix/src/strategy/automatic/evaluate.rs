//! Values and gradients for the automatic method, within the limits of its present task.

use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::strategy::Tools;
use crate::workspace::ScratchPool;

/// Points per chunk.
pub(crate) const CHUNK: usize = 32;

/// The evaluator of a run, with the limits of the present task.
pub(crate) struct LimitedEvaluator<'a> {
    pub evaluator: &'a mut dyn Evaluator,
    pub scratch: &'a ScratchPool,
    /// Most evaluations until the end of the present task.
    pub limit: u64,
    /// Most evaluations of the whole run.
    pub most_evals: u64,
    /// Whether to go on: asked before each evaluation of a search, so that a cancelled run ends soon.
    pub go_on: &'a mut dyn FnMut(&dyn Evaluator) -> bool,
    /// Buffers that travel to the evaluator and back.
    pub batch: &'a mut Batch,
}

impl<'a> LimitedEvaluator<'a> {
    /// One without limits.
    pub fn new(tools: &'a mut Tools<'_>, batch: &'a mut Batch) -> Self {
        Self {
            evaluator: &mut *tools.evaluator,
            scratch: tools.scratch,
            limit: u64::MAX,
            most_evals: u64::MAX,
            go_on: &mut *tools.go_on,
            batch,
        }
    }

    /// Whether the density is known to be log-concave.
    pub fn is_log_concave(&self) -> bool {
        self.evaluator.is_log_concave()
    }

    /// Points evaluated so far.
    pub fn evals(&self) -> u64 {
        self.evaluator.spent().evals
    }

    /// Whether `count` more evaluations are allowed.
    pub fn may_spend(&mut self, count: usize) -> bool {
        self.evals().saturating_add(count as u64) <= self.limit && (self.go_on)(self.evaluator)
    }

    /// Whether `count` more evaluations are within the budget of the whole run.
    pub fn can_afford(&self, count: usize) -> bool {
        self.evals().saturating_add(count as u64) <= self.most_evals
    }

    /// Values and gradients at `z`. A point that cannot be used gets a value that is not finite.
    pub fn evaluate(&mut self, z: &[f64], log_p: &mut [f64], grad: &mut [f64]) -> Result<(), Error> {
        let mut batch = std::mem::take(self.batch);
        if batch.parts.is_empty() {
            let request = Request { gradient: true, ..Request::default() };
            batch = Batch { request, parts: vec![Part::default()] };
        }
        batch.parts[0].resize(log_p.len(), self.evaluator.dim(), CHUNK, &batch.request);
        batch.parts[0].z.copy_from_slice(z);
        let ticket = self.evaluator.submit(batch);
        *self.batch = self.evaluator.collect(ticket)?;
        log_p.copy_from_slice(&self.batch.parts[0].log_p);
        grad.copy_from_slice(&self.batch.parts[0].grad);
        Ok(())
    }
}

/// Calls `task` with an evaluator of `target` that may spend `most_evals` evaluations.
#[cfg(test)]
pub(super) fn with_evaluator<R>(
    target: &dyn crate::target::Target,
    most_evals: u64,
    task: impl FnOnce(&mut LimitedEvaluator<'_>) -> R,
) -> R {
    let (scratch, mut always) = (ScratchPool::new(1), |_: &dyn Evaluator| true);
    let (mut whole, mut batch) =
        (crate::evaluate::of_target(target, &scratch, crate::evaluate::Limits::default()), Batch::default());
    let mut tools = Tools { evaluator: &mut *whole, scratch: &scratch, iteration: 0, go_on: &mut always };
    let limits = LimitedEvaluator::new(&mut tools, &mut batch);
    task(&mut LimitedEvaluator { limit: most_evals, most_evals, ..limits })
}
