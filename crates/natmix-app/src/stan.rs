//! Stan programs: from files to a problem, and from points to draws of all variables.

pub(crate) mod log_lik;
pub(crate) mod store;

use crate::Error;
use crate::problem::name_of;
use crate::settings::Settings;
use natmix::save::checksum::Checksum;
use natmix::target::Target;
use natmix_stan::StanModel;
use natmix_stan::compile::{CODE_NAME, Compiling, StanSource};
use natmix_stan::include::included;
use natmix_stan::messages::Message;
use natmix_stan::names::{Variable, variables};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
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
    /// Names of the dimensions of variables, where they have been given any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dims: BTreeMap<String, Vec<String>>,
    /// Labels along these dimensions.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub coords: Map<String, Value>,
}

/// A program or a library with its data.
#[derive(Clone, Copy, Debug)]
pub struct StanInput<'a> {
    /// The program or library.
    pub source: StanSource<'a>,
    /// The text of a JSON document; may be empty.
    pub data: &'a str,
    /// What the data are called in messages; `None` if there are none.
    pub data_name: Option<&'a str>,
    /// Where to start: the text of a JSON document with a value for every parameter.
    pub init: Option<&'a str>,
    /// Seed of random numbers in transformed data.
    pub seed: u64,
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
        let file = settings.fit.data.as_deref();
        let data = file.map(read).transpose()?.unwrap_or_default();
        let init = settings.fit.init.as_deref().map(read).transpose()?;
        let name = file.map(|file| file.display().to_string());
        let input = StanInput {
            source: StanSource::File(program),
            data: &data,
            data_name: name.as_deref(),
            init: init.as_deref(),
            seed: settings.seed(),
        };
        Self::new(input, &mut Compiling::new(tell))
    }

    /// Compiles a program, if need be, and gives it its data.
    pub fn new(input: StanInput<'_>, compiling: &mut Compiling<'_>) -> Result<Self, Error> {
        let StanInput { source, data, data_name, init, seed } = input;
        let (bytes, program) = match source {
            StanSource::File(file) => {
                (fs::read(file).map_err(Error::io(format!("read {}", file.display())))?, name_of(file))
            }
            StanSource::Code(text) => (text.as_bytes().to_owned(), CODE_NAME.to_owned()),
        };
        let compiled = compiling.load(source)?;
        let model = StanModel::new(compiled.library, data, seed).map_err(|error| match error {
            natmix_stan::Error::Data(problem) => Error::Invalid(about_data(data_name, &program, data, &problem)),
            error => error.into(),
        })?;
        let init = init.map(|init| model.unconstrain(init)).transpose()?;
        let mut checksum = Checksum::default();
        checksum.update(&bytes);
        if let (StanSource::File(file), Ok(text)) = (source, str::from_utf8(&bytes)) {
            let folder = file.parent().unwrap_or(Path::new(""));
            included(text, folder).iter().for_each(|text| checksum.update(text.as_bytes()));
        }
        checksum.update(data.as_bytes());
        let memory = StanMemory {
            program,
            names: model.all_names(),
            parameters: model.parameters(),
            reported: model.parameter_names().len(),
            before_generated: model.before_generated(),
            checksum: checksum.text(),
            dims: BTreeMap::new(),
            coords: Map::new(),
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
        let draws = z.len() / self.model.dim();
        let all = draws.saturating_mul(self.memory.names.len()) <= MOST_NUMBERS;
        let values = if all { self.model.draws(z, seed)? } else { self.model.draws_without_generated(z)? };
        Ok(StanDraws::of_values(&self.memory, values, all))
    }

    /// All variables at points, however many numbers these are.
    pub fn all_draws(&self, z: &[f64], seed: u64) -> Result<StanDraws, Error> {
        Ok(StanDraws::of_values(&self.memory, self.model.draws(z, seed)?, true))
    }

    /// The point around which to start, if one was given.
    pub fn init(&self) -> Option<&[f64]> {
        self.init.as_deref()
    }

    /// Whether a posterior is that of this program with these data.
    pub fn is_of(&self, memory: &StanMemory) -> bool {
        self.memory.checksum == memory.checksum && self.has_variables_of(memory)
    }

    /// Whether a posterior has the variables of this program.
    pub fn has_variables_of(&self, memory: &StanMemory) -> bool {
        self.memory.names == memory.names
    }

    /// Adds the model's own words to the error that it can be evaluated nowhere.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error {
            Error::Engine(natmix::Error::NowhereFinite { points, .. }) => {
                let said = self.take_messages().into_iter().last();
                Error::Nowhere(format!(
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

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))
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
        (Some(name), ..) if problem.contains("int variable contained non-int") => {
            format!("{file}: `{name}` is not whole, or larger than Stan's int, but {program} declares int: {problem}")
        }
        (Some(name), Some(declared), Some(found)) => {
            format!("{file}: `{name}` has dimensions {found}, but {program} declares {declared}: {problem}")
        }
        _ => format!("{file} does not fit {program}: {problem}"),
    }
}

