//! Chains where a mixture has several modes: within each of them, with shares by the evidence of each.
//!
//! Chains stay in the mode in which they started. So each heavy mode has chains of its own, which keep the metric, the step and the
//! coordinates of that mode for their whole life and are judged among themselves. Then every point belongs to the mode whose
//! proposal (a Gaussian fitted to the chains there) has the highest density: whatever the proposals are, this cuts the space into
//! parts that do not overlap, and the shares of the modes follow from the integral of the density over each part, by
//! bridge sampling. What chains leave in another part is counted, and not used. Where that is much, the modes are
//! connected, and chains from the whole mixture do better.

mod combined;

use super::draws::ChainDraws;
use super::earlier::Earlier;
use super::evidence::{self, Bridge, MOST_DIMENSIONS};
use super::proposal::{Proposal, highest};
use super::run::{self, ChainProgress, FEW_DIMENSIONS, Plan, Watch};
use super::state::ChainState;
use crate::answer::diagnose::Estimate;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::{Full, Gaussian, Mixture};
use crate::run::time_left::TimeLeft;
use combined::{interleaved, shares, together};
use std::sync::Arc;

/// Share of the mass from which on a mode must not be missed.
const HEAVY_SHARE: f64 = 0.01;
/// Most modes that have chains.
pub(super) const MOST_MODES: usize = 6;
/// Share of the evaluations for chains within modes; the rest is for those from the whole mixture, if modes are connected.
const WITHIN_MODES: (u64, u64) = (2, 3);
/// Share of the draws of a mode's chains beyond its own part from which on modes are connected.
const CONNECTED: f64 = 0.05;
/// On the way from the centre of a mode to that of another: where chains should not start, and beyond which they are in the other.
const TOO_FAR: f64 = 0.4;
const ARRIVED: f64 = 0.75;
/// Seeds among which one is chosen whose starts are in their mode.
const SEEDS: u64 = 32;
/// Largest error of a share, so that with 95% probability it is within 0.02.
const LARGEST_SHARE_ERROR: f64 = 0.01;
/// Draws of each half's proposal for the evidence of a mode.
const PROPOSED: usize = 2_000;

/// What chains within several modes have found.
#[derive(Clone, Debug)]
pub struct ModeShares {
    /// The share of each mode, in the order of their weights in the mixture.
    pub shares: Vec<Estimate>,
    /// The share of the draws of each mode's chains that had left it.
    pub left: Vec<f64>,
    /// Mass of modes without chains, by the mixture.
    pub omitted: f64,
    /// The evidence of all modes together, if it is known.
    pub log_evidence: Option<Estimate>,
    /// Proposals around half of the draws of each mode, in few dimensions.
    pub(crate) proposals: Vec<Proposal>,
}

impl ModeShares {
    /// What a verdict notes about them.
    pub(crate) fn note(&self) -> String {
        let each = self.shares.iter().map(|share| match self.log_evidence {
            Some(_) => format!("{:.3} \u{b1} {:.3}", share.mean, share.se),
            None => format!("{:.3}", share.mean),
        });
        let each: Vec<String> = each.collect();
        let by = if self.log_evidence.is_some() { "by the evidence of each" } else { "not measured, by the mixture" };
        let mut note =
            format!("chains ran within {} modes; their shares, {by}: {}", self.shares.len(), each.join(", "));
        let left = self.left.iter().copied().fold(0.0, f64::max);
        if left > 0.0 {
            note += &format!(
                "; at most {:.1}% of the draws of a mode's chains had left it, and are not used",
                100.0 * left
            );
        }
        if self.omitted >= 5e-4 {
            note += &format!("; other modes, with {:.1}% of the mixture, had no chains", 100.0 * self.omitted);
        }
        note
    }
}

/// One mode of the mixture.
struct Mode {
    /// Its components: their places in the whole mixture, and by themselves.
    components: Vec<usize>,
    mixture: Mixture,
    /// Their mean and covariance.
    gaussian: Gaussian,
    weight: f64,
}

/// The heavy modes of a mixture.
pub(crate) struct Modes(Vec<Mode>);

impl Modes {
    /// None where there are fewer than two.
    pub fn of(mixture: &Mixture) -> Option<Self> {
        if mixture.len() < 2 {
            return None;
        }
        let (d, weights) = (mixture.dim(), mixture.weights());
        let heavy = mixture.modes().into_iter().filter(|mode| mode.weight >= HEAVY_SHARE).take(MOST_MODES);
        let modes: Vec<Mode> = heavy
            .filter_map(|mode| {
                let own: Vec<f64> = mode.components.iter().map(|&k| weights[k]).collect();
                let components = mode.components.iter().map(|&k| mixture.components()[k].clone()).collect();
                let own = Mixture::new(&own, components).ok()?;
                let gaussian = match own.components() {
                    [only] => only.clone(),
                    // Near enough to know where chains may start.
                    [heaviest, ..] if d > MOST_DIMENSIONS => heaviest.clone(),
                    _ => Gaussian::new(own.mean(), Full::from_covariance(d, own.covariance()).ok()?),
                };
                Some(Mode { components: mode.components, mixture: own, gaussian, weight: mode.weight })
            })
            .collect();
        (modes.len() >= 2).then_some(Self(modes))
    }

