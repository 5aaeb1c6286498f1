//! Quality of predictions: proper scores, calibration, ranking, and the data of their plots.
//!
//! | score | definition |
//! |---|---|
//! | `nll` | mean of `-log mean_s p(y | z_s)`, the averaged predictive |
//! | `accuracy` | share of rows whose likeliest class is the outcome (ties go to the first class) |
//! | `brier` | binary: mean of `(p - y)^2`; classes: mean of `sum_c (p_c - [y = c])^2`, twice that for two classes |
//! | `ece` | `sum_bins n_b / n |accuracy_b - confidence_b|` over 15 bins of the likeliest class's probability |
//! | `auroc` | probability that a row with outcome 1 has a larger `p` than a row with outcome 0, ties counting one half |
//! | `rmse` | root of the mean squared error of the predictive mean |
//!
//! Every row counts once.
//!
//! ```
//! use natmix_models::scores::auroc;
//! assert_eq!(auroc(&[0.1, 0.4, 0.4, 0.8], &[0.0, 1.0, 0.0, 1.0]), Some(0.875));
//! ```

use crate::draws::{CoefficientDraws, Inputs};
use crate::observations::Dataset;
use crate::predict::{Predictions, predict_moments};
use crate::regression::RegressionKind;
use crate::residuals::quantile_residuals;
use natmix::Error;
use serde::Serialize;
use std::f64::consts::FRAC_2_PI;

/// Number of bins for calibration and `ece`.
const BINS: usize = 15;
/// Most points in a ROC curve.
const MOST_ROC: usize = 200;
/// Most residuals in a plot.
pub(crate) const MOST_RESIDUALS: usize = 500;
/// Most rows whose probabilities are ranked against each other; larger tables use evenly spaced rows.
const MOST_RANKED: usize = 1 << 20;
/// Rows that are loaded into memory at once.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Scores of predictions; those that do not apply to a model are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RowScores {
    /// Number of rows.
    pub rows: usize,
    /// Mean negative log density of the outcomes.
    pub nll: f64,
    /// Share of correct classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean squared error of probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brier: Option<f64>,
    /// Expected calibration error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ece: Option<f64>,
    /// Area under the ROC curve, if both outcomes occur.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auroc: Option<f64>,
    /// Root mean squared error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
}

/// Scores, with the data of their plots; those that do not apply to a model are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// The scores.
    pub scores: RowScores,
    /// Predicted probabilities of outcome 1 against observed frequencies, see [`calibration`].
    pub calibration: Vec<CalibrationBin>,
    /// The ROC curve, see [`roc`].
    pub roc: Vec<(f64, f64)>,
    /// Predicted means with residuals, of at most 500 evenly spaced rows: in predictive standard deviations for normal outcomes,
    /// randomised quantile residuals for others. None for classes without an order.
    pub residuals: Vec<(f64, f64)>,
}

/// Predicts rows with known outcomes and scores the predictions, in blocks: memory does not grow with the table, except for
/// the probabilities that are ranked (those of about a million rows at most).
pub fn score(draws: &CoefficientDraws, data: &Dataset) -> Result<Scored, Error> {
    let mut scored = score_blocks(data.rows(), |block| {
        let table = data.take(block)?;
        let inputs = Inputs::from(&table);
        Ok(ScoredBlock {
            log_predictive: draws.log_predictive(inputs, table.outcome())?,
            predictions: predict_moments(draws, inputs)?,
            outcome: table.outcome().to_vec(),
        })
    })?;
    if !matches!(draws.kind(), RegressionKind::Linear { .. }) {
        scored.residuals = quantile_residuals(draws, data)?;
    }
    Ok(scored)
}

/// Predictions of some rows, with what came.
pub(crate) struct ScoredBlock {
    /// Log density of each outcome, averaged over draws.
    pub log_predictive: Vec<f64>,
    pub predictions: Predictions,
    pub outcome: Vec<f64>,
}

