//! One target of the battery: its name, family and half, and how its problem and its truth are made.

use super::densities::{ExactDensity, ExactSampler, exact_sample};
use super::faulty::{FaultyGradient, GradientChange, ImproperDensity};
use super::modes::KnownModes;
use super::reference::reference_sample;
use super::regressions::SimulatedRegression;
use super::truth::Truth;
use anyhow::Result;
use natmix::autodiff::AutoDiff;
use natmix::config::{OrAuto, Overrides};
use natmix::target::Target;
use natmix_app::problem::{ExternalFunction, Problem};
use natmix_app::settings::Settings;
use serde::Serialize;

/// Seed of the exact samples; fits use other seeds.
const TRUTH_SEED: u64 = 770_001;
/// Draws of an exact sample per draw of a reference run, each of which costs an evaluation of the model.
const EXACT_PER_REFERENCE: usize = 4;

/// The half that a target belongs to, fixed beforehand: constants are chosen on one, results reported on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetHalf {
    /// Constants may be chosen on it.
    Choose,
    /// Results are reported on it.
    Report,
}

/// Makes what is fitted.
type MakeSubject = Box<dyn Fn() -> Result<Subject> + Send + Sync>;

/// One target.
pub struct BatteryTarget {
    pub name: &'static str,
    pub family: &'static str,
    pub half: TargetHalf,
    make: MakeSubject,
}

/// What is known about the answer.
enum KnownAnswer {
    /// Exact draws.
    Exact(Box<dyn ExactSampler>),
    /// A reference run.
    Reference,
    /// There is none: the fit must be refused.
    Refusal,
}

/// What is fitted, with what is known about it.
pub struct Subject {
    pub problem: Problem,
    pub settings: Settings,
    /// Modes that are apart from each other, where the target has several.
    pub modes: Option<KnownModes>,
    /// The spread of the starts.
    pub start_sd: f64,
    answer: KnownAnswer,
}

impl BatteryTarget {
    fn new(
        name: &'static str,
        family: &'static str,
        half: TargetHalf,
        make: impl Fn() -> Result<Subject> + Send + Sync + 'static,
    ) -> Self {
        Self { name, family, half, make: Box::new(make) }
    }

    /// A density with an exact sampler, started from a normal distribution around zero.
    pub fn exact(
        name: &'static str,
        family: &'static str,
        half: TargetHalf,
        start_sd: f64,
        density: impl ExactDensity,
    ) -> Self {
        Self::new(name, family, half, move || {
            let answer = KnownAnswer::Exact(Box::new(density.clone()));
            Ok(Subject::external(AutoDiff(density.clone()), vec![start_sd], answer))
        })
    }

    /// A mixture whose components are its modes.
    pub fn mixture(
        name: &'static str,
        family: &'static str,
        half: TargetHalf,
        start_sd: f64,
        density: super::densities::WidthMixture,
    ) -> Self {
        Self::new(name, family, half, move || {
            let answer = KnownAnswer::Exact(Box::new(density.clone()));
            let subject = Subject::external(AutoDiff(density.clone()), vec![start_sd], answer);
            Ok(Subject { modes: Some(density.modes.clone()), ..subject })
        })
    }

    /// A regression with this number of components.
    pub fn regression(
        name: &'static str,
        half: TargetHalf,
        components: OrAuto<usize>,
        regression: SimulatedRegression,
    ) -> Self {
        Self::new(name, "regressions", half, move || {
            let (problem, settings) = regression.problem(components)?;
            Ok(Subject { problem, settings, modes: None, start_sd: 1.0, answer: KnownAnswer::Reference })
        })
    }

    /// A density with a gradient that is wrong.
    pub fn wrong_gradient(
        name: &'static str,
        half: TargetHalf,
        fault: GradientChange,
        density: impl ExactDensity,
    ) -> Self {
        Self::new(name, "wrong-gradients", half, move || {
            let target = FaultyGradient { base: AutoDiff(density.clone()), fault };
            Ok(Subject::external(target, vec![1.0], KnownAnswer::Refusal))
        })
    }

    /// A density with a gradient that is right, whatever its fault is called; starts have these spreads.
    pub fn right_gradient(
        name: &'static str,
        half: TargetHalf,
        start_sd: Vec<f64>,
        fault: GradientChange,
        density: impl ExactDensity,
    ) -> Self {
        Self::new(name, "right-gradients", half, move || {
            let answer = KnownAnswer::Exact(Box::new(density.clone()));
            let target = FaultyGradient { base: AutoDiff(density.clone()), fault };
            Ok(Subject::external(target, start_sd.clone(), answer))
        })
    }

    /// A density without a finite integral.
    pub fn improper(name: &'static str, half: TargetHalf, density: ImproperDensity) -> Self {
        Self::new(name, "improper", half, move || {
            Ok(Subject::external(AutoDiff(density), vec![1.0], KnownAnswer::Refusal))
        })
    }

    /// The problem with what is known about it.
    pub fn subject(&self) -> Result<Subject> {
        (self.make)()
    }
}

impl Subject {
    /// As a user's own function, with its start.
    fn external(target: impl Target + Send + 'static, start_sd: Vec<f64>, answer: KnownAnswer) -> Self {
        let widest = start_sd.iter().copied().fold(0.0, f64::max);
        let engine = Overrides { init_sd: Some(start_sd.into()), ..Overrides::default() };
        Self {
            problem: Problem::External(ExternalFunction { target: Box::new(target), calls_per_point: 1 }),
            settings: Settings { engine, ..Settings::default() },
            modes: None,
            start_sd: widest,
            answer,
        }
    }

    /// The true figures from this number of draws; `None` where the fit must be refused.
    pub fn truth(&self, draws: usize) -> Result<Option<Truth>> {
        let target = self.problem.target()?;
        Ok(match &self.answer {
            KnownAnswer::Exact(sampler) => {
                let sample = exact_sample(&**sampler, target.parameter_names(), draws, TRUTH_SEED);
                Some(Truth::of(&sample, |j| sampler.closed_moments(j)))
            }
            KnownAnswer::Reference => {
                Some(Truth::of(&reference_sample(target, draws / EXACT_PER_REFERENCE, TRUTH_SEED)?, |_| None))
            }
            KnownAnswer::Refusal => None,
        })
    }
}
