//! Linear regression with Gaussian noise of known or unknown standard deviation.
//!
//! With rows `x_r`, row weights `u_r` and the noise `sigma = e^s`, `s` being the last coordinate where it is unknown:
//!
//! ```text
//! log p(b, s) = sum_j log N(b_j; 0, prior_sd_j^2) + log HalfCauchy(e^s; 5) + s
//!             + sum_r u_r log N(y_r; x_r'b + offset_r, e^2s)
//! ```
//!
//! the `s` alone being the Jacobian. Everything but the empirical Fisher follows from three sums, `RSS = sum u e^2`,
//! `X'Ue` and `X'UX`: over all rows they come from the normal equations, in time independent of the number
//! of rows. Second derivatives of the likelihood, with `prec = e^-2s`:
//!
//! | | b, b | b, s | s, s |
//! |---|---|---|---|
//! | exact | `-prec X'UX` | `-2 prec X'Ue` | `-2 prec RSS` |
//! | Gauss-Newton (the expected one) | `-prec X'UX` | 0 | `-2 sum u` |
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::{Linear, Observations};
//! let model = Linear::new(Observations::new(vec![1.0], 1, vec![2.0]).unwrap(), &[1.0], None).unwrap();
//! let tau = std::f64::consts::TAU;
//! let half_cauchy = (2.0 / (5.0 * std::f64::consts::PI * (1.0 + 1.0 / 25.0))).ln();
//! let expected = -0.5 * tau.ln() + half_cauchy - 0.5 * tau.ln() - 2.0; // b = 0, sigma = 1
//! assert!((log_p_at(&model, &[0.0, 0.0]).unwrap() - expected).abs() < 1e-12);
//! ```

use crate::normal_equations::{NormalEquations, weigh_residuals};
use crate::observations::{ALL_CURVATURES, Dataset, RowBlock};
use crate::prior::{LOG_TAU, Prior, spread, usable_sd};
use crate::ranks::Request;
use crate::row_space::RowSpace;
use natmix::matrix::{Transpose, product, symmetrise};
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Reduction, Rows, Target, TargetError};
use natmix::{Error, Scratch};

/// Scale of the half-Cauchy prior of the noise.
pub const NOISE_SCALE: f64 = 5.0;

/// A linear regression with its data.
#[derive(Clone, Debug)]
pub struct Linear {
    data: Dataset,
    prior: Prior,
    noise_sd: Option<f64>,
    equations: Option<NormalEquations>,
    row_space: RowSpace,
}

impl Linear {
    /// From data, prior standard deviations of the coefficients (one for all, or one per coefficient) and that of the noise, if known.
    pub fn new(data: impl Into<Dataset>, prior_sd: &[f64], noise_sd: Option<f64>) -> Result<Self, Error> {
        let data = data.into();
        let prior = Prior::new(&spread(prior_sd, data.features())?);
        if let Some(sd) = noise_sd.filter(|sd| !usable_sd(*sd)) {
            let problem = format!("noise sd {sd} is not a positive number with a finite square");
            return Err(Error::InvalidInput(problem));
        }
        Ok(Self { equations: NormalEquations::new(&data)?, data, prior, noise_sd, row_space: RowSpace::default() })
    }

    /// The data.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// Whether precomputed sums over all rows are available.
    pub(crate) fn has_equations(&self) -> bool {
        self.equations.is_some()
    }

    /// The noise's standard deviation, if it is known.
    pub fn noise_sd(&self) -> Option<f64> {
        self.noise_sd
    }

    /// Splits points into coefficients and noise.
    fn split(&self, z: Points<'_>, scratch: &mut Scratch) -> Split {
        let (d, n) = (self.data.features(), z.len());
        let (mut coefficients, mut log_sd) = (scratch.take_used(n * d), scratch.take_used(n));
        let mut prec = scratch.take_used(n);
        for (i, z) in z.iter().enumerate() {
            coefficients[i * d..(i + 1) * d].copy_from_slice(&z[..d]);
            log_sd[i] = self.noise_sd.map_or_else(|| z[d], f64::ln);
            prec[i] = (-2.0 * log_sd[i]).exp();
        }
        Split { coefficients, log_sd, prec }
    }

