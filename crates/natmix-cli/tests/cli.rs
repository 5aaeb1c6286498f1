//! The binary from end to end: files, repeatability, predictions, draws, help.

mod common;

use common::{CommandFolder, FIT, TableNoise, data_file, gaussian_spec, logistic_table, number, with_table};

#[test]
fn a_fit_leaves_all_files_and_keys() {
    let folder = with_table("files");
    folder.write("later.csv", logistic_table(100, 2));
    let run = folder.expect(&[0], "fit logistic --data table.csv --outcome y --test later.csv --out fit");
    assert!(run.out.starts_with("The posterior of a logistic regression of `y`"), "{}", run.out);
    for file in ["report.json", "posterior.safetensors", "trace.jsonl", "report.html", "config.toml"] {
        assert!(folder.path("fit").join(file).metadata().unwrap().len() > 0, "{file}");
    }
    assert!(folder.path("fit/draws.zarr/.zgroup").is_file() || folder.path("fit/draws.zarr/zarr.json").is_file());
    let left: Vec<_> = std::fs::read_dir(folder.path("fit")).unwrap().map(|e| e.unwrap().file_name()).collect();
    let unfinished = |name: &std::ffi::OsString| name.to_string_lossy().contains("part");
    assert!(!left.iter().any(unfinished) && !folder.path("fit/checkpoint.safetensors").exists(), "{left:?}");

    let report = folder.report("fit");
    let numbers = "/elbo/mean /elbo/se /log_evidence/mean /log_evidence/se /k_hat /ess /evals/points /evals/diagnostics \
        /iterations /seconds /seed /components/0/weight /components/0/mean/0 /components/0/sd/0 /parameters/0/mean \
        /parameters/0/sd /parameters/0/q05 /parameters/0/q50 /parameters/0/q95 /train/accuracy /train/nll /test/accuracy \
        /test/nll /test/brier /test/ece /loo/elpd";
    for pointer in numbers.split_whitespace() {
        number(&report, pointer);
    }
    assert!(report["stop"]["reason"].is_string() && report["stop"]["converged"] == true);
    assert!(report["version"] == env!("CARGO_PKG_VERSION") && report["config"].is_object());
    let names: Vec<_> = report["parameters"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["(intercept)", "a", "b"]);
    // Truth 2.5, 1 and -0.2 on the user's own scale; 200 rows.
    for (j, truth) in [2.5, 1.0, -0.2].into_iter().enumerate() {
        let [mean, sd] = ["mean", "sd"].map(|what| number(&report, &format!("/parameters/{j}/{what}")));
        assert!((mean - truth).abs() < 4.0 * sd, "parameter {j}: {mean} +- {sd}, truth {truth}");
    }
    for line in String::from_utf8(folder.read("fit/trace.jsonl")).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["iteration", "evals", "seconds", "elbo", "se", "components", "steps"] {
            assert!(!row[key].is_null(), "{key} in {line}");
        }
    }
}

#[test]
fn same_seed_same_bits_for_any_threads() {
    let folder = with_table("threads");
    for (out, threads) in [("a", 1), ("b", 1), ("c", 2)] {
        folder.expect(&[0], &format!("{FIT} --seed 7 --threads {threads} --out {out}"));
    }
    folder.assert_same("a", "b");
    folder.assert_same("a", "c");
    folder.expect(&[0], &format!("{FIT} --seed 8 --out other"));
    assert_ne!(folder.timeless_report("a"), folder.timeless_report("other"));
}

#[test]
fn a_config_repeats_its_run() {
    let folder = with_table("config");
    folder.expect(&[0], &format!("{FIT} --seed 3 --prior-sd 1.5 --components 2 --out first"));
    folder.expect(&[0], "fit --config first/config.toml --out again --quiet");
    folder.assert_same("first", "again");
    assert_eq!(folder.read("first/config.toml"), folder.read("again/config.toml"));
    folder.expect(&[0], "fit --config first/config.toml --prior-sd 2 --out other --quiet");
    assert_ne!(folder.timeless_report("first"), folder.timeless_report("other"), "flags win over the file");
}

#[test]
fn a_second_fit_replaces_the_first_one() {
    let folder = with_table("replace");
    for seed in [1, 2] {
        folder.expect(&[0], &format!("{FIT} --seed {seed} --out fit"));
    }
    folder.expect(&[0], &format!("{FIT} --seed 2 --out fresh"));
    folder.assert_same("fit", "fresh");
}

