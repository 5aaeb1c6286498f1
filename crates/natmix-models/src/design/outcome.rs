//! Whether an outcome is what a model explains.

use super::encoding::Outcome;
use crate::error::DataError;
use crate::table::Origin;

/// Most classes that are numbered; more are measurements taken for classes.
const MOST_CLASSES: usize = 10_000;

/// What a model explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    /// Yes or no: 0 and 1, or two levels.
    Logistic,
    /// Any number.
    Linear,
    /// Counts: 0, 1, 2, ...
    Poisson,
    /// Classes: 0 to C - 1, or levels.
    Softmax,
}

/// Checks that `outcome` is what a model of this kind explains, and that it varies; gives the number of classes, 1 for numbers.
///
/// `about` says what column it is and whether it has levels; `origin` where the values came from, for messages.
///
/// ```
/// use natmix_models::design::{Outcome, OutcomeKind, check_outcome};
/// use natmix_models::table::Origin;
/// let about = Outcome { column: "sick".into(), levels: None, centre: 0.0, scale: 1.0 };
/// let check = |kind, values: &[f64]| check_outcome(kind, values, &about, &Origin::label("a.csv"));
/// assert_eq!(check(OutcomeKind::Softmax, &[0.0, 2.0, 1.0]).unwrap(), 3);
/// let message = check(OutcomeKind::Poisson, &[4.0, -1.0]).unwrap_err().to_string();
/// assert_eq!(message, "a.csv: row 2, column `sick`: -1 is no count, as a Poisson regression needs (0, 1, 2, ...)");
/// ```
pub fn check_outcome(kind: OutcomeKind, outcome: &[f64], about: &Outcome, origin: &Origin) -> Result<usize, DataError> {
    let (column, file) = (&about.column, &origin.file);
    let whole_column = |problem| Err(DataError::BadColumn { file: file.clone(), column: column.clone(), problem });
    let value_at = |row: usize, problem: String| {
        let (place, value) = (origin.place(row), outcome[row]);
        Err(DataError::BadValue { file: file.clone(), place, column: column.clone(), value, problem })
    };
    let first = |bad: &dyn Fn(f64) -> bool| outcome.iter().position(|value| bad(*value));
    let is_count = |value: f64| value >= 0.0 && value.fract() == 0.0;
    let Some(start) = outcome.first() else {
        return whole_column("has no values, so there is nothing to explain".into());
    };
    if let Some(row) = first(&|value| !value.is_finite()) {
        return value_at(row, "is not finite".into());
    }
    let constant = outcome.iter().all(|value| value == start);
    if constant && (outcome.len() > 1 || matches!(kind, OutcomeKind::Logistic | OutcomeKind::Softmax)) {
        let shown = match &about.levels {
            Some(levels) => levels.get(*start as usize).map_or_else(|| start.to_string(), |level| format!("`{level}`")),
            None => (about.centre + about.scale * start).to_string(),
        };
        return whole_column(format!("is always {shown}: an outcome that never varies cannot be explained"));
    }
    if let (Some(levels), OutcomeKind::Linear | OutcomeKind::Poisson) = (&about.levels, kind) {
        let model = if kind == OutcomeKind::Linear { "linear" } else { "poisson" };
        let problem =
            format!("has {} levels, but a {model} model needs numbers (try logistic or softmax)", levels.len());
        return whole_column(problem);
    }
    let classes_hint = format!("(use --categorical {column} if its values are names of classes)");
    match kind {
        OutcomeKind::Linear => Ok(1),
        OutcomeKind::Poisson => match first(&|value| !is_count(value)) {
            Some(row) => value_at(row, "is no count, as a Poisson regression needs (0, 1, 2, ...)".into()),
            None => Ok(1),
        },
        OutcomeKind::Logistic => match (&about.levels, first(&|value| value != 0.0 && value != 1.0)) {
            (Some(levels), _) if levels.len() != 2 => {
                whole_column(format!("has {} levels, but a logistic model needs two (try softmax)", levels.len()))
            }
            (_, Some(row)) => value_at(row, format!("is neither 0 nor 1, as a logistic model needs {classes_hint}")),
            (_, None) => Ok(2),
        },
        OutcomeKind::Softmax => {
            if let Some(row) = first(&|value| !is_count(value) || value >= MOST_CLASSES as f64) {
                return value_at(
                    row,
                    format!("is no class number, as a softmax model needs (0, 1, 2, ...) {classes_hint}"),
                );
            }
            if let Some(levels) = &about.levels {
                return Ok(levels.len());
            }
            let mut seen = vec![false; outcome.iter().fold(0, |most, value| most.max(*value as usize)) + 1];
            outcome.iter().for_each(|value| seen[*value as usize] = true);
            match seen.iter().position(|seen| !seen) {
                Some(class) => {
                    whole_column(format!("has classes up to {}, but none is {class} {classes_hint}", seen.len() - 1))
                }
                None => Ok(seen.len()),
            }
        }
    }
}
