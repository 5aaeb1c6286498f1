//! Tables from files of text, plain or gzip: separated by commas, semicolons, tabs or vertical bars.
//!
//! A file has a header with the names of the columns. Its separator, line ends and encoding are read off its beginning, the mark
//! of decimals off its numbers ([`TableFacts`] says what was found). Fields may be quoted, with separators, doubled quotes and
//! line ends inside. Columns hold finite numbers, or text: a column without any number is categorical, and its values in the table are
//! indices of levels, which are sorted (by size if all of them are numbers, else by text; a chosen reference level comes first). A
//! column with both is an error, unless it is said to be categorical. Missing values (empty fields, `NA`, `N/A`, `NaN`, `null`, `?` in any
//! case; and `.`, `-`, `#N/A` where these are not known to be levels) are counted and are an error, unless their rows are to be
//! dropped.
//!
//! A table takes the memory of its values and a fixed buffer: the lines of a plain file are counted before it is read; for other
//! streams the table grows by an eighth at a time. For files larger than memory see [`TableFile`].
//!
//! ```
//! use natmix_models::table::Table;
//! let path = std::env::temp_dir().join(format!("natmix-doc-table-{}.csv", std::process::id()));
//! std::fs::write(&path, "size,colour\n1.5,red\n-2e3,blue\n").unwrap();
//! let table = Table::read(&path, &["colour".to_string()]).unwrap();
//! assert_eq!(table.values, [1.5, 1.0, -2000.0, 0.0]);
//! assert_eq!(table.levels[&1], ["blue", "red"]);
//! # std::fs::remove_file(&path).unwrap();
//! ```

mod chunks;
mod decode;
mod dialect;
mod facts;
mod header;
mod levels;
pub(crate) mod moments;
mod number;
mod numeral;
mod options;
mod problems;
mod records;
mod row_fields;
mod rows;
mod unusual;

pub use chunks::{Chunks, TableFile};
pub use facts::{DroppedRows, TableFacts, TextColumn};
pub use options::{MissingRows, ReadOptions};

use crate::error::{DataError, Place, shown};
use crate::source::{DataSource, read_error};
use levels::{Levels, SortedLevels};
use rows::{ColumnKind, RowReader};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where rows came from, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, or a label for rows that did not come from a file.
    pub file: PathBuf,
    /// Rows of the file before the first one here: not 0 in later blocks of a file.
    pub rows_before: u64,
    /// Whether row r of the file starts at line r + 1, so that messages can name the line.
    pub lines_known: bool,
    /// Rows of the file, counted from 0, that are not here because they were dropped: in order, none before `rows_before`.
    pub dropped: Vec<u64>,
}

impl Origin {
    /// For rows in memory.
    pub fn label(label: &str) -> Self {
        Origin { file: label.into(), rows_before: 0, lines_known: false, dropped: Vec::new() }
    }

    /// Position of row `row`, counted from 0 at the first row here.
    pub fn place(&self, row: usize) -> Place {
        // Dropped rows up to this one.
        let at = self.rows_before + row as u64;
        let (mut low, mut high) = (0, self.dropped.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.dropped[middle] - middle as u64 <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let row = at + low as u64 + 1;
        Place { row, line: self.lines_known.then_some(row + 1) }
    }
}

/// A table of numbers with named columns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// Where it came from.
    pub origin: Origin,
    /// Names of the columns, all different.
    pub names: Vec<String>,
    /// Number of rows.
    pub rows: usize,
    /// The values by row: row i is `values[i * names.len()..(i + 1) * names.len()]`.
    pub values: Vec<f64>,
    /// For each categorical column its levels; the values of the column are indices into them.
    pub levels: BTreeMap<usize, Vec<String>>,
    /// What was found while it was read.
    pub facts: TableFacts,
}

impl Table {
    /// Reads a whole file; the columns named in `categorical` hold levels even if these look like numbers.
    pub fn read(path: &Path, categorical: &[String]) -> Result<Table, DataError> {
        Self::read_with(path, &ReadOptions::with_categorical(categorical))
    }

    /// Reads a whole file.
    pub fn read_with(path: &Path, options: &ReadOptions) -> Result<Table, DataError> {
        read(path, options, |names| options.kinds(path, names))
    }

