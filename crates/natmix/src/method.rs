//! The named methods: each is a combination of source, estimator and rule.

use crate::config::{Config, Source};
use crate::draws::Plan;
use crate::error::Error;
use crate::estimate::Estimator;
use crate::family::CovarianceKind;
use crate::rule::Rule;
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

    /// Sets what the method fixes in `base`.
    pub(crate) fn configure(self, base: Config) -> Config {
        match self {
            Method::Bbvi => Config {
                source: Source::Mixture,
                draws: Plan::Independent,
                draws_per_component: 200,
                estimator: Estimator::Score,
                rule: Rule::Adam,
                rate: 0.02,
                max_iterations: 100_000,
                ..base
            },
            Method::Ngvi => Config { rule: Rule::Plain, rate: 0.1, ..base },
            Method::Von => Config { estimator: Estimator::Exact, rule: Rule::Plain, ..base },
            Method::Vogn => Config {
                covariance: CovarianceKind::Diag,
                estimator: Estimator::EmpiricalFisher,
                rule: Rule::Momentum,
                rate: 0.1,
                ..base
            },
            Method::MixtureDraws => Config { source: Source::Mixture, rule: Rule::Plain, rate: 0.1, ..base },
            Method::Auto => Config { components: 0, draws: Plan::Independent, ..base },
            Method::ComponentDraws => base,
        }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|entry| entry.1 == name);
        found.map(|entry| entry.0).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|entry| entry.1).collect();
            Error::Config { setting: "method", problem: format!("`{name}` is not one of {}", names.join(", ")) }
        })
    }
}
