//! Levels of a categorical column while its rows are read.

use super::decode;
use super::number;
use super::numeral::{self, Decimal};
use crate::error::Place;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Most levels that a categorical column may have: every level is a column of the design.
pub(crate) const MOST_LEVELS: usize = 10_000;

/// Why a field is no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLevel {
    Unknown,
    TooMany,
    /// A number among text.
    Number,
}

/// Where the levels come from.
#[derive(Clone, Debug, PartialEq)]
enum LevelSource {
    /// The column was said to be categorical: its fields are levels whatever they look like.
    Named,
    /// The column holds text, first here.
    Text(Place),
    /// They are known. Others are refused, if `closed`.
    Known { closed: bool },
}

/// Levels of a categorical column, in order of appearance, or known ones.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    index: HashMap<String, usize>,
    pub names: Vec<String>,
    source: LevelSource,
    /// Which of them are in rows that are kept, if rows may be dropped.
    used: Option<Vec<bool>>,
    /// Whether a name was not UTF-8.
    pub decoded: bool,
}

/// Levels in order.
pub(crate) struct SortedLevels {
    pub names: Vec<String>,
    /// The index in this order of each level in order of appearance.
    pub place: Vec<f64>,
    /// Levels of dropped rows only.
    pub unused: Vec<String>,
}

impl Levels {
    /// Of a column that was said to be categorical.
    pub fn named() -> Self {
        Levels { index: HashMap::new(), names: Vec::new(), source: LevelSource::Named, used: None, decoded: false }
    }

    /// Of a column of text.
    pub fn of_text(first: Place) -> Self {
        Levels { source: LevelSource::Text(first), ..Self::named() }
    }

    /// Known ones; others are refused, if `closed`.
    pub fn known(names: &[String], closed: bool) -> Self {
        let index = names.iter().enumerate().map(|(i, name)| (name.clone(), i)).collect();
        Levels { index, names: names.to_vec(), source: LevelSource::Known { closed }, used: None, decoded: false }
    }

    /// Where the first text is, if the column was found to hold text.
    pub fn text_since(&self) -> Option<Place> {
        match self.source {
            LevelSource::Text(place) => Some(place),
            _ => None,
        }
    }

    /// Whether the field is no level, but marks a missing value.
    pub fn is_missing(&self, field: &[u8]) -> bool {
        number::is_missing(field)
            || number::is_missing_or_level(field)
                && match self.source {
                    LevelSource::Named => false,
                    LevelSource::Text(_) => true,
                    LevelSource::Known { .. } => {
                        std::str::from_utf8(field.trim_ascii()).is_ok_and(|name| !self.index.contains_key(name))
                    }
                }
    }

    /// The index of a level.
    pub fn find(&mut self, field: &[u8], separator: u8) -> Result<f64, NoLevel> {
        let (name, decoded) = decode::text(field.trim_ascii());
        if let Some(known) = self.index.get(&*name) {
            return Ok(*known as f64);
        }
        match self.source {
            LevelSource::Known { closed: true } => return Err(NoLevel::Unknown),
            LevelSource::Text(_) if numeral::read(field, separator, Decimal::Unknown).is_ok() => {
                return Err(NoLevel::Number);
            }
            _ if self.names.len() == MOST_LEVELS => return Err(NoLevel::TooMany),
            _ => {}
        }
        self.decoded |= decoded;
        let new = self.names.len();
        self.index.insert(name.clone().into_owned(), new);
        self.names.push(name.into_owned());
        Ok(new as f64)
    }

    /// Notes that a row with this level is kept: where rows are dropped, levels without any row are none.
    pub fn keep(&mut self, level: f64) {
        let used = self.used.get_or_insert_default();
        used.resize(self.names.len(), false);
        used[level as usize] = true;
    }

    fn is_used(&self, level: usize) -> bool {
        self.used.as_ref().is_none_or(|used| used.get(level) == Some(&true))
    }

    /// Number of levels.
    pub fn count(&self) -> usize {
        (0..self.names.len()).filter(|level| self.is_used(*level)).count()
    }

    /// The levels in order: by size if all are numbers, else by text, the reference before all others.
    pub fn sorted(&self, reference: Option<&str>) -> SortedLevels {
        let (used, unused): (Vec<usize>, Vec<usize>) = (0..self.names.len()).partition(|level| self.is_used(*level));
        let size = |level: &usize| number::parse(self.names[*level].as_bytes());
        let all_numbers = used.iter().all(|level| size(level).is_some());
        let mut order = used;
        order.sort_by(|a, b| {
            let is_reference = |at: &usize| Some(self.names[*at].as_str()) == reference;
            let by_size = || match (size(a), size(b)) {
                (Some(a), Some(b)) if all_numbers => a.total_cmp(&b),
                _ => Ordering::Equal,
            };
            let by_name = || self.names[*a].cmp(&self.names[*b]);
            is_reference(b).cmp(&is_reference(a)).then_with(by_size).then_with(by_name)
        });
        let mut place = vec![0.0; self.names.len()];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new as f64);
        let named = |levels: &[usize]| levels.iter().map(|level| self.names[*level].clone()).collect();
        SortedLevels { names: named(&order), place, unused: named(&unused) }
    }
}
