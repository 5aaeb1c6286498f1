//! Where a fit to a large table starts: at the posterior of a sample of its rows.
//!
//! Most iterations of a fit locate the posterior, for which some rows are as good as all of them; the few
//! remaining ones, over all rows, make it exact.

use crate::study::Study;
use natmix::family::Mixture;
use natmix::observe::Cancel;
use natmix::{Config, Error, Fit};

/// Number of rows from which on a sample is fitted first.
const LARGE: usize = 200_000;
/// Rows in the sample.
const SAMPLE: usize = 20_000;
/// Nats of expected gain below which the sample's fit stops: its own error is larger.
const TOLERANCE: f64 = 1.0;
/// Initial trust region as a multiple of the expected distance, and its upper bound.
const TRUST_PER_DISTANCE: f64 = 2.0;
const MOST_TRUST: f64 = 1000.0;

/// A starting point and its cost.
#[derive(Clone, Debug)]
pub struct SampleStart {
    /// The posterior of the sample.
    pub mixture: Mixture,
    /// Number of points at which the sample was evaluated.
    pub evals: u64,
    /// How far the first step may go, as a KL divergence.
    pub trust_region: f64,
}

impl SampleStart {
    /// Adapts the settings of the fit that starts here: larger first steps, and the remaining budget.
    pub fn prepare(&self, config: &mut Config) {
        *config = std::mem::take(config).with_trust_region(self.trust_region);
        config.max_evals = config.max_evals.map(|most| most.saturating_sub(self.evals).max(1));
    }
}

/// A starting point for large tables; none for small ones, where it would not save time, and for minibatches.
pub fn from_sample(study: &Study, config: &Config, cancel: &mut Cancel) -> Result<Option<SampleStart>, Error> {
    if study.regression.data().rows() < LARGE
        || config.parts().is_some_and(|parts| parts.minibatch.is_some())
        || study.regression.cost_is_independent_of_rows()
    {
        return Ok(None);
    }
    let sample = study.regression.sample(SAMPLE)?;
    let config = Config { tolerance: TOLERANCE, diagnostic_draws: 0, ..config.clone() };
    // The sample's mean is off by its own error, which in units of the posterior's width gives this divergence.
    let share = study.regression.data().rows() as f64 / SAMPLE as f64;
    let distance = 0.5 * share * sample.target().dim() as f64;
    let trust_region = config.trust_region().max(TRUST_PER_DISTANCE * distance).min(MOST_TRUST);
    let fitted = Fit::new(sample.target(), config).observe(cancel).run()?;
    Ok(Some(SampleStart { mixture: fitted.mixture, evals: fitted.evals, trust_region }))
}
