//! Checks whether an outcome suits a model.

use super::encoding::OutcomeColumn;
use crate::error::{DataError, Place};
use crate::table::Origin;

/// Most classes that may be given as numbers: beyond this the values are measurements, not classes.
const MOST_CLASSES: usize = 10_000;

/// The kind of outcome that a model explains.
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

/// Checks that `outcome` suits a model of this kind, and that it varies; returns the number of classes, 1 for numbers.
///
/// `about` describes the column and its levels; `origin` says where the values came from, for messages.
///
/// ```
/// use natmix_models::design::{OutcomeColumn, OutcomeKind, check_outcome};
/// use natmix_models::table::Origin;
/// let about = OutcomeColumn { column: "sick".into(), levels: None, centre: 0.0, scale: 1.0 };
/// let check = |kind, values: &[f64]| check_outcome(kind, values, &about, &Origin::label("a.csv"));
/// assert_eq!(check(OutcomeKind::Softmax, &[0.0, 2.0, 1.0]).unwrap(), 3);
/// let message = check(OutcomeKind::Poisson, &[4.0, -1.0]).unwrap_err().to_string();
/// assert_eq!(message, "a.csv: row 2, column `sick`: -1 is not a count, as a Poisson regression needs (0, 1, 2, ...)");
/// ```
pub fn check_outcome(
    kind: OutcomeKind,
    outcome: &[f64],
    about: &OutcomeColumn,
    origin: &Origin,
) -> Result<usize, DataError> {
    let mut check = OutcomeCheck::new(kind, about);
    check.add(outcome, origin);
    check.finish(origin)
}

/// [`check_outcome`] for values that arrive in blocks.
pub(crate) struct OutcomeCheck<'a> {
    kind: OutcomeKind,
    about: &'a OutcomeColumn,
    rows: usize,
    first: f64,
    varies: bool,
    /// The first value that is not finite, and the first that does not suit the model.
    not_finite: Option<(Place, f64)>,
    misfit: Option<(Place, f64)>,
    /// Which classes occur.
    seen: Vec<bool>,
}

impl<'a> OutcomeCheck<'a> {
    pub fn new(kind: OutcomeKind, about: &'a OutcomeColumn) -> Self {
        let (rows, first, varies, not_finite, misfit) = (0, f64::NAN, false, None, None);
        OutcomeCheck { kind, about, rows, first, varies, not_finite, misfit, seen: Vec::new() }
    }

    /// Adds some values; `origin` says where the first of them is.
    pub fn add(&mut self, outcome: &[f64], origin: &Origin) {
        if let (0, Some(first)) = (self.rows, outcome.first()) {
            self.first = *first;
        }
        self.rows += outcome.len();
        for (row, &value) in outcome.iter().enumerate() {
            self.varies |= value != self.first;
            let is_count = value >= 0.0 && value.fract() == 0.0;
            let fits = match self.kind {
                OutcomeKind::Linear => true,
                OutcomeKind::Poisson => is_count,
                OutcomeKind::Logistic => value == 0.0 || value == 1.0,
                OutcomeKind::Softmax => is_count && value < MOST_CLASSES as f64,
            };
            let slot = match (value.is_finite(), fits) {
                (false, _) => &mut self.not_finite,
                (true, false) => &mut self.misfit,
                (true, true) => {
                    if self.kind == OutcomeKind::Softmax {
                        let class = value as usize;
                        self.seen.resize(self.seen.len().max(class + 1), false);
                        self.seen[class] = true;
                    }
                    continue;
                }
            };
            slot.get_or_insert_with(|| (origin.place(row), value));
        }
    }

    /// The number of classes, 1 for numbers; `origin` names the file.
    pub fn finish(self, origin: &Origin) -> Result<usize, DataError> {
        let OutcomeCheck { kind, about, rows, first, varies, not_finite, misfit, seen } = self;
        let (column, file) = (&about.column, &origin.file);
        let whole_column = |problem| Err(DataError::BadColumn { file: file.clone(), column: column.clone(), problem });
        let value_at = |(place, value): (Place, f64), problem: String| {
            Err(DataError::BadValue { file: file.clone(), place, column: column.clone(), value, problem })
        };
        if rows == 0 {
            return whole_column("has no values, so there is nothing to explain".into());
        }
        if let Some(found) = not_finite {
            return value_at(found, "is not finite".into());
        }
        if !varies && (rows > 1 || matches!(kind, OutcomeKind::Logistic | OutcomeKind::Softmax)) {
            let shown = match &about.levels {
                Some(levels) => {
                    levels.get(first as usize).map_or_else(|| first.to_string(), |level| format!("`{level}`"))
                }
                None => (about.centre + about.scale * first).to_string(),
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
        match (kind, &about.levels, misfit) {
            (OutcomeKind::Logistic, Some(levels), _) if levels.len() != 2 => {
                whole_column(format!("has {} levels, but a logistic model needs two (try softmax)", levels.len()))
            }
            (OutcomeKind::Logistic, _, Some(found)) => {
                value_at(found, format!("is neither 0 nor 1, as a logistic model needs {classes_hint}"))
            }
            (OutcomeKind::Poisson, _, Some(found)) => {
                value_at(found, "is not a count, as a Poisson regression needs (0, 1, 2, ...)".into())
            }
            (OutcomeKind::Softmax, _, Some(found)) => value_at(
                found,
                format!("is not a class number, as a softmax model needs (0, 1, 2, ...) {classes_hint}"),
            ),
            (OutcomeKind::Linear | OutcomeKind::Poisson, _, _) => Ok(1),
            (OutcomeKind::Logistic, _, None) => Ok(2),
            (OutcomeKind::Softmax, Some(levels), None) => Ok(levels.len()),
            (OutcomeKind::Softmax, None, None) => match seen.iter().position(|seen| !seen) {
                Some(class) => {
                    whole_column(format!("has classes up to {}, but none is {class} {classes_hint}", seen.len() - 1))
                }
                None => Ok(seen.len()),
            },
        }
    }
}
