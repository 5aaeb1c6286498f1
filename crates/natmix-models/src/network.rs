//! A small network for two classes: one hidden layer, one output, a Gaussian prior on every weight.
//!
//! A point holds, one after the other, the `h x d` hidden weights `w_j` (unit after unit), the `h` hidden biases `b_j`, the
//! `h` output weights `v_j` and the output bias `c`. With `f` either `max(., 0)` or `tanh`:
//!
//! ```text
//! a_j = f(w_j'x + b_j)     eta = c + sum_j v_j a_j
//! log p(z) = sum_i log N(z_i; 0, prior_sd^2) + sum_r u_r (y_r eta_r - log(1 + exp eta_r))
//! ```
//!
//! With `s = 1 / (1 + exp -eta)` and `J_r` the gradient of `eta_r`, the Gauss-Newton matrix is `-sum_r u_r s_r (1 - s_r) J_r J_r'`
//! and the empirical Fisher `-sum_r u_r (y_r - s_r)^2 J_r J_r'`, both less the prior's precision.
//!
//! ```
//! use natmix::targets::log_p_at;
//! use natmix_models::network::{Activation, Network};
//! use natmix_models::Observations;
//! let table = Observations::new(vec![1.0, 2.0], 2, vec![1.0]).unwrap();
//! let network = Network::new(table, 1, Activation::Relu, 1.0).unwrap();
//! let weights = [1.0, 1.0, -2.0, 3.0, -3.0]; // a = 1 + 2 - 2 = 1, eta = 3 - 3
//! let expected = -2.5 * std::f64::consts::TAU.ln() - 12.0 - 2f64.ln();
//! assert!((log_p_at(&network, &weights).unwrap() - expected).abs() < 1e-12);
//! assert_eq!(network.predict(&weights, &[1.0, 2.0]), [0.5]);
//! ```

use crate::observations::{Block, Observations};
use crate::prior::{Prior, spread};
use natmix::matrix::{Transpose, product, product_bt, symmetrise};
use natmix::target::{Curvature, CurvatureSums, EvalOut, Points, Rows, Shape, Target, TargetError};
use natmix::{Error, Scratch};
use rayon::prelude::*;

/// Rows that one task predicts.
const CHUNK: usize = 256;

/// What a hidden unit does to its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `tanh x`.
    Tanh,
}

impl Activation {
    fn of(self, x: f64) -> f64 {
        match self {
            // Not `max`, which would turn NaN into 0.
            Activation::Relu if x < 0.0 => 0.0,
            Activation::Relu => x,
            Activation::Tanh => x.tanh(),
        }
    }

    /// The derivative, from the value.
    fn slope(self, value: f64) -> f64 {
        match self {
            Activation::Relu => f64::from(u8::from(value > 0.0)),
            Activation::Tanh => 1.0 - value * value,
        }
    }
}

/// A network with one hidden layer, and its data.
#[derive(Clone, Debug)]
pub struct Network {
    table: Observations,
    hidden: usize,
    activation: Activation,
    prior: Prior,
}

/// The parts of one point.
struct Weights<'a> {
    hidden: &'a [f64],
    biases: &'a [f64],
    output: &'a [f64],
    bias: f64,
}

impl Network {
    /// With outcomes 0 and 1, `hidden` units, and one prior standard deviation for every weight and bias.
    pub fn new(table: Observations, hidden: usize, activation: Activation, prior_sd: f64) -> Result<Self, Error> {
        if hidden == 0 {
            return Err(Error::InvalidInput("a network needs at least one hidden unit".into()));
        }
        if table.offset().is_some() {
            return Err(Error::InvalidInput("a network takes no offset".into()));
        }
        if let Some(row) = table.outcome().iter().position(|y| *y != 0.0 && *y != 1.0) {
            return Err(Error::InvalidInput(format!("outcome: row {row} is {}, not 0 or 1", table.outcome()[row])));
        }
        let prior = Prior::new(&spread(&[prior_sd], hidden * (table.features() + 2) + 1)?);
        Ok(Self { table, hidden, activation, prior })
    }

    /// The data.
    pub fn observations(&self) -> &Observations {
        &self.table
    }

