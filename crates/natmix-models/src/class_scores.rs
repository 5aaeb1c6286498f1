//! How the likeliest classes compare with what came, and how well the probability of each class is calibrated.

use crate::predict::Predictions;
use crate::scores::{CalibrationBin, calibration};

/// Counts and calibration of predicted classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassScores {
    /// Number of classes.
    pub classes: usize,
    /// Rows by outcome and likeliest class: `confusion[outcome * classes + likeliest]`.
    pub confusion: Vec<usize>,
    /// Predicted probabilities against observed frequencies, of each class.
    pub calibration: Vec<Vec<CalibrationBin>>,
}

impl ClassScores {
    /// Of predictions for rows with known outcomes; none if these have no classes.
    pub fn of(predictions: &Predictions, outcome: &[f64]) -> Option<Self> {
        match predictions {
            Predictions::Binary { probability, .. } => {
                let both: Vec<f64> = probability.iter().flat_map(|p| [1.0 - p, *p]).collect();
                Some(Self::of_probabilities(2, &both, outcome))
            }
            Predictions::Classes { classes, probability, .. } => {
                Some(Self::of_probabilities(*classes, probability, outcome))
            }
            Predictions::Real { .. } => None,
        }
    }

    /// From the probabilities of all classes, row by row.
    pub fn of_probabilities(classes: usize, probability: &[f64], outcome: &[f64]) -> Self {
        let mut confusion = vec![0; classes * classes];
        for (p, y) in probability.chunks_exact(classes).zip(outcome) {
            let likeliest = (1..classes).fold(0, |best, c| if p[c] > p[best] { c } else { best });
            confusion[(*y as usize).min(classes - 1) * classes + likeliest] += 1;
        }
        let of_class = |c: usize| {
            let p: Vec<f64> = probability.iter().skip(c).step_by(classes).copied().collect();
            let happened: Vec<f64> = outcome.iter().map(|y| f64::from(u8::from(*y == c as f64))).collect();
            calibration(&p, &happened)
        };
        Self { classes, confusion, calibration: (0..classes).map(of_class).collect() }
    }
}

/// Averages the class probabilities of draws (`classes` per draw) over the posterior without the row whose class is `observed`: draws
/// have the inverse of its likelihood as weight, at most `sqrt(draws)` times the mean weight (Ionides, 2008, *Journal of Computational
/// and Graphical Statistics* 17).
pub(crate) fn average_left_out(of_draws: &[f64], observed: usize, out: &mut [f64]) {
    let classes = out.len();
    let draws = of_draws.chunks_exact(classes);
    let count = draws.len() as f64;
    let ratio = |p: &[f64]| 1.0 / p[observed].max(f64::MIN_POSITIVE);
    let most = draws.clone().map(|p| ratio(p) / count).sum::<f64>() * count.sqrt();
    let mut total = 0.0;
    out.fill(0.0);
    for p in draws {
        let weight = ratio(p).min(most);
        total += weight;
        out.iter_mut().zip(p).for_each(|(out, p)| *out += weight * p);
    }
    out.iter_mut().for_each(|out| *out /= total);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_outcome_and_likeliest_class() {
        let probability = [0.5, 0.3, 0.2, 0.1, 0.2, 0.7, 0.2, 0.6, 0.2];
        let found = ClassScores::of_probabilities(3, &probability, &[0.0, 1.0, 1.0]);
        assert_eq!(found.confusion, [1, 0, 0, 0, 1, 1, 0, 0, 0]);
        assert_eq!(found.calibration[0].iter().map(|bin| bin.count).sum::<usize>(), 3);
        let binary = Predictions::Binary { probability: vec![0.8, 0.1], sd: vec![], entropy: vec![] };
        assert_eq!(ClassScores::of(&binary, &[1.0, 1.0]).unwrap().confusion, [0, 0, 1, 1]);
        let real = Predictions::Real { mean: vec![], sd: vec![], q05: vec![], q50: vec![], q95: vec![] };
        assert!(ClassScores::of(&real, &[]).is_none());
    }

    #[test]
    fn a_row_without_itself_by_hand() {
        // Two draws that give class 0 the probabilities 1/4 and 1/2: weights 4 and 2.
        let mut out = [0.0; 2];
        average_left_out(&[0.25, 0.75, 0.5, 0.5], 0, &mut out);
        assert!((out[0] - (4.0 * 0.25 + 2.0 * 0.5) / 6.0).abs() < 1e-14 && (out[0] + out[1] - 1.0).abs() < 1e-14);
        // An impossible outcome does not take all of the weight.
        average_left_out(&[0.0, 1.0, 0.5, 0.5, 0.5, 0.5], 0, &mut out);
        assert!(out.iter().all(|p| p.is_finite()));
    }
}
