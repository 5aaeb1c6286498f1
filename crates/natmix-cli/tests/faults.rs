//! Single faults: changed data, two fits in one folder, strange paths and names, damaged files, full disks, two signals.

mod common;

use common::{CommandFolder, FIT, funnel_spec, logistic_table, wait_for, with_table};
use std::process::{Child, Command, Stdio};

/// A fit that takes a while, and has a checkpoint after a hundred iterations.
const LONG: &str = "fit density --spec funnel.json --components 20 --tolerance 1e-9 --quiet --max-evals 20000000";

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn changed_data_are_not_resumed() {
    let folder = CommandFolder::new("changed-data");
    folder.write("funnel.json", funnel_spec(10));
    let mut child = folder.command(&format!("{LONG} --out fit")).spawn().unwrap();
    wait_for(&folder.path("fit/.part/checkpoint.safetensors"), &mut child);
    kill(&mut child);
    folder.write("funnel.json", funnel_spec(10).replace("3.0", "2.5"));
    let refused = folder.expect(&[2], &format!("{LONG} --out fit --resume")).err;
    assert!(refused.contains("funnel.json has changed since the run in fit was interrupted"), "{refused}");
    folder.write("funnel.json", funnel_spec(10));
    let checkpoint = folder.read("fit/.part/checkpoint.safetensors");
    folder.write("fit/.part/checkpoint.safetensors", {
        let mut flipped = checkpoint.clone();
        flipped[checkpoint.len() - 3] ^= 4;
        flipped
    });
    let refused = folder.expect(&[2], &format!("{LONG} --out fit --resume")).err;
    assert!(refused.contains("checkpoint.safetensors") && refused.contains("checksum"), "{refused}");
    folder.write("fit/.part/checkpoint.safetensors", &checkpoint);
    // A smaller budget ends the run soon.
    let done = folder.expect(&[0, 1], &format!("{} --out fit --resume", LONG.replace("20000000", "100000")));
    assert_eq!(done.err, "");
}

#[test]
fn a_run_killed_before_its_first_checkpoint_starts_again() {
    let folder = with_table("no-checkpoint");
    std::fs::create_dir_all(folder.path("fit/.part")).unwrap();
    folder.write("fit/.part/trace.jsonl", "");
    let run = folder.expect(&[0, 1], "fit logistic --data table.csv --outcome y --out fit --resume");
    assert!(run.err.contains("ended before its first checkpoint: it starts again"), "{}", run.err);
    folder.expect(&[0, 1], &format!("{FIT} --out fresh"));
    folder.assert_same("fit", "fresh");
}

#[test]
fn two_fits_in_one_folder() {
    let folder = with_table("two");
    folder.write("funnel.json", funnel_spec(10));
    let mut child = folder.command(&format!("{LONG} --out fit")).spawn().unwrap();
    wait_for(&folder.path("fit/.part/checkpoint.safetensors"), &mut child);
    for resume in ["", "--resume"] {
        let second = folder.expect(&[2], &format!("{LONG} --out fit {resume}"));
        assert_eq!(second.err.trim_end().lines().count(), 1, "{}", second.err);
        assert!(second.err.contains("another fit is using the folder fit"), "{}", second.err);
    }
    assert!(child.try_wait().unwrap().is_none());
    kill(&mut child);
    // The lock of a killed process does not matter.
    assert!(folder.path("fit/.lock").exists());
    folder.expect(&[0, 1], &format!("{FIT} --out fit"));
    assert!(!folder.path("fit/.lock").exists());
}