    /// Sums over rows at all points. An empirical Fisher is added to its request directly.
    fn sums(
        &self,
        rows: Rows<'_>,
        (z, points): (Points<'_>, &Split),
        (want_gradient, want_slopes): (bool, bool),
        curv: Option<&mut CurvatureSums<'_>>,
        scratch: &mut Scratch,
    ) -> Result<Sums, TargetError> {
        let (d, n) = (self.data.features(), points.prec.len());
        let (mut gram_shape, mut fisher) = (None, None);
        let about = curv.as_ref().map(|curv| (curv.kind, curv.shape, curv.weights));
        let request = Request { points: z, gradient: want_gradient, curvature: about };
        match curv {
            Some(CurvatureSums { kind: Curvature::EmpiricalFisher, shape, weights, sums }) => {
                let unknown = self.noise_sd.is_none();
                fisher = Some((Fisher { shape: *shape, weights, scale: self.data.scale(rows), unknown }, &mut **sums));
            }
            curv => gram_shape = curv.map(|curv| curv.shape),
        }
        let mut sums = Sums {
            rss: scratch.take(n),
            slopes: scratch.take(if want_slopes { n * d } else { 0 }),
            gram: scratch.take(gram_shape.map_or(0, |shape| shape.len(d))),
            total_weight: 0.0,
        };
        let (fisher, squares) = fisher.unzip();
        match &self.equations {
            Some(equations) if matches!(rows, Rows::All) && fisher.is_none() => {
                let slopes = want_slopes.then_some(&mut sums.slopes[..]);
                equations.at(&points.coefficients, &mut sums.rss, slopes, scratch);
                let step = if gram_shape == Some(CurvatureShape::Diag) { d + 1 } else { 1 };
                sums.gram.iter_mut().zip(equations.gram.iter().step_by(step)).for_each(|(mine, a)| *mine = *a);
                sums.total_weight = equations.total_weight;
            }
            _ => {
                let Sums { rss, slopes, gram, total_weight } = &mut sums;
                let totals = [
                    &mut rss[..],
                    &mut slopes[..],
                    &mut gram[..],
                    std::slice::from_mut(total_weight),
                    squares.unwrap_or_default(),
                ];
                let add = |block: RowBlock<'_>, totals: [&mut [f64]; 5], scratch: &mut Scratch| {
                    let [rss, slopes, gram, total_weight, squares] = totals;
                    let r = block.rows();
                    total_weight[0] += block.total_weight();
                    if let Some(shape) = gram_shape {
                        block.add_gram(gram, shape, block.weights, scratch);
                    }
                    let mut residuals = scratch.take_used(r * n);
                    block.predictors(&points.coefficients, n, &mut residuals);
                    if let Some(fisher) = &fisher {
                        fisher.add(block, &residuals, &points.prec, squares, scratch);
                    }
                    for (rss, residuals) in rss.iter_mut().zip(residuals.chunks_exact_mut(r)) {
                        *rss += weigh_residuals(residuals, block.outcome, block.weights);
                    }
                    if want_slopes {
                        product(slopes, true, 1.0, block.x, Transpose::No, &residuals, (d, r, n));
                    }
                    scratch.give(residuals);
                };
                self.data.sum(rows, Some(request), totals, scratch, add)?;
            }
        }
        Ok(sums)
    }
}

/// Points split into coefficients and noise.
struct Split {
    coefficients: Vec<f64>,
    log_sd: Vec<f64>,
    prec: Vec<f64>,
}

/// Sums over rows; those not requested are empty.
struct Sums {
    /// `sum u e^2` of each point.
    rss: Vec<f64>,
    /// `X'Ue`, point by point.
    slopes: Vec<f64>,
    /// `X'UX` or its diagonal.
    gram: Vec<f64>,
    total_weight: f64,
}

/// Sums of squared per-example gradients `(a x, b)`, with `a = prec e` and `b = prec e^2 - 1`.
struct Fisher<'a> {
    shape: CurvatureShape,
    weights: &'a [f64],
    scale: f64,
    unknown: bool,
}

