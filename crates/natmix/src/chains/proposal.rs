//! A proposal fitted to the draws of chains: a second opinion by importance weights, independent of how the chains have mixed.
//!
//! In the coordinates in which chains move, hierarchies are nearly Gaussian. What is left of them is mostly skewness along one
//! coordinate (the scale, if there is one), so that the draws are cut into slices along it and each gets a Gaussian of its own; a
//! wide one covers the tails. With the change of coordinates this is a density that can be drawn from and evaluated.

use super::coordinates::Coordinates;
use super::draws::ChainDraws;
use super::scales::Scales;
use super::statistics::mean_and_variance;
use crate::family::covariance::Full;
use crate::family::{Gaussian, Mixture};
use crate::noise::Purpose;

/// Shares of the draws below the cuts between slices.
const CUTS: [f64; 5] = [0.06, 0.22, 0.5, 0.78, 0.94];
/// Draws that the covariance that slices have in common counts for in that of a slice, per dimension.
const POOLED: f64 = 4.0;
/// How much wider each Gaussian is than its draws.
const WIDENED: f64 = 1.1;
/// The tails, beyond either end: spread along the slices, in standard deviations of all draws, by how much wider they are otherwise
/// than the last slice, in one dimension, and how often they are drawn from, in multiples of it.
const TAIL_SPREAD: f64 = 2.0;
const TAIL_WIDENED: f64 = 1.5;
const TAIL_TIMES: f64 = 2.0;

/// A density around draws.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    /// In the coordinates of the chains.
    mixture: Mixture,
    scales: Option<Coordinates>,
}

impl Proposal {
    /// Around the first half of the draws of chains. None also where there are too few.
    pub fn around_chains(chains: &ChainDraws) -> Option<Self> {
        let (d, half) = (chains.dim(), chains.half());
        if half < (2 * d).max(1) { None } else { Self::around(&chains.draws[..half * d], chains.scales.clone(), d) }
    }

    /// Proposals around draws, each around those that the one in its place has the highest density at.
    pub fn again(proposals: &[Self], draws: &[f64], d: usize) -> Vec<Self> {
        let each: Vec<Vec<f64>> = proposals.iter().map(|proposal| proposal.log_density(draws)).collect();
        let mut parts = vec![Vec::new(); proposals.len()];
        for (z, highest) in draws.chunks_exact(d).zip(highest(&each)) {
            parts[highest].extend_from_slice(z);
        }
        let enough = proposals.iter().zip(&parts).filter(|(_, part)| part.len() >= 2 * d * d);
        enough.filter_map(|(proposal, part)| Self::around(part, proposal.scales.clone(), d)).collect()
    }

    /// Around draws (one after another) of the target, in the coordinates of the chains that left them. None where they lie in
    /// fewer dimensions than they should.
    pub fn around(draws: &[f64], scales: Option<Coordinates>, d: usize) -> Option<Self> {
        let mut y = draws.to_vec();
        if let Some(scales) = &scales {
            scales.backward(&mut y);
        }
        let along = scales.as_ref().and_then(Coordinates::scales).map_or_else(|| most_skewed(&y, d), Scales::first);
        let mut order: Vec<usize> = (0..y.len() / d).collect();
        order.sort_by(|&a, &b| y[a * d + along].total_cmp(&y[b * d + along]));
        let (_, all) = moments(&y, &order, d);
        let cuts = CUTS.map(|cut| (cut * order.len() as f64) as usize);
        let starts = [0].into_iter().chain(cuts);
        let slices: Vec<&[usize]> =
            starts.zip(cuts.into_iter().chain([order.len()])).map(|(a, b)| &order[a..b]).collect();
        let own: Vec<(Vec<f64>, Vec<f64>)> = slices.iter().map(|slice| moments(&y, slice, d)).collect();
        // What the slices have in common is known better than each by itself.
        let mut common = vec![0.0; d * d];
        for ((_, own), slice) in own.iter().zip(&slices) {
            let share = slice.len() as f64 / order.len() as f64;
            common.iter_mut().zip(own).for_each(|(common, own)| *common += share * own);
        }
        let at = along * (d + 1);
        let (mut weights, mut components) = (Vec::new(), Vec::new());
        for (number, ((mean, own), slice)) in own.into_iter().zip(&slices).enumerate() {
            let (count, pooled) = (slice.len() as f64, POOLED * d as f64);
            let blend = |(own, common): (&f64, &f64)| (count * own + pooled * common) / (count + pooled);
            let blended: Vec<f64> = own.iter().zip(&common).map(blend).collect();
            let with_spread = |variance: f64, wider: f64| -> Vec<f64> {
                let factor = |i: usize| if i == along { (variance / blended[at]).sqrt() } else { wider };
                blended.iter().enumerate().map(|(ij, v)| factor(ij / d) * factor(ij % d) * v).collect()
            };
            let widened = with_spread(WIDENED * WIDENED * own[at], WIDENED);
            components.push(gaussian(mean.clone(), widened, d)?);
            weights.push(count.sqrt());
            if number == 0 || number == CUTS.len() {
                // What chains are slow to enter has more mass than their draws say.
                let tail = with_spread(TAIL_SPREAD * TAIL_SPREAD * all[at], 1.0 + TAIL_WIDENED / (d as f64).sqrt());
                components.push(gaussian(mean, tail, d)?);
                weights.push(TAIL_TIMES * count.sqrt());
            }
        }
        Some(Self { mixture: Mixture::new(&weights, components).ok()?, scales })
    }

