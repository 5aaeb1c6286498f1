//! Predictions of a network, averaged over components and over draws from each.
//!
//! Component `k` is drawn from `n` times, with total weight `w_k`. For classes the entropy of the averaged prediction splits into
//! the expected entropy of a single network's prediction, which more data would not reduce, and the rest: the mutual
//! information of class and weights, the model uncertainty.
//!
//! ```
//! use natmix::family::{Gaussian, Mixture};
//! use natmix_nets::predict::{Averaging, predict};
//! use natmix_nets::{Activation, NetworkLikelihood, Network};
//! use natmix_models::Predictions;
//! // Two networks without hidden units, sure of opposite classes.
//! let network = Network::new(1, &[], Activation::Relu, NetworkLikelihood::Bernoulli).unwrap();
//! let parts = [vec![50.0, 0.0], vec![-50.0, 0.0]].map(|mean| Gaussian::isotropic(mean, 1e-6));
//! let posterior = Mixture::new(&[1.0, 1.0], parts.into()).unwrap();
//! let found = predict(&network, &posterior, &[1.0], Averaging::Means).unwrap();
//! let Predictions::Binary { probability, entropy, .. } = &found.predictions else { panic!() };
//! assert!((probability[0] - 0.5).abs() < 1e-6 && (entropy[0] - 2f64.ln()).abs() < 1e-6);
//! assert!(found.expected_entropy[0] < 1e-6); // all of it is disagreement
//! ```

mod together;

pub use together::{help, predict_together};

use super::likelihood::{NetworkLikelihood, log_sum_exp, logistic};
use super::network::Network;
use super::pass::Pass;
use super::train::noise::{BLOCK, Stream, StreamPurpose};
use natmix::Error;
use natmix::family::{AnyCovariance, Mixture};
use natmix_models::predict::{LEVELS, Predictions, entropy_of, quantile};
use natmix_models::prior::LOG_TAU;
use rayon::prelude::*;

/// Rows per task.
const ROWS: usize = 256;
/// Rows that are predicted together; for more rows the same weights are drawn again.
const TURN: usize = 1 << 15;

/// How to average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Averaging {
    /// Over draws from each component.
    Draws {
        /// Draws per component.
        each: usize,
        /// Their seed.
        seed: u64,
    },
    /// Over the means of the components alone.
    Means,
}

/// Predictions, with the expected entropy of a single draw.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPredictions {
    /// The averaged predictions.
    pub predictions: Predictions,
    /// Mean entropy of a single draw's prediction, in nats; the rest of the entropy is mutual information. Empty for numbers.
    pub expected_entropy: Vec<f64>,
    /// Standard deviation over draws of the likeliest class's probability; empty for numbers.
    pub confidence_sd: Vec<f64>,
    /// Outputs and noise of every draw, for densities of numbers; empty for classes.
    gaussian: Vec<(f64, f64)>,
    weights: Vec<f64>,
}

impl NetworkPredictions {
    /// Log predictive density of each outcome.
    pub fn log_density(&self, outcome: &[f32]) -> Vec<f64> {
        let floor = f64::MIN_POSITIVE;
        match &self.predictions {
            Predictions::Binary { probability, .. } => {
                let of = |(p, y): (&f64, &f32)| if *y > 0.5 { p.max(floor).ln() } else { (1.0 - p).max(floor).ln() };
                probability.iter().zip(outcome).map(of).collect()
            }
            Predictions::Classes { classes, probability, .. } => {
                let rows = probability.chunks_exact(*classes).zip(outcome);
                rows.map(|(p, y)| p.get(*y as usize).map_or(f64::NAN, |p| p.max(floor).ln())).collect()
            }
            _ => {
                let draws = self.weights.len();
                let density = |(y, draws): (&f32, &[(f64, f64)])| {
                    let terms = || {
                        draws.iter().zip(&self.weights).map(|((eta, sigma), w)| {
                            w.ln() - sigma.ln() - 0.5 * LOG_TAU - 0.5 * ((f64::from(*y) - eta) / sigma).powi(2)
                        })
                    };
                    let most = terms().fold(f64::NEG_INFINITY, f64::max);
                    most + terms().map(|t| (t - most).exp()).sum::<f64>().ln()
                };
                outcome.iter().zip(self.gaussian.chunks_exact(draws)).map(density).collect()
            }
        }
    }

