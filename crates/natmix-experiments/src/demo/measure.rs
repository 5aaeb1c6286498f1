//! Measures of a fitted network, and its predictions on a grid.
//!
//! Component `k` predicts `p_k(x)`, its average over draws of its own, and the mixture `p(x) = sum_k w_k p_k(x)`. With
//! `H` the entropy of a Bernoulli variable, components differ at `x` by their Jensen-Shannon divergence
//! `H(p) - sum_k w_k H(p_k)`: zero where all agree, at most `log 2`.

use anyhow::{Context, Result, bail};
use natmix::Fitted;
use natmix::family::{Gaussian, Mixture};
use natmix_models::{Observations, Predictions};
use natmix_nets::Mlp;
use natmix_nets::predict::{Averaging, predict};
use serde::Serialize;

/// Draws per component for predictions.
const DRAWS: usize = 200;
/// Margin around the data on each side, as a share of their range.
const ROOM: f64 = 0.35;
/// Distance from the nearest data point that counts as away from the data, as a share of the picture's side.
const AWAY: f64 = 0.15;

/// The points of a square picture, in rows from the bottom.
#[derive(Debug)]
pub struct Grid {
    /// Lower left corner.
    pub corner: [f64; 2],
    /// Length of the sides.
    pub sides: [f64; 2],
    /// Coordinates.
    points: Vec<f64>,
    /// Whether each point is away from the data.
    away: Vec<bool>,
}

impl Grid {
    /// Points per side.
    pub const SIDE: usize = 61;

    /// A grid around points in the plane.
    pub fn around(data: &[f64]) -> Self {
        let range = |axis: usize| {
            let values = || data.iter().skip(axis).step_by(2).copied();
            let (lo, hi) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
            (lo - ROOM * (hi - lo), (1.0 + 2.0 * ROOM) * (hi - lo))
        };
        let ((x, width), (y, height)) = (range(0), range(1));
        let share = |i: usize| i as f64 / (Self::SIDE - 1) as f64;
        let points: Vec<f64> = (0..Self::SIDE * Self::SIDE)
            .flat_map(|i| [x + width * share(i % Self::SIDE), y + height * share(i / Self::SIDE)])
            .collect();
        let far = |a: &[f64], b: &[f64]| ((a[0] - b[0]) / width).hypot((a[1] - b[1]) / height) > AWAY;
        let away = points.chunks_exact(2).map(|at| data.chunks_exact(2).all(|row| far(at, row))).collect();
        Self { corner: [x, y], sides: [width, height], points, away }
    }
}

/// The measures of one fit.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub components: usize,
    pub weights: Vec<f64>,
    /// From fresh draws.
    pub elbo: f64,
    pub elbo_se: f64,
    pub k_hat: f64,
    /// Share of test rows predicted correctly.
    pub test_accuracy: f64,
    /// Mean log probability of a test row's class, under the averaged prediction.
    pub test_log_likelihood: f64,
    /// The same for the best single component.
    pub best_component: f64,
    /// Smallest distance between two components' means, in standard deviations of the wider one; zero for one
    /// component.
    pub distance: f64,
    /// Most nats of ELBO that K copies of one function with permuted hidden units can gain: log K.
    pub symmetry: f64,
    /// Mean Jensen-Shannon divergence of the components' predictions on the grid, in nats.
    pub divergence: f64,
    /// Mean predictive entropy at the training points, in nats.
    pub entropy_on_data: f64,
    /// Mean predictive entropy on the grid, away from the data.
    pub entropy_off_data: f64,
    pub iterations: u64,
    pub evals: u64,
    pub converged: bool,
    pub seconds: f64,
    /// Probability of class 1 on the grid.
    #[serde(skip)]
    pub probability: Vec<f64>,
    /// The same by component.
    #[serde(skip)]
    pub by_component: Vec<Vec<f64>>,
}

