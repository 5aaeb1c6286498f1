//! What the coordinates of a grouping stand for: enough to name its parameters and to compute them, with or without the data.
//!
//! Its coordinates are, in this order: logarithms of standard deviations, partial correlations, and the effects level by level (see the
//! module `groups`).

use super::around::Around;
use crate::grouping::{GroupCoefficients, Grouping};
use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;

/// A grouping without its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupShape {
    pub name: String,
    pub levels: Vec<String>,
    pub columns: Vec<String>,
    pub coefficients: GroupCoefficients,
    /// Divisor of each column.
    pub scale: Vec<f64>,
    /// Whether each level is centred.
    pub centred: Vec<bool>,
    /// What the effects of centred levels lie around.
    #[serde(default, skip_serializing_if = "Around::is_empty")]
    pub around: Around,
}

impl GroupShape {
    /// That of a grouping whose columns are divided by `scale`, without any level that is centred.
    pub fn new(data: &Grouping, scale: Vec<f64>) -> Self {
        let Grouping { name, levels, columns, coefficients, .. } = data;
        Self {
            name: name.clone(),
            centred: vec![false; levels.len()],
            levels: levels.clone(),
            columns: columns.clone(),
            coefficients: *coefficients,
            scale,
            around: Around::default(),
        }
    }

    /// Number of columns.
    pub fn q(&self) -> usize {
        self.columns.len()
    }

    /// Number of standard deviations.
    pub fn sds(&self) -> usize {
        if self.coefficients == GroupCoefficients::Shared { 1 } else { self.q() }
    }

    /// Which of them is that of column `k`.
    pub fn sd_of(&self, k: usize) -> usize {
        if self.coefficients == GroupCoefficients::Shared { 0 } else { k }
    }

    /// Number of correlations.
    pub fn correlations(&self) -> usize {
        let q = self.q();
        if self.coefficients == GroupCoefficients::Correlated { q * (q - 1) / 2 } else { 0 }
    }

    /// Number of coordinates before the effects.
    pub fn scales(&self) -> usize {
        self.sds() + self.correlations()
    }

    /// Number of coordinates that are effects.
    pub fn effects(&self) -> usize {
        self.levels.len() * self.q()
    }

    /// Number of coordinates.
    pub fn dim(&self) -> usize {
        self.scales() + self.effects()
    }

    /// Whether sizes match and numbers can be used, for a shape that was read from a file with so many coefficients beside it.
    pub fn is_sound(&self, coefficients: usize) -> bool {
        let q = self.q();
        q > 0
            && !self.levels.is_empty()
            && self.centred.len() == self.levels.len()
            && self.scale.len() == q
            && self.scale.iter().all(|scale| scale.is_normal())
            && self.around.is_sound(coefficients, self.effects())
    }

    /// Writes the effects of all levels at one point with these coefficients, whose coordinates of the group are `z`.
    pub fn effects_at(&self, coefficients: &[f64], z: &[f64], effects: &mut [f64]) {
        let (scales, v) = z.split_at(self.scales());
        effects.copy_from_slice(&v[..self.effects()]);
        self.scale_levels(scales, effects, false);
        self.shift(-1.0, coefficients, effects);
    }

    /// Turns standardised effects among the coordinates `z` of the group into those of the levels that are centred.
    pub fn centre(&self, coefficients: &[f64], z: &mut [f64]) {
        let (scales, v) = z.split_at_mut(self.scales());
        self.scale_levels(scales, v, true);
        self.shift(1.0, coefficients, v);
    }

    /// Adds to centred effects so many times what they lie around.
    fn shift(&self, times: f64, coefficients: &[f64], effects: &mut [f64]) {
        let q = self.q();
        for (at, effect) in effects.iter_mut().enumerate().take(self.effects()).filter(|(at, _)| self.centred[at / q]) {
            *effect += times * self.around.parts(at).map(|(j, factor)| factor * coefficients[j]).sum::<f64>();
        }
    }

