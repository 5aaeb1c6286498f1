//! The rows of a regression: in memory, or stored elsewhere and read when needed.
//!
//! A model sees the same blocks of rows in both cases, so its results have the same bits.
//!
//! ```
//! use natmix::target::TargetError;
//! use natmix::target::log_p_at;
//! use natmix_models::glm::{Glm, Likelihood};
//! use natmix_models::observations::{Dataset, Observations, RowSource, StoredRows};
//!
//! /// Records of a feature and an outcome that are computed instead of stored.
//! #[derive(Debug)]
//! struct Alternating;
//! impl RowSource for Alternating {
//!     fn read(&self, first: usize, records: &mut [f64]) -> Result<(), TargetError> {
//!         for (i, record) in records.chunks_exact_mut(2).enumerate() {
//!             record.copy_from_slice(&[(first + i) as f64 * 0.01, ((first + i) % 2) as f64]);
//!         }
//!         Ok(())
//!     }
//! }
//! let stored = StoredRows::new(Alternating, 500, vec!["x".into()]).unwrap();
//! let model = Glm::from_data(Likelihood::Bernoulli, stored, &[1.0]).unwrap();
//! let x = (0..500).map(|i| i as f64 * 0.01).collect();
//! let table = Observations::new(x, 1, (0..500).map(|i| (i % 2) as f64).collect()).unwrap();
//! let same = Glm::from_data(Likelihood::Bernoulli, table, &[1.0]).unwrap();
//! assert_eq!(log_p_at(&model, &[0.3]).unwrap(), log_p_at(&same, &[0.3]).unwrap());
//! ```

use super::{BLOCK, Gathered, Observations, RowBlock, Sections, add, cut, scale_of};
use crate::ranks::{Request, SharedRows};
use natmix::Error;
use natmix::Scratch;
use natmix::target::{CurvatureSums, EvalOut, Points, Rows, TargetError};
use std::fmt::Debug;
use std::sync::Arc;

/// Rows that are read at once.
const READ: usize = 8 * BLOCK;

/// Rows that are stored elsewhere, each as one record: its features, outcome, offset and weight (the last two
/// only where the table has them).
pub trait RowSource: Debug + Send + Sync {
    /// Fills `records` with whole records, starting at row `first`. Called from several threads at once.
    fn read(&self, first: usize, records: &mut [f64]) -> Result<(), TargetError>;

    /// Fills `records` with the records of these rows.
    fn read_some(&self, rows: &[usize], mut records: &mut [f64]) -> Result<(), TargetError> {
        let width = records.len() / rows.len().max(1);
        // Consecutive rows are read together.
        for run in rows.chunk_by(|a, b| a + 1 == *b) {
            let (these, others) = records.split_at_mut(run.len() * width);
            self.read(run[0], these)?;
            records = others;
        }
        Ok(())
    }
}

/// The rows of a regression.
#[derive(Clone, Debug)]
pub enum Dataset {
    /// In memory.
    Memory(Observations),
    /// Stored elsewhere.
    Stored(StoredRows),
    /// Shared by several processes.
    Shared(SharedRows),
}

/// A [`RowSource`] with the number and layout of its rows.
#[derive(Clone, Debug)]
pub struct StoredRows {
    source: Arc<dyn RowSource>,
    rows: usize,
    names: Vec<String>,
    offset: bool,
    weights: bool,
}

impl StoredRows {
    /// `rows` records with features of these names. The records must have been checked when they were written: all numbers
    /// finite, weights not negative, and outcomes valid for the model.
    pub fn new(source: impl RowSource + 'static, rows: usize, names: Vec<String>) -> Result<Self, Error> {
        if rows == 0 || names.is_empty() {
            let problem = format!("{rows} rows of {} columns: at least one of each is needed", names.len());
            return Err(Error::InvalidInput(problem));
        }
        Ok(Self { source: Arc::new(source), rows, names, offset: false, weights: false })
    }

