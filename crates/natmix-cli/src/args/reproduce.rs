//! `natmix reproduce` as it is typed.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// A small network on built-in data, 1 to 5 components; the same as `natmix demo`
    DecisionBoundaries,
    /// 784-100-100-10 on MNIST, against Fashion-MNIST, beside plain networks
    Mnist,
    /// One hidden layer of 50 on eight UCI sets, 20 splits each
    Uci,
}

/// Which settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Our defaults
    Default,
    /// The draft's own
    Paper,
}

/// Shape of the covariances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Covariance {
    /// Diagonal
    Diag,
    /// Diagonal first, then full
    Full,
}

/// `natmix reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Experiment
    pub experiment: Which,
    /// Settings
    #[arg(long, value_enum, default_value_t = Protocol::Default)]
    pub protocol: Protocol,
    /// Folder for the page, the pictures and the JSON file behind them [default: natmix-EXPERIMENT]
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
    /// Sets (uci) [default: all eight]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub sets: Vec<String>,
    /// Splits of each set (uci)
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub splits: usize,
    /// Components (uci)
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub components: usize,
    /// Covariances (uci): full goes on from the diagonal ones in the engine, and shows both
    #[arg(long, value_enum, default_value_t = Covariance::Diag)]
    pub covariance: Covariance,
    /// Threads; never changes a result [default: one a core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// No progress
    #[arg(long)]
    pub quiet: bool,
}
