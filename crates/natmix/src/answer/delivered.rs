//! Draws with weights, as a fit delivers and stores them.

use crate::noise::{Noise, Purpose};

/// Draws in the space that was fitted, with normalised weights.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveredDraws {
    /// The draws, one after the other.
    pub draws: Vec<f64>,
    /// Their weights, which sum to one.
    pub weights: Vec<f64>,
    /// The chains that they are from, if they are: chain after chain, each in the order of its iterations.
    pub chains: Option<DeliveredChains>,
}

/// The chains that draws are from.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveredChains {
    /// Number of chains, all of the same length.
    pub count: usize,
    /// Chains that have started at one point: the first of them, the next, and so on.
    pub per_start: usize,
    /// Iterations from one draw to the next.
    pub every: usize,
    /// Log density at each draw.
    pub log_p: Vec<f64>,
    /// Energy with which the trajectory that led to each draw started.
    pub energy: Vec<f64>,
    /// By how much the energy changed to the next iteration; for the last of a chain, from the one before.
    pub energy_change: Vec<f64>,
    /// Whether that trajectory diverged.
    pub diverged: Vec<bool>,
}

impl DeliveredChains {
    /// Draws of each chain.
    pub fn length(&self) -> usize {
        self.log_p.len().checked_div(self.count).unwrap_or(0)
    }

    /// Number of starts. The chains of a start follow one another.
    pub fn starts(&self) -> usize {
        self.count.checked_div(self.per_start).unwrap_or(0)
    }

    /// Values that go chain after chain, iteration after iteration instead.
    pub fn by_iteration<T: Copy>(&self, values: &[T], width: usize) -> Vec<T> {
        let (count, length) = (self.count, self.length());
        let row = |at: usize| values[at * width..(at + 1) * width].iter().copied();
        (0..length).flat_map(|t| (0..count).flat_map(move |chain| row(chain * length + t))).collect()
    }

    /// Whether these could be chains of so many draws.
    pub fn fits(&self, draws: usize) -> bool {
        let Self { count, per_start, log_p, energy, energy_change, diverged, .. } = self;
        let divides = |part: usize, whole: usize| part > 0 && whole.is_multiple_of(part);
        let complete = [log_p, energy, energy_change].iter().all(|values| values.len() == draws);
        complete && diverged.len() == draws && divides(*count, draws) && divides(*per_start, *count) && self.every > 0
    }
}

impl DeliveredDraws {
    /// The dimension of the draws.
    pub fn dim(&self) -> usize {
        self.draws.len().checked_div(self.weights.len()).unwrap_or(0)
    }

    /// Positions of `n` draws chosen in proportion to their weights, in ascending order. Each is chosen as often as its
    /// weight says, rounded down or up (systematic resampling): the least noise that a choice can add.
    pub fn choose(&self, n: usize, seed: u64) -> Vec<usize> {
        let total: f64 = self.weights.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            return Vec::new();
        }
        let offset = Noise::new(seed, Purpose::Resample, u64::MAX, 0, 0).uniform();
        let (mut chosen, mut up_to, mut i) = (Vec::with_capacity(n), self.weights[0], 0);
        for j in 0..n {
            let at = (j as f64 + offset) / n as f64 * total;
            while up_to <= at && i + 1 < self.weights.len() {
                i += 1;
                up_to += self.weights[i];
            }
            chosen.push(i);
        }
        chosen
    }

    /// `n` draws of equal weight, those of chains in random order. Empty if there is no usable draw.
    pub fn resample(&self, n: usize, seed: u64) -> Vec<f64> {
        let d = self.dim();
        let mut chosen = self.choose(n, seed);
        if self.chains.is_some() {
            let mut noise = Noise::new(seed, Purpose::Resample, u64::MAX, 1, 0);
            for i in (1..chosen.len()).rev() {
                let j = (noise.uniform() * (i + 1) as f64) as usize;
                chosen.swap(i, j.min(i));
            }
        }
        chosen.into_iter().flat_map(|i| self.draws[i * d..(i + 1) * d].iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_chosen_as_often_as_its_weight_says() {
        let delivered =
            DeliveredDraws { draws: vec![1.0, 2.0, 3.0, 4.0], weights: vec![0.5, 0.0, 0.125, 0.375], chains: None };
        for seed in 1..20 {
            let chosen = delivered.choose(80, seed);
            let times = |i| chosen.iter().filter(|&&j| j == i).count();
            assert_eq!([times(0), times(1), times(2), times(3)], [40, 0, 10, 30]);
            assert_eq!(delivered.resample(80, seed)[79], 4.0);
        }
        let three: Vec<usize> =
            (1..400).map(|seed| delivered.choose(3, seed).iter().filter(|&&i| i == 0).count()).collect();
        assert!(three.iter().all(|n| (1..=2).contains(n)) && three.contains(&1) && three.contains(&2));
    }

    #[test]
    fn values_of_chains_are_reordered_by_iteration() {
        let values: Vec<f64> = (0..6).map(f64::from).collect();
        let chains = DeliveredChains {
            count: 2,
            per_start: 1,
            every: 1,
            log_p: values.clone(),
            energy: values.clone(),
            energy_change: values.clone(),
            diverged: vec![false; 6],
        };
        assert_eq!((chains.length(), chains.starts()), (3, 2));
        assert_eq!(chains.by_iteration(&values, 1), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert!(chains.fits(6) && !chains.fits(4) && !DeliveredChains { count: 4, ..chains }.fits(6));
    }

    #[test]
    fn without_usable_weights_there_is_nothing_to_choose() {
        for weights in [vec![], vec![0.0, 0.0], vec![f64::NAN, 1.0]] {
            let delivered = DeliveredDraws { draws: vec![0.0; weights.len()], weights, chains: None };
            assert!(delivered.choose(5, 1).is_empty() && delivered.resample(5, 1).is_empty());
        }
    }
}
