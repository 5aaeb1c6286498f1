//! Counts of fits per family and in all, as a table and as JSON.

use super::modes::RARE_BASIN;
use super::outcome::FitOutcome;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Counts of the fits whose truth is known.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FamilyTally {
    /// The family, or `all`.
    pub family: String,
    /// Fits made.
    pub fits: usize,
    /// Right answers.
    pub right: usize,
    /// Trusted answers.
    pub trusted: usize,
    /// Right and trusted answers.
    pub right_and_trusted: usize,
    /// Fits that ended with an error.
    pub errors: Vec<String>,
    /// Trusted but wrong, without those below.
    pub falsely_trusted: Vec<String>,
    /// Trusted but wrong, where every missed mode is rare among starts.
    pub falsely_trusted_rare: Vec<String>,
    /// Right but not trusted.
    pub right_not_trusted: Vec<String>,
    /// Mean number of evaluations, those for the verdict included.
    pub evals_mean: f64,
    /// Largest number of evaluations.
    pub evals_max: u64,
    /// Mean number of evaluations for the verdict.
    pub diagnostics_mean: f64,
    /// Seconds of all fits together.
    pub seconds: f64,
}

/// Counts of the fits that must be refused.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RefusalTally {
    /// The family.
    pub family: String,
    /// Fits made.
    pub fits: usize,
    /// Ended with an error that says why.
    pub refused: usize,
    /// Delivered, but not trusted.
    pub not_trusted: usize,
    /// Delivered and trusted.
    pub trusted: Vec<String>,
}

/// How often known modes were found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModeTally {
    /// Pairs of a mode and a fit, for modes to which at least 0.5% of starts lead.
    pub common: usize,
    /// Those of them that were found.
    pub common_found: usize,
    /// The same for modes to which fewer lead.
    pub rare: usize,
    /// Those of them that were found.
    pub rare_found: usize,
}

/// The result of the battery.
#[derive(Clone, Debug, Serialize)]
pub struct BatteryReport {
    /// Version of natmix.
    pub version: &'static str,
    /// Per family, and all together at the end.
    pub families: Vec<FamilyTally>,
    /// Wrong gradients and improper densities.
    pub to_be_refused: Vec<RefusalTally>,
    /// Modes of mixtures.
    pub modes: ModeTally,
    /// Every fit.
    pub fits: Vec<FitOutcome>,
}

impl BatteryReport {
    /// Counts fits.
    pub fn new(fits: Vec<FitOutcome>) -> Self {
        let (known, refusals): (Vec<&FitOutcome>, Vec<&FitOutcome>) = fits.iter().partition(|fit| !fit.to_be_refused);
        let mut families: Vec<FamilyTally> =
            by_family(&known).iter().map(|(name, fits)| FamilyTally::of(name, fits)).collect();
        families.push(FamilyTally::of("all", &known));
        let to_be_refused = by_family(&refusals).iter().map(|(name, fits)| RefusalTally::of(name, fits)).collect();
        let modes = ModeTally::of(&known);
        Self { version: env!("CARGO_PKG_VERSION"), families, to_be_refused, modes, fits }
    }
}

