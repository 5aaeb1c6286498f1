//! From points to values: every question that a run has for its target goes through here.
//!
//! A [`Batch`] of points is submitted, which gives a [`Ticket`], and collected again with the values filled in: the buffers
//! travel there and back, so that nothing is allocated once they have their size. Several batches may be pending at the
//! same time. Evaluations are counted here, and so are points that cannot be used.
//!
//! The points of a batch come in parts (one per component, for example) and are evaluated in chunks of a size that the
//! part names. How many threads, processes or machines share the chunks must not change a bit of the result.
//!
//! [`of_target`] chooses the implementor: [`Threads`] for targets in Rust, [`WholeBatches`] for those in another language,
//! where each call is expensive. Another one is a file beside these and a line there.
//!
//! ```
//! use natmix::evaluate::{Batch, Evaluator, Limits, Part, Request, of_target};
//! use natmix::family::{Gaussian, Mixture};
//! use natmix::ScratchPool;
//! let target = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
//! let scratch = ScratchPool::new(1);
//! let mut evaluator = of_target(&target, &scratch, Limits::default());
//! let request = Request { gradient: true, ..Request::default() };
//! let part = Part::new(&[-1.0, 0.0, 1.0], 1, 32, &request);
//! let ticket = evaluator.submit(Batch { request, parts: vec![part] });
//! let batch = evaluator.collect(ticket).unwrap();
//! assert_eq!(batch.parts[0].grad, [1.0, 0.0, -1.0]);
//! assert_eq!(evaluator.spent().evals, 3);
//! ```

mod chunk;
mod threads;
mod whole;

pub use threads::{Threads, check_threads, with_threads};
pub use whole::WholeBatches;

use crate::error::Error;
use crate::target::{Curvature, CurvatureShape, Rows, Target, TargetError};
use crate::workspace::ScratchPool;
use chunk::Chunk;
use std::collections::VecDeque;

/// What is asked about the points of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The data rows that enter; all of them if not set.
    pub rows: Option<Vec<u32>>,
    /// Whether gradients are wanted.
    pub gradient: bool,
    /// Which curvature is wanted, if any: as weighted sums over the points of each chunk.
    pub curvature: Option<(Curvature, CurvatureShape)>,
    /// How many such sums each chunk has.
    pub sums_per_chunk: usize,
    /// Whether a chunk in which points fail is evaluated again without them, so that they cannot spoil the sums over
    /// the others.
    pub repeat_without_failed: bool,
}

impl Request {
    /// The rows, as a target takes them.
    pub fn rows(&self) -> Rows<'_> {
        self.rows.as_deref().map_or(Rows::All, Rows::Subset)
    }

    /// Numbers of all curvature sums of one chunk.
    fn sums_len(&self, dim: usize) -> usize {
        self.curvature.map_or(0, |(_, shape)| self.sums_per_chunk * shape.len(dim))
    }
}

/// Points that are evaluated together, with room for the target's answers.
#[derive(Debug, Default)]
pub struct Part {
    /// The points, one after the other.
    pub z: Vec<f64>,
    /// Points per chunk.
    pub chunk: usize,
    /// Weights of the curvature sums, chunk after chunk: one run of the chunk's points for each of its sums.
    pub weights: Vec<f64>,
    /// `log p` at each point. A point is usable if this is finite: one with a gradient or curvature that is not gets NaN.
    pub log_p: Vec<f64>,
    /// Gradients, one point after the other; empty unless asked for.
    pub grad: Vec<f64>,
    /// Curvature sums, chunk after chunk; empty unless asked for.
    pub curv: Vec<f64>,
    /// The outcome of each chunk.
    reports: Vec<ChunkReport>,
}

impl Part {
    /// A part with these points of dimension `dim`, and room for the answers to `request`.
    pub fn new(points: &[f64], dim: usize, chunk: usize, request: &Request) -> Self {
        let mut part = Self::default();
        part.resize(points.len() / dim, dim, chunk, request);
        part.z.copy_from_slice(points);
        part
    }

    /// Makes room for `count` points of dimension `dim`, in chunks of `chunk`, and for the answers to `request`.
    pub fn resize(&mut self, count: usize, dim: usize, chunk: usize, request: &Request) {
        self.chunk = chunk.max(1);
        let chunks = count.div_ceil(self.chunk);
        self.z.resize(count * dim, 0.0);
        self.log_p.resize(count, 0.0);
        self.grad.resize(if request.gradient { count * dim } else { 0 }, 0.0);
        self.weights.resize(if request.curvature.is_some() { count * request.sums_per_chunk } else { 0 }, 0.0);
        self.curv.resize(chunks * request.sums_len(dim), 0.0);
        self.reports.resize_with(chunks, ChunkReport::default);
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.log_p.len()
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.log_p.is_empty()
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.reports.len()
    }

    /// The curvature sums of chunk `at`.
    pub(crate) fn curv_of(&self, at: usize) -> &[f64] {
        let each = self.curv.len() / self.chunks().max(1);
        &self.curv[at * each..(at + 1) * each]
    }
}

/// Points to evaluate, and what to find out about them. Comes back with the values.
#[derive(Debug, Default)]
pub struct Batch {
    /// What is asked.
    pub request: Request,
    /// The points.
    pub parts: Vec<Part>,
}

/// The outcome of one chunk.
#[derive(Debug, Default)]
struct ChunkReport {
    evals: u64,
    dropped: u64,
    error: Option<TargetError>,
}

/// The points of a chunk before they are evaluated, with the values that the batch brought along.
#[derive(Debug)]
pub struct ChunkPoints<'a> {
    /// The points, one after the other.
    pub z: &'a mut [f64],
    /// `log p`, as far as the batch brought it along.
    pub log_p: &'a mut [f64],
    /// Gradients, likewise.
    pub grad: &'a mut [f64],
}

