//! Tables that stay on disk: the same results, in memory that does not grow with the table.

mod common;

use common::{CommandFolder, TableNoise, number};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// A table with every kind of column: numbers, a category, offset, exposure and weights, and an outcome for every
/// model.
fn table(rows: usize) -> String {
    let mut noise = TableNoise(3);
    let mut text = String::from("a,b,town,shift,time,often,yes,real,count,class\n");
    for row in 0..rows {
        let (a, b) = (noise.normal(), 5.0 + 2.0 * noise.normal());
        let (eta, town) = (0.4 * a - 0.2 * (b - 5.0), ["u", "v", "w"][row % 3]);
        let yes = u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp()));
        let (real, count) = (3.0 + eta + 0.5 * noise.normal(), (2.0 * eta.exp() * noise.uniform() * 2.0).floor());
        let class = ["x", "y", "z"][(3.0 * noise.uniform() * if a > 0.0 { 1.0 } else { 0.7 }) as usize];
        let (shift, time, often) = (0.1 * noise.normal(), 0.5 + noise.uniform(), 1 + row % 2);
        writeln!(text, "{a},{b},{town},{shift},{time},{often},{yes},{real},{count},{class}").unwrap();
    }
    text
}

/// The named columns of a table, one of them last and called `y`.
fn columns(text: &str, keep: &[&str], outcome: &str) -> String {
    let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let places: Vec<usize> =
        keep.iter().chain([&outcome]).map(|name| names.iter().position(|other| other == name).unwrap()).collect();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        places.iter().map(|&place| fields[place]).collect::<Vec<_>>().join(",") + "\n"
    };
    format!("{},y\n", keep.join(",")) + &text.lines().skip(1).map(line).collect::<String>()
}

/// Results do not depend on where the rows are stored, to the last bit.
#[test]
fn rows_on_disk_give_the_same_fit() {
    let folder = CommandFolder::new("stream-same");
    let text = table(1500);
    let features = ["a", "b", "town"];
    let fits = [
        ("logistic", columns(&text, &features, "yes"), "--categorical town"),
        (
            "linear",
            columns(&text, &[&features[..], &["shift", "often"]].concat(), "real"),
            "--categorical town --offset shift --weights often",
        ),
        (
            "poisson",
            columns(&text, &[&features[..], &["time"]].concat(), "count"),
            "--categorical town --exposure time",
        ),
        ("softmax", columns(&text, &features, "class"), "--categorical town,y"),
        ("logistic", columns(&text, &features, "yes"), "--categorical town --minibatch 400 --max-evals 3000"),
    ];
    for (i, (model, text, options)) in fits.iter().enumerate() {
        folder.write("table.csv", text);
        let fit = format!("fit {model} --data table.csv --test table.csv --outcome y {options} --quiet");
        let memory = folder.expect(&[0, 1], &format!("{fit} --out memory{i}"));
        let disk = folder.expect(&[0, 1], &format!("{fit} --stream --out disk{i}"));
        assert_eq!(memory.code, disk.code, "{model}");
        folder.assert_same(&format!("memory{i}"), &format!("disk{i}"));
        assert_eq!(folder.read(&format!("memory{i}/config.toml")), folder.read(&format!("disk{i}/config.toml")));
    }
    // Resampling needs the rows again; no files with rows are left on disk.
    let drawn = folder.expect(&[0], "sample --posterior disk4 -n 5 --resample").out;
    assert_eq!(drawn, folder.expect(&[0], "sample --posterior memory4 -n 5 --resample").out);
    assert!(!folder.names().iter().any(|name| name.contains("rows")), "{:?}", folder.names());
}

/// An interrupted fit resumes with the rows in memory or on disk, where they are written again.
#[test]
fn a_streamed_fit_resumes_with_rows_in_memory_or_on_disk() {
    let folder = CommandFolder::new("stream-resume");
    folder.write("table.csv", common::logistic_table(1000, 1));
    let settings =
        "model = 'logistic'\ndata = 'table.csv'\noutcome = 'y'\nstream = true\nminibatch = 100\nmax_evals = 150000";
    folder.write("stream.toml", settings);
    let fit = "fit --config stream.toml --quiet";
    let mut child = folder.command(&format!("{fit} --max-evals 100000000 --out fit")).spawn().unwrap();
    let begun = Instant::now();
    while !folder.path("fit/.part/checkpoint.safetensors").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be interrupted");
        assert!(begun.elapsed() < Duration::from_secs(60), "no checkpoint");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    folder.expect(&[0, 1], &format!("{fit} --out fit --resume"));
    folder.expect(
        &[0, 1],
        "fit logistic --data table.csv --outcome y --minibatch 100 --max-evals 150000 --quiet --out memory",
    );
    folder.assert_same("fit", "memory");
    let run = folder.expect(&[2], "fit density --spec none.json --stream --out no");
    assert!(run.err.contains("--stream does not apply to density"), "{}", run.err);
    assert!(!folder.names().iter().any(|name| name.contains("rows")), "{:?}", folder.names());
}

