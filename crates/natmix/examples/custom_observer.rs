//! A custom observer: a progress line, and a stopping rule.
//!
//! `cargo run --release --example custom_observer`

use natmix::observe::{Iteration, Observer, OnIteration};
use natmix::{Config, Error, Fit};
use natmix_models::densities::Funnel;
use std::ops::ControlFlow;

/// Stops once the ELBO has not risen for `patience` iterations.
struct Patience {
    patience: u64,
    best: f64,
    at: u64,
}

impl Observer for Patience {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        if it.elbo > self.best {
            (self.best, self.at) = (it.elbo, it.iteration);
        }
        let tired = it.iteration - self.at >= self.patience;
        Ok(if tired { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

fn main() -> Result<(), Error> {
    let funnel = Funnel::new(5, 2.0)?;
    let mut patience = Patience { patience: 40, best: f64::NEG_INFINITY, at: 0 };
    let mut progress = OnIteration(|it: &Iteration<'_>| {
        if it.iteration.is_multiple_of(20) {
            println!(
                "{:>5} iterations {:>7} evaluations  ELBO {:>9.4} +- {:.4}",
                it.iteration, it.evals, it.elbo, it.elbo_se
            );
        }
    });
    let config = Config { seed: 2, ..Config::default() };
    let fitted = Fit::new(&funnel, config).observe(&mut progress).observe(&mut patience).run()?;
    println!("stopped: {}; best ELBO {:.4} at iteration {}", fitted.stop.reason.name(), patience.best, patience.at);
    Ok(())
}
