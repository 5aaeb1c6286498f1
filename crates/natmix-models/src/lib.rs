//! Models with data, analytic densities, and readers of data files, all for the natmix engine.
//!
//! | module | what it holds |
//! |---|---|
//! | [`table`], [`idx`], [`npy`], [`source`], [`row_file`] | readers of CSV, IDX and NumPy files; rows that stay on disk |
//! | [`design`] | from columns to features, and back to the user's own scale |
//! | [`formula`] | formulas such as `y ~ x * g`, and the designs they stand for |
//! | [`observations`], [`glm`], [`linear`], [`softmax`], [`prior`], [`regression`], [`study`] | the regressions as targets of the engine, and together with a table |
//! | [`ranks`] | processes that share the rows of a fit |
//! | [`effects`] | regressions with more families and varying effects, as targets; priors by name |
//! | [`statement`] | statements about parameters, such as `a - b > 0.1` |
//! | [`kaplan_meier`] | the Kaplan-Meier estimate of survival |
//! | [`densities`] | analytic densities with known answers, and their files |
//! | [`draws`], [`predict`](mod@predict), [`scores`], [`loo`](mod@loo), [`stacking`], [`checks`] | predictions and scores for rows, weights of models, checks of the model |
#![forbid(unsafe_code)]

pub mod checks;
pub mod class_scores;
pub mod conditional;
pub mod densities;
pub mod design;
pub mod draws;
pub mod effects;
pub mod error;
pub mod formula;
mod gamma_ratios;
pub mod glm;
mod grouping;
pub mod idx;
pub mod kaplan_meier;
pub mod linear;
pub mod loo;
mod normal_equations;
pub mod npy;
pub mod observations;
pub mod predict;
pub mod prior;
pub mod ranks;
pub mod regression;
mod residuals;
pub mod row_file;
mod row_space;
pub mod scores;
pub mod softmax;
pub mod source;
pub mod stacking;
pub mod start;
pub mod statement;
pub mod study;
pub mod table;
mod vector_math;

pub use class_scores::ClassScores;
pub use conditional::ConditionalEffect;
pub use design::{Design, DesignOptions, EncodedRows, Encoding, OutcomeKind};
pub use draws::{CoefficientDraws, Inputs};
pub use error::DataError;
pub use formula::{Formula, FormulaDesign, FormulaEncoding, FormulaOptions};
pub use linear::Linear;
pub use loo::LooFigures;
pub use observations::{Dataset, Observations};
pub use predict::{Predictions, predict};
pub use regression::{Regression, RegressionKind};
pub use scores::{RowScores, Scored, score};
pub use softmax::Softmax;
pub use study::{RegressionMemory, Study};
pub use table::Table;

/// Pages of the documentation whose examples use these models: included here so that they are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/methods/ngvi.md")]
    pub struct MethodsNgvi;
    #[doc = include_str!("../../../docs/methods/vogn.md")]
    pub struct MethodsVogn;
    #[doc = include_str!("../../../docs/methods/mixture-draws.md")]
    pub struct MethodsMixtureDraws;
    #[doc = include_str!("../../../docs/formulas.md")]
    pub struct Formulas;
    #[doc = include_str!("../../../docs/targets.md")]
    pub struct Targets;
    #[doc = include_str!("../../../docs/reproducibility.md")]
    pub struct Reproducibility;
    #[doc = include_str!("../../../docs/errata.md")]
    pub struct Errata;
}
