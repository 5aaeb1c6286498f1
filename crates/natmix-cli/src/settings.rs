//! Settings on the command line: flags, then `--config`, then defaults, checked.

use crate::args::FitArgs;
use anyhow::{Context, Result, anyhow};
use natmix::config::Overrides;
pub use natmix_app::settings::{FitSettings, ModelKind, Settings};
use std::path::Path;

/// Resolves the settings: flags take precedence over the file, and the file over the defaults.
pub fn resolve(args: &FitArgs) -> Result<Settings> {
    let either = |yes: bool, no: bool| (yes || no).then_some(yes);
    let fit = FitSettings {
        standardize: either(args.standardize, args.no_standardize),
        intercept: either(args.intercept, args.no_intercept),
        ..args.fit.clone()
    };
    let engine = Overrides { check: either(args.check, args.no_check), ..args.engine.clone() };
    let flags = Settings { fit, engine, network: args.network.clone() };
    let settings = match &args.config {
        Some(path) => flags.over(read(path)?),
        None => flags,
    };
    settings.check().map_err(with_option_name)?;
    Ok(settings)
}

/// Reads a TOML file.
fn read(path: &Path) -> Result<Settings> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a settings file", path.display()))
}

/// Names the option instead of the setting in an error.
pub fn with_option_name(error: impl Into<natmix_app::Error>) -> anyhow::Error {
    match error.into() {
        natmix_app::Error::Engine(natmix::Error::Config { setting, problem }) => {
            // The name `model` is taken in files of settings.
            let option = if setting == "program" { "model".to_owned() } else { setting.replace('_', "-") };
            anyhow!("--{option} {problem}")
        }
        error => error.into(),
    }
}

/// Does the same for an error of an experiment.
pub fn with_option_name_of_experiment(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<natmix_app::Error>() {
        Ok(error) => with_option_name(error),
        Err(error) => match error.downcast::<natmix::Error>() {
            Ok(error) => with_option_name(error),
            Err(error) => error,
        },
    }
}
