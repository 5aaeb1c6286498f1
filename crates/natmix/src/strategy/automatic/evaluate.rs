//! Values and gradients for the automatic method, within the limits of its present task.

use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::strategy::Tools;
use crate::workspace::ScratchPool;
use std::time::Instant;

/// Seconds after which a search looks at the clock.
const MOST_SECONDS: f64 = 0.1;
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
    /// Seconds per evaluation in the latest batch.
    pub pace: f64,
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
            pace: 0.0,
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

    /// Whether nobody has stopped the run, and there is time left.
    pub fn goes_on(&mut self) -> bool {
        (self.go_on)(self.evaluator)
    }

    /// Values and gradients at `z`. A point that cannot be used gets a value that is not finite; so do those that are left when
    /// a search is stopped: slow evaluations are made in pieces.
    pub fn evaluate(&mut self, z: &[f64], log_p: &mut [f64], grad: &mut [f64]) -> Result<(), Error> {
        let in_pieces = self.limit < u64::MAX && self.pace > 0.0 && self.evaluator.works_in_chunks();
        let piece = if in_pieces { (MOST_SECONDS / self.pace) as usize / CHUNK * CHUNK } else { usize::MAX };
        let (d, piece) = (self.evaluator.dim(), piece.max(CHUNK).min(log_p.len().max(1)));
        let mut stopped = false;
        let pieces = z.chunks(piece * d).zip(log_p.chunks_mut(piece).zip(grad.chunks_mut(piece * d)));
        for (at, (z, (log_p, grad))) in pieces.enumerate() {
            stopped |= at > 0 && !self.goes_on();
            if stopped {
                log_p.fill(f64::NAN);
                grad.fill(f64::NAN);
                continue;
            }
            let began = Instant::now();
            self.evaluate_piece(z, log_p, grad)?;
            self.pace = began.elapsed().as_secs_f64() / log_p.len().max(1) as f64;
        }
        Ok(())
    }

    fn evaluate_piece(&mut self, z: &[f64], log_p: &mut [f64], grad: &mut [f64]) -> Result<(), Error> {
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
    let has_time = &|_| true;
    let mut tools =
        Tools { target, evaluator: &mut *whole, scratch: &scratch, iteration: 0, go_on: &mut always, has_time };
    let limits = LimitedEvaluator::new(&mut tools, &mut batch);
    task(&mut LimitedEvaluator { limit: most_evals, most_evals, ..limits })
}
