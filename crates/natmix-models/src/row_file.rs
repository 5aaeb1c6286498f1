//! Tables larger than memory: rows are encoded once and stored on disk, from where a model reads them as needed.
//!
//! The file holds one record per row, in native byte order: features, outcome, offset and weight (the last two
//! where the table has them). It is unlinked as soon as it is open, so that nothing is left behind, however the
//! program ends.
//!
//! ```
//! use natmix_models::design::{DesignOptions, OutcomeKind};
//! use natmix_models::table::TableFile;
//! use natmix_models::{RegressionKind, Regression};
//! let folder = std::env::temp_dir();
//! let path = folder.join(format!("natmix-doc-store-{}.csv", std::process::id()));
//! std::fs::write(&path, "x,y\n1,0\n2,1\n3,1\n").unwrap();
//! let file = TableFile::open(&path, &[]).unwrap();
//! let options = DesignOptions { outcome: Some("y".into()), ..DesignOptions::default() };
//! let (encoding, _) = file.encoding(&options).unwrap();
//! let (rows, classes) = file.store(&encoding, OutcomeKind::Logistic, &folder).unwrap();
//! let model = Regression::new(RegressionKind::Logistic, rows, &[2.5]).unwrap();
//! assert_eq!((classes, model.target().dim(), model.data().rows()), (2, 2, 3));
//! # std::fs::remove_file(&path).unwrap();
//! ```

use crate::design::{EncodedRows, Encoding, OutcomeCheck, OutcomeKind, no_outcome};
use crate::error::DataError;
use crate::observations::{Observations, RowSource, StoredRows};
use crate::ranks::{Ranks, SharedRows};
use crate::table::{Origin, TableFile, reserve};
use natmix::target::TargetError;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows that are encoded at once.
const ROWS_AT_ONCE: usize = 4096;

/// Records on disk.
#[derive(Debug)]
struct RowFile {
    file: File,
    /// Numbers per record.
    width: usize,
}

impl RowSource for RowFile {
    fn read(&self, first: usize, records: &mut [f64]) -> Result<(), TargetError> {
        let start = (first * self.width * size_of::<f64>()) as u64;
        read_exact_at(&self.file, bytemuck::cast_slice_mut(records), start)
            .map_err(|source| format!("cannot read the rows that are stored on disk: {source}").into())
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, start)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => (bytes, start) = (&mut bytes[count..], start + count as u64),
        }
    }
    Ok(())
}

