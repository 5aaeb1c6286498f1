//! A model of cost: how long a fit takes over 1 to 1,000 workers, from constants that are measured on a few.
//!
//! The engine hands out the points of a batch and waits for all of them before it goes on. Two ways of dividing a batch are
//! simulated: its points in chunks, as executors of Python do, and the rows of the data, as ranks under MPI do.

use anyhow::{Result, bail};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

/// Chunks that are under way per worker, as natmix sends them.
const AHEAD: usize = 2;
/// Batches that are simulated where points differ in their time.
const SAMPLES: u64 = 100;
/// Most workers, and most chunks of a batch: what a simulation can do in a moment.
const MOST_WORKERS: usize = 100_000;
const MOST_CHUNKS: usize = 1_000_000;
/// Share of the workers' time below which more of them do not pay.
const PAYS: f64 = 0.5;

/// What is divided among the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// The points of a batch, in chunks: each worker has the whole function.
    #[default]
    Points,
    /// The rows of the data: each worker evaluates all points on its share.
    Rows,
}

/// Measured constants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScaleOptions {
    /// What is divided.
    pub split: Split,
    /// Seconds that one worker takes for one point.
    pub seconds_per_point: f64,
    /// How much these vary from point to point: standard deviation over mean.
    pub variation: f64,
    /// Points per batch.
    pub points: usize,
    /// Batches of the fit.
    pub batches: u64,
    /// Points per chunk.
    pub chunk: usize,
    /// Seconds from sending a task without work to its answer; between ranks, of one message.
    pub latency: f64,
    /// Seconds that the host is busy with one chunk: packing, sending, unpacking.
    pub dispatch: f64,
    /// Bytes that travel per point, there and back.
    pub bytes_per_point: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Seconds of the engine's own work per batch.
    pub engine_seconds: f64,
    /// Numbers of workers.
    pub workers: Vec<usize>,
}

impl Default for ScaleOptions {
    fn default() -> Self {
        Self {
            split: Split::Points,
            seconds_per_point: 0.05,
            variation: 0.0,
            points: 64,
            batches: 100,
            chunk: 1,
            latency: 1e-3,
            dispatch: 3e-4,
            bytes_per_point: 500.0,
            bandwidth: 1e8,
            engine_seconds: 1e-3,
            workers: vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000],
        }
    }
}

/// The prediction for one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Workers.
    pub workers: usize,
    /// Seconds of the whole fit.
    pub seconds: f64,
    /// Times as fast as with one worker.
    pub speedup: f64,
    /// Share of the workers' time that is used: the speed-up per worker.
    pub efficiency: f64,
    /// The chunk with which the fit takes least, among powers of two.
    pub best_chunk: usize,
    /// Seconds of the whole fit with that chunk.
    pub best_seconds: f64,
}

/// Predictions, and where more workers stop to pay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScaleReport {
    /// The constants.
    pub constants: ScaleOptions,
    /// One for each number of workers.
    pub predictions: Vec<Prediction>,
    /// Most workers that are used for at least half of their time.
    pub pays_up_to: usize,
}

/// Predicts.
pub fn run(options: &ScaleOptions) -> Result<ScaleReport> {
    check(options)?;
    let alone = fit_seconds(options, 1, options.chunk);
    let predict = |workers: usize| {
        let seconds = fit_seconds(options, workers, options.chunk);
        let (best_seconds, best_chunk) = best_chunk(options, workers);
        let speedup = alone / seconds;
        let efficiency = speedup / workers as f64;
        Prediction { workers, seconds, speedup, efficiency, best_chunk, best_seconds }
    };
    let predictions = options.workers.iter().map(|&workers| predict(workers)).collect();
    let pays = |workers: usize| alone / fit_seconds(options, workers, options.chunk) >= PAYS * workers as f64;
    // Doubling until it does not pay, then the place between.
    let (mut low, mut high) = (1, 2);
    while high < MOST_WORKERS && pays(high) {
        (low, high) = (high, 2 * high);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if pays(middle) { low = middle } else { high = middle }
    }
    Ok(ScaleReport { constants: options.clone(), predictions, pays_up_to: low })
}

fn check(options: &ScaleOptions) -> Result<()> {
    let ScaleOptions { seconds_per_point, variation, latency, dispatch, bytes_per_point, engine_seconds, .. } =
        *options;
    let numbers = [
        ("--seconds-per-point", seconds_per_point),
        ("--variation", variation),
        ("--latency", latency),
        ("--dispatch", dispatch),
        ("--bytes-per-point", bytes_per_point),
        ("--engine-seconds", engine_seconds),
    ];
    if let Some((name, value)) = numbers.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
        bail!("{name} must be a number of at least 0, not {value}");
    }
    if seconds_per_point == 0.0 {
        bail!("--seconds-per-point must be positive: without work there is nothing to divide");
    }
    if !(options.bandwidth.is_finite() && options.bandwidth > 0.0) {
        bail!("--bandwidth must be positive, not {}", options.bandwidth);
    }
    for (name, value, most) in [
        ("--points", options.points, MOST_CHUNKS),
        ("--chunk", options.chunk, MOST_CHUNKS),
        ("--batches", usize::try_from(options.batches).unwrap_or(usize::MAX), usize::MAX),
    ] {
        if value == 0 || value > most {
            bail!("{name} must be from 1 to {most}, not {value}");
        }
    }
    match options.workers.iter().find(|workers| !(1..=MOST_WORKERS).contains(*workers)) {
        Some(workers) => bail!("--workers must be from 1 to {MOST_WORKERS}, not {workers}"),
        None => Ok(()),
    }
}

