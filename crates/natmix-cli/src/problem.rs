//! What is fitted: an analytic density, or a regression with its data. Read and checked before anything is written.

use crate::args::ModelKind;
use crate::settings::Settings;
use anyhow::{Context, Result, bail};
use natmix::Scratch;
use natmix::target::{Curvature, EvalOut, Points, Rows, Shape, Target, TargetError};
use natmix::targets::Spec;
use natmix_models::{Design, DesignOptions, EncodedRows, Encoding, Kind, Observations, OutcomeKind, Regression, Table};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Times the prior's standard deviation that the intercept gets.
const INTERCEPT_PRIOR: f64 = 10.0;

/// A target with all that is known about it.
pub enum Problem {
    /// An analytic target.
    Density {
        /// The target.
        target: Box<dyn Target + Send>,
        /// Its description, as the file gives it.
        spec: serde_json::Value,
        /// Where a start may be drawn from.
        init: (Vec<f64>, Vec<f64>),
        /// One line for people.
        summary: String,
    },
    /// A regression.
    Regression(Box<Data>),
}

/// A regression with its data; a target whose parameters are on the user's own scale.
pub struct Data {
    /// The model.
    pub regression: Regression,
    /// How columns became features, to be remembered for predictions.
    pub memory: Memory,
    /// Rows to score predictions on.
    pub test: Option<EncodedRows>,
    /// What was odd about the data, but no error.
    pub warnings: Vec<String>,
    /// One line for people.
    pub summary: String,
}

/// What a posterior must remember to predict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Which regression.
    pub kind: Kind,
    /// How columns became features.
    pub encoding: Encoding,
}

impl Memory {
    /// Writes coefficients on the user's own scale.
    pub fn to_user_scale(&self, z: &[f64], out: &mut [f64]) {
        let noise = usize::from(self.kind == Kind::Linear { noise_sd: None });
        let coefficients = z.len() - noise;
        self.encoding.to_user_scale(&z[..coefficients], &mut out[..coefficients]);
        if noise == 1 {
            let scale = self.encoding.outcome.as_ref().map_or(1.0, |outcome| outcome.scale);
            out[coefficients] = z[coefficients].exp() * scale;
        }
    }
}

impl Problem {
    /// Reads and checks everything that the settings name.
    pub fn load(settings: &Settings) -> Result<Self> {
        match settings.model {
            Some(ModelKind::Density) => Self::density(settings),
            Some(model) => Self::regression(model, settings),
            None => bail!("no model"),
        }
    }

    fn density(settings: &Settings) -> Result<Self> {
        let path = settings.spec.as_deref().context("a density needs --spec FILE.json")?;
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let spec = Spec::from_json(&text).with_context(|| format!("{} is not a density", path.display()))?;
        let target = spec.target().with_context(|| format!("{} is not a density", path.display()))?;
        let summary = format!("the density in {} (dimension {})", name_of(path), target.dim());
        let init = (spec.init.mean, spec.init.sd);
        Ok(Problem::Density { target, spec: serde_json::from_str(&text)?, init, summary })
    }

