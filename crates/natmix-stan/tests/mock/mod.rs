//! Compiles the library of `model.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, compiled into the folder with these `cfg` flags.
pub fn library(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../natmix-stan/tests/mock/model.rs");
    let mut command = Command::new("rustc");
    command.args([
        "--edition=2024",
        "--crate-type=cdylib",
        "-Aunsafe_code",
        "-Anon_upper_case_globals",
        "-Aunexpected_cfgs",
    ]);
    for flag in flags {
        command.args(["--cfg", flag]);
    }
    let status = command.arg(&source).arg("-o").arg(&path).status().expect("rustc");
    assert!(status.success(), "the library for tests cannot be compiled");
    path
}
