//! The table that a regression is fitted to, as the engine's own regressions have it.

use natmix::target::{Curvature, CurvatureShape};

pub(crate) use natmix::targets::Block;
pub use natmix::targets::{Dataset, Observations};

/// What the models here can sum.
pub(crate) const ALL_CURVATURES: &[(Curvature, CurvatureShape)] = &[
    (Curvature::Exact, CurvatureShape::Full),
    (Curvature::Exact, CurvatureShape::Diag),
    (Curvature::GaussNewton, CurvatureShape::Full),
    (Curvature::GaussNewton, CurvatureShape::Diag),
    (Curvature::EmpiricalFisher, CurvatureShape::Full),
    (Curvature::EmpiricalFisher, CurvatureShape::Diag),
];