    /// Replaces `u` by `S L u` for levels that are centred, or for those that are not.
    fn scale_levels(&self, scales: &[f64], effects: &mut [f64], which: bool) {
        let q = self.q();
        let l = if self.correlations() > 0 { cholesky_factor(q, &scales[q..]) } else { Vec::new() };
        let levels = effects.chunks_exact_mut(q).zip(&self.centred);
        for (level, _) in levels.filter(|(_, centred)| **centred == which) {
            for i in (0..q).rev() {
                if !l.is_empty() {
                    level[i] = (0..=i).map(|j| l[i * q + j] * level[j]).sum();
                }
                level[i] *= scales[self.sd_of(i)].exp();
            }
        }
    }

    /// The effects of one level in the units of the data, from standardised ones and the coordinates `z` of the group.
    pub fn effects_from(&self, z: &[f64], noise: &[f64], unit: f64) -> Vec<f64> {
        let q = self.q();
        let l = if self.correlations() > 0 { cholesky_factor(q, &z[q..]) } else { Vec::new() };
        let effect = |i: usize| {
            let u = if l.is_empty() { noise[i] } else { (0..=i).map(|j| l[i * q + j] * noise[j]).sum() };
            unit / self.scale[i] * z[self.sd_of(i)].exp() * u
        };
        (0..q).map(effect).collect()
    }

    /// Name of a standard deviation.
    pub fn sd_name(&self, k: usize) -> String {
        match self.coefficients {
            GroupCoefficients::Shared => format!("sd({})", self.name),
            _ => format!("sd({}, {})", self.name, self.columns[k]),
        }
    }

    /// Adds the names of its parameters.
    pub fn push_names(&self, names: &mut Vec<String>) {
        let (name, columns) = (&self.name, &self.columns);
        names.extend((0..self.sds()).map(|k| self.sd_name(k)));
        if self.correlations() > 0 {
            for i in 1..self.q() {
                names.extend((0..i).map(|j| format!("cor({name}, {}, {})", columns[j], columns[i])));
            }
        }
        if self.coefficients == GroupCoefficients::Shared {
            // There is one level, and columns bear the name of the smooth.
            names.extend(columns.iter().cloned());
            return;
        }
        for level in &self.levels {
            names.extend(columns.iter().map(|column| format!("{name}[{level}, {column}]")));
        }
    }

    /// From coefficients and the coordinates of the group to its parameters, in the units of the data, where outcomes have this
    /// `unit`.
    pub fn to_parameters(&self, coefficients: &[f64], z: &[f64], unit: f64, parameters: &mut [f64]) {
        let (q, sds, first) = (self.q(), self.sds(), self.scales());
        for k in 0..sds {
            parameters[k] = unit / self.scale[k] * z[k].exp();
        }
        let correlated = self.correlations() > 0;
        let matrix = correlation_matrix(if correlated { q } else { 0 }, &z[sds..first]);
        for i in 1..q {
            for j in (0..i).filter(|_| correlated) {
                parameters[sds + i * (i - 1) / 2 + j] = matrix[i * q + j];
            }
        }
        self.effects_at(coefficients, z, &mut parameters[first..first + self.effects()]);
        for (at, effect) in parameters[first..first + self.effects()].iter_mut().enumerate() {
            *effect *= unit / self.scale[at % q];
        }
    }
}

/// `log(1 / cosh(y))`.
pub(super) fn ln_sech(y: f64) -> f64 {
    LN_2 - y.abs() - (-2.0 * y.abs()).exp().ln_1p()
}

/// The Cholesky factor (row by row) that belongs to the coordinates `y`.
fn cholesky_factor(q: usize, y: &[f64]) -> Vec<f64> {
    let mut l = vec![0.0; q * q];
    for i in 0..q {
        let mut rest = 1.0;
        for j in 0..i {
            let y = y[i * (i - 1) / 2 + j];
            l[i * q + j] = y.tanh() * rest;
            rest *= ln_sech(y).exp();
        }
        l[i * q + i] = rest;
    }
    l
}

/// The correlation matrix (row by row) that belongs to the coordinates `y`.
pub(super) fn correlation_matrix(q: usize, y: &[f64]) -> Vec<f64> {
    let l = cholesky_factor(q, y);
    let entry = |i: usize, j: usize| (0..=i.min(j)).map(|k| l[i * q + k] * l[j * q + k]).sum();
    (0..q * q).map(|at| entry(at / q, at % q)).collect()
}
