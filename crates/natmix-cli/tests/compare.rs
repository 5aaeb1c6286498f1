//! Models compared with each other, and statements about parameters, on the command line.

mod common;

use common::{CommandFolder, TableNoise};
use serde_json::Value;
use std::fmt::Write;

/// A number that explains the outcome, one that does not, groups, an outcome with its logarithm, and a column with gaps.
fn table(rows: usize) -> String {
    let mut noise = TableNoise(5);
    let mut text = String::from("x,w,g,y,logy,count,gaps\n");
    for row in 0..rows {
        let (x, w) = (noise.normal(), noise.normal());
        let logy = 1.0 + 0.8 * x + 0.3 * noise.normal();
        let count = (logy.exp() * noise.uniform()).round();
        let gaps = if row % 20 == 3 { String::new() } else { format!("{}", noise.normal()) };
        writeln!(text, "{x},{w},g{},{},{logy},{count},{gaps}", row % 6, logy.exp()).unwrap();
    }
    text
}

/// Folders of several fits of one table.
fn fits(folder: &CommandFolder, rows: usize, models: &[(&str, &str)]) {
    folder.write("table.csv", table(rows));
    for (name, args) in models {
        folder.expect(&[0, 1], &format!("fit {args} --data table.csv --out {name} --seed 3 --quiet"));
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// The text of a page or of messages, on one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn models_of_the_same_outcomes_are_compared() {
    let folder = CommandFolder::new("compare");
    let models = [
        ("line", "linear --outcome logy --only x"),
        ("flat", "linear --outcome logy --only w"),
        ("groups", "linear --formula logy~x+(1|g)"),
    ];
    fits(&folder, 120, &models);
    let run = folder.expect(&[0], "compare flat line groups --out page.html");
    assert!(run.out.starts_with("Leave-one-out cross-validation of `logy`, 120 rows"), "{}", run.out);
    assert!(
        run.out.contains("Evidence (depends on the priors)") && run.out.contains("a difference below 4 is small"),
        "{}",
        run.out
    );
    let found = json(&folder.expect(&[0], "compare flat line groups --json").out);
    let models = found["models"].as_array().unwrap();
    assert_eq!(models[2]["name"], "flat");
    let flat_loo = &models[2]["loo"];
    assert!(number(&flat_loo["difference"]) < -50.0 && number(&flat_loo["weight"]) < 0.05, "{flat_loo}");
    let weights: f64 = models.iter().map(|model| number(&model["loo"]["weight"])).sum();
    let probabilities: f64 = models.iter().map(|model| number(&model["evidence"]["probability"]["mean"])).sum();
    assert!((weights - 1.0).abs() < 1e-9 && (probabilities - 1.0).abs() < 1e-9);
    assert!(number(&found["stacking_gap"]) < 1e-9);
    for model in models {
        // The sum over rows is what the report of the fit says, in the same units.
        let name = model["name"].as_str().unwrap();
        let report = folder.report(name);
        let (own, theirs) = (number(&model["loo"]["elpd"]), number(&report["loo"]["elpd"]));
        assert!((own - theirs).abs() < 1e-8 * own.abs(), "{name}: {own} {theirs}");
        assert!((number(&model["loo"]["se"]) - number(&report["loo"]["se"])).abs() < 1e-8);
    }
    let page = String::from_utf8(folder.read("page.html")).unwrap();
    for part in ["id=\"differences\"", "id=\"weights\"", "id=\"loo\"", "id=\"evidence\"", "id=\"models\""] {
        assert!(page.contains(part), "{part}");
    }
    // The order in which fits are given does not matter, and results repeat.
    assert_eq!(json(&folder.expect(&[0], "compare groups flat line --json").out)["models"], found["models"]);
}

#[test]
fn other_outcomes_and_other_rows_are_refused() {
    let folder = CommandFolder::new("compare-refused");
    let models = [
        ("raw", "linear --outcome y --only x"),
        ("log", "linear --formula log(y)~x"),
        ("column", "gamma --formula y~x"),
        ("gaps", "linear --outcome y --only gaps --missing drop"),
        ("counts", "poisson --outcome count --only x"),
    ];
    fits(&folder, 100, &models);
    let refused = |args: &str| flat(&folder.expect(&[2], &format!("compare {args}")).err);
    let message = refused("raw log");
    assert!(
        message.contains("the outcome `log(y)` of `log` is the logarithm of the outcome `y` of `raw`"),
        "{message}"
    );
    let message = refused("raw gaps");
    assert!(message.contains("`raw` was fitted to 100 rows and `gaps` to 95 (0 and 5 rows were dropped"), "{message}");
    let message = refused("raw counts");
    assert!(message.contains("`raw` explains `y`, `counts` `count`"), "{message}");
    assert!(refused("raw raw").contains("`raw` is given twice"));
    assert!(refused("raw nowhere").contains("nowhere"));
    assert!(folder.expect(&[2], "compare raw").err.contains("DIR"));
    // A gamma regression has effects on the logarithm, and the outcome as it is.
    let run = folder.expect(&[0, 1], "compare raw column");
    assert!(run.out.contains("column") && !run.out.contains("whole numbers"), "{}", run.out);
}

#[test]
fn fits_without_rows_have_evidence_only() {
    let folder = CommandFolder::new("compare-evidence");
    let spec = |sd: f64| format!(r#"{{"kind": "funnel", "dim": 2, "sd0": {sd}, "init": {{"mean": 0, "sd": 1}}}}"#);
    for (name, sd) in [("narrow", 0.5), ("wide", 0.8)] {
        folder.write(&format!("{name}.json"), spec(sd));
        folder.expect(&[0, 1], &format!("fit density --spec {name}.json --out {name} --quiet --max-evals 20000"));
    }
    let run = folder.expect(&[0, 1], "compare narrow wide --json");
    let found = json(&run.out);
    assert!(found.get("rows").is_none() && found["models"][0].get("loo").is_none());
    assert!(flat(&run.out).contains("it is compared by its evidence only"), "{}", run.out);
    // Both densities are normalised: neither explains more.
    let factor = &found["models"][1]["evidence"]["log_bayes_factor"];
    assert!(number(&factor["mean"]).abs() < 5.0 * number(&factor["se"]).max(1e-3), "{factor}");
    // Files of earlier versions have no contributions of rows.
    fits(&folder, 40, &[("old", "linear --outcome y --only x"), ("new", "linear --outcome y --only w")]);
    std::fs::remove_file(folder.path("old/loo.safetensors")).unwrap();
    let run = folder.expect(&[0, 1], "compare old new");
    assert!(flat(&run.out).contains("was not stored with `old`"), "{}", run.out);
    // A damaged file is refused.
    let mut bytes = folder.read("new/loo.safetensors");
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    folder.write("new/loo.safetensors", bytes);
    assert!(folder.expect(&[2], "compare old new").err.contains("is damaged"));
}

#[test]
fn statements_have_probabilities() {
    let folder = CommandFolder::new("test-statements");
    fits(&folder, 120, &[("fit", "linear --formula logy~x+w+(1|g)")]);
    let test = |statements: &[&str]| -> Value {
        let output = folder.command("test fit --json").args(statements).output().unwrap();
        assert!([0, 1].contains(&output.status.code().unwrap()), "{}", String::from_utf8_lossy(&output.stderr));
        json(&String::from_utf8(output.stdout).unwrap())
    };
    let report = folder.report("fit");
    let parameter = |name: &str| {
        let all = report["parameters"].as_array().unwrap();
        all.iter().find(|parameter| parameter["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    // A quantity that is a parameter has the numbers of the table.
    for name in ["x", "sd(g, (intercept))", "g[g3, (intercept)]", "(intercept)"] {
        let (found, known) = (&test(&[name])[0], parameter(name));
        for figure in ["mean", "sd", "q05", "q50", "q95"] {
            let (a, b) = (number(&found[figure]), number(&known[figure]));
            assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{name} {figure}: {a} {b}");
        }
        assert!(number(&found["se"]) < number(&found["sd"]) / 5.0);
    }
    // Probabilities agree with quantiles, and those of opposites add up.
    let median = number(&parameter("w")["q50"]);
    let found = test(&[
        &format!("w > {median}"),
        &format!("w <= {median}"),
        "x > 0 and sd(g, (intercept)) > 0",
        "x < 0",
        "x / 2 + w",
    ]);
    let probability = |at: usize| number(&found[at]["probability"]);
    assert!((probability(0) - 0.5).abs() < 0.002 && (probability(0) + probability(1) - 1.0).abs() < 1e-12);
    assert!((0.001..0.05).contains(&number(&found[0]["se"])));
    assert_eq!((probability(2), probability(3)), (1.0, 0.0));
    assert!(number(&found[2]["at_least"]) > 0.97 && number(&found[3]["at_most"]) < 0.03);
    assert!(found[4]["mean"].is_number());
    // Statements may begin with a minus sign, and flags may follow them.
    let run = folder.expect(&[0, 1], "test fit -x<0 --json");
    assert_eq!(number(&json(&run.out)[0]["probability"]), 1.0);
    let run = folder.expect(&[0, 1], "test fit x<0 w");
    assert!(
        run.out.starts_with("P(x<0) < 0.")
            && run.out.contains("it holds for none of")
            && run.out.contains("\nw: mean "),
        "{}",
        run.out
    );
    // Mistakes are named with their place.
    for (statement, problem) in [
        ("xx>0", "there is no parameter `xx`\n  xx>0\n  ^^"),
        ("log(w)>0", "has no value for"),
        ("x=0", "ask for a range"),
    ] {
        let message = folder.expect(&[2], &format!("test fit {statement}")).err;
        assert!(message.contains(problem), "{message}");
    }
}
