//! All points of an iteration in one call of the target, for targets whose calls are dear.

use super::Setup;
use super::cell::Cell;
use super::chunk::Given;
use crate::target::{CurvatureSums, EvalOut, Points, TargetError};

/// Points of all components one after the other, and what the target said about them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    z: Vec<f64>,
    log_p: Vec<f64>,
    grad: Vec<f64>,
    curv: Vec<f64>,
    /// Where the points of each component begin, and at last where all end.
    starts: Vec<usize>,
}

impl Batch {
    /// Evaluates the points of all cells.
    pub fn evaluate(&mut self, setup: &Setup<'_>, cells: &[Cell]) -> Result<(), TargetError> {
        let (d, shape) = (setup.q.dim(), setup.q.shape());
        self.z.clear();
        self.starts.clear();
        self.starts.push(0);
        for cell in cells {
            self.z.extend_from_slice(cell.points());
            self.starts.push(self.z.len() / d);
        }
        let n = self.z.len() / d;
        let want_grad = setup.estimator.needs_gradient();
        let curvature = setup.estimator.curvature();
        self.log_p.resize(n, 0.0);
        self.grad.resize(if want_grad { n * d } else { 0 }, 0.0);
        self.curv.resize(if curvature.is_some() { n * shape.len(d) } else { 0 }, 0.0);
        let out = EvalOut {
            log_p: &mut self.log_p,
            grad: want_grad.then_some(&mut self.grad[..]),
            curv: curvature.map(|kind| CurvatureSums { kind, shape, weights: &[], sums: &mut self.curv }),
        };
        setup.scratch.with(|scratch| setup.target.eval(setup.rows, Points::new(&self.z, d), out, scratch))
    }

    /// What was said about the points of component `k`.
    pub fn of(&self, k: usize) -> Given<'_> {
        let all = Given { log_p: &self.log_p, grad: &self.grad, curv: &self.curv };
        all.slice(self.starts[k]..self.starts[k + 1])
    }

    /// How many points there are.
    pub fn len(&self) -> u64 {
        self.log_p.len() as u64
    }
}