/// Computes the points of a chunk: of this part, and with this number within it. Chunks are independent of one another.
pub type Prepare<'a> = dyn Fn(usize, usize, ChunkPoints<'_>) + Sync + 'a;

/// Identifies a batch that was submitted.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// What has been evaluated so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Points at which the target was evaluated.
    pub evals: u64,
    /// Points that could not be used.
    pub dropped: u64,
}

impl Spent {
    /// What has been spent since it was `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { evals: self.evals - before.evals, dropped: self.dropped - before.dropped }
    }
}

/// Where counting starts, and where it should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What was spent before.
    pub spent: Spent,
    /// Most evaluations.
    pub max_evals: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { spent: Spent::default(), max_evals: u64::MAX }
    }
}

/// The one way from points to values. See the [module page](self).
pub trait Evaluator: Send {
    /// Dimension of the points.
    fn dim(&self) -> usize;

    /// Number of data rows, where minibatches make sense.
    fn num_rows(&self) -> Option<usize>;

    /// Whether the density is known to be log-concave.
    fn is_log_concave(&self) -> bool;

    /// Whether points are evaluated chunk by chunk, so that a batch may be submitted in pieces of whole chunks with the same
    /// result.
    fn works_in_chunks(&self) -> bool;

    /// Hands over a batch. Batches may be collected in any order; each is worked on by itself.
    fn submit(&mut self, batch: Batch) -> Ticket;

    /// Hands over a batch whose points are still to be computed: `prepare` does it for each chunk of each part, in the thread that
    /// evaluates the chunk where chunks are spread over threads: a short step then waits for all threads once, not twice.
    fn submit_prepared(&mut self, mut batch: Batch, prepare: &Prepare<'_>) -> Ticket {
        for (part, own) in batch.parts.iter_mut().enumerate() {
            Chunk::all(own).for_each(0, &|number, mut chunk| prepare(part, number, chunk.points()));
        }
        self.submit(batch)
    }

    /// Waits for a batch and hands it back with its values. Fails with the first error, in the order of the points.
    fn collect(&mut self, ticket: Ticket) -> Result<Batch, Error>;

    /// What the batches submitted so far have cost.
    fn spent(&self) -> Spent;

    /// Counts what a run that is resumed had spent, as if it had been spent here.
    fn count(&mut self, spent: Spent);

    /// Whether `points` more evaluations are within the budget.
    fn affords(&self, points: u64) -> bool;
}

/// The evaluator that suits `target`.
pub fn of_target<'a>(target: &'a dyn Target, scratch: &'a ScratchPool, limits: Limits) -> Box<dyn Evaluator + 'a> {
    if target.whole_batches() {
        Box::new(WholeBatches::new(target, scratch, limits))
    } else {
        Box::new(Threads::new(target, scratch, limits))
    }
}

/// Every method of [`Evaluator`] but `submit`, for a type with a `target` and a `ledger`.
macro_rules! answer_from_ledger {
    () => {
        fn dim(&self) -> usize {
            self.target.dim()
        }
        fn num_rows(&self) -> Option<usize> {
            self.target.num_rows()
        }
        fn is_log_concave(&self) -> bool {
            self.target.is_log_concave()
        }
        fn works_in_chunks(&self) -> bool {
            !self.target.whole_batches()
        }
        fn collect(&mut self, ticket: Ticket) -> Result<Batch, Error> {
            self.ledger.collect(&ticket)
        }
        fn spent(&self) -> Spent {
            self.ledger.limits.spent
        }
        fn count(&mut self, spent: Spent) {
            self.ledger.count(spent);
        }
        fn affords(&self, points: u64) -> bool {
            self.ledger.affords(points)
        }
    };
}
use answer_from_ledger;

/// The counts and the finished batches of an evaluator that evaluates each batch when it is submitted.
#[derive(Debug)]
struct Ledger {
    limits: Limits,
    next: u64,
    finished: VecDeque<(Ticket, Batch)>,
}

impl Ledger {
    fn new(limits: Limits) -> Self {
        Self { limits, next: 0, finished: VecDeque::new() }
    }

    /// Counts and keeps a batch that has been evaluated.
    fn enter(&mut self, batch: Batch) -> Ticket {
        let mut spent = Spent::default();
        for report in batch.parts.iter().flat_map(|part| &part.reports) {
            spent.evals += report.evals;
            spent.dropped += report.dropped;
        }
        self.count(spent);
        let number = self.next;
        self.next += 1;
        self.finished.push_back((Ticket(number), batch));
        Ticket(number)
    }

    fn count(&mut self, spent: Spent) {
        self.limits.spent.evals += spent.evals;
        self.limits.spent.dropped += spent.dropped;
    }

    fn collect(&mut self, ticket: &Ticket) -> Result<Batch, Error> {
        let place = self.finished.iter().position(|(finished, _)| finished == ticket);
        let Some((_, mut batch)) = place.and_then(|at| self.finished.remove(at)) else {
            return Err(Error::InvalidInput(
                "this evaluator has no such batch: collect each submitted batch once".into(),
            ));
        };
        let mut reports = batch.parts.iter_mut().flat_map(|part| &mut part.reports);
        match reports.find_map(|report| report.error.take()) {
            Some(error) => Err(error.into()),
            None => Ok(batch),
        }
    }

    fn affords(&self, points: u64) -> bool {
        self.limits.spent.evals.saturating_add(points) <= self.limits.max_evals
    }
}

#[cfg(test)]
mod tests;
