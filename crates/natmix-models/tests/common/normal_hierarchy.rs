//! The exact posterior of a linear regression with an intercept that varies between groups: given both standard deviations
//! everything else is Gaussian, so all that is left are sums over a grid of those two.
#![allow(dead_code)] // Each test file uses its own share of these.

use crate::right::{Marginal, PROBABILITIES};
use natmix_models::effects::{EffectsData, EffectsModel, Family, GroupCoefficients, Grouping, PriorDensity};
use natmix_models::predict::quantile;

const LOG_TAU: f64 = 1.837_877_066_409_345_5;
/// Quantiles of the standard normal at the probabilities.
pub const NORMAL: [f64; 5] =
    [-1.644_853_626_951_472_2, -0.674_489_750_196_081_7, 0.0, 0.674_489_750_196_081_7, 1.644_853_626_951_472_2];
/// Log density below the largest one at which the grid ends.
const DEPTH: f64 = 20.0;

/// Numbers that look random, with a seed.
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }
    /// Uniform on (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((x ^ (x >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), std::f64::consts::TAU * self.uniform());
        radius * angle.cos()
    }
}

/// Rows of groups of these sizes, `y = 1.3 - 0.6 x + u + e` with standard deviations `tau` and `sigma` of the last two.
pub fn simulate(sizes: &[usize], tau: f64, sigma: f64, seed: u64) -> EffectsData {
    let mut random = Stream::new(seed);
    let mut data = EffectsData { names: vec!["(intercept)".into(), "x".into()], ..EffectsData::default() };
    let mut level_of_row = Vec::new();
    for (level, size) in sizes.iter().enumerate() {
        let effect = tau * random.normal();
        for _ in 0..*size {
            let x = 4.0 + 2.0 * random.normal();
            data.x.extend([1.0, x]);
            data.y.push(1.3 - 0.6 * x + effect + sigma * random.normal());
            level_of_row.push(level as u32);
        }
    }
    data.groupings = vec![Grouping {
        name: "group".into(),
        levels: (0..sizes.len()).map(|level| level.to_string()).collect(),
        columns: vec!["(intercept)".into()],
        z: vec![1.0; level_of_row.len()],
        level_of_row,
        coefficients: GroupCoefficients::Correlated,
    }];
    data
}

/// Sums over a group, the columns being one and the centred `x`.
#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    xx: f64,
    y: f64,
    xy: f64,
    yy: f64,
}

/// What is known given the standard deviations.
struct Given {
    log_density: f64,
    mean: [f64; 2],
    /// Variances and covariance of the coefficients.
    variance: [f64; 3],
}

/// Mean and variance of a parameter at a point of the grid.
type MomentsAt<'a> = &'a dyn Fn(&(f64, f64, Given)) -> (f64, f64);

struct Problem {
    groups: Vec<Sums>,
    centre: f64,
    /// Prior means and standard deviations of the centred intercept and the slope.
    prior: [(f64, f64); 2],
    sd_priors: [PriorDensity; 2],
}

impl Problem {
    fn given(&self, log_sigma: f64, log_tau: f64) -> Given {
        let (s2, t2) = ((2.0 * log_sigma).exp(), (2.0 * log_tau).exp());
        let [(m0, sd0), (m1, sd1)] = self.prior;
        let (mut a, mut b, mut c) = (sd0.powi(-2), 0.0, sd1.powi(-2));
        let (mut r0, mut r1) = (m0 * a, m1 * c);
        let mut log = -0.5 * (m0 * m0 * a + m1 * m1 * c) - (sd0 * sd1).ln() - LOG_TAU;
        for g in &self.groups {
            // The covariance of a group's rows is s2 I + t2 11', whose inverse is (I - k 11') / s2.
            let k = t2 / (s2 + g.n * t2);
            a += (g.n - k * g.n * g.n) / s2;
            b += (g.x - k * g.n * g.x) / s2;
            c += (g.xx - k * g.x * g.x) / s2;
            r0 += (g.y - k * g.n * g.y) / s2;
            r1 += (g.xy - k * g.x * g.y) / s2;
            log -= 0.5 * ((g.yy - k * g.y * g.y) / s2 + g.n * (LOG_TAU + 2.0 * log_sigma) + (1.0 + g.n * t2 / s2).ln());
        }
        let det = a * c - b * b;
        let variance = [c / det, a / det, -b / det];
        let mean = [variance[0] * r0 + variance[2] * r1, variance[2] * r0 + variance[1] * r1];
        log += LOG_TAU - 0.5 * det.ln() + 0.5 * (mean[0] * r0 + mean[1] * r1);
        let [of_sigma, of_tau] = self.sd_priors;
        log += of_sigma.at_log(log_sigma)[0] + of_tau.at_log(log_tau)[0];
        Given { log_density: log, mean, variance }
    }
}

