use super::*;

/// Work alone: nothing is lost on the way.
fn ideal() -> ScaleOptions {
    ScaleOptions { latency: 0.0, dispatch: 0.0, bytes_per_point: 0.0, engine_seconds: 0.0, ..ScaleOptions::default() }
}

fn seconds(options: &ScaleOptions, workers: usize) -> f64 {
    fit_seconds(options, workers, options.chunk)
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.max(1.0), "{found} is not {expected}");
}

#[test]
fn without_overhead_time_is_the_number_of_rounds() {
    let options = ideal();
    for workers in [1, 2, 3, 4, 7, 64, 1000] {
        let rounds = 64_usize.div_ceil(workers) as f64;
        assert_near(seconds(&options, workers), 100.0 * rounds * 0.05);
    }
    let options = ScaleOptions { chunk: 10, ..options };
    // Seven chunks, of which the last has four points.
    assert_near(seconds(&options, 1), 100.0 * 64.0 * 0.05);
    assert_near(seconds(&options, 7), 100.0 * 10.0 * 0.05);
    assert_near(seconds(&options, 4), 100.0 * 20.0 * 0.05);
}

#[test]
fn a_host_that_is_busy_limits_all() {
    let options = ScaleOptions { dispatch: 0.01, seconds_per_point: 1e-6, ..ideal() };
    for workers in [1, 100] {
        let found = seconds(&options, workers);
        assert!((64.0..64.1).contains(&found), "{found}");
    }
    assert_eq!(best_chunk(&options, 100).1, 64, "one chunk is sent once");
}

#[test]
fn latency_and_the_engine_are_paid_once_per_batch() {
    let options = ScaleOptions { latency: 0.2, engine_seconds: 0.3, ..ideal() };
    // While one chunk is computed the next one is on its way.
    let options = ScaleOptions { seconds_per_point: 0.5, ..options };
    assert_near(seconds(&options, 1), 100.0 * (64.0 * 0.5 + 0.2 + 0.3));
    assert_near(seconds(&options, 64), 100.0 * (0.5 + 0.2 + 0.3));
}

#[test]
fn points_that_vary_make_all_wait_for_the_slowest() {
    let even = ideal();
    let uneven = ScaleOptions { variation: 1.0, ..ideal() };
    let ratio = |workers: usize| seconds(&uneven, workers) / seconds(&even, workers);
    assert!((ratio(1) - 1.0).abs() < 0.05, "{}", ratio(1));
    // The largest of 64 log-normal times with this variation is about 5.5 times their mean.
    assert!((4.0..7.0).contains(&ratio(64)), "{}", ratio(64));
}

#[test]
fn rows_are_shared_and_sums_combined() {
    let options = ScaleOptions { split: Split::Rows, latency: 0.1, ..ideal() };
    assert_near(seconds(&options, 1), 100.0 * 64.0 * 0.05);
    assert_near(seconds(&options, 5), 100.0 * (64.0 * 0.05 / 5.0 + 3.0 * 0.1));
}

#[test]
fn the_report_says_where_it_stops_to_pay() {
    // A power of two: no rounding at the border.
    let ideal = || ScaleOptions { seconds_per_point: 0.0625, ..ideal() };
    let report = run(&ScaleOptions { workers: vec![1, 64, 1000], ..ideal() }).unwrap();
    // 64 points in a single round; with 128 workers half of them are idle.
    assert_eq!(report.pays_up_to, 128);
    assert_eq!(report.predictions[1].efficiency, 1.0);
    let text = report.to_string();
    assert!(text.contains("Up to 128 workers") && text.contains("A batch has 64 chunks"), "{text}");
    // All wait for the host.
    let busy = ScaleOptions { dispatch: 10.0, ..ideal() };
    assert!(run(&busy).unwrap().pays_up_to <= 2);
}

#[test]
fn impossible_constants_are_refused() {
    let refused = |options: ScaleOptions| run(&options).unwrap_err().to_string();
    assert!(
        refused(ScaleOptions { seconds_per_point: 0.0, ..ideal() }).contains("--seconds-per-point must be positive")
    );
    assert!(refused(ScaleOptions { latency: f64::NAN, ..ideal() }).contains("--latency"));
    assert!(refused(ScaleOptions { bandwidth: 0.0, ..ideal() }).contains("--bandwidth"));
    assert!(refused(ScaleOptions { chunk: 0, ..ideal() }).contains("--chunk must be from 1"));
    assert!(refused(ScaleOptions { workers: vec![0], ..ideal() }).contains("--workers"));
}
