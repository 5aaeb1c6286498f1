//! Random numbers of the battery: truths, simulated data and starts of climbs, each from a fixed seed.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Gamma, Poisson, StandardNormal};

/// A stream of random numbers that depends on its seed alone.
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Standard normal coordinates.
    pub fn normals(&mut self, out: &mut [f64]) {
        out.iter_mut().for_each(|x| *x = self.normal());
    }

    /// Uniform on [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Exponential with mean one.
    pub fn exponential(&mut self) -> f64 {
        Exp1.sample(&mut self.0)
    }

    /// Gamma with scale one; NaN unless the shape is positive.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        Gamma::new(shape, 1.0).map_or(f64::NAN, |gamma| gamma.sample(&mut self.0))
    }

    /// A factor that turns normal numbers into Student's t with these degrees of freedom.
    pub fn student_factor(&mut self, degrees: f64) -> f64 {
        (0.5 * degrees / self.gamma(0.5 * degrees)).sqrt()
    }

    /// A count; NaN unless the mean is positive.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        Poisson::new(mean).map_or(f64::NAN, |poisson| poisson.sample(&mut self.0))
    }

    /// An index, in proportion to weights with sum one.
    pub fn index(&mut self, weights: &[f64]) -> usize {
        let mut left = self.uniform();
        for (i, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return i;
            }
        }
        weights.len() - 1
    }
}
