//! A second opinion on chains in few dimensions: importance weights of draws from a proposal that was fitted to half of them.
//!
//! Chains that agree with each other may all be slow to enter the same place, the neck of a funnel, say. Weighted draws do not
//! depend on how anything mixes. Those of the mixture are used, too: their densities are known already, and they may have been
//! where the chains have not. Each draw is weighted as one of both proposals together (the balance heuristic).
//!
//! Weights miss mass where hardly any proposal goes, and do not notice: what was never drawn has no weight. The chains may have been
//! there. So the ratio of the density to that of the proposals is compared, too: if chains are more often where it is large than the
//! weighted draws say, these lack that mass.

use super::certificate::judge_draws;
use super::draws::ChainDraws;
use super::proposal::Proposal;
use super::statistics::mean_and_variance;
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
    /// Whether chains go where the proposals hardly do, so that the weights lack mass.
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
        let ratios = log_ratios((mixture, own.len()), &proposals, (&chains.draws, &chains.log_p));
        SecondOpinion { lacks_mass: lacks_mass(&weighted, &ratios, (chains.chains, chains.per_start)), weighted }
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

/// Whether draws of chains, with these ratios, are more often where the ratio is largest than the weighted draws are, and than chance
/// explains.
fn lacks_mass(weighted: &WeightedDraws, of_chains: &[f64], shape: (usize, usize)) -> bool {
    let weights = weighted.weights();
    let mut order: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
    order.sort_by(|&i, &j| weighted.log_ratios[j].total_cmp(&weighted.log_ratios[i]));
    let (mut beyond, mut square) = (0.0, 0.0);
    let Some(&last) = order.iter().find(|&&i| {
        beyond += weights[i];
        square += weights[i] * weights[i];
        beyond >= LARGEST
    }) else {
        return false;
    };
    let limit = weighted.log_ratios[last];
    let there: Vec<f64> = of_chains.iter().map(|ratio| f64::from(u8::from(*ratio > limit))).collect();
    let share = there.iter().sum::<f64>() / there.len().max(1) as f64;
    let Some(judged) = judge_draws(&there, 1, shape).pop() else { return false };
    let error = (share * (1.0 - share) / judged.ess.max(1.0) + square).sqrt();
    share > TOO_MANY && share - beyond > multiple_for(1) * error
}

/// The parameter in which the draws of the chains differ from weighted ones by more than they may and than chance explains.
pub(crate) fn differs(target: &dyn Target, chains: &ChainDraws, weighted: &WeightedDraws) -> Option<String> {
    let names = target.parameter_names();
    let d = target.dim();
    let in_parameters = |draws: &[f64]| -> Vec<f64> {
        let mut values = vec![0.0; draws.len() / d * names.len()];
        for (z, row) in draws.chunks_exact(d).zip(values.chunks_exact_mut(names.len())) {
            target.to_parameters(z, row);
        }
        values
    };
    let (ours, theirs, weights) = (in_parameters(&chains.draws), in_parameters(&weighted.draws), weighted.weights());
    let multiple = multiple_for(names.len());
    let differs = |j: usize| {
        let column = |values: &[f64]| -> Vec<f64> { values.iter().skip(j).step_by(names.len()).copied().collect() };
        let (mut ours, theirs) = (column(&ours), column(&theirs));
        let ess = chains.certificate.parameters[j].ess;
        let (mean, variance) = mean_and_variance(ours.iter().copied());
        ours.sort_unstable_by(f64::total_cmp);
        let at = |p: f64| ours[((p * ours.len() as f64) as usize).min(ours.len() - 1)];
        let width = at(0.95) - at(0.05);
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
        let quantiles = PROBABILITIES.into_iter().any(|p| {
            let reach = QUANTILE_LIMIT * width;
            let beyond = share_below(at(p) - reach) > p || share_below(at(p) + reach) < p;
            let below = off(&|x| f64::from(u8::from(x <= at(p))) - p, p * (1.0 - p));
            beyond && too_far(below, PROBABILITY_LIMIT)
        });
        let sd = variance.sqrt();
        let kurtosis = ours.iter().map(|x| ((x - mean) / sd).powi(4)).sum::<f64>() / ours.len() as f64;
        quantiles
            || too_far(off(&|x| (x - mean) / sd, 1.0), MEAN_LIMIT)
            || too_far(off(&|x| 0.5 * (((x - mean) / sd).powi(2) - 1.0), 0.25 * (kurtosis - 1.0)), SD_LIMIT)
    };
    (0..names.len()).find(|&j| differs(j)).map(|j| names[j].clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::earlier::Earlier;
    use crate::chains::examples::Groups;
    use crate::chains::run::{Plan, run};
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
        let found = weigh(&mut *evaluator, (&mixture, &none), &chains, (1, &|_| true)).unwrap().unwrap();
        assert!(!found.lacks_mass);
        let found = found.weighted;
        assert!(found.psis.k_hat < 0.6 && found.psis.ess > 1_500.0, "{} {}", found.psis.k_hat, found.psis.ess);
        let evidence = log_sum_exp(&found.log_ratios) - (found.log_ratios.len() as f64).ln();
        // Weights with a relative variance of about one, of 4,000 draws.
        assert!((evidence - groups.log_evidence()).abs() < 0.08, "{evidence} {}", groups.log_evidence());
        assert_eq!(differs(&target, &chains, &found), None);
        // Chains that never were in the neck.
        let mut kept: Vec<f64> = chains.draws.chunks_exact(d).map(|z| z[1]).collect();
        kept.sort_by(f64::total_cmp);
        let neck = kept[kept.len() / 8];
        chains.draws = chains.draws.chunks_exact(d).filter(|z| z[1] > neck).flatten().copied().collect();
        assert!(differs(&target, &chains, &found).is_some());
    }
}
