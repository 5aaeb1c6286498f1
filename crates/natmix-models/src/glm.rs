//! Generalised linear models: one linear predictor per row, Gaussian priors on the coefficients.
//!
//! With rows `x_r`, predictors `eta_r = x_r' z + offset_r` and row weights `u_r`:
//!
//! ```text
//! log p(z) = sum_j log N(z_j; 0, prior_sd_j^2) + sum_r u_r log lik(y_r | eta_r)
//! ```
//!
//! Points are evaluated together: predictors, gradients and weighted curvature sums are matrix products over blocks of
//! rows, `sum_i w_i hess(z_i) = -X' diag(C) X` with one number `C_r` per row. All links here are canonical, so the
//! Gauss-Newton matrix equals the Hessian; the empirical Fisher is a different curvature.
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::glm::{Glm, Likelihood};
//! let model = Glm::new(Likelihood::Bernoulli, &[1.0, 2.0], 1, vec![1.0, 0.0], &[10.0]).unwrap();
//! let prior = -(10.0 * std::f64::consts::TAU.sqrt()).ln();
//! assert!((log_p_at(&model, &[0.0]).unwrap() - (prior + 2.0 * 0.5f64.ln())).abs() < 1e-12);
//! ```

mod bernoulli;

use crate::observations::{Dataset, Observations, RowBlock};
use crate::prior::{LOG_TAU, Prior, spread, usable_sd};
use crate::row_space::RowSpace;
use bernoulli::Bernoulli;
use natmix::Error;
use natmix::Scratch;
use natmix::autodiff::special::ln_gamma;
use natmix::matrix::{self, Transpose};
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Reduction, Rows, Target, TargetError};
use pulp::Arch;
use std::borrow::Cow;

/// Counts below this take their factorials from a table.
const SMALL_COUNTS: usize = 256;

/// Distribution of an outcome given its predictor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Likelihood {
    /// `y ~ N(eta, sd^2)` with known `sd`.
    Gaussian {
        /// Standard deviation of the noise.
        sd: f64,
    },
    /// `y ~ Bernoulli(1 / (1 + exp(-eta)))`.
    Bernoulli,
    /// `y ~ Poisson(exp(eta))`.
    Poisson,
}

impl Likelihood {
    /// Whether `y` can be an outcome.
    fn allows(self, y: f64) -> bool {
        match self {
            Likelihood::Gaussian { .. } => y.is_finite(),
            Likelihood::Bernoulli => y == 0.0 || y == 1.0,
            Likelihood::Poisson => y >= 0.0 && y.fract() == 0.0,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Likelihood::Gaussian { .. } => "a finite number",
            Likelihood::Bernoulli => "0 or 1",
            Likelihood::Poisson => "a count (0, 1, 2, ...)",
        }
    }
}

/// A generalised linear model with its data.
#[derive(Clone, Debug)]
pub struct Glm {
    likelihood: Likelihood,
    data: Dataset,
    prior: Prior,
    /// `-log k!` of small counts `k`; empty unless outcomes are counts.
    minus_log_factorials: Vec<f64>,
    row_space: RowSpace,
}

