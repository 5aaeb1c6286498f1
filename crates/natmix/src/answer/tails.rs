//! What a density does where its mixture does not look: whether it has a finite integral, or grows without bound.
//!
//! **Rays** leave draws of the mixture along coordinates, along its widest axes and in random directions, with radii that grow
//! geometrically. With `s` the slope of log p over the log of the radius, the integral along a line diverges if `s >= -1`, and
//! that over a cone of random directions in `d` dimensions if `s >= -d`. The draws come from a continuous distribution, so one
//! such line stands for many: the density is improper. Thin horns, in which a proper density may grow for ever (the neck of a
//! hierarchical model), are never hit by such lines. Student-t tails with `nu` degrees of freedom have `s = -(nu + d)`.
//!
//! **Poles** are sought by a climb from the highest mean (`pole`).

mod pole;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::family::Mixture;
use crate::linalg::{self, Memory};
use crate::noise::{Noise, Purpose};
use crate::run::time_left::TimeLeft;

/// Radii of a ray, in standard deviations of the mixture along it.
const RADII: [f64; 4] = [16.0, 256.0, 4096.0, 65_536.0];
/// Most coordinates that get rays, and how many of the widest axes and random directions do.
const MOST_COORDINATES: usize = 16;
const WIDEST_AXES: usize = 2;
const RANDOM_DIRECTIONS: usize = 4;
/// Radii at which the widest axes are turned into a ridge.
const TURNING_RADII: [f64; 5] = [4.0, 4.0, 16.0, 64.0, 256.0];
/// Dimension up to which the widest axes are computed.
const MOST_DIMENSIONS: usize = 300;
/// How far a slope may lie below the one at which the integral diverges: an error of a finite radius, and the margin within
/// which nothing could be sampled anyway.
const MARGIN: f64 = 0.05;
/// The same for the slope along the whole ray.
const WHOLE_MARGIN: f64 = 0.5;
/// How far both ends of a ray may lie below the best origin, in nats: this much, and more per dimension.
const NEAR_BEST: (f64, f64) = (20.0, 3.0);
/// Slope over the log of the radius from which on log p grows without bound.
const GROWTH: f64 = 0.5;
/// Times as wide as the start that a mixture without an answer has run away.
const RUN_AWAY: f64 = 1e6;
/// Share of the largest move from which on a coordinate is named.
const NAMED: f64 = 0.3;
/// Most evaluations, about.
const MOST_EVALS: usize = 280;
/// Points per chunk.
const CHUNK: usize = 32;

/// A direction in which a density does not end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndlessDirection {
    /// The direction, in standard deviations of the mixture.
    pub direction: Vec<f64>,
    /// Whether it stands for every direction.
    pub everywhere: bool,
    /// A point near which log p grows without bound, instead of far away.
    pub pole: Option<Vec<f64>>,
}

/// What a density does where its mixture does not look.
#[derive(Clone, Debug, PartialEq)]
pub struct TailReport {
    /// Where the integral of the density diverges.
    pub improper: Option<EndlessDirection>,
    /// Where log p grows without bound.
    pub unbounded: Option<EndlessDirection>,
}

impl EndlessDirection {
    /// The coordinates that move most, in words.
    fn along(&self, names: &[String]) -> String {
        if self.everywhere {
            return "in every direction".into();
        }
        let most = self.direction.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let moved: Vec<usize> =
            (0..self.direction.len()).filter(|&i| self.direction[i].abs() >= NAMED * most).collect();
        let name = |i: &usize| names.get(*i).map_or_else(|| format!("`z{i}`"), |name| format!("`{name}`"));
        match &moved[..] {
            [only] => format!("along {}", name(only)),
            [a, b] => format!("where {} and {} move together", name(a), name(b)),
            [a, b, others @ ..] => {
                format!("where {}, {} and {} other parameters move together", name(a), name(b), others.len())
            }
            [] => "in every direction".into(),
        }
    }
}

impl TailReport {
    /// Why the density cannot be inferred, each with what to try; nothing if it can.
    pub fn reasons(&self, names: &[String]) -> Vec<String> {
        let grows = self.unbounded.as_ref().map(|found| match &found.pole {
            None => format!(
                "the density is improper: log p grows without bound {} (give these parameters a proper prior)",
                found.along(names)
            ),
            Some(point) => {
                let most =
                    (0..point.len()).max_by(|&a, &b| found.direction[a].abs().total_cmp(&found.direction[b].abs()));
                let at = most.unwrap_or(0);
                let name = names.get(at).map_or_else(|| format!("z{at}"), Clone::clone);
                format!(
                    "log p grows without bound near `{name}` = {:.6}: the density has a pole there \
                     (constrain the parameters away from it)",
                    point[at]
                )
            }
        });
        let diverges = self.improper.as_ref().map(|found| {
            format!(
                "the density is improper: its integral diverges {} (give these parameters a proper prior)",
                found.along(names)
            )
        });
        grows.or(diverges).into_iter().collect()
    }
}

