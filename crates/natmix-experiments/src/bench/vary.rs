//! `natmix bench --vary`: effects of the constants of the automatic method, one at a time.
//!
//! Every row and seed is fitted at the defaults and with each value. Fits run in parallel, one thread each: results do
//! not depend on threads.

use super::{BenchOptions, LoadedRow, PrintLine, SeedRun, chosen};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use natmix::automatic::Tuning;
use serde::Serialize;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Draws with which a finished fit is measured; fewer than in the benchmark itself, since there are hundreds of fits.
const DRAWS: usize = 50_000;
/// Nats that count as no change, added to the standard errors: exact fits agree to many digits.
const NEGLIGIBLE: f64 = 1e-4;
/// Standard errors below which a change counts as noise.
const NOISE: f64 = 2.0;

/// A constant and a value to try.
#[derive(Clone, Debug, PartialEq)]
struct Variation {
    name: String,
    value: f64,
    /// All constants with this value, or why it is refused.
    tuning: Result<Tuning, String>,
}

impl Variation {
    fn new(name: &str, value: f64) -> Self {
        let mut tuning = Tuning::default();
        let set = tuning.set(name, value);
        Self {
            name: name.into(),
            value: tuning.get(name).filter(|_| set.is_ok()).unwrap_or(value),
            tuning: set.map(|()| tuning).map_err(|error| error.to_string()),
        }
    }
}

/// A row at one value: all its seeds.
#[derive(Serialize)]
struct VariedRow {
    target: String,
    max_evals: u64,
    components: Option<usize>,
    /// Mean over seeds and its standard error; `None` if a fit failed.
    elbo: Option<f64>,
    se: Option<f64>,
    passed: usize,
    seeds: usize,
    /// Mean over seeds.
    evals: f64,
    /// Change of the mean against the default, in standard errors of the difference.
    change: Option<f64>,
}

/// A constant at one value, or all at their defaults.
#[derive(Serialize)]
struct Varied {
    name: Option<String>,
    value: Option<f64>,
    /// Why the value cannot be tried.
    refused: Option<String>,
    rows: Vec<VariedRow>,
}

/// The effects of the constants: first all at their defaults, then each at each of its values.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Effects {
    varied: Vec<Varied>,
    /// Whether to show one table of all constants rather than one per row.
    #[serde(skip)]
    by_constant: bool,
}

impl fmt::Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&if self.by_constant { by_constant(&self.varied) } else { by_row(&self.varied) })
    }
}

