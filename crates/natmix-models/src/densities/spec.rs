//! Analytic targets described by a JSON file.
//!
//! Every file has `kind`, `dim` and `init {mean, sd}` (each a number or a list: the distribution of starting points), may have
//! `log_evidence`, and has further fields that depend on the kind:
//!
//! | kind | fields |
//! |---|---|
//! | `gaussian_mixture` | `weights`, `means`, and `covariances` or, for diagonal ones, `variances` |
//! | `student_mixture` | `df`, `weights`, `locations`, `scales` (matrices) |
//! | `funnel` | `sd0` |
//! | `double_banana` | `observed`, `noise_variance` |
//! | `planar_robot` | `prior_sd` (a number or a list), `goal_sd`, `goals`, `combine` (`"max"`, may be left out) |
//! | `beta_binomial` | `at_risk`, `cases` (lists); over the logit of the mean rate and the log of the concentration |
//! | `phase` | `frequencies`, `cos`, `sin`, `noise_variance`, `bounds {tec, const}` (two numbers each); reported as `tec`, `const` |
//!
//! An unknown field is an error, so that misspelt names are noticed.
//!
//! ```
//! use natmix_models::densities::Spec;
//!
//! let json = r#"{"kind": "funnel", "dim": 3, "sd0": 3.0, "log_evidence": 0.0, "init": {"mean": 0, "sd": 1}}"#;
//! let spec = Spec::from_json(json).unwrap();
//! assert_eq!(spec.init.sd, [1.0; 3]);
//! assert_eq!(spec.target().unwrap().dim(), 3);
//! ```

use super::{BetaBinomial, DoubleBanana, Funnel, PhaseDensity, PlanarRobot, StudentMixture, check};
use natmix::Error;
use natmix::family::{Covariances, Mixture};
use natmix::target::Target;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Largest dimension: a mistyped `dim` must not exhaust the memory.
const MAX_DIM: usize = 100_000;

/// Distribution of starting points: normal with independent coordinates.
#[derive(Clone, Debug, PartialEq)]
pub struct Init {
    /// Mean of each coordinate.
    pub mean: Vec<f64>,
    /// Standard deviation of each coordinate.
    pub sd: Vec<f64>,
}

/// One number for all coordinates, or one per coordinate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number or a list of numbers")]
pub enum Coordinates {
    /// The same for all.
    Same(f64),
    /// One per coordinate.
    Each(Vec<f64>),
}

impl Coordinates {
    fn expand(&self, dim: usize) -> Vec<f64> {
        match self {
            Coordinates::Same(x) => vec![*x; dim],
            Coordinates::Each(list) => list.clone(),
        }
    }
}

/// How the goals of a planar robot combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// The best goal counts.
    #[default]
    Max,
}

/// Bounds of the uniform priors of a phase density.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseBounds {
    /// Electron content.
    pub tec: [f64; 2],
    /// Offset of the phase.
    #[serde(rename = "const")]
    pub offset: [f64; 2],
}

/// The kind of density, with its numbers as given in the file; [`Spec::target`] checks them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DensityKind {
    /// A mixture of Gaussians.
    GaussianMixture {
        /// Weights of the components, with sum one.
        weights: Vec<f64>,
        /// Means of the components.
        means: Vec<Vec<f64>>,
        /// Covariance matrices of the components, unless `variances` are given.
        covariances: Option<Vec<Vec<Vec<f64>>>>,
        /// Diagonals of diagonal covariance matrices, unless `covariances` are given.
        variances: Option<Vec<Vec<f64>>>,
    },
    /// A [`StudentMixture`].
    StudentMixture {
        /// Degrees of freedom.
        df: f64,
        /// Weights of the components, with sum one.
        weights: Vec<f64>,
        /// Locations of the components.
        locations: Vec<Vec<f64>>,
        /// Scale matrices of the components.
        scales: Vec<Vec<Vec<f64>>>,
    },
    /// A [`Funnel`].
    Funnel {
        /// Standard deviation of the first coordinate.
        sd0: f64,
    },
    /// A [`DoubleBanana`].
    DoubleBanana {
        /// The observed value.
        observed: f64,
        /// Variance of its noise.
        noise_variance: f64,
    },
    /// A [`PlanarRobot`].
    PlanarRobot {
        /// Standard deviation of the joint angles.
        prior_sd: Coordinates,
        /// Accuracy at the goal.
        goal_sd: f64,
        /// Where the goals are.
        goals: Vec<[f64; 2]>,
        /// How they combine.
        #[serde(default)]
        combine: Combine,
    },
    /// A [`BetaBinomial`].
    BetaBinomial {
        /// Numbers at risk, group by group.
        at_risk: Vec<f64>,
        /// Cases among them.
        cases: Vec<f64>,
    },
    /// A [`PhaseDensity`], over unbounded coordinates.
    Phase {
        /// Frequencies in hertz.
        frequencies: Vec<f64>,
        /// Observed cosine of the phase at each frequency.
        cos: Vec<f64>,
        /// Observed sine.
        sin: Vec<f64>,
        /// Variance of the noise on both.
        noise_variance: f64,
        /// Bounds of the parameters.
        bounds: PhaseBounds,
    },
}

