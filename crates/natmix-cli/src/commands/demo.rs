//! `natmix demo`: decision boundaries of a small network on built-in data, with 1 to 5 components.
//!
//! A network 2-10-1 with `max(., 0)` units and prior N(0, 1) on its 41 weights is fitted to two sets of 100 points. What
//! counts: the ELBO does not fall with more components, components predict differently, and the predictive entropy grows
//! away from the data.

mod measure;
mod page;
mod picture;

use crate::args::DemoArgs;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use measure::{Grid, Measured};
use natmix::family::{Covariances, Gaussian, Mixture};
use natmix::target::Target;
use natmix::{Config, Fit, Method};
use natmix_models::network::{Activation, Network};
use natmix_models::{Observations, datasets};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;

/// Most components.
const MOST_COMPONENTS: usize = 5;
/// Hidden units.
const HIDDEN: usize = 10;
/// Spread of the places where components start.
const START_SPREAD: f64 = 0.7;
/// Each component's own first standard deviation: narrow enough for each to settle where it starts.
const START_SD: f64 = 0.3;
/// Seed of the data to train with; built in, so that figures can be compared.
const TRAIN: u64 = 1;
/// Seed of the data to test with.
const TEST: u64 = 2;

/// Everything that was found, as `demo.json` holds it.
#[derive(Debug, Serialize)]
struct Demo {
    seed: u64,
    version: &'static str,
    seconds: f64,
    sets: Vec<Set>,
}

/// One data set.
#[derive(Debug, Serialize)]
struct Set {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    rows: usize,
    test_rows: usize,
    fits: Vec<Measured>,
    #[serde(skip)]
    train: Observations,
    #[serde(skip)]
    grid: Grid,
}

/// Runs the command.
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    let begin = Instant::now();
    let figures = args.out.join("figures");
    std::fs::create_dir_all(&figures).with_context(|| format!("cannot create {}", figures.display()))?;
    let bar = progress(args.quiet);
    let blobs = Set::new("blobs", "Five blobs", "a line separates the classes", datasets::blobs(TRAIN));
    let two_moons = Set::new("moons", "Two moons", "no line separates the classes", moons(100, TRAIN)?);
    let tests = [datasets::blobs(TEST), moons(500, TEST)?];
    let mut sets = [blobs, two_moons];
    for (set, test) in sets.iter_mut().zip(&tests) {
        set.fit_all(test, args.seed, &bar)?;
    }
    bar.finish_and_clear();
    let version = env!("CARGO_PKG_VERSION");
    let demo = Demo { seed: args.seed, version, seconds: begin.elapsed().as_secs_f64(), sets: sets.into() };
    page::write(&args.out, &demo).with_context(|| format!("cannot write the page in {}", args.out.display()))?;
    for set in &demo.sets {
        println!("{}", page::text_table(set));
    }
    println!("Pictures: {}", args.out.join("report.html").display());
    Ok(ExitCode::SUCCESS)
}

fn progress(quiet: bool) -> ProgressBar {
    let steps = (MOST_COMPONENTS * (MOST_COMPONENTS + 1)) as u64;
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(steps) };
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// Two moons three times as large as usual: as far across as weights of size 1 can bend a boundary around.
fn moons(n: usize, seed: u64) -> Result<Observations> {
    let moons = datasets::moons(n, 0.15, seed);
    Ok(Observations::new(moons.design().iter().map(|x| 3.0 * x).collect(), 2, moons.outcome().to_vec())?)
}

impl Set {
    fn new(name: &'static str, title: &'static str, about: &'static str, train: Observations) -> Self {
        let grid = Grid::around(train.design());
        Self { name, title, about, rows: train.rows(), test_rows: 0, fits: Vec::new(), train, grid }
    }

    fn fit_all(&mut self, test: &Observations, seed: u64, bar: &ProgressBar) -> Result<()> {
        self.test_rows = test.rows();
        let network = Network::new(self.train.clone(), HIDDEN, Activation::Relu, 1.0)?;
        for components in 1..=MOST_COMPONENTS {
            bar.set_message(format!("{}: K = {components}", self.title));
            let start = start(components, network.dim(), seed)?;
            let fitted = Fit::new(&network, config(components, seed)).start(start).run()?;
            self.fits.push(Measured::new(&network, &fitted, test, &self.grid)?);
            bar.inc(components as u64);
        }
        Ok(())
    }
}

fn config(components: usize, seed: u64) -> Config {
    Config {
        components,
        // Twice the dimension: as many points as the cubature has directions.
        draws_per_component: 82,
        tolerance: 0.02,
        max_iterations: 500,
        diagnostic_draws: 10_000,
        seed,
        ..Config::new(Method::ComponentDraws)
    }
}

/// Components at random places; more components start where fewer did, and at new places beside.
fn start(components: usize, dim: usize, seed: u64) -> Result<Mixture> {
    let means = Mixture::single(Gaussian::isotropic(vec![0.0; dim], START_SPREAD)).sample(components, seed);
    let means: Vec<Vec<f64>> = means.chunks_exact(dim).map(<[f64]>::to_vec).collect();
    let row = |i: usize| (0..dim).map(|j| if i == j { START_SD * START_SD } else { 0.0 }).collect();
    let covariances = vec![(0..dim).map(row).collect(); components];
    Ok(Mixture::from_moments(&vec![1.0; components], &means, Covariances::Full(&covariances))?)
}
