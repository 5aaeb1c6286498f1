//! From a formula and a table to the design of a regression.

use super::alias::combinations;
use super::bind::Binder;
use super::encode::FormulaRows;
use super::encoding::{
    Factor, FactorKind, FactorPart, FormulaColumn, FormulaEncoding, GroupingEncoding, GroupingKind, OutcomeEncoding,
    OutcomeForm,
};
use super::error::{FormulaError, FormulaProblem, Span};
use super::levels::{Labels, labels};
use super::rank::{MOST_CATEGORIES, products};
use super::syntax::{Expr, Node};
use super::terms::{Term, VaryingTerm, columns, expand, special_columns};
use super::{Formula, response};
use crate::design::INTERCEPT;
use crate::error::{DataError, Names, shown};
use crate::table::moments::{ColumnMoments, Summary};
use crate::table::{Origin, Table};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Most coefficients, fixed or for each group.
const MOST_COLUMNS: usize = 20_000;

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
    /// 1 where the event was seen and 0 where the row is censored, for `time | event(e)`.
    pub event: Option<Vec<f64>>,
    /// How often each row counts.
    pub weights: Option<Vec<f64>>,
    /// Means and standard deviations of the columns, and what new rows need; to be stored with the posterior.
    pub encoding: FormulaEncoding,
    /// Columns that were left out, and why.
    pub dropped: Vec<DroppedColumn>,
    /// Warnings about the formula and the columns.
    pub warnings: Vec<String>,
}

/// Coefficients that vary: in row i, `sum_j z[i * q + j] u[index[i] * q + j]` is added to the linear predictor, with q columns and
/// coefficients u, one set for each group.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Grouping {
    /// What the formula calls it: `g`, `a:b` or `s(x)`.
    pub name: String,
    /// Names of the groups.
    pub levels: Vec<String>,
    /// Index of the group of each row.
    pub index: Vec<u32>,
    /// Names of the columns; the intercept is `(intercept)`.
    pub columns: Vec<String>,
    /// The columns as they are in the table, by row: row i is `z[i * columns.len()..(i + 1) * columns.len()]`.
    pub z: Vec<f64>,
    /// How the coefficients of one group are distributed.
    pub coefficients: GroupCoefficients,
}

