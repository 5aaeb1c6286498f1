//! Parquet files as the text that the reader of tables takes: a header, then a line per row.
//!
//! Numbers are written so that they are read back exactly, single precision as the same number in double precision; booleans as 0 and 1,
//! as in data frames. Text is quoted, null is `NA`, and everything else (dates, nested values) is what the format shows of it.

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use std::fs::File;
use std::io::{self, Read, Write};

/// Text that is made before it is taken, at least.
const BLOCK: usize = 64 * 1024;

/// Reads a file row by row.
pub(super) struct ParquetText {
    rows: RowIter<'static>,
    text: Vec<u8>,
    /// How much of the text was taken.
    taken: usize,
}

impl ParquetText {
    /// From a file, of which nothing has been read.
    pub fn new(file: File) -> io::Result<Self> {
        let reader = SerializedFileReader::new(file).map_err(damaged)?;
        let mut text = Vec::new();
        for (at, column) in reader.metadata().file_metadata().schema().get_fields().iter().enumerate() {
            push_separator(&mut text, at);
            push_quoted(&mut text, column.name());
        }
        text.push(b'\n');
        Ok(Self { rows: reader.into_iter(), text, taken: 0 })
    }
}

impl Read for ParquetText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() {
            self.text.clear();
            self.taken = 0;
            while self.text.len() < BLOCK {
                let Some(row) = self.rows.next() else { break };
                push_row(&mut self.text, &row.map_err(damaged)?)?;
            }
        }
        let count = (&self.text[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}

fn damaged(error: ParquetError) -> io::Error {
    let text = error.to_string();
    let remedy = match text.contains("Disabled feature") {
        true => "it is compressed in a way that this program does not know: write it again with snappy, gzip or lz4",
        false => "copy or download it again",
    };
    io::Error::other(format!("the Parquet file cannot be read: {text} ({remedy})"))
}

fn push_row(text: &mut Vec<u8>, row: &Row) -> io::Result<()> {
    for (at, (_, field)) in row.get_column_iter().enumerate() {
        push_separator(text, at);
        match field {
            Field::Null => text.extend(b"NA"),
            Field::Bool(x) => text.push(if *x { b'1' } else { b'0' }),
            Field::Float16(x) => write!(text, "{:?}", f64::from(*x))?,
            Field::Float(x) => write!(text, "{:?}", f64::from(*x))?,
            Field::Double(x) => write!(text, "{x:?}")?,
            Field::Byte(_) | Field::Short(_) | Field::Int(_) | Field::Long(_) | Field::Decimal(_) => {
                write!(text, "{field}")?
            }
            Field::UByte(_) | Field::UShort(_) | Field::UInt(_) | Field::ULong(_) => write!(text, "{field}")?,
            Field::Str(x) => push_quoted(text, x),
            other => push_quoted(text, &other.to_string()),
        }
    }
    text.push(b'\n');
    Ok(())
}

fn push_separator(text: &mut Vec<u8>, at: usize) {
    if at > 0 {
        text.push(b',');
    }
}

fn push_quoted(text: &mut Vec<u8>, value: &str) {
    text.push(b'"');
    text.extend(value.replace('"', "\"\"").as_bytes());
    text.push(b'"');
}
