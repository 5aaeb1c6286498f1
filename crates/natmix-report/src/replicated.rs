//! What a regression predicts for its rows, beside what came: for pictures and tables of the page.

use serde::{Deserialize, Serialize};

/// How often the outcome has which value, in the data and in data sets drawn from the fitted model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeCheck {
    /// What the outcome is called.
    pub outcome: String,
    /// Bounds of the bars, one more than there are bars; the first and the last bar also hold everything beyond.
    pub edges: Vec<f64>,
    /// Names of the bars, for classes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub names: Option<Vec<String>>,
    /// Share of the rows in each.
    pub observed: Vec<f64>,
    /// 5% quantile, median and 95% quantile of the same shares in drawn data sets.
    pub replicated: Vec<[f64; 3]>,
}

/// Predicted classes beside those that came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassPredictions {
    /// Whether they are of test rows; otherwise of the rows of the fit, each predicted without itself.
    pub test: bool,
    /// Names of the classes.
    pub names: Vec<String>,
    /// Rows by class, and in turn by the likeliest class.
    pub confusion: Vec<Vec<usize>>,
    /// Of each class, one point per bin: (mean predicted probability, observed frequency, rows).
    pub calibration: Vec<Vec<(f64, f64, usize)>>,
}
