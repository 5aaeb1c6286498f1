//! Hierarchical normal models, centred and not: exact by quadrature over the logarithm of the scale, given which all
//! else is Gaussian.

use super::ExactSampler;
use super::shapes::invert;
use crate::battery::random::RandomStream;
use natmix::autodiff::{Density, Real};

/// Prior standard deviation of the common mean, and scale of the half-Cauchy prior of the groups' spread.
const MEAN_SD: f64 = 10.0;
const SPREAD_SCALE: f64 = 5.0;
/// Grid of the logarithm of the spread: below and above it there is no mass to speak of.
const LEAST: f64 = -14.0;
const STEP: f64 = 0.002;
const CELLS: usize = 11_000;

/// Group means as observed, with known standard errors.
#[derive(Clone)]
pub struct GroupData {
    observed: Vec<f64>,
    errors: Vec<f64>,
}

impl GroupData {
    /// Effects of coaching in eight schools (Rubin 1981).
    pub fn schools() -> Self {
        Self {
            observed: vec![28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0],
            errors: vec![15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0],
        }
    }

    /// Groups around 3 with this spread, observed with this error.
    pub fn simulated(groups: usize, spread: f64, error: f64, seed: u64) -> Self {
        let mut random = RandomStream::new(seed);
        let observed = (0..groups).map(|_| 3.0 + spread.hypot(error) * random.normal()).collect();
        Self { observed, errors: vec![error; groups] }
    }
}

/// `y_j ~ N(theta_j, s_j^2)`, `theta_j ~ N(mu, tau^2)`, `mu ~ N(0, 10^2)`, `tau` half-Cauchy with scale 5, over `mu`,
/// `log tau` and either the `theta_j` (centred) or `(theta_j - mu) / tau`.
#[derive(Clone)]
pub struct HierarchicalNormal {
    data: GroupData,
    centred: bool,
    /// Distribution function of `log tau` on its grid.
    cumulative: Vec<f64>,
}

impl HierarchicalNormal {
    pub fn new(data: GroupData, centred: bool) -> Self {
        let log_density: Vec<f64> = (0..CELLS).map(|i| log_marginal(&data, LEAST + (i as f64 + 0.5) * STEP)).collect();
        let most = log_density.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut cumulative = vec![0.0];
        for log_density in &log_density {
            cumulative.push(cumulative[cumulative.len() - 1] + (log_density - most).exp());
        }
        let total = cumulative[CELLS];
        cumulative.iter_mut().for_each(|x| *x /= total);
        Self { data, centred, cumulative }
    }
}

/// Precision and mean of `mu` given `tau`, the groups integrated out.
fn mean_given(data: &GroupData, tau: f64) -> (f64, f64) {
    let (mut precision, mut sum) = (MEAN_SD.powi(-2), 0.0);
    for (y, s) in data.observed.iter().zip(&data.errors) {
        let variance = s * s + tau * tau;
        precision += 1.0 / variance;
        sum += y / variance;
    }
    (precision, sum / precision)
}

/// Log density of `log tau` given the data, up to a constant.
fn log_marginal(data: &GroupData, log_tau: f64) -> f64 {
    let tau = log_tau.exp();
    let (precision, mean) = mean_given(data, tau);
    let groups = data.observed.iter().zip(&data.errors).map(|(y, s)| {
        let variance = s * s + tau * tau;
        -0.5 * (variance.ln() + y * y / variance)
    });
    let prior = log_tau - (tau / SPREAD_SCALE).powi(2).ln_1p();
    prior + groups.sum::<f64>() - 0.5 * precision.ln() + 0.5 * precision * mean * mean
}