    /// Probability of class 1 for each row of `x`, averaged over the points in `weights` (one, or many draws).
    ///
    /// # Panics
    /// If the lengths of `weights` and `x` do not fit the network, or there is no point.
    pub fn predict(&self, weights: &[f64], x: &[f64]) -> Vec<f64> {
        let (points, features) = (Points::new(weights, self.dim()), self.table.features());
        assert!(!points.is_empty() && x.len().is_multiple_of(features), "weights or rows that do not fit the network");
        let mut mean = vec![0.0; x.len() / features];
        // Each row sums its points in order, so that threads never change a result.
        mean.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK * features)).for_each(|(mean, x)| {
            let mut units = vec![0.0; mean.len() * self.hidden];
            let mut eta = vec![0.0; mean.len()];
            for z in points.iter() {
                let z = self.split(z);
                product(&mut units, false, 1.0, x, Transpose::Yes, z.hidden, (eta.len(), features, self.hidden));
                self.forward(&z, &mut units, &mut eta);
                mean.iter_mut().zip(&eta).for_each(|(mean, eta)| *mean += logistic(*eta).1);
            }
            mean.iter_mut().for_each(|mean| *mean /= points.len() as f64);
        });
        mean
    }

    fn split<'a>(&self, z: &'a [f64]) -> Weights<'a> {
        let (hidden, rest) = z.split_at(self.hidden * self.table.features());
        let (biases, rest) = rest.split_at(self.hidden);
        let (output, bias) = rest.split_at(self.hidden);
        Weights { hidden, biases, output, bias: bias[0] }
    }

    /// From `w_j'x` in `units`, unit after unit, to activations; and to the predictors.
    fn forward(&self, z: &Weights<'_>, units: &mut [f64], eta: &mut [f64]) {
        eta.fill(z.bias);
        for ((units, b), v) in units.chunks_exact_mut(eta.len()).zip(z.biases).zip(z.output) {
            for (unit, eta) in units.iter_mut().zip(eta.iter_mut()) {
                *unit = self.activation.of(*unit + b);
                *eta += v * *unit;
            }
        }
    }

    fn add_block(&self, block: Block<'_>, z: Points<'_>, scale: f64, out: &mut EvalOut<'_>, scratch: &mut Scratch) {
        let (features, hidden, r, n) = (block.features, self.hidden, block.rows(), z.len());
        let first = hidden * features;
        // One product for the hidden layer at all points.
        let mut layers = scratch.take_used(first * n);
        for (layer, z) in layers.chunks_exact_mut(first).zip(z.iter()) {
            layer.copy_from_slice(&z[..first]);
        }
        let mut units = scratch.take_used(r * hidden * n);
        block.predictors(&layers, hidden * n, &mut units);
        let mut eta = scratch.take_used(r);
        let mut residual = scratch.take_used(r);
        for (i, (z, units)) in z.iter().zip(units.chunks_exact_mut(r * hidden)).enumerate() {
            let z = self.split(z);
            self.forward(&z, units, &mut eta);
            let mut value = 0.0;
            for (row, (eta, residual)) in eta.iter_mut().zip(&mut residual).enumerate() {
                let (y, u) = (block.outcome[row], block.weight(row));
                let (softplus, s) = logistic(*eta);
                value += u * (y * *eta - softplus);
                *residual = u * (y - s);
                *eta = s;
            }
            out.log_p[i] += scale * value;
            if let Some(request) = out.curv.as_mut().filter(|_| value.is_finite()) {
                self.add_curvature(request, block, (i, n), &z, units, &eta, scale, scratch);
            }
            if let Some(grad) = &mut out.grad {
                let grad = &mut grad[i * self.dim() + first..(i + 1) * self.dim()];
                self.backward(&z, units, &residual, scale, grad);
            }
        }
        if let Some(grad) = &mut out.grad {
            product(&mut layers, false, scale, block.x, Transpose::No, &units, (features, r, hidden * n));
            for (grad, layer) in grad.chunks_exact_mut(self.dim()).zip(layers.chunks_exact(first)) {
                grad[..first].iter_mut().zip(layer).for_each(|(g, layer)| *g += layer);
            }
        }
        for buffer in [layers, units, eta, residual] {
            scratch.give(buffer);
        }
    }

    /// Adds the gradient in all but the hidden weights; turns activations into derivatives by the units' inputs.
    fn backward(&self, z: &Weights<'_>, units: &mut [f64], residual: &[f64], scale: f64, grad: &mut [f64]) {
        let (biases, rest) = grad.split_at_mut(self.hidden);
        let (output, bias) = rest.split_at_mut(self.hidden);
        bias[0] += scale * residual.iter().sum::<f64>();
        for (j, units) in units.chunks_exact_mut(residual.len()).enumerate() {
            let (mut by_output, mut by_bias) = (0.0, 0.0);
            for (unit, residual) in units.iter_mut().zip(residual) {
                by_output += residual * *unit;
                *unit = residual * z.output[j] * self.activation.slope(*unit);
                by_bias += *unit;
            }
            output[j] += scale * by_output;
            biases[j] += scale * by_bias;
        }
    }

    /// Adds the curvature at point `i` of `n` to every sum, from activations and probabilities.
    #[allow(clippy::too_many_arguments)]
    fn add_curvature(
        &self,
        request: &mut CurvatureSums<'_>,
        block: Block<'_>,
        (i, n): (usize, usize),
        z: &Weights<'_>,
        units: &[f64],
        shares: &[f64],
        scale: f64,
        scratch: &mut Scratch,
    ) {
        let (d, r, features, shape) = (self.dim(), block.rows(), block.features, request.shape);
        let mut jacobian = scratch.take_used(d * r);
        let mut scaled = scratch.take_used(d * r);
        let rows = jacobian.chunks_exact_mut(d).zip(scaled.chunks_exact_mut(d)).zip(block.x.chunks_exact(features));
        for (row, ((slopes, scaled), x)) in rows.enumerate() {
            for j in 0..self.hidden {
                let unit = units[j * r + row];
                let slope = z.output[j] * self.activation.slope(unit);
                slopes[j * features..(j + 1) * features].iter_mut().zip(x).for_each(|(s, x)| *s = slope * x);
                slopes[self.hidden * features + j] = slope;
                slopes[self.hidden * (features + 1) + j] = unit;
            }
            slopes[d - 1] = 1.0;
            let s = shares[row];
            let share = match request.kind {
                Curvature::EmpiricalFisher => (block.outcome[row] - s).powi(2),
                _ => s * (1.0 - s),
            };
            let share = block.weight(row) * share;
            scaled.iter_mut().zip(slopes.iter()).for_each(|(scaled, slope)| *scaled = share * slope);
        }
        let mut gram = scratch.take(shape.len(d));
        match shape {
            Shape::Full => product_bt(&mut gram, false, scale, &scaled, &jacobian, (d, r, d)),
            Shape::Diag => {
                for (slopes, scaled) in jacobian.chunks_exact(d).zip(scaled.chunks_exact(d)) {
                    let terms = slopes.iter().zip(scaled);
                    gram.iter_mut().zip(terms).for_each(|(g, (a, b))| *g += scale * a * b);
                }
            }
        }
        for (sum, weights) in request.sums.chunks_exact_mut(shape.len(d)).zip(request.weights.chunks_exact(n)) {
            sum.iter_mut().zip(&gram).for_each(|(sum, g)| *sum -= weights[i] * g);
        }
        for buffer in [jacobian, scaled, gram] {
            scratch.give(buffer);
        }
    }
}

