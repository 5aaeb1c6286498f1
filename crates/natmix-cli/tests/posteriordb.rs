//! `natmix experiments posteriordb`: its errors, its programs where stanc is, and one posterior where the data are, too.
#![cfg(unix)]

mod common;

use common::CommandFolder;
use natmix_stan::toolchain::{Compiler, Toolchain};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stan's tools, if there are any; the same rule as for the tests of natmix-stan.
fn tools() -> Option<Toolchain> {
    let file = Path::new("a test");
    match Toolchain::find(file).and_then(|tools| Compiler::find(file).map(|_| tools)) {
        Ok(tools) => Some(tools),
        Err(missing) => {
            assert_ne!(std::env::var("NATMIX_STAN").as_deref(), Ok("required"), "{missing}");
            eprintln!("nothing is checked: {missing}");
            None
        }
    }
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let folder = CommandFolder::new("posteriordb-errors");
    let refused = |arguments: &str, data: Option<PathBuf>, words: &[&str]| {
        let mut command = folder.command(&format!("experiments posteriordb {arguments}"));
        match data {
            Some(data) => command.env("NATMIX_DATA", data),
            None => command.env_remove("NATMIX_DATA"),
        };
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}\n{said}");
    };
    refused("", None, &["NATMIX_DATA must name the folder"]);
    refused("", Some(folder.path("")), &["NATMIX_DATA is", "no folder posteriordb"]);
    refused("--posteriors garch", None, &["--posteriors garch", "garch-garch11"]);
    refused("--markdown page.md", None, &["page.md"]);
    folder.write("page.md", "no marks");
    refused("--markdown page.md", None, &["--markdown page.md", "<!-- begin of"]);
    refused("--draws draws --seeds 1", None, &["--seeds"]);
    assert_eq!(folder.read("page.md"), b"no marks");
}

#[test]
fn every_program_is_one() {
    let Some(tools) = tools() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../natmix-experiments/posteriordb");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let output = Command::new(&tools.stanc)
            .args(["--print-cpp", "--o=/dev/null"])
            .arg(&file)
            .output()
            .expect("stanc starts");
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        count += 1;
    }
    assert_eq!(count, 44);
}

#[test]
fn a_posterior_is_fitted_and_judged() {
    let (Some(_), Some(data)) = (tools(), std::env::var_os("NATMIX_DATA")) else { return };
    let folder = CommandFolder::new("posteriordb-fit");
    let marks = ["begin", "end"].map(|word| format!("<!-- {word} of what natmix experiments posteriordb writes -->"));
    folder.write("page.md", marks.join("\n"));
    let run = |arguments: &str| {
        let mut command = folder.command("experiments posteriordb --posteriors kidiq-kidscore_momhs --json");
        // The cache of the tests of natmix-stan, where the headers are precompiled.
        command.args(arguments.split(' ')).env("NATMIX_CACHE", env!("CARGO_TARGET_TMPDIR")).env("NATMIX_DATA", &data);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let report = run("--seeds 1-2 --markdown page.md");
    assert_eq!(report["tally"]["right_and_trusted"], 2, "{report:#}");
    let fit = &report["fits"][1];
    assert!(fit["seed"] == 2 && fit["cpu_seconds"].as_f64().unwrap() > 0.0, "{fit:#}");
    let page = String::from_utf8(folder.read("page.md")).unwrap();
    assert!(page.contains("| `kidiq-kidscore_momhs` | 3 | mixture | 2 of 2 |"), "{page}");
    // The reference's own draws are right, and others are not.
    let draws = Path::new(&data).join("posteriordb/kidiq-kidscore_momhs/reference_draws.csv.gz");
    std::fs::create_dir(folder.path("draws")).unwrap();
    let judged = |from: &Path| {
        std::fs::copy(from, folder.path("draws/kidiq-kidscore_momhs.csv.gz")).unwrap();
        run("--draws draws")["fits"][0].clone()
    };
    assert_eq!(judged(&draws)["comparison"]["right"], true);
    let other = draws.to_string_lossy().replace("kidscore_momhs/", "kidscore_momhsiq/");
    let fit = judged(Path::new(&other));
    assert_eq!(fit["comparison"]["right"], false, "{fit:#}");
}
