//! One component in training: its state, draws, passes and steps.

use super::super::examples::Examples;
use super::super::likelihood::{NetworkLikelihood, WeightedOutcomes, logistic};
use super::super::network::Network;
use super::super::pass::{Pass, panel_width};
use super::config::{CurvatureKind, Optimiser, StepConstants, TrainConfig};
use super::kernels::{self, NaturalStepConstants, Overlap, WeightPart};
use super::noise::{BLOCK, Stream, StreamPurpose};
use super::panel::WeightPanel;
use super::timing::{TrainingTimer, TrainingWork};
use natmix_models::linear::noise_prior;
use natmix_models::prior::LOG_TAU;
use rayon::prelude::*;
use std::sync::Mutex;

/// Weights per drawing task.
const CHUNK: usize = 512 * BLOCK;
/// Smallest Gauss-Newton seed of a row: its derivative is divided by the seed.
const LEAST_SEED: f64 = 1e-4;

/// Mean, precision and velocity of every weight; for Adam the weight, second and first moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkComponent {
    pub mean: Vec<f32>,
    pub prec: Vec<f32>,
    pub velocity: Vec<f32>,
}

/// Work space of one component.
pub(crate) struct ComponentWork {
    /// Drawn weights, draw by draw; empty for plain networks.
    pub samples: Vec<f32>,
    pub units: Vec<f32>,
    pub squares: Vec<f32>,
    pub deltas: Vec<f32>,
    /// Derivative of each row's log likelihood with respect to the output, divided by the row's seed.
    pub factors: Vec<f32>,
    /// Derivative with respect to the logarithm of the noise, summed over the batch's rows, for each draw.
    by_noise: Vec<f64>,
    /// Log likelihood of the batch, mean over draws.
    pub log_likelihood: f64,
    pub timer: TrainingTimer,
}

/// The rows of a step.
pub(crate) struct RowBatch {
    pub rows: usize,
    features: usize,
    pub x: Vec<f32>,
    pub squares: Vec<f32>,
    outcome: Vec<f32>,
    wants_squares: bool,
}

impl RowBatch {
    pub fn new(network: &Network, config: &TrainConfig) -> Self {
        let (features, room) = (network.inputs(), network.inputs() * config.batch);
        let wants_squares = config.optimiser == Optimiser::Vogn;
        let squares = vec![0.0; if wants_squares { room } else { 0 }];
        Self { rows: 0, features, x: vec![0.0; room], squares, outcome: vec![0.0; config.batch], wants_squares }
    }

    pub fn gather(&mut self, data: &Examples, rows: &[u32], timer: &TrainingTimer) {
        let d = self.features;
        self.rows = rows.len();
        timer.measure(TrainingWork::Rows, || {
            for ((x, y), &row) in self.x.chunks_exact_mut(d).zip(&mut self.outcome).zip(rows) {
                x.copy_from_slice(&data.x()[row as usize * d..(row as usize + 1) * d]);
                *y = data.outcome()[row as usize];
            }
        });
        if self.wants_squares {
            timer.measure(TrainingWork::Squares, || kernels::square(&mut self.squares, &self.x[..d * rows.len()]));
        }
    }

    fn x(&self) -> &[f32] {
        &self.x[..self.rows * self.features]
    }
    fn outcome(&self) -> WeightedOutcomes<'_, f32> {
        WeightedOutcomes { outcome: &self.outcome[..self.rows], weights: None }
    }
}

impl NetworkComponent {
    /// Initial weights have variance gain / fan-in; biases are zero.
    pub fn start(network: &Network, config: &TrainConfig, index: u64) -> Self {
        let n = network.weights();
        let mut mean = vec![0.0; n];
        Stream::new(config.seed, StreamPurpose::Start, index, 0, 0).normals(0, &mut mean);
        for layer in network.layers() {
            let sd = (network.activation().gain() / layer.inputs as f64).sqrt() as f32;
            mean[layer.start..layer.biases()].iter_mut().for_each(|m| *m *= sd);
            mean[layer.biases()..layer.end()].fill(0.0);
        }
        mean[network.noise_at()..].fill(0.0);
        let first = if config.optimiser == Optimiser::Adam { 0.0 } else { config.first_precision as f32 };
        Self { mean, prec: vec![first; n], velocity: vec![0.0; n] }
    }

