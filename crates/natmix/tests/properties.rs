//! What must hold for every mixture and every step, tried on random ones.
//!
//! Random Gaussians are well conditioned (factors with a diagonal within [0.4, 2.5]), so tolerances are a few hundred
//! rounding errors unless said otherwise.

mod common;

use common::{assert_mean, distance};
use natmix::Scratch;
use natmix::family::{AnyCovariance, CovarianceKind, Diag, Full, Gaussian, Mixture, log_sum_exp};
use natmix::rule::{improved, plain, trust_region, weights};
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target};
use natmix::testing::{CheckOptions, check_target};
use proptest::collection::vec;
use proptest::prelude::*;

/// `n` cases, always the same ones: a failure must come back.
fn cases(n: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(n)
    }
}

fn factor(d: usize) -> impl Strategy<Value = Vec<f64>> {
    (vec(-0.9..0.9f64, d), vec(-0.5..0.5f64, d * d)).prop_map(move |(diagonal, mut l)| {
        for j in 0..d {
            l[j * d..j * d + j].fill(0.0);
            l[j + j * d] = diagonal[j].exp();
        }
        l
    })
}

fn gaussian(d: usize, shape: CovarianceKind) -> impl Strategy<Value = Gaussian> {
    (vec(-3.0..3.0f64, d), factor(d)).prop_map(move |(mean, l)| {
        let prec = match shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Full => AnyCovariance::from(Full::from_factor(d, l)),
            CovarianceKind::Diag => {
                let squares = l.iter().step_by(d + 1).map(|x| x * x);
                Diag::new(squares.collect()).unwrap().into()
            }
        };
        Gaussian::new(mean, prec)
    })
}

fn shape() -> impl Strategy<Value = CovarianceKind> {
    prop_oneof![Just(CovarianceKind::Diag), Just(CovarianceKind::Full)]
}

fn mixture_of(d: usize, shape: CovarianceKind) -> impl Strategy<Value = Mixture> {
    (1..5usize).prop_flat_map(move |k| {
        (vec(0.05..1.0f64, k), vec(gaussian(d, shape), k))
            .prop_map(|(weights, components)| Mixture::new(&weights, components).unwrap())
    })
}

/// Dimensions on both sides of every switch between code paths: 1, 2, 3 by themselves, then lanes up to 32.
fn mixture() -> impl Strategy<Value = Mixture> {
    (prop_oneof![1..7usize, Just(33)], shape()).prop_flat_map(|(d, shape)| mixture_of(d, shape))
}

fn points(d: usize, n: usize) -> impl Strategy<Value = Vec<f64>> {
    vec(-5.0..5.0f64, n * d)
}

/// The same mixture with its diagonal precisions held as full matrices.
fn as_full(q: &Mixture) -> Mixture {
    let d = q.dim();
    let component = |c: &Gaussian| {
        let mut l = vec![0.0; d * d];
        l.iter_mut().step_by(d + 1).zip(common::factor(c)).for_each(|(l, root)| *l = *root);
        Gaussian::new(c.mean().to_vec(), Full::from_factor(d, l))
    };
    Mixture::new(&q.weights(), q.components().iter().map(component).collect()).unwrap()
}

