//! What a formula says about the columns of a table: which factors there are, and which products of them are columns.

use super::bind::Binder;
use super::design::FormulaOptions;
use super::encoding::{
    Factor, FactorKind, FactorPart, FormulaColumn, FormulaEncoding, GroupingEncoding, GroupingKind, OutcomeEncoding,
};
use super::error::{FormulaError, FormulaProblem, Span};
use super::levels::{Labels, labels};
use super::rank::{MOST_CATEGORIES, Ranked, products};
use super::syntax::{Expr, Node};
use super::terms::{Term, VaryingTerm, columns, expand, special_columns};
use super::{Formula, response};
use crate::design::INTERCEPT;
use crate::table::Table;
use std::collections::{BTreeSet, HashSet};

/// Most coefficients, fixed or for each group.
const MOST_COLUMNS: usize = 20_000;

/// What the formula says about the columns of the table; means and standard deviations are still 0.
pub(super) fn plan(
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

/// The factor that is the outcome itself.
fn explains_itself<'a>(outcome: &OutcomeEncoding, factors: &'a [Expr]) -> Option<&'a Expr> {
    let name = outcome.column();
    factors.iter().find(|expr| match &expr.node {
        Node::Column(column) => column == name,
        _ => expr.to_string() == name,
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
            let pick = |(ranked, parts): (&Ranked, &Vec<usize>)| {
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
