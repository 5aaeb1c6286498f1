//! Models of the same outcomes, compared by leave-one-out and by their evidence.

use crate::Error;
use crate::folder::settle;
use crate::loo_rows::LooRows;
use crate::record::{FitRecord, files, read_report};
use natmix_models::stacking::stack;
use natmix_report::comparison::{ComparedEvidence, ComparedLoo, ComparedModel, Comparison};
use natmix_report::{Report, ReportedEstimate, number};
use std::path::{Path, PathBuf};

/// Differences below this are small, whatever their standard error says.
const SMALL_DIFFERENCE: f64 = 4.0;
/// Rows below which standard errors of differences are too small.
const FEW_ROWS: usize = 100;
/// k-hat above which a row is counted.
const LARGE_K_HAT: f64 = 0.7;
/// Differences within so many standard errors are no evidence for either model.
const ERRORS: f64 = 2.0;

/// A fit to compare with others.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparableFit {
    /// What it is called.
    pub name: String,
    /// Its report.
    pub report: Report,
    /// What each row contributes to its leave-one-out, if known.
    pub rows: Option<LooRows>,
}

impl ComparableFit {
    /// Reads the folder of a fit.
    pub fn load(dir: &Path, name: String) -> Result<Self, Error> {
        settle(dir)?;
        let path = dir.join(files::REPORT);
        let text = std::fs::read_to_string(&path).map_err(Error::io(format!("read {}", path.display())))?;
        let report = read_report(&text, &path.display().to_string())?;
        Ok(Self { name, report, rows: LooRows::load(&dir.join(files::LOO))? })
    }

    /// The fit that a record is of.
    pub fn of(record: FitRecord, name: String) -> Self {
        Self { name, report: record.report, rows: record.loo_rows }
    }
}

/// Reads the folders of fits; each is called by its last part, or by its whole path where two have the same.
pub fn load_all(dirs: &[PathBuf]) -> Result<Vec<ComparableFit>, Error> {
    let last = |dir: &PathBuf| dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let unique = |name: &String| dirs.iter().filter(|dir| last(dir).as_ref() == Some(name)).count() == 1;
    let name = |dir: &PathBuf| last(dir).filter(unique).unwrap_or_else(|| dir.display().to_string());
    dirs.iter().map(|dir| ComparableFit::load(dir, name(dir))).collect()
}

/// Compares fits. Fails if they are not of the same outcomes.
pub fn compare(fits: &[ComparableFit]) -> Result<Comparison, Error> {
    check_names(fits)?;
    let with_rows: Vec<(usize, &LooRows)> =
        fits.iter().enumerate().filter_map(|(i, fit)| Some((i, fit.rows.as_ref()?))).collect();
    check_outcomes(fits, &with_rows)?;
    let mut models: Vec<ComparedModel> = fits
        .iter()
        .map(|fit| ComparedModel {
            name: fit.name.clone(),
            summary: fit.report.model.summary.clone(),
            trusted: fit.report.verdict.trusted,
            loo: None,
            evidence: None,
        })
        .collect();
    let gap = add_loo(&mut models, fits, &with_rows);
    add_evidence(&mut models, fits);
    let order = |model: &ComparedModel| {
        let elpd = model.loo.as_ref().map_or(f64::NEG_INFINITY, |loo| loo.elpd);
        (elpd, model.evidence.as_ref().map_or(f64::NEG_INFINITY, |evidence| evidence.log_evidence.mean))
    };
    models.sort_by(|a, b| {
        let ((a, a_evidence), (b, b_evidence)) = (order(a), order(b));
        b.total_cmp(&a).then(b_evidence.total_cmp(&a_evidence))
    });
    let first = with_rows.first().map(|(_, rows)| &rows.about);
    let mut comparison = Comparison {
        rows: first.map(|about| about.rows),
        left_out: first.map(|about| about.left_out),
        outcome: with_rows.iter().find_map(|(_, rows)| Some(rows.about.outcome.as_ref()?.name.clone())),
        models,
        stacking_gap: gap,
        findings: Vec::new(),
        warnings: Vec::new(),
    };
    comparison.findings = findings(&comparison);
    comparison.warnings = warnings(&comparison, fits, &with_rows);
    Ok(comparison)
}

