//! The distribution of one outcome given its predictor, in the units of the data: density, moments, draws.
//!
//! `own` are the parameters of the family: `sigma`; `sigma, df`; `shape`; or the cut points.

use super::family::Family;
use super::prior_density::standard_gamma;
use crate::gamma_ratios::rising;
use crate::prior::LOG_TAU;
use natmix::autodiff::special::ln_gamma;
use rand::Rng;
use rand_distr::{Binomial, Distribution, Open01, Poisson, StandardNormal, StudentT};

/// Means beyond this have no integers of their own: the outcome is the mean.
const MOST_COUNT: f64 = 1e15;
/// Degrees of freedom that cannot be told from the normal distribution.
const MANY_DF: f64 = 1e8;

/// An observed outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    pub y: f64,
    /// Number of trials of the binomial family.
    pub trials: f64,
    /// Whether the event was seen; otherwise the time is right-censored.
    pub seen: bool,
}

/// `log(1 + exp x)`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn logistic(x: f64) -> f64 {
    let small = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

impl Family {
    /// Log density of an outcome, with all constants.
    pub(super) fn log_density(self, own: &[f64], eta: f64, Observed { y, trials, seen }: Observed) -> f64 {
        match self {
            Family::Linear => {
                let residual = (y - eta) / own[0];
                -0.5 * (residual * residual + LOG_TAU) - own[0].ln()
            }
            Family::Robust => {
                let (sigma, df) = (own[0], own[1]);
                let residual = (y - eta) / sigma;
                rising(0.5 * df, 0.5)[0]
                    - 0.5 * (std::f64::consts::PI * df).ln()
                    - sigma.ln()
                    - 0.5 * (df + 1.0) * (residual * residual / df).ln_1p()
            }
            Family::Logistic => -y * softplus(-eta) - (1.0 - y) * softplus(eta),
            Family::Binomial => {
                let choices = ln_gamma(trials + 1.0) - ln_gamma(y + 1.0) - ln_gamma(trials - y + 1.0);
                choices - y * softplus(-eta) - (trials - y) * softplus(eta)
            }
            Family::Poisson => y * eta - eta.exp() - ln_gamma(y + 1.0),
            Family::NegativeBinomial => {
                let (shape, above) = (own[0], eta - own[0].ln());
                rising(shape, y)[0] - ln_gamma(y + 1.0) - y * softplus(-above) - shape * softplus(above)
            }
            Family::Ordinal { .. } => {
                let k = y as usize;
                let upper = own.get(k).map(|cut| cut - eta);
                let lower = k.checked_sub(1).and_then(|k| own.get(k)).map(|cut| cut - eta);
                match (lower, upper) {
                    (None, Some(a)) => -softplus(-a),
                    (Some(b), None) => -softplus(b),
                    // A difference of distribution functions that loses no digits.
                    (Some(b), Some(a)) => -softplus(-a) - softplus(b) + super::auxiliary::ln_1m_exp(a - b),
                    (None, None) => 0.0,
                }
            }
            Family::Gamma => {
                let (shape, log) = (own[0], y.ln() - eta);
                shape * (shape.ln() + log - log.exp()) - y.ln() - ln_gamma(shape)
            }
            Family::Survival => {
                let (shape, log) = (own[0], y.ln() - eta);
                let event = if seen { shape.ln() + shape * log - y.ln() } else { 0.0 };
                event - (shape * log).exp()
            }
        }
    }

