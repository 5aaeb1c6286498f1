//! The posterior of a linear regression whose intercept and slope both vary between groups, with correlations: given the four scales
//! everything else is Gaussian. Metropolis' algorithm draws the scales from their exact marginal density.

use crate::normal_hierarchy::{Stream, gaussian_mixture};
use crate::right::{Marginal, PROBABILITIES};
use natmix_models::effects::{EffectsData, EffectsModel, GroupCoefficients, Grouping, PriorDensity};

/// Steps, and draws of the scales that are kept, evenly spaced.
const STEPS: (usize, usize) = (300_000, 5_000);
/// The same for hundreds of groups, each of which costs time at every step and marginals afterwards.
const STEPS_OF_MANY: (usize, usize) = (100_000, 1_000);

/// Homes in groups, on the ground floor or not: `y = 1.5 - 0.65 x + u + v x + e`.
pub fn simulate(groups: usize, most: usize, seed: u64) -> EffectsData {
    let mut random = Stream::new(seed);
    let mut data = EffectsData { names: vec!["(intercept)".into(), "floor".into()], ..EffectsData::default() };
    let mut level_of_row = Vec::new();
    for level in 0..groups {
        let (u, v) = (0.35 * random.normal(), 0.3 * random.normal());
        for _ in 0..1 + (random.uniform() * most as f64) as usize {
            let floor = f64::from(u8::from(random.uniform() < 0.4));
            data.x.extend([1.0, floor]);
            data.y.push(1.5 - 0.65 * floor + u + v * floor + 0.75 * random.normal());
            level_of_row.push(level as u32);
        }
    }
    in_counties(data, groups, level_of_row)
}

/// All columns vary between counties.
pub fn in_counties(mut data: EffectsData, counties: usize, level_of_row: Vec<u32>) -> EffectsData {
    data.groupings = vec![Grouping {
        name: "county".into(),
        levels: (0..counties).map(|level| level.to_string()).collect(),
        columns: data.names.clone(),
        z: data.x.clone(),
        level_of_row,
        coefficients: GroupCoefficients::Correlated,
    }];
    data
}

type Pair = [f64; 2];
/// A symmetric matrix: first, second, and crossed entry.
type Symmetric = [f64; 3];

fn times(a: Symmetric, x: Pair) -> Pair {
    [a[0] * x[0] + a[2] * x[1], a[2] * x[0] + a[1] * x[1]]
}

fn dot(a: Pair, b: Pair) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

fn inverse(a: Symmetric) -> (Symmetric, f64) {
    let det = a[0] * a[1] - a[2] * a[2];
    ([a[1] / det, a[0] / det, -a[2] / det], det)
}

/// `a c a` for symmetric matrices.
fn sandwich(a: Symmetric, c: Symmetric) -> Symmetric {
    let (first, second) = (times(c, [a[0], a[2]]), times(c, [a[2], a[1]]));
    [dot([a[0], a[2]], first), dot([a[2], a[1]], second), dot([a[0], a[2]], second)]
}

#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    zz: Symmetric,
    zy: Pair,
    yy: f64,
}

/// Mean and variance of a parameter at a draw of the scales.
type MomentsAt<'a> = &'a dyn Fn(&[f64; 4], &Given) -> (f64, f64);

struct Problem {
    groups: Vec<Sums>,
    prior: [(f64, f64); 2],
    /// Of the noise and of both columns.
    sd_priors: [PriorDensity; 3],
    lkj: f64,
}

struct Given {
    log_density: f64,
    mean: Pair,
    variance: Symmetric,
}

impl Problem {
    fn scales(at: &[f64; 4]) -> (f64, Symmetric) {
        let (s1, s2, r) = (at[1].exp(), at[2].exp(), at[3].tanh());
        ((-2.0 * at[0]).exp(), inverse([s1 * s1, s2 * s2, r * s1 * s2]).0)
    }

    /// Covariance of a group's effects given the coefficients.
    fn spread(sums: &Sums, prec: f64, sigma: Symmetric) -> Symmetric {
        inverse([prec * sums.zz[0] + sigma[0], prec * sums.zz[1] + sigma[1], prec * sums.zz[2] + sigma[2]]).0
    }

    /// At the logarithms of the three standard deviations and the inverse hyperbolic tangent of the correlation.
    fn given(&self, at: &[f64; 4]) -> Given {
        let (prec, sigma) = Self::scales(at);
        let [(m0, sd0), (m1, sd1)] = self.prior;
        let mut a: Symmetric = [sd0.powi(-2), sd1.powi(-2), 0.0];
        let mut r: Pair = [m0 * a[0], m1 * a[1]];
        let mut log = 0.0;
        let det_of_prior = sigma[0] * sigma[1] - sigma[2] * sigma[2];
        for sums in &self.groups {
            let c = Self::spread(sums, prec, sigma);
            let m: Symmetric = sums.zz.map(|x| prec * x);
            let s: Pair = sums.zy.map(|x| prec * x);
            let lost = sandwich(m, c);
            (0..3).for_each(|k| a[k] += m[k] - lost[k]);
            let cs = times(c, s);
            let mcs = times(m, cs);
            (0..2).for_each(|k| r[k] += s[k] - mcs[k]);
            let det = c[0] * c[1] - c[2] * c[2];
            log -= 0.5 * (prec * sums.yy - dot(s, cs) - det.ln() - det_of_prior.ln()) + sums.n * at[0];
        }
        let (variance, det) = inverse(a);
        let mean = times(variance, r);
        log += 0.5 * (dot(mean, r) - det.ln());
        for (prior, at) in self.sd_priors.iter().zip(at) {
            log += prior.at_log(*at)[0];
        }
        log -= 2.0 * self.lkj * at[3].cosh().ln();
        Given { log_density: log, mean, variance }
    }
}

