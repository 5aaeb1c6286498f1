//! Settings of training, and their defaults as functions of the number of rows, the number of steps and a layer's fan-in.
//!
//! | setting | default | why |
//! |---|---|---|
//! | `batch` | 128, but at most a tenth of the rows and at least 10 | enough steps on small data sets |
//! | `epochs` | 20, or as many as needed for 4000 steps | small data sets need more passes |
//! | `rate` | 0.3, with cosine decay | steps are in units of the precision, which starts at the number of rows |
//! | `momentum` | 0.9 | |
//! | `curvature_rate` | 2.8 / steps | the influence of the first precision decays to 6% over a run |
//! | `first_precision` | number of rows | the curvature of one row is of order one |
//! | `prior_precision` | fan-in / gain, at most 40 | initial weights have variance gain / fan-in; larger prior precisions underfit |
//! | `damping` | 0 | |
//! | `draws` | 1 | |
//! | `warm_up` | none | |

use super::super::likelihood::NetworkLikelihood;
use super::super::network::Network;
use super::kernels::{ADAM, AdamConstants, NaturalStepConstants};
use natmix::Error;
use serde::{Deserialize, Serialize};

/// The update rule of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// Variational online Gauss-Newton: draws, natural gradients, curvature from squared gradients.
    Vogn,
    /// Improved variational online Newton: the same with Stein's curvature and the improved step.
    Ivon,
    /// A plain network, or an ensemble of them: no draws, Adam.
    Adam,
}

impl Optimiser {
    /// The name used by the command line and in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Optimiser::Vogn => "vogn",
            Optimiser::Ivon => "ivon",
            Optimiser::Adam => "adam",
        }
    }
}

/// Which curvature VOGN uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurvatureKind {
    /// Squared per-example gradients.
    EmpiricalFisher,
    /// The diagonal of the Gauss-Newton matrix; networks with one output.
    GaussNewton,
}

/// How the step size changes over a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// It stays constant.
    Constant,
    /// `(1 + cos(pi t / T)) / 2`.
    Cosine,
}

/// How the weights of components are updated at the end of each epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightStep {
    /// They stay equal.
    Equal,
    /// Towards the best component, by a bounded KL divergence per epoch.
    Bounded,
    /// In proportion to the exponential of the ELBO per row.
    Tempered,
    /// They stay equal during training; at its end those are chosen that predict the validation rows best
    /// ([`stack`](crate::stack)).
    Stacked,
}

/// Settings of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// The update rule of components.
    pub optimiser: Optimiser,
    /// Which curvature VOGN uses.
    pub curvature: CurvatureKind,
    /// Components, or plain networks of an ensemble.
    pub components: usize,
    /// Passes over the data.
    pub epochs: usize,
    /// Rows per minibatch.
    pub batch: usize,
    /// Step size.
    pub rate: f64,
    /// How it changes.
    pub schedule: Schedule,
    /// Momentum `b1`.
    pub momentum: f64,
    /// Rate `b2` at which old curvature is forgotten.
    pub curvature_rate: f64,
    /// Added to the precision that divides a step.
    pub damping: f64,
    /// Precision that every weight starts with.
    pub first_precision: f64,
    /// Prior precision of each layer's weights and biases.
    pub prior_precision: Vec<f64>,
    /// Share of the run over which prior and entropy grow to full weight.
    pub warm_up: f64,
    /// Weight draws per component and step.
    pub draws: usize,
    /// How the weights of components are updated.
    pub weight_step: WeightStep,
    /// KL divergence that bounds a step of the weights.
    pub weight_bound: f64,
    /// Share of each weight that Adam subtracts in a step of full rate (AdamW).
    pub weight_decay: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Step size of Adam, and of VOGN.
const ADAM_RATE: f64 = 1e-3;
const RATE: f64 = 0.3;
/// Least number of steps for small data sets, and number of epochs for large ones.
const FEWEST_STEPS: usize = 4_000;
const FEWEST_EPOCHS: usize = 20;
/// Largest and smallest batch size, and the fewest batches per epoch.
const BATCH: usize = 128;
const SMALLEST_BATCH: usize = 10;
const FEWEST_BATCHES: usize = 10;
/// Number of times that the first precision decays by a factor e over a run.
const DECAY_TIMES: f64 = 2.8;
/// Largest prior precision by default.
const MOST_PRIOR: f64 = 40.0;

