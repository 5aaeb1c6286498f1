//! The table that a regression is fitted to: features, outcomes, offsets and row weights, checked once.
//!
//! Models go through it in blocks of rows, `x` (row after row) with the numbers that belong to them. A minibatch is
//! gathered into the same form. Curvatures are sums `sum_r c_r x_r x_r'` over a block: one matrix product.
//!
//! ```
//! use natmix_models::Observations;
//! let table = Observations::new(vec![1.0, 0.5, 1.0, -0.5], 2, vec![3.0, 1.0]).unwrap();
//! assert_eq!((table.rows(), table.features()), (2, 2));
//! assert!(table.with_weights(vec![1.0, -1.0]).is_err());
//! ```

use natmix::matrix::{self, product_bt};
use natmix::target::{Curvature, Rows, Shape};
use natmix::{Error, Scratch};

/// Rows of a block: its predictors for a chunk of points stay in the cache.
const BLOCK: usize = 256;

/// What the models here can sum.
pub(crate) const ALL_CURVATURES: &[(Curvature, Shape)] = &[
    (Curvature::Exact, Shape::Full),
    (Curvature::Exact, Shape::Diag),
    (Curvature::GaussNewton, Shape::Full),
    (Curvature::GaussNewton, Shape::Diag),
    (Curvature::EmpiricalFisher, Shape::Full),
    (Curvature::EmpiricalFisher, Shape::Diag),
];

/// Rows of features with their outcomes.
#[derive(Clone, Debug)]
pub struct Observations {
    /// Row after row.
    design: Vec<f64>,
    features: usize,
    outcome: Vec<f64>,
    offset: Option<Vec<f64>>,
    weights: Option<Vec<f64>>,
    names: Vec<String>,
}

impl Observations {
    /// From a design of `features` columns (row after row) and one outcome a row; all finite.
    pub fn new(design: Vec<f64>, features: usize, outcome: Vec<f64>) -> Result<Self, Error> {
        let invalid = |problem: String| Err(Error::InvalidInput(problem));
        if features == 0 || outcome.is_empty() || Some(design.len()) != outcome.len().checked_mul(features) {
            return invalid(format!(
                "a design of {} numbers is not {} rows of {features} columns (at least one each)",
                design.len(),
                outcome.len()
            ));
        }
        if let Some(at) = design.iter().position(|x| !x.is_finite()) {
            return invalid(format!("design: row {}, column {} is {}", at / features, at % features, design[at]));
        }
        if let Some(row) = outcome.iter().position(|y| !y.is_finite()) {
            return invalid(format!("outcome: row {row} is {}, not a finite number", outcome[row]));
        }
        let names = (0..features).map(|j| format!("x{j}")).collect();
        Ok(Self { design, features, outcome, offset: None, weights: None, names })
    }

    /// Adds a known part to each predictor.
    pub fn with_offset(mut self, offset: Vec<f64>) -> Result<Self, Error> {
        if offset.len() != self.rows() || offset.iter().any(|x| !x.is_finite()) {
            return Err(Error::InvalidInput(format!("offset needs {} finite numbers", self.rows())));
        }
        self.offset = Some(offset);
        Ok(self)
    }

    /// Counts each row's likelihood as often as its weight says.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<Self, Error> {
        if weights.len() != self.rows() || weights.iter().any(|x| !(*x >= 0.0 && x.is_finite())) {
            let problem = format!("row weights: {} finite numbers of at least 0 are needed", self.rows());
            return Err(Error::InvalidInput(problem));
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// Names the features.
    pub fn with_names(mut self, names: Vec<String>) -> Result<Self, Error> {
        if names.len() != self.features {
            return Err(Error::InvalidInput(format!("{} names for {} features", names.len(), self.features)));
        }
        self.names = names;
        Ok(self)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.outcome.len()
    }
    /// Number of features.
    pub fn features(&self) -> usize {
        self.features
    }
    /// The features, row after row.
    pub fn design(&self) -> &[f64] {
        &self.design
    }
    /// The outcomes.
    pub fn outcome(&self) -> &[f64] {
        &self.outcome
    }
    /// The known part of each predictor.
    pub fn offset(&self) -> Option<&[f64]> {
        self.offset.as_deref()
    }
    /// How often each row counts.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }
    /// Names of the features.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn into_parts(self) -> Parts {
        let Self { design, features, outcome, offset, weights, names } = self;
        Parts { design, features, outcome, offset, weights, names }
    }

    /// What the likelihood of `rows` is multiplied with, so that a minibatch stands for the whole.
    pub(crate) fn scale(&self, rows: Rows<'_>) -> f64 {
        match rows {
            Rows::All => 1.0,
            Rows::Subset(subset) => self.rows() as f64 / subset.len() as f64,
        }
    }

