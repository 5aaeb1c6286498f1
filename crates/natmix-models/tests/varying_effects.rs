//! Varying effects against the exact answer.

#[path = "common/normal_hierarchy.rs"]
mod normal_hierarchy;
#[path = "common/normal_slopes.rs"]
mod normal_slopes;
#[path = "common/right.rs"]
mod right;

use natmix::config::{About, Finish, Overrides};
use natmix::target::{EvalOut, Points, Rows, Target};
use natmix::{Config, Scratch, fit};
use natmix_models::effects::{EffectsData, EffectsModel, Family};
use normal_hierarchy::{exact, simulate};
use right::{Marginal, delivered, worst_error};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Instant;

/// Fits with the defaults, for each seed, and compares what is delivered with the truth.
fn compare(what: &str, model: &EffectsModel, truth: &[Marginal], evidence: Option<f64>, seeds: RangeInclusive<u64>) {
    let names = model.parameter_names();
    let about = About { dim: model.dim(), rows: model.num_rows(), ..About::default() };
    for seed in seeds {
        let config = Overrides { seed: Some(seed), ..Overrides::default() }.resolve(None, &about).unwrap();
        let fitted = fit(model, &config).unwrap();
        let (parameters, weights) = delivered(model, &fitted);
        let (worst, place) = worst_error(&names, truth, &parameters, &weights);
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        println!(
            "{what}, seed {seed}: {:?}, trusted {}, worst {worst:.2} ({place}), {} + {} evaluations, {:.2} s",
            diagnostics.level, diagnostics.verdict.trusted, fitted.evals, fitted.chain_evals, fitted.seconds,
        );
        assert!(diagnostics.verdict.trusted, "{what}, seed {seed}: {:?}", diagnostics.verdict);
        assert!(worst <= 1.0, "{what}, seed {seed}: {place} is off by {worst} limits");
        let found = diagnostics.log_evidence;
        if let Some(evidence) = evidence.filter(|_| found.mean.is_finite()) {
            // Chains know the evidence to 0.25; see what is written about it in docs/chains.md.
            assert!(
                (found.mean - evidence).abs() < 5.0 * found.se.max(0.005),
                "{what}, seed {seed}: {found:?}, not {evidence}"
            );
        }
    }
}

fn check(what: &str, sizes: &[usize], (tau, sigma): (f64, f64), seeds: RangeInclusive<u64>) {
    let data = simulate(sizes, tau, sigma, 7);
    let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
    let (truth, evidence) = exact(&data, &model);
    compare(what, &model, &truth, Some(evidence), seeds);
}

/// Sizes from 1 to `most`, which look random.
fn unbalanced(groups: usize, most: usize) -> Vec<usize> {
    let mut random = normal_hierarchy::Stream::new(3);
    (0..groups).map(|_| 1 + (random.uniform() * most as f64) as usize).collect()
}

#[test]
fn ten_groups() {
    check("10 groups of 8", &[8; 10], (0.7, 1.0), 1..=5);
    check("10 groups of 1 to 8", &unbalanced(10, 8), (0.7, 1.0), 1..=5);
}

#[test]
fn eighty_five_groups() {
    check("85 groups of 11", &[11; 85], (0.4, 0.75), 1..=5);
    check("85 groups of 1 to 20", &unbalanced(85, 20), (0.4, 0.75), 1..=5);
    check("85 groups of 100, far apart", &[100; 85], (1.0, 1.0), 1..=5);
}

/// Many seeds take minutes: `NATMIX_SLOW=1` runs five.
fn seeds() -> RangeInclusive<u64> {
    if std::env::var_os("NATMIX_SLOW").is_some() { 1..=5 } else { 1..=1 }
}

#[test]
fn three_hundred_groups() {
    check("300 groups of 1 to 6", &unbalanced(300, 6), (0.5, 1.0), seeds());
    check("300 groups of 30", &[30; 300], (1.0, 1.0), seeds());
}

