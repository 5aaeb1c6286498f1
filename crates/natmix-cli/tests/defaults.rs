//! Known failures of other packages that must not happen here, with default settings and through the binary.

mod common;

use common::{CommandFolder, TableNoise, funnel_spec, gaussian_spec, number};
use std::collections::BTreeMap;
use std::f64::consts::{PI, TAU};
use std::fmt::Write;
use std::time::Instant;

/// pymc#6271: z ~ N(0, 1), y observed with some sd; the start uses the prior only.
#[test]
fn a_posterior_far_from_its_prior() {
    for (y, sd) in [(10.0f64, 0.5f64), (100.0, 0.5), (10.0, 1e-3)] {
        let variance = 1.0 / (1.0 + sd.powi(-2));
        let mean = variance * y / (sd * sd);
        let folder = CommandFolder::new(&format!("far-{y}-{sd}"));
        folder.write("target.json", gaussian_spec(mean, variance));
        folder.expect(&[0], "fit density --spec target.json --out fit --quiet");
        let mixture = folder.posterior("fit").mixture;
        let (found, spread) = (mixture.mean()[0], mixture.covariance()[0]);
        assert!((found - mean).abs() < 0.01 * variance.sqrt(), "y {y}, sd {sd}: mean {found}, expected {mean}");
        assert!((spread / variance - 1.0).abs() < 0.01, "y {y}, sd {sd}: variance {spread}, expected {variance}");
        let report = folder.report("fit");
        let (elbo, se) = (number(&report, "/elbo/mean"), number(&report, "/elbo/se"));
        assert!(elbo.abs() < 1e-3 + 3.0 * se, "y {y}, sd {sd}: ELBO {elbo} +- {se}");
    }
}

const LSD: &str = "x,y\n1.17,78.93\n2.97,58.2\n3.26,67.47\n4.69,37.47\n5.83,45.65\n6.00,32.92\n6.41,29.97\n";

/// pymc#2162: seven rows, wide priors, unknown noise.
#[test]
fn a_steep_line_through_seven_points() {
    let folder = CommandFolder::new("lsd");
    folder.write("lsd.csv", LSD);
    let ones =
        LSD.lines().map(|line| if line.starts_with('x') { format!("one,{line}\n") } else { format!("1,{line}\n") });
    folder.write("ones.csv", ones.collect::<String>());
    // The intercept's prior is ten times wider than --prior-sd; as a column of ones it is exactly N(0, 100^2).
    let fits = [
        ("asis", "lsd.csv --no-standardize --prior-sd 100"),
        ("ones", "ones.csv --no-standardize --no-intercept --prior-sd 100"),
        ("default", "lsd.csv"),
    ];
    for (name, options) in fits {
        // One Gaussian for the noise of seven points is not trusted everywhere; its means are right.
        folder.expect(&[0, 1], &format!("fit linear --data {options} --outcome y --out {name} --quiet"));
        let report = folder.report(name);
        let (intercept, slope) = (number(&report, "/parameters/0/mean"), number(&report, "/parameters/1/mean"));
        assert!(
            (slope + 9.0).abs() < 0.5 && (intercept - 89.0).abs() < 2.5,
            "{name}: slope {slope}, intercept {intercept}"
        );
        let sigma = number(&report, "/parameters/2/mean");
        assert!(sigma > 4.0 && sigma < 12.0, "{name}: noise {sigma}");
        assert!(report["stop"]["converged"] == true, "{name}: {}", report["stop"]);
    }
}

