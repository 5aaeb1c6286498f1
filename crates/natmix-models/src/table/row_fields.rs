//! The fields of a row as numbers: decimals, levels, missing values, columns without a name.

use super::levels::{Levels, MOST_LEVELS, NoLevel};
use super::number;
use super::numeral::{self, Decimal, NotNumeral};
use super::problems::FieldProblem;
use super::rows::{ColumnKind, TableColumn};
use super::unusual;
use crate::error::{Place, shown};
use memchr::memchr;

/// A field that is remembered for a message at the end.
#[derive(Clone, Debug)]
pub(super) struct NotedField {
    pub column: usize,
    pub place: Place,
    pub value: String,
}

/// What is known about the marks in numbers.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    pub separator: u8,
    pub decimal: Decimal,
    /// The first mark that may be one of thousands, and whether another is surely one of decimals.
    pub unsure: Option<NotedField>,
    pub sure: bool,
}

impl Marks {
    /// The byte before decimals of numbers that need no closer look. As long as the marks may be those of thousands, one that
    /// cannot is looked for.
    fn quick(&self) -> u8 {
        let unclear = self.unsure.is_some() && !self.sure;
        if unclear { Decimal::Unknown.mark() } else { self.decimal.mark() }
    }
}

/// Where the values of a row go.
pub(super) struct RowSink<'a> {
    pub out: &'a mut Vec<f64>,
    pub place: Place,
    pub missing: bool,
    pub first_missing: &'a mut Option<NotedField>,
    pub marks: &'a mut Marks,
}

impl RowSink<'_> {
    /// Adds any field that is not a plain number.
    fn field(&mut self, field: &[u8], position: usize, column: &mut TableColumn) -> Result<(), FieldProblem> {
        let missing = match &mut column.kind {
            ColumnKind::Skip => return Ok(()),
            ColumnKind::Unnamed { values, first } => return self.unnamed(field, values, first),
            ColumnKind::Category(levels) => levels.is_missing(field),
            ColumnKind::Number | ColumnKind::Open => number::is_missing(field) || number::is_missing_or_level(field),
        };
        if missing {
            column.missing += 1;
            self.missing = true;
            let (place, value) = (self.place, shown(field));
            self.first_missing.get_or_insert(NotedField { column: position, place, value });
            self.out.push(f64::NAN);
            return Ok(());
        }
        if let ColumnKind::Open = column.kind {
            column.kind = match self.number(field, position) {
                Err(FieldProblem::NotNumeral(NotNumeral::Other)) => ColumnKind::Category(self.text_column(field)?),
                Err(problem) => return Err(problem),
                Ok(value) => {
                    self.out.push(value);
                    column.kind = ColumnKind::Number;
                    return Ok(());
                }
            };
        }
        let value = match &mut column.kind {
            ColumnKind::Category(levels) => {
                levels.find(field, self.marks.separator).map_err(|problem| match problem {
                    NoLevel::Unknown => FieldProblem::UnknownLevel,
                    NoLevel::TooMany => FieldProblem::TooManyLevels(MOST_LEVELS),
                    NoLevel::Number => FieldProblem::NumberInText,
                })?
            }
            _ => self.number(field, position)?,
        };
        self.out.push(value);
        Ok(())
    }

    fn number(&mut self, field: &[u8], position: usize) -> Result<f64, FieldProblem> {
        let Marks { separator, decimal, .. } = *self.marks;
        let found = numeral::read(field, separator, decimal).map_err(FieldProblem::NotNumeral)?;
        if !found.value.is_finite() {
            // NaN with a sign is not an accepted spelling of a missing value.
            let infinite = found.value.is_infinite();
            return Err(if infinite { FieldProblem::Infinite } else { FieldProblem::NotNumeral(NotNumeral::Other) });
        }
        if decimal == Decimal::Unknown {
            self.marks.decimal = found.decimal;
        }
        if found.decimal != Decimal::Unknown {
            self.marks.sure |= found.sure;
            if !found.sure {
                let (place, value) = (self.place, shown(field.trim_ascii()));
                self.marks.unsure.get_or_insert(NotedField { column: position, place, value });
            }
        }
        Ok(found.value)
    }

    /// The levels of a column whose first value is this text.
    fn text_column(&self, field: &[u8]) -> Result<Levels, FieldProblem> {
        let unusual = std::str::from_utf8(field).is_ok_and(|text| unusual::advice(text, "").is_some());
        if unusual { Err(FieldProblem::NotNumeral(NotNumeral::Other)) } else { Ok(Levels::of_text(self.place)) }
    }

    /// A field of a column without a name, which must be empty or count the rows.
    fn unnamed(&self, field: &[u8], values: &mut u64, first: &mut u64) -> Result<(), FieldProblem> {
        let field = field.trim_ascii();
        let before = self.place.row - 1;
        if field.is_empty() {
            return if *values == 0 { Ok(()) } else { Err(FieldProblem::Unnamed) };
        }
        let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<u64>().ok());
        match number {
            Some(number @ (0 | 1)) if before == 0 => *first = number,
            Some(number) if *values == before && before > 0 && number == *first + before => {}
            _ => return Err(FieldProblem::Unnamed),
        }
        *values += 1;
        Ok(())
    }
}

/// A row without quotes. `COMMAS`: commas separate its fields, so that decimals have points; known to the compiler, this makes the
/// most frequent kind of file faster.
pub(super) fn plain_row<const COMMAS: bool>(
    text: &[u8],
    separator: u8,
    columns: &mut [TableColumn],
    sink: &mut RowSink,
) -> Result<(), (usize, FieldProblem)> {
    let separator = if COMMAS { b',' } else { separator };
    let last = columns.len() - 1;
    let mut rest = text;
    let mut mark = sink.marks.quick();
    for (position, column) in columns.iter_mut().enumerate() {
        let quick = if let ColumnKind::Number = column.kind {
            number::leading(rest, if COMMAS { b'.' } else { mark })
        } else {
            None
        };
        let length = match quick {
            Some((value, length)) if rest.get(length).is_none_or(|next| *next == separator) => {
                sink.out.push(value);
                length
            }
            _ => {
                let length = memchr(separator, rest).unwrap_or(rest.len());
                sink.field(&rest[..length], position, column).map_err(|problem| (position, problem))?;
                mark = sink.marks.quick();
                length
            }
        };
        match rest.get(length + 1..) {
            Some(after) if position < last => rest = after,
            None if position == last => {}
            _ => return Err((position, FieldProblem::Ragged)),
        }
    }
    Ok(())
}

pub(super) fn field_row<'a>(
    mut fields: impl Iterator<Item = &'a [u8]>,
    columns: &mut [TableColumn],
    sink: &mut RowSink,
) -> Result<(), (usize, FieldProblem)> {
    for (position, column) in columns.iter_mut().enumerate() {
        let field = fields.next().ok_or((position, FieldProblem::Ragged))?;
        sink.field(field, position, column).map_err(|problem| (position, problem))?;
    }
    fields.next().map_or(Ok(()), |_| Err((columns.len() - 1, FieldProblem::Ragged)))
}
