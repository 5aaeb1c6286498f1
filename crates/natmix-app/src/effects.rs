//! Regressions with varying effects, priors by name and further families: from settings and a table to the problem, and how well a
//! fit predicts its rows.

use crate::Error;
use crate::loo_rows::LooRows;
use crate::model_checks;
use crate::outcome_mark::OutcomeMark;
use crate::predictive::{self, Predictive};
use crate::problem::name_of;
use crate::settings::{ModelKind, Settings};
use crate::shared::agree;
use crate::time::ResultsTime;
use natmix::diagnose::weigh_draws;
use natmix::family::Mixture;
use natmix::target::Target;
use natmix_models::effects::{
    self, EffectsDraws, EffectsOptions, EffectsRows, EffectsStudy, Family, PriorStatement, SurvivalCurves,
};
use natmix_models::ranks::Ranks;
use natmix_models::scores::spaced;
use natmix_models::study::StudyError;
use natmix_models::{ClassScores, Formula, Scored, Table};
use natmix_report::{ClassPredictions, ConditionalEffect, GroupEstimates, ModelCheck, Scores, SurvivalCheck};
use std::path::Path;
use std::sync::Arc;

/// A regression with its data.
pub struct TableEffects {
    /// The table and its regression.
    pub study: EffectsStudy,
    /// Rows to score predictions on.
    pub test: Option<EffectsRows>,
    pub(crate) summary: String,
}

/// The formula and the family, where the settings describe such a regression: one with a family that has no other form, with varying
/// effects or smooths, or with priors by name.
pub(crate) fn described(settings: &Settings) -> Result<Option<(Formula, Family)>, Error> {
    let fit = &settings.fit;
    let Some(family) = fit.model.and_then(ModelKind::family) else { return Ok(None) };
    let simple = fit.model.and_then(ModelKind::regression).is_some() && fit.prior.is_none();
    let formula = match &fit.formula {
        Some(text) => Formula::parse(text).map_err(StudyError::from)?,
        None if simple => return Ok(None),
        None if fit.outcome.is_none() => {
            return Err(Error::setting("outcome", format!("is missing: {} needs it, or a formula", family.name())));
        }
        None => Formula::of_roles(&settings.design(), fit.trials.as_deref(), fit.event.as_deref())
            .map_err(StudyError::from)?,
    };
    if simple && !formula.has_varying() {
        return Ok(None);
    }
    let instead = [
        ("prior_sd", "state priors with `prior` instead, such as 'x ~ normal(0, 1)'"),
        ("noise_sd", "the noise is inferred (leave it out)"),
        ("standardize", "columns are always scaled for the fit; priors and results are in their own units"),
        ("stream", "its rows are kept in memory"),
    ];
    match fit.given().find_map(|setting| instead.iter().find(|(name, _)| *name == setting)) {
        Some((setting, instead)) => {
            let problem = format!("has no meaning with varying effects, priors by name or this family: {instead}");
            Err(Error::setting(setting, problem))
        }
        None => Ok(Some((formula, family))),
    }
}

impl TableEffects {
    /// Reads the table that the settings name. If processes share it, each of them calls this.
    pub(crate) fn load(
        settings: &Settings,
        formula: &Formula,
        family: Family,
        ranks: Option<&Arc<Ranks>>,
    ) -> Result<Self, Error> {
        let missing = || Error::setting("data", format!("is missing: {} needs it", family.name()));
        let path = settings.fit.data.as_deref().ok_or_else(missing)?;
        let mut reading = settings.reading()?;
        let (named, all) = formula.columns();
        (reading.named, reading.named_only) = (named, all);
        let table = Table::read_with(path, &reading)?;
        let mut this = Self::of_table(table, settings, formula, family, Some(path))?;
        if let Some(ranks) = ranks {
            this.share(settings, ranks)?;
        }
        // The other processes do not score predictions.
        let scores = ranks.is_none_or(|ranks| ranks.leads());
        if let Some(path) = settings.fit.test.as_deref().filter(|_| scores) {
            let (rows, facts) = this.study.memory.read(path, settings.fit.missing.unwrap_or_default())?;
            if rows.outcome.is_none() {
                let outcome = this.study.memory.outcome();
                let problem = format!("{} has no column `{outcome}` to score predictions on", path.display());
                return Err(Error::Invalid(problem));
            }
            let notes = facts.notes(None).into_iter().map(|note| format!("{}: {note}", name_of(path)));
            this.study.notes.extend(notes);
            this.test = Some(rows);
        }
        Ok(this)
    }

