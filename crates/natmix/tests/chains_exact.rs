//! Chains from start to end give the exact answer: moments of Gaussians, and ranks of simulated parameters.
//!
//! `NATMIX_SLOW=1` simulates 200 data sets instead of 80.

mod common;

use common::assert_mean;
use natmix::chains::draws::ChainDraws;
use natmix::family::{Covariances, Gaussian, Mixture};
use natmix::target::{ClosureTarget, Target};
use natmix::{Config, Fit};

/// Chains with at most four times as many evaluations.
fn finish(target: &dyn Target, start: Mixture, seed: u64, max_evals: u64) -> ChainDraws {
    let config = Config { seed, threads: 1, max_evals: Some(max_evals), ..Config::default() };
    Fit::new(target, config).start(start).finish().unwrap().chains.unwrap()
}

#[test]
fn moments_of_correlated_gaussians_are_right() {
    for d in [10, 50] {
        // Neighbours correlate by 0.9, and scales go from 0.1 to 10.
        let sd: Vec<f64> = (0..d).map(|i| 10_f64.powf(2.0 * i as f64 / (d - 1) as f64 - 1.0)).collect();
        let row = |i: usize| (0..d).map(|j| 0.9_f64.powi(i.abs_diff(j) as i32) * sd[i] * sd[j]).collect();
        let mean: Vec<f64> = (0..d).map(|i| sd[i] * common::wave(i)).collect();
        let covariance: Vec<Vec<f64>> = (0..d).map(row).collect();
        let target =
            Mixture::from_moments(&[1.0], std::slice::from_ref(&mean), Covariances::Full(&[covariance])).unwrap();
        // Wrong in place, in scale and in every correlation.
        let start = Mixture::single(Gaussian::isotropic(vec![1.0; d], 0.5));
        let found: Vec<ChainDraws> = (1..=4).map(|seed| finish(&target, start.clone(), seed, 50_000)).collect();
        // Chains that have forgotten where they started are independent of each other: one number from each.
        let per_chain = |of: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            let mean = |found: &ChainDraws, chain: usize| {
                let own = found.draws.chunks_exact(d).skip(chain).step_by(found.chains).map(of);
                own.sum::<f64>() / (found.log_p.len() / found.chains) as f64
            };
            found.iter().flat_map(|found| (0..found.chains).map(move |chain| mean(found, chain))).collect()
        };
        let standard = |z: &[f64], i: usize| (z[i] - mean[i]) / sd[i];
        for i in 0..d {
            // Resolution: 0.15 standard deviations, a fifth of a variance.
            assert_mean(&per_chain(&|z| standard(z, i)), 0.0, 0.15, &format!("d = {d}: mean {i}"));
            assert_mean(&per_chain(&|z| standard(z, i).powi(2)), 1.0, 0.2, &format!("d = {d}: variance {i}"));
            let next = (i + 1) % d;
            let exact = 0.9_f64.powi(i.abs_diff(next) as i32);
            let product = per_chain(&|z| standard(z, i) * standard(z, next));
            assert_mean(&product, exact, 0.2, &format!("d = {d}: covariance of {i} and {next}"));
        }
    }
}

const GROUPS: usize = 8;
const DIM: usize = GROUPS + 2;
/// Draws among which the true value is ranked, and bins of the ranks.
const RANKED: usize = 99;
const BINS: usize = 10;

/// Log density of `[mean, log scale, groups...]` given one outcome with unit noise per group, all prior sds one: centred.
fn hierarchy(y: [f64; GROUPS]) -> ClosureTarget<'static> {
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        let (mean, log_scale, precision) = (z[0], z[1], (-2.0 * z[1]).exp());
        let off = |j: usize| z[j + 2] - mean;
        let squares: f64 = (0..GROUPS).map(|j| off(j).powi(2)).sum();
        let misfit: f64 = (0..GROUPS).map(|j| (y[j] - z[j + 2]).powi(2)).sum();
        if let Some(grad) = grad {
            grad[0] = -mean + precision * (0..GROUPS).map(off).sum::<f64>();
            grad[1] = -log_scale + precision * squares - GROUPS as f64;
            (0..GROUPS).for_each(|j| grad[j + 2] = -precision * off(j) + y[j] - z[j + 2]);
        }
        -0.5 * (mean * mean + log_scale * log_scale + precision * squares + misfit) - GROUPS as f64 * log_scale
    };
    ClosureTarget::new(DIM, density).unwrap()
}

/// The rank of each true value among thinned draws, and among the same draws `narrowed` around their mean.
fn ranks(seed: u64, narrowed: f64) -> [[usize; DIM]; 2] {
    let normals = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0)).sample(DIM + GROUPS, seed);
    let mut truth: [f64; DIM] = std::array::from_fn(|i| normals[i]);
    let scale = truth[1].exp();
    (2..DIM).for_each(|j| truth[j] = truth[0] + scale * truth[j]);
    let target = hierarchy(std::array::from_fn(|j| truth[j + 2] + normals[DIM + j]));
    let start = Mixture::single(Gaussian::isotropic(vec![0.0; DIM], 1.0));
    let draws = finish(&target, start, seed, 1_000_000).delivered().draws;
    // Chain after chain: draws so far apart are independent, or nearly.
    let count = draws.len() / DIM;
    let places = (0..RANKED).map(|k| (2 * k + 1) * count / (2 * RANKED));
    let kept: Vec<&[f64]> = places.map(|at| &draws[at * DIM..(at + 1) * DIM]).collect();
    [1.0, narrowed].map(|share| {
        std::array::from_fn(|i| {
            let mean = kept.iter().map(|z| z[i]).sum::<f64>() / RANKED as f64;
            kept.iter().filter(|z| mean + share * (z[i] - mean) < truth[i]).count()
        })
    })
}

/// Chi-square distance of ranks from uniform ones, for each parameter.
fn chi_squares(ranks: &[[usize; DIM]]) -> [f64; DIM] {
    let expected = ranks.len() as f64 / BINS as f64;
    std::array::from_fn(|i| {
        let mut bins = [0.0; BINS];
        ranks.iter().for_each(|ranks| bins[ranks[i] * BINS / (RANKED + 1)] += 1.0);
        bins.iter().map(|n| (n - expected).powi(2) / expected).sum()
    })
}

#[test]
fn ranks_of_simulated_parameters_are_uniform() {
    let count = if std::env::var_os("NATMIX_SLOW").is_some() { 200 } else { 80 };
    let all: Vec<[[usize; DIM]; 2]> = (1..=count).map(|seed| ranks(seed, 0.4)).collect();
    let right = chi_squares(&all.iter().map(|ranks| ranks[0]).collect::<Vec<_>>());
    let narrow = chi_squares(&all.iter().map(|ranks| ranks[1]).collect::<Vec<_>>());
    println!("{count} data sets, chi-square of the ranks: {right:.1?}; of draws 0.4 times as wide: {narrow:.1?}");
    // Nine degrees of freedom: 33.7 is exceeded with a probability of 1e-4, by any of ten parameters with 1e-3.
    assert!(right.iter().all(|x| *x < 33.7), "{right:?}");
    // Draws that are too narrow are seen in every parameter.
    assert!(narrow.iter().all(|x| *x > 33.7), "{narrow:?}");
}
