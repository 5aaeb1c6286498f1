//! From a table to the data of a model: design matrix, outcome, offset and weights.
//!
//! Coefficients follow the order of the table's columns, after the intercept. Numbers can be centred and scaled to unit standard
//! deviation (divisor n - 1): `x = (v - centre)/scale`. Without an intercept nothing is centred, because there
//! would be no coefficient to absorb the shift. A categorical column becomes one 0/1 column per level, named `column=level`, neither
//! centred nor scaled; with an intercept the first level is dropped, so the coefficients are differences from it.
//!
//! ```
//! use natmix_models::design::{Design, DesignOptions};
//! use natmix_models::table::Table;
//! let names = ["x", "y"].map(String::from).to_vec();
//! let table = Table::from_values("memory", names, vec![1.0, 0.0, 3.0, 1.0]).unwrap();
//! let options = DesignOptions { outcome: Some("y".into()), ..DesignOptions::default() };
//! let design = Design::new(table, &options).unwrap();
//! assert_eq!(design.names, ["(intercept)", "x"]);
//! assert_eq!(design.outcome, [0.0, 1.0]);
//! let half = 0.5f64.sqrt(); // centre 2, sd sqrt(2)
//! assert!((design.x[1] + half).abs() < 1e-15 && (design.x[3] - half).abs() < 1e-15);
//! // 1 + 2 (v - 2)/sqrt(2) is (1 - 2 sqrt(2)) + sqrt(2) v.
//! let mut user = [0.0; 2];
//! design.encoding.to_user_scale(&[1.0, 2.0], &mut user);
//! assert!((user[0] - (1.0 - 4.0 * half)).abs() < 1e-15 && (user[1] - 2.0 * half).abs() < 1e-15);
//! ```

mod encode;
mod encoding;
mod outcome;

pub use encode::EncodedRows;
pub use encoding::{Coding, Encoding, Feature, INTERCEPT, OutcomeColumn};
pub(crate) use outcome::OutcomeCheck;
pub use outcome::{OutcomeKind, check_outcome};

use crate::conditional::TypicalRow;
use crate::error::DataError;
use crate::table::moments::ColumnMoments;
use crate::table::{Origin, Table, TableFacts, TableFile};
use encoding::Columns;
use std::path::Path;

/// The roles of columns, and how numbers are scaled. A column is categorical if it has levels in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesignOptions {
    /// The outcome column; without one every column is a feature.
    pub outcome: Option<String>,
    /// Column added to the linear predictor with coefficient 1.
    pub offset: Option<String>,
    /// Positive column whose logarithm is added to the linear predictor.
    pub exposure: Option<String>,
    /// Non-negative column of row weights: how often each row counts.
    pub weights: Option<String>,
    /// Whether features are centred and scaled.
    pub standardize: bool,
    /// Whether the outcome is centred and scaled too (linear regression). Offsets are then divided by its scale, so that they keep
    /// their meaning.
    pub standardize_outcome: bool,
    /// Whether there is an intercept.
    pub intercept: bool,
}

impl Default for DesignOptions {
    /// Standardised features and an intercept.
    fn default() -> Self {
        DesignOptions {
            outcome: None,
            offset: None,
            exposure: None,
            weights: None,
            standardize: true,
            standardize_outcome: false,
            intercept: true,
        }
    }
}

/// The data that a model is fitted to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Design {
    /// Where the rows came from.
    pub origin: Origin,
    /// Names of the coefficients.
    pub names: Vec<String>,
    /// Number of coefficients.
    pub dim: usize,
    /// Number of rows.
    pub rows: usize,
    /// The design matrix by row: row i is `x[i * dim..(i + 1) * dim]`.
    pub x: Vec<f64>,
    /// The outcome on the scale of the fit; levels are represented by their index. Empty if there is no outcome column.
    pub outcome: Vec<f64>,
    /// Added to the linear predictor: offset plus log exposure.
    pub offset: Option<Vec<f64>>,
    /// How often each row counts.
    pub weights: Option<Vec<f64>>,
    /// How the columns were encoded, to be stored with the posterior.
    pub encoding: Encoding,
    /// Warnings about the columns.
    pub warnings: Vec<String>,
    /// What was found while the table was read.
    pub facts: TableFacts,
    /// The columns with their typical values.
    pub(crate) typical: TypicalRow,
}

impl Design {
    /// Encodes a table in place: only new columns for levels take additional memory.
    pub fn new(table: Table, options: &DesignOptions) -> Result<Design, DataError> {
        let mut moments = ColumnMoments::new(table.names.len());
        moments.add(&table.values);
        let summaries = moments.finish();
        let columns = Columns {
            file: &table.origin.file,
            names: &table.names,
            rows: table.rows,
            levels: &table.levels,
            summaries: &summaries,
            left_out: &table.facts.skipped,
        };
        let (encoding, warnings) = Encoding::new(&columns, options)?;
        let typical = columns.typical(&encoding);
        let facts = table.facts.clone();
        let rows = encoding.encode(table)?;
        Ok(Design {
            origin: rows.origin,
            names: encoding.names(),
            dim: rows.dim,
            rows: rows.rows,
            x: rows.x,
            outcome: rows.outcome.unwrap_or_default(),
            offset: rows.offset,
            weights: rows.weights,
            encoding,
            warnings,
            facts,
            typical,
        })
    }

    /// Checks that the outcome suits a model of this kind; returns the number of classes, 1 for numbers.
    pub fn check_outcome(&self, kind: OutcomeKind) -> Result<usize, DataError> {
        match &self.encoding.outcome {
            Some(about) => check_outcome(kind, &self.outcome, about, &self.origin),
            None => Err(no_outcome(&self.origin.file)),
        }
    }
}

impl TableFile {
    /// How the columns are to be encoded, with warnings about them: the same that [`Design::new`] determines for a table
    /// in memory. [`TableFile::store`] encodes the rows with it.
    pub fn encoding(&self, options: &DesignOptions) -> Result<(Encoding, Vec<String>), DataError> {
        Encoding::new(&self.columns(), options)
    }

    /// The columns of an encoding with their typical values.
    pub(crate) fn typical(&self, encoding: &Encoding) -> TypicalRow {
        self.columns().typical(encoding)
    }

    fn columns(&self) -> Columns<'_> {
        Columns {
            file: self.path(),
            names: self.names(),
            rows: self.rows(),
            levels: self.levels(),
            summaries: self.summaries(),
            left_out: &self.facts().skipped,
        }
    }
}

pub(crate) fn no_outcome(file: &Path) -> DataError {
    DataError::BadTable { file: file.into(), problem: "no column is named as the outcome (use --outcome COL)".into() }
}

#[cfg(test)]
mod tests;
