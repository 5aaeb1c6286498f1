//! The arguments of `natmix reproduce`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExperimentName {
    /// A small network on built-in data, 1 to 5 components; the same as `natmix demo`
    DecisionBoundaries,
    /// A network 784-100-100-10 on MNIST, against Fashion-MNIST, compared with plain networks
    Mnist,
    /// One hidden layer of 50 units on eight UCI data sets, 20 splits each
    Uci,
}

/// Which settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Our defaults
    Default,
    /// Those of the draft
    Paper,
}

/// Shape of the covariances over the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WeightCovariance {
    /// Diagonal
    Diag,
    /// Diagonal first, then full
    Full,
}

/// `natmix reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Experiment
    pub experiment: ExperimentName,
    /// Settings
    #[arg(long, value_enum, default_value_t = Protocol::Default)]
    pub protocol: Protocol,
    /// Folder for the page, the pictures and the underlying JSON file [default: natmix-EXPERIMENT]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of seeds (mnist)
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seeds: u64,
    /// Sizes of the hidden layers (mnist)
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [100, 100])]
    pub hidden: Vec<usize>,
    /// Passes over the data (mnist) [default: 20, paper 30]
    #[arg(long, value_name = "N")]
    pub epochs: Option<usize>,
    /// Data sets (uci) [default: all eight]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub sets: Vec<String>,
    /// Splits per data set (uci)
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub splits: usize,
    /// Components (uci)
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub components: usize,
    /// Covariances (uci): full continues from the diagonal ones in the engine, and shows both
    #[arg(long, value_enum, default_value_t = WeightCovariance::Diag)]
    pub covariance: WeightCovariance,
    /// Number of threads; never changes a result [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}
