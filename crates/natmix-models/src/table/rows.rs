//! From records to rows of numbers: kinds of columns, levels, missing values.

use super::facts::{DroppedRows, TableFacts, TextColumn};
use super::header::read_header;
use super::levels::{Levels, SortedLevels};
use super::numeral::{Decimal, NotNumeral};
use super::options::{MissingRows, ReadOptions};
use super::problems::{FieldProblem, FieldText};
use super::records::{Records, TableRecord};
use super::row_fields::{Marks, NotedField, RowSink, field_row, plain_row};
use crate::error::{DataError, MissingValues, Names, Place, shown};
use crate::source::DataSource;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A column of text with more levels than this, and than half of the rows, holds identifiers.
const IDENTIFIERS: usize = 10;

/// How a column of the file is read.
#[derive(Clone, Debug)]
pub(crate) enum ColumnKind {
    Number,
    Category(Levels),
    /// Numbers or text: its first value decides.
    Open,
    /// Without a name: left out if it is empty, or counts the rows from 0 or 1.
    Unnamed {
        /// How many values it has so far, and the first of them.
        values: u64,
        first: u64,
    },
    /// Skipped.
    Skip,
}

impl ColumnKind {
    pub(super) fn is_kept(&self) -> bool {
        !matches!(self, ColumnKind::Skip | ColumnKind::Unnamed { .. })
    }
}

/// A column of the file.
#[derive(Debug)]
pub(super) struct TableColumn {
    pub name: String,
    pub kind: ColumnKind,
    pub missing: u64,
}

/// A column that may count the rows, by its name: its position among the kept columns, and the number of the first row.
#[derive(Clone, Copy, Debug)]
struct Counter {
    column: usize,
    kept: usize,
    first: Option<f64>,
}

/// Names of columns that count rows.
const COUNTERS: [&str; 8] = ["index", "id", "row", "rownames", "row_names", "rowid", "row_id", "nr"];

/// Reads the rows of a table of text one by one.
pub(crate) struct RowReader {
    file: PathBuf,
    records: Records,
    columns: Vec<TableColumn>,
    options: ReadOptions,
    width: usize,
    rows: u64,
    one_line_per_row: bool,
    /// The first blank line after the last row, blank lines after it, and those between rows.
    blank: Option<u64>,
    waiting_blank_lines: u64,
    blank_lines: u64,
    first_missing: Option<NotedField>,
    /// Rows that were dropped, counted from 0: how many, and those since the list was taken last.
    dropped: u64,
    dropped_rows: Vec<u64>,
    marks: Marks,
    counter: Option<Counter>,
    decoded: bool,
}

impl RowReader {
    /// Reads the header; `choose` maps the names of the columns to how each is read.
    pub fn open<F>(path: &Path, source: DataSource, options: &ReadOptions, choose: F) -> Result<Self, DataError>
    where
        F: FnOnce(&[String]) -> Result<Vec<ColumnKind>, DataError>,
    {
        let mut records = Records::new(path, source)?;
        let (names, decoded) = read_header(path, &mut records)?;
        let kinds = choose(&names)?;
        let width = kinds.iter().filter(|kind| kind.is_kept()).count();
        let columns: Vec<TableColumn> =
            names.into_iter().zip(kinds).map(|(name, kind)| TableColumn { name, kind, missing: 0 }).collect();
        let decimal = if records.dialect.separator == b',' { Decimal::Point } else { Decimal::Unknown };
        let marks = Marks { separator: records.dialect.separator, decimal, unsure: None, sure: false };
        let counts = |(_, column): &(usize, &TableColumn)| {
            let name = column.name.to_ascii_lowercase();
            let counts = COUNTERS.contains(&name.as_str()) || name.starts_with("unnamed:");
            counts && matches!(column.kind, ColumnKind::Open | ColumnKind::Number) && !options.has_role(&column.name)
        };
        let counter = columns.iter().enumerate().find(counts).map(|(column, _)| {
            let kept = columns[..column].iter().filter(|column| column.kind.is_kept()).count();
            Counter { column, kept, first: None }
        });
        Ok(RowReader {
            file: path.into(),
            records,
            columns,
            options: options.clone(),
            width,
            rows: 0,
            one_line_per_row: true,
            blank: None,
            waiting_blank_lines: 0,
            blank_lines: 0,
            first_missing: None,
            dropped: 0,
            dropped_rows: Vec::new(),
            marks,
            counter,
            decoded,
        })
    }

    /// What stands before the decimals of a file that was read before.
    pub fn with_decimal(mut self, decimal: Decimal) -> Self {
        (self.marks.decimal, self.marks.sure) = (decimal, true);
        self
    }

    /// What stands before decimals, as far as is known.
    pub fn decimal(&self) -> Decimal {
        self.marks.decimal
    }

    /// Number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of columns in the file, including those left out.
    pub fn file_columns(&self) -> usize {
        self.columns.len()
    }

    /// What ends a line.
    pub fn line_end(&self) -> u8 {
        self.records.dialect.line_end
    }