    fn share(&mut self, settings: &Settings, ranks: &Arc<Ranks>) -> Result<(), Error> {
        if settings.engine.minibatch.is_some() {
            let problem = "works with one process only where effects vary: leave it out, or start without mpirun";
            return Err(Error::setting("minibatch", problem));
        }
        let study = &mut self.study;
        let (columns, memory) = (study.model.parameter_names(), &study.memory);
        agree(ranks, settings, columns, format!("{} rows, {memory:?}", study.rows.rows))?;
        study.share(ranks);
        Ok(())
    }

    /// From a table in memory.
    pub(crate) fn of_table(
        table: Table,
        settings: &Settings,
        formula: &Formula,
        family: Family,
        file: Option<&Path>,
    ) -> Result<Self, Error> {
        let statements = settings.fit.prior.iter().flatten().map(|text| text.parse::<PriorStatement>());
        let options = EffectsOptions {
            formula: settings.formula_options(),
            priors: statements.collect::<Result<_, _>>()?,
            categories: settings.fit.levels.clone(),
        };
        let study = EffectsStudy::new(table, formula, family, &options)?;
        let summary = describe(&study, file);
        Ok(Self { study, test: None, summary })
    }
}

/// One line about a regression.
fn describe(study: &EffectsStudy, file: Option<&Path>) -> String {
    let layout = &study.memory.layout;
    let coefficients = layout.coefficient_names().len();
    let groups: Vec<String> = layout
        .groupings()
        .iter()
        .map(|group| match group.levels.len() {
            1 => format!(", `{}`", group.name),
            levels => format!(", {levels} levels of `{}`", group.name),
        })
        .collect();
    let name = layout.family().name();
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!(
        "{article} {} regression of `{}` on {coefficients} coefficient{}{} ({}{} rows)",
        name,
        study.memory.outcome(),
        if coefficients == 1 { "" } else { "s" },
        groups.concat(),
        file.map_or_else(String::new, |file| format!("{}, ", name_of(file))),
        study.rows.rows
    )
}

impl Predictive {
    /// How many of the draws `z` there is time to measure with; none if they would be too few.
    pub(crate) fn draws_of_effects_within(
        time: &ResultsTime,
        study: &EffectsStudy,
        z: &[f64],
    ) -> Result<Option<usize>, natmix::Error> {
        predictive::affordable(time, z.len() / study.model.dim(), |draws| {
            let z = &z[..draws * study.model.dim()];
            let draws = EffectsDraws::new(study.memory.layout.clone(), z, 0)?;
            draws.log_predictive(&study.rows, &(0..study.rows.rows).collect::<Vec<_>>())?;
            Ok(())
        })
    }

    /// Measures them with draws `z` in the fitted space, those that the fit delivers; and whether they are of chains.
    pub fn of_effects(
        study: &EffectsStudy,
        test_rows: Option<&EffectsRows>,
        q: &Mixture,
        (z, of_chains): (&[f64], bool),
        seed: u64,
    ) -> Result<Self, Error> {
        let (rows, d) = (&study.rows, q.dim());
        let draws_of = |z: &[f64]| EffectsDraws::new(study.memory.layout.clone(), z, seed);
        let count = predictive::draws_for_scores(rows.rows).min(z.len() / d);
        let draws = draws_of(&z[..count * d])?;
        let train = scores(draws.score(rows)?);
        let test = test_rows.map(|rows| draws.score(rows).map(scores)).transpose()?;
        let class_predictions = class_predictions(study, &draws, test_rows)?;
        let smoothed = predictive::draws_to_smooth(count);
        let found = if of_chains && z.len() >= smoothed * d {
            draws_of(&z[..smoothed * d])?.loo(rows, &vec![0.0; smoothed], predictive::TERMS)?
        } else {
            let weighted = weigh_draws(&study.model, q, smoothed, seed)?;
            draws_of(&weighted.draws)?.loo(rows, &weighted.log_ratios, predictive::TERMS)?
        };
        let loo = predictive::loo_for_report(&found, 0.0);
        let loo_rows = LooRows::new(&found, 0.0, None, Some(OutcomeMark::of_effects(study)));
        let log_likelihood = match predictive::draws_to_keep(rows.rows, count) {
            Some(kept) => Some((rows.rows, draws_of(&z[..kept * d])?.log_likelihood(rows)?)),
            None => None,
        };
        let checked = predictive::draws_to_check(rows.rows).min(count);
        let checked = draws_of(&z[..checked * d])?;
        let compared = checked.predictive_checks(rows)?;
        let model_checks: Vec<ModelCheck> = compared.statistics.iter().map(model_checks::for_report).collect();
        let levels = study.memory.levels();
        let names = match study.memory.layout.family() {
            Family::Logistic => Some(predictive::class_names(2, levels)),
            Family::Ordinal { categories } => Some(predictive::class_names(categories, levels)),
            _ => None,
        };
        let outcome_check = compared.outcome.map(|bars| predictive::outcome_check(bars, study.memory.outcome(), names));
        let group_estimates = draws.group_estimates(rows).into_iter().map(groups_for_report).collect();
        let survival_check = checked.survival_curves(rows).map(|curves| survival_for_report(study, curves));
        let conditional_effects = conditional_effects(study, &draws)?;
        let family = study.memory.layout.family();
        let model_notes = model_checks::notes(family.name(), &model_checks, &train, &found);
        Ok(Self {
            train,
            test,
            loo,
            loo_rows,
            log_likelihood,
            model_checks,
            outcome_check,
            class_predictions,
            group_estimates,
            survival_check,
            conditional_effects,
            model_notes,
        })
    }
}