    /// Whether their shares can be known: in too many dimensions they cannot.
    pub fn can_be_weighed(&self) -> bool {
        self.0.iter().all(|mode| mode.gaussian.dim() <= MOST_DIMENSIONS)
    }

    /// Chains within every mode, put together by shares. None where the modes are connected.
    pub fn run(
        &self,
        plan: &Plan<'_>,
        evaluator: &mut dyn Evaluator,
        (watch, time): (&mut Watch<'_>, &TimeLeft),
        from: &mut Option<ChainState>,
    ) -> Result<Option<ChainDraws>, Error> {
        let Self(modes) = self;
        let most = plan.most / WITHIN_MODES.1 * WITHIN_MODES.0 / modes.len() as u64;
        let began = evaluator.spent();
        let mut earlier = Earlier::default();
        // What a run that was interrupted has done.
        if let Some(state) = from {
            let (done, connected) = (state.earlier.modes.len(), state.seed == plan.seed);
            if connected || done < modes.len() && state.seed == self.seed(done, plan.seed) {
                evaluator.count(state.earlier.spent);
                earlier = state.earlier.judged(plan.target);
            }
            if connected {
                return Ok(None);
            }
        }
        for (at, mode) in modes.iter().enumerate().skip(earlier.modes.len()) {
            let (before, mut done) = (earlier.iterations, 0);
            let mut watch = |progress: &ChainProgress, state: &ChainState, evaluator: &dyn Evaluator| {
                done = progress.iteration;
                watch(&ChainProgress { iteration: before + done, ..*progress }, state, evaluator)
            };
            let seed = self.seed(at, plan.seed);
            let plan = Plan { mixture: &mode.mixture, seed, most, earlier: &earlier, ..*plan };
            let chains = run::run(&plan, evaluator, &mut watch, from)?;
            if !chains.stopped && self.has_arrived(at, &chains.draws) {
                return Ok(None);
            }
            if chains.stopped || chains.log_p.is_empty() {
                let mut chains = chains;
                chains
                    .certificate
                    .reasons
                    .push("the chains did not get through every mode (allow more evaluations, or more time)".into());
                // One mode alone is worse than the mixture.
                chains.certificate.parameters.iter_mut().for_each(|one| one.r_hat = f64::NAN);
                return Ok(Some(chains));
            }
            earlier.iterations += done;
            earlier.spent = evaluator.spent().since(began);
            earlier.modes.push(Arc::new(chains));
        }
        let found = earlier.modes;
        self.combine(plan, evaluator, time, &found)
    }

    /// How far each point is on the way from the centre of one mode to another's, by the covariance of the first.
    fn way<'a>(&'a self, from: usize, points: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let own = &self.0[from].gaussian;
        let d = own.dim();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let others = self.0.iter().enumerate().filter(move |(at, _)| *at != from);
        let directions: Vec<Vec<f64>> = others
            .map(|(_, other)| {
                let way: Vec<f64> = other.gaussian.mean().iter().zip(own.mean()).map(|(b, a)| b - a).collect();
                let mut direction = vec![0.0; d];
                own.precision().times(&way, &mut direction);
                let length = dot(&way, &direction);
                direction.into_iter().map(|x| x / length).collect()
            })
            .collect();
        points.chunks_exact(d).map(move |z| {
            let off: Vec<f64> = z.iter().zip(own.mean()).map(|(z, m)| z - m).collect();
            directions.iter().map(|direction| dot(direction, &off)).fold(f64::NEG_INFINITY, f64::max)
        })
    }

    /// A seed with which the chains of a mode start in it: the first points are drawn from a widened mixture.
    fn seed(&self, at: usize, seed: u64) -> u64 {
        let of = |attempt: u64| seed ^ (at as u64 + 1) << 56 ^ attempt << 48;
        let outside = |seed: u64| {
            let starts = run::widened_draws(&self.0[at].mixture, seed);
            self.way(at, &starts).filter(|way| *way > TOO_FAR).count()
        };
        (0..SEEDS).map(of).min_by_key(|&seed| outside(seed)).unwrap_or(seed)
    }

