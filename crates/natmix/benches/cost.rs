//! What an iteration of the automatic mixture costs, over components and dimensions, on one thread.
//!
//! `cargo bench -p natmix --bench cost`
//!
//! The model is `K x points x d^2`: every component's density at every point. The last column is the time over that; it
//! falls where fixed costs fade, and must not rise. The second table has whole runs with growing budgets.

use natmix::family::{Covariances, Mixture};
use natmix::observe::{Iteration, Observer, OnIteration};
use natmix::{Config, Error, Fit};
use natmix_models::densities::StudentMixture;
use std::ops::ControlFlow;
use std::time::Instant;

/// Approximate seconds per case.
const ENOUGH: f64 = 1.0;
/// Iterations of a case: the first warms up.
const MOST: u64 = 40;

/// One heavy-tailed mode: nothing is exact, and no component has to leave.
fn target(d: usize) -> StudentMixture {
    StudentMixture::new(5.0, &[1.0], &[vec![0.0; d]], &[identity(d, 1.0)]).expect("a target")
}

/// Components side by side; their means follow a fixed sequence.
fn start(d: usize, count: usize) -> Mixture {
    let place = |k: usize, i: usize| ((k * 7919 + i * 104_729) % 1000) as f64 / 500.0 - 1.0;
    let means: Vec<Vec<f64>> = (0..count).map(|k| (0..d).map(|i| place(k, i)).collect()).collect();
    Mixture::from_moments(&vec![1.0; count], &means, Covariances::Full(&vec![identity(d, 0.6); count]))
        .expect("a mixture")
}

fn identity(d: usize, scale: f64) -> Vec<Vec<f64>> {
    (0..d).map(|i| (0..d).map(|j| if i == j { scale } else { 0.0 }).collect()).collect()
}

fn config(components: usize, max_evals: u64) -> Config {
    Config {
        max_evals: Some(max_evals),
        threads: 1,
        tolerance: 1e-12,
        diagnostic_draws: 0,
        ..Config::default().with_components(components)
    }
}

fn main() {
    println!("One iteration of the automatic mixture, one thread");
    println!("{:>4} {:>4} {:>8} {:>12} {:>14}", "d", "K", "points", "ms", "ns/(K n d^2)");
    for d in [2, 5, 10, 20, 50, 100, 200] {
        let target = target(d);
        let mut least = f64::INFINITY;
        for count in [1, 2, 4, 8, 16, 32, 64] {
            let (mut seen, mut points, mut spent) = (0_u64, 0_u64, 0.0);
            let mut last = (0, Instant::now());
            let mut watch = OnIteration(|it: &Iteration<'_>| {
                let now = Instant::now();
                if it.iteration > 1 {
                    points += it.evals - last.0;
                    spent += (now - last.1).as_secs_f64();
                    seen += 1;
                }
                last = (it.evals, now);
            });
            let mut stop = Enough(Instant::now());
            let fit = Fit::new(&target, config(count, u64::MAX / 4)).start(start(d, count));
            fit.observe(&mut watch).observe(&mut stop).run().expect("a fit");
            let (points, spent) = (points as f64 / seen as f64, spent / seen as f64);
            let each = 1e9 * spent / (count as f64 * points * (d * d) as f64);
            let grown = if each > 1.3 * least { "  above the model" } else { "" };
            least = least.min(each);
            println!("{d:4} {count:4} {points:8.0} {:12.4} {each:14.3}{grown}", 1e3 * spent);
        }
    }
    println!("\nWhole runs of 16 components, d = 20: time in proportion to evaluations");
    println!("{:>10} {:>10} {:>14}", "evals", "s", "us/evaluation");
    let target = target(20);
    for budget in [10_000, 20_000, 40_000, 80_000, 160_000] {
        let clock = Instant::now();
        let fitted = Fit::new(&target, config(16, budget)).start(start(20, 16)).run().expect("a fit");
        let seconds = clock.elapsed().as_secs_f64();
        println!("{:10} {seconds:10.3} {:14.3}", fitted.evals, 1e6 * seconds / fitted.evals as f64);
    }
}

/// Ends a case after its time.
struct Enough(Instant);

impl Observer for Enough {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        let over = it.iteration >= MOST || it.iteration > 2 && self.0.elapsed().as_secs_f64() > ENOUGH;
        Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}
