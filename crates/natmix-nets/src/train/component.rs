//! One component in training: its state, draws, passes and steps.

use super::super::likelihood::NetworkLikelihood;
use super::super::network::Network;
use super::super::pass::panel_width;
use super::blocks::{BlockSums, BlockWork, MOST_ROWS, RowBlock};
use super::config::{CurvatureKind, Optimiser, StepConstants, TrainConfig};
use super::kernels::{self, NaturalStepConstants, Overlap, WeightPart};
use super::noise::{BLOCK, Stream, StreamPurpose};
use super::panel::{Panels, What};
use super::timing::{TrainingTimer, TrainingWork};
use natmix_models::linear::noise_prior;
use natmix_models::prior::LOG_TAU;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// Weights per drawing task.
const CHUNK: usize = 512 * BLOCK;
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
    /// One for each block of a minibatch.
    pub blocks: Vec<BlockWork>,
    /// Log likelihood of the batch, mean over draws.
    pub log_likelihood: f64,
    pub timer: TrainingTimer,
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

    /// Moves the component, after [`ComponentWork::evaluate`]. `sums` has the derivatives of each block if they were computed before.
    pub fn step(&mut self, of_step: Step<'_>, sums: Option<&BlockSums>, overlap: Option<Overlap<'_>>) {
        let Step { network, config, work, panels, .. } = of_step;
        let mut numbers = of_step.numbers;
        numbers.adam.scale = (1.0 / of_step.total()) as f32;
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
                    let mut room = room_of_thread(panels);
                    let panels = |what| Panels { of_step, layer: *layer, l, unit: i * width, what };
                    let place = |len: usize, first: usize| overlap.map(|o| o.part(first, len));
                    let parts = [
                        (What::Weights, WeightPart { mean, prec, velocity }, layer.start + i * chunk),
                        (
                            What::Biases,
                            WeightPart { mean: mean_b, prec: prec_b, velocity: velocity_b },
                            layer.biases() + i * width,
                        ),
                    ];
                    for (what, part, first) in parts {
                        let len = part.mean.len();
                        let (g, h, rest) = three(&mut room, len);
                        match sums {
                            Some(sums) => sums.add_up(of_step.batch.len(), first, g, h),
                            None => panels(what).of_all_blocks(g, h, rest, (part.mean, part.prec), first),
                        }
                        work.timer.measure(TrainingWork::Updates, || match adam {
                            true => kernels::adam(part, g, numbers.adam),
                            false => kernels::natural(part, g, h, place(len, first), numbers.natural),
                        });
                    }
                },
            );
        }
        if network.likelihood() == NetworkLikelihood::Gaussian {
            self.step_noise(&of_step, numbers, overlap, adam);
        }
    }

    /// Computes the derivatives of some blocks, without moving the component.
    pub fn derivatives(&self, of_step: Step<'_>, blocks: Range<usize>, sums: &mut BlockSums) {
        let Step { network, panels, .. } = of_step;
        for (block, (g, h)) in blocks.clone().zip(sums.of_blocks(blocks)) {
            for (l, layer) in network.layers().iter().enumerate() {
                let width = panel_width(layer.outputs);
                let (chunk, split) = (layer.inputs * width, layer.inputs * layer.outputs);
                let (g, g_b) = g[layer.start..layer.end()].split_at_mut(split);
                let (h, h_b) = h[layer.start..layer.end()].split_at_mut(split);
                let weights = g.par_chunks_mut(chunk).zip(h.par_chunks_mut(chunk));
                let biases = g_b.par_chunks_mut(width).zip(h_b.par_chunks_mut(width));
                weights.zip(biases).enumerate().for_each(|(i, ((g, h), (g_b, h_b)))| {
                    let mut room = room_of_thread(panels);
                    let parts = [
                        (What::Weights, g, h, layer.start + i * chunk),
                        (What::Biases, g_b, h_b, layer.biases() + i * width),
                    ];
                    for (what, g, h, first) in parts {
                        let here = first..first + g.len();
                        let (mean, prec) = (&self.mean[here.clone()], &self.prec[here]);
                        let panels = Panels { of_step, layer: *layer, l, unit: i * width, what };
                        panels.of_block(block, g, h, &mut room, (mean, prec), first);
                    }
                });
            }
        }
    }

    /// The noise has its own prior, and a Fisher information of 2 per row.
    fn step_noise(&mut self, of_step: &Step<'_>, numbers: StepConstants, overlap: Option<Overlap<'_>>, adam: bool) {
        let (at, draws) = (of_step.network.noise_at(), of_step.config.draws as f64);
        let (_, slope, curvature) = noise_prior(f64::from(self.mean[at]));
        let mut by_noise = 0.0;
        for block in of_step.blocks() {
            by_noise += block.by_noise.iter().sum::<f64>();
        }
        let g = of_step.scale * by_noise / draws + slope;
        let part = WeightPart {
            mean: &mut self.mean[at..=at],
            prec: &mut self.prec[at..=at],
            velocity: &mut self.velocity[at..=at],
        };
        if adam {
            kernels::adam(part, &[g as f32], numbers.adam);
        } else {
            let natural = NaturalStepConstants { prior: 0.0, stein: false, ..numbers.natural };
            let h = 2.0 * of_step.total() - curvature;
            kernels::natural(part, &[g as f32], &[h as f32], overlap.map(|o| o.part(at, 1)), natural);
        }
    }
}

