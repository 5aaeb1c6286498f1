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
//!
//! Exponentials and logarithms are taken in loops of their own over a whole block: with other arithmetic around them, the compiler
//! does not vectorise them.

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
    /// Room for [`WORK`] numbers per predictor.
    pub work: &'a mut [f64],
}

/// Numbers that a family may keep for each predictor.
pub(super) const WORK: usize = 4;

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
    // Maxima and clamped functions would make a number of a predictor that is none.
    add(terms.value, 1.0, &zero_if_finite(eta));
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

/// The factor that all values of a family with a series have: what is left of them depends on nothing but the predictor.
#[inline(always)]
pub(super) fn factor_of(family: Family, params: &[f64]) -> Lane {
    match family {
        Family::Linear | Family::Gamma => *lane(params, 0),
        _ => [1.0; LANES],
    }
}

/// Adds to the sums over rows what belongs to values without that factor.
#[inline(always)]
pub(super) fn add_sums(family: Family, factor: &Lane, value: &Lane, sums: &mut [f64]) {
    match family {
        Family::Linear => add_product(lane_mut(sums, 0), &factor.map(|factor| -2.0 * factor), value),
        Family::Gamma => add(lane_mut(sums, 0), 1.0, value),
        _ => {}
    }
}

#[inline(always)]
fn rows(eta: &mut [f64]) -> impl Iterator<Item = (usize, &mut Lane)> {
    eta.as_chunks_mut::<LANES>().0.iter_mut().enumerate()
}

/// Zero for each lane whose numbers are all finite, and otherwise NaN.
#[inline(always)]
fn zero_if_finite(x: &[f64]) -> Lane {
    let mut sum = [0.0; LANES];
    for x in x.as_chunks::<LANES>().0 {
        add(&mut sum, 0.0, x);
    }
    sum
}

/// `out = f(x)`. The function has to be one that is always inlined: a closure around it, or an iterator's `for_each`, would be
/// compiled apart, without the vector instructions.
#[inline(always)]
fn map(out: &mut [f64], x: &[f64], f: impl Fn(f64) -> f64) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = f(*x);
    }
}

#[inline(always)]
fn linear(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let prec = *lane(terms.params, 0);
    let mut sum = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, w, own) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row), *eta);
        let residual = each(|c| y - own[c]);
        let slope = each(|c| w * prec[c] * residual[c]);
        add_product(&mut sum, &slope, &residual);
        *eta = slope;
    }
    add(terms.value, -0.5, &sum);
    add(lane_mut(terms.sums, 0), 1.0, &sum);
}

/// `exp(-|s|)` and `log(1 + exp(-|s|))`.
#[inline(always)]
fn small_and_log(s: &[f64], small: &mut [f64], log: &mut [f64]) {
    for (small, s) in small.iter_mut().zip(s) {
        *small = exp_of_negative(-s.abs());
    }
    map(log, small, ln_1p);
}

/// `1/(1 + exp(-s))`, given `t = exp(-|s|)`.
#[inline(always)]
fn share(s: f64, t: f64) -> f64 {
    (if s >= 0.0 { 1.0 } else { t }) / (1.0 + t)
}

#[inline(always)]
fn successes(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let (small, log) = terms.work[..2 * eta.len()].split_at_mut(eta.len());
    small_and_log(eta, small, log);
    let mut lost = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, m) = (terms.outcomes.y[row], terms.outcomes.other[row]);
        let w = terms.scale * terms.outcomes.weight(row);
        let (s, t, log) = (*eta, *lane(small, i), *lane(log, i));
        add(&mut lost, w, &each(|c| y * (-s[c]).max(0.0) + m * s[c].max(0.0) + (y + m) * log[c]));
        *eta = each(|c| w * (y - (y + m) * share(s[c], t[c])));
    }
    add(terms.value, -1.0, &lost);
}

#[inline(always)]
fn negative_binomial(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize + Copy) {
    let (log_shape, shape) = (*lane(terms.params, 0), *lane(terms.params, 1));
    let (mut slopes, mut logs, mut lost) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for (_, eta) in rows(eta) {
        let own = *eta;
        *eta = each(|c| own[c] - log_shape[c]);
    }
    let (small, log) = terms.work[..2 * eta.len()].split_at_mut(eta.len());
    small_and_log(eta, small, log);
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, w) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row));
        let (s, t, log) = (*eta, *lane(small, i), *lane(log, i));
        let above = each(|c| s[c].max(0.0) + log[c]);
        add(&mut lost, w, &each(|c| y * ((-s[c]).max(0.0) + log[c]) + shape[c] * above[c]));
        // Not y minus a share of y + shape: that would lose all digits where the shape is large.
        let slope = each(|c| w * (y * share(-s[c], t[c]) - shape[c] * share(s[c], t[c])));
        add(&mut slopes, 1.0, &slope);
        add(&mut logs, w, &above);
        *eta = slope;
    }
    add(terms.value, -1.0, &lost);
    add(lane_mut(terms.sums, 0), 1.0, &slopes);
    add(lane_mut(terms.sums, 1), 1.0, &logs);
}

