//! A run that was interrupted and resumed, from memory or from a file, equals an uninterrupted one bit for bit.

mod folder;

use folder::Folder;
use natmix::checkpoint::{Checkpoint, Checkpointer, read_checkpoint_bytes};
use natmix::family::{CovarianceKind, Covariances, Gaussian, Mixture};
use natmix::observe::{Iteration, Observer};
use natmix::stop::StopReason;
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Error, Fit, Fitted, Method, Parts, Scratch};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// Linear regression with unit noise and a standard normal prior.
struct UnitRegression {
    rows: Vec<([f64; 2], f64)>,
}

impl UnitRegression {
    fn new() -> Self {
        let row = |i: usize| {
            let x = [1.0, (i as f64 * 0.37).sin()];
            (x, 0.5 * x[0] - 1.5 * x[1] + 0.3 * (i as f64 * 1.7).cos())
        };
        Self { rows: (0..23).map(row).collect() }
    }
}

impl Target for UnitRegression {
    fn dim(&self) -> usize {
        2
    }

    fn num_rows(&self) -> Option<usize> {
        Some(self.rows.len())
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &[
            (Curvature::Exact, CurvatureShape::Diag),
            (Curvature::Exact, CurvatureShape::Full),
            (Curvature::EmpiricalFisher, CurvatureShape::Diag),
        ]
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, mut out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        let all: Vec<u32> = (0..self.rows.len() as u32).collect();
        let chosen = match rows {
            Rows::All => &all[..],
            Rows::Subset(chosen) => chosen,
        };
        let scale = self.rows.len() as f64 / chosen.len() as f64;
        if let Some(curv) = &mut out.curv {
            curv.sums.fill(0.0);
        }
        for (i, z) in z.iter().enumerate() {
            let mut log_p = -0.5 * (z[0] * z[0] + z[1] * z[1]);
            let mut grad = [-z[0], -z[1]];
            let mut hess = [-1.0, 0.0, 0.0, -1.0];
            let exact = out.curv.as_ref().is_none_or(|curv| curv.kind == Curvature::Exact);
            for &row in chosen {
                let (x, y) = self.rows[row as usize];
                let error = y - x[0] * z[0] - x[1] * z[1];
                let square = if exact { 1.0 } else { error * error };
                log_p -= 0.5 * scale * error * error;
                for a in 0..2 {
                    grad[a] += scale * error * x[a];
                    for b in 0..2 {
                        hess[2 * a + b] -= scale * square * x[a] * x[b];
                    }
                }
            }
            out.log_p[i] = log_p;
            if let Some(all_grads) = &mut out.grad {
                all_grads[2 * i..2 * i + 2].copy_from_slice(&grad);
            }
            if let Some(curv) = &mut out.curv {
                let entries = match curv.shape {
                    CurvatureShape::Diag => vec![hess[0], hess[3]],
                    CurvatureShape::Full => hess.to_vec(),
                };
                let weights = curv.weights[i..].iter().step_by(out.log_p.len());
                for (weight, sum) in weights.zip(curv.sums.chunks_exact_mut(entries.len())) {
                    sum.iter_mut().zip(&entries).for_each(|(sum, entry)| *sum += weight * entry);
                }
            }
        }
        Ok(())
    }
}

fn three_modes() -> Mixture {
    let means = [vec![-2.0, 0.0], vec![2.0, 1.0], vec![0.0, 3.0]];
    let covariances = [
        vec![vec![0.5, 0.2], vec![0.2, 0.4]],
        vec![vec![1.0, -0.3], vec![-0.3, 0.5]],
        vec![vec![0.3, 0.0], vec![0.0, 0.8]],
    ];
    Mixture::from_moments(&[0.5, 0.3, 0.2], &means, Covariances::Full(&covariances)).unwrap()
}

struct BreakAt(u64);

