//! The battery: fits of many targets with known posteriors at default settings, each judged right or wrong, and whether
//! the verdict knew.
//!
//! Truths come from exact samplers, quadrature or long reference runs. Wrong gradients and improper densities have no
//! truth: they must be refused.

mod catalogue;
mod climb;
mod densities;
mod faulty;
pub(crate) mod judge;
mod modes;
pub(crate) mod outcome;
pub(crate) mod random;
mod reference;
mod regressions;
pub(crate) mod sample;
mod tally;
mod target;
pub(crate) mod truth;

pub use judge::FigureError;
pub use modes::MissedMode;
pub use outcome::FitOutcome;
pub use tally::{BatteryReport, FamilyTally, ModeTally, RefusalTally};
pub use target::TargetHalf;

use anyhow::{Context, Result, bail};
use catalogue::targets;
use natmix::config::Goal;
use outcome::PreparedTarget;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use target::BatteryTarget;

/// Draws behind the true figures: their error is a tenth of that of delivered draws.
const TRUTH_DRAWS: usize = 400_000;

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct BatteryOptions {
    /// Only these families; all if empty.
    pub families: Vec<String>,
    /// Only these targets; all if empty.
    pub targets: Vec<String>,
    /// Only this half.
    pub half: Option<TargetHalf>,
    /// Seeds of the fits.
    pub seeds: Vec<u64>,
    /// Fits at a time, each on one thread; 0 is one per core.
    pub threads: usize,
    /// Most evaluations of a fit; the default budget if `None`.
    pub max_evals: Option<u64>,
    /// What the fits are for; the default if `None`.
    pub goal: Option<Goal>,
}

/// Receives a line of text after each fit, from any thread.
pub type TellLine<'a> = &'a (dyn Fn(&str) + Sync);

/// Runs the battery; `tell` receives a line of text after each fit.
pub fn run(options: &BatteryOptions, tell: TellLine<'_>) -> Result<BatteryReport> {
    run_with(options, TRUTH_DRAWS, tell)
}

fn run_with(options: &BatteryOptions, truth_draws: usize, tell: TellLine<'_>) -> Result<BatteryReport> {
    let prepared = prepare(options, truth_draws)?;
    let (targets, seeds) = (prepared.len(), &options.seeds);
    let (count, done) = (targets * seeds.len(), AtomicUsize::new(0));
    // Seed by seed, so that a look at the lines so far shows all families.
    let fits = in_parallel(count, options.threads, |i| {
        let fit = prepared[i % targets].fit(seeds[i / targets], options);
        tell(&format!("{} of {count}: {}", done.fetch_add(1, Ordering::Relaxed) + 1, fit.line()));
        fit
    });
    let mut by_target: Vec<(usize, FitOutcome)> = fits.into_iter().enumerate().collect();
    by_target.sort_by_key(|(i, _)| i % targets);
    Ok(BatteryReport::new(by_target.into_iter().map(|(_, fit)| fit).collect()))
}

/// The share of starts that lead to each mode of the chosen mixtures, as a table.
pub fn basins(options: &BatteryOptions) -> Result<String> {
    let mut text = String::new();
    for target in chosen(options)? {
        let subject = target.subject()?;
        let Some(modes) = &subject.modes else { continue };
        let basins = modes.basins(subject.problem.target()?, subject.start_sd)?;
        writeln!(text, "{}", target.name)?;
        for (k, basin) in basins.iter().enumerate() {
            let (weight, sd) = (modes.weights[k], modes.sds[k]);
            writeln!(text, "  weight {weight:.3}  sd {sd:.3}  {:6.2}% of starts", 100.0 * basin)?;
        }
    }
    Ok(text)
}

