//! One task's part of a step: gradient and curvature of some units of a layer.

use super::super::network::{Layer, Network};
use super::super::pass::{Input, add_column_sums};
use super::component::{ComponentWork, RowBatch};
use super::config::{Optimiser, TrainConfig};
use super::kernels::{self, WeightPart};
use super::timing::TrainingWork;

/// The units `unit..` of layer `l`, one task's part of a step.
pub(super) struct WeightPanel<'a> {
    pub network: &'a Network,
    pub config: &'a TrainConfig,
    pub work: &'a ComponentWork,
    pub batch: &'a RowBatch,
    pub layer: Layer,
    pub l: usize,
    pub unit: usize,
    pub scale: f64,
}

impl WeightPanel<'_> {
    /// Where layer `l` of draw `s` begins in the buffers.
    fn begin(&self, s: usize, l: usize) -> usize {
        let units: usize = self.network.layers()[..l].iter().map(|layer| layer.outputs).sum();
        self.batch.rows * (s * self.network.units() + units)
    }

    fn deltas(&self, s: usize, units: usize) -> &[f32] {
        let first = self.begin(s, self.l) + self.unit * self.batch.rows;
        &self.work.deltas[first..first + units * self.batch.rows]
    }

    /// The input of the layer, plain or squared.
    fn input<'b>(&'b self, s: usize, x: &'b [f32], units: &'b [f32]) -> Input<'b, f32> {
        let rows = self.batch.rows;
        match self.l {
            0 => Input::Rows(&x[..rows * self.layer.inputs]),
            l => Input::Units(&units[self.begin(s, l - 1)..self.begin(s, l - 1) + self.layer.inputs * rows]),
        }
    }

    /// Derivatives of the rows' log likelihoods: the result of the backward pass times the rows' factors.
    fn scaled<'b>(&self, deltas: &'b [f32], room: &'b mut [f32], s: usize) -> &'b [f32] {
        if !self.config.weighs_rows() {
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
    pub fn weights(&self, g: &mut [f32], h: &mut [f32], room: &mut [f32], part: &WeightPart<'_>, first: usize) {
        let units = g.len() / self.layer.inputs;
        let size = (self.layer.inputs, self.batch.rows, units);
        self.each_draw(g, h, room, part, first, units, |s, what, out, add, alpha, deltas| {
            let input = match what {
                Factor::Gradient => self.input(s, &self.batch.x, &self.work.units),
                Factor::Squares => self.input(s, &self.batch.squares, &self.work.squares),
            };
            self.work.timer.measure(TrainingWork::Products, || input.times(out, add, alpha, deltas, size));
        });
    }

    /// Gradient and curvature of the panel's biases.
    pub fn biases(&self, g: &mut [f32], h: &mut [f32], room: &mut [f32], part: &WeightPart<'_>, first: usize) {
        let units = g.len();
        self.each_draw(g, h, room, part, first, units, |_, _, out, add, alpha, deltas| {
            if !add {
                out.fill(0.0);
            }
            self.work.timer.measure(TrainingWork::Units, || add_column_sums(out, deltas, self.batch.rows, alpha));
        });
    }

    /// Averages gradient and curvature over draws; `times` multiplies the layer's input by derivatives.
    #[allow(clippy::too_many_arguments)]
    fn each_draw(
        &self,
        g: &mut [f32],
        h: &mut [f32],
        room: &mut [f32],
        part: &WeightPart<'_>,
        first: usize,
        units: usize,
        times: impl Fn(usize, Factor, &mut [f32], bool, f32, &[f32]),
    ) {
        let (draws, rows) = (self.config.draws, self.batch.rows);
        let alpha = (self.scale / draws as f64) as f32;
        let stein = self.config.optimiser == Optimiser::Ivon;
        if stein {
            g.fill(0.0);
            h.fill(0.0);
        }
        for s in 0..draws {
            let deltas = self.deltas(s, units);
            let (one, room) = room.split_at_mut(if stein { g.len() } else { 0 });
            let scaled = self.work.timer.measure(TrainingWork::Squares, || self.scaled(deltas, room, s));
            match self.config.optimiser {
                Optimiser::Ivon => {
                    times(s, Factor::Gradient, one, false, alpha, scaled);
                    g.iter_mut().zip(one.iter()).for_each(|(g, one)| *g += *one);
                    let n = self.work.samples.len() / draws;
                    let w = &self.work.samples[s * n + first..s * n + first + g.len()];
                    kernels::add_stein(h, one, w, part.mean, part.prec);
                }
                Optimiser::Vogn => {
                    times(s, Factor::Gradient, g, s > 0, alpha, scaled);
                    let squared = &mut room[..units * rows];
                    self.work.timer.measure(TrainingWork::Squares, || kernels::square(squared, deltas));
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
