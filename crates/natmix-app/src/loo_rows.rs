//! What each row contributes to leave-one-out, in a file beside the report: what a comparison of models needs.
//!
//! | tensor of `loo.safetensors` | shape | holds |
//! |---|---|---|
//! | `rows` | `[m, 3]` | log predictive density without the row, k-hat and effective draws of each row left out |
//!
//! Of tables that are too large to leave out every row, evenly spaced ones are stored, about 100,000 at most.

use crate::outcome_mark::OutcomeMark;
use natmix::Error;
use natmix::save::bundle::{self, Layout, Stored, Tensors};
use natmix_models::LooFigures;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The tensor, and its columns.
const ROWS: &str = "rows";
const WIDTH: usize = 3;

/// What each row contributes to leave-one-out.
#[derive(Clone, Debug, PartialEq)]
pub struct LooRows {
    /// All but the figures of rows.
    pub about: LooAbout,
    /// Log predictive density of each row left out, given the others, in the outcome's own units.
    pub elpd: Vec<f64>,
    /// k-hat of each.
    pub k_hats: Vec<f64>,
    /// Effective draws of each.
    pub ess: Vec<f64>,
}

/// About a leave-one-out cross-validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LooAbout {
    /// Rows of the table.
    pub rows: usize,
    /// How many of them were left out in turn: all, or evenly spaced ones.
    pub left_out: usize,
    /// Draws behind them.
    pub draws: usize,
    /// Largest k-hat that can be trusted with so many draws.
    pub k_threshold: f64,
    /// How to recognise the outcomes; `None` where only the model knows them, as a Stan program does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeMark>,
}

impl LooRows {
    /// From a cross-validation. `log_scale` is what the units of the outcome add to the log density of a row that counts once.
    pub fn new(found: &LooFigures, log_scale: f64, weights: Option<&[f64]>, outcome: Option<OutcomeMark>) -> Self {
        let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
        let elpd = found.pointwise.iter().zip(&found.left_out).map(|(elpd, row)| elpd + log_scale * weight(*row));
        Self {
            about: LooAbout {
                rows: found.rows,
                left_out: found.left_out.len(),
                draws: found.draws,
                k_threshold: found.k_threshold,
                outcome,
            },
            elpd: elpd.collect(),
            k_hats: found.k_hats.clone(),
            ess: found.ess.clone(),
        }
    }

    /// The same as figures, to ask which rows can be trusted.
    pub fn k_hats_that_count(&self) -> impl Iterator<Item = f64> {
        let draws = self.about.draws as f64;
        self.k_hats.iter().zip(&self.ess).map(move |(k_hat, ess)| match LooFigures::equal_weights(draws, *ess) {
            true => f64::NEG_INFINITY,
            false => *k_hat,
        })
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut tensors = Tensors::default();
        let all = self.elpd.iter().zip(&self.k_hats).zip(&self.ess);
        let values = all.flat_map(|((elpd, k_hat), ess)| [*elpd, *k_hat, *ess]).collect();
        tensors.add(ROWS, vec![self.elpd.len(), WIDTH], values);
        bundle::encode::<Self>(&self.about, &tensors)
    }

    /// The inverse of [`LooRows::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        bundle::read_bytes(bytes, "leave-one-out")
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        bundle::write_file(path, &self.to_bytes()?)
    }

    /// Reads the file, if there is one.
    pub fn load(path: &Path) -> Result<Option<Self>, Error> {
        if path.exists() { bundle::read_file(path).map(Some) } else { Ok(None) }
    }
}

impl Stored for LooRows {
    const KIND: &'static str = "leave-one-out";
    type Document = LooAbout;

    fn layout(about: &LooAbout) -> Result<Layout, String> {
        if about.left_out == 0 || about.left_out > about.rows {
            return Err(format!("has {} of {} rows", about.left_out, about.rows));
        }
        Ok(vec![(ROWS.to_owned(), vec![about.left_out, WIDTH])])
    }

    fn assemble(about: LooAbout, mut tensors: Tensors) -> Result<Self, String> {
        let rows = tensors.take(ROWS);
        let column = |at: usize| rows.iter().skip(at).step_by(WIDTH).copied().collect();
        Ok(Self { about, elpd: column(0), k_hats: column(1), ess: column(2) })
    }
}