/// The chunk with which a fit takes least.
fn best_chunk(options: &ScaleOptions, workers: usize) -> (f64, usize) {
    let chunks = (0..).map(|power| 1 << power).take_while(|chunk| *chunk < 2 * options.points);
    let seconds = chunks.map(|chunk| (fit_seconds(options, workers, chunk), chunk));
    // Of equal ones the smallest.
    seconds.reduce(|best, other| if other.0 < best.0 { other } else { best }).unwrap_or((f64::INFINITY, 1))
}

/// Seconds of the whole fit.
fn fit_seconds(options: &ScaleOptions, workers: usize, chunk: usize) -> f64 {
    let samples = if options.variation > 0.0 { options.batches.min(SAMPLES) } else { 1 };
    // The same seeds for all numbers of workers: they differ in nothing else.
    let batch = |seed: u64| match options.split {
        Split::Points => chunked(options, workers, chunk, &mut ChaCha8Rng::seed_from_u64(seed)),
        Split::Rows => by_rows(options, workers),
    };
    let mean = (1..=samples).map(batch).sum::<f64>() / samples as f64;
    options.batches as f64 * (mean + options.engine_seconds)
}

/// Seconds of a batch whose points go to the workers in chunks: a host that sends one chunk after the other, and workers that
/// take the next one as soon as they are free.
fn chunked(options: &ScaleOptions, workers: usize, chunk: usize, random: &mut ChaCha8Rng) -> f64 {
    let mut seconds = point_seconds(options, random);
    let (one_way, mut host) = (0.5 * options.latency, 0.0_f64);
    let mut free: BinaryHeap<Reverse<Time>> = (0..workers).map(|_| Reverse(Time(0.0))).collect();
    let mut answers: BinaryHeap<Reverse<Time>> = BinaryHeap::new();
    let mut left = options.points;
    while left > 0 {
        let points = chunk.min(left);
        left -= points;
        if answers.len() == AHEAD * workers
            && let Some(Reverse(Time(first))) = answers.pop()
        {
            host = host.max(first);
        }
        host += options.dispatch + points as f64 * options.bytes_per_point / options.bandwidth;
        let Some(Reverse(Time(idle_since))) = free.pop() else { break };
        let work: f64 = (0..points).map(|_| seconds()).sum();
        let end = idle_since.max(host + one_way) + work;
        free.push(Reverse(Time(end)));
        answers.push(Reverse(Time(end + one_way)));
    }
    answers.into_iter().fold(host, |last, Reverse(Time(answer))| last.max(answer))
}

/// Seconds of a batch where every worker has its share of the rows: equal work, and sums combined along a tree.
fn by_rows(options: &ScaleOptions, workers: usize) -> f64 {
    let points = options.points as f64;
    let steps = f64::from(workers.next_power_of_two().ilog2());
    let message = options.latency + points * options.bytes_per_point / options.bandwidth;
    points * options.seconds_per_point / workers as f64 + steps * message
}

/// A source of the seconds of points: log-normal with the given variation.
fn point_seconds<'a>(options: &ScaleOptions, random: &'a mut ChaCha8Rng) -> Box<dyn FnMut() -> f64 + 'a> {
    let mean = options.seconds_per_point;
    match LogNormal::from_mean_cv(mean, options.variation) {
        Ok(seconds) if options.variation > 0.0 => Box::new(move || seconds.sample(random)),
        _ => Box::new(move || mean),
    }
}

/// A finite time, in order.
#[derive(PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl fmt::Display for ScaleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_points = self.constants.split == Split::Points;
        write!(f, "{:>8} {:>12} {:>9} {:>11}", "workers", "seconds", "speed-up", "efficiency")?;
        writeln!(f, "{}", if by_points { "   best chunk   seconds with it" } else { "" })?;
        for one in &self.predictions {
            let Prediction { workers, seconds, speedup, efficiency, best_chunk, best_seconds } = one;
            write!(f, "{workers:>8} {seconds:>12.2} {speedup:>9.1} {:>10.0}%", 100.0 * efficiency)?;
            if by_points {
                write!(f, " {best_chunk:>12} {best_seconds:>17.2}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\nUp to {} workers are used for at least half of their time.", self.pays_up_to)?;
        if by_points {
            let chunks = self.constants.points.div_ceil(self.constants.chunk);
            let plural = if chunks == 1 { "" } else { "s" };
            writeln!(f, "A batch has {chunks} chunk{plural}: no more workers than that are ever busy.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
