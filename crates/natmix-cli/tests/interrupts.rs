//! Interrupted and killed runs, and readers that close the pipe early.

mod common;

use common::{CommandFolder, FIT, funnel_spec, logistic_table, number, wait_for, with_table};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn an_interrupted_run_resumes_to_the_same_result() {
    let folder = CommandFolder::new("interrupt");
    folder.write("funnel.json", funnel_spec(10));
    let fit = "fit density --spec funnel.json --components 20 --tolerance 1e-9 --max-evals 1500000 --quiet";
    let mut child = folder.command(&format!("{fit} --out fit")).stdout(Stdio::null()).spawn().unwrap();
    // The checkpoint shows that a hundred iterations are done.
    wait_for(&folder.path("fit/.part/checkpoint.safetensors"), &mut child);
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report = folder.report("fit");
    assert_eq!((&report["stop"]["reason"], &report["stop"]["converged"]), (&"cancelled".into(), &false.into()));
    assert!(number(&report, "/evals/points") < 1_500_000.0);
    for file in ["posterior.safetensors", "checkpoint.safetensors", "trace.jsonl", "report.html", "config.toml"] {
        assert!(folder.path("fit").join(file).is_file(), "{file}");
    }

    folder.expect(&[0, 1], &format!("{fit} --out uninterrupted"));
    let refused = folder.expect(&[2], &format!("{fit} --out fit --resume --seed 9"));
    assert!(refused.err.contains("different settings"), "{}", refused.err);
    folder.expect(&[0, 1], &format!("{fit} --out fit --resume"));
    folder.assert_same("fit", "uninterrupted");
    assert!(!folder.path("fit/checkpoint.safetensors").exists());
    let iterations = |dir: &str| -> Vec<u64> {
        let trace = String::from_utf8(folder.read(&format!("{dir}/trace.jsonl"))).unwrap();
        let row = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["iteration"].as_u64().unwrap();
        trace.lines().map(row).collect()
    };
    assert_eq!(iterations("fit"), iterations("uninterrupted"), "the trace has every iteration once");
}

/// Sends a signal, by its name for `kill`.
fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_second_interrupt_quits_at_once() {
    let folder = CommandFolder::new("twice");
    folder.write("table.csv", logistic_table(20_000, 1));
    // One iteration takes far longer than the test waits.
    let fit = "fit logistic --data table.csv --outcome y --draws-per-component 1000000 --threads 1 --out fit";
    let mut child = folder.command(fit).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&folder.path("fit/.part/trace.jsonl"), &mut child);
    send("INT", &child);
    let mut message = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find(|line| !line.is_empty())
        .inspect(|line| message.clone_from(line));
    assert!(message.contains("Ctrl-C again quits at once"), "{message}");
    assert!(child.try_wait().unwrap().is_none(), "the first interrupt waits for the iteration");
    // Two signals in quick succession are one: `timeout` sends it to the process and to its group.
    send("TERM", &child);
    std::thread::sleep(Duration::from_millis(1200));
    assert!(child.try_wait().unwrap().is_none(), "the second signal came too soon to be meant as one");
    let begun = Instant::now();
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(!folder.path("fit/report.json").exists());
}

#[test]
fn a_killed_run_keeps_earlier_results_and_resumes() {
    let folder = with_table("killed");
    folder.expect(&[0], &format!("{FIT} --out fit"));
    let files = ["report.json", "posterior.safetensors", "trace.jsonl", "report.html", "config.toml"];
    let contents = || files.map(|file| folder.read(&format!("fit/{file}")));
    let before = contents();
    folder.write("funnel.json", funnel_spec(10));
    let fit = "fit density --spec funnel.json --components 20 --tolerance 1e-9 --max-evals 400000";
    let mut child = folder.command(&format!("{fit} --out fit --quiet")).spawn().unwrap();
    wait_for(&folder.path("fit/.part/checkpoint.safetensors"), &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(contents() == before, "the earlier results have changed");
    folder.expect(&[0], "report fit");

    // A copy, to see what a run without --resume says.
    let copied = Command::new("cp").args(["-r", "fit", "copy"]).current_dir(folder.path("")).status().unwrap();
    assert!(copied.success());
    let anew = folder.expect(&[0, 1], "fit density --spec funnel.json --components 1 --max-evals 10000 --out copy");
    assert!(anew.err.contains("use --resume to continue"), "{}", anew.err);
    assert!(!folder.path("copy/.part").exists());

    folder.expect(&[0, 1], &format!("{fit} --out fit --resume --quiet"));
    folder.expect(&[0, 1], &format!("{fit} --out uninterrupted --quiet"));
    folder.assert_same("fit", "uninterrupted");
    let trace = |dir: &str| -> Vec<u64> {
        let text = String::from_utf8(folder.read(&format!("{dir}/trace.jsonl"))).unwrap();
        text.lines().map(|line| number(&serde_json::from_str(line).unwrap(), "/iteration") as u64).collect()
    };
    assert_eq!(trace("fit"), trace("uninterrupted"), "the trace has every iteration once");
    assert!(!folder.path("fit/.part").exists());
}

/// A reader that closes the pipe early is not an error.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = with_table("pipe");
    folder.expect(&[0], &format!("{FIT} --out fit"));
    for args in
        ["sample --posterior fit -n 100000", "completions zsh", "methods", "predict --posterior fit --data table.csv"]
    {
        let script = format!("set -o pipefail; \"$0\" {args} | head -1");
        let mut command = Command::new("bash");
        let output =
            command.args(["-c", &script, env!("CARGO_BIN_EXE_natmix")]).current_dir(folder.path("")).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && err.is_empty(), "{args}: {:?} {err}", output.status);
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "{args}");
    }
}
