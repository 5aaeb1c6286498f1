//! Stan programs: from files to a problem, and from points to draws of all variables.

pub(crate) mod store;

use crate::Error;
use crate::problem::name_of;
use crate::settings::Settings;
use natmix::save::checksum::Checksum;
use natmix::target::Target;
use natmix_stan::messages::Message;
use natmix_stan::names::{Variable, variables};
use natmix_stan::{StanModel, compile};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Most numbers that all draws of all variables may be, to be stored.
const MOST_NUMBERS: usize = 100_000_000;

/// A Stan program with its data.
pub struct StanProblem {
    /// The model.
    pub model: StanModel,
    /// Warnings about the program.
    pub warnings: Vec<String>,
    /// The time that compiling took.
    pub compiling: Duration,
    pub(crate) memory: StanMemory,
    /// Where to start.
    init: Option<Vec<f64>>,
}

/// What a saved posterior stores about a Stan program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StanMemory {
    /// Name of the program.
    pub program: String,
    /// Names of all values, as in CmdStan's files: parameters, transformed parameters, generated quantities.
    pub names: Vec<String>,
    /// How many of them are parameters.
    pub parameters: usize,
    /// How many of them the report lists.
    pub reported: usize,
    /// How many of them come before the generated quantities.
    pub before_generated: usize,
    /// Checksum of program and data.
    pub checksum: String,
}

/// Draws of the variables of a Stan program.
#[derive(Clone, Debug, PartialEq)]
pub struct StanDraws {
    /// Names of the values, as in CmdStan's files.
    pub names: Vec<String>,
    /// Values, one draw after another.
    pub values: Vec<f64>,
    /// How many values come before the generated quantities.
    pub before_generated: usize,
}

impl StanProblem {
    /// Compiles a program, if need be, and reads its data; `tell` hears what takes long.
    pub fn load(program: &Path, settings: &Settings, tell: &mut dyn FnMut(&str)) -> Result<Self, Error> {
        let read = |path: &Path| fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())));
        let data = settings.fit.data.as_deref().map(read).transpose()?.unwrap_or_default();
        let init = settings.fit.init.as_deref().map(read).transpose()?;
        let file = settings.fit.data.as_deref();
        Self::new(program, &data, init.as_deref(), settings.seed(), tell).map_err(|error| match error {
            Error::Stan(natmix_stan::Error::Data(problem)) => {
                let file = file.map(|file| file.display().to_string());
                Error::Invalid(about_data(file.as_deref(), &name_of(program), &data, &problem))
            }
            error => error,
        })
    }

    /// A program with the texts of JSON documents: data, which may be empty, and where to start.
    pub fn new(
        program: &Path,
        data: &str,
        init: Option<&str>,
        seed: u64,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let bytes = fs::read(program).map_err(Error::io(format!("read {}", program.display())))?;
        let compiled = compile::load(program, tell)?;
        let model = StanModel::new(compiled.library, data, seed)?;
        let init = init.map(|init| model.unconstrain(init)).transpose()?;
        let mut checksum = Checksum::default();
        checksum.update(&bytes);
        checksum.update(data.as_bytes());
        let memory = StanMemory {
            program: name_of(program),
            names: model.all_names(),
            parameters: model.parameters(),
            reported: model.parameter_names().len(),
            before_generated: model.before_generated(),
            checksum: checksum.text(),
        };
        let mut warnings = Vec::new();
        if !compiled.remarks.is_empty() {
            warnings.push(format!("stanc says:\n{}", compiled.remarks));
        }
        Ok(Self { model, warnings, compiling: compiled.took, memory, init })
    }

    /// One line for display.
    pub(crate) fn summary(&self) -> String {
        let count = self.memory.parameters;
        format!("the Stan program {} ({count} parameter{})", self.memory.program, if count == 1 { "" } else { "s" })
    }

    /// Mean and standard deviation of the distribution of starts.
    pub(crate) fn start(&self) -> (&[f64], &[f64]) {
        (self.init.as_deref().unwrap_or(&[0.0]), &[1.0])
    }

    /// All variables at points, without generated quantities where these are too many to store.
    pub fn draws(&self, z: &[f64], seed: u64) -> Result<StanDraws, Error> {
        let StanMemory { names, before_generated, .. } = &self.memory;
        let draws = z.len() / self.model.dim();
        let (names, values) = match draws.saturating_mul(names.len()) <= MOST_NUMBERS {
            true => (names.clone(), self.model.draws(z, seed)?),
            false => (names[..*before_generated].to_vec(), self.model.draws_without_generated(z)),
        };
        Ok(StanDraws { names, values, before_generated: *before_generated })
    }

    /// Whether a posterior is that of this program with these data.
    pub fn is_of(&self, memory: &StanMemory) -> bool {
        self.memory.checksum == memory.checksum && self.memory.names == memory.names
    }

    /// Adds the model's own words to the error that it can be evaluated nowhere.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error {
            Error::Engine(natmix::Error::NowhereFinite { points, .. }) => {
                let said = self.take_messages().into_iter().last();
                Error::Invalid(format!(
                    "{} could not be evaluated at any of {points} points ({}): give parameter values that it accepts in --init",
                    self.memory.program,
                    said.unwrap_or_else(|| "its log density was not finite".into())
                ))
            }
            error => error,
        }
    }

    pub(crate) fn take_messages(&self) -> Vec<String> {
        let line = |Message { text, count }: Message| match count {
            1 => text,
            _ => format!("{text} (and {} more like this)", count - 1),
        };
        self.model.take_messages().into_iter().map(line).collect()
    }
}

/// What is wrong with data, in one sentence. Stan says the same of an entry that is missing and of one with wrong dimensions.
fn about_data(file: Option<&str>, program: &str, data: &str, problem: &str) -> String {
    let Some(file) = file else { return format!("{program} needs data, give them with --data: {problem}") };
    let field = |name: &str| {
        let rest = problem.split_once(name)?.1;
        Some(rest.split([';', ' ']).next().unwrap_or(rest).to_owned())
    };
    let given = |name: &str| match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(data) {
        Ok(entries) => entries.contains_key(name),
        // Stan also reads numbers that are not JSON, such as NaN.
        Err(_) => data.contains(&format!("\"{name}\"")),
    };
    match (field("variable name="), field("dims declared="), field("dims found=")) {
        (Some(name), ..) if !given(&name) => format!("{file} has no entry `{name}`, which {program} needs: {problem}"),
        (Some(name), Some(declared), Some(found)) => {
            format!("{file}: `{name}` has dimensions {found}, but {program} declares {declared}: {problem}")
        }
        _ => format!("{file} does not fit {program}: {problem}"),
    }
}

impl StanDraws {
    /// The variables with their shapes, and whether each is a generated quantity.
    pub fn variables(&self) -> impl Iterator<Item = (Variable, bool)> {
        let before = self.before_generated;
        variables(&self.names).into_iter().map(move |variable| {
            let generated = variable.columns.iter().all(|column| *column >= before);
            (variable, generated)
        })
    }
}
