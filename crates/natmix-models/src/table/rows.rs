//! From records to rows of numbers: header, kinds of columns, levels, missing values.

use super::number;
use super::records::{Records, TableRecord};
use crate::error::{DataError, MissingValues, Names, Place, shown};
use crate::source::DataSource;
use memchr::memchr;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Most levels that a categorical column may have: every level is a column of the design.
const MOST_LEVELS: usize = 10_000;

/// How a column of the file is read.
#[derive(Clone, Debug)]
pub(crate) enum ColumnKind {
    Number,
    Category(Levels),
    /// Skipped.
    Skip,
}

/// Levels of a categorical column, in order of appearance, or fixed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    index: HashMap<String, usize>,
    names: Vec<String>,
    fixed: bool,
}

impl Levels {
    pub fn fixed(names: &[String]) -> Self {
        let index = names.iter().enumerate().map(|(i, name)| (name.clone(), i)).collect();
        Levels { index, names: names.to_vec(), fixed: true }
    }

    fn find(&mut self, field: &[u8]) -> Result<f64, FieldProblem> {
        let name = std::str::from_utf8(field.trim_ascii()).map_err(|_| FieldProblem::NotUtf8)?;
        if let Some(known) = self.index.get(name) {
            return Ok(*known as f64);
        }
        if self.fixed {
            return Err(FieldProblem::UnknownLevel);
        }
        if self.names.len() == MOST_LEVELS {
            return Err(FieldProblem::TooManyLevels);
        }
        let new = self.names.len();
        self.index.insert(name.into(), new);
        self.names.push(name.into());
        Ok(new as f64)
    }

    /// The levels in order (by size if all are numbers, else by text), and the new index of each old one.
    pub fn sorted(&self) -> (Vec<String>, Vec<f64>) {
        let numbers: Option<Vec<f64>> = self.names.iter().map(|name| number::parse(name.as_bytes())).collect();
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by(|&a, &b| {
            let by_size = numbers.as_ref().map_or(std::cmp::Ordering::Equal, |n| n[a].total_cmp(&n[b]));
            by_size.then_with(|| self.names[a].cmp(&self.names[b]))
        });
        let mut place = vec![0.0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new as f64);
        (order.iter().map(|&old| self.names[old].clone()).collect(), place)
    }
}

/// A column of the file.
#[derive(Debug)]
struct TableColumn {
    name: String,
    kind: ColumnKind,
    missing: u64,
}

/// The first missing value.
struct FirstMissing {
    column: usize,
    place: Place,
    value: String,
}

/// What is wrong with a field, before it becomes a message.
#[derive(Clone, Copy, Debug)]
enum FieldProblem {
    Ragged,
    NotANumber,
    Infinite,
    NotUtf8,
    UnknownLevel,
    TooManyLevels,
}

/// Reads the rows of a CSV file one by one.
pub(crate) struct RowReader {
    file: PathBuf,
    records: Records,
    columns: Vec<TableColumn>,
    width: usize,
    rows: u64,
    one_line_per_row: bool,
    blank: Option<u64>,
    first_missing: Option<FirstMissing>,
}

impl RowReader {
    /// Reads the header; `choose` maps the names of the columns to how each is read.
    pub fn open<F>(path: &Path, source: DataSource, choose: F) -> Result<Self, DataError>
    where
        F: FnOnce(&[String]) -> Result<Vec<ColumnKind>, DataError>,
    {
        let mut records = Records::new(path, source)?;
        let names = read_header(path, &mut records)?;
        let kinds = choose(&names)?;
        let width = kinds.iter().filter(|kind| !matches!(kind, ColumnKind::Skip)).count();
        let columns = names.into_iter().zip(kinds).map(|(name, kind)| TableColumn { name, kind, missing: 0 }).collect();
        Ok(RowReader {
            file: path.into(),
            records,
            columns,
            width,
            rows: 0,
            one_line_per_row: true,
            blank: None,
            first_missing: None,
        })
    }

    /// Number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of columns in the file, including those left out.
    pub fn file_columns(&self) -> usize {
        self.columns.len()
    }

