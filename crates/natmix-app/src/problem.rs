//! What is fitted: an analytic density, a regression, a network or a Stan program with its data, or an external function. Read and
//! checked before anything is written.

use crate::coefficients;
use crate::effects::{self, TableEffects};
use crate::memory;
use crate::networks::data::NetworkData;
use crate::networks::engine;
use crate::saved::{ExternalMemory, SavedModel};
use crate::settings::{ModelKind, Settings};
use crate::shared::{self, agree};
use crate::stan::StanProblem;
use crate::table;
use crate::{Error, networks::data::NetworkMemory};
use natmix::config::About;
use natmix::target::Target;
use natmix_models::densities::Spec;
use natmix_models::ranks::Ranks;
use natmix_models::study::StudyError;
use natmix_models::table::{MissingRows, TableFile};
use natmix_models::{Dataset, DesignOptions, EncodedRows, Encoding, Formula, Observations, OutcomeKind, Study, Table};
use natmix_nets::Mlp;
use natmix_report::Coefficients;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What is fitted, with all that is known about it.
pub enum Problem {
    /// An analytic density.
    Density(AnalyticDensity),
    /// A regression.
    Regression(Box<TableRegression>),
    /// A regression with varying effects, priors by name or a further family.
    Effects(Box<TableEffects>),
    /// A network.
    Network(Box<TableNetwork>),
    /// A Stan program.
    Stan(Box<StanProblem>),
    /// An external function, such as one in Python.
    External(ExternalFunction),
}

/// An analytic density.
pub struct AnalyticDensity {
    target: Box<dyn Target + Send>,
    /// Its description, as given in the file.
    spec: serde_json::Value,
    /// Mean and standard deviation of the distribution of starts.
    init: (Vec<f64>, Vec<f64>),
    summary: String,
}

/// A regression with its data.
pub struct TableRegression {
    /// The table and its regression; a target whose parameters are on the user's own scale.
    pub study: Study,
    /// Rows to score predictions on.
    pub test: Option<Dataset>,
    summary: String,
}

/// A network with its data.
pub struct TableNetwork {
    /// The rows.
    pub data: NetworkData,
    /// As a target of the engine, in double precision: this takes memory, so it is made only where needed.
    pub target: Option<Mlp>,
    /// The processes that share its training, if there are several.
    pub ranks: Option<Arc<Ranks>>,
}

/// An external function.
pub struct ExternalFunction {
    /// As a target of the engine.
    pub target: Box<dyn Target + Send>,
    /// Calls of the function per point that the engine counts: more than one where gradients are numerical.
    pub calls_per_point: u64,
}

impl Problem {
    /// Reads and checks everything that the settings name.
    pub fn load(settings: &Settings) -> Result<Self, Error> {
        Self::load_and_tell(settings, &mut |_| {})
    }

    /// The same; `tell` hears what takes long, such as compiling a program.
    pub fn load_and_tell(settings: &Settings, tell: &mut dyn FnMut(&str)) -> Result<Self, Error> {
        Self::load_with(settings, None, tell)
    }

