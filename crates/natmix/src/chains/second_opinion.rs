//! A second opinion on chains in few dimensions: importance weights of draws from a proposal that was fitted to half of them.
//!
//! Chains that agree with each other may all be slow to enter the same place, the neck of a funnel, say. Weighted draws do not
//! depend on how anything mixes. Those of the mixture are used, too: their densities are known already, and they may have been
//! where the chains have not. Each draw is weighted as one of both proposals together (the balance heuristic).
//!
//! Weights miss mass where hardly any proposal goes, and do not notice: what was never drawn has no weight. The chains may have been
//! there. So the ratio of the density to that of the proposals is compared, too: if chains are more often where it is large than the
//! weighted draws say, these lack that mass. It makes them differ from right chains. But below a ratio `c` nothing is missing: draws with
//! the weights `min(ratio, c)`, and those of the chains with the weights `min(1, c / ratio)`, are both draws of `min(p, c q)`, whatever the
//! proposals `q`. That is what is compared then. Chains which have missed a place where the proposals go still differ.

use super::certificate::judge_draws;
use super::draws::ChainDraws;
use super::proposal::Proposal;
use crate::answer::accuracy::{MEAN_LIMIT, PROBABILITIES, PROBABILITY_LIMIT, QUANTILE_LIMIT, SD_LIMIT, multiple_for};
use crate::answer::diagnose::WeightedDraws;
use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::family::{Mixture, log_sum_exp};
use crate::target::Target;

/// Draws from each proposal, and most proposals: each but the first is fitted to the weighted draws before it.
const DRAWS: usize = 4_000;
const PROPOSALS: u64 = 3;
/// Draws that a proposal is fitted to, if they are weighted ones.
const RESAMPLED: usize = 4_000;
/// The largest ratios are those beyond which there is this share of the mass, by the weights; and the share of the chains' draws there that
/// says that weights lack mass, if it is not there by chance.
const LARGEST: f64 = 0.02;
const TOO_MANY: f64 = 0.03;
/// Points per chunk.
const CHUNK: usize = 64;
/// First of the streams of random numbers.
const STREAM: u64 = 5;

/// Weighted draws, and what the chains say about them.
#[derive(Debug)]
pub(crate) struct SecondOpinion {
    pub weighted: WeightedDraws,
    /// Logs of the ratios at the last draws of the chains, which no proposal was fitted to: at the others they are too small.
    of_chains: Vec<f64>,
    /// Log of the ratio beyond which chains are more often than the weighted draws, if they are.
    cut: Option<f64>,
    /// Whether the weights lack mass, where the proposals hardly go and chains do.
    pub lacks_mass: bool,
}

/// Draws of the mixture (`known`) and around those of the chains, weighted together, and again around what that gives until they
/// hold. None where nothing can be fitted to the chains.
pub(crate) fn weigh(
    evaluator: &mut dyn Evaluator,
    (mixture, known): (&Mixture, &WeightedDraws),
    chains: &ChainDraws,
    (seed, holds): (u64, &dyn Fn(&WeightedDraws) -> bool),
) -> Result<Option<SecondOpinion>, Error> {
    let d = mixture.dim();
    let own = mixture.log_density(&known.draws);
    let mut draws = known.draws.clone();
    let mut log_p: Vec<f64> = known.log_ratios.iter().zip(&own).map(|(ratio, log_q)| ratio + log_q).collect();
    let mut latest: Vec<Proposal> = match &chains.modes {
        Some(modes) => modes.proposals.clone(),
        None => Proposal::around_chains(chains).into_iter().collect(),
    };
    let mut proposals: Vec<(Proposal, usize)> = Vec::new();
    let mut weighted: Option<WeightedDraws> = None;
    for round in 0..PROPOSALS {
        if let Some(weighted) = &weighted {
            latest = Proposal::again(&latest, &weighted.delivered().resample(RESAMPLED, seed), d);
        }
        if latest.is_empty() {
            break;
        }
        let (request, each) = (Request::default(), DRAWS / latest.len());
        let mut parts = Vec::with_capacity(latest.len());
        for (which, proposal) in latest.iter().enumerate() {
            let mut part = Part::default();
            part.resize(each, d, CHUNK, &request);
            proposal.draw(&mut part.z, seed, STREAM + round + PROPOSALS * which as u64);
            parts.push(part);
        }
        let ticket = evaluator.submit(Batch { request, parts });
        for Part { z, log_p: found, .. } in evaluator.collect(ticket)?.parts {
            draws.extend(z);
            log_p.extend(found);
        }
        proposals.extend(latest.iter().map(|proposal| (proposal.clone(), each)));
        let ratios = log_ratios((mixture, own.len()), &proposals, (&draws, &log_p));
        let found = WeightedDraws::new(draws.clone(), ratios);
        let done = holds(&found);
        weighted = Some(found);
        if done {
            break;
        }
    }
    Ok(weighted.map(|weighted| {
        let half = chains.half();
        let later = (&chains.draws[half * d..], &chains.log_p[half..]);
        let of_chains = log_ratios((mixture, own.len()), &proposals, later);
        SecondOpinion::of(weighted, of_chains, (chains.chains, chains.per_start))
    }))
}

