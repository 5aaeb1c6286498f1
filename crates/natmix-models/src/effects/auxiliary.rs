//! The parameters beside the predictor: their coordinates, their priors, and the parts of the log likelihood that depend on them
//! but on no predictor, which need only totals over rows.
//!
//! Positive parameters have their logarithm as coordinate. The cut points of the ordinal family are `cut_0 = z_0` and
//! `cut_k = cut_(k-1) + exp(z_k)`. With `W` the total weight, `W_k` that of category `k` or of count `k`, and `T_i` that of all
//! counts above `i`, the parts are
//!
//! | family | part |
//! |---|---|
//! | linear | `-W log sigma` |
//! | robust | `W (log Gamma((df + 1)/2) - log Gamma(df/2) - log(pi df)/2 - log sigma)` |
//! | negative binomial | `sum_k W_k (log Gamma(k + shape) - log Gamma(shape)) = sum_i T_i log(shape + i)` |
//! | gamma | `W (shape log shape - shape - log Gamma(shape))` |
//! | survival | `log shape` for each event |
//! | ordinal | `sum_k W_k log(1 - exp(cut_(k-1) - cut_k))` |

use super::data::EffectsData;
use super::family::Family;
use super::lanes::{LANES, Lane, each, lane, lane_mut};
use super::likelihood::{FAR, Outcomes};
use super::prior_density::PriorDensity;
use super::sharing::keep;
use crate::gamma_ratios::{rising, stirling_gap};
use crate::prior::LOG_TAU;
use crate::vector_math::ln_1p;
use natmix::autodiff::special::ln_gamma;
use std::ops::Range;

/// Counts below this have their logarithms summed one by one.
const SMALL_COUNTS: usize = 256;
/// Totals of every family: of weights, of constants, and of events.
const COMMON: usize = 3;

/// The parameters beside the predictor, with their priors in the units of the fit.
#[derive(Clone, Debug)]
pub(super) struct Auxiliary {
    pub family: Family,
    /// Of positive parameters.
    pub priors: Vec<PriorDensity>,
    /// Of each cut point.
    pub cut_prior: PriorDensity,
    /// Logarithm of the number of orders that the cut points could have.
    log_orders: f64,
    /// Class of each row, whose weights are summed: category, small count, or `SMALL_COUNTS` and the index of a large one.
    class: Vec<u32>,
    large_counts: Vec<f64>,
    /// The part of the log likelihood of each row that depends on nothing.
    constants: Vec<f64>,
    /// Totals over all rows.
    totals: Vec<f64>,
}

impl Auxiliary {
    /// For data whose outcomes were divided by `unit` where they have units.
    pub fn new(family: Family, data: &EffectsData, outcomes: &Outcomes, unit: f64) -> Self {
        let mut large_counts: Vec<f64> = Vec::new();
        let mut class = Vec::new();
        match family {
            Family::NegativeBinomial => {
                large_counts.extend(data.y.iter().filter(|y| **y >= SMALL_COUNTS as f64));
                large_counts.sort_by(f64::total_cmp);
                large_counts.dedup();
                let class_of = |y: &f64| match large_counts.binary_search_by(|count| count.total_cmp(y)) {
                    Ok(at) => (SMALL_COUNTS + at) as u32,
                    Err(_) => *y as u32,
                };
                class = data.y.iter().map(class_of).collect();
            }
            Family::Ordinal { .. } => class = data.y.iter().map(|y| *y as u32).collect(),
            _ => {}
        }
        let constants = (0..data.rows())
            .map(|row| {
                let y = data.y[row];
                match family {
                    Family::Linear => -0.5 * LOG_TAU - unit.ln(),
                    Family::Robust => -unit.ln(),
                    Family::Logistic | Family::Ordinal { .. } => 0.0,
                    Family::Poisson | Family::NegativeBinomial => -ln_gamma(y + 1.0),
                    Family::Binomial => {
                        let failures = outcomes.other[row];
                        ln_gamma(y + failures + 1.0) - ln_gamma(y + 1.0) - ln_gamma(failures + 1.0)
                    }
                    Family::Gamma => -y.ln(),
                    Family::Survival => -outcomes.other[row] * y.ln(),
                }
            })
            .collect();
        let priors = family.auxiliary().iter().map(|(_, prior)| *prior).collect();
        let cut_prior = PriorDensity::Logistic { location: 0.0, scale: 1.0 };
        let log_orders = ln_gamma(family.cuts() as f64 + 1.0);
        let totals = Vec::new();
        let mut auxiliary = Self { family, priors, cut_prior, log_orders, class, large_counts, constants, totals };
        let mut totals = vec![0.0; auxiliary.totals_len()];
        auxiliary.add_totals(&mut totals, outcomes, 0..data.rows());
        auxiliary.totals = totals;
        auxiliary
    }

