//! Fits that chains finish: what is printed, written and read back.

mod common;

use common::{CommandFolder, number};
use serde_json::Value;

const T: &str = r#"{"kind": "student_mixture", "dim": 2, "df": 4, "weights": [1], "locations": [[1, 2]],
    "scales": [[[1, 0.5], [0.5, 1]]], "init": {"mean": 0, "sd": 2}}"#;

fn array(folder: &CommandFolder, name: &str) -> Value {
    serde_json::from_slice(&folder.read(&format!("fit/draws.zarr/{name}/.zarray"))).unwrap()
}

#[test]
fn chains_finish_a_fit_where_they_are_asked_for() {
    let folder = CommandFolder::new("chains");
    folder.write("t.json", T);
    let shown = folder.expect(&[0], "fit density --spec t.json --finish always --seed 3 --out fit").out;
    assert!(shown.contains("R-hat") && shown.contains("effective") && shown.contains("for chains"), "{shown}");
    let report = folder.report("fit");
    assert_eq!(report["answer"]["level"], "chains");
    assert!(number(&report, "/answer/r_hat") < 1.01 && number(&report, "/answer/ess") > 1_000.0);
    assert!(number(&report, "/evals/chains") > 10_000.0);
    assert_eq!(report["answer"]["chains"]["count"], 64);
    for i in 0..2 {
        assert!(number(&report, &format!("/parameters/{i}/r_hat")) < 1.01);
        assert!(number(&report, &format!("/parameters/{i}/ess")) > 1_000.0);
        // Exact: the sd of a t with 4 degrees of freedom is sqrt 2 times its scale, but quantiles are known better.
        let (centre, q95) = ([1.0, 2.0][i], number(&report, &format!("/parameters/{i}/q95")));
        assert!((q95 - centre - 2.1318).abs() < 0.2, "{q95}");
    }
    // Eight starts, each with its chains one after the other.
    let shape = array(&folder, "posterior/z0")["shape"].clone();
    assert_eq!(shape[0], 8);
    for name in ["lp", "energy", "diverging", "walker", "iteration", "component"] {
        assert_eq!(array(&folder, &format!("sample_stats/{name}"))["shape"], shape, "{name}");
    }
    // The page from the files is the same as that of the fit.
    let page = folder.read("fit/report.html");
    assert!(folder.path("fit/figures/traces.png").exists() && folder.path("fit/figures/energy.svg").exists());
    folder.expect(&[0], "report fit");
    assert!(page == folder.read("fit/report.html"), "the page changed");
    // Draws of the answer, and of the mixture with weights.
    let chains = folder.expect(&[0], "sample --posterior fit -n 50").out;
    assert_eq!(chains.lines().count(), 51);
    assert!(folder.posterior("fit").answer.unwrap().chains.is_some());
    assert_ne!(folder.expect(&[0], "sample --posterior fit -n 50 --level weighted").out, chains);
    // The settings are written down, and repeat the run.
    folder.expect(&[0], "fit --config fit/config.toml --quiet --out again --threads 1");
    folder.assert_same("fit", "again");
}

#[test]
fn chains_never_run_where_they_are_not_wanted() {
    let folder = CommandFolder::new("no-chains");
    folder.write("t.json", T);
    folder.expect(&[0, 1], "fit density --spec t.json --finish never --goal elbo --max-evals 3000 --quiet --out fit");
    let report = folder.report("fit");
    assert_eq!(report["evals"]["chains"], 0);
    assert!(report["answer"].get("chains").is_none() && report["parameters"][0].get("r_hat").is_none());
    assert_eq!(array(&folder, "posterior/z0")["shape"][0], 1);
    assert_eq!(
        (&report["config"]["engine"]["finish"], &report["config"]["engine"]["goal"]),
        (&"never".into(), &"elbo".into())
    );
}
