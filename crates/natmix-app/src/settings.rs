//! Settings of a fit: filled in layers from flags, a file and Python keywords, and written back as `config.toml`.
//!
//! Every setting is optional until a fit needs it; each default is defined in one place: here, in
//! [`Overrides::resolve`] and in [`NetworkSettings::train`].
//!
//! ```
//! use natmix_app::settings::Settings;
//! let file: Settings = toml::from_str("model = 'logistic'\nrate = 0.1\nseed = 3").unwrap();
//! let flags: Settings = toml::from_str("seed = 4").unwrap();
//! let both = flags.over(file);
//! assert_eq!((both.seed(), both.engine.rate), (4, Some(0.1)));
//! ```

mod check;
mod method;
pub mod network;
mod path_text;
mod read;

pub use method::FitMethod;
pub use network::NetworkSettings;

use natmix::config::{About, DEFAULT_SEED, OrAuto, Overrides};
use natmix::family::{CovarianceKind, Mixture};
use natmix::{Config, Error, Method};
use natmix_models::effects::Family;
use natmix_models::table::{MissingRows, ReadOptions};
use natmix_models::{DesignOptions, FormulaOptions, OutcomeKind};
use read::Entry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most components, and most numbers that the components and their points may take: more is surely a typing error.
const MOST_COMPONENTS: usize = 10_000;
const MOST_NUMBERS: usize = 250_000_000;
/// Prior standard deviation of coefficients by default.
const PRIOR_SD: f64 = 2.5;
/// Folder of the results by default.
const OUT: &str = "natmix-fit";

/// What can be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// Outcome 0 or 1
    Logistic,
    /// Outcome a number; its noise is inferred unless --noise-sd is given
    Linear,
    /// Outcome a count
    Poisson,
    /// Outcome one of several classes
    Softmax,
    /// Outcome a count that varies more than a Poisson count
    NegativeBinomial,
    /// Outcome a number with outliers: Student-t noise
    Robust,
    /// Outcome a number of successes among --trials
    Binomial,
    /// Outcome one of several ordered categories
    Ordinal,
    /// Outcome a positive number whose sd grows with its mean
    Gamma,
    /// Outcome a time until an event, right-censored where --event is 0 (Weibull)
    Survival,
    /// A Bayesian neural network; outcome 0 or 1, classes or a number
    Mlp,
    /// An analytic target from --spec
    Density,
    /// A Stan program or a compiled model from --model
    Stan,
}

impl ModelKind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Logistic,
        Self::Linear,
        Self::Poisson,
        Self::Softmax,
        Self::NegativeBinomial,
        Self::Robust,
        Self::Binomial,
        Self::Ordinal,
        Self::Gamma,
        Self::Survival,
        Self::Mlp,
        Self::Density,
        Self::Stan,
    ];

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Logistic => "logistic",
            ModelKind::Linear => "linear",
            ModelKind::Poisson => "poisson",
            ModelKind::Softmax => "softmax",
            ModelKind::NegativeBinomial => "negative-binomial",
            ModelKind::Robust => "robust",
            ModelKind::Binomial => "binomial",
            ModelKind::Ordinal => "ordinal",
            ModelKind::Gamma => "gamma",
            ModelKind::Survival => "survival",
            ModelKind::Mlp => "mlp",
            ModelKind::Density => "density",
            ModelKind::Stan => "stan",
        }
    }

    /// The kind of regression, if the model is one that also has a form without varying effects.
    pub fn regression(self) -> Option<OutcomeKind> {
        match self {
            ModelKind::Logistic => Some(OutcomeKind::Logistic),
            ModelKind::Linear => Some(OutcomeKind::Linear),
            ModelKind::Poisson => Some(OutcomeKind::Poisson),
            ModelKind::Softmax => Some(OutcomeKind::Softmax),
            _ => None,
        }
    }

    /// The family of regressions with varying effects and priors by name, if the model has that form. The ordinal family has as
    /// many categories as the outcome.
    pub fn family(self) -> Option<Family> {
        match self {
            ModelKind::Logistic => Some(Family::Logistic),
            ModelKind::Linear => Some(Family::Linear),
            ModelKind::Poisson => Some(Family::Poisson),
            ModelKind::NegativeBinomial => Some(Family::NegativeBinomial),
            ModelKind::Robust => Some(Family::Robust),
            ModelKind::Binomial => Some(Family::Binomial),
            ModelKind::Ordinal => Some(Family::Ordinal { categories: 0 }),
            ModelKind::Gamma => Some(Family::Gamma),
            ModelKind::Survival => Some(Family::Survival),
            ModelKind::Softmax | ModelKind::Mlp | ModelKind::Density | ModelKind::Stan => None,
        }
    }

    /// Whether the model is a regression.
    pub fn is_regression(self) -> bool {
        self.regression().is_some() || self.family().is_some()
    }
}

