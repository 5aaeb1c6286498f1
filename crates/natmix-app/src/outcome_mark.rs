//! How to recognise the outcomes that a model was fitted to, without keeping them.
//!
//! Values are recognised by a few sums of them, two of which have a pseudo-random factor for each row. Unlike those of a checksum of
//! bits, their small errors do not matter: outcomes that were centred and scaled for a fit differ in their last digits.

use natmix::Error;
use natmix::save::checksum::Checksum;
use natmix_models::Study;
use natmix_models::effects::EffectsStudy;
use serde::{Deserialize, Serialize};

/// Rows that are loaded into memory at once.
const BLOCK: usize = 1 << 14;
/// Sums may differ by so much, relative to the root of the sum of squares: rounding errors are a thousand times smaller, and a value
/// that differs in its fourth digit changes a million rows by more.
const TOLERANCE: f64 = 1e-9;

/// Sums of a series of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesSums {
    sum: f64,
    squares: f64,
    /// With pseudo-random factors that depend on the row.
    keyed: [f64; 2],
}

impl SeriesSums {
    /// Of values, one per row.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sums = Self::default();
        values.enumerate().for_each(|(row, value)| sums.add(row, value));
        sums
    }

    fn add(&mut self, row: usize, value: f64) {
        self.sum += value;
        self.squares += value * value;
        for (series, keyed) in self.keyed.iter_mut().enumerate() {
            *keyed += factor(row as u64, series as u64) * value;
        }
    }

    /// Whether these are sums of the same values in the same order, up to rounding.
    pub fn matches(&self, other: &Self) -> bool {
        let pairs = self.keyed.iter().zip(other.keyed);
        self.same_values(other) && pairs.into_iter().all(|(a, b)| (a - b).abs() <= TOLERANCE * self.norm(other))
    }

    /// Whether they may be sums of the same values in any order.
    pub fn same_values(&self, other: &Self) -> bool {
        let norm = self.norm(other);
        (self.sum - other.sum).abs() <= TOLERANCE * norm
            && (self.squares - other.squares).abs() <= TOLERANCE * norm * norm
    }

    fn norm(&self, other: &Self) -> f64 {
        self.squares.max(other.squares).sqrt()
    }
}

/// A number from -1 to 1 that depends on every bit of its arguments (SplitMix64).
fn factor(row: u64, series: u64) -> f64 {
    let mut bits = row.wrapping_mul(2).wrapping_add(series).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// How to recognise outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeMark {
    /// The column, or how the formula writes it.
    pub name: String,
    /// Rows that were dropped because values are missing.
    pub dropped: u64,
    /// Whether the model gives probabilities of outcomes, not densities.
    pub discrete: bool,
    /// The values: numbers, or indices of levels.
    pub values: SeriesSums,
    /// Their logarithms, if all are positive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logarithms: Option<SeriesSums>,
    /// Checksum of the names of the levels, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<String>,
    /// Trials, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<SeriesSums>,
    /// 1 where the outcome is censored, if any is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub censored: Option<SeriesSums>,
    /// How often rows count, if not once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<SeriesSums>,
}

/// The values of some outcomes while they are read.
#[derive(Default)]
struct Values {
    rows: usize,
    values: SeriesSums,
    logarithms: SeriesSums,
    positive: bool,
}

impl Values {
    fn new() -> Self {
        Self { positive: true, ..Self::default() }
    }

    fn add(&mut self, value: f64) {
        self.values.add(self.rows, value);
        self.positive &= value > 0.0;
        self.logarithms.add(self.rows, if value > 0.0 { value.ln() } else { 0.0 });
        self.rows += 1;
    }

    fn mark(self, name: &str, levels: Option<&[String]>, discrete: bool, dropped: u64) -> OutcomeMark {
        OutcomeMark {
            name: name.to_owned(),
            dropped,
            discrete,
            values: self.values,
            logarithms: Some(self.logarithms).filter(|_| self.positive),
            levels: levels.map(|levels| Checksum::of(levels.join("\u{0}").as_bytes())),
            trials: None,
            censored: None,
            weights: None,
        }
    }
}

