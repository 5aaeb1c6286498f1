//! The automatic mixture: finds modes and weighs them, keeps within its budgets, can be broken and resumed, claims no more
//! than it has seen, and survives targets that misbehave.

mod common;

use common::{data, distance, gaussian, mixture};
use natmix::checkpoint::{Checkpoint, read_checkpoint_bytes};
use natmix::family::{CovarianceKind, Covariances, Gaussian, LowRank, Mixture};
use natmix::observe::{Iteration, Observer};
use natmix::stop::StopReason;
use natmix::target::ClosureTarget;
use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Error, Fit, Fitted, Scratch, fit};
use natmix_models::densities::{DensityKind, Spec, StudentMixture};
use natmix_models::glm::{Glm, Likelihood};
use safetensors::SafeTensors;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the points at which a target is evaluated.
struct Counted<'a> {
    target: &'a dyn Target,
    points: AtomicU64,
}

impl Target for Counted<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.points.fetch_add(z.len() as u64, Ordering::Relaxed);
        self.target.eval(rows, z, out, scratch)
    }
}

/// Three modes, well apart and of unequal weight.
fn three_modes() -> Mixture {
    let means = [vec![-8.0, 0.0, 3.0], vec![8.0, 4.0, 0.0], vec![0.0, -9.0, -4.0]];
    let covariances = [
        vec![vec![1.0, 0.4, 0.0], vec![0.4, 0.8, 0.1], vec![0.0, 0.1, 0.5]],
        vec![vec![0.3, -0.1, 0.0], vec![-0.1, 0.4, 0.0], vec![0.0, 0.0, 2.0]],
        vec![vec![1.0, 0.0, 0.5], vec![0.0, 0.2, 0.0], vec![0.5, 0.0, 0.6]],
    ];
    Mixture::from_moments(&[0.65, 0.3, 0.05], &means, Covariances::Full(&covariances)).unwrap()
}

/// Two heavy-tailed modes in five dimensions.
fn heavy_tails() -> StudentMixture {
    let scale = |size: f64| {
        (0..5).map(|i| (0..5).map(|j| size * if i == j { 1.0 } else { 0.3 }).collect()).collect::<Vec<Vec<f64>>>()
    };
    let locations = [vec![-6.0, -6.0, 0.0, 3.0, 0.0], vec![6.0, 5.0, -2.0, 0.0, 1.0]];
    StudentMixture::new(4.0, &[0.7, 0.3], &locations, &[scale(1.0), scale(0.5)]).unwrap()
}

fn config(init_sd: f64, max_evals: u64, seed: u64) -> Config {
    Config { init_sd: vec![init_sd], max_evals: Some(max_evals), seed, ..Config::default() }
}

/// Weight of the components that are nearest to each of `modes`, in the metric of the mode.
fn weights_at(modes: &[Gaussian], q: &Mixture) -> Vec<f64> {
    let mut sums = vec![0.0; modes.len()];
    for (weight, component) in q.weights().iter().zip(q.components()) {
        let far = |mode: &Gaussian| {
            let delta: Vec<f64> = component.mean().iter().zip(mode.mean()).map(|(a, b)| a - b).collect();
            let precision = mode.precision().full_matrix();
            let rows = precision.chunks_exact(delta.len()).zip(&delta);
            rows.map(|(row, x)| x * row.iter().zip(&delta).map(|(p, y)| p * y).sum::<f64>()).sum::<f64>()
        };
        let nearest = (0..modes.len()).min_by(|&a, &b| far(&modes[a]).total_cmp(&far(&modes[b]))).unwrap();
        sums[nearest] += weight;
    }
    sums
}

fn assert_weights(modes: &Mixture, q: &Mixture, within: f64) {
    let found = weights_at(modes.components(), q);
    for (found, truth) in found.iter().zip(modes.weights()) {
        assert!((found - truth).abs() < within, "{found} against {truth}");
    }
}

fn all_notes(fitted: &Fitted) -> String {
    fitted.diagnostics.as_ref().unwrap().verdict.notes.join("; ")
}