/// pymc#1147: many rows; GPflow#820: with natural gradients no covariance ever stops being positive definite.
#[test]
fn many_rows() {
    const FEATURES: usize = 7;
    let truth: [f64; FEATURES] = std::array::from_fn(|j| 0.5 - 0.2 * j as f64);
    let mut noise = TableNoise(5);
    let mut table = String::from("a,b,c,d,e,f,g,y,count\n");
    for _ in 0..100_000 {
        let x: [f64; FEATURES] = std::array::from_fn(|_| noise.normal());
        let eta: f64 = x.iter().zip(truth).map(|(x, b)| x * b).sum();
        x.iter().for_each(|x| write!(table, "{x:.6},").unwrap());
        let y = u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp()));
        // A Poisson count by Knuth's product of uniforms.
        let (limit, mut product, mut count) = ((-eta.exp()).exp(), noise.uniform(), 0);
        while product > limit {
            (product, count) = (product * noise.uniform(), count + 1);
        }
        writeln!(table, "{y},{count}").unwrap();
    }
    let folder = CommandFolder::new("many");
    let without = |column: usize| -> String {
        let keep = |line: &str| {
            line.split(',').enumerate().filter(|f| f.0 != column).map(|f| f.1).collect::<Vec<_>>().join(",")
        };
        table.lines().map(|line| keep(line) + "\n").collect()
    };
    folder.write("logistic.csv", without(FEATURES + 1));
    folder.write("poisson.csv", without(FEATURES));
    for (model, outcome) in [("logistic", "y"), ("poisson", "count")] {
        let begun = Instant::now();
        let fit = format!("fit {model} --data {model}.csv --outcome {outcome} --quiet");
        folder.expect(&[0], &format!("{fit} --out {model}"));
        println!("{model}, 100,000 rows: {:.1} s", begun.elapsed().as_secs_f64());
        // A guard against a fit that does not end: slow machines take more than a minute.
        assert!(begun.elapsed().as_secs() < 300, "{model} took {:?}", begun.elapsed());
        let report = folder.report(model);
        for (j, truth) in truth.iter().enumerate() {
            let [mean, sd] = ["mean", "sd"].map(|what| number(&report, &format!("/parameters/{}/{what}", j + 1)));
            assert!(sd > 0.0 && (mean - truth).abs() < 4.5 * sd, "{model}, feature {j}: {mean} +- {sd}, truth {truth}");
        }
        let text = String::from_utf8(folder.read(&format!("{model}/trace.jsonl"))).unwrap();
        assert!(!text.contains("null") && !text.contains("NaN"), "{model}: the trace has numbers that are none");
    }
    // Full natural-gradient steps from a distant start, with estimated and with exact curvature.
    for model in ["logistic", "poisson"] {
        let text = String::from_utf8(folder.read(&format!("{model}.csv"))).unwrap();
        folder.write(&format!("{model}.csv"), text.lines().take(10_001).collect::<Vec<_>>().join("\n"));
    }
    for method in ["ngvi", "von"] {
        for (model, outcome) in [("logistic", "y"), ("poisson", "count")] {
            let far = format!("--method {method} --rate 1 --init-mean 3 --init-sd 10 --max-evals 1000");
            folder.expect(
                &[0, 1],
                &format!("fit {model} --data {model}.csv --outcome {outcome} {far} --quiet --out far"),
            );
            for sd in folder.posterior("far").mixture.components()[0].sd() {
                assert!(sd.is_finite() && sd > 0.0, "{method}, {model}: sd {sd}");
            }
        }
    }
}

/// pymc#2310: if the start is already the answer, the fit ends quickly.
#[test]
fn a_standard_normal_stops_early() {
    let folder = CommandFolder::new("normal");
    folder.write("target.json", gaussian_spec(0.0, 1.0));
    folder.expect(&[0], "fit density --spec target.json --out fit --quiet");
    let report = folder.report("fit");
    assert!(report["stop"]["converged"] == true && number(&report, "/iterations") <= 50.0, "{}", report["iterations"]);
    let (elbo, se) = (number(&report, "/elbo/mean"), number(&report, "/elbo/se"));
    assert!(elbo.abs() < 1e-4 + 3.0 * se, "ELBO {elbo} +- {se}");
}

/// pyvbmc#68: the returned mixture is never worse than the best in the trace, within the error.
#[test]
fn the_best_is_returned() {
    let folder = CommandFolder::new("best");
    folder.write("funnel.json", funnel_spec(5));
    for seed in 1..=5 {
        let fit = "fit density --spec funnel.json --components 5 --max-evals 60000 --quiet --out fit";
        folder.expect(&[0, 1], &format!("{fit} --seed {seed}"));
        let trace = String::from_utf8(folder.read("fit/trace.jsonl")).unwrap();
        let rows: Vec<(f64, f64)> = trace
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|row| (number(&row, "/elbo"), number(&row, "/se")))
            .collect();
        // Single estimates are noisy and their largest is biased upwards: means of eight, as the engine compares.
        let mean_of = |window: &[(f64, f64)]| {
            let n = window.len() as f64;
            let mean = window.iter().map(|row| row.0).sum::<f64>() / n;
            (mean, window.iter().map(|row| row.1 * row.1).sum::<f64>().sqrt() / n)
        };
        let best = rows.windows(8).map(mean_of).max_by(|a, b| (a.0 - a.1).total_cmp(&(b.0 - b.1))).unwrap();
        let report = folder.report("fit");
        let (elbo, se) = (number(&report, "/elbo/mean"), number(&report, "/elbo/se"));
        let error = 4.0 * se.hypot(best.1);
        assert!(elbo > best.0 - error - 0.01, "seed {seed}: ELBO {elbo} +- {se}, but {} +- {} was met", best.0, best.1);
    }
}