    /// Number of coordinates.
    pub fn dim(&self) -> usize {
        self.family.parameters()
    }

    /// Keeps some rows; the totals stay those of all.
    pub fn keep(&mut self, rows: &Range<usize>) {
        keep(&mut self.class, rows, 1);
        keep(&mut self.constants, rows, 1);
    }

    /// Totals over all rows.
    pub fn totals(&self) -> &[f64] {
        &self.totals
    }

    pub fn totals_len(&self) -> usize {
        COMMON
            + match self.family {
                Family::NegativeBinomial => SMALL_COUNTS + self.large_counts.len(),
                Family::Ordinal { categories } => categories,
                _ => 0,
            }
    }

    /// Writes totals over `rows` into `totals`, which are zeros.
    pub fn add_totals(&self, totals: &mut [f64], outcomes: &Outcomes, rows: impl Iterator<Item = usize>) {
        for row in rows {
            let weight = outcomes.weight(row);
            totals[0] += weight;
            totals[1] += weight * self.constants[row];
            if self.family == Family::Survival {
                totals[2] += weight * outcomes.other[row];
            }
            if let Some(class) = self.class.get(row) {
                totals[COMMON + *class as usize] += weight;
            }
        }
        if self.family == Family::NegativeBinomial {
            // From the weight of each small count to that of all above it; the last one is zero.
            let small = &mut totals[COMMON..COMMON + SMALL_COUNTS];
            let mut above = 0.0;
            for weight in small.iter_mut().rev() {
                above += std::mem::replace(weight, above);
            }
        }
    }

    /// Writes what the likelihood reads, from the coordinates `z` (a run of lanes).
    pub fn prepare(&self, z: &[f64], params: &mut [f64]) {
        match self.family {
            Family::Linear => *lane_mut(params, 0) = lane(z, 0).map(|log_sd| (-2.0 * log_sd).exp()),
            Family::Robust => {
                let (log_sd, log_df) = (lane(z, 0), lane(z, 1));
                *lane_mut(params, 0) = each(|c| (-2.0 * log_sd[c] - log_df[c]).exp());
                *lane_mut(params, 1) = log_df.map(|log_df| log_df.exp() + 1.0);
            }
            Family::NegativeBinomial => {
                *lane_mut(params, 0) = *lane(z, 0);
                *lane_mut(params, 1) = lane(z, 0).map(f64::exp);
            }
            Family::Gamma | Family::Survival => *lane_mut(params, 0) = lane(z, 0).map(f64::exp),
            Family::Ordinal { categories } => {
                *lane_mut(params, 0) = [-FAR; LANES];
                for k in 1..categories {
                    let before = *lane(params, k - 1);
                    let z = lane(z, k - 1);
                    *lane_mut(params, k) = if k == 1 { *z } else { each(|c| before[c] + z[c].exp()) };
                }
                *lane_mut(params, categories) = [FAR; LANES];
            }
            Family::Logistic | Family::Binomial | Family::Poisson => {}
        }
    }

    /// Adds the priors and the parts that depend on no predictor to values and gradient, `sums` being what the likelihood has
    /// left and `scale` the factor of all totals.
    #[inline(always)]
    pub fn finish(&self, at: &At<'_>, value: &mut Lane, grad: &mut [f64]) {
        let At { z, totals, scale, params, sums } = *at;
        let total = scale * totals[0];
        for value in value.iter_mut() {
            *value += scale * totals[1];
        }
        for (k, prior) in self.priors.iter().enumerate() {
            for c in 0..LANES {
                let [log, slope, _] = prior.at_log(z[k * LANES + c]);
                value[c] += log;
                grad[k * LANES + c] = slope;
            }
        }
        match self.family {
            Family::Linear => {
                for c in 0..LANES {
                    value[c] -= total * z[c];
                    grad[c] += sums[c] - total;
                }
            }
            Family::Robust => {
                for c in 0..LANES {
                    let (log_sd, log_df, df_1) = (z[c], z[LANES + c], params[LANES + c]);
                    let df = log_df.exp();
                    let [ratio, slope, _] = rising(0.5 * df, 0.5);
                    value[c] += total * (ratio - 0.5 * (log_df + std::f64::consts::PI.ln()) - log_sd);
                    let (logs, shares) = (sums[c], sums[LANES + c]);
                    grad[c] += df_1 * shares - total;
                    grad[LANES + c] += 0.5 * (df_1 * shares - df * logs) + total * (0.5 * df * slope - 0.5);
                }
            }
            Family::NegativeBinomial => self.finish_counts(at, value, grad),
            Family::Gamma => {
                for c in 0..LANES {
                    let [gap, slope, _] = stirling_gap(params[c]);
                    value[c] += total * gap;
                    grad[c] += params[c] * sums[c] + total * slope;
                }
            }
            Family::Survival => {
                for c in 0..LANES {
                    value[c] += scale * totals[2] * z[c];
                    grad[c] += sums[c] + scale * totals[2];
                }
            }
            Family::Ordinal { categories } => self.finish_cuts(categories, at, value, grad),
            Family::Logistic | Family::Binomial | Family::Poisson => {}
        }
    }