/// How the coefficients of one group are distributed: normal with mean 0, independent of those of other groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupCoefficients {
    /// A standard deviation for each column, and correlations: `(1 + x | g)`.
    Correlated,
    /// A standard deviation for each column, no correlations: `(1 + x || g)`.
    Independent,
    /// One standard deviation for all columns: `s(x)`.
    Shared,
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
        check_options(table, options, &encoding)?;
        let mut rows = encoding.encode(table)?;
        let dropped = encoding.measure(&rows);
        if !dropped.is_empty() {
            rows = encoding.encode(table)?;
        }
        if encoding.dim() == 0 && encoding.groupings.is_empty() {
            return Err(FormulaProblem::NoTerms.at(formula.terms.span).within(formula.text()));
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
                index: rows.index.into_iter().flatten().collect(),
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

/// What the formula says about the columns of the table; means and standard deviations are still 0.
fn plan(
    formula: &Formula,
    table: &Table,
    options: &FormulaOptions,
) -> Result<(FormulaEncoding, Vec<String>), FormulaError> {
    let binder = Binder { table, formula: formula.text(), references: &options.references };
    let terms = expand(&formula.terms, &others(formula, table, options)).map_err(|fault| binder.located(fault))?;
    let outcome = match &formula.response {
        Some(response) => Some(response::outcome(&binder, response, formula.addition.as_ref())?),
        None => None,
    };
    if let Some(expr) = outcome.as_ref().and_then(|outcome| explains_itself(outcome, &terms.factors)) {
        return Err(binder.located(FormulaProblem::OutcomeExplains(expr.to_string()).at(expr.span)));
    }
    // Factors of terms that were removed are not calculated.
    let effects = terms.varying.iter().flat_map(|varying| &varying.effects);
    let used: HashSet<usize> = effects.chain(&terms.fixed).flatten().copied().collect();
    let mut place = vec![0; terms.factors.len()];
    let mut factors: Vec<Factor> = Vec::new();
    for (at, expr) in terms.factors.iter().enumerate().filter(|(at, _)| used.contains(at)) {
        place[at] = factors.len();
        factors.push(Factor { name: expr.to_string(), kind: binder.factor(expr)? });
    }
    let columns = |terms: &[Term], span: Span| -> Result<Vec<FormulaColumn>, FormulaError> {
        let terms: Vec<Term> = terms.iter().map(|term| term.iter().map(|factor| place[*factor]).collect()).collect();
        columns_of(&terms, &factors).map_err(|problem| binder.located(problem.at(span)))
    };
    let fixed = columns(&terms.fixed, formula.terms.span)?;
    let mut groupings = Vec::new();
    for VaryingTerm { effects, group, correlated, span } in &terms.varying {
        let grouping = grouping(&binder, group, columns(effects, *span)?, *correlated)?;
        groupings.push((grouping, *span));
    }
    for smooth in &terms.smooths {
        let (name, kind) = (smooth.to_string(), binder.smooth(smooth)?);
        factors.push(Factor { name: name.clone(), kind });
        let factor = factors.len() - 1;
        let columns = (0..factors[factor].kind.width()).map(|part| column(&[(factor, part)], &factors)).collect();
        groupings.push((GroupingEncoding { name, kind: GroupingKind::Smooth, columns }, smooth.span));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = fixed.iter().find(|column| !seen.insert(&column.name)) {
        return Err(binder.located(FormulaProblem::SameName(twice.name.clone()).at(formula.terms.span)));
    }
    let mut seen = HashSet::new();
    for (grouping, span) in &groupings {
        if let Some(twice) = grouping.columns.iter().find(|column| !seen.insert((&grouping.name, &column.name))) {
            let (effect, group) = (twice.name.clone(), grouping.name.clone());
            return Err(binder.located(FormulaProblem::VariesTwice { effect, group }.at(*span)));
        }
    }
    let offsets = terms.offsets.iter().map(|expr| binder.number(expr, "offset")).collect::<Result<_, _>>()?;
    let encoding = FormulaEncoding {
        formula: formula.to_string(),
        intercept: fixed.first().is_some_and(|column| column.parts.is_empty()),
        factors,
        columns: fixed,
        groupings: groupings.into_iter().map(|(grouping, _)| grouping).collect(),
        offsets,
        outcome,
        weights: options.weights.clone(),
    };
    Ok((encoding, terms.warnings))
}

/// The columns that `.` stands for: those without another role.
fn others(formula: &Formula, table: &Table, options: &FormulaOptions) -> Vec<String> {
    let mut special = HashSet::new();
    [&formula.response, &formula.addition].into_iter().flatten().for_each(|part| columns(part, &mut special));
    special_columns(&formula.terms, &mut special);
    special.extend(options.weights.as_deref());
    table.names.iter().filter(|name| !special.contains(name.as_str())).cloned().collect()
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

/// The factor that is the outcome itself.
fn explains_itself<'a>(outcome: &OutcomeEncoding, factors: &'a [Expr]) -> Option<&'a Expr> {
    let name = match &outcome.kind {
        OutcomeForm::Levels { column, .. } => column,
        OutcomeForm::Number(_) => &outcome.name,
    };
    factors.iter().find(|expr| match &expr.node {
        Node::Column(column) => column == name,
        _ => expr.to_string() == *name,
    })
}

/// The columns of some terms.
fn columns_of(terms: &[Term], factors: &[Factor]) -> Result<Vec<FormulaColumn>, FormulaProblem> {
    let is_category = |factor: usize| matches!(factors[factor].kind, FactorKind::Levels { .. });
    if terms.iter().any(|term| term.iter().filter(|factor| is_category(**factor)).count() > MOST_CATEGORIES) {
        return Err(FormulaProblem::TooManyCategories { most: MOST_CATEGORIES });
    }
    let mut columns = Vec::new();
    for product in products(terms, is_category).iter().flatten() {
        let parts: Vec<Vec<usize>> = product
            .iter()
            .map(|ranked| match &factors[ranked.factor].kind {
                FactorKind::Levels { levels, reference, .. } if ranked.reduced => {
                    (0..levels.len()).filter(|level| level != reference).collect()
                }
                kind => (0..kind.width()).collect(),
            })
            .collect();
        let count = parts.iter().fold(columns.len().max(1), |count, parts| count.saturating_mul(parts.len().max(1)));
        if count.max(columns.len()) > MOST_COLUMNS {
            return Err(FormulaProblem::TooManyColumns { columns: count, most: MOST_COLUMNS });
        }
        // The first factor varies fastest.
        let total: usize = parts.iter().map(Vec::len).product();
        for mut at in 0..total {
            let pick = |(ranked, parts): (&super::rank::Ranked, &Vec<usize>)| {
                let part = parts[at % parts.len()];
                at /= parts.len();
                (ranked.factor, part)
            };
            columns.push(column(&product.iter().zip(&parts).map(pick).collect::<Vec<_>>(), factors));
        }
    }
    Ok(columns)
}

/// The product of some parts of factors.
fn column(parts: &[(usize, usize)], factors: &[Factor]) -> FormulaColumn {
    let names: Vec<String> = parts.iter().map(|(factor, part)| factors[*factor].part_name(*part)).collect();
    let name = if names.is_empty() { INTERCEPT.to_string() } else { names.join(":") };
    let parts = parts.iter().map(|(factor, part)| FactorPart { factor: *factor, part: *part }).collect();
    FormulaColumn { name, parts, mean: 0.0, sd: 0.0 }
}

/// The groups that combinations of some columns make.
fn grouping(
    binder: &Binder,
    group: &[(String, Span)],
    columns: Vec<FormulaColumn>,
    correlated: bool,
) -> Result<GroupingEncoding, FormulaError> {
    let mut found = Vec::new();
    for (name, span) in group {
        let at = binder.position(&Expr { node: Node::Column(name.clone()), span: *span }, name)?;
        found.push(labels(binder.table, at)?);
    }
    let combination = |row: usize| found.iter().map(|labels| labels.rows[row]).collect::<Vec<u32>>();
    let combinations: BTreeSet<Vec<u32>> = (0..binder.table.rows).map(combination).collect();
    let level = |(labels, level): (&Labels, &u32)| labels.labels[*level as usize].clone();
    let levels = combinations.iter().map(|combination| found.iter().zip(combination).map(level).collect()).collect();
    let about = group.iter().zip(&found).map(|((name, _), labels)| (name.clone(), labels.numbers)).collect();
    let names: Vec<&str> = group.iter().map(|(name, _)| name.as_str()).collect();
    let kind = GroupingKind::Groups { columns: about, levels, correlated };
    Ok(GroupingEncoding { name: names.join(":"), kind, columns })
}

impl FormulaEncoding {
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
