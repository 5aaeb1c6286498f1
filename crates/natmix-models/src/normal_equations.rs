//! The sums over rows that least squares needs (`X'UX` and so on): evaluations then cost the same for any number of rows.
//!
//! Around the least-squares solution `c`, with residuals `e = y - offset - X c`, row weights `U` and `delta = b - c`:
//!
//! ```text
//! RSS(b)           = e'Ue - 2 delta'g + delta'A delta,     A = X'UX,  g = X'Ue  (zero up to rounding)
//! X'U(y - off - Xb) = g - A delta
//! ```
//!
//! Both hold for any `c`, so its rounding errors do no harm; near the solution there is no cancellation, as there is in
//! `y'Uy - 2 b'X'Uy + b'A b`.

use crate::observations::Dataset;
use natmix::Scratch;
use natmix::family::{AnyCovariance, Gaussian};
use natmix::matrix::{Transpose, product};
use natmix::target::{CurvatureShape, Rows, TargetError};

/// Most columns for which the equations are formed, so that their matrix stays small.
const MOST_FEATURES: usize = 512;
/// Smallest share of a column's sum of squares that the columns before it may leave unexplained. Products of columns
/// that are closer to collinear (such as a year and an intercept) would lose too many digits.
const LEAST_PIVOT: f64 = 1e-6;

#[derive(Clone, Debug)]
pub(crate) struct NormalEquations {
    /// `A`.
    pub gram: Vec<f64>,
    centre: Vec<f64>,
    gradient: Vec<f64>,
    rss: f64,
    pub total_weight: f64,
}

impl NormalEquations {
    /// None where they would be slower or inaccurate: more columns than rows, or nearly collinear columns.
    pub fn new(data: &Dataset) -> Result<Option<Self>, TargetError> {
        let d = data.features();
        if d > MOST_FEATURES || d > data.rows() {
            return Ok(None);
        }
        let mut scratch = Scratch::default();
        let mut gram = vec![0.0; d * d];
        let mut total_weight = 0.0;
        let totals = [&mut gram[..], std::slice::from_mut(&mut total_weight)];
        data.sum(Rows::All, None, totals, &mut scratch, |block, [gram, total_weight], scratch| {
            block.add_gram(gram, CurvatureShape::Full, block.weights, scratch);
            total_weight[0] += block.total_weight();
        })?;
        natmix::matrix::symmetrise(&mut gram, d);
        let scale: Vec<f64> = (0..d).map(|j| gram[j * (d + 1)].sqrt().recip()).collect();
        let halves: Vec<f64> = (0..d * d).map(|at| -0.5 * scale[at % d] * scale[at / d] * gram[at]).collect();
        let mut equations = Self { gram, centre: vec![0.0; d], gradient: vec![0.0; d], rss: 0.0, total_weight };
        // The first pass solves, the second removes most of its rounding errors.
        for _ in 0..2 {
            equations.measure(data, &mut scratch)?;
            let right: Vec<f64> = equations.gradient.iter().zip(&scale).map(|(g, s)| g * s).collect();
            let Ok(solved) = Gaussian::from_natural(&right, &halves) else { return Ok(None) };
            let AnyCovariance::Full(factored) = solved.precision() else { return Ok(None) };
            if factored.factor().iter().step_by(d + 1).any(|pivot| pivot * pivot < LEAST_PIVOT) {
                return Ok(None);
            }
            let steps = solved.mean().iter().zip(&scale);
            equations.centre.iter_mut().zip(steps).for_each(|(c, (step, scale))| *c += step * scale);
        }
        equations.measure(data, &mut scratch)?;
        let finite = equations.centre.iter().chain(&equations.gradient).chain([&equations.rss]).all(|x| x.is_finite());
        Ok(finite.then_some(equations))
    }

    /// Residuals at the centre: their sum of squares, and `X'Ue`.
    fn measure(&mut self, data: &Dataset, scratch: &mut Scratch) -> Result<(), TargetError> {
        let Self { centre, gradient, rss, .. } = self;
        gradient.fill(0.0);
        *rss = 0.0;
        let totals = [&mut gradient[..], std::slice::from_mut(rss)];
        data.sum(Rows::All, None, totals, scratch, |block, [gradient, rss], scratch| {
            let r = block.rows();
            let mut residual = scratch.take_used(r);
            block.predictors(centre, 1, &mut residual);
            rss[0] += weigh_residuals(&mut residual, block.outcome, block.weights);
            product(gradient, true, 1.0, block.x, Transpose::No, &residual, (block.features, r, 1));
            scratch.give(residual);
        })
    }

