//! An epoch of 784-400-400-10 on 60,000 rows, batch 128, one draw, compared with the time of its matrix products alone.
//!
//! `cargo bench -p natmix-nets --bench network [-- STEPS]`: data are random, times do not depend on them. The floor is the time of 8
//! operations per row and weight at the rate that the same products reach alone, on all threads. Floor and steps are measured
//! alternately, because other programs and the clock of the processor change the rate within seconds. Wall time is the median
//! over turns; CPU time of the process, which is meaningful on a shared machine too, is the sum. The benchmark fails if
//! an epoch takes more than floor / 0.6 by CPU time.

use natmix::matrix::{Transpose, product, product_bt};
use natmix_nets::train::{TrainConfig, Trainer, TrainingWork, with_threads};
use natmix_nets::{Activation, Examples, Network, NetworkLikelihood};
use std::process::ExitCode;
use std::time::Instant;

const ROWS: usize = 60_000;
const BATCH: usize = 128;
const TURNS: usize = 9;
/// Smallest acceptable ratio of the floor to an epoch.
const LEAST: f64 = 0.6;

fn main() -> ExitCode {
    // In one thread pool from the beginning, as on the command line: handing over each step to another thread costs more.
    with_threads(rayon::current_num_threads(), run).unwrap()
}

fn run() -> ExitCode {
    let steps: usize = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(450);
    let network =
        Network::new(784, &[400, 400], Activation::Relu, NetworkLikelihood::Categorical { classes: 10 }).unwrap();
    let mut bits = 1_u32;
    let mut number = || {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (bits >> 8) as f32 / 16_777_216.0
    };
    // Fewer rows, visited more often: the same steps with less memory.
    let rows = 6_000;
    let x: Vec<f32> = (0..rows * 784).map(|_| number()).collect();
    let y = (0..rows).map(|_| (10.0 * number()).floor()).collect();
    let data = Examples::new(x, 784, y).unwrap();
    println!("{network}, batch {BATCH}; threads {}; {TURNS} turns", rayon::current_num_threads());
    let enough = [1, 5].map(|components| {
        let config = TrainConfig { components, batch: BATCH, ..TrainConfig::for_data(&network, rows) };
        let trainer = Trainer::new(&network, &data, config).unwrap();
        measure(trainer, &network, components, (steps / (TURNS * components)).max(1))
    });
    if enough == [true, true] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the time of an epoch and its parts; returns whether it is within the bound.
fn measure(mut trainer: Trainer<'_>, network: &Network, components: usize, steps: usize) -> bool {
    let step = |trainer: &mut Trainer<'_>, steps: usize| {
        for _ in 0..steps {
            trainer.step().unwrap();
        }
    };
    // As many products as the steps need, over all threads.
    let threads = rayon::current_num_threads();
    let repeats = (steps * components).div_ceil(threads);
    let share = (steps * components) as f64 / (repeats * threads) as f64;
    step(&mut trainer, 2);
    products(network, 2);
    let before = TrainingWork::ALL.map(|(kind, _)| trainer.seconds(kind));
    let (mut floor, mut epoch) = (Times::default(), Times::default());
    for _ in 0..TURNS {
        floor.add(|| products(network, repeats));
        epoch.add(|| step(&mut trainer, steps));
    }
    let steps_per_epoch = ROWS as f64 / BATCH as f64;
    let scale = steps_per_epoch / steps as f64;
    let (floor_wall, epoch_wall) = (floor.median() * share * scale, epoch.median() * scale);
    let operations = |l: usize| if l == 0 { 6 } else { 8 };
    let weights = |each: &dyn Fn(usize) -> usize| -> usize {
        network.layers().iter().enumerate().map(|(l, layer)| each(l) * layer.inputs * layer.outputs).sum()
    };
    let rate = (weights(&|_| 8) * ROWS * components) as f64 / floor_wall / 1e9;
    println!("\nK = {components}");
    println!(
        "  wall: {epoch_wall:.2} s per epoch, floor {floor_wall:.2} s at {rate:.0} GFLOP/s: fraction {:.2}",
        floor_wall / epoch_wall
    );
    let fraction = match (floor.cpu, epoch.cpu) {
        (Some(floor), Some(epoch)) => {
            let scale = scale / TURNS as f64;
            let (floor, epoch) = (floor * share * scale, epoch * scale);
            println!("  CPU:  {epoch:.2} s per epoch, floor {floor:.2} s: fraction {:.2}", floor / epoch);
            floor / epoch
        }
        _ => floor_wall / epoch_wall,
    };
    println!(
        "  The first layer has no backward product, so {:.2} of the floor's products are needed; they take {:.2} of an epoch.",
        weights(&operations) as f64 / weights(&|_| 8) as f64,
        fraction * weights(&operations) as f64 / weights(&|_| 8) as f64
    );
    let total = epoch.wall.iter().sum::<f64>() * threads as f64;
    let mut rest = 1.0;
    println!("  where the time of all threads goes:");
    for ((kind, name), before) in TrainingWork::ALL.into_iter().zip(before) {
        let part = (trainer.seconds(kind) - before) / total;
        rest -= part;
        println!("    {name:24} {:5.1} %", 100.0 * part);
    }
    println!("    {:24} {:5.1} %", "waiting, everything else", 100.0 * rest);
    fraction >= LEAST
}

/// The products of a step of one component, on every thread with its own data.
fn products(network: &Network, repeats: usize) {
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
}

/// Wall seconds of every turn, and total CPU seconds where the system provides them.
#[derive(Default)]
struct Times {
    wall: Vec<f64>,
    cpu: Option<f64>,
}

impl Times {
    fn add(&mut self, work: impl FnOnce()) {
        let (clock, before) = (Instant::now(), cpu_seconds());
        work();
        self.wall.push(clock.elapsed().as_secs_f64());
        let cpu = cpu_seconds().zip(before).map(|(after, before)| after - before);
        self.cpu = cpu.map(|cpu| cpu + self.cpu.unwrap_or(0.0));
    }

    fn median(&self) -> f64 {
        let mut sorted = self.wall.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

/// CPU seconds of this process, all threads, with a resolution of 0.01; none where `/proc` does not exist.
fn cpu_seconds() -> Option<f64> {
    let line = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields are counted from the end of the program's name, which may contain anything.
    let fields: Vec<&str> = line[line.rfind(')')? + 1..].split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
