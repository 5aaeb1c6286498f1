//! A fault drill: processes are killed, run into each other, lose their disk and their pipes, and files lose bits, at random.
//! No result may be lost, no folder may mix two fits, no flipped bit may go unnoticed, and nothing may panic.
//!
//! It takes about 25 seconds, two minutes with `NATMIX_SLOW=1`, and an hour with
//! `NATMIX_DRILL_SECONDS=3600 cargo test -p natmix-cli --test drill -- --nocapture`. `NATMIX_DRILL_SEED` repeats the random
//! choices of a run, though not the moments at which processes die.
#![cfg(target_os = "linux")]

mod common;

use common::{CommandFolder, TableNoise, funnel_spec, logistic_table};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Fits that the drill makes: a regression that ends soon, and a density with many iterations.
const MODELS: [&str; 2] = [
    "fit logistic --data table.csv --outcome y --test table.csv --threads 1",
    "fit density --spec funnel.json --components 8 --tolerance 1e-9 --max-evals 60000 --threads 1",
];
const SEEDS: [u64; 2] = [1, 2];

/// A fit of the drill: its model and its seed.
type DrillFit = (usize, u64);

/// What went wrong, and how much was tried.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    kills_while_saving: usize,
    kills_with_new_results: usize,
    clashes: usize,
    refused_clashes: usize,
    flips: usize,
    full_disks: usize,
    closed_pipes: usize,
    lost: Vec<String>,
    mixed: Vec<String>,
    unnoticed: Vec<String>,
    panics: Vec<String>,
}

struct Drill {
    folder: CommandFolder,
    noise: TableNoise,
    /// Fingerprints of all files of each fit, made without any fault, and its time.
    references: BTreeMap<DrillFit, (BTreeMap<String, Vec<u8>>, Duration)>,
    tally: Tally,
}

impl Drill {
    fn new(seed: u64) -> Self {
        let folder = CommandFolder::new("drill");
        folder.write("table.csv", logistic_table(150, 1));
        folder.write("funnel.json", funnel_spec(4));
        let mut drill = Self { folder, noise: TableNoise(seed), references: BTreeMap::new(), tally: Tally::default() };
        for model in 0..MODELS.len() {
            for seed in SEEDS {
                let begun = Instant::now();
                drill.folder.expect(&[0, 1], &format!("{} --quiet", line((model, seed), "reference")));
                let time = begun.elapsed();
                let files = results(&drill.folder.path("reference")).expect("a complete reference");
                drill.references.insert((model, seed), (files, time));
            }
        }
        drill
    }

    fn below(&mut self, n: usize) -> usize {
        (self.noise.uniform() * n as f64) as usize
    }

    fn any_fit(&mut self) -> DrillFit {
        (self.below(MODELS.len()), SEEDS[self.below(SEEDS.len())])
    }

