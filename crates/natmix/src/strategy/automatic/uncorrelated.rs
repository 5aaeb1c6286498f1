//! A Gaussian without correlations, in very many dimensions: hardly any work, since the regression of its iterations needs few points
//! and no factorisation. Where correlations matter little, one with a full covariance is not worth its price.

use super::along::elbo;
use super::evaluate::LimitedEvaluator;
use super::search::SearchSummary;
use super::{AutomaticKind, AutomaticStrategy, budget, first_state};
use crate::config::Config;
use crate::error::Error;
use crate::family::{CovarianceKind, Gaussian, Mixture};
use crate::strategy::Tools;
use crate::strategy::start::precision_from_sd;

/// Changes the seed, so that the points of this fit are not those of the next.
const OTHER_POINTS: u64 = 0x5eed_d1a6;
/// Most iterations.
const MOST_ITERATIONS: u64 = 150;
/// Gain of the ELBO over four iterations, in nats per dimension, below which it is known well enough which one is better.
const LEAST_GAIN: f64 = 0.01;
/// Draws that compare the two.
const DRAWS: usize = 100;

impl AutomaticStrategy {
    /// Takes the best of the Gaussians without correlations that short fits find from the places and the widths of others, if its ELBO is
    /// higher than that of the one there is.
    pub(super) fn without_correlations(&mut self, from: &[Gaussian], tools: &mut Tools<'_>) -> Result<(), Error> {
        let mut best: Option<(f64, Gaussian)> = None;
        for from in from {
            let found = self.fit_without_correlations(from, tools)?.filter(|found| found.0.is_finite());
            best = best.into_iter().chain(found).max_by(|a, b| a.0.total_cmp(&b.0));
        }
        let Some((_, diagonal)) = best else { return Ok(()) };
        let present = self.state.mixture.components()[0].clone();
        let mut evaluator = LimitedEvaluator::new(tools, &mut self.work.batch);
        let mut elbo = |q: &Gaussian| elbo(&mut evaluator, q, DRAWS, self.config.seed ^ OTHER_POINTS);
        if elbo(&diagonal)? <= elbo(&present)? {
            return Ok(());
        }
        let chosen = match self.settings.drop_correlations {
            true => diagonal,
            false => {
                let precision = precision_from_sd(&widths(&diagonal), self.config.covariance)?;
                Gaussian::new(diagonal.mean().to_vec(), precision)
            }
        };
        let search = std::mem::take(&mut self.state.phase.search);
        self.state = first_state(Mixture::single(chosen), search, &self.settings);
        Ok(())
    }

    /// The Gaussian that a short fit finds, with its ELBO.
    fn fit_without_correlations(
        &mut self,
        from: &Gaussian,
        tools: &mut Tools<'_>,
    ) -> Result<Option<(f64, Gaussian)>, Error> {
        let seed = self.config.seed ^ OTHER_POINTS;
        let config = Config { covariance: CovarianceKind::Diag, seed, ..self.config.clone() };
        let Ok(precision) = config.covariance.with_sd(&widths(from)) else { return Ok(None) };
        let start = Mixture::single(Gaussian::new(from.mean().to_vec(), precision));
        let kind = AutomaticKind { config: &config, settings: &self.settings };
        let mut fit = Self::new(&kind, first_state(start, SearchSummary::default(), &self.settings), true);
        let (tuning, most) = (&self.settings.tuning, budget(&self.config).unwrap_or(u64::MAX));
        let (before, gain) = (tools.iteration, fit.rough_gain().max(LEAST_GAIN * from.dim() as f64));
        for iteration in 0..MOST_ITERATIONS {
            let next = fit.state.phase.draws[0] as u64 + 2 * DRAWS as u64;
            if tools.evaluator.spent().evals + next > most || !(tools.go_on)(&*tools.evaluator) {
                break;
            }
            tools.iteration = iteration;
            let elbo = match fit.estimate(tools) {
                Ok((elbo, _)) => elbo,
                // Without correlations it may lie where the density is zero.
                Err(Error::NowhereFinite { .. }) => {
                    tools.iteration = before;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            if !fit.retreats(elbo) {
                fit.update(iteration, tools.scratch);
            }
            if iteration >= tuning.stage_first_min && fit.state.record.history.stopped_rising(gain) {
                break;
            }
        }
        tools.iteration = before;
        let Some((elbo, _)) = fit.state.record.history.recent() else { return Ok(None) };
        let (mixture, _) = fit.state.record.choose(&fit.state.mixture);
        Ok(Some((elbo, mixture.components()[0].clone())))
    }
}

/// The standard deviations of a Gaussian.
fn widths(gaussian: &Gaussian) -> Vec<f64> {
    gaussian.precision().variances().iter().map(|variance| variance.sqrt()).collect()
}
