//! Densities with exact samplers.

mod gaussian;
mod heavy;
mod hierarchical;
mod shapes;

pub use gaussian::{CorrelatedNormal, WidthMixture};
pub use heavy::{JointStudent, LaplaceProduct, LogGammaProduct, NealFunnel, StudentProduct, autoregression};
pub use hierarchical::{GroupData, HierarchicalNormal};
pub use shapes::{BananaPairs, ShellDensity};

use super::random::RandomStream;
use super::sample::{ShapeMoments, WeightedSample};
use natmix::autodiff::Density;

/// Exact draws from a density.
pub trait ExactSampler: Send + Sync {
    /// Writes one draw.
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]);

    /// The moments of a coordinate, where they are known in closed form.
    fn closed_moments(&self, _coordinate: usize) -> Option<ShapeMoments> {
        None
    }
}

/// A density with an exact sampler.
pub trait ExactDensity: Density + ExactSampler + Clone + 'static {}

impl<D: Density + ExactSampler + Clone + 'static> ExactDensity for D {}

/// `n` exact draws.
pub fn exact_sample(sampler: &dyn ExactSampler, names: Vec<String>, n: usize, seed: u64) -> WeightedSample {
    let mut random = RandomStream::new(seed);
    let mut values = vec![0.0; n * names.len()];
    values.chunks_exact_mut(names.len()).for_each(|z| sampler.draw(&mut random, z));
    WeightedSample { names, values, weights: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use natmix::Scratch;
    use natmix::autodiff::AutoDiff;
    use natmix::target::{EvalOut, Points, Rows, Target};

    /// By the divergence theorem `E[z_i * d log p / dz_i] = -1` for a density that vanishes at infinity: holds only if
    /// the draws belong to the density.
    fn assert_draws_belong<D: ExactDensity>(density: D, tolerance: f64) {
        let (target, n) = (AutoDiff(density.clone()), 200_000);
        let d = target.dim();
        let sample = exact_sample(&density, target.parameter_names(), n, 5);
        let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * d]);
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
        target.eval(Rows::All, Points::new(&sample.values, d), out, &mut Scratch::default()).unwrap();
        for i in 0..d {
            let terms = sample.values.iter().zip(&grad).skip(i).step_by(d).map(|(z, g)| z * g);
            let mean = terms.sum::<f64>() / n as f64;
            assert!((mean + 1.0).abs() < tolerance, "coordinate {i}: {mean}");
        }
    }

    #[test]
    fn draws_belong_to_their_densities() {
        assert_draws_belong(NealFunnel { dim: 3, sd0: 1.0 }, 0.03);
        assert_draws_belong(StudentProduct { dim: 2, degrees: 3.0 }, 0.03);
        assert_draws_belong(JointStudent { dim: 3, degrees: 4.0, correlation: 0.6 }, 0.03);
        assert_draws_belong(LogGammaProduct { shapes: vec![0.5, 2.0] }, 0.03);
        assert_draws_belong(LaplaceProduct { scales: vec![0.5, 2.0] }, 0.03);
        assert_draws_belong(BananaPairs { pairs: 1, bend: 0.5, spread: 1.0, width: 0.7, extra: 1 }, 0.03);
        assert_draws_belong(ShellDensity::new(3, 2.0, 0.5, 1), 0.05);
        assert_draws_belong(CorrelatedNormal::new(4, 0.8, (0.1, 10.0)), 0.05);
        assert_draws_belong(WidthMixture::simulated(3, 4, (0.5, 1.5), 1), 0.05);
        assert_draws_belong(HierarchicalNormal::new(GroupData::schools(), false), 0.05);
    }
}
