//! Draws of the posterior of a regression with varying effects, times rows: log likelihoods, predictions, and outcomes.
//!
//! Everything is computed from parameters in the units of the data, row by row, so that results have the same bits for any number
//! of threads. A group that the fit has not seen gets effects drawn from the distribution of its grouping.

use super::family::Family;
use super::layout::{EffectsLayout, GroupParameters};
use super::rows::EffectsRows;
use crate::conditional::{class_by_class, middle_90, middle_90_of_classes};
use crate::draws::log_sum_exp;
use crate::predict::{LEVELS, Predictions, entropy_of, quantile};
use natmix::Error;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// Rows per task.
const ROWS: usize = 64;

/// Draws of the posterior.
#[derive(Clone, Debug)]
pub struct EffectsDraws {
    layout: EffectsLayout,
    dim: usize,
    /// In the units of the data, draw by draw.
    parameters: Vec<f64>,
    groups: Vec<GroupParameters>,
    /// Effects of a new group, for each grouping draw by draw.
    new_effects: Vec<Vec<f64>>,
    seed: u64,
}

impl EffectsDraws {
    /// From draws `z` in the space of the fit, one after another. `seed` is for new groups and outcomes.
    pub fn new(layout: EffectsLayout, z: &[f64], seed: u64) -> Result<Self, Error> {
        let dim = layout.dim();
        if z.is_empty() || dim == 0 || !z.len().is_multiple_of(dim) {
            let problem = format!("{} numbers are not draws of {dim} coordinates (at least one)", z.len());
            return Err(Error::InvalidInput(problem));
        }
        let mut parameters = vec![0.0; z.len()];
        z.chunks_exact(dim).zip(parameters.chunks_exact_mut(dim)).for_each(|(z, own)| layout.to_parameters(z, own));
        let groups = layout.groupings();
        let new_effects = layout
            .groups
            .iter()
            .zip(&groups)
            .enumerate()
            .map(|(at, (shape, place))| {
                let of_draw = |(draw, z): (usize, &[f64])| {
                    let mut rng = stream(seed, (at as u64) << 32 | draw as u64, NEW_GROUPS);
                    let noise: Vec<f64> = (0..shape.q()).map(|_| StandardNormal.sample(&mut rng)).collect();
                    shape.effects_from(&z[place.first_sd..], &noise, layout.base.outcome.scale)
                };
                z.chunks_exact(dim).enumerate().flat_map(of_draw).collect()
            })
            .collect();
        Ok(Self { layout, dim, parameters, groups, new_effects, seed })
    }

    /// Number of draws.
    pub fn len(&self) -> usize {
        self.parameters.len() / self.dim
    }

    /// Whether there are no draws (there is always at least one).
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    /// What random numbers depend on.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// What the draws stand for.
    pub fn layout(&self) -> &EffectsLayout {
        &self.layout
    }

    /// The parameters of a draw, in the units of the data.
    pub(super) fn parameters_of(&self, draw: usize) -> &[f64] {
        &self.parameters[draw * self.dim..(draw + 1) * self.dim]
    }

    /// A single draw with these parameters, for rows of known groups.
    pub(super) fn with_parameters(&self, parameters: Vec<f64>) -> Self {
        let new_effects = self.groups.iter().map(|group| vec![0.0; group.columns.len()]).collect();
        Self { layout: self.layout.clone(), groups: self.groups.clone(), parameters, new_effects, ..*self }
    }

    /// The mean of all draws as a single one, for rows of known groups.
    pub(super) fn at_mean(&self) -> Self {
        let mut mean = vec![0.0; self.dim];
        let share = 1.0 / self.len() as f64;
        for draw in self.parameters.chunks_exact(self.dim) {
            mean.iter_mut().zip(draw).for_each(|(mean, x)| *mean += share * x);
        }
        self.with_parameters(mean)
    }

    /// The family's own parameters of a draw.
    pub(super) fn own(&self, draw: usize) -> &[f64] {
        let first = draw * self.dim + self.layout.base.names.len();
        &self.parameters[first..first + self.layout.base.family.parameters()]
    }