#[test]
fn files_of_the_user_stay() {
    let folder = with_table("own-files");
    std::fs::create_dir_all(folder.path("fit/notes")).unwrap();
    folder.write("fit/notes/one.txt", "one");
    folder.write("fit/two.txt", "two");
    for seed in [1, 2] {
        folder.expect(&[0, 1], &format!("{FIT} --seed {seed} --out fit"));
        assert_eq!((folder.read("fit/notes/one.txt"), folder.read("fit/two.txt")), (b"one".into(), b"two".into()));
    }
    std::fs::remove_dir_all(folder.path("fit/notes")).unwrap();
    folder.expect(&[0, 1], &format!("{FIT} --seed 3 --out fit"));
    assert_eq!(folder.read("fit/two.txt"), b"two");
    assert_eq!(folder.names(), ["fit", "table.csv"]);
    folder.expect(&[0, 1], &format!("{FIT} --seed 3 --out fresh"));
    folder.assert_same("fit", "fresh");
    // In the current folder, which cannot be exchanged for another.
    let mut here = folder.command("fit --config config.toml --data ../table.csv --seed 4 --out . --quiet");
    assert!(here.current_dir(folder.path("fit")).status().unwrap().code().is_some_and(|code| code < 2));
    assert_eq!(folder.report("fit")["seed"], 4);
    assert_eq!(folder.read("fit/two.txt"), b"two");
}

#[cfg(target_os = "linux")]
#[test]
fn paths_of_any_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = CommandFolder::new("bytes");
    let (data, out) = (OsStr::from_bytes(b"ta\xffble.csv"), OsStr::from_bytes(b"fi\xfet"));
    std::fs::write(folder.path("").join(data), logistic_table(60, 1)).unwrap();
    let mut fit = folder.command("fit logistic --outcome y --data");
    let run = fit.arg(data).arg("--test").arg(data).arg("--out").arg(out).output().unwrap();
    let err = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.code().is_some_and(|code| code < 2), "{:?} {err}", run.status);
    for args in ["report", "sample -n 2 --posterior", "predict --draws 10 --posterior"] {
        let mut command = folder.command(args);
        command.arg(out);
        if args.starts_with("predict") {
            command.arg("--data").arg(data);
        }
        let run = command.output().unwrap();
        assert!(run.status.success(), "{args}: {}", String::from_utf8_lossy(&run.stderr));
    }
}

/// Neither columns nor files can control the terminal.
#[test]
fn control_characters_do_not_reach_the_terminal() {
    let folder = CommandFolder::new("escape");
    let table = logistic_table(60, 1).replacen("a,b,y", "a\x1b[31m,b\u{9b}2J,y", 1);
    folder.write("ta\x1b]0;x\x07ble.csv", table);
    let mut all = Vec::new();
    let fit = |options: &[&str]| {
        let mut command = folder.command("fit logistic --outcome");
        command.args(options).arg("--data").arg("ta\x1b]0;x\x07ble.csv");
        command.args(["--out", "fit"]).output().unwrap()
    };
    let done = fit(&["y"]);
    assert!(done.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&done.stderr));
    all.extend([done, fit(&["z\x1b[0m"]), fit(&["y", "--categorical", "\x1b[2J"]), fit(&["y", "--rate", "\x1b[2J"])]);
    all.push(folder.command("fit").arg("wiz\x1b[31mardry").output().unwrap());
    all.push(fit(&["y", "--json"]));
    for run in &all {
        let text = String::from_utf8(run.stdout.clone()).unwrap() + &String::from_utf8(run.stderr.clone()).unwrap();
        let control = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(control), "{text:?}");
        // Messages about arguments leave them out instead.
        assert!(text.contains("\\u001b") || text.contains("invalid value"), "{text:?}");
    }
    // Tables keep names as they are.
    let sample = folder.expect(&[0], "sample --posterior fit -n 1");
    assert!(sample.out.starts_with("(intercept),a\x1b[31m,b\u{9b}2J\n"), "{:?}", sample.out);
}

