//! Bayesian inference by natural-gradient variational inference with Gaussian mixtures.
//!
//! Given a log density, up to its constant, [`fit`] finds the mixture of Gaussians that is closest to it, reports how close
//! (the ELBO with its error, the evidence, k-hat) and whether to trust it. Every method of the paper "Natural Gradient
//! Variational Inference with Gaussian Mixture Models" is a combination of small parts, chosen by name.
//!
//! ```
//! use natmix::target::ClosureTarget;
//! use natmix::{fit, Config};
//!
//! // Two modes of equal weight, at -2 and 2.
//! let target = ClosureTarget::new(1, |z: &[f64], grad: Option<&mut [f64]>| {
//!     let (a, b) = (-2.0 * (z[0] - 2.0).powi(2), -2.0 * (z[0] + 2.0).powi(2));
//!     let share = 1.0 / (1.0 + (b - a).exp());
//!     if let Some(grad) = grad {
//!         grad[0] = -4.0 * (share * (z[0] - 2.0) + (1.0 - share) * (z[0] + 2.0));
//!     }
//!     a.max(b) + (-(a - b).abs()).exp().ln_1p()
//! })?;
//! let fitted = fit(&target, &Config { init_sd: vec![2.0], seed: 1, ..Config::default() })?;
//! let diagnostics = fitted.diagnostics.unwrap();
//! // The evidence is the integral of both: 2 sqrt(pi / 2).
//! assert!((diagnostics.log_evidence.mean - (2.0 * 1.2533141373f64).ln()).abs() < 0.01);
//! assert!(diagnostics.verdict.trusted);
//! # Ok::<(), natmix::Error>(())
//! ```
//!
//! # Names to know
//! | name | what it is |
//! |---|---|
//! | [`fit`], [`Fit`] | fits a target; with a start, observers or a state to resume from |
//! | [`Fitted`] | the result: mixture, ELBO, diagnostics, why the run ended |
//! | [`Config`], [`Parts`] | every setting; those of the composed methods |
//! | [`Method`] | the methods by name |
//! | [`Target`](target::Target) | the log density to fit, as a trait |
//! | [`ClosureTarget`](target::ClosureTarget), [`AutoDiff`](autodiff::AutoDiff) | a target from closures; one with derivatives by automatic differentiation |
//! | [`Mixture`](family::Mixture) | a mixture of Gaussians: densities, draws, moments, modes |
//! | [`Diagnostics`](diagnose::Diagnostics), [`Verdict`](answer::verdict::Verdict) | how good a fit is; whether to trust it |
//! | [`Posterior`](save::Posterior) | a mixture to save to a file and load again |
//! | [`Error`] | what went wrong, and what to try |
//!
//! # Map of modules
//! | module | what it holds |
//! |---|---|
//! | [`target`], [`autodiff`], [`transform`] | what is inferred: the trait, closures, derivatives, constraints |
//! | [`family`] | Gaussians and mixtures |
//! | [`draws`] | where points come from |
//! | [`estimate`] | from points to moments; the entropy trick |
//! | [`rule`] | from moments to a step |
//! | [`evaluate`] | from points to values of the target |
//! | [`strategy`] | the composed methods, and the automatic mixture |
//! | [`method`], [`config`] | the named methods and every setting |
//! | [`check`] | the gradient, compared with differences of log p before a fit |
//! | [`run`], with [`observe`], [`checkpoint`] and [`stop`] | the run loop, observers, checkpoints, reasons to stop |
//! | [`answer`], with [`diagnose`](mod@diagnose) and [`psis`] | how far a result can be trusted |
//! | [`save`] | files |
//! | [`testing`], [`matrix`] | checks of your own targets, products to build them from |
#![forbid(unsafe_code)]

pub mod answer;
pub mod autodiff;
pub mod chains;
pub mod check;
pub mod config;
pub mod draws;
pub mod error;
pub mod estimate;
pub mod evaluate;
pub mod family;
mod lanes;
mod linalg;
pub mod method;
mod noise;
pub mod rule;
pub mod run;
pub mod save;
pub mod strategy;
pub mod target;
pub mod testing;
pub mod transform;
mod workspace;

pub use answer::{diagnose, psis};
pub use config::{Config, Parts, Source};
pub use error::Error;
pub use method::Method;
pub use run::{Fit, Fitted, State, checkpoint, fit, observe, stop};
pub use strategy::automatic;
pub use workspace::{Scratch, ScratchPool};

/// Products of matrices on plain slices, for targets of your own. Matrices are column-major; points, one after the other,
/// are the columns of a `d * n` matrix. Always on one thread, so that the order of summation never changes.
///
/// ```
/// use natmix::matrix::{product, Transpose};
/// // Two rows (1, 2) and (3, 4) of a table, times the point (1, 1).
/// let mut predictors = [0.0; 2];
/// product(&mut predictors, false, 1.0, &[1.0, 2.0, 3.0, 4.0], Transpose::Yes, &[1.0, 1.0], (2, 2, 1));
/// assert_eq!(predictors, [3.0, 7.0]);
/// ```
pub mod matrix {
    pub use crate::linalg::{Number, Transpose, product, product_bt, product_bt_rows, symmetrise};
}

/// The pages of the documentation, so that their examples are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    pub struct ProjectPage;
    #[doc = include_str!("../README.md")]
    pub struct PackagePage;
    #[doc = include_str!("../../../docs/automatic.md")]
    pub struct AutomaticPage;
    #[doc = include_str!("../../../docs/methods/bbvi.md")]
    pub struct MethodsBbviPage;
    #[doc = include_str!("../../../docs/methods/von.md")]
    pub struct MethodsVonPage;
    #[doc = include_str!("../../../docs/methods/component-draws.md")]
    pub struct MethodsComponentDrawsPage;
    #[doc = include_str!("../../../docs/draw-plans.md")]
    pub struct DrawPlansPage;
    #[doc = include_str!("../../../docs/estimators.md")]
    pub struct EstimatorsPage;
    #[doc = include_str!("../../../docs/rules.md")]
    pub struct RulesPage;
    #[doc = include_str!("../../../docs/diagnostics.md")]
    pub struct DiagnosticsPage;
    #[doc = include_str!("../../../docs/chains.md")]
    pub struct ChainsPage;
    #[doc = include_str!("../../../docs/files.md")]
    pub struct FilesPage;
    #[doc = include_str!("../../../docs/README.md")]
    pub struct ReadmePage;
}
