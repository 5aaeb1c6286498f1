//! A table in several files: `part-*.csv` names them all, in alphabetical order, and each begins with the same header.

use crate::error::DataError;
use crate::source::DataSource;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// The files that a path names: those that match it, if its last part has a `*` or `?` and is no file itself.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.contains(['*', '?']) || path.exists() {
        return Ok(vec![path.into()]);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |source| DataError::Io { file: folder.into(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let matching = file.file_name().is_some_and(|own| matches(name.as_bytes(), own.to_string_lossy().as_bytes()));
        if matching && !file.is_dir() {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        let problem = "no file has such a name (* stands for any text, ? for one character)".into();
        return Err(DataError::BadFile { file: path.into(), problem });
    }
    Ok(found)
}

/// Whether `name` matches a pattern with `*` and `?`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => matches(rest, name) || !name.is_empty() && matches(pattern, &name[1..]),
        (Some((b'?', rest)), Some((_, others))) => matches(rest, others),
        (Some((wanted, rest)), Some((byte, others))) => wanted == byte && matches(rest, others),
        _ => false,
    }
}

/// Opens several files as one: the header of the first, then the rows of all.
pub(super) fn open(files: Vec<PathBuf>) -> Result<DataSource, DataError> {
    let mut files = VecDeque::from(files);
    let first = files.pop_front().unwrap_or_default();
    let DataSource { reader, mut compressed, mut size } = DataSource::open_one(&first)?;
    for file in &files {
        let about = DataSource::open_one(file)?;
        compressed |= about.compressed;
        size = size.zip(about.size).map(|(all, own)| all + own);
    }
    let (header, current) = split_header(reader).map_err(|source| DataError::Io { file: first.clone(), source })?;
    let current = Box::new(Cursor::new(header.clone()).chain(current));
    let reader = Box::new(Parts { header, current, first, left: files, line_open: false });
    Ok(DataSource { reader, compressed, size })
}

/// The bytes of a file, decompressed.
type Opened = Box<dyn Read + Send>;

/// Reads the first line of a file.
fn split_header(reader: Opened) -> io::Result<(Vec<u8>, BufReader<Opened>)> {
    let mut reader = BufReader::new(reader);
    let mut header = Vec::new();
    reader.read_until(b'\n', &mut header)?;
    Ok((header, reader))
}

/// A header without its line end and byte-order mark.
fn names(header: &[u8]) -> &[u8] {
    header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header).trim_ascii_end()
}

/// Reads one file after the other.
struct Parts {
    header: Vec<u8>,
    current: Opened,
    first: PathBuf,
    left: VecDeque<PathBuf>,
    /// Whether the last line so far has no end yet.
    line_open: bool,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.line_open = buffer[..count].last().is_some_and(|byte| *byte != b'\n');
                return Ok(count);
            }
            let Some(next) = self.left.pop_front() else { return Ok(0) };
            let source = DataSource::open_one(&next).map_err(io::Error::other)?;
            let (header, rows) = split_header(source.reader)?;
            if names(&header) != names(&self.header) {
                let [next, first] = [&next, &self.first].map(|file| file.display());
                let problem =
                    format!("{next} has other columns than {first}: all parts of a table begin with the same header");
                return Err(io::Error::other(problem));
            }
            let line_end = if self.line_open { &b"\n"[..] } else { &[] };
            self.current = Box::new(Cursor::new(line_end).chain(rows));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Table, TableFile};

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("part-*.csv", "part-1.csv", true),
            ("part-*.csv", "part-.csv", true),
            ("part-*.csv", "part-1.csv.gz", false),
            ("part-?.csv", "part-10.csv", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xbxxa", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn parts_are_one_table() {
        let folder = std::env::temp_dir().join(format!("natmix-parts-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        // With and without an end of the last line, with line ends of two kinds, and one without rows.
        write("part-1.csv", "x,y\n1,10\n2,20");
        write("part-2.csv", "x,y\n");
        write("part-3.csv", "x,y\r\n3,30\r\n");
        write("whole.csv", "x,y\n1,10\n2,20\n3,30\n");
        let pattern = folder.join("part-*.csv");
        let (parts, whole) =
            (Table::read(&pattern, &[]).unwrap(), Table::read(&folder.join("whole.csv"), &[]).unwrap());
        assert_eq!((&parts.names, parts.rows, &parts.values), (&whole.names, 3, &whole.values));
        let blocks = TableFile::open(&pattern, &[]).unwrap().chunks(2).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(blocks[1].values, [3.0, 30.0]);
        write("part-4.csv", "x,z\n4,40\n");
        let message = |pattern: &Path| {
            let error: Box<dyn std::error::Error> = Box::new(Table::read(pattern, &[]).unwrap_err());
            format!("{error} {}", error.source().map_or(String::new(), ToString::to_string))
        };
        assert!(message(&pattern).contains("part-4.csv has other columns than"), "{}", message(&pattern));
        assert!(message(&folder.join("nothing-*.csv")).contains("no file has such a name"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
