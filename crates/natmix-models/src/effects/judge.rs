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
use crate::checks::{MOST_ROWS, OutcomeBins, PredictiveCheck, ReplicatedData};
use crate::class_scores::average_left_out;
use crate::loo::{LooFigures, by_rows};
use crate::predict::Predictions;
use crate::residuals::quantile_residual;
use crate::scores::{MOST_RESIDUALS, Scored, ScoredBlock, score_blocks, spaced};
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
        }
        if self.layout().family() != Family::Linear {
            scored.residuals = self.quantile_residuals(rows);
        }
        Ok(scored)
    }

    /// Predicted means with randomised quantile residuals of at most 500 evenly spaced rows. Distribution functions are shares of
    /// drawn outcomes.
    fn quantile_residuals(&self, rows: &EffectsRows) -> Vec<(f64, f64)> {
        let which: Vec<usize> = spaced(rows.rows, MOST_RESIDUALS).collect();
        let (replicated, count) = (self.replicated(rows, &which), self.len() as f64);
        let ordinal = matches!(self.layout().family(), Family::Ordinal { .. });
        let of_row = |(row, drawn): (&usize, &[[f64; 3]])| {
            let observed = rows.observed(*row);
            let below = drawn.iter().filter(|drawn| drawn[2] < observed.y).count() as f64;
            let equal = match observed.seen {
                true => drawn.iter().filter(|drawn| drawn[2] == observed.y).count() as f64,
                // All that is known of a censored time is that it is later.
                false => count - below,
            };
            let mean = drawn.iter().map(|drawn| drawn[if ordinal { 2 } else { 0 }]).sum::<f64>() / count;
            (mean, quantile_residual(below / (count + 1.0), (equal + 1.0) / (count + 1.0), *row))
        };
        which.iter().zip(replicated.chunks_exact(self.len())).map(of_row).collect()
    }

    /// Class probabilities of some rows, each predicted without itself: the number of classes, and one probability for each, row by row. None
    /// for outcomes without classes.
    pub fn left_out_probabilities(&self, rows: &EffectsRows, which: &[usize]) -> Option<(usize, Vec<f64>)> {
        let family = self.layout().family();
        let classes = match family {
            Family::Logistic => 2,
            Family::Ordinal { categories } => categories,
            _ => return None,
        };
        let found = self.for_rows(rows, which, classes, |row, eta, out| {
            let mut of_draws = vec![0.0; classes * eta.len()];
            for (draw, (eta, of_draw)) in eta.iter().zip(of_draws.chunks_exact_mut(classes)).enumerate() {
                if family == Family::Logistic {
                    let p = family.mean_and_variance(&[], *eta, 1.0).0;
                    of_draw.copy_from_slice(&[1.0 - p, p]);
                } else {
                    Family::add_categories(self.own(draw), *eta, 1.0, of_draw);
                }
            }
            average_left_out(&of_draws, (rows.observed(row).y as usize).min(classes - 1), out);
        });
        Some((classes, found))
    }

    /// Leave-one-out cross-validation; see [`crate::loo`]. At most `most_terms` log likelihoods are evaluated.
    pub fn loo(&self, rows: &EffectsRows, base_log_ratios: &[f64], most_terms: usize) -> Result<LooFigures, Error> {
        let weight = |row: usize| rows.weights.as_ref().map_or(1.0, |weights| weights[row]);
        by_rows(rows.rows, base_log_ratios, most_terms, weight, |which| self.log_likelihood_of(rows, which))
    }

    /// Statistics of the outcomes and of outcomes drawn from the model, and their distributions.
    pub fn predictive_checks(&self, rows: &EffectsRows) -> Result<ReplicatedData, Error> {
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
        let observed: Vec<f64> = which.iter().map(|row| rows.observed(*row).y).collect();
        let whole = !matches!(family, Family::Linear | Family::Robust | Family::Gamma | Family::Survival);
        let bins = OutcomeBins::of(&observed, whole).filter(|_| !statistics.is_empty());
        let mut tallies = vec![bins.map_or(Vec::new(), |bins| bins.tally()); self.len()];
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
                for ((pair, tally), [mean, variance, drawn]) in pairs.iter_mut().zip(&mut tallies).zip(drawn) {
                    pair[0].add(y, class, *mean, *variance);
                    pair[1].add(*drawn, class, *mean, *variance);
                    if let Some(bins) = bins {
                        bins.add(tally, *drawn);
                    }
                }
            }
        }
        Ok(ReplicatedData {
            statistics: statistics.iter().map(|statistic| compare(statistic, &pairs)).collect(),
            outcome: bins.map(|bins| bins.bars(&observed, &tallies)),
        })
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
    use crate::checks::ReplicatedData;
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
            let ReplicatedData { statistics: checks, outcome } = draws.predictive_checks(&rows).unwrap();
            assert!(!checks.is_empty() && outcome.is_some_and(|bars| bars.observed.iter().sum::<f64>() > 0.999));
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
            let checks = draws.predictive_checks(&other).unwrap().statistics;
            assert!(checks.iter().any(|check| check.p < 0.01 || check.p > 0.99), "{family:?}");
            // Residuals of the model's own outcomes are normal: the mean of 60 is within 0.65 (five errors).
            let residuals = draws.score(&rows).unwrap().residuals;
            let mean = residuals.iter().map(|residual| residual.1).sum::<f64>() / 60.0;
            assert!(residuals.len() == 60 && mean.abs() < 0.65, "{family:?}: {mean}");
            let score = draws.score(&rows).unwrap().scores;
            let values = draws.log_likelihood(&rows).unwrap();
            assert!((score.nll + values[..60].iter().sum::<f64>() / 60.0).abs() < 1e-9, "{family:?}: {score:?}");
            let loo = draws.loo(&rows, &[0.0; 300], 1_000_000).unwrap();
            let direct = from_matrix(&values, &[0.0; 300]).unwrap();
            assert!((loo.elpd - direct.elpd).abs() < 1e-9 && loo.rows == 60);
        }
    }
}
