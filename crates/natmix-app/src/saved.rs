//! A posterior in a file: the mixture, and what is needed to predict and to convert draws to the user's own scale.
//!
//! Beside its tensors the file has a document with a schema version:
//!
//! ```text
//! {"schema": 1, "settings": {...}, "model": {"regression": {...}}}
//! ```
//!
//! Version 0.1 wrote the same tensors with a different document, which is still read.

use crate::Error;
use crate::networks::data::NetworkMemory;
use crate::settings::Settings;
use crate::stan::StanMemory;
use natmix::answer::delivered::DeliveredDraws;
use natmix::answer::level::Level;
use natmix::family::Mixture;
use natmix::save::{Posterior, read_posterior_bytes};
use natmix_models::RegressionMemory;
use natmix_models::densities::Spec;
use natmix_models::effects::EffectsMemory;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// Version of the document that is written, and the newest that is read.
const SCHEMA: u64 = 1;

/// A posterior with everything needed to interpret it.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedPosterior {
    /// The mixture, in the space that was fitted.
    pub mixture: Mixture,
    /// Names of the parameters on the user's own scale; none for large networks.
    pub parameter_names: Vec<String>,
    /// How it was fitted; `None` where an old file does not state it in a form that is still understood.
    pub settings: Option<Settings>,
    /// The model that it belongs to.
    pub model: SavedModel,
    /// Which draws may be relied on; `None` for networks and old files.
    pub level: Option<Level>,
    /// Draws of chains or with weights, where these and not the mixture are the answer.
    pub answer: Option<DeliveredDraws>,
}

/// What a posterior stores about its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SavedModel {
    /// An analytic density: its description.
    Density(Value),
    /// A regression: how columns are encoded as features, and how coefficients are converted back.
    Regression(RegressionMemory),
    /// A regression with varying effects: what its coordinates stand for, and how columns are encoded.
    Effects(Box<EffectsMemory>),
    /// A network: its shape, and how data become inputs.
    Network(NetworkMemory),
    /// A Stan program: names, and how to recognise program and data.
    Stan(StanMemory),
    /// An external function, such as one in Python.
    External(ExternalMemory),
}

/// What is stored about an external function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExternalMemory {
    /// The model's own variables; none if the coordinates are the parameters.
    pub variables: Vec<SavedVariable>,
    /// Labels along the dimensions of the variables.
    pub coords: Map<String, Value>,
}

/// A variable of a model, on its own scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedVariable {
    /// Name.
    pub name: String,
    /// Lengths along its dimensions.
    pub shape: Vec<usize>,
    /// Names of its dimensions.
    pub dims: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct SavedDocument {
    schema: u64,
    settings: Option<Settings>,
    model: SavedModel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<Level>,
}

/// The document of version 0.1, which had no schema.
#[derive(Deserialize)]
struct FirstDocument {
    #[serde(default)]
    settings: Value,
    memory: Option<RegressionMemory>,
    network: Option<NetworkMemory>,
    spec: Option<Value>,
    #[serde(default)]
    variables: Vec<(String, Vec<usize>, Vec<String>)>,
    #[serde(default)]
    coords: Map<String, Value>,
}

impl From<FirstDocument> for SavedDocument {
    fn from(first: FirstDocument) -> Self {
        let FirstDocument { settings, memory, network, spec, variables, coords } = first;
        let variables = variables.into_iter().map(|(name, shape, dims)| SavedVariable { name, shape, dims });
        let model = match (memory, network, spec) {
            (Some(memory), _, _) => SavedModel::Regression(memory),
            (_, Some(memory), _) => SavedModel::Network(memory),
            (_, _, Some(spec)) => SavedModel::Density(spec),
            _ => SavedModel::External(ExternalMemory { variables: variables.collect(), coords }),
        };
        Self { schema: SCHEMA, settings: serde_json::from_value(settings).ok(), model, level: None }
    }
}