#[inline(always)]
fn poisson(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    let means = &mut terms.work[..eta.len()];
    map(means, eta, exp);
    let mut sum = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (y, w) = (terms.outcomes.y[row], terms.scale * terms.outcomes.weight(row));
        let (own, mean) = (*eta, *lane(means, i));
        add(&mut sum, w, &each(|c| y * own[c] - mean[c]));
        *eta = each(|c| w * (y - mean[c]));
    }
    add(terms.value, 1.0, &sum);
}

#[inline(always)]
fn robust(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize + Copy) {
    let (prec, df_1) = (*lane(terms.params, 0), *lane(terms.params, 1));
    let (mut logs, mut shares) = ([0.0; LANES], [0.0; LANES]);
    let (squares, log) = terms.work[..2 * eta.len()].split_at_mut(eta.len());
    for (i, eta) in rows(eta) {
        let (y, own) = (terms.outcomes.y[index(i)], *eta);
        *eta = each(|c| y - own[c]);
        *lane_mut(squares, i) = each(|c| prec[c] * (y - own[c]) * (y - own[c]));
    }
    // The logarithm below is a number even where a square overflows.
    add(terms.value, 1.0, &zero_if_finite(squares));
    map(log, squares, ln_1p);
    for (i, eta) in rows(eta) {
        let w = terms.scale * terms.outcomes.weight(index(i));
        let (residual, square) = (*eta, *lane(squares, i));
        let inverse = each(|c| 1.0 / (1.0 + square[c]));
        // Not one minus the inverse: that would lose all digits where the degrees of freedom are many.
        add(&mut logs, w, lane(log, i));
        add(&mut shares, w, &each(|c| square[c] * inverse[c]));
        *eta = each(|c| w * df_1[c] * prec[c] * inverse[c] * residual[c]);
    }
    add_product(terms.value, &each(|c| -0.5 * df_1[c]), &logs);
    add(lane_mut(terms.sums, 0), 1.0, &logs);
    add(lane_mut(terms.sums, 1), 1.0, &shares);
}

#[inline(always)]
fn ordinal(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize) {
    // Both as arguments of the same softplus: what the predictor has above the upper cut point, and below the lower one.
    let (small, log) = terms.work.split_at_mut(2 * eta.len());
    let log = &mut log[..2 * eta.len()];
    for (i, eta) in rows(eta) {
        let k = terms.outcomes.y[index(i)] as usize;
        let (own, upper, lower) = (*eta, *lane(terms.params, k + 1), *lane(terms.params, k));
        *lane_mut(small, 2 * i) = each(|c| -(own[c] - upper[c]).abs());
        *lane_mut(small, 2 * i + 1) = each(|c| -(lower[c] - own[c]).abs());
    }
    for x in small.iter_mut() {
        *x = exp_of_negative(*x);
    }
    map(log, small, ln_1p);
    let mut lost = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let row = index(i);
        let w = terms.scale * terms.outcomes.weight(row);
        let k = terms.outcomes.y[row] as usize;
        let (own, upper, lower) = (*eta, *lane(terms.params, k + 1), *lane(terms.params, k));
        let (t, u) = (*lane(small, 2 * i), *lane(small, 2 * i + 1));
        let (above, below) = (each(|c| own[c] - upper[c]), each(|c| lower[c] - own[c]));
        let by_a = each(|c| w * share(above[c], t[c]));
        let by_b = each(|c| w * share(below[c], u[c]));
        let (log_a, log_b) = (*lane(log, 2 * i), *lane(log, 2 * i + 1));
        add(&mut lost, w, &each(|c| above[c].max(0.0) + log_a[c] + below[c].max(0.0) + log_b[c]));
        *eta = each(|c| by_b[c] - by_a[c]);
        add(lane_mut(terms.sums, k + 1), 1.0, &by_a);
        add(lane_mut(terms.sums, k), -1.0, &by_b);
    }
    add(terms.value, -1.0, &lost);
}