natmix::overlay! {
    /// What is fitted, to which data, by which method, and where the results go.
    #[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Data"))]
    pub struct FitSettings {
        /// Model; may be given in --config instead
        // `None` where a Python function is fitted.
        #[cfg_attr(feature = "clap", arg(value_enum, help_heading = None))]
        pub model: ModelKind,
        /// Table to fit: text with a header, such as .csv or .csv.gz; or a folder of images in MNIST's layout (mlp); or a JSON file (stan). A name with * or ? stands for all files that match, as the parts of one table
        #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
        pub data: PathBuf,
        /// Column to predict
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL"))]
        pub outcome: String,
        /// What explains what, instead of --outcome: 'y ~ x1 * x2 + log(x3) + (1 + x1 | group)', in the notation of R (all
        /// regressions; varying effects for all but softmax)
        #[cfg_attr(feature = "clap", arg(long, value_name = "FORMULA"))]
        pub formula: String,
        /// Table to score predictions on
        #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
        pub test: PathBuf,
        /// Density to fit, with MODEL = density: a JSON file
        #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
        pub spec: PathBuf,
        /// Stan program to fit, with MODEL = stan: a .stan file, or a library compiled with BridgeStan
        // The name `model` is that of the kind of model.
        #[cfg_attr(feature = "clap", arg(long = "model", value_name = "FILE"))]
        pub program: PathBuf,
        /// Parameter values near which to start a Stan program: a JSON file
        #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
        pub init: PathBuf,
        /// Columns that hold categories though they look like numbers; columns of text do in any case
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL,...", value_delimiter = ','))]
        pub categorical: Vec<String>,
        /// Rows with a missing value: error, which counts the missing values, or drop [default: error]
        #[cfg_attr(
            feature = "clap",
            arg(long, value_name = "WHAT", value_parser = natmix::config::parse::<MissingRows>)
        )]
        pub missing: MissingRows,
        /// Columns to use, besides those named in other options; others are not read
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL,...", value_delimiter = ','))]
        pub only: Vec<String>,
        /// Columns to leave out
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL,...", value_delimiter = ','))]
        pub without: Vec<String>,
        /// Levels with which the others of a column are compared; for a logistic outcome, the class that is not the
        /// positive one [default: the first in order]
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL=LEVEL,...", value_delimiter = ','))]
        pub reference: Vec<String>,
        /// Column of row weights
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL"))]
        pub weights: String,
        /// Column added to the linear predictor
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL"))]
        pub offset: String,
        /// Column of exposures, whose logarithm is added to the linear predictor (poisson, negative-binomial)
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL"))]
        pub exposure: String,
        /// Column of numbers of trials (binomial)
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL"))]
        pub trials: String,
        /// Column that is 1 where the event was seen and 0 where the time is censored (survival) [default: all were seen]
        #[cfg_attr(feature = "clap", arg(long, value_name = "COL"))]
        pub event: String,
        /// Categories of the outcome from the lowest to the highest, where they are text (ordinal)
        #[cfg_attr(feature = "clap", arg(long, value_name = "LEVEL,...", value_delimiter = ','))]
        pub levels: Vec<String>,
        /// Whether features are centred and scaled.
        // Two flags, --standardize and --no-standardize.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub standardize: bool,
        /// Whether there is an intercept.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub intercept: bool,
        /// Keep the rows on disk instead of in memory; done automatically if memory is short
        #[cfg_attr(feature = "clap", arg(long, num_args = 0, default_missing_value = "true"))]
        pub stream: bool,
        /// Prior standard deviation of the coefficients, as fitted; the intercept's is ten times that [default: 2.5]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Model"))]
        pub prior_sd: f64,
        /// Prior of a parameter, in the units of the data: 'age ~ normal(0, 1)', 'sd(clinic) ~ half_normal(1)'; may be given
        /// several times; `natmix prior` lists the parameters with their priors
        #[cfg_attr(feature = "clap", arg(long, value_name = "STATEMENT", help_heading = "Model"))]
        pub prior: Vec<String>,
        /// Known noise standard deviation of a linear model [default: inferred, half-Cauchy(5) prior]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Model"))]
        pub noise_sd: f64,
        /// Method, see `natmix methods`; for mlp also ivon and adam [default: auto, or component-draws if one of its
        /// settings is given]
        #[cfg_attr(
            feature = "clap",
            arg(long, value_name = "NAME", value_parser = natmix::config::parse::<FitMethod>, help_heading = "Method")
        )]
        pub method: FitMethod,
        /// Folder for the results [default: natmix-fit]
        #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", help_heading = "Run"))]
        pub out: PathBuf,
        /// Start from the posterior of an earlier fit
        #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", help_heading = "Run"))]
        pub init_posterior: PathBuf,
        /// Save up to N snapshots of the mixture, 2 to 500, in frames.json, and show in report.html how it formed, with
        /// a slider; does not change results; 60 make a smooth animation [default: none]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Output"))]
        pub trace_frames: usize,
    }
}

