//! Known modes of a mixture: which share of starts leads to each, and which of them a fit has missed.

use super::climb::{PointEvaluator, climb_from};
use super::random::RandomStream;
use super::sample::WeightedSample;
use anyhow::Result;
use natmix::target::Target;
use serde::Serialize;

/// Climbs from which the basins are estimated.
const CLIMBS: usize = 2_000;
const CLIMB_SEED: u64 = 880_001;
/// Share of starts below which a mode counts as rare.
pub const RARE_BASIN: f64 = 0.005;
/// A mode is missed when the delivered draws have less than this share of its weight.
const MISSED: f64 = 0.5;

/// The components of a mixture of round Gaussians that are apart from each other.
#[derive(Clone, Debug)]
pub struct KnownModes {
    pub weights: Vec<f64>,
    pub means: Vec<Vec<f64>>,
    pub sds: Vec<f64>,
}

/// A mode that a fit has missed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissedMode {
    /// Which one.
    pub mode: usize,
    /// Its true weight.
    pub weight: f64,
    /// The weight that the delivered draws give it.
    pub found: f64,
    /// The share of starts that lead to it.
    pub basin: f64,
}

impl KnownModes {
    /// The component that a point most likely belongs to.
    fn nearest(&self, z: &[f64]) -> usize {
        let score = |k: usize| {
            let squares: f64 = z.iter().zip(&self.means[k]).map(|(x, mean)| (x - mean).powi(2)).sum();
            self.weights[k].ln() - z.len() as f64 * self.sds[k].ln() - 0.5 * squares / self.sds[k].powi(2)
        };
        (0..self.weights.len()).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap_or(0)
    }

    /// The share of starts, normal around zero with this spread, whose climb ends in each mode.
    pub fn basins(&self, target: &dyn Target, spread: f64) -> Result<Vec<f64>> {
        let mut random = RandomStream::new(CLIMB_SEED);
        let mut evaluator = PointEvaluator::new(target);
        let mut shares = vec![0.0; self.weights.len()];
        for _ in 0..CLIMBS {
            let mut z = vec![0.0; target.dim()];
            random.normals(&mut z);
            z.iter_mut().for_each(|x| *x *= spread);
            climb_from(&mut evaluator, &mut z, spread)?;
            shares[self.nearest(&z)] += 1.0 / CLIMBS as f64;
        }
        Ok(shares)
    }

    /// The modes that delivered draws miss.
    pub fn missed(&self, draws: &WeightedSample, basins: &[f64]) -> Vec<MissedMode> {
        let mut found = vec![0.0; self.weights.len()];
        let mut total = 0.0;
        for (i, z) in draws.values.chunks_exact(draws.names.len()).enumerate() {
            let weight = draws.weights.as_ref().map_or(1.0, |weights| weights[i]);
            found[self.nearest(z)] += weight;
            total += weight;
        }
        let modes = self.weights.iter().zip(&found).zip(basins).enumerate();
        let modes =
            modes.map(|(mode, ((&weight, &found), &basin))| MissedMode { mode, weight, found: found / total, basin });
        modes.filter(|mode| mode.found < MISSED * mode.weight || mode.found.is_nan()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::densities::{WidthMixture, exact_sample};
    use natmix::autodiff::AutoDiff;

    #[test]
    fn basins_and_missed_modes_of_two_modes() {
        let modes = KnownModes { weights: vec![0.3, 0.7], means: vec![vec![-5.0], vec![5.0]], sds: vec![1.0, 1.0] };
        let mixture = WidthMixture { modes };
        let basins = mixture.modes.basins(&AutoDiff(mixture.clone()), 4.0).unwrap();
        assert!((basins[0] - 0.5).abs() < 0.05 && (basins[0] + basins[1] - 1.0).abs() < 1e-9, "{basins:?}");
        let mut sample = exact_sample(&mixture, vec!["z".into()], 2_000, 1);
        assert!(mixture.modes.missed(&sample, &basins).is_empty());
        sample.values.iter_mut().for_each(|z| *z = z.abs());
        let missed = mixture.modes.missed(&sample, &basins);
        assert_eq!(missed.len(), 1);
        assert_eq!((missed[0].mode, missed[0].weight, missed[0].found), (0, 0.3, 0.0));
    }
}
