//! One task's part of a step: gradient and curvature of some units of a layer.

use super::super::network::Layer;
use super::super::pass::{Input, add_column_sums};
use super::blocks::{BlockWork, RowBlock};
use super::component::Step;
use super::config::Optimiser;
use super::kernels;
use super::timing::TrainingWork;

/// What a panel is a part of.
#[derive(Clone, Copy)]
pub(super) enum What {
    Weights,
    Biases,
}

/// The weights or biases of the units `unit..` of layer `l`.
pub(super) struct Panels<'a> {
    pub of_step: Step<'a>,
    pub layer: Layer,
    pub l: usize,
    pub unit: usize,
    pub what: What,
}

impl<'a> Panels<'a> {
    /// Gradient and curvature over all blocks, each scaled to all rows; `first` is the index of the first weight, of whose mean and precision
    /// `at` are parts.
    pub fn of_all_blocks(&self, g: &mut [f32], h: &mut [f32], room: &mut [f32], at: (&[f32], &[f32]), first: usize) {
        self.of_block(0, g, h, room, at, first);
        for block in 1..self.of_step.batch.len() {
            let (own_g, rest) = room.split_at_mut(g.len());
            let (own_h, rest) = rest.split_at_mut(h.len());
            self.of_block(block, own_g, own_h, rest, at, first);
            kernels::add(g, own_g);
            kernels::add(h, own_h);
        }
    }

    /// The same over one block.
    pub fn of_block(
        &self,
        block: usize,
        g: &mut [f32],
        h: &mut [f32],
        room: &mut [f32],
        at: (&[f32], &[f32]),
        first: usize,
    ) {
        let Step { work, batch, .. } = self.of_step;
        let panel = WeightPanel { panels: self, work: &work.blocks[block], batch: &batch[block] };
        match self.what {
            What::Weights => panel.weights(g, h, room, at, first),
            What::Biases => panel.biases(g, h, room, at, first),
        }
    }
}

/// A panel and a block of rows.
struct WeightPanel<'a> {
    panels: &'a Panels<'a>,
    work: &'a BlockWork,
    batch: &'a RowBlock,
}

impl WeightPanel<'_> {
    /// Where layer `l` of draw `s` begins in the buffers.
    fn begin(&self, s: usize, l: usize) -> usize {
        let units: usize = self.panels.of_step.network.layers()[..l].iter().map(|layer| layer.outputs).sum();
        self.batch.rows * (s * self.panels.of_step.network.units() + units)
    }

    fn deltas(&self, s: usize, units: usize) -> &[f32] {
        let first = self.begin(s, self.panels.l) + self.panels.unit * self.batch.rows;
        &self.work.deltas[first..first + units * self.batch.rows]
    }

    /// The input of the layer, plain or squared.
    fn input<'b>(&'b self, s: usize, x: &'b [f32], units: &'b [f32]) -> Input<'b, f32> {
        let rows = self.batch.rows;
        match self.panels.l {
            0 => Input::Rows(&x[..rows * self.panels.layer.inputs]),
            l => Input::Units(&units[self.begin(s, l - 1)..self.begin(s, l - 1) + self.panels.layer.inputs * rows]),
        }
    }

    /// Derivatives of the rows' log likelihoods: the result of the backward pass times the rows' factors.
    fn scaled<'b>(&self, deltas: &'b [f32], room: &'b mut [f32], s: usize) -> &'b [f32] {
        if !self.panels.of_step.config.weighs_rows() {
            return deltas;
        }
        let rows = self.batch.rows;
        let room = &mut room[..deltas.len()];
        for (out, column) in room.chunks_exact_mut(rows).zip(deltas.chunks_exact(rows)) {
            let factors = &self.work.factors[s * rows..(s + 1) * rows];
            out.iter_mut().zip(column.iter().zip(factors)).for_each(|(out, (d, f))| *out = d * f);
        }
        room
    }

    /// Gradient and curvature of the panel's weights, scaled to all rows; `first` is the index of the first of them.
    fn weights(&self, g: &mut [f32], h: &mut [f32], room: &mut [f32], at: (&[f32], &[f32]), first: usize) {
        let units = g.len() / self.panels.layer.inputs;
        let size = (self.panels.layer.inputs, self.batch.rows, units);
        self.each_draw(g, h, room, at, first, units, |s, what, out, add, alpha, deltas| {
            let input = match what {
                Factor::Gradient => self.input(s, &self.batch.x, &self.work.units),
                Factor::Squares => self.input(s, &self.batch.squares, &self.work.squares),
            };
            self.panels
                .of_step
                .work
                .timer
                .measure(TrainingWork::Products, || input.times(out, add, alpha, deltas, size));
        });
    }

    /// Gradient and curvature of the panel's biases.
    fn biases(&self, g: &mut [f32], h: &mut [f32], room: &mut [f32], at: (&[f32], &[f32]), first: usize) {
        let units = g.len();
        self.each_draw(g, h, room, at, first, units, |_, _, out, add, alpha, deltas| {
            if !add {
                out.fill(0.0);
            }
            self.panels
                .of_step
                .work
                .timer
                .measure(TrainingWork::Units, || add_column_sums(out, deltas, self.batch.rows, alpha));
        });
    }

    /// Averages gradient and curvature over draws; `times` multiplies the layer's input by derivatives.
    #[allow(clippy::too_many_arguments)]
    fn each_draw(
        &self,
        g: &mut [f32],
        h: &mut [f32],
        room: &mut [f32],
        at: (&[f32], &[f32]),
        first: usize,
        units: usize,
        times: impl Fn(usize, Factor, &mut [f32], bool, f32, &[f32]),
    ) {
        let (draws, rows) = (self.panels.of_step.config.draws, self.batch.rows);
        let alpha = (self.panels.of_step.scale / draws as f64) as f32;
        let stein = self.panels.of_step.config.optimiser == Optimiser::Ivon;
        if stein {
            g.fill(0.0);
            h.fill(0.0);
        }
        for s in 0..draws {
            let deltas = self.deltas(s, units);
            let (one, room) = room.split_at_mut(if stein { g.len() } else { 0 });
            let scaled = self.panels.of_step.work.timer.measure(TrainingWork::Squares, || self.scaled(deltas, room, s));
            match self.panels.of_step.config.optimiser {
                Optimiser::Ivon => {
                    times(s, Factor::Gradient, one, false, alpha, scaled);
                    g.iter_mut().zip(one.iter()).for_each(|(g, one)| *g += *one);
                    let n = self.panels.of_step.work.samples.len() / draws;
                    let w = &self.panels.of_step.work.samples[s * n + first..s * n + first + g.len()];
                    kernels::add_stein(h, one, w, at.0, at.1);
                }
                Optimiser::Vogn => {
                    times(s, Factor::Gradient, g, s > 0, alpha, scaled);
                    let squared = &mut room[..units * rows];
                    self.panels.of_step.work.timer.measure(TrainingWork::Squares, || kernels::square(squared, deltas));
                    times(s, Factor::Squares, h, s > 0, alpha, squared);
                }
                Optimiser::Adam => times(s, Factor::Gradient, g, s > 0, alpha, scaled),
            }
        }
    }
}

/// What is multiplied: inputs by derivatives, or the squares of both.
#[derive(Clone, Copy)]
enum Factor {
    Gradient,
    Squares,
}
