//! How a file is written: what separates its columns and lines, and where its header is. Read off its first rows.
//!
//! Commas come first: a file whose header and first rows have equally many fields when split at commas is read so, unless another
//! separator does the same and splits fields that commas leave together, or finds more of them. Lines that begin with `#` above the header are comments if they cannot be the header;
//! `sep=;`, which spreadsheets write and read, names the separator.

use super::number;
use super::numeral::{self, Decimal};
use super::records::{Fields, FoundRecord, TableRecord, find_record};
use crate::error::DataError;
use std::path::Path;

/// Separators of columns, in the order in which they are tried.
const SEPARATORS: [u8; 4] = *b",;\t|";
/// Bytes of the file that are looked at.
pub(crate) const SAMPLE: usize = 64 * 1024;
/// Rows that are compared with the header.
const ROWS: usize = 20;

/// How the records of a file are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub separator: u8,
    /// A carriage return if the file has no other line ends.
    pub line_end: u8,
}

impl Dialect {
    /// The separator in words.
    pub fn separator_name(self) -> &'static str {
        match self.separator {
            b',' => "comma",
            b';' => "semicolon",
            b'\t' => "tab",
            _ => "vertical bar",
        }
    }
}

/// What the first rows of a file show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    pub dialect: Dialect,
    /// Bytes and lines above the header.
    pub skip: (usize, u64),
    /// Fields of the first row, and whether the last one is empty; none if there is no row.
    pub first_row: Option<(usize, bool)>,
}

/// Looks at the beginning of a file; `all` if it is the whole file.
pub(crate) fn look_at(file: &Path, text: &[u8], all: bool) -> Result<Beginning, DataError> {
    let line_end = if !text.contains(&b'\n') && text.contains(&b'\r') { b'\r' } else { b'\n' };
    let by_comma = Dialect { separator: b',', line_end };
    let mut skip = (0, 0);
    let mut fields = Fields::default();
    let mut named = None;
    // Lines above the header.
    loop {
        let mut rows = Rows { text: &text[skip.0..], all, dialect: by_comma, fields: &mut fields };
        let Some(line) = rows.next(|record| First::of(&record)) else { break };
        let used = (text.len() - skip.0 - rows.text.len(), line.1);
        let next = |rows: &mut Rows| loop {
            match rows.next(|record| First::of(&record))? {
                (First { blank: true, .. } | First { comment: true, .. }, _) => {}
                (first, _) => return Some(first),
            }
        };
        match line.0 {
            First { blank: true, .. } => {}
            First { names: Some(separator), .. } if skip.1 == 0 => named = Some(separator),
            first if first.comment => {
                let Some(header) = next(&mut rows) else { break };
                let row = next(&mut rows);
                let another_is = match first.fields == header.fields {
                    true => header.numbers == 0 && (header.parts == 1 || row.is_some_and(|row| row.numbers > 0)),
                    false => header.numbers < header.parts,
                };
                if !another_is {
                    break;
                }
            }
            _ => break,
        }
        skip = (skip.0 + used.0, skip.1 + used.1);
    }
    let text = &text[skip.0..];
    if text.iter().take_while(|byte| **byte != line_end).any(|byte| *byte == 0) {
        let problem = "there are zero bytes in the header: this is not a CSV file, or UTF-16 text without a mark (save it as \
                       UTF-8)";
        return Err(DataError::BadFile { file: file.into(), problem: problem.into() });
    }
    let split = |separator| Split::new(text, all, Dialect { separator, line_end });
    let best = match named {
        Some(separator) => split(separator),
        None => {
            let splits = SEPARATORS.map(split);
            let usual = |split: &&Split| split.header > 1 && split.equal == split.rows;
            let rank = |split: &Split| (split.mixed, usize::MAX - split.header);
            let better = |best: Option<Split>, other: &Split| match best {
                Some(best) if rank(&best) <= rank(other) => Some(best),
                _ => Some(*other),
            };
            // For a file that cannot be read in any way, the separator that suits most rows gives the best message.
            let broken = |split: &&Split| split.header > 1 && (split.equal > 0 || split.rows == 0 || split.near > 0);
            let regular = splits.iter().filter(usual).fold(None, better);
            let irregular = || splits.iter().filter(broken).fold(None, better);
            regular.or_else(irregular).unwrap_or(splits[0])
        }
    };
    Ok(Beginning { dialect: best.dialect, skip, first_row: best.first_row })
}