    /// Mutual information of class and weights at each row, in nats.
    pub fn mutual_information(&self) -> Vec<f64> {
        let entropy = match &self.predictions {
            Predictions::Binary { entropy, .. } | Predictions::Classes { entropy, .. } => entropy,
            _ => return Vec::new(),
        };
        entropy.iter().zip(&self.expected_entropy).map(|(all, noise)| (all - noise).max(0.0)).collect()
    }
}

/// Predicts rows (features row by row) with a posterior of the network's weights.
pub fn predict(network: &Network, q: &Mixture, x: &[f32], averaging: Averaging) -> Result<NetworkPredictions, Error> {
    let parts: Vec<(usize, f64)> = q.weights().into_iter().enumerate().collect();
    predict_by(network, q, &parts, x, averaging)
}

/// Predictions of each component alone, from the draws that [`predict`] uses: averaged by weight they are its
/// predictions.
pub fn predict_each(
    network: &Network,
    q: &Mixture,
    x: &[f32],
    averaging: Averaging,
) -> Result<Vec<NetworkPredictions>, Error> {
    (0..q.len()).map(|k| predict_by(network, q, &[(k, 1.0)], x, averaging)).collect()
}

/// Predictions by some of the components, each with its weight.
fn predict_by(
    network: &Network,
    q: &Mixture,
    parts: &[(usize, f64)],
    x: &[f32],
    averaging: Averaging,
) -> Result<NetworkPredictions, Error> {
    let inputs = network.inputs();
    if q.dim() != network.weights() || !x.len().is_multiple_of(inputs) {
        return Err(Error::InvalidInput(format!(
            "a posterior of {} weights and {} features for a network of {} weights and {inputs} features",
            q.dim(),
            x.len(),
            network.weights()
        )));
    }
    let each = match averaging {
        Averaging::Means => 1,
        Averaging::Draws { each: 0, .. } => return Err(Error::InvalidInput("at least one draw is needed".into())),
        Averaging::Draws { each, .. } => each,
    };
    let weights: Vec<f64> = parts.iter().flat_map(|(_, w)| std::iter::repeat_n(w / each as f64, each)).collect();
    let rows = sums_of_rows(network, q, (parts, &weights), x, averaging);
    Ok(gather(network.likelihood(), rows, weights))
}

/// The sums of each row over all draws, of which each has a weight.
fn sums_of_rows(
    network: &Network,
    q: &Mixture,
    (parts, weights): (&[(usize, f64)], &[f64]),
    x: &[f32],
    averaging: Averaging,
) -> Vec<RowSums> {
    let (inputs, each) = (network.inputs(), weights.len() / parts.len());
    let mut rows: Vec<RowSums> = Vec::new();
    rows.resize_with(x.len() / inputs, || RowSums::new(network.likelihood(), weights.len()));
    let mut w = vec![0.0; network.weights()];
    for (x, rows) in x.chunks(TURN * inputs).zip(rows.chunks_mut(TURN)) {
        for (draw, weight) in weights.iter().enumerate() {
            weights_of(q, parts[draw / each].0, draw % each, averaging, &mut w);
            x.par_chunks(ROWS * inputs).zip(rows.par_chunks_mut(ROWS)).for_each(|(x, rows)| {
                let n = rows.len();
                let mut units = vec![0.0; Pass::<f32>::room(network, n)];
                let mut pass = Pass { network, rows: n, units: &mut units, deltas: &mut [], timer: None };
                pass.forward(&w, x);
                let noise = w.get(network.noise_at()).map_or(0.0, |w| f64::from(*w).exp());
                for (r, row) in rows.iter_mut().enumerate() {
                    row.add(network.likelihood(), pass.outputs(), (r, n), *weight, noise);
                }
            });
        }
    }
    rows
}