    /// The total weight of a category.
    pub fn category_weight(&self, totals: &[f64], category: usize) -> f64 {
        totals[COMMON + category]
    }

    /// Second derivatives in the positive parameters' coordinates `z` of the priors and of what [`Auxiliary::finish`] adds.
    pub fn second(&self, scale: f64, totals: &[f64], z: &[f64]) -> Vec<f64> {
        let mut second: Vec<f64> = self.priors.iter().zip(z).map(|(prior, z)| prior.at_log(*z)[2]).collect();
        match self.family {
            Family::Robust => {
                let half = 0.5 * z[1].exp();
                let [_, slope, curv] = rising(half, 0.5);
                second[1] += scale * totals[0] * half * (slope + half * curv);
            }
            Family::NegativeBinomial => {
                let shape = z[0].exp();
                let (small, large) = totals[COMMON..].split_at(SMALL_COUNTS);
                for (i, above) in small.iter().enumerate() {
                    let share = i as f64 / shape;
                    second[0] += scale * above * share / ((1.0 + share) * (1.0 + share));
                }
                for (count, weight) in self.large_counts.iter().zip(large) {
                    let [_, slope, curv] = rising(shape, *count);
                    second[0] += scale * weight * shape * (slope + shape * curv);
                }
            }
            Family::Gamma => {
                let [_, slope, curv] = stirling_gap(z[0].exp());
                second[0] += scale * totals[0] * (slope + curv);
            }
            _ => {}
        }
        second
    }

    #[inline(always)]
    fn finish_counts(&self, at: &At<'_>, value: &mut Lane, grad: &mut [f64]) {
        let (log_shape, shape) = (lane(at.params, 0), lane(at.params, 1));
        let (small, large) = at.totals[COMMON..].split_at(SMALL_COUNTS);
        let mut slopes = [0.0; LANES];
        for (i, above) in small.iter().enumerate().filter(|(_, above)| **above > 0.0) {
            let share = each(|c| i as f64 / shape[c]);
            for c in 0..LANES {
                value[c] += at.scale * above * (log_shape[c] + ln_1p(share[c]));
                slopes[c] += above / (1.0 + share[c]);
            }
        }
        for (count, weight) in self.large_counts.iter().zip(large).filter(|(_, weight)| **weight > 0.0) {
            for c in 0..LANES {
                let [ratio, slope, _] = rising(shape[c], *count);
                value[c] += at.scale * weight * ratio;
                slopes[c] += weight * shape[c] * slope;
            }
        }
        for c in 0..LANES {
            grad[c] += at.scale * slopes[c] - at.sums[c] - shape[c] * at.sums[LANES + c];
        }
    }

    #[inline(always)]
    fn finish_cuts(&self, categories: usize, at: &At<'_>, value: &mut Lane, grad: &mut [f64]) {
        let cuts = categories - 1;
        for c in 0..LANES {
            value[c] += self.log_orders;
            let mut from_here_on = 0.0;
            for k in (0..cuts).rev() {
                let (z, cut) = (at.z[k * LANES + c], at.params[(k + 1) * LANES + c]);
                let [log, slope, _] = self.cut_prior.at(cut);
                value[c] += log;
                from_here_on += slope + at.sums[(k + 1) * LANES + c];
                grad[k * LANES + c] = if k == 0 {
                    from_here_on
                } else {
                    let (gap, weight) = (z.exp(), at.scale * at.totals[COMMON + k]);
                    value[c] += z + weight * ln_1m_exp(gap);
                    gap * from_here_on + 1.0 + weight * over_exp_m1(gap)
                };
            }
        }
    }
}

/// `log(1 - exp(-x))` for `x > 0`.
pub(super) fn ln_1m_exp(x: f64) -> f64 {
    if x < std::f64::consts::LN_2 { (-(-x).exp_m1()).ln() } else { (-(-x).exp()).ln_1p() }
}

/// `x / (exp(x) - 1)`, one at zero.
pub(super) fn over_exp_m1(x: f64) -> f64 {
    if x < 1e-8 { 1.0 - 0.5 * x } else { x * (-x).exp() / -(-x).exp_m1() }
}

/// Coordinates, prepared parameters, totals, and the sums of the likelihood, at one group of points.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub z: &'a [f64],
    pub totals: &'a [f64],
    pub scale: f64,
    pub params: &'a [f64],
    pub sums: &'a [f64],
}