/// Scores rows that are predicted in blocks.
pub(crate) fn score_blocks(
    rows: usize,
    mut predict: impl FnMut(&[usize]) -> Result<ScoredBlock, Error>,
) -> Result<Scored, Error> {
    let mut tally = Tally::default();
    let mut ranked = spaced(rows, MOST_RANKED).peekable();
    let mut shown = spaced(rows, MOST_RESIDUALS).peekable();
    for first in (0..rows).step_by(ROWS_AT_ONCE) {
        let block: Vec<usize> = (first..(first + ROWS_AT_ONCE).min(rows)).collect();
        let ScoredBlock { log_predictive, predictions, outcome } = predict(&block)?;
        tally.nll -= log_predictive.iter().sum::<f64>();
        tally.add(&predictions, &outcome);
        for row in block {
            if ranked.next_if_eq(&row).is_some() {
                tally.rank(&predictions, &outcome, row - first);
            }
            if shown.next_if_eq(&row).is_some() {
                tally.show(&predictions, &outcome, row - first);
            }
        }
    }
    Ok(tally.finish(rows))
}

/// Sums over rows.
#[derive(Default)]
struct Tally {
    nll: f64,
    /// Sum of squared errors of probabilities or means.
    squares: f64,
    of_means: bool,
    /// Number of correct classes and the bins of their confidences, where there are classes.
    right: Option<(f64, [BinSums; BINS])>,
    calibration: [BinSums; BINS],
    /// Probabilities with their outcomes.
    ranked: (Vec<f64>, Vec<f64>),
    residuals: Vec<(f64, f64)>,
}

impl Tally {
    fn add(&mut self, predictions: &Predictions, outcome: &[f64]) {
        let n = outcome.len() as f64;
        match predictions {
            Predictions::Binary { probability, .. } => {
                self.squares += n * brier(probability, outcome);
                add_bins(&mut self.calibration, probability, outcome);
            }
            Predictions::Classes { classes, probability, .. } => {
                self.squares += n * brier_of_classes(probability, *classes, outcome);
            }
            Predictions::Real { mean, .. } => {
                self.of_means = true;
                self.squares += mean.iter().zip(outcome).map(|(m, y)| (y - m).powi(2)).sum::<f64>();
            }
        }
        if let Some((confidence, right)) = confidences(predictions, outcome) {
            let (count, bins) = self.right.get_or_insert_default();
            *count += right.iter().sum::<f64>();
            add_bins(bins, &confidence, &right);
        }
    }

    fn rank(&mut self, predictions: &Predictions, outcome: &[f64], row: usize) {
        if let Predictions::Binary { probability, .. } = predictions {
            self.ranked.0.push(probability[row]);
            self.ranked.1.push(outcome[row]);
        }
    }

    fn show(&mut self, predictions: &Predictions, outcome: &[f64], row: usize) {
        if let Predictions::Real { mean, sd, .. } = predictions {
            self.residuals.push((mean[row], (outcome[row] - mean[row]) / sd[row]));
        }
    }

    fn finish(self, rows: usize) -> Scored {
        let n = rows as f64;
        let scores = RowScores {
            rows,
            nll: self.nll / n,
            accuracy: self.right.map(|(right, _)| right / n),
            brier: (!self.of_means).then_some(self.squares / n),
            ece: self.right.map(|(_, bins)| ece(&filled(&bins))),
            auroc: auroc(&self.ranked.0, &self.ranked.1),
            rmse: self.of_means.then_some((self.squares / n).sqrt()),
        };
        Scored {
            scores,
            calibration: filled(&self.calibration),
            roc: roc(&self.ranked.0, &self.ranked.1),
            residuals: self.residuals,
        }
    }
}

/// Mean of `(p - y)^2` of outcomes 0 and 1.
pub fn brier(probability: &[f64], outcome: &[f64]) -> f64 {
    probability.iter().zip(outcome).map(|(p, y)| (p - y).powi(2)).sum::<f64>() / outcome.len() as f64
}