fn check_names(fits: &[ComparableFit]) -> Result<(), Error> {
    if fits.len() < 2 {
        return Err(Error::Invalid("a comparison needs at least two fits".into()));
    }
    match (1..fits.len()).find(|i| fits[..*i].iter().any(|fit| fit.name == fits[*i].name)) {
        Some(twice) => Err(Error::Invalid(format!("`{}` is given twice", fits[twice].name))),
        None => Ok(()),
    }
}

/// Fails unless all fits that have rows have the same ones.
fn check_outcomes(fits: &[ComparableFit], with_rows: &[(usize, &LooRows)]) -> Result<(), Error> {
    for (i, (second, b)) in with_rows.iter().enumerate() {
        for (first, a) in &with_rows[..i] {
            let names = (fits[*first].name.as_str(), fits[*second].name.as_str());
            let known = a.about.outcome.as_ref().zip(b.about.outcome.as_ref());
            let dropped = |rows: &LooRows| rows.about.outcome.as_ref().map_or(0, |outcome| outcome.dropped);
            let problem = if a.about.rows != b.about.rows {
                let why = match (dropped(a), dropped(b)) {
                    (0, 0) => String::new(),
                    (a, b) => format!(
                        " ({a} and {b} rows were dropped because values are missing: leave the rows with missing values out of the \
                         table, and fit both to it)"
                    ),
                };
                let (a, b) = (a.about.rows, b.about.rows);
                Some(format!("`{}` was fitted to {a} rows and `{}` to {b}{why}", names.0, names.1))
            } else if let Some((a, b)) = known {
                a.difference(b, names)
            } else {
                None
            };
            let problem = problem.or_else(|| {
                (a.about.left_out != b.about.left_out).then(|| {
                    format!(
                        "other rows were left out for `{}` than for `{}`: fit both with one version of natmix",
                        names.0, names.1
                    )
                })
            });
            if let Some(problem) = problem {
                return Err(Error::Invalid(format!("these fits cannot be compared: {problem}")));
            }
        }
    }
    Ok(())
}

/// A sum over the rows that were left out, scaled up to all rows, with its standard error.
fn total(values: impl Iterator<Item = f64> + Clone, rows: usize) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (rows as f64 * mean, rows as f64 * (variance / count).sqrt())
}

fn add_loo(models: &mut [ComparedModel], fits: &[ComparableFit], with_rows: &[(usize, &LooRows)]) -> Option<f64> {
    let totals: Vec<(f64, f64)> =
        with_rows.iter().map(|(_, rows)| total(rows.elpd.iter().copied(), rows.about.rows)).collect();
    let best = (0..totals.len()).max_by(|a, b| totals[*a].0.total_cmp(&totals[*b].0).then(b.cmp(a)))?;
    let columns: Vec<&[f64]> = with_rows.iter().map(|(_, rows)| rows.elpd.as_slice()).collect();
    let stacked = stack(&columns);
    for (at, (model, rows)) in with_rows.iter().enumerate() {
        let pairs = rows.elpd.iter().zip(columns[best]).map(|(own, best)| own - best);
        let (difference, difference_se) = if at == best { (0.0, 0.0) } else { total(pairs, rows.about.rows) };
        let loo = fits[*model].report.loo.as_ref();
        let counted = |limit: f64| rows.k_hats_that_count().filter(|k_hat| k_hat.is_nan() || *k_hat > limit).count();
        models[*model].loo = Some(ComparedLoo {
            elpd: totals[at].0,
            se: totals[at].1,
            difference,
            difference_se,
            p_loo: loo.map_or(f64::NAN, |loo| loo.p_loo),
            worst_k_hat: worst_k_hat(rows),
            k_hat_above: counted(LARGE_K_HAT),
            bad_rows: counted(rows.about.k_threshold),
            weight: stacked.weights[at],
        });
    }
    Some(stacked.gap)
}

