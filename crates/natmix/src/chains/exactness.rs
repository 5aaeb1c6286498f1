//! Trajectories leave a density as it is: walkers that start as exact draws of it are exact draws of it after they have moved.
//!
//! The walkers are independent of each other, so that the Kolmogorov-Smirnov distance of each of their coordinates from the exact
//! distribution has a known law. Broken rules that a sampler might have are shown to be seen with the same statistic.

use super::Metric;
use super::coordinates::Coordinates;
use super::statistics::normal_tail;
use super::tails::Tails;
use super::walkers::{Group, Integrator, Walkers};
use crate::evaluate::{Limits, of_target};
use crate::linalg::diagonal;
use crate::noise::{Noise, Purpose};
use crate::target::{ClosureTarget, Target};
use crate::workspace::ScratchPool;
use std::sync::atomic::{AtomicU64, Ordering};

const DIM: usize = 5;
/// Walkers: the largest error of a probability that passes is 2.75 / sqrt(20,000) = 0.019.
const COUNT: usize = 20_000;
/// Distance, times the root of the count, that is as unlikely as five standard errors: 2 exp(-2 x^2) = 5.4e-7.
const LIMIT: f64 = 2.75;
const ITERATIONS: u64 = 3;
const STEPS: usize = 4;

/// A density that can be drawn from exactly.
struct Known {
    name: &'static str,
    /// Log density, and its gradient if wanted.
    density: fn(&[f64], Option<&mut [f64]>) -> f64,
    /// Turns standard normals into a draw.
    draw: fn(&mut [f64], &mut Noise),
    /// Turns a draw into independent uniform numbers.
    uniform: fn(&[f64]) -> [f64; DIM],
    /// Length of the steps: long enough for trajectories to be rejected now and then.
    step: f64,
}

/// A funnel of sd 1, a banana, and heavy tails.
const KNOWN: [Known; 3] = [
    Known {
        name: "funnel",
        density: |z, grad| {
            let (precision, squares) = ((-z[0]).exp(), z[1..].iter().map(|x| x * x).sum::<f64>());
            if let Some(grad) = grad {
                grad[0] = -z[0] + 0.5 * (squares * precision - (DIM - 1) as f64);
                grad[1..].iter_mut().zip(&z[1..]).for_each(|(g, z)| *g = -z * precision);
            }
            -0.5 * (z[0] * z[0] + squares * precision + (DIM - 1) as f64 * z[0])
        },
        draw: |z, _| {
            let scale = (0.5 * z[0]).exp();
            z[1..].iter_mut().for_each(|z| *z *= scale);
        },
        uniform: |z| std::array::from_fn(|i| normal_cdf(if i == 0 { z[0] } else { z[i] * (-0.5 * z[0]).exp() })),
        step: 0.55,
    },
    Known {
        name: "banana",
        density: |z, grad| {
            // The second coordinate follows the square of the first; the others are standard normal.
            let off = z[1] - z[0] * z[0];
            if let Some(grad) = grad {
                grad.iter_mut().zip(z).for_each(|(g, z)| *g = -z);
                (grad[0], grad[1]) = (-z[0] + 8.0 * off * z[0], -4.0 * off);
            }
            -0.5 * (z.iter().map(|x| x * x).sum::<f64>() - z[1] * z[1] + 4.0 * off * off)
        },
        draw: |z, _| z[1] = z[0] * z[0] + 0.5 * z[1],
        uniform: |z| std::array::from_fn(|i| normal_cdf(if i == 1 { 2.0 * (z[1] - z[0] * z[0]) } else { z[i] })),
        step: 0.35,
    },
    Known {
        name: "t with 5 degrees of freedom",
        density: |z, grad| {
            if let Some(grad) = grad {
                grad.iter_mut().zip(z).for_each(|(g, z)| *g = -6.0 * z / (5.0 + z * z));
            }
            z.iter().map(|z| -3.0 * (z * z / 5.0).ln_1p()).sum()
        },
        draw: |z, noise| z.iter_mut().for_each(|z| *z *= 5.0_f64.sqrt() / noise.chi(5)),
        uniform: |z| {
            std::array::from_fn(|i| {
                let angle = (z[i] / 5.0_f64.sqrt()).atan();
                let (sin, cos) = angle.sin_cos();
                0.5 + (angle + sin * cos * (1.0 + 2.0 / 3.0 * cos * cos)) / std::f64::consts::PI
            })
        },
        step: 1.0,
    },
];