/// Groups of one row say nothing by themselves; without any spread between groups the posterior reaches down to zero.
#[test]
fn single_rows_and_no_spread() {
    let mut sizes = vec![1; 60];
    sizes.extend([7; 25]);
    check("60 groups of 1 and 25 of 7", &sizes, (0.6, 1.0), 1..=1);
    check("10 groups of 8 without spread", &[8; 10], (0.0, 1.0), 1..=1);
    check("85 groups of 6 without spread", &[6; 85], (0.0, 1.0), 1..=1);
}

/// As many as a person has: many minutes, so only with `NATMIX_LONG=1`.
#[test]
fn two_thousand_groups() {
    if std::env::var_os("NATMIX_LONG").is_none() {
        return;
    }
    check("1000 groups of 5", &[5; 1000], (0.7, 1.0), 1..=2);
    check("2000 groups of 1 to 6", &unbalanced(2000, 6), (0.7, 1.0), 1..=2);
    slopes("2000 groups", &normal_slopes::simulate(2000, 9, 7), 1..=2);
}

fn slopes(what: &str, data: &EffectsData, seeds: RangeInclusive<u64>) {
    let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
    println!("{what}: {} rows, {} coordinates", data.rows(), model.dim());
    compare(what, &model, &normal_slopes::reference(data, &model), None, seeds);
}

/// Radon in 919 homes of 85 counties (Gelman and Hill), with an intercept and the effect of the floor in each county.
#[test]
fn radon() {
    let Some(data) = std::env::var_os("NATMIX_DATA").map(PathBuf::from) else {
        println!("NATMIX_DATA is not set: not checked");
        return;
    };
    let path = data.join("posteriordb_noref/radon_mn-radon_hierarchical_intercept_noncentered/data.json");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let column = |name: &str| json[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>();
    let data = EffectsData {
        y: column("log_radon"),
        names: vec!["(intercept)".into(), "floor".into()],
        x: column("floor_measure").into_iter().flat_map(|floor| [1.0, floor]).collect(),
        ..EffectsData::default()
    };
    let level_of_row = column("county_idx").into_iter().map(|county| county as u32 - 1).collect();
    slopes("radon", &normal_slopes::in_counties(data, 85, level_of_row), 1..=5);
}

#[test]
fn intercepts_and_slopes_of_85_counties() {
    slopes("counties", &normal_slopes::simulate(85, 20, 7), 1..=5);
}

/// Nanoseconds per row and point of values and gradients: the best of many runs, since other programs may take their time.
fn time_per_row(data: &EffectsData) -> f64 {
    // Short enough not to be interrupted each time.
    let points = 800_000 / data.rows();
    let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
    let d = model.dim();
    let z: Vec<f64> = (0..points * d).map(|i| 0.3 * (i as f64).sin()).collect();
    let (mut log_p, mut grad, mut scratch) = (vec![0.0; points], vec![0.0; points * d], Scratch::default());
    let runs = (0..30).map(|_| {
        let begun = Instant::now();
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
        model.eval(Rows::All, Points::new(&z, d), out, &mut scratch).unwrap();
        begun.elapsed().as_secs_f64()
    });
    runs.fold(f64::INFINITY, f64::min) * 1e9 / (points * data.rows()) as f64
}

/// However many groups there are: 2,000 with five rows each have more coordinates than 10 with a thousand, which costs a little.
#[test]
fn time_grows_with_rows_times_evaluations() {
    let times = [10, 200, 2000].map(|groups| time_per_row(&simulate(&vec![10_000 / groups; groups], 0.7, 1.0, 7)));
    let many = time_per_row(&simulate(&[50; 2000], 0.7, 1.0, 7));
    println!(
        "10,000 rows in 10, 200 and 2,000 groups: {times:.1?} ns per row and point; 100,000 rows in 2,000: {many:.1} ns"
    );
    for time in [times[1], times[2], many] {
        assert!(time < 4.0 * times[0], "{time} ns");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let data = normal_slopes::simulate(12, 9, 3);
    let model = EffectsModel::new(Family::Robust, data, &[]).unwrap();
    let run = |threads: usize| {
        let config = Config { threads, max_evals: Some(3000), finish: Finish::Never, ..Config::default() };
        let fitted = fit(&model, &config).unwrap();
        (fitted.mixture.mean(), fitted.evals, fitted.diagnostics.unwrap().elbo.mean)
    };
    assert_eq!(run(1), run(8));
}
