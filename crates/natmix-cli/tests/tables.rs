//! Tables as people have them, on the command line: the same fit in every dialect, rows and columns left out, text without a flag, and
//! fits of earlier versions, which do not change.

mod common;

use common::{CommandFolder, TableNoise, number};
use serde_json::Value;

/// Two numbers, a category, and outcomes for every model, with this mark of decimals and separator.
fn table(separator: &str, mark: &str) -> String {
    let mut noise = TableNoise(5);
    let mut text = ["a", "b", "town", "ill", "cost", "visits", "kind"].join(separator) + "\n";
    for row in 0..200 {
        let (a, b) = (noise.normal(), 5.0 + 2.0 * noise.normal());
        let eta = 0.6 * a - 0.3 * (b - 5.0);
        let ill = if noise.uniform() < 1.0 / (1.0 + (-eta).exp()) { "yes" } else { "no" };
        let kind = ["late", "early", "middle"][(3.0 * noise.uniform() * if a > 0.0 { 1.0 } else { 0.7 }) as usize];
        let fields = [
            a.to_string(),
            b.to_string(),
            ["u", "v", "w"][row % 3].into(),
            ill.into(),
            (3.0 + eta + noise.normal()).to_string(),
            ((2.0 * eta.exp() * noise.uniform()).round() as u32).to_string(),
            kind.into(),
        ];
        text += &(fields.map(|field| field.replace('.', mark)).join(separator) + "\n");
    }
    text
}

/// Models, their columns, and those of text among them.
const FITS: [(&str, &str, &str); 4] = [
    ("logistic", "--outcome ill --without cost,visits,kind", "town,ill"),
    ("linear", "--outcome cost --only a,b,town", "town"),
    ("poisson", "--outcome visits --only a,town", "town"),
    ("softmax", "--outcome kind --only a,b", "kind"),
];

/// What a fit found, without how its table was written.
fn found(folder: &CommandFolder, out: &str) -> (Vec<Option<Value>>, String) {
    let report = folder.report(out);
    let parts =
        ["/parameters", "/components", "/elbo", "/log_evidence", "/k_hat", "/answer", "/evals", "/train", "/loo"];
    let draws = folder.expect(&[0], &format!("sample --posterior {out} -n 20"));
    (parts.map(|part| report.pointer(part).cloned()).to_vec(), draws.out)
}

/// Text needs no flag, and neither separator nor mark of decimals nor encoding changes a bit; streamed or in memory.
#[test]
fn every_dialect_gives_the_fit_of_the_plain_table() {
    let folder = CommandFolder::new("tables-dialects");
    folder.write("plain.csv", table(",", "."));
    folder.write("german.csv", table(";", ",").replace('\n', "\r\n"));
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain(table("\t", ",").encode_utf16()).flat_map(u16::to_le_bytes).collect();
    folder.write("unicode.txt", utf16);
    for (model, options, categorical) in FITS {
        let fit = |more: &str, out: &str| {
            folder.expect(&[0, 1], &format!("fit {model} {options} --seed 1 --quiet --out {out} --data {more}"));
            found(&folder, out)
        };
        let expected = fit(&format!("plain.csv --categorical {categorical}"), &format!("{model}-flags"));
        for (i, data) in ["plain.csv", "german.csv", "unicode.txt", "german.csv --stream"].iter().enumerate() {
            assert!(fit(data, &format!("{model}{i}")) == expected, "{model}, {data}");
        }
    }
    // New rows may be written in any way, too.
    let predict = |out: &str, data: &str| folder.expect(&[0], &format!("predict --posterior {out} --data {data}")).out;
    folder.write("new.csv", "town,b,a\nu,1.5,-2\nw,4.25,0.5\n");
    folder.write("new.txt", "\u{feff}a|town|b|\r\n-2|u|1,5|\r\n0,5|w|4,25|\r\n");
    let expected = predict("linear0", "new.csv");
    assert_eq!((expected.lines().count(), predict("linear2", "new.txt")), (3, expected));
}

