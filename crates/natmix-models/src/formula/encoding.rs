//! How the columns of a table become those of a formula's design: kept with a fit, and used again for new rows.

use super::basis::Basis;
use super::numeric::Numeric;
use crate::error::{DataError, shown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is needed to give new rows the columns that the fitted rows had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormulaEncoding {
    /// The formula.
    pub formula: String,
    /// Whether the first column is an intercept, of ones.
    pub intercept: bool,
    /// What the columns are products of.
    pub factors: Vec<Factor>,
    /// The columns with fixed coefficients.
    pub columns: Vec<FormulaColumn>,
    /// Effects that vary over groups, and smooths.
    pub groupings: Vec<GroupingEncoding>,
    /// Numbers that are added to the linear predictor.
    pub offsets: Vec<Numeric>,
    /// The outcome; none for a formula that starts with `~`.
    pub outcome: Option<OutcomeEncoding>,
    /// Column of row weights.
    pub weights: Option<String>,
}

/// What columns are products of: a column of the table, or a function of some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// How the formula writes it.
    pub name: String,
    /// How it is calculated.
    pub kind: FactorKind,
}

/// The kinds of factors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum FactorKind {
    /// One number for each row.
    Number(Numeric),
    /// A category.
    Levels {
        /// The column.
        column: String,
        /// Whether the column holds numbers.
        numbers: bool,
        /// The levels in order.
        levels: Vec<String>,
        /// Index of the reference level.
        reference: usize,
    },
    /// Several numbers for each row.
    Basis {
        /// What the functions are of.
        of: Numeric,
        /// The functions.
        basis: Basis,
    },
}

/// A column of the design: a product of parts of factors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormulaColumn {
    /// Its name.
    pub name: String,
    /// What is multiplied; nothing for an intercept.
    pub parts: Vec<FactorPart>,
    /// Mean over the fitted rows.
    pub mean: f64,
    /// Standard deviation over the fitted rows (divisor n - 1).
    pub sd: f64,
}

/// One column of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactorPart {
    /// Which factor.
    pub factor: usize,
    /// Which of its levels or functions; 0 for a number.
    pub part: usize,
}

/// Effects that vary over groups, or a smooth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupingEncoding {
    /// What the formula calls it: `g`, `a:b` or `s(x)`.
    pub name: String,
    /// The groups.
    pub kind: GroupingKind,
    /// The columns whose coefficients vary.
    pub columns: Vec<FormulaColumn>,
}

/// The kinds of groupings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GroupingKind {
    /// Each combination of levels of some columns is a group.
    Groups {
        /// The columns, and whether each holds numbers.
        columns: Vec<(String, bool)>,
        /// The groups: a level of each column.
        levels: Vec<Vec<String>>,
        /// Whether the coefficients of a group are correlated.
        correlated: bool,
    },
    /// One group of coefficients that share a standard deviation.
    Smooth,
}

/// The left side of a formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeEncoding {
    /// How the formula writes it.
    pub name: String,
    /// The outcome itself.
    pub kind: OutcomeForm,
    /// Number of trials, in `y | trials(n)`.
    pub trials: Option<Numeric>,
    /// Whether the event was seen (1) or the row is censored (0), in `time | event(e)`.
    pub event: Option<Numeric>,
}

impl OutcomeEncoding {
    /// The column of an outcome with levels, or how the formula writes it.
    pub fn column(&self) -> &str {
        match &self.kind {
            OutcomeForm::Levels { column, .. } => column,
            OutcomeForm::Number(_) => &self.name,
        }
    }

    /// Its levels, if it has any.
    pub fn levels(&self) -> Option<&[String]> {
        match &self.kind {
            OutcomeForm::Levels { levels, .. } => Some(levels),
            OutcomeForm::Number(_) => None,
        }
    }
}

/// Kinds of outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OutcomeForm {
    /// A number.
    Number(Numeric),
    /// The index of a level.
    Levels {
        /// The column.
        column: String,
        /// Whether the column holds numbers, as in `factor(y) ~ x`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        numbers: bool,
        /// The levels in order.
        levels: Vec<String>,
    },
}

impl FactorKind {
    /// Number of its columns, with the reference level.
    pub fn width(&self) -> usize {
        match self {
            FactorKind::Number(_) => 1,
            FactorKind::Levels { levels, .. } => levels.len(),
            FactorKind::Basis { basis, .. } => basis.width(),
        }
    }