/// The marginals of all parameters, in the order of the model.
pub fn reference(data: &EffectsData, model: &EffectsModel) -> Vec<Marginal> {
    let mut groups = vec![Sums::default(); data.groupings[0].levels.len()];
    for (row, y) in data.y.iter().enumerate() {
        let sums = &mut groups[data.groupings[0].level_of_row[row] as usize];
        let z = [data.x[2 * row], data.x[2 * row + 1]];
        sums.n += 1.0;
        [z[0] * z[0], z[1] * z[1], z[0] * z[1]].iter().enumerate().for_each(|(k, x)| sums.zz[k] += x);
        (0..2).for_each(|k| sums.zy[k] += z[k] * y);
        sums.yy += y * y;
    }
    let priors: Vec<PriorDensity> = model.priors().iter().map(|statement| statement.prior).collect();
    let normal = |prior| match prior {
        PriorDensity::Normal { mean, sd } => (mean, sd),
        other => panic!("{other}"),
    };
    let PriorDensity::Lkj { shape: lkj } = priors[5] else { panic!("{}", priors[5]) };
    let prior = [normal(priors[0]), normal(priors[1])];
    let problem = Problem { groups, prior, sd_priors: [priors[2], priors[3], priors[4]], lkj };

    let (steps, kept) = if problem.groups.len() > 300 { STEPS_OF_MANY } else { STEPS };
    // A pilot run finds the width of each scale.
    let mut random = Stream::new(17);
    let mut at = [0.75f64.ln(), 0.35f64.ln(), 0.3f64.ln(), 0.0];
    let mut widths = [0.03, 0.15, 0.2, 0.4];
    for _ in 0..2 {
        let pilot = metropolis(&problem, &mut at, &widths, steps / 10, &mut random);
        widths = std::array::from_fn(|k| {
            let mean = pilot.iter().map(|at| at[k]).sum::<f64>() / pilot.len() as f64;
            (pilot.iter().map(|at| (at[k] - mean).powi(2)).sum::<f64>() / pilot.len() as f64).sqrt()
        });
    }
    let draws = metropolis(&problem, &mut at, &widths, steps, &mut random);
    let of_draws = |value: &dyn Fn(&[f64; 4]) -> f64| {
        let mut values: Vec<f64> = draws.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let moment = |power: i32, centre: f64| values.iter().map(|x| (x - centre).powi(power)).sum::<f64>() / n;
        let mean = moment(1, 0.0);
        let sd = moment(2, mean).sqrt();
        let quantiles = PROBABILITIES.map(|p| values[(p * n) as usize]);
        Marginal { quantiles, mean, sd, kurtosis: moment(4, mean) / sd.powi(4) }
    };
    let kept: Vec<([f64; 4], Given)> = draws.iter().step_by(steps / kept).map(|at| (*at, problem.given(at))).collect();
    let weights = vec![1.0 / kept.len() as f64; kept.len()];
    let gaussian = |of: MomentsAt<'_>| {
        let (means, sds): (Vec<f64>, Vec<f64>) =
            kept.iter().map(|(at, given)| of(at, given)).map(|(mean, variance)| (mean, variance.sqrt())).unzip();
        gaussian_mixture(&means, &sds, &weights)
    };
    let mut marginals = vec![
        gaussian(&|_, given| (given.mean[0], given.variance[0])),
        gaussian(&|_, given| (given.mean[1], given.variance[1])),
        of_draws(&|at| at[0].exp()),
        of_draws(&|at| at[1].exp()),
        of_draws(&|at| at[2].exp()),
        of_draws(&|at| at[3].tanh()),
    ];
    for sums in &problem.groups {
        for k in 0..2 {
            marginals.push(gaussian(&|at, given| {
                let (prec, sigma) = Problem::scales(at);
                let c = Problem::spread(sums, prec, sigma);
                let m: Symmetric = sums.zz.map(|x| prec * x);
                let fitted = times(m, given.mean);
                let mean = times(c, [prec * sums.zy[0] - fitted[0], prec * sums.zy[1] - fitted[1]]);
                // The variance of C M beta.
                let row = times(m, [[c[0], c[2]], [c[2], c[1]]][k]);
                (mean[k], c[k] + dot(row, times(given.variance, row)))
            }));
        }
    }
    marginals
}

fn metropolis(
    problem: &Problem,
    at: &mut [f64; 4],
    widths: &[f64; 4],
    steps: usize,
    random: &mut Stream,
) -> Vec<[f64; 4]> {
    let mut here = problem.given(at).log_density;
    let mut draws = Vec::with_capacity(steps);
    for _ in 0..steps {
        let proposal: [f64; 4] = std::array::from_fn(|k| at[k] + 1.1 * widths[k] * random.normal());
        let there = problem.given(&proposal).log_density;
        if random.uniform().ln() < there - here {
            (*at, here) = (proposal, there);
        }
        draws.push(*at);
    }
    draws
}
