//! Stan models on the command line, with a model and with tools that need no Stan: from a library or a program to a record,
//! compiled once, and every kind of bad input refused.
#![cfg(unix)]

mod common;
#[path = "../../natmix-stan/tests/mock/mod.rs"]
mod mock;

use common::{CommandFolder, CommandRun};
use natmix_app::zarr;
use natmix_stan::toolchain::{Compiler, Toolchain};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const DATA: &str = r#"{"n": 1}"#;
const FIT: &str = "fit stan --model mock.so --data data.json --max-evals 20000";

/// A folder with the library and its data.
fn folder(test: &str) -> CommandFolder {
    let folder = CommandFolder::new(&format!("stan-{test}"));
    mock::library(&folder.path(""), "mock.so", &[]);
    folder.write("data.json", DATA);
    folder
}

/// Runs a command, expects exit code 2, all words in one message, and an unchanged folder.
fn refused(folder: &CommandFolder, command: &mut Command, words: &[&str]) -> String {
    let before = folder.names();
    let run = finished(command.output().unwrap());
    assert_eq!(run.code, 2, "{}", run.err);
    assert_eq!((run.out.as_str(), folder.names()), ("", before));
    for word in words {
        assert!(run.err.contains(word), "`{word}` is not in\n{}", run.err);
    }
    run.err
}

