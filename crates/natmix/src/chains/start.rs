//! Where chains start: the best of the Gaussians along climbs, the curvature at that place, and the fitted mixture.
//!
//! The mode of a hierarchical model is no place to start: the density is highest where the scale of its groups goes to zero.
//! Along a climb, the ELBO of the Gaussian with the local curvature has its maximum long before (Pathfinder: Zhang and others,
//! 2022).

use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::family::{CovarianceKind, Full, Gaussian, Mixture};
use crate::noise::{Noise, Purpose};
use crate::strategy::Tools;
use crate::strategy::automatic::Tuning;
use crate::strategy::automatic::ascent::{PathPoint, Summit, climb_with_paths};
use crate::strategy::automatic::evaluate::LimitedEvaluator;
use crate::strategy::automatic::laplace::laplace;

/// Rounds of the climbs, and the points of each that are tried.
const ROUNDS: usize = 80;
const TRIED: usize = 8;
/// Draws that compare candidates along climbs, and at the end.
const FEW_DRAWS: usize = 6;
const DRAWS: usize = 40;
/// Widest start of a climb in each coordinate: where parameters are transformed, one is wide.
const WIDEST: f64 = 1.0;
/// How much wider than the start distribution the first points lie.
const WIDENED: f64 = 1.5;
/// How far below the best the ELBO along a climb may lie for chains to start there: in nats, and per dimension.
const NEARLY_AS_GOOD: (f64, f64) = (20.0, 0.5);
/// Dimension up to which the whole curvature is computed.
const MOST_CURVED: usize = 1_000;
/// Dimension up to which correlations along climbs are used.
const MOST_DENSE: usize = 300;
/// Points per chunk.
const CHUNK: usize = 16;

/// Where chains start.
pub(crate) struct ChainStart {
    /// Mean and first metric.
    pub gaussian: Gaussian,
    /// First points of groups of chains: each from another climb, so that climbs which end in different modes show.
    pub points: Vec<f64>,
}

/// The best Gaussian along one climb.
struct BestAlong<'a> {
    elbo: f64,
    gaussian: Gaussian,
    point: &'a PathPoint,
    summit: &'a Summit,
}

/// The best start, by its ELBO, with points for so many groups.
pub(crate) fn best_start(
    tools: &mut Tools<'_>,
    (centre, sd): (&[f64], &[f64]),
    fitted: &Mixture,
    (seed, groups): (u64, usize),
) -> Result<ChainStart, Error> {
    let d = centre.len();
    let mut starts = vec![0.0; groups * d];
    Noise::new(seed, Purpose::Chains, 2, 0, 0).normals(&mut starts);
    for z in starts.chunks_exact_mut(d) {
        z.iter_mut().zip(centre).zip(sd).for_each(|((z, centre), sd)| *z = centre + sd.min(WIDEST) * *z);
    }
    let (tuning, mut batch) = (Tuning::default(), Batch::default());
    let summits = {
        let mut evaluator = LimitedEvaluator::new(tools, &mut batch);
        climb_with_paths(&mut evaluator, &starts, sd, ROUNDS, &tuning)?
    };
    let mut along: Vec<BestAlong<'_>> = Vec::new();
    for summit in &summits {
        along.extend(best_along(tools.evaluator, summit, sd, seed)?);
    }
    let best = along.iter().max_by(|a, b| a.elbo.total_cmp(&b.elbo));
    let mut choices: Vec<Gaussian> = Vec::new();
    if let Some(BestAlong { gaussian, point, summit, .. }) = best {
        let PathPoint { z, log_p, grad, .. } = (*point).clone();
        let variance = gaussian.precision().variances();
        let place = Summit { z, log_p, grad, variance, path: Vec::new(), ..(*summit).clone() };
        let mut evaluator = LimitedEvaluator::new(tools, &mut batch);
        let kind = if d <= MOST_CURVED { CovarianceKind::Full } else { CovarianceKind::Diag };
        choices.extend(laplace(&mut evaluator, &place, sd, kind, &tuning)?);
        choices.push(gaussian.clone());
    }
    let mut chosen: Option<(f64, Gaussian)> = None;
    for choice in choices {
        let elbo = elbo(tools.evaluator, &Mixture::single(choice.clone()), DRAWS, seed)?;
        if chosen.as_ref().is_none_or(|chosen| elbo > chosen.0) {
            chosen = Some((elbo, choice));
        }
    }
    let of_mixture = elbo(tools.evaluator, fitted, DRAWS, seed)?;
    let merged = fitted.merged().filter(|_| chosen.as_ref().is_none_or(|chosen| of_mixture > chosen.0));
    let (gaussian, mut points) = match (merged, &chosen) {
        (Some(merged), _) => {
            let mut points = vec![0.0; groups * d];
            fitted.draw(&mut points, seed, Purpose::Chains, 4);
            (merged, points)
        }
        (None, Some((_, gaussian))) => {
            let least =
                best.map_or(f64::NEG_INFINITY, |best| best.elbo) - NEARLY_AS_GOOD.0 - NEARLY_AS_GOOD.1 * d as f64;
            let mut points = vec![0.0; groups * d];
            Noise::new(seed, Purpose::Chains, 3, 0, 0).normals(&mut points);
            for (group, z) in points.chunks_exact_mut(d).enumerate() {
                let own = along.get(group).filter(|own| own.elbo >= least);
                own.map_or(gaussian, |own| &own.gaussian).place(z);
            }
            (gaussian.clone(), points)
        }
        (None, None) => return Err(Error::InvalidInput("no place was found where chains could start".into())),
    };
    // Wider than the start, so that chains which have forgotten it show that they have.
    for z in points.chunks_exact_mut(d) {
        z.iter_mut().zip(gaussian.mean()).for_each(|(z, m)| *z = m + WIDENED * (*z - m));
    }
    Ok(ChainStart { gaussian, points })
}