/// The largest k-hat of a row, of those that mean something if there are any.
fn worst_k_hat(rows: &LooRows) -> f64 {
    let counted = rows.k_hats_that_count().fold(f64::NEG_INFINITY, f64::max);
    if counted.is_finite() { counted } else { rows.k_hats.iter().copied().fold(f64::NEG_INFINITY, f64::max) }
}

/// Bayes factors, and probabilities if all models were equally likely. Errors follow from those of the log evidences to first order:
/// with `d p_k = p_k (d l_k - sum_j p_j d l_j)`.
fn add_evidence(models: &mut [ComparedModel], fits: &[ComparableFit]) {
    let known: Vec<(usize, ReportedEstimate)> = fits
        .iter()
        .enumerate()
        .map(|(i, fit)| (i, fit.report.log_evidence))
        .filter(|(_, evidence)| evidence.mean.is_finite())
        .collect();
    let Some(best) = known.iter().map(|(_, evidence)| *evidence).max_by(|a, b| a.mean.total_cmp(&b.mean)) else {
        return;
    };
    let total: f64 = known.iter().map(|(_, evidence)| (evidence.mean - best.mean).exp()).sum();
    let probability = |evidence: &ReportedEstimate| (evidence.mean - best.mean).exp() / total;
    let squares: f64 = known.iter().map(|(_, evidence)| (probability(evidence) * evidence.se).powi(2)).sum();
    for (model, evidence) in &known {
        let p = probability(evidence);
        let variance = (1.0 - p).powi(2) * evidence.se.powi(2) + squares - (p * evidence.se).powi(2);
        let is_best = evidence.mean == best.mean;
        models[*model].evidence = Some(ComparedEvidence {
            log_evidence: *evidence,
            log_bayes_factor: ReportedEstimate {
                mean: evidence.mean - best.mean,
                se: if is_best { 0.0 } else { evidence.se.hypot(best.se) },
            },
            probability: ReportedEstimate { mean: p, se: p * variance.max(0.0).sqrt() },
        });
    }
}

fn findings(comparison: &Comparison) -> Vec<String> {
    let mut findings = Vec::new();
    let by_loo: Vec<(&str, &ComparedLoo)> =
        comparison.models.iter().filter_map(|model| Some((model.name.as_str(), model.loo.as_ref()?))).collect();
    if let [(best, _), others @ ..] = &by_loo[..]
        && !others.is_empty()
    {
        let close: Vec<&str> = others.iter().filter(|(_, loo)| !is_clear(loo)).map(|(name, _)| *name).collect();
        findings.push(match close.len() {
            0 => format!(
                "`{best}` predicts rows that it has not seen best: every other model is worse by at least {SMALL_DIFFERENCE} and by more \
                 than two standard errors."
            ),
            _ => format!(
                "`{best}` has the largest expected log predictive density, but {} {} not clearly worse.",
                listed(&close),
                if close.len() == 1 { "is" } else { "are" }
            ),
        });
    }
    let with_evidence = comparison.models.iter().filter_map(|model| Some((model, model.evidence.as_ref()?)));
    if let Some((best, evidence)) =
        with_evidence.clone().max_by(|a, b| a.1.probability.mean.total_cmp(&b.1.probability.mean))
        && with_evidence.count() > 1
    {
        findings.push(format!(
            "By the evidence `{}` has posterior probability {}, if all models are equally likely before the data. That depends on the \
             priors of the coefficients, as leave-one-out hardly does.",
            best.name,
            evidence.probability_in_words()
        ));
    }
    findings
}

/// Whether a model is clearly worse than the best.
fn is_clear(loo: &ComparedLoo) -> bool {
    loo.difference.abs() >= SMALL_DIFFERENCE && loo.difference.abs() > ERRORS * loo.difference_se
}

