//! Runs for an answer stop as soon as it is seen to hold, with the same bits for any number of threads and after a resume;
//! runs for the ELBO take no looks; modes are found all the same.

mod common;

use common::{gaussian, wave};
use natmix::answer::level::Level;
use natmix::config::{Finish, Goal};
use natmix::family::{Covariances, Mixture};
use natmix::observe::{Iteration, Observer};
use natmix::stop::StopReason;
use natmix::target::{ClosureTarget, Target};
use natmix::{Config, Error, Fit, Fitted};
use natmix_models::glm::{Glm, Likelihood};
use std::ops::ControlFlow;

fn config(goal: Goal) -> Config {
    Config { goal, seed: 3, threads: 1, ..Config::default() }
}

fn fit(target: &dyn Target, goal: Goal) -> Fitted {
    Fit::new(target, config(goal)).run().unwrap()
}

/// A logistic regression with a constant and `d - 1` other columns.
fn logistic(rows: usize, d: usize) -> Glm {
    let x: Vec<f64> = (0..rows * d).map(|i| if i < rows { 1.0 } else { 2.0 * wave(i) }).collect();
    let odds = |row: usize| (0..d).map(|j| x[j * rows + row] * wave(77 + j)).sum::<f64>();
    let y: Vec<f64> = (0..rows).map(|row| f64::from(u8::from(odds(row) > 2.0 * wave(999 + row)))).collect();
    Glm::new(Likelihood::Bernoulli, &x, d, y, &[2.5]).unwrap()
}

/// Three modes of unequal weight.
fn modes() -> Mixture {
    let means = [vec![-8.0, 0.0], vec![8.0, 4.0], vec![0.0, -9.0]];
    let covariances = [[1.0, 0.8], [0.3, 0.4], [1.0, 0.2]].map(|[a, b]| vec![vec![a, 0.0], vec![0.0, b]]);
    Mixture::from_moments(&[0.65, 0.3, 0.05], &means, Covariances::Full(&covariances)).unwrap()
}

fn assert_trusted(fitted: &Fitted) -> Level {
    let diagnostics = fitted.diagnostics.as_ref().unwrap();
    assert!(diagnostics.verdict.trusted, "{:?}", diagnostics.verdict);
    diagnostics.level
}

#[test]
fn a_gaussian_stops_as_soon_as_it_is_seen_to_be_one() {
    for d in [5, 60] {
        let truth = gaussian(d, 3.0, d);
        let target = Mixture::single(truth.clone());
        let fitted = fit(&target, Goal::Answer);
        assert_eq!((fitted.stop.reason, fitted.mixture.len()), (StopReason::AnswerHolds, 1), "{d}");
        assert!(fitted.stop.converged && fitted.mixture.components()[0].kl(&truth) < 1e-9);
        assert_eq!(assert_trusted(&fitted), Level::Mixture);
        let longer = fit(&target, Goal::Elbo);
        assert_eq!(longer.stop.reason, StopReason::Converged);
        assert!(fitted.iterations <= 16 && longer.iterations >= 2 * fitted.iterations);
        assert!(fitted.evals < longer.evals);
    }
}

#[test]
fn a_regression_stops_early_and_is_right() {
    let target = logistic(80, 6);
    let (fitted, longer) = (fit(&target, Goal::Answer), fit(&target, Goal::Elbo));
    assert_eq!((fitted.stop.reason, longer.stop.reason), (StopReason::AnswerHolds, StopReason::Converged));
    assert!(assert_trusted(&fitted).holds());
    let notes = &fitted.diagnostics.as_ref().unwrap().verdict.notes;
    assert!(notes.iter().any(|note| note.contains("stopped because the answer holds")), "{notes:?}");
    // The draws of the look count.
    assert!(fitted.evals > 1_000 && 2 * fitted.evals < longer.evals, "{} of {}", fitted.evals, longer.evals);
    // Right, against a fit that went on and is close to the posterior; the limits leave room for the noise of the draws.
    let delivered = fitted.weighted.as_ref().unwrap().delivered();
    let (mean, covariance) = (longer.mixture.mean(), longer.mixture.covariance());
    for j in 0..6 {
        let values = || delivered.draws.iter().skip(j).step_by(6).zip(&delivered.weights);
        let total: f64 = delivered.weights.iter().sum();
        let found = values().map(|(x, w)| w * x).sum::<f64>() / total;
        let sd = (values().map(|(x, w)| w * (x - found).powi(2)).sum::<f64>() / total).sqrt();
        let truth = covariance[7 * j].sqrt();
        assert!((found - mean[j]).abs() < 0.1 * truth, "{found} against {}", mean[j]);
        assert!((sd / truth - 1.0).abs() < 0.1, "{sd} against {truth}");
    }
}