impl OutcomeMark {
    /// Of a regression.
    pub(crate) fn of_study(study: &Study) -> Result<Self, Error> {
        let (data, outcome) = (study.regression.data(), study.memory.encoding.outcome.as_ref());
        let (centre, scale) = outcome.map_or((0.0, 1.0), |outcome| (outcome.centre, outcome.scale));
        let mut values = Values::new();
        let mut weights: Option<SeriesSums> = None;
        for first in (0..data.rows()).step_by(BLOCK) {
            let rows: Vec<usize> = (first..(first + BLOCK).min(data.rows())).collect();
            let block = data.take(&rows)?;
            block.outcome().iter().for_each(|y| values.add(centre + scale * y));
            for (row, weight) in rows.iter().zip(block.weights().unwrap_or_default()) {
                weights.get_or_insert_default().add(*row, *weight);
            }
        }
        let levels = outcome.and_then(|outcome| outcome.levels.as_deref());
        let discrete = study.memory.kind.name() != "linear";
        let name = outcome.map_or("", |outcome| &outcome.column);
        Ok(Self {
            weights,
            ..values.mark(name, levels, discrete, dropped(study.facts.dropped.as_ref().map(|d| d.rows)))
        })
    }

    /// Of a regression with varying effects.
    pub(crate) fn of_effects(study: &EffectsStudy) -> Self {
        let rows = &study.rows;
        let mut values = Values::new();
        rows.outcome.iter().flatten().for_each(|y| values.add(*y));
        let memory = &study.memory;
        let discrete = !["linear", "robust", "gamma", "survival"].contains(&memory.layout.family().name());
        let of_rows = |values: &Option<Vec<f64>>| values.as_ref().map(|all| SeriesSums::of(all.iter().copied()));
        // One trial per row is an outcome of 0 or 1.
        let trials = of_rows(&rows.trials).filter(|_| rows.trials.iter().flatten().any(|trials| *trials != 1.0));
        let censored = rows.event.as_ref().filter(|_| rows.is_censored());
        let censored = censored.map(|event| SeriesSums::of(event.iter().map(|seen| f64::from(u8::from(!seen)))));
        let name = memory.outcome();
        let dropped = dropped(study.facts.dropped.as_ref().map(|dropped| dropped.rows));
        Self {
            trials,
            censored,
            weights: of_rows(&rows.weights),
            ..values.mark(name, memory.levels(), discrete, dropped)
        }
    }

