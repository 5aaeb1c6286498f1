//! Draws, shares and accuracy of several modes, put together.

use crate::answer::accuracy::{Accuracy, ErrorShare, MEAN_LIMIT, PROBABILITY_LIMIT, SD_LIMIT};
use crate::answer::diagnose::Estimate;
use crate::chains::certificate::{Certificate, ChainAccuracy};
use crate::chains::draws::ChainDraws;
use crate::family::log_sum_exp;
use crate::noise::{Noise, Purpose};
use crate::target::Target;
use std::sync::Arc;

/// Shares by the log evidence of each mode, and that of all.
pub(super) fn shares(evidence: &[Estimate]) -> (Vec<Estimate>, Estimate) {
    let all = log_sum_exp(&evidence.iter().map(|one| one.mean).collect::<Vec<f64>>());
    let means: Vec<f64> = evidence.iter().map(|one| (one.mean - all).exp()).collect();
    let errors: Vec<f64> = means.iter().zip(evidence).map(|(mean, one)| mean * one.se).collect();
    let squares: f64 = errors.iter().map(|error| error * error).sum();
    // d share = share (d log evidence - sum of share d log evidence).
    let of = |(mean, error): (&f64, &f64)| {
        let others = (squares - error * error).max(0.0);
        Estimate { mean: *mean, se: ((1.0 - mean) * error).hypot(mean * others.sqrt()) }
    };
    let shares = means.iter().zip(&errors).map(of).collect();
    (shares, Estimate { mean: all, se: squares.sqrt() })
}

