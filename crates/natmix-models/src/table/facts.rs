//! What was found while a table was read: how it is written, and what was decided about its columns and rows.

use crate::error::{MissingValues, shown};
use serde::{Deserialize, Serialize};

/// A column of text whose values are categories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextColumn {
    /// Its name.
    pub column: String,
    /// Number of its levels.
    pub levels: usize,
    /// The first level, with which the others are compared.
    pub reference: String,
}

/// Rows that were dropped because a value is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedRows {
    /// How many.
    pub rows: u64,
    /// Rows that the table had.
    pub of: u64,
    /// In how many rows a value is missing, for each column that has any.
    pub columns: Vec<(String, u64)>,
}

/// What was found while a table was read. Tables in memory have none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableFacts {
    /// What separates the columns: `comma`, `semicolon`, `tab` or `vertical bar`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub separator: String,
    /// Whether decimals have commas.
    #[serde(skip_serializing_if = "is_false", default)]
    pub decimal_commas: bool,
    /// The encoding, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub encoding: Option<String>,
    /// Columns of text, whose values are categories.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub text: Vec<TextColumn>,
    /// A column that counts the rows, and is used nevertheless.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub index: Option<String>,
    /// Columns without a name that were left out, with the reason: their positions, counted from 1.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<(usize, String)>,
    /// Blank lines among the rows.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub blank_lines: u64,
    /// Rows that were dropped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dropped: Option<DroppedRows>,
    /// Columns that were not used; not a part of records, which have the options.
    #[serde(skip)]
    pub skipped: Vec<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Names of this many columns are listed.
const LISTED: usize = 10;

impl TableFacts {
    /// What a person should know, one sentence each. The categories of the `outcome` are explained elsewhere.
    pub fn notes(&self, outcome: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        let separated = (self.separator != "comma" && !self.separator.is_empty())
            .then(|| format!("columns are separated by {}s", self.separator));
        let commas = self.decimal_commas.then(|| "decimals have commas".to_owned());
        let how: Vec<String> = separated.into_iter().chain(commas).collect();
        if !how.is_empty() {
            notes.push(how.join(", "));
        }
        match self.encoding.as_deref() {
            Some("Windows-1252") => notes.push(
                "there are bytes that are not UTF-8: read as Windows-1252 (save the file as UTF-8 if names look wrong)"
                    .into(),
            ),
            Some(encoding) => notes.push(format!("the file is {encoding} text")),
            None => {}
        }
        for (position, reason) in &self.left_out {
            notes.push(format!("column {position} has no name and {reason}: it is left out"));
        }
        if let Some(column) = &self.index {
            let column = shown(column.as_bytes());
            notes.push(format!(
                "column `{column}` counts the rows, and is used like any other (leave it out with --without {column})"
            ));
        }
        let text: Vec<&TextColumn> = self.text.iter().filter(|text| Some(text.column.as_str()) != outcome).collect();
        if !text.is_empty() {
            let one = |text: &&TextColumn| {
                let (column, reference) = (shown(text.column.as_bytes()), shown(text.reference.as_bytes()));
                format!("`{column}` ({} levels, reference `{reference}`)", text.levels)
            };
            let listed = text.iter().take(LISTED).map(one).collect::<Vec<_>>().join(", ");
            let more = match text.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!(" and {more} more columns"),
            };
            notes.push(format!("text is read as categories: {listed}{more}"));
        }
        if self.blank_lines > 0 {
            let (plural, verb) = if self.blank_lines == 1 { ("", "is") } else { ("s", "are") };
            notes.push(format!("{} blank line{plural} among the rows {verb} skipped", self.blank_lines));
        }
        if let Some(DroppedRows { rows, of, columns }) = &self.dropped {
            let verb = if *rows == 1 { "is" } else { "are" };
            let columns = MissingValues::list(columns);
            notes.push(format!("{rows} of {of} rows {verb} dropped because values are missing: in {columns}"));
        }
        notes
    }
}
