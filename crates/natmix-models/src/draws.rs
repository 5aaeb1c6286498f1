//! Draws from a posterior times rows of a table: linear predictors and log likelihoods, in blocks of bounded memory.
//!
//! A row's predictors at all draws are one column of `Z X'`; blocks of rows run in parallel, and since a block's size
//! depends only on the number of draws, results have the same bits for any number of threads.
//!
//! ```
//! use natmix_models::{CoefficientDraws, RegressionKind, Inputs};
//! let inputs = Inputs::new(&[1.0, 3.0], 1, None).unwrap();
//! let draws = CoefficientDraws::new(RegressionKind::Poisson, 1, &[0.0, 2f64.ln()]).unwrap();
//! // Counts 0 and 1 at rates exp(z x): row 0 at both draws, then row 1.
//! let log_lik = draws.log_likelihood(inputs, &[0.0, 1.0]).unwrap();
//! assert!((log_lik[0] + 1.0).abs() < 1e-12); // draw 0, row 0: exp(-1)
//! assert!((log_lik[3] - (8f64.ln() - 8.0)).abs() < 1e-12); // draw 1, row 1: 8 exp(-8)
//! ```

use crate::class_scores::average_left_out;
use crate::observations::Observations;
use crate::prior::LOG_TAU;
use crate::regression::RegressionKind;
use natmix::Error;
use natmix::autodiff::special::ln_gamma;
use natmix::matrix::{Transpose, product};
use rayon::prelude::*;

/// Most linear predictors in a block (8 MB), unless a single row has more.
const MOST_PREDICTORS: usize = 1 << 20;
/// Most rows in a block.
const MOST_ROWS: usize = 256;

/// Rows of features, with the known part of their predictors.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub(crate) x: &'a [f64],
    pub(crate) features: usize,
    pub(crate) offset: Option<&'a [f64]>,
}

impl<'a> From<&'a Observations> for Inputs<'a> {
    fn from(table: &'a Observations) -> Self {
        Inputs { x: table.design(), features: table.features(), offset: table.offset() }
    }
}

impl<'a> Inputs<'a> {
    /// From `features` columns, row by row; there may be no rows.
    pub fn new(x: &'a [f64], features: usize, offset: Option<&'a [f64]>) -> Result<Self, Error> {
        if features == 0 || !x.len().is_multiple_of(features) {
            return Err(Error::InvalidInput(format!("{} numbers are not rows of {features} columns", x.len())));
        }
        let rows = x.len() / features;
        if let Some(offset) = offset.filter(|offset| offset.len() != rows) {
            return Err(Error::InvalidInput(format!("{} offsets for {rows} rows", offset.len())));
        }
        Ok(Self { x, features, offset })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.x.len() / self.features
    }
    /// Number of features.
    pub fn features(&self) -> usize {
        self.features
    }
    /// Features of a row.
    pub fn row(&self, row: usize) -> &'a [f64] {
        &self.x[row * self.features..(row + 1) * self.features]
    }
    /// The known part of a row's predictor.
    pub fn offset(&self, row: usize) -> f64 {
        self.offset.map_or(0.0, |offset| offset[row])
    }
    /// Some of the rows: those from `rows.start` to before `rows.end`.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Inputs<'a> {
        Inputs {
            x: &self.x[rows.start * self.features..rows.end * self.features],
            features: self.features,
            offset: self.offset.map(|offset| &offset[rows]),
        }
    }
}

/// Draws from a posterior, arranged for products with rows.
#[derive(Clone, Debug)]
pub struct CoefficientDraws {
    kind: RegressionKind,
    features: usize,
    /// Draw by draw, and class by class within a draw.
    coefficients: Vec<f64>,
    /// The noise of each draw of a linear regression.
    sigma: Vec<f64>,
}

impl CoefficientDraws {
    /// From draws in the space of the fit, in sequence.
    pub fn new(kind: RegressionKind, features: usize, draws: &[f64]) -> Result<Self, Error> {
        let dim = kind.dim(features);
        if draws.is_empty() || dim == 0 || !draws.len().is_multiple_of(dim) {
            let problem = format!("{} numbers are not draws of {dim} coordinates (at least one)", draws.len());
            return Err(Error::InvalidInput(problem));
        }
        let of_draws = draws.chunks_exact(dim);
        let (coefficients, sigma) = match kind {
            RegressionKind::Linear { noise_sd: None } => (
                of_draws.clone().flat_map(|z| &z[..features]).copied().collect(),
                // Positive, so that nothing is divided by zero.
                of_draws.map(|z| z[features].exp().max(f64::MIN_POSITIVE)).collect(),
            ),
            RegressionKind::Linear { noise_sd: Some(sd) } => (draws.to_vec(), vec![sd; draws.len() / dim]),
            _ => (draws.to_vec(), Vec::new()),
        };
        Ok(Self { kind, features, coefficients, sigma })
    }

