//! Settings of networks: the table `[mlp]` of `config.toml`. Defaults depend on the size of the data and on fan-in.

use super::path_text;
use natmix::Error;
use natmix::config::{DEFAULT_SEED, Overrides};
use natmix_nets::train::{CurvatureKind, Optimiser, Schedule, TrainConfig, WeightStep};
use natmix_nets::{Activation, Network};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Products of a weight and a row that the draws for one set of scores may take, per component; drawing a weight counts
/// as much as this many rows. ECE and NLL of small tables need hundreds of draws to be stable in the third decimal.
const SCORE_PRODUCTS: f64 = 1e11;
const ROWS_PER_DRAW: usize = 100;
/// Fewest and most weight draws per component for scores by default.
pub const FEWEST_SCORE_DRAWS: usize = 50;
const MOST_SCORE_DRAWS: usize = 1_000;
/// Epochs without improvement after which training stops.
const PATIENCE: usize = 5;

/// The distribution of a network's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeLikelihood {
    /// 0 or 1.
    Bernoulli,
    /// One of several classes.
    Categorical,
    /// A number.
    Gaussian,
}

/// Rows held out of training: to stop early, to stack components and to judge predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "HeldOutText", into = "HeldOutText")]
pub enum HeldOut {
    /// A random share of the rows.
    Share(f64),
    /// The rows of a file.
    File(PathBuf),
}

/// As written in a file or after a flag: a number is a share.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a file, or a share of the rows")]
enum HeldOutText {
    Number(f64),
    Text(PathBuf),
}

impl From<HeldOutText> for HeldOut {
    fn from(text: HeldOutText) -> Self {
        match text {
            HeldOutText::Number(share) => Self::Share(share),
            HeldOutText::Text(text) => match text.to_str().and_then(|text| text.parse().ok()) {
                Some(share) => Self::Share(share),
                None => Self::File(path_text::read(text)),
            },
        }
    }
}

impl From<HeldOut> for HeldOutText {
    fn from(held_out: HeldOut) -> Self {
        match held_out {
            HeldOut::Share(share) => Self::Number(share),
            HeldOut::File(file) => Self::Text(path_text::written(&file)),
        }
    }
}

natmix::overlay! {
    /// Settings that only networks have.
    #[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Networks (mlp)"))]
    pub struct NetworkSettings {
        /// Sizes of the hidden layers [default: 100,100 for images, 50 for tables]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N,...", value_delimiter = ','))]
        pub hidden: Vec<usize>,
        /// Activation of the hidden units: relu, tanh [default: relu]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = natmix::config::parse::<Activation>))]
        pub activation: Activation,
        /// Likelihood: bernoulli, categorical, gaussian [default: chosen by the outcome]
        #[cfg_attr(
            feature = "clap",
            arg(long, value_name = "NAME", value_parser = natmix::config::parse::<OutcomeLikelihood>)
        )]
        pub likelihood: OutcomeLikelihood,
        /// Passes over the data [default: 20, more for small data]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
        pub epochs: usize,
        /// Out-of-distribution data, to see whether predictions on it are less certain [default: none]
        #[cfg_attr(feature = "clap", arg(long, value_name = "DATA"))]
        pub ood: PathBuf,
        /// Prior precision of the weights [default: chosen by each layer's fan-in]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub prior_precision: f64,
        /// Initial precision of the weights [default: the number of rows]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub first_precision: f64,
        /// Schedule of the step size: cosine, constant [default: cosine; constant with adam]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = natmix::config::parse::<Schedule>))]
        pub schedule: Schedule,
        /// Fraction of the run over which the prior and entropy terms grow to full strength [default: 0]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub warm_up: f64,
        /// Curvature of vogn: empirical-fisher, gauss-newton (one output) [default: gauss-newton where possible]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = natmix::config::parse::<CurvatureKind>))]
        pub curvature: CurvatureKind,
        /// Weights of the components: equal, bounded, tempered, stacked (by the validation rows) [default: equal]
        #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = natmix::config::parse::<WeightStep>))]
        pub weight_step: WeightStep,
        /// Number of plain networks (with --method adam) [default: 1]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
        pub ensemble: usize,
        /// Weight decay of plain networks, per step [default: 0]
        #[cfg_attr(feature = "clap", arg(long, value_name = "X"))]
        pub weight_decay: f64,
        /// Validation rows: a file, or a fraction of the rows; for early stopping, stacking and the verdict [default: none]
        #[cfg_attr(
            feature = "clap",
            arg(long, value_name = "FILE|X", value_parser = natmix::config::parse::<HeldOut>)
        )]
        pub validation: HeldOut,
        /// Epochs without a better validation score after which to stop [default: 5]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
        pub patience: usize,
        /// Weight draws per component for scores [default: 50 to 1000, more for small networks and tables]
        #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
        pub score_draws: usize,
    }
}

