//! Every kind of bad input gets a specific message and exit code 2, and leaves no files behind.

mod common;

use common::{CommandFolder, gaussian_spec, logistic_table};
use std::process::Command;

/// Runs `natmix`, expects exit code 2, all words in its message, and an unchanged folder.
fn refused(folder: &CommandFolder, args: &str, words: &[&str]) {
    let before = folder.names();
    let run = folder.expect(&[2], args);
    assert_eq!(folder.names(), before, "natmix {args} left something behind");
    assert_eq!(run.out, "", "natmix {args} printed a result");
    for word in words {
        assert!(run.err.contains(word), "natmix {args}: `{word}` is not in\n{}", run.err);
    }
    assert!(!run.err.contains("panicked"), "{}", run.err);
}

/// Fits `model` to a table and expects an error.
fn refused_table(test: &str, model: &str, table: &str, words: &[&str]) {
    let folder = CommandFolder::new(test);
    folder.write("table.csv", table);
    refused(&folder, &format!("fit {model} --data table.csv --outcome y --out fit"), words);
}

#[test]
fn missing_file() {
    let folder = CommandFolder::new("missing");
    refused(&folder, "fit logistic --data nowhere.csv --outcome y --out fit", &["nowhere.csv", "No such file"]);
    let message = folder.run("fit logistic --data nowhere.csv --outcome y --out fit").err;
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
    refused(&folder, "fit density --spec nowhere.json --out fit", &["nowhere.json", "No such file"]);
    refused(&folder, "fit --config nowhere.toml --out fit", &["nowhere.toml", "No such file"]);
    refused(&folder, "predict --posterior nowhere --data nowhere.csv", &["nowhere", "No such file"]);
    refused(&folder, "report nowhere", &["nowhere", "No such file"]);
}

#[test]
fn empty_file() {
    refused_table("empty", "logistic", "", &["table.csv", "empty"]);
    refused_table("no-rows", "logistic", "x,y\n", &["table.csv", "no row"]);
}

#[test]
fn no_header() {
    refused_table("no-header", "logistic", "1,0\n2,1\n3,0\n", &["header is missing", "`1,0`"]);
}

#[test]
fn unknown_column() {
    let folder = CommandFolder::new("column");
    folder.write("table.csv", "x,z\n1,0\n2,1\n");
    let fit = "fit logistic --data table.csv --out fit";
    refused(&folder, &format!("{fit} --outcome y"), &["no column `y`", "outcome", "`x`, `z`"]);
    refused(&folder, &format!("{fit} --outcome z --weights w"), &["no column `w`", "weights"]);
    refused(&folder, &format!("{fit} --outcome z --categorical town"), &["no column `town`"]);
}

#[test]
fn text_in_a_number_column() {
    let words = ["row 2 (line 3)", "column `x`", "`tall` is not a number", "--categorical x"];
    refused_table("text", "linear", "x,y\n1,0\ntall,1\n3,2\n", &words);
    refused_table("ragged", "linear", "x,y\n1,0\n2,1,5\n", &["row 2", "3 fields", "the header has 2"]);
}

#[test]
fn missing_values_are_counted() {
    let words = ["3 missing values", "`x` (2)", "`y` (1)", "row 1"];
    refused_table("nan", "linear", "x,y\nNaN,0\n,1\n3,NA\n4,1\n", &words);
    refused_table("inf", "linear", "x,y\n1,0\ninf,1\n3,2\n", &["row 2", "column `x`", "infinite"]);
}

#[test]
fn constant_outcome() {
    for model in ["logistic", "linear", "poisson", "softmax"] {
        refused_table("constant", model, "x,y\n1,1\n2,1\n3,1\n", &["`y`", "always 1"]);
    }
}

#[test]
fn one_row_cannot_be_standardised() {
    refused_table("one-row", "linear", "x,y\n1,2\n", &["only one row", "--no-standardize"]);
}

#[test]
fn outcomes_that_the_model_does_not_allow() {
    refused_table("negative", "poisson", "x,y\n1,2\n2,-1\n3,0\n", &["row 2", "`y`", "-1"]);
    refused_table("fraction", "poisson", "x,y\n1,2\n2,0.5\n3,0\n", &["row 2", "`y`", "0.5"]);
    refused_table("not-binary", "logistic", "x,y\n1,0\n2,1\n3,2\n", &["row 3", "`y`", "2"]);
}

