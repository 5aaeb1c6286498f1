//! Conditional effects: what the outcome is expected to be as one column varies and all others stay as they typically are, for a
//! group without effects of its own.

use super::draws::EffectsDraws;
use super::rows::EffectsRows;
use super::study::{EffectsMemory, EffectsStudy};
use crate::study::StudyError;
use crate::table::Table;
use crate::table::moments::ColumnMoments;

/// Values of a column of numbers at which expectations are computed.
const GRID: usize = 41;

/// A column of the table, with its typical value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypicalColumn {
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

/// The expected outcome as one column varies.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalEffect {
    /// The column.
    pub column: String,
    /// Its values; for categories their indices.
    pub values: Vec<f64>,
    /// Names of the values, for categories.
    pub levels: Option<Vec<String>>,
    /// 5% quantile, median and 95% quantile of the expectation at each value.
    pub expected: Vec<[f64; 3]>,
}

/// The columns of a formula that new rows need, with their typical values: means of numbers, reference levels of categories.
pub(super) fn typical_columns(table: &Table, memory: &EffectsMemory) -> Vec<TypicalColumn> {
    let encoding = &memory.encoding;
    let trials = encoding.outcome.as_ref().and_then(|outcome| outcome.trials.as_ref());
    let column = |(name, _): (String, Option<Vec<String>>)| {
        let at = table.position(&name)?;
        let text = table.levels.get(&at).cloned();
        if let Some((_, levels, reference)) = encoding.categories().find(|(column, ..)| *column == name) {
            let value = |level: &String| match &text {
                Some(text) => text.iter().position(|other| other == level).map(|index| index as f64),
                None => level.parse().ok(),
            };
            let values: Vec<f64> = levels.iter().filter_map(value).collect();
            let typical = reference.and_then(value).or(values.first().copied())?;
            let levels = Some(levels.to_vec()).filter(|levels| levels.len() == values.len())?;
            return Some(TypicalColumn { name, text, typical, values, levels: Some(levels) });
        }
        if text.is_some() {
            return Some(TypicalColumn { name, text, typical: 0.0, values: Vec::new(), levels: None });
        }
        if trials.is_some_and(|trials| trials.to_string() == name) {
            return Some(TypicalColumn { name, text, typical: 1.0, values: Vec::new(), levels: None });
        }
        let mut moments = ColumnMoments::new(1);
        table.column(at).for_each(|x| moments.add(&[x]));
        let summary = moments.finish().into_iter().next()?;
        let step = (summary.max - summary.min) / (GRID - 1) as f64;
        let varies = encoding.is_factor(&name) && step > 0.0 && step.is_finite();
        // The last value exactly: splines end there.
        let value = |i: usize| if i == GRID - 1 { summary.max } else { summary.min + i as f64 * step };
        let values = if varies { (0..GRID).map(value).collect() } else { Vec::new() };
        Some(TypicalColumn { name, text, typical: summary.mean, values, levels: None })
    };
    encoding.needed().into_iter().filter_map(column).collect()
}

impl EffectsStudy {
    /// The conditional effects of at most `most` columns.
    pub fn conditional_effects(&self, draws: &EffectsDraws, most: usize) -> Result<Vec<ConditionalEffect>, StudyError> {
        let varying = (0..self.typical.len()).filter(|at| self.typical[*at].values.len() > 1);
        varying.take(most).map(|at| self.conditional_effect(draws, at)).collect()
    }

    fn conditional_effect(&self, draws: &EffectsDraws, at: usize) -> Result<ConditionalEffect, StudyError> {
        let TypicalColumn { name, values, levels, .. } = &self.typical[at];
        let row = |value: &f64| {
            let typical = self.typical.iter().enumerate();
            typical.map(|(other, column)| if other == at { *value } else { column.typical }).collect::<Vec<f64>>()
        };
        let names = self.typical.iter().map(|column| column.name.clone()).collect();
        let mut table = Table::from_values("typical rows", names, values.iter().flat_map(row).collect())?;
        for (column, TypicalColumn { text, .. }) in self.typical.iter().enumerate() {
            if let Some(text) = text {
                table.levels.insert(column, text.clone());
            }
        }
        let mut rows: EffectsRows = self.memory.encode(&table)?;
        rows.without_groups(&self.memory.layout);
        Ok(ConditionalEffect {
            column: name.clone(),
            values: match levels {
                Some(levels) => (0..levels.len()).map(|level| level as f64).collect(),
                None => values.clone(),
            },
            levels: levels.clone(),
            expected: draws.expected(&rows),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EffectsDraws, EffectsOptions, EffectsStudy, Family};
    use crate::{Formula, Table};
    use natmix::target::Target;

    /// With a single draw the expectation is the predictor with all effects of groups left out.
    #[test]
    fn one_column_varies_and_the_others_stay() {
        let rows = 12;
        let names = ["y", "x", "kind", "g"].map(String::from).to_vec();
        let values =
            (0..rows).flat_map(|i| [(1.7 * i as f64).sin(), i as f64, (i % 3) as f64, (i % 4) as f64]).collect();
        let mut table = Table::from_values("memory", names, values).unwrap();
        table.levels.insert(2, ["a", "b", "c"].map(String::from).to_vec());
        table.levels.insert(3, ["p", "q", "r", "s"].map(String::from).to_vec());
        let formula = Formula::parse("y ~ x + kind + (1 + x | g)").unwrap();
        let study = EffectsStudy::new(table, &formula, Family::Linear, &EffectsOptions::default()).unwrap();
        let d = study.model.dim();
        let z: Vec<f64> = (0..d).map(|j| 0.3 * super::super::tests::wave(j)).collect();
        let mut own = vec![0.0; d];
        study.model.to_parameters(&z, &mut own);
        let draws = EffectsDraws::new(study.memory.layout.clone(), &z, 1).unwrap();
        let effects = study.conditional_effects(&draws, 10).unwrap();
        // Columns in alphabetical order, without the group.
        assert_eq!(effects.iter().map(|effect| effect.column.as_str()).collect::<Vec<_>>(), ["kind", "x"]);
        let kind = &effects[0];
        assert_eq!(kind.levels.as_deref().unwrap(), ["a", "b", "c"]);
        for (level, expected) in kind.expected.iter().enumerate() {
            let shift = if level == 0 { 0.0 } else { own[1 + level] };
            assert!((expected[1] - (own[0] + 5.5 * own[1] + shift)).abs() < 1e-9, "{level}");
        }
        let x = &effects[1];
        assert_eq!((x.values.len(), x.values[0], x.values[40]), (41, 0.0, 11.0));
        assert!((x.expected[40][1] - (own[0] + 11.0 * own[1])).abs() < 1e-9);
    }
}