/// Value, gradient and one weighted Hessian sum.
fn evaluate(q: &Mixture, points: &[f64], weights: &[f64], shape: CurvatureShape) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let d = q.dim();
    let (mut log_p, mut grad, mut sums) =
        (vec![0.0; points.len() / d], vec![0.0; points.len()], vec![0.0; shape.len(d)]);
    let curv = CurvatureSums { kind: Curvature::Exact, shape, weights, sums: &mut sums };
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
    q.eval(Rows::All, Points::new(points, d), out, &mut Scratch::default()).unwrap();
    (log_p, grad, sums)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn log_sum_exp_is_what_it_says(mut x in vec(-50.0..50.0f64, 1..20), shift in -1e6..1e6f64) {
        let total = log_sum_exp(&x);
        prop_assert!((total - x.iter().map(|x| x.exp()).sum::<f64>().ln()).abs() < 1e-12);
        let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(largest <= total && total <= largest + (x.len() as f64).ln() + 1e-15 * total.abs());
        // A shift moves the result, up to the rounding of the shifted numbers.
        let shifted: Vec<f64> = x.iter().map(|x| x + shift).collect();
        prop_assert!((log_sum_exp(&shifted) - total - shift).abs() <= 4.0 * f64::EPSILON * shift.abs().max(100.0));
        // Zero adds nothing, infinity everything, and NaN is never ignored.
        x.push(f64::NEG_INFINITY);
        prop_assert_eq!(log_sum_exp(&x), total);
        x.push(f64::INFINITY);
        prop_assert_eq!(log_sum_exp(&x), f64::INFINITY);
        x.insert(0, f64::NAN);
        prop_assert!(log_sum_exp(&x).is_nan());
    }

    #[test]
    fn the_order_of_components_does_not_matter(
        (q, z) in mixture().prop_flat_map(|q| { let d = q.dim(); (Just(q), points(d, 3)) }),
        turn in 0..5usize,
    ) {
        let k = q.len();
        let order: Vec<usize> = (0..k).map(|i| (i + turn) % k).collect();
        let turned = q.reordered(&order);
        prop_assert!(distance(&q.log_density(&z), &turned.log_density(&z)) < 1e-13);
        let weights = [1.0, -0.5, 2.0];
        let (a, b) = (evaluate(&q, &z, &weights, q.curvature_shape()), evaluate(&turned, &z, &weights, q.curvature_shape()));
        prop_assert!(distance(&a.1, &b.1) < 1e-11 && distance(&a.2, &b.2) < 1e-10);
        let log_resp = q.log_responsibilities(&z[..q.dim()]);
        let turned_resp = turned.log_responsibilities(&z[..q.dim()]);
        for (at, &k) in order.iter().enumerate() {
            prop_assert!((turned_resp[at] - log_resp[k]).abs() <= 1e-12 * log_resp[k].abs().max(1.0));
        }
    }

    #[test]
    fn responsibilities_sum_to_one((q, z) in mixture().prop_flat_map(|q| { let d = q.dim(); (Just(q), points(d, 1)) })) {
        let log_resp = q.log_responsibilities(&z);
        prop_assert!(log_sum_exp(&log_resp).abs() < 1e-12, "{:?}", log_resp);
        prop_assert!(log_resp.iter().all(|r| *r <= 1e-12));
        let [winner] = q.most_likely(&z)[..] else { panic!("one point has one component") };
        prop_assert!(log_resp.iter().all(|r| *r <= log_resp[winner] + 1e-12));
    }

    #[test]
    fn natural_and_expectation_parameters_round_trip(q in (1..7usize, shape()).prop_flat_map(|(d, s)| gaussian(d, s))) {
        // One entry in one dimension is a diagonal matrix as well as a full one.
        let (eta1, eta2) = q.natural();
        let back = Gaussian::from_natural(&eta1, &eta2).unwrap();
        prop_assert!(distance(back.mean(), q.mean()) < 1e-11);
        prop_assert!(distance(&back.precision().matrix(), &q.precision().matrix()) < 1e-15);
        prop_assert!((back.log_norm() - q.log_norm()).abs() < 1e-12);
        // The second moment hides the covariance below m m': its digits are lost by as much.
        let (mean, second) = q.expectation();
        let back = Gaussian::from_expectation(&mean, &second).unwrap();
        prop_assert_eq!(back.mean(), q.mean());
        prop_assert!(distance(&back.precision().matrix(), &q.precision().matrix()) < 1e-9);
        // Entropy from the natural parameters' own log normaliser: A = m'S m / 2 - log_norm.
        prop_assert!((q.entropy() - (0.5 * q.dim() as f64 - q.log_norm())).abs() < 1e-12);
        prop_assert!(q.kl(&q).abs() < 1e-11);
    }

    #[test]
    fn kl_is_not_negative(a in gaussian(3, CovarianceKind::Full), b in gaussian(3, CovarianceKind::Full), c in gaussian(3, CovarianceKind::Diag)) {
        prop_assert!(a.kl(&b) >= 0.0 && a.kl(&c) >= 0.0 && c.kl(&a) >= 0.0);
    }

    #[test]
    fn full_agrees_with_diagonal_on_diagonal_matrices(
        (q, z) in (prop_oneof![1..7usize, Just(33)])
            .prop_flat_map(|d| mixture_of(d, CovarianceKind::Diag))
            .prop_flat_map(|q| { let d = q.dim(); (Just(q), points(d, 3)) }),
    ) {
        let full = as_full(&q);
        let d = q.dim();
        prop_assert!(distance(&q.log_density(&z), &full.log_density(&z)) < 1e-12);
        let weights = [0.3, 1.0, -2.0];
        for shape in [CurvatureShape::Diag, CurvatureShape::Full] {
            let (a, b) = (evaluate(&q, &z, &weights, shape), evaluate(&full, &z, &weights, shape));
            prop_assert!(distance(&a.0, &b.0) < 1e-12 && distance(&a.1, &b.1) < 1e-11 && distance(&a.2, &b.2) < 1e-10);
        }
        let by_shape = |shape| evaluate(&q, &z, &weights, shape).2;
        let diagonal: Vec<f64> = by_shape(CurvatureShape::Full).into_iter().step_by(d + 1).collect();
        prop_assert!(distance(&by_shape(CurvatureShape::Diag), &diagonal) < 1e-10);
        prop_assert!(distance(&q.sample(5, 3), &full.sample(5, 3)) < 1e-12);
        prop_assert!(distance(&q.mean(), &full.mean()) < 1e-12 && distance(&q.covariance(), &full.covariance()) < 1e-12);
        let (a, b) = (q.entropy(20, 4), full.entropy(20, 4));
        prop_assert!((a.0 - b.0).abs() < 1e-10 && (a.1 - b.1).abs() < 1e-10);
    }

    #[test]
    fn far_points_are_no_trouble(q in mixture(), log_distance in 3.0..150.0f64, sign in prop_oneof![Just(1.0), Just(-1.0)]) {
        let d = q.dim();
        let z = vec![sign * 10f64.powf(log_distance); d];
        let (log_p, grad, hess) = evaluate(&q, &z, &[1.0], q.curvature_shape());
        // Squares of 1e150 times factors below 2.5, d times, are still finite, so nothing has to be NaN.
        prop_assert!(log_p[0].is_finite() && log_p[0] < 0.0, "{:?}", log_p);
        prop_assert!(grad.iter().all(|x| x.is_finite()), "{:?}", grad);
        prop_assert!(hess.iter().all(|x| x.is_finite()), "{:?}", hess);
        // Where one component is all there is, the curvature is minus its precision.
        let log_resp = q.log_responsibilities(&z);
        let winner = (0..q.len()).max_by(|a, b| log_resp[*a].total_cmp(&log_resp[*b])).unwrap();
        if (0..q.len()).all(|k| k == winner || log_resp[k] < -1e3) {
            let expected: Vec<f64> = q.components()[winner].precision().matrix().iter().map(|x| -x).collect();
            prop_assert!(distance(&hess, &expected) < 1e-12, "{:?} {:?}", hess, expected);
        }
        // Beyond all squares the density is zero.
        let beyond = vec![sign * 1e200; d];
        let log_p = q.log_density(&beyond)[0];
        prop_assert!(log_p == f64::NEG_INFINITY, "{}", log_p);
        for odd in [f64::NAN, f64::INFINITY, f64::MAX] {
            let log_p = q.log_density(&vec![odd; d])[0];
            prop_assert!(log_p.is_nan() || log_p == f64::NEG_INFINITY, "{} at {}", log_p, odd);
        }
    }

    #[test]
    fn a_bad_point_spoils_no_other(q in mixture(), bad in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(1e200)]) {
        let d = q.dim();
        let clean: Vec<f64> = (0..5 * d).map(|i| (i as f64).sin()).collect();
        let mut spoilt = clean.clone();
        spoilt[2 * d..3 * d].fill(bad);
        let (a, b) = (q.log_density(&clean), q.log_density(&spoilt));
        prop_assert!(a.iter().zip(&b).enumerate().all(|(i, (a, b))| i == 2 || a == b));
        prop_assert!(!b[2].is_finite());
        let gradient = |z: &[f64]| {
            let (mut log_p, mut grad) = (vec![0.0; 5], vec![0.0; 5 * d]);
            let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
            q.eval(Rows::All, Points::new(z, d), out, &mut Scratch::default()).unwrap();
            grad
        };
        let (a, b) = (gradient(&clean), gradient(&spoilt));
        prop_assert!((0..5 * d).all(|i| i / d == 2 || a[i] == b[i]));
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn derivatives_of_mixtures_are_right(q in (1..5usize, shape()).prop_flat_map(|(d, s)| mixture_of(d, s)), seed in 0..1000u64) {
        let report = check_target(&q, &CheckOptions { spread: 2.0, points: 4, seed, ..CheckOptions::default() }).unwrap();
        prop_assert!(report.passed() && report.not_finite == 0, "{}", report);
    }

    #[test]
    fn densities_integrate_to_one(q in shape().prop_flat_map(|s| mixture_of(1, s))) {
        // Trapezoids over 40 steps per standard deviation converge beyond rounding; sds are at most 2.5.
        let z: Vec<f64> = (0..4001).map(|i| -40.0 + 0.02 * f64::from(i)).collect();
        let integral: f64 = q.log_density(&z).iter().map(|x| 0.02 * x.exp()).sum();
        prop_assert!((integral - 1.0).abs() < 1e-12, "{}", integral);
    }

    /// Five standard errors of 20,000 draws, which must be finer than 0.3 (sds are at most 5 here).
    #[test]
    fn draws_have_the_mean_and_covariance_of_the_mixture(q in (1..4usize, shape()).prop_flat_map(|(d, s)| mixture_of(d, s))) {
        let d = q.dim();
        let draws = q.sample(20_000, 9);
        let (mean, covariance) = (q.mean(), q.covariance());
        for i in 0..d {
            let along: Vec<f64> = draws.chunks_exact(d).map(|z| z[i]).collect();
            assert_mean(&along, mean[i], 0.3, "mean of draws");
            for j in 0..=i {
                let products: Vec<f64> = draws.chunks_exact(d).map(|z| (z[i] - mean[i]) * (z[j] - mean[j])).collect();
                assert_mean(&products, covariance[i + j * d], 1.5, "covariance of draws");
            }
        }
    }
}