impl Measured {
    /// Measures a fit.
    ///
    /// `before` is the time in seconds and the number of iterations for which each component was fitted alone.
    pub fn new(network: &Mlp, fitted: &Fitted, test: &Observations, grid: &Grid, before: (f64, u64)) -> Result<Self> {
        let diagnostics = fitted.diagnostics.as_ref().context("no diagnostics were measured")?;
        let q = &fitted.mixture;
        let weights = q.weights();
        let seed = fitted.config.seed;
        let each = |x: &[f64]| -> Result<Vec<Vec<f64>>> {
            let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
            let of = |component: &Gaussian| {
                let alone = Mixture::single(component.clone());
                let found = predict(network.network(), &alone, &x, Averaging::Draws { each: DRAWS, seed })?;
                match found.predictions {
                    Predictions::Binary { probability, .. } => Ok(probability),
                    _ => bail!("the demo has two classes"),
                }
            };
            q.components().iter().map(of).collect()
        };
        let by_component = each(&grid.points)?;
        let probability = average(&weights, &by_component);
        let each_on_test = each(test.design())?;
        let on_test = average(&weights, &each_on_test);
        let log_likelihood =
            |p: &[f64]| mean(p.iter().zip(test.outcome()).map(|(p, y)| if *y > 0.5 { p.ln() } else { (1.0 - p).ln() }));
        let on_data = average(&weights, &each(network.observations().design())?);

        let rows = || on_test.iter().zip(test.outcome());
        let right = rows().filter(|(p, y)| (**p > 0.5) == (**y > 0.5)).count();
        let shared: Vec<f64> = by_component.iter().map(|p| mean(p.iter().map(|p| entropy(*p)))).collect();
        let away = probability.iter().zip(&grid.away).filter(|(_, away)| **away);
        Ok(Self {
            components: q.len(),
            elbo: diagnostics.elbo.mean,
            elbo_se: diagnostics.elbo.se,
            k_hat: diagnostics.k_hat,
            test_accuracy: right as f64 / test.rows() as f64,
            test_log_likelihood: log_likelihood(&on_test),
            best_component: each_on_test.iter().map(|p| log_likelihood(p)).fold(f64::NEG_INFINITY, f64::max),
            distance: distance(q),
            symmetry: (q.len() as f64).ln(),
            // Rounding could make it negative where components agree.
            divergence: (mean(probability.iter().map(|p| entropy(*p)))
                - weights.iter().zip(&shared).map(|(w, h)| w * h).sum::<f64>())
            .max(0.0),
            entropy_on_data: mean(on_data.iter().map(|p| entropy(*p))),
            entropy_off_data: mean(away.map(|(p, _)| entropy(*p))),
            iterations: before.1 + fitted.iterations,
            evals: fitted.evals,
            converged: fitted.stop.converged,
            seconds: before.0 + fitted.seconds,
            weights,
            probability,
            by_component,
        })
    }
}

/// Smallest distance between two means, each coordinate in units of the larger of the two standard deviations.
fn distance(q: &Mixture) -> f64 {
    let parts: Vec<(&[f64], Vec<f64>)> = q.components().iter().map(|c| (c.mean(), c.sd())).collect();
    let apart = |a: &(&[f64], Vec<f64>), b: &(&[f64], Vec<f64>)| {
        let terms = a.0.iter().zip(&a.1).zip(b.0.iter().zip(&b.1));
        terms.map(|((m, s), (n, t))| ((m - n) / s.max(*t)).powi(2)).sum::<f64>().sqrt()
    };
    let pairs = (0..parts.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let least = pairs.map(|(i, j)| apart(&parts[i], &parts[j])).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

/// Entropy of a Bernoulli variable, in nats.
pub fn entropy(p: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    term(p) + term(1.0 - p)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
    sum / count
}

fn average(weights: &[f64], by_component: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; by_component.first().map_or(0, Vec::len)];
    for (w, values) in weights.iter().zip(by_component) {
        sum.iter_mut().zip(values).for_each(|(sum, p)| *sum += w * p);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_largest_at_one_half() {
        assert_eq!([entropy(0.0), entropy(1.0)], [0.0, 0.0]);
        assert!((entropy(0.5) - 2f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn a_grid_surrounds_the_data() {
        let grid = Grid::around(&[0.0, 10.0, 1.0, 12.0]);
        let last = grid.points.len() - 2;
        let near = |a: &[f64], b: [f64; 2]| (a[0] - b[0]).abs() + (a[1] - b[1]).abs() < 1e-12;
        assert!(near(&grid.points, [-0.35, 9.3]) && near(&grid.points[last..], [1.35, 12.7]));
        assert!(grid.away[0] && grid.away.iter().any(|away| !away));
    }

    #[test]
    fn components_are_averaged_by_weight() {
        assert_eq!(average(&[0.25, 0.75], &[vec![1.0, 0.0], vec![0.0, 1.0]]), [0.25, 0.75]);
    }
}
