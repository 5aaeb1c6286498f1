use super::Metric;
use super::earlier::Earlier;
use super::run::{Plan, run};
use super::walkers::{Group, Integrator, Walkers};
use crate::evaluate::{Limits, of_target};
use crate::family::{Gaussian, Mixture};
use crate::noise::{Noise, Purpose};
use crate::target::ClosureTarget;
use crate::workspace::ScratchPool;

const DIM: usize = 3;
const CHAINS: usize = 200;

/// A correlated Gaussian, and its covariance.
fn target() -> (Mixture, Vec<f64>) {
    let covariance = vec![4.0, 1.5, 0.0, 1.5, 1.0, -0.3, 0.0, -0.3, 0.25];
    let precision = crate::family::Full::from_covariance(DIM, covariance.clone()).unwrap();
    (Mixture::single(Gaussian::new(vec![1.0, -2.0, 0.5], precision)), covariance)
}

/// Means and covariances over chains and iterations, after chains that start at `start` have moved for a while.
fn moments(metric: &Metric, step: f64, iterations: u64) -> (Vec<f64>, Vec<f64>, f64) {
    let (target, _) = target();
    let pool = ScratchPool::new(1);
    let mut evaluator = of_target(&target, &pool, Limits::default());
    let mut start = vec![0.0; CHAINS * DIM];
    Noise::new(7, Purpose::Check, 0, 0, 0).normals(&mut start);
    let mut walkers = Walkers::start(&mut *evaluator, start).unwrap();
    let (mut sum, mut squares, mut count, mut acceptance) = (vec![0.0; DIM], vec![0.0; DIM * DIM], 0.0, 0.0);
    for iteration in 0..iterations {
        let groups = [Group { metric, chains: 0..CHAINS, step }];
        let moves = walkers
            .advance(&mut *evaluator, &groups, (Integrator::Leapfrog, 5), (1, Purpose::Probe, iteration))
            .unwrap();
        if iteration >= iterations / 4 {
            acceptance += moves.acceptance.iter().sum::<f64>();
            for z in walkers.z.chunks_exact(DIM) {
                count += 1.0;
                for i in 0..DIM {
                    sum[i] += z[i];
                    (0..DIM).for_each(|j| squares[i * DIM + j] += z[i] * z[j]);
                }
            }
        }
    }
    let mean: Vec<f64> = sum.iter().map(|sum| sum / count).collect();
    let covariance = (0..DIM * DIM).map(|at| squares[at] / count - mean[at / DIM] * mean[at % DIM]).collect();
    (mean, covariance, acceptance / count)
}

#[test]
fn moments_of_a_gaussian_are_right_in_any_metric() {
    let (target, exact) = target();
    let metrics = [
        (Metric::Diag(vec![1.0, 0.5, 0.2]), 0.25),
        (Metric::of(&target.components()[0]), 0.9),
        // A metric that is wrong by far makes chains slow, not wrong.
        (Metric::dense(vec![2.0, -0.5, 0.0, -0.5, 2.0, 0.1, 0.0, 0.1, 0.3], DIM), 0.15),
    ];
    for (metric, step) in metrics {
        let (mean, covariance, acceptance) = moments(&metric, step, 800);
        // 200 chains of 600 iterations; autocorrelation leaves at least 6,000 effective draws: errors of 0.013 sd and 2%.
        for i in 0..DIM {
            let sd = exact[i * (DIM + 1)].sqrt();
            assert!((mean[i] - target.mean()[i]).abs() < 0.065 * sd, "{mean:?}");
            for j in 0..DIM {
                let scale = sd * exact[j * (DIM + 1)].sqrt();
                assert!((covariance[i * DIM + j] - exact[i * DIM + j]).abs() < 0.09 * scale, "{covariance:?}");
            }
        }
        assert!((0.5..1.0).contains(&acceptance), "{acceptance}");
    }
}