/// Predicted classes of test rows or, without any, of rows of the fit, each predicted without itself.
fn class_predictions(
    study: &EffectsStudy,
    draws: &EffectsDraws,
    test: Option<&EffectsRows>,
) -> Result<Option<ClassPredictions>, natmix::Error> {
    if !matches!(study.memory.layout.family(), Family::Logistic | Family::Ordinal { .. }) {
        return Ok(None);
    }
    let rows = test.unwrap_or(&study.rows);
    let which: Vec<usize> = spaced(rows.rows, predictive::MOST_CLASSED).collect();
    let outcome: Vec<f64> =
        rows.outcome.as_ref().map_or(Vec::new(), |outcome| which.iter().map(|row| outcome[*row]).collect());
    let scores = match test {
        Some(_) => ClassScores::of(&draws.predict(rows, &which, false)?, &outcome),
        None => draws
            .left_out_probabilities(rows, &which)
            .map(|(classes, probability)| ClassScores::of_probabilities(classes, &probability, &outcome)),
    };
    Ok(scores.map(|scores| predictive::of_classes(&scores, study.memory.levels(), test.is_some())))
}

fn groups_for_report(found: effects::GroupEstimates) -> GroupEstimates {
    let effects::GroupEstimates { grouping, column, levels, rows, partial, alone, shared, pooled } = found;
    GroupEstimates { grouping, column, levels, rows, partial, alone, shared, pooled }
}

fn survival_for_report(study: &EffectsStudy, curves: SurvivalCurves) -> SurvivalCheck {
    let SurvivalCurves { times, observed, replicated, rows, censored } = curves;
    SurvivalCheck { outcome: study.memory.outcome().to_owned(), times, observed, replicated, rows, censored }
}

fn conditional_effects(study: &EffectsStudy, draws: &EffectsDraws) -> Result<Vec<ConditionalEffect>, Error> {
    let (memory, outcome) = (&study.memory, study.memory.outcome());
    let family = memory.layout.family();
    let expected = match family {
        Family::Ordinal { .. } => format!("probability of each {outcome}"),
        Family::Logistic => predictive::probability_of(outcome, memory.levels()),
        Family::Binomial => format!("share of {outcome}"),
        _ => format!("mean of {outcome}"),
    };
    let classes = if let Family::Ordinal { categories } = family { categories } else { 0 };
    let classes = predictive::class_names(classes, memory.levels());
    Ok(predictive::effects_for_report(study.conditional_effects(draws, predictive::MOST_EFFECTS)?, &expected, &classes))
}

fn scores(Scored { scores, calibration, roc, residuals }: Scored) -> Scores {
    Scores {
        rows: scores.rows,
        nll: Some(scores.nll),
        accuracy: scores.accuracy,
        brier: scores.brier,
        ece: scores.ece,
        auroc: scores.auroc,
        rmse: scores.rmse,
        calibration: calibration.iter().map(|bin| (bin.predicted, bin.observed, bin.count)).collect(),
        roc,
        residuals,
        ..Scores::default()
    }
}