/// What a step of one component reads.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub network: &'a Network,
    pub config: &'a TrainConfig,
    pub work: &'a ComponentWork,
    /// The blocks of the minibatch that are not empty.
    pub batch: &'a [RowBlock],
    /// Rows of the table per row of the minibatch.
    pub scale: f64,
    pub numbers: StepConstants,
    /// One buffer per thread.
    pub panels: &'a [Mutex<Vec<f32>>],
}

impl<'a> Step<'a> {
    /// Rows of the table.
    fn total(&self) -> f64 {
        let rows: usize = self.batch.iter().map(|block| block.rows).sum();
        (self.scale * rows as f64).round()
    }

    fn blocks(&self) -> impl Iterator<Item = &'a BlockWork> + use<'a> {
        self.work.blocks[..self.batch.len()].iter()
    }
}

fn room_of_thread(panels: &[Mutex<Vec<f32>>]) -> MutexGuard<'_, Vec<f32>> {
    let thread = rayon::current_thread_index().unwrap_or(0) % panels.len();
    // A lock poisoned by a panic elsewhere protects only numbers that are overwritten here.
    panels[thread].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn three(room: &mut [f32], len: usize) -> (&mut [f32], &mut [f32], &mut [f32]) {
    let (g, rest) = room.split_at_mut(len);
    let (h, rest) = rest.split_at_mut(len);
    (g, h, rest)
}

impl ComponentWork {
    pub fn new(network: &Network, config: &TrainConfig) -> Self {
        let plain = config.optimiser == Optimiser::Adam;
        Self {
            samples: vec![0.0; if plain { 0 } else { config.draws * network.weights() }],
            blocks: (0..config.blocks()).map(|_| BlockWork::new(network, config)).collect(),
            log_likelihood: 0.0,
            timer: TrainingTimer::default(),
        }
    }

    /// That of a component that another process trains.
    pub fn elsewhere() -> Self {
        Self { samples: vec![], blocks: vec![], log_likelihood: 0.0, timer: TrainingTimer::default() }
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

    /// Forward and backward passes through some blocks, for every draw.
    pub fn evaluate(
        &mut self,
        network: &Network,
        component: &NetworkComponent,
        config: &TrainConfig,
        (batch, blocks): (&[RowBlock], Range<usize>),
    ) {
        let Self { samples, blocks: work, timer, .. } = self;
        for block in blocks {
            work[block].evaluate(network, &component.mean, samples, config, &batch[block], timer);
        }
    }

    /// Adds up the log likelihoods of the blocks.
    pub fn add_up(&mut self, blocks: usize) {
        self.log_likelihood = self.blocks[..blocks].iter().map(|block| block.log_likelihood).sum();
    }
}

impl TrainConfig {
    /// Blocks of a whole minibatch.
    pub(super) fn blocks(&self) -> usize {
        self.batch.div_ceil(MOST_ROWS)
    }

    /// Whether backward passes start from Gauss-Newton seeds.
    pub(super) fn weighs_rows(&self) -> bool {
        self.optimiser == Optimiser::Vogn && self.curvature == CurvatureKind::GaussNewton
    }
}