/// The accuracy of draws of all modes together, without reasons: errors within the modes by their share, and those of the shares.
/// `errors` are those of the shares before they are made to sum to one: independent of each other.
pub(super) fn together(
    target: &dyn Target,
    found: &[Arc<ChainDraws>],
    (shares, errors): (&[Estimate], &[f64]),
) -> Certificate {
    let names = target.parameter_names().len();
    let moments: Vec<Vec<(f64, f64)>> = found.iter().map(|chains| moments(target, &chains.draws, names)).collect();
    let mean_of = |figure: &dyn Fn(usize) -> f64| -> f64 {
        shares.iter().enumerate().map(|(m, share)| share.mean * figure(m)).sum()
    };
    let of_parameter = |j: usize| {
        let each: Vec<&ChainAccuracy> = found.iter().map(|chains| &chains.certificate.parameters[j]).collect();
        let mean = mean_of(&|m| moments[m][j].0);
        let variance = mean_of(&|m| moments[m][j].1 + (moments[m][j].0 - mean).powi(2));
        let share_error = shares.iter().map(|share| share.se).fold(0.0, f64::max);
        // Errors within modes, and by how much the figure would change with the shares.
        let error = |within: &dyn Fn(usize) -> f64, by_share: &dyn Fn(usize) -> f64| {
            let squares = (0..each.len())
                .map(|m| (shares[m].mean * within(m)).powi(2) + (errors[m].min(1.0) * by_share(m)).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let sd = variance.sqrt();
        let off = |m: usize| (moments[m][j].0 - mean) / sd;
        let of_mean = error(&|m| moments[m][j].1.sqrt() / sd / each[m].accuracy.ess.sqrt(), &off);
        let of_sd = error(&|m| SD_LIMIT * each[m].accuracy.sd.se * moments[m][j].1 / variance, &|m| {
            0.5 * (moments[m][j].1 / variance + off(m).powi(2) - 1.0)
        });
        let quantile = error(&|m| each[m].accuracy.quantile.se, &|_| 0.0).hypot(share_error / PROBABILITY_LIMIT);
        let share = |se: f64| ErrorShare { error: 0.0, se };
        let largest = |figure: &dyn Fn(&ChainAccuracy) -> f64| {
            each.iter().map(|one| figure(one)).fold(f64::NEG_INFINITY, |a, b| if b.is_nan() { b } else { a.max(b) })
        };
        let weighted = each.iter().zip(shares).map(|(one, share)| share.mean * share.mean / one.ess).sum::<f64>();
        ChainAccuracy {
            r_hat: largest(&|one| one.r_hat),
            ess: weighted.max(of_mean.powi(2)).recip(),
            trend: largest(&|one| one.trend),
            risk: largest(&|one| one.risk),
            risk_of_twice: largest(&|one| one.risk_of_twice),
            accuracy: Accuracy {
                quantile: share(quantile),
                mean: share(of_mean / MEAN_LIMIT),
                sd: share(of_sd / SD_LIMIT),
                ess: of_mean.powi(2).recip(),
                heavy_tails: each.iter().any(|one| one.accuracy.heavy_tails),
                holds: each.iter().all(|one| one.accuracy.holds),
            },
        }
    };
    let diverged = found.iter().map(|chains| chains.certificate.diverged).fold(0.0, f64::max);
    Certificate { parameters: (0..names).map(of_parameter).collect(), diverged, reasons: Vec::new() }
}

/// Mean and variance of every parameter.
fn moments(target: &dyn Target, draws: &[f64], names: usize) -> Vec<(f64, f64)> {
    let (mut row, mut sums) = (vec![0.0; names], vec![(0.0, 0.0); names]);
    let count = (draws.len() / target.dim()) as f64;
    let mut pass = |add: &dyn Fn(&mut (f64, f64), f64)| {
        for z in draws.chunks_exact(target.dim()) {
            target.to_parameters(z, &mut row);
            sums.iter_mut().zip(&row).for_each(|(sum, x)| add(sum, *x));
        }
    };
    pass(&|sum, x| sum.0 += x / count);
    pass(&|sum, x| sum.1 += (x - sum.0).powi(2) / count);
    sums
}

/// Draws of all modes by their shares, of equal weight: every chain goes through all modes, in random order, with draws of the
/// chain of the same number in each. So chains from different starts can still be compared with each other.
pub(super) fn interleaved(
    found: &[Arc<ChainDraws>],
    inside: &[Vec<bool>],
    shares: &[Estimate],
    seed: u64,
) -> ChainDraws {
    let (chains, per_start) = (found[0].chains, found[0].per_start);
    let d = found[0].dim();
    let usable = |m: usize| inside[m].iter().filter(|inside| **inside).count() as f64;
    let all: f64 = (0..found.len()).map(usable).sum();
    let enough = (0..found.len()).map(|m| usable(m) / shares[m].mean).fold(all, f64::min);
    let length = ((enough / chains as f64) as usize).max(1);
    // Which draw of which mode: chain after chain.
    let mut places = vec![(0, 0); length * chains];
    for chain in 0..chains {
        let mut noise = Noise::new(seed, Purpose::Chains, 3, u64::MAX, chain as u64);
        let offset = (chain as f64 + 0.5) / chains as f64;
        let mut modes: Vec<usize> =
            (0..length).map(|t| at_share((t as f64 + offset) / length as f64, shares)).collect();
        for i in (1..modes.len()).rev() {
            modes.swap(i, noise.index(i + 1));
        }
        for (m, inside) in inside.iter().enumerate() {
            let rows = rows_of(inside, chains, chain);
            let turns: Vec<usize> = (0..length).filter(|&t| modes[t] == m).collect();
            for (k, t) in turns.iter().enumerate() {
                let at = (2 * k + 1) * rows.len() / (2 * turns.len());
                places[t * chains + chain] = (m, rows[at.min(rows.len() - 1)]);
            }
        }
    }
    let of = |figure: &dyn Fn(&ChainDraws, usize) -> f64| places.iter().map(|&(m, at)| figure(&found[m], at)).collect();
    ChainDraws {
        draws: places.iter().flat_map(|&(m, at)| &found[m].draws[at * d..(at + 1) * d]).copied().collect(),
        log_p: of(&|chains, at| chains.log_p[at]),
        energy: of(&|chains, at| chains.energy[at]),
        diverged: places.iter().map(|&(m, at)| found[m].diverged[at]).collect(),
        chains,
        per_start,
        certificate: found[0].certificate.clone(),
        scaled: found.iter().any(|chains| chains.scaled),
        scales: None,
        stopped: found.iter().any(|chains| chains.stopped),
        modes: None,
    }
}

/// The mode at a share of the whole.
fn at_share(share: f64, shares: &[Estimate]) -> usize {
    let mut up_to = 0.0;
    let found = shares.iter().position(|one| {
        up_to += one.mean;
        share < up_to
    });
    found.unwrap_or(shares.len() - 1)
}

/// The usable draws of a chain; of all chains, if it has none.
fn rows_of(inside: &[bool], chains: usize, chain: usize) -> Vec<usize> {
    let usable = |row: &usize| inside[*row];
    let own: Vec<usize> = (chain..inside.len()).step_by(chains).filter(usable).collect();
    if own.is_empty() { (0..inside.len()).filter(usable).collect() } else { own }
}
