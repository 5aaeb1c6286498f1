//! What chains cost per evaluation beyond the target itself, and how much a second thread helps.
//!
//! `cargo bench -p natmix --bench chains`
//!
//! 64 chains on a density of about a microsecond per point. An iteration is one trajectory of every chain: momenta, steps and
//! acceptance. The whole also has what judging and adaptation cost. Both are time on a processor where the system tells it, so
//! that they repeat on a machine that others share; how much a second thread helps only an idle machine can tell.
//!
//! At most 4 microseconds beside the target with a full metric and 1 with a diagonal one are wanted.

use natmix::evaluate::{Batch, Limits, Part, Request, of_target};
use natmix::family::{CovarianceKind, Gaussian, Mixture};
use natmix::observe::{Finishing, Iteration, Observer};
use natmix::target::ClosureTarget;
use natmix::{Config, Error, Fit, ScratchPool};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

const DIM: usize = 200;
const CHAINS: usize = 64;
/// Fits per case, of which the fastest counts, since the machine may be shared.
const REPEATS: usize = 2;
/// Evaluations of a fit, of which chains may use four times as many.
const BUDGET: u64 = 20_000;
/// Kept iterations between two judgements: those of a round of the chains.
const ROUND: usize = 15;
/// What the density takes at least, in microseconds, and how many times over it is worked out at most to get there.
const NEAR_A_MICROSECOND: f64 = 0.9;
const MOST_TIMES: usize = 10;

/// Independent Student distributions with 10 degrees of freedom; the log density is worked out so many `times` over.
fn density(z: &[f64], grad: Option<&mut [f64]>, times: usize) -> f64 {
    if let Some(grad) = grad {
        grad.iter_mut().zip(z).for_each(|(g, z)| *g = -11.0 * z / (10.0 + z * z));
    }
    let once = |z: &[f64]| -> f64 {
        z.as_chunks().0.iter().map(|[a, b]| -5.5 * ((1.0 + 0.1 * a * a) * (1.0 + 0.1 * b * b)).ln()).sum()
    };
    (0..times).map(|_| once(black_box(z))).sum::<f64>() / times as f64
}

fn target(times: usize) -> ClosureTarget<'static> {
    ClosureTarget::new(DIM, move |z: &[f64], grad: Option<&mut [f64]>| density(z, grad, times)).expect("a target")
}

/// Seconds that this thread has been on a processor; by the clock where the system does not tell.
fn on_processor(start: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    told.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| 1e-9 * nanoseconds)
}

/// What was seen after an iteration of the chains: seconds on a processor and by the clock, evaluations, iterations kept.
struct Seen(f64, f64, u64, u64);

struct Clock(Instant, Vec<Seen>);

impl Observer for Clock {
    fn finishing(&mut self, finishing: &Finishing) -> ControlFlow<()> {
        let seconds = self.0.elapsed().as_secs_f64();
        self.1.push(Seen(on_processor(self.0), seconds, finishing.evals, finishing.chains.kept));
        ControlFlow::Continue(())
    }
    fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        Ok(ControlFlow::Continue(()))
    }
}

/// Microseconds per evaluation: on a processor in iterations and over all, by the clock in the fastest iteration.
fn chains(times: usize, covariance: CovarianceKind, threads: usize) -> [f64; 3] {
    let target = target(times);
    let start = covariance.with_sd(&[1.2; DIM]).expect("a covariance");
    let start = Mixture::single(Gaussian::new(vec![0.0; DIM], start));
    let mut clock = Clock(Instant::now(), Vec::new());
    let config = Config { threads, max_evals: Some(BUDGET), diagnostic_draws: 100, check: false, ..Config::default() };
    Fit::new(&target, config).start(start).observe(&mut clock).finish().expect("chains");
    let seen = &clock.1;
    // Between the first and the last iteration of a round nothing is judged.
    let (mut seconds, mut evals) = (0.0, 0);
    for round in seen.windows(ROUND).filter(|round| round[0].3 % ROUND as u64 == 1) {
        seconds += round[ROUND - 1].0 - round[0].0;
        evals += round[ROUND - 1].2 - round[0].2;
    }
    let (first, last) = (&seen[0], &seen[seen.len() - 1]);
    let whole = (last.0 - first.0) / (last.2 - first.2) as f64;
    let fastest = seen.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].2 - pair[0].2) as f64);
    [seconds / evals as f64, whole, fastest.fold(f64::INFINITY, f64::min)].map(|seconds| 1e6 * seconds)
}

/// Microseconds per evaluation of the target alone, in the batches of the chains.
fn target_alone(times: usize) -> f64 {
    let target = target(times);
    let pool = ScratchPool::new(1);
    let mut evaluator = of_target(&target, &pool, Limits::default());
    let request = Request { gradient: true, ..Request::default() };
    let points: Vec<f64> = (0..CHAINS * DIM).map(|i| (i as f64 * 1.618).sin()).collect();
    let mut batch = Batch { parts: vec![Part::new(&points, DIM, 16, &request)], request };
    let mut best = f64::INFINITY;
    for _ in 0..2_000 {
        let clock = Instant::now();
        let ticket = evaluator.submit(batch);
        batch = evaluator.collect(ticket).expect("values");
        best = best.min(1e6 * clock.elapsed().as_secs_f64() / CHAINS as f64);
    }
    best
}

fn main() {
    let alone_with = |times| natmix::evaluate::with_threads(1, || target_alone(times)).expect("one thread");
    // As often as it takes on this machine to come near a microsecond.
    let once = alone_with(1);
    let times = (1..).find(|&times| times as f64 * once >= NEAR_A_MICROSECOND || times == MOST_TIMES).unwrap_or(1);
    let alone = alone_with(times);
    println!("{CHAINS} chains, d = {DIM}; the target alone: {alone:.2} us per evaluation");
    println!(
        "{:<8} {:>14} {:>15} {:>10} {:>20}",
        "metric", "iteration, us", "beside target", "whole, us", "two threads, times"
    );
    for covariance in [CovarianceKind::Full, CovarianceKind::Diag] {
        let mut best = [f64::INFINITY; 4];
        for _ in 0..REPEATS {
            let ([iteration, whole, one], [.., two]) = (chains(times, covariance, 1), chains(times, covariance, 2));
            best.iter_mut().zip([iteration, whole, one, two]).for_each(|(best, found)| *best = best.min(found));
        }
        let [iteration, whole, one, two] = best;
        let (beside, times) = (iteration - alone, one / two);
        println!("{:<8} {iteration:>14.2} {beside:>15.2} {whole:>10.2} {times:>20.2}", covariance.name());
    }
}