fn finished(output: Output) -> CommandRun {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandRun { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_library_is_fitted_in_its_own_parameters() {
    let folder = folder("fit");
    let run = folder.expect(&[0], &format!("{FIT} --out fit"));
    assert!(run.out.contains("the Stan program mock.so (2 parameters)"), "{}", run.out);
    let report = folder.report("fit");
    let names: Vec<&str> =
        report["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mu", "s", "t[1]", "t[2]"]);
    // Normalised, but for the rejected tail of mu.
    assert!(report["log_evidence"]["mean"].as_f64().unwrap().abs() < 0.01);
    assert!((report["parameters"][1]["mean"].as_f64().unwrap() - 0.125f64.exp()).abs() < 0.05);
    // The draws have the model's shapes, and generated quantities their groups.
    let store = folder.path("fit/draws.zarr");
    let (shape, t) = zarr::read_array(&store, "posterior", "t").unwrap();
    assert_eq!(shape, [1, 4000, 2]);
    let mu = zarr::read_array(&store, "posterior", "mu").unwrap().1;
    let s = zarr::read_array(&store, "posterior", "s").unwrap().1;
    for (i, (mu, s)) in mu.iter().zip(&s).enumerate() {
        assert_eq!(t[2 * i..2 * i + 2], [mu + s, mu - s]);
    }
    assert_eq!(zarr::read_array(&store, "log_likelihood", "log_lik").unwrap().1, mu);
    assert_eq!(zarr::read_array(&store, "posterior_predictive", "y_rep").unwrap().0, [1, 4000]);
    // All of them are read back.
    let read = natmix_app::FitRecord::load(&folder.path("fit")).unwrap().variables.unwrap();
    assert_eq!((read.names.len(), read.values.len()), (6, 6 * 4000));
    assert!(read.values.chunks_exact(6).zip(&mu).all(|(row, mu)| row[0] == *mu && row[5] == *mu));
    let copy = folder.path("copy");
    natmix_app::FitRecord::load(&folder.path("fit")).unwrap().save(&copy).unwrap();
    assert_eq!(natmix_app::FitRecord::load(&copy).unwrap().variables.as_ref(), Some(&read));
    // The page is written again from the files, and looks the same.
    let page = folder.read("fit/report.html");
    folder.expect(&[0], "report fit");
    assert_eq!(folder.read("fit/report.html"), page);
    // The same bits for any number of threads and from the settings; elsewhere with another seed.
    folder.expect(&[0], &format!("{FIT} --out threads --threads 4"));
    folder.assert_same("fit", "threads");
    folder.expect(&[0], "fit --config fit/config.toml --out again");
    folder.assert_same("fit", "again");
    let random =
        |dir: &str| zarr::read_array(&folder.path(dir).join("draws.zarr"), "posterior_predictive", "y_rep").unwrap().1;
    assert_eq!(random("fit"), random("threads"));
    folder.expect(&[0], &format!("{FIT} --out other --seed 2"));
    assert_ne!(random("fit"), random("other"));
}

#[test]
fn draws_are_those_of_all_variables() {
    let folder = folder("sample");
    folder.expect(&[0], &format!("{FIT} --out fit"));
    let csv = folder.expect(&[0], "sample --posterior fit -n 5").out;
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("mu,s,t[1],t[2],y_rep,log_lik"));
    assert_eq!(lines.count(), 5);
    assert_eq!(csv, folder.expect(&[0], "sample --posterior fit -n 5").out);
    folder.expect(&[0], "sample --posterior fit -n 5 --level weighted");
    folder.expect(&[0], "sample --posterior fit -n 5 --format stan-csv --out draws.csv");
    let stan = String::from_utf8(folder.read("draws.csv")).unwrap();
    let table: Vec<&str> = stan.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!((table.len(), table[0]), (6, "lp__,accept_stat__,mu,s,t.1,t.2,y_rep,log_lik"));
    let row: Vec<f64> = table[1].split(',').map(|x| x.parse().unwrap()).collect();
    let plain: Vec<f64> = csv.lines().nth(1).unwrap().split(',').map(|x| x.parse().unwrap()).collect();
    assert_eq!(row[2..], plain);
    let log_p = -0.5 * row[2].powi(2) - 2.0 * row[3].ln().powi(2) - std::f64::consts::PI.ln();
    assert!((row[0] - log_p).abs() < 1e-12);
    for word in [
        "# method = sample",
        "#     num_samples = 5",
        "#     algorithm = fixed_param",
        "# model = mock",
        "Elapsed Time",
    ] {
        assert!(stan.contains(word), "{word}\n{stan}");
    }
    // Draws need what was fitted.
    folder.write("data.json", r#"{"n": 2}"#);
    refused(&folder, &mut folder.command("sample --posterior fit -n 5"), &["mock.so", "have changed since"]);
    std::fs::remove_file(folder.path("data.json")).unwrap();
    refused(&folder, &mut folder.command("sample --posterior fit -n 5"), &["data.json", "original paths"]);
    refused(
        &folder,
        &mut folder.command("predict --posterior fit --data mock.so"),
        &["Stan program", "nothing to predict"],
    );
}

#[test]
fn other_posteriors_have_no_stan_csv() {
    let folder = folder("other");
    folder
        .write("spec.json", json!({"kind": "funnel", "dim": 2, "sd0": 1.0, "init": {"mean": 0, "sd": 1}}).to_string());
    folder.expect(&[0, 1], "fit density --spec spec.json --max-evals 5000 --finish never --out fit");
    refused(&folder, &mut folder.command("sample --posterior fit --format stan-csv"), &["posteriors of Stan programs"]);
    refused(&folder, &mut folder.command("sample --posterior fit --format npy"), &["--out"]);
}

#[test]
fn a_fit_starts_where_it_is_told() {
    let folder = folder("init");
    folder.write("init.json", r#"{"mu": 1.5, "s": 1}"#);
    folder.expect(&[0], &format!("{FIT} --init init.json --out fit"));
    assert_eq!(folder.report("fit")["config"]["engine"]["init_mean"], json!([1.5, 0.0]));
    folder.write("init.json", r#"{"mu": 1.5, "s": -1}"#);
    let fit = format!("{FIT} --init init.json --out none");
    refused(&folder, &mut folder.command(&fit), &["initial values", "s is -1"]);
    refused(&folder, &mut folder.command(&format!("{fit} --init-mean 2")), &["--init", "init_mean"]);
}

#[test]
fn what_a_model_says_is_shown_once() {
    let folder = folder("says");
    folder.write("data.json", r#"{"n": 1, "print": 1}"#);
    let run = folder.expect(&[0], &format!("{FIT} --out fit"));
    assert_eq!(run.err.matches("the model says: mu is").count(), 2, "{}", run.err);
    assert!(run.err.contains("now (and") && run.err.contains("more like this)"), "{}", run.err);
    assert_eq!(folder.expect(&[0], &format!("{FIT} --out fit --quiet")).err, "");
}

#[test]
fn bad_data_and_libraries_are_refused() {
    let folder = folder("bad");
    folder.write("none.json", "{}");
    folder.write("two.json", r#"{"n": [1, 2]}"#);
    folder.write("nowhere.json", r#"{"n": 1, "nowhere": 1}"#);
    folder.write("text.so", "text");
    mock::library(&folder.path(""), "old.so", &["other_version"]);
    let fit = |rest: &str| folder.command(&format!("fit stan --out none {rest}"));
    let cases: [(&str, &[&str]); 9] = [
        ("", &["--model", "missing"]),
        ("--model mock.so --outcome y", &["--outcome does not apply to stan"]),
        ("--model data.json", &["data.json is neither a Stan program"]),
        ("--model mock.so --data none.json", &["none.json has no entry `n`, which mock.so needs"]),
        ("--model mock.so --data two.json", &["two.json: `n` has dimensions (2), but mock.so declares ()"]),
        ("--model mock.so", &["mock.so needs data", "--data"]),
        ("--model text.so", &["text.so cannot be loaded"]),
        ("--model old.so", &["version 1.7.0", "uses version 2"]),
        (
            "--model mock.so --data nowhere.json --quiet",
            &["could not be evaluated at any of", "which is too much", "--init"],
        ),
    ];
    for (rest, words) in cases {
        let message = refused(&folder, &mut fit(rest), words);
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

/// Scripts in place of stanc and of the C++ compiler, which logs its calls and makes copies of the library.
fn tools(folder: &CommandFolder) {
    for place in ["eigen_3", "boost_1", "sundials_6/lib", "tbb_2/include", "tbb"] {
        std::fs::create_dir_all(folder.path("tools/stan/lib/stan_math/lib").join(place)).unwrap();
    }
    std::fs::create_dir_all(folder.path("tools/stan/lib/rapidjson_1")).unwrap();
    std::fs::create_dir_all(folder.path("tools/bin")).unwrap();
    folder.write("tools/stan/lib/stan_math/lib/tbb/libtbb.so", "");
    let script = |name: &str, text: &str| {
        folder.write(name, text);
        std::fs::set_permissions(folder.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(
        "tools/bin/stanc",
        "#!/bin/sh\nfor last; do :; done\n\
         if [ \"$last\" = --version ]; then echo stanc 1; exit; fi\n\
         if grep -q wrong \"$last\"; then printf 'Syntax error in line 1:\\n   1:  wrong\\n       ^\\n' >&2; exit 1; fi\n\
         if grep -q old \"$last\"; then echo 'Warning: this is an old way to write it' >&2; fi\n\
         while read -r word file || [ -n \"$word\" ]; do\n\
         if [ \"$word\" != '#include' ]; then echo \"$word $file\"\n\
         elif ! cat \"$file\" 2>/dev/null; then\n\
         printf \"Syntax error in '%s', line 1\\n\\nCould not find include file '%s' in paths.\\n\" \"$last\" \"$file\" >&2; exit 1\n\
         fi; done < \"$last\"\n",
    );
    script(
        "cxx",
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo compiler 1; exit; fi\n\
         echo \"$@\" >> log\nfor arg; do\n\
         if [ \"$before\" = -o ]; then out=$arg; fi\nbefore=$arg\n\
         case $arg in *.cpp) if grep -q broken \"$arg\"; then echo 'error: broken' >&2; exit 1; fi;; esac\ndone\n\
         sleep 0.1\ncp mock.so \"$out\"\n",
    );
}

/// The command with these tools.
fn with_tools(folder: &CommandFolder, args: &str) -> Command {
    let mut command = folder.command(args);
    command
        .env("CMDSTAN", folder.path("tools"))
        .env("CXX", folder.path("cxx"))
        .env("NATMIX_CACHE", folder.path("cache"));
    for name in ["BRIDGESTAN", "NATMIX_PYTHON"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn a_program_is_compiled_once() {
    let folder = folder("once");
    tools(&folder);
    folder.write("a.stan", "a program");
    folder.write("log", "");
    let fit = |program: &str, out: &str| {
        format!("fit stan --model {program} --data data.json --max-evals 2000 --finish never --out {out}")
    };
    let compiled = || String::from_utf8(folder.read("log")).unwrap().lines().count();
    // Two at once: the headers and the interface, then the program and the library.
    let start = |out: &str| {
        with_tools(&folder, &fit("a.stan", out)).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start("one"), start("two")].map(|child| finished(child.wait_with_output().unwrap()));
    assert!(both.iter().all(|run| run.code < 2), "{}\n{}", both[0].err, both[1].err);
    assert_eq!(compiled(), 4);
    assert_eq!(both.iter().filter(|run| run.err.contains("compiling")).count(), 1);
    folder.assert_same("one", "two");
    let again = finished(with_tools(&folder, &fit("a.stan", "again")).output().unwrap());
    assert!(!again.err.contains("compiling") && compiled() == 4, "{}", again.err);
    // A copy elsewhere is the same program.
    std::fs::create_dir(folder.path("sub")).unwrap();
    folder.write("sub/a.stan", "a program");
    finished(with_tools(&folder, &fit("sub/a.stan", "again")).output().unwrap());
    assert_eq!(compiled(), 4);
    // Another program needs no new headers, the same with a remark shows it.
    folder.write("b.stan", "an old program");
    let other = finished(with_tools(&folder, &fit("b.stan", "other")).output().unwrap());
    assert!(other.err.contains("old way to write it") && compiled() == 6, "{}", other.err);
    let left: Vec<String> = std::fs::read_dir(folder.path("cache/stan"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("part") || name.contains(".o") || name.contains("cpp"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn included_files_are_part_of_a_program() {
    let folder = folder("include");
    tools(&folder);
    std::fs::create_dir_all(folder.path("sub/parts")).unwrap();
    folder.write("sub/a.stan", "#include parts/b.stan\na program\n");
    folder.write("sub/parts/b.stan", "one\n");
    folder.write("log", "");
    let fit = "fit stan --model sub/a.stan --data data.json --max-evals 2000 --finish never --out";
    let compiled = || String::from_utf8(folder.read("log")).unwrap().lines().count();
    let run = |args: &str| finished(with_tools(&folder, args).output().unwrap());
    assert!(run(&format!("{fit} fit")).code < 2);
    assert_eq!(compiled(), 4);
    assert_eq!(run("sample --posterior fit -n 5").code, 0);
    // Another content is another program, and not the one that was fitted.
    folder.write("sub/parts/b.stan", "two\n");
    refused(&folder, &mut with_tools(&folder, "sample --posterior fit -n 5"), &["a.stan", "have changed since"]);
    assert!(run(&format!("{fit} again")).code < 2);
    assert_eq!(compiled(), 6);
    folder.write("sub/parts/b.stan", "one\n");
    assert_eq!((run("sample --posterior fit -n 5").code, compiled()), (0, 6));
    std::fs::remove_file(folder.path("sub/parts/b.stan")).unwrap();
    let words = ["sub/a.stan includes `parts/b.stan`, which is not there", "the folder of the program", "line 1"];
    let message = refused(&folder, &mut with_tools(&folder, &format!("{fit} none")), &words);
    assert!(!message.contains("Could not find"), "{message}");
}

#[test]
fn programs_that_cannot_be_compiled_are_refused() {
    let folder = folder("compile");
    tools(&folder);
    folder.write("good.stan", "a program");
    folder.write("wrong.stan", "wrong");
    folder.write("broken.stan", "broken");
    folder.write("log", "");
    folder.write("file", "");
    std::fs::create_dir_all(folder.path("cache/stan")).unwrap();
    let fit = |program: &str| with_tools(&folder, &format!("fit stan --model {program} --data data.json --out none"));
    // As stanc says it.
    refused(&folder, &mut fit("wrong.stan"), &["wrong.stan is not a valid", "in line 1:\n   1:  wrong\n       ^\n"]);
    refused(&folder, &mut fit("broken.stan"), &["C++ code of broken.stan", "compiler 1", "error: broken"]);
    refused(&folder, &mut fit("missing.stan"), &["missing.stan", "No such file"]);
    refused(
        &folder,
        fit("good.stan").env("NATMIX_CACHE", folder.path("file")),
        &["NATMIX_CACHE", "cannot store compiled models"],
    );
    refused(
        &folder,
        fit("good.stan").env("CXX", "no-such-compiler"),
        &["no C++ compiler", "no-such-compiler", "install"],
    );
    refused(
        &folder,
        fit("good.stan").env("CMDSTAN", folder.path("cache")),
        &["CMDSTAN is", "no bin/stanc", "make build"],
    );
    let nothing = &mut fit("good.stan");
    nothing.env_remove("CMDSTAN").env("HOME", folder.path("")).env("PATH", folder.path("")).env_remove("VIRTUAL_ENV");
    refused(&folder, nothing, &["no Stan tools were found", "pip install httpstan", "CMDSTAN"]);
    refused(
        &folder,
        fit("good.stan").env_remove("CMDSTAN").env("NATMIX_PYTHON", "no-such-python"),
        &["NATMIX_PYTHON", "httpstan"],
    );
    assert!(!folder.path("none").exists());
}

/// Programs of all kinds, compiled by real tools where there are any. The cache is that of the tests of natmix-stan.
#[test]
fn programs_are_compiled_and_fitted() {
    let found = Toolchain::find(Path::new("a test")).and_then(|_| Compiler::find(Path::new("a test")));
    if let Err(missing) = found {
        assert_ne!(std::env::var("NATMIX_STAN").as_deref(), Ok("required"), "{missing}");
        eprintln!("nothing is checked: {missing}");
        return;
    }
    let folder = CommandFolder::new("stan-programs");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../natmix-stan/tests/programs");
    for (name, parameters, last) in
        [("eight_schools", 18, "theta[8]"), ("counts", 4, "shift"), ("shapes", 53, "R[3,3]")]
    {
        let mut command = folder.command("fit stan --max-evals 20000 --finish never --out fit --model");
        command.arg(programs.join(format!("{name}.stan"))).env("NATMIX_CACHE", env!("CARGO_TARGET_TMPDIR"));
        let data = programs.join(format!("{name}.json"));
        if data.exists() {
            command.arg("--data").arg(data);
        }
        let run = finished(command.output().unwrap());
        assert!(run.code < 2, "{}", run.err);
        let report = folder.report("fit");
        let reported = report["parameters"].as_array().unwrap();
        assert_eq!((reported.len(), reported[reported.len() - 1]["name"].as_str()), (parameters, Some(last)));
    }
    // Matrices, too, are read back.
    folder.expect(&[0], "report fit");
}
