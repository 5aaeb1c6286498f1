//! Regressions with fewer rows than columns are fitted where their rows have any extent: same densities, same posteriors.

#[path = "common/regressions.rs"]
mod regressions;

use natmix::answer::delivered::DeliveredDraws;
use natmix::family::{CovarianceKind, Full, Gaussian, Mixture};
use natmix::save::{Posterior, read_posterior_bytes};
use natmix::target::{EvalOut, Points, Rows, Target, TargetError, log_p_at};
use natmix::{Config, Fit, Fitted, Method, Parts, Scratch};
use natmix_models::{Observations, Regression, RegressionKind};
use regressions::{KINDS, assert_close, table, wave, with_offset_and_weights};

/// A regression in all of its coordinates.
struct Whole<'a>(&'a dyn Target);

impl Target for Whole<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.0.eval(rows, z, out, scratch)
    }
    fn is_log_concave(&self) -> bool {
        self.0.is_log_concave()
    }
    fn gradient_is_tested(&self) -> bool {
        true
    }
}

/// Standard deviations of the prior that differ.
fn prior_sd(features: usize) -> Vec<f64> {
    (0..features).map(|j| 0.6 + 0.05 * j as f64).collect()
}

fn regression(kind: RegressionKind, rows: usize, features: usize) -> Regression {
    Regression::new(kind, with_offset_and_weights(table(kind, rows, features)), &prior_sd(features)).unwrap()
}

/// Two correlated Gaussians.
fn pair(dim: usize) -> Mixture {
    let component = |k: usize| {
        let mean = (0..dim).map(|i| 0.3 * wave(100 * k + i)).collect();
        let entry = |at: usize| match (at % dim).cmp(&(at / dim)) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.5 + wave(7 * k + at).abs(),
            std::cmp::Ordering::Greater => 0.2 * wave(31 * k + at),
        };
        Gaussian::new(mean, Full::from_factor(dim, (0..dim * dim).map(entry).collect()))
    };
    Mixture::new(&[0.3, 0.7], vec![component(0), component(1)]).unwrap()
}

