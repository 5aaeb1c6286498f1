//! Varying effects: from standardised coordinates to the effects of every level, and gradients back.
//!
//! The effects of level `l` are `b_l = S L u_l` with `u_l ~ N(0, I)`, `S` the diagonal matrix of standard deviations `exp(t_k)` and
//! `L` the Cholesky factor of the correlation matrix. A level that is *not centred* has `u_l` as its coordinates, one that is
//! *centred* has `b_l` plus what it lies around (see [`super::around`]). The rows of `L` come from partial correlations `r_ij = tanh(y_ij)`, `j < i`:
//! `L_ij = r_ij prod_(k<j) sqrt(1 - r_ik^2)`, and `L_ii` is the product over all `k < i` (Lewandowski, Kurowicka and Joe, 2009). Under
//! `lkj(shape)` the `r_ij` are independent: `(1 + r_ij)/2` has the beta distribution with both parameters
//! `a_j = shape + (q - 2 - j)/2`, so that with the Jacobian `log p(y_ij) = a_j log(1 - r_ij^2) + constant`.

use super::group_shape::{GroupShape, ln_sech};
use super::lanes::{LANES, Lane, add, add_product, each, lane, lane_mut};
use super::prior_density::PriorDensity;
use super::units::Unit;
use crate::grouping::{GroupCoefficients, Grouping};
use crate::prior::LOG_TAU;
use natmix::autodiff::special::ln_gamma;
use std::f64::consts::LN_2;

/// A grouping with its rows and its place among the coordinates.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub shape: GroupShape,
    /// Columns.
    pub q: usize,
    /// Index of the level of each row.
    pub level_of_row: Vec<u32>,
    /// The columns whose coefficients vary, in the units of the fit, row by row.
    pub z: Vec<f64>,
    /// First coordinate.
    pub first: usize,
    /// Priors of the standard deviations, in the units of the fit.
    pub sd_priors: Vec<PriorDensity>,
    /// Shape of the prior of correlations.
    lkj: f64,
    /// What that prior's density has beside the powers of `1 - r_ij^2`.
    lkj_constant: f64,
}

impl Group {
    /// A grouping whose coordinates begin at `first`, with the default priors.
    pub fn new(mut data: Grouping, first: usize, sd: f64, lkj: f64) -> Self {
        let q = data.columns.len();
        let unit = |k: usize| match data.coefficients {
            // The functions of a smooth have units already, and no sizes of their own.
            GroupCoefficients::Shared => Unit::NONE,
            _ => Unit::of_column(data.z.iter().skip(k).step_by(q).copied(), false),
        };
        let scale: Vec<f64> = (0..q).map(|k| unit(k).scale).collect();
        for row in data.z.chunks_exact_mut(q) {
            row.iter_mut().zip(&scale).for_each(|(z, scale)| *z /= scale);
        }
        let shape = GroupShape::new(&data, scale);
        let sd_priors = vec![PriorDensity::HalfNormal { scale: sd }; shape.sds()];
        let Grouping { level_of_row, z, .. } = data;
        let mut group = Self { shape, q, level_of_row, z, first, sd_priors, lkj, lkj_constant: 0.0 };
        group.set_lkj(lkj);
        group
    }

    /// Shape of the prior of correlations.
    pub fn lkj(&self) -> f64 {
        self.lkj
    }

    /// Changes the shape of the prior of correlations.
    pub fn set_lkj(&mut self, shape: f64) {
        self.lkj = shape;
        let constant = |a: f64| ln_gamma(2.0 * a) - 2.0 * ln_gamma(a) - (2.0 * a - 1.0) * LN_2;
        // Column j has an entry in every row below.
        self.lkj_constant = (0..self.q).map(|j| (self.q - 1 - j) as f64 * constant(self.beta(j))).sum();
    }

    /// Numbers that the scales take: standard deviations and a factor, their gradient, and the effects of one level.
    pub fn factor_len(&self) -> usize {
        (2 * (self.q * self.q + self.q) + self.q) * LANES
    }
    fn is_correlated(&self) -> bool {
        self.shape.correlations() > 0
    }

    /// Parameter of the beta distribution of the partial correlations in column `j` of the factor.
    pub fn beta(&self, j: usize) -> f64 {
        self.lkj + 0.5 * (self.q as f64 - 2.0 - j as f64)
    }

