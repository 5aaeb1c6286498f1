//! The draw plans as a target sees them: where the points lie, what they weigh, what they integrate.

mod common;

use common::{assert_mean, diag_gaussian, distance, gaussian, wave};
use natmix::draws::{DrawPlan, Plan, Radius};
use natmix::estimate::Trick;
use natmix::family::{AnyCovariance, CovarianceKind, Gaussian, Mixture};
use natmix::observe::{Iteration, OnIteration};
use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
use natmix::{Config, Fit, Method, Parts, Scratch};
use std::sync::Mutex;

const DIMS: [usize; 4] = [1, 2, 5, 30];
/// Of geometry and of rules that are exact: what rounding leaves.
const ROUNDING: f64 = 1e-12;

const INDEPENDENT: DrawPlan = DrawPlan { plan: Plan::Independent, radius: Radius::Random };
const ANTITHETIC: DrawPlan = DrawPlan { plan: Plan::Antithetic, radius: Radius::Random };
const ORTHOGONAL: DrawPlan = DrawPlan { plan: Plan::Orthogonal, radius: Radius::Random };
const FIXED: DrawPlan = DrawPlan { plan: Plan::Cubature, radius: Radius::Fixed };
const RANDOM: DrawPlan = DrawPlan { plan: Plan::Cubature, radius: Radius::Random };
const ALL: [DrawPlan; 5] = [INDEPENDENT, ANTITHETIC, ORTHOGONAL, FIXED, RANDOM];

type Integrand<'a> = &'a (dyn Fn(&[f64]) -> f64 + Sync);

/// `log p = log q + f(eps)` with whitened `eps = L'(z - m)`: the ELBO that an iteration reports is the plan's estimate of
/// `E[f]`, weights included. Keeps all `eps` that it is asked about.
struct Probe<'a> {
    q: Gaussian,
    f: Integrand<'a>,
    seen: Mutex<Vec<f64>>,
}

impl Target for Probe<'_> {
    fn dim(&self) -> usize {
        self.q.dim()
    }

    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let (d, factor) = (self.dim(), common::factor(&self.q));
        let mut eps = Vec::with_capacity(z.data().len());
        for z in z.iter() {
            let delta: Vec<f64> = z.iter().zip(self.q.mean()).map(|(z, m)| z - m).collect();
            eps.extend((0..d).map(|i| match self.q.precision() {
                AnyCovariance::LowRank(_) => unreachable!("has tests of its own"),
                AnyCovariance::Diag(_) => factor[i] * delta[i],
                AnyCovariance::Full(_) => (i..d).map(|j| factor[j + i * d] * delta[j]).sum(),
            }));
        }
        Mixture::single(self.q.clone()).log_density_into(z.data(), out.log_p, scratch);
        out.log_p.iter_mut().zip(eps.chunks_exact(d)).for_each(|(log_p, eps)| *log_p += (self.f)(eps));
        if let Some(grad) = out.grad {
            grad.fill(0.0);
        }
        self.seen.lock().unwrap().extend(eps);
        Ok(())
    }
}

/// Settings that leave q where it is: rate and tolerance are too small to have an effect. One thread sees the points in order.
fn without_movement(plan: DrawPlan, wanted: usize, iterations: u64, q: &Gaussian) -> Config {
    Config {
        covariance: q.covariance_kind(),
        tolerance: 1e-300,
        max_iterations: iterations,
        diagnostic_draws: 0,
        threads: 1,
        ..Parts {
            draws: plan.plan,
            radius: plan.radius,
            draws_per_component: wanted,
            entropy_trick: Trick::Off,
            rate: 1e-300,
            ..Parts::new(Method::Ngvi)
        }
        .into()
    }
}