/// stan#3239, pymc#3395: two processes, 1 and 8 threads.
#[test]
fn threads_change_nothing() {
    let folder = CommandFolder::new("threads-8");
    folder.write("funnel.json", funnel_spec(8));
    for threads in [1, 8] {
        let fit = "fit density --spec funnel.json --components 6 --max-evals 50000 --seed 3 --quiet";
        folder.expect(&[0, 1], &format!("{fit} --threads {threads} --out t{threads}"));
    }
    folder.assert_same("t1", "t8");
    assert_eq!(folder.read("t1/config.toml"), folder.read("t8/config.toml"));
    for array in ["posterior/z0", "posterior/z7", "sample_stats/component"] {
        let [one, eight] = ["t1", "t8"].map(|dir| folder.read(&format!("{dir}/draws.zarr/{array}/0.0")));
        assert!(one == eight, "{array} differs");
    }
    let draws = [1, 8].map(|t| folder.expect(&[0], &format!("sample --posterior t{t} -n 100")).out);
    assert_eq!(draws[0], draws[1]);
}

/// The posterior of the phases in `testdata/phase.json`, by the midpoint rule between its bounds.
struct PhaseReference {
    log_evidence: f64,
    /// Mean and standard deviation of `tec`.
    tec: [f64; 2],
    /// Weight of each ridge, by its number of turns.
    ridges: BTreeMap<i64, f64>,
}

/// Which ridge a point is on: turns of the mean phase, counted from the truth. Between two ridges the density is some
/// e^-90 of its peaks.
fn ridge(slopes: &[f64], tec: f64, offset: f64) -> i64 {
    let mean_slope = slopes.iter().sum::<f64>() / slopes.len() as f64;
    ((offset - 1.0 + mean_slope * (tec - 55.0)) / TAU).round() as i64
}

fn phase_reference(slopes: &[f64], cos: &[f64], sin: &[f64]) -> PhaseReference {
    const VARIANCE: f64 = 0.5;
    let (n, m) = (800, 400);
    let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
    let mut ridges = BTreeMap::new();
    for i in 0..n {
        let tec = -100.0 + 200.0 * (f64::from(i) + 0.5) / f64::from(n);
        // sum_j cos_j cos(phi_j) + sin_j sin(phi_j) = a cos(offset) + b sin(offset)
        let (mut a, mut b) = (0.0, 0.0);
        for ((slope, c), s) in slopes.iter().zip(cos).zip(sin) {
            let (turn_sin, turn_cos) = (slope * tec).sin_cos();
            a += c * turn_cos + s * turn_sin;
            b += s * turn_cos - c * turn_sin;
        }
        for j in 0..m {
            let offset = -PI + TAU * (f64::from(j) + 0.5) / f64::from(m);
            let density = ((a * offset.cos() + b * offset.sin()) / VARIANCE).exp();
            (total, first, second) = (total + density, first + density * tec, second + density * tec * tec);
            *ridges.entry(ridge(slopes, tec, offset)).or_insert(0.0) += density;
        }
    }
    let squares: f64 = cos.iter().zip(sin).map(|(c, s)| c * c + s * s + 1.0).sum();
    let constants = squares / (2.0 * VARIANCE) + slopes.len() as f64 * (TAU * VARIANCE).ln();
    let (mean, square) = (first / total, second / total);
    ridges.values_mut().for_each(|weight| *weight /= total);
    PhaseReference {
        log_evidence: (total / f64::from(n * m)).ln() - constants,
        tec: [mean, (square - mean * mean).sqrt()],
        ridges,
    }
}

