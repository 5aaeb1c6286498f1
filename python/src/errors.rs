//! Errors of the engine as Python exceptions; exceptions raised in Python are passed on unchanged.

use natmix::Error;
use natmix::target::TargetError;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

/// The exception for an error.
pub fn raise(error: impl Into<natmix_app::Error>) -> PyErr {
    match error.into() {
        natmix_app::Error::Engine(error) => of_engine(error),
        error @ natmix_app::Error::Io { .. } => PyOSError::new_err(whole(&error)),
        natmix_app::Error::Stan(error) => of_stan(error),
        error @ natmix_app::Error::Nowhere(_) => PyRuntimeError::new_err(without_options(&whole(&error))),
        error => PyValueError::new_err(without_options(&whole(&error))),
    }
}

/// The message of an error with those of its causes.
fn whole(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", whole(source)),
        None => error.to_string(),
    }
}

/// What Stan and compilers say is passed on as it is.
fn of_stan(error: natmix_stan::Error) -> PyErr {
    use natmix_stan::Error as E;
    match error {
        E::Read { .. } | E::Write { .. } | E::Run { .. } | E::Cache { .. } | E::Load { .. } => {
            PyOSError::new_err(whole(&error))
        }
        E::NoToolchain { .. }
        | E::Toolchain { .. }
        | E::NoCompiler { .. }
        | E::Compile { .. }
        | E::Cancelled
        | E::Failed(_) => PyRuntimeError::new_err(whole(&error)),
        _ => PyValueError::new_err(whole(&error)),
    }
}

fn of_engine(error: Error) -> PyErr {
    match error {
        Error::Target(TargetError(inner)) => match inner.downcast::<PyErr>() {
            Ok(original) => *original,
            Err(other) => PyRuntimeError::new_err(format!("the target failed: {other}")),
        },
        Error::Io { .. } => PyOSError::new_err(error.to_string()),
        Error::NowhereFinite { .. } | Error::NotPositiveDefinite { .. } | Error::Threads { .. } => {
            PyRuntimeError::new_err(in_python(&error))
        }
        _ => PyValueError::new_err(in_python(&error)),
    }
}

/// The message of an error, with Python names.
pub fn in_python(error: &Error) -> String {
    match error {
        // NaN as Python writes it.
        Error::Config { setting, problem } => format!("{setting} {}", problem.replace("NaN", "nan")),
        other => without_options(&other.to_string()),
    }
}

/// A message with Python keywords in place of command-line flags.
fn without_options(message: &str) -> String {
    let message = message.replace("`init_mean` and `init_sd`", "init=(mean, sd)");
    let message = message.replace("set `check` to false", "say check=False");
    let mut words = message.split("--");
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        let end = word.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(word.len());
        let (option, rest) = word.split_at(end);
        match option.strip_prefix("no-") {
            _ if option.is_empty() => text += "--",
            Some(option) => text += &format!("{}=False", option.replace('-', "_")),
            None => text += &option.replace('-', "_"),
        }
        text += rest;
    }
    text
}
