//! The arguments of the command line.

pub mod experiments;
pub mod reproduce;

use clap::{Args, Parser, Subcommand, ValueEnum};
use natmix::config::{Goal, Overrides};
use natmix_app::settings::{FitSettings, NetworkSettings};
use std::path::PathBuf;

/// Posteriors as mixtures of Gaussians, with an ELBO, its error and a plain verdict.
///
/// One command fits a model to a table, says whether to trust the result, and writes an HTML report.
#[derive(Debug, Parser)]
#[command(name = "natmix", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Examples:\n  natmix demo\n  natmix fit logistic --data patients.csv --outcome ill --out fit\n\n\
Exit codes: 0 done; 1 done, but do not trust it; 2 error; 130 interrupted, with the state reached saved."
)]
pub struct Cli {
    /// The command.
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
        natmix fit poisson --data claims.csv --formula 'claims ~ age + offset(log(years)) + (1 | town)' --out fit\n  \
        natmix fit density --spec target.json --components 10 --out fit\n  \
        natmix fit stan --model eight_schools.stan --data eight_schools.json --out fit\n  \
        natmix fit --config fit/config.toml --out again      (repeats a run bit for bit)")]
    Fit(Box<FitArgs>),
    /// Predict new rows with a fitted model: one line per row on standard output
    #[command(after_help = "Example:\n  natmix predict --posterior fit --data new.csv --out predictions.csv")]
    Predict(PredictArgs),
    /// Show the priors of a regression, and what they expect of its parameters and outcomes before it sees the outcomes
    #[command(after_help = "Example:\n  \
        natmix prior poisson --data claims.csv --formula 'claims ~ age + (1 | town)' --prior 'age ~ normal(0, 0.1)'")]
    Prior(Box<PriorArgs>),
    /// Draw from a posterior: CSV on standard output, or a .csv or .npy file
    #[command(after_help = "Example:\n  natmix sample --posterior fit -n 1000 --out draws.npy")]
    Sample(SampleArgs),
    /// Compare models of the same outcomes: leave-one-out, stacking weights, evidence
    #[command(after_help = "Example:\n  natmix compare varying pooled --out comparison.html")]
    Compare(CompareArgs),
    /// Posterior probabilities of statements about parameters, with their errors
    #[command(after_help = "Examples:\n  \
        natmix test fit 'age > 0' '0 < dose < 2 and age < 0.1'\n  \
        natmix test fit 'exp(dose)'      (a quantity: its mean, standard deviation and quantiles)")]
    Test(TestArgs),
    /// Repeat the experiments of the paper; MNIST and UCI data are read from the folder given by NATMIX_DATA
    #[command(after_help = "Examples:\n  \
        natmix reproduce decision-boundaries --out boundaries\n  \
        NATMIX_DATA=data natmix reproduce mnist --seeds 5 --out mnist\n  \
        NATMIX_DATA=data natmix reproduce uci --sets yacht,energy --splits 5 --out uci")]
    Reproduce(reproduce::ReproduceArgs),
    /// Write the HTML report again, from the files of a fit
    #[command(after_help = "Example:\n  natmix report fit")]
    Report(ReportArgs),
    /// Benchmark the automatic method on targets with known answers; some need tables in the folder given by
    /// NATMIX_DATA
    #[command(after_help = "Example:\n  natmix bench --targets gmm20,star --seeds 3")]
    Bench(BenchArgs),
    /// Measure natmix itself
    #[command(hide = true)]
    Experiments {
        /// Which experiment.
        #[command(subcommand)]
        experiment: experiments::ExperimentCommand,
    },
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

/// `natmix demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Folder for the page and the pictures
    #[arg(long, default_value = "natmix-demo", value_name = "DIR")]
    pub out: PathBuf,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

/// `natmix bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Only these targets [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub targets: Vec<String>,
    /// Only rows with a budget of at most N evaluations; those with a million take minutes [default: all]
    #[arg(long, value_name = "N")]
    pub max_evals: Option<u64>,
    /// Number of seeds; seeds 1 to N are used
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Also fit with other values of a constant of the automatic method, and show the effect; `all` tries each constant
    /// in turn at half and at twice its value
    #[arg(long, value_name = "NAME=A,...|all")]
    pub vary: Vec<String>,
    /// What the runs are for: elbo, the highest ELBO, or answer, draws that hold, which often stops below the ELBO to reach
    #[arg(long, value_name = "GOAL", default_value = "elbo", value_parser = natmix::config::parse::<Goal>)]
    pub goal: Goal,
    /// Number of threads; never changes a result [default: one per core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `natmix fit`. Settings that are not given come from `--config`, and then from the defaults named here.
#[derive(Debug, Args)]
// So that -1 is reported as a bad value, not as an unknown option.
#[command(allow_negative_numbers = true)]
pub struct FitArgs {
    #[command(flatten)]
    pub fit: FitSettings,
    /// Centre and scale the features (default)
    #[arg(long, overrides_with = "no_standardize", help_heading = "Data")]
    pub standardize: bool,
    /// Use the columns exactly as they are
    #[arg(long, overrides_with = "standardize", help_heading = "Data")]
    pub no_standardize: bool,
    /// Add an intercept (default)
    #[arg(long, overrides_with = "no_intercept", help_heading = "Data")]
    pub intercept: bool,
    /// Fit without an intercept
    #[arg(long, overrides_with = "intercept", help_heading = "Data")]
    pub no_intercept: bool,

