//! Fits shared by processes under `mpirun`: the same bits as alone, one message for all, and what is left when one is killed.
//!
//! `cargo test --workspace --features natmix-cli/mpi --test mpi` runs it; it needs Open MPI.

mod common;

use common::{CommandFolder, TableNoise, wait_for};
use std::fmt::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Enough rows that four processes have some.
const ROWS: usize = 140_000;

/// A table in two parts, one of them packed, with outcomes for three regressions.
fn with_parts(test: &str) -> CommandFolder {
    let folder = CommandFolder::new(test);
    let mut noise = TableNoise(11);
    let mut parts = [String::from("a,b,g,yes,count,class\n"), String::from("a,b,g,yes,count,class\n")];
    for row in 0..ROWS {
        let (a, b) = (noise.normal(), 3.0 + noise.normal());
        let yes = u8::from(noise.uniform() < 1.0 / (1.0 + (-a).exp()));
        let count = (2.0 * noise.uniform() * (0.2 * a).exp() * 2.0) as u32;
        let (g, class) = (["u", "v", "w"][row % 3], ["x", "y", "z"][(3.0 * noise.uniform()) as usize]);
        writeln!(parts[usize::from(row > ROWS / 3)], "{a:.4},{b:.4},{g},{yes},{count},{class}").unwrap();
    }
    folder.write("part-1.csv", &parts[0]);
    folder.write("part-2.csv", &parts[1]);
    let packed = Command::new("gzip").arg("part-2.csv").current_dir(folder.path("")).status().unwrap();
    assert!(packed.success());
    folder
}

/// `mpirun` with these arguments.
fn mpirun(folder: &CommandFolder, args: &str) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--allow-run-as-root"]).args(args.split_whitespace());
    command.current_dir(folder.path("")).stdin(Stdio::null());
    // As in a container without privileges.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    command
}

const NATMIX: &str = env!("CARGO_BIN_EXE_natmix");

fn shared(folder: &CommandFolder, processes: usize, args: &str) -> Output {
    mpirun(folder, &format!("-n {processes} {NATMIX} {args}")).output().expect("mpirun")
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn any_number_of_processes_gives_the_same_fit() {
    let folder = with_parts("mpi-same");
    let fits = [
        ("logistic", "yes", "--without count,class", &[1, 2, 3, 4][..]),
        ("linear", "b", "--without yes,class", &[3]),
        ("poisson", "count", "--without class,yes --minibatch 300 --max-evals 2000", &[2]),
        ("softmax", "class", "--without yes,count --seed 4", &[2]),
    ];
    for (i, (model, outcome, options, processes)) in fits.into_iter().enumerate() {
        let fit = format!("fit {model} --data part-*.csv* --outcome {outcome} {options} --quiet");
        let alone = folder.expect(&[0, 1], &format!("{fit} --out alone{i}"));
        for &count in processes {
            let run = shared(&folder, count, &format!("{fit} --out shared{i}"));
            assert_eq!(run.status.code(), Some(alone.code), "{model}, {count}: {}", messages(&run));
            folder.assert_same(&format!("alone{i}"), &format!("shared{i}"));
        }
    }
}

#[test]
fn one_process_speaks_for_all() {
    let folder = with_parts("mpi-bad");
    let once = |output: Output, words: &str| {
        let text = messages(&output);
        assert_eq!((output.status.code(), text.matches("natmix: ").count()), (Some(2), 1), "{text}");
        assert!(text.contains(words), "{text}");
    };
    let fit = "fit logistic --out fit --data";
    let yes = "--outcome yes";
    once(shared(&folder, 3, &format!("{fit} nothing.csv {yes}")), "nothing.csv");
    once(shared(&folder, 3, &format!("{fit} part-1.csv --outcome ja")), "`ja`");
    once(shared(&folder, 2, &format!("{fit} part-1.csv --formula yes~a")), "several processes can share");
    once(shared(&folder, 2, "methods"), "natmix fit");
    // Two machines with other files.
    let differ = |other: &str| {
        mpirun(&folder, &format!("-n 1 {NATMIX} {fit} part-1.csv {yes} : -n 1 {NATMIX} {fit} {other} {yes}"))
    };
    once(differ("part-2.csv.gz").output().unwrap(), "process 1 has other data or settings than process 0");
    once(differ("nothing.csv").output().unwrap(), "process 1: nothing.csv");
    assert!(!folder.path("fit/report.json").exists());
}

/// The processes that `mpirun` has started.
fn started(mpirun: &Child) -> Vec<String> {
    let found = Command::new("pgrep").args(["-P", &mpirun.id().to_string(), "natmix"]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Whether a process has not ended; one that has may wait for init to take note.
fn runs(process: &str) -> bool {
    let about = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    about.rsplit(')').next().is_some_and(|state| !state.is_empty() && !state.trim_start().starts_with('Z'))
}

#[test]
fn a_killed_process_ends_all_and_the_fit_resumes() {
    let folder = with_parts("mpi-killed");
    let fit = "fit logistic --data part-*.csv* --outcome yes --without count,class --tolerance 1e-12 --quiet \
               --method ngvi --max-evals 12000";
    folder.expect(&[0, 1], &format!("{fit} --out alone"));
    let mut run = mpirun(&folder, &format!("-n 3 {NATMIX} {fit} --out fit")).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&folder.path("fit/.part/checkpoint.safetensors"), &mut run);
    let all = started(&run);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(Command::new("kill").args(["-KILL", &all[1]]).status().unwrap().success());
    let begun = Instant::now();
    assert!(!run.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    for process in all {
        // mpirun does not wait for those that it kills.
        let begun = Instant::now();
        while runs(&process) {
            assert!(begun.elapsed() < Duration::from_secs(10), "process {process} has not ended");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    // With another number of processes.
    let resumed = shared(&folder, 2, &format!("{fit} --out fit --resume"));
    assert!(matches!(resumed.status.code(), Some(0 | 1)), "{}", messages(&resumed));
    folder.assert_same("alone", "fit");
}