#[inline(always)]
fn gamma(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize + Copy) {
    let shape = *lane(terms.params, 0);
    let mut sum = [0.0; LANES];
    for (i, eta) in rows(eta) {
        let (y, own) = (terms.outcomes.y[index(i)], *eta);
        *eta = each(|c| y - own[c]);
    }
    let beyond = &mut terms.work[..eta.len()];
    map(beyond, eta, exp_without_line);
    for (i, eta) in rows(eta) {
        let w = terms.scale * terms.outcomes.weight(index(i));
        let (ratio, beyond) = (*eta, *lane(beyond, i));
        add(&mut sum, -w, &beyond);
        *eta = each(|c| w * shape[c] * (beyond[c] + ratio[c]));
    }
    add_product(terms.value, &shape, &sum);
    add(lane_mut(terms.sums, 0), 1.0, &sum);
}

#[inline(always)]
fn survival(terms: &mut Terms<'_>, eta: &mut [f64], index: impl Fn(usize) -> usize + Copy) {
    let shape = *lane(terms.params, 0);
    let (mut sum, mut value) = ([0.0; LANES], [0.0; LANES]);
    for (i, eta) in rows(eta) {
        let (y, own) = (terms.outcomes.y[index(i)], *eta);
        *eta = each(|c| shape[c] * (y - own[c]));
    }
    let hazards = &mut terms.work[..eta.len()];
    map(hazards, eta, exp);
    for (i, eta) in rows(eta) {
        let row = index(i);
        let (seen, w) = (terms.outcomes.other[row], terms.scale * terms.outcomes.weight(row));
        let (u, hazard) = (*eta, *lane(hazards, i));
        add(&mut value, w, &each(|c| seen * u[c] - hazard[c]));
        add(&mut sum, w, &each(|c| u[c] * (seen - hazard[c])));
        *eta = each(|c| w * shape[c] * (hazard[c] - seen));
    }
    add(terms.value, 1.0, &value);
    add(lane_mut(terms.sums, 0), 1.0, &sum);
}

#[cfg(test)]
mod tests {
    use super::super::tests::FAMILIES;
    use super::*;

    /// Values, slopes and sums of rows with these predictors.
    fn block(family: Family, outcomes: &Outcomes, params: &[f64], mut eta: Vec<f64>) -> (Lane, Vec<f64>, Vec<f64>) {
        let (mut value, mut sums) = ([0.0; LANES], vec![0.0; lanes_of(family).1 * LANES]);
        let mut work = vec![0.0; WORK * eta.len()];
        let (sums_of, value_of) = (&mut sums, &mut value);
        let mut terms = Terms { outcomes, scale: 1.0, params, sums: sums_of, value: value_of, work: &mut work };
        add_block(family, &mut terms, &mut eta, |row| row);
        (value, eta, sums)
    }

    #[test]
    fn predictors_that_are_not_finite_have_no_density() {
        let outcomes = Outcomes { y: vec![1.0; 3], other: vec![0.0, 1.0, 0.0], weights: vec![] };
        for family in FAMILIES {
            // For the ordinal family these are increasing cut points.
            let params: Vec<f64> = (0..lanes_of(family).0 * LANES).map(|at| (1 + at / LANES) as f64).collect();
            let good = block(family, &outcomes, &params, vec![0.5; 3 * LANES]).0;
            assert!(good.iter().all(|value| value.is_finite()), "{family:?}: {good:?}");
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                for row in 0..3 {
                    let mut eta = vec![0.5; 3 * LANES];
                    eta[row * LANES + 2] = bad;
                    let value = block(family, &outcomes, &params, eta).0;
                    assert!(value[2].is_nan(), "{family:?}, {bad} in row {row}: {}", value[2]);
                    assert!((0..LANES).all(|c| c == 2 || value[c] == good[c]), "{family:?}: {value:?}");
                }
            }
        }
        // A residual may be a number although its square is none.
        let params = [[1.0; LANES], [2.0; LANES]].concat();
        let mut eta = vec![0.5; 3 * LANES];
        (eta[0], eta[1]) = (1e200, 1e150);
        let (value, slopes, _) = block(Family::Robust, &outcomes, &params, eta);
        assert!(value[0].is_nan() && value[1].is_finite(), "{value:?}");
        assert!((slopes[1] + 2e-150).abs() < 1e-160, "{}", slopes[1]);
    }
    #[test]
    fn shares_are_accurate_for_many_degrees_of_freedom() {
        let y = vec![0.3, -1.2, 2.5];
        let squares: f64 = y.iter().map(|y| y * y).sum();
        let outcomes = Outcomes { y, other: vec![], weights: vec![] };
        for df in [1e8, 1e12, 1e16, 1e20] {
            let params = [[1.0 / df; LANES], [df + 1.0; LANES]].concat();
            let (_, _, sums) = block(Family::Robust, &outcomes, &params, vec![0.0; 3 * LANES]);
            let found = df * sums[LANES];
            assert!((found / squares - 1.0).abs() < 10.0 / df + 1e-15, "{df}: {found}, not {squares}");
        }
    }
}
