//! Whether to trust the predictions of a trained network: two checks, and what was not measured.
//!
//! | check | passed if |
//! |---|---|
//! | convergence | the mean training loss of the last tenth of the epochs differs from that of the tenth before by at most 0.01 nats per row or 2% of its fall since the first epoch, whichever is more, plus two standard errors; or training ended because the validation loss no longer improved |
//! | calibration | on test rows, or else on validation rows, the expected calibration error is at most 0.02, or what the sampling of rows and the number of draws explain; for numbers the same for the coverage of 90% intervals |
//!
//! Too few epochs or rows leave a check open. A failed check means `false`, an open one `None`, two passed ones `true`.

use super::data::NetworkData;
use crate::finished::Finished;
use crate::summary;
use natmix::answer::level::Level;
use natmix_report::{Scores, VerdictSummary};

/// Fewest epochs whose loss can be judged.
const FEWEST_EPOCHS: usize = 4;
/// Change of the loss that does not count, in nats per row and as a share of its fall since the first epoch.
const SMALL_CHANGE: f64 = 0.01;
const SMALL_SHARE: f64 = 0.02;
/// Calibration error that does not count, however many rows show it.
const SMALL_ERROR: f64 = 0.02;
/// Calibration error that must be visible: with too few rows for that a check says nothing.
const VISIBLE_ERROR: f64 = 0.1;
/// Probability of the interval whose coverage is checked.
const INTERVAL: f64 = 0.9;

/// The training loss over the last tenth of the epochs, and over the tenth before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossTrend {
    before: f64,
    last: f64,
    /// Change that counts as none.
    allowed: f64,
}

impl LossTrend {
    /// From the loss of every epoch; `None` for too few of them.
    pub fn of(losses: &[f64]) -> Option<Self> {
        if losses.len() < FEWEST_EPOCHS {
            return None;
        }
        let tenth = (losses.len() / 10).max(1);
        let (earlier, last) = losses.split_at(losses.len() - tenth);
        let (before, last) = (&earlier[earlier.len() - tenth..], last);
        let [(before, a), (last, b)] = [before, last].map(mean_and_error);
        let fall = (losses[0] - last).max(0.0);
        let allowed = SMALL_CHANGE.max(SMALL_SHARE * fall) + 2.0 * a.hypot(b);
        Some(Self { before, last, allowed })
    }

    /// Whether the loss hardly changed.
    pub fn converged(&self) -> bool {
        (self.last - self.before).abs() <= self.allowed
    }
}

fn mean_and_error(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance / n).sqrt())
}

/// The outcome of one check, in words.
enum Check {
    Passed(String),
    Failed(String),
    Open(String),
}

fn convergence(found: &Finished) -> Check {
    if found.stop.reason == "validation" {
        return Check::Passed("training ended because the validation loss no longer improved".into());
    }
    let Some(loss) = found.loss else {
        return Check::Open(format!("convergence of the loss ({FEWEST_EPOCHS} epochs are needed to judge it)"));
    };
    let figures =
        format!("{:.4} per row over the last tenth of the epochs, {:.4} over the tenth before", loss.last, loss.before);
    match loss.converged() {
        true => Check::Passed(format!("the training loss has converged ({figures})")),
        false => Check::Failed(format!("the training loss was still changing ({figures}): train for more epochs")),
    }
}

/// Calibration on the rows called `name`.
fn calibration(name: &str, scores: &Scores) -> Check {
    let rows = scores.rows;
    let (what, error, limit, overconfident) = match (scores.ece, scores.ece_limit, scores.coverage) {
        (Some(ece), Some(limit), _) => (format!("ECE {ece:.3}"), ece, limit, scores.confidence > scores.accuracy),
        (_, _, Some(coverage)) => {
            let limit = 3.0 * (INTERVAL * (1.0 - INTERVAL) / rows as f64).sqrt();
            let what = format!("{:.1}% of them inside the 90% interval", 100.0 * coverage);
            (what, (coverage - INTERVAL).abs(), limit, coverage < INTERVAL)
        }
        _ => return Check::Open("calibration".into()),
    };
    let allowed = limit.max(SMALL_ERROR);
    if error > allowed {
        let remedy = match overconfident {
            true => "overconfident: try more components, a smaller first precision, or more rows",
            false => "underconfident: try a larger first precision, or a smaller prior precision",
        };
        return Check::Failed(format!(
            "predictions are not calibrated on {rows} {name} rows ({what}; an error of {allowed:.3} is allowed); they are {remedy}"
        ));
    }
    if limit > VISIBLE_ERROR {
        return Check::Open(format!(
            "calibration ({rows} {name} rows are too few: chance explains errors up to {limit:.2})"
        ));
    }
    Check::Passed(format!(
        "predictions are calibrated on {rows} {name} rows ({what}; an error of {allowed:.3} is allowed)"
    ))
}

