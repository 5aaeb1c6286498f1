//! Draws with weights, as a fit delivers and stores them.

use crate::noise::{Noise, Purpose};

/// Draws in the space that was fitted, with normalised weights.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveredDraws {
    /// The draws, one after the other.
    pub draws: Vec<f64>,
    /// Their weights, which sum to one.
    pub weights: Vec<f64>,
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

    /// `n` draws of equal weight. Empty if there is no usable draw.
    pub fn resample(&self, n: usize, seed: u64) -> Vec<f64> {
        let d = self.dim();
        self.choose(n, seed).into_iter().flat_map(|i| self.draws[i * d..(i + 1) * d].iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_chosen_as_often_as_its_weight_says() {
        let delivered = DeliveredDraws { draws: vec![1.0, 2.0, 3.0, 4.0], weights: vec![0.5, 0.0, 0.125, 0.375] };
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
    fn without_usable_weights_there_is_nothing_to_choose() {
        for weights in [vec![], vec![0.0, 0.0], vec![f64::NAN, 1.0]] {
            let delivered = DeliveredDraws { draws: vec![0.0; weights.len()], weights };
            assert!(delivered.choose(5, 1).is_empty() && delivered.resample(5, 1).is_empty());
        }
    }
}