fn normal_cdf(z: f64) -> f64 {
    if z < 0.0 { normal_tail(-z) } else { 1.0 - normal_tail(z) }
}

impl Known {
    fn target(&self) -> ClosureTarget<'_> {
        ClosureTarget::new(DIM, self.density).unwrap()
    }

    fn draws(&self, count: usize, seed: u64) -> Vec<f64> {
        let mut noise = Noise::new(seed, Purpose::Check, 0, 0, 0);
        let mut draws = vec![0.0; count * DIM];
        noise.normals(&mut draws);
        draws.chunks_exact_mut(DIM).for_each(|z| (self.draw)(z, &mut noise));
        draws
    }

    /// The largest distance from the exact distribution, times the root of the count, over coordinates and their distance from
    /// the middle.
    fn distance(&self, points: &[f64]) -> f64 {
        let uniforms: Vec<[f64; DIM]> = points.chunks_exact(DIM).map(self.uniform).collect();
        let coordinates = (0..DIM).map(|i| uniforms.iter().map(|u| u[i]).collect());
        coordinates.chain([uniforms.iter().map(from_the_middle).collect()]).map(kolmogorov_smirnov).fold(0.0, f64::max)
    }
}

/// How far out a point is, as a uniform number: `-2 sum log(1 - |2 u - 1|)` has a chi-square law with 2 DIM degrees of freedom.
fn from_the_middle(uniforms: &[f64; DIM]) -> f64 {
    let half: f64 = uniforms.iter().map(|u| -(2.0 * u.min(1.0 - u)).max(1e-300).ln()).sum();
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 1..=DIM {
        sum += term;
        term *= half / k as f64;
    }
    1.0 - (-half).exp() * sum
}

fn kolmogorov_smirnov(mut uniforms: Vec<f64>) -> f64 {
    uniforms.sort_by(f64::total_cmp);
    let count = uniforms.len() as f64;
    let apart = |(i, u): (usize, &f64)| (u - i as f64 / count).max((i + 1) as f64 / count - u);
    uniforms.iter().enumerate().map(apart).fold(0.0, f64::max) * count.sqrt()
}

/// A way to move: with metric, in the target's own coordinates or in others.
struct Way {
    name: &'static str,
    metric: Metric,
    coordinates: Option<Coordinates>,
    integrator: Integrator,
}

fn ways() -> [Way; 4] {
    let near = |i: usize, j: usize| 0.4_f64.powi(i.abs_diff(j) as i32);
    let correlated = (0..DIM * DIM).map(|at| near(at / DIM, at % DIM)).collect();
    let dense = Metric::dense(correlated, DIM);
    assert!(matches!(dense, Metric::Dense { .. }));
    // Coordinates that suit one density make the others slower, not wrong.
    let scales = Coordinates::of(&KNOWN[0].draws(4_000, 9), DIM, 4_000.0, None);
    assert!(scales.as_ref().is_some_and(|found| found.scales().is_some()));
    let tails = Tails::of_numbers(&[0.0, 0.2, 0.8, 0.5, 0.3, 1.0, -0.1, 1.0, 0.0, 0.7], DIM);
    let tails = Coordinates::from_parts(DIM, tails.unwrap(), None);
    let round = || Metric::dense(diagonal([1.0; DIM], DIM), DIM);
    let (leapfrog, two_stage) = (Integrator::Leapfrog, Integrator::TwoStage);
    let diagonal = Metric::Diag(vec![0.8, 1.0, 1.2, 0.9, 1.1]);
    [
        Way { name: "diagonal", metric: diagonal, coordinates: None, integrator: leapfrog },
        Way { name: "dense", metric: dense, coordinates: None, integrator: two_stage },
        Way { name: "tails", metric: round(), coordinates: tails, integrator: two_stage },
        Way { name: "scales", metric: round(), coordinates: scales, integrator: leapfrog },
    ]
}