impl Glm {
    /// From a design of `dim` columns (row by row), outcomes and the prior's standard deviations: one for all
    /// coefficients, or one per coefficient. A design given as `Vec` is not copied.
    pub fn new<'a>(
        likelihood: Likelihood,
        design: impl Into<Cow<'a, [f64]>>,
        dim: usize,
        outcome: Vec<f64>,
        prior_sd: &[f64],
    ) -> Result<Self, Error> {
        Self::from_data(likelihood, Observations::new(design.into().into_owned(), dim, outcome)?, prior_sd)
    }

    /// From rows in memory, whose outcomes are checked, or from rows that are stored elsewhere.
    pub fn from_data(likelihood: Likelihood, data: impl Into<Dataset>, prior_sd: &[f64]) -> Result<Self, Error> {
        let data = data.into();
        if let Dataset::Memory(table) = &data
            && let Some(row) = table.outcome().iter().position(|y| !likelihood.allows(*y))
        {
            let (y, wanted) = (table.outcome()[row], likelihood.wanted());
            return Err(Error::InvalidInput(format!("outcome: row {row} is {y}, not {wanted}")));
        }
        if let Likelihood::Gaussian { sd } = likelihood
            && !usable_sd(sd)
        {
            let problem = format!("noise sd {sd} is not a positive number with a finite square");
            return Err(Error::InvalidInput(problem));
        }
        let small = if likelihood == Likelihood::Poisson { SMALL_COUNTS } else { 0 };
        Ok(Self {
            likelihood,
            prior: Prior::new(&spread(prior_sd, data.features())?),
            data,
            minus_log_factorials: (0..small).map(|k| -ln_gamma(k as f64 + 1.0)).collect(),
            row_space: RowSpace::default(),
        })
    }

    /// Adds an offset to each linear predictor; a Poisson exposure enters as its logarithm.
    pub fn with_offset(self, offset: Vec<f64>) -> Result<Self, Error> {
        self.change(|table| table.with_offset(offset))
    }

    /// Multiplies each row's log likelihood by its weight.
    pub fn with_weights(self, weights: Vec<f64>) -> Result<Self, Error> {
        self.change(|table| table.with_weights(weights))
    }

    /// Names the coefficients.
    pub fn with_names(self, names: Vec<String>) -> Result<Self, Error> {
        self.change(|table| table.with_names(names))
    }

    fn change(self, change: impl FnOnce(Observations) -> Result<Observations, Error>) -> Result<Self, Error> {
        match self.data {
            Dataset::Memory(table) => Ok(Self { data: change(table)?.into(), row_space: RowSpace::default(), ..self }),
            Dataset::Stored(_) | Dataset::Shared(_) => {
                Err(Error::InvalidInput("rows that are stored elsewhere cannot be changed".into()))
            }
        }
    }

    /// The data.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// Adds a block of rows to all results.
    fn add_block(&self, rows: RowBlock<'_>, z: Points<'_>, scale: f64, out: &mut EvalOut<'_>, scratch: &mut Scratch) {
        let (d, n, r) = (rows.features, z.len(), rows.rows());
        let mut eta = scratch.take_used(r * n);
        let mut curv = scratch.take_used(if out.curv.is_some() { r * n } else { 0 });
        let mut constant = scratch.take_used(if self.likelihood == Likelihood::Poisson { r } else { 0 });
        for (constant, y) in constant.iter_mut().zip(rows.outcome) {
            *constant = match self.minus_log_factorials.get(*y as usize) {
                Some(known) => *known,
                None => -ln_gamma(y + 1.0),
            };
        }
        rows.predictors(z.data(), n, &mut eta);
        // Adds values; replaces eta by the derivative of the log likelihood in eta, and curv by minus the second derivative.
        let fisher = out.curv.as_ref().is_some_and(|curv| curv.kind == Curvature::EmpiricalFisher);
        for i in 0..n {
            let eta = &mut eta[i * r..(i + 1) * r];
            let curv = if out.curv.is_some() { &mut curv[i * r..(i + 1) * r] } else { &mut [][..] };
            out.log_p[i] += scale * self.row_terms(eta, curv, fisher, &rows, &constant);
        }
        if let Some(grad) = &mut out.grad {
            matrix::product(grad, true, scale, rows.x, Transpose::No, &eta, (d, r, n));
        }
        if let Some(CurvatureSums { shape, weights, sums, .. }) = &mut out.curv {
            let mut row_curv = scratch.take_used(r * (weights.len() / n));
            let sets = weights.len() / n;
            matrix::product(&mut row_curv, false, -scale, &curv, Transpose::No, weights, (r, n, sets));
            for (sum, row_curv) in sums.chunks_exact_mut(shape.len(d)).zip(row_curv.chunks_exact(r)) {
                rows.add_gram(sum, *shape, Some(row_curv), scratch);
            }
            scratch.give(row_curv);
        }
        for buffer in [eta, curv, constant] {
            scratch.give(buffer);
        }
    }

    /// Log likelihood of one point over a block of rows. Replaces predictors by slopes; fills curvatures if requested.
    fn row_terms(&self, eta: &mut [f64], curv: &mut [f64], fisher: bool, rows: &RowBlock<'_>, constant: &[f64]) -> f64 {
        let mut value = match self.likelihood {
            Likelihood::Bernoulli => Arch::new().dispatch(Bernoulli(eta, curv, rows)),
            Likelihood::Gaussian { sd } => {
                let (prec, constant) = ((sd * sd).recip(), -sd.ln() - 0.5 * LOG_TAU);
                let mut value = 0.0;
                for (i, (eta, y)) in eta.iter_mut().zip(rows.outcome).enumerate() {
                    let residual = y - *eta;
                    value += rows.weight(i) * (constant - 0.5 * prec * residual * residual);
                    *eta = prec * residual;
                }
                curv.fill(prec);
                value
            }
            Likelihood::Poisson => {
                let mut value = 0.0;
                for (i, (eta, y)) in eta.iter_mut().zip(rows.outcome).enumerate() {
                    let mean = eta.exp();
                    value += rows.weight(i) * (y * *eta - mean + constant[i]);
                    if let Some(curv) = curv.get_mut(i) {
                        *curv = mean;
                    }
                    *eta = y - mean;
                }
                value
            }
        };
        if fisher {
            // Squared per-example gradients: the square of the slope, times x x'.
            curv.iter_mut().zip(eta.iter()).for_each(|(curv, slope)| *curv = slope * slope);
        }
        if let Some(weights) = rows.weights {
            eta.iter_mut().zip(weights).for_each(|(slope, u)| *slope *= u);
            // A row that counts u times has u per-example gradients.
            curv.iter_mut().zip(weights).for_each(|(curv, u)| *curv *= u);
        }
        if value.is_infinite() && value > 0.0 {
            value = f64::NAN;
        }
        value
    }
}

impl Target for Glm {
    fn dim(&self) -> usize {
        self.prior.dim()
    }

    fn is_log_concave(&self) -> bool {
        true
    }

    fn gradient_is_tested(&self) -> bool {
        true
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        use Curvature::{EmpiricalFisher, Exact, GaussNewton};
        &[
            (Exact, CurvatureShape::Full),
            (Exact, CurvatureShape::Diag),
            (GaussNewton, CurvatureShape::Full),
            (GaussNewton, CurvatureShape::Diag),
            (EmpiricalFisher, CurvatureShape::Full),
            (EmpiricalFisher, CurvatureShape::Diag),
        ]
    }

    fn num_rows(&self) -> Option<usize> {
        Some(self.data.rows())
    }

    fn parameter_names(&self) -> Vec<String> {
        self.data.names().to_vec()
    }

    fn reduction(&self) -> Option<&Reduction> {
        let smaller = |table| Self::from_data(self.likelihood, table, &[1.0]);
        self.row_space.reduction(&self.data, (&self.prior.sd(), 1, 0), smaller)
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.prior.with_likelihood(z, out, |out| {
            if z.is_empty() {
                return Ok(());
            }
            let scale = self.data.scale(rows);
            self.data
                .sum_into(rows, z, out, scratch, |block, out, scratch| self.add_block(block, z, scale, out, scratch))
        })
    }
}

#[cfg(test)]
mod tests;
