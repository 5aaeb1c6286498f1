//! Randomised quantile residuals: where each outcome lies in its predictive distribution, as a standard normal number.
//!
//! With the predictive distribution function `F` and a number `v` uniform on (0, 1), `u = F(y-) + v [F(y) - F(y-)]` is uniform if the
//! model is right, for counts and classes too, and `Phi^-1(u)` is normal. Of a censored time only a lower bound is known: `u` is
//! uniform above `F(y)`. Dunn, Smyth (1996), *Journal of Computational and Graphical Statistics* 5.

use crate::checks::mix;
use crate::draws::{CoefficientDraws, Inputs};
use crate::observations::Dataset;
use crate::predict::{LARGE_RATE, normal_cdf, sigmoid};
use crate::regression::RegressionKind;
use crate::scores::{MOST_RESIDUALS, spaced};
use natmix::Error;

/// Distribution functions this close to 0 or 1 are not told apart from it.
const CLOSEST: f64 = 1e-6;

/// The residual of a row whose outcome has the probability `at`, and smaller ones `below`.
pub(crate) fn quantile_residual(below: f64, at: f64, row: usize) -> f64 {
    let v = ((mix(row as u64 + 1) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    normal_quantile((below + v * at).clamp(CLOSEST, 1.0 - CLOSEST))
}

/// The standard normal quantile, by bisection.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle).0 < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Predicted means with the residuals of outcomes 0 and 1 or counts, of at most 500 evenly spaced rows; none for other models.
pub(crate) fn quantile_residuals(draws: &CoefficientDraws, data: &Dataset) -> Result<Vec<(f64, f64)>, Error> {
    if !matches!(draws.kind(), RegressionKind::Logistic | RegressionKind::Poisson) {
        return Ok(Vec::new());
    }
    let which: Vec<usize> = spaced(data.rows(), MOST_RESIDUALS).collect();
    let rows = data.take(&which)?;
    let mut found = vec![0.0; 2 * rows.rows()];
    draws.for_rows(Inputs::from(&rows), 2, &mut found, |row, eta, out| {
        let y = rows.outcome()[row];
        let share = 1.0 / eta.len() as f64;
        let (mean, below, at) = if draws.kind() == RegressionKind::Logistic {
            let p = share * eta.iter().map(|eta| sigmoid(*eta)).sum::<f64>();
            if y == 1.0 { (p, 1.0 - p, p) } else { (p, 0.0, 1.0 - p) }
        } else {
            eta.iter_mut().for_each(|eta| *eta = eta.exp());
            let (below, at) = count_probabilities(eta, y);
            (share * eta.iter().sum::<f64>(), below, at)
        };
        out.copy_from_slice(&[mean, quantile_residual(below, at, which[row])]);
    })?;
    Ok(found.as_chunks::<2>().0.iter().map(|[mean, residual]| (*mean, *residual)).collect())
}

/// Probabilities of counts below `y` and of `y`, under the mixture of Poissons with these rates.
fn count_probabilities(rates: &[f64], y: f64) -> (f64, f64) {
    let share = 1.0 / rates.len() as f64;
    if !rates.iter().all(|rate| *rate < LARGE_RATE) {
        let up_to = |y: f64| share * rates.iter().map(|rate| normal_cdf((y - rate) / rate.sqrt()).0).sum::<f64>();
        let below = up_to(y - 0.5);
        return (below, up_to(y + 0.5) - below);
    }
    if y > 4.0 * LARGE_RATE {
        return (1.0, 0.0);
    }
    let mut terms: Vec<f64> = rates.iter().map(|rate| share * (-rate).exp()).collect();
    let (mut count, mut below) = (0.0, 0.0);
    while count < y {
        below += terms.iter().sum::<f64>();
        count += 1.0;
        terms.iter_mut().zip(rates).for_each(|(term, rate)| *term *= rate / count);
    }
    (below, terms.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observations;

    #[test]
    fn probabilities_of_counts_by_hand() {
        // P(y < 2) = 3 exp(-2) and P(y = 2) = 2 exp(-2) at rate 2; only zeros at rate 0.
        let (below, at) = count_probabilities(&[2.0, 0.0], 2.0);
        let e = (-2f64).exp();
        assert!((below - 0.5 * (3.0 * e + 1.0)).abs() < 1e-14 && (at - e).abs() < 1e-14);
        let (small, large) =
            (count_probabilities(&[LARGE_RATE - 1e-9], 380.0), count_probabilities(&[LARGE_RATE], 380.0));
        assert!((small.0 - large.0).abs() < 0.01 && (small.1 - large.1).abs() < 0.001, "{small:?} {large:?}");
        assert!((normal_quantile(0.975) - 1.959_964).abs() < 1e-5 && normal_quantile(0.5).abs() < 1e-6);
    }

    /// Where the model is right the residuals are normal: 500 of them have a mean within 0.18 (four errors), and a spread near one.
    #[test]
    fn residuals_of_a_right_model_are_normal() {
        let x: Vec<f64> = (0..500).flat_map(|i| [1.0, (1.3 * f64::from(i)).sin()]).collect();
        let uniform = |i: usize| ((mix(7 * i as u64 + 12_345) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        for kind in [RegressionKind::Logistic, RegressionKind::Poisson] {
            let outcome = |i: usize, shift: f64| {
                let eta = 0.4 + 1.2 * x[2 * i + 1] + shift;
                if kind == RegressionKind::Logistic {
                    return f64::from(u8::from(uniform(i) < sigmoid(eta)));
                }
                let (mut y, mut below) = (0.0, (-eta.exp()).exp());
                let mut term = below;
                while uniform(i) > below {
                    y += 1.0;
                    term *= eta.exp() / y;
                    below += term;
                }
                y
            };
            let draws = CoefficientDraws::new(kind, 2, &[0.4, 1.2]).unwrap();
            let of = |shift: f64| {
                let y = (0..500).map(|i| outcome(i, shift)).collect();
                let data: Dataset = Observations::new(x.clone(), 2, y).unwrap().into();
                let found = quantile_residuals(&draws, &data).unwrap();
                let mean = found.iter().map(|r| r.1).sum::<f64>() / 500.0;
                (mean, (found.iter().map(|r| (r.1 - mean).powi(2)).sum::<f64>() / 500.0).sqrt())
            };
            let (mean, sd) = of(0.0);
            assert!(mean.abs() < 0.18 && (0.87..1.13).contains(&sd), "{kind:?}: {mean} {sd}");
            assert!(of(1.0).0 > 0.3, "{kind:?}");
        }
    }
}