    /// Hands `rows` to `each`, block by block.
    pub(crate) fn blocks(&self, rows: Rows<'_>, scratch: &mut Scratch, mut each: impl FnMut(Block<'_>, &mut Scratch)) {
        let d = self.features;
        match rows {
            Rows::All => {
                for first in (0..self.rows()).step_by(BLOCK) {
                    let rows = first..(first + BLOCK).min(self.rows());
                    let block = Block {
                        x: &self.design[rows.start * d..rows.end * d],
                        features: d,
                        outcome: &self.outcome[rows.clone()],
                        offset: self.offset().map(|x| &x[rows.clone()]),
                        weights: self.weights().map(|x| &x[rows]),
                    };
                    each(block, scratch);
                }
            }
            Rows::Subset(subset) => {
                let mut gathered = scratch.take_used(BLOCK * (d + 3));
                for subset in subset.chunks(BLOCK) {
                    let r = subset.len();
                    let (x, rest) = gathered.split_at_mut(BLOCK * d);
                    let (outcome, rest) = rest.split_at_mut(BLOCK);
                    let (offset, weights) = rest.split_at_mut(BLOCK);
                    for (at, &row) in subset.iter().enumerate() {
                        let row = row as usize;
                        x[at * d..(at + 1) * d].copy_from_slice(&self.design[row * d..(row + 1) * d]);
                        outcome[at] = self.outcome[row];
                        offset[at] = self.offset().map_or(0.0, |x| x[row]);
                        weights[at] = self.weights().map_or(1.0, |x| x[row]);
                    }
                    let block = Block {
                        x: &x[..r * d],
                        features: d,
                        outcome: &outcome[..r],
                        offset: self.offset.is_some().then_some(&offset[..r]),
                        weights: self.weights.is_some().then_some(&weights[..r]),
                    };
                    each(block, scratch);
                }
                scratch.give(gathered);
            }
        }
    }
}

/// [`Observations`] taken apart.
pub(crate) struct Parts {
    pub design: Vec<f64>,
    pub features: usize,
    pub outcome: Vec<f64>,
    pub offset: Option<Vec<f64>>,
    pub weights: Option<Vec<f64>>,
    pub names: Vec<String>,
}

/// Some rows, with the numbers that go with them.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub x: &'a [f64],
    pub features: usize,
    pub outcome: &'a [f64],
    pub offset: Option<&'a [f64]>,
    pub weights: Option<&'a [f64]>,
}

impl Block<'_> {
    pub fn rows(&self) -> usize {
        self.outcome.len()
    }

    pub fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row])
    }

    pub fn total_weight(&self) -> f64 {
        self.weights.map_or(self.rows() as f64, |weights| weights.iter().sum())
    }

    /// Adds `sum_r c_r x_r x_r'` (or its diagonal) to `out`; `c` is one for every row if not given.
    pub fn add_gram(&self, out: &mut [f64], shape: Shape, c: Option<&[f64]>, scratch: &mut Scratch) {
        let (d, r) = (self.features, self.rows());
        let rows = self.x.chunks_exact(d).enumerate();
        match (shape, c) {
            (Shape::Diag, _) => {
                for (row, x) in rows {
                    let c = c.map_or(1.0, |c| c[row]);
                    out.iter_mut().zip(x).for_each(|(out, x)| *out += c * x * x);
                }
            }
            (Shape::Full, None) => product_bt(out, true, 1.0, self.x, self.x, (d, r, d)),
            (Shape::Full, Some(c)) => {
                let mut scaled = scratch.take_used(d * r);
                for ((row, x), scaled) in rows.zip(scaled.chunks_exact_mut(d)) {
                    scaled.iter_mut().zip(x).for_each(|(scaled, x)| *scaled = c[row] * x);
                }
                product_bt(out, true, 1.0, &scaled, self.x, (d, r, d));
                scratch.give(scaled);
            }
        }
    }

    /// Predictors of the rows at `count` points of `features` coordinates: those of a point stand together.
    pub fn predictors(&self, points: &[f64], count: usize, out: &mut [f64]) {
        let (d, r) = (self.features, self.rows());
        matrix::product(out, false, 1.0, self.x, matrix::Transpose::Yes, points, (r, d, count));
        if let Some(offset) = self.offset {
            for out in out.chunks_exact_mut(r) {
                out.iter_mut().zip(offset).for_each(|(out, offset)| *out += offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_tables_are_named() {
        let message = |table: Result<Observations, Error>| table.unwrap_err().to_string();
        assert!(message(Observations::new(vec![1.0, 2.0], 1, vec![1.0])).contains("2 numbers is not 1 rows"));
        assert!(message(Observations::new(vec![], 0, vec![])).contains("at least one"));
        assert!(message(Observations::new(vec![1.0, f64::NAN], 2, vec![1.0])).contains("row 0, column 1 is NaN"));
        assert!(message(Observations::new(vec![1.0], 1, vec![f64::INFINITY])).contains("outcome: row 0"));
        let good = Observations::new(vec![1.0, 2.0], 1, vec![1.0, 2.0]).unwrap();
        assert!(message(good.clone().with_offset(vec![1.0])).contains("offset needs 2"));
        assert!(message(good.clone().with_weights(vec![1.0, -1.0])).contains("row weights"));
        assert!(message(good.with_names(vec![])).contains("0 names for 1"));
    }

    #[test]
    fn a_minibatch_has_the_same_blocks() {
        let rows = 600;
        let table = Observations::new((0..rows).map(f64::from).collect(), 1, vec![0.5; rows as usize]).unwrap();
        let table = table.with_offset((0..rows).map(|r| 0.1 * f64::from(r)).collect()).unwrap();
        let sums = |rows: Rows<'_>| {
            let mut sums = (0, 0.0, 0.0);
            table.blocks(rows, &mut Scratch::default(), |block, _| {
                sums.0 += block.rows();
                sums.1 += block.x.iter().sum::<f64>();
                sums.2 += block.offset.unwrap().iter().sum::<f64>();
            });
            sums
        };
        let all: Vec<u32> = (0..rows as u32).collect();
        assert_eq!(sums(Rows::All), sums(Rows::Subset(&all)));
        assert_eq!(sums(Rows::Subset(&[3, 3, 5])).1, 11.0);
        assert_eq!(table.scale(Rows::Subset(&[3, 3, 5])), 200.0);
    }
}
