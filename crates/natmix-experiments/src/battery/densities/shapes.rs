//! Bananas, rings and shells.

use super::ExactSampler;
use crate::battery::random::RandomStream;
use natmix::autodiff::{Density, Real};

/// Pairs `a ~ N(0, spread^2)`, `b ~ N(bend (a^2 - spread^2), width^2)`, and further standard normal coordinates.
#[derive(Clone)]
pub struct BananaPairs {
    pub pairs: usize,
    pub bend: f64,
    pub spread: f64,
    pub width: f64,
    pub extra: usize,
}

impl Density for BananaPairs {
    fn dim(&self) -> usize {
        2 * self.pairs + self.extra
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let (pairs, extra) = z.split_at(2 * self.pairs);
        let variance = self.spread * self.spread;
        let pair = |z: &[R]| {
            let off = z[1] - (z[0] * z[0] - variance) * self.bend;
            z[0] * z[0] / variance + off * off / (self.width * self.width)
        };
        (pairs.chunks_exact(2).map(pair).sum::<R>() + extra.iter().map(|&x| x * x).sum::<R>()) * -0.5
    }
}

impl ExactSampler for BananaPairs {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        random.normals(z);
        for z in z[..2 * self.pairs].chunks_exact_mut(2) {
            z[0] *= self.spread;
            z[1] = self.bend * (z[0] * z[0] - self.spread * self.spread) + self.width * z[1];
        }
    }
}

/// Keeps the distance from the centre differentiable there.
const CORE: f64 = 1e-9;
/// Steps of the grid on which the distribution of the distance is tabulated.
const STEPS: usize = 20_000;

/// A ring in two dimensions, a shell in more: `-(|z| - radius)^2 / (2 width^2)` over the first `shell` coordinates;
/// further coordinates are standard normal.
#[derive(Clone)]
pub struct ShellDensity {
    shell: usize,
    radius: f64,
    width: f64,
    extra: usize,
    /// Distribution function of the distance, on an even grid from zero to `reach`.
    cumulative: Vec<f64>,
    reach: f64,
}

impl ShellDensity {
    pub fn new(shell: usize, radius: f64, width: f64, extra: usize) -> Self {
        let reach = radius + 10.0 * width;
        let step = reach / STEPS as f64;
        let mut cumulative = vec![0.0];
        for i in 0..STEPS {
            let r = (i as f64 + 0.5) * step;
            let density = r.powi(shell as i32 - 1) * (-0.5 * ((r - radius) / width).powi(2)).exp();
            cumulative.push(cumulative[i] + density);
        }
        let total = cumulative[STEPS];
        cumulative.iter_mut().for_each(|x| *x /= total);
        Self { shell, radius, width, extra, cumulative, reach }
    }
}

/// The place on an even grid with this step from zero at which a distribution function reaches `u`.
pub fn invert(cumulative: &[f64], step: f64, u: f64) -> f64 {
    let above = cumulative.partition_point(|&x| x <= u).clamp(1, cumulative.len() - 1);
    let (low, high) = (cumulative[above - 1], cumulative[above]);
    (above as f64 - 1.0 + (u - low) / (high - low)) * step
}

impl Density for ShellDensity {
    fn dim(&self) -> usize {
        self.shell + self.extra
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let (shell, extra) = z.split_at(self.shell);
        let distance = (shell.iter().map(|&x| x * x).sum::<R>() + CORE).sqrt();
        -((distance - self.radius) / self.width).powi(2) * 0.5 - extra.iter().map(|&x| x * x).sum::<R>() * 0.5
    }
}

impl ExactSampler for ShellDensity {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        random.normals(z);
        let shell = &mut z[..self.shell];
        let length = shell.iter().map(|x| x * x).sum::<f64>().sqrt();
        let distance = invert(&self.cumulative, self.reach / STEPS as f64, random.uniform());
        shell.iter_mut().for_each(|x| *x *= distance / length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::densities::exact_sample;

    #[test]
    fn a_thin_shell_has_its_radius() {
        let names = ["x", "y"].map(String::from).to_vec();
        let sample = exact_sample(&ShellDensity::new(2, 4.0, 0.1, 0), names, 100_000, 1);
        // A coordinate of a uniform point on a circle has variance radius^2 / 2, here plus that of the width.
        let expected = (0.5 * (16.0 + 0.01 + 2.0 * 0.01)).sqrt();
        assert!((sample.column(0).moments().sd - expected).abs() < 0.02);
        let far = sample.values.chunks_exact(2).filter(|z| (z[0].hypot(z[1]) - 4.0).abs() > 0.5).count();
        assert!(far < 5, "{far}");
    }

    #[test]
    fn a_banana_has_the_moments_of_its_parts() {
        let banana = BananaPairs { pairs: 1, bend: 0.5, spread: 2.0, width: 1.0, extra: 0 };
        let sample = exact_sample(&banana, ["a", "b"].map(String::from).to_vec(), 200_000, 1);
        let b = sample.column(1).moments();
        // The variance of bend * a^2 is 2 bend^2 spread^4.
        assert!(b.mean.abs() < 0.03 && (b.sd - 3.0).abs() < 0.05, "{b:?}");
    }
}