fn moments(draws: &[f64], dim: usize, j: usize) -> (f64, f64) {
    let column = || draws.iter().skip(j).step_by(dim);
    let n = (draws.len() / dim) as f64;
    let mean = column().sum::<f64>() / n;
    (mean, (column().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
}

fn fit(target: &dyn Target, config: Config) -> Fitted {
    Fit::new(target, Config { threads: 1, ..config }).run().unwrap()
}

/// The draws that a fit delivers.
fn delivered(fitted: &Fitted) -> Vec<f64> {
    match &fitted.chains {
        Some(chains) => chains.delivered().draws,
        None => {
            let DeliveredDraws { draws, weights, .. } = fitted.weighted.as_ref().unwrap().delivered();
            let equal = DeliveredDraws { draws, weights, chains: None };
            equal.resample(4_000, 1)
        }
    }
}

#[test]
fn densities_are_the_same_up_to_the_prior_beside_the_rows() {
    for kind in KINDS {
        let regression = regression(kind, 6, 41);
        let reduction = regression.target().reduction().unwrap();
        let subspace = &reduction.subspace;
        assert_eq!(subspace.dim(), regression.target().dim());
        assert_eq!(subspace.reduced_dim(), kind.dim(6), "{kind:?}");
        let u: Vec<f64> = (0..3 * subspace.reduced_dim()).map(|i| 0.8 * wave(i)).collect();
        let lifted = subspace.lift(&u);
        assert_close(&subspace.project(&lifted), &u, 1e-12, "projected");
        for (u, z) in u.chunks_exact(subspace.reduced_dim()).zip(lifted.chunks_exact(subspace.dim())) {
            let whole = log_p_at(regression.target(), z).unwrap();
            let reduced = log_p_at(&*reduction.target, u).unwrap() + subspace.log_density_beside(z, u);
            assert!((whole - reduced).abs() < 1e-10 * whole.abs().max(1.0), "{kind:?}: {whole} {reduced}");
        }
    }
}

#[test]
fn tables_with_enough_rows_stay_as_they_are() {
    for kind in KINDS {
        assert!(regression(kind, 41, 41).target().reduction().is_none());
        assert!(regression(kind, 46, 41).target().reduction().is_none());
        // Where there is nothing to gain, either.
        assert!(regression(kind, 6, 11).target().reduction().is_none());
    }
}

/// With full covariances in few dimensions, and directions of correlation in many.
#[test]
fn a_lifted_mixture_has_the_density_of_lifted_draws() {
    for (kind, features, expected) in [
        (RegressionKind::Linear { noise_sd: None }, 41, CovarianceKind::Full),
        (RegressionKind::Softmax { classes: 3 }, 41, CovarianceKind::Full),
        (RegressionKind::Linear { noise_sd: None }, 1_500, CovarianceKind::LowRank),
        (RegressionKind::Softmax { classes: 3 }, 600, CovarianceKind::LowRank),
    ] {
        let regression = regression(kind, 6, features);
        let subspace = &regression.target().reduction().unwrap().subspace;
        let q = pair(subspace.reduced_dim());
        let lifted = subspace.lift_mixture(&q).unwrap();
        assert_eq!(lifted.covariance_kind(), expected);
        let z = lifted.sample(5, 3);
        let u = subspace.project(&z);
        let (whole, reduced) = (lifted.log_density(&z), q.log_density(&u));
        for (i, (z, u)) in z.chunks_exact(subspace.dim()).zip(u.chunks_exact(subspace.reduced_dim())).enumerate() {
            let direct = reduced[i] + subspace.log_density_beside(z, u);
            assert!((whole[i] - direct).abs() < 1e-9 * direct.abs().max(1.0), "{kind:?}: {} {direct}", whole[i]);
        }
        let back = subspace.project_mixture(&lifted).unwrap();
        assert_eq!(back.log_weights(), q.log_weights());
        for (a, b) in back.components().iter().zip(q.components()) {
            assert_close(a.mean(), b.mean(), 1e-10, "means");
            assert_close(&a.precision().covariance_full(), &b.precision().covariance_full(), 1e-10, "covariances");
        }
        // Through a file and back, to the bit.
        let posterior =
            Posterior { mixture: lifted, parameter_names: Vec::new(), details: "none".into(), answer: None };
        assert_eq!(read_posterior_bytes(&posterior.to_bytes().unwrap()).unwrap().mixture, posterior.mixture);
    }
}

/// Draws of a single lifted Gaussian of low rank have its moments.
#[test]
fn draws_in_many_dimensions_have_the_moments_of_the_mixture() {
    let regression = regression(RegressionKind::Linear { noise_sd: Some(0.7) }, 15, 1_100);
    let subspace = &regression.target().reduction().unwrap().subspace;
    let q = Mixture::single(pair(15).components()[0].clone());
    let lifted = subspace.lift_mixture(&q).unwrap();
    let (draws, d, n) = (lifted.sample(4_000, 5), subspace.dim(), 4_000.0_f64);
    let (mean, variances) = (lifted.mean(), lifted.components()[0].precision().variances());
    let also = subspace.lift(&q.sample(4_000, 6));
    for j in (0..d).step_by(50) {
        for draws in [&draws, &also] {
            let (found, sd) = moments(draws, d, j);
            // Five errors, a tenth of a standard deviation.
            assert!((found - mean[j]).abs() < 5.0 * (variances[j] / n).sqrt(), "{j} {found} {}", mean[j]);
            assert!((sd / variances[j].sqrt() - 1.0).abs() < 5.0 / (2.0 * n).sqrt(), "{j} {sd} {}", variances[j]);
        }
    }
}

#[test]
fn a_linear_regression_is_the_closed_form() {
    let (rows, features, noise) = (20, 40, 0.7);
    let kind = RegressionKind::Linear { noise_sd: Some(noise) };
    let (table, sd) = (table(kind, rows, features), prior_sd(features));
    let (x, y) = (table.design().to_vec(), table.outcome().to_vec());
    let mut precision = vec![0.0; features * features];
    let mut slope = vec![0.0; features];
    for (x, y) in x.chunks_exact(features).zip(&y) {
        for (at, entry) in precision.iter_mut().enumerate() {
            *entry += x[at % features] * x[at / features] / (noise * noise);
        }
        slope.iter_mut().zip(x).for_each(|(slope, x)| *slope += x * y / (noise * noise));
    }
    precision.iter_mut().step_by(features + 1).zip(&sd).for_each(|(entry, sd)| *entry += 1.0 / (sd * sd));
    let eta2: Vec<f64> = precision.iter().map(|x| -0.5 * x).collect();
    let exact = Gaussian::from_natural(&slope, &eta2).unwrap();
    let regression = Regression::new(kind, table, &sd).unwrap();
    let fitted = fit(regression.target(), Config::default());
    assert!(fitted.subspace.is_some());
    let own = &fitted.mixture.components()[0];
    assert_eq!((fitted.mixture.len(), fitted.mixture.covariance_kind()), (1, CovarianceKind::Full));
    assert_close(own.mean(), exact.mean(), 1e-8, "mean");
    assert_close(&own.precision().covariance_full(), &exact.precision().covariance_full(), 1e-8, "covariance");
    let evidence = log_p_at(regression.target(), exact.mean()).unwrap() - exact.log_norm();
    let diagnostics = fitted.diagnostics.unwrap();
    assert!((diagnostics.log_evidence.mean - evidence).abs() < 1e-8 && diagnostics.verdict.trusted);
    assert!((diagnostics.elbo.mean - evidence).abs() < 1e-8);
    assert_eq!(diagnostics.accuracy.len(), features);
}

/// The posterior is that of a fit in all coordinates: means and standard deviations within 0.15 standard deviations, evidence within five
/// errors of at most 0.1.
#[test]
fn posteriors_are_those_of_fits_in_all_coordinates() {
    for kind in [RegressionKind::Logistic, RegressionKind::Poisson, RegressionKind::Softmax { classes: 3 }] {
        let regression = regression(kind, 20, 40);
        let d = regression.target().dim();
        let reduced = fit(regression.target(), Config::default());
        let whole = fit(&Whole(regression.target()), Config::default());
        assert_eq!((reduced.subspace.is_some(), whole.subspace.is_some()), (true, false));
        assert_eq!((reduced.mixture.dim(), whole.mixture.dim()), (d, d));
        let (a, b) = (reduced.diagnostics.as_ref().unwrap(), whole.diagnostics.as_ref().unwrap());
        assert!(a.verdict.trusted && b.verdict.trusted, "{kind:?}: {:?} {:?}", a.verdict, b.verdict);
        let (ours, theirs) = (delivered(&reduced), delivered(&whole));
        for j in 0..d {
            let ((mean, sd), (other, other_sd)) = (moments(&ours, d, j), moments(&theirs, d, j));
            assert!((mean - other).abs() < 0.15 * other_sd, "{kind:?}: mean {j}: {mean} {other} ({other_sd})");
            assert!((sd / other_sd - 1.0).abs() < 0.15, "{kind:?}: sd {j}: {sd} {other_sd}");
        }
        let (a, b) = (a.log_evidence, b.log_evidence);
        let error = a.se.hypot(b.se);
        assert!(error.is_nan() || error < 0.1 && (a.mean - b.mean).abs() < 5.0 * error, "{kind:?}: {a:?} {b:?}");
    }
}

#[test]
fn bits_do_not_depend_on_threads_and_resuming() {
    let regression = regression(RegressionKind::Logistic, 12, 45);
    let config = Config { seed: 3, ..Config::default() };
    let run = |threads| Fit::new(regression.target(), Config { threads, ..config.clone() }).run().unwrap();
    let (one, three) = (run(1), run(3));
    assert_eq!(one.mixture, three.mixture);
    assert_eq!(delivered(&one), delivered(&three));
    let first = fit(regression.target(), Config { max_iterations: 1, diagnostic_draws: 0, ..config.clone() });
    let resumed = Fit::new(regression.target(), Config { threads: 1, ..config }).resume(first.state).run().unwrap();
    assert_eq!(one.mixture, resumed.mixture);
    assert_eq!(delivered(&one), delivered(&resumed));
}

#[test]
fn a_lifted_mixture_is_a_start_and_chains_can_finish_it() {
    for features in [45, 1_200] {
        let sd = 2.0 * (30.0 / features as f64).sqrt();
        let table = table(RegressionKind::Logistic, 12, features);
        let regression = Regression::new(RegressionKind::Logistic, table, &[sd]).unwrap();
        let first = fit(regression.target(), Config::default());
        let covariance = first.mixture.covariance_kind();
        let again = Fit::new(regression.target(), Config { covariance, threads: 1, ..Config::default() });
        let again = again.start(first.mixture.clone()).run().unwrap();
        assert!(again.subspace.is_some() && again.mixture.covariance_kind() == covariance);
        assert!(again.diagnostics.unwrap().verdict.trusted);
        let finished = Fit::new(regression.target(), Config { threads: 1, ..Config::default() });
        let finished = finished.start(first.mixture).finish().unwrap();
        assert!(finished.diagnostics.unwrap().verdict.trusted && finished.chains.unwrap().draws.len() % features == 0);
    }
}

/// What a user says about covariances, starts and methods refers to the coefficients.
#[test]
fn other_settings_keep_the_coordinates_of_the_regression() {
    let regression = regression(RegressionKind::Logistic, 6, 41);
    for config in [
        Config { covariance: CovarianceKind::Diag, ..Config::default() },
        Config { init_mean: vec![0.5], ..Config::default() },
        Config { max_iterations: 20, ..Parts::new(Method::Von).into() },
    ] {
        let fitted = fit(regression.target(), Config { diagnostic_draws: 0, ..config });
        assert!(fitted.subspace.is_none() && fitted.mixture.dim() == 41);
    }
}

#[test]
fn rows_that_repeat_others_are_no_further_directions() {
    let mut x: Vec<f64> = (0..4 * 44).map(wave).collect();
    x.extend_from_within(44..132);
    let table = Observations::new(x, 44, vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0]).unwrap();
    let regression = Regression::new(RegressionKind::Logistic, table, &[2.0]).unwrap();
    assert_eq!(regression.target().reduction().unwrap().subspace.reduced_dim(), 4);
    assert!(fit(regression.target(), Config::default()).diagnostics.unwrap().verdict.trusted);
}
