//! Rows for a network: images from a folder of IDX files, or a table.

use crate::problem::name_of;
use crate::settings::Settings;
use crate::settings::network::{HeldOut, OutcomeLikelihood};
use natmix::Error;
use natmix_models::idx::{ImageFolder, ImageSet};
use natmix_models::study::StudyError;
use natmix_models::table::{MissingRows, TableFacts};
use natmix_models::{Design, DesignOptions, EncodedRows, Encoding, Table};
use natmix_nets::{Examples, Network, NetworkLikelihood};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

/// Hidden layers by default.
const FOR_IMAGES: &[usize] = &[100, 100];
const FOR_TABLES: &[usize] = &[50];

/// How data become inputs of a network; kept with the posterior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkInput {
    /// Images of one size; pixels from 0 to 1, then centred and scaled by the training set's mean and standard
    /// deviation.
    Images {
        /// Rows of pixels.
        height: usize,
        /// Pixels per row.
        width: usize,
        /// Mean of all pixels.
        mean: f64,
        /// Their standard deviation.
        sd: f64,
    },
    /// Columns of a table.
    Table {
        /// How columns are encoded as features.
        encoding: Encoding,
    },
}

/// What a posterior must store to predict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkMemory {
    /// The network.
    pub network: Network,
    /// How data become inputs.
    pub input: NetworkInput,
    /// Whether components are point estimates, as those of plain networks are.
    pub points: bool,
}

/// All data that a network is trained and evaluated on.
#[derive(Clone, Debug)]
pub struct NetworkData {
    /// The network.
    pub network: Network,
    /// How data become inputs.
    pub input: NetworkInput,
    /// Rows to train on.
    pub train: Examples,
    /// Rows to test with.
    pub test: Option<Examples>,
    /// Validation rows, unless they are a share of the rows to train on.
    pub validation: Option<Examples>,
    /// Out-of-distribution rows.
    pub ood: Option<Examples>,
    /// Names of the features.
    pub names: Vec<String>,
    /// One line for display.
    pub summary: String,
    /// Warnings about the data.
    pub warnings: Vec<String>,
    /// What was found while the table was read, in words.
    pub notes: Vec<String>,
    /// The same.
    pub facts: TableFacts,
}

impl NetworkData {
    /// Reads and checks everything that the settings name.
    pub fn load(settings: &Settings) -> Result<Self, StudyError> {
        let Some(path) = settings.fit.data.as_deref() else {
            return refuse("mlp needs --data, a table or a folder of images");
        };
        if path.is_dir() {
            return Self::images(path, settings);
        }
        let table = Table::read_with(path, &settings.reading()?)?;
        let mut data = Self::of_table(table, settings, Some(&name_of(path)))?;
        let missing = settings.fit.missing.unwrap_or_default();
        let mut notes = Vec::new();
        let mut read = |path: &Path, outcome| {
            let (rows, found) = data.input.read(path, outcome, missing)?;
            notes.extend(found.into_iter().map(|note| format!("{}: {note}", name_of(path))));
            Ok::<_, StudyError>(rows)
        };
        let test = settings.fit.test.as_deref().map(|path| read(path, true)).transpose()?;
        let validation = match &settings.network.validation {
            Some(HeldOut::File(path)) => Some(read(path, true)?),
            _ => None,
        };
        let ood = settings.network.ood.as_deref().map(|path| read(path, false)).transpose()?;
        (data.test, data.validation, data.ood) = (test, validation, ood);
        data.notes.extend(notes);
        data.checked()
    }

