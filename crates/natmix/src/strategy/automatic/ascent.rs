//! Climbs of `log p` from many starts at once: L-BFGS in lockstep, one point per start and round.
//!
//! A climb need not reach the top: it ends where the expected gain of the next step is small, because the mixture takes
//! over from there, or where the parabola of a known mode predicts its gradient: then it would end in that mode. All
//! climbs of a batch evaluate their next point in one call.

use super::evaluate::LimitedEvaluator;
use super::search::leads_to;
use super::tuning::Tuning;
use crate::error::Error;
use crate::family::Gaussian;
use std::sync::Arc;

/// Share of the expected gain that a step must bring (Armijo's condition).
const ARMIJO: f64 = 1e-4;
/// Length of a step, in standard deviations of the start, below which it is lost in rounding.
const MIN_STEP: f64 = 1e-12;
/// Pairs of steps and gradient changes that a climb remembers.
const MEMORY: usize = 12;
/// Rounds after which a climb is given up: a long ridge is not worth the budget.
const MAX_ROUNDS: usize = 250;
/// The same where the best place along it is sought, which need not be its summit.
const MAX_PATH_ROUNDS: usize = 100;
/// Dimension up to which the diagonal of the inverse curvature is computed coordinate by coordinate, at a cost that grows with
/// the square.
const MAX_ONE_BY_ONE: usize = 512;
/// Length of the first step per root of the dimension, in standard deviations of the start: no curvature is known yet.
const FIRST_STEP: f64 = 0.05;

/// The end of a climb.
#[derive(Clone, Debug)]
pub(crate) struct Summit {
    pub z: Vec<f64>,
    pub log_p: f64,
    pub grad: Vec<f64>,
    /// The known mode that it leads to.
    pub joins: Option<usize>,
    /// Whether the climb ended by itself, not for want of rounds or evaluations.
    pub finished: bool,
    /// Variance of each coordinate by the inverse curvature that the climb has estimated; empty if it joins a known mode.
    pub variance: Vec<f64>,
    /// The points of the climb, if they were asked for.
    pub path: Vec<PathPoint>,
}

/// A point of a climb, with the inverse curvature estimated there.
#[derive(Clone, Debug)]
pub(crate) struct PathPoint {
    pub z: Vec<f64>,
    pub log_p: f64,
    pub grad: Vec<f64>,
    pairs: Vec<CurvaturePair>,
}

impl PathPoint {
    /// `x <- H x` with the inverse curvature `H` estimated here.
    pub fn apply_inverse_curvature(&self, x: &mut [f64], scale: &[f64]) {
        apply(&self.pairs, x, scale);
    }

    /// The diagonal of that inverse curvature.
    pub fn variances(&self, scale: &[f64]) -> Vec<f64> {
        inverse_diagonal(&self.pairs, scale)
    }
}

/// A step and the decrease of the gradient along it, with `1 / (step . decrease)`. Points of a climb share them.
type CurvaturePair = Arc<(Vec<f64>, Vec<f64>, f64)>;

/// How a climb ended.
#[derive(Clone, Copy, PartialEq)]
enum ClimbEnd {
    Arrived,
    Joins(usize),
    Lost,
}