/// A component, a gradient and a curvature of ordinary size, all diagonal.
fn diagonal_step() -> impl Strategy<Value = (Gaussian, Vec<f64>, Vec<f64>)> {
    (1..7usize).prop_flat_map(|d| (gaussian(d, CovarianceKind::Diag), vec(-5.0..5.0f64, d), vec(-5.0..5.0f64, d)))
}

/// The same with full matrices.
fn full_step() -> impl Strategy<Value = (Gaussian, Vec<f64>, Vec<f64>)> {
    (1..7usize).prop_flat_map(|d| {
        let symmetric = vec(-5.0..5.0f64, d * d).prop_map(move |mut h| {
            for at in 0..d * d {
                h[at] = h[at % d * d + at / d];
            }
            h
        });
        (gaussian(d, CovarianceKind::Full), vec(-5.0..5.0f64, d), symmetric)
    })
}

type StepFn = fn(&mut Gaussian, &[f64], &[f64], f64, &mut Scratch) -> natmix::rule::StepInfo;
const RULES: [(&str, StepFn); 3] = [
    ("plain", plain::step),
    ("improved", |q, g, h, rate, scratch| improved::step(q, g, h, rate, 1.0, scratch)),
    ("trust region", trust_region::step),
];

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn rules_agree_on_diagonal_problems((q, grad, hess) in diagonal_step(), rate in 0.01..1.0f64) {
        let d = q.dim();
        for (name, rule) in RULES {
            let (mut diagonal, mut full) = (q.clone(), as_full(&Mixture::single(q.clone())).components()[0].clone());
            let mut matrix = vec![0.0; d * d];
            matrix.iter_mut().step_by(d + 1).zip(&hess).for_each(|(m, h)| *m = *h);
            let a = rule(&mut diagonal, &grad, &hess, rate, &mut Scratch::default());
            let b = rule(&mut full, &grad, &matrix, rate, &mut Scratch::default());
            prop_assert_eq!(a.skipped, b.skipped);
            prop_assert!((a.rate - b.rate).abs() <= 1e-11 * a.rate, "{}: {:?} {:?}", name, a, b);
            // Close to the edge of the cone a precision is a difference of nearly equal numbers.
            prop_assert!(distance(diagonal.mean(), full.mean()) < 1e-8, "{}: {:?} {:?}", name, diagonal, full);
            let expanded = diagonal.precision().full_matrix();
            prop_assert!(distance(&expanded, &full.precision().matrix()) < 1e-10, "{}: {:?} {:?}", name, diagonal, full);
        }
    }

    #[test]
    fn the_trust_region_is_kept_and_used(
        (q, grad, hess) in prop_oneof![diagonal_step(), full_step()],
        log_bound in -8.0..4.0f64,
    ) {
        let bound = log_bound.exp();
        let mut new = q.clone();
        let info = trust_region::step(&mut new, &grad, &hess, bound, &mut Scratch::default());
        prop_assert!(info.skipped.is_none() && info.rate <= 1.0);
        let kl = new.kl(&q);
        // KL by its own formula has the rounding of traces and determinants, not of the bound.
        prop_assert!(kl <= bound * (1.0 + 1e-6) + 1e-11, "KL {} above {}", kl, bound);
        // Either the whole step fits or the bound is met.
        prop_assert!(info.rate == 1.0 || kl >= bound * (1.0 - 1e-6) - 1e-11, "KL {} below {}, rate {}", kl, bound, info.rate);
        // More room, no smaller step.
        let larger = trust_region::step(&mut q.clone(), &grad, &hess, 2.0 * bound, &mut Scratch::default());
        prop_assert!(larger.rate >= info.rate * (1.0 - 1e-12), "{} then {}", info.rate, larger.rate);
        // The step is a plain one of that size.
        let mut plainly = q.clone();
        let plain = plain::step(&mut plainly, &grad, &hess, info.rate, &mut Scratch::default());
        if plain.rate == info.rate {
            prop_assert!(distance(&plainly.precision().matrix(), &new.precision().matrix()) < 1e-10);
            prop_assert!(distance(plainly.mean(), new.mean()) < 1e-7);
        }
    }

    #[test]
    fn a_step_without_moments_goes_nowhere((q, ..) in prop_oneof![diagonal_step(), full_step()], rate in 0.01..1.0f64) {
        for (name, rule) in RULES {
            let mut new = q.clone();
            let zeros = vec![0.0; q.precision().matrix().len()];
            let info = rule(&mut new, &zeros[..q.dim()], &zeros, rate, &mut Scratch::default());
            prop_assert!(info.skipped.is_none(), "{}", name);
            prop_assert_eq!(new.mean(), q.mean());
            prop_assert!(distance(&new.precision().matrix(), &q.precision().matrix()) < 1e-14, "{}", name);
        }
    }

    #[test]
    fn weights_stay_normalised_and_know_no_baseline(
        (start, values) in (1..7usize).prop_flat_map(|k| (vec(-5.0..5.0f64, k), vec(-30.0..30.0f64, k))),
        shift in -1e3..1e3f64,
        rate in 0.01..1.0f64,
        bound in 1e-4..1.0f64,
    ) {
        let total = log_sum_exp(&start);
        let start: Vec<f64> = start.iter().map(|w| w - total).collect();
        let shifted: Vec<f64> = values.iter().map(|v| v + shift).collect();
        let plain = |values: &[f64]| {
            let mut log_w = start.clone();
            weights::step(&mut log_w, values, rate);
            (log_w, rate)
        };
        let bounded = |values: &[f64]| {
            let (mut log_w, mut buffer) = (start.clone(), start.clone());
            let taken = weights::trust_region_step(&mut log_w, values, rate, bound, &mut buffer);
            (log_w, taken)
        };
        let kl = |new: &[f64]| -> f64 { new.iter().zip(&start).map(|(new, old)| new.exp() * (new - old)).sum() };
        for step in [&plain as &dyn Fn(&[f64]) -> (Vec<f64>, f64), &bounded] {
            let (log_w, taken) = step(&values);
            prop_assert!(log_sum_exp(&log_w).abs() < 1e-13 && log_w.iter().all(|w| w.is_finite()));
            // A shift of 1e3 costs three digits, and so may the step that meets the bound.
            let (same, taken_then) = step(&shifted);
            prop_assert!((taken - taken_then).abs() <= 1e-9 * taken, "{} {}", taken, taken_then);
            prop_assert!(distance(&log_w, &same) < 1e-8, "{:?} {:?}", log_w, same);
            // Along log w + t E[b]: differences of log weights move by differences of values.
            for k in 1..start.len() {
                let moved = (log_w[k] - log_w[0]) - (start[k] - start[0]);
                prop_assert!((moved - taken * (values[k] - values[0])).abs() < 1e-11);
            }
        }
        let (log_w, taken) = bounded(&values);
        prop_assert!(kl(&log_w) <= bound + 1e-12);
        prop_assert!(taken == rate || kl(&log_w) >= bound * (1.0 - 1e-6), "{} of {}, KL {}", taken, rate, kl(&log_w));
        let (mut wider, mut buffer) = (start.clone(), start.clone());
        prop_assert!(weights::trust_region_step(&mut wider, &values, rate, 2.0 * bound, &mut buffer) >= taken);
    }
}