#[test]
fn a_gaussian_is_found_exactly_with_one_component() {
    let factors: Vec<f64> = (0..16).map(|i| 0.5 + f64::from(i * i % 7) / 7.0).collect();
    let low_rank = LowRank::from_factors(&[0.5, 1.0, 0.2, 2.0, 0.7, 1.5, 0.1, 0.9], &factors).unwrap();
    for &covariance in CovarianceKind::ALL {
        let own = match covariance {
            CovarianceKind::Full => gaussian(8, 3.0, 5),
            CovarianceKind::Diag => common::diag_gaussian(8, 3.0, 5),
            CovarianceKind::LowRank => Gaussian::new(vec![3.0; 8], low_rank.clone()),
        };
        let target = Mixture::single(own.clone());
        let fitted = fit(&target, &Config { covariance, seed: 3, ..Config::default() }).unwrap();
        assert_eq!(fitted.mixture.len(), 1);
        assert!(distance(&fitted.mixture.mean(), own.mean()) < 1e-6);
        assert!(distance(&fitted.mixture.covariance(), &target.covariance()) < 1e-6);
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        assert!(fitted.stop.converged && diagnostics.verdict.trusted, "{:?}", diagnostics.verdict);
        assert!(diagnostics.elbo.mean.abs() < 1e-6, "{:?}", diagnostics.elbo);
        assert!(all_notes(&fitted).contains("ended in 1 place,"), "{}", all_notes(&fitted));
    }
}

#[test]
fn separated_modes_are_found_and_weighed() {
    let target = three_modes();
    for seed in 0..3 {
        let fitted = fit(&target, &config(6.0, 15_000, seed)).unwrap();
        assert_weights(&target, &fitted.mixture, 0.01);
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        assert!(diagnostics.elbo.mean > -0.01 && diagnostics.verdict.trusted, "{diagnostics:?}");
        assert_eq!(fitted.search.as_ref().unwrap().modes, 3);
        assert!(all_notes(&fitted).contains("3 places"));
    }
}

#[test]
fn a_ridge_whose_components_left_it_is_covered_again() {
    let spec = r#"{"kind": "double_banana", "dim": 2, "observed": 3.4011973816621555, "noise_variance": 0.09,
        "init": {"mean": 0.0, "sd": 1.0}}"#;
    let target = Spec::from_json(spec).unwrap().target().unwrap();
    // log Z by the trapezoidal rule, which is exact to many digits for smooth functions that vanish at both ends.
    let (n, reach) = (1001, 4.0);
    let step = 2.0 * reach / (n - 1) as f64;
    let mut z = Vec::with_capacity(2 * n * n);
    for i in 0..n * n {
        z.extend([-reach + step * (i / n) as f64, -reach + step * (i % n) as f64]);
    }
    let mut log_p = vec![0.0; n * n];
    let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
    target.eval(Rows::All, Points::new(&z, 2), out, &mut Scratch::default()).unwrap();
    let log_z = log_p.iter().map(|x| x.exp()).sum::<f64>().ln() + 2.0 * step.ln();
    for seed in 6..=10 {
        let fitted = fit(&*target, &config(1.0, 100_000, seed)).unwrap();
        let elbo = fitted.diagnostics.unwrap().elbo;
        // One of the ridges lost costs 0.5 nats.
        assert!(elbo.mean > log_z - 0.03 && elbo.mean < log_z + 4.0 * elbo.se, "seed {seed}: {elbo:?}, {log_z}");
    }
}

#[test]
fn the_best_mixture_is_not_the_luckiest_one() {
    // Ten points seldom see the steep side: an iteration with few of them there has a high ELBO and a small error.
    let target = ClosureTarget::new(1, |z: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad[0] = 1.0 - z[0].exp();
        }
        z[0] - z[0].exp()
    });
    let target = target.unwrap();
    for seed in 1..=8 {
        let fitted =
            fit(&target, &Config { diagnostic_draws: 0, seed, ..Config::default().with_components(1) }).unwrap();
        let only = &fitted.mixture.components()[0];
        let (mean, variance) = (only.mean()[0], only.sd()[0].powi(2));
        let elbo = mean - (mean + 0.5 * variance).exp() + only.entropy();
        // The best Gaussian has mean -1/2 and variance 1.
        let best = -1.5 + 0.5 * (std::f64::consts::TAU * std::f64::consts::E).ln();
        assert!(elbo > best - 0.03, "seed {seed}: {elbo}, {mean}, {variance}; the best has {best}");
    }
}

