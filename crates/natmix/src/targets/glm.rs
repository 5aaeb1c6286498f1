//! Generalised linear models: one linear predictor a row, Gaussian priors on the coefficients.
//!
//! With rows `x_r`, predictors `eta_r = x_r' z + offset_r` and row weights `u_r`:
//!
//! ```text
//! log p(z) = sum_j log N(z_j; 0, prior_sd_j^2) + sum_r u_r log lik(y_r | eta_r)
//! ```
//!
//! Points are evaluated together: predictors, gradients and weighted curvature sums are matrix products over blocks of
//! rows, `sum_i w_i hess(z_i) = -X' diag(C) X` with one number `C_r` a row. All likelihoods here are canonical, so the
//! Gauss-Newton matrix is the Hessian; the empirical Fisher is another curvature, and named apart.
//!
//! ```
//! use natmix::targets::{log_p_at, Glm, Likelihood};
//! let model = Glm::new(Likelihood::Bernoulli, &[1.0, 2.0], 1, vec![1.0, 0.0], &[10.0]).unwrap();
//! let prior = -(10.0 * std::f64::consts::TAU.sqrt()).ln();
//! assert!((log_p_at(&model, &[0.0]).unwrap() - (prior + 2.0 * 0.5f64.ln())).abs() < 1e-12);
//! ```

use crate::autodiff::special::ln_gamma;
use crate::error::Error;
use crate::family::LOG_TAU;
use crate::linalg::{self, Transpose};
use crate::target::{Curvature, EvalOut, Points, Rows, Shape, Target, TargetError};
use crate::workspace::Scratch;
use pulp::{Arch, Simd, WithSimd};
use std::borrow::Cow;

/// Rows of a block: its predictors for a chunk of points stay in the cache.
const BLOCK: usize = 256;
/// Factors `1 + exp(-|eta|) <= 2` that are multiplied before one logarithm is taken.
const PRODUCT: usize = 64;

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

/// A generalised linear model with its data.
#[derive(Clone, Debug)]
pub struct Glm {
    likelihood: Likelihood,
    /// Row after row.
    design: Vec<f64>,
    outcome: Vec<f64>,
    offset: Option<Vec<f64>>,
    weights: Option<Vec<f64>>,
    prior_prec: Vec<f64>,
    prior_constant: f64,
    /// Part of each row's log likelihood that does not depend on the predictor.
    row_constant: Vec<f64>,
    names: Vec<String>,
}

