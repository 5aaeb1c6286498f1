//! Random numbers that depend on their purpose, never on the thread that computes them.
//!
//! Every stream is ChaCha8 keyed by (seed, purpose, component id, iteration, block), so that a run gives
//! the same bits for any number of threads and after a resume, and the same points with components in another order.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{ChiSquared, Distribution, StandardNormal};

/// What a stream of random numbers is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Draws of an iteration.
    Draws = 1,
    /// Which component each draw from the mixture comes from.
    Assignment = 2,
    /// First means of the components.
    Start = 3,
    /// Draws that measure a finished mixture.
    Diagnostics = 4,
    /// Draws that a user asked for.
    Sample = 5,
    /// Importance resampling.
    Resample = 6,
    /// Order of the data rows.
    Minibatch = 7,
    /// Random points at which a target is checked.
    Check = 8,
    /// Where the children of a split component lie.
    Split = 9,
    /// Draws and directions of the gradient check before a fit.
    GradientCheck = 10,
    /// Points far out, at which the tails of a density are examined.
    Tails = 11,
    /// Chains that look for mass beside a mixture.
    Probe = 12,
    /// Chains that finish a fit.
    Chains = 13,
    /// Directions along which the curvature at a summit is measured.
    Sketch = 14,
    /// Draws of a look at a mixture while the run goes on.
    Look = 15,
    /// What the prior adds to a point of a subspace.
    Lift = 16,
}

/// One stream of random numbers.
pub(crate) struct Noise(ChaCha8Rng);

impl Noise {
    pub(crate) fn new(seed: u64, purpose: Purpose, id: u64, iteration: u64, block: u64) -> Self {
        let mut key = [0; 32];
        for (bytes, number) in key.chunks_exact_mut(8).zip([seed, purpose as u64, id, iteration]) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(block);
        Self(rng)
    }

    pub(crate) fn normals(&mut self, out: &mut [f64]) {
        for x in out {
            *x = StandardNormal.sample(&mut self.0);
        }
    }

    /// The length of a standard normal vector in `degrees` dimensions.
    pub(crate) fn chi(&mut self, degrees: usize) -> f64 {
        // A degree of freedom of at least one is always valid.
        ChiSquared::new(degrees.max(1) as f64).map_or(f64::NAN, |chi| chi.sample(&mut self.0).sqrt())
    }

    /// Uniform on [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Uniform on `0..bound`.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }
}