#[test]
fn json_is_all_that_is_printed() {
    let folder = with_table("json");
    let run = folder.expect(&[0], "fit logistic --data table.csv --outcome y --out fit --json");
    assert_eq!(run.out.trim_end().as_bytes(), folder.read("fit/report.json").trim_ascii_end());
    let quiet = folder.expect(&[0], &format!("{FIT} --out fit"));
    assert_eq!((&quiet.out[..], &quiet.err[..]), ("", ""));
}

#[test]
fn predictions_match_columns_by_name() {
    let folder = with_table("predict");
    folder.expect(&[0], &format!("{FIT} --out fit"));
    folder.write("new.csv", "a,b\n-1,12\n0,10\n2,7\n");
    folder.write("turned.csv", "b,a\n12,-1\n10,0\n7,2\n");
    let straight = folder.expect(&[0], "predict --posterior fit --data new.csv");
    let turned = folder.expect(&[0], "predict --posterior fit --data turned.csv --out predictions.csv");
    assert_eq!(turned.out, "");
    assert_eq!(straight.out.as_bytes(), folder.read("predictions.csv"));
    let lines: Vec<&str> = straight.out.lines().collect();
    assert_eq!((lines[0], lines.len()), ("probability,sd,entropy,class", 4));
    let probability = |i: usize| lines[i].split(',').next().unwrap().parse::<f64>().unwrap();
    assert!(0.0 < probability(1) && probability(1) < probability(2) && probability(2) < probability(3));
    // Rows that still contain the outcome can be predicted too.
    let known = folder.expect(&[0], "predict --posterior fit --data table.csv");
    assert_eq!(known.out.lines().count(), 201);
}

#[test]
fn draws_as_csv_and_npy() {
    let folder = with_table("sample");
    folder.expect(&[0], &format!("{FIT} --out fit"));
    let csv = folder.expect(&[0], "sample --posterior fit -n 500").out;
    let rows: Vec<Vec<f64>> =
        csv.lines().skip(1).map(|line| line.split(',').map(|x| x.parse().unwrap()).collect()).collect();
    assert_eq!((csv.lines().next(), rows.len()), (Some("(intercept),a,b"), 500));

    folder.expect(&[0], "sample --posterior fit -n 500 --out draws.npy");
    let npy = folder.read("draws.npy");
    assert_eq!(&npy[..6], b"\x93NUMPY");
    let header_len = match npy[6] {
        1 => 10 + u16::from_le_bytes([npy[8], npy[9]]) as usize,
        _ => 12 + u32::from_le_bytes(npy[8..12].try_into().unwrap()) as usize,
    };
    let header = std::str::from_utf8(&npy[..header_len][10..]).unwrap_or_default();
    assert!(header_len % 16 == 0 && header.ends_with('\n'), "{header}");
    for part in ["'descr': '<f8'", "'fortran_order': False", "'shape': (500, 3)"] {
        assert!(header.contains(part), "{part} in {header}");
    }
    let values: Vec<f64> = npy[header_len..].chunks(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect();
    assert_eq!(values, rows.concat());

    let report = folder.report("fit");
    for args in ["-n 4000 --seed 5", "-n 4000 --seed 5 --resample"] {
        let csv = folder.expect(&[0], &format!("sample --posterior fit {args}")).out;
        let column = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<f64>().unwrap());
        let mean = column.sum::<f64>() / 4000.0;
        let (centre, sd) = (number(&report, "/parameters/1/mean"), number(&report, "/parameters/1/sd"));
        // Resampling repeats draws and moves the mean to that of the exact posterior.
        assert!((mean - centre).abs() < 0.2 * sd, "{args}: {mean}, expected {centre} +- {sd}");
    }
    let plain = folder.expect(&[0], "sample --posterior fit -n 50").out;
    assert_ne!(folder.expect(&[0], "sample --posterior fit -n 50 --resample").out, plain);
}

#[test]
fn the_page_can_be_written_again() {
    let folder = with_table("report");
    folder.expect(&[0], &format!("{FIT} --out fit"));
    let page = folder.read("fit/report.html");
    std::fs::remove_file(folder.path("fit/report.html")).unwrap();
    let run = folder.expect(&[0], "report fit");
    assert_eq!(run.out.trim_end(), "fit/report.html");
    assert!(folder.read("fit/report.html") == page, "the rewritten page differs");
}

