//! The command line as it is typed.

pub mod mlp;
pub mod reproduce;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use natmix_report::settings::ModelKind;
use std::path::PathBuf;

/// Posteriors as mixtures of Gaussians, with an ELBO, an error and a plain verdict.
///
/// One command fits a model to a table, says whether to trust the answer, and leaves a page of pictures.
#[derive(Debug, Parser)]
#[command(name = "natmix", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Example:\n  natmix demo\n  natmix fit logistic --data patients.csv --outcome ill --out fit\n\n\
Exit codes: 0 done; 1 done, but do not trust it; 2 error; 130 interrupted, with what was reached saved."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what natmix does, on built-in data: decision boundaries of a small network, 1 to 5 components
    #[command(after_help = "Example:\n  natmix demo --out demo")]
    Demo(DemoArgs),
    /// Fit a model to a table, or a mixture to a density
    #[command(after_help = "Examples:\n  \
        natmix fit logistic --data credit.csv --outcome bad --out fit\n  \
        natmix fit linear --data houses.csv.gz --outcome price --categorical town --test later.csv --out fit\n  \
        natmix fit density --spec target.json --components 10 --out fit\n  \
        natmix fit --config fit/config.toml --out again      (repeats a run bit for bit)")]
    Fit(Box<FitArgs>),
    /// Predict new rows with a fitted model: one line a row on standard output
    #[command(after_help = "Example:\n  natmix predict --posterior fit --data new.csv --out predictions.csv")]
    Predict(PredictArgs),
    /// Draw from a posterior: CSV on standard output, or a .csv or .npy file
    #[command(after_help = "Example:\n  natmix sample --posterior fit -n 1000 --resample --out draws.npy")]
    Sample(SampleArgs),
    /// Repeat the experiments of the paper; MNIST and UCI data are read from the folder that NATMIX_DATA names
    #[command(after_help = "Examples:\n  \
        natmix reproduce decision-boundaries --out boundaries\n  \
        NATMIX_DATA=data natmix reproduce mnist --seeds 5 --out mnist\n  \
        NATMIX_DATA=data natmix reproduce uci --sets yacht,energy --splits 5 --out uci")]
    Reproduce(reproduce::ReproduceArgs),
    /// Write the page of pictures again, from what a fit saved
    #[command(after_help = "Example:\n  natmix report fit")]
    Report(ReportArgs),
    /// Run the automatic mixture on targets with known answers, every seed; needs the folder that NATMIX_DATA names
    #[command(after_help = "Example:\n  NATMIX_DATA=data natmix bench --targets gmm20,star --seeds 3")]
    Bench(BenchArgs),
    /// List every method, draw plan, estimator and rule, one line each
    #[command(after_help = "Example:\n  natmix methods | grep draws")]
    Methods,
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  natmix completions bash > ~/.local/share/bash-completion/completions/natmix")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  natmix man | man -l -")]
    Man,
}

/// Names of the models, each with its help.
fn models() -> impl TypedValueParser<Value = ModelKind> {
    let help = |model: ModelKind| match model {
        ModelKind::Logistic => "Outcome 0 or 1",
        ModelKind::Linear => "Outcome a number, with unknown noise unless --noise-sd",
        ModelKind::Poisson => "Outcome a count",
        ModelKind::Softmax => "Outcome one of several classes",
        ModelKind::Mlp => "A Bayesian neural network; outcome 0 or 1, classes or a number",
        ModelKind::Density => "An analytic target from --spec",
    };
    let values = ModelKind::ALL.map(|model| PossibleValue::new(model.name()).help(help(model)));
    PossibleValuesParser::new(values).try_map(|name| {
        let found = ModelKind::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| format!("no model is called {name}"))
    })
}

/// `natmix demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Folder for the page and the pictures
    #[arg(long, default_value = "natmix-demo", value_name = "DIR")]
    pub out: PathBuf,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// No progress
    #[arg(long)]
    pub quiet: bool,
}

/// `natmix bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Only these targets [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub targets: Vec<String>,
    /// Only rows with a budget of at most N evaluations: those of a million take minutes [default: all]
    #[arg(long, value_name = "N")]
    pub max_evals: Option<u64>,
    /// Seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Also fit with other values of a constant of the automatic method, and show the change; all: each constant in turn at
    /// half and at twice its value
    #[arg(long, value_name = "NAME=A,...|all")]
    pub vary: Vec<String>,
    /// Threads; never changes a result [default: one a core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `natmix fit`. What is not given comes from `--config`, and then from the defaults named here.
#[derive(Debug, Args)]
// -1 is a bad value with a message of its own, not an unknown option.
#[command(allow_negative_numbers = true)]
pub struct FitArgs {
    /// Model; may stand in --config instead
    #[arg(value_parser = models())]
    pub model: Option<ModelKind>,

