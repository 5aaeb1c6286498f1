//! The coefficients of a regression among its parameters, and what they do to the outcome.

use serde::{Deserialize, Serialize};

/// The expected outcome as one column varies and the others stay as they typically are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionalEffect {
    /// The column.
    pub column: String,
    /// What is expected: the outcome, as the formula writes it.
    pub outcome: String,
    /// Values of the column; for categories their indices.
    pub values: Vec<f64>,
    /// Names of the values, for categories.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub levels: Option<Vec<String>>,
    /// 5% quantile, median and 95% quantile of the expectation at each value; none for an outcome with classes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub expected: Vec<[f64; 3]>,
    /// The probability of each class instead, for an outcome with more than two.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub classes: Vec<ClassEffect>,
}

/// The probability of one class as a column varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassEffect {
    /// The class.
    pub name: String,
    /// 5% quantile, median and 95% quantile at each value of the column.
    pub expected: Vec<[f64; 3]>,
}

/// The coefficients of a regression among its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    /// How many there are: they are the first parameters. With classes, how many each of these has.
    pub count: usize,
    /// Whether the first is an intercept.
    pub intercept: bool,
    /// Standard deviation of the column of each in the data; 1 for categories, whose coefficients are differences of levels.
    pub spreads: Vec<f64>,
    /// What the exponential of a coefficient is called: `odds ratio`, `rate ratio`, `ratio of means` or `ratio of times`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio: Option<String>,
    /// Names of the columns, and of the classes that have a coefficient each for all columns, one class after another; none for
    /// regressions with one linear predictor.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub classes: Option<ClassCoefficients>,
    /// Effects that vary over groups.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub groups: Vec<GroupEffects>,
}

/// The classes of a regression that compares each of them with a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassCoefficients {
    /// The class with which the others are compared.
    pub reference: String,
    /// The others.
    pub others: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
}

/// Effects that vary over groups, among the parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupEffects {
    /// What the formula calls the grouping.
    pub name: String,
    /// Names of the groups.
    pub levels: Vec<String>,
    /// Names of the columns whose coefficients vary.
    pub columns: Vec<String>,
    /// Index of the first effect; they are stored group by group.
    pub first_effect: usize,
}

impl Coefficients {
    /// Whether a parameter is the effect of a single group.
    pub fn is_of_a_group(&self, parameter: usize) -> bool {
        self.groups.iter().any(|group| {
            let effects = group.levels.len() * group.columns.len();
            (group.first_effect..group.first_effect + effects).contains(&parameter)
        })
    }
}