    /// KL divergence from the prior; for the noise with the prior's density at the mean.
    pub fn kl(&self, network: &Network, config: &TrainConfig) -> f64 {
        let mut sum = 0.0;
        for (layer, prior) in network.layers().iter().zip(&config.prior_precision) {
            for (m, s) in self.mean[layer.start..layer.end()].iter().zip(&self.prec[layer.start..layer.end()]) {
                let (m, s) = (f64::from(*m), f64::from(*s));
                sum += 0.5 * (prior * (m * m + 1.0 / s) - 1.0 + (s / prior).ln());
            }
        }
        for (m, s) in self.mean[network.noise_at()..].iter().zip(&self.prec[network.noise_at()..]) {
            sum -= noise_prior(f64::from(*m)).0 + 0.5 * (LOG_TAU + 1.0 - f64::from(*s).ln());
        }
        sum
    }

    /// Moves the component, after [`ComponentWork::evaluate`].
    #[allow(clippy::too_many_arguments)]
    pub fn step(
        &mut self,
        network: &Network,
        config: &TrainConfig,
        work: &ComponentWork,
        batch: &RowBatch,
        scale: f64,
        numbers: StepConstants,
        overlap: Option<Overlap<'_>>,
        panels: &[Mutex<Vec<f32>>],
    ) {
        let total = (scale * batch.rows as f64).round();
        let mut numbers = numbers;
        numbers.adam.scale = (1.0 / total) as f32;
        let adam = config.optimiser == Optimiser::Adam;
        for (l, layer) in network.layers().iter().enumerate() {
            numbers.natural.prior = config.prior_precision[l] as f32;
            let width = panel_width(layer.outputs);
            let (whole, split) = (layer.start..layer.end(), layer.inputs * layer.outputs);
            let (mean, mean_b) = self.mean[whole.clone()].split_at_mut(split);
            let (prec, prec_b) = self.prec[whole.clone()].split_at_mut(split);
            let (velocity, velocity_b) = self.velocity[whole].split_at_mut(split);
            let chunk = layer.inputs * width;
            let weights =
                mean.par_chunks_mut(chunk).zip(prec.par_chunks_mut(chunk)).zip(velocity.par_chunks_mut(chunk));
            let biases =
                (mean_b.par_chunks_mut(width).zip(prec_b.par_chunks_mut(width))).zip(velocity_b.par_chunks_mut(width));
            weights.zip(biases).enumerate().for_each(
                |(i, (((mean, prec), velocity), ((mean_b, prec_b), velocity_b)))| {
                    let thread = rayon::current_thread_index().unwrap_or(0) % panels.len();
                    // A lock poisoned by a panic elsewhere protects only numbers that are overwritten here.
                    let mut room = panels[thread].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    let first = layer.start + i * chunk;
                    let panel = WeightPanel { network, config, work, batch, layer: *layer, l, unit: i * width, scale };
                    let part = WeightPart { mean, prec, velocity };
                    let (g, h, rest) = three(&mut room, part.mean.len());
                    panel.weights(g, h, rest, &part, first);
                    let place = |len: usize, first: usize| overlap.map(|o| o.part(first, len));
                    let len = part.mean.len();
                    work.timer.measure(TrainingWork::Updates, || match adam {
                        true => kernels::adam(part, g, numbers.adam),
                        false => kernels::natural(part, g, h, place(len, first), numbers.natural),
                    });
                    let first = layer.biases() + i * width;
                    let part = WeightPart { mean: mean_b, prec: prec_b, velocity: velocity_b };
                    let len = part.mean.len();
                    let (g, h, rest) = three(&mut room, len);
                    panel.biases(g, h, rest, &part, first);
                    work.timer.measure(TrainingWork::Updates, || match adam {
                        true => kernels::adam(part, g, numbers.adam),
                        false => kernels::natural(part, g, h, place(len, first), numbers.natural),
                    });
                },
            );
        }
        if network.likelihood() == NetworkLikelihood::Gaussian {
            self.step_noise(network.noise_at(), work, scale, total, numbers, overlap, adam);
        }
    }

    /// The noise has its own prior, and a Fisher information of 2 per row.
    #[allow(clippy::too_many_arguments)]
    fn step_noise(
        &mut self,
        at: usize,
        work: &ComponentWork,
        scale: f64,
        total: f64,
        numbers: StepConstants,
        overlap: Option<Overlap<'_>>,
        adam: bool,
    ) {
        let draws = work.by_noise.len() as f64;
        let (_, slope, curvature) = noise_prior(f64::from(self.mean[at]));
        let g = scale * work.by_noise.iter().sum::<f64>() / draws + slope;
        let part = WeightPart {
            mean: &mut self.mean[at..=at],
            prec: &mut self.prec[at..=at],
            velocity: &mut self.velocity[at..=at],
        };
        if adam {
            kernels::adam(part, &[g as f32], numbers.adam);
        } else {
            let natural = NaturalStepConstants { prior: 0.0, stein: false, ..numbers.natural };
            let h = 2.0 * total - curvature;
            kernels::natural(part, &[g as f32], &[h as f32], overlap.map(|o| o.part(at, 1)), natural);
        }
    }
}