/// A target described by a file. See the [module page](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Distribution of starting points; its length is the dimension.
    pub init: Init,
    /// The logarithm of the density's integral, where it is known.
    pub log_evidence: Option<f64>,
    /// The density.
    pub kind: DensityKind,
}

impl Spec {
    /// Reads a target's description and checks the fields that all kinds share.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct InitFields {
            mean: Coordinates,
            sd: Coordinates,
        }

        let mut fields: Map<String, Value> = serde_json::from_str(json)
            .map_err(|error| Error::InvalidInput(format!("target spec is not a JSON object: {error}")))?;
        let dim: usize = required(&mut fields, "dim")?;
        if check::dim(dim)? > MAX_DIM {
            return check::invalid(format!("dim is {dim}, expected at most {MAX_DIM}"));
        }
        let init: InitFields = required(&mut fields, "init")?;
        let init = Init { mean: init.mean.expand(dim), sd: init.sd.expand(dim) };
        check::finite("init.mean", &init.mean, dim)?;
        check::positive("init.sd", &init.sd, dim)?;
        let log_evidence = optional(&mut fields, "log_evidence")?;
        let kind = serde_json::from_value(Value::Object(fields))
            .map_err(|error| Error::InvalidInput(format!("target spec: {error}")))?;
        Ok(Self { init, log_evidence, kind })
    }

    /// Dimension of the target.
    pub fn dim(&self) -> usize {
        self.init.mean.len()
    }

    /// Builds the target, checking all of its numbers.
    pub fn target(&self) -> Result<Box<dyn Target + Send>, Error> {
        let dim = self.dim();
        let target: Box<dyn Target + Send> = match &self.kind {
            DensityKind::GaussianMixture { weights, means, covariances, variances } => {
                Box::new(gaussian_mixture(dim, weights, means, covariances.as_deref(), variances.as_deref())?)
            }
            DensityKind::StudentMixture { df, weights, locations, scales } => {
                Box::new(StudentMixture::new(*df, weights, locations, scales)?)
            }
            DensityKind::Funnel { sd0 } => Box::new(Funnel::new(dim, *sd0)?),
            DensityKind::DoubleBanana { observed, noise_variance } => {
                Box::new(DoubleBanana::new(*observed, *noise_variance)?)
            }
            DensityKind::PlanarRobot { prior_sd, goal_sd, goals, combine: Combine::Max } => {
                Box::new(PlanarRobot::new(&prior_sd.expand(dim), *goal_sd, goals)?)
            }
            DensityKind::BetaBinomial { at_risk, cases } => Box::new(BetaBinomial::new(at_risk, cases)?),
            DensityKind::Phase { frequencies, cos, sin, noise_variance, bounds } => {
                let phase = PhaseDensity::new(frequencies, cos, sin, *noise_variance, bounds.tec, bounds.offset)?;
                Box::new(phase.unconstrained()?)
            }
        };
        if target.dim() != dim {
            return check::invalid(format!("dim is {dim}, but the target has dimension {}", target.dim()));
        }
        Ok(target)
    }
}