    pub(super) fn is_category(&self) -> bool {
        matches!(self, FactorKind::Levels { .. })
    }
}

impl Factor {
    /// Name of one of its columns.
    pub(super) fn part_name(&self, part: usize) -> String {
        match &self.kind {
            FactorKind::Number(Numeric::Column(name)) => name.clone(),
            FactorKind::Number(_) => self.name.clone(),
            FactorKind::Levels { column, levels, .. } => format!("{column}={}", levels[part]),
            FactorKind::Basis { .. } => format!("{}[{}]", self.name, part + 1),
        }
    }

    fn columns<'a>(&'a self, visit: &mut dyn FnMut(&'a str, bool)) {
        match &self.kind {
            FactorKind::Number(number) => number.columns(&mut |name| visit(name, false)),
            FactorKind::Levels { column, numbers, .. } => visit(column, !numbers),
            FactorKind::Basis { of, .. } => of.columns(&mut |name| visit(name, false)),
        }
    }
}

impl FormulaColumn {
    /// Whether it is an intercept or made of categories alone: such a column is fitted as it is.
    fn is_indicator(&self, factors: &[Factor]) -> bool {
        self.parts.iter().all(|part| factors[part.factor].kind.is_category())
    }
}

impl FormulaEncoding {
    /// Number of fixed coefficients.
    pub fn dim(&self) -> usize {
        self.columns.len()
    }

    /// Names of the fixed coefficients.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// What a fixed column is centred by and divided by for a fit on scaled columns: mean and standard deviation, as
    /// [`crate::design`] scales numbers. An intercept, and products of categories alone, stay as they are; without an intercept nothing
    /// is centred.
    pub fn centre_and_scale(&self, column: usize) -> (f64, f64) {
        let column = &self.columns[column];
        if column.is_indicator(&self.factors) || column.sd <= 0.0 {
            return (0.0, 1.0);
        }
        (if self.intercept { column.mean } else { 0.0 }, column.sd)
    }

    /// The category columns with fixed coefficients, each with its reference level.
    pub fn references(&self) -> BTreeMap<&str, &str> {
        let mut references = BTreeMap::new();
        for factor in &self.factors {
            if let FactorKind::Levels { column, levels, reference, .. } = &factor.kind {
                references.extend(levels.get(*reference).map(|level| (column.as_str(), level.as_str())));
            }
        }
        references
    }

    /// The categories among its factors: column, levels, and the level with which the others are compared. There is none where every level
    /// has a coefficient.
    pub fn categories(&self) -> impl Iterator<Item = (&str, &[String], Option<&String>)> {
        self.factors.iter().enumerate().filter_map(|(factor, about)| {
            let FactorKind::Levels { column, levels, reference, .. } = &about.kind else { return None };
            let used = FactorPart { factor, part: *reference };
            let compared = !self.columns.iter().any(|column| column.parts.contains(&used));
            Some((column.as_str(), &levels[..], levels.get(*reference).filter(|_| compared)))
        })
    }

    /// Whether some column with a coefficient is calculated from this column of the table.
    pub(crate) fn is_factor(&self, name: &str) -> bool {
        let mut found = false;
        self.factors.iter().for_each(|factor| factor.columns(&mut |column, _| found |= column == name));
        found
    }

    /// Every column that is of use for new rows, and its levels if it is categorical. Those of a grouping are only looked up: a new
    /// level is a new group.
    pub(crate) fn wanted(&self) -> HashMap<&str, Option<&[String]>> {
        let mut wanted: HashMap<&str, Option<&[String]>> = HashMap::new();
        self.factors.iter().for_each(|factor| {
            factor.columns(&mut |name, _| {
                wanted.entry(name).or_default();
            });
            if let FactorKind::Levels { column, levels, numbers: false, .. } = &factor.kind {
                wanted.insert(column, Some(levels));
            }
        });
        for grouping in &self.groupings {
            if let GroupingKind::Groups { columns, .. } = &grouping.kind {
                for (name, numbers) in columns {
                    let known = wanted.entry(name).or_default();
                    if !numbers && known.is_none() {
                        *known = Some(&[]);
                    }
                }
            }
        }
        let mut number = |name| {
            wanted.entry(name).or_default();
        };
        self.offsets.iter().for_each(|offset| offset.columns(&mut number));
        self.weights.iter().for_each(|name| number(name));
        if let Some(about) = &self.outcome {
            [&about.trials, &about.event].into_iter().flatten().for_each(|given| given.columns(&mut number));
            match &about.kind {
                OutcomeForm::Number(of) => of.columns(&mut number),
                OutcomeForm::Levels { column, numbers: true, .. } => number(column),
                OutcomeForm::Levels { column, levels, .. } => {
                    wanted.insert(column, Some(levels));
                }
            }
        }
        wanted
    }