    #[command(flatten)]
    pub engine: Overrides,
    /// Check the gradient of a function before the fit (default)
    #[arg(long, overrides_with = "no_check", help_heading = "Run")]
    pub check: bool,
    /// Do not check the gradient; those of the built-in models are never checked
    #[arg(long, overrides_with = "check", help_heading = "Run")]
    pub no_check: bool,
    /// Resume an interrupted or killed run in --out
    #[arg(long, help_heading = "Run")]
    pub resume: bool,
    /// TOML file of settings, such as the config.toml of a fit; flags take precedence
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub config: Option<PathBuf>,

    #[command(flatten)]
    pub network: NetworkSettings,

    /// Print report.json on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Show no progress and no summary
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
}

/// `natmix prior`.
#[derive(Debug, Args)]
#[command(
    mut_arg("out", |arg| arg.value_name("FILE").help_heading("Output").help("Table of the drawn outcomes: one line per draw, one column per row of the data")),
    mut_arg("test", |arg| arg.hide(true)),
    mut_arg("spec", |arg| arg.hide(true)),
    mut_arg("program", |arg| arg.hide(true)),
    mut_arg("init", |arg| arg.hide(true)),
    mut_arg("stream", |arg| arg.hide(true)),
    mut_arg("prior_sd", |arg| arg.hide(true)),
    mut_arg("noise_sd", |arg| arg.hide(true)),
    mut_arg("method", |arg| arg.hide(true)),
    mut_arg("init_posterior", |arg| arg.hide(true)),
    mut_arg("trace_frames", |arg| arg.hide(true))
)]
pub struct PriorArgs {
    #[command(flatten)]
    pub fit: FitSettings,
    /// Number of draws
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one, help_heading = "Output")]
    pub draws: usize,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Output")]
    pub seed: u64,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
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
    /// For networks: predict with the means of the components only, without draws
    #[arg(long)]
    pub means_only: bool,
    /// For networks: the predictions of each component by itself, one line per component and row
    #[arg(long)]
    pub per_component: bool,
    /// File for the predictions [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Posterior draws to average predictions over
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub draws: usize,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Which draws to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DrawLevel {
    /// Those that the fit delivers.
    Answer,
    /// Those of the mixture itself.
    Mixture,
    /// Those of the mixture, corrected by importance weights.
    Weighted,
}

/// How draws are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DrawFormat {
    /// A table with a header.
    Csv,
    /// An array of NumPy.
    Npy,
    /// A file like those of CmdStan, for posteriors of Stan programs.
    StanCsv,
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
    /// Which draws: `answer`, those that the fit delivers; `mixture`, of the mixture itself; `weighted`, corrected by
    /// importance weights (needs the data of the fit at its original path, unless these are its answer)
    #[arg(long, value_name = "LEVEL", default_value = "answer")]
    pub level: DrawLevel,
    /// Another name for `--level weighted`
    #[arg(long, conflicts_with = "level")]
    pub resample: bool,
    /// Output file: .csv or .npy [default: CSV on standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Format: csv, npy, or stan-csv, which tools for CmdStan's output read [default: as --out ends]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<DrawFormat>,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `natmix compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Folders of fits, two or more
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Page with pictures and tables
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `natmix test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Folder of a fit
    pub dir: PathBuf,
    /// Comparisons with < <= > >=, joined by `and`; or quantities. Parameters have the names of the fit; + - * / ^, parentheses, log,
    /// exp, sqrt and abs compute with them
    #[arg(required = true, value_name = "STATEMENT", allow_hyphen_values = true)]
    pub statements: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `natmix report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Folder of a fit
    pub dir: PathBuf,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "must be a whole number of at least 1".into())
}