fn gaussian_mixture(
    dim: usize,
    weights: &[f64],
    means: &[Vec<f64>],
    covariances: Option<&[Vec<Vec<f64>>]>,
    variances: Option<&[Vec<f64>]>,
) -> Result<Mixture, Error> {
    let weights = check::weights(weights)?;
    check::count("means", means.len(), weights.len())?;
    for (k, mean) in means.iter().enumerate() {
        check::finite(&format!("means[{k}]"), mean, dim)?;
    }
    match (covariances, variances) {
        (Some(covariances), None) => {
            check::count("covariances", covariances.len(), weights.len())?;
            for (k, covariance) in covariances.iter().enumerate() {
                check::cholesky(&format!("covariances[{k}]"), covariance, dim)?;
            }
            Mixture::from_moments(&weights, means, Covariances::Full(covariances))
        }
        (None, Some(variances)) => {
            check::count("variances", variances.len(), weights.len())?;
            for (k, variance) in variances.iter().enumerate() {
                check::positive(&format!("variances[{k}]"), variance, dim)?;
            }
            Mixture::from_moments(&weights, means, Covariances::Diag(variances))
        }
        _ => check::invalid("a gaussian_mixture has either covariances or variances".into()),
    }
}

fn required<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<T, Error> {
    optional(fields, name)?.ok_or_else(|| Error::InvalidInput(format!("target spec has no field \"{name}\"")))
}

