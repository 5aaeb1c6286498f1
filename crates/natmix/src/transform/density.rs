//! The density of unconstrained coordinates: values, gradients and Hessian sums by the chain rule.
//!
//! `J' H J` is made of products `J' h` with the rows and then the columns of `H`, each of cost `O(d)`.

use super::Transformed;
use super::chart::Slopes;
use crate::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target, TargetError};
use crate::workspace::Scratch;

/// The curvatures that follow from those of the wrapped target.
pub(super) fn offered(target: &impl Target, elementwise: bool) -> &'static [(Curvature, CurvatureShape)] {
    const FULL: (Curvature, CurvatureShape) = (Curvature::Exact, CurvatureShape::Full);
    const DIAG: (Curvature, CurvatureShape) = (Curvature::Exact, CurvatureShape::Diag);
    let inner = target.curvatures();
    if !target.has_gradient() {
        &[] // the second-order term needs the gradient
    } else if inner.contains(&FULL) {
        &[DIAG, FULL]
    } else if elementwise && inner.contains(&DIAG) {
        &[DIAG]
    } else {
        &[]
    }
}

impl<T: Target> Target for Transformed<T> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        if z.dim() != self.dim {
            return Err(format!("points of dimension {}, the target has {}", z.dim(), self.dim).into());
        }
        if out.grad.is_some() && !self.has_gradient() {
            return Err("the wrapped target has no gradient".into());
        }
        match out.curv {
            None => self.eval_together(rows, z, out.log_p, out.grad, scratch),
            Some(curv) if self.curvatures.contains(&(curv.kind, curv.shape)) => {
                self.eval_one_by_one(rows, z, out.log_p, out.grad, curv, scratch)
            }
            Some(curv) => {
                let (kind, shape) = (curv.kind.name(), curv.shape.name());
                Err(format!("no {kind} curvature of shape {shape}, only {:?}", self.curvatures).into())
            }
        }
    }

    fn has_gradient(&self) -> bool {
        self.target.has_gradient()
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        self.curvatures
    }

    fn gradient_is_tested(&self) -> bool {
        self.target.gradient_is_tested()
    }

    fn num_rows(&self) -> Option<usize> {
        self.target.num_rows()
    }

    /// Names of the constrained entries: one more for each simplex than there are coordinates.
    fn parameter_names(&self) -> Vec<String> {
        self.blocks.iter().flat_map(|block| (0..block.size).map(|entry| block.entry_name(entry))).collect()
    }

    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.constrain(z, parameters);
    }
}

impl<T: Target> Transformed<T> {
    /// Values and gradients: one evaluation of the wrapped target for all points.
    fn eval_together(
        &self,
        rows: Rows<'_>,
        z: Points<'_>,
        log_p: &mut [f64],
        grad: Option<&mut [f64]>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        let entries = self.target.dim();
        let mut x = scratch.take(z.len() * entries);
        let mut log_jac = scratch.take(z.len());
        for ((z, x), log_jac) in z.iter().zip(x.chunks_exact_mut(entries)).zip(&mut log_jac) {
            *log_jac = self.constrain(z, x);
        }
        let mut inner_grad = scratch.take(if grad.is_some() { x.len() } else { 0 });
        let inner_out = EvalOut { log_p: &mut *log_p, grad: grad.is_some().then_some(&mut inner_grad[..]), curv: None };
        self.target.eval(rows, Points::new(&x, entries), inner_out, scratch)?;

        for ((log_p, x), log_jac) in log_p.iter_mut().zip(x.chunks_exact(entries)).zip(&log_jac) {
            *log_p = finish_value(*log_p, *log_jac, x);
        }
        if let Some(grad) = grad {
            let mut buffer = scratch.take(Slopes::NUMBERS * self.dim);
            let mut slopes = Slopes::split(&mut buffer);
            let points = z.iter().zip(x.chunks_exact(entries)).zip(inner_grad.chunks_exact(entries));
            for ((((z, x), g), grad), log_p) in points.zip(grad.chunks_exact_mut(self.dim)).zip(log_p) {
                self.slopes(z, x, &mut slopes);
                self.pull(x, &mut slopes, g, grad);
                add(grad, slopes.log_jac_grad);
                drop_unless_finite(log_p, grad);
            }
            scratch.give(buffer);
        }
        scratch.give(inner_grad);
        scratch.give(log_jac);
        scratch.give(x);
        Ok(())
    }

