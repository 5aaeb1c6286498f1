//! Columns as categories: their levels, and which level each row has.

use super::syntax::written;
use crate::error::{DataError, Names, shown};
use crate::table::Table;
use std::collections::HashMap;

/// A column as categories.
pub(super) struct Labels {
    /// The levels that occur, in order: as the table sorts them, numbers by size.
    pub labels: Vec<String>,
    /// Index of the level of each row.
    pub rows: Vec<u32>,
    /// Whether the column holds numbers.
    pub numbers: bool,
}

/// The levels of a column that occur.
pub(super) fn labels(table: &Table, at: usize) -> Result<Labels, DataError> {
    let Some(levels) = table.levels.get(&at) else {
        let mut sorted: Vec<f64> = table.column(at).map(number_key).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let index: HashMap<u64, u32> =
            sorted.iter().enumerate().map(|(i, value)| (value.to_bits(), i as u32)).collect();
        let rows = table.column(at).map(|value| index[&number_key(value).to_bits()]).collect();
        return Ok(Labels { labels: sorted.iter().map(|value| written(*value)).collect(), rows, numbers: true });
    };
    let mut occurs = vec![false; levels.len()];
    for (row, value) in table.column(at).enumerate() {
        *occurs.get_mut(value as usize).filter(|_| value >= 0.0 && value.fract() == 0.0).ok_or_else(|| {
            DataError::BadValue {
                file: table.origin.file.clone(),
                place: table.origin.place(row),
                column: table.names[at].clone(),
                value,
                problem: format!("is not the index of one of its {} levels", levels.len()),
            }
        })? = true;
    }
    let mut place = vec![0; levels.len()];
    let mut labels = Vec::new();
    for (level, _) in occurs.iter().enumerate().filter(|(_, occurs)| **occurs) {
        place[level] = labels.len() as u32;
        labels.push(levels[level].clone());
    }
    let rows = table.column(at).map(|value| place[value as usize]).collect();
    Ok(Labels { labels, rows, numbers: false })
}

/// The same number for 0 and -0.
fn number_key(value: f64) -> f64 {
    value + 0.0
}

/// For each row the index of its level among `known`; none if it is not known.
pub(super) fn codes(table: &Table, at: usize, known: &[String]) -> Result<Vec<Option<u32>>, DataError> {
    let Labels { labels, rows, .. } = labels(table, at)?;
    let index: HashMap<&String, u32> = known.iter().enumerate().map(|(i, level)| (level, i as u32)).collect();
    let map: Vec<Option<u32>> = labels.iter().map(|label| index.get(label).copied()).collect();
    Ok(rows.into_iter().map(|row| map[row as usize]).collect())
}

/// [`codes`] where every level must be known.
pub(super) fn known_codes(table: &Table, at: usize, known: &[String]) -> Result<Vec<u32>, DataError> {
    let codes = codes(table, at, known)?;
    if let Some(row) = codes.iter().position(Option::is_none) {
        let value = table.column(at).nth(row).unwrap_or_default();
        let label = match table.levels.get(&at) {
            Some(levels) => levels[value as usize].clone(),
            None => written(value),
        };
        return Err(DataError::UnknownLevel {
            file: table.origin.file.clone(),
            place: table.origin.place(row),
            column: table.names[at].clone(),
            value: shown(label.as_bytes()),
            known: Names(known.to_vec()),
        });
    }
    Ok(codes.into_iter().flatten().collect())
}
