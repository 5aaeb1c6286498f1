//! Fits shared by processes under `mpirun`: the same bits as alone, one message for all, and what is left when one is killed.
//!
//! They need Open MPI (openmpi-bin); without it they say so and check nothing, unless `NATMIX_MPIRUN=required`.
#![cfg(unix)]

mod common;

use common::{CommandFolder, TableNoise, wait_for};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
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

/// Whether there is an Open MPI to test with.
fn has_mpirun() -> bool {
    let version = Command::new("mpirun").arg("--version").output();
    let found = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"));
    assert!(found || std::env::var_os("NATMIX_MPIRUN").is_none(), "NATMIX_MPIRUN is set, but there is no Open MPI");
    if !found {
        eprintln!("no Open MPI: nothing is checked");
    }
    found
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
    if !has_mpirun() {
        return;
    }
    let folder = with_parts("mpi-same");
    let fits = [
        ("logistic", "yes", "--without count,class", &[1, 2, 3, 4][..]),
        ("linear", "b", "--without yes,class", &[3]),
        ("poisson", "count", "--without class,yes --minibatch 300 --max-evals 2000", &[2]),
        ("softmax", "class", "--without yes,count --seed 4", &[2]),
    ];
    for (model, outcome, options, processes) in fits {
        same(&folder, &format!("fit {model} --data part-*.csv* --outcome {outcome} {options}"), processes);
    }
}

/// Asserts that a fit is the same alone and with these numbers of processes.
fn same(folder: &CommandFolder, fit: &str, processes: &[usize]) {
    let alone = folder.expect(&[0, 1], &format!("{fit} --quiet --out alone"));
    for &count in processes {
        let run = shared(folder, count, &format!("{fit} --quiet --out shared"));
        assert_eq!(run.status.code(), Some(alone.code), "{fit}, {count}: {}", messages(&run));
        folder.assert_same("alone", "shared");
    }
}

#[test]
fn formulas_with_and_without_varying_effects_are_shared() {
    if !has_mpirun() {
        return;
    }
    let folder = with_parts("mpi-formulas");
    let short = "--max-evals 600 --finish never --seed 3";
    for (fit, processes) in [
        ("logistic --formula yes~a*g", &[2][..]),
        ("linear --formula b~a+(1+a|g)", &[2, 4]),
        ("negative-binomial --formula count~a+(1|g) --method von", &[3]),
        ("ordinal --formula class~a --levels x,y,z", &[2]),
    ] {
        same(&folder, &format!("fit {fit} --data part-*.csv* {short}"), processes);
    }
}

/// A small table with classes.
fn with_classes(test: &str) -> CommandFolder {
    let folder = CommandFolder::new(test);
    let mut noise = TableNoise(5);
    let mut table = String::from("a,b,class\n");
    for _ in 0..1_500 {
        let (a, b) = (noise.normal(), noise.normal());
        let class = ["x", "y", "z"][usize::from(a > 0.0) + usize::from(a + b > 0.5)];
        writeln!(table, "{a:.4},{b:.4},{class}").unwrap();
    }
    folder.write("table.csv", table);
    folder
}

#[test]
fn networks_are_shared_by_components_and_by_rows() {
    if !has_mpirun() {
        return;
    }
    let folder = with_classes("mpi-networks");
    let fit = "fit mlp --data table.csv --outcome class --hidden 30 --epochs 4";
    for (options, processes) in [
        ("--components 3 --validation 0.2 --patience 1", &[2, 3][..]),
        ("--components 2 --method adam", &[3]),
        ("--minibatch 600", &[2, 4]),
        ("--minibatch 300 --method ivon --test table.csv", &[2]),
    ] {
        same(&folder, &format!("{fit} {options}"), processes);
    }
}

#[test]
fn the_training_of_a_network_resumes_with_another_number_of_processes() {
    if !has_mpirun() {
        return;
    }
    let folder = with_classes("mpi-network-killed");
    let fit = "fit mlp --data table.csv --outcome class --hidden 60 --components 3 --epochs 60 --quiet";
    folder.expect(&[0, 1], &format!("{fit} --out alone"));
    let mut run = mpirun(&folder, &format!("-n 3 {NATMIX} {fit} --out fit")).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&folder.path("fit/.part/checkpoint.safetensors"), &mut run);
    let all = started(&run);
    assert!(Command::new("kill").args(["-KILL", &all[2]]).status().unwrap().success());
    assert!(!run.wait().unwrap().success());
    let resumed = shared(&folder, 2, &format!("{fit} --out fit --resume"));
    assert!(matches!(resumed.status.code(), Some(0 | 1)), "{}", messages(&resumed));
    folder.assert_same("alone", "fit");
}

#[test]
fn one_process_speaks_for_all() {
    if !has_mpirun() {
        return;
    }
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
    folder.write("density.json", "{}");
    once(shared(&folder, 2, "fit density --spec density.json --out fit"), "several processes can share");
    let varying = "--formula yes~a+(1|g) --minibatch 100";
    once(shared(&folder, 2, &format!("{fit} part-1.csv {varying}")), "one process only where effects vary");
    let net = "fit mlp --out fit --data part-1.csv --outcome yes --without class";
    once(shared(&folder, 2, net), "one component with minibatches of 128 rows cannot be shared");
    once(shared(&folder, 2, &format!("{net} --method ngvi --hidden 2")), "must be vogn, ivon or adam");
    once(shared(&folder, 2, "methods"), "natmix fit");
    // Two machines with other files, other arguments and another version.
    let differ = |other: &str| {
        mpirun(&folder, &format!("-n 1 {NATMIX} {fit} part-1.csv {yes} : -n 1 {other} --out fit")).output().unwrap()
    };
    let second = |data: &str| differ(&format!("{NATMIX} fit logistic --data {data} {yes}"));
    once(second("part-2.csv.gz"), "process 1 has other settings than process 0");
    once(second("nothing.csv"), "process 1: nothing.csv");
    let elsewhere = folder.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let there = |content: &str| {
        std::fs::write(elsewhere.join("part-1.csv"), content).unwrap();
        mpirun(
            &folder,
            &format!("-n 1 {NATMIX} {fit} part-1.csv {yes} : -n 1 -wdir elsewhere {NATMIX} {fit} part-1.csv {yes}"),
        )
        .output()
        .unwrap()
    };
    let own = String::from_utf8(folder.read("part-1.csv")).unwrap();
    let renamed = own.replacen("a,b,g,", "a,c,g,", 1);
    once(there(&renamed), "process 1 has read other columns than process 0 (`c`, but not `b`)");
    once(there(own.trim_end().rsplit_once('\n').unwrap().0), "process 1 has read other rows than process 0");
    let version = env!("CARGO_PKG_VERSION");
    let other: String = version.chars().map(|c| if c == '.' { c } else { '9' }).collect();
    let mut program = std::fs::read(NATMIX).unwrap();
    let places: Vec<usize> =
        (0..program.len() - version.len()).filter(|at| program[*at..].starts_with(version.as_bytes())).collect();
    places.iter().for_each(|at| program[*at..*at + version.len()].copy_from_slice(other.as_bytes()));
    let newer = folder.path("newer");
    std::fs::write(&newer, program).unwrap();
    std::fs::set_permissions(&newer, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = differ(&format!("{} fit logistic --data part-1.csv {yes}", newer.display()));
    once(run, &format!("process 1 runs natmix {other}, process 0 {version}: start the same version everywhere"));
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
    if !has_mpirun() {
        return;
    }
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