    /// The same for one of several processes that share the rows of the table: each of them calls this.
    pub fn load_with(
        settings: &Settings,
        ranks: Option<&Arc<Ranks>>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let fit = &settings.fit;
        let Some(model) = fit.model else { return Err(Error::setting("model", "is missing")) };
        if ranks.is_some() && matches!(model, ModelKind::Density | ModelKind::Stan) {
            let problem = "several processes can share regressions and networks, not densities or Stan programs: start one process";
            return Err(Error::Invalid(problem.into()));
        }
        let missing = |setting| Error::setting(setting, format!("is missing: {} needs it", model.name()));
        if model == ModelKind::Density {
            let path = fit.spec.as_deref().ok_or_else(|| missing("spec"))?;
            let text = std::fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))?;
            return Self::density(&text, &format!("in {}", name_of(path)))
                .map_err(Error::because(format!("{} is not a density", path.display())));
        }
        if model == ModelKind::Stan {
            let program = fit.program.as_deref().ok_or_else(|| missing("program"))?;
            return Ok(Self::Stan(Box::new(StanProblem::load(program, settings, tell)?)));
        }
        if let Some((formula, family)) = effects::described(settings)? {
            return Ok(Self::Effects(Box::new(TableEffects::load(settings, &formula, family, ranks)?)));
        }
        let Some(kind) = model.regression() else {
            let data = NetworkData::load(settings)?;
            if let Some(ranks) = ranks {
                agree(ranks, settings, data.columns(), data.in_words())?;
            }
            return Ok(Self::Network(Box::new(TableNetwork { data, target: None, ranks: ranks.cloned() })));
        };
        let path = fit.data.as_deref().ok_or_else(|| missing("data"))?;
        let mut study = if fit.formula.is_some() {
            let mut reading = settings.reading()?;
            let (named, all) = formula_of(settings)?.columns();
            (reading.named, reading.named_only) = (named, all);
            let study = study_by_formula(&Table::read_with(path, &reading)?, settings, kind)?;
            match ranks {
                Some(ranks) => shared::by_rows(study, settings, ranks)?,
                None => study,
            }
        } else if fit.outcome.is_none() {
            return Err(missing("outcome"));
        } else if let Some(ranks) = ranks {
            shared::study(path, settings, ranks, kind)?
        } else {
            study(path, settings, &settings.design(), kind)?
        };
        let encoding = &study.memory.encoding;
        let missing = fit.missing.unwrap_or_default();
        // The other processes do not score predictions.
        let test = fit.test.as_deref().filter(|_| ranks.is_none_or(|ranks| ranks.leads()));
        let test = test.map(|path| test_rows(path, encoding, missing)).transpose()?;
        let test = test.map(|(rows, notes)| {
            study.notes.extend(notes);
            rows
        });
        let summary = describe(&study, Some(&name_of(path)));
        Ok(Self::Regression(Box::new(TableRegression { study, test, summary })))
    }

    /// The density that `text` describes; `place` says where it comes from, or is empty.
    pub fn density(text: &str, place: &str) -> Result<Self, Error> {
        let spec = Spec::from_json(text)?;
        let target = spec.target()?;
        let dim = target.dim();
        let summary = match place {
            "" => format!("a density of dimension {dim}"),
            place => format!("the density {place} (dimension {dim})"),
        };
        let init = (spec.init.mean, spec.init.sd);
        let spec = serde_json::from_str(text).map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(Self::Density(AnalyticDensity { target, spec, init, summary }))
    }

    /// A regression on a table in memory.
    pub fn regression(table: Table, settings: &Settings) -> Result<Self, Error> {
        if let Some((formula, family)) = effects::described(settings)? {
            let effects = TableEffects::of_table(table, settings, &formula, family, None)?;
            return Ok(Self::Effects(Box::new(effects)));
        }
        let Some(kind) = settings.fit.model.and_then(ModelKind::regression) else {
            return Err(Error::setting("model", "is not that of a regression"));
        };
        let study = match settings.fit.formula {
            Some(_) => study_by_formula(&table, settings, kind)?,
            None => Study::new(table, &settings.design(), kind, settings.prior_sd(), settings.fit.noise_sd)?,
        };
        let summary = describe(&study, None);
        Ok(Self::Regression(Box::new(TableRegression { study, test: None, summary })))
    }

    /// A network; with a target, the engine can evaluate it.
    pub fn network(data: NetworkData, target: Option<Mlp>) -> Self {
        Self::Network(Box::new(TableNetwork { data, target, ranks: None }))
    }

    /// A network on a table in memory, ready to be evaluated, with rows to test with and validation rows if given.
    pub fn network_of_table(
        table: Table,
        test: Option<Table>,
        validation: Option<Table>,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let data = NetworkData::of_table(table, settings, None)?.hold_out(test, validation)?;
        let target = engine::target(settings, &data)?;
        Ok(Self::network(data, Some(target)))
    }

    /// As a target of the engine.
    pub fn target(&self) -> Result<&dyn Target, Error> {
        match self {
            Self::Density(density) => Ok(&density.target),
            Self::Regression(regression) => Ok(&regression.study),
            Self::Effects(effects) => Ok(&effects.study.model),
            Self::Stan(stan) => Ok(&stan.model),
            Self::External(external) => Ok(&external.target),
            Self::Network(network) => match &network.target {
                Some(target) => Ok(target),
                None => Err(Error::Invalid("this network cannot be evaluated at single points".into())),
            },
        }
    }

    /// The table and its regression, if the problem is a regression.
    pub fn study(&self) -> Option<&Study> {
        match self {
            Self::Regression(regression) => Some(&regression.study),
            _ => None,
        }
    }

    /// Name of the model.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Density(_) => "density",
            Self::Regression(regression) => regression.study.memory.kind.name(),
            Self::Effects(effects) => effects.study.memory.layout.family().name(),
            Self::Network(_) => "mlp",
            Self::Stan(_) => "stan",
            Self::External(_) => "Python function",
        }
    }

    /// One line for display.
    pub fn summary(&self) -> String {
        match self {
            Self::Density(density) => density.summary.clone(),
            Self::Regression(regression) => regression.summary.clone(),
            Self::Effects(effects) => effects.summary.clone(),
            Self::Network(network) => network.data.describe(),
            Self::Stan(stan) => stan.summary(),
            Self::External(_) => "a Python function".into(),
        }
    }

    /// Warnings about the data.
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Regression(regression) => &regression.study.warnings,
            Self::Effects(effects) => &effects.study.warnings,
            Self::Network(network) => &network.data.warnings,
            Self::Stan(stan) => &stan.warnings,
            Self::Density(_) | Self::External(_) => &[],
        }
    }

    /// Notes about the data: how the table was read, and what the levels of the outcome mean.
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Regression(regression) => &regression.study.notes,
            Self::Effects(effects) => &effects.study.notes,
            Self::Network(network) => &network.data.notes,
            Self::Density(_) | Self::External(_) | Self::Stan(_) => &[],
        }
    }

    /// What is known about the table, for the record.
    pub(crate) fn table(&self) -> Option<serde_json::Value> {
        match self {
            Self::Regression(regression) => {
                let study = &regression.study;
                Some(table::summary(&study.memory.encoding, &study.facts, Some(study.memory.kind)))
            }
            Self::Effects(effects) => Some(table::summary_of_effects(&effects.study.memory, &effects.study.facts)),
            Self::Network(network) => {
                network.data.input.encoding().map(|encoding| table::summary(encoding, &network.data.facts, None))
            }
            Self::Density(_) | Self::External(_) | Self::Stan(_) => None,
        }
    }

    /// Which parameters are coefficients and effects of groups, for the record.
    pub(crate) fn coefficients(&self) -> Option<Coefficients> {
        match self {
            Self::Regression(regression) => Some(coefficients::of_study(&regression.study)),
            Self::Effects(effects) => Some(coefficients::of_effects(&effects.study)),
            _ => None,
        }
    }

    /// The time that compiling the model took.
    pub fn compiling(&self) -> Duration {
        match self {
            Self::Stan(stan) => stan.compiling,
            _ => Duration::ZERO,
        }
    }

    /// What a model in another language has said since the last call, such as why it rejects points: one line each.
    pub fn take_messages(&self) -> Vec<String> {
        match self {
            Self::Stan(stan) => stan.take_messages(),
            _ => Vec::new(),
        }
    }

    /// The priors in words, one line each.
    pub fn priors(&self) -> Vec<String> {
        match self {
            Self::Regression(regression) => regression.study.regression.prior().to_vec(),
            Self::Effects(effects) => effects.study.model.priors().iter().map(|prior| format!("{prior:.4}")).collect(),
            Self::Network(_) => vec!["each weight and bias ~ normal(0, 1 / prior precision of its layer)".into()],
            Self::Density(_) | Self::Stan(_) | Self::External(_) => Vec::new(),
        }
    }

    /// Calls of the function per point that the engine counts.
    pub(crate) fn calls_per_point(&self) -> u64 {
        match self {
            Self::External(external) => external.calls_per_point,
            _ => 1,
        }
    }

    /// Properties of the target that the engine's defaults depend on.
    pub fn about(&self) -> Result<About<'_>, Error> {
        let target = self.target()?;
        let init: (&[f64], &[f64]) = match self {
            Self::Density(density) => (&density.init.0, &density.init.1),
            Self::Stan(stan) => stan.start(),
            _ => (&[0.0], &[1.0]),
        };
        let gradient = target.has_gradient();
        // Posteriors of the other regressions are log-concave, or have one mode: one component finds it.
        let one_mode = match self {
            Self::Regression(_) | Self::Network(_) => true,
            Self::Effects(effects) => effects.study.model.is_log_concave(),
            Self::Density(_) | Self::Stan(_) | Self::External(_) => false,
        };
        Ok(About { dim: target.dim(), rows: target.num_rows(), gradient, init, one_mode })
    }

    /// What a saved posterior must store about the model. `points`: components are point estimates of plain networks.
    pub(crate) fn memory(&self, points: bool) -> SavedModel {
        match self {
            Self::Density(density) => SavedModel::Density(density.spec.clone()),
            Self::Regression(regression) => SavedModel::Regression(regression.study.memory.clone()),
            Self::Effects(effects) => SavedModel::Effects(Box::new(effects.study.memory.clone())),
            Self::Network(network) => {
                let (network, input) = (network.data.network.clone(), network.data.input.clone());
                SavedModel::Network(NetworkMemory { network, input, points })
            }
            Self::Stan(stan) => SavedModel::Stan(stan.memory.clone()),
            Self::External(_) => SavedModel::External(ExternalMemory::default()),
        }
    }
}