#[test]
fn predictions_with_other_columns() {
    let folder = CommandFolder::new("other-columns");
    folder.write("table.csv", logistic_table(50, 1));
    folder.expect(&[0, 1], "fit logistic --data table.csv --outcome y --out fit --quiet");
    folder.write("more.csv", "a,b,c\n1,2,3\n");
    folder.write("fewer.csv", "a\n1\n");
    let predict = "predict --posterior fit --out predictions.csv";
    refused(&folder, &format!("{predict} --data more.csv"), &["not fitted with `c`"]);
    refused(&folder, &format!("{predict} --data fewer.csv"), &["`b` is missing"]);
}

#[test]
fn unwritable_output() {
    let folder = CommandFolder::new("unwritable");
    folder.write("table.csv", logistic_table(50, 1));
    folder.write("taken", "a file");
    let fit = "fit logistic --data table.csv --outcome y";
    refused(&folder, &format!("{fit} --out taken"), &["cannot create taken"]);
    refused(&folder, &format!("{fit} --out taken/fit"), &["cannot create taken/fit"]);
    assert_eq!(folder.read("taken"), b"a file");
    folder.expect(&[0, 1], &format!("{fit} --out fit --quiet"));
    refused(&folder, "sample --posterior fit --out nowhere/draws.csv", &["cannot write nowhere/draws.csv"]);
}

#[test]
fn damaged_posterior() {
    let folder = CommandFolder::new("damaged");
    folder.write("table.csv", logistic_table(50, 1));
    folder.expect(&[0, 1], "fit logistic --data table.csv --outcome y --out fit --quiet");
    let whole = folder.read("fit/posterior.safetensors");
    let mut scrambled = whole.clone();
    scrambled[whole.len() / 3..][..8].fill(0xff);
    for bytes in [&whole[..whole.len() / 2], b"", b"not a posterior", &scrambled] {
        folder.write("fit/posterior.safetensors", bytes);
        for command in ["predict --data table.csv", "sample -n 3"] {
            refused(&folder, &format!("{command} --posterior fit --out result.csv"), &["posterior.safetensors"]);
        }
    }
    folder.write("fit/report.json", "{}");
    refused(&folder, "report fit", &["report.json", "not a report"]);
}

#[test]
fn a_full_disk() {
    let folder = CommandFolder::new("full");
    folder.write("table.csv", logistic_table(50, 1));
    folder.expect(&[0, 1], "fit logistic --data table.csv --outcome y --out fit --quiet");
    refused(&folder, "sample --posterior fit --out /dev/full", &["cannot write /dev/full", "No space left"]);
    refused(&folder, "predict --posterior fit --data table.csv --out /dev/full", &["/dev/full", "No space left"]);
    for args in ["sample --posterior fit", "methods", "man", "report fit"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(args).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {err}");
        assert!(err.contains("standard output") && err.contains("No space left"), "{args}: {err}");
    }
}

/// Runs the binary with a limit on the size of files, which simulates a disk that fills up while results are written.
fn with_little_room(folder: &CommandFolder, blocks: u32, args: &str) -> (Option<i32>, String) {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {args}");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_natmix")]).current_dir(folder.path(""));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn results_on_a_full_disk() {
    let folder = CommandFolder::new("limit");
    folder.write("table.csv", logistic_table(50, 1));
    let fit = "fit logistic --data table.csv --outcome y --out fit";
    folder.expect(&[0, 1], "fit logistic --data table.csv --outcome y --out whole --quiet");
    let mut resumed = 0;
    for blocks in [1, 8, 64] {
        let (code, err) = with_little_room(&folder, blocks, fit);
        assert_eq!(code, Some(2), "{blocks} blocks: {err}");
        assert!(err.contains("File too large"), "{blocks} blocks: {err}");
        // What was reached is kept, if there was room for a checkpoint.
        if folder.path("fit").exists() {
            assert!(err.contains("kept in fit for --resume"), "{blocks} blocks: {err}");
            folder.expect(&[0, 1], &format!("{fit} --resume --quiet"));
            folder.assert_same("fit", "whole");
            std::fs::remove_dir_all(folder.path("fit")).unwrap();
            resumed += 1;
        }
        assert_eq!(folder.names(), ["table.csv", "whole"], "{blocks} blocks");
    }
    assert!(resumed > 0);
    std::fs::remove_dir_all(folder.path("whole")).unwrap();
    // A run, a page, draws or predictions that do not fit on the disk leave earlier files unchanged.
    folder.expect(&[0, 1], &format!("{fit} --quiet"));
    folder.write("draws.csv", "old");
    let files =
        ["report.json", "posterior.safetensors", "trace.jsonl", "report.html", "config.toml", "figures/elbo.png"];
    let contents = || files.map(|file| folder.read(&format!("fit/{file}")));
    let before = contents();
    for args in [&format!("{fit} --seed 2")[..], "report fit", "sample --posterior fit --out draws.csv"] {
        let (code, err) = with_little_room(&folder, 8, args);
        assert!(code == Some(2) && err.contains("File too large"), "{args}: {code:?} {err}");
        assert!(contents() == before, "{args} changed what was there");
        assert_eq!(folder.read("draws.csv"), b"old");
        assert_eq!(folder.names(), ["draws.csv", "fit", "table.csv"], "{args}");
        assert!(!folder.path("fit/.page").exists(), "{args}");
        let kept = std::fs::read_dir(folder.path("fit/.part")).map_or(0, Iterator::count);
        assert!(kept == 0 || args.contains("--seed 2"), "{args} left {kept} files");
        let _ = std::fs::remove_dir_all(folder.path("fit/.part"));
    }
}

