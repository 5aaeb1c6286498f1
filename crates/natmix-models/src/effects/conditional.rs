//! Conditional effects of a regression with varying effects, for a group without effects of its own.

use super::draws::EffectsDraws;
use super::study::EffectsStudy;
use crate::conditional::ConditionalEffect;
use crate::study::StudyError;

impl EffectsStudy {
    /// The conditional effects of at most `most` columns.
    pub fn conditional_effects(&self, draws: &EffectsDraws, most: usize) -> Result<Vec<ConditionalEffect>, StudyError> {
        self.typical.effects(most, |table| {
            let mut rows = self.memory.encode(&table)?;
            rows.without_groups(&self.memory.layout);
            Ok(draws.expected(&rows))
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
        assert_eq!((kind.expected.len(), kind.expected[0].len()), (1, 3));
        for (level, expected) in kind.expected[0].iter().enumerate() {
            let shift = if level == 0 { 0.0 } else { own[1 + level] };
            assert!((expected[1] - (own[0] + 5.5 * own[1] + shift)).abs() < 1e-9, "{level}");
        }
        let x = &effects[1];
        assert_eq!((x.values.len(), x.values[0], x.values[40]), (41, 0.0, 11.0));
        assert!((x.expected[0][40][1] - (own[0] + 11.0 * own[1])).abs() < 1e-9);
    }

    /// Ordered categories have probabilities, those of the cut points.
    #[test]
    fn categories_have_their_probabilities() {
        let names = ["y", "x"].map(String::from).to_vec();
        let table =
            Table::from_values("memory", names, (0..12).flat_map(|i| [(i % 4) as f64, i as f64]).collect()).unwrap();
        let family = Family::Ordinal { categories: 4 };
        let formula = Formula::parse("y ~ x").unwrap();
        let study = EffectsStudy::new(table, &formula, family, &EffectsOptions::default()).unwrap();
        let z = [0.7, -1.0, 0.2, 0.1];
        let mut own = vec![0.0; 4];
        study.model.to_parameters(&z, &mut own);
        let draws = EffectsDraws::new(study.memory.layout.clone(), &z, 1).unwrap();
        let effects = study.conditional_effects(&draws, 10).unwrap();
        assert_eq!(effects[0].expected.len(), 4);
        for at in [0, 20, 40] {
            let up_to = |k: usize| 1.0 / (1.0 + (own[0] * effects[0].values[at] - own[1 + k]).exp());
            let exact = [up_to(0), up_to(1) - up_to(0), up_to(2) - up_to(1), 1.0 - up_to(2)];
            for (class, exact) in exact.into_iter().enumerate() {
                assert!((effects[0].expected[class][at][1] - exact).abs() < 1e-12, "{at} {class}");
            }
        }
    }
}