    /// Rows read so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Names of the columns that are kept, in their order.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().filter(|c| !matches!(c.kind, ColumnKind::Skip)).map(|c| c.name.clone()).collect()
    }

    /// Whether every row r so far started at line r + 1.
    pub fn one_line_per_row(&self) -> bool {
        self.one_line_per_row
    }

    /// Appends the next row; false at the end. A missing value is counted and becomes NaN.
    pub fn read_row(&mut self, out: &mut Vec<f64>) -> Result<bool, DataError> {
        while self.records.advance()? {
            let record = self.records.record();
            let line = self.records.line();
            if record.is_blank() {
                self.blank.get_or_insert(line);
                continue;
            }
            if let Some(line) = self.blank {
                return Err(DataError::BlankLine { file: self.file.clone(), line });
            }
            self.rows += 1;
            self.one_line_per_row &= line == self.rows + 1;
            let place = Place { row: self.rows, line: Some(line) };
            let mut sink = RowSink { out, place, first_missing: &mut self.first_missing };
            let outcome = match &record {
                TableRecord::Plain(text) => plain_row(text, &mut self.columns, &mut sink),
                TableRecord::Quoted(fields) => field_row(fields.iter(), &mut self.columns, &mut sink),
            };
            return match outcome {
                Ok(()) => Ok(true),
                Err((column, problem)) => Err(self.to_error(column, problem, place)),
            };
        }
        Ok(false)
    }

    /// The error for missing values, if there are any.
    pub fn check_missing(&self) -> Result<(), DataError> {
        let Some(first) = &self.first_missing else { return Ok(()) };
        let columns: Vec<(String, u64)> =
            self.columns.iter().filter(|c| c.missing > 0).map(|c| (c.name.clone(), c.missing)).collect();
        let values = MissingValues {
            columns,
            place: first.place,
            column: self.columns[first.column].name.clone(),
            value: first.value.clone(),
        };
        Err(DataError::Missing { file: self.file.clone(), values: Box::new(values) })
    }

    /// Sorts the levels of every categorical column; the result is by position among the kept columns.
    pub fn sorted_levels(&self) -> BTreeMap<usize, (Vec<String>, Vec<f64>)> {
        let kept = self.columns.iter().filter(|c| !matches!(c.kind, ColumnKind::Skip)).enumerate();
        kept.filter_map(|(i, column)| match &column.kind {
            ColumnKind::Category(levels) => Some((i, levels.sorted())),
            _ => None,
        })
        .collect()
    }

    #[cold]
    fn to_error(&self, column: usize, problem: FieldProblem, place: Place) -> DataError {
        let (record, file) = (self.records.record(), self.file.clone());
        let (found, expected) = (record.field_count(), self.columns.len());
        // An extra comma often shows up first as text in the wrong column: report the number of fields instead.
        if found != expected || matches!(problem, FieldProblem::Ragged) {
            return DataError::Ragged { file, place, found, expected };
        }
        let (mut value, mut position) = (String::new(), 0);
        record.for_each(|field| {
            if position == column {
                value = shown(field.trim_ascii());
            }
            position += 1;
        });
        let name = self.columns[column].name.clone();
        match problem {
            FieldProblem::Infinite => DataError::Infinite { file, place, column: name, value },
            FieldProblem::NotUtf8 => {
                DataError::NotUtf8 { file, line: place.line.unwrap_or(0), position: column + 1, value }
            }
            FieldProblem::UnknownLevel => {
                let known = match &self.columns[column].kind {
                    ColumnKind::Category(levels) => levels.names.clone(),
                    _ => Vec::new(),
                };
                DataError::UnknownLevel { file, place, column: name, value, known: Names(known) }
            }
            FieldProblem::TooManyLevels => DataError::TooManyLevels { file, place, column: name, limit: MOST_LEVELS },
            FieldProblem::NotANumber | FieldProblem::Ragged => {
                DataError::NotANumber { file, place, column: name, value }
            }
        }
    }
}

/// Where the values of a row go.
struct RowSink<'a> {
    out: &'a mut Vec<f64>,
    place: Place,
    first_missing: &'a mut Option<FirstMissing>,
}

