//! Weights of models by stacking: the mixture of their predictions that predicts best.
//!
//! With the leave-one-out log densities `l_ik` of rows `i` under models `k`, the weights maximise the concave
//!
//! ```text
//! f(w) = mean_i log sum_k w_k exp l_ik      over   w_k >= 0,  sum_k w_k = 1
//! ```
//!
//! Its slopes are `g_k = mean_i exp l_ik / sum_j w_j exp l_ij`, with `sum_k w_k g_k = 1`. Each step moves weight from the model with the
//! smallest slope to the one with the largest, as far as is best (the maximum along that line, found by bisection). Since `f` is
//! concave, no weights are better by more than `max_k g_k - 1`, the Frank-Wolfe gap, at which the steps stop. Yao, Vehtari, Simpson,
//! Gelman (2018), *Bayesian Analysis* 13.
//!
//! ```
//! // Two models, each right about half of the rows.
//! let [a, b] = [[0.0, -9.0], [-9.0, 0.0]];
//! let stacked = natmix_models::stacking::stack(&[&a, &b]);
//! assert!((stacked.weights[0] - 0.5).abs() < 1e-9 && stacked.gap < 1e-9);
//! ```

/// The largest gap at which the steps stop: the mean log density is then within so much of the best.
pub const LARGEST_GAP: f64 = 1e-10;
/// Most steps.
const MOST_STEPS: usize = 20_000;
/// Halvings along one line: all bits of a weight.
const HALVINGS: usize = 60;

/// Weights of models.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacked {
    /// One per model; they sum to one.
    pub weights: Vec<f64>,
    /// By how much the mean log density could be larger at most.
    pub gap: f64,
    /// Steps that were made.
    pub steps: usize,
}

/// The weights for the log densities of each model, which have one number per row. Equal ones if there are no rows.
pub fn stack(log_densities: &[&[f64]]) -> Stacked {
    let models = log_densities.len();
    let rows = log_densities.iter().map(|of_model| of_model.len()).min().unwrap_or(0);
    let mut weights = vec![1.0 / models.max(1) as f64; models];
    if rows == 0 || models < 2 {
        return Stacked { weights, gap: 0.0, steps: 0 };
    }
    let densities = relative(log_densities, rows);
    let mixed = |weights: &[f64]| -> Vec<f64> {
        let row = |row: &[f64]| row.iter().zip(weights).map(|(density, weight)| density * weight).sum();
        densities.chunks_exact(models).map(row).collect()
    };
    let (mut gap, mut steps) = (f64::INFINITY, 0);
    loop {
        let mixture = mixed(&weights);
        let mut slopes = vec![0.0; models];
        for (row, mixture) in densities.chunks_exact(models).zip(&mixture) {
            // A model of no density gains nothing from a row, also where no density is left.
            let gain = |density: f64| if density == 0.0 { 0.0 } else { density / mixture };
            slopes.iter_mut().zip(row).for_each(|(slope, density)| *slope += gain(*density));
        }
        slopes.iter_mut().for_each(|slope| *slope /= rows as f64);
        let by_slope = |a: &usize, b: &usize| slopes[*a].total_cmp(&slopes[*b]);
        let best = (0..models).max_by(by_slope).unwrap_or(0);
        let worst = (0..models).filter(|k| weights[*k] > 0.0).min_by(by_slope).unwrap_or(best);
        gap = gap.min((slopes[best] - 1.0).max(0.0));
        if slopes[best] - 1.0 <= LARGEST_GAP || best == worst || steps == MOST_STEPS {
            return Stacked { weights, gap, steps };
        }
        let moved = along(&densities, &mixture, (models, best, worst), weights[worst]);
        if moved == 0.0 {
            return Stacked { weights, gap, steps };
        }
        weights[best] += moved;
        weights[worst] = if moved == weights[worst] { 0.0 } else { weights[worst] - moved };
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        steps += 1;
    }
}

/// Densities row by row, divided by the largest of each row: the factor does not matter. Those of a row that no model can explain,
/// or whose density is unknown, are equal.
fn relative(log_densities: &[&[f64]], rows: usize) -> Vec<f64> {
    let mut densities = Vec::with_capacity(rows * log_densities.len());
    for row in 0..rows {
        let of_row = log_densities.iter().map(|of_model| of_model[row]);
        let largest = of_row.clone().fold(f64::NEG_INFINITY, f64::max);
        let usable = largest.is_finite() && of_row.clone().all(|log| !log.is_nan());
        densities.extend(of_row.map(|log| if usable { (log - largest).exp() } else { 1.0 }));
    }
    densities
}

