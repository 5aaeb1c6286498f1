//! Tables larger than memory: one pass to check and summarise the file, then blocks of rows as often as needed.

use super::facts::TableFacts;
use super::levels::Levels;
use super::moments::{ColumnMoments, Summary};
use super::numeral::Decimal;
use super::options::ReadOptions;
use super::rows::{ColumnKind, RowReader};
use super::{Origin, Table, reserve};
use crate::error::DataError;
use crate::source::DataSource;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Rows that the first pass holds in memory at once.
const PASS_ROWS: usize = 4096;

/// A CSV file that stays on disk and is read in blocks of rows.
///
/// ```
/// use natmix_models::table::TableFile;
/// let path = std::env::temp_dir().join(format!("natmix-doc-chunks-{}.csv", std::process::id()));
/// std::fs::write(&path, "x,y\n1,10\n2,20\n3,30\n").unwrap();
/// let file = TableFile::open(&path, &[]).unwrap();
/// for _epoch in 0..2 {
///     let blocks = file.chunks(2).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
///     assert_eq!(blocks.iter().map(|block| block.rows).collect::<Vec<_>>(), [2, 1]);
///     assert_eq!(blocks[1].values, [3.0, 30.0]);
/// }
/// # std::fs::remove_file(&path).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct TableFile {
    path: PathBuf,
    options: ReadOptions,
    /// Names of all columns of the file, and for those that are kept their position among these.
    header: Vec<(String, Option<usize>)>,
    decimal: Decimal,
    names: Vec<String>,
    rows: usize,
    levels: BTreeMap<usize, Vec<String>>,
    /// Levels of dropped rows only.
    unused: BTreeMap<usize, Vec<String>>,
    summaries: Vec<Summary>,
    facts: TableFacts,
}

impl TableFile {
    /// Reads the file once from start to end: does every check of [`Table::read`], and finds levels, means and standard deviations.
    pub fn open(path: &Path, categorical: &[String]) -> Result<TableFile, DataError> {
        Self::open_with(path, &ReadOptions::with_categorical(categorical))
    }

    /// The same, with every check of [`Table::read_with`].
    pub fn open_with(path: &Path, options: &ReadOptions) -> Result<TableFile, DataError> {
        let source = DataSource::open(path)?;
        if source.size.is_none() {
            let problem = "this is a pipe, which cannot be read more than once (save it to a file first)".into();
            return Err(DataError::BadFile { file: path.into(), problem });
        }
        let mut reader = RowReader::open(path, source, options, |names| options.kinds(path, names))?;
        let width = reader.width();
        let mut block = Vec::with_capacity(width * PASS_ROWS.min((1 << 24) / width).max(1));
        let mut moments = ColumnMoments::new(width);
        while reader.read_row(&mut block)? {
            if block.len() + width > block.capacity() {
                moments.add(&block);
                block.clear();
            }
        }
        moments.add(&block);
        reader.finish()?;
        let (mut levels, mut unused) = (BTreeMap::new(), BTreeMap::new());
        for (column, sorted) in reader.sorted_levels()? {
            levels.insert(column, sorted.names);
            unused.insert(column, sorted.unused);
        }
        Ok(TableFile {
            path: path.into(),
            options: options.clone(),
            header: reader.header(),
            decimal: reader.decimal(),
            names: reader.names(),
            rows: reader.kept_rows() as usize,
            levels,
            unused,
            summaries: moments.finish(),
            facts: reader.facts(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Levels of the categorical columns, by position of the column.
    pub fn levels(&self) -> &BTreeMap<usize, Vec<String>> {
        &self.levels
    }

    /// What was found while it was read.
    pub fn facts(&self) -> &TableFacts {
        &self.facts
    }

    pub(crate) fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    /// The rows from the first on, in tables of `rows` rows (the last one may be shorter). Call it once per epoch.
    ///
    /// # Panics
    /// If `rows` is 0.
    pub fn chunks(&self, rows: usize) -> Result<Chunks, DataError> {
        assert!(rows > 0, "a chunk needs at least one row");
        let kinds = |names: &[String]| {
            if !names.iter().eq(self.header.iter().map(|(name, _)| name)) {
                return Err(self.changed("its header is different".into()));
            }
            let kind = |kept: Option<usize>| {
                let Some(kept) = kept else { return ColumnKind::Skip };
                let Some(levels) = self.levels.get(&kept) else { return ColumnKind::Number };
                let unused = self.unused.get(&kept).map(Vec::as_slice).unwrap_or_default();
                ColumnKind::Category(Levels::known(&[levels, unused].concat(), true))
            };
            Ok(self.header.iter().map(|(_, kept)| kind(*kept)).collect())
        };
        let reader = RowReader::open(&self.path, DataSource::open(&self.path)?, &self.options, kinds)?;
        let reader = reader.with_decimal(self.decimal);
        Ok(Chunks { file: self.clone(), reader, rows, done: false })
    }

    fn changed(&self, problem: String) -> DataError {
        DataError::Changed { file: self.path.clone(), problem }
    }
}

/// Blocks of rows of a [`TableFile`]; ends after the first error.
pub struct Chunks {
    file: TableFile,
    reader: RowReader,
    rows: usize,
    done: bool,
}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks").field("file", &self.file.path).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Chunks {
    fn read(&mut self) -> Result<Option<Table>, DataError> {
        let (file, before) = (&self.file, self.reader.rows());
        let left = file.rows.saturating_sub(self.reader.kept_rows() as usize);
        let mut values = Vec::new();
        reserve(&file.path, &mut values, self.rows.min(left).saturating_mul(file.names.len()))?;
        let mut rows = 0;
        while rows < self.rows && self.reader.read_row(&mut values)? {
            if rows == left {
                return Err(file.changed(format!("it has more than the {} rows it had", file.rows)));
            }
            rows += 1;
        }
        self.reader.check_missing()?;
        if rows < self.rows.min(left) {
            return Err(file.changed(format!("it has {} rows instead of {}", self.reader.kept_rows(), file.rows)));
        }
        let origin = Origin {
            file: file.path.clone(),
            rows_before: before,
            lines_known: self.reader.one_line_per_row(),
            dropped: self.reader.take_dropped_rows(),
        };
        let (names, levels, facts) = (file.names.clone(), file.levels.clone(), file.facts.clone());
        Ok((rows > 0).then_some(Table { origin, names, rows, values, levels, facts }))
    }
}

impl Iterator for Chunks {
    type Item = Result<Table, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.read().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}