/// One line about a regression. `file` is the file of its table.
fn describe(study: &Study, file: Option<&str>) -> String {
    let encoding = &study.memory.encoding;
    let (dim, rows) = (encoding.dim(), study.num_rows().unwrap_or(0));
    format!(
        "a {} regression of `{}` on {dim} coefficient{} ({}{rows} rows)",
        study.memory.kind.name(),
        encoding.outcome.as_ref().map_or("", |outcome| &outcome.column),
        if dim == 1 { "" } else { "s" },
        file.map_or_else(String::new, |file| format!("{file}, "))
    )
}

/// Reads a table into memory or, if requested or if memory is short, onto disk.
fn study(path: &Path, settings: &Settings, options: &DesignOptions, kind: OutcomeKind) -> Result<Study, Error> {
    let (prior_sd, noise_sd) = (settings.prior_sd(), settings.fit.noise_sd);
    let reading = settings.reading()?;
    let room = memory::room().unwrap_or(u64::MAX);
    if settings.stream() || memory::may_exceed(path, room) {
        let file = TableFile::open_with(path, &reading)?;
        if settings.stream() || file.encoded_bytes(&file.encoding(options)?.0) > room {
            return Ok(Study::stored(&file, existing_part(settings.out()), options, kind, prior_sd, noise_sd)?);
        }
    }
    Ok(Study::new(Table::read_with(path, &reading)?, options, kind, prior_sd, noise_sd)?)
}