    /// The linear predictors of a row at all draws, in the units of the data.
    pub(super) fn predictors(&self, rows: &EffectsRows, row: usize, eta: &mut [f64]) {
        let p = self.layout.base.names.len();
        let x = &rows.x[row * p..(row + 1) * p];
        let offset = rows.offset.as_ref().map_or(0.0, |offset| offset[row]);
        for (eta, own) in eta.iter_mut().zip(self.parameters.chunks_exact(self.dim)) {
            *eta = offset + x.iter().zip(own).map(|(x, b)| x * b).sum::<f64>();
        }
        for ((place, of_rows), new) in self.groups.iter().zip(&rows.groupings).zip(&self.new_effects) {
            let q = place.columns.len();
            let z = &of_rows.z[row * q..(row + 1) * q];
            for (draw, eta) in eta.iter_mut().enumerate() {
                let effects = match of_rows.index[row] {
                    Some(level) => &self.parameters[draw * self.dim + place.first_effect + level as usize * q..],
                    None => &new[draw * q..],
                };
                *eta += z.iter().zip(effects).map(|(z, b)| z * b).sum::<f64>();
            }
        }
    }

    /// Fills `width` results for each of these rows from the predictors at all draws.
    pub(super) fn for_rows(
        &self,
        rows: &EffectsRows,
        which: &[usize],
        width: usize,
        each: impl Fn(usize, &[f64], &mut [f64]) + Sync,
    ) -> Vec<f64> {
        let mut out = vec![0.0; which.len() * width];
        out.par_chunks_mut(ROWS * width.max(1)).zip(which.par_chunks(ROWS)).for_each(|(out, which)| {
            let mut eta = vec![0.0; self.len()];
            for (row, out) in which.iter().zip(out.chunks_exact_mut(width)) {
                self.predictors(rows, *row, &mut eta);
                each(*row, &eta, out);
            }
        });
        out
    }

    /// Log likelihoods of some rows, row by row: `values[row * draws + draw]`.
    pub fn log_likelihood_of(&self, rows: &EffectsRows, which: &[usize]) -> Result<Vec<f64>, Error> {
        if rows.outcome.is_none() {
            return Err(Error::InvalidInput("the outcomes of these rows are not known".into()));
        }
        let family = self.layout.base.family;
        Ok(self.for_rows(rows, which, self.len(), |row, eta, out| {
            let observed = rows.observed(row);
            for (draw, (eta, out)) in eta.iter().zip(out).enumerate() {
                *out = family.log_density(self.own(draw), *eta, observed);
            }
        }))
    }

    /// Log likelihoods of all rows, draw by draw: `values[draw * rows + row]`.
    pub fn log_likelihood(&self, rows: &EffectsRows) -> Result<Vec<f64>, Error> {
        let all: Vec<usize> = (0..rows.rows).collect();
        let by_row = self.log_likelihood_of(rows, &all)?;
        let draws = self.len();
        Ok((0..draws * rows.rows).map(|at| by_row[at % rows.rows * draws + at / rows.rows]).collect())
    }

    /// Log density of the outcomes of some rows, averaged over draws.
    pub fn log_predictive(&self, rows: &EffectsRows, which: &[usize]) -> Result<Vec<f64>, Error> {
        let values = self.log_likelihood_of(rows, which)?;
        let log_count = (self.len() as f64).ln();
        Ok(values.chunks_exact(self.len()).map(|of_row| log_sum_exp(of_row) - log_count).collect())
    }