/// The first rows, split at one separator.
#[derive(Clone, Copy)]
struct Split {
    dialect: Dialect,
    /// Fields of the header.
    header: usize,
    /// Rows, those with as many fields as the header, and those with one more or one fewer.
    rows: usize,
    equal: usize,
    near: usize,
    /// Fields of rows that have another separator in them, and are no numbers.
    mixed: usize,
    first_row: Option<(usize, bool)>,
}

impl Split {
    fn new(text: &[u8], all: bool, dialect: Dialect) -> Self {
        let mut split = Split { dialect, header: 0, rows: 0, equal: 0, near: 0, mixed: 0, first_row: None };
        let mut fields = Fields::default();
        let mut rows = Rows { text, all, dialect, fields: &mut fields };
        while split.rows < ROWS {
            let size = |record: TableRecord<'_>| {
                let (mut last_empty, mut mixed) = (false, 0);
                let is_other = |byte: &u8| *byte != dialect.separator && SEPARATORS.contains(byte);
                record.for_each(|field| {
                    last_empty = field.trim_ascii().is_empty();
                    let other = field.iter().any(is_other);
                    mixed += usize::from(other && numeral::read(field, dialect.separator, Decimal::Unknown).is_err());
                });
                (record.is_blank(), record.field_count(), last_empty, mixed)
            };
            let Some(((blank, count, last_empty, mixed), _)) = rows.next(size) else { break };
            match split.header {
                _ if blank => {}
                0 => split.header = count,
                header => {
                    split.rows += 1;
                    split.equal += usize::from(count == header);
                    split.mixed += mixed;
                    split.near += usize::from(count.abs_diff(header) == 1);
                    split.first_row.get_or_insert((count, last_empty));
                }
            }
        }
        split
    }
}

/// What a line above the header may be.
struct First {
    blank: bool,
    comment: bool,
    /// The separator that it names.
    names: Option<u8>,
    /// Its fields when split at commas, its parts when split at every separator, and how many of these are numbers.
    fields: usize,
    parts: usize,
    numbers: usize,
}

impl First {
    fn of(record: &TableRecord<'_>) -> Self {
        let (mut parts, mut numbers) = (0, 0);
        record.for_each(|field| {
            for part in field.split(|byte| SEPARATORS.contains(byte)) {
                (parts, numbers) = (parts + 1, numbers + usize::from(number::parse(part).is_some()));
            }
        });
        let (comment, names) = match record {
            TableRecord::Plain { text, .. } => {
                let named = text.trim_ascii_start().strip_prefix(b"sep=");
                let named = named.and_then(|rest| SEPARATORS.iter().find(|separator| rest == [**separator]));
                (text.starts_with(b"#"), named.copied())
            }
            TableRecord::Quoted(_) => (false, None),
        };
        First { blank: record.is_blank(), comment, names, fields: record.field_count(), parts, numbers }
    }
}

/// The complete records at the beginning of a text.
struct Rows<'a, 'b> {
    text: &'a [u8],
    all: bool,
    dialect: Dialect,
    fields: &'b mut Fields,
}

impl Rows<'_, '_> {
    /// What `see` finds in the next record, and its lines.
    fn next<T>(&mut self, see: impl FnOnce(TableRecord<'_>) -> T) -> Option<(T, u64)> {
        if self.text.is_empty() {
            return None;
        }
        let (seen, used, lines) = match find_record(self.text, self.all, self.dialect, self.fields) {
            FoundRecord::Plain { length, used } => {
                let text = &self.text[..length];
                let text = text.strip_suffix(b"\r").unwrap_or(text);
                (see(TableRecord::Plain { text, separator: self.dialect.separator }), used, 1)
            }
            FoundRecord::Quoted { used, lines } => (see(TableRecord::Quoted(self.fields)), used, lines),
            FoundRecord::Unfinished | FoundRecord::TextAfterQuote | FoundRecord::OpenQuote => return None,
        };
        self.text = &self.text[used..];
        Some((seen, lines))
    }
}
