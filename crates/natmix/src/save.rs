//! Posteriors in files: safetensors with a versioned JSON document; nothing in them is ever executed.
//!
//! | tensor | shape | holds |
//! |---|---|---|
//! | `log_weights` | `[K]` | logarithms of the weights |
//! | `means` | `[K, d]` | means |
//! | `factors` | `[K, d, d]` or `[K, d]` | lower-triangular `L` of the precision `S = L L'`, or its diagonal |
//! | `precisions` | as `factors` | `S` |
//!
//! What is loaded equals what was saved, to the bit. A file that does not fit in every respect is refused.
//!
//! ```
//! use natmix::family::{Gaussian, Mixture};
//! use natmix::save::Posterior;
//!
//! let mixture = Mixture::single(Gaussian::isotropic(vec![1.0, -2.0], 0.1));
//! let posterior = Posterior { mixture, parameter_names: vec!["a".into(), "b".into()], details: "a note".into() };
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

use crate::error::Error;
use crate::family::Mixture;
use bundle::{Layout, Stored, Tensors};
use parts::{Outline, add_mixture, take_mixture};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A mixture with the names of its parameters and further details.
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    /// The mixture.
    pub mixture: Mixture,
    /// Names of the parameters. With constraints there may be more of them than the mixture has dimensions.
    pub parameter_names: Vec<String>,
    /// Anything else to save along with them.
    pub details: serde_json::Value,
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
        let document = PosteriorDocument {
            mixture: Outline::of(&self.mixture),
            parameter_names: self.parameter_names.clone(),
            details: self.details.clone(),
        };
        let mut tensors = Tensors::default();
        add_mixture(&mut tensors, "", &self.mixture);
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
}

impl Stored for Posterior {
    const KIND: &'static str = "posterior";
    type Document = PosteriorDocument;

    fn layout(document: &PosteriorDocument) -> Result<Layout, String> {
        document.mixture.layout("")
    }

    fn assemble(document: PosteriorDocument, mut tensors: Tensors) -> Result<Self, String> {
        let PosteriorDocument { mixture, parameter_names, details } = document;
        Ok(Self { mixture: take_mixture(&mut tensors, "", mixture)?, parameter_names, details })
    }
}
