//! A multilayer perceptron with a Gaussian prior on every weight as a target of the engine.
//!
//! ```text
//! log p(z) = sum_i log N(z_i; 0, sd_i^2) + [Gaussian: log HalfCauchy(sigma; 5) + log sigma] + sum_r u_r log lik_r(z)
//! ```
//!
//! [`Mlp`] is a [`Target`]: values, gradients, squared per-example gradients (empirical Fisher) and Gauss-Newton matrices,
//! in double precision, for every method of the engine with full or diagonal covariance.
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_nets::{Activation, Mlp, Network, NetworkLikelihood};
//! use natmix_models::Observations;
//! let table = Observations::new(vec![1.0, 2.0], 2, vec![1.0]).unwrap();
//! let network = Network::new(2, &[1], Activation::Relu, NetworkLikelihood::Bernoulli).unwrap();
//! let model = Mlp::new(network, table, &[1.0]).unwrap();
//! let weights = [1.0, 1.0, -2.0, 3.0, -3.0]; // the hidden unit gives 1 + 2 - 2 = 1, the network 3 - 3 = 0
//! let expected = -2.5 * std::f64::consts::TAU.ln() - 12.0 - 2f64.ln();
//! assert!((log_p_at(&model, &weights).unwrap() - expected).abs() < 1e-12);
//! ```

mod curvature;
#[cfg(test)]
mod tests;

use crate::likelihood::WeightedOutcomes;
use crate::network::Network;
use crate::pass::Pass;
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use natmix::{Error, Scratch};
use natmix_models::linear::noise_prior;
use natmix_models::observations::{Observations, RowBlock};
use natmix_models::prior::{Prior, spread};

/// A network with its data and prior, in double precision.
#[derive(Clone, Debug)]
pub struct Mlp {
    network: Network,
    table: Observations,
    prior: Prior,
}

impl Mlp {
    /// From a network, data and prior standard deviations: one for all weights and biases, or one per weight.
    pub fn new(network: Network, table: Observations, prior_sd: &[f64]) -> Result<Self, Error> {
        if table.offset().is_some() {
            return Err(Error::InvalidInput("a network takes no offset".into()));
        }
        if table.features() != network.inputs() {
            let (columns, inputs) = (table.features(), network.inputs());
            return Err(Error::InvalidInput(format!("{columns} features for a network of {inputs} inputs")));
        }
        network.likelihood().check_outcomes(table.outcome().iter().copied())?;
        let prior = Prior::new(&spread(prior_sd, network.noise_at())?);
        Ok(Self { network, table, prior })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// The data.
    pub fn observations(&self) -> &Observations {
        &self.table
    }

    fn add_block(&self, block: RowBlock<'_>, z: Points<'_>, scale: f64, out: &mut EvalOut<'_>, scratch: &mut Scratch) {
        let (network, r, d) = (&self.network, block.rows(), z.dim());
        let (likelihood, noise_at) = (network.likelihood(), network.noise_at());
        let rows = WeightedOutcomes { outcome: block.outcome, weights: block.weights };
        let mut units = scratch.take_used(Pass::<f64>::room(network, r));
        let mut deltas = scratch.take_used(Pass::<f64>::room(network, r));
        for (i, z) in z.iter().enumerate() {
            let log_noise = z.get(noise_at).copied().unwrap_or(0.0);
            let mut pass = Pass { network, rows: r, units: &mut units, deltas: &mut deltas, timer: None };
            pass.forward(z, block.x);
            let (outputs, delta) = pass.outputs_and_deltas();
            let delta = out.grad.is_some().then_some(delta);
            let value = likelihood.evaluate(outputs, delta, rows, log_noise);
            out.log_p[i] += scale * value;
            if let Some(grad) = &mut out.grad {
                let grad = &mut grad[i * d..(i + 1) * d];
                pass.backward(z);
                pass.add_gradient(block.x, scale, grad);
                if let Some(grad) = grad.get_mut(noise_at) {
                    let by_noise = |r| rows.weight(r) * likelihood.by_noise(pass.outputs(), rows, log_noise, r);
                    *grad += scale * (0..r).map(by_noise).sum::<f64>();
                }
            }
            if let Some(request) = out.curv.as_mut().filter(|_| value.is_finite()) {
                self.add_curvature(request, &mut pass, z, (i, block), scale, scratch);
            }
        }
        scratch.give(units);
        scratch.give(deltas);
    }
}

impl Target for Mlp {
    fn dim(&self) -> usize {
        self.network.weights()
    }

    fn gradient_is_tested(&self) -> bool {
        true
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        use Curvature::{EmpiricalFisher, GaussNewton};
        use CurvatureShape::{Diag, Full};
        &[(GaussNewton, Full), (GaussNewton, Diag), (EmpiricalFisher, Full), (EmpiricalFisher, Diag)]
    }

    fn num_rows(&self) -> Option<usize> {
        Some(self.table.rows())
    }

    fn parameter_names(&self) -> Vec<String> {
        self.network.weight_names(self.table.names())
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.prior.with_likelihood(z, out, |out| {
            if self.network.likelihood().extra() > 0 {
                self.add_noise_prior(z, out);
            }
            let scale = self.table.scale(rows);
            self.table.blocks(rows, scratch, |block, scratch| self.add_block(block, z, scale, out, scratch));
            Ok(())
        })
    }
}

impl Mlp {
    fn add_noise_prior(&self, z: Points<'_>, out: &mut EvalOut<'_>) {
        let (at, d, n) = (self.network.noise_at(), z.dim(), z.len());
        for (i, z) in z.iter().enumerate() {
            let (value, slope, curvature) = noise_prior(z[at]);
            out.log_p[i] += value;
            if let Some(grad) = &mut out.grad {
                grad[i * d + at] += slope;
            }
            if let Some(curv) = &mut out.curv {
                let place = if curv.shape == CurvatureShape::Full { at * (d + 1) } else { at };
                let sums = curv.sums.chunks_exact_mut(curv.shape.len(d)).zip(curv.weights.chunks_exact(n));
                sums.for_each(|(sum, weights)| sum[place] += weights[i] * curvature);
            }
        }
    }
}
