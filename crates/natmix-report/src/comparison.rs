//! Models compared with each other: the figures, and their page.

mod page;
mod text;

pub use page::page_html;
pub use text::text;

use crate::{ReportedEstimate, number};
use serde::{Deserialize, Serialize};

/// Models of the same outcomes, the best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Rows that the models were fitted to, if any of them has rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<usize>,
    /// How many of them were left out in turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<usize>,
    /// The outcome, as the first model names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<String>,
    /// The models: by expected log predictive density, then by evidence.
    pub models: Vec<ComparedModel>,
    /// By how much the mean log density of the stacked models could be larger at most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stacking_gap: Option<f64>,
    /// What the figures say, in a sentence or two.
    pub findings: Vec<String>,
    /// Reasons for caution.
    pub warnings: Vec<String>,
}

/// One of the models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedModel {
    /// Its name: the folder, or what it is called in Python.
    pub name: String,
    /// What was fitted, in one line.
    pub summary: String,
    /// Whether its fit can be trusted.
    pub trusted: Option<bool>,
    /// Leave-one-out; none for models without rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loo: Option<ComparedLoo>,
    /// The evidence; none if it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<ComparedEvidence>,
}

/// Leave-one-out of a model beside the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedLoo {
    /// Expected log predictive density.
    pub elpd: f64,
    /// Its standard error.
    #[serde(with = "crate::nullable")]
    pub se: f64,
    /// Difference to the best model: zero or negative.
    pub difference: f64,
    /// Its standard error, from the differences of single rows.
    #[serde(with = "crate::nullable")]
    pub difference_se: f64,
    /// Effective number of parameters.
    pub p_loo: f64,
    /// The largest k-hat of a row.
    #[serde(with = "crate::nullable")]
    pub worst_k_hat: f64,
    /// Rows whose k-hat is above 0.7.
    pub k_hat_above: usize,
    /// Rows that cannot be trusted, whose k-hat is too large for the number of draws.
    pub bad_rows: usize,
    /// Stacking weight.
    pub weight: f64,
}

/// The evidence of a model beside the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedEvidence {
    /// Log evidence.
    pub log_evidence: ReportedEstimate,
    /// Logarithm of the Bayes factor against the model with the largest evidence: zero or negative.
    pub log_bayes_factor: ReportedEstimate,
    /// Posterior probability, if all models whose evidence is known are equally likely before the data.
    pub probability: ReportedEstimate,
}

/// Probabilities closer to zero or one than this are shown as bounds.
const NEAR: f64 = 1e-4;
/// Smallest error that decides how many digits of a log evidence are shown.
const FINE: f64 = 0.01;

/// An estimate with its error, or none if it is exact.
fn with_error(estimate: f64, se: f64) -> [String; 2] {
    match se.is_finite() && se > 0.0 {
        true => [number::rounded(estimate, se), number::significant(se, 2)],
        false => [number::rounded(estimate, se), String::new()],
    }
}

impl ComparedLoo {
    /// The difference and its error; zero for the best model.
    fn difference_cells(&self) -> [String; 2] {
        if self.difference == 0.0 {
            ["0".into(), String::new()]
        } else {
            with_error(self.difference, self.difference_se)
        }
    }
}

impl ComparedEvidence {
    /// Log evidence and log Bayes factor, each with its error; zero for the largest.
    fn log_cells(&self) -> [String; 4] {
        let fine = |ReportedEstimate { mean, se }: ReportedEstimate| match mean {
            0.0 => ["0".to_owned(), String::new()],
            _ => [number::rounded(mean, se.max(FINE)), number::significant(se, 2)],
        };
        let ([evidence, evidence_se], [factor, factor_se]) = (fine(self.log_evidence), fine(self.log_bayes_factor));
        [evidence, evidence_se, factor, factor_se]
    }

    /// The probability and its error, or a bound.
    fn probability_cells(&self) -> [String; 2] {
        match self.probability {
            ReportedEstimate { mean, .. } if mean < NEAR => [format!("< {NEAR}"), String::new()],
            ReportedEstimate { mean, .. } if mean > 1.0 - NEAR => [format!("> {}", 1.0 - NEAR), String::new()],
            ReportedEstimate { mean, se } => with_error(mean, se),
        }
    }

    /// The probability with its error, or a bound.
    pub fn probability_in_words(&self) -> String {
        joined(self.probability_cells())
    }
}

/// An estimate and its error in one cell.
fn joined([estimate, se]: [String; 2]) -> String {
    if se.is_empty() { estimate } else { format!("{estimate} ± {se}") }
}

/// The name of a model in a table, with a mark if its fit cannot be trusted.
fn named(model: &ComparedModel) -> String {
    /// Most letters of a name.
    const MOST: usize = 40;
    let short: String = model.name.chars().take(MOST).collect();
    let cut = if short.len() < model.name.len() { "…" } else { "" };
    let mark = if model.trusted == Some(false) { " (not trusted)" } else { "" };
    format!("{short}{cut}{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_near_the_ends_are_bounds() {
        let zero = ReportedEstimate { mean: 0.0, se: 0.0 };
        let words = |mean, se| {
            let probability = ReportedEstimate { mean, se };
            ComparedEvidence { log_evidence: zero, log_bayes_factor: zero, probability }.probability_in_words()
        };
        assert_eq!(words(0.3, 0.02), "0.300 ± 0.020");
        assert_eq!((words(1e-6, 1e-7), words(1.0 - 1e-9, 1e-9)), ("< 0.0001".into(), "> 0.9999".into()));
    }
}
