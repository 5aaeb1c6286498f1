//! What each group says about its own coefficients, beside what the fit says: no pooling beside partial pooling.
//!
//! The estimate of a group alone has the largest likelihood of its own rows, the one of complete pooling that of all rows with the same
//! coefficients for all groups. Everything else is held at its posterior mean: other coefficients, effects of other groupings, and the
//! parameters of the family. Intervals of groups alone come from the curvature of that likelihood.
//!
//! The coefficients of a group in the fit are compared with these, so they are those that make, together with what is held, the predictors
//! of the group's rows at a draw: `b + (Z'Z)^-1 Z'(r - r_mean)` with the rows `Z` of the group and the rest `r` of its predictors. Without the
//! second term intervals would be those of predictors far away, such as that of an age of zero, and could be wider than without pooling.

use super::draws::EffectsDraws;
use super::family::Family;
use super::information::{estimates, solve};
use super::layout::GroupParameters;
use super::rows::EffectsRows;
use super::second_derivatives::at_observed;
use crate::conditional::middle_90;
use crate::grouping::GroupCoefficients;
use crate::predict::LEVELS;
use rayon::prelude::*;

/// Most steps to the largest likelihood, and halvings of one.
const STEPS: usize = 100;
const HALVINGS: usize = 40;
/// Change of all predictors at which it is reached, in the units of the predictor.
const TOLERANCE: f64 = 1e-8;
/// Standard error of a predictor, in the same units, beyond which a likelihood has no largest value at finite coefficients: it only gets flatter.
const FLAT: f64 = 30.0;
/// What makes equations solvable, as a share of their largest number.
const RIDGE: f64 = 1e-9;

/// The coefficients of one column in all groups.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupEstimates {
    /// What the formula calls the grouping.
    pub grouping: String,
    /// The column.
    pub column: String,
    /// Names of the groups.
    pub levels: Vec<String>,
    /// Rows of each group.
    pub rows: Vec<usize>,
    /// The coefficient of each group in the posterior, all else being at its mean: 5% quantile, median and 95% quantile.
    pub partial: Vec<[f64; 3]>,
    /// The same from the rows of each group alone; none where they do not determine it.
    pub alone: Vec<Option<[f64; 3]>>,
    /// The coefficient around which groups vary: its mean.
    pub shared: f64,
    /// The same coefficient for all groups, from all rows; none where they do not determine it.
    pub pooled: Option<f64>,
}

impl EffectsDraws {
    /// The coefficients of every grouping, one entry per column, for rows with known outcomes; not of smooths.
    pub fn group_estimates(&self, rows: &EffectsRows) -> Vec<GroupEstimates> {
        let groupings = self.layout().groupings();
        let means = self.at_mean();
        let eta: Vec<f64> = means.for_rows(rows, &(0..rows.rows).collect::<Vec<_>>(), 1, |_, eta, out| out[0] = eta[0]);
        let varying = groupings.iter().enumerate().filter(|(_, group)| group.coefficients != GroupCoefficients::Shared);
        varying.flat_map(|(at, group)| self.of_grouping(rows, (at, group), &means, &eta)).collect()
    }

