//! Errors in data files and tables, with advice on what to do about them.
//!
//! Rows are counted from 1 and without the header, as a person counts observations; the line is the one that an editor shows.

pub(crate) mod nearest;
mod words;

pub(crate) use words::shown;
pub use words::{MissingValues, Names, Place};

use std::path::PathBuf;

/// Errors of the data readers and of the step from a table to a design matrix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The system could not open or read the file.
    #[error("{}: {source}{}", .file.display(), io_advice(.source))]
    Io {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is of another kind than expected, or damaged.
    #[error("{}: {problem}", .file.display())]
    BadFile {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// There is nothing in the file.
    #[error("{}: the file is empty (expected a header line with the names of the columns, then one line per row)", .file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// There is a header, but there are no rows.
    #[error("{}: there is a header, but no row of data below it", .file.display())]
    NoRows {
        /// The file.
        file: PathBuf,
    },
    /// The first line holds numbers only.
    #[error(
        "{}: the first line has only numbers (`{first_line}`), so the header is missing (add a first line with the names of \
         the {columns} columns)",
        .file.display()
    )]
    NoHeader {
        /// The file.
        file: PathBuf,
        /// The line that was taken for the header.
        first_line: String,
        /// Number of columns in it.
        columns: usize,
    },
    /// A column without a name holds something else than the numbers of the rows.
    #[error(
        "{}: column {position} of {columns} has no name in the header, but holds `{value}` in {place} (name it, or remove the \
         column)",
        .file.display()
    )]
    UnnamedColumn {
        /// The file.
        file: PathBuf,
        /// Which column, counted from 1.
        position: usize,
        /// Number of columns.
        columns: usize,
        /// Where the value is.
        place: Place,
        /// The value.
        value: String,
    },
    /// Two columns have the same name.
    #[error("{}: columns {first} and {second} are both named `{column}` (rename one of them)", .file.display())]
    DuplicateColumn {
        /// The file.
        file: PathBuf,
        /// The name.
        column: String,
        /// Position of the first one, counted from 1.
        first: usize,
        /// Position of the second one.
        second: usize,
    },
    /// A row has more or fewer fields than the header.
    #[error(
        "{}: {place} has {found} fields, but the header has {expected} (text with a {separator} in it must be enclosed in double \
         quotes)",
        .file.display()
    )]
    Ragged {
        /// The file.
        file: PathBuf,
        /// Where.
        place: Place,
        /// Fields in the row.
        found: usize,
        /// Fields in the header.
        expected: usize,
        /// What separates fields, in words.
        separator: &'static str,
    },
    /// A blank line with data after it.
    #[error("{}: line {line} is blank, but data follows it (remove the line)", .file.display())]
    BlankLine {
        /// The file.
        file: PathBuf,
        /// The first blank line.
        line: u64,
    },
    /// Quotes that do not pair up, or a row that does not end.
    #[error("{}: in the row that starts at line {line}, {problem}", .file.display())]
    Quotes {
        /// The file.
        file: PathBuf,
        /// Line at which the row starts.
        line: u64,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Text in a column of numbers.
    #[error(
        "{}: {place}, column `{column}`: `{value}` is not a number (correct it, or use --categorical {column} if the column \
         holds categories)",
        .file.display()
    )]
    NotANumber {
        /// The file.
        file: PathBuf,
        /// Where.
        place: Place,
        /// The column.
        column: String,
        /// The text found there.
        value: String,
    },
    /// A value that is not written as a number or the name of a category should be.
    #[error("{}: {place}, column `{column}`: `{value}` {problem}", .file.display())]
    NotPlain {
        /// The file.
        file: PathBuf,
        /// Where.
        place: Place,
        /// The column.
        column: String,
        /// The text found there.
        value: String,
        /// What it is, and what to do.
        problem: Box<str>,
    },
    /// A number that is infinite, or too large for a double.
    #[error("{}: {place}, column `{column}`: `{value}` is infinite (correct or remove the row)", .file.display())]
    Infinite {
        /// The file.
        file: PathBuf,
        /// Where.
        place: Place,
        /// The column.
        column: String,
        /// The text found there.
        value: String,
    },
    /// Values are missing.
    #[error("{}: {values} (fill them in, drop these rows with --missing drop, or leave columns out with --without)", .file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// Which ones.
        values: Box<MissingValues>,
    },
    /// A column that was asked for is not in the table.
    #[error(
        "{}: there is no column `{column}`, asked for as {role}{} (the columns are {columns})",
        .file.display(), .columns.like(.column)
    )]
    UnknownColumn {
        /// The file.
        file: PathBuf,
        /// The name asked for.
        column: String,
        /// The role it was to have.
        role: &'static str,
        /// The names of all columns.
        columns: Names,
    },
    /// A column that the model was fitted with is not in the table to predict.
    #[error(
        "{}: column `{column}` is missing; the model was fitted with it as {role}{} (add it; the columns are {columns})",
        .file.display(), .columns.like(.column)
    )]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The name.
        column: String,
        /// The role it had.
        role: &'static str,
        /// The names of all columns.
        columns: Names,
    },
    /// Columns that the model was not fitted with.
    #[error("{}: the model was not fitted with {columns} (remove these columns)", .file.display())]
    ExtraColumns {
        /// The file.
        file: PathBuf,
        /// Their names.
        columns: Names,
    },
    /// A categorical column has more levels than can reasonably be encoded.
    #[error(
        "{}: categorical column `{column}` has more than {limit} different values up to {place} (is it an identifier? Leave it \
         out, or group its values)",
        .file.display()
    )]
    TooManyLevels {
        /// The file.
        file: PathBuf,
        /// Where the limit was exceeded.
        place: Place,
        /// The column.
        column: String,
        /// The limit.
        limit: usize,
    },
    /// A level that was not there when the model was fitted.
    #[error(
        "{}: {place}, column `{column}`: the level `{value}` did not occur when the model was fitted (known: {known}; \
         correct it, or fit again with data that has it)",
        .file.display()
    )]
    UnknownLevel {
        /// The file.
        file: PathBuf,
        /// Where it occurs first.
        place: Place,
        /// The column.
        column: String,
        /// The level.
        value: String,
        /// Levels that occurred when the model was fitted.
        known: Names,
    },
    /// A value that is a number, but not one that its column may hold.
    #[error("{}: {place}, column `{column}`: {value} {problem}", .file.display())]
    BadValue {
        /// The file.
        file: PathBuf,
        /// Where.
        place: Place,
        /// The column.
        column: String,
        /// The value.
        value: f64,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A column as a whole cannot be used as asked.
    #[error("{}: column `{column}` {problem}", .file.display())]
    BadColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The table as a whole cannot be used as asked.
    #[error("{}: {problem}", .file.display())]
    BadTable {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The file is not the same as when it was first read.
    #[error("{}: the file changed while it was in use: {problem} (run again when nothing writes to it)", .file.display())]
    Changed {
        /// The file.
        file: PathBuf,
        /// How the change was noticed.
        problem: String,
    },
    /// The table does not fit into memory.
    #[error(
        "{}: no memory for another {bytes} bytes (use fewer columns or levels, or --stream, which keeps the rows on disk)",
        .file.display()
    )]
    OutOfMemory {
        /// The file.
        file: PathBuf,
        /// How many bytes were requested.
        bytes: u64,
    },
    /// Rows that do not fit into memory could not be stored on disk either.
    #[error(
        "cannot store {bytes} bytes of rows on disk in {}: {source} (make room there, or choose another --out)",
        .folder.display()
    )]
    NotStored {
        /// Where they were to be stored.
        folder: PathBuf,
        /// How many bytes are needed.
        bytes: u64,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The stored encoding of a posterior's columns is invalid.
    #[error("the stored encoding of the columns is damaged: {problem} (fit again)")]
    BadEncoding {
        /// What is wrong.
        problem: String,
    },
}

fn io_advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => " (check the path)",
        std::io::ErrorKind::PermissionDenied => " (check the permissions)",
        _ => "",
    }
}