/// All `eps`, iteration after iteration, and the estimate of `E[f]` of each iteration.
fn probe(config: Config, q: &Gaussian, f: Integrand<'_>) -> (Vec<f64>, Vec<f64>) {
    // Its gradient is zero on purpose, so that nothing moves.
    let config = Config { check: false, ..config };
    let target = Probe { q: q.clone(), f, seen: Mutex::default() };
    let mut estimates = Vec::new();
    let mut collect = OnIteration(|it: &Iteration<'_>| estimates.push(it.elbo));
    let fitted = Fit::new(&target, config).start(Mixture::single(q.clone())).observe(&mut collect).run().unwrap();
    let end = &fitted.state.mixture().components()[0];
    let still = end.mean() == q.mean() && end.precision().matrix() == q.precision().matrix();
    assert!(still, "the probe must not move");
    (target.seen.into_inner().unwrap(), estimates)
}

/// The points of one iteration.
fn points(plan: DrawPlan, wanted: usize, seed: u64, q: &Gaussian) -> Vec<f64> {
    probe(Config { seed, ..without_movement(plan, wanted, 1, q) }, q, &|_| 0.0).0
}

fn square(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The weights that the plan's page promises, from the points alone.
fn weights(plan: DrawPlan, eps: &[f64], d: usize) -> Vec<f64> {
    let n = eps.len() / d;
    if plan != RANDOM {
        return vec![(n as f64).recip(); n];
    }
    let off_centre = &eps[..(n - 1) * d];
    let mut weights: Vec<f64> = off_centre.chunks_exact(d).map(|eps| d as f64 / square(eps) / (n - 1) as f64).collect();
    weights.push(1.0 - weights.iter().sum::<f64>());
    weights
}

#[test]
fn counts_are_as_promised() {
    for d in DIMS {
        let q = gaussian(d, 2.0, d);
        for plan in ALL {
            for wanted in [1, 2, 5, 2 * d, 2 * d + 3, 200] {
                let expected = match plan {
                    INDEPENDENT => wanted,
                    RANDOM => wanted + wanted % 2 + 1,
                    _ => wanted + wanted % 2,
                };
                assert_eq!(plan.count(wanted), expected);
                assert_eq!(points(plan, wanted, 0, &q).len(), expected * d, "{plan:?}, d = {d}, {wanted} wanted");
            }
        }
    }
    assert!(ALL.iter().all(|plan| plan.count(0) == 0));
}

#[test]
fn seeds_make_points_and_iterations_differ() {
    let q = gaussian(3, 2.0, 1);
    for plan in ALL {
        assert_eq!(points(plan, 8, 1, &q), points(plan, 8, 1, &q));
        assert_ne!(points(plan, 8, 1, &q), points(plan, 8, 2, &q));
        let (two, _) = probe(without_movement(plan, 8, 2, &q), &q, &|_| 0.0);
        let (first, second) = two.split_at(two.len() / 2);
        assert_ne!(first, second);
    }
}

/// Pairs about the mean, orthogonal directions in every frame (the last one may be short), and the centre.
#[test]
fn points_lie_in_pairs_along_orthogonal_frames() {
    for d in DIMS {
        for q in [gaussian(d, 2.0, d), diag_gaussian(d, 2.0, d)] {
            for plan in [ANTITHETIC, ORTHOGONAL, FIXED, RANDOM] {
                for wanted in [2 * d, 5 * d + 1] {
                    let case = format!("{plan:?}, {:?}, d = {d}", q.covariance_kind());
                    let eps = points(plan, wanted, 3, &q);
                    let off_centre = wanted.next_multiple_of(2) * d;
                    assert!(square(&eps[off_centre..]).sqrt() < ROUNDING, "{case}: centre");
                    for pair in eps[..off_centre].chunks_exact(2 * d) {
                        let gap: f64 = (0..d).map(|i| (pair[i] + pair[d + i]).abs()).fold(0.0, f64::max);
                        assert!(gap < ROUNDING * d as f64, "{case}: pairs differ by {gap}");
                    }
                    if plan == ANTITHETIC {
                        continue;
                    }
                    for frame in eps[..off_centre].chunks(2 * d * d) {
                        let arms: Vec<&[f64]> = frame.chunks_exact(2 * d).map(|pair| &pair[..d]).collect();
                        for (i, a) in arms.iter().enumerate() {
                            if plan == FIXED {
                                assert!((square(a) / d as f64 - 1.0).abs() < ROUNDING, "{case}: radius");
                            }
                            for b in &arms[..i] {
                                let cosine = dot(a, b) / (square(a) * square(b)).sqrt();
                                assert!(cosine.abs() < ROUNDING, "{case}: cosine {cosine}");
                                assert!(plan == FIXED || square(a) != square(b), "{case}: arms share a length");
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Squared lengths of the arms: chi-squared with d degrees of freedom, or d + 2 for cubature.
#[test]
fn random_radii_follow_chi() {
    for d in DIMS {
        let q = gaussian(d, 2.0, d);
        for (plan, degrees) in [(INDEPENDENT, d), (ANTITHETIC, d), (ORTHOGONAL, d), (RANDOM, d + 2)] {
            let k = degrees as f64;
            let wanted = 2 * d;
            // Any function that keeps the estimates noisy: a flat line would end the run.
            let (eps, _) = probe(without_movement(plan, wanted, 20_000 / d as u64, &q), &q, &|eps| square(eps).powi(2));
            let arms = eps.chunks_exact(plan.count(wanted) * d).flat_map(|iteration| {
                // One of each pair: the other has the same length.
                iteration[..wanted * d].chunks_exact(d).step_by(2)
            });
            let squares: Vec<f64> = arms.map(square).collect();
            let relative: Vec<f64> = squares.iter().map(|r| r / k).collect();
            assert_mean(&relative, 1.0, 0.06, &format!("{plan:?}, d = {d}: r^2"));
            let spread: Vec<f64> = squares.iter().map(|r| (r - k).powi(2) / (2.0 * k)).collect();
            assert_mean(&spread, 1.0, 0.15, &format!("{plan:?}, d = {d}: variance of r^2"));
        }
    }
}

/// What an iteration reports is the weighted mean over the very points it showed.
#[test]
fn weights_are_as_promised() {
    for d in DIMS {
        let q = gaussian(d, 2.0, d);
        let f = |eps: &[f64]| (square(eps) + eps[0]).cos() + 0.3 * eps[0].powi(5);
        for plan in ALL {
            for wanted in [1, 2 * d, 7 * d + 3] {
                let (eps, estimates) = probe(without_movement(plan, wanted, 1, &q), &q, &f);
                let expected = weights(plan, &eps, d).iter().zip(eps.chunks_exact(d)).map(|(w, eps)| w * f(eps)).sum();
                assert!(distance(&estimates, &[expected]) < 1e-11, "{plan:?}, d = {d}: {estimates:?} {expected}");
            }
        }
    }
}

/// Whole frames have the mean and the covariance of the normal, and integrate every cubic.
#[test]
fn whole_frames_of_cubature_are_exact() {
    for d in DIMS {
        let q = gaussian(d, 2.0, d);
        let a: Vec<f64> = (0..d).map(|i| wave(60 + i)).collect();
        let b: Vec<f64> = (0..d).map(|i| wave(80 + i)).collect();
        let cubic = |eps: &[f64]| {
            let (a, b) = (dot(&a, eps), dot(&b, eps));
            0.5 + b + a * b + a * a * b - b * b * b
        };
        for plan in [FIXED, RANDOM] {
            for frames in [1, 3] {
                let (eps, estimates) = probe(without_movement(plan, 2 * d * frames, 1, &q), &q, &cubic);
                let weights = weights(plan, &eps, d);
                let mean = |f: &dyn Fn(&[f64]) -> f64| -> f64 {
                    weights.iter().zip(eps.chunks_exact(d)).map(|(w, eps)| w * f(eps)).sum()
                };
                for i in 0..d {
                    assert!(mean(&|eps| eps[i]).abs() < ROUNDING, "{plan:?}, d = {d}: mean");
                    for j in 0..=i {
                        let truth = if i == j { 1.0 } else { 0.0 };
                        let covariance = mean(&|eps| eps[i] * eps[j]);
                        assert!((covariance - truth).abs() < ROUNDING, "{plan:?}, d = {d}: covariance {covariance}");
                    }
                }
                // log p - log q loses digits to log q, which is of the order of d.
                let gap = (estimates[0] - 0.5 - dot(&a, &b)).abs();
                assert!(gap < ROUNDING * d as f64, "{plan:?}, d = {d}: cubic off by {gap}");
            }
        }
    }
}

/// Quadratics by every plan, quartics by every plan but fixed radii, whose bias is known: `3 d^2 / (d + 2)` for `3 d`.
/// Also with short frames.
#[test]
fn plans_are_unbiased() {
    for d in DIMS {
        let q = gaussian(d, 2.0, d);
        let size = d as f64;
        let a: Vec<f64> = (0..d * d).map(|at| if at % (d + 1) == 0 { 1.5 } else { wave(300 + at) / size }).collect();
        let quadratic = |eps: &[f64]| (0..d).map(|i| eps[i] * dot(&a[i * d..(i + 1) * d], eps)).sum::<f64>() / size;
        let quartic = |eps: &[f64]| eps.iter().map(|x| x.powi(4)).sum::<f64>() / (3.0 * size);
        for plan in ALL {
            for wanted in [4, 2 * d + 4] {
                let case = format!("{plan:?}, d = {d}, {wanted} wanted");
                let config = without_movement(plan, wanted, 20_000 / d as u64 + 300, &q);
                let (_, estimates) = probe(config.clone(), &q, &quadratic);
                assert_mean(&estimates, 1.5, 0.06, &format!("{case}: quadratic"));
                let (_, estimates) = probe(config, &q, &quartic);
                let truth = if plan == FIXED { size / (size + 2.0) } else { 1.0 };
                assert_mean(&estimates, truth, 0.1, &format!("{case}: quartic"));
            }
        }
    }
}

/// On a Gaussian target a step of size one lands on it, from whole frames: with the Hessian (VON), and without (NGVI).
#[test]
fn one_step_on_a_gaussian_is_exact() {
    for d in DIMS {
        let pairs = [(gaussian(d, 2.0, 1), gaussian(d, 2.0, 2)), (diag_gaussian(d, 2.0, 1), diag_gaussian(d, 2.0, 2))];
        for (start, truth) in pairs {
            for method in [Method::Von, Method::Ngvi] {
                for radius in [Radius::Random, Radius::Fixed] {
                    let config = Config {
                        covariance: start.covariance_kind(),
                        max_iterations: 1,
                        diagnostic_draws: 0,
                        threads: 1,
                        ..Parts {
                            draws: Plan::Cubature,
                            radius,
                            draws_per_component: 2 * d,
                            rate: 1.0,
                            ..Parts::new(method)
                        }
                        .into()
                    };
                    let target = Mixture::single(truth.clone());
                    let fitted = Fit::new(&target, config).start(Mixture::single(start.clone())).run().unwrap();
                    let found = &fitted.state.mixture().components()[0];
                    let case = format!("{method:?}, {radius:?}, {:?}, d = {d}", start.covariance_kind());
                    let of_mean = distance(found.mean(), truth.mean());
                    let of_precision = distance(&found.precision().matrix(), &truth.precision().matrix());
                    assert!(of_mean < ROUNDING && of_precision < ROUNDING, "{case}: {of_mean} {of_precision}");
                    assert_eq!(
                        found.covariance_kind() == CovarianceKind::Diag,
                        start.covariance_kind() == CovarianceKind::Diag
                    );
                }
            }
        }
    }
}
