//! Predictions of a saved posterior for new rows, in the outcome's own units.

use crate::Error;
use crate::networks::data::NetworkMemory;
use crate::saved::{SavedModel, SavedPosterior};
use natmix_models::effects::{EffectsDraws, EffectsRows};
use natmix_models::table::MissingRows;
use natmix_models::{CoefficientDraws, EncodedRows, Inputs, Predictions, RegressionMemory, Table, predict};
use natmix_nets::Examples;
use natmix_nets::predict::{self as nets, Averaging, NetworkPredictions};
use std::path::Path;

/// Rows that a network predicts at once.
const ROWS: usize = 1 << 15;

/// Rows to predict, encoded for the model.
#[derive(Debug)]
pub enum NewRows {
    /// For a regression.
    Regression(Box<EncodedRows>),
    /// For a regression with varying effects.
    Effects(Box<EffectsRows>),
    /// For a network.
    Network(Examples),
}

/// Predictions for rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// In the outcome's own units.
    pub predictions: Predictions,
    /// Entropy of a single draw's prediction, averaged over draws; only for networks that predict classes.
    pub expected_entropy: Vec<f64>,
    /// Mutual information of class and weights; only for networks that predict classes.
    pub mutual_information: Vec<f64>,
    /// Names of the classes, if they have any.
    levels: Option<Vec<String>>,
}

impl SavedPosterior {
    /// Reads rows to predict from a file, and says what was found in it.
    pub fn read_rows(&self, path: &Path) -> Result<(NewRows, Vec<String>), Error> {
        match &self.model {
            SavedModel::Regression(memory) => {
                let rows = memory.encoding.read(path)?;
                // A formula names its columns: tables have others.
                if memory.encoding.formula.is_none() {
                    rows.refuse_extra_columns()?;
                }
                let notes = rows.facts.notes(None);
                Ok((NewRows::Regression(Box::new(rows)), notes))
            }
            SavedModel::Effects(memory) => {
                let (rows, facts) = memory.read(path, MissingRows::Error)?;
                let mut notes = facts.notes(None);
                match rows.new_groups() {
                    0 => {}
                    1 => {
                        notes.push("one row belongs to a group that the fit has not seen: its effects are drawn".into())
                    }
                    new => notes.push(format!(
                        "{new} times a row belongs to a group that the fit has not seen: such effects are drawn"
                    )),
                }
                Ok((NewRows::Effects(Box::new(rows)), notes))
            }
            SavedModel::Network(memory) => {
                let (rows, notes) = memory.input.read(path, false, MissingRows::Error)?;
                Ok((NewRows::Network(rows), notes))
            }
            model => Err(nothing_to_predict(model)),
        }
    }

    /// Encodes rows of a table in memory for prediction.
    pub fn encode_rows(&self, table: Table) -> Result<NewRows, Error> {
        match &self.model {
            SavedModel::Regression(memory) => Ok(NewRows::Regression(Box::new(memory.encoding.encode(table)?))),
            SavedModel::Effects(memory) => Ok(NewRows::Effects(Box::new(memory.encode(&table)?))),
            SavedModel::Network(memory) => Ok(NewRows::Network(memory.input.encode(table, false)?)),
            model => Err(nothing_to_predict(model)),
        }
    }

    /// Predictions averaged over `draws` draws of the posterior or, with `means_only`, over the means of a network's
    /// components.
    pub fn predict(&self, rows: &NewRows, draws: usize, seed: u64, means_only: bool) -> Result<Predicted, Error> {
        match (&self.model, rows) {
            (SavedModel::Regression(_) | SavedModel::Effects(_), _) if means_only => {
                Err(Error::Invalid("--means-only applies to networks only".into()))
            }
            (SavedModel::Regression(memory), NewRows::Regression(rows)) => {
                of_regression(memory, &self.sample(draws, seed), rows)
            }
            (SavedModel::Effects(memory), NewRows::Effects(rows)) => {
                let draws = EffectsDraws::new(memory.layout.clone(), &self.sample(draws, seed), seed)?;
                let all: Vec<usize> = (0..rows.rows).collect();
                Ok(Predicted {
                    predictions: draws.predict(rows, &all, true)?,
                    expected_entropy: Vec::new(),
                    mutual_information: Vec::new(),
                    levels: memory.levels().map(<[String]>::to_vec),
                })
            }
            (SavedModel::Network(memory), NewRows::Network(rows)) => {
                let averaging = self.averaging(memory, draws, seed, means_only);
                let predict = |x: &[f32]| Ok([nets::predict(&memory.network, &self.mixture, x, averaging)?]);
                let found = of_network(memory, rows, predict)?.into_iter().next();
                found.ok_or_else(|| Error::Invalid("there are no rows to predict".into()))
            }
            (model, _) => Err(nothing_to_predict(model)),
        }
    }

    /// Predictions of each component of a network alone, from the same draws: averaged by weight they are those of
    /// [`SavedPosterior::predict`].
    pub fn predict_each(
        &self,
        rows: &NewRows,
        draws: usize,
        seed: u64,
        means_only: bool,
    ) -> Result<Vec<Predicted>, Error> {
        match (&self.model, rows) {
            (SavedModel::Network(memory), NewRows::Network(rows)) => {
                let averaging = self.averaging(memory, draws, seed, means_only);
                of_network(memory, rows, |x| nets::predict_each(&memory.network, &self.mixture, x, averaging))
            }
            (SavedModel::Regression(_) | SavedModel::Effects(_), _) => {
                Err(Error::Invalid("only networks have predictions per component".into()))
            }
            (model, _) => Err(nothing_to_predict(model)),
        }
    }

