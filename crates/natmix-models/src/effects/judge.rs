//! How well a regression with varying effects predicts: scores, leave-one-out cross-validation, and posterior predictive checks.
//!
//! The statistics of the checks are defined in [`crate::checks`]; here they are
//!
//! | family | statistics |
//! |---|---|
//! | linear, robust, gamma; survival if no time is censored | mean, sd, smallest and largest outcome |
//! | poisson, negative binomial, binomial | mean, sd, share of zeros, largest outcome, dispersion `mean (y - m)^2 / v` |
//! | logistic | share of outcomes 1 |
//! | ordinal | share of rows in their likeliest category |

use super::draws::EffectsDraws;
use super::family::Family;
use super::rows::EffectsRows;
use crate::checks::{MOST_ROWS, PredictiveCheck};
use crate::loo::{LooFigures, by_rows};
use crate::predict::Predictions;
use crate::scores::{Scored, ScoredBlock, score_blocks, spaced};
use natmix::Error;

/// Rows that are drawn at once.
const BLOCK: usize = 256;

impl EffectsDraws {
    /// Scores of the predictions of rows with known outcomes.
    pub fn score(&self, rows: &EffectsRows) -> Result<Scored, Error> {
        let mut scored = score_blocks(rows.rows, |which| {
            Ok(ScoredBlock {
                log_predictive: self.log_predictive(rows, which)?,
                predictions: self.predict(rows, which, false)?,
                outcome: which.iter().map(|row| rows.observed(*row).y).collect(),
            })
        })?;
        if rows.is_censored() {
            // A censored time is no outcome that a prediction could be compared with.
            scored.scores.rmse = None;
            scored.residuals.clear();
        }
        Ok(scored)
    }

    /// Leave-one-out cross-validation; see [`crate::loo`]. At most `most_terms` log likelihoods are evaluated.
    pub fn loo(&self, rows: &EffectsRows, base_log_ratios: &[f64], most_terms: usize) -> Result<LooFigures, Error> {
        let weight = |row: usize| rows.weights.as_ref().map_or(1.0, |weights| weights[row]);
        by_rows(rows.rows, base_log_ratios, most_terms, weight, |which| self.log_likelihood_of(rows, which))
    }

    /// Statistics of the outcomes and of outcomes drawn from the model.
    pub fn predictive_checks(&self, rows: &EffectsRows) -> Result<Vec<PredictiveCheck>, Error> {
        let family = self.layout().family();
        let statistics: &[&'static str] = match family {
            Family::Survival if rows.is_censored() => &[],
            Family::Linear | Family::Robust | Family::Gamma | Family::Survival => {
                &["mean", "sd", "smallest", "largest"]
            }
            Family::Poisson | Family::NegativeBinomial | Family::Binomial => {
                &["mean", "sd", "zeros", "largest", "dispersion"]
            }
            Family::Logistic => &["ones"],
            Family::Ordinal { .. } => &["likeliest"],
        };
        let which: Vec<usize> = spaced(rows.rows, MOST_ROWS).collect();
        let mut pairs = vec![[Sums::default(); 2]; self.len()];
        for which in which.chunks(BLOCK).filter(|_| !statistics.is_empty()) {
            let likeliest = match (family, self.predict(rows, which, false)?) {
                (Family::Ordinal { .. }, Predictions::Classes { classes, probability, .. }) => {
                    probability.chunks_exact(classes).map(first_largest).collect()
                }
                _ => vec![1.0; which.len()],
            };
            let replicated = self.replicated(rows, which);
            for ((row, class), drawn) in which.iter().zip(likeliest).zip(replicated.chunks_exact(self.len())) {
                let y = rows.observed(*row).y;
                for (pair, [mean, variance, drawn]) in pairs.iter_mut().zip(drawn) {
                    pair[0].add(y, class, *mean, *variance);
                    pair[1].add(*drawn, class, *mean, *variance);
                }
            }
        }
        Ok(statistics.iter().map(|statistic| compare(statistic, &pairs)).collect())
    }
}

fn first_largest(probability: &[f64]) -> f64 {
    let larger = |best: usize, k: usize| if probability[k] > probability[best] { k } else { best };
    (1..probability.len()).fold(0, larger) as f64
}

/// Sums over the rows of one data set.
#[derive(Clone, Copy, Debug)]
struct Sums {
    rows: f64,
    sum: f64,
    squares: f64,
    smallest: f64,
    largest: f64,
    zeros: f64,
    events: f64,
    dispersion: f64,
}

