//! The families: what an outcome may be, the parameters beside the predictor, and their priors.
//!
//! | family | outcome given the predictor `eta` | parameters beside it, with their priors |
//! |---|---|---|
//! | linear | `N(eta, sigma^2)` | `sigma ~ half_cauchy(5)` in units of the outcome's sd |
//! | logistic | `Bernoulli(1/(1 + exp(-eta)))` | |
//! | binomial | successes of `n` trials, each with that probability | |
//! | poisson | `Poisson(exp(eta))` | |
//! | negative binomial | mean `mu = exp(eta)`, variance `mu + mu^2/shape` | `shape ~ inverse_gamma(0.4, 0.3)` |
//! | robust | `eta + sigma t`, `t` from Student's distribution with `df` | `sigma ~ half_cauchy(5)` in units of the outcome's spread, `df ~ gamma(2, 0.1)` |
//! | ordinal | `P(y <= k) = 1/(1 + exp(eta - cut_k))` | `cut`: ordered draws from `logistic(0, 1)`, so that all category probabilities at `eta = 0` are equally likely |
//! | gamma | mean `exp(eta)`, variance `mean^2/shape` | `shape ~ inverse_gamma(0.4, 0.3)` |
//! | survival | Weibull: `P(y > t) = exp(-(t exp(-eta))^shape)`, right-censored | `shape ~ lognormal(0, 1)` |

use super::data::EffectsData;
use super::prior_density::PriorDensity;
use natmix::Error;
use serde::{Deserialize, Serialize};

/// Distribution of an outcome given its linear predictor. See the [module page](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Real outcomes with normal noise.
    Linear,
    /// Outcomes 0 and 1.
    Logistic,
    /// Counts.
    Poisson,
    /// Counts that vary more than Poisson's.
    NegativeBinomial,
    /// Real outcomes with Student-t noise.
    Robust,
    /// Successes among trials.
    Binomial,
    /// Ordered categories `0, 1, ..., categories - 1`.
    Ordinal {
        /// Number of categories.
        categories: usize,
    },
    /// Positive outcomes with a constant coefficient of variation.
    Gamma,
    /// Times until an event, some of them right-censored.
    Survival,
}

impl Family {
    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            Family::Linear => "linear",
            Family::Logistic => "logistic",
            Family::Poisson => "poisson",
            Family::NegativeBinomial => "negative-binomial",
            Family::Robust => "robust",
            Family::Binomial => "binomial",
            Family::Ordinal { .. } => "ordinal",
            Family::Gamma => "gamma",
            Family::Survival => "survival",
        }
    }

    /// Names and default priors of the positive parameters beside the predictor, in the units of the fit.
    pub(super) fn auxiliary(self) -> &'static [(&'static str, PriorDensity)] {
        const SIGMA: (&str, PriorDensity) = ("sigma", PriorDensity::HalfCauchy { scale: crate::linear::NOISE_SCALE });
        const SHAPE: (&str, PriorDensity) = ("shape", PriorDensity::InverseGamma { shape: 0.4, scale: 0.3 });
        match self {
            Family::Linear => &[SIGMA],
            Family::Robust => &[SIGMA, ("df", PriorDensity::Gamma { shape: 2.0, rate: 0.1 })],
            Family::NegativeBinomial | Family::Gamma => &[SHAPE],
            Family::Survival => &[("shape", PriorDensity::LogNormal { location: 0.0, scale: 1.0 })],
            Family::Logistic | Family::Poisson | Family::Binomial | Family::Ordinal { .. } => &[],
        }
    }

    /// Number of cut points.
    pub(super) fn cuts(self) -> usize {
        if let Family::Ordinal { categories } = self { categories.saturating_sub(1) } else { 0 }
    }

    /// Number of parameters beside the predictor.
    pub(super) fn parameters(self) -> usize {
        self.auxiliary().len() + self.cuts()
    }

    /// Whether the logarithm of the density is concave in the predictor and every parameter beside it.
    pub(super) fn is_log_concave(self) -> bool {
        matches!(self, Family::Logistic | Family::Poisson | Family::Binomial)
    }

    fn allows(self, y: f64, trials: f64) -> bool {
        match self {
            Family::Linear | Family::Robust => y.is_finite(),
            Family::Logistic => y == 0.0 || y == 1.0,
            Family::Poisson | Family::NegativeBinomial => y >= 0.0 && y.fract() == 0.0 && y.is_finite(),
            Family::Binomial => (0.0..=trials).contains(&y) && y.fract() == 0.0,
            Family::Ordinal { categories } => (0.0..categories as f64).contains(&y) && y.fract() == 0.0,
            Family::Gamma | Family::Survival => y.is_normal() && y > 0.0,
        }
    }

    fn wanted(self) -> String {
        match self {
            Family::Linear | Family::Robust => "a finite number".into(),
            Family::Logistic => "0 or 1".into(),
            Family::Poisson | Family::NegativeBinomial => "a count (0, 1, 2, ...)".into(),
            Family::Binomial => "a number of successes (0, 1, ..., its trials)".into(),
            Family::Ordinal { categories } => format!("a category (0, 1, ..., {})", categories.saturating_sub(1)),
            Family::Gamma => "a positive number".into(),
            Family::Survival => "a positive time".into(),
        }
    }

    /// Checks outcomes, trials and events.
    pub(super) fn check(self, data: &EffectsData) -> Result<(), Error> {
        let (rows, name) = (data.rows(), self.name());
        let invalid = |problem: String| Err(Error::InvalidInput(problem));
        if matches!(self, Family::Ordinal { categories } if categories < 2) {
            return invalid("ordinal: at least 2 categories are needed".into());
        }
        match (&data.trials, self) {
            (None, Family::Binomial) => return invalid("binomial: the number of trials of each row is needed".into()),
            (Some(trials), Family::Binomial) => {
                if trials.len() != rows {
                    return invalid(format!("trials: {} numbers instead of {rows}", trials.len()));
                }
                let good = |n: f64| n >= 0.0 && n.fract() == 0.0 && n.is_finite();
                if let Some(row) = trials.iter().position(|n| !good(*n)) {
                    return invalid(format!("trials: row {row} is {}, not a count (0, 1, 2, ...)", trials[row]));
                }
            }
            (Some(_), _) => return invalid(format!("{name} has no trials (use the family binomial)")),
            (None, _) => {}
        }
        match (&data.event, self) {
            (Some(event), Family::Survival) if event.len() != rows => {
                return invalid(format!("events: {} instead of {rows}", event.len()));
            }
            (Some(_), family) if family != Family::Survival => {
                return invalid(format!("{name} has no events (use the family survival)"));
            }
            _ => {}
        }
        match self.misfit(data) {
            Some((row, wanted)) => invalid(format!("outcome: row {row} is {}, not {wanted}", data.y[row])),
            None => Ok(()),
        }
    }

    /// The first row whose outcome does not suit the family, and what it should be.
    pub(super) fn misfit(self, data: &EffectsData) -> Option<(usize, String)> {
        let trials = |row: usize| data.trials.as_ref().map_or(1.0, |trials| trials[row]);
        let row = (0..data.rows()).find(|&row| !self.allows(data.y[row], trials(row)))?;
        Some((row, self.wanted()))
    }
}
