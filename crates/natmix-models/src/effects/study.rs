//! A table with a formula and a family: the regression as the command line and Python fit it.
//!
//! ```
//! use natmix::target::Target;
//! use natmix_models::effects::{EffectsOptions, EffectsStudy, Family};
//! use natmix_models::{Formula, Table};
//! let names = ["deaths", "clinic"].map(String::from).to_vec();
//! let mut table = Table::from_values("memory", names, vec![0.0, 0.0, 2.0, 1.0, 1.0, 1.0]).unwrap();
//! table.levels.insert(1, vec!["a".into(), "b".into()]);
//! let formula = Formula::parse("deaths ~ 1 + (1 | clinic)").unwrap();
//! let study = EffectsStudy::new(table, &formula, Family::Poisson, &EffectsOptions::default()).unwrap();
//! assert_eq!(study.model.parameter_names()[1], "sd(clinic, (intercept))");
//! ```

use super::data::EffectsData;
use super::family::Family;
use super::layout::EffectsLayout;
use super::model::EffectsModel;
use super::rows::EffectsRows;
use super::statements::PriorStatement;
use crate::conditional::TypicalRow;
use crate::design::OutcomeColumn;
use crate::error::{DataError, shown};
use crate::formula::{Formula, FormulaDesign, FormulaEncoding, FormulaOptions, FormulaProblem};
use crate::ranks::Ranks;
use crate::regression::RegressionKind;
use crate::study::StudyError;
use crate::table::{MissingRows, Table, TableFacts};
use natmix::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// What stands beside formula and family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffectsOptions {
    /// What stands beside any formula.
    pub formula: FormulaOptions,
    /// Priors that differ from the defaults.
    pub priors: Vec<PriorStatement>,
    /// Categories of an ordinal outcome, from the lowest to the highest.
    pub categories: Option<Vec<String>>,
}

/// A regression with its data.
#[derive(Clone, Debug)]
pub struct EffectsStudy {
    /// The target of the fit.
    pub model: EffectsModel,
    /// What must be stored with the posterior.
    pub memory: EffectsMemory,
    /// The rows in the units of the data.
    pub rows: EffectsRows,
    /// The columns with their typical values.
    pub(super) typical: TypicalRow,
    /// Warnings about the data.
    pub warnings: Vec<String>,
    /// What was found while the table was read, and what the outcome's levels mean.
    pub notes: Vec<String>,
    /// What was found while the table was read.
    pub facts: TableFacts,
}

/// What must be stored with a posterior for its parameters and for predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectsMemory {
    /// What the coordinates stand for.
    pub layout: EffectsLayout,
    /// How columns of a table become those of the regression.
    pub encoding: FormulaEncoding,
}

impl EffectsMemory {
    /// Reads rows from a file, and says what was found in it.
    pub fn read(&self, path: &Path, missing: MissingRows) -> Result<(EffectsRows, TableFacts), StudyError> {
        self.encoding.check()?;
        let (table, ignored) = Table::read_columns(path, &self.encoding.wanted(), missing)?;
        let mut rows = self.encode(&table)?;
        rows.ignored = ignored;
        Ok((rows, table.facts))
    }

    /// Encodes rows of a table in memory.
    pub fn encode(&self, table: &Table) -> Result<EffectsRows, StudyError> {
        Ok(EffectsRows::of_formula(self.encoding.encode(table)?, &self.encoding, &self.layout)?)
    }

    /// Name of the outcome, as the formula writes it.
    pub fn outcome(&self) -> &str {
        self.encoding.outcome.as_ref().map_or("", |outcome| outcome.column())
    }

    /// Names of the outcome's categories, if it has any.
    pub fn levels(&self) -> Option<&[String]> {
        self.encoding.outcome.as_ref().and_then(|outcome| outcome.levels())
    }

    /// Whether a memory that was read from a file can be used.
    pub fn is_sound(&self) -> bool {
        self.layout.is_sound() && self.encoding.check().is_ok()
    }
}

impl EffectsStudy {
    /// Prepares the regression of the formula's outcome. The number of categories of the ordinal family is that of the outcome.
    pub fn new(
        mut table: Table,
        formula: &Formula,
        family: Family,
        options: &EffectsOptions,
    ) -> Result<Self, StudyError> {
        let ordinal = matches!(family, Family::Ordinal { .. });
        if let (false, Some(_)) = (ordinal, &options.categories) {
            let problem = format!("a {} outcome has no ordered categories (use ordinal)", family.name());
            return Err(Error::InvalidInput(problem).into());
        }
        let ordered = if ordinal { order(&mut table, formula, options)? } else { None };
        let formula = ordered.as_ref().unwrap_or(formula);
        let design = FormulaDesign::new(formula, &table, &options.formula)?;
        let refuse = |problem: FormulaProblem| StudyError::from(problem.in_terms(formula));
        let Some(about) = &design.encoding.outcome else { return Err(refuse(FormulaProblem::NoOutcome)) };
        let misplaced =
            about.trials.is_some() && family != Family::Binomial || about.event.is_some() && family != Family::Survival;
        if misplaced {
            return Err(refuse(FormulaProblem::OtherModel));
        }
        let outcome = OutcomeColumn {
            column: about.column().to_owned(),
            levels: about.levels().map(<[String]>::to_vec),
            centre: 0.0,
            scale: 1.0,
        };
        let family = with_categories(family, &outcome, &table)?;
        let facts = table.facts.clone();
        let FormulaDesign { names, x, groupings, offset, outcome: y, trials, event, weights, .. } = design;
        let data = EffectsData { y, trials, event, names, x, groupings, offset, weights };
        check_outcome(family, &data, &outcome, &table)?;
        let rows = EffectsRows::of_fit(&data, family);
        let model = EffectsModel::new(family, data, &options.priors)?;
        let mut warnings = design.warnings;
        let dropped = design.dropped.iter();
        warnings.extend(dropped.map(|column| format!("column `{}` {}: it is left out", column.name, column.reason)));
        let mut notes = facts.notes(Some(&outcome.column));
        notes.extend(match family {
            Family::Logistic => outcome.classes_in_words(RegressionKind::Logistic),
            Family::Ordinal { .. } => outcome.levels.as_ref().map(|levels| {
                let column = shown(outcome.column.as_bytes());
                format!("outcome `{column}`, from the lowest category: {}", levels.join(" < "))
            }),
            _ => None,
        });
        let memory = EffectsMemory { layout: model.layout(), encoding: design.encoding };
        let typical = TypicalRow::of_formula(&table, &memory.encoding);
        Ok(Self { model, memory, rows, typical, warnings, notes, facts })
    }
}

