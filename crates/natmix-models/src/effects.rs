//! Regressions with nine families and varying effects, as targets of the engine.
//!
//! Row `r` has the predictor `eta_r = x_r'beta + sum_g z_gr'b_(g, l_g(r)) + offset_r`: coefficients `beta` that all rows share, and
//! effects of the level `l_g(r)` to which the row belongs in each grouping `g`. The effects of a level are normal with a standard
//! deviation for each column, and correlated or not.
//!
//! | module | what it holds |
//! |---|---|
//! | [`EffectsData`], [`Grouping`] | the plain data |
//! | [`Family`] | the distribution of an outcome given its predictor, and its further parameters |
//! | [`PriorDensity`], [`PriorStatement`] | priors by name, and what they are for |
//! | [`EffectsModel`] | the target: coordinates, parameters and their names, draws from the prior |
//!
//! **Units.** The fit works with columns that are centred (if there is an intercept) and scaled to unit standard deviation; columns
//! of zeros and ones stay as they are. Outcomes of the linear and the robust family are centred and scaled too, and times and positive
//! outcomes divided by their geometric mean if there is an intercept. Parameters are reported in the units of the data, and priors
//! that are given are in those units; that of the intercept is for the predictor where every column has its mean. By default
//! coefficients have `normal(0, 2.5)` in the units of the fit, the intercept `normal(0, 25)`, standard deviations of groups
//! `half_normal(2.5)` and correlations `lkj(2)`. The log density includes all constants, so that the evidence is that of the outcomes
//! as given.
//!
//! ```
//! use natmix::target::{Target, log_p_at};
//! use natmix_models::effects::{EffectsData, EffectsModel, Family, Grouping};
//! // Two counts, one in each clinic.
//! let clinics = Grouping {
//!     name: "clinic".into(),
//!     levels: vec!["a".into(), "b".into()],
//!     level_of_row: vec![0, 1],
//!     columns: vec!["(intercept)".into()],
//!     z: vec![1.0, 1.0],
//!     ..Grouping::default()
//! };
//! let data = EffectsData {
//!     y: vec![0.0, 2.0],
//!     names: vec!["(intercept)".into()],
//!     x: vec![1.0, 1.0],
//!     groupings: vec![clinics],
//!     ..EffectsData::default()
//! };
//! let model = EffectsModel::new(Family::Poisson, data, &[]).unwrap();
//! assert_eq!(
//!     model.parameter_names(),
//!     ["(intercept)", "sd(clinic, (intercept))", "clinic[a, (intercept)]", "clinic[b, (intercept)]"]
//! );
//! // Two rates of one, all effects zero: the priors are N(0, 25^2), half-normal at 1 (its Jacobian is 1), and twice N(0, 1).
//! let normal = |sd: f64| -(sd * std::f64::consts::TAU.sqrt()).ln();
//! let prior = normal(25.0) + normal(2.5) + 2f64.ln() - 0.08 + 2.0 * normal(1.0);
//! assert!((log_p_at(&model, &[0.0; 4]).unwrap() - prior + 2.0 + 2f64.ln()).abs() < 1e-12);
//! ```

mod around;
mod auxiliary;
mod cells;
mod conditional;
mod curvature;
mod data;
mod draws;
mod evaluation;
mod expansion;
pub mod family;
mod group_curvature;
mod group_shape;
mod groups;
mod information;
mod judge;
mod lanes;
mod layout;
mod likelihood;
mod model;
mod outcome;
mod pooling;
pub mod prior_density;
mod prior_draws;
mod rows;
mod second_derivatives;
mod series;
mod sharing;
mod statements;
mod study;
mod survival_curves;
mod units;

pub use crate::grouping::{GroupCoefficients, Grouping};
pub use data::EffectsData;
pub use draws::EffectsDraws;
pub use family::Family;
pub use layout::{EffectsLayout, GroupParameters};
pub use model::EffectsModel;
pub use pooling::GroupEstimates;
pub use prior_density::{PriorDensity, Support};
pub use rows::EffectsRows;
pub use statements::PriorStatement;
pub use study::{EffectsMemory, EffectsOptions, EffectsStudy};
pub use survival_curves::SurvivalCurves;

#[cfg(test)]
mod tests;
