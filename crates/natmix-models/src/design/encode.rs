//! Encodes the rows of a table: for the fit, in blocks, and for predictions.

use super::encoding::{Coding, Encoding};
use crate::error::{DataError, Names, shown};
use crate::table::{MissingRows, Origin, Table, TableFacts, reserve};
use std::collections::HashMap;
use std::path::Path;

/// Rows of a table, encoded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncodedRows {
    /// Where the rows came from.
    pub origin: Origin,
    /// Number of rows.
    pub rows: usize,
    /// Number of coefficients.
    pub dim: usize,
    /// The design matrix by row.
    pub x: Vec<f64>,
    /// The outcome on the scale of the fit, if the table has it.
    pub outcome: Option<Vec<f64>>,
    /// Added to the linear predictor, if the model has an offset or exposure.
    pub offset: Option<Vec<f64>>,
    /// How often each row counts, if the model has weights and the table has the column.
    pub weights: Option<Vec<f64>>,
    /// Columns that the model does not use and that were left out, besides those that were left out of the fit.
    pub ignored: Vec<String>,
    /// What was found while they were read.
    pub facts: TableFacts,
}

impl EncodedRows {
    /// Returns an error if the table has columns that the model does not use.
    pub fn refuse_extra_columns(&self) -> Result<(), DataError> {
        if self.ignored.is_empty() {
            return Ok(());
        }
        Err(DataError::ExtraColumns { file: self.origin.file.clone(), columns: Names(self.ignored.clone()) })
    }
}

/// Where the values of some columns of the design come from.
enum ColumnFill {
    One,
    Number {
        from: usize,
        centre: f64,
        scale: f64,
    },
    /// For each level of the table its position among the columns of this feature; none for the dropped level.
    Levels {
        from: usize,
        width: usize,
        slot: Vec<Option<usize>>,
    },
}

impl Encoding {
    /// Reads and encodes a file. Columns that the model does not use are skipped, so they may hold anything.
    pub fn read(&self, path: &Path) -> Result<EncodedRows, DataError> {
        self.read_with(path, MissingRows::Error)
    }

    /// The same, with a choice of what happens to rows with missing values.
    pub fn read_with(&self, path: &Path, missing: MissingRows) -> Result<EncodedRows, DataError> {
        let (table, mut ignored) = Table::read_columns(path, &self.wanted(), missing)?;
        ignored.retain(|name| !self.left_out.contains(name));
        let facts = table.facts.clone();
        let mut rows = self.encode(table)?;
        (rows.ignored, rows.facts) = (ignored, facts);
        Ok(rows)
    }

    /// Encodes a table in place. Columns are found by name, in any order; features, offset and exposure are required.
    pub fn encode(&self, table: Table) -> Result<EncodedRows, DataError> {
        self.check()?;
        if let Some(formula) = &self.formula {
            return formula.encode(&table, self.outcome.as_ref());
        }
        let fills = self.fills(&table)?;
        let (outcome, offset, weights) = (self.outcome_of(&table)?, self.offset_of(&table)?, self.weights_of(&table)?);
        let wanted = self.wanted();
        let is_ignored = |name: &&String| !wanted.contains_key(name.as_str()) && !self.left_out.contains(name);
        let ignored = table.names.iter().filter(is_ignored).cloned().collect();
        let (dim, from) = (self.dim(), table.names.len());
        let x = reshape(&table.origin.file, table.values, table.rows, from, dim, |old, new| {
            let mut at = 0;
            for fill in &fills {
                match fill {
                    ColumnFill::One => new[at] = 1.0,
                    ColumnFill::Number { from, centre, scale } => new[at] = (old[*from] - centre) / scale,
                    ColumnFill::Levels { from, width, slot } => {
                        new[at..at + width].fill(0.0);
                        if let Some(slot) = slot[old[*from] as usize] {
                            new[at + slot] = 1.0;
                        }
                    }
                }
                at += if let ColumnFill::Levels { width, .. } = fill { *width } else { 1 };
            }
        })?;
        let (origin, rows, facts) = (table.origin, table.rows, TableFacts::default());
        Ok(EncodedRows { origin, rows, dim, x, outcome, offset, weights, ignored, facts })
    }

    fn fills(&self, table: &Table) -> Result<Vec<ColumnFill>, DataError> {
        let mut fills = Vec::new();
        fills.extend(self.intercept.then_some(ColumnFill::One));
        for feature in &self.features {
            let from = needed(table, &feature.column, "a feature")?;
            fills.push(match &feature.coding {
                Coding::Number { centre, scale } => {
                    must_be_numbers(table, from)?;
                    ColumnFill::Number { from, centre: *centre, scale: *scale }
                }
                Coding::Levels { levels, first_dropped } => {
                    let slot = level_map(table, from, levels)?.into_iter();
                    let slot = slot.map(|level| level?.checked_sub(usize::from(*first_dropped))).collect();
                    ColumnFill::Levels { from, width: feature.width(), slot }
                }
            });
        }
        Ok(fills)
    }

    fn outcome_of(&self, table: &Table) -> Result<Option<Vec<f64>>, DataError> {
        let Some(about) = &self.outcome else { return Ok(None) };
        let Some(from) = table.position(&about.column) else { return Ok(None) };
        let Some(levels) = &about.levels else {
            must_be_numbers(table, from)?;
            return Ok(Some(table.column(from).map(|value| (value - about.centre) / about.scale).collect()));
        };
        let map = level_map(table, from, levels)?;
        Ok(Some(table.column(from).map(|level| map[level as usize].map_or(f64::NAN, |index| index as f64)).collect()))
    }

