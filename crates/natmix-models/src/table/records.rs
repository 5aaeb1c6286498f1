//! Splits a CSV stream into records, in a buffer of fixed size that grows only for a record longer than itself.
//!
//! A record without quotes is returned as it is; one with quotes is split into fields here, because only parsing shows where it
//! ends. A quote opens a quoted field only at the start of the field; elsewhere it is an ordinary character.

use super::decode::Utf16;
use super::dialect::{Dialect, SAMPLE, look_at};
use crate::error::DataError;
use crate::source::{DataSource, read_error};
use memchr::memchr2;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

const BLOCK: usize = 256 * 1024;

/// Longest record: a longer one has a quote that is never closed, or the file is not CSV.
const LONGEST_RECORD: usize = 16 * 1024 * 1024;

/// Fields of a record that had quotes, in sequence, without the quotes.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end_field(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// One record, without its line end.
pub(crate) enum TableRecord<'a> {
    /// Without quotes.
    Plain {
        /// All fields.
        text: &'a [u8],
        /// What separates them.
        separator: u8,
    },
    /// Split into fields.
    Quoted(&'a Fields),
}

impl TableRecord<'_> {
    /// Whether no field holds anything.
    pub fn is_blank(&self) -> bool {
        match self {
            TableRecord::Plain { text, separator } => {
                text.iter().all(|byte| byte == separator || byte.is_ascii_whitespace())
            }
            // A quoted field that is alone may be a value.
            TableRecord::Quoted(fields) => fields.len() > 1 && fields.iter().all(|field| field.trim_ascii().is_empty()),
        }
    }

    pub fn field_count(&self) -> usize {
        match self {
            TableRecord::Plain { text, separator } => memchr::memchr_iter(*separator, text).count() + 1,
            TableRecord::Quoted(fields) => fields.len(),
        }
    }

    /// Calls `visit` with every field in order.
    pub fn for_each(&self, visit: impl FnMut(&[u8])) {
        match self {
            TableRecord::Plain { text, separator } => text.split(|byte| byte == separator).for_each(visit),
            TableRecord::Quoted(fields) => fields.iter().for_each(visit),
        }
    }
}

/// Result of a search for the end of a record.
pub(crate) enum FoundRecord {
    /// A record without quotes: its length without and with the line end.
    Plain { length: usize, used: usize },
    /// A record with quotes, now in `fields`: its length with the line end, and the line ends in it.
    Quoted { used: usize, lines: u64 },
    /// The record continues beyond the buffer.
    Unfinished,
    /// A closing quote is followed by something other than a separator.
    TextAfterQuote,
    /// The stream ends inside quotes.
    OpenQuote,
}

/// The records of a stream.
pub(crate) struct Records {
    file: PathBuf,
    source: DataSource,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    line: u64,
    next_line: u64,
    record: Option<Range<usize>>,
    fields: Fields,
    /// How records are separated.
    pub dialect: Dialect,
    /// Fields of the first row, and whether the last one is empty.
    pub first_row: Option<(usize, bool)>,
    /// Whether the file is UTF-16.
    pub utf16: bool,
}

