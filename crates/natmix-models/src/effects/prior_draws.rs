//! Draws from the prior, and outcomes drawn at a point: together prior predictive draws.

use super::family::Family;
use super::groups::Group;
use super::model::EffectsModel;
use super::prior_density::standard_gamma;
use natmix::target::Target;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Logarithms beyond this overflow together with what they are added to.
const MOST_LOG: f64 = 700.0;

fn stream(seed: u64, draw: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(draw);
    rng
}

impl EffectsModel {
    /// Points drawn from the prior, one after the other: as many as are asked for, the same for the same seed.
    pub fn prior_draws(&self, count: usize, seed: u64) -> Vec<f64> {
        let draws = (0..count).flat_map(|draw| {
            let rng = &mut stream(seed, draw as u64);
            let mut z: Vec<f64> = self.priors.iter().map(|prior| prior.draw(rng)).collect();
            let log = |x: f64| x.ln().clamp(-MOST_LOG, MOST_LOG);
            z.extend(self.auxiliary.priors.iter().map(|prior| log(prior.draw(rng))));
            let mut cuts: Vec<f64> = (0..self.base.family.cuts()).map(|_| self.auxiliary.cut_prior.draw(rng)).collect();
            cuts.sort_by(f64::total_cmp);
            z.extend(cuts.first());
            z.extend(cuts.windows(2).map(|pair| log(pair[1] - pair[0])));
            for group in &self.groups {
                z.extend(group.sd_priors.iter().map(|prior| log(prior.draw(rng))));
                if group.shape.correlations() > 0 {
                    for i in 1..group.q {
                        // Half the log odds of a beta variable is the hyperbolic arc tangent of what it maps to.
                        z.extend((0..i).map(|j| {
                            let a = group.beta(j);
                            0.5 * (log(standard_gamma(rng, a)) - log(standard_gamma(rng, a)))
                        }));
                    }
                }
                let first = z.len() - group.shape.scales();
                z.extend((0..group.shape.effects()).map(|_| -> f64 { StandardNormal.sample(rng) }));
                let (before, own) = z.split_at_mut(first);
                group.shape.centre(before, own);
            }
            z
        });
        draws.collect()
    }

    /// The linear predictor of every row of this process at point `z`, in the units of the fit.
    pub(super) fn predictors_at(&self, z: &[f64]) -> Vec<f64> {
        let effects = self.effects_at(z);
        (0..self.outcomes.y.len()).map(|row| self.predictor_at(row, z, &effects)).collect()
    }

    /// The effects of each group.
    pub(super) fn effects_at(&self, z: &[f64]) -> Vec<Vec<f64>> {
        self.groups.iter().map(|group| effects_of(group, z)).collect()
    }

    /// The linear predictor of a row.
    pub(super) fn predictor_at(&self, row: usize, z: &[f64], effects: &[Vec<f64>]) -> f64 {
        let p = self.priors.len();
        let mut eta = self.offset.as_ref().map_or(0.0, |offset| offset[row]);
        eta += self.x[row * p..(row + 1) * p].iter().zip(z).map(|(x, z)| x * z).sum::<f64>();
        for (group, effects) in self.groups.iter().zip(effects) {
            let level = group.level_of_row[row] as usize;
            let (own, columns) = (&effects[level * group.q..], &group.z[row * group.q..]);
            eta += columns.iter().zip(own).take(group.q).map(|(x, effect)| x * effect).sum::<f64>();
        }
        eta
    }

    /// An outcome for every row, drawn at point `z`, in the units of the data: numbers, counts, categories or times, not censored.
    /// A draw is infinite where the predictor is too large for a number.
    pub fn outcomes_at(&self, z: &[f64], seed: u64) -> Vec<f64> {
        let rng = &mut stream(seed, u64::MAX);
        let mut parameters = vec![0.0; self.dim];
        self.to_parameters(z, &mut parameters);
        let p = self.priors.len();
        let own = &parameters[p..p + self.auxiliary.dim()];
        let unit = self.base.outcome;
        // What centring the columns has taken from predictors, cut points have got.
        let taken = if self.base.family.cuts() > 0 { parameters[p] - z[p] } else { 0.0 };
        let eta = self.predictors_at(z).into_iter().map(|eta| taken + unit.centre + unit.scale * eta);
        let draws = eta.enumerate().map(|(row, eta)| {
            let trials = match self.base.family {
                Family::Binomial => self.outcomes.y[row] + self.outcomes.other[row],
                _ => 1.0,
            };
            self.base.family.draw(own, eta, trials, rng)
        });
        let Some(order) = &self.order else { return draws.collect() };
        let mut sorted = vec![0.0; self.rows];
        order.iter().zip(draws).for_each(|(row, y)| sorted[*row as usize] = y);
        sorted
    }
}

