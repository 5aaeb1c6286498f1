//! Tables of numbers from CSV files, plain or gzip.
//!
//! A file has a header with the names of the columns. Fields may be quoted (with commas, doubled quotes and line ends inside),
//! lines may end in LF or CRLF; a byte order mark and blank lines at the end are ignored. Columns hold finite numbers, except for
//! categorical ones: these hold any text, and their value in the table is the index of the level, with levels sorted (by size
//! if all of them are numbers, else by text). Missing values (empty fields, `NA`, `N/A`, `NaN`, `null`, `?`, in any case) are counted
//! and are an error.
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
pub(crate) mod moments;
mod number;
mod records;
mod rows;

pub use chunks::{Chunks, TableFile};

use crate::error::{DataError, Names, Place, shown};
use crate::source::{DataSource, read_error};
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
}

impl Origin {
    /// For rows in memory.
    pub fn label(label: &str) -> Self {
        Origin { file: label.into(), rows_before: 0, lines_known: false }
    }

    /// Position of row `row`, counted from 0 at the first row here.
    pub fn place(&self, row: usize) -> Place {
        let row = self.rows_before + row as u64 + 1;
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
}

impl Table {
    /// Reads a whole file; the columns named in `categorical` hold levels instead of numbers.
    pub fn read(path: &Path, categorical: &[String]) -> Result<Table, DataError> {
        read_with(path, |names| kinds(path, names, categorical))
    }

    /// Reads only the columns that are in `wanted`, which says whether each is categorical. Other columns
    /// are skipped without being parsed; wanted columns that are missing are left out.
    pub(crate) fn read_columns(path: &Path, wanted: &HashMap<&str, bool>) -> Result<(Table, Vec<String>), DataError> {
        let mut ignored = Vec::new();
        let table = read_with(path, |names| {
            let kind = |name: &String| match wanted.get(name.as_str()) {
                Some(true) => ColumnKind::Category(Default::default()),
                Some(false) => ColumnKind::Number,
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
        Ok(Table { origin, names, rows, values, levels: BTreeMap::new() })
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

/// The kind of each column, where those named are categorical and the others numbers.
fn kinds(file: &Path, names: &[String], categorical: &[String]) -> Result<Vec<ColumnKind>, DataError> {
    if let Some(unknown) = categorical.iter().find(|name| !names.contains(name)) {
        return Err(DataError::UnknownColumn {
            file: file.into(),
            column: shown(unknown.as_bytes()),
            role: "categorical",
            columns: Names(names.to_vec()),
        });
    }
    let kind =
        |name| if categorical.contains(name) { ColumnKind::Category(Default::default()) } else { ColumnKind::Number };
    Ok(names.iter().map(kind).collect())
}

fn read_with<F>(path: &Path, choose: F) -> Result<Table, DataError>
where
    F: FnOnce(&[String]) -> Result<Vec<ColumnKind>, DataError>,
{
    let source = DataSource::open(path)?;
    let size = source.size.filter(|_| !source.compressed);
    let mut reader = RowReader::open(path, source, choose)?;
    let width = reader.width();
    let mut values = Vec::new();
    if let Some(size) = size {
        // A row has at least one byte and one separator per field, which also limits the memory for files of blank lines.
        let most = size.saturating_add(1) / (2 * reader.file_columns() as u64);
        let rows = count_lines(path)?.min(most);
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
    if reader.rows() == 0 {
        return Err(DataError::NoRows { file: path.into() });
    }
    reader.check_missing()?;
    values.shrink_to_fit();
    let mut levels = BTreeMap::new();
    for (column, (names, place)) in reader.sorted_levels() {
        values.iter_mut().skip(column).step_by(width).for_each(|value| *value = place[*value as usize]);
        levels.insert(column, names);
    }
    let origin = Origin { file: path.into(), rows_before: 0, lines_known: reader.one_line_per_row() };
    Ok(Table { origin, names: reader.names(), rows: reader.rows() as usize, values, levels })
}

/// Reserves room for exactly this many more values: doubling, as `Vec` does, could waste half of the memory.
pub(crate) fn reserve(file: &Path, values: &mut Vec<f64>, more: usize) -> Result<(), DataError> {
    let failed = |_| DataError::OutOfMemory { file: file.into(), bytes: 8 * more as u64 };
    values.try_reserve_exact(more).map_err(failed)
}

/// An upper bound of the number of rows: all lines but the header, even if quoted text spans lines.
fn count_lines(path: &Path) -> Result<u64, DataError> {
    let mut source = DataSource::open(path)?;
    let mut block = vec![0; 256 * 1024];
    let mut lines = 0;
    loop {
        match source.reader.read(&mut block) {
            Ok(0) => return Ok(lines),
            Ok(count) => lines += memchr::memchr_iter(b'\n', &block[..count]).count() as u64,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(path, source.compressed, error)),
        }
    }
}
