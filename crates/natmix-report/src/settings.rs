//! Settings of a fit: what flags, a file and Python keywords fill, resolved once, and written back as `config.toml`.

pub mod mlp;

use natmix::choices::{About, Choices};
use natmix::family::CovarianceKind;
use natmix::family::Mixture;
use natmix::{Config, Error, Method};
use natmix_models::{DesignOptions, OutcomeKind};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most components, and most numbers that the components and their points may take: beyond is a slip of the keyboard.
const MOST_COMPONENTS: usize = 10_000;
const MOST_NUMBERS: usize = 250_000_000;

/// What can be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Outcome 0 or 1.
    Logistic,
    /// Outcome a number.
    Linear,
    /// Outcome a count.
    Poisson,
    /// Outcome one of several classes.
    Softmax,
    /// A Bayesian neural network; outcome 0 or 1, classes or a number.
    Mlp,
    /// An analytic target.
    Density,
}

impl ModelKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Logistic, Self::Linear, Self::Poisson, Self::Softmax, Self::Mlp, Self::Density];

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Logistic => "logistic",
            ModelKind::Linear => "linear",
            ModelKind::Poisson => "poisson",
            ModelKind::Softmax => "softmax",
            ModelKind::Mlp => "mlp",
            ModelKind::Density => "density",
        }
    }

    /// The regression that it is, if it is one.
    pub fn regression(self) -> Option<OutcomeKind> {
        match self {
            ModelKind::Logistic => Some(OutcomeKind::Logistic),
            ModelKind::Linear => Some(OutcomeKind::Linear),
            ModelKind::Poisson => Some(OutcomeKind::Poisson),
            ModelKind::Softmax => Some(OutcomeKind::Softmax),
            ModelKind::Mlp | ModelKind::Density => None,
        }
    }
}

/// Everything that determines a fit, and where it goes. A file with these names repeats it. Folder, threads, frames and
/// where rows are kept, which change no result, are read but not written: the same fit leaves the same bytes wherever it
/// runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What is fitted; nothing where it is a function of Python.
    pub model: Option<ModelKind>,
    /// The table, or the folder of images.
    pub data: Option<PathBuf>,
    /// Column of the outcome.
    pub outcome: Option<String>,
    /// Rows to score predictions on.
    pub test: Option<PathBuf>,
    /// Description of a density.
    pub spec: Option<PathBuf>,
    /// Columns that hold levels.
    pub categorical: Vec<String>,
    /// Column that says how often a row counts.
    pub weights: Option<String>,
    /// Column that is added to the linear predictor.
    pub offset: Option<String>,
    /// Column whose logarithm is.
    pub exposure: Option<String>,
    /// Whether features are centred and scaled.
    pub standardize: bool,
    /// Whether there is an intercept.
    pub intercept: bool,
    /// Whether rows stay on disk.
    #[serde(skip_serializing)]
    pub stream: bool,
    /// Prior standard deviation of coefficients, as they are fitted.
    pub prior_sd: f64,
    /// Noise of a linear regression, if it is known.
    pub noise_sd: Option<f64>,
    /// Folder of the results.
    #[serde(skip_serializing)]
    pub out: PathBuf,
    /// Name of a method, or `auto`.
    pub method: String,
    /// A number, or `auto`.
    pub components: String,
    /// `full`, `diag` or `auto`.
    pub covariance: String,
    /// Name of an update rule.
    pub rule: Option<String>,
    /// Step size.
    pub rate: Option<f64>,
    /// Step size of the weights.
    pub weight_rate: Option<f64>,
    /// Name of a draw plan, or `auto`.
    pub draws: String,
    /// Points a component and iteration.
    pub draws_per_component: Option<usize>,
    /// `on`, `off` or `fitted`.
    pub entropy_trick: String,
    /// Rows in a minibatch.
    pub minibatch: Option<usize>,
    /// Nats of expected gain below which the run stops.
    pub tolerance: f64,
    /// Most points at which the target is evaluated.
    pub max_evals: Option<u64>,
    /// Most seconds.
    pub max_seconds: Option<f64>,
    /// Centre of the start: one number, or one a coordinate.
    #[serde(with = "one_or_many")]
    pub init_mean: Option<Vec<f64>>,
    /// Spread of the start.
    #[serde(with = "one_or_many")]
    pub init_sd: Option<Vec<f64>>,
    /// Folder of a posterior to start from.
    pub init_posterior: Option<PathBuf>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads; zero means one a core.
    #[serde(skip_serializing)]
    pub threads: usize,
    /// Moments of the mixture that are kept.
    #[serde(skip_serializing)]
    pub trace_frames: Option<usize>,
    /// What networks can be told.
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
    /// Which columns of a table mean what.
    pub fn design(&self) -> DesignOptions {
        DesignOptions {
            outcome: self.outcome.clone(),
            offset: self.offset.clone(),
            exposure: self.exposure.clone(),
            weights: self.weights.clone(),
            standardize: self.standardize,
            intercept: self.intercept,
            ..DesignOptions::default()
        }
    }

    /// What decides the way of the engine.
    pub fn choices(&self) -> Choices {
        Choices {
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
            init_mean: self.init_mean.clone(),
            init_sd: self.init_sd.clone(),
            seed: self.seed,
            threads: self.threads,
        }
    }

    /// The settings of the engine for a target. Whether it has one mode follows from the model.
    pub fn engine(&self, about: &About<'_>) -> Result<Config, Error> {
        // Posteriors of these regressions are log-concave: one component finds the mode.
        let one_mode = self.model.is_some_and(|model| model != ModelKind::Density);
        let config = self.choices().config(&About { one_mode, ..*about })?;
        check_size(&config, about.dim)?;
        Ok(config)
    }
}