impl Fisher<'_> {
    fn add(&self, block: RowBlock<'_>, predictors: &[f64], prec: &[f64], sums: &mut [f64], scratch: &mut Scratch) {
        let (d, n, r) = (block.features, prec.len(), block.rows());
        let Fisher { shape, weights, .. } = self;
        let dim = d + usize::from(self.unknown);
        let sets = weights.len() / n;
        // Per row and set of weights: sums of u a^2, u a b and u b^2.
        let mut coefficients = scratch.take_used(3 * r * sets);
        let mut terms = scratch.take_used(r * n);
        for (power, coefficients) in coefficients.chunks_exact_mut(r * sets).enumerate() {
            for (i, (terms, predictors)) in terms.chunks_exact_mut(r).zip(predictors.chunks_exact(r)).enumerate() {
                for (row, (term, eta)) in terms.iter_mut().zip(predictors).enumerate() {
                    let residual = block.outcome[row] - eta;
                    let (a, b) = (prec[i] * residual, prec[i] * residual * residual - 1.0);
                    *term = block.weight(row) * [a * a, a * b, b * b][power];
                }
            }
            product(coefficients, false, self.scale, &terms, Transpose::No, weights, (r, n, sets));
        }
        let (squares, rest) = coefficients.split_at(r * sets);
        let (crossed, noise) = rest.split_at(r * sets);
        let mut gram = scratch.take_used(shape.len(d));
        let mut slope = scratch.take_used(d);
        for (set, sum) in sums.chunks_exact_mut(shape.len(dim)).enumerate() {
            let of_set = set * r..(set + 1) * r;
            gram.fill(0.0);
            block.add_gram(&mut gram, *shape, Some(&squares[of_set.clone()]), scratch);
            subtract_coefficients(sum, *shape, d, &gram, 1.0);
            if self.unknown {
                product(&mut slope, false, 1.0, block.x, Transpose::No, &crossed[of_set.clone()], (d, r, 1));
                subtract_noise(sum, *shape, d, &slope, 1.0, noise[of_set].iter().sum());
            }
        }
        for buffer in [coefficients, terms, gram, slope] {
            scratch.give(buffer);
        }
    }
}

/// Subtracts `factor * gram` from the part of `sum` that belongs to the first `d` coordinates.
fn subtract_coefficients(sum: &mut [f64], shape: CurvatureShape, d: usize, gram: &[f64], factor: f64) {
    let stride = match shape {
        CurvatureShape::Diag => sum.len(),
        CurvatureShape::Full => sum.len().isqrt(),
    };
    for (sum, gram) in sum.chunks_exact_mut(stride).zip(gram.chunks_exact(d)) {
        sum.iter_mut().zip(gram).for_each(|(s, g)| *s -= factor * g);
    }
}

/// Subtracts from `sum` the entries of the log noise, the coordinate after the `d` coefficients, with them and with itself.
fn subtract_noise(sum: &mut [f64], shape: CurvatureShape, d: usize, crossed: &[f64], factor: f64, own: f64) {
    if shape == CurvatureShape::Full {
        for (j, x) in crossed.iter().enumerate() {
            sum[j * (d + 1) + d] -= factor * x;
            sum[d * (d + 1) + j] -= factor * x;
        }
    }
    sum[shape.len(d + 1) - 1] -= own;
}

/// Logarithm of the half-Cauchy density of `e^s` with its Jacobian, and its first two derivatives in `s`.
pub fn noise_prior(s: f64) -> (f64, f64, f64) {
    let x = 2.0 * (s - NOISE_SCALE.ln());
    let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
    // The share t / (1 + t) of t = (sigma / scale)^2.
    let share = (x - softplus).exp();
    let value = (std::f64::consts::FRAC_2_PI / NOISE_SCALE).ln() + s - softplus;
    (value, 1.0 - 2.0 * share, -4.0 * share * (1.0 - share))
}

impl Target for Linear {
    fn dim(&self) -> usize {
        self.data.features() + usize::from(self.noise_sd.is_none())
    }

    fn is_log_concave(&self) -> bool {
        // Not log-concave jointly with the logarithm of unknown noise.
        self.noise_sd.is_some()
    }

    fn gradient_is_tested(&self) -> bool {
        true
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        ALL_CURVATURES
    }

    fn num_rows(&self) -> Option<usize> {
        Some(self.data.rows())
    }

    fn parameter_names(&self) -> Vec<String> {
        let noise = self.noise_sd.is_none().then(|| "sigma".to_owned());
        self.data.names().iter().cloned().chain(noise).collect()
    }

