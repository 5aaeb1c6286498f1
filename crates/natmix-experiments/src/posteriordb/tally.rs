//! All fits together: the counts, and tables as text and as Markdown.

use super::outcome::{PosteriorFit, PosteriorSummary};
use anyhow::{Result, bail};
use serde::Serialize;
use std::fmt::{self, Write};

const BEGIN: &str = "<!-- begin of what natmix experiments posteriordb writes -->";
const END: &str = "<!-- end of what natmix experiments posteriordb writes -->";

/// How many fits ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PosteriorTally {
    /// Right answers that are trusted.
    pub right_and_trusted: usize,
    /// Right answers that are not.
    pub right_and_refused: usize,
    /// Wrong answers that are not trusted.
    pub wrong_and_refused: usize,
    /// Wrong answers that are.
    pub wrong_and_trusted: usize,
    /// Answers without a reference.
    pub not_judged: usize,
    /// Fits that ended with an error.
    pub failed: usize,
}

/// All fits.
#[derive(Clone, Debug, Serialize)]
pub struct PosteriorReport {
    /// Version of the program.
    pub version: &'static str,
    /// The posteriors.
    pub posteriors: Vec<PosteriorSummary>,
    /// The counts.
    pub tally: PosteriorTally,
    /// The fits, posterior after posterior.
    pub fits: Vec<PosteriorFit>,
}

impl PosteriorTally {
    /// Counts fits.
    pub fn of(fits: &[PosteriorFit]) -> Self {
        let mut tally = Self::default();
        for fit in fits {
            let count = match (&fit.error, fit.right(), fit.trusted == Some(true)) {
                (Some(_), ..) => &mut tally.failed,
                (None, None, _) => &mut tally.not_judged,
                (None, Some(true), true) => &mut tally.right_and_trusted,
                (None, Some(true), false) => &mut tally.right_and_refused,
                (None, Some(false), false) => &mut tally.wrong_and_refused,
                (None, Some(false), true) => &mut tally.wrong_and_trusted,
            };
            *count += 1;
        }
        tally
    }
}

impl fmt::Display for PosteriorTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.right_and_trusted, "right and trusted"),
            (self.right_and_refused, "right and refused"),
            (self.wrong_and_refused, "wrong and refused"),
            (self.wrong_and_trusted, "wrong and trusted"),
            (self.not_judged, "not judged"),
            (self.failed, "failed"),
        ];
        // The first four are always of interest.
        let shown = counts.iter().enumerate().filter(|(i, (count, _))| *i < 4 || *count > 0);
        let words: Vec<String> = shown.map(|(_, (count, what))| format!("{count} {what}")).collect();
        write!(f, "{}", words.join(", "))
    }
}

impl fmt::Display for PosteriorFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.map_or("-", |level| level.name());
        write!(f, "{:46}{:>5} {level:<9}", self.posterior, self.seed)?;
        match &self.comparison {
            Some(found) => {
                let worst = found.worst.as_ref().map_or((f64::NAN, String::new()), |worst| {
                    (worst.error, format!("{} {}", worst.parameter, worst.figure))
                });
                write!(f, "{:>8.3}{:>8.3}{:>8.2} {:20}", found.mean_error, found.sd_ratio, worst.0, worst.1)?;
            }
            None => write!(f, "{:>8}{:>8}{:>8} {:20}", "-", "-", "-", "")?,
        }
        let cpu = self.cpu_seconds.map_or("-".into(), |cpu| format!("{cpu:.2}"));
        write!(f, "{:16}{:>9}{cpu:>9}{:>9.2}", self.outcome(), self.all_evals(), self.seconds)?;
        self.error.as_ref().map_or(Ok(()), |error| write!(f, " {error}"))
    }
}

/// Heads of the columns of a fit.
pub const HEAD: &str = "posterior                                       seed level    mean error sd ratio  worst figure              outcome          \
                        evals    CPU s  seconds";

impl PosteriorReport {
    /// Fits in the order of the posteriors.
    pub fn new(posteriors: Vec<PosteriorSummary>, fits: Vec<PosteriorFit>) -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), tally: PosteriorTally::of(&fits), posteriors, fits }
    }

    /// A row per posterior.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut text);
        text
    }

    fn write_markdown(&self, f: &mut String) -> fmt::Result {
        let seeds = {
            let mut seeds: Vec<u64> = self.fits.iter().map(|fit| fit.seed).collect();
            seeds.sort_unstable();
            seeds.dedup();
            seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "natmix {} at its defaults, seeds {seeds}: {}.\n", self.version, self.tally)?;
        writeln!(
            f,
            "| posterior | d | level | right and trusted | worst figure, by seed | mean error | sd ratio | ± | evaluations | CPU s |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        for posterior in &self.posteriors {
            let fits: Vec<&PosteriorFit> = self.fits.iter().filter(|fit| fit.posterior == posterior.name).collect();
            if !fits.is_empty() {
                writeln!(f, "| {} |", cells(posterior, &fits).join(" | "))?;
            }
        }
        Ok(())
    }

    /// The page with the table between its marks.
    pub fn insert(&self, page: &str) -> Result<String> {
        let (before, rest) = marked(page)?;
        Ok(format!("{before}{BEGIN}\n{}{rest}", self.markdown()))
    }
}

/// The parts of a page before and from the end of what is written.
pub fn marked(page: &str) -> Result<(&str, &str)> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, &rest[rest.find(END)?..])));
    let Some(parts) = parts else { bail!("the page has no line {BEGIN} followed by {END}") };
    Ok(parts)
}