impl Observer for BreakAt {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        Ok(if it.iteration == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Everything in a state but the clock, by name, as bytes: NaN and minus zero count.
fn numbers(fitted: &Fitted) -> BTreeMap<String, Vec<u8>> {
    let checkpoint = Checkpoint { state: fitted.state.clone(), config: fitted.config.clone() };
    let bytes = checkpoint.to_bytes().unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&header.metadata().as_ref().unwrap()["natmix"]).unwrap();
    // It covers the clock too.
    assert!(document.as_object_mut().unwrap().remove("checksum").is_some());
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut numbers: BTreeMap<_, _> =
        tensors.iter().map(|(name, tensor)| (name.to_owned(), tensor.data().to_vec())).collect();
    numbers.insert("document".into(), document.to_string().into_bytes());
    assert!(numbers.remove("seconds").is_some());
    numbers
}

fn assert_same(resumed: &Fitted, unbroken: &Fitted, case: &str) {
    for (name, expected) in numbers(unbroken) {
        assert_eq!(numbers(resumed)[&name], expected, "{case}: {name}");
    }
    let rest = |fitted: &Fitted| {
        (
            fitted.mixture.clone(),
            fitted.diagnostics.clone(),
            fitted.stop,
            fitted.iterations,
            fitted.evals,
            fitted.dropped,
        )
    };
    assert_eq!(rest(resumed), rest(unbroken), "{case}");
    let bits = |fitted: &Fitted| (fitted.running_elbo.0.to_bits(), fitted.running_elbo.1.to_bits());
    assert_eq!(bits(resumed), bits(unbroken), "{case}");
}

/// A fit from a mixture, or from where the settings say.
fn begin<'a>(target: &'a dyn Target, config: &Config, start: Option<&Mixture>) -> Fit<'a> {
    let fit = Fit::new(target, config.clone());
    match start {
        Some(mixture) => fit.start(mixture.clone()),
        None => fit,
    }
}

fn check(target: &dyn Target, config: &Config, break_at: u64, every: u64, case: &str) -> Fitted {
    check_from(None, target, config, (break_at, every), case)
}

/// Runs without interruption; interrupted at an iteration and resumed from memory; and resumed from the file of the last
/// checkpoint before.
fn check_from(
    start: Option<&Mixture>,
    target: &dyn Target,
    config: &Config,
    (break_at, every): (u64, u64),
    case: &str,
) -> Fitted {
    let folder = Folder::new(&format!("resume-{case}"));
    let path = folder.file("checkpoint.safetensors");
    let unbroken = begin(target, config, start).run().unwrap();
    assert!(unbroken.iterations > break_at, "{case} ended too early to be broken");

    let broken = begin(target, config, start)
        .observe(&mut Checkpointer::new(&path, every))
        .observe(&mut BreakAt(break_at))
        .run()
        .unwrap();
    assert_eq!((broken.stop.reason, broken.iterations), (StopReason::Cancelled, break_at), "{case}");
    let resumed = Fit::new(target, config.clone()).resume(broken.state).run().unwrap();
    assert_same(&resumed, &unbroken, case);

    let bytes = std::fs::read(&path).unwrap();
    let checkpoint = Checkpoint::load(&path).unwrap();
    assert_eq!(checkpoint.to_bytes().unwrap(), bytes, "{case}: a second trip through the file");
    assert_eq!(checkpoint.config, *config, "{case}");
    assert_eq!(checkpoint.state.iteration(), break_at / every * every, "{case}");
    let resumed = Fit::new(target, checkpoint.config).resume(checkpoint.state).run().unwrap();
    assert_same(&resumed, &unbroken, case);
    unbroken
}

fn short(method: Method) -> Config {
    Config {
        max_iterations: 22,
        tolerance: 1e-300,
        diagnostic_draws: 300,
        seed: 11,
        threads: 2,
        ..Config::new(method).with_parts(|parts| Parts { draws_per_component: 12, ..parts })
    }
}