    /// The columns that new rows need to be predicted, with their levels if they are categories.
    pub fn needed(&self) -> Vec<(String, Option<Vec<String>>)> {
        let mut needed: BTreeMap<&str, Option<&[String]>> = BTreeMap::new();
        for factor in &self.factors {
            factor.columns(&mut |name, _| {
                needed.entry(name).or_default();
            });
            if let FactorKind::Levels { column, levels, numbers: false, .. } = &factor.kind {
                needed.insert(column, Some(levels));
            }
        }
        for grouping in &self.groupings {
            if let GroupingKind::Groups { columns, .. } = &grouping.kind {
                columns.iter().for_each(|(name, _)| _ = needed.entry(name).or_default());
            }
        }
        let trials = self.outcome.iter().filter_map(|outcome| outcome.trials.as_ref());
        for number in self.offsets.iter().chain(trials) {
            number.columns(&mut |name| {
                needed.entry(name).or_default();
            });
        }
        needed.into_iter().map(|(name, levels)| (name.to_string(), levels.map(<[String]>::to_vec))).collect()
    }

    /// Checks an encoding read from a file.
    pub fn check(&self) -> Result<(), DataError> {
        let bad = |what: &str| {
            let problem = format!("formula `{}`: {what}", shown(self.formula.as_bytes()));
            Err(DataError::BadEncoding { problem })
        };
        let distinct = |levels: &[String]| levels.iter().collect::<HashSet<_>>().len() == levels.len();
        for factor in &self.factors {
            let fine = match &factor.kind {
                FactorKind::Number(number) => number.is_sane(),
                FactorKind::Levels { levels, reference, .. } => distinct(levels) && *reference < levels.len(),
                FactorKind::Basis { of, basis } => of.is_sane() && basis.is_sane(),
            };
            if !fine {
                return bad("a factor has invalid levels or numbers");
            }
        }
        let varying = self.groupings.iter().flat_map(|grouping| &grouping.columns);
        for column in self.columns.iter().chain(varying) {
            let known =
                |part: &FactorPart| self.factors.get(part.factor).is_some_and(|factor| part.part < factor.kind.width());
            if !(column.parts.iter().all(known) && column.mean.is_finite() && column.sd.is_finite() && column.sd >= 0.0)
            {
                return bad("a column has invalid parts or numbers");
            }
        }
        for grouping in &self.groupings {
            if let GroupingKind::Groups { columns, levels, .. } = &grouping.kind
                && (columns.is_empty() || levels.iter().any(|level| level.len() != columns.len()))
            {
                return bad("a grouping has invalid levels");
            }
        }
        if self.intercept && !self.columns.first().is_some_and(|column| column.parts.is_empty()) {
            return bad("the intercept is missing");
        }
        if self.dim() == 0 && self.groupings.is_empty() {
            return bad("it has no coefficient");
        }
        let numbers = self.outcome.iter().flat_map(|about| {
            let outcome = if let OutcomeForm::Number(number) = &about.kind { Some(number) } else { None };
            [outcome, about.trials.as_ref(), about.event.as_ref()].into_iter().flatten()
        });
        if !self.offsets.iter().chain(numbers).all(Numeric::is_sane) {
            return bad("the outcome or an offset has invalid numbers");
        }
        Ok(())
    }
}

impl GroupingEncoding {
    /// Names of the groups.
    pub fn level_names(&self) -> Vec<String> {
        match &self.kind {
            GroupingKind::Groups { levels, .. } => levels.iter().map(|level| level.join(":")).collect(),
            GroupingKind::Smooth => vec![self.name.clone()],
        }
    }
}
