//! All points of a batch in one call, from the thread that hosts the fit: for targets whose calls are expensive, such as
//! functions of another language.

use super::chunk::{Answer, Chunk, Question};
use super::{Batch, Evaluator, Ledger, Limits, Part, Request, Spent, Ticket, answer_from_ledger};
use crate::error::Error;
use crate::target::{Target, TargetError};
use crate::workspace::{Scratch, ScratchPool};

/// Most weights of curvature sums in one call: 32 MB of them. Beyond that, the parts of a batch go into several calls.
const MOST_WEIGHTS: usize = 1 << 22;

/// Evaluates each batch in one call. Curvature is asked for as the sums of all chunks: each has weights for all points,
/// zero outside its own chunk.
pub struct WholeBatches<'a> {
    target: &'a dyn Target,
    scratch: &'a ScratchPool,
    ledger: Ledger,
    z: Vec<f64>,
    weights: Vec<f64>,
    log_p: Vec<f64>,
    grad: Vec<f64>,
    curv: Vec<f64>,
}

impl<'a> WholeBatches<'a> {
    /// An evaluator that calls `target` in the thread from which it is used.
    pub fn new(target: &'a dyn Target, scratch: &'a ScratchPool, limits: Limits) -> Self {
        Self {
            target,
            scratch,
            ledger: Ledger::new(limits),
            z: Vec::new(),
            weights: Vec::new(),
            log_p: Vec::new(),
            grad: Vec::new(),
            curv: Vec::new(),
        }
    }

    /// How many of `parts` fit into the next call.
    fn fitting(parts: &[Part], request: &Request) -> usize {
        if request.curvature.is_none() {
            return parts.len();
        }
        let (mut points, mut chunks) = (0, 0);
        let fits = parts.iter().take_while(|part| {
            points += part.len();
            chunks += part.chunks();
            points * chunks * request.sums_per_chunk <= MOST_WEIGHTS
        });
        fits.count().max(1)
    }

    /// Lays the points of some parts side by side.
    fn gather(&mut self, parts: &[Part], request: &Request) {
        let total = |len: fn(&Part) -> usize| parts.iter().map(len).sum::<usize>();
        let points = total(Part::len);
        self.z.clear();
        parts.iter().for_each(|part| self.z.extend_from_slice(&part.z));
        self.log_p.resize(points, 0.0);
        self.grad.resize(total(|part| part.grad.len()), 0.0);
        self.curv.resize(total(|part| part.curv.len()), 0.0);
        self.weights.clear();
        if request.curvature.is_none() {
            return;
        }
        let sums = request.sums_per_chunk;
        self.weights.resize(total(Part::chunks) * sums * points, 0.0);
        let mut rows = self.weights.chunks_exact_mut(points.max(1));
        let mut first = 0;
        for part in parts {
            for weights in part.weights.chunks(part.chunk * sums) {
                let n = weights.len() / sums;
                for (own, row) in weights.chunks_exact(n).zip(&mut rows) {
                    row[first..first + n].copy_from_slice(own);
                }
                first += n;
            }
        }
    }

    /// Hands the values out to the parts.
    fn scatter(&self, parts: &mut [Part]) {
        let (mut log_p, mut grad, mut curv) = (&self.log_p[..], &self.grad[..], &self.curv[..]);
        for part in parts {
            for (to, from) in [(&mut part.log_p, &mut log_p), (&mut part.grad, &mut grad), (&mut part.curv, &mut curv)]
            {
                let (own, rest) = from.split_at(to.len());
                to.copy_from_slice(own);
                *from = rest;
            }
        }
    }

    fn evaluate(&mut self, parts: &mut [Part], request: &Request, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.gather(parts, request);
        // One failed point spoils the sums, but not the values and gradients of the other points.
        let repeat = request.repeat_without_failed && request.curvature.is_some();
        let question = Question { target: self.target, request, repeat };
        if !self.z.is_empty() {
            let answer =
                Answer { weights: &self.weights, log_p: &mut self.log_p, grad: &mut self.grad, curv: &mut self.curv };
            question.ask(&self.z, self.target.dim(), answer, scratch)?;
        }
        self.scatter(parts);
        for part in parts {
            Chunk::all(part).one_by_one(&mut |chunk| question.review(chunk, scratch));
        }
        Ok(())
    }
}

impl Evaluator for WholeBatches<'_> {
    answer_from_ledger!();

    fn submit(&mut self, mut batch: Batch) -> Ticket {
        let Batch { request, parts } = &mut batch;
        let (mut rest, pool) = (&mut parts[..], self.scratch);
        while !rest.is_empty() {
            let (group, others) = rest.split_at_mut(Self::fitting(rest, request));
            rest = others;
            let result = pool.with(|scratch| self.evaluate(group, request, scratch));
            if let (Err(error), Some(report)) = (result, group.iter_mut().find_map(|part| part.reports.first_mut())) {
                report.error = Some(error);
                break;
            }
        }
        self.ledger.enter(batch)
    }
}