impl Default for Sums {
    fn default() -> Self {
        let (smallest, largest) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { rows: 0.0, sum: 0.0, squares: 0.0, smallest, largest, zeros: 0.0, events: 0.0, dispersion: 0.0 }
    }
}

impl Sums {
    fn add(&mut self, y: f64, class: f64, mean: f64, variance: f64) {
        self.rows += 1.0;
        self.sum += y;
        self.squares += y * y;
        self.smallest = self.smallest.min(y);
        self.largest = self.largest.max(y);
        self.zeros += f64::from(u8::from(y == 0.0));
        self.events += f64::from(u8::from(y == class));
        if variance > 0.0 {
            self.dispersion += (y - mean) * (y - mean) / variance;
        }
    }

    fn value(&self, statistic: &str) -> f64 {
        let mean = self.sum / self.rows;
        match statistic {
            "mean" => mean,
            "sd" => (self.squares / self.rows - mean * mean).max(0.0).sqrt(),
            "smallest" => self.smallest,
            "largest" => self.largest,
            "zeros" => self.zeros / self.rows,
            "dispersion" => self.dispersion / self.rows,
            _ => self.events / self.rows,
        }
    }
}

fn compare(statistic: &'static str, pairs: &[[Sums; 2]]) -> PredictiveCheck {
    let (mut larger, mut observed) = (0.0, 0.0);
    let mut replicated = Vec::with_capacity(pairs.len());
    for [data, drawn] in pairs {
        let (data, drawn) = (data.value(statistic), drawn.value(statistic));
        larger += if drawn > data { 1.0 } else { 0.5 * f64::from(u8::from(drawn == data)) };
        observed += data;
        replicated.push(drawn);
    }
    let count = pairs.len() as f64;
    PredictiveCheck { statistic, observed: observed / count, replicated, p: larger / count }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FAMILIES, crossed};
    use super::super::{EffectsDraws, EffectsModel, EffectsRows, Family};
    use crate::loo::from_matrix;

    /// Data drawn from the model at the draws themselves pass the checks, and leave-one-out agrees with its definition.
    #[test]
    fn outcomes_of_the_model_pass_its_checks() {
        for family in FAMILIES {
            let data = crossed(family, 60);
            let model = EffectsModel::new(family, data.clone(), &[]).unwrap();
            let z: Vec<f64> = (0..model.layout().dim()).map(|j| 0.2 * super::super::tests::wave(j)).collect();
            let mut rows = EffectsRows::of_fit(&data, model.family());
            rows.outcome = Some(model.outcomes_at(&z, 4));
            (rows.event, rows.weights) = (None, None);
            let draws = EffectsDraws::new(model.layout(), &z.repeat(300), 9).unwrap();
            let checks = draws.predictive_checks(&rows).unwrap();
            assert!(!checks.is_empty());
            for check in &checks {
                assert!(check.p > 1e-3 && check.p < 1.0 - 1e-3, "{family:?}: {}", check.statistic);
            }
            let wrong: Vec<f64> = match family {
                Family::Logistic | Family::Binomial => rows.outcome.iter().flatten().map(|_| 0.0).collect(),
                Family::Ordinal { categories } => {
                    let last = (categories - 1) as f64;
                    rows.outcome.iter().flatten().map(|y| last - y).collect()
                }
                // Student's distribution has outliers of its own.
                Family::Robust => rows.outcome.iter().flatten().map(|y| 1e9 * y).collect(),
                _ => rows.outcome.iter().flatten().map(|y| 7.0 * y + 20.0).collect(),
            };
            let other = EffectsRows { outcome: Some(wrong), ..rows.clone() };
            let checks = draws.predictive_checks(&other).unwrap();
            assert!(checks.iter().any(|check| check.p < 0.01 || check.p > 0.99), "{family:?}");
            let score = draws.score(&rows).unwrap().scores;
            let values = draws.log_likelihood(&rows).unwrap();
            assert!((score.nll + values[..60].iter().sum::<f64>() / 60.0).abs() < 1e-9, "{family:?}: {score:?}");
            let loo = draws.loo(&rows, &[0.0; 300], 1_000_000).unwrap();
            let direct = from_matrix(&values, &[0.0; 300]).unwrap();
            assert!((loo.elpd - direct.elpd).abs() < 1e-9 && loo.rows == 60);
        }
    }
}
