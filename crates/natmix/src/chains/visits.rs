//! Whether chains have been everywhere: what they visit beside what the mixture has found.
//!
//! Chains that agree with each other may all have missed the same part, such as a narrow peak that no trajectory hits. If the
//! mixture has a component there, its weighted draws know how much mass that part has.

use crate::family::Mixture;

/// Draws of the chains that are compared.
const COMPARED: usize = 2_000;
/// Share of its mass, by the weighted draws and the mixture itself, below which a part counts as not visited.
const RARELY: f64 = 0.25;
/// Mass in such parts from which on chains are not to be relied on.
pub(crate) const MOST_UNVISITED: f64 = 0.01;

/// The mass of components where chains hardly ever are.
pub(crate) fn unvisited(mixture: &Mixture, (draws, weights): (&[f64], &[f64]), chains: &[f64]) -> f64 {
    let d = mixture.dim();
    let thin = (chains.len() / d).div_ceil(COMPARED).max(1);
    let count = (chains.len() / d).div_ceil(thin) as f64;
    let by_chains = shares(mixture, chains.chunks_exact(d).step_by(thin).map(|z| (z, 1.0 / count)));
    let by_weights = shares(mixture, draws.chunks_exact(d).zip(weights.iter().copied()));
    by_weights
        .iter()
        .zip(&by_chains)
        .filter(|(mass, visits)| **visits < RARELY * **mass)
        .map(|(mass, v)| mass - v)
        .sum()
}

/// The share of each component in weighted points.
fn shares<'a>(mixture: &Mixture, points: impl Iterator<Item = (&'a [f64], f64)>) -> Vec<f64> {
    let mut shares = vec![0.0; mixture.len()];
    for (z, weight) in points.filter(|(_, weight)| *weight > 0.0) {
        for (share, log_r) in shares.iter_mut().zip(mixture.log_responsibilities(z)) {
            *share += weight * log_r.exp();
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Gaussian;
    use crate::noise::Purpose;

    #[test]
    fn a_peak_that_chains_never_hit_is_seen() {
        let wide = Gaussian::isotropic(vec![0.0, 0.0], 1.0);
        let peak = Gaussian::isotropic(vec![0.5, 0.5], 0.01);
        let both = Mixture::new(&[0.95, 0.05], vec![wide.clone(), peak]).unwrap();
        let mut draws = vec![0.0; 8_000];
        both.draw(&mut draws, 1, Purpose::Check, 0);
        let mut without = vec![0.0; 8_000];
        Mixture::single(wide).draw(&mut without, 2, Purpose::Check, 0);
        let weights = vec![1.0 / 4_000.0; 4_000];
        assert!((unvisited(&both, (&draws, &weights), &without) - 0.05).abs() < 0.01);
        let mut others = vec![0.0; 8_000];
        both.draw(&mut others, 3, Purpose::Check, 0);
        assert_eq!(unvisited(&both, (&draws, &weights), &others), 0.0);
    }
}
