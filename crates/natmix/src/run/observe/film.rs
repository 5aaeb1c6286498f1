//! Keeps some of the mixtures of a run, spread over all of it, in bounded memory.

use super::{Iteration, Observer};
use crate::error::Error;
use crate::family::Mixture;
use std::ops::ControlFlow;

/// Numbers that all frames together may take: 256 MB of them.
const MOST_NUMBERS: usize = 1 << 25;

/// The mixture after one iteration.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Iterations done.
    pub iteration: u64,
    /// Points at which the target was evaluated so far.
    pub evals: u64,
    /// ELBO estimate from the points of this iteration.
    pub elbo: f64,
    /// The mixture.
    pub mixture: Mixture,
}

/// Keeps every s-th mixture, and doubles s whenever there would be too many; the first one stays.
///
/// ```
/// use natmix::family::{Gaussian, Mixture};
/// use natmix::observe::Film;
/// use natmix::{Config, Fit, Parts};
/// let target = Mixture::single(Gaussian::isotropic(vec![1.0, -2.0], 0.5));
/// let mut film = Film::new(8);
/// Fit::new(&target, Config::default()).observe(&mut film).run().unwrap();
/// let frames = film.into_frames();
/// assert!(frames.len() <= 8 && frames[0].iteration == 1);
/// ```
#[derive(Clone, Debug)]
pub struct Film {
    most: usize,
    most_numbers: usize,
    every: u64,
    frames: Vec<Frame>,
}

impl Film {
    /// Keeps at most `most` frames, at least one; fewer where mixtures are so large that they would not fit into 256 MB.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), most_numbers: MOST_NUMBERS, every: 1, frames: Vec::new() }
    }

    /// What was kept, first to last.
    pub fn into_frames(self) -> Vec<Frame> {
        self.frames
    }

    fn too_many(&self) -> bool {
        let numbers: usize = self.frames.iter().map(|frame| numbers(&frame.mixture)).sum();
        self.frames.len() > self.most || numbers > self.most_numbers
    }
}

/// Means, precisions and their factors.
fn numbers(mixture: &Mixture) -> usize {
    mixture.len() * (mixture.dim() + 2 * mixture.curvature_shape().len(mixture.dim()))
}

impl Observer for Film {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        let first = self.frames.first().map_or(it.iteration, |frame| frame.iteration);
        if (it.iteration - first).is_multiple_of(self.every) {
            let mixture = it.mixture.clone();
            self.frames.push(Frame { iteration: it.iteration, evals: it.evals, elbo: it.elbo, mixture });
            while self.too_many() && self.frames.len() > 1 {
                self.every = self.every.saturating_mul(2);
                let every = self.every;
                self.frames.retain(|frame| (frame.iteration - first).is_multiple_of(every));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Gaussian;
    use crate::{Config, Fit, Method, Parts};

    /// Iterations of the frames that are kept of a run of 100.
    fn kept(mut film: Film) -> Vec<u64> {
        let target = Mixture::single(Gaussian::isotropic(vec![3.0, 0.0], 1.0));
        // Small steps: it climbs to the end.
        let config =
            Config { max_iterations: 100, tolerance: 1e-12, ..Parts { rate: 1e-3, ..Parts::new(Method::Von) }.into() };
        let fitted = Fit::new(&target, config).observe(&mut film).run().unwrap();
        assert_eq!(fitted.iterations, 100);
        film.into_frames().iter().map(|frame| frame.iteration).collect()
    }

    #[test]
    fn frames_are_bounded_and_spread_over_the_run() {
        for most in [1, 2, 3, 7, 10, 99, 100, 500] {
            let kept = kept(Film::new(most));
            assert!(kept[0] == 1 && kept.len() <= most, "{most}: {kept:?}");
            // One that is full is halved: at least every second place is taken.
            assert!(kept.len() >= most.min(100).div_ceil(2), "{most}: {kept:?}");
            let steps: Vec<u64> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(steps.windows(2).all(|pair| pair[0] == pair[1]), "{most}: {kept:?}");
        }
    }

    #[test]
    fn large_mixtures_are_fewer() {
        // Ten numbers each: mean, precision and factor in two dimensions.
        let kept = kept(Film { most_numbers: 50, ..Film::new(100) });
        assert!((3..=5).contains(&kept.len()), "{kept:?}");
    }
}