    /// Rows of the file read so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows read so far that were not dropped.
    pub fn kept_rows(&self) -> u64 {
        self.rows - self.dropped
    }

    /// Rows of the file, counted from 0, that were dropped since the last call.
    pub fn take_dropped_rows(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped_rows)
    }

    /// Names of the columns that are kept, in their order.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().filter(|c| c.kind.is_kept()).map(|c| c.name.clone()).collect()
    }

    /// Names of all columns of the file, and for those that are kept their position among these.
    pub fn header(&self) -> Vec<(String, Option<usize>)> {
        let mut kept = 0..;
        let position = |column: &TableColumn| column.kind.is_kept().then(|| kept.next()).flatten();
        let positions: Vec<Option<usize>> = self.columns.iter().map(position).collect();
        self.columns.iter().map(|column| column.name.clone()).zip(positions).collect()
    }

    /// Whether every row r so far started at line r + 1.
    pub fn one_line_per_row(&self) -> bool {
        self.one_line_per_row
    }

    /// Appends the next row; false at the end. A missing value is counted and becomes NaN, unless its row is dropped.
    pub fn read_row(&mut self, out: &mut Vec<f64>) -> Result<bool, DataError> {
        while self.records.advance()? {
            let record = self.records.record();
            let line = self.records.line();
            if record.is_blank() {
                self.blank.get_or_insert(line);
                self.waiting_blank_lines += 1;
                continue;
            }
            if let Some(line) = self.blank.take() {
                // The only value of its row may be missing there.
                if self.columns.len() == 1 {
                    return Err(DataError::BlankLine { file: self.file.clone(), line });
                }
                self.blank_lines += std::mem::take(&mut self.waiting_blank_lines);
            }
            self.rows += 1;
            self.one_line_per_row &= line == self.rows + 1;
            let place = Place { row: self.rows, line: Some(line) };
            let start = out.len();
            let mut sink =
                RowSink { out, place, missing: false, first_missing: &mut self.first_missing, marks: &mut self.marks };
            let outcome = match &record {
                TableRecord::Plain { text, separator: b',' } => {
                    plain_row::<true>(text, b',', &mut self.columns, &mut sink)
                }
                TableRecord::Plain { text, separator } => {
                    plain_row::<false>(text, *separator, &mut self.columns, &mut sink)
                }
                TableRecord::Quoted(fields) => field_row(fields.iter(), &mut self.columns, &mut sink),
            };
            let missing = sink.missing;
            if let Err((column, problem)) = outcome {
                return Err(self.to_error(column, problem, place));
            }
            if let Some(Counter { kept, first, .. }) = &mut self.counter {
                let value = out[start + *kept];
                let counts = match first {
                    None => value == 0.0 || value == 1.0,
                    Some(first) => value == *first + (self.rows - 1) as f64,
                };
                first.get_or_insert(value);
                self.counter = self.counter.filter(|_| counts);
            }
            if self.options.missing == MissingRows::Drop {
                if missing {
                    out.truncate(start);
                    self.dropped_rows.push(self.rows - 1);
                    self.dropped += 1;
                    continue;
                }
                for (column, value) in self.columns.iter_mut().filter(|column| column.kind.is_kept()).zip(&out[start..])
                {
                    if let ColumnKind::Category(levels) = &mut column.kind {
                        levels.keep(*value);
                    }
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// The errors that only show at the end: no rows, missing values, marks that remained unclear, and text that identifies.
    pub fn finish(&self) -> Result<(), DataError> {
        if self.rows == 0 {
            return Err(DataError::NoRows { file: self.file.clone() });
        }
        self.check_missing()?;
        let bad = |column: &TableColumn, problem| {
            Err(DataError::BadColumn { file: self.file.clone(), column: column.name.clone(), problem })
        };
        if self.kept_rows() == 0 {
            if let Some(empty) = self.columns.iter().find(|column| column.missing == self.rows) {
                let name = &empty.name;
                return bad(empty, format!("has no value in any row (leave it out with --without {name})"));
            }
            let problem = "every row has a missing value, so none is left (leave columns out with --without)".into();
            return Err(DataError::BadTable { file: self.file.clone(), problem });
        }
        if let Some(NotedField { column, place, value }) = self.marks.unsure.as_ref().filter(|_| !self.marks.sure) {
            let problem = FieldProblem::NotNumeral(NotNumeral::Ambiguous);
            let text = FieldText { value, dialect: self.records.dialect, decimal: Decimal::Unknown };
            return Err(problem.to_error(&self.file, *place, &self.columns[*column], text));
        }
        for column in &self.columns {
            if let ColumnKind::Category(levels) = &column.kind
                && levels.text_since().is_some()
                && levels.count() > IDENTIFIERS
                && 2 * levels.count() as u64 > self.kept_rows()
            {
                let (name, count) = (&column.name, levels.count());
                let problem = format!(
                    "holds text with {count} different values in {} rows, as names and identifiers do (leave it out with \
                     --without {name}, or use --categorical {name} if each value is a category)",
                    self.kept_rows()
                );
                return bad(column, problem);
            }
        }
        Ok(())
    }

    /// The error for missing values, if there are any that are not dropped.
    pub fn check_missing(&self) -> Result<(), DataError> {
        let Some(first) = self.first_missing.as_ref().filter(|_| self.options.missing == MissingRows::Error) else {
            return Ok(());
        };
        let NotedField { column, place, value } = first.clone();
        let column = self.columns[column].name.clone();
        let values = MissingValues { columns: self.missing_by_column(), place, column, value };
        Err(DataError::Missing { file: self.file.clone(), values: Box::new(values) })
    }

    fn missing_by_column(&self) -> Vec<(String, u64)> {
        self.columns.iter().filter(|c| c.missing > 0).map(|c| (c.name.clone(), c.missing)).collect()
    }

    /// Sorts the levels of every categorical column; the result is by position among the kept columns.
    pub fn sorted_levels(&self) -> Result<BTreeMap<usize, SortedLevels>, DataError> {
        let mut sorted = BTreeMap::new();
        for (i, column) in self.columns.iter().filter(|column| column.kind.is_kept()).enumerate() {
            let reference = self.options.reference_of(&column.name);
            let bad = |problem: String| {
                Err(DataError::BadColumn { file: self.file.clone(), column: column.name.clone(), problem })
            };
            match &column.kind {
                ColumnKind::Category(levels) => {
                    let levels = levels.sorted(reference);
                    if let Some(reference) = reference.filter(|name| !levels.names.iter().any(|level| level == name)) {
                        let (reference, known) = (shown(reference.as_bytes()), Names(levels.names));
                        return bad(format!("has no level `{reference}` to be its reference; it has {known}"));
                    }
                    sorted.insert(i, levels);
                }
                _ if reference.is_some() => {
                    return bad("holds numbers, so it has no reference level (name it in --categorical)".into());
                }
                _ => {}
            }
        }
        Ok(sorted)
    }

    /// What was found.
    pub fn facts(&self) -> TableFacts {
        let text = |column: &TableColumn| match &column.kind {
            ColumnKind::Category(levels) if levels.text_since().is_some() => Some(TextColumn {
                column: column.name.clone(),
                levels: levels.count(),
                reference: levels.sorted(self.options.reference_of(&column.name)).names.into_iter().next()?,
            }),
            _ => None,
        };
        let levels_decoded =
            self.columns.iter().any(|column| matches!(&column.kind, ColumnKind::Category(levels) if levels.decoded));
        let encoding = match (self.records.utf16, self.decoded || levels_decoded) {
            (true, _) => Some("UTF-16".to_owned()),
            (false, true) => Some("Windows-1252".to_owned()),
            (false, false) => None,
        };
        let left_out = self.columns.iter().enumerate().filter_map(|(i, column)| match column.kind {
            ColumnKind::Unnamed { values: 0, .. } => Some((i + 1, "no values".to_owned())),
            ColumnKind::Unnamed { .. } => Some((i + 1, "counts the rows".to_owned())),
            _ => None,
        });
        let dropped = (self.options.missing == MissingRows::Drop && self.dropped > 0).then(|| DroppedRows {
            rows: self.dropped,
            of: self.rows,
            columns: self.missing_by_column(),
        });
        let skipped = self.columns.iter().filter(|column| matches!(column.kind, ColumnKind::Skip));
        // Indices of levels count the rows as well where all texts differ.
        let counted = |counter: Counter| {
            let column = &self.columns[counter.column];
            matches!(column.kind, ColumnKind::Number).then(|| column.name.clone())
        };
        TableFacts {
            separator: self.records.dialect.separator_name().to_owned(),
            decimal_commas: self.marks.decimal == Decimal::Comma,
            encoding,
            text: self.columns.iter().filter_map(text).collect(),
            index: self.counter.filter(|_| self.rows > 2).and_then(counted),
            left_out: left_out.collect(),
            blank_lines: self.blank_lines,
            dropped,
            skipped: skipped.map(|column| column.name.clone()).collect(),
        }
    }

    #[cold]
    fn to_error(&self, column: usize, problem: FieldProblem, place: Place) -> DataError {
        let (record, file) = (self.records.record(), &self.file);
        let (found, expected) = (record.field_count(), self.columns.len());
        // An extra separator often shows up first as text in the wrong column: report the number of fields instead.
        if found != expected || matches!(problem, FieldProblem::Ragged) {
            let separator = self.records.dialect.separator_name();
            return DataError::Ragged { file: file.clone(), place, found, expected, separator };
        }
        let (mut value, mut position) = (String::new(), 0);
        record.for_each(|field| {
            if position == column {
                value = shown(field.trim_ascii());
            }
            position += 1;
        });
        if let FieldProblem::Unnamed = problem {
            return DataError::UnnamedColumn {
                file: file.clone(),
                position: column + 1,
                columns: expected,
                place,
                value,
            };
        }
        let text = FieldText { value: &value, dialect: self.records.dialect, decimal: self.marks.decimal };
        problem.to_error(file, place, &self.columns[column], text)
    }
}
