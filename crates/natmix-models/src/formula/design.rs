//! From a formula and a table to the design of a regression.

use super::Formula;
use super::alias::combinations;
use super::encode::FormulaRows;
use super::encoding::{FormulaColumn, FormulaEncoding, GroupingKind};
use super::error::{FormulaError, FormulaProblem};
use super::plan::plan;
use crate::error::{DataError, Names, shown};
use crate::grouping::{GroupCoefficients, Grouping};
use crate::table::moments::{ColumnMoments, Summary};
use crate::table::{Origin, Table};
use std::collections::BTreeMap;

/// What stands beside a formula.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormulaOptions {
    /// Reference levels by column, for columns whose first level shall not be the reference.
    pub references: BTreeMap<String, String>,
    /// Non-negative column of row weights: how often each row counts. `.` does not stand for it.
    pub weights: Option<String>,
}

/// The design of a regression: in row i the linear predictor is `sum_j x[i * dim + j] b_j`, plus the offset, plus what each grouping
/// adds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormulaDesign {
    /// Where the rows came from.
    pub origin: Origin,
    /// Names of the fixed coefficients; an intercept is the first, named `(intercept)`.
    pub names: Vec<String>,
    /// Number of fixed coefficients.
    pub dim: usize,
    /// Number of rows.
    pub rows: usize,
    /// The fixed columns as they are in the table, by row: row i is `x[i * dim..(i + 1) * dim]`. For a fit on scaled columns see
    /// [`FormulaEncoding::centre_and_scale`].
    pub x: Vec<f64>,
    /// The effects that vary over groups, in the order of the formula, then the smooths.
    pub groupings: Vec<Grouping>,
    /// Added to the linear predictor.
    pub offset: Option<Vec<f64>>,
    /// The outcome as given; levels are represented by their index. Empty for a formula that starts with `~`.
    pub outcome: Vec<f64>,
    /// Trials of each row, for `y | trials(n)`.
    pub trials: Option<Vec<f64>>,
    /// Whether the event was seen in each row, for `time | event(e)`; otherwise it is censored.
    pub event: Option<Vec<bool>>,
    /// How often each row counts.
    pub weights: Option<Vec<f64>>,
    /// Means and standard deviations of the columns, and what new rows need; to be stored with the posterior.
    pub encoding: FormulaEncoding,
    /// Columns that were left out, and why.
    pub dropped: Vec<DroppedColumn>,
    /// Warnings about the formula and the columns.
    pub warnings: Vec<String>,
}

/// A column that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    /// Its name.
    pub name: String,
    /// Why it was left out.
    pub reason: String,
}

impl FormulaDesign {
    /// Builds the design of a formula from a table.
    pub fn new(formula: &Formula, table: &Table, options: &FormulaOptions) -> Result<FormulaDesign, FormulaError> {
        if table.rows < 2 {
            let problem = "a formula needs at least two rows of data".into();
            return Err(DataError::BadTable { file: table.origin.file.clone(), problem }.into());
        }
        let (mut encoding, mut warnings) = plan(formula, table, options)?;
        encoding.has_terms(formula)?;
        check_options(table, options, &encoding)?;
        let mut rows = encoding.encode(table)?;
        let dropped = encoding.measure(&rows);
        encoding.has_terms(formula)?;
        if !dropped.is_empty() {
            rows = encoding.encode(table)?;
        }
        let column = encoding.columns.iter().find(|column| !(column.mean.is_finite() && column.sd.is_finite()));
        if let Some(column) = column {
            let (file, column) = (table.origin.file.clone(), column.name.clone());
            let problem = "has values too large to be scaled (change its unit)".into();
            return Err(DataError::BadColumn { file, column, problem }.into());
        }
        warnings.extend(encoding.combinations(&rows.x));
        let FormulaRows { origin, rows: count, x, groupings, offset, outcome, trials, event, weights, .. } = rows;
        let groupings: Vec<Grouping> = encoding
            .groupings
            .iter()
            .zip(groupings)
            .map(|(about, rows)| Grouping {
                name: about.name.clone(),
                levels: about.level_names(),
                level_of_row: rows.index.into_iter().flatten().collect(),
                columns: about.columns.iter().map(|column| column.name.clone()).collect(),
                z: rows.z,
                coefficients: match about.kind {
                    GroupingKind::Smooth => GroupCoefficients::Shared,
                    GroupingKind::Groups { correlated: true, .. } => GroupCoefficients::Correlated,
                    GroupingKind::Groups { .. } => GroupCoefficients::Independent,
                },
            })
            .collect();
        for grouping in groupings.iter().filter(|g| g.levels.len() == 1 && g.coefficients != GroupCoefficients::Shared)
        {
            let level = shown(grouping.levels[0].as_bytes());
            warnings.push(format!("`{}` has only one group, `{level}`: nothing can vary over it", grouping.name));
        }
        Ok(FormulaDesign {
            origin,
            names: encoding.names(),
            dim: encoding.dim(),
            rows: count,
            x,
            groupings,
            offset,
            outcome: outcome.unwrap_or_default(),
            trials,
            event,
            weights,
            encoding,
            dropped,
            warnings,
        })
    }
}