    /// The columns of its table, the outcome first; names of the pixels for images.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.input.encoding().map_or_else(|| self.names.clone(), Encoding::columns)
    }

    /// What the rows are, in words that are the same for the same rows.
    pub(crate) fn in_words(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for rows in [Some(&self.train), self.test.as_ref(), self.validation.as_ref(), self.ood.as_ref()] {
            rows.iter()
                .flat_map(|rows| rows.x().iter().chain(rows.outcome()))
                .for_each(|x| hasher.write_u32(x.to_bits()));
            hasher.write_u8(0);
        }
        format!("{} rows, {:?}, {:x}", self.train.rows(), self.input, hasher.finish())
    }

    fn images(path: &Path, settings: &Settings) -> Result<Self, StudyError> {
        let folder = ImageFolder::read(path)?;
        let classes = 1 + folder.train.labels.iter().copied().max().unwrap_or(0) as usize;
        if settings.network.likelihood.is_some_and(|likelihood| likelihood != OutcomeLikelihood::Categorical) {
            let problem = "must be categorical: labels of images are classes".into();
            return Err(Error::Config { setting: "likelihood", problem }.into());
        }
        let count = folder.train.pixels.len() as f64;
        let (sum, squares) =
            folder.train.pixels.iter().fold((0_u64, 0_u64), |(sum, squares), p| {
                (sum + u64::from(*p), squares + u64::from(*p) * u64::from(*p))
            });
        let mean = sum as f64 / count;
        let sd = (squares as f64 / count - mean * mean).max(0.0).sqrt();
        let input = NetworkInput::Images {
            height: folder.train.height,
            width: folder.train.width,
            mean: mean / 255.0,
            sd: if sd > 0.0 { sd / 255.0 } else { 1.0 },
        };
        let hidden = settings.network.hidden.as_deref().unwrap_or(FOR_IMAGES);
        let size = folder.train.height * folder.train.width;
        let network = Network::new(
            size,
            hidden,
            settings.network.activation(),
            NetworkLikelihood::Categorical { classes: classes.max(2) },
        )?;
        let train = input.images(&folder.train, true)?;
        // Images have no notes.
        let read = |path: &Path, outcome| Ok::<_, StudyError>(input.read(path, outcome, MissingRows::Error)?.0);
        let test = match (&settings.fit.test, &folder.test) {
            (Some(path), _) => Some(read(path, true)?),
            (None, Some(test)) => Some(input.images(test, true)?),
            (None, None) => None,
        };
        let ood = settings.network.ood.as_deref().map(|path| read(path, false)).transpose()?;
        let validation = match &settings.network.validation {
            Some(HeldOut::File(path)) => Some(read(path, true)?),
            _ => None,
        };
        let names = (0..size).map(|i| format!("p{}_{}", i / folder.train.width, i % folder.train.width)).collect();
        let summary = format!("images in {}, {} to train on", name_of(path), train.rows());
        Self {
            network,
            input,
            train,
            test,
            validation,
            ood,
            names,
            summary,
            warnings: Vec::new(),
            notes: Vec::new(),
            facts: TableFacts::default(),
        }
        .checked()
    }

    /// From a table that is in memory; `file` is where it came from.
    pub fn of_table(table: Table, settings: &Settings, file: Option<&str>) -> Result<Self, StudyError> {
        let Some(outcome) = settings.fit.outcome.clone() else { return refuse("mlp needs --outcome COL with a table") };
        let likelihood = settings.network.likelihood.unwrap_or_else(|| guess(&table, &outcome));
        let options = DesignOptions {
            outcome: Some(outcome.clone()),
            standardize: settings.standardize(),
            standardize_outcome: settings.standardize() && likelihood == OutcomeLikelihood::Gaussian,
            // Units have biases of their own, so the intercept is dropped again below; it allows features to be
            // centred.
            intercept: true,
            ..DesignOptions::default()
        };
        let Design { names, dim, rows, x, outcome: y, encoding, warnings, facts, .. } = Design::new(table, &options)?;
        if dim < 2 {
            let file = file.unwrap_or("the table");
            return refuse(format!("{file} has no column besides `{outcome}`: there is nothing to learn from"));
        }
        let likelihood = match likelihood {
            OutcomeLikelihood::Bernoulli => NetworkLikelihood::Bernoulli,
            OutcomeLikelihood::Gaussian => NetworkLikelihood::Gaussian,
            OutcomeLikelihood::Categorical => NetworkLikelihood::Categorical {
                classes: match encoding.outcome.as_ref().and_then(|o| o.levels.as_ref()) {
                    Some(levels) => levels.len().max(2),
                    None => 2.max(1 + y.iter().copied().fold(0.0, f64::max).min(1e6) as usize),
                },
            },
        };
        let hidden = settings.network.hidden.as_deref().unwrap_or(FOR_TABLES);
        let network = Network::new(dim - 1, hidden, settings.network.activation(), likelihood)?;
        let input = NetworkInput::Table { encoding };
        let file = file.map_or_else(String::new, |file| format!(" in {file}"));
        Self {
            network,
            train: Examples::new(without_intercept(&x, dim), dim - 1, y.iter().map(|y| *y as f32).collect())?,
            input,
            test: None,
            validation: None,
            ood: None,
            names: names[1..].to_vec(),
            summary: format!("`{outcome}`{file}, {rows} rows"),
            warnings,
            notes: facts.notes(Some(&outcome)),
            facts,
        }
        .checked()
    }

    /// Adds rows to test with and validation rows, from tables in memory with the columns of the training table.
    pub fn hold_out(mut self, test: Option<Table>, validation: Option<Table>) -> Result<Self, StudyError> {
        let encode = |table: Table| self.input.encode(table, true);
        (self.test, self.validation) = (test.map(encode).transpose()?, validation.map(encode).transpose()?);
        self.checked()
    }

    /// The rows to train on and the validation rows, if there are any.
    #[allow(clippy::type_complexity)]
    pub fn parts(&self, settings: &Settings) -> Result<(Cow<'_, Examples>, Option<Cow<'_, Examples>>), Error> {
        match (&self.validation, &settings.network.validation) {
            (Some(rows), _) => Ok((Cow::Borrowed(&self.train), Some(Cow::Borrowed(rows)))),
            (None, Some(HeldOut::Share(share))) => {
                let (rest, apart) = self.train.split(*share, settings.seed())?;
                Ok((Cow::Owned(rest), Some(Cow::Owned(apart))))
            }
            (None, _) => Ok((Cow::Borrowed(&self.train), None)),
        }
    }

    /// One line about the network and its data.
    pub fn describe(&self) -> String {
        format!("a network {} on {}", self.network, self.summary)
    }

    fn checked(self) -> Result<Self, StudyError> {
        let misfit = |what: &str, error: Error| Error::InvalidInput(format!("{what} do not fit: {error}"));
        self.train.check(&self.network).map_err(|error| misfit("the data to train on", error))?;
        if let Some(test) = &self.test {
            test.check(&self.network).map_err(|error| misfit("the data to test with", error))?;
        }
        if let Some(validation) = &self.validation {
            validation.check(&self.network).map_err(|error| misfit("the validation rows", error))?;
        }
        Ok(self)
    }
}

