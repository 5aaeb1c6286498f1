//! A common interface of the built-in regressions: the kind of model, its data, its target and its prior in words.
//!
//! ```
//! use natmix_models::{RegressionKind, Observations, Regression};
//! let table = Observations::new(vec![1.0, 0.2, 1.0, -1.3], 2, vec![1.0, 0.0]).unwrap();
//! let table = table.with_names(vec!["intercept".into(), "age".into()]).unwrap();
//! let model = Regression::new(RegressionKind::Logistic, table, &[25.0, 2.5]).unwrap();
//! assert_eq!(model.target().dim(), 2);
//! assert_eq!(model.prior(), ["intercept ~ N(0, 25^2)", "age ~ N(0, 2.5^2)"]);
//! ```

use crate::glm::{Glm, Likelihood};
use crate::linear::{Linear, NOISE_SCALE};
use crate::observations::Dataset;
use crate::prior::spread;
use crate::scores::spaced;
use crate::softmax::Softmax;
use natmix::Error;
use natmix::target::Target;
use serde::{Deserialize, Serialize};

/// Most names of coefficients that one line of the prior's description lists.
const MOST_NAMES: usize = 6;

/// The built-in regressions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "model")]
pub enum RegressionKind {
    /// Outcomes 0 and 1, `P(y = 1) = 1 / (1 + exp(-eta))`.
    Logistic,
    /// Real outcomes, `y ~ N(eta, sigma^2)`.
    Linear {
        /// The noise's standard deviation `sigma`, if it is known.
        noise_sd: Option<f64>,
    },
    /// Counts, `y ~ Poisson(exp(eta))`.
    Poisson,
    /// Outcomes `0, 1, ..., classes - 1`; the first class is the reference.
    Softmax {
        /// Number of classes.
        classes: usize,
    },
}

impl RegressionKind {
    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            RegressionKind::Logistic => "logistic",
            RegressionKind::Linear { .. } => "linear",
            RegressionKind::Poisson => "poisson",
            RegressionKind::Softmax { .. } => "softmax",
        }
    }

    /// Linear predictors per row.
    pub(crate) fn predictors(self) -> usize {
        match self {
            RegressionKind::Softmax { classes } => classes.saturating_sub(1),
            _ => 1,
        }
    }

    /// Dimension of the posterior with this many features.
    pub fn dim(self, features: usize) -> usize {
        self.predictors().saturating_mul(features) + usize::from(self == RegressionKind::Linear { noise_sd: None })
    }

    /// Whether `y` can be an outcome.
    pub fn allows(self, y: f64) -> bool {
        match self {
            RegressionKind::Logistic => y == 0.0 || y == 1.0,
            RegressionKind::Linear { .. } => y.is_finite(),
            RegressionKind::Poisson => y >= 0.0 && y.fract() == 0.0,
            RegressionKind::Softmax { classes } => y >= 0.0 && y < classes as f64 && y.fract() == 0.0,
        }
    }

    /// What an outcome has to be, in words.
    pub fn wanted(self) -> String {
        match self {
            RegressionKind::Logistic => "0 or 1".into(),
            RegressionKind::Linear { .. } => "a finite number".into(),
            RegressionKind::Poisson => "a count (0, 1, 2, ...)".into(),
            RegressionKind::Softmax { classes } => format!("a class (0, 1, ..., {})", classes.saturating_sub(1)),
        }
    }
}

/// A regression with its data.
#[derive(Clone, Debug)]
pub struct Regression {
    kind: RegressionKind,
    model: RegressionModel,
    prior_sd: Vec<f64>,
    prior: Vec<String>,
}

#[derive(Clone, Debug)]
enum RegressionModel {
    Glm(Glm),
    Linear(Linear),
    Softmax(Softmax),
}