/// One climb.
struct Climb {
    z: Vec<f64>,
    log_p: f64,
    grad: Vec<f64>,
    direction: Vec<f64>,
    /// Rise along the direction for a step of size one.
    slope: f64,
    step: f64,
    /// Oldest first.
    pairs: Vec<CurvaturePair>,
    /// Length of the next step where no curvature is known, in units of `scale`.
    reach: f64,
    end: Option<ClimbEnd>,
    path: Vec<PathPoint>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Climb {
    /// Sets direction, slope and step from the present gradient.
    fn aim(&mut self, scale: &[f64]) {
        let mut direction = self.grad.clone();
        apply(&self.pairs, &mut direction, scale);
        let mut slope = dot(&direction, &self.grad);
        if !(slope > 0.0 && slope.is_finite()) {
            self.pairs.clear();
            direction.clone_from(&self.grad);
            apply(&self.pairs, &mut direction, scale);
            slope = dot(&direction, &self.grad);
        }
        let length = direction.iter().zip(scale).map(|(x, s)| (x / s).powi(2)).sum::<f64>().sqrt();
        self.direction = direction;
        self.slope = slope;
        // Without curvature the reach is the length of the step; with it, twice the reach is the longest.
        self.step = if self.pairs.is_empty() { self.reach / length } else { (2.0 * self.reach / length).min(1.0) };
        if !(slope > 0.0 && self.step > 0.0 && self.step.is_finite()) {
            self.end = Some(ClimbEnd::Lost);
        }
    }

    /// Takes the value and gradient at the trial point.
    fn take(&mut self, trial: &[f64], log_p: f64, grad: &[f64], scale: &[f64], known: &[Gaussian], tuning: &Tuning) {
        let fine = log_p.is_finite() && grad.iter().all(|g| g.is_finite());
        if !fine || log_p < self.log_p + ARMIJO * self.step * self.slope {
            // The parabola through value, slope and the trial's value says where the top is.
            let top = if fine {
                0.5 * self.step * self.step * self.slope / (self.log_p + self.step * self.slope - log_p)
            } else {
                0.0
            };
            self.step = top.clamp(0.1 * self.step, 0.5 * self.step);
            let length = self.direction.iter().zip(scale).map(|(x, s)| (x / s).powi(2)).sum::<f64>().sqrt();
            if self.pairs.is_empty() {
                self.reach = self.step * length;
            }
            if self.step * length < MIN_STEP {
                if self.pairs.is_empty() {
                    self.end = Some(ClimbEnd::Lost);
                } else {
                    self.pairs.clear();
                    self.aim(scale);
                }
            }
            return;
        }
        let moved: Vec<f64> = trial.iter().zip(&self.z).map(|(a, b)| a - b).collect();
        let fall: Vec<f64> = self.grad.iter().zip(grad).map(|(a, b)| a - b).collect();
        let curvature = dot(&moved, &fall);
        let length = moved.iter().zip(scale).map(|(x, s)| (x / s).powi(2)).sum::<f64>().sqrt();
        if curvature > 1e-10 * dot(&moved, &moved).sqrt() * dot(&fall, &fall).sqrt() {
            if self.pairs.len() == MEMORY {
                self.pairs.remove(0);
            }
            self.pairs.push(Arc::new((moved, fall, curvature.recip())));
        } else {
            // `log p` is convex along the step, so the pairs do not describe this region: steepest ascent, with longer steps.
            self.pairs.clear();
        }
        self.reach = (1.5 * length).max(self.reach * 0.5);
        self.z.copy_from_slice(trial);
        self.log_p = log_p;
        self.grad.copy_from_slice(grad);
        self.aim(scale);
        if !self.pairs.is_empty() && 0.5 * self.slope < tuning.climb_tolerance {
            self.end = Some(ClimbEnd::Arrived);
        }
        if let Some(mode) = known.iter().position(|mode| leads_to(mode, &self.z, &self.grad, tuning)) {
            self.end = Some(ClimbEnd::Joins(mode));
        }
    }

    /// Variance of each coordinate by the inverse curvature that the pairs imply.
    fn variance(&self, scale: &[f64]) -> Vec<f64> {
        if self.z.len() > MAX_ONE_BY_ONE {
            return inverse_diagonal(&self.pairs, scale);
        }
        (0..self.z.len())
            .map(|i| {
                let mut unit = vec![0.0; self.z.len()];
                unit[i] = 1.0;
                apply(&self.pairs, &mut unit, scale);
                unit[i]
            })
            .collect()
    }
}

/// `x <- H x` with the inverse curvature `H` that the pairs imply (two-loop recursion).
fn apply(pairs: &[CurvaturePair], x: &mut [f64], scale: &[f64]) {
    let mut alphas = vec![0.0; pairs.len()];
    for (pair, alpha) in pairs.iter().zip(&mut alphas).rev() {
        let (moved, fall, inverse) = &**pair;
        *alpha = inverse * dot(moved, x);
        x.iter_mut().zip(fall).for_each(|(x, y)| *x -= *alpha * y);
    }
    // In units of the start's standard deviations, the newest pair sets the size.
    let size = pairs.last().map_or(1.0, |pair| {
        let (_, fall, inverse) = &**pair;
        1.0 / (inverse * fall.iter().zip(scale).map(|(y, s)| (y * s).powi(2)).sum::<f64>())
    });
    x.iter_mut().zip(scale).for_each(|(x, s)| *x *= size * s * s);
    for (pair, alpha) in pairs.iter().zip(&alphas) {
        let (moved, fall, inverse) = &**pair;
        let beta = inverse * dot(fall, x);
        x.iter_mut().zip(moved).for_each(|(x, s)| *x += (alpha - beta) * s);
    }
}

/// The diagonal of the `H` of `apply`, from the products of the pairs alone: every vector on the way is a unit vector, scaled,
/// plus multiples of the pairs.
fn inverse_diagonal(pairs: &[CurvaturePair], scale: &[f64]) -> Vec<f64> {
    let m = pairs.len();
    let size = pairs.last().map_or(1.0, |pair| {
        let (_, fall, inverse) = &**pair;
        1.0 / (inverse * fall.iter().zip(scale).map(|(y, s)| (y * s).powi(2)).sum::<f64>())
    });
    let weighted =
        |a: &[f64], b: &[f64]| a.iter().zip(b).zip(scale).map(|((a, b), s)| a * b * size * s * s).sum::<f64>();
    let table = |f: &dyn Fn(usize, usize) -> f64| (0..m * m).map(|at| f(at / m, at % m)).collect::<Vec<f64>>();
    let moved_fall = table(&|i, j| dot(&pairs[i].0, &pairs[j].1));
    let fall_fall = table(&|i, j| weighted(&pairs[i].1, &pairs[j].1));
    let (mut alphas, mut gains) = (vec![0.0; m], vec![0.0; m]);
    let one = |(i, s): (usize, &f64)| {
        let unit = size * s * s;
        for k in (0..m).rev() {
            let rest: f64 = (k + 1..m).map(|j| alphas[j] * moved_fall[k * m + j]).sum();
            alphas[k] = pairs[k].2 * (pairs[k].0[i] - rest);
        }
        for k in 0..m {
            let falls: f64 = (0..m).map(|j| alphas[j] * fall_fall[k * m + j]).sum();
            let moves: f64 = (0..k).map(|j| gains[j] * moved_fall[j * m + k]).sum();
            gains[k] = alphas[k] - pairs[k].2 * (unit * pairs[k].1[i] - falls + moves);
        }
        let falls: f64 = (0..m).map(|j| alphas[j] * pairs[j].1[i]).sum();
        unit * (1.0 - falls) + (0..m).map(|j| gains[j] * pairs[j].0[i]).sum::<f64>()
    };
    scale.iter().enumerate().map(one).collect()
}

/// Climbs from each of `starts` (one after the other). `scale` holds the standard deviation of the start in each
/// coordinate. Ends early, with all climbs where they are, when `evaluator` may not spend more. Where `paths` are wanted, the
/// points of each climb are kept.
pub(crate) fn climb(
    evaluator: &mut LimitedEvaluator<'_>,
    starts: &[f64],
    scale: &[f64],
    known: &[Gaussian],
    paths: bool,
    tuning: &Tuning,
) -> Result<Vec<Summit>, Error> {
    let d = scale.len();
    let n = starts.len() / d;
    let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * d]);
    evaluator.evaluate(starts, &mut log_p, &mut grad)?;
    let mut climbs: Vec<Climb> = (0..n)
        .map(|i| {
            let (z, grad) = (starts[i * d..][..d].to_vec(), grad[i * d..][..d].to_vec());
            let fine = log_p[i].is_finite() && grad.iter().all(|g| g.is_finite());
            let mut climb = Climb {
                z,
                log_p: log_p[i],
                grad,
                direction: vec![0.0; d],
                slope: 0.0,
                step: 0.0,
                pairs: Vec::with_capacity(MEMORY),
                reach: FIRST_STEP * (d as f64).sqrt(),
                end: if fine { None } else { Some(ClimbEnd::Lost) },
                path: Vec::new(),
            };
            if fine {
                climb.aim(scale);
            }
            climb
        })
        .collect();
    let mut trials = Vec::with_capacity(n * d);
    for _ in 0..if paths { MAX_PATH_ROUNDS } else { MAX_ROUNDS } {
        trials.clear();
        for climb in climbs.iter().filter(|climb| climb.end.is_none()) {
            trials.extend(climb.z.iter().zip(&climb.direction).map(|(z, x)| z + climb.step * x));
        }
        let count = trials.len() / d;
        if count == 0 || !evaluator.may_spend(count) {
            break;
        }
        let (log_p, grad) = (&mut log_p[..count], &mut grad[..count * d]);
        evaluator.evaluate(&trials, log_p, grad)?;
        for (i, climb) in climbs.iter_mut().filter(|climb| climb.end.is_none()).enumerate() {
            let before = climb.log_p;
            climb.take(&trials[i * d..][..d], log_p[i], &grad[i * d..][..d], scale, known, tuning);
            if paths && climb.log_p != before {
                let (z, grad, pairs) = (climb.z.clone(), climb.grad.clone(), climb.pairs.clone());
                climb.path.push(PathPoint { z, log_p: climb.log_p, grad, pairs });
            }
        }
    }
    Ok(climbs
        .into_iter()
        .filter(|climb| climb.log_p.is_finite())
        .map(|climb| Summit {
            // A mode that is known already needs no curvature.
            variance: match climb.end {
                Some(ClimbEnd::Joins(_)) => Vec::new(),
                _ => climb.variance(scale),
            },
            finished: climb.end.is_some(),
            path: climb.path,
            joins: match climb.end {
                Some(ClimbEnd::Joins(mode)) => Some(mode),
                _ => None,
            },
            z: climb.z,
            log_p: climb.log_p,
            grad: climb.grad,
        })
        .collect())
}

#[cfg(test)]
mod tests;
