//! Methods by name: those of the engine, and those that train networks on minibatches.

use natmix::{Error, Method};
use natmix_nets::train::Optimiser;
use serde::{Deserialize, Serialize};

/// A method of the engine, or one for networks only. `vogn` is both: it also trains networks on minibatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected one of auto, bbvi, ngvi, von, vogn, mixture-draws, component-draws, or for mlp ivon, adam"
)]
pub enum FitMethod {
    /// A method of the engine.
    Engine(Method),
    /// An optimiser for networks.
    Network(Optimiser),
}

impl FitMethod {
    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            FitMethod::Engine(method) => method.name(),
            FitMethod::Network(optimiser) => optimiser.name(),
        }
    }

    /// The method of the engine.
    pub fn of_engine(self) -> Result<Method, Error> {
        match self {
            FitMethod::Engine(method) => Ok(method),
            FitMethod::Network(optimiser) => {
                let problem = format!("must not be {}, which trains networks (mlp)", optimiser.name());
                Err(Error::Config { setting: "method", problem })
            }
        }
    }

    /// The optimiser if the method trains networks on minibatches; `vogn` unless another method is named.
    pub fn optimiser(method: Option<Self>) -> Option<Optimiser> {
        match method {
            None | Some(FitMethod::Engine(Method::Auto | Method::Vogn)) => Some(Optimiser::Vogn),
            Some(FitMethod::Network(optimiser)) => Some(optimiser),
            Some(FitMethod::Engine(_)) => None,
        }
    }
}
