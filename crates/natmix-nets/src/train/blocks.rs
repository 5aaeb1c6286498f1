//! The blocks of rows that a minibatch is cut into: their rows, what is computed of each, and the sums over them.

use super::super::examples::Examples;
use super::super::likelihood::{NetworkLikelihood, WeightedOutcomes, logistic};
use super::super::network::Network;
use super::super::pass::Pass;
use super::config::{Optimiser, TrainConfig};
use super::kernels;
use super::timing::{TrainingTimer, TrainingWork};
use std::ops::Range;

/// Smallest Gauss-Newton seed of a row: its derivative is divided by the seed.
const LEAST_SEED: f64 = 1e-4;

/// What is computed of a block of rows.
pub(crate) struct BlockWork {
    pub units: Vec<f32>,
    pub squares: Vec<f32>,
    pub deltas: Vec<f32>,
    /// Derivative of each row's log likelihood with respect to the output, divided by the row's seed.
    pub factors: Vec<f32>,
    /// Derivative with respect to the logarithm of the noise, summed over the block's rows, for each draw.
    pub by_noise: Vec<f64>,
    /// Log likelihood of the block, mean over draws.
    pub log_likelihood: f64,
}

/// Rows of a step: all of a minibatch of at most [`MOST_ROWS`], else a part of it. Sums over a minibatch are made block by block.
pub(crate) struct RowBlock {
    pub rows: usize,
    features: usize,
    pub x: Vec<f32>,
    pub squares: Vec<f32>,
    outcome: Vec<f32>,
    wants_squares: bool,
}

/// Most rows of a block. Products of fewer rows are slower, and the sums of each block take time to add up or to send.
pub(crate) const MOST_ROWS: usize = 128;

impl RowBlock {
    /// Room for the blocks of a minibatch.
    pub fn all(network: &Network, config: &TrainConfig) -> Vec<Self> {
        let wants_squares = config.optimiser == Optimiser::Vogn;
        let block = |_| {
            let (features, most) = (network.inputs(), config.batch.min(MOST_ROWS));
            let squares = vec![0.0; if wants_squares { features * most } else { 0 }];
            Self { rows: 0, features, x: vec![0.0; features * most], squares, outcome: vec![0.0; most], wants_squares }
        };
        (0..config.blocks()).map(block).collect()
    }

    /// Fills the blocks with these rows; the last blocks may stay empty. Returns how many are not.
    pub fn gather(blocks: &mut [Self], data: &Examples, rows: &[u32], timer: &TrainingTimer) -> usize {
        let parts = rows.chunks(MOST_ROWS);
        let filled = parts.len();
        for (block, rows) in blocks.iter_mut().zip(parts) {
            block.fill(data, rows, timer);
        }
        filled
    }

    fn fill(&mut self, data: &Examples, rows: &[u32], timer: &TrainingTimer) {
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

/// Gradient and curvature of every block of a minibatch, where processes share them.
#[derive(Default)]
pub(crate) struct BlockSums {
    /// Numbers per gradient.
    weights: usize,
    /// Gradient and curvature, block by block.
    numbers: Vec<f32>,
}

impl BlockSums {
    pub fn new(weights: usize, blocks: usize) -> Self {
        Self { weights, numbers: vec![0.0; 2 * weights * blocks] }
    }

    /// Gradient and curvature of some blocks.
    pub fn of_blocks(&mut self, blocks: Range<usize>) -> impl Iterator<Item = (&mut [f32], &mut [f32])> {
        let n = self.weights;
        self.part(blocks).chunks_exact_mut(2 * n).map(move |block| block.split_at_mut(n))
    }

    /// The numbers of some blocks.
    pub fn part(&mut self, blocks: Range<usize>) -> &mut [f32] {
        &mut self.numbers[2 * self.weights * blocks.start..2 * self.weights * blocks.end]
    }

    /// Writes the sums over the first blocks for some weights, in the order in which one process adds them up.
    pub fn add_up(&self, blocks: usize, first: usize, g: &mut [f32], h: &mut [f32]) {
        for (at, block) in self.numbers.chunks_exact(2 * self.weights).take(blocks).enumerate() {
            let (own_g, own_h) = (&block[first..first + g.len()], &block[self.weights + first..][..h.len()]);
            if at == 0 {
                g.copy_from_slice(own_g);
                h.copy_from_slice(own_h);
            } else {
                kernels::add(g, own_g);
                kernels::add(h, own_h);
            }
        }
    }
}

impl BlockWork {
    /// What other processes need of a block beside its derivatives.
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        std::iter::once(self.log_likelihood).chain(self.by_noise.iter().copied())
    }

    /// What another process has computed.
    pub fn set_numbers(&mut self, numbers: &[f64]) {
        if let Some((first, rest)) = numbers.split_first() {
            self.log_likelihood = *first;
            self.by_noise.copy_from_slice(rest);
        }
    }

    pub fn new(network: &Network, config: &TrainConfig) -> Self {
        let rows = config.batch.min(MOST_ROWS);
        let room = config.draws * Pass::<f32>::room(network, rows);
        Self {
            units: vec![0.0; room],
            squares: vec![0.0; if config.optimiser == Optimiser::Vogn { room } else { 0 }],
            deltas: vec![0.0; room],
            factors: vec![0.0; config.draws * rows],
            by_noise: vec![0.0; config.draws],
            log_likelihood: 0.0,
        }
    }

    pub fn evaluate(
        &mut self,
        network: &Network,
        mean: &[f32],
        samples: &[f32],
        config: &TrainConfig,
        batch: &RowBlock,
        timer: &TrainingTimer,
    ) {
        let (rows, room) = (batch.rows, Pass::<f32>::room(network, batch.rows));
        let likelihood = network.likelihood();
        let mut sum = 0.0;
        for s in 0..config.draws {
            let n = mean.len();
            let w = if samples.is_empty() { mean } else { &samples[s * n..(s + 1) * n] };
            let part = s * room..(s + 1) * room;
            let (units, deltas) = (&mut self.units[part.clone()], &mut self.deltas[part.clone()]);
            let mut pass = Pass { network, rows, units, deltas, timer: Some(timer) };
            pass.forward(w, batch.x());
            let log_noise = w.get(network.noise_at()).map_or(0.0, |w| f64::from(*w));
            let (outputs, delta) = pass.outputs_and_deltas();
            let evaluate = || likelihood.evaluate(outputs, Some(&mut *delta), batch.outcome(), log_noise);
            sum += timer.measure(TrainingWork::Units, evaluate);
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
                timer.measure(TrainingWork::Squares, || kernels::square(squares, units));
            }
        }
        self.log_likelihood = sum / config.draws as f64;
    }
}