#[test]
fn a_failed_run_keeps_earlier_results() {
    let folder = CommandFolder::new("keeps");
    folder.write("table.csv", logistic_table(50, 1));
    folder.expect(&[0, 1], "fit logistic --data table.csv --outcome y --out fit --quiet");
    let before = folder.read("fit/posterior.safetensors");
    refused(&folder, "fit logistic --data table.csv --outcome nothing --out fit", &["no column `nothing`"]);
    refused(&folder, "fit logistic --data table.csv --outcome y --out fit --resume", &["no run was interrupted"]);
    assert!(folder.read("fit/posterior.safetensors") == before);
    assert!(!folder.read("fit/trace.jsonl").is_empty());
}

#[test]
fn options_that_make_no_sense() {
    let folder = CommandFolder::new("options");
    folder.write("table.csv", logistic_table(50, 1));
    folder.write("target.json", gaussian_spec(0.0, 1.0));
    refused(&folder, "fit logistic --nonsense 3", &["--nonsense", "Usage"]);
    refused(&folder, "fit wizardry", &["wizardry", "possible values"]);
    refused(&folder, "fit --out fit", &["MODEL", "logistic"]);
    refused(&folder, "fit density --out fit", &["--spec"]);
    refused(&folder, "fit logistic --outcome y --out fit", &["--data"]);
    refused(&folder, "fit logistic --data table.csv --out fit", &["--outcome"]);
    let fit = "fit logistic --data table.csv --outcome y --out fit";
    let cases = [
        ("--prior-sd -1", "--prior-sd"),
        ("--prior-sd 0", "--prior-sd"),
        ("--prior-sd NaN", "--prior-sd"),
        ("--noise-sd 1", "--noise-sd does not apply to logistic, only to linear"),
        ("--exposure a", "--exposure does not apply to logistic, only to poisson"),
        ("--components many", "must be auto or a non-negative whole number"),
        ("--components 0", "--components must be at least 1"),
        ("--components 10001", "--components must be at most 10000, not 10001"),
        ("--components -3", "must be auto or a non-negative whole number"),
        ("--draws-per-component 100000000", "--draws-per-component must be at most"),
        ("--components 100 --draws-per-component 10000000", "do not fit into memory"),
        ("--threads 1000000", "--threads must be at most 1024, not 1000000"),
        ("--covariance round", "must be auto or one of full, diag, low-rank"),
        ("--rule golden", "must be one of plain, improved"),
        ("--draws lots", "must be auto or one of independent"),
        ("--entropy-trick maybe", "must be one of on, off, fitted"),
        ("--draws-per-component 0", "draws"),
        ("--goal gold", "must be answer or elbo"),
        ("--finish soon", "must be one of auto, never, always"),
        ("--tolerance -1", "--tolerance must be a positive number, not -1"),
        ("--method ngvi --rate 0", "--rate must be a positive number, not 0"),
        ("--method ngvi --rate nan", "--rate must be a positive number, not NaN"),
        ("--rate 0.1", "--rate is not read by method component-draws with rule trust-region, but by bbvi"),
        (
            "--method auto --rule plain",
            "--rule is not read by method auto, but by bbvi, ngvi, von, vogn, mixture-draws",
        ),
        (
            "--method ngvi --step-cap 2",
            "--step-cap is not read by method ngvi with rule plain, but by ngvi with rule improved",
        ),
        ("--method ivon", "--method must not be ivon, which trains networks"),
        ("--init-sd 0", "--init-sd must be positive numbers"),
        ("--minibatch 0", "minibatch"),
        ("--max-seconds -1", "--max-seconds must be a positive number, not -1"),
        ("--method magic", "must be one of auto, bbvi, ngvi, von, vogn, mixture-draws, component-draws"),
        ("--spec target.json", "--spec does not apply to logistic, only to density"),
        ("--seed x", "--seed"),
        ("--resume", "no run was interrupted"),
        ("--init-posterior nowhere", "nowhere"),
    ];
    for (option, word) in cases {
        refused(&folder, &format!("{fit} {option}"), &[word]);
    }
    let run = folder.run(&format!("{fit} --init-posterior nowhere"));
    assert_eq!(run.err.matches("nowhere").count(), 1, "{}", run.err);
    assert_eq!(run.err.matches("No such file").count(), 1, "{}", run.err);
    folder.expect(&[0], "fit density --spec target.json --out line --quiet");
    refused(
        &folder,
        &format!("{fit} --init-posterior line"),
        &["--init-posterior line", "has 1 parameters, this one 3"],
    );
    refused(
        &folder,
        "fit density --spec target.json --data table.csv --out fit",
        &["--data does not apply to density, only to models with data"],
    );
    for count in ["0", "-1", "x", "99999999999999"] {
        refused(&folder, &format!("sample --posterior line -n {count}"), &["-n", count]);
        refused(&folder, &format!("predict --posterior line --data table.csv --draws={count}"), &[]);
    }
    refused(&folder, "fit linear --data table.csv --outcome a --noise-sd 0 --out fit", &["noise"]);
    refused(&folder, "fit linear --data table.csv --outcome a --noise-sd -2 --out fit", &["noise"]);
}

