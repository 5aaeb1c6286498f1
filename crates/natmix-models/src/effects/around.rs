//! What centred effects lie around: coefficients that all rows share.
//!
//! The intercept of a level is the common intercept plus its effect, and rows say nothing about how the two share it. With the effects
//! themselves as coordinates, the common intercept and the mean of all effects are all but determined by each other, a ridge that
//! is longer than wide by a factor of `sqrt(1 + m)` where the rows of a level say `m` times as much as its group: with a thousand rows
//! per level no diagonal metric fits it. So a level that is centred has `v = b + T beta` as its coordinates, its coefficients as they
//! are (hierarchical centring: Gelfand, Sahu and Carlin, 1995), and the ridge is gone: rows determine `v`, and the common
//! coefficients follow from the mean of all `v`. Given the other parameters the change of coordinates only shears, so densities stay
//! as they are.
//!
//! A column takes part if it is a combination of the varying columns within every centred level: the intercept and whatever is the same
//! in all rows of a level, beside a varying intercept; a slope beside a varying slope. Each takes part in one grouping.

use super::groups::Group;
use super::information::solve;
use super::model::EffectsModel;
use crate::grouping::GroupCoefficients;
use serde::{Deserialize, Serialize};

/// Error of a combination, relative to the largest entry of the column, up to which it is rounding.
const ROUNDING: f64 = 1e-10;

/// The coefficients around which centred effects lie.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Around {
    /// Which of the coefficients.
    coefficients: Vec<usize>,
    /// How often each effect has each of them, effect by effect; zeros where a level is not centred.
    factors: Vec<f64>,
}

impl Around {
    pub fn is_empty(&self) -> bool {
        self.coefficients.is_empty()
    }

    /// Whether sizes match and numbers can be used, beside so many coefficients and effects.
    pub fn is_sound(&self, coefficients: usize, effects: usize) -> bool {
        self.factors.len() == self.coefficients.len() * effects
            && self.coefficients.iter().all(|j| *j < coefficients)
            && self.factors.iter().all(|factor| factor.is_finite())
    }

    /// The coefficients around which an effect lies, with their factors.
    #[inline(always)]
    pub fn parts(&self, effect: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let count = self.coefficients.len();
        let factors = &self.factors[effect * count..(effect + 1) * count];
        self.coefficients.iter().copied().zip(factors.iter().copied())
    }
}

impl EffectsModel {
    /// Chooses what the effects of centred levels lie around.
    pub(super) fn choose_around(&mut self) {
        let p = self.priors.len();
        let mut free: Vec<usize> = (0..p).collect();
        let (x, rows) = (&self.x, self.rows);
        for group in self.groups.iter_mut().filter(|group| group.shape.coefficients != GroupCoefficients::Shared) {
            let levels = rows_of_centred_levels(group, rows);
            let found: Vec<(usize, Vec<f64>)> =
                free.iter().filter_map(|&j| Some((j, combinations(group, &levels, &|row| x[row * p + j])?))).collect();
            free.retain(|j| found.iter().all(|(taken, _)| taken != j));
            let effects = if found.is_empty() { 0 } else { group.shape.effects() };
            group.shape.around.factors =
                (0..effects).flat_map(|effect| found.iter().map(move |(_, factors)| factors[effect])).collect();
            group.shape.around.coefficients = found.into_iter().map(|(j, _)| j).collect();
        }
    }
}

/// The centred levels, each with its rows.
fn rows_of_centred_levels(group: &Group, rows: usize) -> Vec<(usize, Vec<usize>)> {
    let mut of_level = vec![Vec::new(); group.shape.levels.len()];
    (0..rows).for_each(|row| of_level[group.level_of_row[row] as usize].push(row));
    of_level.into_iter().enumerate().filter(|(level, _)| group.shape.centred[*level]).collect()
}