/// Fits of the version before tables of other kinds were read, stored with all digits. Their bits are promised per machine type, so
/// what is compared is far more than what a change of the data would leave, and less than all bits.
#[test]
fn tables_that_were_read_before_give_the_same_fits() {
    let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    let text = std::fs::read_to_string(format!("{testdata}/fits_before.json")).unwrap();
    let fits: Value = serde_json::from_str(&text).unwrap();
    let folder = CommandFolder::new("tables-before");
    folder.write("plain.csv", table(",", "."));
    for name in ["poisson.csv", "softmax.csv"] {
        folder.write(name, std::fs::read(format!("{testdata}/{name}")).unwrap());
    }
    assert_eq!(fits.as_object().unwrap().len(), 7);
    for (fit, expected) in fits.as_object().unwrap() {
        folder.expect(&[0, 1], &format!("{fit} --seed 1 --quiet --out fit"));
        let parameters = folder.report("fit")["parameters"].clone();
        assert_eq!(parameters.as_array().unwrap().len(), expected.as_array().unwrap().len(), "{fit}");
        for (found, expected) in parameters.as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
            assert_eq!(found["name"], expected["name"], "{fit}");
            for figure in ["/mean", "/sd", "/q05", "/q50", "/q95"] {
                let (found, known) = (number(found, figure), number(expected, figure));
                assert!((found - known).abs() < 1e-6 * number(expected, "/sd"), "{fit}, {figure}: {found}, {known}");
            }
        }
    }
}