/// Logs of the ratios of the density to that of the mixture and the proposals together, each with the share of its draws.
fn log_ratios(
    (mixture, count): (&Mixture, usize),
    proposals: &[(Proposal, usize)],
    (draws, log_p): (&[f64], &[f64]),
) -> Vec<f64> {
    let total = count + proposals.iter().map(|(_, count)| count).sum::<usize>();
    let share = |count: usize| (count as f64 / total as f64).ln();
    let mut by_all: Vec<f64> = mixture.log_density(draws).iter().map(|q| share(count) + q).collect();
    for (proposal, count) in proposals {
        let each = proposal.log_density(draws);
        by_all.iter_mut().zip(each).for_each(|(all, q)| *all = log_sum_exp(&[*all, share(*count) + q]));
    }
    log_p.iter().zip(&by_all).map(|(log_p, log_q)| log_p - log_q).collect()
}

impl SecondOpinion {
    /// With the ratios at the draws of so many chains, of which some have started at one point each.
    fn of(weighted: WeightedDraws, of_chains: Vec<f64>, shape: (usize, usize)) -> Self {
        let weights = weighted.weights();
        let mut order: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
        order.sort_by(|&i, &j| weighted.log_ratios[j].total_cmp(&weighted.log_ratios[i]));
        let (mut beyond, mut square) = (0.0, 0.0);
        let last = order.into_iter().find(|&i| {
            beyond += weights[i];
            square += weights[i] * weights[i];
            beyond >= LARGEST
        });
        let limit = last.map_or(f64::INFINITY, |last| weighted.log_ratios[last]);
        let there: Vec<f64> = of_chains.iter().map(|ratio| f64::from(u8::from(*ratio > limit))).collect();
        let share = there.iter().sum::<f64>() / there.len().max(1) as f64;
        let ess = judge_draws(&there, 1, shape).first().map_or(0.0, |one| one.ess);
        let error = (share * (1.0 - share) / ess.max(1.0) + square).sqrt();
        let lacks_mass = share > TOO_MANY && share - beyond > multiple_for(1) * error;
        Self { weighted, of_chains, cut: (share > beyond).then_some(limit), lacks_mass }
    }

    /// The parameter in which the draws of the chains differ from the weighted ones by more than they may and than chance explains;
    /// what the weights lack does not count.
    pub fn differs(&mut self, target: &dyn Target, chains: &ChainDraws) -> Option<String> {
        let found = self.differs_below(None, target, chains)?;
        let Some(cut) = self.cut else { return Some(found) };
        let below = self.differs_below(Some(cut), target, chains);
        // They differ only because the chains are more often where the ratio is large.
        self.lacks_mass |= below.is_none();
        below
    }

