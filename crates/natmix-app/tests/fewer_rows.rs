//! A regression with fewer rows than columns, from a table to a record: fitted in fewer dimensions, delivered in all of them.

use natmix::observe::Cancel;
use natmix_app::settings::Settings;
use natmix_app::{FitJob, FitRecord, FitWatch, Problem};
use std::fs;
use std::path::Path;
use std::time::Instant;

const ROWS: usize = 15;
const COLUMNS: usize = 40;

struct Silent;

impl FitWatch for Silent {}

fn fit(folder: &Path, out: &str, more: &str) -> FitRecord {
    let text = format!("model = 'logistic'\noutcome = 'y'\nseed = 2\nthreads = 1\n{more}");
    let mut settings: Settings = toml::from_str(&text).unwrap();
    settings.fit.data = Some(folder.join("wide.csv"));
    settings.fit.out = Some(folder.join(out));
    let problem = Problem::load(&settings).unwrap();
    let (watch, cancel, began) = (&mut Silent, Cancel::default(), Instant::now());
    let job = FitJob { problem: &problem, settings: &settings, start: None, cancel, watch, began };
    job.run_into_folder(false).unwrap()
}

fn write_table(path: &Path) {
    let names: Vec<String> = (0..COLUMNS).map(|j| format!("x{j}")).collect();
    let mut text = format!("{},y\n", names.join(","));
    for row in 0..ROWS {
        let value = |j: usize| 3.0 * (((row * COLUMNS + j) as f64 * 12.9898).sin() * 43_758.545_3).fract() + j as f64;
        let values: Vec<String> = (0..COLUMNS).map(|j| format!("{:.4}", value(j))).collect();
        text += &format!("{},{}\n", values.join(","), row % 2);
    }
    fs::write(path, text).unwrap();
}

#[test]
fn a_wide_table_is_fitted_in_all_coefficients() {
    let folder = std::env::temp_dir().join(format!("natmix-app-fewer-rows-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    write_table(&folder.join("wide.csv"));
    let record = fit(&folder, "wide", "trace_frames = 3");
    let report = &record.report;
    assert!(report.verdict.trusted == Some(true), "{:?}", report.verdict);
    assert_eq!(report.parameters.len(), COLUMNS + 1);
    assert_eq!((report.components[0].mean.len(), record.posterior.mixture.dim()), (COLUMNS + 1, COLUMNS + 1));
    assert!(report.loo.is_some() && record.formation.is_some());
    // The classes are separable.
    assert!(report.train.as_ref().unwrap().accuracy.unwrap() > 0.9);
    fs::remove_dir_all(folder).unwrap();
}
