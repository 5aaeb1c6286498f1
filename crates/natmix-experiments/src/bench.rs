//! `natmix bench`: the automatic method against reference ELBOs, for every seed.
//!
//! A row is a fit with default settings and a budget of evaluations. Its ELBO is then measured with further draws that
//! do not count towards the budget, and a mode counts as found when the components nearest to it, in the mode's own
//! metric, hold between half and twice its weight.

mod reach;
mod rows;
mod specs;
mod truth;
mod vary;

pub use vary::{Effects, vary};

use anyhow::{Result, bail};
use natmix::Fit;
use natmix::automatic::Tuning;
use natmix::config::{Finish, Goal, StrategyConfig};
use natmix::family::Mixture;
use natmix_app::memory;
use natmix_app::problem::Problem;
use natmix_app::settings::Settings;
use reach::ThresholdObserver;
use rows::{BenchRow, ROWS};
use serde::Serialize;
use std::path::PathBuf;
use truth::{found, quadrature, true_modes};

/// Draws with which a finished fit is measured.
const MEASURING_DRAWS: usize = 200_000;
/// Seed of those draws; fits use other seeds.
const MEASURING_SEED: u64 = 990_001;
/// Share of seeds that must pass.
const PASSING: f64 = 0.9;

/// One fit.
#[derive(Clone, Debug, Serialize)]
pub struct SeedRun {
    seed: u64,
    elbo: f64,
    se: f64,
    evals: u64,
    components: usize,
    seconds: f64,
    /// Evaluations and seconds until the ELBO was significantly above the threshold `at_least`.
    evals_to_mark: Option<u64>,
    seconds_to_mark: Option<f64>,
    modes_found: Option<usize>,
    passed: bool,
}

/// One row with all its fits.
#[derive(Clone, Debug, Serialize)]
pub struct RowOutcome {
    target: String,
    max_evals: u64,
    components: Option<usize>,
    at_least: Option<f64>,
    aim: bool,
    modes: Option<usize>,
    passed: bool,
    /// By quadrature, for two-dimensional targets.
    log_evidence: Option<f64>,
    /// Peak memory of the whole process while fitting.
    peak_bytes: Option<u64>,
    runs: Vec<SeedRun>,
}

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Folder with the public tables that some rows need.
    pub data: Option<PathBuf>,
    /// Only these targets; all if empty.
    pub targets: Vec<String>,
    /// Only rows with at most this budget of evaluations.
    pub max_evals: Option<u64>,
    /// Seeds 1 to this.
    pub seeds: u64,
    /// What the runs are for.
    pub goal: Goal,
    /// Threads; 0 is one per core.
    pub threads: usize,
}

/// Receives a line of text after each fit.
type PrintLine<'a> = &'a mut dyn FnMut(&str) -> Result<()>;

/// Runs the requested rows; `print` receives a line of text after each fit.
pub fn run(args: &BenchOptions, print: PrintLine<'_>) -> Result<Vec<RowOutcome>> {
    let mut outcomes = Vec::new();
    for row in chosen(args, print)? {
        outcomes.push(run_row(&LoadedRow::new(row, args)?, args, print)?);
    }
    Ok(outcomes)
}

