//! How good predictions are: proper scores, calibration, ranking, and the numbers behind their pictures.
//!
//! | score | definition |
//! |---|---|
//! | `nll` | mean of `-log mean_s p(y | z_s)`, the averaged predictive |
//! | `accuracy` | share of rows whose likeliest class is the outcome (of equals, the first) |
//! | `brier` | binary: mean of `(p - y)^2`; classes: mean of `sum_c (p_c - [y = c])^2`, twice that for two classes |
//! | `ece` | `sum_bins n_b / n |accuracy_b - confidence_b|` over 15 bins of the likeliest class's probability |
//! | `auroc` | chance that a row with outcome 1 has the larger `p` of two, ties counting one half |
//! | `rmse` | root of the mean squared error of the predictive mean |
//!
//! Every row counts once.
//!
//! ```
//! use natmix_models::scores::auroc;
//! assert_eq!(auroc(&[0.1, 0.4, 0.4, 0.8], &[0.0, 1.0, 0.0, 1.0]), Some(0.875));
//! ```

use crate::draws::{Draws, Inputs};
use crate::predict::{Predictions, predict};
use natmix::Error;
use serde::Serialize;

/// Bins of calibration and of `ece`.
const BINS: usize = 15;
/// Most points of a ROC curve.
const MOST_ROC: usize = 200;
/// Most residuals.
const MOST_RESIDUALS: usize = 500;

/// Scores of predictions; those that make no sense for a model are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Number of rows.
    pub rows: usize,
    /// Mean negative log density of the outcomes.
    pub nll: f64,
    /// Share of right classes.
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

/// Predicts the rows of a table with known outcomes and scores the predictions.
pub fn score(draws: &Draws, inputs: Inputs<'_>, outcome: &[f64]) -> Result<(Scores, Predictions), Error> {
    let log_predictive = draws.log_predictive(inputs, outcome)?;
    let predictions = predict(draws, inputs)?;
    let n = outcome.len() as f64;
    let mut scores = Scores { rows: outcome.len(), nll: -log_predictive.iter().sum::<f64>() / n, ..Scores::default() };
    match &predictions {
        Predictions::Binary { probability, .. } => {
            scores.auroc = auroc(probability, outcome);
            scores.brier = Some(brier(probability, outcome));
        }
        Predictions::Classes { classes, probability, .. } => {
            scores.brier = Some(brier_of_classes(probability, *classes, outcome));
        }
        Predictions::Real { mean, .. } | Predictions::Count { mean, .. } => scores.rmse = Some(rmse(mean, outcome)),
    }
    if let Some((confidence, right)) = confidences(&predictions, outcome) {
        scores.accuracy = Some(right.iter().sum::<f64>() / n);
        scores.ece = Some(ece(&confidence, &right));
    }
    Ok((scores, predictions))
}

/// Mean of `(p - y)^2` of outcomes 0 and 1.
pub fn brier(probability: &[f64], outcome: &[f64]) -> f64 {
    probability.iter().zip(outcome).map(|(p, y)| (p - y).powi(2)).sum::<f64>() / outcome.len() as f64
}

/// Mean of `sum_c (p_c - [y = c])^2`; probabilities row after row.
pub fn brier_of_classes(probability: &[f64], classes: usize, outcome: &[f64]) -> f64 {
    let of_row = |(p, y): (&[f64], &f64)| -> f64 {
        p.iter().enumerate().map(|(c, p)| (p - f64::from(u8::from(*y == c as f64))).powi(2)).sum()
    };
    probability.chunks_exact(classes).zip(outcome).map(of_row).sum::<f64>() / outcome.len() as f64
}

/// Root of the mean squared difference.
pub fn rmse(mean: &[f64], outcome: &[f64]) -> f64 {
    (mean.iter().zip(outcome).map(|(m, y)| (y - m).powi(2)).sum::<f64>() / outcome.len() as f64).sqrt()
}

/// Probability of the likeliest class, and 1 where it is the outcome; nothing for outcomes without classes.
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
        Predictions::Real { .. } | Predictions::Count { .. } => return None,
    };
    let right = likeliest.iter().zip(outcome).map(|((_, class), y)| f64::from(u8::from(class == y)));
    Some((likeliest.iter().map(|(p, _)| *p).collect(), right.collect()))
}

/// Predictions of a similar size, and what came of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// Mean predicted probability.
    pub predicted: f64,
    /// Share of rows in which it happened.
    pub observed: f64,
    /// Number of rows.
    pub count: usize,
}

