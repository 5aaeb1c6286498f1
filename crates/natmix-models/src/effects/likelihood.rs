//! Log likelihoods of a block of rows at several points at once, with the slopes in the predictors and the sums over rows from
//! which [`super::auxiliary`] has the slopes in the parameters beside them.
//!
//! What does not depend on the predictor is left out here and added there, once per point instead of once per row. With
//! `sp(x) = log(1 + exp x)` and `s(x) = 1/(1 + exp(-x))`, a row contributes
//!
//! | family | value | slope |
//! |---|---|---|
//! | linear, `r = y - eta` | `-r^2 / (2 sigma^2)` | `r / sigma^2` |
//! | logistic, binomial; `m` failures | `-y sp(-eta) - m sp(eta)` | `y s(-eta) - m s(eta)` |
//! | negative binomial | the same with `eta - log(shape)` and `m = shape` | |
//! | poisson | `y eta - exp(eta)` | `y - exp(eta)` |
//! | robust, `q = r^2 / (df sigma^2)` | `-(df + 1)/2 log(1 + q)` | `(df + 1) r / (df sigma^2 (1 + q))` |
//! | ordinal, between `a = cut_k - eta` and `b = cut_(k-1) - eta` | `-sp(-a) - sp(b)` | `s(b) - s(-a)` |
//! | gamma, `r = log y - eta` | `-shape (exp(r) - 1 - r)` | `shape (exp(r) - 1)` |
//! | survival, `u = shape (log y - eta)`, `e` = 1 if the event was seen | `e u - exp(u)` | `-shape (e - exp(u))` |

use super::family::Family;
use super::lanes::{LANES, Lane, add, add_product, each, lane, lane_mut};
use crate::vector_math::{exp, exp_of_negative, exp_without_line, ln_1p};

/// Beyond every cut point: finite, so that differences stay numbers.
pub(super) const FAR: f64 = 1e30;

/// What the likelihood reads of each row.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    /// Outcome in the units of the fit; its logarithm for gamma and survival.
    pub y: Vec<f64>,
    /// Failures of logistic and binomial outcomes; for survival 1 if the event was seen and 0 if not.
    pub other: Vec<f64>,
    /// How often each row counts; once if empty.
    pub weights: Vec<f64>,
}

impl Outcomes {
    #[inline(always)]
    pub fn weight(&self, row: usize) -> f64 {
        if self.weights.is_empty() { 1.0 } else { self.weights[row] }
    }
}

/// What a family reads and adds to, for one group of points.
pub(super) struct Terms<'a> {
    pub outcomes: &'a Outcomes,
    /// Factor of all weights.
    pub scale: f64,
    /// Parameters beside the predictor, in the form that the family needs: a run of lanes.
    pub params: &'a [f64],
    /// Sums over rows: a run of lanes.
    pub sums: &'a mut [f64],
    pub value: &'a mut Lane,
}

/// Numbers of lanes of `params` and of `sums`.
pub(super) fn lanes_of(family: Family) -> (usize, usize) {
    match family {
        Family::Linear | Family::Gamma | Family::Survival => (1, 1),
        Family::Robust | Family::NegativeBinomial => (2, 2),
        Family::Logistic | Family::Binomial | Family::Poisson => (0, 0),
        Family::Ordinal { categories } => (categories + 1, categories + 1),
    }
}

/// Adds the values of some rows, of which `index` gives the numbers, and replaces predictors by slopes.
#[inline(always)]
pub(super) fn add_block(family: Family, terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize + Copy) {
    match family {
        Family::Linear => linear(terms, eta, index),
        Family::Logistic | Family::Binomial => successes(terms, eta, index),
        Family::NegativeBinomial => negative_binomial(terms, eta, index),
        Family::Poisson => poisson(terms, eta, index),
        Family::Robust => robust(terms, eta, index),
        Family::Ordinal { .. } => ordinal(terms, eta, index),
        Family::Gamma => gamma(terms, eta, index),
        Family::Survival => survival(terms, eta, index),
    }
}

#[inline(always)]
fn rows(eta: &mut [f64]) -> impl Iterator<Item = (usize, &mut Lane)> {
    eta.as_chunks_mut::<LANES>().0.iter_mut().enumerate()
}

#[inline(always)]
fn linear(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let prec = *lane(terms.params, 0);
    let mut sum = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, w) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row));
        for c in 0..LANES {
            let residual = y - eta[c];
            eta[c] = w * prec[c] * residual;
            sum[c] = eta[c].mul_add(residual, sum[c]);
        }
    }
    add(terms.value, -0.5, &sum);
    add(lane_mut(terms.sums, 0), 1.0, &sum);
}

/// `exp(-|s|)` and `log(1 + exp(-|s|))`.
#[inline(always)]
fn small_and_log(s: &Lane) -> (Lane, Lane) {
    let small = each(|c| exp_of_negative(-s[c].abs()));
    (small, each(|c| ln_1p(small[c])))
}