impl NetworkSettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Activation of the hidden units.
    pub fn activation(&self) -> Activation {
        self.activation.unwrap_or(Activation::Relu)
    }

    /// Weight draws per component for scores on this many rows: as many as given, or as the time allows, at least
    /// `fewest`.
    pub fn score_draws(&self, network: &Network, rows: usize, fewest: usize) -> usize {
        let each = network.weights() as f64 * (rows + ROWS_PER_DRAW) as f64;
        let affordable = (SCORE_PRODUCTS / each) as usize;
        self.score_draws.unwrap_or(affordable.clamp(fewest, MOST_SCORE_DRAWS)).max(1)
    }

    /// Epochs without improvement after which training stops.
    pub fn patience(&self) -> usize {
        self.patience.unwrap_or(PATIENCE).max(1)
    }

    /// Settings of training, from the defaults for these data; `engine` holds those that networks share with the other
    /// models.
    pub fn train(
        &self,
        engine: &Overrides,
        network: &Network,
        rows: usize,
        optimiser: Optimiser,
    ) -> Result<TrainConfig, Error> {
        let base = TrainConfig::for_data(network, rows);
        let base = if optimiser == Optimiser::Adam { base.adam() } else { base };
        let batch = engine.minibatch.unwrap_or(base.batch);
        if batch == 0 || batch > rows {
            let problem = format!("must be from 1 to {rows}, the number of rows, not {batch}");
            return Err(Error::Config { setting: "minibatch", problem });
        }
        let epochs = self.epochs.unwrap_or(if batch == base.batch {
            base.epochs
        } else {
            // As many steps as with the default batch.
            base.epochs.min((base.epochs * batch / base.batch).max(20))
        });
        let components = engine.components.unwrap_or_default().given().unwrap_or(1);
        let config = TrainConfig {
            optimiser,
            curvature: self.curvature.unwrap_or(base.curvature),
            components: self.ensemble.unwrap_or(components),
            epochs,
            batch,
            rate: engine.rate.unwrap_or(base.rate),
            schedule: self.schedule.unwrap_or(base.schedule),
            momentum: engine.momentum.unwrap_or(base.momentum),
            curvature_rate: engine
                .curvature_rate
                .unwrap_or(TrainConfig::curvature_rate_for(epochs * rows.div_ceil(batch))),
            damping: engine.damping.unwrap_or(base.damping),
            first_precision: self.first_precision.unwrap_or(base.first_precision),
            prior_precision: match self.prior_precision {
                Some(precision) => vec![precision; network.layers().len()],
                None => base.prior_precision.clone(),
            },
            warm_up: self.warm_up.unwrap_or(base.warm_up),
            draws: engine.draws_per_component.unwrap_or(base.draws),
            weight_step: self.weight_step.unwrap_or(base.weight_step),
            weight_decay: self.weight_decay.unwrap_or(base.weight_decay),
            seed: engine.seed.unwrap_or(DEFAULT_SEED),
            ..base
        };
        config.validate(network, rows)?;
        Ok(config)
    }
}
