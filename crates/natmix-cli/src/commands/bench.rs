//! `natmix bench`: the automatic mixture against figures to beat, every seed.
//!
//! A row is a fit at defaults with nothing set but a budget of evaluations. Its ELBO is then measured with further draws
//! that do not count, and a mode counts as found when the components nearest to it, in the mode's own metric, hold between
//! half and twice its weight.

mod reach;
mod rows;
mod truth;
mod vary;

use crate::args::BenchArgs;
use crate::problem::Problem;
use crate::settings::{Settings, as_option};
use crate::{folder, memory};
use anyhow::{Context, Result, bail};
use natmix::Fit;
use natmix::automatic::Tuning;
use natmix::family::Mixture;
use reach::Reach;
use rows::{ROWS, Row};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use truth::{found, quadrature, true_modes};

/// Draws that measure a finished fit.
const MEASURING_DRAWS: usize = 200_000;
/// Seed of those draws; fits have their own.
const MEASURING_SEED: u64 = 990_001;
/// Share of seeds that must pass.
const PASSING: f64 = 0.9;

/// One fit.
#[derive(Serialize)]
struct Run {
    seed: u64,
    elbo: f64,
    se: f64,
    evals: u64,
    components: usize,
    seconds: f64,
    /// Evaluations and seconds until the ELBO was surely above the mark.
    evals_to_mark: Option<u64>,
    seconds_to_mark: Option<f64>,
    modes_found: Option<usize>,
    passed: bool,
}

/// One row with all its fits.
#[derive(Serialize)]
struct Outcome {
    target: String,
    max_evals: u64,
    components: Option<usize>,
    at_least: Option<f64>,
    aim: bool,
    modes: Option<usize>,
    passed: bool,
    /// By quadrature, in the plane.
    log_evidence: Option<f64>,
    /// Memory of the whole process while fitting.
    peak_bytes: Option<u64>,
    runs: Vec<Run>,
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let data = std::env::var_os("NATMIX_DATA").map(PathBuf::from);
    let data =
        data.context("NATMIX_DATA is not set: it names the folder with targets/*.json and targets/*_design.csv")?;
    if let Some(unknown) = args.targets.iter().find(|name| ROWS.iter().all(|row| row.target != **name)) {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.target).collect();
        names.dedup();
        bail!("--targets {unknown} is not one of {}", names.join(", "));
    }
    let wanted = |row: &&Row| {
        let named = args.targets.is_empty() || args.targets.iter().any(|name| name == row.target);
        named && args.max_evals.is_none_or(|most| row.evals <= most)
    };
    let chosen = ROWS.iter().filter(wanted);
    if !args.vary.is_empty() {
        return vary::run(&chosen.map(|row| Loaded::new(row, &data)).collect::<Result<Vec<_>>>()?, args);
    }
    let outcomes = chosen.map(|row| run_row(&Loaded::new(row, &data)?, args)).collect::<Result<Vec<_>>>()?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed && !outcome.aim).count();
    if args.json {
        folder::print(&(serde_json::to_string_pretty(&outcomes)? + "\n"))?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A row that is ready to be fitted.
struct Loaded {
    row: &'static Row,
    settings: Settings,
    problem: Problem,
    modes: Option<Mixture>,
}

impl Loaded {
    fn new(row: &'static Row, data: &Path) -> Result<Self> {
        let (settings, problem) = row.load(data)?;
        let modes = true_modes(settings.spec.as_deref())?;
        Ok(Self { row, settings, problem, modes })
    }

    /// One fit with its ELBO from `draws` further draws, its mixture, and the memory of the whole process while fitting.
    fn fit(&self, seed: u64, threads: usize, tuning: &Tuning, draws: usize) -> Result<(Run, Mixture, Option<u64>)> {
        let target = self.problem.target();
        let settings = Settings { seed, threads, ..self.settings.clone() };
        let mut config = settings.engine(&self.problem.about()).map_err(as_option)?;
        config.diagnostic_draws = 0;
        config.tuning = tuning.clone();
        let mut reach = Reach::new(self.row.at_least.unwrap_or(f64::INFINITY));
        memory::peak();
        let fitted = Fit::new(target, config).observe(&mut reach).run()?;
        let peak = memory::peak();
        let measured = natmix::diagnose(target, &fitted.mixture, draws, MEASURING_SEED)?;
        let modes_found = self.modes.as_ref().map(|modes| found(modes, &fitted.mixture));
        let all_found = self.modes.as_ref().is_none_or(|modes| modes_found == Some(modes.len()));
        let run = Run {
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

fn run_row(loaded: &Loaded, args: &BenchArgs) -> Result<Outcome> {
    let Loaded { row, problem, modes, .. } = loaded;
    let say = |text: String| if args.json { Ok(()) } else { folder::print(&text) };
    say(row.title())?;
    let (mut runs, mut log_evidence, mut peak) = (Vec::<Run>::new(), None, None);
    for seed in 1..=args.seeds {
        let (run, mixture, bytes) = loaded.fit(seed, args.threads, &Tuning::default(), MEASURING_DRAWS)?;
        peak = peak.max(bytes);
        if seed == 1 {
            log_evidence = quadrature(problem.target(), &mixture)?;
        }
        say(run.line(modes.as_ref().map(Mixture::len)))?;
        runs.push(run);
    }
    let passed = runs.iter().filter(|run| run.passed).count() as f64 >= PASSING * runs.len() as f64;
    let outcome = Outcome {
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
    say(outcome.summary())?;
    Ok(outcome)
}

impl Row {
    fn title(&self) -> String {
        let Row { target, evals, components, at_least, aim } = self;
        let asked = if *components > 0 { format!(", {components} components") } else { String::new() };
        let least = at_least.map_or(String::new(), |x| format!(", {} {x}", if *aim { "aim" } else { "at least" }));
        format!("\n{target}, {evals} evaluations{asked}{least}\n")
    }
}

impl Run {
    fn line(&self, modes: Option<usize>) -> String {
        let Run { seed, elbo, se, evals, components, seconds, .. } = self;
        let of_modes =
            modes.zip(self.modes_found).map_or(String::new(), |(modes, found)| format!("  {found} of {modes} modes"));
        let mark = self
            .evals_to_mark
            .zip(self.seconds_to_mark)
            .map_or(String::new(), |(evals, seconds)| format!("  mark at {evals}, {seconds:.2} s"));
        let missed = if self.passed { "" } else { "  missed" };
        format!(
            "  seed {seed:2}  ELBO {elbo:10.4} +- {se:.4}  {evals:7} evaluations  {components:3} components  \
             {seconds:6.2} s{mark}{of_modes}{missed}\n"
        )
    }
}

impl Outcome {
    fn summary(&self) -> String {
        let verdict = match (self.at_least, self.passed) {
            (None, true) => "reported",
            (_, true) => "holds",
            (_, false) => "does not hold",
        };
        let evidence = self.log_evidence.map_or(String::new(), |x| format!("; log Z by quadrature {x:.4}"));
        let memory = self.peak_bytes.map_or(String::new(), |bytes| format!("; {} MB at most", bytes / 1_000_000));
        format!("  {verdict}{evidence}{memory}\n")
    }
}