impl NetworkInput {
    /// Reads rows to predict, and says what was found in the file. Unless `outcome` is set they need no outcomes, and zeros stand
    /// in for them.
    pub fn read(
        &self,
        path: &Path,
        outcome: bool,
        missing: MissingRows,
    ) -> Result<(Examples, Vec<String>), StudyError> {
        match self {
            NetworkInput::Images { .. } => {
                let folder = ImageFolder::read(path)?;
                Ok((self.images(&folder.test.unwrap_or(folder.train), outcome)?, Vec::new()))
            }
            NetworkInput::Table { encoding } => {
                let rows = encoding.read_with(path, missing)?;
                rows.refuse_extra_columns()?;
                if outcome && rows.outcome.is_none() {
                    return refuse(format!("{} has no outcome to score predictions on", path.display()));
                }
                let notes = rows.facts.notes(None);
                Ok((examples(rows, outcome)?, notes))
            }
        }
    }

    /// Encodes rows of a table in memory. Unless `outcome` is set they need no outcomes, and zeros stand in for them.
    pub fn encode(&self, table: Table, outcome: bool) -> Result<Examples, StudyError> {
        match self {
            NetworkInput::Images { .. } => refuse("the network was trained on images, not on a table"),
            NetworkInput::Table { encoding } => Ok(examples(encoding.encode(table)?, outcome)?),
        }
    }

    fn images(&self, set: &ImageSet, outcome: bool) -> Result<Examples, StudyError> {
        let NetworkInput::Images { height, width, mean, sd } = self else {
            return refuse("the network was not trained on images");
        };
        if (set.height, set.width) != (*height, *width) {
            let (h, w) = (set.height, set.width);
            let file = set.file.display();
            return refuse(format!(
                "{file}: images have {h} x {w} pixels, but the network was trained on {height} x {width}"
            ));
        }
        // Pixels have 256 values: a table saves one division per pixel.
        let values: Vec<f32> = (0..256).map(|p| ((f64::from(p) / 255.0 - mean) / sd) as f32).collect();
        let x = set.pixels.iter().map(|p| values[usize::from(*p)]).collect();
        let y = set.labels.iter().map(|label| if outcome { f32::from(*label) } else { 0.0 }).collect();
        Ok(Examples::new(x, height * width, y)?)
    }

    /// How columns are encoded as features, if the data are a table.
    pub fn encoding(&self) -> Option<&Encoding> {
        match self {
            NetworkInput::Table { encoding } => Some(encoding),
            NetworkInput::Images { .. } => None,
        }
    }

    /// Names of classes, if the outcome has any.
    pub fn levels(&self) -> Option<&[String]> {
        self.encoding()?.outcome.as_ref()?.levels.as_deref()
    }

    /// Centre and scale of a real outcome.
    pub fn outcome_scale(&self) -> (f64, f64) {
        let outcome = self.encoding().and_then(|encoding| encoding.outcome.as_ref());
        outcome.map_or((0.0, 1.0), |outcome| (outcome.centre, outcome.scale))
    }
}

/// Encoded rows as a network takes them; zeros stand in for outcomes that are not needed.
fn examples(rows: EncodedRows, outcome: bool) -> Result<Examples, Error> {
    let y = match rows.outcome {
        Some(y) if outcome => y.iter().map(|y| *y as f32).collect(),
        _ => vec![0.0; rows.rows],
    };
    Examples::new(without_intercept(&rows.x, rows.dim), rows.dim - 1, y)
}

fn refuse<T>(problem: impl Into<String>) -> Result<T, StudyError> {
    Err(Error::InvalidInput(problem.into()).into())
}

/// The features without the column of ones that comes first.
fn without_intercept(x: &[f64], dim: usize) -> Vec<f32> {
    x.chunks_exact(dim).flat_map(|row| row[1..].iter().map(|x| *x as f32)).collect()
}

/// Chooses by the outcome: named levels are classes, 0 and 1 are binary, anything else is a number.
fn guess(table: &Table, outcome: &str) -> OutcomeLikelihood {
    let Some(column) = table.names.iter().position(|name| name == outcome) else { return OutcomeLikelihood::Gaussian };
    let values = || table.values.iter().skip(column).step_by(table.names.len().max(1));
    if table.levels.contains_key(&column) {
        OutcomeLikelihood::Categorical
    } else if values().all(|y| *y == 0.0 || *y == 1.0) {
        OutcomeLikelihood::Bernoulli
    } else {
        OutcomeLikelihood::Gaussian
    }
}
