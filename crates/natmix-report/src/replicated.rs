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

/// Survival in the data beside survival in data sets that are drawn from the fitted model and censored as the data are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurvivalCheck {
    /// What is measured, as the formula writes it.
    pub outcome: String,
    /// Times, increasing from zero.
    pub times: Vec<f64>,
    /// The Kaplan-Meier estimate of the data at each time, between the bounds of its middle 90%.
    pub observed: Vec<[f64; 3]>,
    /// The same estimate of drawn data sets: 5% quantile, median and 95% quantile.
    pub replicated: Vec<[f64; 3]>,
    /// Rows.
    pub rows: usize,
    /// How many of them are censored.
    pub censored: usize,
}

/// The coefficients of one column in all groups of a grouping, beside those that each group has alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupEstimates {
    /// What the formula calls the grouping.
    pub grouping: String,
    /// The column.
    pub column: String,
    /// Names of the groups.
    pub levels: Vec<String>,
    /// Rows of each group.
    pub rows: Vec<usize>,
    /// The coefficient of each group in the posterior, all else being at its mean (partial pooling): 5% quantile, median and 95%
    /// quantile.
    pub partial: Vec<[f64; 3]>,
    /// The same from the rows of each group alone (no pooling); none where they do not determine it.
    pub alone: Vec<Option<[f64; 3]>>,
    /// The coefficient around which groups vary.
    pub shared: f64,
    /// The same coefficient for all groups (complete pooling); none where the rows do not determine it.
    pub pooled: Option<f64>,
}
