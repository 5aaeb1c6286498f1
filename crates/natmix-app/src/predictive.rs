//! Predictive measures of a regression: scores, leave-one-out cross-validation, log likelihoods, checks of the model. All
//! in the outcome's own units.

use crate::model_checks;
use crate::time::ResultsTime;
use natmix::Error;
use natmix::diagnose::weigh_draws;
use natmix::family::Mixture;
use natmix::target::Target;
use natmix_models::checks::{self, predictive_checks};
use natmix_models::loo::loo;
use natmix_models::{CoefficientDraws, Dataset, Scored, Study, score};
use natmix_report::{Loo, ModelCheck, Report, Scores};
use std::time::Instant;

/// Most and fewest draws for scores and leave-one-out.
const MOST_DRAWS: usize = 1_000;
const FEWEST_DRAWS: usize = 100;
/// Most products of draws and rows, for scores and for leave-one-out each.
const TERMS: usize = 20_000_000;
/// Fewest draws whose tail leave-one-out can smooth.
const FEWEST_TO_SMOOTH: usize = 200;
/// Most draws for checks of the model, and most products of draws and rows.
const MOST_CHECKED: usize = 500;
const CHECKED_TERMS: usize = 2_000_000;
/// Draws that show how long one takes, where the time is limited.
const TIMED: usize = 8;
/// Most log likelihoods (rows times draws) that are stored with the draws.
const KEPT: usize = 5_000_000;

/// Predictive measures of a regression.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictive {
    /// Scores on the rows of the fit.
    pub train: Scores,
    /// Scores on test rows.
    pub test: Option<Scores>,
    /// Leave-one-out cross-validation.
    pub loo: Loo,
    /// The number of rows, and the log likelihood of each for the first draws; `None` if they are too many to store.
    pub log_likelihood: Option<(usize, Vec<f64>)>,
    /// Statistics of the data and of data drawn from the model.
    pub model_checks: Vec<ModelCheck>,
    /// Remarks on the model, each with a remedy.
    pub model_notes: Vec<String>,
}

impl Predictive {
    /// How many of the draws `z` there is time to measure with; none if they would be too few.
    pub(crate) fn draws_within(time: &ResultsTime, study: &Study, z: &[f64]) -> Result<Option<usize>, Error> {
        let (began, d) = (Instant::now(), study.dim());
        let draws = z.len() / d;
        log_likelihood(study, &z[..TIMED.min(draws) * d])?;
        let each = began.elapsed().as_secs_f64() / TIMED.min(draws).max(1) as f64;
        Ok(Some(time.draws_for_rows(each).map_or(draws, |most| most.min(draws))).filter(|n| *n >= FEWEST_DRAWS))
    }

    /// Measures them with draws `z` in the fitted space, those that the fit delivers; and whether they are of chains.
    pub fn measure(
        study: &Study,
        test: Option<&Dataset>,
        q: &Mixture,
        (z, of_chains): (&[f64], bool),
        seed: u64,
    ) -> Result<Self, Error> {
        let (kind, table) = (study.regression.kind(), study.regression.data());
        let count = (TERMS / table.rows().max(1)).clamp(FEWEST_DRAWS, MOST_DRAWS).min(z.len() / q.dim());
        let few = &z[..count * q.dim()];
        let draws = CoefficientDraws::new(kind, table.features(), few)?;
        let train = score_rows(&draws, table, study)?;
        let test = test.map(|table| score_rows(&draws, table, study)).transpose()?;
        let smoothed = count.max(FEWEST_TO_SMOOTH);
        let found = match of_chains && z.len() >= smoothed * q.dim() {
            // Where the mixture misses part of the posterior, so do its weighted draws.
            true => loo(&study.regression, &z[..smoothed * q.dim()], &vec![0.0; smoothed], TERMS)?,
            false => {
                let weighted = weigh_draws(study, q, smoothed, seed)?;
                loo(&study.regression, &weighted.draws, &weighted.log_ratios, TERMS)?
            }
        };
        let loo = Loo {
            elpd: found.elpd + study.log_scale(),
            se: found.se,
            p_loo: found.p_loo,
            bad_rows: found.too_large(),
            max_k_hat: found.k_hats.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            influential: model_checks::influential_rows(&found),
        };
        let kept = (KEPT / table.rows().max(1)).min(count);
        let log_likelihood = match kept >= FEWEST_DRAWS {
            true => Some((table.rows(), log_likelihood(study, &few[..kept * q.dim()])?)),
            false => None,
        };
        let checked = (CHECKED_TERMS / table.rows().clamp(1, checks::MOST_ROWS)).clamp(FEWEST_DRAWS, MOST_CHECKED);
        let draws = CoefficientDraws::new(kind, table.features(), &few[..checked.min(count) * q.dim()])?;
        let compared = predictive_checks(&draws, table, units(study), seed)?;
        let model_checks: Vec<ModelCheck> = compared.iter().map(model_checks::for_report).collect();
        let model_notes = model_checks::notes(kind, &model_checks, &train, &found);
        Ok(Self { train, test, loo, log_likelihood, model_checks, model_notes })
    }

    /// Adds them to a report.
    pub fn add_to(&self, report: &mut Report) {
        (report.train, report.test) = (Some(self.train.clone()), self.test.clone());
        report.loo = Some(self.loo.clone());
        (report.model_checks, report.model_notes) = (self.model_checks.clone(), self.model_notes.clone());
    }
}

/// Log likelihood of every row for each of some draws.
pub fn log_likelihood(study: &Study, z: &[f64]) -> Result<Vec<f64>, Error> {
    let table = study.regression.data();
    let rows = table.take(&(0..table.rows()).collect::<Vec<_>>())?;
    let draws = CoefficientDraws::new(study.regression.kind(), table.features(), z)?;
    let mut values = draws.log_likelihood((&rows).into(), rows.outcome())?;
    let log_scale = units(study).1.ln();
    values.iter_mut().for_each(|x| *x -= log_scale);
    Ok(values)
}

/// Centre and scale of the outcome.
fn units(study: &Study) -> (f64, f64) {
    study.memory.encoding.outcome.as_ref().map_or((0.0, 1.0), |outcome| (outcome.centre, outcome.scale))
}

fn score_rows(draws: &CoefficientDraws, table: &Dataset, study: &Study) -> Result<Scores, Error> {
    let Scored { scores, calibration, roc, residuals } = score(draws, table)?;
    let (centre, scale) = units(study);
    Ok(Scores {
        rows: scores.rows,
        nll: Some(scores.nll + scale.ln()),
        accuracy: scores.accuracy,
        brier: scores.brier,
        ece: scores.ece,
        auroc: scores.auroc,
        rmse: scores.rmse.map(|rmse| rmse * scale),
        calibration: calibration.iter().map(|bin| (bin.predicted, bin.observed, bin.count)).collect(),
        roc,
        residuals: residuals.iter().map(|(mean, residual)| (centre + scale * mean, *residual)).collect(),
        ..Scores::default()
    })
}
