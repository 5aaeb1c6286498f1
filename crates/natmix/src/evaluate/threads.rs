//! Chunks of points over the threads of the present pool: for targets that several threads can evaluate at once.

use super::chunk::{Chunk, Question};
use super::{Batch, Evaluator, Ledger, Limits, Spent, Ticket};
use crate::error::Error;
use crate::target::Target;
use crate::workspace::ScratchPool;
use rayon::prelude::*;

/// Evaluates chunk by chunk, in parallel. The chunks are those of the batch, so that results do not depend on threads.
pub struct Threads<'a> {
    target: &'a dyn Target,
    scratch: &'a ScratchPool,
    ledger: Ledger,
}

impl<'a> Threads<'a> {
    /// An evaluator of `target` in the thread pool from which it is used.
    pub fn new(target: &'a dyn Target, scratch: &'a ScratchPool, limits: Limits) -> Self {
        Self { target, scratch, ledger: Ledger::new(limits) }
    }
}

impl Evaluator for Threads<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn num_rows(&self) -> Option<usize> {
        self.target.num_rows()
    }

    fn is_log_concave(&self) -> bool {
        self.target.is_log_concave()
    }

    fn submit(&mut self, mut batch: Batch) -> Ticket {
        let request = &batch.request;
        let question = Question { target: self.target, request, repeat: request.repeat_without_failed };
        let scratch = self.scratch;
        batch.parts.par_iter_mut().for_each(|part| {
            Chunk::all(part).for_each(&|chunk| scratch.with(|scratch| question.evaluate(chunk, scratch)));
        });
        self.ledger.enter(batch)
    }

    fn collect(&mut self, ticket: Ticket) -> Result<Batch, Error> {
        self.ledger.collect(&ticket)
    }

    fn spent(&self) -> Spent {
        self.ledger.limits.spent
    }

    fn affords(&self, points: u64) -> bool {
        self.ledger.affords(points)
    }
}
