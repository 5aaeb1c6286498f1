//! Settings of a fit: flags over `--config` over defaults, resolved once, and written back as `config.toml`.

pub mod mlp;

use crate::args::{FitArgs, ModelKind};
use crate::report::formation::MOMENTS;
use anyhow::{Context, Result, anyhow, bail};
use natmix::Config;
use natmix::choices::{About, Choices};
use natmix::target::Shape;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Most components, and most numbers that the components and their points may take: beyond is a slip of the keyboard.
const MOST_COMPONENTS: usize = 10_000;
const MOST_NUMBERS: usize = 250_000_000;
/// Most threads: starting many thousands takes longer than any fit.
const MOST_THREADS: usize = 1024;

/// Everything that determines a fit, and where it goes. A file with these names repeats it. Folder, threads, frames and
/// where rows are kept, which change no result, are read but not written: the same fit leaves the same bytes wherever it
/// runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub model: Option<ModelKind>,
    pub data: Option<PathBuf>,
    pub outcome: Option<String>,
    pub test: Option<PathBuf>,
    pub spec: Option<PathBuf>,
    pub categorical: Vec<String>,
    pub weights: Option<String>,
    pub offset: Option<String>,
    pub exposure: Option<String>,
    pub standardize: bool,
    pub intercept: bool,
    #[serde(skip_serializing)]
    pub stream: bool,
    pub prior_sd: f64,
    pub noise_sd: Option<f64>,
    #[serde(skip_serializing)]
    pub out: PathBuf,
    pub method: String,
    pub components: String,
    pub covariance: String,
    pub rule: Option<String>,
    pub rate: Option<f64>,
    pub weight_rate: Option<f64>,
    pub draws: String,
    pub draws_per_component: Option<usize>,
    pub entropy_trick: String,
    pub minibatch: Option<usize>,
    pub tolerance: f64,
    pub max_evals: Option<u64>,
    pub max_seconds: Option<f64>,
    pub init_mean: Option<f64>,
    pub init_sd: Option<f64>,
    pub init_posterior: Option<PathBuf>,
    pub seed: u64,
    #[serde(skip_serializing)]
    pub threads: usize,
    #[serde(skip_serializing)]
    pub trace_frames: Option<usize>,
    // A table: tables come last in a file.
    #[serde(skip_serializing_if = "mlp::MlpSettings::is_empty")]
    pub mlp: mlp::MlpSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: None,
            data: None,
            outcome: None,
            test: None,
            spec: None,
            categorical: Vec::new(),
            weights: None,
            offset: None,
            exposure: None,
            standardize: true,
            intercept: true,
            stream: false,
            prior_sd: 2.5,
            noise_sd: None,
            out: "natmix-fit".into(),
            method: "auto".into(),
            components: "auto".into(),
            covariance: "auto".into(),
            rule: None,
            rate: None,
            weight_rate: None,
            draws: "auto".into(),
            draws_per_component: None,
            entropy_trick: "fitted".into(),
            minibatch: None,
            tolerance: 0.01,
            max_evals: None,
            max_seconds: None,
            init_mean: None,
            init_sd: None,
            init_posterior: None,
            seed: 1,
            threads: 0,
            trace_frames: None,
            mlp: mlp::MlpSettings::default(),
        }
    }
}

impl Settings {
    /// Flags over the file over the defaults.
    pub fn resolve(args: &FitArgs) -> Result<Self> {
        let mut settings = match &args.config {
            Some(path) => Self::read(path)?,
            None => Self::default(),
        };
        settings.take(args);
        settings.check()?;
        Ok(settings)
    }