#[test]
fn momenta_have_the_inverse_of_the_metric_as_covariance() {
    let metric = Metric::of(&target().0.components()[0]);
    let mut momenta = vec![0.0; 20_000 * DIM];
    Noise::new(3, Purpose::Check, 0, 0, 0).normals(&mut momenta);
    let energy: Vec<f64> = momenta.chunks_exact(DIM).map(|p| p.iter().map(|p| p * p).sum()).collect();
    metric.momenta(&mut momenta, DIM);
    let mut velocities = vec![0.0; momenta.len()];
    metric.velocities(&mut velocities, &momenta, DIM);
    for ((p, v), energy) in momenta.chunks_exact(DIM).zip(velocities.chunks_exact(DIM)).zip(energy) {
        let product: f64 = p.iter().zip(v).map(|(p, v)| p * v).sum();
        assert!((product - energy).abs() < 1e-9 * energy.max(1.0));
    }
}

/// Neal's funnel: the first coordinate is the log of the variance of the others.
pub(super) fn funnel(dim: usize, sd: f64) -> ClosureTarget<'static> {
    let density = move |z: &[f64], grad: Option<&mut [f64]>| {
        let (precision, rest) = ((-z[0]).exp(), dim as f64 - 1.0);
        let squares: f64 = z[1..].iter().map(|x| x * x).sum();
        if let Some(grad) = grad {
            grad[0] = -z[0] / (sd * sd) + 0.5 * (squares * precision - rest);
            grad[1..].iter_mut().zip(&z[1..]).for_each(|(g, z)| *g = -z * precision);
        }
        -0.5 * (z[0] / sd).powi(2) - 0.5 * (squares * precision + rest * z[0])
    };
    ClosureTarget::new(dim, density).unwrap()
}

#[test]
fn funnels_are_walked_in_coordinates_of_their_own() {
    for (seed, dim, sd) in [(1, 20, 2.0), (2, 20, 2.0), (3, 20, 2.0), (6, 5, 1.0)] {
        let target = funnel(dim, sd);
        let pool = ScratchPool::new(1);
        let mut evaluator = of_target(&target, &pool, Limits::default());
        let mixture = Mixture::single(Gaussian::isotropic(vec![0.0; dim], 1.0));
        let plan = Plan { target: &target, mixture: &mixture, seed, most: 400_000, earlier: &Earlier::default() };
        let found = run(&plan, &mut *evaluator, &mut |_, _, _| true, &mut None).unwrap();
        let mut first: Vec<f64> = found.draws.iter().step_by(dim).copied().collect();
        first.sort_by(f64::total_cmp);
        let at = |p: f64| first[(p * first.len() as f64) as usize] / sd;
        assert_eq!(found.certificate.reasons, [] as [String; 0], "{dim} {sd}");
        // Certified to 5% of the distance between the outer quantiles, 3.29 standard deviations.
        for (p, exact) in [(0.05, -1.645), (0.25, -0.674), (0.5, 0.0), (0.75, 0.674), (0.95, 1.645)] {
            assert!((at(p) - exact).abs() < 0.165, "{dim} {sd}: quantile {p} is {}", at(p));
        }
    }
}

#[test]
fn one_direction_in_which_a_metric_is_far_too_wide_is_corrected() {
    const D: usize = 60;
    // Unit variances but for one direction, along (1, 1, 0, ...), of variance 0.002.
    let mut draws = vec![0.0; 20 * 64 * D];
    Noise::new(11, Purpose::Check, 0, 0, 0).normals(&mut draws);
    for z in draws.chunks_exact_mut(D) {
        let along = 0.5 * (z[0] + z[1]);
        let less = (1.0 - 0.002_f64.sqrt()) * along;
        z[0] -= less;
        z[1] -= less;
    }
    let full = (0..D * D).map(|at| f64::from(u8::from(at % (D + 1) == 0))).collect();
    let (found, changed) = Metric::dense(full, D).adapted(&draws, 64, D);
    let Metric::Dense { covariance, .. } = found else { panic!("a diagonal metric") };
    let along = 0.5 * (covariance[0] + covariance[D + 1]) + covariance[1];
    assert!(changed && along < 0.02, "{changed} {along}");
}
