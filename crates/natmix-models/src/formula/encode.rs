//! Encodes the rows of a table: for the fit, and for predictions.

use super::encoding::{
    Factor, FactorKind, FactorPart, FormulaColumn, FormulaEncoding, GroupingEncoding, GroupingKind, OutcomeEncoding,
    OutcomeForm,
};
use super::levels::{codes, known_codes};
use super::numeric::{Numeric, column};
use crate::error::DataError;
use crate::table::{MissingRows, Origin, Table, reserve};
use std::collections::HashMap;
use std::path::Path;

/// Rows of a table in the columns of a formula.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormulaRows {
    /// Where the rows came from.
    pub origin: Origin,
    /// Number of rows.
    pub rows: usize,
    /// The columns with fixed coefficients, by row: row i is `x[i * dim..(i + 1) * dim]`.
    pub x: Vec<f64>,
    /// One for each grouping of the formula.
    pub groupings: Vec<GroupingRows>,
    /// The sum of the offsets.
    pub offset: Option<Vec<f64>>,
    /// The outcome, if the table has its columns: numbers, or indices of levels.
    pub outcome: Option<Vec<f64>>,
    /// Trials of each row, if the formula and the table have them.
    pub trials: Option<Vec<f64>>,
    /// Whether the event was seen in each row, if the formula and the table have it.
    pub event: Option<Vec<bool>>,
    /// How often each row counts, if the formula has weights and the table has their column.
    pub weights: Option<Vec<f64>>,
    /// Columns that the formula does not use.
    pub ignored: Vec<String>,
}

/// The groups of some rows, and the columns that vary over them.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupingRows {
    /// Index of the group of each row; none for a group that the fit has not seen.
    pub index: Vec<Option<u32>>,
    /// The columns that vary, by row.
    pub z: Vec<f64>,
}

/// A factor in every row.
pub(super) enum FactorValues {
    Numbers(Vec<f64>),
    Codes(Vec<u32>),
    Functions(Vec<f64>, usize),
}

impl Factor {
    pub(super) fn values(&self, table: &Table) -> Result<FactorValues, DataError> {
        Ok(match &self.kind {
            FactorKind::Number(number) => FactorValues::Numbers(number.values(table)?),
            FactorKind::Levels { column: name, levels, .. } => {
                FactorValues::Codes(known_codes(table, column(table, name)?, levels)?)
            }
            FactorKind::Basis { of, basis } => {
                FactorValues::Functions(basis.values(&of.values(table)?, &self.name, table)?, basis.width())
            }
        })
    }
}

/// The values of some columns, by row.
pub(super) fn fill(table: &Table, columns: &[FormulaColumn], factors: &[FactorValues]) -> Result<Vec<f64>, DataError> {
    let mut x = Vec::new();
    reserve(&table.origin.file, &mut x, table.rows.saturating_mul(columns.len()))?;
    for row in 0..table.rows {
        x.extend(columns.iter().map(|column| {
            column.parts.iter().fold(1.0, |product, FactorPart { factor, part }| {
                product
                    * match &factors[*factor] {
                        FactorValues::Numbers(values) => values[row],
                        FactorValues::Codes(codes) => f64::from(codes[row] as usize == *part),
                        FactorValues::Functions(values, width) => values[row * width + part],
                    }
            })
        }));
    }
    // A product of finite numbers can overflow.
    if let Some(at) = x.iter().position(|value| !value.is_finite()) {
        return Err(DataError::BadValue {
            file: table.origin.file.clone(),
            place: table.origin.place(at / columns.len()),
            column: columns[at % columns.len()].name.clone(),
            value: x[at],
            problem: "is not finite (change the units of the columns that are multiplied)".into(),
        });
    }
    Ok(x)
}

impl FormulaEncoding {
    /// Reads and encodes a file. Columns that the formula does not use are skipped, so they may hold anything.
    pub fn read(&self, path: &Path) -> Result<FormulaRows, DataError> {
        self.check()?;
        let (table, ignored) = Table::read_columns(path, &self.wanted(), MissingRows::Error)?;
        let mut rows = self.encode(&table)?;
        rows.ignored = ignored;
        Ok(rows)
    }

