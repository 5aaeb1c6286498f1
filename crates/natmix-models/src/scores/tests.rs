use super::*;
use crate::observations::Observations;
use crate::predict::predict;

fn scored(draws: &CoefficientDraws, x: &[f64], outcome: &[f64]) -> Scored {
    score(draws, &Observations::new(x.to_vec(), 1, outcome.to_vec()).unwrap().into()).unwrap()
}

#[test]
fn binary_scores_by_hand() {
    // One draw, probabilities 1/2, 3/4, 9/10 and outcomes 0, 1, 0.
    let draws = CoefficientDraws::new(RegressionKind::Logistic, 1, &[1.0]).unwrap();
    let x = [0.0, 3f64.ln(), 9f64.ln()];
    let outcome = [0.0, 1.0, 0.0];
    let Scored { scores, residuals, calibration, .. } = scored(&draws, &x, &outcome);
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(scores.nll, -(0.5f64.ln() + 0.75f64.ln() + 0.1f64.ln()) / 3.0);
    // The tie at one half goes to class 0.
    close(scores.accuracy.unwrap(), 2.0 / 3.0);
    close(scores.brier.unwrap(), (0.25 + 0.0625 + 0.81) / 3.0);
    // Three confidences in three bins.
    close(scores.ece.unwrap(), (0.5 + 0.25 + 0.9) / 3.0);
    close(scores.auroc.unwrap(), 0.5);
    assert_eq!((scores.rows, scores.rmse), (3, None));
    // Outcome 0 lies below the middle of its distribution where it is as likely as outcome 1.
    assert!(residuals.len() == 3 && residuals[0].0 == 0.5 && residuals[0].1 < 0.0, "{residuals:?}");
    assert_eq!(calibration.iter().map(|bin| bin.count).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn scores_of_classes_and_numbers_by_hand() {
    let draws = CoefficientDraws::new(RegressionKind::Softmax { classes: 3 }, 1, &[2f64.ln(), 3f64.ln()]).unwrap();
    let scores = scored(&draws, &[1.0, 1.0], &[2.0, 0.0]).scores;
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(scores.nll, -(0.5f64.ln() + (1f64 / 6.0).ln()) / 2.0);
    close(scores.accuracy.unwrap(), 0.5);
    close(scores.ece.unwrap(), 0.0);
    close(scores.brier.unwrap(), ((1.0 + 4.0 + 9.0) + (25.0 + 4.0 + 9.0)) / 36.0 / 2.0);
    let draws = CoefficientDraws::new(RegressionKind::Linear { noise_sd: Some(2.0) }, 1, &[1.0]).unwrap();
    let Scored { scores, residuals, .. } = scored(&draws, &[1.0, 2.0], &[1.0, 6.0]);
    close(scores.rmse.unwrap(), 8f64.sqrt());
    close(scores.nll, 0.5 * (8.0 * std::f64::consts::PI).ln() + 0.5 * (0.0 + 4.0) / 2.0);
    // 6 is two standard deviations above 2.
    assert_eq!(residuals, [(1.0, 0.0), (2.0, 2.0)]);
    assert_eq!(scores.accuracy, None);
}

#[test]
fn blocks_change_nothing() {
    let rows = 2 * ROWS_AT_ONCE + 100;
    let x: Vec<f64> = (0..rows).map(|i| (i as f64 * 0.37).sin()).collect();
    let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| f64::from(u8::from((i as f64 * 1.3).sin() < *x))).collect();
    let draws = CoefficientDraws::new(RegressionKind::Logistic, 1, &[1.5, 2.5]).unwrap();
    let found = scored(&draws, &x, &y);
    let inputs = Inputs::new(&x, 1, None).unwrap();
    let Predictions::Binary { probability, .. } = predict(&draws, inputs).unwrap() else { panic!() };
    assert_eq!((found.scores.auroc, &found.roc), (auroc(&probability, &y), &roc(&probability, &y)));
    assert_eq!(found.calibration, calibration(&probability, &y));
    let nll = -draws.log_predictive(inputs, &y).unwrap().iter().sum::<f64>() / rows as f64;
    assert!((found.scores.nll - nll).abs() < 1e-12);
    assert!((found.scores.brier.unwrap() - brier(&probability, &y)).abs() < 1e-12);
    let draws = CoefficientDraws::new(RegressionKind::Linear { noise_sd: Some(1.0) }, 1, &[2.0]).unwrap();
    let real = scored(&draws, &x, &y);
    let last = (MOST_RESIDUALS - 1) * rows / MOST_RESIDUALS;
    assert_eq!((real.residuals.len(), real.residuals[499]), (500, (2.0 * x[last], y[last] - 2.0 * x[last])));
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
    // Half of the positives score above every negative, the other half below one of the two negatives.
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

/// Outcomes drawn with exactly the predicted probabilities stay below the limit, but not far below it.
#[test]
fn chance_explains_some_calibration_error() {
    let mut state = 9u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let probability: Vec<f64> = (0..400).map(|i| 0.5 + 0.49 * f64::from(i) / 400.0).collect();
    let mut errors: Vec<f64> = Vec::new();
    let mut limit = 0.0;
    for _ in 0..1000 {
        let happened: Vec<f64> = probability.iter().map(|p| f64::from(u8::from(uniform() < *p))).collect();
        let bins = calibration(&probability, &happened);
        errors.push(ece(&bins));
        limit = ece_by_chance(&bins);
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors[989] < limit && errors[500] > 0.4 * limit, "{} {} {limit}", errors[500], errors[989]);
    // Overconfidence by 0.15 is seen.
    let wrong: Vec<f64> = probability.iter().map(|p| f64::from(u8::from(uniform() < p - 0.15))).collect();
    assert!(ece(&calibration(&probability, &wrong)) > limit);
}