/// Weights of one draw, or the mean.
pub(crate) fn weights_of(q: &Mixture, k: usize, draw: usize, averaging: Averaging, w: &mut [f32]) {
    let component = &q.components()[k];
    let mean = component.mean();
    let Averaging::Draws { seed, .. } = averaging else {
        w.iter_mut().zip(mean).for_each(|(w, m)| *w = *m as f32);
        return;
    };
    match component.precision() {
        AnyCovariance::Diag(prec) => {
            let stream = Stream::new(seed, StreamPurpose::Prediction, q.ids()[k], draw as u64, 0);
            const CHUNK: usize = 512 * BLOCK;
            w.par_chunks_mut(CHUNK).enumerate().for_each(|(i, w)| {
                let first = i * CHUNK;
                stream.normals(first, w);
                for (w, (m, root)) in w.iter_mut().zip(mean[first..].iter().zip(&prec.root()[first..])) {
                    *w = (m + f64::from(*w) / root) as f32;
                }
            });
        }
        _ => {
            // Small networks: drawn by the engine, with one seed per draw.
            let key = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add((draw * q.len() + k) as u64);
            let z = Mixture::single(component.clone()).sample(1, key);
            w.iter_mut().zip(&z).for_each(|(w, z)| *w = *z as f32);
        }
    }
}

/// Sums of one row.
struct RowSums {
    /// Mean probabilities, then those of their squares; for two classes of class 1 alone.
    sums: Vec<f64>,
    entropy: f64,
    outputs: Vec<(f64, f64)>,
}

impl RowSums {
    fn new(likelihood: NetworkLikelihood, draws: usize) -> Self {
        let (sums, outputs) = match likelihood {
            NetworkLikelihood::Bernoulli => (2, 0),
            NetworkLikelihood::Categorical { classes } => (2 * classes, 0),
            NetworkLikelihood::Gaussian => (0, draws),
        };
        Self { sums: vec![0.0; sums], entropy: 0.0, outputs: Vec::with_capacity(outputs) }
    }

    fn add(&mut self, likelihood: NetworkLikelihood, outputs: &[f32], (r, n): (usize, usize), weight: f64, noise: f64) {
        match likelihood {
            NetworkLikelihood::Bernoulli => {
                let (_, p) = logistic(f64::from(outputs[r]));
                self.sums[0] += weight * p;
                self.sums[1] += weight * p * p;
                self.entropy += weight * entropy_of(&[p, 1.0 - p]);
            }
            NetworkLikelihood::Categorical { classes } => {
                let (most, total) = log_sum_exp(outputs, r, n);
                let mut entropy = 0.0;
                let (sums, squares) = self.sums.split_at_mut(classes);
                for ((sum, square), eta) in sums.iter_mut().zip(squares).zip(outputs[r..].iter().step_by(n)) {
                    let log_p = f64::from(*eta) - most - total.ln();
                    let p = log_p.exp();
                    *sum += weight * p;
                    *square += weight * p * p;
                    entropy -= p * log_p;
                }
                self.entropy += weight * entropy;
            }
            NetworkLikelihood::Gaussian => self.outputs.push((f64::from(outputs[r]), noise)),
        }
    }
}