    /// Everything, with one evaluation of the wrapped target per point.
    fn eval_one_by_one(
        &self,
        rows: Rows<'_>,
        z: Points<'_>,
        log_p: &mut [f64],
        mut grad: Option<&mut [f64]>,
        curv: CurvatureSums<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        let (dim, entries, n) = (self.dim, self.target.dim(), z.len());
        let inner_diag =
            self.elementwise && self.target.curvatures().contains(&(Curvature::Exact, CurvatureShape::Diag));
        let inner_shape =
            if curv.shape == CurvatureShape::Diag && inner_diag { CurvatureShape::Diag } else { CurvatureShape::Full };
        let mut x = scratch.take(entries);
        let mut g = scratch.take(entries);
        let mut pulled = scratch.take(dim);
        let mut inner_hess = scratch.take(inner_shape.len(entries));
        let mut hess = scratch.take(inner_shape.len(dim));
        let mut buffer = scratch.take(Slopes::NUMBERS * dim);
        let mut slopes = Slopes::split(&mut buffer);

        // A diagonal that comes out of a full matrix has its entries dim + 1 apart.
        let stride = if curv.shape == inner_shape { 1 } else { dim + 1 };
        curv.sums.fill(0.0);
        for (i, z) in z.iter().enumerate() {
            let log_jac = self.constrain(z, &mut x);
            let weights = || curv.weights.iter().skip(i).step_by(n);
            let weighted = weights().any(|weight| *weight != 0.0);
            let inner_curv = weighted.then(|| CurvatureSums {
                kind: Curvature::Exact,
                shape: inner_shape,
                weights: &[1.0],
                sums: &mut inner_hess,
            });
            let inner_out = EvalOut { log_p: &mut log_p[i..=i], grad: Some(&mut g), curv: inner_curv };
            self.target.eval(rows, Points::new(&x, entries), inner_out, scratch)?;

            log_p[i] = finish_value(log_p[i], log_jac, &x);
            self.slopes(z, &x, &mut slopes);
            self.pull(&x, &mut slopes, &g, &mut pulled);
            if weighted {
                match inner_shape {
                    CurvatureShape::Diag => hess.iter_mut().enumerate().for_each(|(a, h)| {
                        *h = slopes.rate[a].powi(2) * inner_hess[a]
                            + slopes.bend[a] * pulled[a]
                            + slopes.log_jac_curv[a];
                    }),
                    CurvatureShape::Full => self.hessian(&x, &mut slopes, &pulled, &inner_hess, &mut hess, scratch),
                }
                drop_unless_finite(&mut log_p[i], &hess);
            }
            add(&mut pulled, slopes.log_jac_grad);
            drop_unless_finite(&mut log_p[i], &pulled);
            if let Some(grad) = &mut grad {
                grad[i * dim..(i + 1) * dim].copy_from_slice(&pulled);
            }
            if weighted && log_p[i].is_finite() {
                for (sum, weight) in curv.sums.chunks_exact_mut(curv.shape.len(dim)).zip(weights()) {
                    sum.iter_mut().zip(hess.iter().step_by(stride)).for_each(|(sum, h)| *sum += weight * h);
                }
            }
        }
        for lent in [buffer, hess, inner_hess, pulled, g, x] {
            scratch.give(lent);
        }
        Ok(())
    }

    /// Writes the Hessian at one point, where `pulled` is `J' g`.
    fn hessian(
        &self,
        x: &[f64],
        slopes: &mut Slopes<'_>,
        pulled: &[f64],
        inner_hess: &[f64],
        hess: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let (dim, entries) = (self.dim, x.len());
        let mut right = scratch.take(entries * dim); // H J
        let mut column = scratch.take(entries);
        for (inner_row, right_row) in inner_hess.chunks_exact(entries).zip(right.chunks_exact_mut(dim)) {
            self.pull(x, slopes, inner_row, right_row);
        }
        for a in 0..dim {
            for (entry, right_row) in column.iter_mut().zip(right.chunks_exact(dim)) {
                *entry = right_row[a];
            }
            let row = &mut hess[a * dim..(a + 1) * dim];
            self.pull(x, slopes, &column, row);
            row[a] += slopes.bend[a] * pulled[a] + slopes.log_jac_curv[a];
        }
        for block in self.placed.iter().filter(|block| !block.chart.is_elementwise()) {
            let (start, slopes, v) = (block.z.start, slopes.of(block.z.clone()), &pulled[block.z.clone()]);
            for b in 0..v.len() {
                for a in 0..b {
                    hess[(start + b) * dim + start + a] += block.chart.mixed(&slopes, v, a, b);
                }
            }
        }
        // Only the lower triangle is complete: copying it also makes the matrix symmetric to the last bit.
        for b in 0..dim {
            for a in 0..b {
                hess[a * dim + b] = hess[b * dim + a];
            }
        }
        scratch.give(column);
        scratch.give(right);
    }

    /// Writes the derivatives of all maps at `z`.
    fn slopes(&self, z: &[f64], x: &[f64], slopes: &mut Slopes<'_>) {
        for block in &self.placed {
            block.chart.slopes(&z[block.z.clone()], &x[block.x.clone()], slopes.of(block.z.clone()));
        }
    }

    /// Writes `J' g`.
    fn pull(&self, x: &[f64], slopes: &mut Slopes<'_>, g: &[f64], out: &mut [f64]) {
        for block in &self.placed {
            let (x, g) = (&x[block.x.clone()], &g[block.x.clone()]);
            block.chart.pull(x, &slopes.of(block.z.clone()), g, &mut out[block.z.clone()]);
        }
    }
}

/// The value at one point: NaN where rounding took `x` to infinity, or to an end with infinite density.
fn finish_value(inner_log_p: f64, log_jac: f64, x: &[f64]) -> f64 {
    let log_p = inner_log_p + log_jac;
    let off_scale = x.iter().any(|x| !x.is_finite()) && log_p != f64::NEG_INFINITY;
    if off_scale || log_p == f64::INFINITY { f64::NAN } else { log_p }
}

/// Marks a point as one that cannot be evaluated if its derivatives are not finite.
fn drop_unless_finite(log_p: &mut f64, derivatives: &[f64]) {
    if log_p.is_finite() && derivatives.iter().any(|d| !d.is_finite()) {
        *log_p = f64::NAN;
    }
}

fn add(sum: &mut [f64], terms: &[f64]) {
    for (sum, term) in sum.iter_mut().zip(terms) {
        *sum += term;
    }
}