/// A large table is fitted from the posterior of some of its rows: the few remaining iterations are those that the
/// stopping rule needs to detect convergence.
#[test]
fn a_large_table_starts_from_a_sample() {
    let folder = CommandFolder::new("stream-sample");
    let mut noise = TableNoise(8);
    let mut text = String::from("a,b,y\n");
    for _ in 0..200_000 {
        let (a, b) = (noise.normal(), noise.normal());
        let rate = (1.0 + 0.8 * a - 0.5 * b).exp();
        // A Poisson count by Knuth's product of uniforms.
        let (limit, mut product, mut count) = ((-rate).exp(), noise.uniform(), 0);
        while product > limit {
            (product, count) = (product * noise.uniform(), count + 1);
        }
        writeln!(text, "{a:.4},{b:.4},{count}").unwrap();
    }
    folder.write("table.csv", text);
    folder.expect(&[0], "fit poisson --data table.csv --outcome y --quiet --stream --out fit");
    let report = folder.report("fit");
    assert!(number(&report, "/iterations") <= 20.0, "{}", report["iterations"]);
    // The sample's evaluations are counted.
    let trace = String::from_utf8(folder.read("fit/trace.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(trace.lines().last().unwrap()).unwrap();
    assert!(number(&report, "/evals/points") > number(&last, "/evals"));
    for (j, truth) in [1.0, 0.8, -0.5].into_iter().enumerate() {
        let [mean, sd] = ["mean", "sd"].map(|what| number(&report, &format!("/parameters/{j}/{what}")));
        assert!((mean - truth).abs() < 5.0 * sd, "parameter {j}: {mean} +- {sd}, truth {truth}");
    }
}

/// A table of twice the memory that the process may take.
#[cfg(target_os = "linux")]
#[test]
fn a_table_larger_than_memory() {
    const FEATURES: usize = 60;
    const ROWS: usize = 270_000;
    const KILOBYTES: usize = 64_000;
    const { assert!(8 * ROWS * (FEATURES + 2) > 2 * 1024 * KILOBYTES) };
    let folder = CommandFolder::new("stream-large");
    let mut noise = TableNoise(4);
    let mut text: String = (0..FEATURES).map(|j| format!("x{j},")).collect::<String>() + "y\n";
    for _ in 0..ROWS {
        let mut eta = 0.0;
        for j in 0..FEATURES {
            let x = (10.0 * noise.uniform()) as u8;
            eta += f64::from(x) * (j as f64 - 30.0) * 0.01;
            write!(text, "{x},").unwrap();
        }
        writeln!(text, "{:.2}", eta + noise.normal()).unwrap();
    }
    folder.write("table.csv", &text);
    drop(text);
    let limited = |options: &str| {
        let natmix = env!("CARGO_BIN_EXE_natmix");
        let fit = format!("{natmix} fit linear --data table.csv --outcome y --threads 2 --quiet {options}");
        let mut shell = std::process::Command::new("sh");
        shell.current_dir(folder.path("")).args(["-c", &format!("ulimit -d {KILOBYTES}; exec {fit}")]);
        // The reader also runs two threads.
        shell.env("RAYON_NUM_THREADS", "2").output().unwrap()
    };
    let memory = limited("--out memory");
    let message = String::from_utf8_lossy(&memory.stderr);
    assert!(memory.status.code() == Some(2) && message.contains("--stream"), "{:?} {message}", memory.status);
    let disk = limited("--stream --out disk");
    assert!(disk.status.success(), "{:?} {}", disk.status, String::from_utf8_lossy(&disk.stderr));
    let report = folder.report("disk");
    assert_eq!(number(&report, "/train/rows"), ROWS as f64);
    for j in 0..FEATURES {
        let [mean, sd] = ["mean", "sd"].map(|what| number(&report, &format!("/parameters/{}/{what}", j + 1)));
        let truth = (j as f64 - 30.0) * 0.01;
        assert!((mean - truth).abs() < 5.0 * sd, "feature {j}: {mean} +- {sd}, truth {truth}");
    }
}