#[test]
fn two_modes_on_a_line() {
    let target =
        Mixture::from_moments(&[0.8, 0.2], &[vec![-3.0], vec![4.0]], Covariances::Diag(&[vec![1.0], vec![0.2]]));
    let target = target.unwrap();
    for covariance in [CovarianceKind::Full, CovarianceKind::Diag] {
        let fitted = fit(&target, &Config { covariance, ..config(4.0, 5_000, 1) }).unwrap();
        assert_weights(&target, &fitted.mixture, 0.01);
        assert!(fitted.diagnostics.unwrap().elbo.mean > -0.01);
    }
}

#[test]
fn heavy_tails_get_several_widths() {
    let fitted = fit(&heavy_tails(), &config(5.0, 60_000, 1)).unwrap();
    let diagnostics = fitted.diagnostics.as_ref().unwrap();
    // The density integrates to one.
    assert!(diagnostics.elbo.mean > -0.1, "{:?}", diagnostics.elbo);
    assert!(diagnostics.log_evidence.mean.abs() < 0.1, "{:?}", diagnostics.log_evidence);
    assert!(fitted.mixture.len() > 6, "{}", fitted.mixture.len());
    let modes = [[-6.0, -6.0, 0.0, 3.0, 0.0], [6.0, 5.0, -2.0, 0.0, 1.0]];
    let heavy = weights_at(&modes.map(|mean| Gaussian::isotropic(mean.to_vec(), 1.0)), &fitted.mixture)[0];
    assert!((heavy - 0.7).abs() < 0.05, "{heavy}");
}

fn assert_same(a: &Fitted, b: &Fitted, case: &str) {
    let rest = |fitted: &Fitted| {
        let bits = [fitted.running_elbo.0.to_bits(), fitted.running_elbo.1.to_bits()];
        let counts = (fitted.iterations, fitted.evals, fitted.dropped);
        (fitted.stop, bits, counts, fitted.diagnostics.clone(), fitted.search.clone())
    };
    assert_eq!(a.mixture, b.mixture, "{case}");
    assert_eq!(a.state.mixture(), b.state.mixture(), "{case}");
    assert_eq!(rest(a), rest(b), "{case}");
}

#[test]
fn threads_change_no_bit() {
    let target = heavy_tails();
    let with = |threads| fit(&target, &Config { threads, ..config(5.0, 12_000, 2) }).unwrap();
    assert_same(&with(1), &with(2), "threads");
}

/// Keeps every iteration as the bytes of a checkpoint.
#[derive(Default)]
struct Keep(Vec<Vec<u8>>);

impl Observer for Keep {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.0.push(it.checkpoint()?.to_bytes()?);
        Ok(ControlFlow::Continue(()))
    }
}

/// Splits done, and iterations of settling that are left, as a checkpoint has them.
type Phase = (u64, Option<u64>);

fn phase(bytes: &[u8]) -> Phase {
    let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
    let document: serde_json::Value = serde_json::from_str(&header.metadata().as_ref().unwrap()["natmix"]).unwrap();
    let phase = &document["content"]["strategy"];
    (phase["stage"].as_u64().unwrap(), phase["settling_left"].as_u64())
}