impl Density for HierarchicalNormal {
    fn dim(&self) -> usize {
        2 + self.data.observed.len()
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let (mean, log_tau) = (z[0], z[1]);
        let tau = log_tau.exp();
        let mut sum = log_tau - (tau / SPREAD_SCALE).powi(2).ln_1p() - (mean / MEAN_SD).powi(2) * 0.5;
        for ((&x, &y), &s) in z[2..].iter().zip(&self.data.observed).zip(&self.data.errors) {
            let (theta, prior) = match self.centred {
                true => (x, ((x - mean) / tau).powi(2) * 0.5 + log_tau),
                false => (mean + tau * x, x * x * 0.5),
            };
            sum = sum - prior - ((theta - y) / s).powi(2) * 0.5;
        }
        sum
    }
    fn parameter_names(&self) -> Vec<String> {
        let group = if self.centred { "theta" } else { "eta" };
        let groups = (0..self.data.observed.len()).map(|j| format!("{group}[{j}]"));
        ["mu", "log_tau"].map(String::from).into_iter().chain(groups).collect()
    }
}

impl ExactSampler for HierarchicalNormal {
    fn draw(&self, random: &mut RandomStream, z: &mut [f64]) {
        z[1] = LEAST + invert(&self.cumulative, STEP, random.uniform());
        let tau = z[1].exp();
        let (precision, mean) = mean_given(&self.data, tau);
        z[0] = mean + random.normal() / precision.sqrt();
        let mean = z[0];
        for ((x, y), s) in z[2..].iter_mut().zip(&self.data.observed).zip(&self.data.errors) {
            // The spread relative to `tau`, so that a small one does not divide by zero.
            let share = tau * tau / (tau * tau + s * s);
            let relative = (y - mean) * tau / (tau * tau + s * s) + (1.0 - share).sqrt() * random.normal();
            *x = if self.centred { mean + tau * relative } else { relative };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::densities::exact_sample;

    #[test]
    fn both_forms_are_one_model() {
        let form = |centred| HierarchicalNormal::new(GroupData::schools(), centred);
        let draw = |centred| {
            let mut z = vec![0.0; 10];
            form(centred).draw(&mut RandomStream::new(3), &mut z);
            z
        };
        let (centred, relative) = (draw(true), draw(false));
        let (mean, tau) = (centred[0], centred[1].exp());
        assert!((centred[4] - mean - tau * relative[4]).abs() < 1e-12);
        // They differ by the factor tau of each group.
        let difference = form(true).log_p(&centred) - form(false).log_p(&relative);
        assert!((difference + 8.0 * centred[1]).abs() < 1e-9, "{difference}");
    }

    #[test]
    fn without_spread_the_groups_are_pooled() {
        // The same observation in all groups and small errors: their common mean is known exactly.
        let data = GroupData { observed: vec![2.0; 20], errors: vec![0.1; 20] };
        let model = HierarchicalNormal::new(data, true);
        let sample = exact_sample(&model, model.parameter_names(), 50_000, 1);
        assert!((sample.column(0).moments().mean - 2.0).abs() < 0.01);
        assert!(sample.column(1).quantiles([0.5])[0] < -2.5);
    }

    #[test]
    fn eight_schools_have_their_known_posterior() {
        let model = HierarchicalNormal::new(GroupData::schools(), true);
        let sample = exact_sample(&model, model.parameter_names(), 200_000, 1);
        // By sums over a grid of both mu and log tau, instead of the closed form for mu.
        let (mut weight, mut mean, mut log_tau) = (0.0, 0.0, 0.0);
        for i in 0..400 {
            let t = -9.0 + 0.035 * i as f64;
            for j in 0..300 {
                let m = -45.0 + 0.3 * j as f64;
                let spread = t.exp();
                let mut log_p = t - (spread / SPREAD_SCALE).powi(2).ln_1p() - 0.5 * (m / MEAN_SD).powi(2);
                for (y, s) in model.data.observed.iter().zip(&model.data.errors) {
                    let variance = s * s + spread * spread;
                    log_p -= 0.5 * (variance.ln() + (y - m).powi(2) / variance);
                }
                let p = (log_p + 40.0).exp();
                weight += p;
                mean += p * m;
                log_tau += p * t;
            }
        }
        assert!((sample.column(0).moments().mean - mean / weight).abs() < 0.05);
        assert!((sample.column(1).moments().mean - log_tau / weight).abs() < 0.02);
    }
}
