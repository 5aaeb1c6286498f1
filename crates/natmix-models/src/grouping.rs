//! Coefficients that vary from group to group, as data: which group each row belongs to, and the columns that vary.

/// Levels that each have coefficients of their own: `(1 + x | clinic)` has two for each clinic. In row i,
/// `sum_k z[i * q + k] b[level_of_row[i] * q + k]` is added to the linear predictor, with q columns and coefficients b.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grouping {
    /// What the formula calls it: `g`, `a:b` or `s(x)`.
    pub name: String,
    /// Names of the levels.
    pub levels: Vec<String>,
    /// Index of the level of each row.
    pub level_of_row: Vec<u32>,
    /// Names of the columns of `z`; a varying intercept is `(intercept)`.
    pub columns: Vec<String>,
    /// The columns whose coefficients vary, as they are in the table, row by row; one of ones is a varying intercept.
    pub z: Vec<f64>,
    /// How the coefficients of one level are distributed.
    pub coefficients: GroupCoefficients,
}

/// How the coefficients of one level are distributed: normal with mean 0, independent of those of other levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupCoefficients {
    /// A standard deviation for each column, and correlations: `(1 + x | g)`.
    Correlated,
    /// A standard deviation for each column, no correlations: `(1 + x || g)`.
    #[default]
    Independent,
    /// One standard deviation for all columns, which are used as they are: `s(x)`.
    Shared,
}
