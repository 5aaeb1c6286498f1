//! Correlated and ill-scaled Gaussians, and mixtures of Gaussians of unequal widths.

use super::ExactSampler;
use super::heavy::autoregression;
use crate::battery::modes::KnownModes;
use crate::battery::random::RandomStream;
use crate::battery::sample::ShapeMoments;
use natmix::autodiff::{Density, Real, log_sum_exp};

/// A Gaussian whose neighbouring coordinates are correlated, with standard deviations from one scale to another, and
/// means half a standard deviation from zero.
#[derive(Clone)]
pub struct CorrelatedNormal {
    correlation: f64,
    pub scales: Vec<f64>,
}

impl CorrelatedNormal {
    pub fn new(dim: usize, correlation: f64, (first, last): (f64, f64)) -> Self {
        let share = |i: usize| if dim > 1 { i as f64 / (dim as f64 - 1.0) } else { 0.0 };
        let scales = (0..dim).map(|i| first * (last / first).powf(share(i))).collect();
        Self { correlation, scales }
    }

    fn mean(&self, i: usize) -> f64 {
        if i.is_multiple_of(2) { 0.5 } else { -0.5 }
    }
}

impl Density for CorrelatedNormal {
    fn dim(&self) -> usize {
        self.scales.len()
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let rest = 1.0 - self.correlation * self.correlation;
        let mut form = R::constant(0.0);
        let mut before = R::constant(0.0);
        for (i, (&x, &scale)) in z.iter().zip(&self.scales).enumerate() {
            let x = x / scale - self.mean(i);
            form += if i == 0 { x * x } else { (x - before * self.correlation).powi(2) / rest };
            before = x;
        }
        form * -0.5
    }
}

impl ExactSampler for CorrelatedNormal {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        autoregression(self.correlation, random, z);
        for (i, (x, scale)) in z.iter_mut().zip(&self.scales).enumerate() {
            *x = scale * (*x + self.mean(i));
        }
    }
    fn closed_moments(&self, i: usize) -> Option<ShapeMoments> {
        Some(ShapeMoments { mean: self.scales[i] * self.mean(i), sd: self.scales[i], kurtosis: 3.0 })
    }
}

/// Standard deviation of the means of a simulated mixture.
const SPREAD: f64 = 3.0;
/// Least weight of a simulated component, relative to the largest possible.
const LEAST_WEIGHT: f64 = 0.3;

/// A mixture of round Gaussians of unequal widths.
#[derive(Clone)]
pub struct WidthMixture {
    pub modes: KnownModes,
}

impl WidthMixture {
    /// Places and weights at random; the widths go from the first to the last in even ratios.
    pub fn simulated(dim: usize, count: usize, (narrow, wide): (f64, f64), seed: u64) -> Self {
        let mut random = RandomStream::new(seed);
        let mut modes = KnownModes { weights: Vec::new(), means: Vec::new(), sds: Vec::new() };
        for k in 0..count {
            let mut mean = vec![0.0; dim];
            random.normals(&mut mean);
            mean.iter_mut().for_each(|x| *x *= SPREAD);
            modes.means.push(mean);
            modes.weights.push(LEAST_WEIGHT + (1.0 - LEAST_WEIGHT) * random.uniform());
            let share = if count > 1 { k as f64 / (count as f64 - 1.0) } else { 0.0 };
            modes.sds.push(narrow * (wide / narrow).powf(share));
        }
        let total: f64 = modes.weights.iter().sum();
        modes.weights.iter_mut().for_each(|weight| *weight /= total);
        Self { modes }
    }

    /// A narrow peak with this weight and offset along the first coordinate on a standard normal bump.
    pub fn spike(dim: usize, weight: f64, width: f64, offset: f64) -> Self {
        let mut place = vec![0.0; dim];
        place[0] = offset;
        let means = vec![vec![0.0; dim], place];
        Self { modes: KnownModes { weights: vec![1.0 - weight, weight], means, sds: vec![1.0, width] } }
    }
}

impl Density for WidthMixture {
    fn dim(&self) -> usize {
        self.modes.means[0].len()
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let KnownModes { weights, means, sds } = &self.modes;
        let terms: Vec<R> = (0..weights.len())
            .map(|k| {
                let squares: R = z.iter().zip(&means[k]).map(|(&x, &mean)| (x - mean).powi(2)).sum();
                squares * (-0.5 / (sds[k] * sds[k])) + (weights[k].ln() - z.len() as f64 * sds[k].ln())
            })
            .collect();
        log_sum_exp(&terms)
    }
}

impl ExactSampler for WidthMixture {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        let KnownModes { weights, means, sds } = &self.modes;
        let k = random.index(weights);
        for (x, mean) in z.iter_mut().zip(&means[k]) {
            *x = mean + sds[k] * random.normal();
        }
    }
}