impl EffectsStudy {
    /// From here on processes share the rows, of which each has read all: they must have agreed that all have read the same. Rank 0 keeps all
    /// rows in the units of the data, by which the fit is judged.
    pub fn share(&mut self, ranks: &Arc<Ranks>) {
        self.model.share(ranks.clone());
        if !ranks.leads() {
            self.rows = EffectsRows::default();
        }
    }
}

/// Puts the categories of an ordinal outcome in order. Numbers become categories by a formula that says so.
fn order(table: &mut Table, formula: &Formula, options: &EffectsOptions) -> Result<Option<Formula>, StudyError> {
    let Some(crate::formula::syntax::Node::Column(name)) = formula.response().map(|response| &response.node) else {
        return Ok(None);
    };
    let Some(at) = table.position(name) else { return Ok(None) };
    let bad = |problem: String| {
        StudyError::from(DataError::BadColumn { file: table.origin.file.clone(), column: name.clone(), problem })
    };
    let Some(levels) = table.levels.get(&at) else {
        if options.categories.is_some() {
            return Err(bad("holds numbers, which have an order of their own (leave out --levels)".into()));
        }
        return Ok(Some(formula.with_ordered_outcome()));
    };
    let listed = || levels.iter().take(20).map(|level| shown(level.as_bytes())).collect::<Vec<_>>().join(", ");
    let Some(wanted) = &options.categories else {
        if levels.len() < 3 || levels.iter().all(|level| level.trim().parse::<f64>().is_ok()) {
            return Ok(None);
        }
        let problem = format!(
            "holds text, whose order is not known: name its categories from the lowest to the highest, --levels {}",
            levels.iter().map(|level| shown(level.as_bytes())).collect::<Vec<_>>().join(",")
        );
        return Err(bad(problem));
    };
    if let Some(missing) = levels.iter().find(|level| !wanted.contains(level)) {
        return Err(bad(format!("has a category `{}`, which --levels does not name", shown(missing.as_bytes()))));
    }
    if let Some(unknown) = wanted.iter().find(|level| !levels.contains(level)) {
        return Err(bad(format!("has no category `{}` (it has {})", shown(unknown.as_bytes()), listed())));
    }
    if wanted.len() != levels.len() {
        return Err(bad("has a category that --levels names twice".into()));
    }
    let place: Vec<f64> =
        levels.iter().map(|level| wanted.iter().position(|other| other == level).unwrap_or(0) as f64).collect();
    let width = table.names.len();
    table.values.iter_mut().skip(at).step_by(width).for_each(|value| *value = place[*value as usize]);
    table.levels.insert(at, wanted.clone());
    Ok(None)
}

/// The family with as many categories as the outcome has.
fn with_categories(family: Family, outcome: &OutcomeColumn, table: &Table) -> Result<Family, DataError> {
    let bad = |problem: String| {
        Err(DataError::BadColumn { file: table.origin.file.clone(), column: outcome.column.clone(), problem })
    };
    let name = family.name();
    match (family, outcome.levels.as_ref().map(Vec::len)) {
        (Family::Ordinal { .. }, Some(1)) => bad("has only one category: there is nothing to explain".into()),
        (Family::Ordinal { .. }, Some(categories)) => Ok(Family::Ordinal { categories }),
        (Family::Ordinal { .. }, None) => bad("is calculated, but an ordinal outcome must be a column".into()),
        (Family::Logistic, Some(2)) | (_, None) => Ok(family),
        (Family::Logistic, Some(count)) => bad(format!("has {count} levels, but a {name} model needs two")),
        (_, Some(count)) => bad(format!("has {count} levels, but a {name} model needs numbers")),
    }
}

/// Refuses outcomes that do not suit the family or never vary.
fn check_outcome(family: Family, data: &EffectsData, outcome: &OutcomeColumn, table: &Table) -> Result<(), StudyError> {
    let (file, column) = (table.origin.file.clone(), outcome.column.clone());
    if family == Family::Binomial && data.trials.is_none() {
        let problem = "needs the number of trials of each row (write y | trials(n) ~ ... or give --trials)".into();
        return Err(DataError::BadColumn { file, column, problem }.into());
    }
    if let Some((row, wanted)) = family.misfit(data) {
        let (place, value) = (table.origin.place(row), data.y[row]);
        let problem = format!("is not {wanted}, as a {} model needs", family.name());
        return Err(DataError::BadValue { file, place, column, value, problem }.into());
    }
    let varies = data.y.iter().any(|y| *y != data.y[0]);
    if !varies && !matches!(family, Family::Binomial | Family::Survival) {
        let problem = format!("is always {}: an outcome that never varies cannot be explained", data.y[0]);
        return Err(DataError::BadColumn { file, column, problem }.into());
    }
    Ok(())
}