    fn of_grouping(
        &self,
        rows: &EffectsRows,
        (at, group): (usize, &GroupParameters),
        means: &Self,
        eta: &[f64],
    ) -> Vec<GroupEstimates> {
        let q = group.columns.len();
        let of_rows = &rows.groupings[at];
        // The coefficient that all groups share, where the formula has one.
        let fixed: Vec<Option<usize>> =
            (0..q).map(|k| self.shared_coefficient(rows, at, &group.columns[k], k)).collect();
        let total = |of: &Self, draw: usize, level: usize, k: usize| {
            let own = of.parameters_of(draw);
            fixed[k].map_or(0.0, |j| own[j]) + own[group.first_effect + level * q + k]
        };
        let mut members = vec![Vec::new(); group.levels.len()];
        let counted = |row: usize| rows.weights.as_ref().is_none_or(|weights| weights[row] > 0.0);
        for (row, level) in of_rows.index.iter().enumerate().filter(|(row, _)| counted(*row)) {
            if let Some(level) = level {
                members[*level as usize].push(row);
            }
        }
        // What the other parts of the predictor are.
        let mut rest = eta.to_vec();
        for (level, members) in members.iter().enumerate() {
            let own: Vec<f64> = (0..q).map(|k| total(means, 0, level, k)).collect();
            members.iter().for_each(|row| rest[*row] -= dot(&of_rows.z[row * q..(row + 1) * q], &own));
        }
        let problem =
            OwnRows { rows, family: self.layout().family(), own: means.own(0), z: &of_rows.z, rest: &rest, q };
        let scale = self.layout().predictor_scale();
        let alone: Vec<Option<Vec<[f64; 3]>>> = members
            .par_iter()
            .enumerate()
            .map(|(level, members)| {
                let start = (0..q).map(|k| total(means, 0, level, k)).collect();
                problem.largest(members, start, scale)
            })
            .collect();
        let start = fixed.iter().map(|fixed| fixed.map_or(0.0, |j| means.parameters_of(0)[j])).collect();
        let all: Vec<usize> = (0..rows.rows).filter(|row| counted(*row)).collect();
        let pooled = problem.largest(&all, start, scale);
        let partial: Vec<Vec<[f64; 3]>> = members
            .par_iter()
            .enumerate()
            .map(|(level, members)| {
                let draws = self.len();
                let mut values: Vec<Vec<f64>> =
                    (0..q).map(|k| (0..draws).map(|draw| total(self, draw, level, k)).collect()).collect();
                let own = values.clone();
                let mut eta = vec![0.0; draws];
                for (row, shares) in members.iter().zip(projection(&of_rows.z, members, q)) {
                    self.predictors(rows, *row, &mut eta);
                    let z = &of_rows.z[row * q..(row + 1) * q];
                    for (draw, eta) in eta.iter().enumerate() {
                        let apart = eta - rest[*row] - (0..q).map(|k| z[k] * own[k][draw]).sum::<f64>();
                        values.iter_mut().zip(&shares).for_each(|(values, share)| values[draw] += share * apart);
                    }
                }
                values.iter_mut().map(|values| middle_90(values)).collect()
            })
            .collect();
        let of_column = |k: usize| GroupEstimates {
            grouping: group.name.clone(),
            column: group.columns[k].clone(),
            levels: group.levels.clone(),
            rows: members.iter().map(Vec::len).collect(),
            partial: partial.iter().map(|all| all[k]).collect(),
            alone: alone.iter().map(|all| all.as_ref().map(|all| all[k])).collect(),
            shared: fixed[k].map_or(0.0, |j| means.parameters_of(0)[j]),
            pooled: pooled.as_ref().map(|all| all[k][1]),
        };
        (0..q).map(of_column).collect()
    }

    /// The coefficient with the name of a column that varies, if it is of the same column.
    fn shared_coefficient(&self, rows: &EffectsRows, grouping: usize, name: &str, k: usize) -> Option<usize> {
        let names = self.layout().coefficient_names();
        let (p, q) = (names.len(), self.layout().groupings()[grouping].columns.len());
        let j = names.iter().position(|other| other == name)?;
        let z = &rows.groupings[grouping].z;
        (0..rows.rows).all(|row| rows.x[row * p + j] == z[row * q + k]).then_some(j)
    }
}

/// What each of some rows contributes to the coefficients that come closest to a change of their predictors: the columns of
/// `(Z'Z)^-1 Z'`, or nearly the smallest such coefficients where the rows do not determine them.
fn projection(z: &[f64], members: &[usize], q: usize) -> Vec<Vec<f64>> {
    let mut square = vec![0.0; q * q];
    for row in members {
        let z = &z[row * q..(row + 1) * q];
        (0..q * q).for_each(|at| square[at] += z[at / q] * z[at % q]);
    }
    let largest = (0..q).map(|k| square[k * q + k]).fold(0.0, f64::max);
    (0..q).for_each(|k| square[k * q + k] += RIDGE * largest);
    let share = |row: &usize| solve(square.clone(), &z[row * q..(row + 1) * q]).unwrap_or_else(|| vec![0.0; q]);
    members.iter().map(share).collect()
}