/// What is known about a fit whose tails are examined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FitFacts<'a> {
    /// Whether the target has gradients: without them poles are not sought.
    pub has_gradient: bool,
    /// Whether the fit has converged, to an answer that holds.
    pub holds: bool,
    /// Standard deviation of the start, in each coordinate.
    pub start_sd: &'a [f64],
}

/// Examines the tails of the density that `evaluator` evaluates, around its mixture, unless there is no time for it.
pub(crate) fn examine(
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    facts: FitFacts<'_>,
    seed: u64,
    time: &TimeLeft,
) -> Result<Option<TailReport>, Error> {
    if !time.allows(MOST_EVALS) {
        return Ok(None);
    }
    let (sd, has_gradient) = (overall_sd(q), facts.has_gradient);
    let (mut improper, mut unbounded) = (None, None);
    let ran_away = run_away(&sd, facts.start_sd);
    let axes = widest_axes(evaluator, q, &sd, has_gradient, seed)?;
    for (ray, Slopes { whole, last }) in slopes_along(evaluator, rays(q, axes, seed), &sd)? {
        let Ray { direction, dimensions, .. } = ray;
        // A line may rise again after it has left all mass behind, so that it counts from where it began, too; not in a
        // mixture that is far wider than what it began with.
        let from_start = |least: f64| whole >= least - WHOLE_MARGIN || ran_away.is_some();
        let at_least = |least: f64| from_start(least) && last.iter().all(|slope| *slope >= least);
        let everywhere = dimensions > 1;
        let found = || Some(EndlessDirection { direction: direction.clone(), everywhere, pole: None });
        // Rays along coordinates come first, so that they give the name.
        if improper.is_none() && at_least(-(dimensions as f64) - MARGIN) {
            improper = found();
        }
        if unbounded.is_none() && at_least(GROWTH) {
            unbounded = found();
        }
    }
    if improper.is_none() && !facts.holds {
        improper = ran_away;
    }
    if unbounded.is_none() && has_gradient {
        unbounded = pole::find(evaluator, q, &sd)?;
    }
    Ok(Some(TailReport { improper, unbounded }))
}

/// Standard deviations of the mixture as a whole.
fn overall_sd(q: &Mixture) -> Vec<f64> {
    let (mean, mut variance) = (q.mean(), vec![0.0; q.dim()]);
    for (weight, component) in q.weights().iter().zip(q.components()) {
        let parts = component.precision().variances().into_iter().zip(component.mean()).zip(&mean);
        variance.iter_mut().zip(parts).for_each(|(sum, ((own, m), mean))| *sum += weight * (own + (m - mean).powi(2)));
    }
    variance.iter().map(|variance| variance.sqrt()).collect()
}

/// The direction in which a mixture has run away: along an exact ridge it widens until rays lose the ridge to rounding.
fn run_away(sd: &[f64], start_sd: &[f64]) -> Option<EndlessDirection> {
    let direction: Vec<f64> = sd.iter().zip(start_sd).map(|(sd, start)| sd / start).collect();
    let most = direction.iter().copied().fold(0.0, f64::max);
    (most > RUN_AWAY).then_some(EndlessDirection { direction, everywhere: false, pole: None })
}

/// A half-line.
struct Ray {
    from: Vec<f64>,
    /// In standard deviations.
    direction: Vec<f64>,
    /// Dimensions of the cone of directions that it stands for.
    dimensions: usize,
}

/// The rays: along coordinates first.
fn rays(q: &Mixture, axes: Vec<Vec<f64>>, seed: u64) -> Vec<Ray> {
    let d = q.dim();
    let mut noise = Noise::new(seed, Purpose::Tails, 0, 0, 0);
    let mut chosen: Vec<usize> = (0..d).collect();
    for i in 0..d.min(MOST_COORDINATES) {
        chosen.swap(i, i + noise.index(d - i));
    }
    chosen.truncate(MOST_COORDINATES);
    chosen.sort_unstable();
    let mut lines: Vec<Vec<f64>> = Vec::new();
    for i in chosen {
        let mut axis = vec![0.0; d];
        axis[i] = 1.0;
        lines.push(axis);
    }
    lines.extend(axes);
    let mut all: Vec<(Vec<f64>, usize)> = Vec::new();
    for line in lines {
        let back = line.iter().map(|x| -x).collect();
        all.extend([(line, 1), (back, 1)]);
    }
    for _ in 0..if d > 1 { RANDOM_DIRECTIONS } else { 0 } {
        let mut direction = vec![0.0; d];
        noise.normals(&mut direction);
        all.push((direction, d));
    }
    let mut origins = vec![0.0; all.len() * d];
    q.draw(&mut origins, seed, Purpose::Tails, 1);
    let rays = all.into_iter().zip(origins.chunks_exact(d));
    rays.map(|((direction, dimensions), from)| Ray { from: from.to_vec(), direction, dimensions }).collect()
}