impl Glm {
    /// From a design of `dim` columns (row after row), outcomes and the prior's standard deviations: one for all
    /// coefficients, or one for each. A design given as `Vec` is kept without a copy.
    pub fn new<'a>(
        likelihood: Likelihood,
        design: impl Into<Cow<'a, [f64]>>,
        dim: usize,
        outcome: Vec<f64>,
        prior_sd: &[f64],
    ) -> Result<Self, Error> {
        let invalid = |problem: String| Err(Error::InvalidInput(problem));
        let design = design.into();
        if dim == 0 || outcome.is_empty() || design.len() != outcome.len() * dim {
            return invalid(format!(
                "a design of {} numbers is not {} rows of {dim} columns (at least one each)",
                design.len(),
                outcome.len()
            ));
        }
        if let Some(at) = design.iter().position(|x| !x.is_finite()) {
            return invalid(format!("design: row {}, column {} is {}", at / dim, at % dim, design[at]));
        }
        for (row, y) in outcome.iter().enumerate() {
            let fits = match likelihood {
                Likelihood::Gaussian { .. } => y.is_finite(),
                Likelihood::Bernoulli => *y == 0.0 || *y == 1.0,
                Likelihood::Poisson => *y >= 0.0 && y.fract() == 0.0,
            };
            if !fits {
                let wanted = match likelihood {
                    Likelihood::Gaussian { .. } => "a finite number",
                    Likelihood::Bernoulli => "0 or 1",
                    Likelihood::Poisson => "a count (0, 1, 2, ...)",
                };
                return invalid(format!("outcome: row {row} is {y}, not {wanted}"));
            }
        }
        // A square that over- or underflows is no variance.
        let usable = |sd: f64| sd > 0.0 && (sd * sd).is_normal() && (sd * sd).recip().is_normal();
        if let Likelihood::Gaussian { sd } = likelihood
            && !usable(sd)
        {
            return invalid(format!("noise sd {sd} is not a positive number with a finite square"));
        }
        let prior_sd = if prior_sd.len() == 1 { vec![prior_sd[0]; dim] } else { prior_sd.to_vec() };
        if prior_sd.len() != dim || prior_sd.iter().any(|sd| !usable(*sd)) {
            return invalid(format!("prior sd needs 1 or {dim} positive numbers with finite squares"));
        }
        let row_constant = outcome.iter().map(|y| match likelihood {
            Likelihood::Gaussian { sd } => -sd.ln() - 0.5 * LOG_TAU,
            Likelihood::Bernoulli => 0.0,
            Likelihood::Poisson => -ln_gamma(y + 1.0),
        });
        Ok(Self {
            likelihood,
            design: design.into_owned(),
            offset: None,
            weights: None,
            prior_constant: prior_sd.iter().map(|sd| -sd.ln() - 0.5 * LOG_TAU).sum(),
            prior_prec: prior_sd.iter().map(|sd| (sd * sd).recip()).collect(),
            row_constant: row_constant.collect(),
            names: (0..dim).map(|j| format!("x{j}")).collect(),
            outcome,
        })
    }

    /// Adds a known part to each predictor; a Poisson exposure enters as its logarithm.
    pub fn with_offset(mut self, offset: Vec<f64>) -> Result<Self, Error> {
        if offset.len() != self.outcome.len() || offset.iter().any(|x| !x.is_finite()) {
            return Err(Error::InvalidInput(format!("offset needs {} finite numbers", self.outcome.len())));
        }
        self.offset = Some(offset);
        Ok(self)
    }

    /// Counts each row's likelihood as often as its weight says.
    pub fn with_weights(mut self, weights: Vec<f64>) -> Result<Self, Error> {
        if weights.len() != self.outcome.len() || weights.iter().any(|x| !(*x >= 0.0 && x.is_finite())) {
            let problem = format!("row weights: {} finite numbers of at least 0 are needed", self.outcome.len());
            return Err(Error::InvalidInput(problem));
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// Names the coefficients.
    pub fn with_names(mut self, names: Vec<String>) -> Result<Self, Error> {
        if names.len() != self.names.len() {
            let problem = format!("{} names for {} coefficients", names.len(), self.names.len());
            return Err(Error::InvalidInput(problem));
        }
        self.names = names;
        Ok(self)
    }

    /// The design, row after row.
    pub fn design(&self) -> &[f64] {
        &self.design
    }

    /// The outcomes.
    pub fn outcome(&self) -> &[f64] {
        &self.outcome
    }

    /// The known part of each predictor.
    pub fn offset(&self) -> Option<&[f64]> {
        self.offset.as_deref()
    }

    /// How often each row counts.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    fn dim_of(&self) -> usize {
        self.prior_prec.len()
    }

    /// Adds a block of rows to all results. `x` holds the rows, `rows` the numbers that go with them.
    fn add_block(
        &self,
        x: &[f64],
        rows: &RowData<'_>,
        z: Points<'_>,
        scale: f64,
        sums: &mut Sums<'_, '_>,
        scratch: &mut Scratch,
    ) {
        let (d, n, r) = (self.dim_of(), z.len(), rows.outcome.len());
        let mut eta = scratch.take_used(r * n);
        let mut curv = scratch.take_used(if sums.curv.is_some() { r * n } else { 0 });
        linalg::product(&mut eta, false, 1.0, x, Transpose::Yes, z.data(), (r, d, n));
        if let Some(offset) = rows.offset {
            for eta in eta.chunks_exact_mut(r) {
                eta.iter_mut().zip(offset).for_each(|(eta, offset)| *eta += offset);
            }
        }
        // Values; eta becomes the derivative of the log likelihood in eta, curv minus its second derivative.
        let fisher = sums.curv.as_ref().is_some_and(|curv| curv.kind == Curvature::EmpiricalFisher);
        for i in 0..n {
            let eta = &mut eta[i * r..(i + 1) * r];
            let curv = if sums.curv.is_some() { &mut curv[i * r..(i + 1) * r] } else { &mut [][..] };
            sums.log_p[i] += scale * self.row_terms(eta, curv, fisher, rows);
        }
        if let Some(grad) = &mut sums.grad {
            linalg::product(grad, true, scale, x, Transpose::No, &eta, (d, r, n));
        }
        if let Some(request) = &mut sums.curv {
            let sets = request.weights.len() / n;
            let mut row_curv = scratch.take_used(r * sets);
            linalg::product(&mut row_curv, false, scale, &curv, Transpose::No, request.weights, (r, n, sets));
            let mut scaled = scratch.take_used(if request.shape == Shape::Full { d * r } else { 0 });
            let parts = request.sums.chunks_exact_mut(request.shape.len(d)).zip(row_curv.chunks_exact(r));
            for (sum, row_curv) in parts {
                match request.shape {
                    Shape::Diag => {
                        for (x, c) in x.chunks_exact(d).zip(row_curv) {
                            sum.iter_mut().zip(x).for_each(|(sum, x)| *sum -= c * x * x);
                        }
                    }
                    Shape::Full => {
                        for ((scaled, x), c) in scaled.chunks_exact_mut(d).zip(x.chunks_exact(d)).zip(row_curv) {
                            scaled.iter_mut().zip(x).for_each(|(s, x)| *s = c * x);
                        }
                        linalg::product_bt(sum, true, -1.0, &scaled, x, (d, r, d));
                    }
                }
            }
            scratch.give(row_curv);
            scratch.give(scaled);
        }
        scratch.give(eta);
        scratch.give(curv);
    }

    /// Log likelihood of one point over a block of rows. Replaces predictors by slopes; fills curvatures if wanted.
    fn row_terms(&self, eta: &mut [f64], curv: &mut [f64], fisher: bool, rows: &RowData<'_>) -> f64 {
        let mut value = match self.likelihood {
            Likelihood::Bernoulli => Arch::new().dispatch(Bernoulli(eta, curv, rows)),
            Likelihood::Gaussian { sd } => {
                let prec = (sd * sd).recip();
                let mut value = 0.0;
                for (i, (eta, y)) in eta.iter_mut().zip(rows.outcome).enumerate() {
                    let residual = y - *eta;
                    value += rows.weight(i) * (rows.constant[i] - 0.5 * prec * residual * residual);
                    *eta = prec * residual;
                }
                curv.fill(prec);
                value
            }
            Likelihood::Poisson => {
                let mut value = 0.0;
                for (i, (eta, y)) in eta.iter_mut().zip(rows.outcome).enumerate() {
                    let mean = eta.exp();
                    value += rows.weight(i) * (y * *eta - mean + rows.constant[i]);
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

/// Numbers of a block's rows.
struct RowData<'a> {
    outcome: &'a [f64],
    offset: Option<&'a [f64]>,
    weights: Option<&'a [f64]>,
    constant: &'a [f64],
}

impl RowData<'_> {
    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row])
    }
}