    /// Declares that the records have an offset after the outcome.
    pub fn with_offset(self) -> Self {
        Self { offset: true, ..self }
    }

    /// Declares that the records end with a weight.
    pub fn with_weights(self) -> Self {
        Self { weights: true, ..self }
    }

    /// Numbers per record.
    pub fn width(&self) -> usize {
        self.names.len() + 1 + usize::from(self.offset) + usize::from(self.weights)
    }

    /// Features, outcome, offset and weight of a record.
    fn split<'a>(&self, record: &'a [f64]) -> (&'a [f64], f64, Option<f64>, Option<f64>) {
        let (x, rest) = record.split_at(self.names.len());
        (x, rest[0], self.offset.then(|| rest[1]), self.weights.then(|| rest[rest.len() - 1]))
    }

    fn blocks(
        &self,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        mut each: impl FnMut(RowBlock<'_>, &mut Scratch),
    ) -> Result<(), TargetError> {
        let width = self.width();
        let mut gathered = Gathered::new(self.names.len(), self.offset, self.weights, scratch);
        let mut records = scratch.take_used(READ * width);
        let mut hand_over = |records: &[f64], scratch: &mut Scratch| {
            for (at, record) in records.chunks_exact(width).enumerate() {
                let (x, outcome, offset, weight) = self.split(record);
                gathered.put(at, x, outcome, offset, weight);
            }
            each(gathered.block(records.len() / width), scratch);
        };
        match rows {
            Rows::All => {
                for first in (0..self.rows).step_by(READ) {
                    let records = &mut records[..READ.min(self.rows - first) * width];
                    self.source.read(first, records)?;
                    records.chunks(BLOCK * width).for_each(|records| hand_over(records, scratch));
                }
            }
            Rows::Subset(subset) => {
                for subset in subset.chunks(BLOCK) {
                    let mut wanted = [0; BLOCK];
                    wanted.iter_mut().zip(subset).for_each(|(wanted, row)| *wanted = *row as usize);
                    let records = &mut records[..subset.len() * width];
                    self.source.read_some(&wanted[..subset.len()], records)?;
                    hand_over(records, scratch);
                }
            }
        }
        scratch.give(gathered.numbers);
        scratch.give(records);
        Ok(())
    }

    fn take(&self, rows: &[usize]) -> Result<Observations, Error> {
        let mut table = Observations {
            design: Vec::with_capacity(rows.len() * self.names.len()),
            features: self.names.len(),
            outcome: Vec::with_capacity(rows.len()),
            offset: self.offset.then(Vec::new),
            weights: self.weights.then(Vec::new),
            names: self.names.clone(),
        };
        let width = self.width();
        let mut records = vec![0.0; rows.len().min(READ) * width];
        for some in rows.chunks(READ) {
            let records = &mut records[..some.len() * width];
            self.source.read_some(some, records)?;
            for record in records.chunks_exact(width) {
                let (x, outcome, offset, weight) = self.split(record);
                table.design.extend_from_slice(x);
                table.outcome.push(outcome);
                table.offset.iter_mut().zip(offset).for_each(|(list, x)| list.push(x));
                table.weights.iter_mut().zip(weight).for_each(|(list, x)| list.push(x));
            }
        }
        Ok(table)
    }
}