/// A variable, and the group of ArviZ that its draws belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupedVariable {
    /// The variable.
    pub variable: Variable,
    /// `posterior`, or for generated quantities also `log_likelihood` or `posterior_predictive`, by the names that are usual
    /// for these.
    pub group: &'static str,
}

/// The variables with these names, of whose values the first `before_generated` are no generated quantities.
pub fn grouped(names: &[String], before_generated: usize) -> impl Iterator<Item = GroupedVariable> {
    variables(names).into_iter().map(move |variable| {
        let generated = variable.columns.iter().all(|column| *column >= before_generated);
        GroupedVariable { group: group_of(&variable.name, generated), variable }
    })
}

fn group_of(name: &str, generated: bool) -> &'static str {
    match name {
        "log_lik" | "log_likelihood" if generated => "log_likelihood",
        _ if generated && ["_rep", "_pred", "_tilde"].iter().any(|ending| name.ends_with(ending)) => {
            "posterior_predictive"
        }
        _ => "posterior",
    }
}

impl StanDraws {
    /// The variables with their groups.
    pub fn variables(&self) -> impl Iterator<Item = GroupedVariable> {
        grouped(&self.names, self.before_generated)
    }

    /// The values of a variable, draw after draw.
    pub fn values_of(&self, variable: &Variable) -> Vec<f64> {
        let rows = self.values.chunks_exact(self.names.len().max(1));
        rows.flat_map(|row| variable.columns.iter().map(|column| row[*column])).collect()
    }

    /// The draws with these values, as they are stored: with all variables, or without generated quantities.
    pub fn of_values(memory: &StanMemory, values: Vec<f64>, all: bool) -> Self {
        let count = if all { memory.names.len() } else { memory.before_generated };
        Self { names: memory.names[..count].to_vec(), values, before_generated: memory.before_generated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_with_data_are_one_sentence() {
        let missing = "variable does not exist; processing stage=data initialization; variable name=J; base type=int";
        let whole = "int variable contained non-int values; processing stage=data initialization; variable name=J; base type=int";
        let dims = "mismatch in dimension; variable name=y; position=0; dims declared=(8); dims found=(1) (in 'a.stan', line 3)";
        let cases = [
            (
                Some("d.json"),
                r#"{"y": [1]}"#,
                missing,
                "d.json has no entry `J`, which a.stan needs: variable does not",
            ),
            (Some("d.json"), r#"{"y": NaN}"#, missing, "d.json has no entry `J`, which a.stan needs"),
            (
                Some("d.json"),
                r#"{"J": 8.5}"#,
                whole,
                "d.json: `J` is not whole, or larger than Stan's int, but a.stan declares",
            ),
            (Some("d.json"), r#"{"y": [1]}"#, dims, "d.json: `y` has dimensions (1), but a.stan declares (8)"),
            (Some("d.json"), "{", "Error in JSON", "d.json does not fit a.stan: Error in JSON"),
            (None, "", missing, "a.stan needs data, give them with --data: variable"),
        ];
        for (file, data, problem, start) in cases {
            let sentence = about_data(file, "a.stan", data, problem);
            assert!(sentence.starts_with(start) && sentence.ends_with(problem), "{sentence}");
        }
    }

    #[test]
    fn groups_follow_from_names() {
        let names = ["mu_rep", "log_lik.1", "log_lik.2", "y_rep", "z_pred", "log_likelihood", "best"].map(String::from);
        let found: Vec<&str> = grouped(&names, 1).map(|one| one.group).collect();
        let predictive = "posterior_predictive";
        assert_eq!(found, ["posterior", "log_likelihood", predictive, predictive, "log_likelihood", "posterior"]);
        // A parameter of that name is a parameter.
        assert!(grouped(&names, 7).all(|one| one.group == "posterior"));
    }
}
