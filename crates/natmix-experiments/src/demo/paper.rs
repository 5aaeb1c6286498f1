//! The decision boundaries with the draft's own settings, and with its own variants of the method.
//!
//! 500 epochs of minibatches of 10 rows, 100 draws per component, every number of components from random starts, and steps
//! of a fixed size. The draft does not say which of its rules made its pictures, so all of them run; a fit that fails
//! is shown as failed.

use super::measure::Measured;
use super::{DemoSet, MOST_COMPONENTS, START_SPREAD, base, network};
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
use natmix_models::Observations;
use std::ops::ControlFlow;

/// Epochs, rows per minibatch, and draws per component.
const EPOCHS: u64 = 500;
const BATCH: usize = 10;
const DRAWS: usize = 100;
/// Step size; the draft states none.
const RATE: f64 = 0.02;
/// Steps that one point of a curve averages over.
const CURVE_STEPS: u64 = 50;

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
                // As many points in all as the other variants have.
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

impl DemoSet {
    /// Fits every K from random starts.
    pub(super) fn fit_paper(
        &mut self,
        variant: Variant,
        test: &Observations,
        seed: u64,
        bar: &ProgressBar,
    ) -> Result<()> {
        self.test_rows = test.rows();
        let network = network(&self.train)?;
        for components in 1..=MOST_COMPONENTS {
            bar.set_message(format!("{}: K = {components}", self.title));
            let start = random_start(components, variant.covariance(), network.dim(), START_SPREAD, seed)?;
            let config = Config {
                max_iterations: EPOCHS * self.train.rows().div_ceil(BATCH) as u64,
                // All steps are taken.
                tolerance: f64::MIN_POSITIVE,
                covariance: variant.covariance(),
                ..base(components, seed).with_parts(|parts| variant.parts(parts))
            };
            let mut curve = Curve::default();
            match Fit::new(&network, config).start(start).observe(&mut curve).run() {
                Ok(fitted) => self.fits.push(Measured::new(&network, &fitted, test, &self.grid, (0.0, 0))?),
                Err(error) => self.failed.push((components, curve.steps, error.to_string())),
            }
            self.curves.push(TrainingCurve { name: format!("K = {components}"), points: curve.points });
            bar.inc(1);
        }
        Ok(())
    }
}

/// The ELBO over the steps, averaged.
#[derive(Default)]
struct Curve {
    points: Vec<(f64, f64)>,
    steps: u64,
    sum: f64,
}

impl Observer for Curve {
    fn iteration(&mut self, iteration: &Iteration<'_>) -> Result<ControlFlow<()>, natmix::Error> {
        self.steps = iteration.iteration;
        self.sum += iteration.elbo;
        if self.steps.is_multiple_of(CURVE_STEPS) {
            self.points.push((self.steps as f64, self.sum / CURVE_STEPS as f64));
            self.sum = 0.0;
        }
        Ok(ControlFlow::Continue(()))
    }
}