#[inline(always)]
fn successes(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, m) = (terms.outcomes.y[row], terms.outcomes.other[row]);
        let w = terms.scale * terms.outcomes.weight(row);
        let (t, log) = small_and_log(eta);
        for c in 0..LANES {
            let s = eta[c];
            terms.value[c] -= w * (y * (-s).max(0.0) + m * s.max(0.0) + (y + m) * log[c]);
            let (failure, success) = if s >= 0.0 { (t[c], 1.0) } else { (1.0, t[c]) };
            eta[c] = w * (y * failure - m * success) / (1.0 + t[c]);
        }
    }
}

#[inline(always)]
fn negative_binomial(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let (log_shape, shape) = (*lane(terms.params, 0), *lane(terms.params, 1));
    let (mut slopes, mut logs) = ([0.0; LANES], [0.0; LANES]);
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, w) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row));
        let s = each(|c| eta[c] - log_shape[c]);
        let (t, log) = small_and_log(&s);
        for c in 0..LANES {
            let above = s[c].max(0.0) + log[c];
            let below = (-s[c]).max(0.0) + log[c];
            terms.value[c] -= w * (y * below + shape[c] * above);
            let (failure, success) = if s[c] >= 0.0 { (t[c], 1.0) } else { (1.0, t[c]) };
            eta[c] = w * (y * failure - shape[c] * success) / (1.0 + t[c]);
            slopes[c] += eta[c];
            logs[c] += w * above;
        }
    }
    add(lane_mut(terms.sums, 0), 1.0, &slopes);
    add(lane_mut(terms.sums, 1), 1.0, &logs);
}

#[inline(always)]
fn poisson(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, w) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row));
        let mean = each(|c| exp(eta[c]));
        for c in 0..LANES {
            terms.value[c] += w * (y * eta[c] - mean[c]);
            eta[c] = w * (y - mean[c]);
        }
    }
}

#[inline(always)]
fn robust(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let (prec, df_1) = (*lane(terms.params, 0), *lane(terms.params, 1));
    let (mut logs, mut shares) = ([0.0; LANES], [0.0; LANES]);
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, w) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row));
        let square = each(|c| prec[c] * (y - eta[c]) * (y - eta[c]));
        let log = each(|c| ln_1p(square[c]));
        for c in 0..LANES {
            let inverse = 1.0 / (1.0 + square[c]);
            logs[c] += w * log[c];
            shares[c] += w * (1.0 - inverse);
            eta[c] = w * df_1[c] * prec[c] * (y - eta[c]) * inverse;
        }
    }
    add_product(terms.value, &each(|c| -0.5 * df_1[c]), &logs);
    add(lane_mut(terms.sums, 0), 1.0, &logs);
    add(lane_mut(terms.sums, 1), 1.0, &shares);
}

#[inline(always)]
fn ordinal(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    for (i, eta) in rows(eta) {
        let row = index(i);
        let w = terms.scale * terms.outcomes.weight(row);
        let k = terms.outcomes.y[row] as usize;
        let (upper, lower) = (lane(terms.params, k + 1), lane(terms.params, k));
        // Both as arguments of the same softplus: -a, and b.
        let a = each(|c| eta[c] - upper[c]);
        let b = each(|c| lower[c] - eta[c]);
        let ((t, log_a), (u, log_b)) = (small_and_log(&a), small_and_log(&b));
        let by_a = each(|c| w * if a[c] >= 0.0 { 1.0 } else { t[c] } / (1.0 + t[c]));
        let by_b = each(|c| w * if b[c] >= 0.0 { 1.0 } else { u[c] } / (1.0 + u[c]));
        for c in 0..LANES {
            terms.value[c] -= w * (a[c].max(0.0) + log_a[c] + b[c].max(0.0) + log_b[c]);
            eta[c] = by_b[c] - by_a[c];
        }
        add(lane_mut(terms.sums, k + 1), 1.0, &by_a);
        add(lane_mut(terms.sums, k), -1.0, &by_b);
    }
}

#[inline(always)]
fn gamma(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let shape = *lane(terms.params, 0);
    let mut sum = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (log_y, w) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row));
        let above = each(|c| exp_without_line(log_y - eta[c]));
        for c in 0..LANES {
            sum[c] -= w * above[c];
            eta[c] = w * shape[c] * (above[c] + (log_y - eta[c]));
        }
    }
    add_product(terms.value, &shape, &sum);
    add(lane_mut(terms.sums, 0), 1.0, &sum);
}

#[inline(always)]
fn survival(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let shape = *lane(terms.params, 0);
    let mut sum = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (log_y, seen) = (terms.outcomes.y[row], terms.outcomes.other[row]);
        let w = terms.scale * terms.outcomes.weight(row);
        let u = each(|c| shape[c] * (log_y - eta[c]));
        let hazard = each(|c| exp(u[c]));
        for c in 0..LANES {
            terms.value[c] += w * (seen * u[c] - hazard[c]);
            sum[c] += w * u[c] * (seen - hazard[c]);
            eta[c] = -w * shape[c] * (seen - hazard[c]);
        }
    }
    add(lane_mut(terms.sums, 0), 1.0, &sum);
}
