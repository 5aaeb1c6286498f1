//! Predictive measures of a regression: scores, leave-one-out cross-validation, log likelihoods, checks of the model. All
//! in the outcome's own units.

use crate::loo_rows::LooRows;
use crate::model_checks;
use crate::outcome_mark::OutcomeMark;
use crate::problem::Problem;
use crate::time::ResultsTime;
use natmix::Error;
use natmix::diagnose::weigh_draws;
use natmix::family::Mixture;
use natmix::target::Target;
use natmix_models::checks::{self, OutcomeBars, predictive_checks};
use natmix_models::effects::EffectsDraws;
use natmix_models::loo::loo;
use natmix_models::scores::spaced;
use natmix_models::study::StudyError;
use natmix_models::{
    ClassScores, CoefficientDraws, Dataset, Inputs, LooFigures, RegressionKind, Scored, Study, predict, score,
};
use natmix_report::{
    ClassEffect, ClassPredictions, ConditionalEffect, GroupEstimates, Loo, ModelCheck, OutcomeCheck, Report, Scores,
    SurvivalCheck,
};
use std::time::Instant;

/// Most and fewest draws for scores and leave-one-out.
pub(crate) const MOST_DRAWS: usize = 1_000;
pub(crate) const FEWEST_DRAWS: usize = 100;
/// Most products of draws and rows, for scores and for leave-one-out each.
pub(crate) const TERMS: usize = 20_000_000;
/// Fewest draws whose tail leave-one-out can smooth.
const FEWEST_TO_SMOOTH: usize = 200;
/// Most columns whose conditional effects are shown.
pub(crate) const MOST_EFFECTS: usize = 12;
/// Most draws for checks of the model, and most products of draws and rows.
const MOST_CHECKED: usize = 500;
const CHECKED_TERMS: usize = 2_000_000;
/// Draws that show how long one takes, where the time is limited.
const TIMED: usize = 8;
/// Rows that are looked up at once.
const TAKEN: usize = 4_096;
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
    /// What each row contributes to it.
    pub loo_rows: LooRows,
    /// The number of rows, and the log likelihood of each for the first draws; `None` if they are too many to store.
    pub log_likelihood: Option<(usize, Vec<f64>)>,
    /// Statistics of the data and of data drawn from the model.
    pub model_checks: Vec<ModelCheck>,
    /// The distribution of the outcome in the data and in data drawn from the model.
    pub outcome_check: Option<OutcomeCheck>,
    /// Predicted classes beside those that came.
    pub class_predictions: Option<ClassPredictions>,
    /// The coefficients of groups beside those that each group has alone.
    pub group_estimates: Vec<GroupEstimates>,
    /// Survival in the data and in data drawn from the model.
    pub survival_check: Option<SurvivalCheck>,
    /// The expected outcome as one column varies.
    pub conditional_effects: Vec<ConditionalEffect>,
    /// Remarks on the model, each with a remedy.
    pub model_notes: Vec<String>,
}

impl Predictive {
    /// How many of the draws `z` there is time to measure with; none if they would be too few.
    pub(crate) fn draws_within(time: &ResultsTime, study: &Study, z: &[f64]) -> Result<Option<usize>, Error> {
        affordable(time, z.len() / study.dim(), |draws| log_likelihood(study, &z[..draws * study.dim()]).map(|_| ()))
    }