    /// Whether the draws of a mode's chains are in other modes, too.
    fn has_arrived(&self, at: usize, draws: &[f64]) -> bool {
        let count = (draws.len() / self.0[at].gaussian.dim()).max(1) as f64;
        self.way(at, draws).filter(|way| *way > ARRIVED).count() as f64 > CONNECTED * count
    }

    fn combine(
        &self,
        plan: &Plan<'_>,
        evaluator: &mut dyn Evaluator,
        time: &TimeLeft,
        found: &[Arc<ChainDraws>],
    ) -> Result<Option<ChainDraws>, Error> {
        let count = found.len();
        let mut bridges = Vec::with_capacity(count);
        let affordable = time.allows(count * evidence::evaluations(evaluator.dim(), PROPOSED));
        for chains in found.iter().filter(|_| affordable) {
            // Where an evaluation fails, the shares are not known; the draws are.
            bridges.extend(Bridge::fit(evaluator, chains, PROPOSED).unwrap_or(None));
        }
        let known = bridges.len() == count;
        // The mode whose proposal has the highest density.
        let part = |points: &[f64]| -> Vec<usize> {
            highest(&bridges.iter().map(|bridge| bridge.log_density(points)).collect::<Vec<_>>())
        };
        let inside: Vec<Vec<bool>> = match known {
            true => (0..count).map(|m| part(&found[m].draws).into_iter().map(|other| other == m).collect()).collect(),
            false => found.iter().map(|chains| vec![true; chains.log_p.len()]).collect(),
        };
        let left =
            |inside: &Vec<bool>| inside.iter().filter(|inside| !**inside).count() as f64 / inside.len().max(1) as f64;
        let left: Vec<f64> = inside.iter().map(left).collect();
        if left.iter().any(|left| *left > CONNECTED) {
            return Ok(None);
        }
        let mut evidences = Vec::with_capacity(count);
        for (m, bridge) in bridges.iter().enumerate().filter(|_| known) {
            let inside = |points: &[f64]| part(points).into_iter().map(|other| other == m).collect();
            let seed = plan.seed ^ (m as u64 + 1) << 56;
            evidences.extend(bridge.log_evidence(evaluator, &inside, seed).unwrap_or(None));
        }
        let omitted = (1.0 - self.0.iter().map(|mode| mode.weight).sum::<f64>()).max(0.0);
        let (shares, errors, log_evidence) = match evidences.len() == count {
            true => {
                let (shares, all) = shares(&evidences);
                let errors = shares.iter().zip(&evidences).map(|(share, one)| share.mean * one.se).collect();
                (shares, errors, Some(all))
            }
            // Not known: those of the mixture, for draws that are not to be relied on.
            false => {
                let of = |mode: &Mode| Estimate { mean: mode.weight / (1.0 - omitted), se: f64::INFINITY };
                (self.0.iter().map(of).collect(), vec![1.0; count], None)
            }
        };
        let mut certificate = together(plan.target, found, (&shares, &errors));
        for (chains, mode) in found.iter().zip(1..) {
            let reasons = chains.certificate.reasons.iter();
            certificate.reasons.extend(reasons.map(|reason| format!("within mode {mode}: {reason}")));
        }
        let worst = shares.iter().map(|share| share.se).fold(0.0, f64::max);
        if log_evidence.is_none() {
            certificate.reasons.push("the shares of the modes could not be measured".into());
        } else if worst > LARGEST_SHARE_ERROR {
            certificate.reasons.push(format!(
                "the shares of the modes are known only to {worst:.3} (at most {LARGEST_SHARE_ERROR} is wanted)"
            ));
        }
        let mut chains = interleaved(found, &inside, &shares, plan.seed);
        chains.certificate = certificate;
        let proposals = match evaluator.dim() <= FEW_DIMENSIONS {
            true => found.iter().filter_map(|chains| Proposal::around_chains(chains)).collect(),
            false => Vec::new(),
        };
        chains.modes = Some(ModeShares { shares, left, omitted, log_evidence, proposals });
        Ok(Some(chains))
    }

    /// Weights of draws of the whole mixture, changed so that the draws of each mode have its share: weights that cannot be relied on
    /// know shares badly.
    pub fn with_shares(&self, mixture: &Mixture, draws: &[f64], weights: &mut [f64], shares: &[Estimate]) {
        let likely = mixture.most_likely(draws);
        for (mode, share) in self.0.iter().zip(shares) {
            let own = |k: &usize| mode.components.contains(k);
            let total: f64 = likely.iter().zip(&*weights).filter(|(k, _)| own(k)).map(|(_, w)| w).sum();
            let factor = if total > 0.0 { share.mean / total } else { 1.0 };
            likely.iter().zip(&mut *weights).filter(|(k, _)| own(k)).for_each(|(_, w)| *w *= factor);
        }
    }
}

#[cfg(test)]
mod tests;