/// The verdict on a network. `held_out` are the name and the scores of rows that it was not trained on.
pub fn verdict(data: &NetworkData, found: &Finished, held_out: Option<(&str, &Scores)>) -> VerdictSummary {
    let (what, q) = (data.describe(), &found.mixture);
    if let Some(diagnostics) = &found.diagnostics {
        let mut verdict = summary::verdict(&what, q.len(), q.len(), diagnostics);
        if matches!(diagnostics.level, Level::Weighted | Level::Chains) {
            // Predictions average over draws of the mixture itself.
            verdict.trusted = Some(false);
            let problem = "the mixture's own draws, which a network predicts with, are not accurate enough";
            verdict.reasons.push(format!("{problem}: try more components"));
        }
        return verdict;
    }
    let parts = match (found.points, q.len()) {
        (true, 1) => "one plain network".to_owned(),
        (true, n) => format!("an ensemble of {n} plain networks"),
        (false, 1) => "one Gaussian over its weights".to_owned(),
        (false, k) => format!("a mixture of {k} Gaussians over its weights"),
    };
    let mut notes = found.notes.clone();
    if found.interrupted() {
        let sentence = format!("Training of {what} was interrupted; the state reached is {parts}. It was not judged.");
        return VerdictSummary { trusted: None, sentence, reasons: Vec::new(), notes };
    }
    let calibrated = match held_out {
        Some((name, scores)) => calibration(name, scores),
        None => Check::Open("calibration (there are no test or validation rows)".into()),
    };
    let (mut passed, mut reasons, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for check in [convergence(found), calibrated] {
        match check {
            Check::Passed(words) => passed.push(words),
            Check::Failed(words) => reasons.push(words),
            Check::Open(words) => open.push(words),
        }
    }
    let (trusted, judgement) = match (reasons.len(), open.is_empty()) {
        (0, true) => (
            Some(true),
            format!("Measured: {}. You can use its predictions for rows of the same kind.", passed.join("; ")),
        ),
        (0, false) => {
            (None, format!("Whether to trust its predictions is not known. Not measured: {}.", open.join("; ")))
        }
        (1, _) => (Some(false), "Do not rely on its predictions as they stand, for the reason below.".to_owned()),
        _ => (Some(false), "Do not rely on its predictions as they stand, for the reasons below.".to_owned()),
    };
    if trusted != Some(true) {
        notes.extend(passed);
    }
    if trusted == Some(false) {
        notes.extend(open.iter().map(|words| format!("not measured: {words}")));
    }
    if !found.points {
        notes.push(
            "only predictions are judged: how well the mixture covers the posterior of the weights was not measured"
                .into(),
        );
    }
    VerdictSummary { trusted, sentence: format!("Trained {what}: {parts}. {judgement}"), reasons, notes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_still_falls_has_not_converged() {
        let falling: Vec<f64> = (0..40).map(|i| 1.0 - 0.02 * f64::from(i)).collect();
        assert!(!LossTrend::of(&falling).unwrap().converged());
        let flat: Vec<f64> = (0..40).map(|i| 0.3 + (-0.4 * f64::from(i)).exp()).collect();
        assert!(LossTrend::of(&flat).unwrap().converged());
        // A rise counts too, and noise does not.
        let rising: Vec<f64> = (0..40).map(|i| if i < 36 { 0.3 } else { 0.5 }).collect();
        assert!(!LossTrend::of(&rising).unwrap().converged());
        let noisy: Vec<f64> = (0..100).map(|i| 0.3 + 0.05 * (7.7 * f64::from(i)).sin()).collect();
        assert!(LossTrend::of(&noisy).unwrap().converged());
        assert_eq!(LossTrend::of(&[1.0, 0.5, 0.5]), None);
    }

    #[test]
    fn calibration_is_judged_against_chance() {
        let classes = |ece, limit| Scores { rows: 300, ece: Some(ece), ece_limit: Some(limit), ..Scores::default() };
        assert!(matches!(calibration("test", &classes(0.04, 0.05)), Check::Passed(_)));
        assert!(matches!(calibration("test", &classes(0.06, 0.05)), Check::Failed(_)));
        // A small error passes however many rows show it; too few rows show nothing, unless the error is large.
        assert!(matches!(calibration("test", &classes(0.015, 0.004)), Check::Passed(_)));
        assert!(matches!(calibration("test", &classes(0.1, 0.2)), Check::Open(_)));
        assert!(matches!(calibration("test", &classes(0.3, 0.2)), Check::Failed(_)));
        let numbers = |rows, coverage| Scores { rows, coverage: Some(coverage), ..Scores::default() };
        assert!(matches!(calibration("test", &numbers(1000, 0.89)), Check::Passed(_)));
        assert!(matches!(calibration("test", &numbers(1000, 0.8)), Check::Failed(_)));
        assert!(matches!(calibration("test", &numbers(30, 0.9)), Check::Open(_)));
    }
}