/// Changes the settings of the engine so that they go with a start. Only the automatic mixture may leave its number of components.
pub fn start_at(config: &mut Config, start: &Mixture) {
    config.covariance = start.covariance_kind();
    if config.method != Method::Auto {
        config.components = start.len();
    }
}

/// Refuses what no memory holds, before it is asked for.
fn check_size(config: &Config, dim: usize) -> Result<(), Error> {
    let Config { components, draws_per_component, covariance, .. } = *config;
    let refuse = |setting, problem| Err(Error::Config { setting, problem });
    if components > MOST_COMPONENTS {
        let problem = format!("{components} is more than {MOST_COMPONENTS}: a few dozen are a lot (try auto)");
        return refuse("components", problem);
    }
    let numbers = |each: usize| components.saturating_mul(each);
    if numbers(covariance.curvature_shape().len(dim)) > MOST_NUMBERS {
        let try_diag = if covariance == CovarianceKind::Full { ", or covariance diag" } else { "" };
        let problem = format!("{components} in dimension {dim} do not fit into memory: take fewer{try_diag}");
        return refuse("components", problem);
    }
    if numbers(draws_per_component.saturating_mul(dim)) > MOST_NUMBERS {
        let problem = format!(
            "{draws_per_component} for {components} components in dimension {dim} do not fit into memory: take fewer"
        );
        return refuse("draws_per_component", problem);
    }
    Ok(())
}

/// One number stands for itself.
mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Numbers {
        One(f64),
        Many(Vec<f64>),
    }

    pub fn serialize<S: Serializer>(numbers: &Option<Vec<f64>>, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = numbers.as_ref().map(|numbers| match &numbers[..] {
            [one] => Numbers::One(*one),
            many => Numbers::Many(many.to_vec()),
        });
        numbers.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<f64>>, D::Error> {
        Ok(Option::<Numbers>::deserialize(deserializer)?.map(|numbers| match numbers {
            Numbers::One(one) => vec![one],
            Numbers::Many(many) => many,
        }))
    }
}
