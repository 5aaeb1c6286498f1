//! Conjugate linear regression: the posterior is Gaussian, and known.
//!
//! ```text
//! y ~ N(X z, noise_sd^2 I),   z ~ N(0, prior_sd^2 I)
//! S = X'X / noise_sd^2 + I / prior_sd^2,    m = S^-1 X'y / noise_sd^2
//! log Z = log p(m, y) + d/2 log(2 pi) - 1/2 log det S
//! ```
#![allow(dead_code)]

use natmix::config::Finish;
use natmix::family::{CovarianceKind, Diag, Full, Gaussian, Mixture};
use natmix::observe::{Iteration, Observer};
use natmix::target::log_p_at;
use natmix::{Config, Error, Fit, Method, Parts};
use natmix_models::glm::{Glm, Likelihood};
use std::ops::ControlFlow;

/// Coefficients of the regression.
pub const DIM: usize = 20;
/// Standard deviation of the noise, which the model knows.
pub const NOISE_SD: f64 = 1.0;
/// Standard deviation of the coefficients' prior.
pub const PRIOR_SD: f64 = 2.0;
/// Correlation of neighbouring columns: enough that mean field differs from the posterior by several nats.
pub const CORRELATION: f64 = 0.5;

/// A regression with its exact posterior.
pub struct ConjugateRegression {
    pub target: Glm,
    pub posterior: Gaussian,
    /// The best diagonal Gaussian: the exact mean, and the diagonal of the exact precision.
    pub mean_field: Gaussian,
    pub log_evidence: f64,
}

impl ConjugateRegression {
    /// `rows` rows of data; a smaller set is the beginning of a larger one.
    pub fn new(rows: usize) -> Self {
        let truth = normals(DIM, 1);
        let (mut design, mut outcome) = (Vec::new(), Vec::new());
        for row in normals(rows * (DIM + 1), 2).chunks_exact(DIM + 1) {
            let (noise, fresh) = (row[DIM], &row[..DIM]);
            let mut x = vec![fresh[0]];
            for j in 1..DIM {
                x.push(CORRELATION * x[j - 1] + (1.0 - CORRELATION.powi(2)).sqrt() * fresh[j]);
            }
            outcome.push(x.iter().zip(&truth).map(|(x, z)| x * z).sum::<f64>() + NOISE_SD * noise);
            design.extend(x);
        }
        let (mut prec, mut mean) = (vec![0.0; DIM * DIM], vec![0.0; DIM]);
        for (x, y) in design.chunks_exact(DIM).zip(&outcome) {
            for i in 0..DIM {
                mean[i] += x[i] * y / NOISE_SD.powi(2);
                for j in 0..DIM {
                    prec[i * DIM + j] += x[i] * x[j] / NOISE_SD.powi(2);
                }
            }
        }
        prec.iter_mut().step_by(DIM + 1).for_each(|p| *p += PRIOR_SD.powi(-2));
        solve(&prec, &mut mean);
        let diagonal: Vec<f64> = prec.iter().copied().step_by(DIM + 1).collect();
        let full = Full::from_precision(DIM, &prec).expect("prior and data make it positive definite");
        let diag = Diag::new(diagonal).expect("sums of squares are positive");
        let target = Glm::new(Likelihood::Gaussian { sd: NOISE_SD }, &design, DIM, outcome, &[PRIOR_SD]).unwrap();
        let posterior = Gaussian::new(mean.clone(), full);
        let log_evidence = log_p_at(&target, &mean).unwrap() - posterior.log_norm();
        let mean_field = Gaussian::new(mean, diag);
        Self { target, posterior, mean_field, log_evidence }
    }