/// `log(1 + exp eta)` and `1 / (1 + exp -eta)`, without overflow.
fn logistic(eta: f64) -> (f64, f64) {
    let t = (-eta.abs()).exp();
    let share = 1.0 / (1.0 + t);
    (eta.max(0.0) + t.ln_1p(), if eta < 0.0 { t * share } else { share })
}

impl Target for Network {
    fn dim(&self) -> usize {
        self.hidden * (self.table.features() + 2) + 1
    }

    fn curvatures(&self) -> &[(Curvature, Shape)] {
        use Curvature::{EmpiricalFisher, GaussNewton};
        use Shape::{Diag, Full};
        &[(GaussNewton, Full), (GaussNewton, Diag), (EmpiricalFisher, Full), (EmpiricalFisher, Diag)]
    }

    fn num_rows(&self) -> Option<usize> {
        Some(self.table.rows())
    }

    /// `hiddenJ:feature`, `hiddenJ:bias`, `output:hiddenJ` and `output:bias`.
    fn parameter_names(&self) -> Vec<String> {
        let units = 0..self.hidden;
        let of_unit = |j: usize| self.table.names().iter().map(move |name| format!("hidden{j}:{name}"));
        let hidden = units.clone().flat_map(of_unit);
        let biases = units.clone().map(|j| format!("hidden{j}:bias"));
        let output = units.map(|j| format!("output:hidden{j}"));
        hidden.chain(biases).chain(output).chain(["output:bias".to_owned()]).collect()
    }

