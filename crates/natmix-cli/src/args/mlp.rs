//! Options of networks.

use clap::Args;
use std::path::PathBuf;

/// Options that only `natmix fit mlp` takes.
#[derive(Clone, Debug, Default, Args)]
pub struct MlpArgs {
    /// Sizes of the hidden layers [default: 100,100 for images, 50 for tables]
    #[arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "Networks (mlp)")]
    pub hidden: Vec<usize>,
    /// What hidden units do: relu, tanh [default: relu]
    #[arg(long, value_name = "NAME", help_heading = "Networks (mlp)")]
    pub activation: Option<String>,
    /// bernoulli, categorical or gaussian [default: by the outcome]
    #[arg(long, value_name = "NAME", help_heading = "Networks (mlp)")]
    pub likelihood: Option<String>,
    /// Passes over the data [default: 20, more for small data]
    #[arg(long, value_name = "N", help_heading = "Networks (mlp)")]
    pub epochs: Option<usize>,
    /// Rows in a minibatch [default: 128, less for small data]
    #[arg(long, value_name = "N", help_heading = "Networks (mlp)")]
    pub batch: Option<usize>,
    /// Data of another kind, to see whether the network knows that it does not know [default: none]
    #[arg(long, value_name = "DATA", help_heading = "Networks (mlp)")]
    pub ood: Option<PathBuf>,
    /// Prior precision of the weights [default: by a layer's fan-in]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub prior_precision: Option<f64>,
    /// Precision that weights start with [default: the number of rows]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub first_precision: Option<f64>,
    /// Share of old curvature that a step forgets [default: 2.8 over the number of steps]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub curvature_rate: Option<f64>,
    /// Momentum [default: 0.9]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub momentum: Option<f64>,
    /// Added to the precision that divides a step [default: 0]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub damping: Option<f64>,
    /// How the step size falls: cosine, constant [default: cosine; constant with adam]
    #[arg(long, value_name = "NAME", help_heading = "Networks (mlp)")]
    pub schedule: Option<String>,
    /// Share of the run over which prior and entropy grow to full size [default: 0]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub warm_up: Option<f64>,
    /// Curvature of vogn: empirical-fisher, gauss-newton (one output) [default: the latter where it can be]
    #[arg(long, value_name = "NAME", help_heading = "Networks (mlp)")]
    pub curvature: Option<String>,
    /// Weights of the components: equal, bounded, tempered [default: equal]
    #[arg(long, value_name = "NAME", help_heading = "Networks (mlp)")]
    pub weight_step: Option<String>,
    /// Number of plain networks (with --method adam) [default: 1]
    #[arg(long, value_name = "N", help_heading = "Networks (mlp)")]
    pub ensemble: Option<usize>,
    /// Decay of the weights of plain networks, a step [default: 0]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub weight_decay: Option<f64>,
    /// Share of the rows kept apart to stop early [default: none]
    #[arg(long, value_name = "X", help_heading = "Networks (mlp)")]
    pub validation: Option<f64>,
    /// Epochs without a better validation figure after which to stop [default: 5]
    #[arg(long, value_name = "N", help_heading = "Networks (mlp)")]
    pub patience: Option<usize>,
    /// Weight draws a component for scores [default: 50]
    #[arg(long, value_name = "N", help_heading = "Networks (mlp)")]
    pub score_draws: Option<usize>,
}
