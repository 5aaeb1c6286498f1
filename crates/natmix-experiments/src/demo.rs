//! `natmix demo`, or `natmix reproduce decision-boundaries`: a small network on built-in data, with 1 to 5 components.
//!
//! A network 2-10-1 with `max(., 0)` units and prior N(0, 1) on its 41 weights is fitted to two sets of 100 points: those
//! of the paper, which a line separates, and crossed blobs, which none separates. The page says what these fits show, and
//! whether they converged.

mod findings;
mod measure;
mod methods;
mod page;
mod paper;
mod picture;

use crate::datasets;
use crate::reproduce::curves::TrainingCurve;
use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use measure::{Grid, Measured};
use natmix::config::Finish;
use natmix::family::{CovarianceKind, Gaussian, Mixture};
use natmix::target::Target;
use natmix::{Config, Fit, Method, Parts};
use natmix_app::networks::engine::random_start;
use natmix_models::Observations;
use natmix_nets::{Activation, Mlp, Network, NetworkLikelihood};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Most components.
const MOST_COMPONENTS: usize = 5;
/// Hidden units.
const HIDDEN: usize = 10;
/// Spread of the points at which components start.
const START_SPREAD: f64 = 0.7;
/// Most iterations of each component alone, and of a mixture of them: both converge earlier.
const ALONE: u64 = 5_000;
const TOGETHER: u64 = 3_000;
/// Expected gain of the ELBO below which a fit has converged. The noise of an iteration's points does not allow much less: at
/// 0.001 no fit ever ends, and 480 iterations, which were allowed once, leave up to 0.8 nats.
const TOLERANCE: f64 = 0.02;
/// Initial KL bound per step of components that were already fitted alone.
const PREFITTED_TRUST_REGION: f64 = 0.02;
/// Twice the dimension: as many points as the cubature has directions.
const POINTS: usize = 82;
/// Fresh draws for the ELBO: its terms have heavy tails here.
const ELBO_DRAWS: usize = 20_000;
/// Seed of the crossed blobs; fixed, so that results can be compared.
const TRAIN: u64 = 1;
/// Seed of the test data.
const TEST: u64 = 2;

/// All results, as written to `demo.json`.
#[derive(Debug, Serialize)]
struct Demo {
    seed: u64,
    version: &'static str,
    /// Whether with the settings of the draft.
    paper: bool,
    seconds: f64,
    sets: Vec<DemoSet>,
}

/// One data set.
#[derive(Debug, Serialize)]
struct DemoSet {
    name: String,
    title: String,
    about: String,
    rows: usize,
    test_rows: usize,
    fits: Vec<Measured>,
    /// Fits that ended with an error.
    failed: Vec<FailedFit>,
    methods: Vec<methods::MethodRow>,
    /// ELBO over the steps, with the settings of the draft.
    curves: Vec<TrainingCurve>,
    #[serde(skip)]
    train: Observations,
    #[serde(skip)]
    grid: Grid,
}

/// A fit that ended with an error.
#[derive(Debug, Serialize)]
struct FailedFit {
    components: usize,
    /// Steps that it had taken.
    steps: u64,
    error: String,
}

/// A data set to fit, with its name, heading and description.
struct DemoTable {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    train: Observations,
    test: Observations,
}

/// Runs the demo, writes its page into the folder `out`, and returns the table for the terminal.
///
/// `paper` uses the settings of the draft and its own variants of the method.
pub fn run(out: &Path, seed: u64, quiet: bool, paper: bool) -> Result<String> {
    let begin = Instant::now();
    let figures = out.join("figures");
    std::fs::create_dir_all(&figures).with_context(|| format!("cannot create {}", figures.display()))?;
    let tables = [
        DemoTable {
            name: "blobs",
            title: "The paper's points",
            about: "a line separates the classes",
            train: datasets::paper_points(),
            test: datasets::blobs(TEST),
        },
        DemoTable {
            name: "crossed",
            title: "Crossed blobs",
            about: "no line separates the classes",
            train: datasets::crossed(TRAIN),
            test: datasets::crossed(TEST),
        },
    ];
    let bar = progress(quiet, (tables.len() * (2 * MOST_COMPONENTS + 1)) as u64);
    let sets = if paper {
        paper::fit_variants(&tables, seed, &bar)?
    } else {
        let fit_table = |table: &DemoTable| {
            let mut set = DemoSet::new(table.name.into(), table.title.into(), table.about.into(), table);
            set.fit_all(&table.test, seed, &bar).map(|()| set)
        };
        tables.iter().map(fit_table).collect::<Result<_>>()?
    };
    bar.finish_and_clear();
    let version = env!("CARGO_PKG_VERSION");
    let demo = Demo { seed, version, paper, seconds: begin.elapsed().as_secs_f64(), sets };
    page::write(out, &demo).with_context(|| format!("cannot write the page in {}", out.display()))?;
    let tables: String = demo.sets.iter().map(|set| page::text_table(set) + "\n").collect();
    Ok(format!("{tables}Report: {}\n", out.join("report.html").display()))
}

