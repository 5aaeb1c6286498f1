//! The best Gaussian along climbs (Pathfinder: Zhang and others, 2022).
//!
//! The mode of a hierarchical model is no place to start: its density is highest where the scale of the groups goes to zero.
//! Along a climb, the ELBO of the Gaussian with the local curvature has its maximum long before the summit.

use super::ascent::{PathPoint, Summit};
use super::evaluate::LimitedEvaluator;
use super::laplace::{laplace, laplace_and_newton};
use super::tuning::Tuning;
use crate::error::Error;
use crate::family::{CovarianceKind, Full, Gaussian, Mixture};
use crate::noise::Purpose;
use crate::target::CurvatureShape;

/// Points of a climb that are tried.
const TRIED: usize = 8;
/// Draws that compare Gaussians along a climb, and the best of them with others.
const FEW_DRAWS: usize = 6;
const DRAWS: usize = 40;
/// Climbs whose early places are kept.
const MOST_EARLY: usize = 4;
/// Dimension up to which the correlations that a climb has seen are used: beyond, a factor for each place takes too long.
const MOST_DENSE: usize = 300;

/// The place along a climb at which the Gaussian with the climb's own estimate of the curvature has the best ELBO.
#[derive(Clone, Debug)]
pub(crate) struct BestPlace {
    elbo: f64,
    pub gaussian: Gaussian,
    point: PathPoint,
}

/// The best places along climbs.
#[derive(Clone, Debug, Default)]
pub(crate) struct BestPlaces {
    pub best: Option<BestPlace>,
    /// Those of the first quarters alone, one for each of the first climbs. There, a climb knows so little of the curvature that any
    /// place in the neck of a funnel may have a higher ELBO, but a fit from there may end where most of the mass is.
    pub early: Vec<BestPlace>,
}

impl BestPlaces {
    /// Looks along a climb whose path was kept.
    pub fn look(
        &mut self,
        evaluator: &mut LimitedEvaluator<'_>,
        summit: &Summit,
        about: (&[f64], CovarianceKind, u64),
    ) -> Result<(), Error> {
        let highest = |a: &BestPlace, b: &BestPlace| a.elbo.total_cmp(&b.elbo);
        let (early, late): (Vec<_>, Vec<_>) =
            places(evaluator, summit, about)?.into_iter().partition(|(at, _)| *at < summit.path.len() / 4);
        let early = early.into_iter().map(|(_, place)| place).max_by(highest);
        if self.early.len() < MOST_EARLY {
            self.early.extend(early.clone());
        }
        let all = late.into_iter().map(|(_, place)| place).chain(early).chain(self.best.take());
        self.best = all.max_by(highest);
        Ok(())
    }
}

/// Some places along a climb, by their numbers.
fn places(
    evaluator: &mut LimitedEvaluator<'_>,
    summit: &Summit,
    (sd, kind, seed): (&[f64], CovarianceKind, u64),
) -> Result<Vec<(usize, BestPlace)>, Error> {
    let length = summit.path.len();
    let mut places = Vec::new();
    let mut before = usize::MAX;
    for tried in 1..=TRIED {
        let at = (tried * length / TRIED).saturating_sub(1);
        if at == before || at >= length || !evaluator.may_spend(FEW_DRAWS) {
            continue;
        }
        before = at;
        let point = &summit.path[at];
        let Some(gaussian) = gaussian_at(point, sd, kind) else { continue };
        let elbo = elbo(evaluator, &gaussian, FEW_DRAWS, seed)?;
        if elbo > f64::NEG_INFINITY {
            places.push((at, BestPlace { elbo, gaussian, point: point.clone() }));
        }
    }
    Ok(places)
}

/// The Gaussian to start with: the one with the best ELBO among `modes`, the Gaussian at the best place, and that with the
/// measured curvature there; with `newton`, also the one to which a Newton step with that curvature leads.
pub(crate) fn best_gaussian(
    evaluator: &mut LimitedEvaluator<'_>,
    best: BestPlace,
    modes: &[Gaussian],
    (sd, kind, seed): (&[f64], CovarianceKind, u64),
    (tuning, newton): (&Tuning, bool),
) -> Result<Option<Gaussian>, Error> {
    let BestPlace { gaussian, point, .. } = best;
    let variance = gaussian.precision().variances();
    let PathPoint { z, log_p, grad, .. } = point;
    let place = Summit { z, log_p, grad, variance, path: Vec::new(), finished: true, joins: None };
    let mut choices = modes.to_vec();
    let (curved, ahead) = match newton {
        true => laplace_and_newton(evaluator, &place, sd, kind, tuning)?,
        false => (laplace(evaluator, &place, sd, kind, tuning)?, None),
    };
    choices.extend(ahead);
    if let Some(curved) = curved {
        choices.push(Gaussian::new(gaussian.mean().to_vec(), curved.precision().clone()));
        choices.push(curved);
    }
    choices.push(gaussian);
    let mut chosen: Option<(f64, Gaussian)> = None;
    for choice in choices {
        let elbo = elbo(evaluator, &choice, DRAWS, seed)?;
        if elbo > chosen.as_ref().map_or(f64::NEG_INFINITY, |chosen| chosen.0) {
            chosen = Some((elbo, choice));
        }
    }
    Ok(chosen.map(|chosen| chosen.1))
}

/// The Gaussian with the inverse curvature that a climb has estimated, one Newton step ahead.
fn gaussian_at(point: &PathPoint, sd: &[f64], kind: CovarianceKind) -> Option<Gaussian> {
    let d = sd.len();
    let mut mean = point.grad.clone();
    point.apply_inverse_curvature(&mut mean, sd);
    mean.iter_mut().zip(&point.z).for_each(|(m, z)| *m += z);
    if d <= MOST_DENSE && kind.curvature_shape() == CurvatureShape::Full {
        let column = |i: usize| {
            let mut unit = vec![0.0; d];
            unit[i] = 1.0;
            point.apply_inverse_curvature(&mut unit, sd);
            unit
        };
        let covariance: Vec<f64> = (0..d).flat_map(column).collect();
        return Full::from_covariance(d, covariance).ok().map(|full| Gaussian::new(mean, full));
    }
    let widths: Vec<f64> = point.variances(sd).iter().map(|variance| variance.sqrt()).collect();
    kind.with_sd(&widths).ok().map(|precision| Gaussian::new(mean, precision))
}

/// The ELBO with a few draws; minus infinity where the density cannot be evaluated at one of them.
pub(super) fn elbo(evaluator: &mut LimitedEvaluator<'_>, q: &Gaussian, draws: usize, seed: u64) -> Result<f64, Error> {
    let d = q.dim();
    let q = Mixture::single(q.clone());
    let (mut z, mut log_p, mut grad) = (vec![0.0; draws * d], vec![0.0; draws], vec![0.0; draws * d]);
    q.draw(&mut z, seed, Purpose::Start, u64::MAX);
    evaluator.evaluate(&z, &mut log_p, &mut grad)?;
    let elbo = log_p.iter().zip(&q.log_density(&z)).map(|(p, q)| p - q).sum::<f64>() / draws as f64;
    Ok(if elbo.is_nan() { f64::NEG_INFINITY } else { elbo })
}
