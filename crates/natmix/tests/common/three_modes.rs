//! A target of three separate modes, the smallest of weight 0.02, and a start that is wrong about all of them.
#![allow(dead_code)]

use natmix::estimate::Trick;
use natmix::family::{AnyCovariance, Covariances, Mixture};
use natmix::observe::{Iteration, Observer};
use natmix::rule::Rule;
use natmix::{Config, Error, Fit, Method, Parts};
use std::ops::ControlFlow;

/// Weights of the modes.
pub const WEIGHTS: [f64; 3] = [0.9, 0.08, 0.02];
/// A run is done when `KL(q || p)` is below this. The smallest mode enters with its weight: its own component must then
/// be right to 0.05 nats.
pub const GOAL: f64 = 1e-3;
/// Evaluations after which a run is given up.
pub const MOST_EVALS: u64 = 20_000;

/// The target, normalised: its ELBO is `-KL(q || p)`.
pub fn target() -> Mixture {
    let covariances = [
        vec![vec![1.0, 0.3], vec![0.3, 0.5]],
        vec![vec![0.4, -0.2], vec![-0.2, 0.6]],
        vec![vec![0.3, 0.0], vec![0.0, 0.8]],
    ];
    let means = [vec![0.0, 0.0], vec![7.0, 0.0], vec![0.0, 7.0]];
    Mixture::from_moments(&WEIGHTS, &means, Covariances::Full(&covariances)).unwrap()
}

/// Equal weights, each component some standard deviations off its mode and too wide.
pub fn start() -> Mixture {
    let covariances = vec![vec![vec![2.0, 0.0], vec![0.0, 2.0]]; 3];
    let means = [vec![-1.0, -1.0], vec![6.0, 1.0], vec![1.0, 6.0]];
    Mixture::from_moments(&[1.0; 3], &means, Covariances::Full(&covariances)).unwrap()
}

/// Settings that differ in the source of the points only. The entropy trick is off for both: with fewer than 30
/// points its coefficient stays at one, and that noise alone keeps mixture draws from the goal; it is not what is
/// compared here.
pub fn config(method: Method, seed: u64) -> Config {
    Config {
        tolerance: 1e-9,
        max_evals: Some(MOST_EVALS),
        diagnostic_draws: 0,
        threads: 1,
        seed,
        ..Parts {
            components: 3,
            draws_per_component: 10,
            entropy_trick: Trick::Off,
            rule: Rule::Improved,
            rate: 0.1,
            ..Parts::new(method)
        }
        .into()
    }
}

/// `KL(q || p)` by the trapezoidal rule in the standardised coordinates of each component, whose error for smooth
/// functions under a Gaussian weight is far below the goal.
pub fn kl(q: &Mixture, p: &Mixture) -> f64 {
    const STEP: f64 = 0.5;
    const HALF: i32 = 13;
    let mut sum = 0.0;
    let mut points = Vec::new();
    for (component, weight) in q.components().iter().zip(q.weights()) {
        let AnyCovariance::Full(prec) = component.precision() else { panic!("a full covariance") };
        let l = prec.factor();
        points.clear();
        let mut masses = Vec::new();
        for i in -HALF..=HALF {
            for j in -HALF..=HALF {
                let (x, y) = (STEP * f64::from(i), STEP * f64::from(j));
                masses.push((-0.5 * (x * x + y * y)).exp() * STEP * STEP / std::f64::consts::TAU);
                // z = m + L^-T (x, y), with L column-major and lower-triangular.
                let second = y / l[3];
                points.extend([component.mean()[0] + (x - l[1] * second) / l[0], component.mean()[1] + second]);
            }
        }
        let gaps = q.log_density(&points).into_iter().zip(p.log_density(&points));
        sum += weight * gaps.zip(&masses).map(|((q, p), mass)| mass * (q - p)).sum::<f64>();
    }
    sum
}

/// Stops at the goal, and remembers what it took.
struct ThreeModesGoal<'a> {
    target: &'a Mixture,
    reached: Option<u64>,
}

impl Observer for ThreeModesGoal<'_> {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        if kl(it.mixture, self.target) < GOAL {
            self.reached = Some(it.evals);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Evaluations until the goal is first reached (none within [`MOST_EVALS`]) and the mixture at the end.
pub fn run_to_goal(config: Config) -> (Option<u64>, Mixture) {
    let target = target();
    let mut goal = ThreeModesGoal { target: &target, reached: None };
    let fitted = Fit::new(&target, config).start(start()).observe(&mut goal).run().unwrap();
    (goal.reached, fitted.state.mixture().clone())
}