    /// The requested number of draws in total, over all components.
    fn averaging(&self, memory: &NetworkMemory, draws: usize, seed: u64, means_only: bool) -> Averaging {
        match means_only || memory.points {
            true => Averaging::Means,
            false => Averaging::Draws { each: draws.div_ceil(self.mixture.len()).max(1), seed },
        }
    }
}

fn nothing_to_predict(model: &SavedModel) -> Error {
    let what = match model {
        SavedModel::Density(_) => "this is the posterior of a density",
        SavedModel::Stan(_) => "this is the posterior of a Stan program, whose generated quantities predict",
        SavedModel::External(_) => "this is not the posterior of a regression or a network",
        SavedModel::Regression(_) | SavedModel::Effects(_) | SavedModel::Network(_) => {
            "these rows do not match the kind of model"
        }
    };
    Error::Invalid(format!("{what}: there is nothing to predict"))
}

fn of_regression(memory: &RegressionMemory, z: &[f64], rows: &EncodedRows) -> Result<Predicted, Error> {
    let draws = CoefficientDraws::new(memory.kind, rows.dim, z)?;
    let mut predictions = predict(&draws, Inputs::new(&rows.x, rows.dim, rows.offset.as_deref())?)?;
    let outcome = memory.encoding.outcome.as_ref();
    if let Some(outcome) = outcome {
        predictions.rescale(outcome.centre, outcome.scale);
    }
    let levels = outcome.and_then(|outcome| outcome.levels.clone());
    Ok(Predicted { predictions, expected_entropy: Vec::new(), mutual_information: Vec::new(), levels })
}

/// Predictions of rows in turns: `predict` gives one or several for each turn.
fn of_network<P: IntoIterator<Item = NetworkPredictions>>(
    memory: &NetworkMemory,
    rows: &Examples,
    predict: impl Fn(&[f32]) -> Result<P, natmix::Error>,
) -> Result<Vec<Predicted>, Error> {
    let (centre, scale) = memory.input.outcome_scale();
    let mut all: Vec<Predicted> = Vec::new();
    for x in rows.x().chunks((ROWS * rows.features()).max(1)) {
        for (k, mut found) in predict(x)?.into_iter().enumerate() {
            let mutual_information = found.mutual_information();
            found.predictions.rescale(centre, scale);
            // Real outcomes and counts have no such entropy.
            let expected_entropy = if mutual_information.is_empty() { Vec::new() } else { found.expected_entropy };
            match all.get_mut(k) {
                Some(all) => {
                    all.predictions.append(found.predictions);
                    all.expected_entropy.extend(expected_entropy);
                    all.mutual_information.extend(mutual_information);
                }
                None => {
                    let levels = memory.input.levels().map(<[String]>::to_vec);
                    let predictions = found.predictions;
                    all.push(Predicted { predictions, expected_entropy, mutual_information, levels });
                }
            }
        }
    }
    Ok(all)
}

impl Predicted {
    /// Name of the likeliest class of each row; none for outcomes without classes.
    pub fn classes(&self) -> Option<Vec<String>> {
        let name = |class: usize| match self.levels.as_ref().and_then(|levels| levels.get(class)) {
            Some(level) => level.clone(),
            None => class.to_string(),
        };
        let likeliest = |p: &[f64]| name((1..p.len()).fold(0, |best, c| if p[c] > p[best] { c } else { best }));
        match &self.predictions {
            Predictions::Binary { probability, .. } => {
                Some(probability.iter().map(|p| name(usize::from(*p > 0.5))).collect())
            }
            Predictions::Classes { classes, probability, .. } => {
                Some(probability.chunks_exact(*classes).map(likeliest).collect())
            }
            Predictions::Real { .. } => None,
        }
    }

    /// Names and columns of a table with one row per predicted row.
    pub fn columns(self) -> Vec<(String, Vec<f64>)> {
        let named = |names: &[&str], columns: Vec<Vec<f64>>| -> Vec<(String, Vec<f64>)> {
            names.iter().map(ToString::to_string).zip(columns).collect()
        };
        let mut columns = match self.predictions {
            Predictions::Binary { probability, sd, entropy } => {
                named(&["probability", "sd", "entropy"], vec![probability, sd, entropy])
            }
            Predictions::Real { mean, sd, q05, q50, q95 } => {
                named(&["mean", "sd", "q05", "q50", "q95"], vec![mean, sd, q05, q50, q95])
            }
            Predictions::Classes { classes, probability, entropy } => {
                let level = |c: usize| {
                    let name = self.levels.as_ref().and_then(|levels| levels.get(c));
                    name.map_or_else(|| format!("p[{c}]"), |name| format!("p[{name}]"))
                };
                let of = |c: usize| probability.iter().skip(c).step_by(classes).copied().collect();
                let mut columns: Vec<_> = (0..classes).map(|c| (level(c), of(c))).collect();
                columns.push(("entropy".into(), entropy));
                columns
            }
        };
        let entropies = [("expected_entropy", self.expected_entropy), ("mutual_information", self.mutual_information)];
        columns.extend(entropies.into_iter().filter(|(_, x)| !x.is_empty()).map(|(name, x)| (name.into(), x)));
        columns
    }
}