    /// Predictions for some rows. Without `intervals` quantiles are NaN: they take the most time.
    pub fn predict(&self, rows: &EffectsRows, which: &[usize], intervals: bool) -> Result<Predictions, Error> {
        let family = self.layout.base.family;
        if family == Family::Binomial && rows.trials.is_none() {
            let problem =
                "the numbers of trials of these rows are needed: the column that the fit had for them is missing";
            return Err(Error::InvalidInput(problem.into()));
        }
        let column = |of: &[f64], width: usize, at: usize| of.iter().skip(at).step_by(width).copied().collect();
        let share = 1.0 / self.len() as f64;
        match family {
            Family::Ordinal { categories } => {
                let probability = self.for_rows(rows, which, categories, |_, eta, out| {
                    eta.iter()
                        .enumerate()
                        .for_each(|(draw, eta)| Family::add_categories(self.own(draw), *eta, share, out));
                });
                let entropy = probability.chunks_exact(categories).map(entropy_of).collect();
                Ok(Predictions::Classes { classes: categories, probability, entropy })
            }
            Family::Logistic => {
                let found = self.for_rows(rows, which, 2, |_, eta, out| {
                    let p = |eta: &f64| Family::Logistic.mean_and_variance(&[], *eta, 1.0).0;
                    let mean = share * eta.iter().map(p).sum::<f64>();
                    let variance = share * eta.iter().map(|eta| (p(eta) - mean).powi(2)).sum::<f64>();
                    out.copy_from_slice(&[mean, variance.sqrt()]);
                });
                let probability: Vec<f64> = column(&found, 2, 0);
                let entropy = probability.iter().map(|p| entropy_of(&[*p, 1.0 - p])).collect();
                Ok(Predictions::Binary { probability, sd: column(&found, 2, 1), entropy })
            }
            _ => {
                let found =
                    self.for_rows(rows, which, 5, |row, eta, out| self.summarise(rows, row, eta, intervals, out));
                let [mean, sd, q05, q50, q95] = [0, 1, 2, 3, 4].map(|at| column(&found, 5, at));
                Ok(Predictions::Real { mean, sd, q05, q50, q95 })
            }
        }
    }

    /// 5% quantile, median and 95% quantile of the expected outcome of each row; for ordered categories one such list for the
    /// probability of each.
    pub(super) fn expected(&self, rows: &EffectsRows) -> Vec<Vec<[f64; 3]>> {
        let family = self.layout.base.family;
        let all: Vec<usize> = (0..rows.rows).collect();
        let classes = if let Family::Ordinal { categories } = family { categories } else { 1 };
        let found = self.for_rows(rows, &all, 3 * classes, |row, eta, out| {
            if classes == 1 {
                let mean =
                    |(draw, eta): (usize, &f64)| family.mean_and_variance(self.own(draw), *eta, rows.trials(row)).0;
                let mut means: Vec<f64> = eta.iter().enumerate().map(mean).collect();
                out.copy_from_slice(&middle_90(&mut means));
                return;
            }
            let mut of_draws = vec![0.0; classes * eta.len()];
            for (draw, (eta, of_draw)) in eta.iter().zip(of_draws.chunks_exact_mut(classes)).enumerate() {
                Family::add_categories(self.own(draw), *eta, 1.0, of_draw);
            }
            middle_90_of_classes(&of_draws, classes, out);
        });
        class_by_class(&found, classes)
    }

    /// Mean, standard deviation and quantiles of the outcome of a row.
    fn summarise(&self, rows: &EffectsRows, row: usize, eta: &[f64], intervals: bool, out: &mut [f64]) {
        let family = self.layout.base.family;
        let share = 1.0 / eta.len() as f64;
        let moments: Vec<(f64, f64)> = eta
            .iter()
            .enumerate()
            .map(|(draw, eta)| family.mean_and_variance(self.own(draw), *eta, rows.trials(row)))
            .collect();
        let mean = share * moments.iter().map(|(mean, _)| mean).sum::<f64>();
        let variance = share * moments.iter().map(|(own, variance)| variance + (own - mean).powi(2)).sum::<f64>();
        let sd = variance.sqrt();
        (out[0], out[1]) = (mean, sd);
        if !intervals {
            out[2..].fill(f64::NAN);
        } else if family == Family::Linear {
            let sigma: Vec<f64> = (0..eta.len()).map(|draw| self.own(draw)[0]).collect();
            let weights = vec![share; eta.len()];
            for (out, level) in out[2..].iter_mut().zip(LEVELS) {
                *out = quantile(level, eta, &sigma, &weights, mean, sd);
            }
        } else {
            let mut drawn = self.outcomes_of_row(rows, row, eta);
            drawn.sort_by(f64::total_cmp);
            // Smallest outcome that the share of draws does not exceed: a count for counts.
            for (out, (level, _)) in out[2..].iter_mut().zip(LEVELS) {
                *out = drawn[((level * drawn.len() as f64).ceil() as usize).clamp(1, drawn.len()) - 1];
            }
        }
    }