    /// The best Gaussian of a shape.
    pub fn best(&self, shape: CovarianceKind) -> &Gaussian {
        match shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Full => &self.posterior,
            CovarianceKind::Diag => &self.mean_field,
        }
    }

    /// Largest error of a mean, in posterior standard deviations.
    pub fn mean_error(&self, mean: &[f64]) -> f64 {
        let exact = self.posterior.mean().iter().zip(self.posterior.sd());
        mean.iter().zip(exact).fold(0.0, |worst: f64, (m, (exact, sd))| worst.max((m - exact).abs() / sd))
    }

    /// Relative errors of a diagonal precision against the diagonal of the exact one.
    pub fn diagonal_errors(&self, prec: &[f64]) -> Vec<f64> {
        prec.iter().zip(self.mean_field.precision().matrix().iter()).map(|(p, exact)| p / exact - 1.0).collect()
    }

    /// Evaluations and seconds until `KL(q || best of its shape)` is first below `goal`; none if the run ends before.
    pub fn run_to_goal(&self, config: Config, goal: f64) -> Option<(u64, f64)> {
        let mut watch = RegressionGoal { best: self.best(config.covariance), goal, reached: None };
        Fit::new(&self.target, config).observe(&mut watch).run().unwrap();
        watch.reached
    }
}

/// Stops at the goal, and remembers what it took.
struct RegressionGoal<'a> {
    best: &'a Gaussian,
    goal: f64,
    reached: Option<(u64, f64)>,
}

impl Observer for RegressionGoal<'_> {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        if it.mixture.components()[0].kl(self.best) < self.goal {
            self.reached = Some((it.evals, it.seconds));
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// What a user would choose for this problem. The tolerance is far below the errors that are tested, so runs end with
/// their iterations or at the optimum.
pub fn settings(method: Method, covariance: CovarianceKind, seed: u64) -> Config {
    // Without chains: the mixture itself is measured.
    let finish = Finish::Never;
    let base = Config {
        covariance,
        tolerance: 1e-9,
        threads: 1,
        diagnostic_draws: 4_000,
        finish,
        seed,
        ..Config::new(method)
    };
    match (method, covariance) {
        // Score gradients are noisy: Adam starts ten times faster than by default, and slows down. For a full
        // covariance the noise vanishes with the error; for a diagonal one it stays, so the rate must fall faster.
        (Method::Bbvi, CovarianceKind::Full) => Config {
            max_iterations: 16_000,
            ..base.with_parts(|parts| Parts { draws_per_component: 50, rate: 0.3, decay: 0.4, ..parts })
        },
        (Method::Bbvi, CovarianceKind::Diag) => Config {
            max_iterations: 14_000,
            ..base.with_parts(|parts| Parts { draws_per_component: 50, rate: 0.5, decay: 0.75, ..parts })
        },
        // Defaults: the noise vanishes as q approaches p.
        (_, CovarianceKind::Full) => Config { max_iterations: 400, ..base },
        // A diagonal q never equals p. Whole frames (2 d points) integrate its moments without noise.
        (_, CovarianceKind::Diag) => {
            Config { max_iterations: 1_000, ..base.with_parts(|parts| Parts { draws_per_component: 2 * DIM, ..parts }) }
        }
        (_, CovarianceKind::LowRank) => unreachable!("has tests of its own"),
    }
}

/// Standard normal numbers that are always the same.
fn normals(n: usize, seed: u64) -> Vec<f64> {
    Mixture::single(Gaussian::isotropic(vec![0.0], 1.0)).sample(n, seed)
}

/// Solves `a x = b` for a symmetric positive definite `a` by elimination, independently of the crate's own factors.
fn solve(a: &[f64], b: &mut [f64]) {
    let d = b.len();
    let mut a = a.to_vec();
    for pivot in 0..d {
        for row in pivot + 1..d {
            let ratio = a[row * d + pivot] / a[pivot * d + pivot];
            for column in pivot..d {
                a[row * d + column] -= ratio * a[pivot * d + column];
            }
            b[row] -= ratio * b[pivot];
        }
    }
    for row in (0..d).rev() {
        let known: f64 = (row + 1..d).map(|column| a[row * d + column] * b[column]).sum();
        b[row] = (b[row] - known) / a[row * d + row];
    }
}
