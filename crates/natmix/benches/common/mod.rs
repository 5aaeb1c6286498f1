//! Shared by the benchmarks: wall time and instruction counts of named cases, data files.
//!
//! A benchmark lists cases; `cargo bench --bench NAME` times them. With `-- --instructions` it runs each case again
//! under callgrind, with two repeat counts whose difference leaves the set-up out: a figure that repeats on a machine
//! that others share. `-- --only TEXT` picks cases.
#![allow(dead_code)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// A named piece of work: prepared once, then run.
pub struct Case {
    pub name: String,
    /// Prepares, and returns what one call of the work does.
    pub prepare: Box<dyn Fn() -> Box<dyn FnMut()>>,
}

pub fn case(name: impl Into<String>, prepare: impl Fn() -> Box<dyn FnMut()> + 'static) -> Case {
    Case { name: name.into(), prepare: Box::new(prepare) }
}

/// Median seconds of one call.
pub fn seconds(work: &mut dyn FnMut()) -> f64 {
    work();
    let start = Instant::now();
    work();
    let once = start.elapsed().as_secs_f64().max(1e-9);
    let inner = ((2e-3 / once) as usize).clamp(1, 1_000_000);
    let rounds = ((0.4 / (once * inner as f64)) as usize).clamp(5, 51);
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            (0..inner).for_each(|_| work());
            start.elapsed().as_secs_f64() / inner as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

/// Times all cases and prints a table; returns the seconds in order. Handles the options of the module's page.
pub fn run(cases: &[Case]) -> Vec<f64> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1)).cloned();
    if let (Some(name), Some(repeat)) = (value("--case"), value("--repeat")) {
        // The child of an instruction count.
        if let Some(case) = cases.iter().find(|case| case.name == name) {
            let mut work = (case.prepare)();
            (0..repeat.parse::<usize>().unwrap_or(1)).for_each(|_| work());
        }
        std::process::exit(0);
    }
    let only = value("--only").unwrap_or_default();
    let count = arguments.iter().any(|a| a == "--instructions");
    println!("{:<58} {:>14} {:>16}", "case", "microseconds", if count { "instructions" } else { "" });
    let mut all = Vec::new();
    for case in cases.iter().filter(|case| case.name.contains(&only)) {
        let time = seconds(&mut *(case.prepare)());
        let instructions = if count { instructions(&case.name) } else { String::new() };
        println!("{:<58} {:>14.2} {instructions:>16}", case.name, 1e6 * time);
        all.push(time);
    }
    all
}

fn instructions(name: &str) -> String {
    let total = |repeat: usize| -> Option<f64> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args(["--case", name, "--repeat", &repeat.to_string()])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().find(|line| line.contains("Collected"))?;
        line.split(':').nth(1)?.trim().parse().ok()
    };
    match (total(2), total(6)) {
        (Some(few), Some(many)) => format!("{:.0}", (many - few) / 4.0),
        _ => "no valgrind".into(),
    }
}

/// A file below the folder that `NATMIX_DATA` names.
pub fn data(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("NATMIX_DATA").map(|folder| PathBuf::from(folder).join(name));
    let path = path.filter(|path| path.exists());
    if path.is_none() {
        println!("left out: {name} (set NATMIX_DATA to the folder that holds it)");
    }
    path
}

/// A logistic regression with the columns as they are and prior N(0, 10^2).
pub fn logistic(path: &std::path::Path) -> natmix_models::glm::Glm {
    let text = std::fs::read_to_string(path).expect("a readable design");
    let (mut x, mut y, mut d) = (Vec::new(), Vec::new(), 0);
    for line in text.lines().skip(1) {
        let row: Vec<f64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
        d = row.len() - 1;
        y.push(row[0]);
        x.extend_from_slice(&row[1..]);
    }
    natmix_models::glm::Glm::new(natmix_models::glm::Likelihood::Bernoulli, &x, d, y, &[10.0]).expect("a valid design")
}
