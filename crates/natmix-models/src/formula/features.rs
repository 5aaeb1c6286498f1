//! A formula as the columns of a regression with fixed coefficients: on the scale of the fit, and back.

use super::{Formula, FormulaDesign, FormulaEncoding, FormulaError, FormulaOptions, FormulaProblem, FormulaRows};
use crate::conditional::TypicalRow;
use crate::design::{Design, EncodedRows, Encoding, OutcomeColumn};
use crate::error::DataError;
use crate::table::moments::{ColumnMoments, Summary};
use crate::table::{Table, TableFacts};
use serde::{Deserialize, Serialize};

/// The columns that a formula makes, and whether they are scaled for the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormulaFeatures {
    /// How the columns are made.
    pub encoding: FormulaEncoding,
    /// Whether they are centred and scaled for the fit.
    pub standardize: bool,
}

impl FormulaFeatures {
    /// What a column is centred by and divided by for the fit.
    pub fn centre_and_scale(&self, column: usize) -> (f64, f64) {
        if self.standardize { self.encoding.centre_and_scale(column) } else { (0.0, 1.0) }
    }

    /// Encodes rows on the scale of the fit.
    pub(crate) fn encode(&self, table: &Table, outcome: Option<&OutcomeColumn>) -> Result<EncodedRows, DataError> {
        Ok(self.scaled(self.encoding.encode(table)?, outcome))
    }

    /// Brings rows to the scale of the fit. Offsets are divided by the outcome's scale, so that they keep their meaning.
    fn scaled(&self, rows: FormulaRows, outcome: Option<&OutcomeColumn>) -> EncodedRows {
        let dim = self.encoding.dim();
        let FormulaRows { origin, rows, mut x, outcome: mut y, mut offset, weights, ignored, .. } = rows;
        let scales: Vec<(f64, f64)> = (0..dim).map(|column| self.centre_and_scale(column)).collect();
        for row in x.chunks_exact_mut(dim.max(1)) {
            row.iter_mut().zip(&scales).for_each(|(x, (centre, scale))| *x = (*x - centre) / scale);
        }
        if let Some(OutcomeColumn { centre, scale, .. }) = outcome {
            y.iter_mut().flatten().for_each(|y| *y = (*y - centre) / scale);
            offset.iter_mut().flatten().for_each(|offset| *offset /= scale);
        }
        EncodedRows { origin, rows, dim, x, outcome: y, offset, weights, ignored, facts: TableFacts::default() }
    }
}

impl Design {
    /// The design of a formula without varying effects and smooths. `standardize` says whether columns are centred and scaled,
    /// `standardize_outcome` whether the outcome is.
    pub fn of_formula(
        table: &Table,
        formula: &Formula,
        options: &FormulaOptions,
        standardize: bool,
        standardize_outcome: bool,
    ) -> Result<Design, FormulaError> {
        let refuse = |problem: FormulaProblem| Err(problem.in_terms(formula));
        let design = FormulaDesign::new(formula, table, options)?;
        if !design.groupings.is_empty() {
            return refuse(FormulaProblem::OnlyFixed);
        }
        let Some(about) = &design.encoding.outcome else { return refuse(FormulaProblem::NoOutcome) };
        if about.trials.is_some() || about.event.is_some() {
            return refuse(FormulaProblem::OtherModel);
        }
        let (column, levels) = (about.column().to_string(), about.levels().map(<[String]>::to_vec));
        let bad = |problem: &str| {
            let (file, column) = (design.origin.file.clone(), column.clone());
            Err(DataError::BadColumn { file, column, problem: problem.into() }.into())
        };
        let (mut centre, mut scale) = (0.0, 1.0);
        if standardize_outcome && levels.is_some() {
            return bad("is categorical, so it cannot be standardised as the outcome");
        }
        if standardize_outcome {
            let mut moments = ColumnMoments::new(1);
            moments.add(&design.outcome);
            let Summary { mean, sd, min, max } = moments.finish()[0];
            centre = if design.encoding.intercept { mean } else { 0.0 };
            if min < max {
                scale = sd;
            }
            if !(centre.is_finite() && scale.is_finite() && scale >= f64::MIN_POSITIVE) {
                return bad("has values too large or too small to be standardised (change its unit)");
            }
        }
        let mut warnings = design.warnings;
        let dropped =
            |column: &super::DroppedColumn| format!("column `{}` {}: it is left out", column.name, column.reason);
        warnings.extend(design.dropped.iter().map(dropped));
        let outcome = OutcomeColumn { column, levels, centre, scale };
        let rows = FormulaRows {
            origin: design.origin,
            rows: design.rows,
            x: design.x,
            groupings: Vec::new(),
            offset: design.offset,
            outcome: Some(design.outcome),
            trials: None,
            event: None,
            weights: design.weights,
            ignored: Vec::new(),
        };
        let typical = TypicalRow::of_formula(table, &design.encoding);
        let (names, intercept) = (design.names, design.encoding.intercept);
        let features = FormulaFeatures { encoding: design.encoding, standardize };
        let EncodedRows { origin, rows, dim, x, outcome: y, offset, weights, .. } =
            features.scaled(rows, Some(&outcome));
        let encoding = Encoding {
            intercept,
            features: Vec::new(),
            formula: Some(Box::new(features)),
            outcome: Some(outcome),
            offset: None,
            exposure: None,
            weights: None,
            left_out: Vec::new(),
        };
        let (y, facts) = (y.unwrap_or_default(), table.facts.clone());
        Ok(Design { origin, names, dim, rows, x, outcome: y, offset, weights, encoding, warnings, facts, typical })
    }
}
