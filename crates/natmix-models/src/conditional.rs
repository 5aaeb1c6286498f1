//! Conditional effects: what the outcome is expected to be as one column of the table varies and all others stay as they typically are:
//! numbers at their mean, categories at the level with which the others are compared.

use crate::design::{Coding, Encoding};
use crate::error::DataError;
use crate::formula::FormulaEncoding;
use crate::predict::LEVELS;
use crate::table::Table;
use crate::table::moments::{ColumnMoments, Summary};

/// Values of a column of numbers at which expectations are computed.
const GRID: usize = 41;

/// The expected outcome as one column varies.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalEffect {
    /// The column.
    pub column: String,
    /// Its values; for categories their indices.
    pub values: Vec<f64>,
    /// Names of the values, for categories.
    pub levels: Option<Vec<String>>,
    /// 5% quantile, median and 95% quantile of the expectation at each value; for an outcome with classes one such list for the
    /// probability of each class.
    pub expected: Vec<Vec<[f64; 3]>>,
}

/// A column of the table, with its typical value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypicalColumn {
    name: String,
    /// Names of the levels that the column has as text.
    text: Option<Vec<String>>,
    /// The value that stands for the column where another one varies.
    typical: f64,
    /// The values to try: a grid of numbers, or each level; none for columns that only say to which group a row belongs.
    values: Vec<f64>,
    /// Names of the values, for categories.
    levels: Option<Vec<String>>,
}

impl TypicalColumn {
    fn number(name: &str, summary: &Summary, varies: bool) -> Self {
        let step = (summary.max - summary.min) / (GRID - 1) as f64;
        let varies = varies && step > 0.0 && step.is_finite();
        // The last value exactly: splines end there.
        let value = |i: usize| if i == GRID - 1 { summary.max } else { summary.min + i as f64 * step };
        let values = if varies { (0..GRID).map(value).collect() } else { Vec::new() };
        Self { name: name.into(), text: None, typical: summary.mean, values, levels: None }
    }

    /// A category with these levels; `text` has those of the table, unless it holds numbers.
    fn category(name: &str, text: Option<Vec<String>>, levels: &[String], reference: Option<&String>) -> Option<Self> {
        let value = |level: &String| match &text {
            Some(text) => text.iter().position(|other| other == level).map(|index| index as f64),
            None => level.parse().ok(),
        };
        let values: Vec<f64> = levels.iter().filter_map(value).collect();
        let typical = reference.and_then(value).or(values.first().copied())?;
        let levels = Some(levels.to_vec()).filter(|levels| levels.len() == values.len())?;
        Some(Self { name: name.into(), text, typical, values, levels: Some(levels) })
    }

    fn constant(name: &str, text: Option<Vec<String>>, typical: f64) -> Self {
        Self { name: name.into(), text, typical, values: Vec::new(), levels: None }
    }
}

/// The columns that new rows need, with their typical values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TypicalRow(Vec<TypicalColumn>);

impl TypicalRow {
    /// For a design of main effects of columns with these names, summaries and levels.
    pub(crate) fn of_design<'a>(
        encoding: &Encoding,
        columns: impl Iterator<Item = (&'a String, &'a Summary, Option<&'a Vec<String>>)>,
    ) -> Self {
        let only = [&encoding.offset, &encoding.exposure];
        let column = |(name, summary, text): (&String, &Summary, Option<&Vec<String>>)| {
            if only.contains(&&Some(name.clone())) {
                return Some(TypicalColumn::number(name, summary, false));
            }
            match &encoding.features.iter().find(|feature| feature.column == *name)?.coding {
                Coding::Number { .. } => Some(TypicalColumn::number(name, summary, true)),
                Coding::Levels { levels, .. } => TypicalColumn::category(name, text.cloned(), levels, levels.first()),
            }
        };
        Self(columns.filter_map(column).collect())
    }

    /// For a formula and the table to which it was fitted.
    pub(crate) fn of_formula(table: &Table, encoding: &FormulaEncoding) -> Self {
        let trials = encoding.outcome.as_ref().and_then(|outcome| outcome.trials.as_ref());
        let column = |(name, _): (String, Option<Vec<String>>)| {
            let at = table.position(&name)?;
            let text = table.levels.get(&at).cloned();
            if let Some((_, levels, reference)) = encoding.categories().find(|(column, ..)| *column == name) {
                return TypicalColumn::category(&name, text, levels, reference);
            }
            if text.is_some() {
                return Some(TypicalColumn::constant(&name, text, 0.0));
            }
            if trials.is_some_and(|trials| trials.to_string() == name) {
                return Some(TypicalColumn::constant(&name, None, 1.0));
            }
            let mut moments = ColumnMoments::new(1);
            table.column(at).for_each(|x| moments.add(&[x]));
            let summary = moments.finish().into_iter().next()?;
            Some(TypicalColumn::number(&name, &summary, encoding.is_factor(&name)))
        };
        Self(encoding.needed().into_iter().filter_map(column).collect())
    }

    /// The effects of at most `most` columns; `expected` computes the expectations of the rows of a table.
    pub(crate) fn effects<E: From<DataError>>(
        &self,
        most: usize,
        expected: impl Fn(Table) -> Result<Vec<Vec<[f64; 3]>>, E>,
    ) -> Result<Vec<ConditionalEffect>, E> {
        let varying = self.0.iter().enumerate().filter(|(_, column)| column.values.len() > 1).take(most);
        varying
            .map(|(at, column)| {
                Ok(ConditionalEffect {
                    column: column.name.clone(),
                    values: match &column.levels {
                        Some(levels) => (0..levels.len()).map(|level| level as f64).collect(),
                        None => column.values.clone(),
                    },
                    levels: column.levels.clone(),
                    expected: expected(self.rows(at)?)?,
                })
            })
            .collect()
    }

    /// Rows in which one column has each of its values, and the others their typical one.
    fn rows(&self, at: usize) -> Result<Table, DataError> {
        let row = |value: &f64| {
            let typical = self.0.iter().enumerate();
            typical.map(|(other, column)| if other == at { *value } else { column.typical }).collect::<Vec<f64>>()
        };
        let names = self.0.iter().map(|column| column.name.clone()).collect();
        let values = self.0[at].values.iter().flat_map(row).collect();
        let mut table = Table::from_values("typical rows", names, values)?;
        let text = self.0.iter().enumerate().filter_map(|(column, about)| Some((column, about.text.clone()?)));
        table.levels.extend(text);
        Ok(table)
    }
}

/// What [`ConditionalEffect::expected`] holds, from quantiles row by row with the classes of a row one after another.
pub(crate) fn class_by_class(found: &[f64], classes: usize) -> Vec<Vec<[f64; 3]>> {
    let all = found.as_chunks::<3>().0;
    (0..classes).map(|class| all.iter().skip(class).step_by(classes).copied().collect()).collect()
}

/// The middle 90% of the probability of each class, from the probabilities of all classes at each draw.
pub(crate) fn middle_90_of_classes(of_draws: &[f64], classes: usize, out: &mut [f64]) {
    let mut values = Vec::with_capacity(of_draws.len() / classes);
    for (class, out) in out.chunks_exact_mut(3).enumerate() {
        values.clear();
        values.extend(of_draws.iter().skip(class).step_by(classes));
        out.copy_from_slice(&middle_90(&mut values));
    }
}

/// 5% quantile, median and 95% quantile of some numbers, which are sorted.
pub(crate) fn middle_90(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    LEVELS.map(|(level, _)| values[(level * (values.len() - 1) as f64).round() as usize])
}