/// numpyro#643: a posterior of several ridges; each is found with its weight, or the fit says that it cannot be
/// trusted.
#[test]
fn phases_with_several_turns() {
    let spec = include_str!("../testdata/phase.json");
    let data: serde_json::Value = serde_json::from_str(spec).unwrap();
    let list =
        |name: &str| -> Vec<f64> { data[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect() };
    let slopes: Vec<f64> = list("frequencies").iter().map(|f| -8.4479745e6 / f).collect();
    let truth = phase_reference(&slopes, &list("cos"), &list("sin"));
    let heavy: Vec<_> = truth.ridges.iter().filter(|ridge| *ridge.1 > 0.02).collect();
    println!("log evidence {}, tec {:?}, ridges {:?}", truth.log_evidence, truth.tec, truth.ridges);
    assert!(heavy.len() >= 2, "{:?}", truth.ridges);

    let folder = CommandFolder::new("phase");
    folder.write("phase.json", spec);
    let mut trusted = 0;
    for seed in 1..=5 {
        let run = folder.expect(&[0, 1], &format!("fit density --spec phase.json --seed {seed} --out fit"));
        if run.code == 1 {
            assert!(run.out.contains("k-hat") && run.out.contains("Do not rely on it"), "seed {seed}: {}", run.out);
            continue;
        }
        trusted += 1;
        let csv = folder.expect(&[0], "sample --posterior fit -n 4000").out;
        assert_eq!(csv.lines().next(), Some("tec,const"));
        let mut shares = BTreeMap::new();
        for line in csv.lines().skip(1) {
            let [tec, offset] = [0, 1].map(|j| line.split(',').nth(j).unwrap().parse::<f64>().unwrap());
            assert!(tec.abs() < 100.0 && offset.abs() < PI, "seed {seed}: {line} is outside the bounds");
            *shares.entry(ridge(&slopes, tec, offset)).or_insert(0.0) += 1.0 / 4000.0;
        }
        for (turns, weight) in &heavy {
            let share = shares.get(turns).copied().unwrap_or(0.0);
            assert!(share > 0.5 * *weight && share < 2.0 * *weight, "seed {seed}: {shares:?}, expected {heavy:?}");
        }
        let report = folder.report("fit");
        assert!(number(&report, "/modes") >= heavy.len() as f64, "seed {seed}: {} modes", report["modes"]);
        let (evidence, se) = (number(&report, "/log_evidence/mean"), number(&report, "/log_evidence/se"));
        assert!(
            (evidence - truth.log_evidence).abs() < 0.02 + 4.0 * se,
            "seed {seed}: log evidence {evidence} +- {se}"
        );
        assert_eq!(report["parameters"][0]["name"], "tec");
        let [mean, sd] = ["mean", "sd"].map(|what| number(&report, &format!("/parameters/0/{what}")));
        assert!((mean - truth.tec[0]).abs() < 0.2 * truth.tec[1], "seed {seed}: tec {mean}, expected {:?}", truth.tec);
        assert!((sd / truth.tec[1] - 1.0).abs() < 0.25, "seed {seed}: sd of tec {sd}, expected {:?}", truth.tec);
    }
    assert!(trusted >= 3, "only {trusted} of 5 seeds gave a fit to rely on");
}

/// cmdstanr#936: a fit that misses part of the posterior says so plainly.
#[test]
fn a_large_k_hat_is_reported() {
    let folder = CommandFolder::new("k-hat");
    folder.write("funnel.json", funnel_spec(10));
    let run = folder.expect(&[1], "fit density --spec funnel.json --components 1 --finish never --out fit");
    let k_hat = number(&folder.report("fit"), "/k_hat");
    assert!(k_hat > 0.7, "k-hat {k_hat}");
    for words in ["Do not rely on it", "k-hat", "is above 0.70", "try more components"] {
        assert!(run.out.contains(words), "`{words}` in\n{}", run.out);
    }
    let report = folder.report("fit");
    assert!(
        report["verdict"]["trusted"] == false && report["verdict"]["reasons"].as_array().is_some_and(|r| !r.is_empty())
    );
    assert!(String::from_utf8(folder.read("fit/report.html")).unwrap().contains("Do not rely on it"));
}