    /// Measures them with draws `z` in the fitted space, those that the fit delivers; and whether they are of chains.
    pub fn measure(
        study: &Study,
        test_rows: Option<&Dataset>,
        q: &Mixture,
        (z, of_chains): (&[f64], bool),
        seed: u64,
    ) -> Result<Self, Error> {
        let (kind, table) = (study.regression.kind(), study.regression.data());
        let count = draws_for_scores(table.rows()).min(z.len() / q.dim());
        let few = &z[..count * q.dim()];
        let draws = CoefficientDraws::new(kind, table.features(), few)?;
        let train = score_rows(&draws, table, study)?;
        let test = test_rows.map(|table| score_rows(&draws, table, study)).transpose()?;
        let class_predictions = class_predictions(&draws, table, test_rows, study)?;
        let smoothed = draws_to_smooth(count);
        let found = match of_chains && z.len() >= smoothed * q.dim() {
            // Where the mixture misses part of the posterior, so do its weighted draws.
            true => loo(&study.regression, &z[..smoothed * q.dim()], &vec![0.0; smoothed], TERMS)?,
            false => {
                let weighted = weigh_draws(study, q, smoothed, seed)?;
                loo(&study.regression, &weighted.draws, &weighted.log_ratios, TERMS)?
            }
        };
        let loo = loo_for_report(&found, study.log_scale());
        let loo_rows = loo_rows(&found, study)?;
        let log_likelihood = match draws_to_keep(table.rows(), count) {
            Some(kept) => Some((table.rows(), log_likelihood(study, &few[..kept * q.dim()])?)),
            None => None,
        };
        let checked = draws_to_check(table.rows()).min(count);
        let draws = CoefficientDraws::new(kind, table.features(), &few[..checked * q.dim()])?;
        let compared = predictive_checks(&draws, table, units(study), seed)?;
        let model_checks: Vec<ModelCheck> = compared.statistics.iter().map(model_checks::for_report).collect();
        let model_notes = model_checks::notes(kind.name(), &model_checks, &train, &found);
        let conditional_effects = conditional_effects(study, &draws)?;
        let outcome = study.memory.encoding.outcome.as_ref();
        let name = outcome.map_or("", |outcome| outcome.column.as_str());
        let levels = outcome.and_then(|outcome| outcome.levels.as_deref());
        let names = match kind {
            RegressionKind::Logistic => Some(class_names(2, levels)),
            RegressionKind::Softmax { classes } => Some(class_names(classes, levels)),
            _ => None,
        };
        let outcome_check = compared.outcome.map(|bars| outcome_check(bars, name, names));
        Ok(Self {
            train,
            test,
            loo,
            loo_rows,
            log_likelihood,
            model_checks,
            outcome_check,
            class_predictions,
            group_estimates: Vec::new(),
            survival_check: None,
            conditional_effects,
            model_notes,
        })
    }

    /// Adds them to a report.
    pub fn add_to(&self, report: &mut Report) {
        (report.train, report.test) = (Some(self.train.clone()), self.test.clone());
        report.loo = Some(self.loo.clone());
        (report.model_checks, report.model_notes) = (self.model_checks.clone(), self.model_notes.clone());
        report.outcome_check.clone_from(&self.outcome_check);
        report.class_predictions.clone_from(&self.class_predictions);
        report.group_estimates.clone_from(&self.group_estimates);
        report.survival_check.clone_from(&self.survival_check);
        report.conditional_effects.clone_from(&self.conditional_effects);
    }
}

/// What the expected outcome of a logistic regression is.
pub(crate) fn probability_of(outcome: &str, levels: Option<&[String]>) -> String {
    match levels {
        Some([_, positive]) => format!("probability of {positive}"),
        _ => format!("probability of {outcome} = 1"),
    }
}

fn conditional_effects(study: &Study, draws: &CoefficientDraws) -> Result<Vec<ConditionalEffect>, Error> {
    let outcome = study.memory.encoding.outcome.as_ref();
    let (name, levels) = outcome.map_or(("the outcome", None), |about| (&about.column[..], about.levels.as_deref()));
    let (expected, classes) = match study.memory.kind {
        RegressionKind::Logistic => (probability_of(name, levels), Vec::new()),
        RegressionKind::Softmax { classes } => (format!("probability of each {name}"), class_names(classes, levels)),
        _ => (format!("mean of {name}"), Vec::new()),
    };
    let found = study.conditional_effects(draws, MOST_EFFECTS).map_err(|error| match error {
        StudyError::Model(error) => error,
        other => Error::InvalidInput(other.to_string()),
    })?;
    Ok(effects_for_report(found, &expected, &classes))
}