    fn offset_of(&self, table: &Table) -> Result<Option<Vec<f64>>, DataError> {
        let mut sum: Option<Vec<f64>> = None;
        if let Some(name) = &self.offset {
            let from = needed(table, name, "the offset")?;
            must_be_numbers(table, from)?;
            let scale = self.outcome.as_ref().map_or(1.0, |outcome| outcome.scale);
            sum = Some(table.column(from).map(|value| value / scale).collect());
        }
        if let Some(name) = &self.exposure {
            let from = needed(table, name, "the exposure")?;
            must_be_numbers(table, from)?;
            refuse(
                table,
                from,
                |value| value <= 0.0,
                "is not positive, as an exposure must be (correct or remove the row)",
            )?;
            let sum = sum.get_or_insert_with(|| vec![0.0; table.rows]);
            sum.iter_mut().zip(table.column(from)).for_each(|(sum, value)| *sum += value.ln());
        }
        Ok(sum)
    }

    fn weights_of(&self, table: &Table) -> Result<Option<Vec<f64>>, DataError> {
        let Some(from) = self.weights.as_ref().and_then(|name| table.position(name)) else { return Ok(None) };
        must_be_numbers(table, from)?;
        refuse(table, from, |value| value < 0.0, "is negative, as a weight cannot be (correct or remove the row)")?;
        Ok(Some(table.column(from).collect()))
    }
}

fn needed(table: &Table, name: &str, role: &'static str) -> Result<usize, DataError> {
    table.position(name).ok_or_else(|| DataError::MissingColumn {
        file: table.origin.file.clone(),
        column: shown(name.as_bytes()),
        role,
        columns: Names(table.names.clone()),
    })
}

fn must_be_numbers(table: &Table, from: usize) -> Result<(), DataError> {
    if !table.levels.contains_key(&from) {
        return Ok(());
    }
    let problem = "is categorical here, but the model was fitted with numbers in it (write numbers, or fit again)";
    Err(DataError::BadColumn {
        file: table.origin.file.clone(),
        column: table.names[from].clone(),
        problem: problem.into(),
    })
}

fn refuse(table: &Table, from: usize, bad: impl Fn(f64) -> bool, problem: &str) -> Result<(), DataError> {
    match table.column(from).enumerate().find(|(_, value)| bad(*value)) {
        None => Ok(()),
        Some((row, value)) => Err(DataError::BadValue {
            file: table.origin.file.clone(),
            place: table.origin.place(row),
            column: table.names[from].clone(),
            value,
            problem: problem.into(),
        }),
    }
}

/// Maps each level of the table's column to its index among the `known` ones. A level that occurs but is not known is an
/// error, as is an index without a level.
fn level_map(table: &Table, from: usize, known: &[String]) -> Result<Vec<Option<usize>>, DataError> {
    let (file, column) = (|| table.origin.file.clone(), || table.names[from].clone());
    let Some(levels) = table.levels.get(&from) else {
        let problem = "holds numbers here, but the model was fitted with it as categorical (use --categorical)".into();
        return Err(DataError::BadColumn { file: file(), column: column(), problem });
    };
    let index: HashMap<&String, usize> = known.iter().enumerate().map(|(i, level)| (level, i)).collect();
    let map: Vec<Option<usize>> = levels.iter().map(|level| index.get(level).copied()).collect();
    for (row, value) in table.column(from).enumerate() {
        let level = value as usize;
        if level >= levels.len() || level as f64 != value {
            let problem = format!("is not the index of one of its {} levels", levels.len());
            return Err(DataError::BadValue {
                file: file(),
                place: table.origin.place(row),
                column: column(),
                value,
                problem,
            });
        }
        if map[level].is_none() {
            return Err(DataError::UnknownLevel {
                file: file(),
                place: table.origin.place(row),
                column: column(),
                value: shown(levels[level].as_bytes()),
                known: Names(known.to_vec()),
            });
        }
    }
    Ok(map)
}

/// Turns rows of `from` values into rows of `to` values in place: from the front if they shrink, from the back if they grow, so
/// that no row is overwritten before it has been read.
fn reshape<F>(
    file: &Path,
    mut values: Vec<f64>,
    rows: usize,
    from: usize,
    to: usize,
    mut map: F,
) -> Result<Vec<f64>, DataError>
where
    F: FnMut(&[f64], &mut [f64]),
{
    let mut old = vec![0.0; from];
    let mut move_row = |values: &mut [f64], row: usize| {
        old.copy_from_slice(&values[row * from..(row + 1) * from]);
        map(&old, &mut values[row * to..(row + 1) * to]);
    };
    if to <= from {
        (0..rows).for_each(|row| move_row(&mut values, row));
        values.truncate(rows * to);
        values.shrink_to_fit();
        return Ok(values);
    }
    let Some(length) = rows.checked_mul(to).filter(|length| *length <= isize::MAX as usize / 8) else {
        return Err(DataError::OutOfMemory { file: file.into(), bytes: u64::MAX });
    };
    let more = length - values.len();
    reserve(file, &mut values, more)?;
    values.resize(length, 0.0);
    (0..rows).rev().for_each(|row| move_row(&mut values, row));
    Ok(values)
}