fn grid((low, high): (f64, f64), steps: usize) -> Vec<f64> {
    (0..=steps).map(|i| low + (high - low) * i as f64 / steps as f64).collect()
}

/// The marginals of all parameters, in the order of the model, and the log evidence.
pub fn exact(data: &EffectsData, model: &EffectsModel) -> (Vec<Marginal>, f64) {
    assert_eq!(model.family(), Family::Linear);
    let rows = data.y.len();
    let centre = data.x.iter().skip(1).step_by(2).sum::<f64>() / rows as f64;
    let mut groups = vec![Sums::default(); data.groupings[0].levels.len()];
    for row in 0..rows {
        let g = &mut groups[data.groupings[0].level_of_row[row] as usize];
        let (x, y) = (data.x[2 * row + 1] - centre, data.y[row]);
        g.n += 1.0;
        (g.x, g.xx) = (g.x + x, g.xx + x * x);
        (g.y, g.xy, g.yy) = (g.y + y, g.xy + x * y, g.yy + y * y);
    }
    let priors: Vec<PriorDensity> = model.priors().iter().map(|statement| statement.prior).collect();
    let normal = |prior| match prior {
        PriorDensity::Normal { mean, sd } => (mean, sd),
        other => panic!("{other}"),
    };
    let prior = [normal(priors[0]), normal(priors[1])];
    let problem = Problem { groups, centre, prior, sd_priors: [priors[2], priors[3]] };

    // A coarse grid finds where the mass is.
    let unit = (data.y.iter().map(|y| y * y).sum::<f64>() / rows as f64).sqrt().ln();
    let (mut box_s, mut box_t) = ((unit - 8.0, unit + 3.0), (unit - 14.0, unit + 4.0));
    let (coarse_s, coarse_t) = (grid(box_s, 220), grid(box_t, 120));
    let at: Vec<(f64, f64, f64)> =
        coarse_s.iter().flat_map(|s| coarse_t.iter().map(|t| (*s, *t, problem.given(*s, *t).log_density))).collect();
    let most = at.iter().fold(f64::NEG_INFINITY, |most, at| most.max(at.2));
    let inside: Vec<&(f64, f64, f64)> = at.iter().filter(|at| at.2 > most - DEPTH).collect();
    let range = |value: &dyn Fn(&(f64, f64, f64)) -> f64, step: f64| {
        let low = inside.iter().map(|at| value(at)).fold(f64::INFINITY, f64::min);
        (low - step, inside.iter().map(|at| value(at)).fold(f64::NEG_INFINITY, f64::max) + step)
    };
    box_s = range(&|at| at.0, 0.05);
    box_t = range(&|at| at.1, 0.15);
    // With many groups the density is nearly Gaussian, and every node costs more.
    let (of_s, of_t) = if problem.groups.len() > 300 { (60, 100) } else { (100, 250) };
    let (fine_s, fine_t) = (grid(box_s, of_s), grid(box_t, of_t));
    let mut nodes: Vec<(f64, f64, Given)> =
        fine_s.iter().flat_map(|s| fine_t.iter().map(|t| (*s, *t, problem.given(*s, *t)))).collect();
    let most = nodes.iter().fold(f64::NEG_INFINITY, |most, node| most.max(node.2.log_density));
    let total: f64 = nodes.iter().map(|node| (node.2.log_density - most).exp()).sum();
    let cell = (fine_s[1] - fine_s[0]) * (fine_t[1] - fine_t[0]);
    let evidence = most + (total * cell).ln();
    let of_scale = |values: &[f64], steps: &dyn Fn(&(f64, f64, Given)) -> f64| -> Marginal {
        let mass: Vec<f64> = values
            .iter()
            .map(|value| {
                let mine = nodes.iter().filter(|node| steps(node) == *value);
                mine.map(|node| (node.2.log_density - most).exp() / total).sum()
            })
            .collect();
        scale_marginal(values, &mass)
    };
    let (sigma, tau) = (of_scale(&fine_s, &|node| node.0), of_scale(&fine_t, &|node| node.1));

    nodes.retain(|node| node.2.log_density > most - 12.0);
    let weights: Vec<f64> = nodes.iter().map(|node| (node.2.log_density - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    let weights: Vec<f64> = weights.iter().map(|w| w / total).collect();
    let gaussian = |of: MomentsAt<'_>| -> Marginal {
        let (means, sds): (Vec<f64>, Vec<f64>) = nodes.iter().map(of).map(|(mean, var)| (mean, var.sqrt())).unzip();
        gaussian_mixture(&means, &sds, &weights)
    };
    let c = problem.centre;
    let mut marginals = vec![
        gaussian(&|(_, _, g)| {
            (g.mean[0] - c * g.mean[1], g.variance[0] + c * c * g.variance[1] - 2.0 * c * g.variance[2])
        }),
        gaussian(&|(_, _, g)| (g.mean[1], g.variance[1])),
        sigma,
        tau,
    ];
    for sums in &problem.groups {
        marginals.push(gaussian(&|(s, t, g)| {
            let (s2, t2) = ((2.0 * s).exp(), (2.0 * t).exp());
            let k = t2 / (s2 + sums.n * t2);
            let rest = sums.y - sums.n * g.mean[0] - sums.x * g.mean[1];
            let [a, b, ab] = g.variance;
            let spread = sums.n * sums.n * a + sums.x * sums.x * b + 2.0 * sums.n * sums.x * ab;
            (k * rest, k * s2 + k * k * spread)
        }));
    }
    (marginals, evidence)
}

/// Of a parameter whose logarithm has this mass at the points of a grid.
fn scale_marginal(logs: &[f64], mass: &[f64]) -> Marginal {
    let step = logs[1] - logs[0];
    let moment = |power: i32, centre: f64| -> f64 {
        logs.iter().zip(mass).map(|(log, m)| m * (log.exp() - centre).powi(power)).sum()
    };
    let mean = moment(1, 0.0);
    let sd = moment(2, mean).sqrt();
    let at = |p: f64| {
        let mut below = 0.0;
        for (log, m) in logs.iter().zip(mass) {
            if below + m >= p {
                // The mass of a point lies evenly around it.
                return (log - 0.5 * step + step * (p - below) / m).exp();
            }
            below += m;
        }
        logs[logs.len() - 1].exp()
    };
    Marginal { quantiles: PROBABILITIES.map(at), mean, sd, kurtosis: moment(4, mean) / sd.powi(4) }
}

/// Of a parameter that is one of these normal distributions, with these probabilities.
pub fn gaussian_mixture(means: &[f64], sds: &[f64], weights: &[f64]) -> Marginal {
    let all = || means.iter().zip(sds).zip(weights);
    let mean: f64 = all().map(|((m, _), w)| w * m).sum();
    let variance: f64 = all().map(|((m, s), w)| w * ((m - mean).powi(2) + s * s)).sum();
    let fourth: f64 = all()
        .map(|((m, s), w)| {
            let d = m - mean;
            w * (d.powi(4) + 6.0 * d * d * s * s + 3.0 * s.powi(4))
        })
        .sum();
    let sd = variance.sqrt();
    let mut levels = PROBABILITIES.into_iter().zip(NORMAL);
    let quantiles = std::array::from_fn(|_| quantile(levels.next().unwrap(), means, sds, weights, mean, sd));
    Marginal { quantiles, mean, sd, kurtosis: fourth / (variance * variance) }
}