/// Where results add up.
struct Sums<'a, 'b> {
    log_p: &'a mut [f64],
    grad: Option<&'a mut [f64]>,
    curv: Option<&'a mut crate::target::CurvatureSums<'b>>,
}

/// [`bernoulli`] compiled for the widest vectors at hand.
struct Bernoulli<'a, 'b>(&'a mut [f64], &'a mut [f64], &'a RowData<'b>);

impl WithSimd for Bernoulli<'_, '_> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        bernoulli(self.0, self.1, self.2)
    }
}

/// `sum_r u_r (y eta - log(1 + exp eta))`, slopes `y - sigmoid(eta)` and curvatures `sigmoid (1 - sigmoid)`.
#[inline(always)]
fn bernoulli(eta: &mut [f64], curv: &mut [f64], rows: &RowData<'_>) -> f64 {
    let mut value = 0.0;
    let mut small = [0.0; PRODUCT];
    for (block, eta) in eta.chunks_mut(PRODUCT).enumerate() {
        let first = block * PRODUCT;
        let y = &rows.outcome[first..first + eta.len()];
        let small = &mut small[..eta.len()];
        for (t, eta) in small.iter_mut().zip(eta.iter()) {
            *t = exp_of_negative(-eta.abs());
        }
        match rows.weights {
            None => {
                // One logarithm for many rows: the product of numbers in [1, 2] cannot overflow.
                let (mut linear, mut product) = (0.0, [1.0; 8]);
                for (at, ((t, eta), y)) in small.iter().zip(eta.iter()).zip(y).enumerate() {
                    linear += y * eta - eta.max(0.0);
                    product[at % 8] *= 1.0 + t;
                }
                value += linear - product.iter().product::<f64>().ln();
            }
            Some(weights) => {
                for (((t, eta), y), u) in small.iter().zip(eta.iter()).zip(y).zip(&weights[first..]) {
                    value += u * (y * eta - eta.max(0.0) - t.ln_1p());
                }
            }
        }
        if let Some(curv) = curv.get_mut(first..first + eta.len()) {
            for (curv, t) in curv.iter_mut().zip(small.iter()) {
                *curv = t / ((1.0 + t) * (1.0 + t));
            }
        }
        for ((eta, t), y) in eta.iter_mut().zip(small.iter()).zip(y) {
            let sigmoid = (if *eta >= 0.0 { 1.0 } else { *t }) / (1.0 + t);
            *eta = y - sigmoid;
        }
    }
    value
}