/// Fits by family, in the order of the catalogue.
fn by_family<'a>(fits: &[&'a FitOutcome]) -> Vec<(&'static str, Vec<&'a FitOutcome>)> {
    let mut families: Vec<(&'static str, Vec<&FitOutcome>)> = Vec::new();
    for &fit in fits {
        match families.iter_mut().find(|(name, _)| *name == fit.family) {
            Some((_, fits)) => fits.push(fit),
            None => families.push((fit.family, vec![fit])),
        }
    }
    families
}

impl FamilyTally {
    fn of(family: &str, fits: &[&FitOutcome]) -> Self {
        let count = |test: &dyn Fn(&FitOutcome) -> bool| fits.iter().filter(|fit| test(fit)).count();
        let labels = |test: &dyn Fn(&FitOutcome) -> bool| -> Vec<String> {
            fits.iter().filter(|fit| test(fit)).map(|fit| fit.label()).collect()
        };
        let mean = |number: &dyn Fn(&FitOutcome) -> u64| {
            fits.iter().map(|fit| number(fit) as f64).sum::<f64>() / fits.len().max(1) as f64
        };
        let right = |fit: &FitOutcome| fit.right == Some(true);
        let trusted = |fit: &FitOutcome| fit.trusted == Some(true);
        Self {
            family: family.into(),
            fits: fits.len(),
            right: count(&right),
            trusted: count(&trusted),
            right_and_trusted: count(&|fit| right(fit) && trusted(fit)),
            errors: labels(&|fit| fit.error.is_some()),
            falsely_trusted: labels(&|fit| fit.falsely_trusted() && !fit.misses_rare_modes_only()),
            falsely_trusted_rare: labels(&|fit| fit.falsely_trusted() && fit.misses_rare_modes_only()),
            right_not_trusted: labels(&|fit| right(fit) && !trusted(fit)),
            evals_mean: mean(&|fit| fit.evals + fit.diagnostics),
            evals_max: fits.iter().map(|fit| fit.evals + fit.diagnostics).max().unwrap_or(0),
            diagnostics_mean: mean(&|fit| fit.diagnostics),
            seconds: fits.iter().map(|fit| fit.seconds).sum(),
        }
    }
}

impl RefusalTally {
    fn of(family: &str, fits: &[&FitOutcome]) -> Self {
        let trusted = fits.iter().filter(|fit| fit.trusted == Some(true));
        Self {
            family: family.into(),
            fits: fits.len(),
            refused: fits.iter().filter(|fit| fit.error.is_some()).count(),
            not_trusted: fits.iter().filter(|fit| fit.error.is_none() && fit.trusted != Some(true)).count(),
            trusted: trusted.map(|fit| fit.label()).collect(),
        }
    }
}

impl ModeTally {
    fn of(fits: &[&FitOutcome]) -> Self {
        let mut tally = Self::default();
        for fit in fits {
            for (mode, basin) in fit.basins.iter().enumerate() {
                let found = fit.error.is_none() && fit.missed.iter().all(|missed| missed.mode != mode);
                let (all, found_ones) = match *basin < RARE_BASIN {
                    true => (&mut tally.rare, &mut tally.rare_found),
                    false => (&mut tally.common, &mut tally.common_found),
                };
                *all += 1;
                *found_ones += usize::from(found);
            }
        }
        tally
    }
}

impl fmt::Display for BatteryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ["fits", "right", "trusted", "both", "false", "(rare)", "refused", "evals", "most", "seconds"];
        write!(f, "{:16}", "family")?;
        columns.iter().try_for_each(|name| write!(f, "{name:>9}"))?;
        writeln!(f)?;
        for tally in &self.families {
            let counts = [
                tally.fits,
                tally.right,
                tally.trusted,
                tally.right_and_trusted,
                tally.falsely_trusted.len(),
                tally.falsely_trusted_rare.len(),
                tally.right_not_trusted.len(),
            ];
            write!(f, "{:16}", tally.family)?;
            counts.iter().try_for_each(|count| write!(f, "{count:9}"))?;
            writeln!(f, "{:9.0}{:9}{:9.1}", tally.evals_mean, tally.evals_max, tally.seconds)?;
        }
        writeln!(
            f,
            "both: right and trusted; false: trusted but wrong, (rare): where only modes to which fewer than 0.5% of \
             starts lead were missed; refused: right but not trusted; evals, most: mean and largest number"
        )?;
        for tally in &self.to_be_refused {
            let RefusalTally { family, fits, refused, not_trusted, trusted } = tally;
            let trusted_count = trusted.len();
            writeln!(
                f,
                "{family}: {fits} fits, {refused} refused, {not_trusted} not trusted, {trusted_count} trusted"
            )?;
        }
        if let Some(all) = self.families.last() {
            let false_count = all.falsely_trusted.len();
            let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
            let (trusted, right) = (all.trusted, all.right);
            writeln!(f, "falsely trusted: {false_count} of {trusted} ({:.1}%)", share(false_count, trusted))?;
            let both = all.right_and_trusted;
            writeln!(f, "right answers trusted: {both} of {right} ({:.1}%)", share(both, right))?;
        }
        let ModeTally { common, common_found, rare, rare_found } = self.modes;
        if common + rare > 0 {
            writeln!(f, "modes found: {common_found} of {common}, of rare ones {rare_found} of {rare}")?;
        }
        self.write_lists(f)
    }
}

impl BatteryReport {
    /// Every fit to look at: falsely trusted, refused although right, ended with an error, trusted without a truth.
    fn write_lists(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, title: &str, test: &dyn Fn(&FitOutcome) -> bool| {
            // Seeds in one line per target.
            let mut targets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for fit in self.fits.iter().filter(|fit| test(fit)) {
                let note = match (&fit.error, &fit.worst) {
                    (Some(error), _) => format!("{} ({error})", fit.seed),
                    (None, Some(worst)) if fit.right == Some(false) => {
                        format!("{} ({} {} {:.1})", fit.seed, worst.parameter, worst.figure, worst.error)
                    }
                    _ => fit.seed.to_string(),
                };
                targets.entry(fit.target).or_default().push(note);
            }
            if !targets.is_empty() {
                writeln!(f, "{title}")?;
            }
            targets.iter().try_for_each(|(target, notes)| writeln!(f, "  {target}: seeds {}", notes.join(", ")))
        };
        list(f, "falsely trusted, with the worst figure in units of its limit:", &FitOutcome::falsely_trusted)?;
        list(f, "right but not trusted:", &|fit| fit.right == Some(true) && fit.trusted != Some(true))?;
        list(f, "errors:", &|fit| fit.error.is_some() && !fit.to_be_refused)?;
        list(f, "trusted although to be refused:", &|fit| fit.to_be_refused && fit.trusted == Some(true))?;
        let missing = self.fits.iter().filter(|fit| !fit.missed.is_empty());
        for (i, fit) in missing.enumerate() {
            if i == 0 {
                writeln!(f, "missed modes (true weight, share of starts):")?;
            }
            let modes: Vec<String> =
                fit.missed.iter().map(|mode| format!("{:.3}, {:.2}%", mode.weight, 100.0 * mode.basin)).collect();
            let trusted = if fit.trusted == Some(true) { ", trusted" } else { "" };
            writeln!(f, "  {}: {}{trusted}", fit.label(), modes.join("; "))?;
        }
        Ok(())
    }
}
