//! Funnels, heavy tails and kinks, with independent or jointly heavy coordinates.

use super::ExactSampler;
use crate::battery::random::RandomStream;
use crate::battery::sample::ShapeMoments;
use natmix::autodiff::{Density, Real};

/// Neal's funnel: `z0 ~ N(0, sd0^2)`, the others `N(0, exp(z0))`.
#[derive(Clone)]
pub struct NealFunnel {
    pub dim: usize,
    pub sd0: f64,
}

impl Density for NealFunnel {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let squares: R = z[1..].iter().map(|&x| x * x).sum();
        -(z[0] * z[0]) / (2.0 * self.sd0 * self.sd0) - (squares * (-z[0]).exp() + z[0] * (self.dim as f64 - 1.0)) * 0.5
    }
}

impl ExactSampler for NealFunnel {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        random.normals(z);
        z[0] *= self.sd0;
        let scale = (0.5 * z[0]).exp();
        z[1..].iter_mut().for_each(|x| *x *= scale);
    }
    fn closed_moments(&self, coordinate: usize) -> Option<ShapeMoments> {
        let variance = self.sd0 * self.sd0;
        Some(match coordinate {
            0 => ShapeMoments { mean: 0.0, sd: self.sd0, kurtosis: 3.0 },
            _ => ShapeMoments { mean: 0.0, sd: (0.25 * variance).exp(), kurtosis: 3.0 * variance.exp() },
        })
    }
}

/// The moments of Student's t; infinite where they do not exist, and the kurtosis with them.
fn student_moments(degrees: f64) -> ShapeMoments {
    let sd = if degrees > 2.0 { (degrees / (degrees - 2.0)).sqrt() } else { f64::INFINITY };
    let kurtosis = if degrees > 4.0 { 3.0 + 6.0 / (degrees - 4.0) } else { f64::INFINITY };
    ShapeMoments { mean: 0.0, sd, kurtosis }
}

/// Independent coordinates, each Student's t.
#[derive(Clone)]
pub struct StudentProduct {
    pub dim: usize,
    pub degrees: f64,
}

impl Density for StudentProduct {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        z.iter().map(|&x| (x * x / self.degrees).ln_1p()).sum::<R>() * (-0.5 * (self.degrees + 1.0))
    }
}

impl ExactSampler for StudentProduct {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        z.iter_mut().for_each(|x| *x = random.normal() * random.student_factor(self.degrees));
    }
    fn closed_moments(&self, _: usize) -> Option<ShapeMoments> {
        Some(student_moments(self.degrees))
    }
}

/// Multivariate t; neighbouring coordinates are correlated, as in an autoregression.
#[derive(Clone)]
pub struct JointStudent {
    pub dim: usize,
    pub degrees: f64,
    pub correlation: f64,
}

impl Density for JointStudent {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let steps: R = z.windows(2).map(|pair| (pair[1] - pair[0] * self.correlation).powi(2)).sum();
        let form = z[0] * z[0] + steps / (1.0 - self.correlation * self.correlation);
        (form / self.degrees).ln_1p() * (-0.5 * (self.degrees + self.dim as f64))
    }
}

impl ExactSampler for JointStudent {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        autoregression(self.correlation, random, z);
        let factor = random.student_factor(self.degrees);
        z.iter_mut().for_each(|x| *x *= factor);
    }
    fn closed_moments(&self, _: usize) -> Option<ShapeMoments> {
        Some(student_moments(self.degrees))
    }
}

/// Standard normal coordinates, of which neighbours are correlated.
pub fn autoregression(correlation: f64, random: &mut RandomStream, z: &mut [f64]) {
    random.normals(z);
    let rest = (1.0 - correlation * correlation).sqrt();
    for i in 1..z.len() {
        z[i] = correlation * z[i - 1] + rest * z[i];
    }
}

/// Logarithms of independent Gamma variables with these shapes.
#[derive(Clone)]
pub struct LogGammaProduct {
    pub shapes: Vec<f64>,
}

impl Density for LogGammaProduct {
    fn dim(&self) -> usize {
        self.shapes.len()
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        z.iter().zip(&self.shapes).map(|(&x, &shape)| x * shape - x.exp()).sum()
    }
}

impl ExactSampler for LogGammaProduct {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        // A Gamma of a small shape is one of shape + 1 times a power of a uniform number: no draw is lost to underflow.
        for (x, shape) in z.iter_mut().zip(&self.shapes) {
            *x = random.gamma(shape + 1.0).ln() - random.exponential() / shape;
        }
    }
}

/// Independent Laplace coordinates with these scales.
#[derive(Clone)]
pub struct LaplaceProduct {
    pub scales: Vec<f64>,
}

impl Density for LaplaceProduct {
    fn dim(&self) -> usize {
        self.scales.len()
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        -z.iter().zip(&self.scales).map(|(&x, &scale)| x.abs() / scale).sum::<R>()
    }
}

impl ExactSampler for LaplaceProduct {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        for (x, scale) in z.iter_mut().zip(&self.scales) {
            *x = scale * random.exponential() * if random.uniform() < 0.5 { -1.0 } else { 1.0 };
        }
    }
    fn closed_moments(&self, coordinate: usize) -> Option<ShapeMoments> {
        Some(ShapeMoments { mean: 0.0, sd: 2f64.sqrt() * self.scales[coordinate], kurtosis: 6.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::densities::exact_sample;

    fn column(sampler: &dyn ExactSampler, dim: usize, j: usize) -> crate::battery::sample::SortedColumn {
        let names = (0..dim).map(|i| format!("z{i}")).collect();
        exact_sample(sampler, names, 400_000, 7).column(j)
    }

    #[test]
    fn samples_agree_with_closed_forms() {
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 0.02, "{found} {expected}");
        // The quartiles of t with one and two degrees of freedom are 1 and 0.8165.
        close(column(&StudentProduct { dim: 1, degrees: 1.0 }, 1, 0).quantiles([0.75])[0], 1.0);
        close(column(&JointStudent { dim: 3, degrees: 2.0, correlation: 0.7 }, 3, 2).quantiles([0.75])[0], 0.8165);
        let funnel = NealFunnel { dim: 2, sd0: 1.0 };
        for j in 0..2 {
            let closed = funnel.closed_moments(j).unwrap();
            close(column(&funnel, 2, j).moments().sd, closed.sd);
        }
        close(column(&StudentProduct { dim: 1, degrees: 6.0 }, 1, 0).moments().sd, student_moments(6.0).sd);
        // The mean of log Gamma(1) is minus Euler's constant, its variance pi^2 / 6.
        let gumbel = column(&LogGammaProduct { shapes: vec![1.0] }, 1, 0).moments();
        close(gumbel.mean, -0.577_216);
        close(gumbel.sd, std::f64::consts::PI / 6f64.sqrt());
        close(column(&LaplaceProduct { scales: vec![1.0] }, 1, 0).quantiles([0.95])[0], 10f64.ln());
    }
}
