//! The left side of a formula: the outcome, with trials or events.

use super::bind::Binder;
use super::encoding::{OutcomeEncoding, OutcomeForm};
use super::error::{FormulaError, FormulaProblem};
use super::levels::{Labels, labels};
use super::numeric::Numeric;
use super::syntax::{Expr, Node};

pub(super) fn outcome(
    binder: &Binder,
    response: &Expr,
    addition: Option<&Expr>,
) -> Result<OutcomeEncoding, FormulaError> {
    let mut about =
        OutcomeEncoding { name: response.to_string(), kind: form(binder, response)?, trials: None, event: None };
    if let Node::Column(name) = &response.node {
        about.name = name.clone();
    }
    let Some(addition) = addition else { return Ok(about) };
    let misplaced = || Err(binder.located(FormulaProblem::Addition.at(addition.span)));
    let Node::Call { function, arguments } = &addition.node else { return misplaced() };
    let number = || -> Result<Option<Numeric>, FormulaError> {
        let given = binder.arguments(addition, function, arguments, &["x"])?;
        given[0].map(|given| binder.number(given, function)).transpose()
    };
    match function.as_str() {
        "trials" => about.trials = number()?,
        "event" => about.event = number()?,
        "weights" => {
            let problem = FormulaProblem::arguments(
                "weights",
                "is not a part of formulas (name the column of weights beside it)",
            );
            return Err(binder.located(problem.at(addition.span)));
        }
        "cens" => {
            let problem = "is written event(e), where e is 1 if the event was seen and 0 if the row is censored";
            return Err(binder.located(FormulaProblem::arguments("cens", problem).at(addition.span)));
        }
        _ => return misplaced(),
    }
    Ok(about)
}

fn form(binder: &Binder, response: &Expr) -> Result<OutcomeForm, FormulaError> {
    let column = match &response.node {
        Node::Column(name) => Some(name),
        Node::Call { function, arguments } if function == "factor" || function == "C" => {
            match binder.arguments(response, function, arguments, &["x"])?[0] {
                Some(Expr { node: Node::Column(name), .. }) => Some(name),
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(name) = column {
        let at = binder.position(response, name)?;
        if binder.table.levels.contains_key(&at) || !matches!(response.node, Node::Column(_)) {
            let Labels { labels: levels, numbers, .. } = labels(binder.table, at)?;
            return Ok(OutcomeForm::Levels { column: name.clone(), numbers, levels });
        }
    }
    Ok(OutcomeForm::Number(binder.number(response, "the outcome")?))
}
