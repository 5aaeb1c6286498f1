//! How messages show places, names and values.

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

/// The names most like the one that was not found, as part of a sentence; empty if none is like it.
pub(crate) fn did_you_mean(name: &str, known: &[String]) -> String {
    const NAMES: usize = 3;
    let plain = |name: &str| name.trim().to_lowercase().replace([' ', '_', '.'], "-");
    let wanted: Vec<char> = plain(name).chars().take(60).collect();
    // A third of the letters may be wrong.
    let most = wanted.len() / 3;
    let distance = |other: &String| {
        let other: Vec<char> = plain(other).chars().take(60).collect();
        let begins = wanted.len() > 2 && (other.starts_with(&wanted) || wanted.starts_with(&other) && other.len() > 2);
        let distance = edits(&wanted, &other);
        if begins { distance.min(most) } else { distance }
    };
    let mut near: Vec<(usize, &String)> = known.iter().map(|other| (distance(other), other)).collect();
    let least = near.iter().map(|(distance, _)| *distance).min().unwrap_or(0).min(most);
    near.retain(|(distance, _)| *distance == least);
    let near = near.iter().take(NAMES).map(|(_, name)| format!("`{}`", shown(name.as_bytes()))).collect::<Vec<_>>();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// Letters to insert, remove, replace or swap to turn one word into the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    (0..=a.len()).for_each(|i| rows[i][0] = i);
    (0..=b.len()).for_each(|j| rows[0][j] = j);
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
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
    fn names_that_are_nearly_right_are_suggested() {
        let known = ["age", "weight", "Blood Pressure", "income_2019", "income_2020"].map(String::from);
        for (name, expected) in [
            ("wieght", "; did you mean `weight`?"),
            ("Age", "; did you mean `age`?"),
            ("blood_pressure", "; did you mean `Blood Pressure`?"),
            ("income", "; did you mean `income_2019` or `income_2020`?"),
            ("y", ""),
            ("colour", ""),
        ] {
            assert_eq!(did_you_mean(name, &known), expected, "{name}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let names = Names((0..25).map(|i| format!("x{i}")).collect());
        assert!(names.to_string().ends_with("`x19` and 5 more"), "{names}");
    }
}
