//! Posteriors survive a file to the bit; what could not be read again is not written.

mod folder;
#[path = "common/posteriors.rs"]
mod posteriors;

use folder::Folder;
use natmix::answer::delivered::{DeliveredChains, DeliveredDraws};
use natmix::family::{Gaussian, Mixture};
use natmix::save::{Posterior, read_posterior_bytes};
use natmix::{Config, Error, Fit, Method};
use posteriors::{diag, full, posterior};
use serde_json::json;

#[test]
fn round_trips_are_exact() {
    let folder = Folder::new("save-round-trips");
    let extreme = Mixture::single(Gaussian::isotropic(vec![1e300, -5e-324, -0.0], 1e-150));
    let uneven = Mixture::new(&[1e-250, 1.0], diag(2, 2).components().to_vec()).unwrap();
    let target = full(3, 3);
    let fit = |method| {
        let config = Config { max_iterations: 30, diagnostic_draws: 0, ..Config::new(method).with_components(3) };
        Fit::new(&target, config).run().unwrap().mixture
    };
    let large = full(2, 40);
    for (i, mixture) in [
        full(1, 1),
        full(3, 2),
        diag(1, 1),
        diag(4, 3),
        full(4, 2).reordered(&[2, 0, 3, 1]),
        extreme,
        uneven,
        fit(Method::ComponentDraws),
        fit(Method::Ngvi),
        fit(Method::Bbvi),
        large,
    ]
    .into_iter()
    .enumerate()
    {
        let saved = Posterior {
            parameter_names: vec!["größe \"x\"\n".into(); i],
            details: json!({"rate": 0.1 + 0.2, "big": u64::MAX, "nested": [null, {"a": -1e-310}], "text": "\u{0}é"}),
            answer: (i % 2 == 1).then(|| DeliveredDraws {
                draws: vec![-0.5; 3 * mixture.dim()],
                weights: vec![0.25, 0.5, 0.25],
                chains: (i % 4 == 1).then(|| DeliveredChains {
                    count: 3,
                    per_start: 1,
                    every: 2,
                    log_p: vec![-1.0, -2.5, -0.0],
                    energy: vec![1.0, 2.0, 3.0],
                    energy_change: vec![0.5, -0.5, 1e-300],
                    diverged: vec![true, false, false],
                }),
            }),
            mixture,
        };
        let path = folder.file(&format!("{i}.safetensors"));
        saved.save(&path).unwrap();
        let loaded = Posterior::load(&path).unwrap();
        assert_eq!(loaded, saved);
        // Equality does not tell minus zero from zero; bytes do. They are also the same every time.
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(loaded.to_bytes().unwrap(), bytes);
        assert_eq!(read_posterior_bytes(&bytes).unwrap(), saved);
        assert_eq!(loaded.mixture.sample(5, 1), saved.mixture.sample(5, 1));
    }
    assert_eq!(std::fs::read_dir(&*folder).unwrap().count(), 11, "temporary files were left behind");
}

#[test]
fn chains_that_do_not_match_their_draws_are_refused() {
    let numbers = vec![1.0; 4];
    let chains = |count, per_start| DeliveredChains {
        count,
        per_start,
        every: 1,
        log_p: numbers.clone(),
        energy: numbers.clone(),
        energy_change: numbers.clone(),
        diverged: vec![false; 4],
    };
    let bytes = |chains| {
        let answer = DeliveredDraws { draws: vec![0.0; 4], weights: vec![0.25; 4], chains: Some(chains) };
        Posterior { answer: Some(answer), ..posterior(full(1, 1)) }.to_bytes()
    };
    assert!(read_posterior_bytes(&bytes(chains(4, 2)).unwrap()).is_ok());
    for wrong in [chains(3, 1), chains(4, 3), chains(0, 1), chains(2, 0)] {
        let error = bytes(wrong).unwrap_err().to_string();
        assert!(error.contains("chains that do not match its draws"), "{error}");
    }
}

#[test]
fn other_readers_find_row_major_factors() {
    let mixture = full(2, 3);
    let bytes = posterior(mixture.clone()).to_bytes().unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |name: &str| -> Vec<f64> {
        let data = tensors.tensor(name).unwrap().data().to_vec();
        data.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect()
    };
    let (factors, precisions) = (numbers("factors"), numbers("precisions"));
    assert_eq!(tensors.tensor("factors").unwrap().shape(), [2, 3, 3]);
    for k in 0..2 {
        for (i, j) in (0..9).map(|at| (at / 3, at % 3)) {
            let row = |i: usize| &factors[9 * k + 3 * i..][..3];
            let product: f64 = row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
            assert!((product - precisions[9 * k + 3 * i + j]).abs() < 1e-12);
            assert!(j <= i || row(i)[j] == 0.0);
        }
    }
}

#[test]
fn files_that_cannot_be_written_or_read() {
    let folder = Folder::new("save-unwritable");
    let saved = posterior(full(2, 2));
    let is_io = |result: Result<(), Error>, path: &std::path::Path| {
        assert!(matches!(result, Err(Error::Io { file, .. }) if file == path.display().to_string()));
    };
    let missing = folder.file("missing").join("posterior");
    is_io(saved.save(&missing), &missing);
    is_io(Posterior::load(&missing).map(drop), &missing);

    // A folder where the file should be.
    is_io(saved.save(&folder), &folder);
    let error = Posterior::load(&folder).unwrap_err();
    assert!(matches!(error, Error::BadFile { .. }) && error.to_string().contains("not a regular file"), "{error}");

    // A file where the folder should be.
    let file = folder.file("file");
    std::fs::write(&file, "not a folder").unwrap();
    is_io(saved.save(&file.join("posterior")), &file.join("posterior"));
    is_io(saved.save("".as_ref()), "".as_ref());

    let sealed = folder.file("sealed");
    std::fs::create_dir(&sealed).unwrap();
    let mut permissions = std::fs::metadata(&sealed).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&sealed, permissions).unwrap();
    // A superuser writes everywhere.
    if std::fs::write(sealed.join("probe"), "").is_err() {
        is_io(saved.save(&sealed.join("posterior")), &sealed.join("posterior"));
    }
    let left: Vec<_> = std::fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    #[cfg(unix)]
    std::fs::set_permissions(&sealed, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn what_cannot_be_read_again_is_not_written_and_the_old_file_stays() {
    let folder = Folder::new("save-refused");
    let path = folder.file("posterior");
    let saved = posterior(full(2, 2));
    saved.save(&path).unwrap();
    let nested = (0..200).fold(json!(1), |inner, _| json!([inner]));
    for refused in [
        posterior(Mixture::single(Gaussian::isotropic(vec![f64::NAN], 1.0))),
        Posterior { details: nested, ..saved.clone() },
        Posterior { details: json!("x".repeat(16 << 20)), ..saved.clone() },
    ] {
        let error = refused.save(&path).unwrap_err();
        assert!(matches!(error, Error::InvalidInput(_)), "{error}");
        assert!(error.to_string().starts_with("this posterior cannot be saved"), "{error}");
    }
    assert_eq!(Posterior::load(&path).unwrap(), saved);
    let other = posterior(diag(1, 1));
    other.save(&path).unwrap();
    assert_eq!(Posterior::load(&path).unwrap(), other);
    assert_eq!(std::fs::read_dir(&*folder).unwrap().count(), 1);
}