    /// Mean and variance of the outcome; not for the ordinal family. They are infinite where Student's distribution has none.
    pub(super) fn mean_and_variance(self, own: &[f64], eta: f64, trials: f64) -> (f64, f64) {
        match self {
            Family::Linear => (eta, own[0] * own[0]),
            Family::Robust => {
                let (sigma, df) = (own[0], own[1]);
                (eta, if df > 2.0 { sigma * sigma * df / (df - 2.0) } else { f64::INFINITY })
            }
            Family::Logistic | Family::Binomial => {
                let p = logistic(eta);
                (trials * p, trials * p * (1.0 - p))
            }
            Family::Poisson => (eta.exp(), eta.exp()),
            Family::NegativeBinomial => (eta.exp(), eta.exp() * (1.0 + eta.exp() / own[0])),
            Family::Gamma => (eta.exp(), (2.0 * eta).exp() / own[0]),
            Family::Survival => {
                let moment = |k: f64| (k * eta + ln_gamma(1.0 + k / own[0])).exp();
                (moment(1.0), (moment(2.0) - moment(1.0) * moment(1.0)).max(0.0))
            }
            Family::Ordinal { .. } => (f64::NAN, f64::NAN),
        }
    }

    /// Adds `share` times the probability of each ordered category.
    pub(super) fn add_categories(own: &[f64], eta: f64, share: f64, probability: &mut [f64]) {
        let mut below = 0.0;
        for (k, probability) in probability.iter_mut().enumerate() {
            let up_to = own.get(k).map_or(1.0, |cut| logistic(cut - eta));
            *probability += share * (up_to - below).max(0.0);
            below = up_to;
        }
    }

    /// Draws an outcome: a number, a count, a category, or a time that is not censored. It is infinite where the predictor is too
    /// large for a number.
    pub(super) fn draw(self, own: &[f64], eta: f64, trials: f64, rng: &mut impl Rng) -> f64 {
        match self {
            Family::Linear => {
                let noise: f64 = StandardNormal.sample(rng);
                eta + own[0] * noise
            }
            Family::Robust => {
                let noise: f64 = match StudentT::new(own[1]) {
                    Ok(student) if own[1] < MANY_DF => student.sample(rng),
                    _ => StandardNormal.sample(rng),
                };
                eta + own[0] * noise
            }
            Family::Logistic => f64::from(u8::from(uniform(rng) < logistic(eta))),
            Family::Binomial => match Binomial::new(trials as u64, logistic(eta)) {
                Ok(binomial) => binomial.sample(rng) as f64,
                Err(_) => f64::NAN,
            },
            Family::Poisson => count(rng, eta.exp()),
            Family::NegativeBinomial => {
                let varying = standard_gamma(rng, own[0]) / own[0];
                count(rng, eta.exp() * varying)
            }
            Family::Gamma => eta.exp() * standard_gamma(rng, own[0]) / own[0],
            Family::Survival => eta.exp() * (-uniform(rng).ln()).powf(1.0 / own[0]),
            Family::Ordinal { .. } => {
                let latent = uniform(rng);
                own.iter().take_while(|cut| latent > logistic(*cut - eta)).count() as f64
            }
        }
    }
}

pub(super) fn uniform(rng: &mut impl Rng) -> f64 {
    Open01.sample(rng)
}

