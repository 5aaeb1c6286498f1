//! Softmax regression: an outcome with several classes, the first being the reference.
//!
//! Class `c = 1 .. C-1` has coefficients `b_c`, in sequence in a point, and linear predictor
//! `eta_c = x'b_c + offset`; class 0 has predictor 0. An offset is a known part of the log odds of every other class against class 0.
//!
//! ```text
//! log p(b) = sum log N(b_cj; 0, prior_sd_j^2) + sum_r u_r (eta_{y_r} - log(1 + sum_c exp eta_c))
//! ```
//!
//! The Hessian has blocks `-X' diag(u p_c ([c = c'] - p_c')) X`; the link is canonical, so the Gauss-Newton
//! matrix is the same. In the empirical Fisher the row's number is `u ([y = c] - p_c)([y = c'] - p_c')`.
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::{Observations, Softmax};
//! let model = Softmax::new(Observations::new(vec![1.0], 1, vec![2.0]).unwrap(), 3, &[1.0]).unwrap();
//! let expected = -std::f64::consts::TAU.ln() - 3f64.ln(); // two coefficients at zero, three equal classes
//! assert!((log_p_at(&model, &[0.0, 0.0]).unwrap() - expected).abs() < 1e-12);
//! ```

use crate::observations::{ALL_CURVATURES, Dataset, RowBlock};
use crate::prior::{Prior, spread};
use crate::regression::RegressionKind;
use crate::row_space::RowSpace;
use natmix::matrix::{Transpose, product};
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Reduction, Rows, Target, TargetError};
use natmix::{Error, Scratch};

/// A softmax regression with its data.
#[derive(Clone, Debug)]
pub struct Softmax {
    data: Dataset,
    classes: usize,
    class_names: Vec<String>,
    prior: Prior,
    row_space: RowSpace,
}

impl Softmax {
    /// From outcomes `0, 1, ..., classes - 1` and prior standard deviations: one for all features, or one per feature.
    pub fn new(data: impl Into<Dataset>, classes: usize, prior_sd: &[f64]) -> Result<Self, Error> {
        let data = data.into();
        if classes < 2 {
            return Err(Error::InvalidInput(format!("{classes} classes: at least 2 are needed")));
        }
        let kind = RegressionKind::Softmax { classes };
        if let Dataset::Memory(table) = &data
            && let Some(row) = table.outcome().iter().position(|y| !kind.allows(*y))
        {
            let problem = format!("outcome: row {row} is {}, not {}", table.outcome()[row], kind.wanted());
            return Err(Error::InvalidInput(problem));
        }
        let prior = Prior::new(&spread(prior_sd, data.features())?.repeat(classes - 1));
        let class_names = (0..classes).map(|c| c.to_string()).collect();
        Ok(Self { data, classes, class_names, prior, row_space: RowSpace::default() })
    }

    /// Names the classes, the reference included.
    pub fn with_class_names(mut self, names: Vec<String>) -> Result<Self, Error> {
        if names.len() != self.classes {
            return Err(Error::InvalidInput(format!("{} names for {} classes", names.len(), self.classes)));
        }
        self.class_names = names;
        Ok(self)
    }

    /// The data.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// Names of the classes.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    fn add_block(&self, block: RowBlock<'_>, z: Points<'_>, scale: f64, out: &mut EvalOut<'_>, scratch: &mut Scratch) {
        let (d, n, r, others) = (block.features, z.len(), block.rows(), self.classes - 1);
        let mut shares = scratch.take_used(r * others * n);
        block.predictors(z.data(), others * n, &mut shares);
        let mut most = scratch.take_used(r);
        let mut total = scratch.take_used(r);
        for (log_p, shares) in out.log_p.iter_mut().zip(shares.chunks_exact_mut(r * others)) {
            *log_p += scale * shares_of(shares, block, &mut most, &mut total);
        }
        if let Some(request) = &mut out.curv {
            add_curvature(request, block, &shares, n, scale, scratch);
        }
        if let Some(grad) = &mut out.grad {
            for (class, shares) in shares.chunks_exact_mut(r).enumerate() {
                for (row, share) in shares.iter_mut().enumerate() {
                    *share = block.weight(row) * (is_class(block.outcome[row], class % others) - *share);
                }
            }
            product(grad, true, scale, block.x, Transpose::No, &shares, (d, r, others * n));
        }
        for buffer in [shares, most, total] {
            scratch.give(buffer);
        }
    }
}

/// One if outcome `y` is class `other + 1`, whose coefficients have index `other`.
fn is_class(y: f64, other: usize) -> f64 {
    f64::from(u8::from(y == (other + 1) as f64))
}