    /// Reads a TOML file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a settings file", path.display()))
    }

    fn take(&mut self, args: &FitArgs) {
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
        some(&mut self.model, &args.model);
        some(&mut self.data, &args.data);
        some(&mut self.outcome, &args.outcome);
        some(&mut self.test, &args.test);
        some(&mut self.spec, &args.spec);
        if !args.categorical.is_empty() {
            self.categorical.clone_from(&args.categorical);
        }
        some(&mut self.weights, &args.weights);
        some(&mut self.offset, &args.offset);
        some(&mut self.exposure, &args.exposure);
        if args.standardize || args.no_standardize {
            self.standardize = args.standardize;
        }
        if args.intercept || args.no_intercept {
            self.intercept = args.intercept;
        }
        self.stream |= args.stream;
        set(&mut self.prior_sd, &args.prior_sd);
        some(&mut self.noise_sd, &args.noise_sd);
        set(&mut self.out, &args.out);
        set(&mut self.method, &args.method);
        set(&mut self.components, &args.components);
        set(&mut self.covariance, &args.covariance);
        some(&mut self.rule, &args.rule);
        some(&mut self.rate, &args.rate);
        some(&mut self.weight_rate, &args.weight_rate);
        set(&mut self.draws, &args.draws);
        some(&mut self.draws_per_component, &args.draws_per_component);
        set(&mut self.entropy_trick, &args.entropy_trick);
        some(&mut self.minibatch, &args.minibatch);
        set(&mut self.tolerance, &args.tolerance);
        some(&mut self.max_evals, &args.max_evals);
        some(&mut self.max_seconds, &args.max_seconds);
        some(&mut self.init_mean, &args.init_mean);
        some(&mut self.init_sd, &args.init_sd);
        some(&mut self.init_posterior, &args.init_posterior);
        set(&mut self.seed, &args.seed);
        set(&mut self.threads, &args.threads);
        some(&mut self.trace_frames, &args.trace_frames);
        self.mlp.take(&args.mlp);
    }

    fn check(&self) -> Result<()> {
        let Some(model) = self.model else {
            bail!("no model: say `natmix fit MODEL ...` with logistic, linear, poisson, softmax, mlp or density");
        };
        if model == ModelKind::Density {
            if self.spec.is_none() {
                bail!("a density needs --spec FILE.json");
            }
            let columns = [&self.outcome, &self.weights, &self.offset].iter().any(|column| column.is_some());
            if self.data.is_some() || self.test.is_some() || columns || !self.categorical.is_empty() || self.stream {
                bail!("a density has no data: --data, --test, --stream and names of columns go with the other models");
            }
        } else {
            if self.spec.is_some() {
                bail!("--spec goes with density, not with {}", model.name());
            }
            if self.data.is_none() {
                bail!("{} needs --data FILE", model.name());
            }
            let folder = model == ModelKind::Mlp && self.data.as_deref().is_some_and(Path::is_dir);
            if self.outcome.is_none() && !folder {
                bail!("{} needs --outcome COL", model.name());
            }
        }
        if self.exposure.is_some() && model != ModelKind::Poisson {
            bail!("--exposure goes with poisson");
        }
        if !self.mlp.is_empty() && model != ModelKind::Mlp {
            bail!("options of networks (--hidden, --epochs, ...) go with mlp");
        }
        if self.noise_sd.is_some() && model != ModelKind::Linear {
            bail!("--noise-sd goes with linear");
        }
        if self.threads > MOST_THREADS {
            bail!("--threads {} is more than {MOST_THREADS}: one a core is best (leave it out)", self.threads);
        }
        if let Some(frames) = self.trace_frames {
            if model == ModelKind::Mlp {
                bail!("--trace-frames does not go with mlp: a network has too many weights to show two of them");
            }
            if !MOMENTS.contains(&frames) {
                let (fewest, most) = (MOMENTS.start(), MOMENTS.end());
                bail!("--trace-frames {frames} is not between {fewest} and {most}: 60 make a smooth film");
            }
        }
        let positive = [
            ("prior-sd", Some(self.prior_sd)),
            ("noise-sd", self.noise_sd),
            ("tolerance", Some(self.tolerance)),
            ("max-seconds", self.max_seconds),
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

    /// The settings of the engine, for a target of dimension `dim` with its start.
    pub fn engine(&self, dim: usize, rows: Option<usize>, init: (&[f64], &[f64])) -> Result<Config> {
        let choices = Choices {
            method: self.method.clone(),
            components: self.components.clone(),
            covariance: self.covariance.clone(),
            rule: self.rule.clone(),
            rate: self.rate,
            weight_rate: self.weight_rate,
            draws: self.draws.clone(),
            draws_per_component: self.draws_per_component,
            entropy_trick: self.entropy_trick.clone(),
            minibatch: self.minibatch,
            tolerance: self.tolerance,
            max_evals: self.max_evals,
            max_seconds: self.max_seconds,
            init_mean: self.init_mean.map(|x| vec![x]),
            init_sd: self.init_sd.map(|x| vec![x]),
            seed: self.seed,
            threads: self.threads,
        };
        // Posteriors of these regressions are log-concave: one component finds the mode.
        let one_mode = self.model != Some(ModelKind::Density);
        let config = choices.config(&About { dim, rows, one_mode, init, gradient: true }).map_err(as_option)?;
        check_size(&config, dim)?;
        Ok(config)
    }
}

/// Settings of the engine have the names of their options.
fn as_option(error: natmix::Error) -> anyhow::Error {
    match error {
        natmix::Error::Config { setting, problem } => anyhow!("--{}: {problem}", setting.replace('_', "-")),
        error => error.into(),
    }
}

/// Refuses what no memory holds, before it is asked for.
fn check_size(config: &Config, dim: usize) -> Result<()> {
    let Config { components, draws_per_component, covariance, .. } = *config;
    if components > MOST_COMPONENTS {
        bail!("--components {components} is more than {MOST_COMPONENTS}: a few dozen are a lot (try auto)");
    }
    let numbers = |each: usize| components.saturating_mul(each);
    if numbers(covariance.len(dim)) > MOST_NUMBERS {
        let try_diag = if covariance == Shape::Full { ", or --covariance diag" } else { "" };
        bail!("--components {components} in dimension {dim} do not fit into memory: take fewer{try_diag}");
    }
    if numbers(draws_per_component.saturating_mul(dim)) > MOST_NUMBERS {
        bail!(
            "--draws-per-component {draws_per_component} for {components} components in dimension {dim} do not fit into \
             memory: take fewer"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
