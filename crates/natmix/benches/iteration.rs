//! One iteration of component-draws, and how much a second thread helps.
//!
//! `cargo bench -p natmix --bench iteration [-- --instructions]`

mod common;

use common::{Case, case, data, logistic, run};
use natmix::family::Mixture;
use natmix::observe::{Iteration, Observer};
use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Error, Fit, Method, Parts, Scratch};
use natmix_models::densities::Spec;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// A case that runs whole fits of `ITERATIONS` iterations each.
const ITERATIONS: u64 = 20;

fn config(components: usize, draws: usize, threads: usize) -> Config {
    Config {
        tolerance: 1e-300,
        max_iterations: ITERATIONS,
        diagnostic_draws: 0,
        threads,
        ..Parts { components, draws_per_component: draws, ..Parts::new(Method::ComponentDraws) }.into()
    }
}

fn main() {
    let gmm20 = data("targets/gmm20.json").map(|path| {
        let text = std::fs::read_to_string(path).expect("a readable spec");
        let spec = Spec::from_json(&text).expect("a valid spec");
        (Arc::<dyn Target + Send + Sync>::from(shared(spec.target().expect("a target"))), spec.init)
    });
    let german = data("targets/german_credit_design.csv").map(|path| Arc::new(logistic(&path)));

    println!("Fits of {ITERATIONS} iterations on one thread, start-up of the thread pool included");
    let mut cases: Vec<Case> = Vec::new();
    if let Some((target, init)) = &gmm20 {
        let (target, init) = (target.clone(), init.clone());
        cases.push(case("gmm20: d=20 K=10, 40 points a component", move || {
            let config = Config { init_mean: init.mean.clone(), init_sd: init.sd.clone(), ..config(10, 40, 1) };
            let target = target.clone();
            Box::new(move || {
                Fit::new(&*target, config.clone()).run().expect("a fit");
            })
        }));
    }
    if let Some(model) = &german {
        let model = model.clone();
        cases.push(case("German credit: d=25 K=1 N=1000, 50 points", move || {
            let model = model.clone();
            Box::new(move || {
                Fit::new(&*model, config(1, 50, 1)).run().expect("a fit");
            })
        }));
    }
    for (case, seconds) in cases.iter().zip(run(&cases)) {
        println!("{}: {:.3} ms per iteration", case.name, 1e3 * seconds / ITERATIONS as f64);
    }

    println!("\nMilliseconds per iteration (median) and speed-up over one thread");
    println!("{:<44} {:>10} {:>10} {:>8}", "case", "1 thread", "2 threads", "ratio");
    for k in [1, 2, 5, 10, 20, 40] {
        let target = synthetic(20, 10);
        compare(&format!("mixture target, d=20 K={k}, 40 points each"), &target, &config(k, 40, 0));
    }
    if let Some((target, init)) = &gmm20 {
        let config = Config { init_mean: init.mean.clone(), init_sd: init.sd.clone(), ..config(10, 40, 0) };
        compare("gmm20, d=20 K=10, 40 points each", &**target, &config);
    }
    if let Some(model) = &german {
        compare("German credit, d=25 K=1, 50 points", &**model, &config(1, 50, 0));
    }
    compare("costly target (0.2 ms a point), d=5 K=1, 40 points", &Costly, &config(1, 40, 0));
}

/// Median time of an iteration, the first ones left out.
fn iteration_time(target: &dyn Target, config: &Config, threads: usize) -> f64 {
    struct Clock(Vec<Instant>);
    impl Observer for Clock {
        fn iteration(&mut self, _: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
            self.0.push(Instant::now());
            Ok(ControlFlow::Continue(()))
        }
    }
    let mut clock = Clock(Vec::with_capacity(400));
    let config = Config { threads, max_iterations: 120, ..config.clone() };
    Fit::new(target, config).observe(&mut clock).run().expect("a fit");
    let mut times: Vec<f64> = clock.0.windows(2).skip(20).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn compare(name: &str, target: &dyn Target, config: &Config) {
    // Alternating, best of three, since the machine may be shared.
    let mut best = [f64::INFINITY; 2];
    for _ in 0..3 {
        for (best, threads) in best.iter_mut().zip([1, 2]) {
            *best = best.min(iteration_time(target, config, threads));
        }
    }
    println!("{name:<44} {:>10.3} {:>10.3} {:>8.2}", 1e3 * best[0], 1e3 * best[1], best[0] / best[1]);
}

fn synthetic(d: usize, k: usize) -> Mixture {
    let wave = |i: usize| (i as f64 * 1.618).sin();
    let means: Vec<Vec<f64>> = (0..k).map(|c| (0..d).map(|i| 5.0 * wave(c * d + i)).collect()).collect();
    let variances: Vec<Vec<f64>> = (0..k).map(|c| (0..d).map(|i| 1.5 + wave(c + i)).collect()).collect();
    let full: Vec<Vec<Vec<f64>>> = variances
        .iter()
        .map(|v| (0..d).map(|i| (0..d).map(|j| if i == j { v[i] } else { 0.0 }).collect()).collect())
        .collect();
    Mixture::from_moments(&vec![1.0; k], &means, natmix::family::Covariances::Full(&full)).expect("a mixture")
}

fn shared(target: Box<dyn Target + Send>) -> Box<dyn Target + Send + Sync> {
    struct BoxedTarget(Box<dyn Target + Send>);
    impl Target for BoxedTarget {
        fn dim(&self) -> usize {
            self.0.dim()
        }
        fn eval(&self, r: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, s: &mut Scratch) -> Result<(), TargetError> {
            self.0.eval(r, z, out, s)
        }
    }
    Box::new(BoxedTarget(target))
}

/// A standard normal that is slow to evaluate.
struct Costly;

impl Target for Costly {
    fn dim(&self) -> usize {
        5
    }
    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        for (log_p, z) in out.log_p.iter_mut().zip(z.iter()) {
            let start = Instant::now();
            while start.elapsed().as_secs_f64() < 2e-4 {
                std::hint::spin_loop();
            }
            *log_p = -0.5 * z.iter().map(|x| x * x).sum::<f64>();
        }
        if let Some(grad) = out.grad {
            grad.iter_mut().zip(z.data()).for_each(|(g, z)| *g = -z);
        }
        Ok(())
    }
}
