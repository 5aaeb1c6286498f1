//! A fit into a folder that is interrupted within its chains goes on with them, to the same files.

use natmix::checkpoint::Checkpoint;
use natmix::observe::{Cancel, Finishing};
use natmix_app::settings::Settings;
use natmix_app::{FitJob, FitRecord, FitWatch, Problem};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Instant;

const T: &str = r#"{"kind": "student_mixture", "dim": 2, "df": 4, "weights": [1], "locations": [[1, 2]],
    "scales": [[[1, 0.5], [0.5, 1]]], "init": {"mean": 0, "sd": 2}}"#;

/// Cancels within the chains, and remembers which of their iterations it saw first.
struct Interrupting {
    cancel: Cancel,
    at: u64,
    first: Option<u64>,
}

impl FitWatch for Interrupting {
    fn finishing(&mut self, finishing: &Finishing) {
        let iteration = finishing.chains.iteration;
        self.first.get_or_insert(iteration);
        if iteration == self.at {
            self.cancel.cancel();
        }
    }
}

fn fit(folder: &Path, out: &str, at: u64, resume: bool) -> (FitRecord, Option<u64>) {
    let mut settings: Settings = toml::from_str("model = 'density'\nfinish = 'always'\nseed = 3").unwrap();
    settings.fit.spec = Some(folder.join("t.json"));
    settings.fit.out = Some(folder.join(out));
    let problem = Problem::load(&settings).unwrap();
    let cancel = Cancel::default();
    let mut watch = Interrupting { cancel: cancel.clone(), at, first: None };
    let began = Instant::now();
    let job = FitJob { problem: &problem, settings: &settings, start: None, cancel, watch: &mut watch, began };
    let record = job.run_into_folder(resume).unwrap();
    (record, watch.first)
}

/// A report without what depends on the clock.
fn timeless(record: &FitRecord) -> Value {
    let mut report = serde_json::to_value(&record.report).unwrap();
    assert!(report.as_object_mut().unwrap().remove("seconds").is_some());
    report
}

#[test]
fn a_fit_interrupted_within_its_chains_resumes_to_the_same_files() {
    let folder = std::env::temp_dir().join(format!("natmix-app-resume-chains-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("t.json"), T).unwrap();
    let (unbroken, _) = fit(&folder, "unbroken", u64::MAX, false);
    assert_eq!(timeless(&unbroken)["answer"]["level"], "chains");
    let file = |out: &str, name: &str| folder.join(out).join(name);
    // Twice, in the warm-up and while iterations are kept.
    for (at, resume, first) in [(40, false, 1), (90, true, 41)] {
        let (broken, seen) = fit(&folder, "broken", at, resume);
        assert_eq!((timeless(&broken)["stop"]["reason"].as_str(), seen), (Some("cancelled"), Some(first)));
        let checkpoint = Checkpoint::load(&file("broken", "checkpoint.safetensors")).unwrap();
        assert!(checkpoint.state.has_chains());
    }
    let (resumed, seen) = fit(&folder, "broken", u64::MAX, true);
    assert_eq!((timeless(&resumed), seen), (timeless(&unbroken), Some(91)));
    let [a, b] = ["unbroken", "broken"].map(|out| fs::read(file(out, "posterior.safetensors")).unwrap());
    assert!(a == b, "posterior.safetensors");
    assert!(!file("broken", "checkpoint.safetensors").exists());
    fs::remove_dir_all(folder).unwrap();
}