fn count(rng: &mut impl Rng, mean: f64) -> f64 {
    match Poisson::new(mean) {
        Ok(poisson) if mean < MOST_COUNT => poisson.sample(rng),
        _ => mean.round(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FAMILIES, crossed, wave};
    use super::super::{EffectsDraws, EffectsModel, EffectsRows, Family};
    use super::*;
    use natmix::target::{Target, log_p_at};
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    /// The densities of all rows are what weights add to the log density of the fit.
    #[test]
    fn densities_of_rows_add_up_to_the_likelihood() {
        for family in FAMILIES {
            let mut data = crossed(family, 30);
            let weights = data.weights.clone().unwrap();
            let mut model = EffectsModel::new(family, data.clone(), &[]).unwrap();
            model.groups.iter_mut().for_each(|group| group.shape.centred.iter_mut().step_by(2).for_each(|c| *c = true));
            data.weights = Some(vec![0.0; 30]);
            let mut without = EffectsModel::new(family, data.clone(), &[]).unwrap();
            without.groups = model.groups.clone();
            let z: Vec<f64> = (0..model.dim()).map(|j| 0.5 * wave(j)).collect();
            let layout = model.layout();
            let rows = EffectsRows::of_fit(&data, family);
            let draws = EffectsDraws::new(layout, &z, 1).unwrap();
            let values = draws.log_likelihood(&rows).unwrap();
            let total: f64 = values.iter().zip(&weights).map(|(value, weight)| value * weight).sum();
            let expected = log_p_at(&model, &z).unwrap() - log_p_at(&without, &z).unwrap();
            assert!((total - expected).abs() < 1e-9 * expected.abs().max(1.0), "{family:?}: {total}, {expected}");
        }
    }

    #[test]
    fn moments_are_those_of_draws() {
        let cases: [(Family, &[f64], f64, f64); 8] = [
            (Family::Linear, &[2.0], 1.0, 1.0),
            (Family::Robust, &[2.0, 7.0], 1.0, 1.0),
            (Family::Logistic, &[], 0.4, 1.0),
            (Family::Binomial, &[], 0.4, 9.0),
            (Family::Poisson, &[], 1.2, 1.0),
            (Family::NegativeBinomial, &[2.5], 1.2, 1.0),
            (Family::Gamma, &[2.5], 1.2, 1.0),
            (Family::Survival, &[1.7], 1.2, 1.0),
        ];
        let n = 40_000;
        for (family, own, eta, trials) in cases {
            let rng = &mut ChaCha8Rng::seed_from_u64(5);
            let draws: Vec<f64> = (0..n).map(|_| family.draw(own, eta, trials, rng)).collect();
            let (mean, variance) = family.mean_and_variance(own, eta, trials);
            let found = draws.iter().sum::<f64>() / n as f64;
            let spread = draws.iter().map(|y| (y - found).powi(2)).sum::<f64>() / n as f64;
            assert!((found - mean).abs() < 5.0 * (variance / n as f64).sqrt(), "{family:?}: {found} {mean}");
            assert!((spread / variance - 1.0).abs() < 0.1, "{family:?}: {spread} {variance}");
            // Densities integrate or sum to one, and to the mean.
            let discrete = !matches!(family, Family::Linear | Family::Robust | Family::Gamma | Family::Survival);
            let step = if discrete { 1.0 } else { 0.01 };
            let first = if matches!(family, Family::Linear | Family::Robust) { -400.0 } else { 0.0 };
            let shift = if discrete { 0.0 } else { 0.5 * step };
            let most = if discrete { trials.max(200.0 * f64::from(u8::from(trials == 1.0))) } else { 400.0 };
            let most = if family == Family::Logistic { 1.0 } else { most };
            let (mut total, mut first_moment) = (0.0, 0.0);
            let mut y = first + shift;
            while y <= most {
                let density = step * family.log_density(own, eta, Observed { y, trials, seen: true }).exp();
                (total, first_moment) = (total + density, first_moment + y * density);
                y += step;
            }
            assert!(
                (total - 1.0).abs() < 2e-4 && (first_moment - mean).abs() < 2e-3,
                "{family:?}: {total} {first_moment}"
            );
        }
        // A censored time has the probability to last longer.
        let censored = Family::Survival.log_density(&[1.7], 1.2, Observed { y: 4.0, trials: 1.0, seen: false });
        assert!((censored + (4.0 * (-1.2f64).exp()).powf(1.7)).abs() < 1e-12);
        let (cuts, mut probability) = ([-1.0, 0.5, 2.0], [0.0; 4]);
        Family::add_categories(&cuts, 0.3, 1.0, &mut probability);
        for (k, p) in probability.into_iter().enumerate() {
            let family = Family::Ordinal { categories: 4 };
            let log = family.log_density(&cuts, 0.3, Observed { y: k as f64, trials: 1.0, seen: true });
            assert!((log.exp() - p).abs() < 1e-14);
        }
    }
}