/// What the levels of an outcome mean is said, recorded, and can be changed; so are reference levels.
#[test]
fn text_outcomes_say_which_class_is_positive() {
    let folder = CommandFolder::new("tables-outcome");
    folder.write("table.csv", table(",", "."));
    let fit = "fit logistic --data table.csv --outcome ill --only a,b,town";
    let run = folder.expect(&[0, 1], &format!("{fit} --out fit"));
    for words in [
        "note: text is read as categories: `town` (3 levels, reference `u`)\n",
        "note: outcome `ill`: `yes` is the positive class, `no` the other (--reference ill=yes exchanges them)\n",
    ] {
        assert!(run.err.contains(words), "{}", run.err);
    }
    let report = folder.report("fit");
    assert_eq!(report["model"]["table"]["outcome"]["positive"], "yes");
    assert_eq!(report["model"]["table"]["categories"][0]["reference"], "u");
    folder.expect(&[0, 1], &format!("{fit} --reference ill=yes,town=w --quiet --out other"));
    let other = folder.report("other");
    assert_eq!(other["model"]["table"]["outcome"]["positive"], "no");
    let names: Vec<&str> =
        other["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["(intercept)", "a", "b", "town=u", "town=v"]);
    for slope in [1, 2] {
        let [x, y] = [&report, &other].map(|report| number(report, &format!("/parameters/{slope}/mean")));
        let sd = number(&report, &format!("/parameters/{slope}/sd"));
        assert!((x + y).abs() < 0.1 * sd, "{x}, {y}");
    }
    // A file of settings repeats it.
    folder.expect(&[0, 1], "fit --config other/config.toml --quiet --out again");
    folder.assert_same("other", "again");
    folder.expect(&[0, 1], "fit softmax --data table.csv --outcome kind --only a --out classes");
    assert_eq!(folder.report("classes")["model"]["table"]["outcome"]["reference"], "early");
}

/// Dropped rows leave the fit of the others; they are counted, by column, on standard error and in the report.
#[test]
fn rows_with_missing_values_are_dropped_and_counted() {
    let folder = CommandFolder::new("tables-missing");
    let (mut some, mut whole) = (String::new(), String::new());
    for (row, line) in table(",", ".").lines().enumerate() {
        let mut fields: Vec<&str> = line.split(',').collect();
        match row {
            5 | 17 => fields[0] = "NA",
            30 => fields[3] = "",
            // A column that is not used may hold anything.
            40 => fields[5] = "unknown",
            _ => {}
        }
        let line = fields.join(",") + "\n";
        some += &line;
        whole += if [5, 17, 30].contains(&row) { "" } else { &line };
    }
    folder.write("some.csv", &some);
    folder.write("whole.csv", &whole);
    let fit = "fit logistic --outcome ill --only a,b --seed 1";
    let refused = folder.expect(&[2], &format!("{fit} --data some.csv --out no"));
    for words in ["3 missing values in `a` (2), `ill` (1)", "row 5 (line 6), column `a`", "--missing drop"] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    let run = folder.expect(&[0, 1], &format!("{fit} --data some.csv --test some.csv --missing drop --out drop"));
    let note = "3 of 200 rows are dropped because values are missing: in `a` (2), `ill` (1)";
    for words in [format!("note: {note}\n"), format!("note: some.csv: {note}\n")] {
        assert!(run.err.contains(&words), "{}", run.err);
    }
    folder.expect(&[0, 1], &format!("{fit} --data whole.csv --test whole.csv --quiet --out whole"));
    folder
        .expect(&[0, 1], &format!("{fit} --data some.csv --test some.csv --missing drop --stream --quiet --out disk"));
    assert!(found(&folder, "drop") == found(&folder, "whole") && found(&folder, "disk") == found(&folder, "whole"));
    assert_eq!(folder.report("drop")["test"], folder.report("whole")["test"]);
    let dropped = folder.report("drop")["model"]["table"]["dropped"].clone();
    assert_eq!(dropped, serde_json::json!({"rows": 3, "of": 200, "columns": [["a", 2], ["ill", 1]]}));
}

/// Wrong names and choices that contradict one another are refused before the rows are read.
#[test]
fn wrong_columns_are_refused_with_a_suggestion() {
    let folder = CommandFolder::new("tables-names");
    folder.write("table.csv", table(",", "."));
    let fit = "fit logistic --data table.csv --out fit --outcome";
    for (options, words) in [
        ("Ill", "asked for as the outcome; did you mean `ill`?"),
        ("ill --without twon", "asked for as a column to leave out; did you mean `town`?"),
        ("ill --only a,visit", "asked for as a column to use; did you mean `visits`?"),
        ("ill --only a --without a", "column `a` cannot be both used (--only) and left out (--without)"),
        ("ill --without ill", "column `ill` is the outcome, so it cannot be left out (--without)"),
        ("ill --reference town", "--reference must be COL=LEVEL, such as colour=red, not town"),
        ("ill --reference town=x", "column `town` has no level `x` to be its reference; it has `u`, `v`, `w`"),
        ("ill --reference a=1", "column `a` holds numbers, so it has no reference level (name it in --categorical)"),
        ("ill --offset town", "row 1 (line 2), column `town`: `u` is not a number"),
        ("kind --only a", "column `kind` has 3 levels, but a logistic model needs two (try softmax)"),
        ("ill --missing skip", "--missing"),
    ] {
        let run = folder.expect(&[2], &format!("{fit} {options}"));
        assert!(run.err.contains(words), "{options}: {}", run.err);
    }
    let run = folder.expect(&[2], "fit density --spec none.json --missing drop --out fit");
    assert!(run.err.contains("--missing does not apply to density"), "{}", run.err);
    assert_eq!(folder.names(), ["table.csv"]);
}

/// What was left out of the fit may be in new rows, and what was found in their file is said.
#[test]
fn new_rows_may_have_what_was_left_out() {
    let folder = CommandFolder::new("tables-left-out");
    folder.write("table.csv", table(",", "."));
    folder.write("german.csv", table(";", ","));
    folder.write("more.csv", table(",", ".").replace('\n', ",1\n").replacen(",1\n", ",more\n", 1));
    for (i, options) in
        ["logistic --outcome ill --only a,b", "logistic --outcome ill --without cost,visits,kind,town --stream"]
            .iter()
            .enumerate()
    {
        folder.expect(&[0, 1], &format!("fit {options} --data table.csv --test table.csv --quiet --out fit{i}"));
        let predict = |code, data: &str| folder.expect(&[code], &format!("predict --posterior fit{i} --data {data}"));
        let (plain, german) = (predict(0, "table.csv"), predict(0, "german.csv"));
        assert_eq!((plain.out.lines().count(), plain.err.as_str()), (201, ""));
        assert_eq!(german.out, plain.out);
        assert_eq!(german.err, "note: columns are separated by semicolons, decimals have commas\n");
        let more = predict(2, "more.csv").err;
        assert!(more.contains("not fitted with `more`"), "{more}");
    }
}
