//! Coordinates in which a hierarchy is easier to walk: others are measured in units of a scale that depends on a few of them.
//!
//! Where some coordinates (log standard deviations of groups, say) determine how far others spread, no single metric fits: the
//! density is a funnel. Draws show it: the log of the squared distance of `z_i` from what the others predict for it then rises
//! with `z_s`. With `u_s` the standardised `z_s`, and `t = 3 tanh(u / 3)`, which is bounded, the chains move in `y`:
//!
//! ```text
//! z_s = y_s,    z_i = m_i(u) + exp(sum_s slope_is u_s) (y_i - l_i(u))
//! l_i = a_i + sum_s b_is t_s + sum_g h_ig (z_g - mean of z_g),    m_i = l_i + sum_s c_is (t_s^2 - mean of t_s^2)
//! log det = sum_is slope_is u_s
//! ```
//!
//! The `z_g` are locations, such as the mean of the groups, around which the others shrink. This is a partly non-centred
//! parametrisation whose degree is read off the draws, for each coordinate. Around the mean it is the identity, so that the
//! metric can stay as it is; everywhere it is one to one, so that a poor choice makes chains slow, not wrong.

use super::statistics::mean_and_variance;
use crate::linalg::{self, Memory, Transpose};
use rayon::prelude::*;

/// Most coordinates that others take their scale from, and most that they shrink around.
const MOST_SCALES: usize = 6;
const MOST_LOCATIONS: usize = 4;
/// Mean squared correlation with the others from which on they shrink around a coordinate.
const LOCATION: f64 = 0.05;
/// Sum of the squared correlations, beyond that of chance, that a coordinate must explain for others to take their scale from
/// it; and the same in standard errors.
const WORTHWHILE: f64 = 0.1;
const CLEAR: f64 = 5.0;
/// Squared correlation, times the effective draws, from which on a coordinate is seen to take its scale from another.
const SHOWN: f64 = 9.0;
/// Added to the variances, as a share, so that their covariance can be inverted.
const RIDGE: f64 = 0.02;
/// How often mean and scale are found in turn, and the largest log of the weight of a draw in it.
const ALTERNATIONS: usize = 3;
const MOST_LOG_WEIGHT: f64 = 9.0;
/// Bound of `t`.
const REACH: f64 = 3.0;

/// Which coordinates take their scale from which.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scales {
    d: usize,
    /// The coordinates that the others take their scale from, with their means and standard deviations.
    from: Vec<(usize, f64, f64)>,
    /// Means of `t_s^2`.
    square: Vec<f64>,
    /// The locations, with their means.
    around: Vec<(usize, f64)>,
    /// Coordinates that take their scale from others, with `a_i` and, per scale, slope, `b` and `c`.
    scaled: Vec<Scaled>,
}

#[derive(Clone, Debug, PartialEq)]
struct Scaled {
    coordinate: usize,
    centre: f64,
    slope: Vec<f64>,
    linear: Vec<f64>,
    quadratic: Vec<f64>,
    shift: Vec<f64>,
}

/// What scales and locations are at one point. Of fixed length, since it is made for every step of every chain; what there is
/// no scale or location for is zero.
#[derive(Default)]
struct Here {
    u: [f64; MOST_SCALES],
    t: [f64; MOST_SCALES],
    /// Derivative of `t`.
    rise: [f64; MOST_SCALES],
    /// Distances from the means of the locations.
    off: [f64; MOST_LOCATIONS],
}