/// Everything that determines a fit, and where its results go. A file with these settings repeats the fit; it always
/// contains the seed. Folder, threads, frames and where rows are kept do not change results: they are read but not
/// written, so that the same fit leaves the same bytes wherever it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "BTreeMap<String, Option<Entry>>")]
pub struct Settings {
    /// What is fitted, and where the results go.
    pub fit: FitSettings,
    /// How it is fitted.
    pub engine: Overrides,
    /// Settings of networks: the table `[mlp]` of a file.
    pub network: NetworkSettings,
}

/// Settings as written to a file.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    fit: FitSettings,
    #[serde(flatten)]
    engine: Overrides,
    // Tables come last in a TOML file.
    #[serde(skip_serializing_if = "NetworkSettings::is_empty")]
    mlp: NetworkSettings,
}

impl FitSettings {
    /// With every path changed.
    fn map_paths(self, change: impl Fn(PathBuf) -> PathBuf) -> Self {
        let Self { data, test, spec, program, init, init_posterior, .. } = self.clone();
        let [data, test, spec, program, init, init_posterior] =
            [data, test, spec, program, init, init_posterior].map(|path| path.map(&change));
        Self { data, test, spec, program, init, init_posterior, ..self }
    }
}

impl From<Settings> for Written {
    fn from(settings: Settings) -> Self {
        let seed = settings.seed();
        let Settings { fit, engine, network } = settings;
        let fit = fit.map_paths(|path| path_text::written(&path));
        let ood = network.ood.as_deref().map(path_text::written);
        Self {
            fit: FitSettings { out: None, stream: None, trace_frames: None, ..fit },
            engine: Overrides { threads: None, seed: Some(seed), ..engine },
            mlp: NetworkSettings { ood, ..network },
        }
    }
}

impl Settings {
    /// These settings, with those of `earlier` for what is not set here.
    pub fn over(self, earlier: Self) -> Self {
        Self {
            fit: self.fit.over(earlier.fit),
            engine: self.engine.over(earlier.engine),
            network: self.network.over(earlier.network),
        }
    }

    /// Seed of all randomness.
    pub fn seed(&self) -> u64 {
        self.engine.seed.unwrap_or(DEFAULT_SEED)
    }

    /// Threads; zero means one per core.
    pub fn threads(&self) -> usize {
        self.engine.threads.unwrap_or(0)
    }

    /// Folder of the results.
    pub fn out(&self) -> &Path {
        self.fit.out.as_deref().unwrap_or(Path::new(OUT))
    }