impl TrainConfig {
    /// Defaults for a network and a number of rows.
    pub fn for_data(network: &Network, rows: usize) -> Self {
        let batch = BATCH.min(rows / FEWEST_BATCHES).max(SMALLEST_BATCH).min(rows.max(1));
        let per_epoch = rows.div_ceil(batch).max(1);
        let epochs = FEWEST_EPOCHS.max(FEWEST_STEPS.div_ceil(per_epoch));
        let gain = network.activation().gain();
        let prior = |fan_in: usize| (fan_in as f64 / gain).min(MOST_PRIOR);
        Self {
            optimiser: Optimiser::Vogn,
            curvature: match network.likelihood() {
                NetworkLikelihood::Categorical { .. } => CurvatureKind::EmpiricalFisher,
                _ => CurvatureKind::GaussNewton,
            },
            components: 1,
            epochs,
            batch,
            rate: RATE,
            schedule: Schedule::Cosine,
            momentum: 0.9,
            curvature_rate: Self::curvature_rate_for(epochs * per_epoch),
            damping: 0.0,
            first_precision: rows as f64,
            prior_precision: network.layers().iter().map(|layer| prior(layer.inputs)).collect(),
            warm_up: 0.0,
            draws: 1,
            weight_step: WeightStep::Equal,
            weight_bound: 0.01,
            weight_decay: 0.0,
            seed: 0,
        }
    }

    /// The curvature rate at which the first precision decays over the given number of steps.
    pub fn curvature_rate_for(steps: usize) -> f64 {
        (DECAY_TIMES / steps as f64).min(0.1)
    }

    /// Defaults for plain networks.
    pub fn adam(self) -> Self {
        Self { optimiser: Optimiser::Adam, rate: ADAM_RATE, schedule: Schedule::Constant, ..self }
    }

    /// Checks every setting and their combinations.
    pub fn validate(&self, network: &Network, rows: usize) -> Result<(), Error> {
        let fail = |setting, problem: String| Err(Error::Config { setting, problem });
        for (setting, x) in [
            ("components", self.components),
            ("epochs", self.epochs),
            ("minibatch", self.batch),
            ("draws_per_component", self.draws),
        ] {
            if x == 0 || x > 1 << 24 {
                return fail(setting, format!("must be from 1 to {}, not {x}", 1 << 24));
            }
        }
        if self.batch > rows {
            return fail("minibatch", format!("must be at most the {rows} rows there are, not {}", self.batch));
        }
        for (setting, x, most) in [
            ("rate", self.rate, 1e3),
            ("first_precision", self.first_precision, 1e30),
            ("weight_bound", self.weight_bound, 1e6),
        ] {
            if !(x > 0.0 && x <= most) {
                return fail(setting, format!("must be positive and at most {most}, not {x}"));
            }
        }
        for (setting, x, most) in [
            ("momentum", self.momentum, 1.0 - 1e-6),
            ("curvature_rate", self.curvature_rate, 1.0),
            ("damping", self.damping, 1e30),
            ("warm_up", self.warm_up, 1.0),
            ("weight_decay", self.weight_decay, 1.0),
        ] {
            if !(x >= 0.0 && x <= most) {
                return fail(setting, format!("must be from 0 to {most}, not {x}"));
            }
        }
        if self.prior_precision.len() != network.layers().len() {
            let (given, needed) = (self.prior_precision.len(), network.layers().len());
            return fail("prior_precision", format!("must be {needed} numbers, one per layer, not {given}"));
        }
        if self.prior_precision.iter().any(|x| !(*x > 0.0 && *x <= 1e30)) {
            return fail("prior_precision", "must be positive".into());
        }
        if self.curvature == CurvatureKind::GaussNewton && network.likelihood().outputs() > 1 {
            return fail("curvature", "must be empirical-fisher for a network with more than one output".into());
        }
        Ok(())
    }

    pub(super) fn step_constants(&self, iteration: u64, per_epoch: u64) -> StepConstants {
        let total = (self.epochs as u64 * per_epoch).max(1) as f64;
        let (done, count) = (iteration as f64 / total, (iteration + 1).min(1 << 20) as i32);
        let falling = match self.schedule {
            Schedule::Constant => 1.0,
            Schedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        };
        let rate = self.rate * falling;
        let root = (1.0 - f64::from(ADAM.1).powi(count)).sqrt();
        StepConstants {
            natural: NaturalStepConstants {
                rate: (rate / (1.0 - self.momentum.powi(count))) as f32,
                momentum: self.momentum as f32,
                curvature_rate: self.curvature_rate as f32,
                damping: self.damping as f32,
                prior: 0.0,
                warm_up: if done < self.warm_up { (done / self.warm_up) as f32 } else { 1.0 },
                stein: self.optimiser == Optimiser::Ivon,
            },
            adam: AdamConstants {
                rate: (rate * root / (1.0 - f64::from(ADAM.0).powi(count))) as f32,
                decay: (self.weight_decay * falling) as f32,
                scale: 1.0,
                floor: (1e-8 * root) as f32,
            },
        }
    }
}

/// The constants of one step.
#[derive(Clone, Copy)]
pub(super) struct StepConstants {
    pub natural: NaturalStepConstants,
    pub adam: AdamConstants,
}