/// The effects of columns on what is `expected`, a number or the probability of each of some classes. Expectations too large for a
/// number, which JSON has no words for, are left out.
pub(crate) fn effects_for_report(
    found: Vec<natmix_models::ConditionalEffect>,
    expected: &str,
    classes: &[String],
) -> Vec<ConditionalEffect> {
    let finite =
        |effect: &natmix_models::ConditionalEffect| effect.expected.iter().flatten().flatten().all(|x| x.is_finite());
    let effect = |mut effect: natmix_models::ConditionalEffect| ConditionalEffect {
        column: effect.column,
        outcome: expected.to_owned(),
        values: effect.values,
        levels: effect.levels,
        expected: if classes.is_empty() { effect.expected.pop().unwrap_or_default() } else { Vec::new() },
        classes: classes
            .iter()
            .zip(effect.expected)
            .map(|(name, expected)| ClassEffect { name: name.clone(), expected })
            .collect(),
    };
    found.into_iter().filter(finite).map(effect).collect()
}

/// Most rows whose classes are predicted one by one.
pub(crate) const MOST_CLASSED: usize = 5_000;

/// Predicted classes of test rows or, without any, of rows of the fit, each predicted without itself.
fn class_predictions(
    draws: &CoefficientDraws,
    fitted: &Dataset,
    test: Option<&Dataset>,
    study: &Study,
) -> Result<Option<ClassPredictions>, Error> {
    if !matches!(draws.kind(), RegressionKind::Logistic | RegressionKind::Softmax { .. }) {
        return Ok(None);
    }
    let table = test.unwrap_or(fitted);
    let rows = table.take(&spaced(table.rows(), MOST_CLASSED).collect::<Vec<_>>())?;
    let (inputs, outcome) = (Inputs::from(&rows), rows.outcome());
    let scores = match test {
        Some(_) => ClassScores::of(&predict(draws, inputs)?, outcome),
        None => draws
            .left_out_probabilities(inputs, outcome)?
            .map(|(classes, probability)| ClassScores::of_probabilities(classes, &probability, outcome)),
    };
    let levels = study.memory.encoding.outcome.as_ref().and_then(|outcome| outcome.levels.as_deref());
    Ok(scores.map(|scores| of_classes(&scores, levels, test.is_some())))
}

/// Predicted classes for the report.
pub(crate) fn of_classes(scores: &ClassScores, levels: Option<&[String]>, test: bool) -> ClassPredictions {
    let bins = scores.calibration.iter();
    ClassPredictions {
        test,
        names: class_names(scores.classes, levels),
        confusion: scores.confusion.chunks(scores.classes).map(<[usize]>::to_vec).collect(),
        calibration: bins.map(|of| of.iter().map(|bin| (bin.predicted, bin.observed, bin.count)).collect()).collect(),
    }
}

pub(crate) fn class_names(classes: usize, levels: Option<&[String]>) -> Vec<String> {
    let level = |class: usize| levels.and_then(|levels| levels.get(class).cloned());
    (0..classes).map(|class| level(class).unwrap_or_else(|| class.to_string())).collect()
}

/// The distribution of an outcome for the report; `names` are those of its classes.
pub(crate) fn outcome_check(bars: OutcomeBars, outcome: &str, names: Option<Vec<String>>) -> OutcomeCheck {
    let OutcomeBars { edges, observed, replicated, .. } = bars;
    let names = names.filter(|names| names.len() == observed.len());
    OutcomeCheck { outcome: outcome.to_owned(), edges, names, observed, replicated }
}

/// How many of `draws` there is time to measure with, where `measure` takes the time of some; none if they would be too few.
pub(crate) fn affordable(
    time: &ResultsTime,
    draws: usize,
    measure: impl FnOnce(usize) -> Result<(), Error>,
) -> Result<Option<usize>, Error> {
    let began = Instant::now();
    measure(TIMED.min(draws))?;
    let each = began.elapsed().as_secs_f64() / TIMED.min(draws).max(1) as f64;
    Ok(Some(time.draws_for_rows(each).map_or(draws, |most| most.min(draws))).filter(|n| *n >= FEWEST_DRAWS))
}

/// Most draws for the scores of this many rows.
pub(crate) fn draws_for_scores(rows: usize) -> usize {
    (TERMS / rows.max(1)).clamp(FEWEST_DRAWS, MOST_DRAWS)
}