/// Mean of `sum_c (p_c - [y = c])^2`; probabilities row by row.
pub fn brier_of_classes(probability: &[f64], classes: usize, outcome: &[f64]) -> f64 {
    let of_row = |(p, y): (&[f64], &f64)| -> f64 {
        p.iter().enumerate().map(|(c, p)| (p - f64::from(u8::from(*y == c as f64))).powi(2)).sum()
    };
    probability.chunks_exact(classes).zip(outcome).map(of_row).sum::<f64>() / outcome.len() as f64
}

/// Probability of the likeliest class, and 1 where it is the outcome; none for outcomes without classes.
pub fn confidences(predictions: &Predictions, outcome: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
    let likeliest: Vec<(f64, f64)> = match predictions {
        Predictions::Binary { probability, .. } => {
            probability.iter().map(|p| if *p > 0.5 { (*p, 1.0) } else { (1.0 - p, 0.0) }).collect()
        }
        Predictions::Classes { classes, probability, .. } => {
            let first_largest = |p: &[f64]| {
                let best = (1..p.len()).fold(0, |best, c| if p[c] > p[best] { c } else { best });
                (p[best], best as f64)
            };
            probability.chunks_exact(*classes).map(first_largest).collect()
        }
        Predictions::Real { .. } => return None,
    };
    let right = likeliest.iter().zip(outcome).map(|((_, class), y)| f64::from(u8::from(class == y)));
    Some((likeliest.iter().map(|(p, _)| *p).collect(), right.collect()))
}

/// Predictions of similar probability, and how often the outcome occurred.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// Mean predicted probability.
    pub predicted: f64,
    /// Observed frequency of the outcome.
    pub observed: f64,
    /// Number of rows.
    pub count: usize,
}

/// Sums of a bin: of probabilities, of occurrences, and the number of rows.
type BinSums = (f64, f64, usize);

fn add_bins(bins: &mut [BinSums; BINS], probability: &[f64], happened: &[f64]) {
    for (p, y) in probability.iter().zip(happened) {
        let bin = &mut bins[((p * BINS as f64).ceil() as usize).clamp(1, BINS) - 1];
        *bin = (bin.0 + p, bin.1 + y, bin.2 + 1);
    }
}

fn filled(bins: &[BinSums; BINS]) -> Vec<CalibrationBin> {
    let filled = bins.iter().filter(|(_, _, count)| *count > 0);
    filled
        .map(|&(p, y, count)| CalibrationBin { predicted: p / count as f64, observed: y / count as f64, count })
        .collect()
}

/// Groups predictions by probability into 15 bins `(b/15, (b+1)/15]`, the first with zero; empty ones are left out.
pub fn calibration(probability: &[f64], happened: &[f64]) -> Vec<CalibrationBin> {
    let mut bins = [(0.0, 0.0, 0); BINS];
    add_bins(&mut bins, probability, happened);
    filled(&bins)
}

/// Root mean squared error of predicted means.
pub fn rmse(mean: &[f64], outcome: &[f64]) -> f64 {
    (mean.iter().zip(outcome).map(|(m, y)| (y - m).powi(2)).sum::<f64>() / outcome.len() as f64).sqrt()
}

/// Predicted means with residuals in predictive standard deviations, of at most 500 evenly spaced rows; empty for
/// outcomes without a mean.
pub fn residuals(predictions: &Predictions, outcome: &[f64]) -> Vec<(f64, f64)> {
    match predictions {
        Predictions::Real { mean, sd, .. } => {
            spaced(outcome.len(), MOST_RESIDUALS).map(|row| (mean[row], (outcome[row] - mean[row]) / sd[row])).collect()
        }
        _ => Vec::new(),
    }
}

/// Expected calibration error over the bins of [`calibration`].
pub fn ece(bins: &[CalibrationBin]) -> f64 {
    let gap = |bin: &CalibrationBin| bin.count as f64 * (bin.observed - bin.predicted).abs();
    bins.iter().map(gap).sum::<f64>() / bins.iter().map(|bin| bin.count as f64).sum::<f64>()
}

