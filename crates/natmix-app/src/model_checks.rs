//! Remarks on a regression itself: whether it could have made the data, rows with much influence, exact fits and separation.
//! They are about the model, not about the fit, and never change the verdict.

use natmix_models::LooFigures;
use natmix_models::checks::PredictiveCheck;
use natmix_report::{InfluentialRow, ModelCheck, Scores};

/// p-values below this, or as close to one, are remarked on.
const EXTREME: f64 = 0.01;
/// Dispersion that is worth a remark, as a factor.
const NOTABLE_DISPERSION: f64 = 1.2;
/// Residuals below this share of the outcome's own standard deviation make an exact fit.
const EXACT: f64 = 1e-5;
/// Bars of a picture.
const BARS: usize = 24;
/// Most rows that are listed by number.
const MOST_LISTED: usize = 20;
/// Largest share of influential rows that is due to the rows: with more, leave-one-out itself fails.
const FEW_ROWS: f64 = 0.1;

/// A statistic for the report, with its bars.
pub fn for_report(check: &PredictiveCheck) -> ModelCheck {
    let mut sorted = check.replicated.clone();
    sorted.sort_by(f64::total_cmp);
    let quantile = |share| crate::summary::quantile(&sorted, share);
    let (low, high) = (sorted.first().copied().unwrap_or(0.0), sorted.last().copied().unwrap_or(0.0));
    let finite = sorted.iter().all(|x| x.is_finite());
    let (low, high) = if finite { (low, high) } else { (0.0, 0.0) };
    let mut bars = vec![0.0; if finite { BARS } else { 0 }];
    for x in sorted.iter().filter(|_| finite) {
        let place = if high > low { ((x - low) / (high - low) * BARS as f64) as usize } else { BARS / 2 };
        bars[place.min(BARS - 1)] += 1.0 / sorted.len() as f64;
    }
    ModelCheck {
        statistic: check.statistic.into(),
        observed: check.observed,
        mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        q05: quantile(0.05),
        q95: quantile(0.95),
        p: check.p,
        range: (low, high),
        bars,
    }
}

/// The rows whose influence leave-one-out cannot handle, the most influential first.
pub fn influential_rows(loo: &LooFigures) -> Vec<InfluentialRow> {
    let bad = (0..loo.left_out.len()).filter(|&i| !loo.trusted(i) && loo.k_hats[i].is_finite());
    let mut rows: Vec<InfluentialRow> =
        bad.map(|i| InfluentialRow { row: loo.left_out[i] + 1, k_hat: loo.k_hats[i] }).collect();
    rows.sort_by(|a, b| b.k_hat.total_cmp(&a.k_hat));
    rows.truncate(MOST_LISTED);
    rows
}

/// Remarks on a `model`, by its name on the command line, each with a remedy.
pub fn notes(model: &str, checks: &[ModelCheck], train: &Scores, loo: &LooFigures) -> Vec<String> {
    let observed = |statistic: &str| checks.iter().find(|check| check.statistic == statistic);
    let spread = observed("sd").map_or(0.0, |check| check.observed);
    if model == "linear" && train.rmse.is_some_and(|rmse| spread > 0.0 && rmse < EXACT * spread) {
        // Nothing else can be said about residuals that are rounding errors.
        return vec![
            "the model fits exactly: the outcome is a linear function of the features, up to rounding. Look for a feature \
             that was computed from the outcome; standard deviations mean nothing here"
                .into(),
        ];
    }
    let mut notes = Vec::new();
    if model == "logistic" && train.auroc == Some(1.0) {
        notes.push(
            "the classes are separated by the features: the prior alone keeps the coefficients finite (a smaller --prior-sd \
             keeps them smaller, or leave out the feature that separates)"
                .into(),
        );
    }
    if model == "softmax" && train.accuracy == Some(1.0) {
        notes.push(
            "all classes are separated by the features: the prior alone keeps the coefficients finite (a smaller --prior-sd \
             keeps them smaller, or leave out the feature that separates)"
                .into(),
        );
    }
    let too_dispersed = |check: &ModelCheck| check.p < EXTREME && check.observed > NOTABLE_DISPERSION;
    let dispersed = observed("dispersion").is_some_and(too_dispersed);
    for check in checks {
        let (low, high) = (check.p < EXTREME, check.p > 1.0 - EXTREME);
        let (observed, mean) = (check.observed, check.mean);
        let note = match check.statistic.as_str() {
            "dispersion" if dispersed && model == "poisson" => format!(
                "the counts vary {observed:.1} times as much as a Poisson allows: intervals are too narrow by a factor of \
                 about {:.1} (a negative binomial, or an effect per observation, allows for that)",
                observed.sqrt()
            ),
            "dispersion" if dispersed && model != "linear" => format!(
                "the outcomes vary {observed:.1} times as much as the model says: intervals are too narrow (an effect per \
                 observation allows for that)"
            ),
            "dispersion" if dispersed => format!(
                "residuals vary {observed:.1} times as much as --noise-sd says: leave it out, and the noise is inferred"
            ),
            "dispersion" if high && observed < 1.0 / NOTABLE_DISPERSION => format!(
                "the outcomes vary only {observed:.2} times as much as the model says: intervals are too wide"
            ),
            "zeros" if (low || high) && !(dispersed && low) => format!(
                "{:.1}% of the counts are zero where the model expects {:.1}%: zeros may have a cause of their own",
                100.0 * observed,
                100.0 * mean
            ),
            "largest residual" if low => format!(
                "the largest residual is {observed:.1} times the noise, where the model expects {mean:.1}: look at that row, \
                 or use a model with heavier tails"
            ),
            "calibration" if low => {
                "observed frequencies differ from the predicted probabilities by more than chance: a feature may need a \
                 transformation, or two of them an interaction"
                    .into()
            }
            _ => continue,
        };
        notes.push(note);
    }
    notes.extend(influence(loo));
    notes
}

fn influence(loo: &LooFigures) -> Option<String> {
    let rows = influential_rows(loo);
    let few = loo.too_large() as f64 <= FEW_ROWS * loo.left_out.len() as f64;
    let first = rows.first().filter(|_| few)?;
    let listed: Vec<String> = rows.iter().take(5).map(|row| row.row.to_string()).collect();
    let (more, plural) = (loo.too_large().saturating_sub(listed.len()), if rows.len() == 1 { "" } else { "s" });
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "row{plural} {}{more} of the table (the first is 1) {} so much influence that leaving one out changes the fit \
         (k-hat up to {:.2}): check {}, and compare the fit without {}",
        listed.join(", "),
        if plural.is_empty() { "has" } else { "have" },
        first.k_hat,
        if plural.is_empty() { "it" } else { "them" },
        if plural.is_empty() { "it" } else { "them" },
    ))
}
