//! A custom target in a few lines: write the log density once, derivatives are automatic.
//!
//! `cargo run --release --example custom_target`

use natmix::autodiff::{AutoDiff, Density, Real};
use natmix::{Config, fit};

/// Eight coins from one bag: how fair is the bag? Heads of 20 tosses each, a logit-normal bag, its centre and log spread.
struct Coins([f64; 8]);

impl Density for Coins {
    fn dim(&self) -> usize {
        10
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let (centre, log_spread, logits) = (z[0], z[1], &z[2..]);
        let mut log_p = -(centre * centre + log_spread * log_spread) * 0.5;
        for (heads, logit) in self.0.iter().zip(logits) {
            let standard = (*logit - centre) * (-log_spread).exp();
            log_p += -standard * standard * 0.5 - log_spread;
            log_p += *logit * *heads - logit.log1p_exp() * 20.0;
        }
        log_p
    }
}

fn main() -> Result<(), natmix::Error> {
    let target = AutoDiff(Coins([9.0, 11.0, 14.0, 8.0, 10.0, 17.0, 12.0, 9.0]));
    let fitted = fit(&target, &Config { seed: 1, ..Config::default() })?;
    let (mean, covariance) = (fitted.mixture.mean(), fitted.mixture.covariance());
    println!(
        "centre of the bag {:.2} +- {:.2}, log spread {:.2} +- {:.2}",
        mean[0],
        covariance[0].sqrt(),
        mean[1],
        covariance[11].sqrt()
    );
    println!("{:#?}", fitted.diagnostics);
    Ok(())
}