impl Regression {
    /// From data and the prior's standard deviations: one for all features, or one per feature.
    pub fn new(kind: RegressionKind, data: impl Into<Dataset>, prior_sd: &[f64]) -> Result<Self, Error> {
        let data = data.into();
        let prior_sd = spread(prior_sd, data.features())?;
        let prior = describe(kind, data.names(), &prior_sd);
        let model = match kind {
            RegressionKind::Logistic => RegressionModel::Glm(Glm::from_data(Likelihood::Bernoulli, data, &prior_sd)?),
            RegressionKind::Poisson => RegressionModel::Glm(Glm::from_data(Likelihood::Poisson, data, &prior_sd)?),
            RegressionKind::Linear { noise_sd } => RegressionModel::Linear(Linear::new(data, &prior_sd, noise_sd)?),
            RegressionKind::Softmax { classes } => RegressionModel::Softmax(Softmax::new(data, classes, &prior_sd)?),
        };
        Ok(Self { kind, model, prior_sd, prior })
    }

    /// The same regression on at most `most` evenly spaced rows, weighted to represent all rows: a posterior of about
    /// the same width, in a fraction of the time.
    pub fn sample(&self, most: usize) -> Result<Regression, Error> {
        let rows: Vec<usize> = spaced(self.data().rows(), most.max(1)).collect();
        let table = self.data().take(&rows)?;
        let share = self.data().rows() as f64 / rows.len() as f64;
        let weights = (0..rows.len()).map(|row| share * table.weights().map_or(1.0, |weights| weights[row])).collect();
        Self::new(self.kind, table.with_weights(weights)?, &self.prior_sd)
    }

    /// Names the classes of a softmax regression, the reference included.
    pub fn with_class_names(mut self, names: Vec<String>) -> Result<Self, Error> {
        self.model = match self.model {
            RegressionModel::Softmax(model) => RegressionModel::Softmax(model.with_class_names(names)?),
            _ => return Err(Error::InvalidInput(format!("a {} regression has no class names", self.kind.name()))),
        };
        Ok(self)
    }

    /// The kind of model.
    pub fn kind(&self) -> RegressionKind {
        self.kind
    }

    /// The target of the fit, which also names the parameters.
    pub fn target(&self) -> &dyn Target {
        match &self.model {
            RegressionModel::Glm(model) => model,
            RegressionModel::Linear(model) => model,
            RegressionModel::Softmax(model) => model,
        }
    }

    /// Whether an evaluation over all rows costs no more than one over some: least squares with precomputed sums.
    pub fn cost_is_independent_of_rows(&self) -> bool {
        matches!(&self.model, RegressionModel::Linear(model) if model.has_equations())
    }

    /// The prior, one line per group of parameters.
    pub fn prior(&self) -> &[String] {
        &self.prior
    }

    /// The rows that it is fitted to.
    pub fn data(&self) -> &Dataset {
        match &self.model {
            RegressionModel::Glm(model) => model.data(),
            RegressionModel::Linear(model) => model.data(),
            RegressionModel::Softmax(model) => model.data(),
        }
    }
}

