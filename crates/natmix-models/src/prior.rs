//! Gaussian priors on coefficients, as the engine's own regressions have them.

pub(crate) use natmix::targets::prior::{Prior, spread, usable_sd};

pub(crate) const LOG_TAU: f64 = 1.837_877_066_409_345_5;
