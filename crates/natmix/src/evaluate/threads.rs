//! Chunks of points spread over the threads of the current pool: for targets that several threads can evaluate at once.

use super::chunk::{Chunk, Question};
use super::{Batch, Evaluator, Ledger, Limits, Prepare, Spent, Ticket, answer_from_ledger};
use crate::error::Error;
use crate::target::Target;
use crate::workspace::ScratchPool;
use rayon::prelude::*;

/// Most threads: starting many thousands takes longer than a fit, or never ends.
const MOST_THREADS: usize = 1024;

/// Runs `work` in a pool of threads of its own, one per core if `threads` is zero; results do not depend on their number.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    check_threads(threads)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Error::Threads { threads, problem: error.to_string() })?;
    Ok(pool.install(work))
}

/// Refuses more threads than any machine makes use of.
pub fn check_threads(threads: usize) -> Result<(), Error> {
    if threads <= MOST_THREADS {
        return Ok(());
    }
    let problem = format!("must be at most {MOST_THREADS}, not {threads}: one per core is best (leave it out)");
    Err(Error::Config { setting: "threads", problem })
}

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
    answer_from_ledger!();

    fn submit(&mut self, batch: Batch) -> Ticket {
        self.submit_prepared(batch, &|_, _, _| {})
    }

    fn submit_prepared(&mut self, mut batch: Batch, prepare: &Prepare<'_>) -> Ticket {
        let request = &batch.request;
        let question = Question { target: self.target, request, repeat: request.repeat_without_failed };
        let scratch = self.scratch;
        batch.parts.par_iter_mut().enumerate().for_each(|(part, own)| {
            Chunk::all(own).for_each(0, &|number, mut chunk| {
                prepare(part, number, chunk.points());
                scratch.with(|scratch| question.evaluate(chunk, scratch));
            });
        });
        self.ledger.enter(batch)
    }
}