/// The formula of the settings.
fn formula_of(settings: &Settings) -> Result<Formula, Error> {
    Ok(Formula::parse(settings.fit.formula.as_deref().unwrap_or_default()).map_err(StudyError::from)?)
}

/// The regression that the formula of the settings describes.
fn study_by_formula(table: &Table, settings: &Settings, kind: OutcomeKind) -> Result<Study, Error> {
    let (options, standardize) = (settings.formula_options(), settings.standardize());
    let (prior_sd, noise_sd) = (settings.prior_sd(), settings.fit.noise_sd);
    Ok(Study::by_formula(table, &formula_of(settings)?, &options, standardize, kind, prior_sd, noise_sd)?)
}

/// The innermost existing folder of a path: rows are stored on the same disk as the results.
fn existing_part(path: &Path) -> &Path {
    path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

/// Rows to score predictions on, and notes about rows that were dropped.
fn test_rows(path: &Path, encoding: &Encoding, missing: MissingRows) -> Result<(Dataset, Vec<String>), Error> {
    let EncodedRows { dim, x, outcome: y, offset, facts, .. } = encoding.read_with(path, missing)?;
    let notes = facts.notes(None).into_iter().map(|note| format!("{}: {note}", name_of(path))).collect();
    let y = y.ok_or_else(|| {
        let outcome = encoding.outcome.as_ref().map_or("", |outcome| &outcome.column);
        Error::Invalid(format!("{} has no column `{outcome}` to score predictions on", path.display()))
    })?;
    let table = Observations::new(x, dim, y)?;
    let rows = match offset {
        Some(offset) => table.with_offset(offset)?.into(),
        None => table.into(),
    };
    Ok((rows, notes))
}

/// The last part of a path.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
