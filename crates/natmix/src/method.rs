//! The named methods: the automatic mixture, and combinations of source, estimator and rule (see [`crate::config::Parts`]).

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A method of the paper, by the name that the paper gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Finds modes, number of components, steps and draws by itself: see [`crate::automatic`].
    Auto,
    /// Black-box variational inference: score-function gradients and Adam.
    Bbvi,
    /// Natural-gradient variational inference with first-order (Stein) curvature.
    Ngvi,
    /// Variational online Newton: the exact Hessian.
    Von,
    /// Variational online Gauss-Newton: squared per-example gradients, minibatches, momentum.
    Vogn,
    /// Algorithm 1 of the paper (Lin, Khan, Schmidt 2019): points from the mixture.
    MixtureDraws,
    /// The paper's own component-wise updates: points from each component, in parallel.
    ComponentDraws,
}

impl Method {
    /// Every method, with its name and one line about it.
    pub const ALL: [(Method, &'static str, &'static str); 7] = [
        (Method::Auto, "auto", "the automatic mixture: finds modes, components, steps and draws by itself (default)"),
        (Method::Bbvi, "bbvi", "black-box VI: score-function gradients with baseline, Adam; needs values only"),
        (Method::Ngvi, "ngvi", "natural-gradient VI: Stein curvature, plain step; needs gradients"),
        (Method::Von, "von", "variational online Newton: exact Hessian, plain step"),
        (Method::Vogn, "vogn", "variational online Gauss-Newton: squared per-example gradients, minibatches, momentum"),
        (
            Method::MixtureDraws,
            "mixture-draws",
            "mixture of Gaussians, points drawn from the mixture (Lin et al. 2019)",
        ),
        (
            Method::ComponentDraws,
            "component-draws",
            "mixture of Gaussians, points drawn from each component; trust region",
        ),
    ];

    /// The name that command line and configuration files use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|entry| entry.1 == name);
        found.map(|entry| entry.0).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|entry| entry.1).collect();
            Error::Config { setting: "method", problem: format!("must be one of {}, not {name}", names.join(", ")) }
        })
    }
}