fn progress(quiet: bool, steps: u64) -> ProgressBar {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(steps) };
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar
}

impl DemoSet {
    fn new(name: String, title: String, about: String, table: &DemoTable) -> Self {
        let train = table.train.clone();
        let grid = Grid::around(train.design());
        Self {
            name,
            title,
            about,
            rows: train.rows(),
            test_rows: table.test.rows(),
            fits: Vec::new(),
            failed: Vec::new(),
            methods: Vec::new(),
            curves: Vec::new(),
            train,
            grid,
        }
    }

    /// Fits as many components alone as the largest mixture has; the best K of them together are the start of the
    /// mixture of K. So K = 1 is the best of all starts, and what a mixture gains over it is not due to a lucky start.
    fn fit_all(&mut self, test: &Observations, seed: u64, bar: &ProgressBar) -> Result<()> {
        let network = network(&self.train)?;
        let dim = network.dim();
        bar.set_message(format!("{}: {MOST_COMPONENTS} starts", self.title));
        let fit_alone = |place: u64| -> Result<(f64, u64, Gaussian)> {
            // A separate stream per start, whatever the seed.
            let start =
                random_start(1, CovarianceKind::Full, dim, START_SPREAD, seed.wrapping_mul(1000).wrapping_add(place))?;
            let config = Config {
                max_iterations: ALONE,
                diagnostic_draws: 3_000,
                threads: 1,
                ..base(1, seed).with_parts(|parts| Parts { trust_region: 1.0, ..parts })
            };
            let fitted = Fit::new(&network, config).start(start).run()?;
            let elbo = fitted.diagnostics.as_ref().map_or(fitted.running_elbo.0, |d| d.elbo.mean);
            bar.inc(1);
            Ok((elbo, fitted.iterations, fitted.mixture.components()[0].clone()))
        };
        let clock = Instant::now();
        let mut alone = run_in_parallel(MOST_COMPONENTS as u64, fit_alone)?;
        let each = clock.elapsed().as_secs_f64() / MOST_COMPONENTS as f64;
        alone.sort_by(|a, b| b.0.total_cmp(&a.0));
        for components in 1..=MOST_COMPONENTS {
            bar.set_message(format!("{}: K = {components}", self.title));
            let parts = &alone[..components];
            // The optimal weights of components that do not overlap.
            let weights: Vec<f64> = parts.iter().map(|(elbo, ..)| (elbo - parts[0].0).max(-20.0).exp()).collect();
            let start = Mixture::new(&weights, parts.iter().map(|(.., part)| part.clone()).collect())?;
            let fitted = Fit::new(&network, base(components, seed)).start(start).run()?;
            let before = each * components as f64;
            let longest = parts.iter().map(|(_, iterations, _)| *iterations).max().unwrap_or(0);
            self.fits.push(Measured::new(&network, &fitted, test, &self.grid, (before, longest))?);
            bar.inc(1);
        }
        self.methods = methods::compare(&network, seed)?;
        bar.inc(1);
        Ok(())
    }
}

/// Runs `work` for 0 to `count`, as many at a time as there are cores: a single small component gains little from
/// several threads.
fn run_in_parallel<T: Send>(count: u64, work: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count as usize);
    let next = AtomicU64::new(0);
    let take = || {
        let places = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|place| *place < count));
        places.map(|place| Ok((place, work(place)?))).collect::<Result<Vec<_>>>()
    };
    let found: Vec<Vec<(u64, T)>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(take)).collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a fit from one of the starts panicked"))?)
            .collect::<Result<_>>()
    })?;
    let mut found: Vec<(u64, T)> = found.into_iter().flatten().collect();
    found.sort_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, result)| result).collect())
}

/// The network of the demo with its data.
fn network(train: &Observations) -> Result<Mlp> {
    let network = Network::new(2, &[HIDDEN], Activation::Relu, NetworkLikelihood::Bernoulli)?;
    Ok(Mlp::new(network, train.clone(), &[1.0])?)
}

/// Settings that all fits start from.
fn base(components: usize, seed: u64) -> Config {
    Config {
        tolerance: TOLERANCE,
        max_iterations: TOGETHER,
        diagnostic_draws: ELBO_DRAWS,
        // Predictions average over the mixture.
        finish: Finish::Never,
        seed,
        ..Parts {
            components,
            draws_per_component: POINTS,
            // The components are already fitted: large first steps would only disturb them.
            trust_region: PREFITTED_TRUST_REGION,
            ..Parts::new(Method::ComponentDraws)
        }
        .into()
    }
}