fn optional<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<T>, Error> {
    let value = fields.remove(name).unwrap_or(Value::Null);
    serde_json::from_value(value)
        .map_err(|error| Error::InvalidInput(format!("target spec, field \"{name}\": {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(json: &str) -> Result<Box<dyn Target + Send>, Error> {
        Spec::from_json(json)?.target()
    }

    #[test]
    fn every_kind_is_read() {
        let init = r#""init": {"mean": 0, "sd": [1, 2]}"#;
        for fields in [
            r#""kind": "gaussian_mixture", "weights": [1], "means": [[0, 1]], "covariances": [[[2, 1], [1, 2]]]"#,
            r#""kind": "gaussian_mixture", "weights": [1], "means": [[0, 1]], "variances": [[2, 1]]"#,
            r#""kind": "student_mixture", "df": 2, "weights": [1], "locations": [[0, 1]], "scales": [[[2, 1], [1, 2]]]"#,
            r#""kind": "funnel", "sd0": 3"#,
            r#""kind": "beta_binomial", "at_risk": [10, 20], "cases": [0, 3]"#,
            r#""kind": "double_banana", "observed": 3.4, "noise_variance": 0.09, "log_evidence": -1.5"#,
            r#""kind": "planar_robot", "prior_sd": 0.2, "goal_sd": 0.01, "goals": [[7, 0]], "combine": "max""#,
            r#""kind": "planar_robot", "prior_sd": [1, 0.2], "goal_sd": 0.01, "goals": [[7, 0], [0, 7]]"#,
            r#""kind": "phase", "frequencies": [1e8], "cos": [1], "sin": [0], "noise_variance": 0.5,
                "bounds": {"tec": [-1, 1], "const": [-3, 3]}"#,
        ] {
            let spec = Spec::from_json(&format!("{{\"dim\": 2, {init}, {fields}}}")).unwrap();
            assert_eq!(spec.init, Init { mean: vec![0.0; 2], sd: vec![1.0, 2.0] });
            assert_eq!(spec.log_evidence, matches!(spec.kind, DensityKind::DoubleBanana { .. }).then_some(-1.5));
            assert_eq!(spec.target().unwrap().dim(), 2);
        }
    }

    #[test]
    fn bad_specs_say_what_is_wrong() {
        let with = |fields: &str| format!("{{\"dim\": 2, \"init\": {{\"mean\": 0, \"sd\": 1}}, {fields}}}");
        let gaussian = |weights: &str, means: &str, matrices: &str| {
            with(&format!(r#""kind": "gaussian_mixture", "weights": {weights}, "means": {means}, {matrices}"#))
        };
        let eye = r#""covariances": [[[1, 0], [0, 1]]]"#;
        let funnel = r#""kind": "funnel", "sd0": 1"#;
        for (json, expected) in [
            ("[1]".into(), "not a JSON object"),
            (r#"{"kind": "funnel"}"#.into(), "no field \"dim\""),
            (format!(r#"{{"dim": 2, {funnel}}}"#), "no field \"init\""),
            (format!(r#"{{"dim": 0, "init": {{"mean": 0, "sd": 1}}, {funnel}}}"#), "dim is 0"),
            (format!(r#"{{"dim": 1e3, "init": {{"mean": 0, "sd": 1}}, {funnel}}}"#), "field \"dim\""),
            (format!(r#"{{"dim": 9999999999, "init": {{"mean": 0, "sd": 1}}, {funnel}}}"#), "at most 100000"),
            (format!(r#"{{"dim": 2, "init": {{"mean": [0], "sd": 1}}, {funnel}}}"#), "found 1, expected 2"),
            (format!(r#"{{"dim": 2, "init": {{"mean": 0, "sd": 0}}, {funnel}}}"#), "init.sd holds 0"),
            (format!(r#"{{"dim": 2, "init": {{"mean": "a", "sd": 0}}, {funnel}}}"#), "a number or a list of numbers"),
            (with(r#""sd0": 1"#), "kind"),
            (with(r#""kind": "banana""#), "banana"),
            (with(r#""kind": "funnel", "sd0": 1, "sd1": 1"#), "sd1"),
            (with(r#""kind": "funnel", "sd0": -1"#), "sd0 holds -1"),
            (gaussian("[0.5, 0.5]", "[[0, 0]]", eye), "means: found 1, expected 2"),
            (gaussian("[1]", "[[0]]", eye), "means[0], length: found 1, expected 2"),
            (gaussian("[2, -1]", "[[0, 0], [1, 1]]", eye), "weights hold -1"),
            (gaussian("[0]", "[[0, 0]]", eye), "weights sum to 0"),
            (gaussian("[1]", "[[0, 0]]", r#""covariances": [[[1, 2], [2, 1]]]"#), "not positive definite"),
            (gaussian("[1]", "[[0, 0]]", r#""covariances": [[[1, 0.5], [0, 1]]]"#), "not symmetric"),
            (gaussian("[1]", "[[0, 0]]", r#""covariances": [[[1, 0]]]"#), "rows: found 1, expected 2"),
            (gaussian("[1]", "[[0, 0]]", r#""covariances": []"#), "covariances: found 0, expected 1"),
            (gaussian("[1]", "[[0, 0]]", r#""variances": [[1, 0]]"#), "variances[0] holds 0"),
            (gaussian("[1]", "[[0, 0]]", &format!("{eye}, \"variances\": [[1, 1]]")), "either"),
            (gaussian("[1]", "[[0, 0]]", r#""variances": null"#), "either"),
            (
                with(r#""kind": "student_mixture", "df": 2, "weights": [1], "locations": [[0]], "scales": [[[1]]]"#),
                "dim is 2, but the target has dimension 1",
            ),
            (
                with(r#""kind": "planar_robot", "prior_sd": 1, "goal_sd": 1, "goals": [[0, 0]], "combine": "sum""#),
                "sum",
            ),
            (with(r#""kind": "planar_robot", "prior_sd": [1], "goal_sd": 1, "goals": [[0, 0]]"#), "dimension 1"),
            (
                with(
                    r#""kind": "phase", "frequencies": [1e8], "cos": [1], "sin": [0, 1], "noise_variance": 0.5,
                        "bounds": {"tec": [-1, 1], "const": [-3, 3]}"#,
                ),
                "sin, length: found 2, expected 1",
            ),
            (
                with(
                    r#""kind": "phase", "frequencies": [1e8], "cos": [1], "sin": [0], "noise_variance": 0.5,
                        "bounds": {"tec": [1, -1], "const": [-3, 3]}"#,
                ),
                "bounds of tec",
            ),
        ] {
            let message = target(&json).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(expected), "{json}: got \"{message}\", expected \"{expected}\"");
        }
    }
}