impl Records {
    /// Starts at the header; refuses files that are clearly not tables of text.
    pub fn new(file: &Path, source: DataSource) -> Result<Self, DataError> {
        let mut records = Records {
            file: file.into(),
            source,
            buffer: vec![0; BLOCK],
            start: 0,
            end: 0,
            at_end: false,
            line: 1,
            next_line: 1,
            record: None,
            fields: Fields::default(),
            dialect: Dialect { separator: b',', line_end: b'\n' },
            first_row: None,
            utf16: false,
        };
        while !records.at_end && records.end < 8 {
            records.fill()?;
        }
        let head = &records.buffer[..records.end];
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = head {
            let (big, rest) = (head[0] == 0xfe, head[2..].to_vec());
            let source = std::mem::replace(&mut records.source.reader, Box::new(std::io::empty()));
            records.source.reader = Box::new(Utf16::new(std::io::Cursor::new(rest).chain(source), big));
            (records.utf16, records.end, records.at_end) = (true, 0, false);
        }
        let other_kind = match &records.buffer[..records.end] {
            [b'P', b'K', 3, 4, ..] => "a zip archive or a spreadsheet (.xlsx); export the table as CSV",
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', ..] | [b'B', b'Z', b'h', b'1'..=b'9', 0x31, ..] => {
                "compressed, but not with gzip; decompress it first"
            }
            [b'P', b'A', b'R', b'1', ..] => {
                "a Parquet file; build natmix with `--features parquet` to read it, or export the table as CSV (in Python, pass the data frame)"
            }
            [0x93, b'N', b'U', b'M', ..] => "a NumPy array; export the table as CSV",
            _ => "",
        };
        if !other_kind.is_empty() {
            let problem = format!("this is not a CSV file, but looks like {other_kind}");
            return Err(DataError::BadFile { file: file.into(), problem });
        }
        if records.buffer[..records.end].starts_with(b"\xef\xbb\xbf") {
            records.start = 3;
        }
        while !records.at_end && records.end < SAMPLE {
            records.fill()?;
        }
        let sample = &records.buffer[records.start..records.end.min(SAMPLE)];
        let beginning = look_at(file, sample, records.at_end && records.end <= SAMPLE)?;
        records.start += beginning.skip.0;
        records.next_line += beginning.skip.1;
        (records.dialect, records.first_row) = (beginning.dialect, beginning.first_row);
        Ok(records)
    }

    /// Advances to the next record; false at the end of the stream.
    pub fn advance(&mut self) -> Result<bool, DataError> {
        self.line = self.next_line;
        loop {
            let rest = &self.buffer[self.start..self.end];
            if rest.is_empty() && self.at_end {
                return Ok(false);
            }
            let problem = match find_record(rest, self.at_end, self.dialect, &mut self.fields) {
                FoundRecord::Plain { length, used } => {
                    let text = &rest[..length];
                    let text = text.strip_suffix(b"\r").unwrap_or(text);
                    self.record = Some(self.start..self.start + text.len());
                    self.start += used;
                    self.next_line += 1;
                    return Ok(true);
                }
                FoundRecord::Quoted { used, lines } => {
                    self.record = None;
                    self.start += used;
                    self.next_line += lines;
                    return Ok(true);
                }
                FoundRecord::Unfinished if rest.len() < LONGEST_RECORD => {
                    self.fill()?;
                    continue;
                }
                FoundRecord::Unfinished => {
                    "there is no end within 16 MiB (is a double quote never closed, or is this not a CSV file?)"
                }
                FoundRecord::TextAfterQuote => {
                    "text follows a closing double quote (a double quote inside quoted text must be doubled: \"\")"
                }
                FoundRecord::OpenQuote => "a double quote is opened, but never closed (close it, or remove it)",
            };
            return Err(DataError::Quotes { file: self.file.clone(), line: self.line, problem: problem.into() });
        }
    }

    /// The current record.
    pub fn record(&self) -> TableRecord<'_> {
        match &self.record {
            Some(range) => TableRecord::Plain { text: &self.buffer[range.clone()], separator: self.dialect.separator },
            None => TableRecord::Quoted(&self.fields),
        }
    }

    /// Line at which the record starts, counted from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads more bytes after the unread rest of the buffer.
    fn fill(&mut self) -> Result<(), DataError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            // Doubling keeps repeated searches of a long record linear in its length.
            self.buffer.resize(2 * self.end, 0);
        }
        loop {
            match self.source.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read_error(&self.file, self.source.compressed, error)),
            }
            return Ok(());
        }
    }
}

/// Searches for the end of the record at the start of `text`, which is the end of the stream if `last`.
#[inline]
pub(crate) fn find_record(text: &[u8], last: bool, dialect: Dialect, fields: &mut Fields) -> FoundRecord {
    match memchr2(dialect.line_end, b'"', text) {
        Some(length) if text[length] != b'"' => FoundRecord::Plain { length, used: length + 1 },
        Some(_) => find_quoted(text, last, dialect, fields),
        None if last => FoundRecord::Plain { length: text.len(), used: text.len() },
        None => FoundRecord::Unfinished,
    }
}

