//! Posteriors in files: safetensors with a versioned JSON document; nothing in them is ever executed.
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `log_weights` | `[K]` | logarithms of the weights |
//! | `means` | `[K, d]` | means |
//! | `factors` | `[K, d, d]` or `[K, d]` | lower-triangular `L` of the precision `S = L L'`, or its diagonal |
//! | `precisions` | as `factors` | `S` |
//! | `answer_draws`, `answer_weights` | `[n, d]`, `[n]` | draws with weights, where these are the answer |
//! | `answer_log_p`, `answer_energy`, `answer_energy_change`, `answer_diverged` | `[n]` | about the chains that the draws are from, if they are |
//!
//! What is loaded equals what was saved, to the bit. A file that does not fit in every respect is refused.
//!
//! ```
//! use natmix::family::{Gaussian, Mixture};
//! use natmix::save::Posterior;
//!
//! let mixture = Mixture::single(Gaussian::isotropic(vec![1.0, -2.0], 0.1));
//! let posterior = Posterior { mixture, parameter_names: vec!["a".into(), "b".into()], details: "a note".into(), answer: None };
//! let path = std::env::temp_dir().join(format!("natmix-doc-{}.safetensors", std::process::id()));
//! posterior.save(&path).unwrap();
//! let loaded = Posterior::load(&path).unwrap();
//! assert_eq!(loaded, posterior);
//! assert_eq!(loaded.mixture.mean(), [1.0, -2.0]);
//! # std::fs::remove_file(path).unwrap();
//! ```

pub mod bundle;
pub mod checksum;
pub(crate) mod parts;

use crate::answer::delivered::{DeliveredChains, DeliveredDraws};
use crate::error::Error;
use crate::family::Mixture;
use bundle::{Layout, Stored, Tensors};
use parts::{Outline, add_mixture, check_all, take_mixture};
use serde::{Deserialize, Serialize};
use std::path::Path;

const ANSWER_DRAWS: &str = "answer_draws";
const ANSWER_WEIGHTS: &str = "answer_weights";
const ANSWER_CHAINS: [&str; 4] = ["answer_log_p", "answer_energy", "answer_energy_change", "answer_diverged"];

/// A mixture with the names of its parameters and further details.
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    /// The mixture.
    pub mixture: Mixture,
    /// Names of the parameters. With constraints there may be more of them than the mixture has dimensions.
    pub parameter_names: Vec<String>,
    /// Anything else to save along with them.
    pub details: serde_json::Value,
    /// Draws with weights, where these and not the mixture are the answer.
    pub answer: Option<DeliveredDraws>,
}

impl Posterior {
    /// Writes the posterior to a file. A file of that name is replaced only when the new one is complete.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        bundle::write_file(path, &self.to_bytes()?)
    }

    /// Reads a posterior from a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        bundle::read_file(path)
    }

    /// The bytes that [`Posterior::save`] writes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let document =
            PosteriorDocument {
                mixture: Outline::of(&self.mixture),
                parameter_names: self.parameter_names.clone(),
                details: self.details.clone(),
                answer_draws: self.answer.as_ref().map_or(0, |answer| answer.weights.len()),
                answer_chains: self.answer.as_ref().and_then(|answer| answer.chains.as_ref()).map(|chains| {
                    ChainOutline { count: chains.count, per_start: chains.per_start, every: chains.every }
                }),
            };
        let mut tensors = Tensors::default();
        add_mixture(&mut tensors, "", &self.mixture);
        if let Some(DeliveredDraws { draws, weights, chains }) = &self.answer {
            if let Some(DeliveredChains { log_p, energy, energy_change, diverged, .. }) = chains {
                let diverged = &diverged.iter().map(|yes| f64::from(u8::from(*yes))).collect();
                for (name, values) in ANSWER_CHAINS.into_iter().zip([log_p, energy, energy_change, diverged]) {
                    tensors.add(name, vec![weights.len()], values.clone());
                }
            }
            tensors.add(ANSWER_DRAWS, vec![weights.len(), self.mixture.dim()], draws.clone());
            tensors.add(ANSWER_WEIGHTS, vec![weights.len()], weights.clone());
        }
        bundle::encode::<Self>(&document, &tensors)
    }
}

/// Reads a posterior from the bytes of a file, with the same checks as [`Posterior::load`].
pub fn read_posterior_bytes(bytes: &[u8]) -> Result<Posterior, Error> {
    bundle::read_bytes(bytes, "posterior")
}

/// All of a posterior but its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[doc(hidden)]
pub struct PosteriorDocument {
    mixture: Outline,
    parameter_names: Vec<String>,
    details: serde_json::Value,
    /// Number of draws in the answer; zero if the mixture is the answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    answer_draws: usize,
    /// The chains that they are from, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer_chains: Option<ChainOutline>,
}

/// All about chains but their draws.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainOutline {
    count: usize,
    per_start: usize,
    every: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Stored for Posterior {
    const KIND: &'static str = "posterior";
    type Document = PosteriorDocument;

    fn layout(document: &PosteriorDocument) -> Result<Layout, String> {
        let mut layout = document.mixture.layout("")?;
        let (n, d) = (document.answer_draws, document.mixture.dim);
        if n > 0 {
            layout.push((ANSWER_DRAWS.to_owned(), vec![n, d]));
            layout.push((ANSWER_WEIGHTS.to_owned(), vec![n]));
        }
        if document.answer_chains.is_some() {
            layout.extend(ANSWER_CHAINS.map(|name| (name.to_owned(), vec![n])));
        }
        Ok(layout)
    }

    fn assemble(document: PosteriorDocument, mut tensors: Tensors) -> Result<Self, String> {
        let PosteriorDocument { mixture, parameter_names, details, answer_draws, answer_chains } = document;
        let mixture = take_mixture(&mut tensors, "", mixture)?;
        let chains = answer_chains.map(|ChainOutline { count, per_start, every }| {
            let [log_p, energy, energy_change, diverged] = ANSWER_CHAINS.map(|name| tensors.take(name));
            let diverged = diverged.into_iter().map(|x| x != 0.0).collect();
            DeliveredChains { count, per_start, every, log_p, energy, energy_change, diverged }
        });
        if chains.as_ref().is_some_and(|chains| !chains.fits(answer_draws)) {
            return Err("has chains that do not match its draws".into());
        }
        let answer = (answer_draws > 0).then(|| DeliveredDraws {
            draws: tensors.take(ANSWER_DRAWS),
            weights: tensors.take(ANSWER_WEIGHTS),
            chains,
        });
        if let Some(answer) = &answer {
            check_all(ANSWER_DRAWS, &answer.draws, f64::is_finite)?;
            check_all(ANSWER_WEIGHTS, &answer.weights, |w| w > 0.0 && w <= 1.0)?;
        }
        Ok(Self { mixture, parameter_names, details, answer })
    }
}