/// Rows whose coefficients are sought, everything else being known.
struct OwnRows<'a> {
    rows: &'a EffectsRows,
    family: Family,
    /// Parameters of the family.
    own: &'a [f64],
    z: &'a [f64],
    /// What is added to each predictor.
    rest: &'a [f64],
    q: usize,
}

impl OwnRows<'_> {
    fn weight(&self, row: usize) -> f64 {
        self.rows.weights.as_ref().map_or(1.0, |weights| weights[row])
    }

    fn eta(&self, row: usize, b: &[f64]) -> f64 {
        self.rest[row] + dot(&self.z[row * self.q..(row + 1) * self.q], b)
    }

    fn log_likelihood(&self, members: &[usize], b: &[f64]) -> f64 {
        let of_row = |row: &usize| {
            self.weight(*row) * self.family.log_density(self.own, self.eta(*row, b), self.rows.observed(*row))
        };
        members.iter().map(of_row).sum()
    }

    /// Slopes, information, and a positive matrix to step with, which differs from it where the density is not log-concave.
    fn derivatives(&self, members: &[usize], b: &[f64]) -> [Vec<f64>; 3] {
        let q = self.q;
        let [mut slopes, mut information, mut metric] = [vec![0.0; q], vec![0.0; q * q], vec![0.0; q * q]];
        for &row in members {
            let z = &self.z[row * q..(row + 1) * q];
            let at = at_observed(self.family, self.own, self.eta(row, b), self.rows.observed(row));
            let weight = self.weight(row);
            for i in 0..q {
                slopes[i] += weight * at.slope * z[i];
                for j in 0..q {
                    information[i * q + j] += weight * at.information * z[i] * z[j];
                    metric[i * q + j] += weight * at.metric * z[i] * z[j];
                }
            }
        }
        [slopes, information, metric]
    }

    /// The coefficients with the largest likelihood of some rows, and their middle 90%; none if it is not reached at finite ones that the
    /// rows determine. `scale` is the unit of the predictor.
    fn largest(&self, members: &[usize], mut b: Vec<f64>, scale: f64) -> Option<Vec<[f64; 3]>> {
        let mut here = self.log_likelihood(members, &b);
        for _ in 0..STEPS {
            let [slopes, information, metric] = self.derivatives(members, &b);
            let mut step = solve(metric, &slopes)?;
            let moved = |step: &[f64]| {
                members.iter().map(|row| dot(&self.z[row * self.q..(row + 1) * self.q], step).abs()).fold(0.0, f64::max)
            };
            let change = moved(&step);
            if change <= TOLERANCE * scale {
                let found = estimates(&vec![0.0; self.q], &information)?;
                let mut columns = members.iter().map(|row| &self.z[row * self.q..(row + 1) * self.q]);
                let flat =
                    |z: &[f64]| solve(information.clone(), z).is_none_or(|v| dot(z, &v) > (FLAT * scale).powi(2));
                if columns.any(flat) {
                    return None;
                }
                let bounds = |(k, (_, variance)): (usize, &(f64, f64))| {
                    LEVELS.map(|(_, z)| b[k] + step[k] + z * variance.sqrt())
                };
                return Some(found.iter().enumerate().map(bounds).collect());
            }
            let mut halvings = 0;
            loop {
                let next: Vec<f64> = b.iter().zip(&step).map(|(b, step)| b + step).collect();
                let there = self.log_likelihood(members, &next);
                // The last digits of the sum may hide a tiny gain.
                if there >= here - 1e-9 * here.abs().max(1.0) {
                    (b, here) = (next, there);
                    break;
                }
                halvings += 1;
                if halvings > HALVINGS {
                    return None;
                }
                step.iter_mut().for_each(|step| *step *= 0.5);
            }
        }
        None
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FAMILIES, crossed, wave};
    use super::super::{EffectsData, EffectsModel, EffectsRows, Grouping};
    use super::*;
    use natmix::target::Target;

    fn intercepts(levels: Vec<u32>, count: usize) -> Grouping {
        let rows = levels.len();
        Grouping {
            name: "g".into(),
            levels: (0..count).map(|level| format!("l{level}")).collect(),
            level_of_row: levels,
            columns: vec!["(intercept)".into()],
            z: vec![1.0; rows],
            ..Grouping::default()
        }
    }

    fn estimates_at(family: Family, data: EffectsData, z: &[f64]) -> Vec<GroupEstimates> {
        let model = EffectsModel::new(family, data.clone(), &[]).unwrap();
        let rows = EffectsRows::of_fit(&data, model.family());
        EffectsDraws::new(model.layout(), z, 1).unwrap().group_estimates(&rows)
    }

    /// Means of groups, with the noise of the fit; the coefficient of `x` is held.
    #[test]
    fn groups_of_normal_outcomes_have_their_means() {
        let levels = vec![0, 0, 0, 1, 2, 2];
        let (x, y) = ([1.0, 2.0, 3.0, 0.5, 1.5, 4.0], [3.0, 5.0, 4.0, 9.0, 1.0, 2.0]);
        let data = EffectsData {
            y: y.to_vec(),
            names: vec!["(intercept)".into(), "x".into()],
            x: x.iter().flat_map(|x| [1.0, *x]).collect(),
            groupings: vec![intercepts(levels.clone(), 3)],
            weights: Some(vec![1.0, 2.0, 1.0, 1.0, 0.0, 1.0]),
            ..EffectsData::default()
        };
        let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
        let z: Vec<f64> = (0..model.dim()).map(|j| 0.4 * wave(j)).collect();
        let mut own = vec![0.0; model.dim()];
        model.to_parameters(&z, &mut own);
        let (slope, sigma) = (own[1], own[2]);
        let found = estimates_at(Family::Linear, data.clone(), &z);
        assert_eq!(found.len(), 1);
        let GroupEstimates { grouping, column, rows, partial, alone, shared, pooled, .. } = &found[0];
        assert_eq!((grouping.as_str(), column.as_str(), &rows[..]), ("g", "(intercept)", &[3, 1, 1][..]));
        let weights = data.weights.unwrap();
        let mean = |which: &dyn Fn(u32) -> bool| {
            let of = |row: &usize| which(levels[*row]);
            let total: f64 = (0..6).filter(of).map(|row| weights[row]).sum();
            ((0..6).filter(of).map(|row| weights[row] * (y[row] - slope * x[row])).sum::<f64>() / total, total)
        };
        for level in 0..3 {
            let (centre, total) = mean(&|own| own == level);
            let [low, middle, high] = alone[level as usize].unwrap();
            assert!((middle - centre).abs() < 1e-9, "{level}: {middle} {centre}");
            assert!((high - low - 2.0 * 1.644_853_626_951 * sigma / total.sqrt()).abs() < 1e-9);
            assert!((partial[level as usize][1] - own[0] - own[4 + level as usize]).abs() < 1e-9);
        }
        assert!((pooled.unwrap() - mean(&|_| true).0).abs() < 1e-9 && *shared == own[0]);
    }

    /// What the rest of the predictors of a group does at a draw counts as the group's: here a column that is the same in each group.
    #[test]
    fn coefficients_in_the_fit_are_those_beside_what_is_held() {
        let levels = vec![0, 0, 1, 1, 1, 2];
        let x: Vec<f64> = levels.iter().map(|level| 1.0 + 2.0 * f64::from(*level)).collect();
        let data = EffectsData {
            y: vec![1.0, 2.0, 0.5, 4.0, 1.0, 3.0],
            names: vec!["(intercept)".into(), "x".into()],
            x: x.iter().flat_map(|x| [1.0, *x]).collect(),
            groupings: vec![intercepts(levels.clone(), 3)],
            ..EffectsData::default()
        };
        let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
        let d = model.dim();
        let z: Vec<f64> = (0..201 * d).map(|at| 0.3 * wave(3 * at)).collect();
        let mut own = vec![0.0; z.len()];
        z.chunks(d).zip(own.chunks_mut(d)).for_each(|(z, own)| model.to_parameters(z, own));
        let slope = own.chunks(d).map(|own| own[1]).sum::<f64>() / 201.0;
        let found = estimates_at(Family::Linear, data, &z).remove(0);
        for level in 0..3 {
            let x = 1.0 + 2.0 * level as f64;
            let mut values: Vec<f64> =
                own.chunks(d).map(|own| own[0] + own[4 + level] + (own[1] - slope) * x).collect();
            let exact = middle_90(&mut values);
            for (found, exact) in found.partial[level].iter().zip(exact) {
                assert!((found - exact).abs() < 1e-6, "{level}: {found} {exact}");
            }
        }
    }

    /// Proportions and rates by hand; groups whose outcomes are all at one end have no estimate.
    #[test]
    fn groups_without_a_largest_likelihood_have_no_estimate() {
        let levels = vec![0, 0, 0, 0, 1, 1, 2];
        let of = |family, y: [f64; 7]| {
            let data = EffectsData {
                y: y.to_vec(),
                names: vec!["(intercept)".into()],
                x: vec![1.0; 7],
                groupings: vec![intercepts(levels.clone(), 4)],
                ..EffectsData::default()
            };
            estimates_at(family, data, &[0.2, 0.1, 0.3, -0.5, 0.1, 0.0]).remove(0)
        };
        let shares = of(Family::Logistic, [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        let [low, middle, high] = shares.alone[0].unwrap();
        assert!((middle + 3f64.ln()).abs() < 1e-9 && (high - low - 3.289_707_253_9 / 0.75f64.sqrt()).abs() < 1e-8);
        // A group without rows too.
        assert_eq!(shares.alone[1..], [None; 3]);
        assert!((shares.pooled.unwrap() - (3.0f64 / 4.0).ln()).abs() < 1e-9);
        let counts = of(Family::Poisson, [3.0, 0.0, 1.0, 2.0, 0.0, 0.0, 50.0]);
        assert!((counts.alone[0].unwrap()[1] - 1.5f64.ln()).abs() < 1e-9 && counts.alone[1].is_none());
        assert!((counts.alone[2].unwrap()[1] - 50f64.ln()).abs() < 1e-9);
        assert_eq!(counts.rows, [4, 2, 1, 0]);
    }

    /// At the estimates of every family the likelihood of a group's rows is flat, and smaller elsewhere.
    #[test]
    fn likelihoods_are_largest_at_the_estimates() {
        for family in FAMILIES {
            let mut data = crossed(family, 120);
            data.groupings[0].columns[0] = "one".into();
            let model = EffectsModel::new(family, data.clone(), &[]).unwrap();
            let z: Vec<f64> = (0..model.dim()).map(|j| 0.2 * wave(j)).collect();
            let rows = EffectsRows::of_fit(&data, family);
            let draws = EffectsDraws::new(model.layout(), &z, 1).unwrap();
            let found = draws.group_estimates(&rows);
            assert_eq!(found.len(), 5, "{family:?}");
            let mut parameters = draws.parameters_of(0).to_vec();
            for (at, place) in draws.layout().groupings().iter().enumerate() {
                let q = place.columns.len();
                let columns = &found[3 * at..3 * at + q];
                for level in 0..place.levels.len() {
                    let Some(own) = columns.iter().map(|column| column.alone[level]).collect::<Option<Vec<_>>>() else {
                        continue;
                    };
                    let before = parameters.clone();
                    for (k, own) in own.iter().enumerate() {
                        let effect = place.first_effect + level * q + k;
                        let shared = columns[k].partial[level][1] - parameters[effect];
                        parameters[effect] = own[1] - shared;
                    }
                    let value = |parameters: &[f64]| {
                        let total = draws.with_parameters(parameters.to_vec()).log_likelihood(&rows).unwrap();
                        let weights = rows.weights.as_ref().unwrap();
                        let of_level = |row: &usize| rows.groupings[at].index[*row] == Some(level as u32);
                        (0..rows.rows).filter(of_level).map(|row| weights[row] * total[row]).sum::<f64>()
                    };
                    let top = value(&parameters);
                    for k in 0..q {
                        let half = 0.5 * (own[k][2] - own[k][0]);
                        for move_by in [-0.2 * half, 0.2 * half] {
                            let mut there = parameters.clone();
                            there[place.first_effect + level * q + k] += move_by;
                            let lost = top - value(&there);
                            assert!(lost > 0.0, "{family:?}: level {level}, column {k}: {lost} by {move_by}, {own:?}");
                        }
                    }
                    parameters = before;
                }
            }
        }
    }
}
