//! Whether to trust a fit: what the diagnostics and the search say, in words.

use super::accuracy::{Accuracy, ErrorShare, MEAN_LIMIT, QUANTILE_LIMIT, SD_LIMIT};
use super::diagnose::Diagnostics;
use super::level::{Level, NEARLY_EQUAL};
use crate::strategy::automatic::SearchSummary;
use serde::Serialize;

/// Largest share of draws that may fall where the density is zero or cannot be evaluated.
const MOST_DROPPED: f64 = 0.01;

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
    /// Adds, once every other reason is known, that the ELBO had not converged.
    pub(crate) fn add_not_converged(&mut self) {
        let not_converged = "the ELBO had not converged when the run ended";
        if self.trusted {
            self.notes.push(format!("{not_converged}, but the answer holds: more evaluations would only refine it"));
        } else {
            self.reasons.push(format!("{not_converged}: allow more evaluations"));
        }
    }

    /// Adds the findings of the search for modes, after which the mixture has this number of components. An answer `by_chains` is not
    /// doubted for them: chains from different places that agree have looked more closely than climbs.
    pub(crate) fn add_search(&mut self, search: &SearchSummary, components: usize, by_chains: bool) {
        if search.log_concave {
            self.notes.push("the density is log-concave: it has one mode".into());
            return;
        }
        if search.starts == 0 {
            return;
        }
        if search.heavy_modes > components as u64 && !search.climbs_do_not_end() && !by_chains {
            self.trusted = false;
            self.reasons.push(format!(
                "the search found {} modes with at least 1% of the mass each, more than the number of components, {components}: \
                 allow more components",
                search.heavy_modes
            ));
        }
        let share = search.share_of_singles();
        if search.climbs_do_not_end() {
            self.notes.push(format!(
                "{} of {} climbs of the search for modes did not end: what else there is was not seen",
                search.unfinished, search.starts
            ));
        } else if share > MANY_SINGLES && search.agreement < LITTLE_AGREEMENT && !by_chains {
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

pub(super) fn verdict(diagnostics: &Diagnostics, names: &[String], weights_variance: f64, infinite: usize) -> Verdict {
    let Diagnostics { k_hat, k_threshold, draws, zero, failed, level, .. } = diagnostics;
    let (mut reasons, mut notes) = (Vec::new(), Vec::new());
    if *level == Level::Chains {
        notes.push(format!(
            "the answer consists of the draws of chains, whose certificate holds ({:.0} effective draws of the worst parameter)",
            diagnostics.chains.iter().flat_map(|chains| &chains.parameters).map(|one| one.ess).fold(f64::INFINITY, f64::min)
        ));
    } else if !k_hat.is_finite() {
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
    let missed = diagnostics.missed_mass.filter(|missed| !level.holds() && super::probe::is_too_much(missed));
    if let (Some(missed), true) = (missed, reasons.is_empty()) {
        reasons.push(format!(
            "chains that started at the edge of the mixture left it: at least {:.1}% of the posterior lies where the mixture has \
             no draws (allow more evaluations, or more components)",
            100.0 * missed.mean
        ));
    } else if reasons.is_empty() && !level.holds() {
        reasons.push(inaccurate(diagnostics, names));
    }
    match &diagnostics.chains {
        Some(chains) if !level.holds() => reasons.extend(chains.reasons.iter().cloned()),
        Some(chains) if *level != Level::Chains && !diagnostics.around_chains => {
            notes.push(format!("there were chains too, but they do not hold: {}", chains.reasons.join("; ")));
        }
        _ => {}
    }
    if *level == Level::Weighted {
        let whose =
            if diagnostics.around_chains { "draws around it, and around those of chains," } else { "its draws" };
        notes.push(format!(
            "the mixture alone is not accurate enough, so the answer consists of {whose} with importance weights \
             ({:.0} effective draws)",
            diagnostics.ess
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

/// Names the parameter that is known least accurately.
fn inaccurate(diagnostics: &Diagnostics, names: &[String]) -> String {
    let bound = |share: &ErrorShare| share.error.max(2.0 * share.se);
    let worst = |one: &Accuracy| {
        let moments = if one.heavy_tails { 0.0 } else { bound(&one.mean).max(bound(&one.sd)) };
        bound(&one.quantile).max(moments)
    };
    let failing = diagnostics.accuracy.iter().zip(names).filter(|(one, _)| !one.holds);
    let count = failing.clone().count();
    let Some((one, name)) = failing.max_by(|a, b| worst(a.0).total_cmp(&worst(b.0))) else {
        return "the accuracy of the draws could not be measured: allow more diagnostic draws".to_owned();
    };
    let figure = if bound(&one.quantile) >= worst(one) {
        format!(
            "a quantile is known only to {:.0}% of its 5% to 95% range",
            100.0 * QUANTILE_LIMIT * bound(&one.quantile)
        )
    } else if bound(&one.mean) >= worst(one) {
        format!("the mean is known only to {:.2} sd", MEAN_LIMIT * bound(&one.mean))
    } else {
        format!("the sd is known only to {:.0}%", 100.0 * SD_LIMIT * bound(&one.sd))
    };
    let others = match count {
        1 => String::new(),
        _ => format!(" and {} more parameter{}", count - 1, if count == 2 { "" } else { "s" }),
    };
    format!(
        "the draws are not accurate enough for {name}{others}: {figure}, with {:.0} effective draws of {} \
         (allow more evaluations, or try more components)",
        diagnostics.ess, diagnostics.draws
    )
}
