//! `--trace-frames` from end to end: what it writes, that it changes nothing else, resuming, bad values.

mod common;

use common::{CommandFolder, gaussian_spec, logistic_table, number};
use serde_json::Value;

const SPEC: &str = r#"{"kind": "gaussian_mixture", "dim": 2, "weights": [0.7, 0.3], "means": [[-3, 0], [3, 1]],
    "variances": [[1, 0.5], [0.4, 2]], "init": {"mean": 0.0, "sd": 3.0}}"#;
const FIT: &str = "fit density --spec spec.json --max-evals 6000 --quiet";

fn with_spec(test: &str) -> CommandFolder {
    let folder = CommandFolder::new(test);
    folder.write("spec.json", SPEC);
    folder
}

fn frames(folder: &CommandFolder, dir: &str) -> Value {
    serde_json::from_slice(&folder.read(&format!("{dir}/frames.json"))).unwrap()
}

fn iterations(frames: &Value) -> Vec<u64> {
    frames["frames"].as_array().unwrap().iter().map(|frame| frame["iteration"].as_u64().unwrap()).collect()
}

#[test]
fn frames_show_the_run_and_change_nothing() {
    let folder = with_spec("frames-same");
    folder.expect(&[0, 1], &format!("{FIT} --out plain"));
    folder.expect(&[0, 1], &format!("{FIT} --out film --trace-frames 12"));
    folder.assert_same("plain", "film");
    for file in ["config.toml", "figures/pairs.svg"] {
        assert_eq!(folder.read(&format!("plain/{file}")), folder.read(&format!("film/{file}")), "{file}");
    }
    assert!(!folder.path("plain/frames.json").exists());

    let (film, report) = (frames(&folder, "film"), folder.report("film"));
    assert_eq!(film["names"], serde_json::json!(["z0", "z1"]));
    let all = film["frames"].as_array().unwrap();
    assert!((6..=12).contains(&all.len()), "{}", all.len());
    assert_eq!(all[0]["iteration"], 1);
    // Spread evenly over the run: no gap is much longer than the others.
    let at = iterations(&film);
    let longest = at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest <= at.last().unwrap() / 5, "{at:?}");
    // Each agrees with the trace.
    let trace = String::from_utf8(folder.read("film/trace.jsonl")).unwrap();
    let rows: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for frame in &all[..all.len() - 1] {
        let row = rows.iter().find(|row| row["iteration"] == frame["iteration"]).unwrap();
        assert_eq!((&row["evals"], &row["elbo"]), (&frame["evals"], &frame["elbo"]));
        assert_eq!(row["components"], frame["weights"].as_array().unwrap().len());
    }
    // The last one is the result.
    let last = &all[all.len() - 1];
    assert_eq!((&last["iteration"], &last["evals"]), (&report["iterations"], &report["evals"]["points"]));
    assert_eq!(last["elbo"], report["elbo"]["mean"]);
    let components = report["components"].as_array().unwrap();
    assert_eq!(last["weights"].as_array().unwrap().len(), components.len());
    for (k, component) in components.iter().enumerate() {
        assert_eq!(last["means"][k], component["mean"]);
        for j in 0..2 {
            let variance = number(last, &format!("/covariances/{k}/{j}/{j}"));
            assert!((variance.sqrt() - number(component, &format!("/sd/{j}"))).abs() < 1e-9);
        }
    }

    // The page shows them, also when it is rewritten from the file alone.
    let page = folder.read("film/report.html");
    let text = String::from_utf8(page.clone()).unwrap();
    assert!(text.contains("How the mixture formed") && text.contains("type=\"range\""));
    assert!(!String::from_utf8(folder.read("plain/report.html")).unwrap().contains("<script"));
    std::fs::remove_file(folder.path("film/report.html")).unwrap();
    folder.expect(&[0], "report film");
    assert!(folder.read("film/report.html") == page);
    // A fit without frames removes those of an earlier one.
    folder.expect(&[0, 1], &format!("{FIT} --out film"));
    assert!(!folder.path("film/frames.json").exists());
}