#[test]
fn a_resumed_run_has_the_bits_of_an_unbroken_one() {
    let target = heavy_tails();
    let config = Config { diagnostic_draws: 500, ..config(5.0, 40_000, 4) };
    let mut kept = Keep::default();
    let unbroken = Fit::new(&target, config.clone()).observe(&mut kept).run().unwrap();
    let phases: Vec<_> = kept.0.iter().map(|bytes| phase(bytes)).collect();
    let at = |case: &str, wanted: fn(&Phase) -> bool| {
        phases.iter().position(wanted).unwrap_or_else(|| panic!("{case} was never met: {phases:?}"))
    };
    let split = at("a split", |phase| phase.0 == 1);
    let breaks = [
        ("after the first iteration", 0),
        ("within the first stage", split / 2),
        ("just before a split", split - 1),
        ("just after a split", split),
        ("some time after a split", split + 5),
        ("at the first settling", at("settling", |phase| phase.1.is_some())),
        ("while settling", at("settling", |phase| phase.1 == Some(7))),
        ("at the end", kept.0.len() - 1),
    ];
    for (case, at) in breaks {
        let Checkpoint { state, config } = read_checkpoint_bytes(&kept.0[at]).unwrap();
        assert_eq!(state.iteration(), at as u64 + 1);
        let resumed = Fit::new(&target, config).resume(state).run().unwrap();
        assert_same(&resumed, &unbroken, case);
    }
}

#[test]
fn evaluations_never_exceed_the_budget() {
    // So many dimensions that the curvature of four modes alone would pass the smaller budgets.
    let target = mixture(40, 4, 30.0, 3);
    for max_evals in [1, 3, 11, 40, 60, 100, 150, 300, 1_000, 4_000] {
        let counted = Counted { target: &target, points: AtomicU64::new(0) };
        let config = Config { diagnostic_draws: 0, ..config(20.0, max_evals, 1) };
        let fitted = fit(&counted, &config).unwrap();
        assert_eq!(counted.points.into_inner(), fitted.evals, "{max_evals}");
        assert!(fitted.evals <= max_evals, "{} of {max_evals}", fitted.evals);
        assert!(max_evals < 150 || fitted.evals > max_evals / 2, "{} of {max_evals}", fitted.evals);
        assert_ne!(fitted.stop.reason, StopReason::MaxIterations);
    }
}

#[test]
fn seconds_and_iterations_are_respected() {
    let slow = ClosureTarget::new(2, |z: &[f64], grad: Option<&mut [f64]>| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        if let Some(grad) = grad {
            grad.iter_mut().zip(z).for_each(|(g, z)| *g = -z.powi(3));
        }
        -0.25 * z.iter().map(|z| z.powi(4)).sum::<f64>()
    })
    .unwrap();
    // In the search, and after it.
    for max_seconds in [0.02, 1.0] {
        let config = Config { max_seconds: Some(max_seconds), diagnostic_draws: 0, ..Config::default() };
        let fitted = fit(&slow, &config).unwrap();
        assert_eq!(fitted.stop.reason, StopReason::MaxSeconds);
        // An iteration more, on a busy machine.
        assert!(fitted.seconds < max_seconds + 3.0, "{}", fitted.seconds);
    }
    let fitted = fit(&three_modes(), &Config { max_iterations: 7, ..config(6.0, 15_000, 1) }).unwrap();
    assert_eq!((fitted.iterations, fitted.stop.reason), (7, StopReason::MaxIterations));
}

#[test]
fn a_number_of_components_that_is_asked_for_is_kept() {
    let target = three_modes();
    for components in [1, 2, 3, 5, 12] {
        for max_evals in [2_000, 15_000] {
            let fitted = fit(&target, &config(6.0, max_evals, 2).with_components(components)).unwrap();
            assert_eq!(fitted.mixture.len(), components, "of {components} with {max_evals}");
        }
    }
    // Nothing to gain by more than one, but two were asked for.
    let fitted = fit(&Mixture::single(gaussian(3, 1.0, 1)), &config(1.0, 4_000, 1).with_components(2)).unwrap();
    assert_eq!(fitted.mixture.len(), 2);
    assert!(fitted.diagnostics.unwrap().elbo.mean > -0.01);
}

