//! Whether to trust a fit: what the diagnostics and the search say, in words.

use super::diagnose::Diagnostics;
use crate::strategy::automatic::SearchSummary;
use serde::Serialize;

/// Largest share of draws that may fall where the density is zero or cannot be evaluated.
const MOST_DROPPED: f64 = 0.01;

/// Relative variance of the importance weights below which k-hat is ignored: they then hardly differ (an effective
/// sample size of 98%), and the shape of their tail says nothing about the fit.
const NEARLY_EQUAL: f64 = 0.02;

/// Whether to trust a fit, and why not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The answer.
    pub trusted: bool,
    /// Reasons not to trust it, each with what to try.
    pub reasons: Vec<String>,
    /// Remarks that do not count against it.
    pub notes: Vec<String>,
}

/// Share of starts in modes found only once, and agreement between two halves of the starts, beyond which the search is
/// likely to have missed modes.
const MANY_SINGLES: f64 = 0.2;
const LITTLE_AGREEMENT: f64 = 0.5;

impl Verdict {
    /// Adds the findings of the search for modes.
    pub(crate) fn add_search(&mut self, search: &SearchSummary) {
        if search.log_concave {
            self.notes.push("the density is log-concave: it has one mode".into());
            return;
        }
        if search.starts == 0 {
            return;
        }
        let share = search.share_of_singles();
        if search.climbs_do_not_end() {
            self.notes.push(format!(
                "{} of {} climbs of the search for modes did not end: what else there is was not seen",
                search.unfinished, search.starts
            ));
        } else if share > MANY_SINGLES && search.agreement < LITTLE_AGREEMENT {
            self.trusted = false;
            self.reasons.push(format!(
                "{:.0}% of {} starts ended in a place that no other start found: there is more to find \
                 (allow more evaluations, or start nearer to the mass)",
                100.0 * share,
                search.starts
            ));
        } else {
            self.notes.push(format!(
                "{} starts ended in {} place{}, {:.0}% of them in one that no other start found; \
                 a mode that {:.1}% of starts lead to would have been found with 99% probability, \
                 modes that no start leads to would not be seen",
                search.starts,
                search.modes,
                if search.modes == 1 { "" } else { "s" },
                100.0 * share,
                100.0 * search.visible_share()
            ));
        }
    }
}

pub(super) fn verdict(
    diagnostics: &Diagnostics,
    weights_variance: f64,
    infinite: usize,
    converged: Option<bool>,
) -> Verdict {
    let Diagnostics { k_hat, k_threshold, draws, zero, failed, .. } = diagnostics;
    let (mut reasons, mut notes) = (Vec::new(), Vec::new());
    if converged == Some(false) {
        reasons.push("the ELBO had not converged when the run ended: allow more evaluations".to_owned());
    }
    if !k_hat.is_finite() {
        reasons.push("k-hat could not be computed: too few usable draws, or weights without a tail to fit".to_owned());
    } else if k_hat >= k_threshold && weights_variance <= NEARLY_EQUAL {
        notes.push(format!(
            "k-hat {k_hat:.2} is above {k_threshold:.2}, but the importance weights hardly differ, so their tail carries no information"
        ));
    } else if k_hat >= k_threshold {
        reasons.push(format!(
            "k-hat {k_hat:.2} is above {k_threshold:.2}: the mixture misses part of the posterior \
             (try more components or a full covariance)"
        ));
    }
    if infinite > 0 {
        reasons.push(format!(
            "the density is infinite at {infinite} of {draws} draws, and all of its mass may be there: \
             constrain the parameters away from such points"
        ));
    }
    if (zero + failed) as f64 > MOST_DROPPED * *draws as f64 {
        reasons.push(format!(
            "log p was not finite at {} of {draws} draws, which the ELBO leaves out: \
             constrain the parameters to where the density is positive",
            zero + failed
        ));
    }
    Verdict { trusted: reasons.is_empty(), reasons, notes }
}