fn check_options(table: &Table, options: &FormulaOptions, encoding: &FormulaEncoding) -> Result<(), DataError> {
    let file = || table.origin.file.clone();
    let known = encoding.references();
    if let Some((column, _)) = options.references.iter().find(|(column, _)| !known.contains_key(column.as_str())) {
        let problem = "was given a reference level, but is not a category in this formula".into();
        return Err(DataError::BadColumn { file: file(), column: column.clone(), problem });
    }
    let Some(name) = &options.weights else { return Ok(()) };
    let Some(at) = table.position(name) else {
        return Err(DataError::UnknownColumn {
            file: file(),
            column: shown(name.as_bytes()),
            role: "the weights",
            columns: Names(table.names.clone()),
        });
    };
    if !table.levels.contains_key(&at) && table.column(at).all(|weight| weight <= 0.0) {
        let problem = "has no positive value, so as weights it leaves no row".into();
        return Err(DataError::BadColumn { file: file(), column: name.clone(), problem });
    }
    Ok(())
}

impl FormulaEncoding {
    fn has_terms(&self, formula: &Formula) -> Result<(), FormulaError> {
        if self.dim() > 0 || !self.groupings.is_empty() {
            return Ok(());
        }
        Err(FormulaProblem::NoTerms.in_terms(formula))
    }

    /// Finds means and standard deviations, and leaves out columns that say nothing.
    fn measure(&mut self, rows: &FormulaRows) -> Vec<DroppedColumn> {
        let mut dropped = Vec::new();
        let intercept = self.intercept;
        measure(&mut self.columns, &rows.x, intercept, &mut dropped);
        for (grouping, rows) in self.groupings.iter_mut().zip(&rows.groupings) {
            measure(&mut grouping.columns, &rows.z, false, &mut dropped);
        }
        self.groupings.retain(|grouping| !grouping.columns.is_empty());
        dropped
    }

    /// Warnings about columns that are combinations of others.
    fn combinations(&self, x: &[f64]) -> Vec<String> {
        let of_columns = |f: fn(&FormulaColumn) -> f64| self.columns.iter().map(f).collect::<Vec<f64>>();
        let scales = of_columns(|column| if column.sd > 0.0 { column.sd } else { column.mean.abs() });
        // About their means the columns are combinations where, beside an intercept, they are.
        let means = if self.intercept { of_columns(|column| column.mean) } else { vec![0.0; self.dim()] };
        let warning = |(column, used): (usize, Vec<usize>)| {
            let names = Names(used.iter().map(|k| self.columns[*k].name.clone()).collect());
            format!(
                "`{}` is a combination of other columns ({names}): only the prior tells their coefficients apart",
                self.columns[column].name
            )
        };
        let skip = usize::from(self.intercept);
        let found = combinations(x, &means, &scales);
        found.into_iter().filter(|(column, _)| *column >= skip).map(warning).collect()
    }
}

/// Means and standard deviations of columns; those that are always the same are left out beside an intercept, those that are always
/// 0 in any case.
fn measure(columns: &mut Vec<FormulaColumn>, x: &[f64], intercept: bool, dropped: &mut Vec<DroppedColumn>) {
    if columns.is_empty() {
        return;
    }
    let mut moments = ColumnMoments::new(columns.len());
    moments.add(x);
    let mut summaries = moments.finish().into_iter();
    columns.retain_mut(|column| {
        let Some(Summary { mean, sd, min, max }) = summaries.next() else { return true };
        (column.mean, column.sd) = if min == max { (min, 0.0) } else { (mean, sd) };
        let empty = min == max && (min == 0.0 || intercept) && !column.parts.is_empty();
        if empty {
            let reason = format!("is always {min}");
            dropped.push(DroppedColumn { name: column.name.clone(), reason });
        }
        !empty
    });
}