    /// Fills `points` (one after another) with draws.
    pub fn draw(&self, points: &mut [f64], seed: u64, round: u64) {
        self.mixture.draw(points, seed, Purpose::Chains, round);
        if let Some(scales) = &self.scales {
            scales.forward(points);
        }
    }

    /// Log densities at points.
    pub fn log_density(&self, points: &[f64]) -> Vec<f64> {
        let Some(scales) = &self.scales else { return self.mixture.log_density(points) };
        let mut y = points.to_vec();
        scales.backward(&mut y);
        let mut log_q = self.mixture.log_density(&y);
        log_q.iter_mut().zip(scales.log_det(&y)).for_each(|(log_q, log_det)| *log_q -= log_det);
        log_q
    }
}

/// Which of several densities is highest at each point, given their logs there.
pub(super) fn highest(log_densities: &[Vec<f64>]) -> Vec<usize> {
    let count = log_densities.first().map_or(0, Vec::len);
    let by = |i: usize| move |&a: &usize, &b: &usize| log_densities[a][i].total_cmp(&log_densities[b][i]);
    (0..count).map(|i| (0..log_densities.len()).max_by(by(i)).unwrap_or(0)).collect()
}

fn gaussian(mean: Vec<f64>, covariance: Vec<f64>, d: usize) -> Option<Gaussian> {
    Some(Gaussian::new(mean, Full::from_covariance(d, covariance).ok()?))
}

/// Mean and covariance of some of the points.
fn moments(points: &[f64], which: &[usize], d: usize) -> (Vec<f64>, Vec<f64>) {
    let share = 1.0 / which.len().max(1) as f64;
    let (mut mean, mut covariance) = (vec![0.0; d], vec![0.0; d * d]);
    let rows = || which.iter().map(|&row| &points[row * d..(row + 1) * d]);
    rows().for_each(|y| mean.iter_mut().zip(y).for_each(|(m, y)| *m += share * y));
    for y in rows() {
        for i in 0..d {
            let off = share * (y[i] - mean[i]);
            (0..d).for_each(|j| covariance[i * d + j] += off * (y[j] - mean[j]));
        }
    }
    (mean, covariance)
}

/// The coordinate in which the points are skewed most.
fn most_skewed(points: &[f64], d: usize) -> usize {
    let skewness = |j: usize| {
        let column = points.iter().skip(j).step_by(d).copied();
        let (mean, variance) = mean_and_variance(column.clone());
        column.map(|y| ((y - mean) / variance.sqrt()).powi(3)).sum::<f64>().abs()
    };
    let number = |x: f64| if x.is_nan() { 0.0 } else { x };
    (0..d).map(|j| (j, number(skewness(j)))).max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |best| best.0)
}