impl Scales {
    /// The scales that draws (one after another) show, if they show any. They are worth `effective` independent ones.
    pub fn of(draws: &[f64], d: usize, effective: f64) -> Option<Self> {
        let n = draws.len() / d;
        let column = |j: usize| draws.iter().skip(j).step_by(d).copied();
        let moments: Vec<(f64, f64)> = (0..d).map(|j| mean_and_variance(column(j))).collect();
        if !moments.iter().all(|(mean, variance)| mean.is_finite() && *variance > 0.0 && variance.is_finite()) {
            return None;
        }
        let standard = |j: usize| -> Vec<f64> {
            let (mean, variance) = moments[j];
            column(j).map(|z| (z - mean) / variance.sqrt()).collect()
        };
        let columns: Vec<Vec<f64>> = (0..d).map(standard).collect();
        let mut logs = log_distances(&columns)?;
        let flat = columns.concat();
        let worthwhile = WORTHWHILE.max(CLEAR * (2.0 * d as f64).sqrt() / effective);
        let (mut from, mut scaled_by): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut correlations = vec![0.0; d * d];
        while from.len() < MOST_SCALES {
            // Of every coordinate with the logs of every other.
            let (share, all) = (1.0 / n as f64, logs.concat());
            linalg::product(&mut correlations, false, share, &flat, Transpose::Yes, &all, (d, n, d));
            let explained = |s: usize| -> f64 {
                let others = (0..d).filter(|i| *i != s && !from.contains(i));
                others.map(|i| correlations[i * d + s].powi(2) - 1.0 / effective).sum()
            };
            let candidates = (0..d).filter(|s| !from.contains(s)).map(|s| (s, explained(s)));
            let Some((s, _)) = candidates.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|best| best.1 > worthwhile) else {
                break;
            };
            from.push(s);
            scaled_by.extend((0..d).filter(|i| correlations[i * d + s].powi(2) > SHOWN / effective));
            for (i, log) in logs.iter_mut().enumerate() {
                let slope = correlations[i * d + s];
                log.iter_mut().zip(&columns[s]).for_each(|(log, u)| *log -= slope * u);
            }
        }
        if from.is_empty() {
            return None;
        }
        let t: Vec<Vec<f64>> = from.iter().map(|&s| columns[s].iter().map(|u| bounded(*u)).collect()).collect();
        let square: Vec<f64> = t.iter().map(|t| t.iter().map(|t| t * t).sum::<f64>() / n as f64).collect();
        let mut features = vec![vec![1.0; n]];
        features.extend(t.iter().cloned());
        features.extend(t.iter().zip(&square).map(|(t, k)| t.iter().map(|t| t * t - k).collect()));
        let around = locations(&columns, &scaled_by, &from, effective);
        features.extend(around.iter().map(|&g| columns[g].clone()));
        let of_mean = features;
        let mut of_scale = vec![vec![1.0; n]];
        of_scale.extend(from.iter().map(|&s| columns[s].clone()));
        let k = from.len();
        // Coefficients of the mean and slopes of the log scale of one coordinate.
        let fit = |i: usize, of_mean: &[Vec<f64>]| -> Option<(Vec<f64>, Vec<f64>)> {
            let (mut mean, mut slope) = (Vec::new(), vec![0.0; k]);
            // Where the scale is small, the mean must be known to a part of it: each helps to find the other.
            for _ in 0..ALTERNATIONS {
                let precision: Vec<f64> = log_scales(&of_scale, &slope)
                    .map(|log| (-2.0 * log).clamp(-MOST_LOG_WEIGHT, MOST_LOG_WEIGHT).exp())
                    .collect();
                mean = shrunk_fit(of_mean, &columns[i], Some(&precision), effective)?;
                let rest = residual(of_mean, &columns[i], &mean);
                let logs: Vec<f64> = rest.iter().map(|x| (x * x).max(1e-300).ln()).collect();
                slope = shrunk_fit(&of_scale, &logs, None, effective)?[1..].iter().map(|b| 0.5 * b).collect();
            }
            slope.iter().any(|x| *x != 0.0).then_some((mean, slope))
        };
        let found = |i: usize| fit(i, &of_mean).map(|(mean, slope)| (i, mean, slope));
        let others: Vec<usize> = (0..d).filter(|i| !from.contains(i) && !around.contains(i)).collect();
        let fits: Vec<(usize, Vec<f64>, Vec<f64>)> = others.into_par_iter().filter_map(found).collect();
        let scaled: Vec<Scaled> = fits
            .into_iter()
            .map(|(i, mean, slope)| {
                let sd = moments[i].1.sqrt();
                let shifts = mean[2 * k + 1..].iter().zip(&around);
                Scaled {
                    coordinate: i,
                    centre: moments[i].0 + sd * mean[0],
                    slope,
                    linear: mean[1..=k].iter().map(|b| sd * b).collect(),
                    quadratic: mean[k + 1..=2 * k].iter().map(|c| sd * c).collect(),
                    shift: shifts.map(|(h, g)| h * sd / moments[*g].1.sqrt()).collect(),
                }
            })
            .collect();
        let from = from.into_iter().map(|s| (s, moments[s].0, moments[s].1.sqrt())).collect();
        let around = around.into_iter().map(|g| (g, moments[g].0)).collect();
        (!scaled.is_empty()).then_some(Self { d, from, square, around, scaled })
    }

    /// Turns points (one after another) from the coordinates of the chains into those of the target.
    pub fn forward(&self, points: &mut [f64]) {
        for y in points.chunks_exact_mut(self.d) {
            let here = self.here(y);
            for one in &self.scaled {
                let (low, mean) = self.centres(one, &here);
                let at = &mut y[one.coordinate];
                *at = mean + log_scale(one, &here).exp() * (*at - low);
            }
        }
    }

    /// The inverse of [`Scales::forward`].
    pub fn backward(&self, points: &mut [f64]) {
        for z in points.chunks_exact_mut(self.d) {
            let here = self.here(z);
            for one in &self.scaled {
                let (low, mean) = self.centres(one, &here);
                let at = &mut z[one.coordinate];
                *at = low + (*at - mean) / log_scale(one, &here).exp();
            }
        }
    }

    /// Turns log densities and gradients at points of the target into those at the points `y` of the chains.
    pub fn pull_back(&self, y: &[f64], log_p: &mut [f64], grad: &mut [f64]) {
        for ((y, log_p), grad) in y.chunks_exact(self.d).zip(log_p).zip(grad.chunks_exact_mut(self.d)) {
            let here = self.here(y);
            let mut along = [0.0; MOST_SCALES];
            let mut shifted = [0.0; MOST_LOCATIONS];
            for one in &self.scaled {
                let (low, _) = self.centres(one, &here);
                let log_scale = log_scale(one, &here);
                *log_p += log_scale;
                let (scale, g) = (log_scale.exp(), &mut grad[one.coordinate]);
                let stretched = scale * (y[one.coordinate] - low);
                for (s, along) in along.iter_mut().enumerate().take(self.from.len()) {
                    let (slope, b, c) = (one.slope[s], one.linear[s], one.quadratic[s]);
                    *along += slope + *g * (slope * stretched + (b + 2.0 * c * here.t[s] - scale * b) * here.rise[s]);
                }
                for (shifted, h) in shifted.iter_mut().zip(&one.shift) {
                    *shifted += *g * h * (1.0 - scale);
                }
                *g *= scale;
            }
            for ((g, _), shifted) in self.around.iter().zip(shifted) {
                grad[*g] += shifted;
            }
            for ((s, _, sd), along) in self.from.iter().zip(along) {
                grad[*s] += along / sd;
            }
        }
    }

    /// What [`Scales::pull_back`] adds to the log density at each point.
    pub fn log_det(&self, y: &[f64]) -> Vec<f64> {
        let at = |y: &[f64]| {
            let here = self.here(y);
            self.scaled.iter().map(|one| log_scale(one, &here)).sum()
        };
        y.chunks_exact(self.d).map(at).collect()
    }

    fn here(&self, y: &[f64]) -> Here {
        let mut here = Here::default();
        for (k, &(s, mean, sd)) in self.from.iter().enumerate() {
            here.u[k] = (y[s] - mean) / sd;
            here.t[k] = bounded(here.u[k]);
            here.rise[k] = 1.0 - (here.t[k] / REACH).powi(2);
        }
        for (off, &(g, mean)) in here.off.iter_mut().zip(&self.around) {
            *off = y[g] - mean;
        }
        here
    }

    /// `l_i` and `m_i`.
    fn centres(&self, one: &Scaled, here: &Here) -> (f64, f64) {
        let shift: f64 = one.shift.iter().zip(&here.off).map(|(h, off)| h * off).sum();
        let low = one.centre + shift + one.linear.iter().zip(&here.t).map(|(b, t)| b * t).sum::<f64>();
        let bends = one.quadratic.iter().zip(&here.t).zip(&self.square);
        (low, low + bends.map(|((c, t), k)| c * (t * t - k)).sum::<f64>())
    }
}

