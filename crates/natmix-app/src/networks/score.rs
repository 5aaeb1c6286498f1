//! Scores of a network's predictions, on rows with outcomes and against out-of-distribution rows.

use super::data::NetworkInput;
use natmix::Error;
use natmix::family::Mixture;
use natmix_models::Predictions;
use natmix_models::scores::{
    auroc, brier, brier_of_classes, calibration, confidences, ece, ece_by_chance, fpr_at, residuals, rmse, roc,
};
use natmix_nets::predict::{Averaging, NetworkPredictions, predict};
use natmix_nets::{Examples, Network};
use natmix_report::{Ood, Scores};

/// Predicts rows and scores the predictions, in the outcome's own units.
pub fn score(
    network: &Network,
    input: &NetworkInput,
    q: &Mixture,
    rows: &Examples,
    averaging: Averaging,
) -> Result<(Scores, NetworkPredictions), Error> {
    Ok(score_predictions(predict(network, q, rows.x(), averaging)?, input, q.len(), rows, averaging))
}

/// Scores predictions of rows by so many components.
pub(super) fn score_predictions(
    mut found: NetworkPredictions,
    input: &NetworkInput,
    components: usize,
    rows: &Examples,
    averaging: Averaging,
) -> (Scores, NetworkPredictions) {
    let outcome: Vec<f64> = rows.outcome().iter().map(|y| f64::from(*y)).collect();
    let n = outcome.len() as f64;
    let density = found.log_density(rows.outcome());
    let (centre, scale) = input.outcome_scale();
    let draws = match averaging {
        Averaging::Draws { each, .. } => Some(each),
        Averaging::Means => None,
    };
    let mut scores = Scores { rows: rows.rows(), draws, ..Scores::default() };
    scores.nll = Some(-density.iter().sum::<f64>() / n + scale.ln());
    match &found.predictions {
        Predictions::Binary { probability, .. } => {
            scores.brier = Some(brier(probability, &outcome));
            scores.auroc = auroc(probability, &outcome);
            scores.roc = roc(probability, &outcome);
            let bins = calibration(probability, &outcome);
            scores.calibration = bins.iter().map(|bin| (bin.predicted, bin.observed, bin.count)).collect();
        }
        Predictions::Classes { classes, probability, .. } => {
            scores.brier = Some(brier_of_classes(probability, *classes, &outcome));
        }
        Predictions::Real { mean, .. } => {
            scores.rmse = Some(scale * rmse(mean, &outcome));
            if let Predictions::Real { q05, q95, .. } = &found.predictions {
                let inside = outcome.iter().zip(q05.iter().zip(q95)).filter(|(y, (low, high))| low < y && y < high);
                scores.coverage = Some(inside.count() as f64 / n);
            }
            let shown = residuals(&found.predictions, &outcome);
            scores.residuals = shown.iter().map(|(mean, residual)| (centre + scale * mean, *residual)).collect();
        }
    }
    if let Some((confidence, right)) = confidences(&found.predictions, &outcome) {
        scores.accuracy = Some(right.iter().sum::<f64>() / n);
        let bins = calibration(&confidence, &right);
        scores.ece = Some(ece(&bins));
        scores.confidence = Some(confidence.iter().sum::<f64>() / n);
        // The finite number of draws moves a probability by its deviation over draws, divided by their root.
        let drawn = draws.map_or(f64::INFINITY, |each| (each * components) as f64);
        let monte_carlo = found.confidence_sd.iter().sum::<f64>() / n / drawn.sqrt();
        scores.ece_limit = Some(ece_by_chance(&bins) + monte_carlo);
        if scores.calibration.is_empty() {
            scores.calibration = bins.iter().map(|bin| (bin.predicted, bin.observed, bin.count)).collect();
        }
        scores.expected_entropy = Some(found.expected_entropy.iter().sum::<f64>() / n);
        scores.mutual_information = Some(found.mutual_information().iter().sum::<f64>() / n);
    }
    found.predictions.rescale(centre, scale);
    (scores, found)
}

/// How well the predictive entropy separates out-of-distribution rows from test rows.
pub fn ood(
    network: &Network,
    q: &Mixture,
    test: &NetworkPredictions,
    rows: &Examples,
    averaging: Averaging,
) -> Result<Option<Ood>, Error> {
    Ok(ood_of_predictions(test, &predict(network, q, rows.x(), averaging)?))
}

/// The same from predictions of both.
pub(super) fn ood_of_predictions(test: &NetworkPredictions, other: &NetworkPredictions) -> Option<Ood> {
    let (Some(inside), Some(outside)) = (entropy(test), entropy(other)) else { return None };
    let score: Vec<f64> = inside.iter().chain(outside).copied().collect();
    let kind: Vec<f64> = (0..score.len()).map(|i| f64::from(u8::from(i >= inside.len()))).collect();
    let information: Vec<f64> = test.mutual_information().into_iter().chain(other.mutual_information()).collect();
    let area = auroc(&score, &kind)?;
    Some(Ood {
        rows: outside.len(),
        auroc: area,
        fpr95: fpr_at(&score, &kind, 0.95).unwrap_or(f64::NAN),
        auroc_mutual_information: auroc(&information, &kind).unwrap_or(f64::NAN),
        entropy: outside.iter().sum::<f64>() / outside.len() as f64,
    })
}

fn entropy(found: &NetworkPredictions) -> Option<&[f64]> {
    match &found.predictions {
        Predictions::Binary { entropy, .. } | Predictions::Classes { entropy, .. } => Some(entropy),
        _ => None,
    }
}
