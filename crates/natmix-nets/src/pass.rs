//! Forward and backward passes through a network for a block of rows at one point, as matrix products.
//!
//! With `X` the features of the rows, `A_l` the activations of layer `l` (rows by units), `W_l` its weights (inputs by units)
//! and `D_l` the derivatives of the log likelihood with respect to the units' inputs:
//!
//! ```text
//! A_l = f(A_{l-1} W_l + b_l)        D_{l-1} = (D_l W_l') * f'(A_{l-1})
//! gradient of W_l  = A_{l-1}' D_l               squared per-example gradients of W_l = (A_{l-1} * A_{l-1})' (D_l * D_l)
//! ```
//!
//! so the curvature of VOGN costs one more product per layer (`*` is elementwise). Every product is split into panels of
//! [`PANEL`] units, one task each, whatever the number of threads: sums always run in the same order.

use super::network::{Layer, Network};
use super::real::NetworkFloat;
use super::train::timing::{TrainingTimer, TrainingWork, measure};
use natmix::matrix::{Transpose, product, product_bt_rows};
use rayon::prelude::*;

/// Units per task.
pub(crate) const PANEL: usize = 100;

/// Buffers of a pass: all activations, and derivatives with respect to the units' inputs, layer by layer.
pub(crate) struct Pass<'a, T> {
    pub network: &'a Network,
    pub rows: usize,
    /// Activations; those of the last layer are the outputs.
    pub units: &'a mut [T],
    pub deltas: &'a mut [T],
    /// Records the time, if given.
    pub timer: Option<&'a TrainingTimer>,
}