fn log_scale(one: &Scaled, here: &Here) -> f64 {
    one.slope.iter().zip(&here.u).map(|(slope, u)| slope * u).sum::<f64>()
}

/// The log scale of every draw, by slopes of features of which the first is constant.
fn log_scales<'a>(of_scale: &'a [Vec<f64>], slope: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    (0..of_scale[0].len()).map(|row| slope.iter().zip(&of_scale[1..]).map(|(b, u)| b * u[row]).sum())
}

fn bounded(u: f64) -> f64 {
    REACH * (u / REACH).tanh()
}

/// Standardised logs of the squared distances of each coordinate from what the others predict for it, by their covariance.
fn log_distances(columns: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let (d, n) = (columns.len(), columns[0].len());
    let draws: Vec<f64> = (0..n).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
    let mut covariance = vec![0.0; d * d];
    linalg::product_bt(&mut covariance, false, 1.0 / n as f64, &draws, &draws, (d, n, d));
    (0..d).for_each(|i| covariance[i * (d + 1)] += RIDGE);
    linalg::cholesky(&mut covariance, d, &mut Memory::default()).ok()?;
    let mut distances = draws;
    linalg::solve_lower(&covariance, &mut distances, d, n);
    linalg::solve_lower_transpose(&covariance, &mut distances, d, n);
    let logs = |i: usize| {
        let mut logs: Vec<f64> = distances.iter().skip(i).step_by(d).map(|x| (x * x).max(1e-300).ln()).collect();
        let (mean, variance) = mean_and_variance(logs.iter().copied());
        logs.iter_mut().for_each(|log| *log = (*log - mean) / variance.sqrt());
        logs
    };
    Some((0..d).map(logs).collect())
}