    /// Writes standard deviations and factor, and adds their priors to values and gradient.
    fn scales(&self, z: &[f64], factor: &mut [f64], value: &mut Lane, grad: &mut [f64]) {
        let q = self.q;
        let (sd, l) = factor.split_at_mut(q * LANES);
        for (k, prior) in self.sd_priors.iter().enumerate() {
            for c in 0..LANES {
                let t = z[k * LANES + c];
                let [log, slope, _] = prior.at_log(t);
                sd[k * LANES + c] = t.exp();
                value[c] += log;
                grad[k * LANES + c] = slope;
            }
        }
        for k in self.sd_priors.len()..q {
            *lane_mut(sd, k) = *lane(sd, 0);
        }
        if !self.is_correlated() {
            return;
        }
        let (z, grad) = (&z[q * LANES..], &mut grad[q * LANES..]);
        *lane_mut(l, 0) = [1.0; LANES];
        for value in value.iter_mut() {
            *value += self.lkj_constant;
        }
        for i in 1..q {
            let mut rest = [1.0; LANES];
            for j in 0..i {
                let (at, a) = (i * (i - 1) / 2 + j, self.beta(j));
                let y = lane(z, at);
                for c in 0..LANES {
                    let (r, log_rest) = (y[c].tanh(), ln_sech(y[c]));
                    l[(i * q + j) * LANES + c] = r * rest[c];
                    rest[c] *= log_rest.exp();
                    value[c] += 2.0 * a * log_rest;
                    grad[at * LANES + c] = -2.0 * a * r;
                }
            }
            *lane_mut(l, i * q + i) = rest;
        }
    }

    /// Writes the effects of all levels, adds the priors to values, and begins the gradient in all coordinates of the group.
    #[inline(always)]
    pub fn forward(
        &self,
        (coefficients, z): (&[f64], &[f64]),
        factor: &mut [f64],
        effects: &mut [f64],
        value: &mut Lane,
        grad: &mut [f64],
    ) {
        let q = self.q;
        self.scales(z, factor, value, grad);
        let (sd, rest) = factor.split_at_mut(q * LANES);
        let (l, rest) = rest.split_at_mut(q * q * LANES);
        let u = &mut rest[(q * q + q) * LANES..];
        let v = &z[self.shape.scales() * LANES..];
        let mut squares = [0.0; LANES];
        let mut log_dets = 0.0;
        for (level, centred) in self.shape.centred.iter().enumerate() {
            let (v, b) = (&v[level * q * LANES..], &mut effects[level * q * LANES..][..q * LANES]);
            if *centred {
                b.copy_from_slice(&v[..q * LANES]);
                for k in 0..q {
                    for (j, factor) in self.shape.around.parts(level * q + k) {
                        add(lane_mut(b, k), -factor, lane(coefficients, j));
                    }
                }
                log_dets += 1.0;
                self.whiten(sd, l, b, u);
                for i in 0..q {
                    add_product(&mut squares, lane(u, i), lane(u, i));
                }
                continue;
            }
            for i in 0..q {
                let own = lane(v, i);
                add_product(&mut squares, own, own);
                let mut sum = *own;
                if self.is_correlated() {
                    sum = [0.0; LANES];
                    for j in 0..=i {
                        add_product(&mut sum, lane(l, i * q + j), lane(v, j));
                    }
                }
                let sd = lane(sd, i);
                *lane_mut(b, i) = each(|c| sd[c] * sum[c]);
            }
        }
        add(value, -0.5, &squares);
        for value in value.iter_mut() {
            *value -= 0.5 * LOG_TAU * (self.shape.effects() as f64);
        }
        if log_dets > 0.0 {
            for i in 0..q {
                for c in 0..LANES {
                    value[c] -= log_dets * z[self.shape.sd_of(i) * LANES + c];
                    if self.is_correlated() {
                        value[c] -= log_dets * l[(i * q + i) * LANES + c].ln();
                    }
                }
            }
        }
    }

    /// Writes `u = (S L)^-1 b` of a level.
    #[inline(always)]
    fn whiten(&self, sd: &[f64], l: &[f64], b: &[f64], u: &mut [f64]) {
        let q = self.q;
        for i in 0..q {
            let (sd, b) = (lane(sd, i), lane(b, i));
            let mut own = each(|c| b[c] / sd[c]);
            if self.is_correlated() {
                for j in 0..i {
                    let (before, l) = (lane(u, j), lane(l, i * q + j));
                    own = each(|c| own[c] - l[c] * before[c]);
                }
                let diagonal = lane(l, i * q + i);
                own = each(|c| own[c] / diagonal[c]);
            }
            *lane_mut(u, i) = own;
        }
    }

