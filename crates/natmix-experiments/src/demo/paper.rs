//! The decision boundaries with the draft's own settings, and with its own variants of the method.
//!
//! 500 epochs of minibatches of 10 rows, 100 draws per component, or of the mixture in Algorithm 1, every number of components
//! from random starts, and steps of a fixed size. The draft does not say which of its rules made its pictures, so all of
//! them run; a fit that fails is shown as failed.

use super::measure::Measured;
use super::{DemoSet, DemoTable, FailedFit, MOST_COMPONENTS, START_SPREAD, base, network, run_in_parallel};
use crate::reproduce::curves::TrainingCurve;
use anyhow::Result;
use indicatif::ProgressBar;
use natmix::config::Source;
use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::family::CovarianceKind;
use natmix::observe::{Iteration, Observer};
use natmix::rule::{Rule, WeightRule};
use natmix::target::Target;
use natmix::{Config, Fit, Parts};
use natmix_app::networks::engine::random_start;
use std::ops::ControlFlow;

/// Epochs, rows per minibatch, and draws per component, or of the mixture.
const EPOCHS: u64 = 500;
const BATCH: usize = 10;
const DRAWS: usize = 100;
/// Step size; the draft states none.
const RATE: f64 = 0.02;
/// Steps that one point of a curve averages over.
const CURVE_STEPS: u64 = 50;
/// Fresh draws for the ELBO: the fits differ by far more than its error.
const ELBO_DRAWS: usize = 10_000;

/// One variant of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Draws from each component, Stein's curvature, the improved step: section 3.1 with its errata.
    Corrected,
    /// Draws from the mixture and the plain step of Algorithm 1, which learns the weights.
    Algorithm1,
    /// Draws from each component, squared gradients for the curvature (section 2.3), diagonal covariances.
    SquaredGradients,
    /// As corrected, with the plain rule for the weights.
    LearnedWeights,
}

