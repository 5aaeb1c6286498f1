//! Mass that a mixture lacks, estimated with draws from a heavy-tailed version of it.
//!
//! Each draw is one of a component, but along one of its whitened axes, chosen at random, it follows a wide Student-t
//! distribution. Unlike an elliptical one this looks far out in every dimension while its importance weights stay bounded where
//! the mixture is right.

use super::evaluate;
use crate::answer::diagnose::Estimate;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::{Mixture, MixtureBlock, log_sum_exp};
use crate::noise::{Noise, Purpose};
use crate::target::Points;
use crate::workspace::Scratch;

/// Draws.
const DRAWS: usize = 200;
/// Degrees of freedom and scale of the wide axis.
const DEGREES: usize = 2;
const SCALE: f64 = 3.0;
/// Ratio of the densities, in nats, from which on the mixture lacks mass: ten.
const LACKING: f64 = 2.3;
/// Points whose densities are computed at a time.
const BLOCK: usize = 64;

/// The share of the mass that lies where the mixture has less than a tenth of the density.
pub(super) fn estimate(evaluator: &mut dyn Evaluator, q: &Mixture, seed: u64) -> Result<Estimate, Error> {
    let d = q.dim();
    let points = draw(q, seed);
    let (log_p, _) = evaluate(evaluator, &points, false)?;
    let (log_q, log_wide) = densities(q, &points);
    let log_weights: Vec<f64> = log_p.iter().zip(&log_wide).map(|(p, wide)| p - wide).collect();
    let usable: Vec<usize> = (0..points.len() / d).filter(|&i| log_weights[i].is_finite()).collect();
    let total = log_sum_exp(&usable.iter().map(|&i| log_weights[i]).collect::<Vec<_>>());
    let log_evidence = total - (points.len() as f64 / d as f64).ln();
    let lacking = |i: usize| log_p[i] - log_q[i] - log_evidence > LACKING;
    let shares = || usable.iter().map(|&i| ((log_weights[i] - total).exp(), lacking(i)));
    let mean: f64 = shares().filter(|(_, lacking)| *lacking).map(|(share, _)| share).sum();
    let of = |(share, lacking): (f64, bool)| (share * (f64::from(u8::from(lacking)) - mean)).powi(2);
    // One effective draw more or less: without it the error of finding nothing would be zero.
    let one: f64 = shares().map(|(share, _)| share * share).sum();
    let se = (shares().map(of).sum::<f64>() + one * one).sqrt();
    Ok(if usable.is_empty() { Estimate { mean: f64::NAN, se: f64::NAN } } else { Estimate { mean, se } })
}

fn draw(q: &Mixture, seed: u64) -> Vec<f64> {
    let (d, weights) = (q.dim(), q.weights());
    let mut noise = Noise::new(seed, Purpose::Tails, 1, 0, 0);
    let mut points = vec![0.0; DRAWS * d];
    for z in points.chunks_exact_mut(d) {
        let mut left = noise.uniform();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        noise.normals(z);
        z[noise.index(d)] *= SCALE * (DEGREES as f64).sqrt() / noise.chi(DEGREES);
        q.components()[found.unwrap_or(0)].place(z);
    }
    points
}

/// Log densities of the mixture and of its heavy-tailed version.
fn densities(q: &Mixture, points: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (d, mut scratch) = (q.dim(), Scratch::default());
    // Density of the wide axis with two degrees of freedom over that of a standard normal.
    let excess = |y: f64| {
        let t = y / SCALE;
        -(2.0 * 2f64.sqrt() * SCALE).ln() - 1.5 * (0.5 * t * t).ln_1p() + 0.5 * (y * y + std::f64::consts::TAU.ln())
    };
    let (mut log_q, mut log_wide) = (Vec::new(), Vec::new());
    for points in points.chunks(BLOCK * d) {
        let block = MixtureBlock::new(q, Points::new(points, d), false, &mut scratch);
        for i in 0..points.len() / d {
            log_q.push(block.log_q[i]);
            let terms: Vec<f64> = (0..q.len())
                .map(|k| {
                    let axes: Vec<f64> =
                        (0..d).map(|axis| excess(block.y[(k * d + axis) * block.stride + i])).collect();
                    q.log_weights()[k] + block.log_n[k * block.stride + i] + log_sum_exp(&axes) - (d as f64).ln()
                })
                .collect();
            log_wide.push(log_sum_exp(&terms));
        }
        block.release(&mut scratch);
    }
    (log_q, log_wide)
}