    /// An outcome of a row for each draw.
    fn outcomes_of_row(&self, rows: &EffectsRows, row: usize, eta: &[f64]) -> Vec<f64> {
        let family = self.layout.base.family;
        let mut rng = stream(self.seed, row as u64, OUTCOMES);
        let draw = |(draw, eta): (usize, &f64)| family.draw(self.own(draw), *eta, rows.trials(row), &mut rng);
        eta.iter().enumerate().map(draw).collect()
    }

    /// For some rows and all draws, row by row: the mean of the outcome, its variance, and a drawn outcome.
    pub(crate) fn replicated(&self, rows: &EffectsRows, which: &[usize]) -> Vec<[f64; 3]> {
        let family = self.layout.base.family;
        let found = self.for_rows(rows, which, 3 * self.len(), |row, eta, out| {
            let drawn = self.outcomes_of_row(rows, row, eta);
            for (draw, (out, eta)) in out.chunks_exact_mut(3).zip(eta).enumerate() {
                let (mean, variance) = family.mean_and_variance(self.own(draw), *eta, rows.trials(row));
                out.copy_from_slice(&[mean, variance, drawn[draw]]);
            }
        });
        found.as_chunks::<3>().0.to_vec()
    }
}

/// What random numbers are for.
const NEW_GROUPS: u64 = 1;
const OUTCOMES: u64 = 2;
pub(super) const CENSORING: u64 = 3;

pub(super) fn stream(seed: u64, which: u64, purpose: u64) -> impl Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ purpose.rotate_left(56));
    rng.set_stream(which);
    rng
}

#[cfg(test)]
mod tests {
    use super::super::tests::crossed;
    use super::super::{EffectsModel, EffectsRows, Family};
    use super::*;
    use natmix::target::Target;

    #[test]
    fn known_and_new_groups_are_predicted() {
        let data = crossed(Family::Linear, 30);
        let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
        let d = model.dim();
        // The same point many times: the mean is the predictor, the spread the noise.
        let one: Vec<f64> = (0..d).map(|j| 0.3 * super::super::tests::wave(j)).collect();
        let z = one.repeat(4000);
        let mut parameters = vec![0.0; d];
        model.to_parameters(&one, &mut parameters);
        let mut rows = EffectsRows::of_fit(&data, model.family());
        let draws = EffectsDraws::new(model.layout(), &z, 3).unwrap();
        assert_eq!(draws.len(), 4000);
        let eta = model.predictors_at(&one)[7];
        let Predictions::Real { mean, sd, q05, q95, .. } = draws.predict(&rows, &[7], true).unwrap() else { panic!() };
        let (centre, scale) = (model.base.outcome.centre, model.base.outcome.scale);
        let sigma = parameters[3];
        assert!((mean[0] - (centre + scale * eta)).abs() < 1e-9 && (sd[0] - sigma).abs() < 1e-9);
        assert!((q95[0] - q05[0] - 2.0 * 1.6449 * sigma).abs() < 1e-3 * sigma);
        // A new level of the first grouping: its effects vary with their covariance.
        rows.groupings[0].index[7] = None;
        assert_eq!(rows.new_groups(), 1);
        let Predictions::Real { sd, .. } = draws.predict(&rows, &[7], false).unwrap() else { panic!() };
        let columns = &rows.groupings[0].z[21..24];
        let place = &model.layout().groupings()[0];
        let sds = &parameters[place.first_sd..];
        let mut variance = sigma * sigma;
        for i in 0..3 {
            variance += (columns[i] * sds[i]).powi(2);
            for j in 0..i {
                let correlation = sds[3 + i * (i - 1) / 2 + j];
                variance += 2.0 * columns[i] * columns[j] * sds[i] * sds[j] * correlation;
            }
        }
        assert!((sd[0] / variance.sqrt() - 1.0).abs() < 0.05, "{} {}", sd[0], variance.sqrt());
    }
}
