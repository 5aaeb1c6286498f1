//! A Gaussian in thousands of dimensions with a few directions of correlation: `cargo run --release --example
//! many_dimensions [dimension]`. Prints seconds, evaluations and the errors against the truth.

use natmix::family::{Covariance, CovarianceKind, Gaussian, LowRank, Mixture};
use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Scratch};

/// Factors of correlation.
const FACTORS: usize = 5;

struct Correlated(Mixture);

impl Target for Correlated {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.0.eval(rows, z, out, scratch)
    }
}

/// A pseudo-random number in (-1, 1).
fn wave(i: usize) -> f64 {
    let x = (12.9898 * i as f64 + 78.233).sin() * 43_758.545_3;
    2.0 * (x - x.floor()) - 1.0
}

fn main() -> Result<(), natmix::Error> {
    let d = std::env::args().nth(1).and_then(|d| d.parse().ok()).unwrap_or(20_000);
    let variances: Vec<f64> = (0..d).map(|j| (1.0 + 0.9 * wave(j)).powi(2)).collect();
    let factors: Vec<f64> = (0..FACTORS * d).map(|at| wave(1_000_000 + at)).collect();
    let truth = LowRank::from_factors(&variances, &factors).expect("positive variances");
    let (mean, sd): (Vec<f64>, Vec<f64>) =
        ((0..d).map(|j| 3.0 * wave(2 * j + 1)).collect(), truth.variances().iter().map(|x| x.sqrt()).collect());
    let truth = Gaussian::new(mean.clone(), truth);
    let target = Correlated(Mixture::single(truth.clone()));
    let config = Config { covariance: CovarianceKind::LowRank, diagnostic_draws: 2_000, ..Config::default() };

    let began = std::time::Instant::now();
    let fitted = natmix::fit(&target, &config)?;
    println!("d = {d}: {:.1} s, {} evaluations", began.elapsed().as_secs_f64(), fitted.evals);
    if let Some(diagnostics) = &fitted.diagnostics {
        let verdict = &diagnostics.verdict;
        println!(
            "level {:?}, k-hat {:.2}, trusted {}: {:?}",
            diagnostics.level, diagnostics.k_hat, verdict.trusted, verdict.reasons
        );
    }
    let found = &fitted.mixture.components()[0];
    println!("{} components; KL to the truth {:.2e}", fitted.mixture.len(), found.kl(&truth));
    let most = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0.0, |most: f64, x| most.max(x.abs()));
    println!("mean: largest error {:.2e} sd", most(&mut (0..d).map(|j| (found.mean()[j] - mean[j]) / sd[j])));
    println!("sd: largest relative error {:.2e}", most(&mut found.sd().iter().zip(&sd).map(|(a, b)| a / b - 1.0)));
    // Correlations of 1,000 pairs of coordinates: a column of the covariance is a solve.
    let (mut worst, mut largest) = (0.0_f64, 0.0_f64);
    for i in (0..d).step_by(d.div_ceil(10)) {
        let columns = [found, &truth].map(|gaussian| {
            let mut column = vec![0.0; d];
            column[i] = 1.0;
            gaussian.precision().solve(&mut column);
            column
        });
        for j in (0..d).step_by(d.div_ceil(100)).filter(|j| *j != i) {
            let [a, b] = [0, 1].map(|k: usize| columns[k][j] / (sd[i] * sd[j]));
            (worst, largest) = (worst.max((a - b).abs()), largest.max(b.abs()));
        }
    }
    println!("correlations: up to {largest:.2}, largest error {worst:.2e}");
    Ok(())
}