/// Opens a file in `folder` for reading and writing, and unlinks it.
fn unlinked_file(folder: &Path) -> std::io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path: PathBuf = folder.join(format!(".natmix-rows-{}-{number}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

impl TableFile {
    /// Bytes that [`TableFile::store`] takes on disk; an encoded table in memory takes as many.
    pub fn encoded_bytes(&self, encoding: &Encoding) -> u64 {
        (self.rows() as u64).saturating_mul((record_width(encoding) * size_of::<f64>()) as u64)
    }

    /// Encodes all rows into an unlinked file in `folder`, and checks that the outcome suits a model of this `kind`; also
    /// returns the number of classes, 1 for numbers.
    pub fn store(
        &self,
        encoding: &Encoding,
        kind: OutcomeKind,
        folder: &Path,
    ) -> Result<(StoredRows, usize), DataError> {
        let bytes = self.encoded_bytes(encoding);
        let failed = |source| DataError::NotStored { folder: folder.into(), bytes, source };
        let mut out = BufWriter::with_capacity(1 << 18, unlinked_file(folder).map_err(failed)?);
        let mut record = Vec::new();
        let classes = self.encode(encoding, kind, |rows| {
            let outcome = rows.outcome.as_deref().unwrap_or_default();
            for (row, x) in rows.x.chunks_exact(rows.dim).enumerate() {
                record.clear();
                record.extend_from_slice(x);
                record.push(outcome[row]);
                record.extend(rows.offset.as_ref().map(|offset| offset[row]));
                record.extend(rows.weights.as_ref().map(|weights| weights[row]));
                out.write_all(bytemuck::cast_slice(&record)).map_err(failed)?;
            }
            Ok(())
        })?;
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        let source = RowFile { file, width: record_width(encoding) };
        let stored = StoredRows::new(source, self.rows(), encoding.names());
        let mut stored = stored.map_err(|_| DataError::NoRows { file: self.path().into() })?;
        let (offset, weights) = has(encoding);
        if offset {
            stored = stored.with_offset();
        }
        if weights {
            stored = stored.with_weights();
        }
        Ok((stored, classes))
    }

    /// Encodes all rows, checks that the outcome suits a model of this `kind`, and keeps those that `ranks` leaves to this process;
    /// also returns the number of classes, 1 for numbers. Waits for no other process.
    pub(crate) fn keep(
        &self,
        encoding: &Encoding,
        kind: OutcomeKind,
        ranks: &Ranks,
    ) -> Result<(Option<Observations>, usize), DataError> {
        let own = SharedRows::share(ranks, self.rows());
        let (dim, path) = (encoding.dim(), self.path());
        let (mut x, mut lists) = (Vec::new(), [const { Vec::new() }; 3]);
        reserve(path, &mut x, own.len() * dim)?;
        let mut first = 0;
        let classes = self.encode(encoding, kind, |rows| {
            let here =
                own.start.clamp(first, first + rows.rows) - first..own.end.clamp(first, first + rows.rows) - first;
            first += rows.rows;
            x.extend_from_slice(&rows.x[here.start * dim..here.end * dim]);
            for (list, from) in lists.iter_mut().zip([&rows.outcome, &rows.offset, &rows.weights]) {
                let Some(from) = from else { continue };
                if list.is_empty() && !here.is_empty() {
                    reserve(path, list, own.len())?;
                }
                list.extend_from_slice(&from[here.clone()]);
            }
            Ok(())
        })?;
        if own.is_empty() {
            return Ok((None, classes));
        }
        let [outcome, offset, weights] = lists;
        // Rows that were encoded and checked make a table.
        let bad = |error: natmix::Error| DataError::BadTable { file: path.into(), problem: error.to_string() };
        let mut table =
            Observations::new(x, dim, outcome).and_then(|table| table.with_names(encoding.names())).map_err(bad)?;
        let (has_offset, has_weights) = has(encoding);
        if has_offset {
            table = table.with_offset(offset).map_err(bad)?;
        }
        if has_weights {
            table = table.with_weights(weights).map_err(bad)?;
        }
        Ok((Some(table), classes))
    }

    /// Hands encoded rows to `take`, some at a time; returns the number of classes of the outcome.
    fn encode(
        &self,
        encoding: &Encoding,
        kind: OutcomeKind,
        mut take: impl FnMut(&EncodedRows) -> Result<(), DataError>,
    ) -> Result<usize, DataError> {
        let about = encoding.outcome.as_ref().ok_or_else(|| no_outcome(self.path()))?;
        let mut check = OutcomeCheck::new(kind, about);
        for chunk in self.chunks(ROWS_AT_ONCE)? {
            let rows = encoding.encode(chunk?)?;
            check.add(rows.outcome.as_deref().unwrap_or_default(), &rows.origin);
            refuse_overflow(&rows, encoding)?;
            take(&rows)?;
        }
        check.finish(&Origin::label(&self.path().to_string_lossy()))
    }
}

/// Whether records have an offset, and a weight.
pub(crate) fn has(encoding: &Encoding) -> (bool, bool) {
    (encoding.offset.is_some() || encoding.exposure.is_some(), encoding.weights.is_some())
}

fn record_width(encoding: &Encoding) -> usize {
    let (offset, weights) = has(encoding);
    encoding.dim() + 1 + usize::from(offset) + usize::from(weights)
}

/// Finite numbers of the file can overflow when they are centred and scaled.
fn refuse_overflow(rows: &EncodedRows, encoding: &Encoding) -> Result<(), DataError> {
    let bad = |list: &[f64]| list.iter().position(|x| !x.is_finite());
    let (row, column, value) = match (bad(&rows.x), rows.offset.as_deref().and_then(bad)) {
        (Some(at), _) => (at / rows.dim, encoding.names().swap_remove(at % rows.dim), rows.x[at]),
        (None, Some(row)) => (row, "offset".into(), f64::INFINITY),
        (None, None) => return Ok(()),
    };
    let (file, place) = (rows.origin.file.clone(), rows.origin.place(row));
    let problem = "is its value after centring and scaling (change its unit, or use --no-standardize)".into();
    Err(DataError::BadValue { file, place, column, value, problem })
}