/// The Gaussian along a climb with the best ELBO.
fn best_along<'a>(
    evaluator: &mut dyn Evaluator,
    summit: &'a Summit,
    sd: &[f64],
    seed: u64,
) -> Result<Option<BestAlong<'a>>, Error> {
    let length = summit.path.len();
    let mut best: Option<BestAlong<'a>> = None;
    let mut before = usize::MAX;
    for tried in 1..=TRIED {
        let at = (tried * length / TRIED).saturating_sub(1);
        if at == before || at >= length {
            continue;
        }
        before = at;
        let point = &summit.path[at];
        let Some(gaussian) = along_climb(point, sd) else { continue };
        let elbo = elbo(evaluator, &Mixture::single(gaussian.clone()), FEW_DRAWS, seed)?;
        if best.as_ref().is_none_or(|best| elbo > best.elbo) {
            best = Some(BestAlong { elbo, gaussian, point, summit });
        }
    }
    Ok(best)
}

/// The Gaussian with the inverse curvature that a climb has estimated, one Newton step ahead.
fn along_climb(point: &PathPoint, sd: &[f64]) -> Option<Gaussian> {
    let d = sd.len();
    let mut mean = point.grad.clone();
    point.apply_inverse_curvature(&mut mean, sd);
    mean.iter_mut().zip(&point.z).for_each(|(m, z)| *m += z);
    let column = |i: usize| {
        let mut unit = vec![0.0; d];
        unit[i] = 1.0;
        point.apply_inverse_curvature(&mut unit, sd);
        unit
    };
    if d <= MOST_DENSE {
        let covariance: Vec<f64> = (0..d).flat_map(column).collect();
        Full::from_covariance(d, covariance).ok().map(|full| Gaussian::new(mean, full))
    } else {
        let widths: Vec<f64> = (0..d).map(|i| column(i)[i].sqrt()).collect();
        CovarianceKind::Diag.with_sd(&widths).ok().map(|diag| Gaussian::new(mean, diag))
    }
}

/// The ELBO with a few draws; minus infinity where the density cannot be evaluated at one of them.
fn elbo(evaluator: &mut dyn Evaluator, q: &Mixture, draws: usize, seed: u64) -> Result<f64, Error> {
    let d = q.dim();
    let mut z = vec![0.0; draws * d];
    q.draw(&mut z, seed, Purpose::Chains, 3);
    let log_q = q.log_density(&z);
    let request = Request::default();
    let ticket = evaluator.submit(Batch { parts: vec![Part::new(&z, d, CHUNK, &request)], request });
    let part = evaluator.collect(ticket)?.parts.pop().unwrap_or_default();
    let elbo = part.log_p.iter().zip(&log_q).map(|(p, q)| p - q).sum::<f64>() / draws as f64;
    Ok(if elbo.is_nan() { f64::NEG_INFINITY } else { elbo })
}