impl Variant {
    /// Every variant, with its name, heading and description.
    pub const ALL: [(Variant, &'static str, &'static str, &'static str); 4] = [
        (
            Variant::Corrected,
            "corrected",
            "as corrected",
            "draws from each component, Stein's identity for the curvature, improved step, weights within a KL bound",
        ),
        (
            Variant::Algorithm1,
            "algorithm-1",
            "Algorithm 1",
            "draws from the mixture, plain step, weights by the plain rule; the Gauss-Newton matrix stands in for the \
             Hessian, which max(x, 0) units do not have",
        ),
        (
            Variant::SquaredGradients,
            "squared-gradients",
            "squared gradients",
            "draws from each component, squared per-example gradients for the curvature, plain step, diagonal covariances, \
             weights by the plain rule",
        ),
        (Variant::LearnedWeights, "learned-weights", "learned weights", "as corrected, with weights by the plain rule"),
    ];

    fn parts(self, parts: Parts) -> Parts {
        let parts = Parts {
            rule: Rule::Improved,
            rate: RATE,
            draws: Plan::Independent,
            draws_per_component: DRAWS,
            minibatch: Some(BATCH),
            ..parts
        };
        let learned = Parts { weight_rule: WeightRule::Plain, weight_rate: RATE, ..parts.clone() };
        match self {
            Variant::Corrected => parts,
            Variant::LearnedWeights => learned,
            Variant::Algorithm1 => Parts {
                source: Source::Mixture,
                estimator: Estimator::GaussNewton,
                rule: Rule::Plain,
                draws_per_component: DRAWS.div_ceil(parts.components),
                ..learned
            },
            Variant::SquaredGradients => Parts { estimator: Estimator::EmpiricalFisher, rule: Rule::Plain, ..learned },
        }
    }

    fn covariance(self) -> CovarianceKind {
        match self {
            Variant::SquaredGradients => CovarianceKind::Diag,
            _ => CovarianceKind::Full,
        }
    }
}

/// Fits every variant with every number of components to every data set, as many fits at a time as there are cores.
pub(super) fn fit_variants(tables: &[DemoTable], seed: u64, bar: &ProgressBar) -> Result<Vec<DemoSet>> {
    let pairs = || tables.iter().flat_map(|table| Variant::ALL.map(|variant| (table, variant)));
    let mut sets = Vec::new();
    for (table, (_, short, heading, words)) in pairs() {
        let name = format!("{}-{short}", table.name);
        let title = format!("{}, {heading}", table.title);
        sets.push(DemoSet::new(name, title, format!("{}; {words}", table.about), table));
    }
    let pairs: Vec<_> = pairs().collect();
    // The largest first: the last ones then end together.
    let jobs: Vec<(usize, usize)> =
        (1..=MOST_COMPONENTS).rev().flat_map(|k| (0..pairs.len()).map(move |i| (k, i))).collect();
    bar.set_length(jobs.len() as u64 * tables.first().map_or(0, steps));
    let fit = |place: u64| {
        let (components, i) = jobs[place as usize];
        let (table, (variant, ..)) = pairs[i];
        bar.set_message(format!("{}, K = {components}", sets[i].title));
        fit_variant(variant, components, table, (&sets[i], seed), bar)
    };
    let mut fits = run_in_parallel(jobs.len() as u64, fit)?;
    // In the order of K.
    for ((components, i), (fitted, points)) in jobs.iter().zip(fits.drain(..)).rev() {
        let set = &mut sets[*i];
        set.curves.push(TrainingCurve { name: format!("K = {components}"), points });
        match fitted {
            Ok(fitted) => set.fits.push(fitted),
            Err(failed) => set.failed.push(failed),
        }
    }
    Ok(sets)
}

/// Steps of a fit.
fn steps(table: &DemoTable) -> u64 {
    EPOCHS * table.train.rows().div_ceil(BATCH) as u64
}

/// What became of a fit, and the points of its curve.
type VariantFit = (Result<Measured, FailedFit>, Vec<(f64, f64)>);

fn fit_variant(
    variant: Variant,
    components: usize,
    table: &DemoTable,
    (set, seed): (&DemoSet, u64),
    bar: &ProgressBar,
) -> Result<VariantFit> {
    let network = network(&table.train)?;
    let start = random_start(components, variant.covariance(), network.dim(), START_SPREAD, seed)?;
    let config = Config {
        max_iterations: steps(table),
        // All steps are taken.
        tolerance: f64::MIN_POSITIVE,
        covariance: variant.covariance(),
        // Only the ELBO is wanted: it is measured below, without everything that a verdict needs.
        diagnostic_draws: 0,
        threads: 1,
        ..base(components, seed).with_parts(|parts| variant.parts(parts))
    };
    let mut curve = Curve { points: Vec::new(), steps: 0, sum: 0.0, bar };
    let fitted = Fit::new(&network, config).start(start).observe(&mut curve).run();
    // A fit that failed takes no more steps.
    bar.inc(steps(table) - curve.steps / CURVE_STEPS * CURVE_STEPS);
    let measured = match fitted {
        Ok(mut fitted) => {
            fitted.diagnostics = Some(natmix::diagnose(&network, &fitted.mixture, ELBO_DRAWS, seed)?);
            Ok(Measured::new(&network, &fitted, &table.test, &set.grid, (0.0, 0))?)
        }
        Err(error) => Err(FailedFit { components, steps: curve.steps, error: error.to_string() }),
    };
    Ok((measured, curve.points))
}

/// The ELBO over the steps, averaged.
struct Curve<'a> {
    points: Vec<(f64, f64)>,
    steps: u64,
    sum: f64,
    bar: &'a ProgressBar,
}

impl Observer for Curve<'_> {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, natmix::Error> {
        self.steps = iteration.iteration;
        self.sum += iteration.elbo;
        if self.steps.is_multiple_of(CURVE_STEPS) {
            self.points.push((self.steps as f64, self.sum / CURVE_STEPS as f64));
            self.sum = 0.0;
            self.bar.inc(CURVE_STEPS);
        }
        Ok(ControlFlow::Continue(()))
    }
}