fn gather(likelihood: NetworkLikelihood, rows: Vec<RowSums>, weights: Vec<f64>) -> NetworkPredictions {
    let expected_entropy = match likelihood {
        NetworkLikelihood::Gaussian => Vec::new(),
        _ => rows.iter().map(|row| row.entropy).collect(),
    };
    let deviation = |mean: f64, square: f64| (square - mean * mean).max(0.0).sqrt();
    let confidence_sd: Vec<f64> = match likelihood {
        NetworkLikelihood::Gaussian => Vec::new(),
        NetworkLikelihood::Bernoulli => rows.iter().map(|row| deviation(row.sums[0], row.sums[1])).collect(),
        NetworkLikelihood::Categorical { classes } => {
            let likeliest = |p: &[f64]| (1..classes).fold(0, |best, c| if p[c] > p[best] { c } else { best });
            let of_row = |row: &RowSums| {
                let best = likeliest(&row.sums);
                deviation(row.sums[best], row.sums[classes + best])
            };
            rows.iter().map(of_row).collect()
        }
    };
    let predictions = match likelihood {
        NetworkLikelihood::Bernoulli => Predictions::Binary {
            probability: rows.iter().map(|row| row.sums[0].clamp(0.0, 1.0)).collect(),
            sd: confidence_sd.clone(),
            entropy: rows.iter().map(|row| entropy_of(&[row.sums[0], 1.0 - row.sums[0]])).collect(),
        },
        NetworkLikelihood::Categorical { classes } => Predictions::Classes {
            classes,
            probability: rows.iter().flat_map(|row| row.sums[..classes].iter().copied()).collect(),
            entropy: rows.iter().map(|row| entropy_of(&row.sums[..classes])).collect(),
        },
        NetworkLikelihood::Gaussian => {
            let found: Vec<[f64; 5]> = rows.par_iter().map(|row| summarise(&row.outputs, &weights)).collect();
            let [mean, sd, q05, q50, q95] = std::array::from_fn(|j| found.iter().map(|row| row[j]).collect());
            Predictions::Real { mean, sd, q05, q50, q95 }
        }
    };
    let gaussian = rows.into_iter().flat_map(|row| row.outputs).collect();
    NetworkPredictions { predictions, expected_entropy, confidence_sd, gaussian, weights }
}

