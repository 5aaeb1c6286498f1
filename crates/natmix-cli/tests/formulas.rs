//! Fits by formula: the same as without one where both can say it, and predictions for new tables.

mod common;

use common::{CommandFolder, TableNoise};
use std::fmt::Write;

/// Numbers a and b, a category, an exposure and an outcome for every model.
fn table(rows: usize) -> String {
    let mut noise = TableNoise(5);
    let mut text = String::from("a,b,town,time,yes,real,count,class\n");
    for row in 0..rows {
        let (a, b, town) = (noise.normal(), 5.0 + 2.0 * noise.normal(), ["u", "v", "w"][row % 3]);
        let eta = 0.4 * a - 0.2 * (b - 5.0) + 0.1 * a * a;
        let yes = u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp()));
        let (real, count) = (3.0 + eta + 0.5 * noise.normal(), (4.0 * eta.exp() * noise.uniform()).floor());
        let class = ["x", "y", "z"][(3.0 * noise.uniform() * if a > 0.0 { 1.0 } else { 0.7 }) as usize];
        let time = 0.5 + noise.uniform();
        writeln!(text, "{a},{b},{town},{time},{yes},{real},{count},{class}").unwrap();
    }
    text
}

/// How a value becomes another.
type Change = fn(f64) -> f64;

/// Some columns of a table, with one more that is calculated from the first.
fn with_column(text: &str, keep: &[&str], more: Option<(&str, Change)>) -> String {
    let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let places: Vec<usize> = keep.iter().map(|name| names.iter().position(|other| other == name).unwrap()).collect();
    let line = |(i, line): (usize, &str)| {
        let fields: Vec<&str> = line.split(',').collect();
        let mut kept: Vec<String> = places.iter().map(|&place| fields[place].to_string()).collect();
        if let Some((name, f)) = more {
            kept.insert(1, if i == 0 { name.into() } else { f(kept[0].parse().unwrap()).to_string() });
        }
        kept.join(",") + "\n"
    };
    text.lines().enumerate().map(line).collect()
}

/// Main effects are the same fit with a formula and without one, to the last bit, for every model.
#[test]
fn main_effects_are_the_fit_without_a_formula() {
    let folder = CommandFolder::new("formula-same");
    let text = table(300);
    let fits = [
        ("logistic", "yes", "a b town yes", "--categorical town", "yes~a+b+town"),
        ("linear", "real", "a b town real", "--categorical town", "real~."),
        ("linear", "real", "a b real", "--no-standardize --noise-sd 0.5", "real~a+b"),
        ("linear", "real", "a b town real", "--categorical town --no-intercept", "real~0+a+b+town"),
        ("poisson", "count", "a b town count", "--categorical town", "count~a+b+town"),
        ("softmax", "class", "a b class", "--categorical class", "class~b+a-b+b"),
    ];
    for (i, (model, outcome, columns, options, formula)) in fits.iter().enumerate() {
        let columns: Vec<&str> = columns.split(' ').collect();
        folder.write("table.csv", with_column(&text, &columns, None));
        let fit = format!("fit {model} --data table.csv --test table.csv --quiet --max-evals 4000");
        let without = folder.expect(&[0, 1], &format!("{fit} {options} --outcome {outcome} --out without{i}"));
        let options = options.replace("--no-intercept", "");
        let with = folder.expect(&[0, 1], &format!("{fit} {options} --formula {formula} --out with{i}"));
        assert_eq!(with.code, without.code);
        let [a, b] = [format!("without{i}"), format!("with{i}")].map(|dir| {
            let mut report = folder.timeless_report(&dir);
            assert!(report.as_object_mut().unwrap().remove("config").is_some());
            report
        });
        assert_eq!(a, b, "{formula}");
        // What is stored repeats the fit.
        folder.expect(&[0, 1], &format!("fit --config with{i}/config.toml --quiet --out again{i}"));
        folder.assert_same(&format!("with{i}"), &format!("again{i}"));
    }
}

