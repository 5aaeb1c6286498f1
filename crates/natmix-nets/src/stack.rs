//! Stacking: weights of the components with which the mixture predicts held-out rows best.
//!
//! With `p_ik` the density of row `i`'s outcome under component `k`, the weights maximise the mean log score
//!
//! ```text
//! L(w) = mean_i log sum_k w_k p_ik        over  w_k >= 0, sum_k w_k = 1
//! ```
//!
//! which is concave. EM steps `w_k <- w_k g_k` with `g_k = mean_i p_ik / sum_j w_j p_ij` never lower it, and since `L`
//! lies below its tangent, the best weights gain at most `max_k g_k - 1` nats: the steps end when that is small. Yao,
//! Vehtari, Simpson, Gelman (2018), *Bayesian Analysis* 13.
//!
//! ```
//! // The first component is right about three rows of four, the second about the last.
//! let log_density = [vec![0.0, 0.0, 0.0, -50.0], vec![-50.0, -50.0, -50.0, 0.0]];
//! let weights = natmix_nets::stack::stacking_weights(&log_density);
//! assert!((weights[0] - 0.75).abs() < 1e-6);
//! ```

use crate::predict::{Averaging, predict_each};
use crate::{Examples, Network};
use natmix::Error;
use natmix::family::Mixture;

/// The steps end when no weights have a mean log score that is better by more than this.
const GAP: f64 = 1e-6;
/// Most steps.
const MOST_STEPS: usize = 20_000;
/// Smallest weight: a component that no row wants keeps its place.
const SMALLEST: f64 = 1e-12;

/// The weights, from the log density of every row under each component. Rows that no component can explain do not count.
pub fn stacking_weights(log_density: &[Vec<f64>]) -> Vec<f64> {
    let count = log_density.len();
    let rows = log_density.first().map_or(0, Vec::len);
    let mut density = Vec::with_capacity(count * rows);
    for row in 0..rows {
        let most = log_density.iter().map(|of| of[row]).fold(f64::NEG_INFINITY, f64::max);
        if most.is_finite() {
            density.extend(log_density.iter().map(|of| (of[row] - most).exp()));
        }
    }
    let mut weights = vec![1.0 / count as f64; count];
    let used = (density.len() / count.max(1)) as f64;
    for _ in 0..MOST_STEPS {
        let mut gains = vec![0.0; count];
        for p in density.chunks_exact(count) {
            let total: f64 = p.iter().zip(&weights).map(|(p, w)| p * w).sum();
            gains.iter_mut().zip(p).for_each(|(gain, p)| *gain += p / total / used);
        }
        let gap = gains.iter().fold(0.0, |most: f64, gain| most.max(gain - 1.0));
        if gap <= GAP {
            break;
        }
        weights.iter_mut().zip(&gains).for_each(|(w, gain)| *w = (*w * gain).max(SMALLEST));
    }
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// The same components with the weights that predict `rows` best.
pub fn stacked(network: &Network, q: &Mixture, rows: &Examples, averaging: Averaging) -> Result<Mixture, Error> {
    let each = predict_each(network, q, rows.x(), averaging)?;
    let log_density: Vec<Vec<f64>> = each.iter().map(|found| found.log_density(rows.outcome())).collect();
    Mixture::new(&stacking_weights(&log_density), q.components().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(log_density: &[Vec<f64>], weights: &[f64]) -> f64 {
        let rows = log_density[0].len();
        let of_row = |i: usize| log_density.iter().zip(weights).map(|(of, w)| w * of[i].exp()).sum::<f64>().ln();
        (0..rows).map(of_row).sum::<f64>() / rows as f64
    }

    /// No point of a fine grid on the simplex scores better.
    #[test]
    fn no_other_weights_score_better() {
        let value = |i: usize, k: usize| 0.8 * (1.3 * i as f64 + 2.1 * k as f64).sin() - 0.3 * k as f64;
        let log_density: Vec<Vec<f64>> = (0..3).map(|k| (0..40).map(|i| value(i, k)).collect()).collect();
        let weights = stacking_weights(&log_density);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12 && weights.iter().all(|w| *w > 0.0));
        let best = score(&log_density, &weights);
        for a in 0..=50 {
            for b in 0..=50 - a {
                let other = [a, b, 50 - a - b].map(|n: i32| f64::from(n) / 50.0);
                assert!(score(&log_density, &other) <= best + 2.0 * GAP, "{other:?}");
            }
        }
        assert!(best > score(&log_density, &[1.0 / 3.0; 3]) + 1e-4, "{weights:?}");
    }

    #[test]
    fn a_component_that_is_better_everywhere_takes_all() {
        let weights = stacking_weights(&[vec![-1.0; 20], vec![-3.0; 20]]);
        assert!(weights[0] > 1.0 - 1e-5, "{weights:?}");
        // Rows that nothing explains change nothing, and equal components keep equal weights.
        let nothing = f64::NEG_INFINITY;
        assert_eq!(stacking_weights(&[vec![-1.0, nothing], vec![-1.0, nothing]]), [0.5, 0.5]);
    }
}
