//! A million rows of 20 features: time and memory of a whole fit. Takes minutes, so it runs with `scripts/test --slow`, or alone:
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