    /// From the gradient in the effects to that in the coefficients and in the coordinates of the group, which is added.
    #[inline(always)]
    pub fn backward(
        &self,
        z: &[f64],
        factor: &mut [f64],
        (effects, by_effects): (&[f64], &[f64]),
        (by_coefficients, grad): (&mut [f64], &mut [f64]),
    ) {
        let q = self.q;
        let scales = self.shape.scales();
        let (sd, rest) = factor.split_at_mut(q * LANES);
        let (l, rest) = rest.split_at_mut(q * q * LANES);
        let (by_sd, rest) = rest.split_at_mut(q * LANES);
        let (by_l, u) = rest.split_at_mut(q * q * LANES);
        by_sd.fill(0.0);
        by_l.fill(0.0);
        let (by_scales, by_v) = grad.split_at_mut(scales * LANES);
        let v = &z[scales * LANES..];
        for (level, centred) in self.shape.centred.iter().enumerate() {
            let at = level * q * LANES;
            let (v, b, by_b) = (&v[at..], &effects[at..], &by_effects[at..]);
            let by_v = &mut by_v[at..at + q * LANES];
            if *centred {
                self.backward_centred((sd, l, u), b, by_b, (by_sd, by_l), by_v);
                for k in 0..q {
                    for (j, factor) in self.shape.around.parts(level * q + k) {
                        add(lane_mut(by_coefficients, j), -factor, lane(by_v, k));
                    }
                }
                continue;
            }
            for i in 0..q {
                add_product(lane_mut(by_sd, i), lane(by_b, i), lane(b, i));
                let (by_b, sd) = (lane(by_b, i), lane(sd, i));
                let by_w = each(|c| sd[c] * by_b[c]);
                let own = lane(v, i);
                if !self.is_correlated() {
                    *lane_mut(by_v, i) = each(|c| by_w[c] - own[c]);
                    continue;
                }
                *lane_mut(by_v, i) = own.map(|v| -v);
                for j in 0..=i {
                    add_product(lane_mut(by_v, j), lane(l, i * q + j), &by_w);
                    add_product(lane_mut(by_l, i * q + j), &by_w, lane(v, j));
                }
            }
        }
        for i in 0..q {
            add(lane_mut(by_scales, self.shape.sd_of(i)), 1.0, lane(by_sd, i));
        }
        if self.is_correlated() {
            factor_gradient(q, &z[q * LANES..], l, by_l, &mut by_scales[q * LANES..]);
        }
    }

    /// A centred level: its prior depends on the scales, its effects do not.
    #[inline(always)]
    fn backward_centred(
        &self,
        (sd, l, u): (&[f64], &[f64], &mut [f64]),
        b: &[f64],
        by_b: &[f64],
        (by_sd, by_l): (&mut [f64], &mut [f64]),
        by_v: &mut [f64],
    ) {
        let q = self.q;
        self.whiten(sd, l, b, u);
        // L' y = -u, from the last to the first; y is kept where the gradient goes.
        for i in (0..q).rev() {
            let mut y = lane(u, i).map(|u| -u);
            if self.is_correlated() {
                for k in i + 1..q {
                    let (later, l) = (*lane(by_v, k), lane(l, k * q + i));
                    for c in 0..LANES {
                        y[c] -= l[c] * later[c];
                    }
                }
                let diagonal = lane(l, i * q + i);
                for c in 0..LANES {
                    y[c] /= diagonal[c];
                }
            }
            *lane_mut(by_v, i) = y;
        }
        if self.is_correlated() {
            for j in 0..q {
                let u = lane(u, j);
                for i in j..q {
                    let (y, sum) = (lane(by_v, i), lane_mut(by_l, i * q + j));
                    for c in 0..LANES {
                        sum[c] -= y[c] * u[c];
                    }
                }
                let (diagonal, sum) = (lane(l, j * q + j), lane_mut(by_l, j * q + j));
                for c in 0..LANES {
                    sum[c] -= 1.0 / diagonal[c];
                }
            }
        }
        for i in 0..q {
            let (sd, b, by_b) = (lane(sd, i), lane(b, i), lane(by_b, i));
            let (y, sum) = (lane_mut(by_v, i), lane_mut(by_sd, i));
            for c in 0..LANES {
                sum[c] -= y[c] * b[c] / sd[c] + 1.0;
                y[c] = y[c] / sd[c] + by_b[c];
            }
        }
    }
}

/// Adds the gradient in the coordinates of the factor, from that in its entries.
fn factor_gradient(q: usize, y: &[f64], l: &[f64], by_l: &[f64], grad: &mut [f64]) {
    for i in 1..q {
        for c in 0..LANES {
            let entry = |j: usize| l[(i * q + j) * LANES + c];
            let by = |j: usize| by_l[(i * q + j) * LANES + c];
            // The product of the square roots before column j, and the sum over the entries behind it.
            let mut later = by(i) * entry(i);
            for j in (0..i).rev() {
                let at = (i * (i - 1) / 2 + j) * LANES + c;
                let before: f64 = (0..j).map(|k| ln_sech(y[(i * (i - 1) / 2 + k) * LANES + c])).sum();
                let (r, rest) = (y[at].tanh(), (2.0 * ln_sech(y[at]) + before).exp());
                grad[at] += rest * by(j) - r * later;
                later += by(j) * entry(j);
            }
        }
    }
}