fn three(room: &mut [f32], len: usize) -> (&mut [f32], &mut [f32], &mut [f32]) {
    let (g, rest) = room.split_at_mut(len);
    let (h, rest) = rest.split_at_mut(len);
    (g, h, rest)
}

impl ComponentWork {
    pub fn new(network: &Network, config: &TrainConfig) -> Self {
        let plain = config.optimiser == Optimiser::Adam;
        let room = config.draws * Pass::<f32>::room(network, config.batch);
        Self {
            samples: vec![0.0; if plain { 0 } else { config.draws * network.weights() }],
            units: vec![0.0; room],
            squares: vec![0.0; if config.optimiser == Optimiser::Vogn { room } else { 0 }],
            deltas: vec![0.0; room],
            factors: vec![0.0; config.draws * config.batch],
            by_noise: vec![0.0; config.draws],
            log_likelihood: 0.0,
            timer: TrainingTimer::default(),
        }
    }

    /// Draws weights; draw `s` continues the stream where draw `s - 1` ends.
    pub fn draw(&mut self, component: &NetworkComponent, config: &TrainConfig, stream: Stream, plain: bool) {
        if plain {
            return;
        }
        let n = component.mean.len();
        // Draws begin at multiples of the stream's block size.
        let apart = n.next_multiple_of(BLOCK);
        for (s, sample) in self.samples.chunks_exact_mut(n).take(config.draws).enumerate() {
            sample.par_chunks_mut(CHUNK).enumerate().for_each(|(i, w)| {
                let range = i * CHUNK..i * CHUNK + w.len();
                let (mean, prec) = (&component.mean[range.clone()], &component.prec[range.clone()]);
                self.timer
                    .measure(TrainingWork::Draws, || kernels::draw(w, mean, prec, stream, s * apart + range.start));
            });
        }
    }

    /// Forward and backward passes for every draw; returns the mean log likelihood of the batch.
    pub fn evaluate(
        &mut self,
        network: &Network,
        component: &NetworkComponent,
        config: &TrainConfig,
        batch: &RowBatch,
    ) -> f64 {
        let (rows, room) = (batch.rows, Pass::<f32>::room(network, batch.rows));
        let likelihood = network.likelihood();
        let samples = std::mem::take(&mut self.samples);
        let mut sum = 0.0;
        for s in 0..config.draws {
            let n = component.mean.len();
            let w = if samples.is_empty() { &component.mean[..] } else { &samples[s * n..(s + 1) * n] };
            let part = s * room..(s + 1) * room;
            let (units, deltas) = (&mut self.units[part.clone()], &mut self.deltas[part.clone()]);
            let mut pass = Pass { network, rows, units, deltas, timer: Some(&self.timer) };
            pass.forward(w, batch.x());
            let log_noise = w.get(network.noise_at()).map_or(0.0, |w| f64::from(*w));
            let (outputs, delta) = pass.outputs_and_deltas();
            let evaluate = || likelihood.evaluate(outputs, Some(&mut *delta), batch.outcome(), log_noise);
            sum += self.timer.measure(TrainingWork::Units, evaluate);
            if likelihood == NetworkLikelihood::Gaussian {
                let by_noise = |r| likelihood.by_noise(outputs, batch.outcome(), log_noise, r);
                self.by_noise[s] = (0..rows).map(by_noise).sum();
            }
            if config.weighs_rows() {
                // Backward from the seed of the Gauss-Newton matrix; a row's gradient is a multiple of the result.
                let factors = &mut self.factors[s * rows..(s + 1) * rows];
                for ((factor, delta), eta) in factors.iter_mut().zip(delta).zip(outputs) {
                    let seed = match likelihood {
                        NetworkLikelihood::Bernoulli => {
                            let (_, share) = logistic(f64::from(*eta));
                            (share * (1.0 - share)).sqrt().max(LEAST_SEED)
                        }
                        _ => (-log_noise).exp(),
                    };
                    *factor = (f64::from(*delta) / seed) as f32;
                    *delta = seed as f32;
                }
            }
            pass.backward(w);
            if config.optimiser == Optimiser::Vogn {
                let (squares, units) = (&mut self.squares[part.clone()], &self.units[part]);
                self.timer.measure(TrainingWork::Squares, || kernels::square(squares, units));
            }
        }
        self.samples = samples;
        sum / config.draws as f64
    }
}

impl TrainConfig {
    /// Whether backward passes start from Gauss-Newton seeds.
    pub(super) fn weighs_rows(&self) -> bool {
        self.optimiser == Optimiser::Vogn && self.curvature == CurvatureKind::GaussNewton
    }
}
