//! The ELBO of a finished mixture of networks, from fresh draws and all rows.
//!
//! Prior and entropy of each diagonal component are known exactly; only the log likelihood, the prior of the noise and the
//! overlap of components are averaged over draws:
//!
//! ```text
//! ELBO = sum_k w_k E_k[ log lik(z) + log r_k(z) ] - sum_k w_k ( KL_k + log w_k )
//! ```

use super::examples::Examples;
use super::likelihood::WeightedOutcomes;
use super::network::Network;
use super::pass::Pass;
use super::predict::{Averaging, weights_of};
use natmix::Error;
use natmix::family::{AnyCovariance, Mixture};
use natmix_models::linear::noise_prior;
use natmix_models::prior::LOG_TAU;
use rayon::prelude::*;

/// Rows per task.
const ROWS: usize = 256;

/// ELBO with its standard error, from `draws` draws per component, with one prior precision per layer.
pub fn elbo(
    network: &Network,
    data: &Examples,
    q: &Mixture,
    prior_precision: &[f64],
    draws: usize,
    seed: u64,
) -> Result<(f64, f64), Error> {
    data.check(network)?;
    if q.dim() != network.weights() || prior_precision.len() != network.layers().len() || draws < 2 {
        return Err(Error::InvalidInput(
            "a posterior and a prior of this network and at least two draws are needed".into(),
        ));
    }
    let averaging = Averaging::Draws { each: draws, seed };
    let mut w = vec![0.0; network.weights()];
    let (mut total, mut variance) = (0.0, 0.0);
    for (k, weight) in q.weights().iter().enumerate() {
        let values: Vec<f64> = (0..draws)
            .map(|draw| {
                weights_of(q, k, draw, averaging, &mut w);
                let z: Vec<f64> = w.iter().map(|w| f64::from(*w)).collect();
                let own = if q.len() > 1 { q.log_responsibilities(&z)[k] } else { 0.0 };
                let noise: f64 = z[network.noise_at()..].iter().map(|s| noise_prior(*s).0).sum();
                log_likelihood(network, data, &w) + noise + own
            })
            .collect();
        let mean = values.iter().sum::<f64>() / draws as f64;
        let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (draws as f64 - 1.0);
        total += weight * (mean - divergence(network, q, k, prior_precision)? - weight.max(f64::MIN_POSITIVE).ln());
        variance += weight * weight * spread / draws as f64;
    }
    Ok((total, variance.sqrt()))
}

/// Log likelihood of all rows at one point; rows are summed in a fixed order.
pub fn log_likelihood(network: &Network, data: &Examples, w: &[f32]) -> f64 {
    let log_noise = w.get(network.noise_at()).map_or(0.0, |w| f64::from(*w));
    let inputs = network.inputs();
    let parts: Vec<f64> = data
        .x()
        .par_chunks(ROWS * inputs)
        .zip(data.outcome().par_chunks(ROWS))
        .map(|(x, outcome)| {
            let mut units = vec![0.0; Pass::<f32>::room(network, outcome.len())];
            let mut pass = Pass { network, rows: outcome.len(), units: &mut units, deltas: &mut [], timer: None };
            pass.forward(w, x);
            network.likelihood().evaluate(pass.outputs(), None, WeightedOutcomes { outcome, weights: None }, log_noise)
        })
        .collect();
    parts.iter().sum()
}

/// KL divergence of a component from the prior; for the noise only the negative entropy.
fn divergence(network: &Network, q: &Mixture, k: usize, prior_precision: &[f64]) -> Result<f64, Error> {
    let component = &q.components()[k];
    let AnyCovariance::Diag(prec) = component.precision() else {
        return Err(Error::InvalidInput("this ELBO is for diagonal covariances".into()));
    };
    let mut sum = 0.0;
    for (layer, prior) in network.layers().iter().zip(prior_precision) {
        for (m, s) in component.mean()[layer.start..layer.end()].iter().zip(&prec.entries()[layer.start..]) {
            sum += 0.5 * (prior * (m * m + 1.0 / s) - 1.0 + (s / prior).ln());
        }
    }
    let noise = &prec.entries()[network.noise_at()..];
    Ok(sum - noise.iter().map(|s| 0.5 * (LOG_TAU + 1.0 - s.ln())).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, Mlp, NetworkLikelihood};
    use natmix::family::{Diag, Gaussian};
    use natmix_models::observations::Observations;

    #[test]
    fn it_agrees_with_the_engine() {
        for likelihood in [NetworkLikelihood::Gaussian, NetworkLikelihood::Categorical { classes: 3 }] {
            let network = Network::new(2, &[4], Activation::Tanh, likelihood).unwrap();
            let x: Vec<f32> = (0..600).map(|i| (1.7 * i as f32).sin()).collect();
            let y: Vec<f32> = (0..300).map(|r| (r % 3) as f32).collect();
            let part = |shift: f64| {
                let mean = (0..network.weights()).map(|i| 0.4 * (0.9 * i as f64 + shift).sin()).collect();
                Gaussian::new(mean, Diag::new(vec![2500.0; network.weights()]).unwrap())
            };
            let q = Mixture::new(&[0.3, 0.7], vec![part(0.0), part(0.1)]).unwrap();
            let data = Examples::new(x.clone(), 2, y.clone()).unwrap();
            let (mean, se) = elbo(&network, &data, &q, &[4.0, 9.0], 2000, 1).unwrap();
            let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect();
            let table = Observations::new(wide(&x), 2, wide(&y)).unwrap();
            let sd: Vec<f64> = (0..network.noise_at()).map(|i| if i < 12 { 0.5 } else { 1.0 / 3.0 }).collect();
            let target = Mlp::new(network, table, &sd).unwrap();
            let engine = natmix::diagnose(&target, &q, 4000, 2).unwrap().elbo;
            let error = (se * se + engine.se * engine.se).sqrt();
            assert!(error < 0.3 && (mean - engine.mean).abs() < 5.0 * error, "{mean} +- {se}, {engine:?}");
        }
    }
}