fn warnings(comparison: &Comparison, fits: &[ComparableFit], with_rows: &[(usize, &LooRows)]) -> Vec<String> {
    let mut warnings = Vec::new();
    let names = |keep: &dyn Fn(&ComparedModel) -> bool| -> Vec<&str> {
        comparison.models.iter().filter(|model| keep(model)).map(|model| model.name.as_str()).collect()
    };
    let untrusted = names(&|model| model.trusted == Some(false));
    if !untrusted.is_empty() {
        warnings.push(format!(
            "do not rely on the figures of {}: the fit cannot be trusted (its page says why)",
            listed(&untrusted)
        ));
    }
    let known = |fit: &ComparableFit| fit.rows.is_some() || fit.report.log_evidence.mean.is_finite();
    for fit in fits.iter().filter(|fit| fit.rows.is_none()) {
        let name = &fit.name;
        warnings.push(match (fit.report.loo.is_some(), known(fit)) {
            (true, _) => format!("what each row contributes was not stored with `{name}`, which an earlier version fitted: fit it again"),
            (false, true) => format!(
                "`{name}` has no rows whose outcomes it predicts, so there is no leave-one-out for it: it is compared by its evidence only, \
                 and only you know whether that is of the same data"
            ),
            (false, false) => format!("`{name}` has neither leave-one-out nor a known evidence: nothing about it can be compared"),
        });
    }
    let by_loo: Vec<&ComparedModel> = comparison.models.iter().filter(|model| model.loo.is_some()).collect();
    for model in &by_loo {
        let Some(loo) = &model.loo else { continue };
        if loo.bad_rows > 0 {
            let (rows, verb) = if loo.bad_rows == 1 { ("row of", "has") } else { ("rows of", "have") };
            warnings.push(format!(
                "{} {rows} `{}` {verb} so much influence that leaving one out by weights cannot be trusted (k-hat up to {}): its figures \
                 may be too good. Look at these rows, or use a model with heavier tails",
                loo.bad_rows,
                model.name,
                number::fixed(loo.worst_k_hat, 2)
            ));
        }
    }
    let small = |model: &&&ComparedModel| model.loo.as_ref().is_some_and(|loo| loo.difference.abs() < SMALL_DIFFERENCE);
    let small: Vec<&str> = by_loo.iter().skip(1).filter(small).map(|model| model.name.as_str()).collect();
    if !small.is_empty() {
        warnings.push(format!(
            "a difference below {SMALL_DIFFERENCE} is small, and its standard error is then not reliable: `{}` and {} predict about equally well",
            by_loo[0].name,
            listed(&small)
        ));
    }
    if let Some(rows) = comparison.rows.filter(|rows| by_loo.len() > 1 && *rows < FEW_ROWS) {
        warnings.push(format!(
            "with {rows} rows (fewer than {FEW_ROWS}) the standard errors of differences are too small: read them as twice as large"
        ));
    }
    let discrete = |rows: &LooRows| rows.about.outcome.as_ref().map(|outcome| outcome.discrete);
    let of_kind = |kind: bool| -> Vec<&str> {
        let kept = with_rows.iter().filter(|(_, rows)| discrete(rows) == Some(kind));
        kept.map(|(fit, _)| fits[*fit].name.as_str()).collect()
    };
    let (counts, densities) = (of_kind(true), of_kind(false));
    if !counts.is_empty() && !densities.is_empty() {
        warnings.push(format!(
            "{} gives probabilities of whole numbers and {} densities: they can be compared only as far as a density is the probability of \
             an interval of length one",
            listed(&counts),
            listed(&densities)
        ));
    }
    let unknown: Vec<&str> = with_rows
        .iter()
        .filter(|(_, rows)| rows.about.outcome.is_none())
        .map(|(fit, _)| fits[*fit].name.as_str())
        .collect();
    if !unknown.is_empty() {
        warnings.push(format!(
            "natmix does not know the outcomes of {}: make sure that `log_lik` is of the same outcomes in the same order",
            listed(&unknown)
        ));
    }
    if let (Some(rows), Some(left_out)) = (comparison.rows, comparison.left_out)
        && left_out < rows
    {
        let (rows, left_out) = (number::count(rows as u64), number::count(left_out as u64));
        warnings.push(format!(
            "of {rows} rows {left_out}, evenly spaced, were left out in turn: sums are scaled up, and errors include it"
        ));
    }
    warnings
}

/// Names in a sentence.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [first @ .., last] => format!("`{}` and `{last}`", first.join("`, `")),
    }
}