/// Groups predictions by probability into 15 bins `(b/15, (b+1)/15]`, the first with zero; empty ones are left out.
pub fn calibration(probability: &[f64], happened: &[f64]) -> Vec<Bin> {
    let mut sums = [(0.0, 0.0, 0_usize); BINS];
    for (p, y) in probability.iter().zip(happened) {
        let bin = ((p * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        sums[bin] = (sums[bin].0 + p, sums[bin].1 + y, sums[bin].2 + 1);
    }
    let filled = sums.into_iter().filter(|(_, _, count)| *count > 0);
    filled.map(|(p, y, count)| Bin { predicted: p / count as f64, observed: y / count as f64, count }).collect()
}

/// Expected calibration error over the bins of [`calibration`].
pub fn ece(confidence: &[f64], right: &[f64]) -> f64 {
    let gap = |bin: &Bin| bin.count as f64 * (bin.observed - bin.predicted).abs();
    calibration(confidence, right).iter().map(gap).sum::<f64>() / confidence.len() as f64
}

/// Rows by falling score: at the end of each run of equal scores, how many of either outcome came up to there.
fn ranked(score: &[f64], outcome: &[f64]) -> Vec<(f64, f64)> {
    let mut order: Vec<usize> = (0..score.len()).collect();
    order.sort_by(|&i, &j| score[j].total_cmp(&score[i]));
    let (mut negative, mut positive) = (0.0, 0.0);
    let mut steps = vec![(0.0, 0.0)];
    for run in order.chunk_by(|&i, &j| score[i] == score[j]) {
        for &i in run {
            positive += outcome[i];
            negative += 1.0 - outcome[i];
        }
        steps.push((negative, positive));
    }
    steps
}

/// Area under the ROC curve of outcomes 0 and 1; nothing unless both occur.
pub fn auroc(score: &[f64], outcome: &[f64]) -> Option<f64> {
    let steps = ranked(score, outcome);
    let (negative, positive) = *steps.last()?;
    // Trapezoids: a run of equal scores counts one half.
    let area: f64 = steps.windows(2).map(|w| 0.5 * (w[1].0 - w[0].0) * (w[1].1 + w[0].1)).sum();
    (negative > 0.0 && positive > 0.0).then(|| area / (negative * positive))
}

/// Share of outcomes 0 above the score that a share `found` of the outcomes 1 reaches; nothing unless both occur.
pub fn fpr_at(score: &[f64], outcome: &[f64], found: f64) -> Option<f64> {
    let steps = ranked(score, outcome);
    let (negative, positive) = *steps.last()?;
    let first = steps.iter().find(|(_, p)| *p >= found * positive)?;
    (negative > 0.0 && positive > 0.0).then(|| first.0 / negative)
}

/// The ROC curve from (0, 0) to (1, 1): false and true positive rates, at most 200 points, evenly spread along it.
/// Empty unless both outcomes occur.
pub fn roc(score: &[f64], outcome: &[f64]) -> Vec<(f64, f64)> {
    let steps = ranked(score, outcome);
    let (negative, positive) = steps[steps.len() - 1];
    if !(negative > 0.0 && positive > 0.0) {
        return Vec::new();
    }
    let curve: Vec<(f64, f64)> = steps.iter().map(|(n, p)| (n / negative, p / positive)).collect();
    if curve.len() <= MOST_ROC {
        return curve;
    }
    // The way along the curve, |dx| + |dy|, is 2 in all; one point for each part of it, and the end.
    let part = |point: &(f64, f64)| ((point.0 + point.1) / 2.0 * (MOST_ROC - 1) as f64) as usize;
    let mut thinned: Vec<(f64, f64)> = curve.chunk_by(|a, b| part(a) == part(b)).map(|run| run[0]).collect();
    thinned.pop();
    thinned.push((1.0, 1.0));
    thinned
}

/// Evenly spaced rows, at most `most` of `rows`.
pub(crate) fn spaced(rows: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = rows.min(most);
    (0..count).map(move |i| (i as u128 * rows as u128 / count as u128) as usize)
}

/// Predicted means with residuals in predictive standard deviations, of at most 500 evenly spaced rows; empty for outcomes with classes.
pub fn residuals(predictions: &Predictions, outcome: &[f64]) -> Vec<(f64, f64)> {
    match predictions {
        Predictions::Real { mean, sd, .. } | Predictions::Count { mean, sd } => {
            spaced(outcome.len(), MOST_RESIDUALS).map(|row| (mean[row], (outcome[row] - mean[row]) / sd[row])).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::Kind;

    #[test]
    fn binary_scores_by_hand() {
        // One draw, probabilities 1/2, 3/4, 9/10 and outcomes 0, 1, 0.
        let draws = Draws::new(Kind::Logistic, 1, &[1.0]).unwrap();
        let x = [0.0, 3f64.ln(), 9f64.ln()];
        let outcome = [0.0, 1.0, 0.0];
        let (scores, predictions) = score(&draws, Inputs::new(&x, 1, None).unwrap(), &outcome).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(scores.nll, -(0.5f64.ln() + 0.75f64.ln() + 0.1f64.ln()) / 3.0);
        // The tie at one half goes to class 0.
        close(scores.accuracy.unwrap(), 2.0 / 3.0);
        close(scores.brier.unwrap(), (0.25 + 0.0625 + 0.81) / 3.0);
        // Three confidences in three bins.
        close(scores.ece.unwrap(), (0.5 + 0.25 + 0.9) / 3.0);
        close(scores.auroc.unwrap(), 0.5);
        assert_eq!((scores.rows, scores.rmse), (3, None));
        assert!(residuals(&predictions, &outcome).is_empty());
    }

    #[test]
    fn scores_of_classes_and_numbers_by_hand() {
        let draws = Draws::new(Kind::Softmax { classes: 3 }, 1, &[2f64.ln(), 3f64.ln()]).unwrap();
        let (scores, _) = score(&draws, Inputs::new(&[1.0, 1.0], 1, None).unwrap(), &[2.0, 0.0]).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(scores.nll, -(0.5f64.ln() + (1f64 / 6.0).ln()) / 2.0);
        close(scores.accuracy.unwrap(), 0.5);
        close(scores.ece.unwrap(), 0.0);
        close(scores.brier.unwrap(), ((1.0 + 4.0 + 9.0) + (25.0 + 4.0 + 9.0)) / 36.0 / 2.0);
        let draws = Draws::new(Kind::Linear { noise_sd: Some(2.0) }, 1, &[1.0]).unwrap();
        let (scores, predictions) = score(&draws, Inputs::new(&[1.0, 2.0], 1, None).unwrap(), &[1.0, 6.0]).unwrap();
        close(scores.rmse.unwrap(), 8f64.sqrt());
        close(scores.nll, 0.5 * (8.0 * std::f64::consts::PI).ln() + 0.5 * (0.0 + 4.0) / 2.0);
        // 6 is two standard deviations above 2.
        assert_eq!(residuals(&predictions, &[1.0, 6.0]), [(1.0, 0.0), (2.0, 2.0)]);
        assert_eq!(scores.accuracy, None);
    }

    #[test]
    fn bins_include_their_upper_edge() {
        let bins = calibration(&[0.0, 1.0 / 15.0, 0.07, 1.0], &[0.0, 1.0, 1.0, 1.0]);
        let counts: Vec<usize> = bins.iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [2, 1, 1]);
        assert_eq!((bins[0].observed, bins[2].predicted), (0.5, 1.0));
        assert!((bins[0].predicted - 1.0 / 30.0).abs() < 1e-15);
        assert!(calibration(&[], &[]).is_empty());
    }

    #[test]
    fn ranking_with_ties_and_single_classes() {
        assert_eq!(auroc(&[1.0, 2.0, 3.0], &[0.0, 1.0, 1.0]), Some(1.0));
        assert_eq!(auroc(&[0.5; 6], &[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]), Some(0.5));
        assert_eq!(auroc(&[1.0, 2.0], &[1.0, 1.0]), None);
        // Half of the positives lie above every negative, the other half below one of two.
        assert_eq!(fpr_at(&[4.0, 2.0, 3.0, 1.0], &[1.0, 1.0, 0.0, 0.0], 0.5), Some(0.0));
        assert_eq!(fpr_at(&[4.0, 2.0, 3.0, 1.0], &[1.0, 1.0, 0.0, 0.0], 0.95), Some(0.5));
        assert!(roc(&[1.0, 2.0], &[1.0, 1.0]).is_empty());
        assert_eq!(roc(&[0.1, 0.4, 0.4, 0.8], &[0.0, 1.0, 0.0, 1.0]), [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]);
    }

    #[test]
    fn a_thinned_curve_keeps_its_ends_and_its_area() {
        let n = 20_000;
        let score: Vec<f64> = (0..n).map(|i| (f64::from(i) * 12.9898).sin()).collect();
        let outcome: Vec<f64> =
            (0..n).map(|i| f64::from(u8::from((f64::from(i) * 78.233).sin() < score[i as usize]))).collect();
        let curve = roc(&score, &outcome);
        assert!(curve.len() <= MOST_ROC && curve.len() > MOST_ROC - 5, "{}", curve.len());
        assert_eq!((curve[0], curve[curve.len() - 1]), ((0.0, 0.0), (1.0, 1.0)));
        assert!(curve.windows(2).all(|w| w[1].0 >= w[0].0 && w[1].1 >= w[0].1));
        let area: f64 = curve.windows(2).map(|w| 0.5 * (w[1].0 - w[0].0) * (w[1].1 + w[0].1)).sum();
        assert!((area - auroc(&score, &outcome).unwrap()).abs() < 1e-3);
        assert_eq!(spaced(1000, 500).last(), Some(998));
        assert_eq!(spaced(3, 500).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(spaced(0, 500).count(), 0);
    }
}
