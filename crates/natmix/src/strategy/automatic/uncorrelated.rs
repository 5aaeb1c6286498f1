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
/// Draws that compare the two.
const DRAWS: usize = 100;

impl AutomaticStrategy {
    /// Takes the Gaussian without correlations that a short fit finds from the place and the widths of another, if its ELBO is higher
    /// than that of the one there is.
    pub(super) fn without_correlations(&mut self, from: &Gaussian, tools: &mut Tools<'_>) -> Result<(), Error> {
        let seed = self.config.seed ^ OTHER_POINTS;
        let config = Config { covariance: CovarianceKind::Diag, seed, ..self.config.clone() };
        let sd: Vec<f64> = from.precision().variances().iter().map(|variance| variance.sqrt()).collect();
        let Ok(precision) = config.covariance.with_sd(&sd) else { return Ok(()) };
        let start = Mixture::single(Gaussian::new(from.mean().to_vec(), precision));
        let kind = AutomaticKind { config: &config, settings: &self.settings };
        let mut fit = Self::new(&kind, first_state(start, SearchSummary::default(), &self.settings), true);
        let (tuning, most) = (&self.settings.tuning, budget(&self.config).unwrap_or(u64::MAX));
        let before = tools.iteration;
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
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            if !fit.retreats(elbo) {
                fit.update(iteration, tools.scratch);
            }
            if iteration >= tuning.stage_first_min && fit.state.record.history.stopped_rising(fit.rough_gain()) {
                break;
            }
        }
        tools.iteration = before;
        let (mixture, _) = fit.state.record.choose(&fit.state.mixture);
        let diagonal = mixture.components()[0].clone();
        let mut evaluator = LimitedEvaluator::new(tools, &mut self.work.batch);
        let present = self.state.mixture.components()[0].clone();
        let elbos = (elbo(&mut evaluator, &diagonal, DRAWS, seed)?, elbo(&mut evaluator, &present, DRAWS, seed)?);
        if elbos.0 > elbos.1 {
            let chosen = match self.settings.drop_correlations {
                true => diagonal,
                false => {
                    let sd: Vec<f64> =
                        diagonal.precision().variances().iter().map(|variance| variance.sqrt()).collect();
                    Gaussian::new(diagonal.mean().to_vec(), precision_from_sd(&sd, self.config.covariance)?)
                }
            };
            let search = std::mem::take(&mut self.state.phase.search);
            self.state = first_state(Mixture::single(chosen), search, &self.settings);
        }
        Ok(())
    }
}