#[test]
fn names_that_no_folder_can_have() {
    let folder = CommandFolder::new("names");
    let long = "x".repeat(300);
    let mut table = logistic_table(80, 1).replacen("a,b,y", "a/b,a_b,y", 1);
    for (column, name) in ["draw", "chain", "..", &long].into_iter().enumerate() {
        let mut noise = common::TableNoise(column as u64);
        let mut lines = table.lines().map(str::to_owned);
        let header = format!("{name},{}", lines.next().unwrap());
        let rows: Vec<String> = lines.map(|line| format!("{},{line}", noise.normal())).collect();
        table = format!("{header}\n{}\n", rows.join("\n"));
    }
    folder.write("table.csv", table);
    folder.expect(&[0, 1], &format!("{FIT} --out fit"));
    let page = folder.read("fit/report.html");
    // Every column is found again, under its own name.
    folder.expect(&[0], "report fit");
    assert!(folder.read("fit/report.html") == page, "the rewritten page differs");
    let attributes: serde_json::Value =
        serde_json::from_slice(&folder.read("fit/draws.zarr/posterior/a_b~1/.zattrs")).unwrap();
    assert_eq!(attributes["long_name"], "a/b");
    assert!(folder.path("fit/draws.zarr/posterior/a_b/0.0").is_file());
    assert!(folder.path("fit/draws.zarr/posterior/draw~1/0.0").is_file());
}

#[test]
fn a_flipped_bit_in_a_report_is_noticed() {
    let folder = with_table("flip");
    folder.expect(&[0, 1], &format!("{FIT} --out fit"));
    let report = folder.read("fit/report.json");
    // A digit of the ELBO, behind the point.
    let elbo = report.windows(8).position(|part| part == b"\"mean\": ").unwrap();
    let at = elbo + report[elbo..].iter().position(|byte| *byte == b'.').unwrap() + 1;
    let mut flipped = report.clone();
    flipped[at] ^= 1;
    folder.write("fit/report.json", flipped);
    let refused = folder.expect(&[2], "report fit").err;
    assert!(refused.contains("report.json: is damaged") && refused.contains("checksum"), "{refused}");
    // Other spaces and another order are no damage, nor is a report of version 0.1, which has no checksum.
    let mut report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    folder.write("fit/report.json", report.to_string());
    folder.expect(&[0], "report fit");
    report.as_object_mut().unwrap().remove("checksum");
    folder.write("fit/report.json", report.to_string());
    folder.expect(&[0], "report fit");
}

#[cfg(target_os = "linux")]
#[test]
fn standard_error_that_cannot_be_written() {
    let folder = with_table("stderr");
    folder.write("broken.csv", "a,y\n1,2\n");
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let fit = "fit logistic --data table.csv --outcome y --out fit";
    let code = |args: &str| folder.command(args).stdout(Stdio::null()).stderr(full()).status().unwrap().code();
    assert!(code(fit).is_some_and(|code| code < 2));
    // A note about an interrupted run, an error of the program, one of the arguments.
    std::fs::create_dir(folder.path("fit/.part")).unwrap();
    folder.write("fit/.part/checkpoint.safetensors", "");
    assert!(code(fit).is_some_and(|code| code < 2));
    for args in ["fit logistic --data broken.csv --outcome y --out no", "fit --nonsense", "report nowhere"] {
        assert_eq!(code(args), Some(2), "{args}");
    }
    // A closed pipe.
    let script = format!("\"$0\" {fit} --resume 2> >(:); echo $?");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_natmix")]).current_dir(folder.path(""));
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), "2");
}

/// `timeout` sends its signal to the process and to the group: that is not a second request.
#[cfg(target_os = "linux")]
#[test]
fn a_time_limit_from_outside_keeps_the_result() {
    let folder = CommandFolder::new("timeout");
    folder.write("funnel.json", funnel_spec(10));
    let script = format!("timeout 1 \"$0\" {LONG} --out fit; exit 0");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_natmix")]).current_dir(folder.path(""));
    assert!(command.status().unwrap().success());
    assert_eq!(folder.report("fit")["stop"]["reason"], "cancelled");
    assert!(folder.path("fit/checkpoint.safetensors").is_file());
}