/// The largest [`ece`] that chance explains for probabilities that are exactly right: its mean plus three standard
/// deviations, from the normal approximation in every bin (`|x|` has mean `sqrt(2 / pi) s` and variance
/// `(1 - 2 / pi) s^2`).
pub fn ece_by_chance(bins: &[CalibrationBin]) -> f64 {
    let rows: f64 = bins.iter().map(|bin| bin.count as f64).sum();
    let (mut mean, mut variance) = (0.0, 0.0);
    for bin in bins {
        // The deviation of a bin's frequency, times its share of the rows.
        let s = (bin.count as f64 * bin.predicted * (1.0 - bin.predicted)).max(0.0).sqrt() / rows;
        mean += FRAC_2_PI.sqrt() * s;
        variance += (1.0 - FRAC_2_PI) * s * s;
    }
    mean + 3.0 * variance.sqrt()
}

/// Visits rows by decreasing score: after each run of equal scores, passes the numbers of outcomes 0 and 1 so far to `step`.
fn rank(score: &[f64], outcome: &[f64], mut step: impl FnMut((f64, f64))) {
    let mut order: Vec<u32> = (0..score.len() as u32).collect();
    order.sort_unstable_by(|&i, &j| score[j as usize].total_cmp(&score[i as usize]));
    let mut so_far = (0.0, 0.0);
    for run in order.chunk_by(|&i, &j| score[i as usize] == score[j as usize]) {
        for &i in run {
            so_far = (so_far.0 + 1.0 - outcome[i as usize], so_far.1 + outcome[i as usize]);
        }
        step(so_far);
    }
}

/// How many outcomes are 0 and 1; none unless both occur.
fn both_outcomes(outcome: &[f64]) -> Option<(f64, f64)> {
    let positive: f64 = outcome.iter().sum();
    let negative = outcome.len() as f64 - positive;
    (negative > 0.0 && positive > 0.0).then_some((negative, positive))
}

/// Area under the ROC curve of outcomes 0 and 1; none unless both occur.
pub fn auroc(score: &[f64], outcome: &[f64]) -> Option<f64> {
    let (negative, positive) = both_outcomes(outcome)?;
    let (mut area, mut before) = (0.0, (0.0, 0.0));
    rank(score, outcome, |now| {
        // Trapezoids: a run of equal scores counts one half.
        area += 0.5 * (now.0 - before.0) * (now.1 + before.1);
        before = now;
    });
    Some(area / (negative * positive))
}

/// False positive rate at the threshold with true positive rate `found`; none unless both outcomes occur.
pub fn fpr_at(score: &[f64], outcome: &[f64], found: f64) -> Option<f64> {
    let (negative, positive) = both_outcomes(outcome)?;
    let mut first = None;
    rank(score, outcome, |(n, p)| {
        if first.is_none() && p >= found * positive {
            first = Some(n);
        }
    });
    first.map(|n| n / negative)
}

/// The ROC curve from (0, 0) to (1, 1): false and true positive rates, at most 200 points, evenly spaced along it.
/// Empty unless both outcomes occur.
pub fn roc(score: &[f64], outcome: &[f64]) -> Vec<(f64, f64)> {
    let Some((negative, positive)) = both_outcomes(outcome) else { return Vec::new() };
    // The length of the curve, |dx| + |dy|, is 2; one point for each of equal parts, and the end.
    let part = |point: &(f64, f64)| ((point.0 + point.1) / 2.0 * (MOST_ROC - 1) as f64) as usize;
    let (mut whole, mut thinned) = (vec![(0.0, 0.0)], vec![(0.0, 0.0)]);
    rank(score, outcome, |(n, p)| {
        let point = (n / negative, p / positive);
        if whole.len() <= MOST_ROC {
            whole.push(point);
        }
        if thinned.last().is_none_or(|last| part(last) < part(&point)) {
            thinned.push(point);
        }
    });
    if whole.len() <= MOST_ROC {
        return whole;
    }
    thinned.pop();
    thinned.push((1.0, 1.0));
    thinned
}

/// Evenly spaced rows, at most `most` out of `rows`.
pub fn spaced(rows: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = rows.min(most);
    (0..count).map(move |i| (i as u128 * rows as u128 / count as u128) as usize)
}

#[cfg(test)]
mod tests;