    fn eval(
        &self,
        rows: Rows<'_>,
        z: Points<'_>,
        mut out: EvalOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TargetError> {
        self.prior.start(z, &mut out);
        let scale = self.table.scale(rows);
        self.table.blocks(rows, scratch, |block, scratch| self.add_block(block, z, scale, &mut out, scratch));
        if let Some(curv) = out.curv.filter(|curv| curv.shape == Shape::Full) {
            let d = self.dim();
            curv.sums.chunks_exact_mut(d * d).for_each(|sum| symmetrise(sum, d));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use natmix::targets::log_p_at;
    use natmix::testing::{CheckOptions, check_target};

    fn network(activation: Activation) -> Network {
        let x: Vec<f64> = (0..34).map(|i| (1.7 * f64::from(i)).sin()).collect();
        let y = (0..17).map(|i| f64::from(i % 3 % 2)).collect();
        let weights = (0..17).map(|i| 0.5 + 0.1 * f64::from(i)).collect();
        let table = Observations::new(x, 2, y).unwrap().with_weights(weights).unwrap();
        Network::new(table, 4, activation, 1.5).unwrap()
    }

    #[test]
    fn derivatives_are_right() {
        for activation in [Activation::Tanh, Activation::Relu] {
            // No kink of max(., 0) lies within a difference step of these points.
            let report = check_target(&network(activation), &CheckOptions { seed: 3, ..CheckOptions::default() });
            let report = report.unwrap();
            assert!(report.passed(), "{activation:?}\n{report}");
        }
    }

    #[test]
    fn gauss_newton_is_the_fisher_matrix() {
        // Averaged over outcomes that the network itself predicts, squared gradients are the Gauss-Newton matrix.
        let z: Vec<f64> = (0..17).map(|i| (0.9 * f64::from(i)).cos()).collect();
        let curvature = |y: f64, kind| {
            let table = Observations::new(vec![0.3, -0.8], 2, vec![y]).unwrap();
            let network = Network::new(table, 4, Activation::Tanh, 1.0).unwrap();
            let mut sums = vec![0.0; 17 * 17];
            let curv = CurvatureSums { kind, shape: Shape::Full, weights: &[1.0], sums: &mut sums };
            let out = EvalOut { log_p: &mut [0.0], grad: None, curv: Some(curv) };
            network.eval(Rows::All, Points::new(&z, 17), out, &mut Scratch::default()).unwrap();
            (sums, network.predict(&z, &[0.3, -0.8])[0])
        };
        let (fisher_0, s) = curvature(0.0, Curvature::EmpiricalFisher);
        let (fisher_1, _) = curvature(1.0, Curvature::EmpiricalFisher);
        let (newton, _) = curvature(1.0, Curvature::GaussNewton);
        for (newton, (a, b)) in newton.iter().zip(fisher_0.iter().zip(&fisher_1)) {
            assert!((newton - ((1.0 - s) * a + s * b)).abs() < 1e-12);
        }
    }

    #[test]
    fn predictions_average_over_draws() {
        let network = network(Activation::Relu);
        let draws: Vec<f64> = (0..34).map(|i| (0.7 * f64::from(i)).sin()).collect();
        let x: Vec<f64> = (0..1200).map(|i| (0.1 * f64::from(i)).cos()).collect();
        let both = network.predict(&draws, &x);
        let alone = [&draws[..17], &draws[17..]].map(|z| network.predict(z, &x));
        assert!(both.iter().enumerate().all(|(i, p)| (p - 0.5 * (alone[0][i] + alone[1][i])).abs() < 1e-15));
        assert_eq!(network.predict(&draws[..17], &x[8..10])[0], alone[0][4]);
    }

    #[test]
    fn bad_input_is_named() {
        let table = |y| Observations::new(vec![1.0], 1, vec![y]).unwrap();
        let message = |table, hidden, sd| Network::new(table, hidden, Activation::Relu, sd).unwrap_err().to_string();
        assert!(message(table(2.0), 3, 1.0).contains("row 0 is 2"));
        assert!(message(table(1.0), 0, 1.0).contains("hidden unit"));
        assert!(message(table(1.0), 3, -1.0).contains("prior sd"));
        assert!(message(table(1.0).with_offset(vec![1.0]).unwrap(), 3, 1.0).contains("offset"));
        let network = Network::new(table(1.0), 1, Activation::Relu, 1.0).unwrap();
        assert!(log_p_at(&network, &[f64::NAN, 0.0, 1.0, 0.0]).is_ok_and(f64::is_nan));
        assert_eq!(network.parameter_names(), ["hidden0:x0", "hidden0:bias", "output:hidden0", "output:bias"]);
    }
}