    /// Residual sum of squares at each of the points and, if requested, `X'U(y - off - Xb)`.
    pub fn at(&self, points: &[f64], rss: &mut [f64], mut slopes: Option<&mut [f64]>, scratch: &mut Scratch) {
        let (d, n) = (self.centre.len(), rss.len());
        let mut delta = scratch.take_used(n * d);
        let mut moved = scratch.take_used(n * d);
        for (delta, point) in delta.chunks_exact_mut(d).zip(points.chunks_exact(d)) {
            delta.iter_mut().zip(point).zip(&self.centre).for_each(|((delta, b), c)| *delta = b - c);
        }
        product(&mut moved, false, 1.0, &self.gram, Transpose::No, &delta, (d, d, n));
        for (i, (delta, moved)) in delta.chunks_exact(d).zip(moved.chunks_exact(d)).enumerate() {
            let change = delta.iter().zip(moved).zip(&self.gradient).map(|((delta, a), g)| delta * (a - 2.0 * g));
            let total = self.rss + change.sum::<f64>();
            // Rounding can make a sum of squares negative: clamped to zero. A NaN stays.
            rss[i] = if total < 0.0 { 0.0 } else { total };
            if let Some(slopes) = &mut slopes {
                let slopes = &mut slopes[i * d..(i + 1) * d];
                slopes.iter_mut().zip(&self.gradient).zip(moved).for_each(|((s, g), a)| *s = g - a);
            }
        }
        scratch.give(delta);
        scratch.give(moved);
    }
}

/// Turns predictors into weighted residuals `u e`; returns `sum u e^2`.
pub(crate) fn weigh_residuals(predictors: &mut [f64], outcome: &[f64], weights: Option<&[f64]>) -> f64 {
    let mut rss = 0.0;
    match weights {
        None => {
            for (eta, y) in predictors.iter_mut().zip(outcome) {
                let residual = y - *eta;
                rss += residual * residual;
                *eta = residual;
            }
        }
        Some(weights) => {
            for ((eta, y), u) in predictors.iter_mut().zip(outcome).zip(weights) {
                let residual = y - *eta;
                rss += u * residual * residual;
                *eta = u * residual;
            }
        }
    }
    rss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::Observations;

    #[test]
    fn residuals_are_those_of_the_rows() {
        let x: Vec<f64> = (0..90).map(|i| (f64::from(i * i) * 1.7).sin()).collect();
        let y: Vec<f64> = (0..30).map(|i| f64::from(i % 7) + 1e4).collect();
        let table = Observations::new(x.clone(), 3, y.clone()).unwrap();
        let equations = NormalEquations::new(&table.into()).unwrap().unwrap();
        let b = [0.3, -2.0, 5.0];
        let (mut rss, mut slopes) = ([0.0], [0.0; 3]);
        equations.at(&b, &mut rss, Some(&mut slopes), &mut Scratch::default());
        let residual = |r: usize| y[r] - (0..3).map(|j| x[3 * r + j] * b[j]).sum::<f64>();
        let direct: f64 = (0..30).map(|r| residual(r).powi(2)).sum();
        assert!((rss[0] / direct - 1.0).abs() < 1e-13, "{} {direct}", rss[0]);
        for (j, slope) in slopes.iter().enumerate() {
            let direct: f64 = (0..30).map(|r| x[3 * r + j] * residual(r)).sum();
            assert!((slope - direct).abs() < 1e-9, "{slope} {direct}");
        }
        assert!(equations.gradient.iter().all(|g| g.abs() < 1e-8));
    }

    #[test]
    fn collinear_and_wide_tables_have_none() {
        let column: Vec<f64> = (0..10).map(f64::from).collect();
        let none = |x: Vec<f64>, features, y| {
            NormalEquations::new(&Observations::new(x, features, y).unwrap().into()).unwrap().is_none()
        };
        assert!(none(column.iter().flat_map(|x| [*x, 2.0 * x]).collect(), 2, column.clone()));
        assert!(none(column.iter().flat_map(|x| [*x, 0.0]).collect(), 2, column.clone()));
        assert!(none(column.iter().flat_map(|x| [1.0, 1e5 + x]).collect(), 2, column.clone()));
        assert!(none(column, 10, vec![1.0]));
    }
}