/// Coordinates around which those that take their scale from others shrink: what explains most of their variance.
fn locations(columns: &[Vec<f64>], scaled: &[usize], from: &[usize], effective: f64) -> Vec<usize> {
    let (d, n) = (columns.len(), columns[0].len());
    let mut scaled: Vec<usize> = scaled.iter().copied().filter(|i| !from.contains(i)).collect();
    scaled.sort_unstable();
    scaled.dedup();
    let flat = columns.concat();
    let mut rests: Vec<Vec<f64>> = scaled.iter().map(|&i| columns[i].clone()).collect();
    let mut around: Vec<usize> = Vec::new();
    let mut with = vec![0.0; d * scaled.len()];
    while around.len() < MOST_LOCATIONS {
        linalg::product(&mut with, false, 1.0 / n as f64, &flat, Transpose::Yes, &rests.concat(), (d, n, scaled.len()));
        let explained = |g: usize| -> f64 {
            let others = scaled.iter().enumerate().filter(|(_, i)| **i != g);
            others.map(|(at, _)| with[at * d + g].powi(2) - 1.0 / effective).sum()
        };
        let free = (0..d).filter(|g| !from.contains(g) && !around.contains(g)).map(|g| (g, explained(g)));
        let count = scaled.len() as f64;
        let least = (LOCATION * count).max(CLEAR * (2.0 * count).sqrt() / effective);
        let Some((g, _)) = free.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|best| best.1 > least) else { break };
        for (at, rest) in rests.iter_mut().enumerate() {
            let slope = with[at * d + g];
            rest.iter_mut().zip(&columns[g]).for_each(|(rest, x)| *rest -= slope * x);
        }
        around.push(g);
    }
    around
}

/// Of standardised values.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64
}

/// Coefficients of a few features by weighted least squares, all but the first shrunk by as much as is likely to be chance (James
/// and Stein). The values are worth `effective` independent ones. None if the features are linearly dependent.
fn shrunk_fit(features: &[Vec<f64>], values: &[f64], weights: Option<&[f64]>, effective: f64) -> Option<Vec<f64>> {
    let (k, n) = (features.len(), values.len());
    let weighted: Vec<Vec<f64>> = match weights {
        Some(weights) => features.iter().map(|x| x.iter().zip(weights).map(|(x, w)| x * w).collect()).collect(),
        None => features.to_vec(),
    };
    let mut factor: Vec<f64> = (0..k * k).map(|at| correlation(&weighted[at / k], &features[at % k])).collect();
    linalg::cholesky(&mut factor, k, &mut Memory::default()).ok()?;
    let solve = |mut right: Vec<f64>| {
        linalg::solve_lower(&factor, &mut right, k, 1);
        linalg::solve_lower_transpose(&factor, &mut right, k, 1);
        right
    };
    let mut found = solve(weighted.iter().map(|x| correlation(x, values)).collect());
    let rest = residual(features, values, &found);
    let one = |(i, x): (usize, &f64)| x * x * weights.map_or(1.0, |weights| weights[i]);
    let variance = rest.iter().enumerate().map(one).sum::<f64>() / n as f64;
    for j in 1..k {
        let mut unit = vec![0.0; k];
        unit[j] = 1.0;
        let error = variance * solve(unit)[j] / effective;
        found[j] *= (1.0 - error / found[j].powi(2)).max(0.0);
    }
    Some(found)
}

fn residual(features: &[Vec<f64>], values: &[f64], coefficients: &[f64]) -> Vec<f64> {
    let mut rest = values.to_vec();
    for (feature, coefficient) in features.iter().zip(coefficients) {
        rest.iter_mut().zip(feature).for_each(|(rest, x)| *rest -= coefficient * x);
    }
    rest
}

#[cfg(test)]
mod tests;