impl SavedPosterior {
    /// Reads a posterior from a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::understand(Posterior::load(path)?, &path.display().to_string())
    }

    /// Reads a posterior from the bytes of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::understand(read_posterior_bytes(bytes)?, "posterior")
    }

    /// Writes the posterior to a file. A file of that name is replaced only when the new one is complete.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        Ok(self.plain()?.save(path)?)
    }

    /// The bytes that [`SavedPosterior::save`] writes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(self.plain()?.to_bytes()?)
    }

    fn plain(&self) -> Result<Posterior, Error> {
        let (settings, model, level) = (self.settings.clone(), self.model.clone(), self.level);
        let document = SavedDocument { schema: SCHEMA, settings, model, level };
        let details = serde_json::to_value(document)
            .map_err(|error| Error::Invalid(format!("this posterior cannot be saved: {error}")))?;
        let (mixture, parameter_names) = (self.mixture.clone(), self.parameter_names.clone());
        Ok(Posterior { mixture, parameter_names, details, answer: self.answer.clone() })
    }

    fn understand(posterior: Posterior, file: &str) -> Result<Self, Error> {
        let Posterior { mixture, parameter_names, details, answer } = posterior;
        let bad = |problem: String| natmix::Error::BadFile { file: file.to_owned(), problem };
        let damaged = |error: serde_json::Error| {
            bad(format!("does not describe its model ({error}): it is damaged, fit the model again"))
        };
        let document = match details.get("schema").map(Value::as_u64) {
            Some(Some(SCHEMA)) => serde_json::from_value(details).map_err(damaged)?,
            Some(_) => {
                let schema = &details["schema"];
                let problem = format!("has schema {schema}, but this natmix reads up to {SCHEMA}: use a newer natmix");
                return Err(bad(problem).into());
            }
            None if details.is_object() => serde_json::from_value::<FirstDocument>(details).map_err(damaged)?.into(),
            // Saved through the engine's own API.
            None => {
                let model = SavedModel::External(ExternalMemory::default());
                SavedDocument { schema: SCHEMA, settings: None, model, level: None }
            }
        };
        let SavedDocument { settings, model, level, .. } = document;
        let saved = Self { mixture, parameter_names, settings, model, level, answer };
        match saved.is_sound() {
            true => Ok(saved),
            false => Err(bad("is damaged: its parameters do not match its mixture".into()).into()),
        }
    }

    /// Whether the model matches the mixture.
    fn is_sound(&self) -> bool {
        let (d, p) = (self.mixture.dim(), self.parameter_names.len());
        match &self.model {
            SavedModel::Regression(memory) => p == d && memory.kind.dim(memory.encoding.dim()) == d,
            SavedModel::Effects(memory) => memory.is_sound() && memory.layout.dim() == d && p == d,
            SavedModel::Network(memory) => memory.network.weights() == d && (p == d || p == 0),
            SavedModel::Density(_) => true,
            SavedModel::Stan(memory) => memory.reported == p && p <= memory.names.len(),
            SavedModel::External(memory) => !memory.variables.is_empty() || p == d || p == 0,
        }
    }

    /// Whether the answer consists of draws with importance weights, which are stored.
    pub fn has_weighted_draws(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.chains.is_none())
    }

    /// `n` draws of the answer, in the space that was fitted: of the stored ones if these are the answer, else of the
    /// mixture.
    pub fn sample(&self, n: usize, seed: u64) -> Vec<f64> {
        match &self.answer {
            Some(answer) => answer.resample(n, seed),
            None => self.mixture.sample(n, seed),
        }
    }

    /// Names of the parameters; large networks store none, and their weights are numbered.
    pub fn names(&self) -> Vec<String> {
        match self.parameter_names.is_empty() {
            true => (0..self.mixture.dim()).map(|i| format!("w{i}")).collect(),
            false => self.parameter_names.clone(),
        }
    }

    /// Converts points of the fitted space, one after another, to the user's own scale.
    pub fn to_own_scale(&self, z: &[f64]) -> Result<Vec<f64>, Error> {
        let d = self.mixture.dim();
        match &self.model {
            SavedModel::Regression(memory) => {
                let mut values = vec![0.0; z.len()];
                z.chunks_exact(d).zip(values.chunks_exact_mut(d)).for_each(|(z, out)| memory.to_user_scale(z, out));
                Ok(values)
            }
            SavedModel::Effects(memory) => {
                let mut values = vec![0.0; z.len()];
                let each = z.chunks_exact(d).zip(values.chunks_exact_mut(d));
                each.for_each(|(z, out)| memory.layout.to_parameters(z, out));
                Ok(values)
            }
            SavedModel::Density(spec) => {
                let target = Spec::from_json(&spec.to_string()).and_then(|spec| spec.target())?;
                let p = self.parameter_names.len();
                if target.dim() != d || target.parameter_names().len() != p {
                    return Err(Error::Invalid(
                        "the posterior is damaged: its parameters do not match its mixture".into(),
                    ));
                }
                let mut values = vec![0.0; z.len() / d * p];
                z.chunks_exact(d).zip(values.chunks_exact_mut(p)).for_each(|(z, out)| target.to_parameters(z, out));
                Ok(values)
            }
            SavedModel::Stan(_) => {
                Err(Error::Invalid("only the Stan program itself can compute its parameters".into()))
            }
            SavedModel::External(memory) if !memory.variables.is_empty() => Err(Error::Invalid(
                "this posterior has variables that only its Python model can compute: draw from it in Python".into(),
            )),
            SavedModel::Network(_) | SavedModel::External(_) => Ok(z.to_vec()),
        }
    }
}