/// Log likelihood of one point over a block of rows; replaces predictors, class by class, by probabilities.
fn shares_of(shares: &mut [f64], block: RowBlock<'_>, most: &mut [f64], total: &mut [f64]) -> f64 {
    let r = block.rows();
    most.fill(0.0);
    for eta in shares.chunks_exact(r) {
        most.iter_mut().zip(eta).for_each(|(most, eta)| *most = most.max(*eta));
    }
    total.iter_mut().zip(most.iter()).for_each(|(total, most)| *total = (-most).exp());
    let mut value = 0.0;
    for (class, eta) in shares.chunks_exact_mut(r).enumerate() {
        for (row, (eta, (total, most))) in eta.iter_mut().zip(total.iter_mut().zip(most.iter())).enumerate() {
            if block.outcome[row] == (class + 1) as f64 {
                value += block.weight(row) * *eta;
            }
            *eta = (*eta - most).exp();
            *total += *eta;
        }
    }
    for eta in shares.chunks_exact_mut(r) {
        eta.iter_mut().zip(total.iter()).for_each(|(share, total)| *share /= total);
    }
    for (row, (total, most)) in total.iter().zip(most.iter()).enumerate() {
        value -= block.weight(row) * (most + total.ln());
    }
    value
}

/// Adds the curvature of a block of rows, for each pair of classes.
fn add_curvature(
    request: &mut CurvatureSums<'_>,
    block: RowBlock<'_>,
    shares: &[f64],
    n: usize,
    scale: f64,
    scratch: &mut Scratch,
) {
    let (d, r) = (block.features, block.rows());
    let (others, sets) = (shares.len() / (r * n), request.weights.len() / n);
    let (dim, shape) = (others * d, request.shape);
    let fisher = request.kind == Curvature::EmpiricalFisher;
    let mut terms = scratch.take_used(r * n);
    let mut coefficients = scratch.take_used(r * sets);
    let mut gram = scratch.take_used(shape.len(d));
    for first in 0..others {
        let last = if shape == CurvatureShape::Full { others } else { first + 1 };
        for second in first..last {
            for (terms, shares) in terms.chunks_exact_mut(r).zip(shares.chunks_exact(r * others)) {
                let (a, b) = (&shares[first * r..(first + 1) * r], &shares[second * r..(second + 1) * r]);
                for (row, (term, (a, b))) in terms.iter_mut().zip(a.iter().zip(b)).enumerate() {
                    let y = block.outcome[row];
                    *term = block.weight(row)
                        * match (fisher, first == second) {
                            (true, _) => (is_class(y, first) - a) * (is_class(y, second) - b),
                            (false, true) => a * (1.0 - a),
                            (false, false) => -a * b,
                        };
                }
            }
            product(&mut coefficients, false, scale, &terms, Transpose::No, request.weights, (r, n, sets));
            let of_sets = request.sums.chunks_exact_mut(shape.len(dim)).zip(coefficients.chunks_exact(r));
            for (sum, coefficients) in of_sets {
                gram.fill(0.0);
                block.add_gram(&mut gram, shape, Some(coefficients), scratch);
                if shape == CurvatureShape::Diag {
                    sum[first * d..(first + 1) * d].iter_mut().zip(&gram).for_each(|(s, g)| *s -= g);
                    continue;
                }
                // The block and, off the diagonal, its mirror image.
                let places = [(first, second), (second, first)];
                for (row, column) in places.into_iter().take(if first == second { 1 } else { 2 }) {
                    for (j, gram) in gram.chunks_exact(d).enumerate() {
                        let sum = &mut sum[(column * d + j) * dim + row * d..][..d];
                        sum.iter_mut().zip(gram).for_each(|(s, g)| *s -= g);
                    }
                }
            }
        }
    }
    for buffer in [terms, coefficients, gram] {
        scratch.give(buffer);
    }
}

impl Target for Softmax {
    fn dim(&self) -> usize {
        (self.classes - 1) * self.data.features()
    }

    fn is_log_concave(&self) -> bool {
        true
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

    /// `class:feature`, for every class but the reference.
    fn parameter_names(&self) -> Vec<String> {
        let of_class = |class: &String| self.data.names().iter().map(move |name| format!("{class}:{name}")).collect();
        self.class_names[1..].iter().flat_map(|class| -> Vec<String> { of_class(class) }).collect()
    }

    fn reduction(&self) -> Option<&Reduction> {
        let sd = self.prior.sd();
        let of_class = &sd[..self.data.features()];
        let smaller = |table| Self::new(table, self.classes, &[1.0]);
        self.row_space.reduction(&self.data, (of_class, self.classes - 1, 0), smaller)
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.prior.with_likelihood(z, out, |out| {
            let scale = self.data.scale(rows);
            self.data
                .sum_into(rows, z, out, scratch, |block, out, scratch| self.add_block(block, z, scale, out, scratch))
        })
    }
}