/// The chosen targets, in the order of the catalogue.
fn chosen(options: &BatteryOptions) -> Result<Vec<BatteryTarget>> {
    let all = targets();
    let known = |name: &str, names: Vec<&str>, option: &str| match names.contains(&name) {
        true => Ok(()),
        false => bail!("{option} {name} is not one of {}", names.join(", ")),
    };
    let mut families: Vec<&str> = all.iter().map(|target| target.family).collect();
    families.dedup();
    options.families.iter().try_for_each(|name| known(name, families.clone(), "--families"))?;
    let names: Vec<&str> = all.iter().map(|target| target.name).collect();
    options.targets.iter().try_for_each(|name| known(name, names.clone(), "--targets"))?;
    let among = |list: &[String], name: &str| list.is_empty() || list.iter().any(|wanted| wanted == name);
    let wanted = |target: &BatteryTarget| {
        let half = options.half.is_none_or(|half| half == target.half);
        half && among(&options.families, target.family) && among(&options.targets, target.name)
    };
    Ok(all.into_iter().filter(wanted).collect())
}

fn prepare(options: &BatteryOptions, truth_draws: usize) -> Result<Vec<PreparedTarget>> {
    let wanted: Vec<Mutex<Option<BatteryTarget>>> =
        chosen(options)?.into_iter().map(|target| Mutex::new(Some(target))).collect();
    let prepared = in_parallel(wanted.len(), options.threads, |i| {
        let target = wanted[i].lock().ok().and_then(|mut target| target.take()).context("a target was taken twice")?;
        let name = target.name;
        PreparedTarget::new(target, truth_draws).with_context(|| format!("the truth of {name}"))
    });
    prepared.into_iter().collect()
}

/// The results of `work(0)` to `work(count - 1)`, in this order, from several threads.
pub(crate) fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads.min(count),
    };
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        break;
                    }
                    let result = work(i);
                    if let Ok(mut found) = found.lock() {
                        found.push((i, result));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(i, _)| *i);
    found.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_cheap_targets_run_the_same_on_any_number_of_threads() {
        let targets = ["student-3-df7", "laplace-1", "gradient-sign"].map(String::from).to_vec();
        let options = |threads| BatteryOptions {
            targets: targets.clone(),
            seeds: vec![1],
            threads,
            max_evals: Some(10_000),
            ..BatteryOptions::default()
        };
        let report = run_with(&options(1), 20_000, &|_| {}).unwrap();
        assert_eq!(report.fits.len(), 3);
        assert_eq!(report.families.last().unwrap().fits, 2);
        assert_eq!(report.to_be_refused[0].fits, 1);
        assert!(report.fits.iter().filter(|fit| !fit.to_be_refused).all(|fit| fit.right.is_some()));
        let again = run_with(&options(3), 20_000, &|_| {}).unwrap();
        let comparable = |report: &BatteryReport| -> Vec<_> {
            report.fits.iter().map(|fit| (fit.target, fit.trusted, fit.worst.clone(), fit.evals)).collect()
        };
        assert_eq!(comparable(&report), comparable(&again));
        let text = report.to_string();
        assert!(text.contains("laplaces") && text.contains("right answers trusted"), "{text}");
        serde_json::to_string(&report).unwrap();
    }

    #[test]
    fn unknown_names_are_errors() {
        let options = BatteryOptions { families: vec!["funnel".into()], ..BatteryOptions::default() };
        assert!(chosen(&options).err().unwrap().to_string().contains("not one of funnels, "));
        let options = BatteryOptions { targets: vec!["x".into()], ..BatteryOptions::default() };
        assert!(chosen(&options).err().unwrap().to_string().contains("--targets x"));
    }

    #[test]
    fn halves_and_families_are_chosen() {
        let options = BatteryOptions {
            families: vec!["funnels".into()],
            half: Some(TargetHalf::Report),
            ..BatteryOptions::default()
        };
        let chosen = chosen(&options).unwrap();
        assert!(chosen.iter().all(|target| target.family == "funnels" && target.half == TargetHalf::Report));
        assert_eq!(chosen.len(), 4);
    }
}