    /// Encodes rows. Columns are found by name, in any order; only those of the outcome and weights may be missing.
    pub fn encode(&self, table: &Table) -> Result<FormulaRows, DataError> {
        self.check()?;
        let factors: Vec<FactorValues> =
            self.factors.iter().map(|factor| factor.values(table)).collect::<Result<_, _>>()?;
        let grouping = |grouping: &GroupingEncoding| {
            Ok(GroupingRows { index: grouping.index(table)?, z: fill(table, &grouping.columns, &factors)? })
        };
        let groupings = self.groupings.iter().map(grouping).collect::<Result<_, DataError>>()?;
        let x = fill(table, &self.columns, &factors)?;
        let (mut outcome, mut trials, mut event) = (None, None, None);
        if let Some(about) = &self.outcome {
            let given = |number: &Option<Numeric>| match number {
                Some(number) if number.is_in(table) => number.values(table).map(Some),
                _ => Ok(None),
            };
            outcome = match &about.kind {
                OutcomeForm::Number(number) if number.is_in(table) => Some(number.values(table)?),
                OutcomeForm::Levels { column, levels, .. } => match table.position(column) {
                    Some(at) => Some(known_codes(table, at, levels)?.into_iter().map(f64::from).collect()),
                    None => None,
                },
                OutcomeForm::Number(_) => None,
            };
            (trials, event) = (given(&about.trials)?, given(&about.event)?);
            check_additions(table, about, outcome.as_deref(), trials.as_deref(), event.as_deref())?;
        }
        let mut offset: Option<Vec<f64>> = None;
        for number in &self.offsets {
            let values = number.values(table)?;
            match &mut offset {
                None => offset = Some(values),
                Some(sum) => sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            }
        }
        let wanted = self.wanted();
        Ok(FormulaRows {
            origin: table.origin.clone(),
            rows: table.rows,
            x,
            groupings,
            offset,
            outcome,
            trials,
            event: event.map(|event| event.iter().map(|seen| *seen == 1.0).collect()),
            weights: self.weights_of(table)?,
            ignored: table.names.iter().filter(|name| !wanted.contains_key(name.as_str())).cloned().collect(),
        })
    }

    fn weights_of(&self, table: &Table) -> Result<Option<Vec<f64>>, DataError> {
        let Some(name) = self.weights.as_ref().filter(|name| table.position(name).is_some()) else { return Ok(None) };
        let weights = Numeric::Column(name.clone()).values(table)?;
        let problem = "is negative, as a weight cannot be (correct or remove the row)";
        refuse(table, name, &weights, |_, weight| weight < 0.0, problem)?;
        Ok(Some(weights))
    }
}

impl GroupingEncoding {
    /// The group of each row.
    fn index(&self, table: &Table) -> Result<Vec<Option<u32>>, DataError> {
        let GroupingKind::Groups { columns, levels, .. } = &self.kind else { return Ok(vec![Some(0); table.rows]) };
        // The levels of each column by number, then the groups by the numbers of their levels.
        let mut keys = vec![Vec::with_capacity(columns.len()); levels.len()];
        let mut found = Vec::with_capacity(columns.len());
        for (j, (name, _)) in columns.iter().enumerate() {
            let mut known: Vec<String> = levels.iter().map(|level| level[j].clone()).collect();
            known.sort();
            known.dedup();
            let number: HashMap<&String, u32> = known.iter().enumerate().map(|(i, level)| (level, i as u32)).collect();
            keys.iter_mut().zip(levels).for_each(|(key, level)| key.push(number[&level[j]]));
            found.push(codes(table, column(table, name)?, &known)?);
        }
        let index: HashMap<Vec<u32>, u32> = keys.into_iter().enumerate().map(|(i, key)| (key, i as u32)).collect();
        let mut key = Vec::with_capacity(columns.len());
        let group = |row: usize| {
            key.clear();
            key.extend(found.iter().map_while(|codes| codes[row]));
            index.get(&key).copied()
        };
        Ok((0..table.rows).map(group).collect())
    }
}

fn refuse(
    table: &Table,
    name: &str,
    values: &[f64],
    bad: impl Fn(usize, f64) -> bool,
    problem: &str,
) -> Result<(), DataError> {
    match values.iter().enumerate().find(|(row, value)| bad(*row, **value)) {
        None => Ok(()),
        Some((row, value)) => Err(DataError::BadValue {
            file: table.origin.file.clone(),
            place: table.origin.place(row),
            column: name.into(),
            value: *value,
            problem: problem.into(),
        }),
    }
}

fn check_additions(
    table: &Table,
    about: &OutcomeEncoding,
    outcome: Option<&[f64]>,
    trials: Option<&[f64]>,
    event: Option<&[f64]>,
) -> Result<(), DataError> {
    if let (Some(trials), Some(number)) = (trials, &about.trials) {
        let problem = "is not a number of trials (1, 2, 3, ...)";
        refuse(table, &number.to_string(), trials, |_, n| n < 1.0 || n.fract() != 0.0, problem)?;
        let unfit = |row: usize, y: f64| y < 0.0 || y.fract() != 0.0 || y > trials[row];
        let problem = "is not a number of successes among the trials of its row";
        refuse(table, &about.name, outcome.unwrap_or_default(), unfit, problem)?;
    }
    if let (Some(event), Some(number)) = (event, &about.event) {
        let problem = "is neither 1 (seen) nor 0 (censored)";
        refuse(table, &number.to_string(), event, |_, e| e != 0.0 && e != 1.0, problem)?;
    }
    Ok(())
}
