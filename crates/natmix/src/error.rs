//! The errors of the engine; their messages say what to try.

use crate::check::{GradientFault, RATIO_DIGITS, short};
use crate::target::TargetError;

/// Errors of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument is invalid.
    #[error("{0}")]
    InvalidInput(String),
    /// A setting is out of range or does not go with another one.
    #[error("`{setting}` {problem}")]
    Config {
        /// Name of the setting.
        setting: &'static str,
        /// What is wrong with it, as a continuation of the name: "must be at least 1".
        problem: String,
    },
    /// A matrix that must be positive definite is not.
    #[error("component {component}: {what} is not positive definite at pivot {pivot}")]
    NotPositiveDefinite {
        /// Which component.
        component: usize,
        /// Which matrix.
        what: &'static str,
        /// Row at which its factorisation fails.
        pivot: usize,
    },
    /// The target lacks what the method needs.
    #[error("method needs {needed}, but the target offers {offered}")]
    Unsupported {
        /// What is needed.
        needed: String,
        /// What the target offers.
        offered: String,
    },
    /// The target reported an error of its own.
    #[error("the target failed: {0}")]
    Target(#[from] TargetError),
    /// The gradient is not that of the density.
    #[error(
        "the gradient is not that of log p: along `{coordinate}` it is {}, but differences of log p give {} (ratio {}); \
         {fault} (correct it, or set `check` to false if it is meant to be so)",
        short(*gradient, 4), short(*difference, 4), short(gradient / difference, RATIO_DIGITS)
    )]
    WrongGradient {
        /// Name of the coordinate in which it is worst.
        coordinate: String,
        /// What the gradient says there.
        gradient: f64,
        /// What differences of log p say.
        difference: f64,
        /// What is wrong with it, as far as that is recognised.
        fault: GradientFault,
    },
    /// The density could not be evaluated at any point that the method tried.
    #[error(
        "log p was not finite at any of {points} points in {iterations} iterations in a row \
         (start where the density is positive: see `init_mean` and `init_sd`)"
    )]
    NowhereFinite {
        /// Points tried.
        points: u64,
        /// Iterations without a single usable point.
        iterations: usize,
    },
    /// A file is not a posterior or checkpoint of this program, or is damaged.
    #[error("{file}: {problem}")]
    BadFile {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Reading or writing failed.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The system's message.
        source: std::io::Error,
    },
    /// The thread pool could not be started.
    #[error("could not start {threads} threads: {problem}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// The system's message.
        problem: String,
    },
}
