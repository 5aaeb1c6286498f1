//! Rows in the columns of a regression with varying effects: those of the fit, and new ones, whose groups may be unknown.

use super::data::EffectsData;
use super::family::Family;
use super::layout::EffectsLayout;
use super::outcome::Observed;
use crate::formula::{FormulaEncoding, FormulaRows, GroupingRows};
use crate::grouping::GroupCoefficients;
use natmix::Error;

/// Rows to predict or to judge predictions by. Columns are as they are in the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffectsRows {
    /// Number of rows.
    pub rows: usize,
    /// The columns with fixed coefficients, row by row.
    pub(super) x: Vec<f64>,
    pub(super) groupings: Vec<GroupingRows>,
    pub(super) offset: Option<Vec<f64>>,
    /// The outcomes, if they are known.
    pub outcome: Option<Vec<f64>>,
    /// Number of trials of each row, for the binomial family.
    pub trials: Option<Vec<f64>>,
    /// Whether the event was seen in each row, for survival; otherwise the time is censored.
    pub event: Option<Vec<bool>>,
    /// How often each row counts.
    pub weights: Option<Vec<f64>>,
    /// Columns that the formula does not use.
    pub ignored: Vec<String>,
}

impl EffectsRows {
    /// From rows in the columns of the formula. Families with cut points have no intercept.
    pub fn of_formula(rows: FormulaRows, encoding: &FormulaEncoding, layout: &EffectsLayout) -> Result<Self, Error> {
        let FormulaRows { rows: count, mut x, groupings, offset, outcome, trials, event, weights, ignored, .. } = rows;
        let (dim, wanted) = (encoding.dim(), layout.coefficient_names().len());
        if layout.drops_intercept(encoding) {
            let mut at = 0..x.len();
            x.retain(|_| at.next().is_some_and(|at| at % dim != 0));
        }
        if x.len() != count * wanted || groupings.len() != layout.groups.len() {
            return Err(Error::InvalidInput("these rows have other columns than the fit".into()));
        }
        Ok(Self { rows: count, x, groupings, offset, outcome, trials, event, weights, ignored })
    }

    /// The rows of a fit.
    pub fn of_fit(data: &EffectsData, family: Family) -> Self {
        let rows = data.rows();
        let width = data.names.len();
        let mut x = data.x.clone();
        if let Some(ones) = data.constant_column().filter(|_| family.cuts() > 0) {
            let mut at = 0..x.len();
            x.retain(|_| at.next().is_some_and(|at| at % width != ones));
        }
        let groupings = data.groupings.iter().map(|grouping| GroupingRows {
            index: grouping.level_of_row.iter().map(|level| Some(*level)).collect(),
            z: grouping.z.clone(),
        });
        Self {
            rows,
            x,
            groupings: groupings.collect(),
            offset: data.offset.clone(),
            outcome: Some(data.y.clone()),
            trials: data.trials.clone(),
            event: data.event.clone(),
            weights: data.weights.clone(),
            ignored: Vec::new(),
        }
    }

    /// Number of trials of a row.
    pub(super) fn trials(&self, row: usize) -> f64 {
        self.trials.as_ref().map_or(1.0, |trials| trials[row])
    }

    /// The outcome of a row, which must be known.
    pub(super) fn observed(&self, row: usize) -> Observed {
        Observed {
            y: self.outcome.as_ref().map_or(f64::NAN, |y| y[row]),
            trials: self.trials(row),
            seen: self.event.as_ref().is_none_or(|event| event[row]),
        }
    }

    /// Whether some rows are censored: their outcomes are not known.
    pub fn is_censored(&self) -> bool {
        self.event.as_ref().is_some_and(|event| event.iter().any(|seen| !seen))
    }

    /// Leaves out the effects of all groups; smooths stay.
    pub(super) fn without_groups(&mut self, layout: &EffectsLayout) {
        for (grouping, shape) in self.groupings.iter_mut().zip(&layout.groups) {
            if shape.coefficients != GroupCoefficients::Shared {
                grouping.z.fill(0.0);
            }
        }
    }

    /// Number of groups, over all rows and groupings, that the fit has not seen.
    pub fn new_groups(&self) -> usize {
        self.groupings.iter().flat_map(|grouping| &grouping.index).filter(|level| level.is_none()).count()
    }
}

impl EffectsLayout {
    /// Whether the formula has an intercept that the fit has not.
    pub(super) fn drops_intercept(&self, encoding: &FormulaEncoding) -> bool {
        encoding.intercept && self.base.family.cuts() > 0
    }
}