/// The row of a posterior.
fn cells(posterior: &PosteriorSummary, fits: &[&PosteriorFit]) -> Vec<String> {
    let mean =
        |number: &dyn Fn(&PosteriorFit) -> f64| fits.iter().map(|fit| number(fit)).sum::<f64>() / fits.len() as f64;
    let mut levels: Vec<&str> = fits.iter().map(|fit| fit.level.map_or("-", |level| level.name())).collect();
    levels.dedup();
    let worst = |fit: &&PosteriorFit| {
        let error = fit.comparison.as_ref().and_then(|found| found.worst.as_ref()).map(|worst| worst.error);
        let mark = match (fit.right(), fit.trusted == Some(true)) {
            (Some(false), true) => "**",
            (_, false) => "*",
            _ => "",
        };
        error.map_or(format!("{mark}-{mark}"), |error| format!("{mark}{error:.2}{mark}"))
    };
    let found = || fits.iter().filter_map(|fit| fit.comparison.as_ref());
    let judged = |text: String| if found().next().is_some() { text } else { "-".into() };
    let mean_error = found().map(|found| found.mean_error).fold(0.0, f64::max);
    let away = |ratio: f64| ratio.ln().abs();
    let sd_ratio = found().map(|found| found.sd_ratio).fold(1.0, |a, b| if away(b) > away(a) { b } else { a });
    let good = fits.iter().filter(|fit| fit.right() == Some(true) && fit.trusted == Some(true)).count();
    let cpu = fits.iter().all(|fit| fit.cpu_seconds.is_some());
    vec![
        format!("`{}`", posterior.name),
        posterior.dim.to_string(),
        levels.join(", "),
        judged(format!("{good} of {}", fits.len())),
        fits.iter().map(worst).collect::<Vec<_>>().join(", "),
        judged(format!("{mean_error:.3}")),
        judged(format!("{sd_ratio:.3}")),
        posterior.resolution.map_or("-".into(), |resolution| format!("{resolution:.2}")),
        format!("{:.0}", mean(&|fit| fit.all_evals() as f64)),
        if cpu { format!("{:.2}", mean(&|fit| fit.cpu_seconds.unwrap_or(f64::NAN))) } else { "-".into() },
    ]
}

impl fmt::Display for PosteriorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        self.fits.iter().try_for_each(|fit| writeln!(f, "{fit}"))?;
        writeln!(
            f,
            "mean error: largest, in standard deviations; sd ratio: furthest from one; worst figure: in units of its limit, up to \
             one is right"
        )?;
        writeln!(f, "{}", self.tally)?;
        for fit in self.fits.iter().filter(|fit| fit.trusted == Some(false)) {
            writeln!(f, "{} seed {}: {}", fit.posterior, fit.seed, fit.reasons.join("; "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posteriordb::outcome::Comparison;

    fn fit(seed: u64, right: Option<bool>, trusted: bool) -> PosteriorFit {
        let comparison = right.map(|right| Comparison {
            right,
            worst: None,
            mean_error: 0.01 * seed as f64,
            sd_ratio: 1.0 - 0.01 * seed as f64,
        });
        let mut fit = PosteriorFit::of("a-b", seed);
        (fit.trusted, fit.comparison, fit.cpu_seconds) = (Some(trusted), comparison, Some(seed as f64));
        fit.reasons = if trusted { vec![] } else { vec!["k-hat is 1.2".into()] };
        fit
    }

    fn report() -> PosteriorReport {
        let mut failed = fit(5, Some(true), true);
        (failed.error, failed.comparison) = (Some("no start".into()), None);
        let fits = vec![
            fit(1, Some(true), true),
            fit(2, Some(true), false),
            fit(3, Some(false), false),
            fit(4, None, true),
            failed,
        ];
        let posterior = PosteriorSummary {
            name: "a-b",
            dim: 3,
            library: "b.so".into(),
            data: "a.json".into(),
            relabelled: false,
            judged: vec!["mu".into()],
            resolution: Some(0.1),
        };
        PosteriorReport::new(vec![posterior], fits)
    }

    #[test]
    fn every_fit_is_counted_once() {
        let report = report();
        let expected = PosteriorTally {
            right_and_trusted: 1,
            right_and_refused: 1,
            wrong_and_refused: 1,
            wrong_and_trusted: 0,
            not_judged: 1,
            failed: 1,
        };
        assert_eq!(report.tally, expected);
        assert_eq!(PosteriorTally::of(&[fit(1, Some(false), true)]).wrong_and_trusted, 1);
        let text = report.to_string();
        for words in ["0 wrong and trusted", "1 failed", "a-b seed 3: k-hat is 1.2", "no start"] {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }

    #[test]
    fn the_table_goes_between_the_marks() {
        let page = format!("# Page\n{BEGIN}\nold\n{END}\nrest\n");
        let new = report().insert(&page).unwrap();
        assert!(
            new.starts_with("# Page\n") && new.ends_with(&format!("|\n{END}\nrest\n")) && !new.contains("old"),
            "{new}"
        );
        assert!(
            new.contains("| `a-b` | 3 | - | 1 of 5 |") && new.contains("| 0.030 | 0.970 | 0.10 | 0 | 3.00 |"),
            "{new}"
        );
        assert_eq!(report().insert(&new).unwrap(), new);
        assert!(report().insert("# Page").is_err());
    }
}