/// Fits the requested rows with other constants; `asked` holds `NAME=a,b,...`, or `all`.
pub fn vary(args: &BenchOptions, asked: &[String], print: PrintLine<'_>) -> Result<Effects> {
    let variations = asked.iter().map(|text| parse(text)).collect::<Result<Vec<_>>>()?.concat();
    let rows = chosen(args, print)?.into_iter().map(|row| LoadedRow::new(row, args)).collect::<Result<Vec<_>>>()?;
    let default = Tuning::default();
    let tried: Vec<&Tuning> =
        std::iter::once(&default).chain(variations.iter().filter_map(|v| v.tuning.as_ref().ok())).collect();
    let mut found = fit_in_parallel(&rows, &tried, args).into_iter();
    let mut next = |baseline: Option<&[VariedRow]>| -> Vec<VariedRow> {
        let runs = found.next().unwrap_or_default();
        let rows = rows.iter().zip(runs).enumerate();
        rows.map(|(i, (row, runs))| VariedRow::new(row, &runs, baseline.map(|rows| &rows[i]))).collect()
    };
    let mut varied = vec![Varied { name: None, value: None, refused: None, rows: next(None) }];
    for variation in variations {
        let Variation { name, value, tuning } = variation;
        let (rows, refused) = match tuning {
            Ok(_) => (next(Some(&varied[0].rows)), None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        varied.push(Varied { name: Some(name), value: Some(value), refused, rows });
    }
    Ok(Effects { varied, by_constant: asked.iter().any(|text| text == "all") })
}

/// The values requested by `NAME=a,b,...` or `all`.
fn parse(text: &str) -> Result<Vec<Variation>> {
    if text == "all" {
        let default = Tuning::default();
        let both = |name: &String| {
            let value = default.get(name).unwrap_or(f64::NAN);
            [0.5 * value, 2.0 * value].map(|value| Variation::new(name, value))
        };
        return Ok(Tuning::names().iter().flat_map(both).collect());
    }
    let (name, values) = text.split_once('=').context("--vary needs NAME=a,b,... or all")?;
    if Tuning::default().get(name).is_none() {
        bail!("--vary {name} is not one of all, {}", Tuning::names().join(", "));
    }
    let number = |text: &str| -> Result<Variation> {
        let value = text.trim().parse().with_context(|| format!("--vary {name}: {text} is not a number"))?;
        let variation = Variation::new(name, value);
        match &variation.tuning {
            Ok(_) => Ok(variation),
            Err(problem) => bail!("--vary: {problem}"),
        }
    };
    values.split(',').map(number).collect()
}

/// Fits every row and seed with each of `tried`: by value, row and seed. A failed fit is `None`.
fn fit_in_parallel(rows: &[LoadedRow], tried: &[&Tuning], args: &BenchOptions) -> Vec<Vec<Vec<Option<SeedRun>>>> {
    let mut jobs: Vec<(usize, usize, u64)> = Vec::new();
    for value in 0..tried.len() {
        jobs.extend((0..rows.len()).flat_map(|row| (1..=args.seeds).map(move |seed| (value, row, seed))));
    }
    // The long ones first, so that no core is idle at the end.
    jobs.sort_by_key(|&(_, row, _)| std::cmp::Reverse(rows[row].row.evals));
    let empty = || (0..rows.len()).map(|_| (0..args.seeds).map(|_| None).collect()).collect();
    let found = Mutex::new((0..tried.len()).map(|_| empty()).collect::<Vec<Vec<Vec<Option<SeedRun>>>>>());
    let next = AtomicUsize::new(0);
    let style = ProgressStyle::with_template("{pos} of {len} fits, {eta} left");
    let bar = ProgressBar::new(jobs.len() as u64).with_style(style.unwrap_or(ProgressStyle::default_bar()));
    let workers = match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(&(value, row, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = rows[row].fit(seed, 1, tried[value], DRAWS).ok().map(|(run, ..)| run);
                    if let Ok(mut found) = found.lock() {
                        found[value][row][seed as usize - 1] = run;
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    found.into_inner().unwrap_or_default()
}

impl VariedRow {
    fn new(loaded: &LoadedRow, runs: &[Option<SeedRun>], default: Option<&VariedRow>) -> Self {
        let n = runs.len() as f64;
        let done: Vec<&SeedRun> = runs.iter().flatten().collect();
        let elbos: Vec<f64> = done.iter().map(|run| run.elbo).collect();
        let elbo = (done.len() == runs.len()).then(|| elbos.iter().sum::<f64>() / n).filter(|x| x.is_finite());
        // With one seed, only the measurement error is known.
        let se = elbo.map(|mean| match &done[..] {
            [one] => one.se,
            _ => (elbos.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt(),
        });
        let change = default.and_then(|default| {
            let error = se?.hypot(default.se?).hypot(NEGLIGIBLE);
            Some((elbo? - default.elbo?) / error)
        });
        Self {
            target: loaded.row.target.into(),
            max_evals: loaded.row.evals,
            components: (loaded.row.components > 0).then_some(loaded.row.components),
            elbo,
            se,
            passed: done.iter().filter(|run| run.passed).count(),
            seeds: runs.len(),
            evals: done.iter().map(|run| run.evals as f64).sum::<f64>() / n,
            change,
        }
    }

    /// Whether all seeds passed at the default but not here, or a fit failed here alone.
    fn lost(&self, default: &VariedRow) -> bool {
        self.passed < self.seeds && default.passed == default.seeds || self.elbo.is_none() && default.elbo.is_some()
    }

    fn title(&self) -> String {
        let components = self.components.map_or(String::new(), |count| format!(", {count} components"));
        format!("{}, {} evaluations{components}", self.target, self.max_evals)
    }
}

impl Varied {
    /// The largest change over the rows, with its sign; `None` if a fit failed.
    fn worst(&self) -> Option<f64> {
        let changes: Option<Vec<f64>> = self.rows.iter().map(|row| row.change).collect();
        changes.map(|changes| changes.into_iter().fold(0.0_f64, |a, b| if b.abs() > a.abs() { b } else { a }))
    }

    /// Ratio of evaluations to those at the default, averaged over the rows.
    fn evals_ratio(&self, default: &Varied) -> f64 {
        let ratios = self.rows.iter().zip(&default.rows).map(|(row, default)| row.evals / default.evals);
        ratios.sum::<f64>() / self.rows.len() as f64
    }

    fn lost<'a>(&'a self, default: &'a Varied) -> impl Iterator<Item = String> + 'a {
        let rows = self.rows.iter().zip(&default.rows).filter(|(row, default)| row.lost(default));
        rows.map(|(row, _)| row.title())
    }
}

/// One table per row: the default and every value.
fn by_row(varied: &[Varied]) -> String {
    let mut text = String::new();
    for (i, row) in varied[0].rows.iter().enumerate() {
        text += &format!("\n{}\n", row.title());
        for Varied { name, value, rows, .. } in varied {
            let (Some(row), label) = (rows.get(i), name.as_deref().unwrap_or("default")) else { continue };
            let label = value.map_or(label.to_owned(), |value| format!("{label} = {}", short(value)));
            let elbo = match (row.elbo, row.se) {
                (Some(elbo), Some(se)) => format!("{elbo:11.4} +- {se:.4}"),
                _ => format!("{:>21}", "a fit failed"),
            };
            let change = row.change.map_or(String::new(), |change| format!("  {change:+.1} errors"));
            text += &format!(
                "  {label:40} ELBO {elbo}  {} of {} passed  {:9.0} evaluations{change}\n",
                row.passed, row.seeds, row.evals
            );
        }
    }
    text
}

/// A number in few characters.
fn short(value: f64) -> String {
    if (1e-3..1e6).contains(&value.abs()) {
        format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').into()
    } else {
        format!("{value:e}")
    }
}

/// One table of all constants: the worst change over the rows at half and at twice the value, the ratio of evaluations,
/// and rows that no longer pass on all seeds.
fn by_constant(varied: &[Varied]) -> String {
    let default = &varied[0];
    let names = ["constant", "value", "worst change", "evaluations", "effect", "rows that no longer pass"];
    let line = |cells: [String; 6]| {
        let [name, value, worst, evals, effect, lost] = cells;
        format!("{name:28} {value:>12} {worst:>14} {evals:>12} {effect:>7}  {lost}").trim_end().to_owned() + "\n"
    };
    let mut text = line(names.map(String::from));
    for one in &varied[1..] {
        let cells = match &one.refused {
            Some(_) => ["not allowed".into(), "-".into(), "-".into(), String::new()],
            None => {
                let lost: Vec<String> = one.lost(default).collect();
                let worst = one.worst().map_or("failed".into(), |change| format!("{change:+.1} errors"));
                let noise = one.worst().is_some_and(|change| change.abs() < NOISE) && lost.is_empty();
                let effect = if noise { "none" } else { "yes" };
                [worst, format!("x {:.2}", one.evals_ratio(default)), effect.into(), lost.join("; ")]
            }
        };
        let [worst, evals, effect, lost] = cells;
        let name = one.name.clone().unwrap_or_default();
        text += &line([name, one.value.map_or(String::new(), short), worst, evals, effect, lost]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read() {
        let two = parse("search_share=0.1, 0.4").unwrap();
        assert_eq!(two.iter().map(|v| v.value).collect::<Vec<_>>(), [0.1, 0.4]);
        assert!(two.iter().all(|v| v.tuning.as_ref().unwrap().search_share == v.value));
        let counts = parse("draw_min=7.4").unwrap();
        assert_eq!((counts[0].value, counts[0].tuning.as_ref().unwrap().draw_min), (7.0, 7));
        for (text, problem) in [
            ("search_share", "NAME=a,b"),
            ("shares=1", "not one of all, "),
            ("search_share=x", "not a number"),
            ("search_share=2", "search_share cannot be 2"),
        ] {
            assert!(format!("{:#}", parse(text).unwrap_err()).contains(problem), "{text}");
        }
    }

    #[test]
    fn numbers_are_printed_in_few_characters() {
        assert_eq!([0.7, 250.0, 2e-12, -30.0].map(short), ["0.7", "250", "2e-12", "-30"]);
    }

    #[test]
    fn all_halves_and_doubles_every_constant() {
        let all = parse("all").unwrap();
        assert_eq!(all.len(), 2 * Tuning::names().len());
        let share: Vec<f64> = all.iter().filter(|v| v.name == "search_share").map(|v| v.value).collect();
        assert_eq!(share, [0.15, 0.6]);
        // Twice this factor would let the trust regions grow at the end.
        assert!(all.iter().any(|v| v.name == "settle_shrink" && v.tuning.is_err()));
    }

    #[test]
    fn a_row_is_lost_when_it_passed_before() {
        let row = |passed: usize, elbo: Option<f64>| VariedRow {
            target: "star".into(),
            max_evals: 1,
            components: None,
            elbo,
            se: Some(0.1),
            passed,
            seeds: 3,
            evals: 1.0,
            change: None,
        };
        let passing = row(3, Some(0.0));
        assert!(row(2, Some(0.0)).lost(&passing) && row(3, None).lost(&passing));
        assert!(!row(3, Some(-1.0)).lost(&passing) && !row(1, Some(0.0)).lost(&row(2, Some(0.0))));
    }
}