fn effects_of(group: &Group, z: &[f64]) -> Vec<f64> {
    let mut effects = vec![0.0; group.shape.effects()];
    group.shape.effects_at(z, &z[group.first..group.first + group.shape.dim()], &mut effects);
    effects
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FAMILIES, crossed};
    use super::super::{EffectsModel, Family};
    use natmix::target::{Target, log_p_at};

    fn mean_and_se(values: impl Iterator<Item = f64>) -> (f64, f64) {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n / n).sqrt())
    }

    /// The score has expectation zero under its own density, if draws and density agree and the density vanishes at the ends.
    #[test]
    fn draws_from_the_prior_have_its_density() {
        for family in [Family::Robust, Family::NegativeBinomial, Family::Ordinal { categories: 4 }] {
            let mut data = crossed(family, 12);
            data.weights = Some(vec![0.0; 12]);
            let model = EffectsModel::new(family, data, &[]).unwrap();
            let (d, n) = (model.dim(), 4000);
            let draws = model.prior_draws(n, 3);
            assert_eq!(draws, model.prior_draws(n, 3));
            for j in 0..d {
                let slope = |z: &[f64]| {
                    let at = |shift: f64| {
                        let mut z = z.to_vec();
                        z[j] += shift;
                        log_p_at(&model, &z).unwrap()
                    };
                    (at(1e-5) - at(-1e-5)) / 2e-5
                };
                let (score, se) = mean_and_se(draws.chunks_exact(d).map(slope));
                assert!(score.abs() < 5.0 * se + 1e-5 && se < 0.1, "{family:?}, {j}: {score} +- {se}");
                // Integration by parts: E[z score] = -1.
                let (product, se) = mean_and_se(draws.chunks_exact(d).map(|z| slope(z) * z[j]));
                assert!((product + 1.0).abs() < 5.0 * se + 1e-4 && se < 0.3, "{family:?}, {j}: {product} +- {se}");
            }
        }
    }

    /// Where outcomes are drawn at a point, the expected slope of their log likelihood there is zero.
    #[test]
    fn outcomes_are_drawn_from_the_likelihood() {
        for family in FAMILIES {
            let data = crossed(family, 40);
            let mut model = EffectsModel::new(family, data, &[]).unwrap();
            model.outcomes.weights = Vec::new();
            let z: Vec<f64> = (0..model.dim()).map(|j| 0.3 * super::super::tests::wave(j)).collect();
            let unit = model.base.outcome;
            let draws = (0..2000).map(|seed| {
                let mut drawn = model.clone();
                for (row, y) in model.outcomes_at(&z, seed).into_iter().enumerate() {
                    drawn.outcomes.y[row] = match family {
                        Family::Linear | Family::Robust => (y - unit.centre) / unit.scale,
                        Family::Gamma | Family::Survival => y.ln() - unit.centre,
                        _ => y,
                    };
                    match family {
                        Family::Survival => drawn.outcomes.other[row] = 1.0,
                        Family::Logistic => drawn.outcomes.other[row] = 1.0 - y,
                        Family::Binomial => {
                            drawn.outcomes.other[row] = model.outcomes.y[row] + model.outcomes.other[row] - y;
                        }
                        _ => {}
                    }
                }
                let prior = -z[0] / 625.0;
                let first = if let Family::Ordinal { .. } = family { 1.0 / 6.25 * -z[0] } else { prior };
                natmix_gradient(&drawn, &z)[0] - first
            });
            let (score, se) = mean_and_se(draws);
            assert!(score.abs() < 5.0 * se, "{family:?}: {score} +- {se}");
        }
    }

    fn natmix_gradient(model: &EffectsModel, z: &[f64]) -> Vec<f64> {
        use natmix::target::{EvalOut, Points, Rows};
        let (mut log_p, mut grad) = ([0.0], vec![0.0; z.len()]);
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
        model.eval(Rows::All, Points::new(z, z.len()), out, &mut natmix::Scratch::default()).unwrap();
        grad
    }
}