#[test]
fn invalid_settings_files_and_densities() {
    let folder = CommandFolder::new("files");
    folder.write("bad.toml", "model = 'logistic'\nwizardry = 3\n");
    refused(&folder, "fit --config bad.toml --out fit", &["bad.toml", "no setting `wizardry`"]);
    folder.write("bad.toml", "model = 'logistic'\nrate = 'fast'\n");
    refused(&folder, "fit --config bad.toml --out fit", &["bad.toml", "`rate` must be a number, not \"fast\""]);
    folder.write("bad.toml", "model = [");
    refused(&folder, "fit --config bad.toml --out fit", &["bad.toml", "not a settings file"]);
    let specs = [
        ("{", "bad.json"),
        ("{\"kind\": \"cube\", \"dim\": 2, \"init\": {\"mean\": 0.0, \"sd\": 1.0}}", "cube"),
        ("{\"kind\": \"funnel\", \"dim\": 0, \"sd0\": 3.0, \"init\": {\"mean\": 0.0, \"sd\": 1.0}}", "dim"),
        ("{\"kind\": \"funnel\", \"dim\": 3, \"sd0\": -3.0, \"init\": {\"mean\": 0.0, \"sd\": 1.0}}", "sd0"),
    ];
    for (spec, word) in specs {
        folder.write("bad.json", spec);
        refused(&folder, "fit density --spec bad.json --out fit", &["bad.json is not a density", word]);
    }
    folder.write("bad.json", gaussian_spec(0.0, -1.0));
    refused(&folder, "fit density --spec bad.json --out fit", &["bad.json is not a density"]);
}

#[cfg(unix)]
#[test]
fn a_path_of_any_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let folder = CommandFolder::new("bytes");
    let data = std::ffi::OsStr::from_bytes(b"t\xff\xe9 %.csv");
    std::fs::write(folder.path("").join(data), logistic_table(60, 1)).unwrap();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{err}");
    };
    run(folder.command("fit logistic --outcome y --out fit --quiet --data").arg(data));
    let written = String::from_utf8(folder.read("fit/config.toml")).unwrap();
    assert!(written.contains("data = \"file:t%FF%E9%20%25.csv\""), "{written}");
    // What was written leads to the same file, so the fit can be repeated, also where it was killed at its start.
    folder.expect(&[0, 1], "fit --config fit/config.toml --out again --quiet");
    folder.assert_same("fit", "again");
    std::fs::create_dir_all(folder.path("killed/.part")).unwrap();
    run(folder.command("fit logistic --outcome y --out killed --quiet --resume --data").arg(data));
    folder.assert_same("fit", "killed");
    run(folder.command("predict --posterior fit --out p.csv --data").arg(data));
    assert_eq!(String::from_utf8(folder.read("p.csv")).unwrap().lines().count(), 61);
}
