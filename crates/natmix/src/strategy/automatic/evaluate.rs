//! Evaluates the target at many points, in parallel; counts, and knows when the budget is spent.

use crate::error::Error;
use crate::estimate::ScratchPool;
use crate::target::{EvalOut, Points, Rows, Target};
use rayon::prelude::*;

/// Points of one task.
pub(crate) const CHUNK: usize = 32;

/// A target with the count of its evaluations.
pub(crate) struct Evaluator<'a> {
    pub target: &'a dyn Target,
    pub scratch: &'a ScratchPool,
    pub evals: u64,
    /// Points that could not be used.
    pub dropped: u64,
    /// Most evaluations of what is going on now.
    pub limit: u64,
    /// Most evaluations of the whole run.
    pub most_evals: u64,
    /// Whether to go on: asked before each evaluation of a search, so that a cancelled run ends soon.
    pub go_on: &'a mut dyn FnMut(u64) -> bool,
}

impl<'a> Evaluator<'a> {
    /// One that counts on from `(evals, dropped)`, without limits.
    pub fn new(
        target: &'a dyn Target,
        scratch: &'a ScratchPool,
        (evals, dropped): (u64, u64),
        go_on: &'a mut dyn FnMut(u64) -> bool,
    ) -> Self {
        Self { target, scratch, evals, dropped, limit: u64::MAX, most_evals: u64::MAX, go_on }
    }

    /// Whether `count` more evaluations are allowed.
    pub fn may_spend(&mut self, count: usize) -> bool {
        self.evals.saturating_add(count as u64) <= self.limit && (self.go_on)(self.evals)
    }

    /// Whether `count` more evaluations are within the budget of the whole run.
    pub fn can_afford(&self, count: usize) -> bool {
        self.evals.saturating_add(count as u64) <= self.most_evals
    }

    /// Values and gradients at `z`. A point that cannot be evaluated gets NaN.
    pub fn evaluate(&mut self, z: &[f64], log_p: &mut [f64], grad: &mut [f64]) -> Result<(), Error> {
        let d = self.target.dim();
        self.evals += log_p.len() as u64;
        let (target, scratch) = (self.target, self.scratch);
        if target.whole_batches() {
            let out = EvalOut { log_p, grad: Some(grad), curv: None };
            scratch.with(|scratch| target.eval(Rows::All, Points::new(z, d), out, scratch))?;
        } else {
            let tasks = z.par_chunks(CHUNK * d).zip(log_p.par_chunks_mut(CHUNK)).zip(grad.par_chunks_mut(CHUNK * d));
            tasks.try_for_each(|((z, log_p), grad)| {
                let out = EvalOut { log_p, grad: Some(grad), curv: None };
                scratch.with(|scratch| target.eval(Rows::All, Points::new(z, d), out, scratch))
            })?;
        }
        for (log_p, grad) in log_p.iter_mut().zip(grad.chunks_exact(d)) {
            if !(log_p.is_finite() && grad.iter().all(|g| g.is_finite())) {
                *log_p = f64::NAN;
                self.dropped += 1;
            }
        }
        Ok(())
    }
}