#[test]
fn every_method_with_one_and_three_components_of_either_shape() {
    let modes = three_modes();
    let regression = UnitRegression::new();
    for (method, name, _) in Method::ALL {
        for components in [1, 3] {
            for &covariance in CovarianceKind::ALL {
                if covariance == CovarianceKind::LowRank && method != Method::Auto {
                    continue;
                }
                let case = format!("{name}-{components}-{}", covariance.name());
                let config = Config { covariance, ..short(method).with_components(components) };
                if method == Method::Vogn {
                    if covariance == CovarianceKind::Diag {
                        let config = config.with_parts(|parts| Parts { minibatch: Some(5), ..parts });
                        let unbroken = check(&regression, &config, 7, 7, &case);
                        assert!(numbers(&unbroken)["velocities"].iter().any(|byte| *byte != 0));
                    }
                    continue;
                }
                let unbroken = check(&modes, &config, 7, 7, &case);
                let numbers = numbers(&unbroken);
                assert!(numbers.contains_key("best_means"), "{case}: no best mixture was kept");
                let adam = numbers.get("adam_second").is_some_and(|numbers| !numbers.is_empty());
                assert_eq!(adam, method == Method::Bbvi, "{case}");
                // The last checkpoint is older than the break.
                check(&modes, &config, 8, 3, &case);
            }
        }
    }
}

#[test]
fn minibatches_and_fitted_tricks() {
    let config = short(Method::ComponentDraws).with_parts(|parts| Parts {
        minibatch: Some(4),
        entropy_trick: natmix::estimate::Trick::Fitted,
        draws: natmix::draws::Plan::Independent,
        draws_per_component: 40,
        ..parts
    });
    check(&UnitRegression::new(), &config, 7, 5, "minibatch-full");
    check(&UnitRegression::new(), &config.clone().with_components(3), 7, 5, "minibatch-mixture");
    // Narrower than the target, where the fitted coefficients are neither zero nor one.
    let narrow = vec![0.3];
    let config = Config {
        init_sd: narrow,
        ..config.with_parts(|parts| Parts { components: 2, minibatch: None, trust_region: 1e-3, ..parts })
    };
    let config = Config { max_iterations: 9, ..config };
    let unbroken = check(&three_modes(), &config, 7, 5, "fitted-trick");
    let numbers = numbers(&unbroken);
    assert_ne!(numbers["value_tricks"], numbers["grad_tricks"]);
}

#[test]
fn components_in_another_order_keep_their_ids() {
    let modes = three_modes();
    let config = short(Method::MixtureDraws).with_components(3);
    let first = Fit::new(&modes, Config { max_iterations: 1, ..config.clone() }).run().unwrap().state.mixture().clone();
    let unbroken = check_from(Some(&first.reordered(&[2, 0, 1])), &modes, &config, (7, 5), "reordered");
    assert_eq!(unbroken.state.mixture().ids(), [2, 0, 1]);
}

/// Long enough for bins of the history to be merged several times, and broken within one; ends by convergence.
#[test]
fn a_long_history_ends_at_the_same_iteration() {
    let target = Mixture::single(Gaussian::isotropic(vec![3.0], 0.5));
    let config = Config {
        tolerance: 0.01,
        diagnostic_draws: 100,
        ..Parts {
            draws_per_component: 4,
            draws: natmix::draws::Plan::Independent,
            entropy_trick: natmix::estimate::Trick::Off,
            rate: 0.005,
            ..Parts::new(Method::Ngvi)
        }
        .into()
    };
    let unbroken = check(&target, &config, 601, 587, "long");
    assert_eq!(unbroken.stop.reason, StopReason::Converged);
}

#[test]
fn damaged_checkpoints_are_refused() {
    let modes = three_modes();
    let fitted = Fit::new(&modes, short(Method::Bbvi).with_components(3)).run().unwrap();
    let bytes = Checkpoint { state: fitted.state, config: fitted.config }.to_bytes().unwrap();
    for len in 0..bytes.len() {
        assert!(matches!(read_checkpoint_bytes(&bytes[..len]), Err(Error::BadFile { .. })), "{len}");
    }
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            assert!(matches!(read_checkpoint_bytes(&damaged), Err(Error::BadFile { .. })), "{at}");
        }
    }
    // A checkpoint without a checksum may be valid after all.
    let bytes = unsealed(bytes);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        match read_checkpoint_bytes(&damaged) {
            Ok(checkpoint) => assert!(checkpoint.to_bytes().is_ok(), "{at}"),
            Err(error) => assert!(matches!(error, Error::BadFile { .. }), "{at}: {error}"),
        }
    }
}

