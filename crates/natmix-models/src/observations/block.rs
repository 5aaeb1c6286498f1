//! A block of rows of a table, and the matrix products that models need.
//!
//! Curvatures are sums `sum_r c_r x_r x_r'` over a block: one matrix product.

use natmix::Scratch;
use natmix::matrix::{self, Transpose};
use natmix::target::CurvatureShape;

/// Some rows, with their outcomes, offsets and weights.
#[derive(Clone, Copy, Debug)]
pub struct RowBlock<'a> {
    /// The features, row by row.
    pub x: &'a [f64],
    /// Number of features.
    pub features: usize,
    /// The outcomes.
    pub outcome: &'a [f64],
    /// The offset of each linear predictor.
    pub offset: Option<&'a [f64]>,
    /// How often each row counts.
    pub weights: Option<&'a [f64]>,
}

impl RowBlock<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.outcome.len()
    }

    /// How often a row counts.
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row])
    }

    /// Total weight of all rows.
    pub fn total_weight(&self) -> f64 {
        self.weights.map_or(self.rows() as f64, |weights| weights.iter().sum())
    }

    /// Adds `sum_r c_r x_r x_r'` (or its diagonal) to `out`; `c` is one for every row if not given.
    pub fn add_gram(&self, out: &mut [f64], shape: CurvatureShape, c: Option<&[f64]>, scratch: &mut Scratch) {
        let (d, r) = (self.features, self.rows());
        let rows = self.x.chunks_exact(d).enumerate();
        match (shape, c) {
            (CurvatureShape::Diag, _) => {
                for (row, x) in rows {
                    let c = c.map_or(1.0, |c| c[row]);
                    out.iter_mut().zip(x).for_each(|(out, x)| *out += c * x * x);
                }
            }
            (CurvatureShape::Full, None) => matrix::product_bt(out, true, 1.0, self.x, self.x, (d, r, d)),
            (CurvatureShape::Full, Some(c)) => {
                let mut scaled = scratch.take_used(d * r);
                for ((row, x), scaled) in rows.zip(scaled.chunks_exact_mut(d)) {
                    scaled.iter_mut().zip(x).for_each(|(scaled, x)| *scaled = c[row] * x);
                }
                matrix::product_bt(out, true, 1.0, &scaled, self.x, (d, r, d));
                scratch.give(scaled);
            }
        }
    }

    /// Linear predictors of the rows at `count` points of `features` coordinates, stored point by point.
    pub fn predictors(&self, points: &[f64], count: usize, out: &mut [f64]) {
        let (d, r) = (self.features, self.rows());
        matrix::product(out, false, 1.0, self.x, Transpose::Yes, points, (r, d, count));
        if let Some(offset) = self.offset {
            for out in out.chunks_exact_mut(r) {
                out.iter_mut().zip(offset).for_each(|(out, offset)| *out += offset);
            }
        }
    }
}
