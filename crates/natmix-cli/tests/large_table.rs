//! A million rows: time and memory of whole fits, of 20 features and of a thousand groups. They take minutes, so they run with
//! `scripts/test --slow`, or alone:
//!
//! `cargo test --release -p natmix-cli --test large_table -- --ignored --nocapture`
#![cfg(target_os = "linux")]

mod common;

use common::{CommandFolder, TableNoise, number};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Child;
use std::time::{Duration, Instant};

const ROWS: usize = 1_000_000;
const FEATURES: usize = 20;
const GROUPS: usize = 1_000;

fn write_table(file: File) -> std::io::Result<()> {
    let mut out = BufWriter::new(file);
    let mut noise = TableNoise(6);
    for j in 0..FEATURES {
        write!(out, "x{j},")?;
    }
    writeln!(out, "y")?;
    for _ in 0..ROWS {
        let mut eta = 0.3;
        for j in 0..FEATURES {
            let x = noise.normal();
            eta += x * 0.1 * (j as f64 - 9.5);
            write!(out, "{x:.5},")?;
        }
        writeln!(out, "{}", u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp())))?;
    }
    out.flush()
}

/// Waits for the end, and returns the peak memory in kilobytes and the CPU time in seconds: wall-clock time says little
/// on a shared machine.
fn watch(child: &Child) -> (u64, f64) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", child.id())).unwrap_or_default();
    let (mut most, mut ticks) = (0, 0);
    loop {
        let status = read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        most = most.max(kilobytes.unwrap_or(0));
        // After the name in brackets: user and system time are the 12th and 13th.
        let stat = read("stat");
        let times = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
        ticks = ticks.max(times.map(|time| time.parse::<u64>().unwrap_or(0)).sum());
        std::thread::sleep(Duration::from_millis(10));
        if status.is_empty() || status.contains("zombie") {
            return (most, ticks as f64 / 100.0);
        }
    }
}

#[test]
#[ignore = "takes minutes: scripts/test --slow runs it"]
fn a_million_rows() {
    let folder = CommandFolder::new("million");
    write_table(File::create(folder.path("table.csv")).unwrap()).unwrap();
    let table = (ROWS * (FEATURES + 1) * 8 / 1024) as u64;
    // In memory at most one and a half times the size of the table; with rows on disk very little.
    for (options, most) in [("", table * 3 / 2), ("--stream", table / 2)] {
        let begun = Instant::now();
        let fit = format!("fit logistic --data table.csv --outcome y --quiet --out fit {options}");
        let mut child = folder.command(&fit).spawn().unwrap();
        let (memory, seconds) = watch(&child);
        let passed = begun.elapsed().as_secs_f64();
        println!("{fit}: {passed:.1} s, {seconds:.1} s of one core, {memory} KB at the most; the table is {table} KB");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(memory > 0 && memory < most, "{memory} KB, limit {most} KB");
        // A guard against a fit that does not end: machines differ several times in speed.
        assert!(seconds < 400.0, "{seconds} s of one core");
        let report = folder.report("fit");
        for j in 0..FEATURES {
            let [mean, sd] = ["mean", "sd"].map(|what| number(&report, &format!("/parameters/{}/{what}", j + 1)));
            assert!((mean - 0.1 * (j as f64 - 9.5)).abs() < 5.0 * sd, "feature {j}: {mean} +- {sd}");
        }
    }
}

/// The intercept of each group beside the common one.
fn effect(group: usize) -> f64 {
    0.8 * TableNoise(1_000 + group as u64).normal()
}

fn write_groups(file: File, rows: usize) -> std::io::Result<()> {
    let mut out = BufWriter::new(file);
    let mut noise = TableNoise(7);
    let effects: Vec<f64> = (0..GROUPS).map(effect).collect();
    writeln!(out, "x,g,y")?;
    for _ in 0..rows {
        let (group, x) = ((noise.uniform() * GROUPS as f64) as usize, noise.normal());
        let eta = -0.4 + 0.5 * x + effects[group];
        writeln!(out, "{x:.5},g{group},{}", u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp())))?;
    }
    out.flush()
}

/// Trusted and right, in less than three minutes on two cores and less than two gigabytes; and ten times as many rows take at most ten
/// times as long.
#[test]
#[ignore = "takes minutes: scripts/test --slow runs it"]
fn a_million_rows_in_a_thousand_groups() {
    let folder = CommandFolder::new("groups");
    let mut times = Vec::new();
    for rows in [ROWS / 10, ROWS] {
        write_groups(File::create(folder.path("table.csv")).unwrap(), rows).unwrap();
        let mut fit = folder.command("fit logistic --data table.csv --quiet --out fit --formula");
        let begun = Instant::now();
        let mut child = fit.arg("y ~ x + (1 | g)").spawn().unwrap();
        let (memory, seconds) = watch(&child);
        let passed = begun.elapsed().as_secs_f64();
        println!("{rows} rows: {passed:.1} s, {seconds:.1} s of one core, {memory} KB at the most");
        // Zero says that the answer is trusted.
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(memory > 0 && memory < 2_000_000, "{memory} KB");
        times.push(seconds);
        let report = folder.report("fit");
        let found = |name: &str| {
            let parameters = report["parameters"].as_array().unwrap();
            let at = parameters.iter().position(|one| one["name"] == name).unwrap();
            ["mean", "sd"].map(|what| number(&report, &format!("/parameters/{at}/{what}")))
        };
        for (name, truth) in [("(intercept)", -0.4), ("x", 0.5), ("sd(g, (intercept))", 0.8)] {
            let [mean, sd] = found(name);
            assert!((mean - truth).abs() < 5.0 * sd, "{name}: {mean} +- {sd}");
        }
        let distances: Vec<f64> = (0..GROUPS)
            .map(|group| {
                let [mean, sd] = found(&format!("g[g{group}, (intercept)]"));
                (mean - effect(group)) / sd
            })
            .collect();
        // In units of their standard deviations; all of them share the error of the common intercept.
        let square = distances.iter().map(|z| z * z).sum::<f64>() / GROUPS as f64;
        assert!((0.7..1.4).contains(&square) && distances.iter().all(|z| z.abs() < 6.0), "{square}");
    }
    assert!(times[1] < 180.0 && times[1] < 10.0 * times[0], "{times:?} s of one core");
}