    fn reduction(&self) -> Option<&Reduction> {
        let noise = usize::from(self.noise_sd.is_none());
        let smaller = |table| Self::new(table, &[1.0], self.noise_sd);
        self.row_space.reduction(&self.data, (&self.prior.sd(), 1, noise), smaller)
    }

    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        parameters.copy_from_slice(z);
        if let (None, Some(noise)) = (self.noise_sd, parameters.last_mut()) {
            *noise = noise.exp();
        }
    }

    fn eval(
        &self,
        rows: Rows<'_>,
        z: Points<'_>,
        mut out: EvalOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        let (d, n, dim) = (self.data.features(), z.len(), self.dim());
        let (unknown, scale) = (self.noise_sd.is_none(), self.data.scale(rows));
        self.prior.start(z, &mut out);
        let EvalOut { log_p, mut grad, mut curv } = out;
        let want_slopes = grad.is_some() || curv.as_ref().is_some_and(|curv| curv.kind == Curvature::Exact);
        let points = self.split(z, scratch);
        let sums = self.sums(rows, (z, &points), (grad.is_some(), want_slopes), curv.as_mut(), scratch)?;

        for i in 0..n {
            let (log_sd, prec, rss) = (points.log_sd[i], points.prec[i], sums.rss[i]);
            let slopes = sums.slopes.get(i * d..(i + 1) * d).unwrap_or_default();
            log_p[i] -= scale * (sums.total_weight * (log_sd + 0.5 * LOG_TAU) + 0.5 * prec * rss);
            let (noise_value, noise_slope, noise_curv) = if unknown { noise_prior(log_sd) } else { (0.0, 0.0, 0.0) };
            log_p[i] += noise_value;
            if let Some(grad) = &mut grad {
                let grad = &mut grad[i * dim..(i + 1) * dim];
                grad.iter_mut().zip(slopes).for_each(|(g, slope)| *g += scale * prec * slope);
                if unknown {
                    grad[d] = noise_slope + scale * (prec * rss - sums.total_weight);
                }
            }
            if let Some(curv) = curv.as_mut().filter(|_| unknown) {
                let (crossed, own) = match curv.kind {
                    Curvature::Exact => (2.0 * prec, 2.0 * prec * rss),
                    Curvature::GaussNewton => (0.0, 2.0 * sums.total_weight),
                    Curvature::EmpiricalFisher => (0.0, 0.0),
                };
                for (set, sum) in curv.sums.chunks_exact_mut(curv.shape.len(dim)).enumerate() {
                    let weight = curv.weights[set * n + i];
                    let own = weight * (scale * own - noise_curv);
                    subtract_noise(sum, curv.shape, d, slopes, weight * scale * crossed, own);
                }
            }
        }
        if let Some(curv) = curv {
            let of_sets = curv.sums.chunks_exact_mut(curv.shape.len(dim)).zip(curv.weights.chunks_exact(n));
            for (sum, weights) in of_sets {
                let factor = scale * weights.iter().zip(&points.prec).map(|(w, prec)| w * prec).sum::<f64>();
                subtract_coefficients(sum, curv.shape, d, &sums.gram, factor);
                if curv.shape == CurvatureShape::Full {
                    symmetrise(sum, dim);
                }
            }
        }
        for buffer in [points.coefficients, points.log_sd, points.prec, sums.rss, sums.slopes, sums.gram] {
            scratch.give(buffer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_prior_integrates_to_one_and_has_its_derivatives() {
        let step = 0.01;
        let total: f64 = (-4000..4000).map(|i| step * noise_prior(f64::from(i) * step).0.exp()).sum();
        assert!((total - 1.0).abs() < 1e-10, "{total}");
        for s in [-30.0, -1.0, 1.6, 3.0, 40.0] {
            let h = 1e-4;
            let ((up, slope_up, _), (down, slope_down, _)) = (noise_prior(s + h), noise_prior(s - h));
            let (_, slope, curv) = noise_prior(s);
            assert!(((up - down) / (2.0 * h) - slope).abs() < 1e-7, "{s}");
            assert!(((slope_up - slope_down) / (2.0 * h) - curv).abs() < 1e-7, "{s}");
        }
    }
}