/// What multiples of the varying columns make up a column within each level, effect by effect; none if they do not in some level.
fn combinations(group: &Group, levels: &[(usize, Vec<usize>)], column: &dyn Fn(usize) -> f64) -> Option<Vec<f64>> {
    let q = group.q;
    let mut factors = vec![0.0; group.shape.effects()];
    for (level, rows) in levels {
        let (mut products, mut with, mut most) = (vec![0.0; q * q], vec![0.0; q], 0.0f64);
        for &row in rows {
            let (z, x) = (&group.z[row * q..(row + 1) * q], column(row));
            for i in 0..q {
                with[i] += z[i] * x;
                (0..q).for_each(|j| products[i * q + j] += z[i] * z[j]);
            }
            most = most.max(x.abs());
        }
        let own = solve(products, &with)?;
        let rest = |row: usize| {
            let z = &group.z[row * q..(row + 1) * q];
            column(row) - z.iter().zip(&own).map(|(z, factor)| z * factor).sum::<f64>()
        };
        if rows.iter().any(|&row| rest(row).abs() > ROUNDING * most) {
            return None;
        }
        factors[level * q..(level + 1) * q].copy_from_slice(&own);
    }
    factors.iter().any(|factor| *factor != 0.0).then_some(factors)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FAMILIES, crossed, wave};
    use super::super::{EffectsModel, Family, GroupCoefficients, Grouping};
    use super::*;
    use natmix::target::{Target, log_p_at};
    use natmix::testing::{CheckOptions, check_target};

    /// Two groupings whose levels are centred but for some of the first, which has slopes of `x` and a column of its own.
    fn model(family: Family) -> EffectsModel {
        let rows = 60;
        let mut data = crossed(family, rows);
        let x: Vec<f64> = data.x.iter().skip(1).step_by(3).copied().collect();
        data.names.push("size".into());
        // The same in all rows of a level.
        let levels = data.groupings[0].level_of_row.clone();
        let size = |row: usize| wave(50 + levels[row] as usize);
        data.x = (0..rows).flat_map(|row| [&data.x[3 * row..3 * row + 3], &[size(row)]].concat()).collect();
        data.groupings[0] = Grouping {
            columns: vec!["one".into(), "x".into(), "c".into()],
            z: (0..rows).flat_map(|row| [1.0, x[row], wave(300 + row)]).collect(),
            coefficients: GroupCoefficients::Correlated,
            ..data.groupings[0].clone()
        };
        let mut model = EffectsModel::new(family, data, &[]).unwrap();
        model.groups.iter_mut().for_each(|group| group.shape.centred.fill(true));
        model.groups[0].shape.centred[2] = false;
        model.groups.iter_mut().for_each(|group| group.shape.around = Around::default());
        model
    }

    #[test]
    fn densities_are_the_same_in_sheared_coordinates() {
        for family in FAMILIES {
            let plain = model(family);
            let mut around = plain.clone();
            around.choose_around();
            // The ordinal family has no intercept. Within the levels of the second grouping `dummy` never varies.
            let taken = |group: usize| around.groups[group].shape.around.coefficients.clone();
            let expected = if family.cuts() > 0 { [vec![0, 2], vec![1]] } else { [vec![0, 1, 3], vec![2]] };
            assert_eq!([taken(0), taken(1)], expected, "{family:?}");
            let z: Vec<f64> = (0..plain.dim()).map(|j| 0.5 * wave(j)).collect();
            let mut sheared = z.clone();
            for group in &around.groups {
                let first = group.first + group.shape.scales();
                for at in 0..group.shape.effects() {
                    let parts = group.shape.around.parts(at);
                    sheared[first + at] += parts.map(|(j, factor)| factor * z[j]).sum::<f64>();
                }
            }
            let (found, expected) = (log_p_at(&around, &sheared).unwrap(), log_p_at(&plain, &z).unwrap());
            assert!((found - expected).abs() < 1e-9 * expected.abs(), "{family:?}: {found}, not {expected}");
            let parameters = |model: &EffectsModel, z: &[f64]| {
                let mut parameters = vec![0.0; z.len()];
                model.to_parameters(z, &mut parameters);
                parameters
            };
            for (found, expected) in parameters(&around, &sheared).iter().zip(parameters(&plain, &z)) {
                assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{family:?}: {found}, {expected}");
            }
            // The same noise in both, so that they differ by the shear alone.
            let (draw, other) = (around.prior_draws(1, 5), plain.prior_draws(1, 5));
            for (found, expected) in parameters(&around, &draw).iter().zip(parameters(&plain, &other)) {
                assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{family:?}: {found}, {expected}");
            }
            let report = check_target(&around, &CheckOptions { spread: 0.5, points: 3, ..CheckOptions::default() });
            let report = report.unwrap();
            assert!(report.passed() && report.not_finite == 0, "{family:?}: {report}");
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let mut found = model(Family::Linear);
        found.choose_around();
        let around = &found.groups[0].shape.around;
        let effects = found.groups[0].shape.effects();
        assert!(around.is_sound(4, effects) && !around.is_sound(3, effects) && !around.is_sound(4, effects + 1));
        let text = serde_json::to_string(&found.layout()).unwrap();
        assert_eq!(serde_json::from_str::<super::super::EffectsLayout>(&text).unwrap(), found.layout());
    }
}