/// The requested rows.
fn chosen(args: &BenchOptions, print: PrintLine<'_>) -> Result<Vec<&'static BenchRow>> {
    if let Some(unknown) = args.targets.iter().find(|name| ROWS.iter().all(|row| row.target != **name)) {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.target).collect();
        names.dedup();
        bail!("--targets {unknown} is not one of {}", names.join(", "));
    }
    let wanted = |row: &&BenchRow| {
        let named = args.targets.is_empty() || args.targets.iter().any(|name| name == row.target);
        named && args.max_evals.is_none_or(|most| row.evals <= most)
    };
    let mut rows = Vec::new();
    for row in ROWS.iter().filter(wanted) {
        // If it is requested by name, a row without its table is an error.
        if let (Some(table), None, true) = (row.table(), &args.data, args.targets.is_empty()) {
            print(&format!(
                "{}: skipped, needs the public table {table} in the folder given by NATMIX_DATA\n",
                row.target
            ))?;
            continue;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A row that is ready to be fitted.
struct LoadedRow {
    row: &'static BenchRow,
    settings: Settings,
    problem: Problem,
    modes: Option<Mixture>,
    goal: Goal,
}

impl LoadedRow {
    fn new(row: &'static BenchRow, args: &BenchOptions) -> Result<Self> {
        let (settings, problem) = row.load(args.data.as_deref())?;
        Ok(Self { row, settings, problem, modes: true_modes(row.target)?, goal: args.goal })
    }

    /// One fit with its ELBO from `draws` further draws, its mixture, and the peak memory of the whole process while
    /// fitting.
    fn fit(&self, seed: u64, threads: usize, tuning: &Tuning, draws: usize) -> Result<(SeedRun, Mixture, Option<u64>)> {
        let target = self.problem.target()?;
        let mut config = self.settings.config(&self.problem.about()?)?;
        (config.seed, config.threads) = (seed, threads);
        // The mixture is measured, not an answer made from it.
        (config.goal, config.finish, config.diagnostic_draws) = (self.goal, Finish::Never, 0);
        if let StrategyConfig::Automatic(automatic) = &mut config.strategy {
            *automatic.tuning = tuning.clone();
        }
        let mut reach = ThresholdObserver::new(self.row.at_least.unwrap_or(f64::INFINITY));
        memory::peak();
        let fitted = Fit::new(target, config).observe(&mut reach).run()?;
        let peak = memory::peak();
        let measured = natmix::diagnose(target, &fitted.mixture, draws, MEASURING_SEED)?;
        let modes_found = self.modes.as_ref().map(|modes| found(modes, &fitted.mixture));
        let all_found = self.modes.as_ref().is_none_or(|modes| modes_found == Some(modes.len()));
        let run = SeedRun {
            seed,
            elbo: measured.elbo.mean,
            se: measured.elbo.se,
            evals: fitted.evals,
            components: fitted.mixture.len(),
            seconds: fitted.seconds,
            evals_to_mark: reach.reached.map(|at| at.0),
            seconds_to_mark: reach.reached.map(|at| at.1),
            modes_found,
            passed: self.row.at_least.is_none_or(|least| measured.elbo.mean >= least) && all_found,
        };
        Ok((run, fitted.mixture, peak))
    }
}

fn run_row(loaded: &LoadedRow, args: &BenchOptions, print: PrintLine<'_>) -> Result<RowOutcome> {
    let LoadedRow { row, problem, modes, .. } = loaded;
    print(&row.title())?;
    let (mut runs, mut log_evidence, mut peak) = (Vec::<SeedRun>::new(), None, None);
    for seed in 1..=args.seeds {
        let (run, mixture, bytes) = loaded.fit(seed, args.threads, &Tuning::default(), MEASURING_DRAWS)?;
        peak = peak.max(bytes);
        if seed == 1 {
            log_evidence = quadrature(problem.target()?, &mixture)?;
        }
        print(&run.line(modes.as_ref().map(Mixture::len)))?;
        runs.push(run);
    }
    let passed = runs.iter().filter(|run| run.passed).count() as f64 >= PASSING * runs.len() as f64;
    let outcome = RowOutcome {
        target: row.target.into(),
        max_evals: row.evals,
        components: (row.components > 0).then_some(row.components),
        at_least: row.at_least,
        aim: row.aim,
        modes: modes.as_ref().map(Mixture::len),
        passed,
        log_evidence,
        peak_bytes: peak,
        runs,
    };
    print(&outcome.summary())?;
    Ok(outcome)
}

impl BenchRow {
    fn title(&self) -> String {
        let BenchRow { target, evals, components, at_least, aim } = self;
        let asked = if *components > 0 { format!(", {components} components") } else { String::new() };
        let least = at_least.map_or(String::new(), |x| format!(", {} {x}", if *aim { "aim" } else { "at least" }));
        format!("\n{target}, {evals} evaluations{asked}{least}\n")
    }
}

impl SeedRun {
    fn line(&self, modes: Option<usize>) -> String {
        let SeedRun { seed, elbo, se, evals, components, seconds, .. } = self;
        let of_modes =
            modes.zip(self.modes_found).map_or(String::new(), |(modes, found)| format!("  {found} of {modes} modes"));
        let mark = self
            .evals_to_mark
            .zip(self.seconds_to_mark)
            .map_or(String::new(), |(evals, seconds)| format!("  reached after {evals}, {seconds:.2} s"));
        let missed = if self.passed { "" } else { "  missed" };
        format!(
            "  seed {seed:2}  ELBO {elbo:10.4} +- {se:.4}  {evals:7} evaluations  {components:3} components  \
             {seconds:6.2} s{mark}{of_modes}{missed}\n"
        )
    }
}

impl RowOutcome {
    /// Whether a required row did not pass.
    pub fn failed(&self) -> bool {
        !self.passed && !self.aim
    }

    fn summary(&self) -> String {
        let verdict = match (self.at_least, self.passed) {
            (None, true) => "reported",
            (_, true) => "passed",
            (_, false) => "failed",
        };
        let evidence = self.log_evidence.map_or(String::new(), |x| format!("; log Z by quadrature {x:.4}"));
        let memory = self.peak_bytes.map_or(String::new(), |bytes| format!("; {} MB peak memory", bytes / 1_000_000));
        format!("  {verdict}{evidence}{memory}\n")
    }
}
