//! The table that a regression is fitted to, as the engine's own regressions have it.

use natmix::target::{Curvature, Shape};

pub(crate) use natmix::targets::Block;
pub use natmix::targets::{Dataset, Observations};

/// What the models here can sum.
pub(crate) const ALL_CURVATURES: &[(Curvature, Shape)] = &[
    (Curvature::Exact, Shape::Full),
    (Curvature::Exact, Shape::Diag),
    (Curvature::GaussNewton, Shape::Full),
    (Curvature::GaussNewton, Shape::Diag),
    (Curvature::EmpiricalFisher, Shape::Full),
    (Curvature::EmpiricalFisher, Shape::Diag),
];
