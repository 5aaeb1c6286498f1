//! NumPy's `.npy` files: arrays of one or two dimensions, little-endian `f64`, `f32` or `i64`.
//!
//! A file is `\x93NUMPY`, a version, the length of the header (two bytes in version 1, four in 2 and 3), a header such as
//! `{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }`, and the values.
//!
//! ```
//! use natmix_models::npy::{self, Array, Order, Values};
//! let array = Array { shape: vec![2, 2], values: Values::F64(vec![1.0, 2.0, 3.0, 4.0]) };
//! let mut bytes = Vec::new();
//! npy::write(&mut bytes, &array, Order::Fortran).unwrap();
//! assert_eq!(bytes.len(), 128 + 32);
//! let back = npy::from_bytes("a.npy".as_ref(), &bytes).unwrap();
//! assert_eq!(back, array);
//! ```

mod header;

use crate::error::DataError;
use header::Header;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header: a longer one means that the file is damaged.
const MOST_HEADER: usize = 64 * 1024;

/// An array of one or two dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its values by row (C order), whatever the order in the file.
    pub values: Values,
}

/// The values of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Doubles, `<f8`.
    F64(Vec<f64>),
    /// Single precision, `<f4`.
    F32(Vec<f32>),
    /// Integers, `<i8`.
    I64(Vec<i64>),
}

/// The order of values in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row by row.
    C,
    /// Column by column.
    Fortran,
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::F64(values) => values.len(),
            Values::F32(values) => values.len(),
            Values::I64(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All as doubles; integers beyond 2^53 are rounded.
    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Values::F64(values) => values,
            Values::F32(values) => values.into_iter().map(f64::from).collect(),
            Values::I64(values) => values.into_iter().map(|value| value as f64).collect(),
        }
    }

    fn descr(&self) -> &'static str {
        match self {
            Values::F64(_) => "<f8",
            Values::F32(_) => "<f4",
            Values::I64(_) => "<i8",
        }
    }
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Array, DataError> {
    let failed = |source| DataError::Io { file: path.into(), source };
    let mut file = File::open(path).map_err(failed)?;
    // The header is checked against the length of the file before the values are read.
    let length = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    let most = (MAGIC.len() + 6 + MOST_HEADER) as u64;
    Read::by_ref(&mut file).take(most).read_to_end(&mut start).map_err(failed)?;
    let (header, from) = parse_header(path, &start)?;
    header.check_length(path, length.saturating_sub(from as u64))?;
    file.read_to_end(&mut start).map_err(failed)?;
    decode(path, &header, &start[from..])
}

/// Reads a file's bytes from memory; messages show `label` as the file.
pub fn from_bytes(label: &Path, bytes: &[u8]) -> Result<Array, DataError> {
    let (header, from) = parse_header(label, bytes)?;
    decode(label, &header, &bytes[from..])
}

/// Writes an array.
///
/// # Panics
/// If the shape does not have one or two dimensions, or does not match the number of values.
pub fn write(out: &mut impl Write, array: &Array, order: Order) -> std::io::Result<()> {
    let shape = &array.shape;
    assert!(matches!(shape.len(), 1 | 2), "{} dimensions", shape.len());
    assert_eq!(shape.iter().product::<usize>(), array.values.len(), "values for the shape {shape:?}");
    write_header(out, array.values.descr(), order, shape)?;
    match &array.values {
        Values::F64(values) => write_values(out, values, shape, order, f64::to_le_bytes),
        Values::F32(values) => write_values(out, values, shape, order, f32::to_le_bytes),
        Values::I64(values) => write_values(out, values, shape, order, i64::to_le_bytes),
    }
}

/// Writes rows of doubles without copying them.
///
/// # Panics
/// If `values` does not hold `rows` times `columns` values.
pub fn write_rows(out: &mut impl Write, rows: usize, columns: usize, values: &[f64]) -> std::io::Result<()> {
    assert_eq!(Some(values.len()), rows.checked_mul(columns), "values for {rows} x {columns}");
    write_header(out, "<f8", Order::C, &[rows, columns])?;
    write_values(out, values, &[rows, columns], Order::C, f64::to_le_bytes)
}

fn write_header(out: &mut impl Write, descr: &str, order: Order, shape: &[usize]) -> std::io::Result<()> {
    let fortran = if order == Order::Fortran { "True" } else { "False" };
    let sizes = match shape {
        [only] => format!("({only},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {sizes}, }}");
    // Spaces so that the values start at a multiple of 64 bytes, and a line end: as NumPy does.
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}

fn write_values<T: Copy, const N: usize>(
    out: &mut impl Write,
    values: &[T],
    shape: &[usize],
    order: Order,
    bytes: fn(T) -> [u8; N],
) -> std::io::Result<()> {
    // Buffered here: one call per value would be slow on a plain file.
    let mut buffer = Vec::with_capacity(64 * 1024);
    let columns = if order == Order::Fortran { shape.get(1).copied().unwrap_or(1) } else { 1 };
    for column in 0..columns {
        for value in values.iter().skip(column).step_by(columns) {
            buffer.extend_from_slice(&bytes(*value));
            if buffer.len() + N > buffer.capacity() {
                out.write_all(&buffer)?;
                buffer.clear();
            }
        }
    }
    out.write_all(&buffer)
}

fn parse_header(file: &Path, bytes: &[u8]) -> Result<(Header, usize), DataError> {
    let bad = |problem: &str| DataError::BadFile { file: file.into(), problem: problem.into() };
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(bad("this is not a .npy file (write it with numpy.save)"));
    };
    let (length, before) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        [1..=3, ..] | [] => return Err(bad("the file is cut short (copy it again)")),
        [version, ..] => return Err(bad(&format!("version {version} of .npy is not supported (1 to 3 are)"))),
    };
    if length > MOST_HEADER {
        return Err(bad(&format!("a header of {length} bytes is too long to be plausible")));
    }
    let text = rest.get(before..before + length).ok_or_else(|| bad("the file is cut short (copy it again)"))?;
    let header = Header::parse(text).map_err(|problem| bad(&problem))?;
    Ok((header, MAGIC.len() + before + length))
}

fn decode(file: &Path, header: &Header, bytes: &[u8]) -> Result<Array, DataError> {
    header.check_length(file, bytes.len() as u64)?;
    let values = match header.descr.as_str() {
        "<f8" => Values::F64(decode_values(header, bytes, f64::from_le_bytes)),
        "<f4" => Values::F32(decode_values(header, bytes, f32::from_le_bytes)),
        _ => Values::I64(decode_values(header, bytes, i64::from_le_bytes)),
    };
    Ok(Array { shape: header.shape.clone(), values })
}

fn decode_values<T, const N: usize>(header: &Header, bytes: &[u8], value: fn([u8; N]) -> T) -> Vec<T> {
    let (all, _) = bytes.as_chunks::<N>();
    match header.shape[..] {
        // Row i of the array consists of every `rows`-th value, starting at the i-th.
        [rows, _] if header.fortran_order && !all.is_empty() => {
            (0..rows).flat_map(|row| all.iter().skip(row).step_by(rows)).map(|bytes| value(*bytes)).collect()
        }
        _ => all.iter().map(|bytes| value(*bytes)).collect(),
    }
}