    fn regression(model: ModelKind, settings: &Settings) -> Result<Self> {
        let path = settings.data.as_deref().with_context(|| format!("{} needs --data FILE", model.name()))?;
        let outcome = settings.outcome.clone().with_context(|| format!("{} needs --outcome COL", model.name()))?;
        let table = Table::read(path, &settings.categorical)?;
        let options = DesignOptions {
            outcome: Some(outcome.clone()),
            offset: settings.offset.clone(),
            exposure: settings.exposure.clone(),
            weights: settings.weights.clone(),
            standardize: settings.standardize,
            standardize_outcome: settings.standardize && model == ModelKind::Linear && settings.noise_sd.is_none(),
            intercept: settings.intercept,
        };
        let design = Design::new(table, &options)?;
        let classes = design.check_outcome(match model {
            ModelKind::Logistic => OutcomeKind::Logistic,
            ModelKind::Linear => OutcomeKind::Linear,
            ModelKind::Poisson => OutcomeKind::Poisson,
            ModelKind::Softmax => OutcomeKind::Softmax,
            ModelKind::Density => bail!("a density has no outcome"),
        })?;
        let kind = match model {
            ModelKind::Logistic => Kind::Logistic,
            ModelKind::Poisson => Kind::Poisson,
            ModelKind::Softmax => Kind::Softmax { classes },
            _ => Kind::Linear { noise_sd: settings.noise_sd },
        };
        let Design { names, dim, rows, x, outcome: y, offset, weights, encoding, warnings, .. } = design;
        let prior_sd: Vec<f64> = (0..dim)
            .map(|j| settings.prior_sd * if j == 0 && encoding.intercept { INTERCEPT_PRIOR } else { 1.0 })
            .collect();
        let mut observations = Observations::new(x, dim, y)?.with_names(names)?;
        if let Some(offset) = offset {
            observations = observations.with_offset(offset)?;
        }
        if let Some(weights) = weights {
            observations = observations.with_weights(weights)?;
        }
        let mut regression = Regression::new(kind, observations, &prior_sd)?;
        let levels = encoding.outcome.as_ref().and_then(|outcome| outcome.levels.clone());
        if let (Kind::Softmax { .. }, Some(levels)) = (kind, levels) {
            regression = regression.with_class_names(levels)?;
        }
        let test = settings.test.as_deref().map(|path| encoding.read(path)).transpose()?;
        if let Some(rows) = &test
            && rows.outcome.is_none()
        {
            bail!(
                "{} has no column `{outcome}` to score predictions on",
                settings.test.as_deref().map_or("", |p| p.to_str().unwrap_or(""))
            );
        }
        let summary = format!(
            "a {} regression of `{outcome}` on {dim} coefficient{} ({}, {rows} rows)",
            kind.name(),
            if dim == 1 { "" } else { "s" },
            name_of(path)
        );
        let memory = Memory { kind, encoding };
        Ok(Problem::Regression(Box::new(Data { regression, memory, test, warnings, summary })))
    }

    /// The target.
    pub fn target(&self) -> &dyn Target {
        match self {
            Problem::Density { target, .. } => target,
            Problem::Regression(data) => &**data,
        }
    }

    /// Where a start may be drawn from: mean and standard deviation.
    pub fn init(&self) -> (&[f64], &[f64]) {
        match self {
            Problem::Density { init, .. } => (&init.0, &init.1),
            Problem::Regression(_) => (&[0.0], &[1.0]),
        }
    }

    /// The description of a density, as its file gives it.
    pub fn spec(&self) -> Option<&serde_json::Value> {
        match self {
            Problem::Density { spec, .. } => Some(spec),
            Problem::Regression(_) => None,
        }
    }

    /// One line for people.
    pub fn summary(&self) -> &str {
        match self {
            Problem::Density { summary, .. } => summary,
            Problem::Regression(data) => &data.summary,
        }
    }

    /// The data, if there are any.
    pub fn data(&self) -> Option<&Data> {
        match self {
            Problem::Density { .. } => None,
            Problem::Regression(data) => Some(data),
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

impl Target for Data {
    fn dim(&self) -> usize {
        self.regression.target().dim()
    }
    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.regression.target().eval(rows, z, out, scratch)
    }
    fn is_log_concave(&self) -> bool {
        self.regression.target().is_log_concave()
    }
    fn curvatures(&self) -> &[(Curvature, Shape)] {
        self.regression.target().curvatures()
    }
    fn num_rows(&self) -> Option<usize> {
        self.regression.target().num_rows()
    }
    fn parameter_names(&self) -> Vec<String> {
        self.regression.target().parameter_names()
    }
    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.memory.to_user_scale(z, parameters);
    }
}
