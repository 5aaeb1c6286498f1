//! The table that a regression is fitted to: features, outcomes, offsets and row weights, checked once.
//!
//! Models process it in blocks of rows, `x` (row by row) with outcomes, offsets and weights. A minibatch is
//! gathered into the same form, as are rows that are not in memory ([`Dataset`]).
//!
//! ```
//! use natmix_models::observations::Observations;
//! let table = Observations::new(vec![1.0, 0.5, 1.0, -0.5], 2, vec![3.0, 1.0]).unwrap();
//! assert_eq!((table.rows(), table.features()), (2, 2));
//! assert!(table.with_weights(vec![1.0, -1.0]).is_err());
//! ```

mod block;
mod dataset;
mod sections;

pub use block::RowBlock;
pub use dataset::{Dataset, RowSource, StoredRows};
pub(crate) use sections::{Sections, add, cut};

use natmix::Error;
use natmix::Scratch;
use natmix::target::{Curvature, CurvatureShape, Rows};
use std::ops::Range;

/// The curvatures that all regressions here provide.
pub(crate) const ALL_CURVATURES: &[(Curvature, CurvatureShape)] = &[
    (Curvature::Exact, CurvatureShape::Full),
    (Curvature::Exact, CurvatureShape::Diag),
    (Curvature::GaussNewton, CurvatureShape::Full),
    (Curvature::GaussNewton, CurvatureShape::Diag),
    (Curvature::EmpiricalFisher, CurvatureShape::Full),
    (Curvature::EmpiricalFisher, CurvatureShape::Diag),
];

/// Rows per block, so that its predictors for a chunk of points stay in the cache.
pub(crate) const BLOCK: usize = 256;

/// Rows of features with their outcomes.
#[derive(Clone, Debug)]
pub struct Observations {
    /// Row by row.
    design: Vec<f64>,
    features: usize,
    outcome: Vec<f64>,
    offset: Option<Vec<f64>>,
    weights: Option<Vec<f64>>,
    names: Vec<String>,
}

impl Observations {
    /// From a design of `features` columns (row by row) and one outcome per row; all finite.
    pub fn new(design: Vec<f64>, features: usize, outcome: Vec<f64>) -> Result<Self, Error> {
        let invalid = |problem: String| Err(Error::InvalidInput(problem));
        if features == 0 || outcome.is_empty() || Some(design.len()) != outcome.len().checked_mul(features) {
            return invalid(format!(
                "a design of {} numbers is not {} rows of {features} columns (at least one of each)",
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

    /// Adds an offset to each linear predictor; a Poisson exposure enters as its logarithm.
    pub fn with_offset(mut self, offset: Vec<f64>) -> Result<Self, Error> {
        if offset.len() != self.rows() || offset.iter().any(|x| !x.is_finite()) {
            return Err(Error::InvalidInput(format!("offset needs {} finite numbers", self.rows())));
        }
        self.offset = Some(offset);
        Ok(self)
    }

    /// Multiplies each row's log likelihood by its weight.
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
    /// The features, row by row.
    pub fn design(&self) -> &[f64] {
        &self.design
    }
    /// The outcomes.
    pub fn outcome(&self) -> &[f64] {
        &self.outcome
    }
    /// The offset of each linear predictor.
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

    /// Some rows, in the order given.
    ///
    /// # Panics
    /// If a row does not exist, or `rows` is empty.
    pub fn take(&self, rows: &[usize]) -> Observations {
        assert!(!rows.is_empty(), "a table has at least one row");
        let of = |list: &[f64]| rows.iter().map(|&row| list[row]).collect();
        let mut design = Vec::with_capacity(rows.len() * self.features);
        rows.iter().for_each(|&row| design.extend_from_slice(&self.design[row * self.features..][..self.features]));
        Observations {
            design,
            features: self.features,
            outcome: of(&self.outcome),
            offset: self.offset().map(of),
            weights: self.weights().map(of),
            names: self.names.clone(),
        }
    }

    /// Factor of the log likelihood of `rows`, so that a minibatch represents all rows.
    pub fn scale(&self, rows: Rows<'_>) -> f64 {
        scale_of(self.rows(), rows)
    }

    /// Calls `each` with `rows`, block by block.
    pub fn blocks(&self, rows: Rows<'_>, scratch: &mut Scratch, mut each: impl FnMut(RowBlock<'_>, &mut Scratch)) {
        let d = self.features;
        match rows {
            Rows::All => self.blocks_of(0..self.rows(), scratch, each),
            Rows::Subset(subset) => {
                let mut gathered = Gathered::new(d, self.offset.is_some(), self.weights.is_some(), scratch);
                for subset in subset.chunks(BLOCK) {
                    for (at, &row) in subset.iter().enumerate() {
                        let row = row as usize;
                        let (offset, weight) = (self.offset().map(|x| x[row]), self.weights().map(|x| x[row]));
                        gathered.put(at, &self.design[row * d..(row + 1) * d], self.outcome[row], offset, weight);
                    }
                    each(gathered.block(subset.len()), scratch);
                }
                scratch.give(gathered.numbers);
            }
        }
    }
}

impl Observations {
    /// Calls `each` with a run of rows, block by block.
    pub(crate) fn blocks_of(
        &self,
        rows: Range<usize>,
        scratch: &mut Scratch,
        mut each: impl FnMut(RowBlock<'_>, &mut Scratch),
    ) {
        let d = self.features;
        for first in rows.clone().step_by(BLOCK) {
            let rows = first..(first + BLOCK).min(rows.end);
            let block = RowBlock {
                x: &self.design[rows.start * d..rows.end * d],
                features: d,
                outcome: &self.outcome[rows.clone()],
                offset: self.offset().map(|x| &x[rows.clone()]),
                weights: self.weights().map(|x| &x[rows]),
            };
            each(block, scratch);
        }
    }
}

fn scale_of(all: usize, rows: Rows<'_>) -> f64 {
    match rows {
        Rows::All => 1.0,
        Rows::Subset(subset) => all as f64 / subset.len() as f64,
    }
}

/// Buffer for a block whose rows are added one by one.
struct Gathered {
    numbers: Vec<f64>,
    features: usize,
    offset: bool,
    weights: bool,
}

impl Gathered {
    fn new(features: usize, offset: bool, weights: bool, scratch: &mut Scratch) -> Self {
        Self { numbers: scratch.take_used(BLOCK * (features + 3)), features, offset, weights }
    }

    /// Writes row `at` of the block.
    fn put(&mut self, at: usize, x: &[f64], outcome: f64, offset: Option<f64>, weight: Option<f64>) {
        let d = self.features;
        self.numbers[at * d..(at + 1) * d].copy_from_slice(x);
        let of_rows = &mut self.numbers[BLOCK * d..];
        of_rows[at] = outcome;
        of_rows[BLOCK + at] = offset.unwrap_or(0.0);
        of_rows[2 * BLOCK + at] = weight.unwrap_or(1.0);
    }

    /// The block of the first `rows` rows.
    fn block(&self, rows: usize) -> RowBlock<'_> {
        let (x, of_rows) = self.numbers.split_at(BLOCK * self.features);
        RowBlock {
            x: &x[..rows * self.features],
            features: self.features,
            outcome: &of_rows[..rows],
            offset: self.offset.then_some(&of_rows[BLOCK..BLOCK + rows]),
            weights: self.weights.then_some(&of_rows[2 * BLOCK..2 * BLOCK + rows]),
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
        let some = table.take(&[5, 3]);
        assert_eq!((some.design(), some.offset().unwrap()), (&[5.0, 3.0][..], &[0.5, 0.1 * 3.0][..]));
    }
}