    /// The same for all draws, or for those of `min(p, c q)`.
    fn differs_below(&self, cut: Option<f64>, target: &dyn Target, chains: &ChainDraws) -> Option<String> {
        let names = target.parameter_names();
        let d = target.dim();
        let in_parameters = |draws: &[f64]| -> Vec<f64> {
            let mut values = vec![0.0; draws.len() / d * names.len()];
            for (z, row) in draws.chunks_exact(d).zip(values.chunks_exact_mut(names.len())) {
                target.to_parameters(z, row);
            }
            values
        };
        let all = chains.log_p.len();
        let (our_weights, weights) = self.weights_below(cut, all);
        let share = our_weights.len() as f64 / all as f64;
        let ours = in_parameters(&chains.draws[(all - our_weights.len()) * d..]);
        let theirs = in_parameters(&self.weighted.draws);
        let multiple = multiple_for(names.len());
        let differs = |j: usize| {
            let column = |values: &[f64]| -> Vec<f64> { values.iter().skip(j).step_by(names.len()).copied().collect() };
            let (ours, theirs) = (column(&ours), column(&theirs));
            let ess = share * chains.certificate.parameters[j].ess;
            let mean_of = |figure: &dyn Fn(f64) -> f64| -> f64 {
                ours.iter().zip(&our_weights).map(|(x, w)| w * figure(*x)).sum()
            };
            let mean = mean_of(&|x| x);
            let variance = mean_of(&|x| (x - mean).powi(2));
            let mut order: Vec<usize> = (0..ours.len()).collect();
            order.sort_unstable_by(|&a, &b| ours[a].total_cmp(&ours[b]));
            let at = |p: f64| {
                let mut below = 0.0;
                let place = order.iter().find(|&&i| {
                    below += our_weights[i];
                    below > p
                });
                ours[*place.unwrap_or(&order[order.len() - 1])]
            };
            let quantiles = PROBABILITIES.map(|p| (p, at(p)));
            let width = quantiles[quantiles.len() - 1].1 - quantiles[0].1;
            // Weighted mean of a figure that the chains say is zero on average, and how well it is known.
            let off = |figure: &dyn Fn(f64) -> f64, variance: f64| {
                let (mut sum, mut square) = (0.0, 0.0);
                for (x, w) in theirs.iter().zip(&weights) {
                    sum += w * figure(*x);
                    square += (w * figure(*x)).powi(2);
                }
                (sum.abs(), (square + variance / ess).sqrt())
            };
            let too_far = |(off, error): (f64, f64), limit: f64| off > limit && off > multiple * error;
            let share_below =
                |limit: f64| -> f64 { theirs.iter().zip(&weights).filter(|(x, _)| **x <= limit).map(|(_, w)| w).sum() };
            let quantile_differs = |(p, at): (f64, f64)| {
                let reach = QUANTILE_LIMIT * width;
                let beyond = share_below(at - reach) > p || share_below(at + reach) < p;
                let below = off(&|x| f64::from(u8::from(x <= at)) - p, p * (1.0 - p));
                beyond && too_far(below, PROBABILITY_LIMIT)
            };
            let sd = variance.sqrt();
            let kurtosis = mean_of(&|x| ((x - mean) / sd).powi(4));
            quantiles.into_iter().any(quantile_differs)
                || too_far(off(&|x| (x - mean) / sd, 1.0), MEAN_LIMIT)
                || too_far(off(&|x| 0.5 * (((x - mean) / sd).powi(2) - 1.0), 0.25 * (kurtosis - 1.0)), SD_LIMIT)
        };
        (0..names.len()).find(|&j| differs(j)).map(|j| names[j].clone())
    }

    /// Normalised weights of the draws of the chains, `all` of them or the last, and of the weighted ones.
    fn weights_below(&self, cut: Option<f64>, all: usize) -> (Vec<f64>, Vec<f64>) {
        let smoothed = self.weighted.weights();
        let Some(cut) = cut else { return (vec![1.0 / all as f64; all], smoothed) };
        let of_chains = self.of_chains.iter().map(|ratio| (cut - ratio).min(0.0));
        let of_weighted = self.weighted.log_ratios.iter().zip(smoothed);
        let of_weighted =
            of_weighted.map(|(ratio, w)| if w > 0.0 { (ratio - cut).min(0.0) } else { f64::NEG_INFINITY });
        (normalised(of_chains.collect()), normalised(of_weighted.collect()))
    }
}