#[test]
fn a_regression_in_many_dimensions_ends_after_one_gaussian() {
    let target = logistic(150, 24);
    let fitted = fit(&target, Goal::Answer);
    assert_eq!((fitted.stop.reason, fitted.mixture.len()), (StopReason::Converged, 1));
    assert!(fitted.evals < 4_000, "{}", fitted.evals);
    assert!(assert_trusted(&fitted).holds());
}

#[test]
fn modes_are_found_before_a_run_may_stop() {
    let target = modes();
    let config = Config { init_sd: vec![10.0], ..config(Goal::Answer) };
    let fitted = Fit::new(&target, config.clone()).run().unwrap();
    assert_trusted(&fitted);
    let mut weights: Vec<f64> = fitted.mixture.modes().iter().map(|mode| mode.weight).collect();
    weights.sort_by(f64::total_cmp);
    assert_eq!(weights.len(), 3);
    for (weight, truth) in weights.iter().zip([0.05, 0.3, 0.65]) {
        assert!((weight - truth).abs() < 0.02, "{weights:?}");
    }
    // The search is the same as that of a run for the ELBO.
    let longer = Fit::new(&target, Config { goal: Goal::Elbo, ..config }).run().unwrap();
    assert_eq!(fitted.search, longer.search);
    assert!(fitted.evals < longer.evals, "{} and {}", fitted.evals, longer.evals);
}

#[test]
fn heavy_tails_are_not_taken_for_a_gaussian() {
    // Student t with 4 degrees of freedom, whose sd one Gaussian has 15% too small.
    let log_p = |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad[0] = -5.0 * z[0] / (4.0 + z[0] * z[0]);
        }
        -2.5 * (1.0 + z[0] * z[0] / 4.0).ln()
    };
    let target = ClosureTarget::new(1, log_p).unwrap();
    for seed in 0..3 {
        let fitted = Fit::new(&target, Config { seed, ..config(Goal::Answer) }).run().unwrap();
        assert!(fitted.mixture.len() > 1, "seed {seed}");
    }
}

#[test]
fn runs_for_the_elbo_take_no_looks() {
    let target = logistic(80, 6);
    let longer = fit(&target, Goal::Elbo);
    // Neither do those that no chains could finish, and those that are not measured.
    for config in [
        Config { finish: Finish::Never, ..config(Goal::Answer) },
        Config { diagnostic_draws: 0, ..config(Goal::Answer) },
    ] {
        let same = Fit::new(&target, config).run().unwrap();
        assert_eq!((&same.mixture, same.evals, same.stop), (&longer.mixture, longer.evals, longer.stop));
    }
}

/// Stops after some iterations.
struct StopAfter(u64);

impl Observer for StopAfter {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        Ok(if it.iteration >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

#[test]
fn bits_are_the_same_for_any_number_of_threads_and_after_a_resume() {
    let target = logistic(80, 6);
    let whole = fit(&target, Goal::Answer);
    for threads in [2, 8] {
        let again = Fit::new(&target, Config { threads, ..config(Goal::Answer) }).run().unwrap();
        assert_eq!((&again.mixture, again.evals), (&whole.mixture, whole.evals));
    }
    // Before the look, after it, and in the last iterations.
    for iterations in [4, whole.iterations - 16, whole.iterations - 15, whole.iterations - 1] {
        let part = Fit::new(&target, config(Goal::Answer)).observe(&mut StopAfter(iterations)).run().unwrap();
        assert_eq!((part.stop.reason, part.iterations), (StopReason::Cancelled, iterations));
        let resumed = Fit::new(&target, config(Goal::Answer)).resume(part.state).run().unwrap();
        assert_eq!((&resumed.mixture, resumed.evals, resumed.stop), (&whole.mixture, whole.evals, whole.stop));
        assert_eq!(resumed.diagnostics, whole.diagnostics);
    }
}