impl RowSink<'_> {
    /// Adds any field that is not a plain number.
    fn field(&mut self, field: &[u8], position: usize, column: &mut TableColumn) -> Result<(), FieldProblem> {
        if matches!(column.kind, ColumnKind::Skip) {
            return Ok(());
        }
        let value = if number::is_missing(field) {
            column.missing += 1;
            let (place, value) = (self.place, shown(field));
            self.first_missing.get_or_insert(FirstMissing { column: position, place, value });
            f64::NAN
        } else {
            match &mut column.kind {
                ColumnKind::Category(levels) => levels.find(field)?,
                _ => match number::parse(field).ok_or(FieldProblem::NotANumber)? {
                    value if value.is_infinite() => return Err(FieldProblem::Infinite),
                    // NaN with a sign is not an accepted spelling of a missing value.
                    value if value.is_nan() => return Err(FieldProblem::NotANumber),
                    value => value,
                },
            }
        };
        self.out.push(value);
        Ok(())
    }
}

fn plain_row(text: &[u8], columns: &mut [TableColumn], sink: &mut RowSink) -> Result<(), (usize, FieldProblem)> {
    let last = columns.len() - 1;
    let mut rest = text;
    for (position, column) in columns.iter_mut().enumerate() {
        let quick = if let ColumnKind::Number = column.kind { number::leading(rest) } else { None };
        let length = match quick {
            Some((value, length)) if matches!(rest.get(length), None | Some(b',')) => {
                sink.out.push(value);
                length
            }
            _ => {
                let length = memchr(b',', rest).unwrap_or(rest.len());
                sink.field(&rest[..length], position, column).map_err(|problem| (position, problem))?;
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

fn field_row<'a>(
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

fn read_header(path: &Path, records: &mut Records) -> Result<Vec<String>, DataError> {
    let file = || path.to_path_buf();
    loop {
        if !records.advance()? {
            return Err(DataError::Empty { file: file() });
        }
        if !records.record().is_blank() {
            break;
        }
    }
    let record = records.record();
    if let TableRecord::Plain(text) = &record {
        let separator = if record.field_count() > 1 { None } else { memchr::memchr2(b';', b'\t', text) };
        let problem = match separator {
            _ if memchr(b'\r', text).is_some() => {
                "lines end with a lone carriage return (save the file with the usual line ends)"
            }
            Some(at) if text[at] == b';' => {
                "columns seem to be separated by semicolons (save the file with commas, and with \
                                             a point in decimal numbers)"
            }
            Some(_) => "columns seem to be separated by tabs (save the file with commas)",
            None => "",
        };
        if !problem.is_empty() {
            return Err(DataError::BadFile { file: file(), problem: problem.into() });
        }
    }
    let mut names = Vec::with_capacity(record.field_count());
    let (mut numbers, mut bad) = (0, None);
    record.for_each(|field| {
        numbers += usize::from(number::parse(field).is_some());
        match std::str::from_utf8(field.trim_ascii()) {
            Ok(name) => names.push(name.to_string()),
            Err(_) => {
                bad.get_or_insert((names.len() + 1, shown(field)));
                names.push(String::new());
            }
        }
    });
    if let Some((position, value)) = bad {
        return Err(DataError::NotUtf8 { file: file(), line: records.line(), position, value });
    }
    let columns = names.len();
    if numbers > 0 && names.iter().all(|n| number::parse(n.as_bytes()).is_some() || number::is_missing(n.as_bytes())) {
        return Err(DataError::NoHeader { file: file(), first_line: shown(names.join(",").as_bytes()), columns });
    }
    if let Some(position) = names.iter().position(String::is_empty) {
        return Err(DataError::UnnamedColumn { file: file(), position: position + 1, columns });
    }
    let mut seen = HashMap::new();
    for (i, name) in names.iter().enumerate() {
        if let Some(first) = seen.insert(name.as_str(), i) {
            return Err(DataError::DuplicateColumn {
                file: file(),
                column: shown(name.as_bytes()),
                first: first + 1,
                second: i + 1,
            });
        }
    }
    Ok(names)
}
