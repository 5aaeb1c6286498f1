//! The state of a training run, and its file: safetensors with a JSON document, like all saved files.
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `means`, `precisions`, `velocities` | `[K, d]` | the components |
//!
//! A file is replaced only when the new one is complete, and refused if any part of it is inconsistent.

use super::super::network::Network;
use super::component::NetworkComponent;
use super::config::{Optimiser, TrainConfig};
use natmix::Error;
use natmix::save::bundle::{self, Layout, Stored, Tensors};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything that a run carries from one step to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainState {
    pub(super) components: Vec<NetworkComponent>,
    pub(super) log_weights: Vec<f64>,
    pub(super) iteration: u64,
    /// Log likelihood of the epoch's rows so far, for each component.
    pub(super) sums: Vec<f64>,
    /// Identifies the data of the run.
    data: Option<String>,
}

/// A state with its network and settings.
struct SavedTraining {
    about: TrainingDocument,
    state: TrainState,
}

/// Everything except the tensors.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainingDocument {
    network: Network,
    config: TrainConfig,
    iteration: u64,
    log_weights: Vec<f64>,
    sums: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

/// Names of the tensors, and where their numbers are in a component.
type TensorPart = (&'static str, fn(&NetworkComponent) -> &Vec<f32>);
const PARTS: [TensorPart; 3] =
    [("means", |part| &part.mean), ("precisions", |part| &part.prec), ("velocities", |part| &part.velocity)];

impl Stored for SavedTraining {
    const KIND: &'static str = "training";
    type Document = TrainingDocument;

    fn layout(document: &TrainingDocument) -> Result<Layout, String> {
        let shape = vec![document.config.components, document.network.weights()];
        Ok(PARTS.iter().map(|(name, _)| (name.to_string(), shape.clone())).collect())
    }

    fn assemble(document: TrainingDocument, mut tensors: Tensors) -> Result<Self, String> {
        let n = document.network.weights();
        let [means, precs, velocities] = PARTS.map(|(name, _)| narrow(tensors.take(name)));
        let parts = means.chunks_exact(n).zip(precs.chunks_exact(n)).zip(velocities.chunks_exact(n));
        let components = parts
            .map(|((mean, prec), velocity)| NetworkComponent {
                mean: mean.to_vec(),
                prec: prec.to_vec(),
                velocity: velocity.to_vec(),
            })
            .collect();
        let about = document.clone();
        let TrainingDocument { network, config, iteration, log_weights, sums, data } = document;
        let state = TrainState { components, log_weights, iteration, sums, data };
        match state.fits(&network, &config) {
            true => Ok(Self { about, state }),
            false => Err("it holds numbers that no run can produce".into()),
        }
    }
}

/// Back to single precision, in which the numbers were computed.
fn narrow(numbers: Vec<f64>) -> Vec<f32> {
    numbers.into_iter().map(|x| x as f32).collect()
}

impl TrainState {
    pub(super) fn new(network: &Network, config: &TrainConfig) -> Self {
        let k = config.components;
        let components = (0..k as u64).map(|index| NetworkComponent::start(network, config, index));
        Self {
            components: components.collect(),
            log_weights: vec![-(k as f64).ln(); k],
            iteration: 0,
            sums: vec![0.0; k],
            data: None,
        }
    }

    /// Completed steps.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// The fingerprint of the data that [`TrainState::set_data`] added.
    pub fn data(&self) -> Option<&str> {
        self.data.as_deref()
    }

    /// Adds a fingerprint of the data, so that whoever resumes the run can see whether they are the same.
    pub fn set_data(&mut self, fingerprint: Option<String>) {
        self.data = fingerprint;
    }

    pub(super) fn fits(&self, network: &Network, config: &TrainConfig) -> bool {
        let n = network.weights();
        let positive = |x: &f32| *x > 0.0 || config.optimiser == Optimiser::Adam && *x >= 0.0;
        let sound = |c: &NetworkComponent| {
            [c.mean.len(), c.prec.len(), c.velocity.len()] == [n; 3]
                && c.prec.iter().all(positive)
                && c.mean.iter().chain(&c.velocity).all(|x| x.is_finite())
        };
        [self.components.len(), self.log_weights.len(), self.sums.len()] == [config.components; 3]
            && self.components.iter().all(sound)
            && self.log_weights.iter().chain(&self.sums).all(|x| x.is_finite())
    }

    /// Writes the state with its settings to a file.
    pub fn save(&self, path: &Path, network: &Network, config: &TrainConfig) -> Result<(), Error> {
        let document = TrainingDocument {
            network: network.clone(),
            config: config.clone(),
            iteration: self.iteration,
            log_weights: self.log_weights.clone(),
            sums: self.sums.clone(),
            data: self.data.clone(),
        };
        let mut tensors = Tensors::default();
        for (name, numbers) in PARTS {
            let wide = self.components.iter().flat_map(numbers).map(|x| f64::from(*x)).collect();
            tensors.add(name, vec![self.components.len(), network.weights()], wide);
        }
        bundle::write_file(path, &bundle::encode::<SavedTraining>(&document, &tensors)?)
    }

    /// Reads a state that was saved with this network and these settings.
    pub fn load(path: &Path, network: &Network, config: &TrainConfig) -> Result<Self, Error> {
        let SavedTraining { about, state } = bundle::read_file(path)?;
        if about.network != *network || about.config != *config {
            let problem = "the interrupted run had another network or other settings: give them again";
            return Err(Error::BadFile { file: path.display().to_string(), problem: problem.into() });
        }
        Ok(state)
    }
}