/// Weights that sum to one, by their logs.
fn normalised(mut log_weights: Vec<f64>) -> Vec<f64> {
    let total = log_sum_exp(&log_weights);
    log_weights.iter_mut().for_each(|w| *w = (*w - total).exp());
    log_weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::certificate::Certificate;
    use crate::chains::earlier::Earlier;
    use crate::chains::examples::Groups;
    use crate::chains::run::{CHAINS, PER_START, Plan, run};
    use crate::evaluate::{Limits, of_target};
    use crate::family::Gaussian;
    use crate::workspace::ScratchPool;

    #[test]
    fn weighted_draws_around_chains_know_the_evidence_and_see_a_missed_neck() {
        const DATA: [f64; 8] = [2.8, 0.8, -0.3, 0.7, -0.1, 0.1, 1.8, 1.2];
        let groups = Groups(DATA.to_vec());
        let target = groups.target();
        let pool = ScratchPool::new(1);
        let mut evaluator = of_target(&target, &pool, Limits::default());
        let d = DATA.len() + 2;
        let mixture = Mixture::single(Gaussian::isotropic(vec![0.5; d], 1.0));
        let plan = Plan { target: &target, mixture: &mixture, seed: 1, most: 400_000, earlier: &Earlier::default() };
        let mut chains = run(&plan, &mut *evaluator, &mut |_, _, _| true, &mut None).unwrap();
        let none = WeightedDraws::new(Vec::new(), Vec::new());
        let mut found = weigh(&mut *evaluator, (&mixture, &none), &chains, (1, &|_| true)).unwrap().unwrap();
        assert!(!found.lacks_mass);
        let WeightedDraws { log_ratios, psis, .. } = &found.weighted;
        assert!(psis.k_hat < 0.6 && psis.ess > 1_500.0, "{} {}", psis.k_hat, psis.ess);
        let evidence = log_sum_exp(log_ratios) - (log_ratios.len() as f64).ln();
        // Weights with a relative variance of about one, of 4,000 draws.
        assert!((evidence - groups.log_evidence()).abs() < 0.08, "{evidence} {}", groups.log_evidence());
        assert_eq!(found.differs(&target, &chains), None);
        // Chains that never were in the neck.
        let mut kept: Vec<f64> = chains.draws.chunks_exact(d).map(|z| z[1]).collect();
        kept.sort_by(f64::total_cmp);
        let neck = kept[kept.len() / 8];
        let half = chains.half();
        let rows: Vec<usize> = (0..chains.log_p.len()).filter(|i| chains.draws[i * d + 1] > neck).collect();
        chains.draws = rows.iter().flat_map(|i| &chains.draws[i * d..(i + 1) * d]).copied().collect();
        chains.log_p = rows.iter().map(|&i| chains.log_p[i]).collect();
        let of_chains = rows.iter().filter(|i| **i >= half).map(|i| found.of_chains[i - half]).collect();
        let mut found = SecondOpinion::of(found.weighted, of_chains, (1, 1));
        assert!(found.differs(&target, &chains).is_some());
    }

    /// Exact draws of `p`, as if chains had left them, and draws of a proposal, with their weights.
    fn compared(p: &Mixture, chains: &Mixture, proposal: &Mixture) -> (SecondOpinion, Option<String>) {
        const COUNT: usize = 19_200;
        let log_ratios = |draws: &[f64]| -> Vec<f64> {
            p.log_density(draws).iter().zip(proposal.log_density(draws)).map(|(p, q)| p - q).collect()
        };
        let (draws, proposed) = (chains.sample(COUNT, 1), proposal.sample(COUNT, 2));
        let parameters = judge_draws(&draws, 1, (CHAINS, PER_START));
        let chains = ChainDraws {
            log_p: p.log_density(&draws),
            energy: vec![0.0; COUNT],
            diverged: vec![false; COUNT],
            chains: CHAINS,
            per_start: PER_START,
            certificate: Certificate { parameters, diverged: 0.0, reasons: Vec::new() },
            scaled: false,
            scales: None,
            stopped: false,
            modes: None,
            draws,
        };
        let of_chains = log_ratios(&chains.draws[chains.half()..]);
        let weights = log_ratios(&proposed);
        let weighted = WeightedDraws::new(proposed, weights);
        let mut found = SecondOpinion::of(weighted, of_chains, (CHAINS, PER_START));
        let differs = found.differs(p, &chains);
        (found, differs)
    }

    #[test]
    fn weights_that_lack_mass_do_not_refute_chains_which_lack_none() {
        let normal = |sd: f64| Gaussian::isotropic(vec![0.0], sd);
        let p = Mixture::new(&[0.8, 0.2], vec![normal(1.0), normal(3.0)]).unwrap();
        let narrow = Mixture::single(normal(1.05));
        let (found, differs) = compared(&p, &p, &narrow);
        // Both are right about what lies below the cut, and the chains about the rest.
        assert!(differs.is_none() && found.lacks_mass, "{differs:?} {:?}", found.cut);
        // Weights that have all: chains without tails are refuted, right ones are not.
        let wide = Mixture::single(normal(3.0));
        let (found, differs) = compared(&p, &narrow, &wide);
        assert!(differs.is_some() && !found.lacks_mass, "{differs:?}");
        let (found, differs) = compared(&p, &p, &wide);
        assert!(differs.is_none() && !found.lacks_mass, "{differs:?}");
        // Neither has all: chains that are wrong where the proposals go are refuted as well.
        let shifted = Mixture::new(&[0.8, 0.2], vec![Gaussian::isotropic(vec![0.4], 1.0), normal(3.0)]).unwrap();
        let (_, differs) = compared(&p, &shifted, &narrow);
        assert!(differs.is_some());
    }
}