/// The axes along which the mixture is widest, in its standard deviations: where parameters are known only together, one of
/// them is the direction in which they move. Gradients on the way out turn it into the ridge, which is far longer than the
/// mixture is exact.
fn widest_axes(
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    sd: &[f64],
    has_gradient: bool,
    seed: u64,
) -> Result<Vec<Vec<f64>>, Error> {
    let d = q.dim();
    if !(2..=MOST_DIMENSIONS).contains(&d) {
        return Ok(Vec::new());
    }
    let mut correlation = q.covariance();
    for (at, x) in correlation.iter_mut().enumerate() {
        *x /= sd[at % d] * sd[at / d];
    }
    let (mut values, mut vectors) = (vec![0.0; d], vec![0.0; d * d]);
    if !linalg::symmetric_eigen(&mut values, &mut vectors, &correlation, d, &mut Memory::default()) {
        return Ok(Vec::new());
    }
    let mut axes: Vec<Vec<f64>> =
        (0..d).rev().take(WIDEST_AXES).map(|k| vectors[k * d..(k + 1) * d].to_vec()).collect();
    let mut from = vec![0.0; d];
    q.draw(&mut from, seed, Purpose::Tails, 2);
    if has_gradient {
        let (_, first) = evaluate(evaluator, &from, true)?;
        for axis in &mut axes {
            for radius in TURNING_RADII {
                let point: Vec<f64> = (0..d).map(|i| from[i] + radius * sd[i] * axis[i]).collect();
                let (_, grad) = evaluate(evaluator, &point, true)?;
                if !turn(axis, &correlation, |i| (grad[i] - first[i]) * sd[i] / radius) {
                    break;
                }
            }
        }
    }
    Ok(axes)
}

/// A Newton step with the mixture's covariance, across the axis; returns whether it could be made.
fn turn(axis: &mut [f64], correlation: &[f64], change: impl Fn(usize) -> f64) -> bool {
    let d = axis.len();
    let step: Vec<f64> = (0..d).map(|i| (0..d).map(|j| correlation[i * d + j] * change(j)).sum()).collect();
    let along: f64 = step.iter().zip(&*axis).map(|(x, v)| x * v).sum();
    let mut turned: Vec<f64> = axis.iter().zip(&step).map(|(v, x)| v + x - along * v).collect();
    let length = turned.iter().map(|x| x * x).sum::<f64>().sqrt();
    // A turn by more than half a right angle is not towards a ridge that the mixture knows.
    if length.is_nan() || length >= std::f64::consts::SQRT_2 {
        return false;
    }
    turned.iter_mut().for_each(|x| *x /= length);
    axis.copy_from_slice(&turned);
    true
}

/// Slopes of log p over the log of the radius.
struct Slopes {
    /// From the origin of the ray to its end.
    whole: f64,
    /// The two furthest out.
    last: [f64; 2],
}

impl Slopes {
    /// From the values at the origin and at the radii, as far out as they are known; nothing if that is not far.
    fn of(log_p: &[f64]) -> Option<Self> {
        let known = log_p.iter().take_while(|x| !x.is_nan()).count();
        let at = known.checked_sub(1).filter(|at| *at >= 3)?;
        let slope = |from: usize, to: usize, ratio: f64| {
            let rise = log_p[to] - log_p[from];
            // Zero density stays zero: it certainly does not rise.
            if rise.is_nan() { f64::NEG_INFINITY } else { rise / ratio.ln() }
        };
        let between = |to: usize| slope(to - 1, to, RADII[to - 1] / RADII[to - 2]);
        Some(Self { whole: slope(0, at, RADII[at - 1]), last: [between(at - 1), between(at)] })
    }
}

/// The slopes along each ray.
fn slopes_along(evaluator: &mut dyn Evaluator, rays: Vec<Ray>, sd: &[f64]) -> Result<Vec<(Ray, Slopes)>, Error> {
    let mut points = Vec::with_capacity(rays.len() * (1 + RADII.len()) * sd.len());
    for ray in &rays {
        for radius in [0.0].into_iter().chain(RADII) {
            points.extend(ray.from.iter().zip(&ray.direction).zip(sd).map(|((z, x), sd)| z + radius * sd * x));
        }
    }
    let (log_p, _) = evaluate(evaluator, &points, false)?;
    let each = 1 + RADII.len();
    let best = log_p.iter().step_by(each).copied().fold(f64::NEG_INFINITY, f64::max);
    // Between places without mass, log p may rise for long.
    let lowest = best - NEAR_BEST.0 - NEAR_BEST.1 * sd.len() as f64;
    let has_mass = |log_p: &[f64]| log_p[0] >= lowest || log_p[each - 1] >= lowest;
    let with_slopes = rays.into_iter().zip(log_p.chunks_exact(each)).filter(|(_, log_p)| has_mass(log_p));
    Ok(with_slopes.filter_map(|(ray, log_p)| Some((ray, Slopes::of(log_p)?))).collect())
}

/// Values, and gradients if asked for, at `points`.
fn evaluate(evaluator: &mut dyn Evaluator, points: &[f64], gradient: bool) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let request = Request { gradient, ..Request::default() };
    let part = Part::new(points, evaluator.dim(), CHUNK, &request);
    let ticket = evaluator.submit(Batch { request, parts: vec![part] });
    let Part { log_p, grad, .. } = evaluator.collect(ticket)?.parts.pop().unwrap_or_default();
    Ok((log_p, grad))
}