/// Too many for files of their own.
#[test]
fn many_parameters_are_stored_together() {
    let folder = CommandFolder::new("many");
    folder.write("wide.json", r#"{"kind": "funnel", "dim": 301, "sd0": 0.1, "init": {"mean": 0, "sd": 1}}"#);
    folder.expect(&[0, 1], "fit density --spec wide.json --max-evals 2000 --out fit");
    let posterior = folder.path("fit/draws.zarr/posterior");
    assert_eq!(std::fs::read_dir(posterior).unwrap().count(), 6, "two documents, two coordinates, names and values");
    assert_eq!(folder.read("fit/draws.zarr/posterior/parameters/0.0.0").len(), 4000 * 301 * 8);
    let page = folder.read("fit/report.html");
    folder.expect(&[0], "report fit");
    assert!(folder.read("fit/report.html") == page, "the rewritten page differs");
}

#[test]
fn lists_completions_and_manual() {
    let folder = CommandFolder::new("lists");
    let methods = folder.expect(&[0], "methods").out;
    for name in ["auto", "ngvi", "component-draws", "cubature", "trust-region", "improved"] {
        assert!(methods.lines().any(|line| line.trim_start().starts_with(name)), "{name} in\n{methods}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.expect(&[0], &format!("completions {shell}")).out;
        assert!(script.contains("natmix") && script.contains("no-standardize"), "{shell}");
    }
    let manual = folder.expect(&[0], "man").out;
    assert!(manual.contains(".TH natmix") && manual.contains("predict"), "{manual}");
}

/// Help is part of the interface. `UPDATE_SNAPSHOTS=1 cargo test -p natmix-cli --test cli` updates it after a change.
#[test]
fn help_has_examples_and_defaults_and_matches_the_snapshot() {
    let folder = CommandFolder::new("help");
    let mut all = String::new();
    for command in
        ["", "demo", "fit", "prior", "predict", "sample", "report", "reproduce", "methods", "completions", "man"]
    {
        let help = folder.expect(&[0], &format!("{command} --help")).out;
        assert!(help.contains("Example"), "no example in `natmix {command} --help`\n{help}");
        all.push_str(&format!("$ natmix {command} --help\n{help}\n"));
    }
    let fit = folder.run("fit --help").out;
    for option in fit.split("\n      --").skip(1) {
        let takes_value = option.lines().next().unwrap().contains('<');
        // Optional settings without a default.
        let optional = "data outcome formula trials levels prior test spec model init categorical only without weights offset exposure max-evals max-seconds init-posterior config";
        let name = option.split([' ', '\n']).next().unwrap();
        let known = optional.split(' ').any(|optional| optional == name);
        assert!(!takes_value || known || option.contains("[default:"), "--{name} does not state its default");
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/help.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(file, &all).unwrap();
    }
    let snapshot = std::fs::read_to_string(file).unwrap();
    for (i, (now, then)) in all.lines().zip(snapshot.lines()).enumerate() {
        assert_eq!(now, then, "line {} of {file}; if that is intended, run again with UPDATE_SNAPSHOTS=1", i + 1);
    }
    assert_eq!(all, snapshot, "{file}; if that is intended, run again with UPDATE_SNAPSHOTS=1");
}

#[test]
fn the_comparison_with_nuts_is_a_script_of_the_checkout() {
    let folder = CommandFolder::new("hierarchical");
    let run = folder.expect(&[2], "experiments hierarchical counts");
    assert!(run.err.contains("scripts/compare-nuts") && run.err.contains("checkout"), "{}", run.err);
    for new in ["scripts", "within"] {
        std::fs::create_dir(folder.path(new)).unwrap();
    }
    folder.write("scripts/compare-nuts", "import sys\nprint(sys.argv[1:])\nsys.exit(3)\n");
    let mut command = folder.command("experiments hierarchical counts --seeds 1,2 --json results.json");
    let output = command.current_dir(folder.path("within")).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.trim(), "['counts', '--seeds', '1,2', '--json', 'results.json']");
}

#[test]
fn linear_with_known_noise_is_exact() {
    const D: usize = 3;
    let (rows, noise_sd, prior_sd) = (40, 0.7, 1.5);
    let mut noise = TableNoise(11);
    let mut table = String::from("u,v,w,y\n");
    // Precision X'X/noise^2 + I/prior^2, and precision times mean: X'y/noise^2.
    let mut precision = [[0.0; D]; D];
    let mut shift = [0.0; D];
    for _ in 0..rows {
        let x: [f64; D] = std::array::from_fn(|j| noise.normal() + j as f64);
        let y = 1.0 * x[0] - 2.0 * x[1] + 0.5 * x[2] + noise_sd * noise.normal();
        table.push_str(&format!("{},{},{},{y}\n", x[0], x[1], x[2]));
        for i in 0..D {
            shift[i] += x[i] * y / (noise_sd * noise_sd);
            (0..D).for_each(|j| precision[i][j] += x[i] * x[j] / (noise_sd * noise_sd));
        }
    }
    (0..D).for_each(|i| precision[i][i] += 1.0 / (prior_sd * prior_sd));
    let covariance = inverse(precision);
    let folder = CommandFolder::new("linear");
    folder.write("table.csv", table);
    folder.expect(
        &[0],
        "fit linear --data table.csv --outcome y --noise-sd 0.7 --prior-sd 1.5 --no-standardize --no-intercept --out fit",
    );
    let mixture = folder.posterior("fit").mixture;
    assert_eq!(mixture.len(), 1);
    let found = mixture.components()[0].precision().covariance_full();
    for i in 0..D {
        let mean: f64 = (0..D).map(|j| covariance[i][j] * shift[j]).sum();
        let error = mixture.mean()[i] - mean;
        assert!(error.abs() < 1e-6, "mean {i} is off by {error:e}");
        for j in 0..D {
            let error = found[i * D + j] - covariance[i][j];
            assert!(error.abs() < 1e-6, "covariance {i} {j} is off by {error:e}");
        }
    }
}

/// Gauss-Jordan elimination; pivots of a positive definite matrix need no search.
fn inverse<const D: usize>(mut a: [[f64; D]; D]) -> [[f64; D]; D] {
    let mut b: [[f64; D]; D] = std::array::from_fn(|i| std::array::from_fn(|j| f64::from(i == j)));
    for p in 0..D {
        let pivot = a[p][p];
        (0..D).for_each(|j| (a[p][j], b[p][j]) = (a[p][j] / pivot, b[p][j] / pivot));
        for i in (0..D).filter(|&i| i != p) {
            let factor = a[i][p];
            for j in 0..D {
                a[i][j] -= factor * a[p][j];
                b[i][j] -= factor * b[p][j];
            }
        }
    }
    b
}

#[test]
fn separated_classes_are_reported_not_refused() {
    let folder = CommandFolder::new("separated");
    let rows: String = (0..20).map(|i| format!("{i},{}\n", u8::from(i >= 10))).collect();
    folder.write("table.csv", format!("x,y\n{rows}"));
    let run = folder.expect(&[0, 1], "fit logistic --data table.csv --outcome y --out fit");
    assert!(run.out.contains("separated"), "{}", run.out);
    assert!(number(&folder.report("fit"), "/parameters/1/mean").is_finite());
}

/// Fits one Gaussian to a published posterior; arguments are the reference ELBO, its tolerance and the most
/// evaluations.
fn published(name: &str, elbo: f64, within: f64, evals: f64, codes: &[i32]) {
    let Some(file) = data_file(&format!("targets/{name}_design.csv")) else { return };
    let folder = CommandFolder::new(name);
    let args = "--outcome y --no-standardize --no-intercept --prior-sd 10 --components 1 --quiet --out fit";
    folder.expect(codes, &format!("fit logistic --data {file} {args}"));
    let report = folder.report("fit");
    let (found, se) = (number(&report, "/elbo/mean"), number(&report, "/elbo/se"));
    let (points, seconds) = (number(&report, "/evals/points"), number(&report, "/seconds"));
    println!(
        "{name}: ELBO {found} +- {se}, {points} evaluations, {seconds} s, k-hat {}, ESS {}",
        report["k_hat"], report["ess"]
    );
    assert!((found - elbo).abs() < within + 3.0 * se, "{name}: ELBO {found} +- {se}, expected {elbo}");
    assert!(report["stop"]["converged"] == true, "{name}: {}", report["stop"]);
    assert!(points <= evals, "{name}: {points} evaluations");
}

#[test]
fn german_credit() {
    published("german_credit", -585.13, 0.01, 10_000.0, &[0]);
}

#[test]
fn breast_cancer() {
    published("breast_cancer", -79.0, 0.1, 60_000.0, &[0, 1]);
}

#[test]
fn a_density_is_fitted_from_its_file() {
    let folder = CommandFolder::new("density");
    folder.write("target.json", gaussian_spec(-3.0, 4.0));
    let run = folder.expect(&[0], "fit density --spec target.json --components 1 --json --out fit");
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!((number(&report, "/components/0/mean/0") + 3.0).abs() < 1e-3);
    assert!((number(&report, "/components/0/sd/0") - 2.0).abs() < 1e-3);
    assert!(report.get("train").is_none());
}
