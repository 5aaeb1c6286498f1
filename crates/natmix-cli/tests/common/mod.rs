//! Runs the binary in a folder of its own, as a user would in a terminal.
// Each test binary uses only part of this.
#![allow(dead_code)]

use natmix::save::Posterior;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder for the files of one test, removed at its end.
pub struct CommandFolder(PathBuf);

/// The output of a command.
pub struct CommandRun {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandFolder {
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("natmix-cli-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names of the files in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The command in this folder, with arguments separated by blanks.
    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_natmix"));
        command.current_dir(&self.0).args(args.split_whitespace()).stdin(Stdio::null());
        // Help wraps at the width of the terminal.
        command.env("COLUMNS", "100").env("LC_ALL", "C");
        command
    }

    /// Runs `natmix` with arguments separated by blanks.
    pub fn run(&self, args: &str) -> CommandRun {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        CommandRun { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs `natmix` and expects one of the exit codes.
    pub fn expect(&self, codes: &[i32], args: &str) -> CommandRun {
        let run = self.run(args);
        assert!(codes.contains(&run.code), "natmix {args}: exit {}\n{}\n{}", run.code, run.out, run.err);
        run
    }

    /// `report.json` of a fit in this folder.
    pub fn report(&self, dir: &str) -> Value {
        serde_json::from_slice(&self.read(&format!("{dir}/report.json"))).unwrap()
    }

    /// `report.json` without the values that may differ between two runs of the same fit.
    pub fn timeless_report(&self, dir: &str) -> Value {
        let mut report = self.report(dir);
        let fields = report.as_object_mut().unwrap();
        assert!(fields.remove("seconds").is_some_and(|seconds| seconds.is_number()));
        assert!(fields.remove("checksum").is_some_and(|checksum| checksum.is_string()));
        report
    }

    /// The posterior of a fit in this folder.
    pub fn posterior(&self, dir: &str) -> Posterior {
        Posterior::load(&self.path(dir).join("posterior.safetensors")).unwrap()
    }

    /// Asserts that two fits in this folder are the same except for their running times.
    pub fn assert_same(&self, a: &str, b: &str) {
        assert_eq!(self.timeless_report(a), self.timeless_report(b), "report.json of {a} and {b}");
        let [x, y] = [a, b].map(|dir| self.read(&format!("{dir}/posterior.safetensors")));
        assert!(x == y, "posterior.safetensors of {a} and {b} differ");
    }
}

impl Drop for CommandFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A number in a report, by a path such as `/elbo/mean`.
pub fn number(report: &Value, pointer: &str) -> f64 {
    let value = report.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    value.as_f64().unwrap_or_else(|| panic!("{pointer} is {value}"))
}

/// Reproducible noise (splitmix64), so that tests need no data files.
pub struct TableNoise(pub u64);

impl TableNoise {
    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((x ^ (x >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A table `a,b,y` with outcomes that follow a logistic regression on `a` and `b`.
pub fn logistic_table(rows: usize, seed: u64) -> String {
    let mut noise = TableNoise(seed);
    let mut table = String::from("a,b,y\n");
    for _ in 0..rows {
        let (a, b) = (noise.normal(), 10.0 + 3.0 * noise.normal());
        let eta = 0.5 + a - 0.2 * (b - 10.0);
        let y = u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp()));
        table.push_str(&format!("{a},{b},{y}\n"));
    }
    table
}

/// Fits the table of [`with_table`].
pub const FIT: &str = "fit logistic --data table.csv --outcome y --quiet";

/// A folder with the table `table.csv`.
pub fn with_table(test: &str) -> CommandFolder {
    let folder = CommandFolder::new(test);
    folder.write("table.csv", logistic_table(200, 1));
    folder
}

/// A density file with one Gaussian in one dimension, started at N(0, 1).
pub fn gaussian_spec(mean: f64, variance: f64) -> String {
    serde_json::json!({
        "kind": "gaussian_mixture", "dim": 1, "weights": [1.0], "means": [[mean]], "covariances": [[[variance]]],
        "init": {"mean": 0.0, "sd": 1.0},
    })
    .to_string()
}

/// A density file with Neal's funnel.
pub fn funnel_spec(dim: usize) -> String {
    serde_json::json!({"kind": "funnel", "dim": dim, "sd0": 3.0, "init": {"mean": 0.0, "sd": 1.0}}).to_string()
}

/// A file in the folder given by `NATMIX_DATA`; `None`, with a message, if it is not set.
pub fn data_file(name: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("NATMIX_DATA") else {
        println!("NATMIX_DATA is not set: {name} is not checked");
        return None;
    };
    let file = Path::new(&folder).join(name);
    assert!(file.is_file(), "{} is missing", file.display());
    Some(file.to_str().expect("a path in UTF-8").to_owned())
}

/// Waits until a running command has made a file.
pub fn wait_for(file: &Path, child: &mut Child) {
    let begun = Instant::now();
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before {}", file.display());
        assert!(begun.elapsed() < Duration::from_secs(60), "no {}", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}