    /// Which fit the results in a folder are, all of them. `Err` if they are of no single fit.
    fn found(&self, dir: &str) -> Result<Option<DrillFit>, String> {
        let path = self.folder.path(dir);
        let any = [common_names(), vec!["report.html"]].concat().iter().any(|name| path.join(name).exists());
        if !any {
            return Ok(None);
        }
        let files = results(&path)?;
        let same = |(_, (reference, _)): &(&DrillFit, &(BTreeMap<String, Vec<u8>>, Duration))| *reference == files;
        match self.references.iter().find(same) {
            Some((fit, _)) => Ok(Some(*fit)),
            None => {
                let kinds = files.iter().map(|(name, bytes)| {
                    let whose: Vec<_> = self
                        .references
                        .iter()
                        .filter(|(_, (all, _))| all.get(name) == Some(bytes))
                        .map(|(fit, _)| fit)
                        .collect();
                    format!("{name}: {whose:?}")
                });
                Err(kinds.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn spawn(&self, line: &str) -> Child {
        let mut command = self.folder.command(line);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Looks for panics in what a process left.
    fn check_panic(&mut self, line: &str, output: &Output) {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(101) || text.contains("panicked") {
            self.tally.panics.push(format!("{line}: {text}"));
        }
    }

    /// Runs a command to its end; its exit code and what it said.
    fn run(&mut self, line: &str) -> (Option<i32>, String) {
        let output = self.folder.command(line).output().unwrap();
        self.check_panic(line, &output);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// After a fault in a fit: the folder holds the old results or the new ones, and the fit can be brought to its end.
    fn recover(&mut self, dir: &str, before: Option<DrillFit>, fit: DrillFit, fault: &str) {
        // The next command completes what was begun, if the system could not do all at once.
        self.run(&format!("sample --posterior {dir} -n 1"));
        let now = match self.found(dir) {
            Ok(now) => now,
            Err(problem) => return self.tally.mixed.push(format!("{fault}: {problem}")),
        };
        if now == Some(fit) {
            self.tally.kills_with_new_results += 1;
        } else if now != before {
            return self.tally.lost.push(format!("{fault}: {before:?} became {now:?}"));
        }
        let unfinished = self.folder.path(dir).join(".part").exists();
        let (code, err) = self.run(&format!("{} --resume", line(fit, dir)));
        let resumed = code.is_some_and(|code| code < 2);
        if !resumed && unfinished {
            return self.tally.lost.push(format!("{fault}: not resumed: {err}"));
        }
        if !resumed && now != Some(fit) {
            // Killed before it had begun to write.
            let (code, err) = self.run(&line(fit, dir));
            if code.is_none_or(|code| code > 1) {
                return self.tally.lost.push(format!("{fault}: not repeated: {err}"));
            }
        }
        if self.found(dir) != Ok(Some(fit)) {
            self.tally.lost.push(format!("{fault}: ended as {:?} instead of {fit:?}", self.found(dir)));
        }
    }

    /// Kills a fit, at any moment or while it saves.
    fn kill(&mut self, saving: bool) {
        let fit = self.any_fit();
        let before = self.found("fit").unwrap_or(None);
        let command = line(fit, "fit");
        let mut child = self.spawn(&command);
        if saving {
            let begun = Instant::now();
            let stage = self.folder.path("fit/.part");
            let sign = ["draws.zarr.part", "report.json", "posterior.safetensors", ".journal.json"][self.below(4)];
            while !stage.join(sign).exists() && begun.elapsed() < Duration::from_secs(20) {
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_secs_f64(0.03 * self.noise.uniform().powi(3)));
        } else {
            let time = self.references[&fit].1.as_secs_f64();
            std::thread::sleep(Duration::from_secs_f64(1.1 * time * self.noise.uniform()));
        }
        // It may have ended already.
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        self.check_panic(&command, &output);
        self.tally.kills += 1;
        self.tally.kills_while_saving += usize::from(saving);
        self.recover("fit", before, fit, if saving { "killed while saving" } else { "killed" });
    }

    /// Two fits with one folder, at nearly the same time.
    fn clash(&mut self) {
        let fits = [self.any_fit(), self.any_fit()];
        let first = self.spawn(&line(fits[0], "clash"));
        std::thread::sleep(Duration::from_secs_f64(0.3 * self.noise.uniform().powi(2)));
        let second = self.spawn(&line(fits[1], "clash"));
        let mut done = Vec::new();
        for (child, fit) in [first, second].into_iter().zip(fits) {
            let output = child.wait_with_output().unwrap();
            self.check_panic("clash", &output);
            match output.status.code() {
                Some(0 | 1) => done.push(fit),
                _ if String::from_utf8_lossy(&output.stderr).contains("another fit is using the folder") => {
                    self.tally.refused_clashes += 1;
                }
                _ => self.tally.lost.push(format!("clash: {output:?}")),
            }
        }
        self.tally.clashes += 1;
        match self.found("clash") {
            Ok(Some(fit)) if done.contains(&fit) => {}
            Ok(other) => self.tally.lost.push(format!("clash of {fits:?}: {other:?}, done {done:?}")),
            Err(problem) => self.tally.mixed.push(format!("clash of {fits:?}: {problem}")),
        }
    }

    /// Flips one bit of a file, and uses it.
    fn flip(&mut self) {
        let uses = [
            ("posterior.safetensors", "sample --posterior flip -n 3".to_owned()),
            ("report.json", "report flip".to_owned()),
            (".part/checkpoint.safetensors", format!("{} --resume", line((1, 1), "flip"))),
        ];
        let (file, command) = &uses[self.below(uses.len())];
        let path = self.folder.path("flip").join(file);
        let whole = fs::read(&path).unwrap();
        let bit = self.below(8 * whole.len());
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, flipped).unwrap();
        let page = fs::read(self.folder.path("flip/report.html")).unwrap();
        let (code, err) = self.run(command);
        self.tally.flips += 1;
        // The name of the checksum of a report may change without harm: then the page is the same.
        let harmless = *file == "report.json" && fs::read(self.folder.path("flip/report.html")).unwrap() == page;
        if code != Some(2) && !harmless {
            self.tally.unnoticed.push(format!("bit {bit} of {file}: {code:?} {err}"));
            return;
        }
        fs::write(&path, whole).unwrap();
    }

    /// A disk that fills up while a fit runs or saves.
    fn full_disk(&mut self) {
        let fit = self.any_fit();
        let before = self.found("fit").unwrap_or(None);
        let blocks = 1 + (300.0 * self.noise.uniform().powi(2)) as usize;
        let command = line(fit, "fit");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {command}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script, env!("CARGO_BIN_EXE_natmix")]).current_dir(self.folder.path(""));
        let output = bash.stdin(Stdio::null()).output().unwrap();
        self.check_panic(&command, &output);
        self.tally.full_disks += 1;
        self.recover("fit", before, fit, &format!("{blocks} blocks"));
    }

    /// Standard output and standard error that nobody reads, or that are full.
    fn closed_pipe(&mut self) {
        let fit = self.any_fit();
        let command = line(fit, "fit");
        let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let mut child = self.folder.command(&command);
        match self.below(3) {
            0 => child.stdout(full()).stderr(full()),
            1 => child.stdout(Stdio::null()).stderr(full()),
            _ => child.stdout(Stdio::piped()).stderr(Stdio::piped()),
        };
        let mut child = child.spawn().unwrap();
        // Closes the pipes, if there are any.
        drop((child.stdout.take(), child.stderr.take()));
        let code = child.wait().unwrap().code();
        self.tally.closed_pipes += 1;
        if code.is_none_or(|code| code > 2) {
            self.tally.panics.push(format!("{command} without output: {code:?}"));
        }
        match self.found("fit") {
            Ok(Some(found)) if found == fit => {}
            Ok(found) => self.tally.lost.push(format!("without output: {found:?} instead of {fit:?}")),
            Err(problem) => self.tally.mixed.push(format!("without output: {problem}")),
        }
    }
}

/// The command line of a fit into a folder.
fn line((model, seed): DrillFit, dir: &str) -> String {
    format!("{} --seed {seed} --out {dir}", MODELS[model])
}

fn common_names() -> Vec<&'static str> {
    vec!["posterior.safetensors", "report.json", "config.toml", "trace.jsonl", "draws.zarr", "figures"]
}

/// The results in a folder, without times. Fails if one is missing.
fn results(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let read = |name: &str| fs::read(dir.join(name)).map_err(|error| format!("{name}: {error}"));
    let mut files = BTreeMap::new();
    for name in ["posterior.safetensors", "config.toml"] {
        files.insert(name.to_owned(), read(name)?);
    }
    let mut report: Value = serde_json::from_slice(&read("report.json")?).map_err(|error| error.to_string())?;
    let fields = report.as_object_mut().ok_or("report.json is no object")?;
    fields.retain(|name, _| name != "seconds" && name != "checksum");
    files.insert("report.json".into(), report.to_string().into_bytes());
    let trace = String::from_utf8(read("trace.jsonl")?).map_err(|error| error.to_string())?;
    let rows = trace.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).map_err(|error| format!("trace.jsonl: {error}"))?;
        row.as_object_mut().ok_or("a row of the trace is no object")?.remove("seconds");
        Ok(row.to_string())
    });
    files.insert("trace.jsonl".into(), rows.collect::<Result<Vec<_>, String>>()?.join("\n").into_bytes());
    files.insert("draws.zarr".into(), tree(&dir.join("draws.zarr"))?);
    // The page and the curve of the ELBO show the time.
    read("report.html")?;
    read("figures/marginals.svg").or_else(|_| read("figures/elbo.svg"))?;
    Ok(files)
}

