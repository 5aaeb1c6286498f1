//! Settings on the command line: flags over `--config` over defaults, checked.

pub mod mlp;

use crate::args::FitArgs;
use anyhow::{Context, Result, anyhow, bail};
pub use natmix_app::settings::{ModelKind, Settings};
use natmix_report::formation::MOMENTS;
use std::path::Path;

/// Most threads: starting many thousands takes longer than any fit.
const MOST_THREADS: usize = 1024;

/// Flags over the file over the defaults.
pub fn resolve(args: &FitArgs) -> Result<Settings> {
    let mut settings = match &args.config {
        Some(path) => read(path)?,
        None => Settings::default(),
    };
    take(&mut settings, args);
    check(&settings)?;
    Ok(settings)
}

/// Reads a TOML file.
pub fn read(path: &Path) -> Result<Settings> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a settings file", path.display()))
}

fn take(settings: &mut Settings, args: &FitArgs) {
    fn set<T: Clone>(mine: &mut T, given: &Option<T>) {
        if let Some(given) = given {
            *mine = given.clone();
        }
    }
    fn some<T: Clone>(mine: &mut Option<T>, given: &Option<T>) {
        if given.is_some() {
            mine.clone_from(given);
        }
    }
    some(&mut settings.model, &args.model);
    some(&mut settings.data, &args.data);
    some(&mut settings.outcome, &args.outcome);
    some(&mut settings.test, &args.test);
    some(&mut settings.spec, &args.spec);
    if !args.categorical.is_empty() {
        settings.categorical.clone_from(&args.categorical);
    }
    some(&mut settings.weights, &args.weights);
    some(&mut settings.offset, &args.offset);
    some(&mut settings.exposure, &args.exposure);
    if args.standardize || args.no_standardize {
        settings.standardize = args.standardize;
    }
    if args.intercept || args.no_intercept {
        settings.intercept = args.intercept;
    }
    settings.stream |= args.stream;
    set(&mut settings.prior_sd, &args.prior_sd);
    some(&mut settings.noise_sd, &args.noise_sd);
    set(&mut settings.out, &args.out);
    set(&mut settings.method, &args.method);
    set(&mut settings.components, &args.components);
    set(&mut settings.covariance, &args.covariance);
    some(&mut settings.rule, &args.rule);
    some(&mut settings.rate, &args.rate);
    some(&mut settings.weight_rate, &args.weight_rate);
    set(&mut settings.draws, &args.draws);
    some(&mut settings.draws_per_component, &args.draws_per_component);
    set(&mut settings.entropy_trick, &args.entropy_trick);
    some(&mut settings.minibatch, &args.minibatch);
    set(&mut settings.tolerance, &args.tolerance);
    some(&mut settings.max_evals, &args.max_evals);
    some(&mut settings.max_seconds, &args.max_seconds);
    some(&mut settings.init_mean, &args.init_mean.map(|x| vec![x]));
    some(&mut settings.init_sd, &args.init_sd.map(|x| vec![x]));
    some(&mut settings.init_posterior, &args.init_posterior);
    set(&mut settings.seed, &args.seed);
    set(&mut settings.threads, &args.threads);
    some(&mut settings.trace_frames, &args.trace_frames);
    mlp::take(&mut settings.mlp, &args.mlp);
}

fn check(settings: &Settings) -> Result<()> {
    let Some(model) = settings.model else {
        bail!("no model: say `natmix fit MODEL ...` with logistic, linear, poisson, softmax, mlp or density");
    };
    if model == ModelKind::Density {
        if settings.spec.is_none() {
            bail!("a density needs --spec FILE.json");
        }
        let columns = [&settings.outcome, &settings.weights, &settings.offset].iter().any(|column| column.is_some());
        if settings.data.is_some()
            || settings.test.is_some()
            || columns
            || !settings.categorical.is_empty()
            || settings.stream
        {
            bail!("a density has no data: --data, --test, --stream and names of columns go with the other models");
        }
    } else {
        if settings.spec.is_some() {
            bail!("--spec goes with density, not with {}", model.name());
        }
        if settings.data.is_none() {
            bail!("{} needs --data FILE", model.name());
        }
        let folder = model == ModelKind::Mlp && settings.data.as_deref().is_some_and(Path::is_dir);
        if settings.outcome.is_none() && !folder {
            bail!("{} needs --outcome COL", model.name());
        }
    }
    if settings.exposure.is_some() && model != ModelKind::Poisson {
        bail!("--exposure goes with poisson");
    }
    if !settings.mlp.is_empty() && model != ModelKind::Mlp {
        bail!("options of networks (--hidden, --epochs, ...) go with mlp");
    }
    if settings.noise_sd.is_some() && model != ModelKind::Linear {
        bail!("--noise-sd goes with linear");
    }
    if settings.threads > MOST_THREADS {
        bail!("--threads {} is more than {MOST_THREADS}: one a core is best (leave it out)", settings.threads);
    }
    if let Some(frames) = settings.trace_frames {
        if model == ModelKind::Mlp {
            bail!("--trace-frames does not go with mlp: a network has too many weights to show two of them");
        }
        if !MOMENTS.contains(&frames) {
            let (fewest, most) = (MOMENTS.start(), MOMENTS.end());
            bail!("--trace-frames {frames} is not between {fewest} and {most}: 60 make a smooth film");
        }
    }
    let positive = [
        ("prior-sd", Some(settings.prior_sd)),
        ("noise-sd", settings.noise_sd),
        ("tolerance", Some(settings.tolerance)),
        ("max-seconds", settings.max_seconds),
    ];
    for (option, x) in positive {
        if let Some(x) = x
            && !(x > 0.0 && x.is_finite())
        {
            bail!("--{option} {x} is not a positive number");
        }
    }
    Ok(())
}

/// Settings have the names of their options.
pub fn as_option(error: impl Into<natmix_app::Error>) -> anyhow::Error {
    match error.into() {
        natmix_app::Error::Engine(natmix::Error::Config { setting, problem }) => {
            anyhow!("--{}: {problem}", setting.replace('_', "-"))
        }
        error => error.into(),
    }
}

/// The same for an error of an experiment.
pub fn named(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<natmix_app::Error>() {
        Ok(error) => as_option(error),
        Err(error) => match error.downcast::<natmix::Error>() {
            Ok(error) => as_option(error),
            Err(error) => error,
        },
    }
}

#[cfg(test)]
mod tests;