    /// Number of draws.
    pub fn len(&self) -> usize {
        self.coefficients.len() / (self.features * self.kind.predictors())
    }
    /// Whether there are no draws (there is always at least one).
    pub fn is_empty(&self) -> bool {
        self.coefficients.is_empty()
    }
    /// The model to which they belong.
    pub fn kind(&self) -> RegressionKind {
        self.kind
    }
    /// The noise of each draw of a linear regression; empty for others.
    pub fn sigma(&self) -> &[f64] {
        &self.sigma
    }

    /// Fills `width` results per row: `each(row, predictors at all draws, results)`.
    ///
    /// The predictors may be overwritten. Those of a softmax are stored draw by draw.
    pub(crate) fn for_rows<F>(&self, inputs: Inputs<'_>, width: usize, out: &mut [f64], each: F) -> Result<(), Error>
    where
        F: Fn(usize, &mut [f64], &mut [f64]) + Sync,
    {
        let d = self.features;
        if inputs.features() != d {
            let problem = format!("the table has {} columns, the model {d} features", inputs.features());
            return Err(Error::InvalidInput(problem));
        }
        let columns = self.coefficients.len() / d;
        let block_rows = (MOST_PREDICTORS / columns).clamp(1, MOST_ROWS);
        let x = inputs.x.par_chunks(block_rows * d);
        x.zip(out.par_chunks_mut(block_rows * width)).enumerate().for_each_init(Vec::new, |eta, (block, (x, out))| {
            let rows = x.len() / d;
            eta.resize(columns * rows, 0.0);
            product(eta, false, 1.0, &self.coefficients, Transpose::Yes, x, (columns, d, rows));
            for (at, (eta, out)) in eta.chunks_exact_mut(columns).zip(out.chunks_exact_mut(width)).enumerate() {
                let row = block * block_rows + at;
                if inputs.offset.is_some() {
                    eta.iter_mut().for_each(|eta| *eta += inputs.offset(row));
                }
                each(row, eta, out);
            }
        });
        Ok(())
    }

    /// Log likelihoods of a row with outcome `y`, one per draw, from its predictors.
    pub(crate) fn row_log_likelihood(&self, y: f64, predictors: &[f64], out: &mut [f64]) {
        match self.kind {
            RegressionKind::Logistic => {
                let sign = 2.0 * y - 1.0;
                for (out, eta) in out.iter_mut().zip(predictors) {
                    let x = sign * eta;
                    *out = x.min(0.0) - (-x.abs()).exp().ln_1p();
                }
            }
            RegressionKind::Linear { .. } => {
                for (out, (eta, sigma)) in out.iter_mut().zip(predictors.iter().zip(&self.sigma)) {
                    *out = -sigma.ln() - 0.5 * LOG_TAU - 0.5 * ((y - eta) / sigma).powi(2);
                }
            }
            RegressionKind::Poisson => {
                let constant = ln_gamma(y + 1.0);
                out.iter_mut().zip(predictors).for_each(|(out, eta)| *out = y * eta - eta.exp() - constant);
            }
            RegressionKind::Softmax { classes } => {
                for (out, eta) in out.iter_mut().zip(predictors.chunks_exact(classes - 1)) {
                    let most = eta.iter().fold(0.0_f64, |most, eta| most.max(*eta));
                    let total = (-most).exp() + eta.iter().map(|eta| (eta - most).exp()).sum::<f64>();
                    let own = if y == 0.0 { 0.0 } else { eta[y as usize - 1] };
                    *out = own - most - total.ln();
                }
            }
        }
    }

    /// Class probabilities of every row, each predicted without itself: the number of classes, and one probability for each, row by row.
    /// None for outcomes without classes.
    pub fn left_out_probabilities(
        &self,
        inputs: Inputs<'_>,
        outcome: &[f64],
    ) -> Result<Option<(usize, Vec<f64>)>, Error> {
        let classes = match self.kind {
            RegressionKind::Logistic => 2,
            RegressionKind::Softmax { classes } => classes,
            _ => return Ok(None),
        };
        self.check_outcome(inputs, outcome)?;
        let mut found = vec![0.0; inputs.rows() * classes];
        self.for_rows(inputs, classes, &mut found, |row, predictors, out| {
            let mut of_draws = vec![0.0; classes * self.len()];
            for (eta, p) in predictors.chunks_exact(classes - 1).zip(of_draws.chunks_exact_mut(classes)) {
                let most = eta.iter().fold(0.0_f64, |most, eta| most.max(*eta));
                let total = (-most).exp() + eta.iter().map(|eta| (eta - most).exp()).sum::<f64>();
                p[0] = (-most).exp() / total;
                p[1..].iter_mut().zip(eta).for_each(|(p, eta)| *p = (eta - most).exp() / total);
            }
            average_left_out(&of_draws, outcome[row] as usize, out);
        })?;
        Ok(Some((classes, found)))
    }

    fn check_outcome(&self, inputs: Inputs<'_>, outcome: &[f64]) -> Result<(), Error> {
        if outcome.len() != inputs.rows() {
            return Err(Error::InvalidInput(format!("{} outcomes for {} rows", outcome.len(), inputs.rows())));
        }
        match outcome.iter().position(|y| !self.kind.allows(*y)) {
            Some(row) => {
                let problem = format!("outcome: row {row} is {}, not {}", outcome[row], self.kind.wanted());
                Err(Error::InvalidInput(problem))
            }
            None => Ok(()),
        }
    }

    /// Log likelihood of every row at every draw, each counted once: `result[draw * rows + row]`.
    ///
    /// The result has draws times rows numbers: process a large table in slices ([`Inputs::slice`]).
    pub fn log_likelihood(&self, inputs: Inputs<'_>, outcome: &[f64]) -> Result<Vec<f64>, Error> {
        self.check_outcome(inputs, outcome)?;
        let (rows, draws) = (inputs.rows(), self.len());
        let mut result = vec![0.0; rows * draws];
        let mut by_row = vec![0.0; rows.min(MOST_ROWS) * draws];
        for first in (0..rows).step_by(MOST_ROWS) {
            let last = (first + MOST_ROWS).min(rows);
            let by_row = &mut by_row[..(last - first) * draws];
            self.for_rows(inputs.slice(first..last), draws, by_row, |row, predictors, out| {
                self.row_log_likelihood(outcome[first + row], predictors, out);
            })?;
            for (row, of_row) in by_row.chunks_exact(draws).enumerate() {
                of_row.iter().enumerate().for_each(|(draw, x)| result[draw * rows + first + row] = *x);
            }
        }
        Ok(result)
    }

    /// Log predictive density of every row's outcome, averaged over draws: `log mean_s p(y | z_s)`.
    pub fn log_predictive(&self, inputs: Inputs<'_>, outcome: &[f64]) -> Result<Vec<f64>, Error> {
        self.map_log_likelihood(inputs, outcome, 1, |_, log_lik, out| {
            out[0] = log_sum_exp(log_lik) - (log_lik.len() as f64).ln();
        })
    }

    /// Computes `width` numbers per row from its log likelihoods: `each(row, log likelihoods, results)`.
    pub(crate) fn map_log_likelihood<F>(
        &self,
        inputs: Inputs<'_>,
        outcome: &[f64],
        width: usize,
        each: F,
    ) -> Result<Vec<f64>, Error>
    where
        F: Fn(usize, &[f64], &mut [f64]) + Sync,
    {
        self.check_outcome(inputs, outcome)?;
        let mut result = vec![0.0; inputs.rows() * width];
        self.for_rows(inputs, width, &mut result, |row, predictors, out| {
            let mut log_lik = vec![0.0; self.len()];
            self.row_log_likelihood(outcome[row], predictors, &mut log_lik);
            each(row, &log_lik, out);
        })?;
        Ok(result)
    }
}

/// `log sum exp`; minus infinity for an empty sum.
pub(crate) fn log_sum_exp(x: &[f64]) -> f64 {
    let most = x.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x));
    if most == f64::NEG_INFINITY {
        // Also if all terms are NaN.
        return if x.iter().any(|x| x.is_nan()) { f64::NAN } else { most };
    }
    most + x.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_change_nothing() {
        let (rows, features, draws) = (700, 3, 40);
        let x: Vec<f64> = (0..rows * features).map(|i| (i as f64 * 0.7).sin()).collect();
        let z: Vec<f64> = (0..draws * features).map(|i| (i as f64 * 1.3).cos()).collect();
        let offset: Vec<f64> = (0..rows).map(|r| 0.01 * r as f64).collect();
        let y: Vec<f64> = (0..rows).map(|r| (r % 2) as f64).collect();
        let inputs = Inputs::new(&x, features, Some(&offset)).unwrap();
        let model = CoefficientDraws::new(RegressionKind::Logistic, features, &z).unwrap();
        let all = model.log_likelihood(inputs, &y).unwrap();
        for (row, draw) in [(0, 0), (255, 39), (256, 0), (699, 17)] {
            let eta: f64 = (0..features).map(|j| x[row * features + j] * z[draw * features + j]).sum::<f64>();
            let direct = -(1.0 + (-(2.0 * y[row] - 1.0) * (eta + offset[row])).exp()).ln();
            assert!((all[draw * rows + row] - direct).abs() < 1e-12);
        }
        let averaged = model.log_predictive(inputs, &y).unwrap();
        let direct: f64 = (0..draws).map(|s| all[s * rows + 5].exp()).sum::<f64>() / draws as f64;
        assert!((averaged[5] - direct.ln()).abs() < 1e-12);
        let slice = model.log_predictive(inputs.slice(5..7), &y[5..7]).unwrap();
        assert!((slice[0] - averaged[5]).abs() < 1e-12);
    }

    #[test]
    fn rows_are_predicted_without_themselves() {
        // Probabilities 1/2 and 3/4 of the outcome 1: weights 2 and 4/3.
        let draws = CoefficientDraws::new(RegressionKind::Logistic, 1, &[0.0, 3f64.ln()]).unwrap();
        let inputs = Inputs::new(&[1.0], 1, None).unwrap();
        let (classes, p) = draws.left_out_probabilities(inputs, &[1.0]).unwrap().unwrap();
        assert_eq!(classes, 2);
        assert!((p[1] - 2.0 / (2.0 + 4.0 / 3.0)).abs() < 1e-14 && (p[0] + p[1] - 1.0).abs() < 1e-14);
        let classes =
            CoefficientDraws::new(RegressionKind::Softmax { classes: 3 }, 1, &[2f64.ln(), 3f64.ln()]).unwrap();
        let (_, p) = classes.left_out_probabilities(inputs, &[2.0]).unwrap().unwrap();
        assert!(p.iter().zip([1.0, 2.0, 3.0]).all(|(p, sixths)| (p - sixths / 6.0).abs() < 1e-14));
        let counts = CoefficientDraws::new(RegressionKind::Poisson, 1, &[0.0]).unwrap();
        assert_eq!(counts.left_out_probabilities(inputs, &[2.0]).unwrap(), None);
    }

    #[test]
    fn bad_shapes_are_errors() {
        assert!(Inputs::new(&[1.0, 2.0, 3.0], 2, None).is_err());
        assert!(Inputs::new(&[1.0, 2.0], 1, Some(&[1.0])).is_err());
        assert!(CoefficientDraws::new(RegressionKind::Logistic, 2, &[]).is_err());
        assert!(CoefficientDraws::new(RegressionKind::Linear { noise_sd: None }, 2, &[1.0, 2.0]).is_err());
        let draws = CoefficientDraws::new(RegressionKind::Poisson, 1, &[1.0]).unwrap();
        let message = |result: Result<Vec<f64>, Error>| result.unwrap_err().to_string();
        let inputs = Inputs::new(&[1.0, 2.0], 1, None).unwrap();
        assert!(message(draws.log_predictive(inputs, &[1.0])).contains("1 outcomes for 2 rows"));
        assert!(message(draws.log_predictive(inputs, &[1.0, -1.0])).contains("row 1 is -1"));
        let wide = Inputs::new(&[1.0, 2.0], 2, None).unwrap();
        assert!(message(draws.log_predictive(wide, &[1.0])).contains("2 columns"));
        assert_eq!(draws.log_predictive(Inputs::new(&[], 1, None).unwrap(), &[]).unwrap(), [0.0; 0]);
    }
}