impl Dataset {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Dataset::Memory(table) => table.rows(),
            Dataset::Stored(stored) => stored.rows,
            Dataset::Shared(shared) => shared.stored().rows,
        }
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.names().len()
    }

    /// Names of the features.
    pub fn names(&self) -> &[String] {
        match self {
            Dataset::Memory(table) => table.names(),
            Dataset::Stored(stored) => &stored.names,
            Dataset::Shared(shared) => &shared.stored().names,
        }
    }

    /// All rows as a table, if they are in the memory of this process and no other one has to be asked.
    pub(crate) fn whole_table(&self) -> Option<&Observations> {
        match self {
            Dataset::Memory(table) => Some(table),
            Dataset::Stored(_) => None,
            Dataset::Shared(shared) => shared.whole_table(),
        }
    }

    /// Loads some rows into memory, in the order given.
    ///
    /// # Panics
    /// If a row does not exist, or `rows` is empty.
    pub fn take(&self, rows: &[usize]) -> Result<Observations, Error> {
        assert!(!rows.is_empty() && rows.iter().all(|row| *row < self.rows()), "rows of this table, at least one");
        match self {
            Dataset::Memory(table) => Ok(table.take(rows)),
            Dataset::Stored(stored) => stored.take(rows),
            Dataset::Shared(shared) => shared.stored().take(rows),
        }
    }

    /// Factor of the log likelihood of `rows`, so that a minibatch represents all rows.
    pub fn scale(&self, rows: Rows<'_>) -> f64 {
        scale_of(self.rows(), rows)
    }

    /// Calls `each` with `rows`, block by block.
    pub fn blocks(
        &self,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        each: impl FnMut(RowBlock<'_>, &mut Scratch),
    ) -> Result<(), TargetError> {
        match self {
            Dataset::Memory(table) => {
                table.blocks(rows, scratch, each);
                Ok(())
            }
            Dataset::Stored(stored) => stored.blocks(rows, scratch, each),
            Dataset::Shared(shared) => shared.stored().blocks(rows, scratch, each),
        }
    }

    /// Adds what `each` adds for every block of `rows` to `totals`, always in the same order of additions: if it is a sum over all
    /// rows, section by section. Where processes share the rows, `request` is what rank 0 asks of the others; without one, all of
    /// them come here by themselves.
    pub(crate) fn sum<const N: usize>(
        &self,
        rows: Rows<'_>,
        request: Option<Request<'_>>,
        mut totals: [&mut [f64]; N],
        scratch: &mut Scratch,
        mut each: impl FnMut(RowBlock<'_>, [&mut [f64]; N], &mut Scratch),
    ) -> Result<(), TargetError> {
        if let (Dataset::Shared(shared), Rows::All) = (self, rows) {
            return shared.sum(request, totals, scratch, each);
        }
        let sections = Sections::of(self.rows());
        if sections.count() == 1 || matches!(rows, Rows::Subset(_)) {
            return self.blocks(rows, scratch, |block, scratch| {
                each(block, totals.each_mut().map(|total| &mut **total), scratch);
            });
        }
        let lens = totals.each_ref().map(|total| total.len());
        let mut section = scratch.take(lens.iter().sum());
        let mut blocks = 0;
        self.blocks(rows, scratch, |block, scratch| {
            if blocks == sections.blocks {
                add(&mut totals, &section);
                section.fill(0.0);
                blocks = 0;
            }
            each(block, cut(&mut section, lens), scratch);
            blocks += 1;
        })?;
        add(&mut totals, &section);
        scratch.give(section);
        Ok(())
    }
}

impl Dataset {
    /// The same for all results of an evaluation at the points `z`.
    pub(crate) fn sum_into(
        &self,
        rows: Rows<'_>,
        z: Points<'_>,
        out: &mut EvalOut<'_>,
        scratch: &mut Scratch,
        mut each: impl FnMut(RowBlock<'_>, &mut EvalOut<'_>, &mut Scratch),
    ) -> Result<(), TargetError> {
        let EvalOut { log_p, grad, curv } = out;
        let about = curv.as_ref().map(|curv| (curv.kind, curv.shape, curv.weights));
        let gradient = grad.is_some();
        let request = Request { points: z, gradient, curvature: about };
        let totals = [
            &mut **log_p,
            grad.as_deref_mut().unwrap_or_default(),
            curv.as_mut().map(|curv| &mut *curv.sums).unwrap_or_default(),
        ];
        self.sum(rows, Some(request), totals, scratch, |block, [log_p, grad, sums], scratch| {
            let curv = about.map(|(kind, shape, weights)| CurvatureSums { kind, shape, weights, sums });
            each(block, &mut EvalOut { log_p, grad: gradient.then_some(grad), curv }, scratch);
        })
    }
}

impl From<Observations> for Dataset {
    fn from(table: Observations) -> Self {
        Dataset::Memory(table)
    }
}

impl From<SharedRows> for Dataset {
    fn from(shared: SharedRows) -> Self {
        Dataset::Shared(shared)
    }
}

impl From<StoredRows> for Dataset {
    fn from(stored: StoredRows) -> Self {
        Dataset::Stored(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records in memory; reading fails from a given row on.
    #[derive(Debug)]
    struct Failing(Vec<f64>, usize, usize);

    impl RowSource for Failing {
        fn read(&self, first: usize, records: &mut [f64]) -> Result<(), TargetError> {
            let Failing(values, width, failing) = self;
            if first + records.len() / width > *failing {
                return Err("the disk is gone".into());
            }
            records.copy_from_slice(&values[first * width..][..records.len()]);
            Ok(())
        }
    }

    fn both(rows: usize, failing: usize) -> (Dataset, Dataset) {
        let number = |i: usize| (i as f64 * 0.7).sin();
        let table = Observations::new((0..2 * rows).map(number).collect(), 2, (0..rows).map(number).collect()).unwrap();
        let table = table.with_offset((0..rows).map(|r| 0.1 * r as f64).collect()).unwrap();
        let table = table.with_weights((0..rows).map(|r| (r % 4) as f64).collect()).unwrap();
        let record = |r: usize| [number(2 * r), number(2 * r + 1), number(r), 0.1 * r as f64, (r % 4) as f64];
        let source = Failing((0..rows).flat_map(record).collect(), 5, failing);
        let stored =
            StoredRows::new(source, rows, vec!["x0".into(), "x1".into()]).unwrap().with_offset().with_weights();
        (table.into(), stored.into())
    }

    /// All numbers of all blocks, with the blocks' sizes.
    fn contents(data: &Dataset, rows: Rows<'_>) -> Result<Vec<f64>, TargetError> {
        let mut seen = Vec::new();
        data.blocks(rows, &mut Scratch::default(), |block, _| {
            seen.push(block.rows() as f64);
            for list in [block.x, block.outcome, block.offset.unwrap(), block.weights.unwrap()] {
                seen.extend_from_slice(list);
            }
        })?;
        Ok(seen)
    }

    #[test]
    fn stored_rows_come_in_the_same_blocks() {
        for rows in [1, BLOCK, READ - 1, READ + BLOCK + 7] {
            let (memory, stored) = both(rows, rows);
            assert_eq!((stored.rows(), stored.features()), (rows, 2));
            assert_eq!(contents(&memory, Rows::All).unwrap(), contents(&stored, Rows::All).unwrap(), "{rows}");
            let subset: Vec<u32> = (0..rows as u32 + 300).map(|i| (i * 7919) % rows as u32).collect();
            let [a, b] = [&memory, &stored].map(|data| contents(data, Rows::Subset(&subset)).unwrap());
            assert_eq!(a, b, "{rows}");
            let wanted: Vec<usize> = (0..rows).chain([0, rows - 1]).collect();
            let [a, b] = [&memory, &stored].map(|data| data.take(&wanted).unwrap());
            assert_eq!(
                (a.design(), a.outcome(), a.offset(), a.weights()),
                (b.design(), b.outcome(), b.offset(), b.weights())
            );
        }
    }

    #[test]
    fn a_failure_to_read_is_an_error() {
        let (_, stored) = both(3 * READ, 2 * READ);
        for result in [contents(&stored, Rows::All), contents(&stored, Rows::Subset(&[1, 3 * READ as u32 - 1]))] {
            assert_eq!(result.unwrap_err().to_string(), "the disk is gone");
        }
        assert!(stored.take(&[3 * READ - 1]).unwrap_err().to_string().contains("the disk is gone"));
        assert!(StoredRows::new(Failing(vec![], 1, 0), 0, vec!["x".into()]).is_err());
    }
}