/// The prior in words: neighbours with the same standard deviation share a line.
fn describe(kind: RegressionKind, names: &[String], prior_sd: &[f64]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut first = 0;
    for group in prior_sd.chunk_by(|a, b| a == b) {
        let names = &names[first..first + group.len()];
        first += group.len();
        let named = match names {
            [start, .., end] if names.len() > MOST_NAMES => {
                format!("{} coefficients, {start} to {end},", names.len())
            }
            _ => names.join(", "),
        };
        let each = if let RegressionKind::Softmax { .. } = kind { " of each class" } else { "" };
        lines.push(format!("{named}{each} ~ N(0, {}^2)", group[0]));
    }
    match kind {
        RegressionKind::Linear { noise_sd: None } => lines.push(format!("sigma ~ half-Cauchy({NOISE_SCALE})")),
        RegressionKind::Linear { noise_sd: Some(sd) } => lines.push(format!("sigma = {sd}, known")),
        _ => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::Observations;

    fn table(features: usize, outcome: Vec<f64>) -> Observations {
        let x = (0..outcome.len() * features).map(|i| (i as f64 * 0.9).cos()).collect();
        Observations::new(x, features, outcome).unwrap()
    }

    #[test]
    fn every_kind_has_its_names_prior_and_data() {
        let softmax =
            Regression::new(RegressionKind::Softmax { classes: 3 }, table(2, vec![0.0, 2.0, 1.0]), &[1.5]).unwrap();
        let softmax = softmax.with_class_names(vec!["a".into(), "b".into(), "c".into()]).unwrap();
        assert_eq!(softmax.target().parameter_names(), ["b:x0", "b:x1", "c:x0", "c:x1"]);
        assert_eq!(softmax.prior(), ["x0, x1 of each class ~ N(0, 1.5^2)"]);
        let linear =
            Regression::new(RegressionKind::Linear { noise_sd: None }, table(1, vec![0.5, 2.0]), &[2.0]).unwrap();
        assert_eq!(linear.target().parameter_names(), ["x0", "sigma"]);
        assert_eq!(linear.prior(), ["x0 ~ N(0, 2^2)", "sigma ~ half-Cauchy(5)"]);
        let known =
            Regression::new(RegressionKind::Linear { noise_sd: Some(0.5) }, table(8, vec![0.5; 9]), &[2.0]).unwrap();
        assert_eq!(known.prior(), ["8 coefficients, x0 to x7, ~ N(0, 2^2)", "sigma = 0.5, known"]);
        let poisson = table(1, vec![3.0, 0.0]).with_weights(vec![2.0, 1.0]).unwrap().with_offset(vec![0.1, 0.2]);
        let poisson = Regression::new(RegressionKind::Poisson, poisson.unwrap(), &[1.0]).unwrap();
        let Dataset::Memory(table) = poisson.data() else { panic!("the table is in memory") };
        assert_eq!((table.outcome(), table.weights().unwrap()), (&[3.0, 0.0][..], &[2.0, 1.0][..]));
        assert_eq!(table.offset().unwrap(), [0.1, 0.2]);
        for model in [&softmax, &linear, &known, &poisson] {
            assert_eq!(model.kind().dim(model.data().features()), model.target().dim());
        }
    }

    #[test]
    fn a_sample_counts_for_all_rows() {
        let whole = table(2, (0..100).map(|i| f64::from(i % 2)).collect()).with_weights(vec![0.5; 100]).unwrap();
        let sample = Regression::new(RegressionKind::Logistic, whole, &[1.0, 3.0]).unwrap().sample(25).unwrap();
        let Dataset::Memory(rows) = sample.data() else { panic!("the sample is in memory") };
        assert_eq!((rows.rows(), rows.weights().unwrap()), (25, &[2.0; 25][..]));
        assert_eq!(rows.design()[2..4], [(8.0f64 * 0.9).cos(), (9.0f64 * 0.9).cos()]);
        assert_eq!(sample.prior(), ["x0 ~ N(0, 1^2)", "x1 ~ N(0, 3^2)"]);
    }

    #[test]
    fn wrong_outcomes_are_named() {
        let message = |kind, y| Regression::new(kind, table(1, vec![1.0, y]), &[1.0]).unwrap_err().to_string();
        for (kind, y) in [
            (RegressionKind::Logistic, 2.0),
            (RegressionKind::Poisson, -1.0),
            (RegressionKind::Softmax { classes: 3 }, 3.0),
        ] {
            assert!(message(kind, y).contains(&format!("row 1 is {y}, not {}", kind.wanted())), "{}", message(kind, y));
        }
        assert!(message(RegressionKind::Softmax { classes: 1 }, 0.0).contains("at least 2"));
        assert!(Regression::new(RegressionKind::Logistic, table(2, vec![1.0]), &[1.0, 2.0, 3.0]).is_err());
        let logistic = Regression::new(RegressionKind::Logistic, table(1, vec![1.0]), &[1.0]).unwrap();
        assert!(logistic.with_class_names(vec!["a".into()]).is_err());
    }
}