    /// Columns that hold categories.
    pub fn categorical(&self) -> &[String] {
        self.fit.categorical.as_deref().unwrap_or_default()
    }

    /// How a table is read.
    pub fn reading(&self) -> Result<ReadOptions, Error> {
        let FitSettings { missing, only, without, reference, .. } = &self.fit;
        let mut options = ReadOptions::with_categorical(self.categorical());
        options.missing = missing.unwrap_or_default();
        options.only.clone_from(only);
        options.without = without.clone().unwrap_or_default();
        for text in reference.iter().flatten() {
            let (column, level) = text.split_once('=').ok_or_else(|| Error::Config {
                setting: "reference",
                problem: format!("must be COL=LEVEL, such as colour=red, not {text}"),
            })?;
            options.reference.push((column.trim().to_owned(), level.trim().to_owned()));
        }
        Ok(options.for_design(&self.design()))
    }

    /// Whether rows stay on disk.
    pub fn stream(&self) -> bool {
        self.fit.stream.unwrap_or(false)
    }

    /// Whether features are centred and scaled.
    pub fn standardize(&self) -> bool {
        self.fit.standardize.unwrap_or(true)
    }

    /// Prior standard deviation of coefficients, as they are fitted.
    pub fn prior_sd(&self) -> f64 {
        self.fit.prior_sd.unwrap_or(PRIOR_SD)
    }

    /// Whether the start is given, as mean and spread or as a posterior.
    pub fn has_start(&self) -> bool {
        self.engine.init_mean.is_some() || self.engine.init_sd.is_some() || self.fit.init_posterior.is_some()
    }

    /// The roles of the columns of a table.
    pub fn design(&self) -> DesignOptions {
        let FitSettings { outcome, offset, exposure, weights, intercept, .. } = self.fit.clone();
        DesignOptions {
            outcome,
            offset,
            exposure,
            weights,
            standardize: self.standardize(),
            intercept: intercept.unwrap_or(true),
            ..DesignOptions::default()
        }
    }

    /// What stands beside a formula.
    pub fn formula_options(&self) -> FormulaOptions {
        FormulaOptions { weights: self.fit.weights.clone(), ..FormulaOptions::default() }
    }

    /// The settings of the engine for a target.
    pub fn config(&self, about: &About<'_>) -> Result<Config, Error> {
        let method = self.fit.method.map(FitMethod::of_engine).transpose()?;
        let config = self.engine.resolve(method, about)?;
        check_size(&config, about.dim)?;
        Ok(config)
    }
}

/// Adapts the settings of the engine to a given start. Only the automatic method may change its number of components.
pub fn start_at(config: &mut Config, start: &Mixture) {
    config.covariance = start.covariance_kind();
    if config.method() != Method::Auto {
        *config = std::mem::take(config).with_components(start.len());
    }
}

/// Refuses sizes that cannot fit into memory, before anything is allocated.
fn check_size(config: &Config, dim: usize) -> Result<(), Error> {
    let OrAuto::Is(components) = config.components() else { return Ok(()) };
    let draws = config.parts().map_or(0, |parts| parts.draws_per_component);
    let covariance = config.covariance;
    let refuse = |setting, problem| Err(Error::Config { setting, problem });
    if components > MOST_COMPONENTS {
        let problem =
            format!("must be at most {MOST_COMPONENTS}, not {components}: a few dozen are usually plenty (try auto)");
        return refuse("components", problem);
    }
    let numbers = |each: usize| components.saturating_mul(each);
    if numbers(covariance.curvature_shape().len(dim)) > MOST_NUMBERS {
        let try_diag = if covariance == CovarianceKind::Full { ", or covariance diag" } else { "" };
        let problem =
            format!("must be smaller: {components} in dimension {dim} do not fit into memory (use fewer{try_diag})");
        return refuse("components", problem);
    }
    if numbers(draws.saturating_mul(dim)) > MOST_NUMBERS {
        let problem =
            format!("must be smaller: {draws} for {components} components in dimension {dim} do not fit into memory");
        return refuse("draws_per_component", problem);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
