//! The plain data of a regression with varying effects, and the checks that every fit makes first.

use super::family::Family;
use crate::grouping::Grouping;
use natmix::Error;

/// What a regression is fitted to. Matrices are stored row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffectsData {
    /// One outcome per row: a number, a count, the number of successes, a time, or the index of an ordered category.
    pub y: Vec<f64>,
    /// Trials of each row, for the binomial family.
    pub trials: Option<Vec<f64>>,
    /// Whether the event was seen in each row, for survival; false is right-censored. All were seen if not given.
    pub event: Option<Vec<bool>>,
    /// Names of the columns of `x`.
    pub names: Vec<String>,
    /// The columns with one coefficient each; a column of ones is the intercept.
    pub x: Vec<f64>,
    /// The groupings with effects of their own.
    pub groupings: Vec<Grouping>,
    /// Added to each linear predictor.
    pub offset: Option<Vec<f64>>,
    /// How often each row counts.
    pub weights: Option<Vec<f64>>,
}

fn invalid<T>(problem: String) -> Result<T, Error> {
    Err(Error::InvalidInput(problem))
}

/// Checks that there are `rows * columns` finite numbers.
fn check_matrix(what: &str, matrix: &[f64], rows: usize, columns: usize) -> Result<(), Error> {
    if Some(matrix.len()) != rows.checked_mul(columns) {
        return invalid(format!("{what}: {} numbers are not {rows} rows of {columns} columns", matrix.len()));
    }
    match matrix.iter().position(|x| !x.is_finite()) {
        Some(at) => invalid(format!("{what}: row {}, column {} is {}", at / columns, at % columns, matrix[at])),
        None => Ok(()),
    }
}

impl EffectsData {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.y.len()
    }

    /// The first column whose entries are all one: the intercept.
    pub(super) fn constant_column(&self) -> Option<usize> {
        let width = self.names.len();
        (0..width).find(|j| (0..self.rows()).all(|row| self.x[row * width + j] == 1.0))
    }

    /// Checks sizes, that all numbers are finite, and that the outcomes suit the family.
    pub fn check(&self, family: Family) -> Result<(), Error> {
        let rows = self.rows();
        if rows == 0 {
            return invalid("there are no rows".into());
        }
        check_matrix("columns", &self.x, rows, self.names.len())?;
        family.check(self)?;
        if let Some(offset) = &self.offset {
            check_matrix("offset", offset, rows, 1)?;
        }
        if let Some(weights) = &self.weights {
            check_matrix("row weights", weights, rows, 1)?;
            if let Some(row) = weights.iter().position(|weight| *weight < 0.0) {
                return invalid(format!("row weights: row {row} is {}, not at least 0", weights[row]));
            }
        }
        for (at, grouping) in self.groupings.iter().enumerate() {
            check_grouping(grouping, rows)?;
            let mut earlier = self.groupings[..at].iter().filter(|other| other.name == grouping.name);
            if earlier.any(|other| other.columns.iter().any(|column| grouping.columns.contains(column))) {
                return invalid(format!("grouping `{}` has a column twice", grouping.name));
            }
        }
        Ok(())
    }
}

fn check_grouping(grouping: &Grouping, rows: usize) -> Result<(), Error> {
    let Grouping { name, levels, level_of_row, columns, z, .. } = grouping;
    let levels = levels.len();
    if levels == 0 || columns.is_empty() {
        return invalid(format!("grouping `{name}` has {levels} levels and {} columns", columns.len()));
    }
    if level_of_row.len() != rows {
        return invalid(format!("grouping `{name}` has {} rows instead of {rows}", level_of_row.len()));
    }
    if let Some(row) = level_of_row.iter().position(|level| *level as usize >= levels) {
        let level = level_of_row[row];
        return invalid(format!("grouping `{name}`: row {row} has level {level}, but there are only {levels}"));
    }
    check_matrix(&format!("grouping `{name}`"), z, rows, columns.len())
}
