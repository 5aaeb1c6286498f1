//! The arguments of `natmix experiments`.

use clap::{Args, Subcommand, ValueEnum};
use natmix::config::Goal;
use std::path::PathBuf;

/// The experiments.
#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// Fit targets with known posteriors at default settings, and compare each verdict with the truth
    #[command(after_help = "Examples:\n  natmix experiments battery --half choose --json > choose.json\n  \
        natmix experiments battery --families funnels,mixtures --seeds 101-105")]
    Battery(BatteryArgs),
    /// Compare with NUTS on hierarchical models: runs scripts/compare-nuts of the checkout of natmix around the current folder
    #[command(
        after_help = "Example:\n  natmix experiments hierarchical counts two_lines --seeds 1,2,3 --reference runs"
    )]
    Hierarchical(HierarchicalArgs),
    /// Fit posteriors of posteriordb, as Stan programs, at default settings, and compare with references
    #[command(
        after_help = "Examples:\n  NATMIX_DATA=data natmix experiments posteriordb --markdown docs/posteriordb.md\n  \
        NATMIX_DATA=data natmix experiments posteriordb --posteriors harder --reference references --seeds 1"
    )]
    Posteriordb(PosteriordbArgs),
    /// Predict the time of a fit over 1 to 1,000 workers from measured constants
    #[command(after_help = "Examples:\n  natmix experiments scale --seconds-per-point 2 --points 64 --batches 300\n  \
        natmix experiments scale --split rows --seconds-per-point 0.4 --points 64 --workers 1,8,64")]
    Scale(ScaleArgs),
}

/// `natmix experiments scale`.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// What is divided among the workers: the points of a batch, in chunks, or the rows of the data
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = SplitName::Points)]
    pub split: SplitName,
    /// Seconds that one worker takes for one point
    #[arg(long, value_name = "X", default_value_t = 0.05)]
    pub seconds_per_point: f64,
    /// How much these vary from point to point: standard deviation over mean
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub variation: f64,
    /// Points per batch
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub points: usize,
    /// Batches of the fit
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub batches: u64,
    /// Points per chunk
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub chunk: usize,
    /// Seconds from sending a task without work to its answer; with rows, of one message between ranks
    #[arg(long, value_name = "X", default_value_t = 1e-3)]
    pub latency: f64,
    /// Seconds that the host is busy with one chunk
    #[arg(long, value_name = "X", default_value_t = 3e-4)]
    pub dispatch: f64,
    /// Bytes that travel per point
    #[arg(long, value_name = "X", default_value_t = 500.0)]
    pub bytes_per_point: f64,
    /// Bytes per second between machines
    #[arg(long, value_name = "X", default_value_t = 1e8)]
    pub bandwidth: f64,
    /// Seconds of the engine's own work per batch
    #[arg(long, value_name = "X", default_value_t = 1e-3)]
    pub engine_seconds: f64,
    /// Numbers of workers
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,512,1000")]
    pub workers: Vec<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is divided among the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitName {
    /// The points of a batch, in chunks
    Points,
    /// The rows of the data
    Rows,
}

/// `natmix experiments posteriordb`.
#[derive(Debug, Args)]
pub struct PosteriordbArgs {
    /// Only these posteriors; `harder` for those that have no reference in the database [default: those that have one]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub posteriors: Vec<String>,
    /// Seeds of the fits: a range or a list
    #[arg(long, value_name = "A-B", default_value = "1-5", value_parser = seed_list)]
    pub seeds: SeedList,
    /// Fits at a time, each on one thread; with more than one, processor time is not measured; 0: one per core
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Folder of references, made by scripts/compare-nutpie, for posteriors that have none in the database
    #[arg(long, value_name = "DIR")]
    pub reference: Option<PathBuf>,
    /// Fit nothing: judge the draws of another program, DIR/NAME.csv.gz
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seeds", "markdown"])]
    pub draws: Option<PathBuf>,
    /// Write the table between the marks of this page, such as docs/posteriordb.md
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `natmix experiments hierarchical`.
#[derive(Debug, Args)]
pub struct HierarchicalArgs {
    /// Arguments of the script; `-- --help` prints them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// A half of the targets, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HalfName {
    /// Targets on which constants are chosen
    Choose,
    /// Targets on which results are reported
    Report,
    /// All targets
    All,
}

/// Seeds as a range such as `1-5`, or a list such as `1,3,7-9`.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedList(pub Vec<u64>);

/// `natmix experiments battery`.
#[derive(Debug, Args)]
pub struct BatteryArgs {
    /// Only these families [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub families: Vec<String>,
    /// Only these targets [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub targets: Vec<String>,
    /// Which half of the targets
    #[arg(long, value_enum, value_name = "HALF", default_value_t = HalfName::All)]
    pub half: HalfName,
    /// Seeds of the fits: a range or a list
    #[arg(long, value_name = "A-B", default_value = "1-5", value_parser = seed_list)]
    pub seeds: SeedList,
    /// Most evaluations of a fit [default: that of a fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_evals: Option<u64>,
    /// What the fits are for: answer or elbo [default: that of a fit]
    #[arg(long, value_name = "GOAL", value_parser = natmix::config::parse::<Goal>)]
    pub goal: Option<Goal>,
    /// Fits at a time, each on one thread; never changes a result [default: one per core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
    /// Only print which share of starts leads to each mode of the mixtures
    #[arg(long)]
    pub basins: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Most seeds in one run: more is surely a typing error.
const MOST_SEEDS: usize = 10_000;

fn seed_list(text: &str) -> Result<SeedList, String> {
    let mut seeds = Vec::new();
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("{text} is not a seed"));
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first || last - first >= MOST_SEEDS as u64 || seeds.len() >= MOST_SEEDS {
            return Err(format!("{part} is not a range of at most {MOST_SEEDS} seeds"));
        }
        seeds.extend(first..=last);
    }
    Ok(SeedList(seeds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_ranges_and_lists() {
        assert_eq!(seed_list("101-103").unwrap().0, [101, 102, 103]);
        assert_eq!(seed_list("1,3,7-8").unwrap().0, [1, 3, 7, 8]);
        for wrong in ["", "5-1", "a", "1-", "0-99999999999"] {
            assert!(seed_list(wrong).is_err(), "{wrong}");
        }
    }
}