#[test]
fn regressions_are_shown_on_the_users_own_scale() {
    let folder = CommandFolder::new("frames-regression");
    folder.write("table.csv", logistic_table(200, 1));
    folder.expect(&[0], "fit logistic --data table.csv --outcome y --trace-frames 5 --out fit --quiet");
    let (film, report) = (frames(&folder, "fit"), folder.report("fit"));
    assert_eq!(film["fitted_scale"], false);
    let last = film["frames"].as_array().unwrap().last().unwrap().clone();
    for (i, name) in film["names"].as_array().unwrap().iter().enumerate() {
        let all = report["parameters"].as_array().unwrap();
        let parameter = all.iter().find(|parameter| parameter["name"] == *name).unwrap();
        let weights = last["weights"].as_array().unwrap();
        let mean: f64 =
            (0..weights.len()).map(|k| weights[k].as_f64().unwrap() * number(&last, &format!("/means/{k}/{i}"))).sum();
        // From 4,000 draws.
        let (drawn, sd) = (number(parameter, "/mean"), number(parameter, "/sd"));
        assert!((mean - drawn).abs() < 5.0 * sd / 4000f64.sqrt(), "{name}: {mean}, drawn {drawn}");
    }
}

#[test]
fn one_dimension_and_every_method() {
    let folder = CommandFolder::new("frames-methods");
    folder.write("spec.json", gaussian_spec(2.0, 0.5));
    for method in ["auto", "von", "bbvi", "mixture-draws", "component-draws"] {
        folder.expect(&[0, 1], &format!("{FIT} --method {method} --trace-frames 2 --out {method}"));
        let film = frames(&folder, method);
        assert_eq!(film["names"], serde_json::json!(["z0"]), "{method}");
        assert!((1..=2).contains(&iterations(&film).len()), "{method}");
    }
}

#[cfg(unix)]
#[test]
fn a_resumed_run_continues_its_frames() {
    let folder = with_spec("frames-resume");
    // Small steps, so that the run does not end before it is interrupted.
    let fit = "fit density --spec spec.json --method von --rate 1e-4 --tolerance 1e-12 --finish never --quiet --trace-frames 20";
    let mut child = folder.command(&format!("{fit} --max-evals 100000000 --out fit")).spawn().unwrap();
    let trace = folder.path("fit/.part/trace.jsonl");
    let lines = || std::fs::read_to_string(&trace).map_or(0, |text| text.lines().count());
    let begun = std::time::Instant::now();
    while lines() < 300 {
        assert!(begun.elapsed().as_secs() < 60, "no progress");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = iterations(&frames(&folder, "fit"));
    let reached = *before.last().unwrap();
    assert!(before[0] == 1 && reached >= 300, "{before:?}");
    let evals = 2 * folder.report("fit")["evals"]["points"].as_u64().unwrap();
    folder.expect(&[0, 1], &format!("{fit} --max-evals {evals} --out fit --resume"));
    let after = iterations(&frames(&folder, "fit"));
    assert!(after[0] == 1 && after.len() <= 20 && *after.last().unwrap() > reached, "{after:?}");
    let early = after.iter().filter(|at| **at < reached).count();
    assert!((7..=13).contains(&early), "{after:?}, interrupted at {reached}");
}

#[test]
fn bad_values_are_reported() {
    let folder = with_spec("frames-bad");
    for (value, problem) in [
        ("0", "--trace-frames must be from 2 to 500, not 0"),
        ("1", "--trace-frames must be from 2 to 500, not 1"),
        ("1000000000", "--trace-frames must be from 2 to 500, not 1000000000"),
        ("-3", "invalid value '-3' for '--trace-frames <N>'"),
        ("many", "invalid value 'many' for '--trace-frames <N>'"),
    ] {
        let run = folder.expect(&[2], &format!("{FIT} --out fit --trace-frames {value}"));
        assert!(run.err.contains(problem), "{}", run.err);
        assert!(!folder.path("fit").exists());
    }
    folder.write("table.csv", logistic_table(50, 1));
    let run = folder.expect(&[2], "fit mlp --data table.csv --outcome y --trace-frames 9 --out fit");
    assert!(run.err.contains("--trace-frames does not apply to mlp"), "{}", run.err);

    // A network in the same folder removes the frames of an earlier fit too.
    folder.expect(&[0, 1], &format!("{FIT} --out fit --trace-frames 3"));
    folder.expect(&[0, 1], "fit mlp --data table.csv --outcome y --hidden 2 --epochs 1 --out fit --quiet");
    assert!(!folder.path("fit/frames.json").exists());
    folder.expect(&[0, 1], &format!("{FIT} --out fit --trace-frames 3"));
    folder.write("fit/frames.json", "{\"names\": []");
    let run = folder.expect(&[2], "report fit");
    assert!(run.err.contains("frames.json: was not written by natmix"), "{}", run.err);
}
