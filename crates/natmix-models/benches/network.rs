//! Seconds an epoch of 784-400-400-10 on 60,000 rows, batch 128, one draw, against the floor of its matrix products.
//!
//! `cargo bench -p natmix-models --bench network [-- STEPS]`: data are random, times do not depend on them. The floor counts 8 operations
//! a row and weight at the rate that the same products reach here, alone, on all threads.

use natmix::matrix::{Transpose, product, product_bt};
use natmix_models::mlp::train::{TrainConfig, Trainer};
use natmix_models::mlp::{Activation, Examples, Likelihood, Network};
use std::time::Instant;

const ROWS: usize = 60_000;
const BATCH: usize = 128;

fn main() {
    let steps: u64 = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(469);
    let network = Network::new(784, &[400, 400], Activation::Relu, Likelihood::Categorical { classes: 10 }).unwrap();
    let mut bits = 1_u32;
    let mut number = || {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (bits >> 8) as f32 / 16_777_216.0
    };
    // Fewer rows than an epoch has, visited more often: the same steps, less memory.
    let rows = 6_000;
    let x: Vec<f32> = (0..rows * 784).map(|_| number()).collect();
    let y = (0..rows).map(|_| (10.0 * number()).floor()).collect();
    let data = Examples::new(x, 784, y).unwrap();
    println!("threads {}, {steps} steps timed, an epoch is {}", rayon::current_num_threads(), ROWS.div_ceil(BATCH));
    for components in [1, 5] {
        let rate = product_rate(&network);
        let floor = 8.0 * (ROWS * network.weights() * components) as f64 / rate;
        let config = TrainConfig { components, batch: BATCH, ..TrainConfig::for_data(&network, rows) };
        let mut trainer = Trainer::new(&network, &data, config).unwrap();
        let mut run = |steps: u64| {
            for _ in 0..steps {
                trainer.step().unwrap();
            }
        };
        run(5);
        let clock = Instant::now();
        run(steps);
        let epoch = clock.elapsed().as_secs_f64() / steps as f64 * ROWS.div_ceil(BATCH) as f64;
        println!(
            "K = {components}: {epoch:.2} s an epoch; floor {floor:.2} s at {:.0} GFLOP/s; fraction {:.2}",
            rate / 1e9,
            floor / epoch
        );
    }
}

/// Operations a second of the products of a step, on all threads at once, each with its own data.
fn product_rate(network: &Network) -> f64 {
    let threads = rayon::current_num_threads();
    let work = |repeats: usize| {
        rayon::broadcast(|_| {
            for layer in network.layers() {
                let (m, n) = (layer.inputs, layer.outputs);
                let (a, d) = (vec![0.5_f32; BATCH * m], vec![0.5_f32; BATCH * n]);
                let (mut w, mut z, mut back) = (vec![0.5_f32; m * n], vec![0.0; BATCH * n], vec![0.0; BATCH * m]);
                for _ in 0..repeats {
                    product(&mut z, false, 1.0, &a, Transpose::No, &w, (BATCH, m, n));
                    product_bt(&mut back, false, 1.0, &d, &w, (BATCH, n, m));
                    product(&mut w, false, 1e-3, &a, Transpose::Yes, &d, (m, BATCH, n));
                    product(&mut w, false, 1e-3, &a, Transpose::Yes, &d, (m, BATCH, n));
                }
            }
        });
    };
    let weights: usize = network.layers().iter().map(|layer| layer.inputs * layer.outputs).sum();
    work(5);
    let clock = Instant::now();
    work(60);
    (8 * BATCH * weights * 60 * threads) as f64 / clock.elapsed().as_secs_f64()
}
