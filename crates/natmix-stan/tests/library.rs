//! Libraries as they are: a model without Stan, and files that are none.

mod mock;

use natmix::target::{Target, log_p_at};
use natmix_stan::{Error, StanLibrary, StanModel, compile};
use std::path::PathBuf;
use std::sync::Arc;

/// What models print goes to one collector, so tests that look at messages run one at a time.
static MESSAGES: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("natmix-stan-library-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn load(test: &str, flags: &[&str]) -> Arc<StanLibrary> {
    let folder = folder(test);
    let library = compile::load(&mock::library(&folder, "mock.so", flags), &mut |_| {}).unwrap().library;
    std::fs::remove_dir_all(&folder).unwrap();
    library
}

#[test]
fn a_model_is_evaluated_as_it_is() {
    for flags in [&[][..], &["one_thread"]] {
        let model = StanModel::new(load("as-it-is", flags), r#"{"n": 1}"#, 1).unwrap();
        assert_eq!((model.name().as_str(), model.dim()), ("mock", 2));
        assert_eq!(model.parameter_names(), ["mu", "s", "t[1]", "t[2]"]);
        assert_eq!(model.all_names(), ["mu", "s", "t.1", "t.2", "y_rep", "log_lik"]);
        assert_eq!((model.parameters(), model.before_generated()), (2, 4));
        let expected = -0.5 - 2.0 * 0.25 - (2.0 * std::f64::consts::PI).ln() + 2f64.ln();
        assert!((log_p_at(&model, &[1.0, 0.5]).unwrap() - expected).abs() < 1e-14);
        let mut grad = [0.0; 2];
        model.log_density(&[1.0, 0.5], Some(&mut grad)).unwrap();
        assert_eq!(grad, [-1.0, -2.0]);
        let mut parameters = [0.0; 4];
        model.to_parameters(&[1.0, 0.0], &mut parameters);
        assert_eq!(parameters, [1.0, 1.0, 2.0, 0.0]);
        assert_eq!(model.unconstrain(r#"{"mu": 3.0, "s": 1}"#).unwrap(), [3.0, 0.0]);
        assert_eq!(model.unconstrain_values(&[3.0, 1.0]).unwrap(), [3.0, 0.0]);
        let shapes: Vec<_> = model.variables().into_iter().map(|v| (v.name, v.shape)).collect();
        assert_eq!(shapes[2], ("t".to_owned(), vec![2]));
    }
}

#[test]
fn rejected_points_cannot_be_evaluated_and_are_explained_once() {
    let _alone = MESSAGES.lock().unwrap();
    let model = StanModel::new(load("rejected", &[]), r#"{"n": 1, "print": 1}"#, 1).unwrap();
    for mu in [5.0, 6.0, 7.5, 0.0] {
        let log_p = log_p_at(&model, &[mu, 0.0]).unwrap();
        assert_eq!(log_p.is_nan(), mu > 4.0);
    }
    let messages: Vec<(String, u64)> = model.take_messages().into_iter().map(|m| (m.text, m.count)).collect();
    let rejected = "mu is 5, which is too much (in 'mock.stan', line 5, column 1)".to_owned();
    assert_eq!(messages, [("mu is 5 now".to_owned(), 4), (rejected, 3)]);
    assert!(model.take_messages().is_empty());
}

#[test]
fn generated_quantities_follow_from_the_seed_alone() {
    let model = StanModel::new(load("generated", &[]), r#"{"n": 1}"#, 1).unwrap();
    let z: Vec<f64> = (0..4000).map(|i| (i as f64 * 0.37).sin()).collect();
    let draws = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| model.draws(&z, seed).unwrap())
    };
    let one = draws(1, 3);
    assert_eq!(one, draws(4, 3));
    let random = |draws: &[f64]| draws.chunks_exact(6).map(|row| row[4]).collect::<Vec<_>>();
    assert_ne!(random(&one), random(&draws(1, 4)));
    let mut all = random(&one);
    all.sort_by(f64::total_cmp);
    all.dedup();
    assert_eq!(all.len(), 2000, "no two draws share a random number");
    for (row, z) in one.chunks_exact(6).zip(z.chunks_exact(2)) {
        assert_eq!((row[0], row[5]), (z[0], z[0]));
    }
    let fewer = model.draws_without_generated(&z).unwrap();
    assert!(fewer.chunks_exact(4).zip(one.chunks_exact(6)).all(|(a, b)| a == &b[..4]));
}

#[test]
fn a_model_can_be_stopped() {
    let model = StanModel::new(load("stop", &[]), r#"{"n": 1}"#, 1).unwrap();
    let (z, seed) = (vec![0.0; 2 * 10], 1);
    model.stop_flag().store(true, std::sync::atomic::Ordering::Relaxed);
    let errors = [
        model.draws(&z, seed).unwrap_err().to_string(),
        model.parameters_at(&z).unwrap_err().to_string(),
        log_p_at(&model, &z[..2]).unwrap_err().to_string(),
    ];
    assert!(errors.iter().all(|error| error.contains("it was stopped")), "{errors:?}");
    model.stop_flag().store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(model.parameters_at(&z).unwrap().len(), 10 * 4);
}

#[test]
fn many_threads_evaluate_at_once() {
    for flags in [&[][..], &["one_thread"]] {
        let model = StanModel::new(load("threads", flags), r#"{"n": 1}"#, 1).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let model = &model;
                scope.spawn(move || {
                    for i in 0..1000 {
                        let z = [f64::from(i % 4), f64::from(thread)];
                        let expected = -0.5 * z[0] * z[0] - 2.0 * z[1] * z[1];
                        let constant = -(2.0 * std::f64::consts::PI).ln() + 2f64.ln();
                        assert!((log_p_at(model, &z).unwrap() - expected - constant).abs() < 1e-12);
                    }
                });
            }
        });
    }
}

#[test]
fn data_and_initial_values_that_do_not_fit_are_refused() {
    let library = load("refused", &[]);
    let error = StanModel::new(library.clone(), "{}", 1).unwrap_err();
    assert!(matches!(&error, Error::Data(problem) if problem.starts_with("variable does not exist")), "{error}");
    let error = StanModel::new(library.clone(), "{\"n\": 1}\0", 1).unwrap_err();
    assert!(error.to_string().contains("code zero"), "{error}");
    let model = StanModel::new(library, r#"{"n": 1}"#, 1).unwrap();
    assert!(matches!(model.unconstrain("{}").unwrap_err(), Error::Init(_)));
    assert!(model.unconstrain(r#"{"mu": 3.0, "s": -1}"#).unwrap_err().to_string().contains("must be greater"));
    assert!(model.unconstrain(r#"{"mu": 3.0, "s": 0}"#).unwrap_err().to_string().contains("on the border"));
    assert!(model.unconstrain_values(&[1.0]).is_err());
    assert!(model.log_density(&[1.0], None).is_err());
}

#[test]
fn other_libraries_are_refused() {
    let folder = folder("other");
    let load = |path: &PathBuf| StanLibrary::load(path).unwrap_err();
    let error = load(&mock::library(&folder, "old.so", &["other_version"]));
    assert!(matches!(error, Error::Version { found: [1, 7, 0], expected: 2, .. }), "{error}");
    assert!(error.to_string().contains("version 1.7.0") && error.to_string().contains("compile the model again"));
    let text = folder.join("text.so");
    std::fs::write(&text, "this is no library").unwrap();
    assert!(matches!(load(&text), Error::Load { .. }));
    assert!(matches!(load(&folder.join("missing.so")), Error::Read { .. }));
    let empty = folder.join("empty.rs");
    std::fs::write(&empty, "").unwrap();
    let other = folder.join("other.so");
    let rustc =
        std::process::Command::new("rustc").args(["--crate-type=cdylib"]).arg(&empty).arg("-o").arg(&other).status();
    assert!(rustc.unwrap().success());
    assert!(load(&other).to_string().contains("bs_major_version"), "{}", load(&other));
    std::fs::remove_dir_all(&folder).unwrap();
}