#[test]
fn a_start_takes_the_place_of_the_search() {
    let target = three_modes();
    let fitted = Fit::new(&target, config(6.0, 8_000, 1)).start(target.clone()).run().unwrap();
    assert_eq!(fitted.mixture.len(), 3);
    assert!(fitted.diagnostics.as_ref().unwrap().elbo.mean.abs() < 1e-3);
    // Without a search nothing is said about one.
    assert!(!all_notes(&fitted).contains("starts"), "{}", all_notes(&fitted));
}

#[test]
fn a_mode_that_no_start_leads_to_is_not_denied() {
    let means = [vec![0.0; 5], vec![60.0; 5]];
    let target = Mixture::from_moments(&[0.6, 0.4], &means, Covariances::Diag(&[vec![1.0; 5], vec![1.0; 5]])).unwrap();
    let fitted = fit(&target, &config(1.0, 10_000, 1)).unwrap();
    assert!(fitted.mixture.components().iter().all(|component| component.mean()[0].abs() < 5.0));
    let diagnostics = fitted.diagnostics.as_ref().unwrap();
    // It cannot know better: the evidence is that of the mode it has seen.
    assert!((diagnostics.log_evidence.mean - 0.6f64.ln()).abs() < 0.01);
    let said = all_notes(&fitted);
    assert!(said.contains("modes that no start leads to would not be seen"), "{said}");
    for claim in ["one mode", "all modes", "every mode", "only mode", "log-concave"] {
        assert!(!said.contains(claim), "{said}");
    }
}

#[test]
fn log_concave_targets_have_one_mode() {
    let rows = 40;
    let x: Vec<f64> = (0..rows * 2).map(common::wave).collect();
    let y: Vec<f64> = (0..rows).map(|i| f64::from(u8::from(common::wave(i + 500) + x[i] > 0.0))).collect();
    let glm = Glm::new(Likelihood::Bernoulli, x, 2, y, &[2.0]);
    let fitted = fit(&glm.unwrap(), &Config { seed: 1, ..Config::default() }).unwrap();
    assert!(all_notes(&fitted).contains("it has one mode"), "{}", all_notes(&fitted));
    assert_eq!(fitted.search.unwrap().modes, 1);
    assert!(fitted.diagnostics.unwrap().verdict.trusted);
}

/// Fits a target of the data folder; the mixture that it is, the result.
fn fit_file(name: &str, max_evals: u64) -> Option<(Mixture, Fitted)> {
    let spec = Spec::from_json(&std::fs::read_to_string(data(&format!("targets/{name}.json"))?).unwrap()).unwrap();
    let (init_mean, init_sd) = (spec.init.mean.clone(), spec.init.sd.clone());
    let config = Config { init_mean, init_sd, max_evals: Some(max_evals), seed: 1, ..Config::default() };
    let fitted = fit(&*spec.target().unwrap(), &Config { diagnostic_draws: 20_000, ..config }).unwrap();
    let DensityKind::GaussianMixture { weights, means, covariances, variances } = spec.kind else { panic!("{name}") };
    let covariances = match (&covariances, &variances) {
        (Some(full), _) => Covariances::Full(full),
        (None, diag) => Covariances::Diag(diag.as_ref().unwrap()),
    };
    Some((Mixture::from_moments(&weights, &means, covariances).unwrap(), fitted))
}

#[test]
fn benchmark_densities_reach_their_marks() {
    for (name, max_evals, least) in [("gmm20", 80_000, -0.01), ("star", 30_000, -0.02), ("unequal", 80_000, -0.01)] {
        let Some((target, fitted)) = fit_file(name, max_evals) else { continue };
        let elbo = fitted.diagnostics.as_ref().unwrap().elbo;
        assert!(elbo.mean >= least, "{name}: {elbo:?}");
        assert!(fitted.evals <= max_evals);
        // The arms of the star cross in its middle, so that a component there may belong to any of them.
        assert_weights(&target, &fitted.mixture, if name == "star" { 0.1 } else { 0.01 });
    }
    let Some((_, fitted)) = fit_file("far_mode", 20_000) else { return };
    assert!(all_notes(&fitted).contains("modes that no start leads to would not be seen"));
}