/// `exp(x)` for `x <= 0`, without branches so that loops over it become vector code. Within 2 ulp; zero below -708.
#[inline(always)]
fn exp_of_negative(x: f64) -> f64 {
    // Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let clamped = x.max(-708.0);
    let shifted = clamped * std::f64::consts::LOG2_E + MAGIC;
    let k = shifted - MAGIC;
    let r = (clamped - k * LN2_HIGH) - k * LN2_LOW;
    let mut p = 1.0 / 6_227_020_800.0;
    for factorial in
        [479_001_600.0, 39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0]
    {
        p = p * r + 1.0 / factorial;
    }
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0_f64.to_bits()));
    // A NaN comes out as a number here; the value, which holds the predictor itself, stays NaN.
    if x < -708.0 { 0.0 } else { p * power }
}

impl Target for Glm {
    fn dim(&self) -> usize {
        self.dim_of()
    }

    fn is_log_concave(&self) -> bool {
        true
    }

    fn curvatures(&self) -> &[(Curvature, Shape)] {
        use Curvature::{EmpiricalFisher, Exact, GaussNewton};
        &[
            (Exact, Shape::Full),
            (Exact, Shape::Diag),
            (GaussNewton, Shape::Full),
            (GaussNewton, Shape::Diag),
            (EmpiricalFisher, Shape::Full),
            (EmpiricalFisher, Shape::Diag),
        ]
    }

    fn num_rows(&self) -> Option<usize> {
        Some(self.outcome.len())
    }

    fn parameter_names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let (d, n) = (self.dim_of(), z.len());
        let EvalOut { log_p, mut grad, mut curv } = out;
        if n == 0 {
            if let Some(curv) = curv {
                curv.sums.fill(0.0);
            }
            return Ok(());
        }
        // The prior, which no minibatch rescales.
        for (i, z) in z.iter().enumerate() {
            let quad: f64 = z.iter().zip(&self.prior_prec).map(|(z, prec)| prec * z * z).sum();
            log_p[i] = self.prior_constant - 0.5 * quad;
        }
        if let Some(grad) = &mut grad {
            for (grad, z) in grad.chunks_exact_mut(d).zip(z.iter()) {
                for ((g, z), prec) in grad.iter_mut().zip(z).zip(&self.prior_prec) {
                    *g = -prec * z;
                }
            }
        }
        if let Some(curv) = &mut curv {
            curv.sums.fill(0.0);
            let step = if curv.shape == Shape::Full { d + 1 } else { 1 };
            let len = curv.shape.len(d);
            for (sum, weights) in curv.sums.chunks_exact_mut(len).zip(curv.weights.chunks_exact(n)) {
                let total: f64 = weights.iter().sum();
                sum.iter_mut().step_by(step).zip(&self.prior_prec).for_each(|(s, prec)| *s = -prec * total);
            }
        }
        let mut sums = Sums { log_p, grad, curv: curv.as_mut() };
        match rows {
            Rows::All => {
                for first in (0..self.outcome.len()).step_by(BLOCK) {
                    let last = (first + BLOCK).min(self.outcome.len());
                    let data = RowData {
                        outcome: &self.outcome[first..last],
                        offset: self.offset.as_ref().map(|x| &x[first..last]),
                        weights: self.weights.as_ref().map(|x| &x[first..last]),
                        constant: &self.row_constant[first..last],
                    };
                    self.add_block(&self.design[first * d..last * d], &data, z, 1.0, &mut sums, scratch);
                }
            }
            Rows::Subset(subset) => {
                let scale = self.outcome.len() as f64 / subset.len() as f64;
                let mut gathered = scratch.take_used(BLOCK * (d + 4));
                for subset in subset.chunks(BLOCK) {
                    let r = subset.len();
                    let (x, rest) = gathered.split_at_mut(BLOCK * d);
                    let (outcome, rest) = rest.split_at_mut(BLOCK);
                    let (offset, rest) = rest.split_at_mut(BLOCK);
                    let (weights, constant) = rest.split_at_mut(BLOCK);
                    for (at, &row) in subset.iter().enumerate() {
                        let row = row as usize;
                        x[at * d..(at + 1) * d].copy_from_slice(&self.design[row * d..(row + 1) * d]);
                        outcome[at] = self.outcome[row];
                        offset[at] = self.offset.as_ref().map_or(0.0, |x| x[row]);
                        weights[at] = self.weights.as_ref().map_or(1.0, |x| x[row]);
                        constant[at] = self.row_constant[row];
                    }
                    let data = RowData {
                        outcome: &outcome[..r],
                        offset: self.offset.is_some().then_some(&offset[..r]),
                        weights: self.weights.is_some().then_some(&weights[..r]),
                        constant: &constant[..r],
                    };
                    self.add_block(&x[..r * d], &data, z, scale, &mut sums, scratch);
                }
                scratch.give(gathered);
            }
        }
        if let Some(curv) = sums.curv.filter(|curv| curv.shape == Shape::Full) {
            curv.sums.chunks_exact_mut(d * d).for_each(|sum| linalg::symmetrise(sum, d));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
