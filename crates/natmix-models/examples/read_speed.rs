//! Speed and memory of reading a table: writes a synthetic CSV (plain and gzip) and reads it on one core.
//!
//! `cargo run --release -p natmix-models --example read_speed -- [rows] [columns] [digits after the point]`
//!
//! Memory is the peak of the process (Linux only), so the plain file is read first and gzip after it: the second
//! number is the larger of the two.

use flate2::{Compression, write::GzEncoder};
use natmix_models::table::{Table, TableFile};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let rows = arguments.next().transpose()?.unwrap_or(1_000_000);
    let columns = arguments.next().transpose()?.unwrap_or(21);
    let digits = arguments.next().transpose()?.unwrap_or(6);
    let folder = std::env::temp_dir().join(format!("natmix-read-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = measure(&folder, rows, columns, digits);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn measure(folder: &Path, rows: usize, columns: usize, digits: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (plain, packed) = (folder.join("table.csv"), folder.join("table.csv.gz"));
    write_table(BufWriter::new(File::create(&plain)?), rows, columns, digits)?;
    let gzip = GzEncoder::new(BufWriter::new(File::create(&packed)?), Compression::fast());
    write_table(gzip, rows, columns, digits)?;
    let megabytes = std::fs::metadata(&plain)?.len() as f64 / 1e6;
    let table_bytes = 8 * rows * columns;
    println!(
        "{rows} rows x {columns} columns, {megabytes:.0} MB of text, {:.0} MB of values",
        table_bytes as f64 / 1e6
    );

    let report = |what: &str, clock: Stopwatch| {
        let (wall, seconds) = clock.elapsed();
        let memory = match most_memory_held() {
            Some(bytes) => format!("{:.3} x the values", bytes as f64 / table_bytes as f64),
            None => "unknown on this system".into(),
        };
        println!(
            "{what:<28} {wall:6.2} s, {seconds:5.2} s of one core: {:4.0} MB/s   most memory so far: {memory}",
            megabytes / seconds
        );
    };

    let clock = Stopwatch::start();
    let file = TableFile::open(&plain, &[])?;
    report("first pass of a stream", clock);
    let clock = Stopwatch::start();
    let mut seen = 0;
    for block in file.chunks(10_000)? {
        seen += block?.rows;
    }
    report("stream in blocks of 10,000", clock);
    for path in [&plain, &packed] {
        let clock = Stopwatch::start();
        let table = Table::read(path, &[])?;
        let what = if path == &plain { "whole table, plain" } else { "whole table, gzip" };
        report(what, clock);
        assert_eq!((table.rows, table.values.len()), (seen, rows * columns));
    }
    Ok(())
}

fn write_table(mut out: impl Write, rows: usize, columns: usize, digits: usize) -> std::io::Result<()> {
    let names: Vec<String> = (0..columns).map(|j| format!("x{j}")).collect();
    writeln!(out, "{}", names.join(","))?;
    let mut state = 1u64;
    for _ in 0..rows {
        for j in 0..columns {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5) * 8.0;
            write!(out, "{}{value:.digits$}", if j == 0 { "" } else { "," })?;
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Wall time, and the CPU time of this thread: the two differ on a busy machine.
struct Stopwatch {
    wall: Instant,
    core: Option<f64>,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch { wall: Instant::now(), core: core_seconds() }
    }

    fn elapsed(&self) -> (f64, f64) {
        let wall = self.wall.elapsed().as_secs_f64();
        let core = core_seconds().zip(self.core).map_or(wall, |(now, then)| now - then);
        (wall, core)
    }
}

fn core_seconds() -> Option<f64> {
    let nanoseconds = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    nanoseconds.split_whitespace().next()?.parse::<f64>().ok().map(|time| time / 1e9)
}

fn most_memory_held() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| 1024 * kilobytes)
}