/// How much of the weight of model `worst`, at most `most`, is best moved to model `best`.
fn along(densities: &[f64], mixture: &[f64], (models, best, worst): (usize, usize, usize), most: f64) -> f64 {
    let slope = |moved: f64| -> f64 {
        let of_row = |(row, mixture): (&[f64], &f64)| {
            let change = row[best] - row[worst];
            // Without any change the ratio is zero, also where no density is left.
            if change == 0.0 { 0.0 } else { change / (mixture + moved * change).max(0.0) }
        };
        densities.chunks_exact(models).zip(mixture).map(of_row).sum()
    };
    if slope(most) >= 0.0 {
        return most;
    }
    let (mut low, mut high) = (0.0, most);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Log densities that differ from row to row without a pattern.
    fn rows(count: usize, model: usize) -> Vec<f64> {
        let noise = |i: usize, of: f64| ((i * 37 + model * 101 + 13) as f64 * of).sin();
        (0..count).map(|i| -1.0 + 0.8 * noise(i, 1.7) + 0.3 * noise(i, 0.61) - 0.1 * model as f64).collect()
    }

    fn value(models: &[&[f64]], weights: &[f64]) -> f64 {
        let row = |i: usize| models.iter().zip(weights).map(|(l, w)| w * l[i].exp()).sum::<f64>().ln();
        (0..models[0].len()).map(row).sum::<f64>() / models[0].len() as f64
    }

    #[test]
    fn two_models_as_by_golden_section() {
        for (a, b) in [(0, 1), (1, 2), (0, 5), (3, 4)] {
            let (a, b) = (rows(50, a), rows(50, b));
            let at = |w: f64| value(&[&a, &b], &[w, 1.0 - w]);
            let (mut low, mut high) = (0.0, 1.0);
            let golden = 0.5 * (5f64.sqrt() - 1.0);
            for _ in 0..100 {
                let (x, y) = (high - golden * (high - low), low + golden * (high - low));
                if at(x) > at(y) { high = y } else { low = x }
            }
            let stacked = stack(&[&a, &b]);
            // Values near a maximum tell its place to half of their digits.
            assert!((stacked.weights[0] - 0.5 * (low + high)).abs() < 1e-6, "{stacked:?} {low}");
            assert!(stacked.gap <= LARGEST_GAP);
        }
    }

    #[test]
    fn several_models_as_by_the_em_algorithm() {
        let all: Vec<Vec<f64>> = (0..5).map(|model| rows(120, model)).collect();
        for count in 2..=5 {
            let models: Vec<&[f64]> = all[..count].iter().map(Vec::as_slice).collect();
            let mut weights = vec![1.0 / count as f64; count];
            for _ in 0..200_000 {
                let mut next = vec![0.0; count];
                for i in 0..120 {
                    let total: f64 = models.iter().zip(&weights).map(|(l, w)| w * l[i].exp()).sum();
                    models
                        .iter()
                        .zip(&weights)
                        .zip(&mut next)
                        .for_each(|((l, w), next)| *next += w * l[i].exp() / total);
                }
                weights = next.iter().map(|sum| sum / 120.0).collect();
            }
            let stacked = stack(&models);
            assert!(stacked.gap <= LARGEST_GAP && (stacked.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(value(&models, &stacked.weights) >= value(&models, &weights) - 1e-10);
            for (ours, theirs) in stacked.weights.iter().zip(&weights) {
                assert!((ours - theirs).abs() < 1e-4, "{stacked:?} {weights:?}");
            }
        }
    }

    #[test]
    fn closed_forms() {
        // Each row is explained by one model only: weights are the shares of rows.
        let impossible = f64::NEG_INFINITY;
        let a = [0.0, -3.0, 0.0, impossible, impossible, impossible];
        let b = [impossible, impossible, impossible, -1.0, 2.0, impossible];
        let c = [impossible, impossible, impossible, impossible, impossible, 0.5];
        let stacked = stack(&[&a, &b, &c]);
        for (weight, share) in stacked.weights.iter().zip([0.5, 2.0 / 6.0, 1.0 / 6.0]) {
            assert!((weight - share).abs() < 1e-7, "{stacked:?}");
        }
        // A model that is never better gets nothing; copies of a model share its weight, however they do.
        let better = rows(30, 0);
        let worse: Vec<f64> = better.iter().map(|l| l - 0.01).collect();
        assert_eq!(stack(&[&better, &worse]).weights, [1.0, 0.0]);
        assert_eq!(stack(&[&better, &better]).weights, [0.5, 0.5]);
        assert_eq!(stack(&[&worse, &worse, &better]).weights, [0.0, 0.0, 1.0]);
    }

    #[test]
    fn degenerate_rows() {
        assert_eq!(stack(&[]).weights, [0.0; 0]);
        assert_eq!(stack(&[&[-1.0, -2.0]]).weights, [1.0]);
        assert_eq!(stack(&[&[], &[]]).weights, [0.5, 0.5]);
        assert_eq!(stack(&[&[f64::NAN], &[0.0]]).weights, [0.5, 0.5]);
        // Very small densities do not vanish beside the others.
        let (a, b) = (vec![-1e5; 4], vec![-1e5 - 1.0; 4]);
        assert_eq!(stack(&[&a, &b]).weights, [1.0, 0.0]);
    }
}