/// A function in a formula is the fit to a table that has its values as a column, and new tables need the column itself.
#[test]
fn functions_and_offsets_are_calculated_for_new_tables_too() {
    let folder = CommandFolder::new("formula-new");
    let text = table(300);
    let columns = ["a", "b", "time", "count"];
    folder.write("plain.csv", with_column(&text, &columns, None));
    folder.write("squares.csv", with_column(&text, &columns, Some(("a2", |a| a * a))));
    let fit = "fit poisson --quiet --max-evals 6000";
    folder.expect(&[0, 1], &format!("{fit} --data squares.csv --outcome count --exposure time --out columns"));
    folder
        .expect(&[0, 1], &format!("{fit} --data plain.csv --formula count~a+I(a^2)+b+offset(log(time)) --out formula"));
    let names = |dir: &str| -> Vec<String> {
        let report = folder.report(dir);
        let parameters = report["parameters"].as_array().unwrap();
        parameters.iter().map(|p| p["name"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names("formula"), ["(intercept)", "a", "I(a^2)", "b"]);
    assert_eq!(names("columns"), ["(intercept)", "a", "a2", "b"]);
    // New rows: other columns in another order.
    folder.write("new.csv", "time,b,a\n1,4,0.5\n2,6,-1.5\n");
    folder.write("new-squares.csv", "a,a2,b,time\n0.5,0.25,4,1\n-1.5,2.25,6,2\n");
    let by_formula = folder.expect(&[0], "predict --posterior formula --data new.csv").out;
    let by_columns = folder.expect(&[0], "predict --posterior columns --data new-squares.csv").out;
    assert_eq!(by_formula, by_columns);
    assert_eq!(by_formula.lines().count(), 3);

    // A formula says which columns it needs: others do not matter.
    assert_eq!(folder.expect(&[0], "predict --posterior formula --data new-squares.csv").out, by_formula);
    folder.write("short.csv", "b,time\n4,1\n");
    let missing = folder.expect(&[2], "predict --posterior formula --data short.csv");
    assert!(missing.err.contains("column `a` is missing; the model was fitted with it"), "{}", missing.err);
}

/// Polynomials, interactions and reference levels: predictions do not depend on the way in which the same model is written.
#[test]
fn the_same_model_written_in_two_ways_predicts_the_same() {
    let folder = CommandFolder::new("formula-ways");
    folder.write("table.csv", table(400));
    folder.write("new.csv", "town,a\nu,0.5\nw,-1\nv,2\n");
    let fit = "fit linear --data table.csv --categorical town,class --quiet --prior-sd 100 --max-evals 20000";
    let predictions = |formula: &str, out: &str| -> Vec<f64> {
        folder.expect(&[0, 1], &format!("{fit} --formula {formula} --out {out}"));
        let lines = folder.expect(&[0], &format!("predict --posterior {out} --data new.csv")).out;
        lines.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect()
    };
    let one = predictions("real~town*poly(a,2)", "one");
    let other = predictions("real~0+C(town,ref=\"w\")/(a+I(a^2))", "other");
    for (one, other) in one.iter().zip(&other) {
        assert!((one - other).abs() < 0.02, "{one} {other}");
    }
    folder.write("unknown.csv", "town,a\nq,0.5\n");
    let unknown = folder.expect(&[2], "predict --posterior one --data unknown.csv");
    assert!(unknown.err.contains("level `q` did not occur when the model was fitted"), "{}", unknown.err);
}

#[test]
fn formulas_that_cannot_be_fitted_are_errors() {
    let folder = CommandFolder::new("formula-bad");
    folder.write("table.csv", table(50));
    let fit = "fit linear --data table.csv --categorical town,class --out fit";
    let cases = [
        (
            "--formula real~a --outcome real",
            "--outcome must not be given together with `formula`: it stands before `~`",
        ),
        ("--formula real~a --offset b", "write offset(x) in the formula"),
        ("--formula real~a --no-intercept", "write 0 + in the formula for none"),
        ("--formula real~a --stream", "its rows are kept in memory"),
        ("--formula real~tiem", "there is no column `tiem`; did you mean `time`?"),
        ("--formula real~a+", "the formula ends where a column, number or function is expected"),
        ("--formula real~log(a)", "is not positive, so it has no logarithm"),
        ("--formula ~a", "there is no outcome before `~`"),
        ("--formula count|trials(9)~a", "have no meaning for this model"),
        ("--formula town~a", "column `town` is categorical, so it cannot be standardised as the outcome"),
    ];
    for (options, expected) in cases {
        let run = folder.expect(&[2], &format!("{fit} {options}"));
        assert!(run.err.contains(expected), "{options}: {}", run.err);
        assert!(!folder.path("fit").exists(), "{options}");
    }
    let run = folder.expect(&[2], "fit mlp --data table.csv --formula real~a --out fit");
    assert!(run.err.contains("--formula does not apply to mlp, only to regressions"), "{}", run.err);
}

/// Only the columns of a formula are read, whatever its functions are told; `--only` says what `.` stands for.
#[test]
fn a_formula_reads_its_columns_and_no_others() {
    let folder = CommandFolder::new("formula-columns");
    let rows = table(60);
    let with_gaps = |(i, line): (usize, &str)| match i {
        0 => format!("{line},note\n"),
        _ => format!("{line},{}\n", if i % 3 == 0 { "NA" } else { "7" }),
    };
    folder.write("table.csv", rows.lines().enumerate().map(with_gaps).collect::<String>());
    let names = |dir: &str| -> Vec<String> {
        let report = folder.report(dir);
        report["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_string()).collect()
    };
    let fit = "fit linear --data table.csv --quiet --max-evals 3000 --missing drop";
    folder.expect(&[0, 1], &format!("{fit} --formula real~poly(a,2,raw=TRUE) --out poly"));
    assert!(folder.report("poly")["model"]["table"].get("dropped").is_none());
    folder.expect(&[0, 1], &format!("{fit} --formula real~a+b --only a --out named"));
    assert_eq!(names("named")[..3], ["(intercept)", "a", "b"]);
    folder.expect(&[0, 1], &format!("{fit} --formula real~. --only a,town --out others"));
    assert_eq!(names("others")[..4], ["(intercept)", "a", "town=v", "town=w"]);
    let refused = folder.expect(&[2], &format!("{fit} --formula real~a --reference town=v --out no"));
    assert!(refused.err.contains("column `town` is not used, so it has no reference level"), "{}", refused.err);
}

/// Numbers that a formula makes classes of are numbers in the files of the test and of predictions, too.
#[test]
fn classes_that_are_numbers_can_be_read_again() {
    let folder = CommandFolder::new("formula-classes");
    folder.write("table.csv", table(80));
    let fit = "fit logistic --data table.csv --test table.csv --quiet --max-evals 3000 --formula";
    folder.expect(&[0, 1], &format!("{fit} factor(yes)~a --out factor"));
    folder.expect(&[0, 1], &format!("{fit} yes~a --out plain"));
    let [factor, plain] = ["factor", "plain"].map(|dir| folder.report(dir)["test"].clone());
    assert!(factor.is_object() && factor == plain, "{factor} {plain}");
    let predict = |dir: &str| folder.expect(&[0], &format!("predict --posterior {dir} --data table.csv")).out;
    assert_eq!(predict("factor"), predict("plain"));
}
