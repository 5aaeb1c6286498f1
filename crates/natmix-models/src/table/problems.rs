//! What is wrong with a field, and the error that says so.

use super::dialect::Dialect;
use super::numeral::{Decimal, NotNumeral};
use super::rows::{ColumnKind, TableColumn};
use super::unusual;
use crate::error::{DataError, Names, Place};
use std::path::Path;

/// What is wrong with a field, before it becomes a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldProblem {
    /// There are too many or too few fields.
    Ragged,
    NotNumeral(NotNumeral),
    /// A number in a column whose first values are text.
    NumberInText,
    Infinite,
    UnknownLevel,
    TooManyLevels(usize),
    /// A column without a name holds something.
    Unnamed,
}

/// A field as it is shown, and what is known about how its file is written.
pub(super) struct FieldText<'a> {
    pub value: &'a str,
    pub dialect: Dialect,
    pub decimal: Decimal,
}

impl FieldProblem {
    pub fn to_error(self, file: &Path, place: Place, column: &TableColumn, field: FieldText<'_>) -> DataError {
        let (file, name, value) = (file.to_path_buf(), column.name.clone(), field.value.to_owned());
        let advice = |problem: String| DataError::NotPlain {
            file: file.clone(),
            place,
            column: name.clone(),
            value: value.clone(),
            problem: problem.into(),
        };
        match self {
            FieldProblem::NumberInText => {
                let since = match &column.kind {
                    ColumnKind::Category(levels) => levels.text_since().zip(levels.names.first()),
                    _ => None,
                };
                let (row, text) = since.map_or((1, ""), |(place, text)| (place.row, text.as_str()));
                let text = crate::error::shown(text.as_bytes());
                advice(format!(
                    "is a number, but `{text}` in row {row} is text (correct one of them, or use --categorical {name} if the \
                     column holds categories)"
                ))
            }
            FieldProblem::NotNumeral(NotNumeral::Ambiguous) => advice(format!(
                "may be one and a fraction, or thousands: {} (write it without the mark, or with more decimals)",
                match field.decimal {
                    Decimal::Comma => "other decimals have commas",
                    Decimal::Point if field.dialect.separator != b',' => "other decimals have points",
                    _ => "nothing shows which",
                }
            )),
            FieldProblem::NotNumeral(NotNumeral::CommaInCommas) => advice(
                "has a decimal comma, but columns are separated by commas (separate them by semicolons, or write decimals with \
                 a point)"
                    .into(),
            ),
            FieldProblem::NotNumeral(NotNumeral::OtherMark) => {
                let (here, others) = match field.decimal {
                    Decimal::Comma => ("point", "commas"),
                    _ => ("comma", "points"),
                };
                advice(format!("has a decimal {here}, but earlier decimals have {others} (write all alike)"))
            }
            FieldProblem::NotNumeral(NotNumeral::Other) => match unusual::advice(&value, &name) {
                Some(problem) => advice(problem),
                None => DataError::NotANumber { file, place, column: name, value },
            },
            FieldProblem::Infinite => DataError::Infinite { file, place, column: name, value },
            FieldProblem::UnknownLevel => {
                let known = match &column.kind {
                    ColumnKind::Category(levels) => levels.names.clone(),
                    _ => Vec::new(),
                };
                DataError::UnknownLevel { file, place, column: name, value, known: Names(known) }
            }
            FieldProblem::TooManyLevels(limit) => DataError::TooManyLevels { file, place, column: name, limit },
            FieldProblem::Ragged | FieldProblem::Unnamed => DataError::NotANumber { file, place, column: name, value },
        }
    }
}