    /// Why these are not the same outcomes as `other`, those of models `names`; `None` if they are.
    pub fn difference(&self, other: &Self, names: (&str, &str)) -> Option<String> {
        let ((a, b), (y, z)) = (names, (&self.name, &other.name));
        let same = |a: Option<&SeriesSums>, b: Option<&SeriesSums>| match (a, b) {
            (Some(a), Some(b)) => a.matches(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        if self.values.matches(&other.values) {
            let parts = [
                ("numbers of trials", &self.trials, &other.trials),
                ("censored rows", &self.censored, &other.censored),
                ("row weights", &self.weights, &other.weights),
            ];
            if let Some((what, ..)) = parts.iter().find(|(_, a, b)| !same(a.as_ref(), b.as_ref())) {
                return Some(format!("`{b}` has other {what} than `{a}`: what they predict is not the same"));
            }
            // Without levels 0 and 1 may mean the same.
            let levels = self.levels.is_some() && other.levels.is_some() && self.levels != other.levels;
            return levels.then(|| format!("the levels of the outcome `{z}` of `{b}` are not those of `{y}` of `{a}`"));
        }
        let logarithm = |of: &Self, logarithm: &Self| of.logarithms.is_some_and(|logs| logs.matches(&logarithm.values));
        let transformed = |log: &str, of: &str, log_model: &str, of_model: &str| {
            format!(
                "the outcome `{log}` of `{log_model}` is the logarithm of the outcome `{of}` of `{of_model}`: densities per unit of `{log}` \
                 and per unit of `{of}` cannot be compared. Fit both to the same outcome (a gamma or survival regression of `{of}` \
                 has effects on its logarithm)"
            )
        };
        if logarithm(self, other) {
            return Some(transformed(z, y, b, a));
        }
        if logarithm(other, self) {
            return Some(transformed(y, z, a, b));
        }
        if self.dropped != other.dropped {
            return Some(format!(
                "`{a}` and `{b}` were not fitted to the same rows: {} and {} rows were dropped because values are missing. Leave the rows with \
                 missing values out of the table, and fit both to it",
                self.dropped, other.dropped
            ));
        }
        if self.values.same_values(&other.values) {
            return Some(format!(
                "the outcomes of `{a}` and `{b}` are the same values in another order: fit both to one table"
            ));
        }
        let column = if y == z {
            format!("`{y}` has other values in `{b}` than in `{a}`")
        } else {
            format!("`{a}` explains `{y}`, `{b}` `{z}`")
        };
        Some(format!("{column}: only models of the same outcomes, untransformed, and of the same rows can be compared"))
    }
}

fn dropped(rows: Option<u64>) -> u64 {
    rows.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str, y: &[f64]) -> OutcomeMark {
        let mut values = Values::new();
        y.iter().for_each(|y| values.add(*y));
        values.mark(name, None, false, 0)
    }

    #[test]
    fn rounding_does_not_matter_and_any_value_does() {
        let y: Vec<f64> = (0..5000).map(|i| 2000.0 + (f64::from(i) * 0.7).sin()).collect();
        let scaled: Vec<f64> = y.iter().map(|y| 1e7 + 0.7 * ((y - 1e7) / 0.7)).collect();
        assert!(y != scaled);
        let whole = mark("y", &y);
        assert_eq!(whole.difference(&mark("y", &scaled), ("a", "b")), None);
        for at in [0, 17, 4999] {
            let mut other = y.clone();
            other[at] += 0.01;
            let problem = whole.difference(&mark("y", &other), ("a", "b")).unwrap();
            assert!(problem.starts_with("`y` has other values in `b` than in `a`"), "{problem}");
        }
        let mut swapped = y.clone();
        swapped.swap(3, 4);
        assert!(whole.difference(&mark("y", &swapped), ("a", "b")).unwrap().contains("another order"));
        let counts: Vec<f64> = (0..300).map(|i| f64::from(i % 7)).collect();
        assert_eq!(mark("n", &counts).difference(&mark("n", &counts), ("a", "b")), None);
        let shifted: Vec<f64> = (1..301).map(|i| f64::from(i % 7)).collect();
        assert!(mark("n", &counts).difference(&mark("n", &shifted), ("a", "b")).is_some());
    }

    #[test]
    fn each_difference_is_named() {
        let y = [1.0, 2.5, 7.0, 0.2];
        let (plain, logs) = (mark("y", &y), mark("log(y)", &y.map(f64::ln)));
        for (one, other) in [(&plain, &logs), (&logs, &plain)] {
            let problem = one.difference(other, ("a", "b")).unwrap();
            assert!(problem.contains("is the logarithm of the outcome `y`"), "{problem}");
        }
        let dropped = OutcomeMark { dropped: 3, ..mark("y", &y[1..]) };
        assert!(plain.difference(&dropped, ("a", "b")).unwrap().contains("0 and 3 rows were dropped"));
        let ones = SeriesSums::of([1.0, 1.0, 2.0, 1.0].into_iter());
        for changed in [
            OutcomeMark { trials: Some(ones), ..plain.clone() },
            OutcomeMark { censored: Some(ones), ..plain.clone() },
            OutcomeMark { weights: Some(ones), ..plain.clone() },
        ] {
            assert!(plain.difference(&changed, ("a", "b")).unwrap().starts_with("`b` has other"));
            assert_eq!(changed.difference(&changed.clone(), ("a", "b")), None);
        }
        let levels = |levels: &str| OutcomeMark { levels: Some(levels.into()), ..plain.clone() };
        assert!(levels("x").difference(&levels("z"), ("a", "b")).unwrap().contains("levels"));
        assert_eq!(levels("x").difference(&plain, ("a", "b")), None);
        assert!(plain.difference(&mark("z", &[0.0; 4]), ("a", "b")).unwrap().starts_with("`a` explains `y`, `b` `z`"));
    }
}