/// Draws for leave-one-out, where scores take `count`.
pub(crate) fn draws_to_smooth(count: usize) -> usize {
    count.max(FEWEST_TO_SMOOTH)
}

/// How many of `count` draws have their log likelihoods stored; none if they would be too few.
pub(crate) fn draws_to_keep(rows: usize, count: usize) -> Option<usize> {
    Some((KEPT / rows.max(1)).min(count)).filter(|kept| *kept >= FEWEST_DRAWS)
}

/// Most draws for checks of the model on this many rows.
pub(crate) fn draws_to_check(rows: usize) -> usize {
    (CHECKED_TERMS / rows.clamp(1, checks::MOST_ROWS)).clamp(FEWEST_DRAWS, MOST_CHECKED)
}

/// Leave-one-out for the report; `log_scale` is what the units of the outcome add to the log density.
pub(crate) fn loo_for_report(found: &LooFigures, log_scale: f64) -> Loo {
    Loo {
        elpd: found.elpd + log_scale,
        se: found.se,
        p_loo: found.p_loo,
        bad_rows: found.too_large(),
        max_k_hat: found.k_hats.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        influential: model_checks::influential_rows(found),
    }
}

/// What each row contributes to leave-one-out.
fn loo_rows(found: &LooFigures, study: &Study) -> Result<LooRows, Error> {
    let data = study.regression.data();
    // Weights by row of the table, of those that were left out. Few rows at a time: all of them may be larger than the memory.
    let mut weights: Option<Vec<f64>> = None;
    for rows in found.left_out.chunks(TAKEN) {
        let taken = data.take(rows)?;
        let Some(own) = taken.weights() else { break };
        let all = weights.get_or_insert_with(|| vec![0.0; data.rows()]);
        rows.iter().zip(own).for_each(|(row, weight)| all[*row] = *weight);
    }
    let log_scale = -units(study).1.ln();
    Ok(LooRows::new(found, log_scale, weights.as_deref(), Some(OutcomeMark::of_study(study)?)))
}

impl Problem {
    /// Whether it has rows whose outcomes it predicts one by one, as regressions do.
    pub fn predicts_rows(&self) -> bool {
        matches!(self, Problem::Regression(_) | Problem::Effects(_))
    }

    /// Measures how well it predicts its rows with draws `z` in the fitted space, those that the fit delivers; and whether they are of
    /// chains. None for problems without such rows.
    pub fn judge_rows(
        &self,
        q: &Mixture,
        draws: (&[f64], bool),
        seed: u64,
    ) -> Result<Option<Predictive>, crate::Error> {
        Ok(match self {
            Problem::Regression(regression) => {
                Some(Predictive::measure(&regression.study, regression.test.as_ref(), q, draws, seed)?)
            }
            Problem::Effects(effects) => {
                Some(Predictive::of_effects(&effects.study, effects.test.as_ref(), q, draws, seed)?)
            }
            _ => None,
        })
    }

    /// How many of the draws `z` there is time to measure that with; none if they would be too few.
    pub(crate) fn draws_within(&self, time: &ResultsTime, z: &[f64]) -> Result<Option<usize>, Error> {
        match self {
            Problem::Regression(regression) => Predictive::draws_within(time, &regression.study, z),
            Problem::Effects(effects) => Predictive::draws_of_effects_within(time, &effects.study, z),
            _ => Ok(None),
        }
    }

    /// Number of rows, and the log likelihood of each at each of some points, in the outcome's own units.
    pub fn log_likelihood(&self, z: &[f64]) -> Result<Option<(usize, Vec<f64>)>, Error> {
        Ok(match self {
            Problem::Regression(regression) => {
                Some((regression.study.regression.data().rows(), log_likelihood(&regression.study, z)?))
            }
            Problem::Effects(effects) => {
                let study = &effects.study;
                let draws = EffectsDraws::new(study.memory.layout.clone(), z, 0)?;
                Some((study.rows.rows, draws.log_likelihood(&study.rows)?))
            }
            _ => None,
        })
    }
}

/// Log likelihood of every row for each of some draws.
fn log_likelihood(study: &Study, z: &[f64]) -> Result<Vec<f64>, Error> {
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