    /// Reads only the columns that are in `wanted`, with their levels if they are categorical. Other columns
    /// are skipped without being parsed; wanted columns that are missing are left out.
    pub(crate) fn read_columns(
        path: &Path,
        wanted: &HashMap<&str, Option<&[String]>>,
        missing: MissingRows,
    ) -> Result<(Table, Vec<String>), DataError> {
        let mut ignored = Vec::new();
        let options = ReadOptions { missing, ..ReadOptions::default() };
        let table = read(path, &options, |names| {
            let kind = |name: &String| match wanted.get(name.as_str()) {
                Some(Some(levels)) => ColumnKind::Category(Levels::known(levels, false)),
                Some(None) => ColumnKind::Number,
                None if name.is_empty() => ColumnKind::Unnamed { values: 0, first: 0 },
                None => {
                    ignored.push(name.clone());
                    ColumnKind::Skip
                }
            };
            Ok(names.iter().map(kind).collect())
        })?;
        Ok((table, ignored))
    }

    /// A table from values in memory; messages show `label` as the file.
    ///
    /// Numbers must be finite, names different and not empty, and the values must fill whole rows.
    pub fn from_values(label: &str, names: Vec<String>, values: Vec<f64>) -> Result<Table, DataError> {
        let origin = Origin::label(label);
        let file = origin.file.clone();
        let mut seen = HashMap::new();
        for (i, name) in names.iter().enumerate() {
            if let Some(first) = seen.insert(name.as_str(), i) {
                let column = shown(name.as_bytes());
                return Err(DataError::DuplicateColumn { file, column, first: first + 1, second: i + 1 });
            }
        }
        if names.is_empty() || !values.len().is_multiple_of(names.len()) {
            let problem = format!("{} values do not fill rows of {} columns", values.len(), names.len());
            return Err(DataError::BadTable { file, problem });
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let place = origin.place(at / names.len());
            let (column, problem) = (names[at % names.len()].clone(), "is not a finite number".to_string());
            return Err(DataError::BadValue { file, place, column, value: values[at], problem });
        }
        let rows = values.len() / names.len();
        Ok(Table { origin, names, rows, values, levels: BTreeMap::new(), facts: TableFacts::default() })
    }

    /// Position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|other| other == name)
    }

    /// The values of a column, row by row.
    pub fn column(&self, position: usize) -> impl Iterator<Item = f64> {
        self.values.iter().skip(position).step_by(self.names.len()).copied()
    }
}

fn read<F>(path: &Path, options: &ReadOptions, choose: F) -> Result<Table, DataError>
where
    F: FnOnce(&[String]) -> Result<Vec<ColumnKind>, DataError>,
{
    let source = DataSource::open(path)?;
    let size = source.size.filter(|_| !source.compressed);
    let mut reader = RowReader::open(path, source, options, choose)?;
    let width = reader.width();
    let mut values = Vec::new();
    if let Some(size) = size {
        // A row has at least one byte and one separator per field, which also limits the memory for files of blank lines.
        let most = size.saturating_add(1) / (2 * reader.file_columns() as u64);
        let rows = count_lines(path, reader.line_end())?.min(most);
        reserve(path, &mut values, (rows as usize).saturating_mul(width))?;
    }
    loop {
        if values.capacity() - values.len() < width {
            let eighth = values.len() / 8;
            reserve(path, &mut values, eighth.max(8192).max(width))?;
        }
        if !reader.read_row(&mut values)? {
            break;
        }
    }
    reader.finish()?;
    values.shrink_to_fit();
    let mut levels = BTreeMap::new();
    for (column, SortedLevels { names, place, .. }) in reader.sorted_levels()? {
        values.iter_mut().skip(column).step_by(width).for_each(|value| *value = place[*value as usize]);
        levels.insert(column, names);
    }
    let dropped = reader.take_dropped_rows();
    let origin = Origin { file: path.into(), rows_before: 0, lines_known: reader.one_line_per_row(), dropped };
    let (names, rows, facts) = (reader.names(), reader.kept_rows() as usize, reader.facts());
    Ok(Table { origin, names, rows, values, levels, facts })
}

/// Reserves room for exactly this many more values: doubling, as `Vec` does, could waste half of the memory.
pub(crate) fn reserve(file: &Path, values: &mut Vec<f64>, more: usize) -> Result<(), DataError> {
    let failed = |_| DataError::OutOfMemory { file: file.into(), bytes: 8 * more as u64 };
    values.try_reserve_exact(more).map_err(failed)
}

/// An upper bound of the number of rows: all lines but the header, even if quoted text spans lines.
fn count_lines(path: &Path, line_end: u8) -> Result<u64, DataError> {
    let mut source = DataSource::open(path)?;
    let mut block = vec![0; 256 * 1024];
    let mut lines = 0;
    loop {
        match source.reader.read(&mut block) {
            Ok(0) => return Ok(lines),
            Ok(count) => lines += memchr::memchr_iter(line_end, &block[..count]).count() as u64,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(path, source.compressed, error)),
        }
    }
}