/// The distance after exact draws have moved by the rules of `target`, and the share of accepted trajectories.
fn distance_after(known: &Known, way: &Way, target: &dyn Target) -> (f64, f64) {
    let pool = ScratchPool::new(1);
    let mut evaluator = of_target(target, &pool, Limits::default());
    let walkers = Walkers::start(&mut *evaluator, known.draws(COUNT, 3)).unwrap();
    let mut walkers = walkers.in_coordinates(&mut *evaluator, way.coordinates.clone()).unwrap();
    let mut acceptance = 0.0;
    for iteration in 0..ITERATIONS {
        let groups = [Group { metric: &way.metric, chains: 0..COUNT, step: known.step }];
        let moves =
            walkers.advance(&mut *evaluator, &groups, (way.integrator, STEPS), (4, Purpose::Check, iteration)).unwrap();
        acceptance += moves.acceptance.iter().sum::<f64>() / (ITERATIONS * COUNT as u64) as f64;
    }
    (known.distance(&walkers.points()), acceptance)
}

#[test]
fn exact_draws_stay_exact_draws() {
    for known in &KNOWN {
        assert!(known.distance(&known.draws(COUNT, 3)) < LIMIT, "{}: before they move", known.name);
        for way in ways() {
            let (distance, acceptance) = distance_after(known, &way, &known.target());
            println!("{}, {}: distance {distance:.2}, accepted {acceptance:.3}", known.name, way.name);
            assert!(distance < LIMIT, "{}, {}: {distance}", known.name, way.name);
            assert!((0.3..0.97).contains(&acceptance), "{}, {}: {acceptance}", known.name, way.name);
        }
    }
}

#[test]
fn chains_that_never_reject_are_seen() {
    for known in &KNOWN {
        for way in ways() {
            // The log density rises from one evaluation to the next by so much that every trajectory is
            // accepted, unless it ends where nothing can be evaluated.
            let seen = AtomicU64::new(0);
            let rising = ClosureTarget::new(DIM, |z: &[f64], grad: Option<&mut [f64]>| {
                (known.density)(z, grad);
                1e6 * seen.fetch_add(1, Ordering::Relaxed) as f64
            });
            let (distance, acceptance) = distance_after(known, &way, &rising.unwrap());
            println!("{}, {}: distance {distance:.2}, accepted {acceptance:.3}", known.name, way.name);
            assert!(distance > LIMIT, "{}, {}: {distance}", known.name, way.name);
        }
    }
}

#[test]
fn coordinates_without_their_determinant_are_seen() {
    let [.., tails, scales] = ways();
    for (way, known) in [&tails, &scales].into_iter().flat_map(|way| KNOWN.iter().map(move |known| (way, known))) {
        let coordinates = way.coordinates.as_ref().unwrap();
        // What the chains will add to the log density is taken away from it.
        let without = ClosureTarget::new(DIM, |z: &[f64], grad: Option<&mut [f64]>| {
            let mut y = z.to_vec();
            coordinates.backward(&mut y);
            (known.density)(z, grad) - coordinates.log_det(&y)[0]
        });
        let (distance, _) = distance_after(known, way, &without.unwrap());
        println!("{}, {}, no determinant: distance {distance:.2}", known.name, way.name);
        assert!(distance > LIMIT, "{}, {}: {distance}", known.name, way.name);
    }
}