/// Mean, standard deviation and quantiles of a mixture of normals.
fn summarise(outputs: &[(f64, f64)], weights: &[f64]) -> [f64; 5] {
    let average = |f: &dyn Fn(&(f64, f64)) -> f64| outputs.iter().zip(weights).map(|(o, w)| w * f(o)).sum::<f64>();
    let mean = average(&|o| o.0);
    let sd = average(&|o| (o.0 - mean).powi(2) + o.1 * o.1).sqrt();
    let (eta, sigma): (Vec<f64>, Vec<f64>) = outputs.iter().copied().unzip();
    let [low, middle, high] = LEVELS.map(|level| quantile(level, &eta, &sigma, weights, mean, sd));
    [mean, sd, low, middle, high]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;
    use natmix::family::{Diag, Gaussian};

    fn posterior(network: &Network, sd: f64) -> Mixture {
        let part = |shift: f64| {
            let mean = (0..network.weights()).map(|i| (0.9 * i as f64 + shift).sin()).collect();
            let prec = Diag::new(vec![sd.powi(-2); network.weights()]).unwrap();
            Gaussian::new(mean, prec)
        };
        Mixture::new(&[0.25, 0.75], vec![part(0.0), part(1.0)]).unwrap()
    }

    #[test]
    fn means_are_averaged_by_weight() {
        let network = Network::new(2, &[3], Activation::Tanh, NetworkLikelihood::Categorical { classes: 3 }).unwrap();
        let q = posterior(&network, 0.1);
        let x: Vec<f32> = (0..1000).map(|i| (0.3 * i as f32).cos()).collect();
        let both = predict(&network, &q, &x, Averaging::Means).unwrap();
        let alone: Vec<Vec<f64>> = q
            .components()
            .iter()
            .map(|c| match predict(&network, &Mixture::single(c.clone()), &x, Averaging::Means).unwrap().predictions {
                Predictions::Classes { probability, .. } => probability,
                _ => panic!(),
            })
            .collect();
        let Predictions::Classes { probability, .. } = &both.predictions else { panic!() };
        for (i, p) in probability.iter().enumerate() {
            assert!((p - 0.25 * alone[0][i] - 0.75 * alone[1][i]).abs() < 1e-12);
        }
        assert!(probability.chunks_exact(3).all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-6));
        // The same from each component by itself, with draws too.
        let averaging = Averaging::Draws { each: 3, seed: 5 };
        let drawn = predict(&network, &q, &x, averaging).unwrap();
        let each = predict_each(&network, &q, &x, averaging).unwrap();
        let probability_of = |found: &NetworkPredictions| match &found.predictions {
            Predictions::Classes { probability, .. } => probability.clone(),
            _ => panic!(),
        };
        let (whole, parts) = (probability_of(&drawn), each.iter().map(probability_of).collect::<Vec<_>>());
        for (i, p) in whole.iter().enumerate() {
            assert!((p - 0.25 * parts[0][i] - 0.75 * parts[1][i]).abs() < 1e-12);
        }
        assert!(drawn.confidence_sd.len() == 500 && drawn.confidence_sd.iter().all(|sd| *sd > 0.0 && *sd < 0.5));
        // Entropy is at least the expected entropy (Jensen).
        assert!(both.mutual_information().iter().any(|m| *m > 1e-3));
        let density = both.log_density(&vec![2.0; 500]);
        assert!((density[7] - probability[23].ln()).abs() < 1e-12);
    }

    #[test]
    fn draws_of_numbers_make_a_mixture_of_normals() {
        let network = Network::new(1, &[2], Activation::Relu, NetworkLikelihood::Gaussian).unwrap();
        let q = posterior(&network, 0.2);
        let averaging = Averaging::Draws { each: 400, seed: 3 };
        let found = predict(&network, &q, &[0.4], averaging).unwrap();
        let Predictions::Real { mean, sd, q05, q50, q95 } = &found.predictions else { panic!() };
        assert!(q05[0] < q50[0] && q50[0] < q95[0] && sd[0] > 0.0);
        // The density integrates to one, has this mean, and 5% below its quantile.
        let grid: Vec<f32> = (0..4000).map(|i| (mean[0] + (f64::from(i) - 2000.0) * 0.005 * sd[0]) as f32).collect();
        let many = NetworkPredictions {
            gaussian: grid.iter().flat_map(|_| found.gaussian.iter().copied()).collect(),
            ..found.clone()
        };
        let density: Vec<f64> = many.log_density(&grid).iter().map(|d| d.exp() * 0.005 * sd[0]).collect();
        let total: f64 = density.iter().sum();
        let centre: f64 = density.iter().zip(&grid).map(|(d, y)| d * f64::from(*y)).sum();
        let below: f64 = density.iter().zip(&grid).filter(|(_, y)| f64::from(**y) < q05[0]).map(|(d, _)| d).sum();
        assert!((total - 1.0).abs() < 1e-3 && (centre - mean[0]).abs() < 1e-2 * sd[0] && (below - 0.05).abs() < 3e-3);
        assert!(predict(&network, &q, &[0.4], Averaging::Draws { each: 0, seed: 1 }).is_err());
    }

    #[test]
    fn batches_and_threads_do_not_change_results() {
        let network = Network::new(1, &[120], Activation::Relu, NetworkLikelihood::Bernoulli).unwrap();
        let q = posterior(&network, 0.1);
        let x: Vec<f32> = (0..TURN + 100).map(|i| (0.01 * i as f32).sin()).collect();
        let averaging = Averaging::Draws { each: 2, seed: 3 };
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| predict(&network, &q, &x, averaging).unwrap())
        };
        let whole = run(1);
        assert_eq!(whole, run(2));
        let last = predict(&network, &q, &x[TURN..], averaging).unwrap();
        assert_eq!(last.log_density(&[1.0; 100]), whole.log_density(&vec![1.0; TURN + 100])[TURN..]);
    }
}