fn find_quoted(text: &[u8], last: bool, dialect: Dialect, fields: &mut Fields) -> FoundRecord {
    #[derive(PartialEq)]
    enum QuoteState {
        Start,
        Plain,
        InQuotes,
        AfterQuote,
    }
    let Dialect { separator, line_end } = dialect;
    fields.clear();
    let (mut state, mut lines) = (QuoteState::Start, 1);
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        at += 1;
        match (&state, byte) {
            (QuoteState::InQuotes, b'"') => state = QuoteState::AfterQuote,
            (QuoteState::InQuotes, _) => {
                lines += u64::from(byte == line_end);
                fields.bytes.push(byte);
            }
            // A doubled quote: the presumed closing quote is a quote in the text.
            (QuoteState::AfterQuote, b'"') if text[at - 2] == b'"' => {
                fields.bytes.push(b'"');
                state = QuoteState::InQuotes;
            }
            (_, byte) if byte == separator => {
                fields.end_field();
                state = QuoteState::Start;
            }
            (_, byte) if byte == line_end => {
                if state == QuoteState::Plain && fields.bytes.last() == Some(&b'\r') {
                    fields.bytes.pop();
                }
                fields.end_field();
                return FoundRecord::Quoted { used: at, lines };
            }
            (QuoteState::Start | QuoteState::AfterQuote, b' ' | b'\t' | b'\r') => {}
            (QuoteState::AfterQuote, _) => return FoundRecord::TextAfterQuote,
            (QuoteState::Start, b'"') => state = QuoteState::InQuotes,
            (QuoteState::Start | QuoteState::Plain, _) => {
                fields.bytes.push(byte);
                state = QuoteState::Plain;
            }
        }
    }
    match (last, state) {
        (false, _) => FoundRecord::Unfinished,
        (true, QuoteState::InQuotes) => FoundRecord::OpenQuote,
        (true, _) => {
            fields.end_field();
            FoundRecord::Quoted { used: at, lines }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time, so that every record crosses the end of the buffer.
    struct Slow(Vec<u8>, usize);

    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let Some(byte) = self.0.get(self.1) else { return Ok(0) };
            out[0] = *byte;
            self.1 += 1;
            Ok(1)
        }
    }

    type Seen = Vec<(u64, Vec<String>)>;

    fn records(reader: impl Read + Send + 'static) -> Result<Seen, DataError> {
        let source = DataSource { reader: Box::new(reader), compressed: false, size: None };
        let mut records = Records::new(Path::new("a.csv"), source)?;
        let mut all = Vec::new();
        while records.advance()? {
            let mut fields = Vec::new();
            records.record().for_each(|field| fields.push(String::from_utf8_lossy(field).into_owned()));
            assert_eq!(fields.len(), records.record().field_count());
            all.push((records.line(), fields));
        }
        Ok(all)
    }

    fn both_ways(text: &str) -> Result<Seen, String> {
        let fast = records(std::io::Cursor::new(text.as_bytes().to_vec())).map_err(|e| e.to_string());
        let slow = records(Slow(text.as_bytes().to_vec(), 0)).map_err(|e| e.to_string());
        assert_eq!(fast, slow);
        fast
    }

    #[test]
    fn quotes_commas_line_ends_and_line_numbers() {
        let text = "\u{feff}a,\"b,\"\"c\"\"\"\r\n\"x\ny\", \"z\" \r\n1,5\" pipe\r\n\"\",2\n3,";
        let expected = vec![
            (1, vec!["a", "b,\"c\""]),
            (2, vec!["x\ny", "z"]),
            (4, vec!["1", "5\" pipe"]),
            (5, vec!["", "2"]),
            (6, vec!["3", ""]),
        ];
        let expected: Vec<(u64, Vec<String>)> =
            expected.into_iter().map(|(line, fields)| (line, fields.into_iter().map(String::from).collect())).collect();
        assert_eq!(both_ways(text).unwrap(), expected);
        assert_eq!(both_ways("").unwrap(), vec![]);
    }

    #[test]
    fn quotes_that_do_not_pair_up() {
        let open = both_ways("a,b\n1,\"x\n2,3\n").unwrap_err();
        assert!(open.contains("starts at line 2") && open.contains("never closed"), "{open}");
        let after = both_ways("a,b\n\"x\"y,1\n").unwrap_err();
        assert!(after.contains("line 2") && after.contains("must be doubled"), "{after}");
        let apart = both_ways("a,b\n\"x\" \"y\",1\n").unwrap_err();
        assert!(apart.contains("closing double quote"), "{apart}");
    }

    #[test]
    fn a_record_longer_than_the_buffer() {
        let long = format!("a\n{}\n\"{}\"\n2\n", "1".repeat(3 * BLOCK), "x".repeat(3 * BLOCK));
        let seen = records(std::io::Cursor::new(long.into_bytes())).unwrap();
        assert_eq!(seen.iter().map(|(_, fields)| fields[0].len()).collect::<Vec<_>>(), [1, 3 * BLOCK, 3 * BLOCK, 1]);
        let endless = format!("a\n\"{}", "x\n".repeat(LONGEST_RECORD));
        let error = records(std::io::Cursor::new(endless.into_bytes())).unwrap_err().to_string();
        assert!(error.contains("16 MiB"), "{error}");
    }
}
