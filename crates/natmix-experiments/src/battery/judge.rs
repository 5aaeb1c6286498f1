//! Whether delivered draws are right: the definition that the verdict promises.
//!
//! For every parameter each of five quantiles must lie within 0.05 of the true 5-95% width, or have a probability within
//! 0.02 of the true one, so that a median in the gap between two modes does not decide. Where the kurtosis is below 10,
//! the mean must also be within 0.1 standard deviations and the standard deviation within 10%.

use super::sample::{PROBABILITIES, WeightedSample};
use super::truth::{TrueMarginal, Truth};
use serde::Serialize;

/// Largest error of a quantile, as a share of the true 5-95% width, and of its probability.
pub const QUANTILE_LIMIT: f64 = 0.05;
pub const PROBABILITY_LIMIT: f64 = 0.02;
/// Largest error of a mean, in standard deviations, and of a standard deviation, as a share of it.
pub const MEAN_LIMIT: f64 = 0.1;
pub const SD_LIMIT: f64 = 0.1;
/// Kurtosis from which on mean and standard deviation do not decide.
pub const HEAVY_TAILS: f64 = 10.0;

/// The worst figure of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureError {
    /// Name of the parameter.
    pub parameter: String,
    /// Which figure: `q05` to `q95`, `mean` or `sd`.
    pub figure: String,
    /// Its error in units of the limit: up to one is right.
    pub error: f64,
}

/// The judgement on delivered draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// Whether every parameter is right.
    pub right: bool,
    /// Parameters that are wrong.
    pub wrong: usize,
    /// The worst figure of all.
    pub worst: Option<FigureError>,
}

/// Judges delivered draws.
pub fn judge(truth: &Truth, draws: &WeightedSample) -> Judgement {
    let marginals = truth.marginals.iter().enumerate();
    let errors: Vec<FigureError> = marginals.map(|(j, marginal)| worst_of(marginal, draws, j)).collect();
    let wrong = errors.iter().filter(|error| error.error > 1.0).count();
    let right = wrong == 0 && draws.names.len() == truth.marginals.len();
    Judgement { right, wrong, worst: errors.into_iter().max_by(|a, b| a.error.total_cmp(&b.error)) }
}

fn worst_of(truth: &TrueMarginal, draws: &WeightedSample, j: usize) -> FigureError {
    let column = draws.column(j);
    let mut errors = Vec::with_capacity(7);
    if let Some(quantiles) = truth.quantiles {
        let width = quantiles[4] - quantiles[0];
        let found = column.quantiles(PROBABILITIES);
        for ((p, found), truth) in PROBABILITIES.into_iter().zip(found).zip(quantiles) {
            let place = (found - truth).abs() / (QUANTILE_LIMIT * width);
            let probability = (column.share_below(truth) - p).abs() / PROBABILITY_LIMIT;
            errors.push((format!("q{:02.0}", 100.0 * p), place.min(probability)));
        }
    }
    if truth.moments.kurtosis < HEAVY_TAILS {
        let found = column.moments();
        errors.push(("mean".into(), (found.mean - truth.moments.mean).abs() / (MEAN_LIMIT * truth.moments.sd)));
        errors.push(("sd".into(), (found.sd / truth.moments.sd - 1.0).abs() / SD_LIMIT));
    }
    // A figure that is not a number is wrong without bounds.
    let finite = |error: f64| if error.is_nan() { f64::INFINITY } else { error };
    let (figure, error) = errors
        .into_iter()
        .map(|(figure, error)| (figure, finite(error)))
        .fold((String::new(), f64::NEG_INFINITY), |worst, next| if next.1 > worst.1 { next } else { worst });
    FigureError { parameter: truth.name.clone(), figure, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::random::RandomStream;

    fn sample(n: usize, seed: u64, draw: impl Fn(&mut RandomStream) -> f64) -> WeightedSample {
        let mut random = RandomStream::new(seed);
        WeightedSample { names: vec!["z".into()], values: (0..n).map(|_| draw(&mut random)).collect(), weights: None }
    }

    fn truth(draw: impl Fn(&mut RandomStream) -> f64) -> Truth {
        Truth::of(&sample(200_000, 1, draw), |_| None)
    }

    #[test]
    fn a_normal_sample_is_right_and_a_wide_one_wrong() {
        let truth = truth(RandomStream::normal);
        let right = judge(&truth, &sample(4_000, 2, RandomStream::normal));
        assert!(right.right && right.wrong == 0, "{right:?}");
        for (scale, shift, figure) in [(1.15, 0.0, "sd"), (0.85, 0.0, "sd"), (1.0, 0.15, "mean")] {
            let wrong = judge(&truth, &sample(4_000, 2, |random| scale * random.normal() + shift));
            assert!(!wrong.right && wrong.wrong == 1, "{wrong:?}");
            assert_eq!(wrong.worst.unwrap().figure, figure);
        }
    }

    #[test]
    fn a_median_in_a_gap_does_not_decide() {
        let two = |share: f64| {
            move |random: &mut RandomStream| random.normal() + if random.uniform() < share { -20.0 } else { 20.0 }
        };
        let truth = truth(two(0.5));
        // The median jumps by 40, its probability moves by 0.01.
        assert!(judge(&truth, &sample(40_000, 3, two(0.49))).right);
        assert!(judge(&truth, &sample(40_000, 3, two(0.51))).right);
        assert!(!judge(&truth, &sample(40_000, 3, two(0.58))).right);
    }

    #[test]
    fn moments_of_heavy_tails_do_not_decide() {
        let student = |random: &mut RandomStream| random.normal() * random.student_factor(3.0);
        let truth = Truth::of(&sample(200_000, 1, student), |_| {
            Some(crate::battery::sample::ShapeMoments { mean: 0.0, sd: 3f64.sqrt(), kurtosis: f64::INFINITY })
        });
        let clipped = judge(&truth, &sample(20_000, 2, |random| student(random).clamp(-6.0, 6.0)));
        assert!(clipped.right, "{clipped:?}");
    }

    #[test]
    fn what_is_not_a_number_is_wrong() {
        let truth = truth(RandomStream::normal);
        assert!(!judge(&truth, &sample(100, 1, |_| f64::NAN)).right);
        assert!(!judge(&truth, &sample(0, 1, |_| 0.0)).right);
    }
}