/// The inputs of a layer.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a, T> {
    /// The features, row by row.
    Rows(&'a [T]),
    /// Activations, unit by unit.
    Units(&'a [T]),
}

impl<'a, T: NetworkFloat> Input<'a, T> {
    /// `out = Input' b`, added if `add`: `b` is rows by `n`, unit by unit.
    pub fn times(self, out: &mut [T], add: bool, alpha: T, b: &[T], (inputs, rows, n): (usize, usize, usize)) {
        match self {
            Input::Rows(x) => product(out, add, alpha, x, Transpose::No, b, (inputs, rows, n)),
            Input::Units(a) => product(out, add, alpha, a, Transpose::Yes, b, (inputs, rows, n)),
        }
    }

    /// Input `i` of row `r`.
    pub fn at(self, i: usize, r: usize, (inputs, rows): (usize, usize)) -> T {
        match self {
            Input::Rows(x) => x[r * inputs + i],
            Input::Units(a) => a[i * rows + r],
        }
    }
}

impl<'a, T: NetworkFloat> Pass<'a, T> {
    /// Length of each buffer.
    pub fn room(network: &Network, rows: usize) -> usize {
        network.units() * rows
    }

    fn before(&self, l: usize) -> usize {
        self.network.layers()[..l].iter().map(|layer| layer.outputs).sum::<usize>() * self.rows
    }

    /// The outputs of the network, unit by unit.
    pub fn outputs(&self) -> &[T] {
        let first = self.before(self.network.layers().len() - 1);
        &self.units[first..self.network.units() * self.rows]
    }

    /// The outputs, and the buffer for the derivatives with respect to them.
    pub fn outputs_and_deltas(&mut self) -> (&[T], &mut [T]) {
        let (first, end) = (self.before(self.network.layers().len() - 1), self.network.units() * self.rows);
        (&self.units[first..end], &mut self.deltas[first..end])
    }

    /// The inputs of layer `l`.
    pub fn input<'b>(&'b self, l: usize, x: &'b [T]) -> Input<'b, T> {
        match l {
            0 => Input::Rows(x),
            _ => Input::Units(&self.units[self.before(l - 1)..self.before(l)]),
        }
    }

    /// Derivatives with respect to the inputs of the units of layer `l`.
    pub fn deltas_of(&self, l: usize) -> &[T] {
        &self.deltas[self.before(l)..self.before(l) + self.network.layers()[l].outputs * self.rows]
    }

    /// From features (row by row) to outputs.
    pub fn forward(&mut self, w: &[T], x: &[T]) {
        let (rows, activation, last) = (self.rows, self.network.activation(), self.network.layers().len() - 1);
        let timer = self.timer;
        for (l, layer) in self.network.layers().iter().enumerate() {
            let first = self.before(l);
            let (before, rest) = self.units.split_at_mut(first);
            let input = match l {
                0 => x,
                _ => &before[first - layer.inputs * rows..],
            };
            let op = if l == 0 { Transpose::Yes } else { Transpose::No };
            let out = &mut rest[..layer.outputs * rows];
            panels(out, rows, layer.outputs, |unit, out| {
                let n = out.len() / rows;
                let weights = &w[layer.start + unit * layer.inputs..][..n * layer.inputs];
                let size = (rows, layer.inputs, n);
                measure(timer, TrainingWork::Products, || product(out, false, T::ONE, input, op, weights, size));
                measure(timer, TrainingWork::Units, || {
                    for (out, b) in out.chunks_exact_mut(rows).zip(&w[layer.biases() + unit..]) {
                        if l == last {
                            out.iter_mut().for_each(|x| *x += *b);
                        } else {
                            out.iter_mut().for_each(|x| *x = activation.of(*x + *b));
                        }
                    }
                });
            });
        }
    }

    /// From derivatives with respect to the outputs to those with respect to the inputs of every unit.
    pub fn backward(&mut self, w: &[T]) {
        let (rows, activation, timer) = (self.rows, self.network.activation(), self.timer);
        for (l, layer) in self.network.layers().iter().enumerate().skip(1).rev() {
            let first = self.before(l);
            let (before, rest) = self.deltas.split_at_mut(first);
            let after = &rest[..layer.outputs * rows];
            let begin = first - layer.inputs * rows;
            let units = &self.units[begin..first];
            let weights = &w[layer.start..layer.biases()];
            panels(&mut before[begin..], rows, layer.inputs, |unit, out| {
                let n = out.len() / rows;
                let size = (rows, layer.outputs, n);
                measure(timer, TrainingWork::Products, || {
                    product_bt_rows(out, false, T::ONE, after, weights, layer.inputs, unit, size);
                });
                measure(timer, TrainingWork::Units, || {
                    for (d, a) in out.iter_mut().zip(&units[unit * rows..]) {
                        *d *= activation.slope(*a);
                    }
                });
            });
        }
    }

    /// Adds `scale` times the gradient of all weights and biases to `grad`.
    pub fn add_gradient(&self, x: &[T], scale: T, grad: &mut [T]) {
        for (l, layer) in self.network.layers().iter().enumerate() {
            let (deltas, size) = (self.deltas_of(l), (layer.inputs, self.rows, layer.outputs));
            self.input(l, x).times(&mut grad[layer.start..layer.biases()], true, scale, deltas, size);
            add_column_sums(&mut grad[layer.biases()..layer.end()], deltas, self.rows, scale);
        }
    }

    /// Adds `scale` times the sum of the squared per-example gradients to `squares`; `squared` has room for inputs and
    /// derivatives of the largest layer.
    pub fn add_squares(&self, x: &[T], scale: T, squares: &mut [T], squared: &mut [T]) {
        for (l, layer) in self.network.layers().iter().enumerate() {
            let deltas = self.deltas_of(l);
            let (a, d) = squared.split_at_mut(layer.inputs * self.rows);
            let input = match self.input(l, x) {
                Input::Rows(x) => Input::Rows(square(x, a)),
                Input::Units(x) => Input::Units(square(x, a)),
            };
            let deltas = square(deltas, d);
            let size = (layer.inputs, self.rows, layer.outputs);
            input.times(&mut squares[layer.start..layer.biases()], true, scale, deltas, size);
            add_column_sums(&mut squares[layer.biases()..layer.end()], deltas, self.rows, scale);
        }
    }

    /// Length of the work space of [`Pass::add_squares`].
    pub fn squared_room(network: &Network, rows: usize) -> usize {
        network.layers().iter().map(|layer| (layer.inputs + layer.outputs) * rows).max().unwrap_or(0)
    }
}

/// Splits the columns of `out` into tasks of at most [`PANEL`], each with the index of its first column.
pub(crate) fn panels<T: Send>(out: &mut [T], height: usize, width: usize, each: impl Fn(usize, &mut [T]) + Sync) {
    let width = panel_width(width);
    if out.len() <= width * height {
        return each(0, out);
    }
    out.par_chunks_mut(width * height).enumerate().for_each(|(i, out)| each(i * width, out));
}

/// Width of the panels of a layer: nearly equal, none wider than [`PANEL`].
pub(crate) fn panel_width(units: usize) -> usize {
    units.div_ceil(units.div_ceil(PANEL).max(1)).max(1)
}

fn square<'b, T: NetworkFloat>(x: &[T], out: &'b mut [T]) -> &'b [T] {
    let out = &mut out[..x.len()];
    out.iter_mut().zip(x).for_each(|(out, x)| *out = *x * *x);
    out
}

pub(crate) fn add_column_sums<T: NetworkFloat>(sums: &mut [T], columns: &[T], rows: usize, scale: T) {
    for (sum, column) in sums.iter_mut().zip(columns.chunks_exact(rows)) {
        let mut total = T::ZERO;
        column.iter().for_each(|x| total += *x);
        *sum += scale * total;
    }
}

/// Writes the gradient of one row into a column of a Jacobian.
pub(crate) fn row_gradient<T: NetworkFloat>(pass: &Pass<'_, T>, x: &[T], r: usize, out: &mut [T]) {
    for (l, layer) in pass.network.layers().iter().enumerate() {
        let Layer { inputs, outputs, start } = *layer;
        let (input, deltas) = (pass.input(l, x), pass.deltas_of(l));
        for unit in 0..outputs {
            let d = deltas[unit * pass.rows + r];
            for (i, out) in out[start + unit * inputs..start + (unit + 1) * inputs].iter_mut().enumerate() {
                *out = d * input.at(i, r, (inputs, pass.rows));
            }
            out[layer.biases() + unit] = d;
        }
    }
}
