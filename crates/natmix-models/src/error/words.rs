//! How messages show places, names and values.

use super::nearest::{did_you_mean, nearest};
use std::fmt;

/// Position of a row in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Data row, counted from 1; the header is not one.
    pub row: u64,
    /// Line of the file at which the row starts, counted from 1. Unknown for tables that did not come from a file, and after
    /// reading a file in which quoted text spans lines.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "row {} (line {line})", self.row),
            None => write!(f, "row {}", self.row),
        }
    }
}

/// How many columns of a list an error message shows.
const SHOWN_NAMES: usize = 20;

/// Names of columns or levels, as a message shows them: the first few, and how many more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Names {
    /// A question about those most like a name that is not among them.
    pub(super) fn like(&self, name: &str) -> String {
        did_you_mean(&nearest(name, self.0.iter().map(String::as_str)))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.iter().take(SHOWN_NAMES).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}`{}`", shown(name.as_bytes()))?;
        }
        match self.0.len().saturating_sub(SHOWN_NAMES) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// How many values are missing, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingValues {
    /// How many in each column that has any.
    pub columns: Vec<(String, u64)>,
    /// Where the first one is.
    pub place: Place,
    /// The column of the first one.
    pub column: String,
    /// The text found there.
    pub value: String,
}

impl MissingValues {
    /// The total.
    pub fn count(&self) -> u64 {
        self.columns.iter().map(|column| column.1).sum()
    }

    /// Columns with a count each, in words.
    pub(crate) fn list(columns: &[(String, u64)]) -> String {
        let one = |(name, count): &(String, u64)| format!("`{}` ({count})", shown(name.as_bytes()));
        let listed = columns.iter().take(SHOWN_NAMES).map(one).collect::<Vec<_>>().join(", ");
        match columns.len().saturating_sub(SHOWN_NAMES) {
            0 => listed,
            more => format!("{listed} and {more} more columns"),
        }
    }
}

impl fmt::Display for MissingValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.count() == 1 { "" } else { "s" };
        write!(f, "{} missing value{plural} in {}", self.count(), Self::list(&self.columns))?;
        write!(f, "; the first is `{}` in {}, column `{}`", self.value, self.place, shown(self.column.as_bytes()))
    }
}

/// A value as a message shows it: control characters escaped, cut after 60 characters.
pub(crate) fn shown(value: &[u8]) -> String {
    const LONGEST: usize = 60;
    // Cut before decoding: a field may be megabytes long. No character has more than 4 bytes.
    let text = String::from_utf8_lossy(&value[..value.len().min(4 * LONGEST)]);
    let mut shown: String = text.chars().take(LONGEST).flat_map(escaped).collect();
    if value.len() > 4 * LONGEST || text.chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    let text = if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_short_and_printable() {
        assert_eq!(shown(b"12,5"), "12,5");
        assert_eq!(shown(b"a\nb\x1b[0m"), "a\\nb\\u{1b}[0m");
        assert_eq!(shown("é".repeat(100).as_bytes()), format!("{}…", "é".repeat(60)));
        assert_eq!(shown(&[0xff; 3]), "\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn long_lists_are_cut() {
        let names = Names((0..25).map(|i| format!("x{i}")).collect());
        assert!(names.to_string().ends_with("`x19` and 5 more"), "{names}");
    }
}
