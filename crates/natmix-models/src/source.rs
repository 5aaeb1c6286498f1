//! Opens a file that may be compressed: gzip is recognised by its first bytes, whatever the file name. A name with `*` or `?` stands
//! for several files, which are the parts of one table. With the feature `parquet` files of that kind become text.

#[cfg(feature = "parquet")]
mod parquet_text;
mod parts;

pub use parts::files;

use crate::error::DataError;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

/// A file open for reading, decompressed on the fly.
pub struct DataSource {
    /// The bytes, decompressed.
    pub reader: Box<dyn Read + Send>,
    /// Whether the file is gzip, or of another kind whose text is larger than itself.
    pub compressed: bool,
    /// Bytes on disk; none for pipes, which have no known size and cannot be read twice.
    pub size: Option<u64>,
}

impl std::fmt::Debug for DataSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("compressed", &self.compressed).field("size", &self.size).finish()
    }
}

impl DataSource {
    /// Opens a file, or all parts of a table that is in several.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        match files(path)? {
            several if several.len() > 1 => parts::open(several),
            one => Self::open_one(one.first().map_or(path, |file| file)),
        }
    }

    fn open_one(path: &Path) -> Result<Self, DataError> {
        let failed = |source| DataError::Io { file: path.into(), source };
        let mut file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            let problem = "this is a folder, but a file is needed here (name the file in it)".into();
            return Err(DataError::BadFile { file: path.into(), problem });
        }
        let mut magic = Vec::new();
        file.by_ref().take(2).read_to_end(&mut magic).map_err(failed)?;
        let compressed = magic == [0x1f, 0x8b];
        #[cfg(feature = "parquet")]
        if magic == *b"PA" && is_parquet(path).map_err(failed)? {
            // Opened again, from the start: its contents are found from its end.
            let text = File::open(path).and_then(parquet_text::ParquetText::new).map_err(failed)?;
            return Ok(DataSource { reader: Box::new(text), compressed: true, size: Some(about.len()) });
        }
        let whole = Cursor::new(magic).chain(file);
        let reader: Box<dyn Read + Send> =
            if compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(DataSource { reader, compressed, size: about.is_file().then_some(about.len()) })
    }

    /// Upper bound of the decompressed size: deflate compresses by a factor of at most 1032.
    pub fn most_bytes(&self) -> u64 {
        let factor = if self.compressed { 1032 } else { 1 };
        self.size.map_or(u64::MAX, |size| size.saturating_mul(factor))
    }
}

/// Whether a file begins as those of Parquet do.
#[cfg(feature = "parquet")]
fn is_parquet(path: &Path) -> std::io::Result<bool> {
    let mut magic = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut magic)?;
    Ok(magic == *b"PAR1")
}

/// The error for a failed read; for compressed files it says that the data is damaged.
pub fn read_error(file: &Path, compressed: bool, source: std::io::Error) -> DataError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    if compressed && matches!(source.kind(), InvalidData | InvalidInput | UnexpectedEof) {
        let problem = format!("the gzip data is damaged or cut short: {source} (copy or download the file again)");
        return DataError::BadFile { file: file.into(), problem };
    }
    DataError::Io { file: file.into(), source }
}
