//! What is fitted: an analytic density, or a regression with its data. Read and checked before anything is written.

use crate::describe;
use crate::memory;
use crate::settings::{ModelKind, Settings};
use anyhow::{Context, Result, bail};
use natmix::choices::About;
use natmix::target::Target;
use natmix_models::densities::Spec;
use natmix_models::table::TableFile;
use natmix_models::{Dataset, DesignOptions, EncodedRows, Encoding, Observations, OutcomeKind, Study, Table};
use std::path::Path;

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

/// A study, with what only the command line knows about it.
pub struct Data {
    /// The table and its regression; a target whose parameters are on the user's own scale.
    pub study: Study,
    /// Rows to score predictions on.
    pub test: Option<Dataset>,
    /// One line for people.
    pub summary: String,
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
        Self::from_spec(&text, &name_of(path)).with_context(|| format!("{} is not a density", path.display()))
    }

    /// The density that `text` describes; `name` says where it is from.
    pub fn from_spec(text: &str, name: &str) -> Result<Self> {
        let spec = Spec::from_json(text)?;
        let target = spec.target()?;
        let summary = format!("the density in {name} (dimension {})", target.dim());
        let init = (spec.init.mean, spec.init.sd);
        Ok(Problem::Density { target, spec: serde_json::from_str(text)?, init, summary })
    }

    fn regression(model: ModelKind, settings: &Settings) -> Result<Self> {
        let path = settings.data.as_deref().with_context(|| format!("{} needs --data FILE", model.name()))?;
        let outcome = settings.outcome.clone().with_context(|| format!("{} needs --outcome COL", model.name()))?;
        let kind = model.regression().with_context(|| format!("{} is no regression", model.name()))?;
        let study = study(path, settings, &settings.design(), kind)?;
        let encoding = &study.memory.encoding;
        let test = settings.test.as_deref().map(|path| test_rows(path, encoding, &outcome)).transpose()?;
        let summary = describe::regression(&study, Some(&name_of(path)));
        Ok(Problem::Regression(Box::new(Data { study, test, summary })))
    }

    /// The target.
    pub fn target(&self) -> &dyn Target {
        match self {
            Problem::Density { target, .. } => target,
            Problem::Regression(data) => &data.study,
        }
    }

    /// Where a start may be drawn from: mean and standard deviation.
    fn init(&self) -> (&[f64], &[f64]) {
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

    /// What the engine's settings must know about it.
    pub fn about(&self) -> About<'_> {
        let (target, init) = (self.target(), self.init());
        About { dim: target.dim(), rows: target.num_rows(), init, ..About::default() }
    }

    /// The data, if there are any.
    pub fn data(&self) -> Option<&Data> {
        match self {
            Problem::Density { .. } => None,
            Problem::Regression(data) => Some(data),
        }
    }
}

/// Reads a table into memory or, if that is asked for or memory is short, onto disk.
fn study(path: &Path, settings: &Settings, options: &DesignOptions, kind: OutcomeKind) -> Result<Study> {
    let (prior_sd, noise_sd) = (settings.prior_sd, settings.noise_sd);
    let room = memory::room().unwrap_or(u64::MAX);
    if settings.stream || memory::may_exceed(path, room) {
        let file = TableFile::open(path, &settings.categorical)?;
        if settings.stream || file.encoded_bytes(&file.encoding(options)?.0) > room {
            return Ok(Study::stored(&file, existing_part(&settings.out), options, kind, prior_sd, noise_sd)?);
        }
    }
    Ok(Study::new(Table::read(path, &settings.categorical)?, options, kind, prior_sd, noise_sd)?)
}

/// The innermost folder of a path that is there: rows go to the disk that the results go to.
fn existing_part(path: &Path) -> &Path {
    path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

/// Rows to score predictions on.
fn test_rows(path: &Path, encoding: &Encoding, outcome: &str) -> Result<Dataset> {
    let EncodedRows { dim, x, outcome: y, offset, .. } = encoding.read(path)?;
    let y = y.with_context(|| format!("{} has no column `{outcome}` to score predictions on", path.display()))?;
    let table = Observations::new(x, dim, y)?;
    Ok(match offset {
        Some(offset) => table.with_offset(offset)?.into(),
        None => table.into(),
    })
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