/// The same file without a checksum, which would notice every change first.
fn unsealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let name = br#"\"checksum\":"#;
    let at = bytes.windows(name.len()).position(|part| part == name).unwrap() + name.len();
    bytes[at..at + 20].copy_from_slice(b"null                ");
    bytes
}

#[test]
fn checkpoints_by_the_clock_and_with_a_fingerprint() {
    let modes = three_modes();
    let folder = Folder::new("resume-clock");
    let config = Config { max_iterations: 7, ..short(Method::ComponentDraws) };
    for (interval, expected) in [(Duration::ZERO, Some(7)), (Duration::from_secs(1000), None)] {
        let path = folder.file(&format!("{}", interval.as_secs()));
        let mut observer =
            Checkpointer::new(&path, 100).and_after(interval).with_data(Some("0123456789abcdef".to_owned()));
        Fit::new(&modes, config.clone()).observe(&mut observer).run().unwrap();
        let state = path.exists().then(|| Checkpoint::load(&path).unwrap().state);
        assert_eq!(state.as_ref().map(|state| state.iteration()), expected);
        assert!(state.is_none_or(|state| state.data() == Some("0123456789abcdef")));
    }
}

/// A run that was killed between its last iteration and its results resumes from its final state.
#[test]
fn a_finished_run_resumes_to_the_same_end() {
    let modes = three_modes();
    for config in [Config::default(), Config::new(Method::ComponentDraws).with_components(3), short(Method::Ngvi)] {
        let unbroken = Fit::new(&modes, config.clone()).run().unwrap();
        let bytes = Checkpoint { state: unbroken.state.clone(), config }.to_bytes().unwrap();
        let Checkpoint { state, config } = read_checkpoint_bytes(&bytes).unwrap();
        let name = config.method().name();
        let resumed = Fit::new(&modes, config).resume(state).run().unwrap();
        assert_same(&resumed, &unbroken, name);
    }
}

#[test]
fn impossible_histories_and_counters_are_refused() {
    let modes = three_modes();
    let fitted = Fit::new(&modes, short(Method::ComponentDraws)).run().unwrap();
    let bytes = unsealed(Checkpoint { state: fitted.state, config: fitted.config }.to_bytes().unwrap());
    for (from, to, message) in [
        ("\\\"filled\\\":0,", "\\\"filled\\\":9,", "history"),
        ("\\\"width\\\":1", "\\\"width\\\":3", "history"),
        ("\\\"iteration\\\":22,", "\\\"iteration\\\":9e", "damaged"),
        ("\\\"components\\\":1,", "\\\"components\\\":2,", "number or shape"),
        ("\\\"rate\\\":0.3,", "\\\"rate\\\":-.3,", "damaged"),
        ("\\\"rate\\\":0.3,", "\\\"rate\\\":0.0,", "`rate`"),
    ] {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
        let at = at.unwrap_or_else(|| panic!("{from} is not in the file"));
        let mut damaged = bytes.clone();
        damaged[at..at + to.len()].copy_from_slice(to.as_bytes());
        let error = read_checkpoint_bytes(&damaged).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_run_but_keeps_its_result() {
    let modes = three_modes();
    let folder = Folder::new("resume-unwritable");
    let path = folder.file("missing").join("checkpoint");
    let fitted =
        Fit::new(&modes, short(Method::ComponentDraws)).observe(&mut Checkpointer::new(&path, 4)).run().unwrap();
    assert_eq!((fitted.stop.reason, fitted.iterations), (StopReason::ObserverFailed, 4));
    assert!(matches!(fitted.observer_error, Some(Error::Io { file, .. }) if file == path.display().to_string()));
}

#[test]
fn posteriors_and_checkpoints_are_not_mistaken_for_each_other() {
    let modes = three_modes();
    let fitted = Fit::new(&modes, short(Method::ComponentDraws)).run().unwrap();
    let checkpoint = Checkpoint { state: fitted.state, config: fitted.config }.to_bytes().unwrap();
    let error = natmix::save::read_posterior_bytes(&checkpoint).unwrap_err().to_string();
    assert_eq!(error, "posterior: holds a checkpoint: give a posterior instead");
}