    /// Table to fit: .csv or .csv.gz with a header; or a folder of images in MNIST's layout (mlp)
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub data: Option<PathBuf>,
    /// Column to explain
    #[arg(long, value_name = "COL", help_heading = "Data")]
    pub outcome: Option<String>,
    /// Table to score predictions on
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub test: Option<PathBuf>,
    /// Density to fit, with MODEL = density: a JSON file
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub spec: Option<PathBuf>,
    /// Columns that hold categories; one-hot encoded
    #[arg(long, value_name = "COL,...", value_delimiter = ',', help_heading = "Data")]
    pub categorical: Vec<String>,
    /// Column of row weights
    #[arg(long, value_name = "COL", help_heading = "Data")]
    pub weights: Option<String>,
    /// Column that is added to the linear predictor
    #[arg(long, value_name = "COL", help_heading = "Data")]
    pub offset: Option<String>,
    /// Column of exposures; its logarithm is added to the predictor (poisson)
    #[arg(long, value_name = "COL", help_heading = "Data")]
    pub exposure: Option<String>,
    /// Centre and scale the features (default)
    #[arg(long, overrides_with = "no_standardize", help_heading = "Data")]
    pub standardize: bool,
    /// Use the columns exactly as they are
    #[arg(long, overrides_with = "standardize", help_heading = "Data")]
    pub no_standardize: bool,
    /// Add an intercept (default)
    #[arg(long, overrides_with = "no_intercept", help_heading = "Data")]
    pub intercept: bool,
    /// No intercept
    #[arg(long, overrides_with = "intercept", help_heading = "Data")]
    pub no_intercept: bool,
    /// Keep the rows on disk instead of in memory; by itself if memory is short
    #[arg(long, help_heading = "Data")]
    pub stream: bool,

    /// Prior standard deviation of the coefficients, as fitted; of the intercept ten times that [default: 2.5]
    #[arg(long, value_name = "X", help_heading = "Model")]
    pub prior_sd: Option<f64>,
    /// Known noise of a linear model [default: inferred, half-Cauchy(5) prior]
    #[arg(long, value_name = "X", help_heading = "Model")]
    pub noise_sd: Option<f64>,

    /// Folder for the results [default: natmix-fit]
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    pub out: Option<PathBuf>,
    /// Method by name, see `natmix methods` [default: auto]
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub method: Option<String>,
    /// Number of components, or auto [default: auto]
    #[arg(long, value_name = "K", help_heading = "Run")]
    pub components: Option<String>,
    /// Covariances: full, diag or auto [default: auto: the method's, diag above 300 dimensions]
    #[arg(long, value_name = "SHAPE", help_heading = "Run")]
    pub covariance: Option<String>,
    /// Update rule: plain, improved, trust-region [default: the method's]
    #[arg(long, value_name = "RULE", help_heading = "Run")]
    pub rule: Option<String>,
    /// Step size [default: the method's]
    #[arg(long, value_name = "X", help_heading = "Run")]
    pub rate: Option<f64>,
    /// Step size of the weights [default: the method's]
    #[arg(long, value_name = "X", help_heading = "Run")]
    pub weight_rate: Option<f64>,
    /// Draw plan: independent, antithetic, orthogonal, cubature, auto [default: auto: the method's]
    #[arg(long, value_name = "PLAN", help_heading = "Run")]
    pub draws: Option<String>,
    /// Points a component and iteration; auto chooses for itself [default: at least 40; for cubature with full covariances at least twice the dimension]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub draws_per_component: Option<usize>,
    /// The entropy trick: on, off, fitted [default: fitted]
    #[arg(long, value_name = "WHEN", help_heading = "Run")]
    pub entropy_trick: Option<String>,
    /// Rows in a minibatch [default: all rows]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub minibatch: Option<usize>,
    /// Nats of expected gain below which the run stops [default: 0.01]
    #[arg(long, value_name = "X", help_heading = "Run")]
    pub tolerance: Option<f64>,
    /// Most evaluations of the target [default: 100000 for auto unless --max-seconds is given, else no limit]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub max_evals: Option<u64>,
    /// Most seconds of fitting [default: no limit]
    #[arg(long, value_name = "X", help_heading = "Run")]
    pub max_seconds: Option<f64>,
    /// Centre of the start [default: 0, or the spec's]
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Run")]
    pub init_mean: Option<f64>,
    /// Spread of the start [default: 1, or the spec's]
    #[arg(long, value_name = "X", help_heading = "Run")]
    pub init_sd: Option<f64>,
    /// Start from the posterior of an earlier fit
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    pub init_posterior: Option<PathBuf>,
    /// Seed of all randomness [default: 1]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub seed: Option<u64>,
    /// Threads; never changes a result [default: one a core]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub threads: Option<usize>,
    /// Go on with an interrupted or killed run in --out
    #[arg(long, help_heading = "Run")]
    pub resume: bool,
    /// Settings from a TOML file, as a fit leaves it; flags win
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub config: Option<PathBuf>,

    #[command(flatten)]
    pub mlp: mlp::MlpArgs,

    /// Keep up to N moments of the mixture, 2 to 500, in frames.json, and show in report.html how it formed, with a slider;
    /// changes no result; 60 make a smooth film [default: none]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub trace_frames: Option<usize>,
    /// Print report.json on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// No progress and no summary
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
}

/// `natmix predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Folder of a fit
    #[arg(long, value_name = "DIR")]
    pub posterior: PathBuf,
    /// Table of new rows, with the columns of the fit in any order
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// With a network: predict with the components' means alone, without draws
    #[arg(long)]
    pub means_only: bool,
    /// File for the predictions [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Posterior draws that predictions average over
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub draws: usize,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `natmix sample`.
#[derive(Debug, Args)]
pub struct SampleArgs {
    /// Folder of a fit
    #[arg(long, value_name = "DIR")]
    pub posterior: PathBuf,
    /// Number of draws
    #[arg(short, value_name = "N", default_value_t = 1000, value_parser = at_least_one, allow_negative_numbers = true)]
    pub n: usize,
    /// Correct the draws by their importance weights; needs the data of the fit in place
    #[arg(long)]
    pub resample: bool,
    /// File: .csv or .npy [default: CSV on standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `natmix report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Folder of a fit
    pub dir: PathBuf,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "not a whole number of at least 1".into())
}