/// Names and contents of all files in a folder.
fn tree(dir: &Path) -> Result<Vec<u8>, String> {
    let (mut folders, mut files) = (vec![dir.to_owned()], Vec::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend(file.strip_prefix(dir).unwrap().as_os_str().as_encoded_bytes());
        all.extend(fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(all)
}

/// A folder with results and the checkpoint of a killed fit, for flips.
fn prepare_flips(drill: &Drill) {
    let folder = &drill.folder;
    folder.expect(&[0, 1], &format!("{} --quiet", line((0, 1), "flip")));
    folder.expect(&[0], "report flip");
    let mut child = drill.spawn(&line((1, 1), "flip"));
    let checkpoint = folder.path("flip/.part/checkpoint.safetensors");
    while !checkpoint.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the fit ended without a checkpoint");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn nothing_is_lost_mixed_or_unnoticed() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let usual = if std::env::var_os("NATMIX_SLOW").is_some() { 120 } else { 20 };
    let time = Duration::from_secs(number("NATMIX_DRILL_SECONDS", usual));
    let mut drill = Drill::new(number("NATMIX_DRILL_SEED", 1));
    prepare_flips(&drill);
    let begun = Instant::now();
    let mut round = 0;
    while begun.elapsed() < time || round < 12 {
        match round % 12 {
            0 | 2 | 4 | 6 => drill.kill(true),
            1 | 5 | 9 => drill.kill(false),
            3 => drill.clash(),
            7 => drill.full_disk(),
            8 => drill.closed_pipe(),
            _ => (0..5).for_each(|_| drill.flip()),
        }
        round += 1;
    }
    let Tally { lost, mixed, unnoticed, panics, .. } = &drill.tally;
    println!("{:#?}", drill.tally);
    assert!(lost.is_empty() && mixed.is_empty() && unnoticed.is_empty() && panics.is_empty());
}
