//! Every update rule keeps a component positive definite and finite, whatever it is fed.
//!
//! Inputs are drawn at random from ordinary, huge, tiny, singular and broken ones, for components whose precisions have
//! scales from 1e-100 to 1e100 and condition numbers up to 1e14. The checks are exact, or allow what rounding loses:
//! `|S - L L'|_ij <= c d eps sqrt(S_ii S_jj)`, the backward error of a triangular product and of a Cholesky
//! factorisation alike.
//!
//! The factor `L` is what densities, draws and solves use, so the invariant that always holds is one of `L`: finite, with a
//! positive diagonal. The stored `S` is `L L'` rounded; where its own condition (with unit diagonal) passes `1 / (d eps)`
//! a fresh Cholesky of `S` may fail, and only there.

mod common;
#[path = "common/random.rs"]
mod random;

use natmix::Scratch;
use natmix::family::{CovarianceKind, Full, Gaussian, Mixture};
use natmix::rule::adam::AdamState;
use natmix::rule::momentum::Momentum;
use natmix::rule::{StepInfo, adam, improved, momentum, plain, trust_region};
use random::{Random, component, matrix, vector};

/// Random inputs per rule and shape.
const INPUTS: usize = 100_000;
/// Steps of one chain, and chains per rule and shape.
const CHAIN: usize = 1_000;
const CHAINS: usize = 20;
/// Inputs at each dimension that takes the library's code path.
const LARGE_INPUTS: usize = 250;

/// A step of some rule: component, gradient, curvature and rate.
type StepOf<'a> = dyn FnMut(&mut Gaussian, &[f64], &[f64], f64, &mut Scratch) -> StepInfo + 'a;

/// `c` in the bound `c d eps sqrt(S_ii S_jj)`.
const ROUNDING: f64 = 8.0;

fn same_bits(a: &Gaussian, b: &Gaussian) -> bool {
    let bits = |g: &Gaussian| -> Vec<u64> {
        let matrix = g.precision().matrix();
        let numbers = g.mean().iter().chain(matrix.iter()).chain(common::factor(g));
        numbers.chain([&g.log_norm()]).map(|x| x.to_bits()).collect()
    };
    bits(a) == bits(b)
}

/// What holds after every step.
fn check(before: &Gaussian, after: &Gaussian, info: StepInfo, what: &str) {
    let d = after.dim();
    let (s, l) = (&after.precision().matrix()[..], common::factor(after));
    let finite = |x: &[f64]| x.iter().all(|x| x.is_finite());
    assert!(finite(after.mean()), "{what}: mean {:?}", after.mean());
    assert!(finite(s) && finite(l), "{what}: precision {s:?} of factor {l:?}");
    match info.skipped {
        Some(_) => {
            assert_eq!(info.rate, 0.0, "{what}");
            assert!(same_bits(before, after), "{what}: moved although {info:?}\n{before:?}\n{after:?}");
        }
        None => assert!(info.rate > 0.0 && info.rate.is_finite(), "{what}: {info:?}"),
    }
    let tolerance = ROUNDING * (d + 1) as f64 * f64::EPSILON;
    match after.covariance_kind() {
        CovarianceKind::LowRank => unreachable!("has tests of its own"),
        CovarianceKind::Diag => {
            for (s, l) in s.iter().zip(l) {
                assert!(*s > 0.0 && *l > 0.0 && s.recip().is_finite(), "{what}: {s}, factor {l}");
                assert!((l * l / s - 1.0).abs() <= tolerance, "{what}: {s} has factor {l}");
            }
        }
        CovarianceKind::Full => {
            for j in 0..d {
                assert!(l[j + j * d] > 0.0 && s[j + j * d] > 0.0, "{what}: pivot {j} of {l:?}, {s:?}");
                for i in 0..d {
                    assert_eq!(s[i + j * d].to_bits(), s[j + i * d].to_bits(), "{what}: ({i}, {j}) is not symmetric");
                    assert!(i >= j || l[i + j * d] == 0.0, "{what}: factor at ({i}, {j})");
                    let product: f64 = (0..=i.min(j)).map(|k| l[i + k * d] * l[j + k * d]).sum();
                    let allowed = tolerance * s[i + i * d].sqrt() * s[j + j * d].sqrt();
                    // Products below the normal range lose digits of their own.
                    let allowed = allowed + d as f64 * f64::MIN_POSITIVE;
                    let gap = (product - s[i + j * d]).abs();
                    assert!(gap <= allowed, "{what}: ({i}, {j}) {product} against {}, off by {gap}", s[i + j * d]);
                }
            }
            if let Err(pivot) = Full::from_precision(d, s) {
                let condition = scaled_condition(s, l, d);
                let limit = 1.0 / (ROUNDING * (d * (d + 1)) as f64 * f64::EPSILON);
                // A condition beyond all numbers comes out as NaN.
                assert!(
                    condition.is_nan() || condition >= limit,
                    "{what}: pivot {pivot} fails at condition {condition:e} only"
                );
            }
        }
    }
    let log_det: f64 = match after.covariance_kind() {
        CovarianceKind::LowRank => unreachable!("has tests of its own"),
        CovarianceKind::Diag => l.iter().map(|x| 2.0 * x.ln()).sum(),
        CovarianceKind::Full => l.iter().step_by(d + 1).map(|x| 2.0 * x.ln()).sum(),
    };
    let log_norm = 0.5 * (log_det - d as f64 * std::f64::consts::TAU.ln());
    // A sum of d logarithms, each below 710: its rounding error is absolute.
    assert!((after.log_norm() - log_norm).abs() <= 1e-12 * d as f64, "{what}: {} {log_norm}", after.log_norm());
}

/// `trace(H^-1)`, within a factor of `d` of `1 / lambda_min(H)`, for `S` scaled to the unit diagonal of `H`.
fn scaled_condition(s: &[f64], l: &[f64], d: usize) -> f64 {
    let mut trace = 0.0;
    for j in 0..d {
        // Column j of L^-1: its length is sqrt of entry (j, j) of S^-1.
        let mut x = vec![0.0; d];
        x[j] = s[j + j * d].sqrt();
        for k in j..d {
            x[k] /= l[k + k * d];
            for i in k + 1..d {
                x[i] -= l[i + k * d] * x[k];
            }
        }
        trace += x.iter().map(|x| x * x).sum::<f64>();
    }
    trace
}

/// Feeds a rule with everything; `step` also checks what the rule carries along.
fn torture(name: &str, shape: CovarianceKind, seed: u64, step: &mut StepOf<'_>, reset: &mut dyn FnMut(usize)) {
    let mut random = Random(seed);
    let mut scratch = Scratch::default();
    let (mut taken, mut skipped) = (0, 0);
    let mut one = |random: &mut Random, q: &mut Gaussian, scratch: &mut Scratch, what: &dyn Fn() -> String| {
        let d = q.dim();
        let rate = random.decade(-6.0, 3.0);
        let grad = vector(random, d);
        let hess = matrix(random, &q.precision().matrix(), d, shape, rate);
        let before = q.clone();
        let info = step(q, &grad, &hess, rate, scratch);
        let broken = grad.iter().chain(&hess).any(|x| !x.is_finite());
        let what = what();
        if d <= 8 {
            check(&before, q, info, &format!("{name} {what}: {before:?}, grad {grad:?}, hess {hess:?}, rate {rate}"));
        } else {
            check(&before, q, info, &format!("{name} {what} of dimension {d}"));
        }
        assert!(!broken || info.skipped.is_some(), "{name} {what}: a step from {grad:?}, {hess:?}");
        *(if info.skipped.is_some() { &mut skipped } else { &mut taken }) += 1;
    };
    let large = [30, 60].iter().flat_map(|d| std::iter::repeat_n(*d, LARGE_INPUTS));
    for (at, dim) in std::iter::repeat_n(0, INPUTS).chain(large).enumerate() {
        let d = if dim == 0 { 1 + random.below(8) } else { dim };
        let mut q = component(&mut random, d, shape);
        reset(d);
        one(&mut random, &mut q, &mut scratch, &|| format!("input {at}"));
        if at % 64 == 0 {
            // The factor is enough for densities and draws.
            let centre = Mixture::single(q.clone()).log_density(q.mean())[0];
            assert!((centre - q.log_norm()).abs() <= 1e-9 * q.log_norm().abs().max(1.0), "{name} {at}: {centre} {q:?}");
            let draws = Mixture::single(q.clone()).sample(3, at as u64);
            let spread_is_finite = q.sd().iter().all(|x| x.is_finite());
            assert!(!spread_is_finite || draws.iter().all(|x| x.is_finite()), "{name} {at}: draws {draws:?} of {q:?}");
        }
    }
    for chain in 0..CHAINS {
        let d = 1 + random.below(8);
        let mut q = component(&mut random, d, shape);
        reset(d);
        for link in 0..CHAIN {
            one(&mut random, &mut q, &mut scratch, &|| format!("chain {chain}, link {link}"));
        }
    }
    let all = (taken + skipped) as f64;
    println!("{name} ({}): {:.1} % of {all} steps taken", shape.name(), 100.0 * f64::from(taken) / all);
    // Otherwise the checks above would say little.
    assert!(
        f64::from(taken) > 0.2 * all && f64::from(skipped) > 0.02 * all,
        "{name}: {taken} taken, {skipped} skipped"
    );
}

#[test]
fn plain_diag() {
    torture(
        "plain",
        CovarianceKind::Diag,
        1,
        &mut |q, g, h, rate, scratch| plain::step(q, g, h, rate, scratch),
        &mut |_| (),
    );
}

#[test]
fn plain_full() {
    torture(
        "plain",
        CovarianceKind::Full,
        2,
        &mut |q, g, h, rate, scratch| plain::step(q, g, h, rate, scratch),
        &mut |_| (),
    );
}

fn improved_step(q: &mut Gaussian, g: &[f64], h: &[f64], rate: f64, scratch: &mut Scratch) -> StepInfo {
    // Caps from far below one to far above.
    improved::step(q, g, h, rate, (1e3 * rate).clamp(1e-3, 1e5), scratch)
}

#[test]
fn improved_diag() {
    torture("improved", CovarianceKind::Diag, 3, &mut improved_step, &mut |_| ());
}

#[test]
fn improved_full() {
    torture("improved", CovarianceKind::Full, 4, &mut improved_step, &mut |_| ());
}

#[test]
fn trust_region_diag() {
    let mut step = |q: &mut Gaussian, g: &[f64], h: &[f64], bound, scratch: &mut Scratch| {
        trust_region::step(q, g, h, bound, scratch)
    };
    torture("trust region", CovarianceKind::Diag, 5, &mut step, &mut |_| ());
}

#[test]
fn trust_region_full() {
    let mut step = |q: &mut Gaussian, g: &[f64], h: &[f64], bound, scratch: &mut Scratch| {
        trust_region::step(q, g, h, bound, scratch)
    };
    torture("trust region", CovarianceKind::Full, 6, &mut step, &mut |_| ());
}

#[test]
fn momentum_diag() {
    use std::cell::RefCell;
    let carried = RefCell::new((Vec::new(), 0));
    let mut step = |q: &mut Gaussian, g: &[f64], h: &[f64], rate: f64, scratch: &mut Scratch| {
        let (velocity, iteration) = &mut *carried.borrow_mut();
        *iteration += 1;
        let settings = Momentum {
            rate,
            momentum: [0.0, 0.5, 0.9, 0.999][*iteration as usize % 4],
            curvature_rate: rate.min(1.0),
            damping: if *iteration % 3 == 0 { rate } else { 0.0 },
            iteration: *iteration,
        };
        let info = momentum::step(q, velocity, g, h, settings, scratch);
        assert!(velocity.iter().all(|x| x.is_finite()), "velocity {velocity:?}");
        info
    };
    torture("momentum", CovarianceKind::Diag, 7, &mut step, &mut |d| *carried.borrow_mut() = (vec![0.0; d], 0));
}

fn adam_torture(shape: CovarianceKind, seed: u64) {
    use std::cell::RefCell;
    let carried = RefCell::new((AdamState::new(1, 1), 0));
    let mut step = |q: &mut Gaussian, g: &[f64], h: &[f64], rate: f64, scratch: &mut Scratch| {
        let (state, iteration) = &mut *carried.borrow_mut();
        *iteration += 1;
        let (info, logit) = adam::step(q, state, (g[0], g, h), rate, 0.9, *iteration, scratch);
        assert!(state.first.iter().chain(&state.second).all(|x| x.is_finite()), "{state:?}");
        assert!(logit.is_finite(), "logit {logit} from {}", g[0]);
        info
    };
    let mut reset = |d: usize| *carried.borrow_mut() = (AdamState::new(d, shape.curvature_shape().len(d)), 0);
    torture("adam", shape, seed, &mut step, &mut reset);
}

#[test]
fn adam_diag() {
    adam_torture(CovarianceKind::Diag, 8);
}

#[test]
fn adam_full() {
    adam_torture(CovarianceKind::Full, 9);
}

/// In exact arithmetic `S_new = (S + U'U) / 2 >= S/2` for every curvature.
#[test]
fn improved_never_falls_below_half() {
    let mut random = Random(10);
    let mut scratch = Scratch::default();
    for at in 0..20_000 {
        let d = 1 + random.below(8);
        let shape = if at % 2 == 0 { CovarianceKind::Full } else { CovarianceKind::Diag };
        let old = component(&mut random, d, shape);
        let mut new = old.clone();
        let strength = random.decade(-3.0, 3.0);
        let s = old.precision().full_matrix();
        let root: Vec<f64> = (0..d).map(|i| s[i * (d + 1)].sqrt()).collect();
        let mut h = vec![0.0; shape.curvature_shape().len(d)];
        for i in 0..d {
            for j in 0..=i {
                let x = strength * root[i] * root[j] * random.signed();
                match shape {
                    CovarianceKind::LowRank => unreachable!("has tests of its own"),
                    CovarianceKind::Diag => h[i] = x,
                    CovarianceKind::Full => (h[i + j * d], h[j + i * d]) = (x, x),
                }
            }
        }
        let rate = random.decade(-3.0, 1.0);
        let info = improved::step(&mut new, &vec![0.0; d], &h, rate, 10.0, &mut scratch);
        check(&old, &new, info, &format!("improved {at}"));
        assert!(info.skipped.is_none(), "{at}: {info:?}");
        // S_new - S/2 with unit diagonal of S_new, lifted by what rounding may have taken, has a Cholesky factor.
        let s_new = new.precision().full_matrix();
        let unit: Vec<f64> = (0..d).map(|i| s_new[i * (d + 1)].sqrt().recip()).collect();
        let mut rest: Vec<f64> = (0..d * d).map(|e| unit[e % d] * (s_new[e] - 0.5 * s[e]) * unit[e / d]).collect();
        rest.iter_mut().step_by(d + 1).for_each(|x| *x += 4.0 * ROUNDING * (d * (d + 1)) as f64 * f64::EPSILON);
        assert!(Full::from_precision(d, &rest).is_ok(), "{at}: S {s:?}, S_new {s_new:?}");
    }
}

/// A step must not depend on the size of numbers alone: a component and moments in other units give the same step.
#[test]
fn steps_do_not_depend_on_units() {
    let mut random = Random(11);
    let mut scratch = Scratch::default();
    for at in 0..5_000 {
        let d = 1 + random.below(6);
        let factor: Vec<f64> = {
            let mut l = vec![0.0; d * d];
            for j in 0..d {
                for i in j..d {
                    l[i + j * d] = if i == j { 1.0 + 0.5 * random.signed() } else { 0.4 * random.signed() };
                }
            }
            l
        };
        let mean: Vec<f64> = (0..d).map(|_| random.signed()).collect();
        let grad: Vec<f64> = (0..d).map(|_| 3.0 * random.signed()).collect();
        let mut hess = vec![0.0; d * d];
        for i in 0..d {
            for j in 0..=i {
                hess[i + j * d] = random.signed();
                hess[j + i * d] = hess[i + j * d];
            }
        }
        // Powers of two change no digit: z = unit * z', so S' = unit^2 S.
        for unit in [(-400f64).exp2(), (-100f64).exp2(), 100f64.exp2(), 400f64.exp2()] {
            let make = |unit: f64| {
                let l = factor.iter().map(|x| x * unit).collect();
                Gaussian::new(mean.iter().map(|m| m / unit).collect(), Full::from_factor(d, l))
            };
            let (g, h): (Vec<f64>, Vec<f64>) =
                (grad.iter().map(|x| x * unit).collect(), hess.iter().map(|x| x * unit * unit).collect());
            for rule in ["plain", "improved", "trust region"] {
                let mut step = |q: &mut Gaussian, g: &[f64], h: &[f64]| match rule {
                    "plain" => plain::step(q, g, h, 0.3, &mut scratch),
                    "improved" => improved::step(q, g, h, 0.3, 1.0, &mut scratch),
                    _ => trust_region::step(q, g, h, 0.5, &mut scratch),
                };
                let (mut here, mut there) = (make(1.0), make(unit));
                let (a, b) = (step(&mut here, &grad, &hess), step(&mut there, &g, &h));
                assert!((a.rate / b.rate - 1.0).abs() < 1e-12, "{at} {rule} at unit {unit:e}: {a:?} {b:?}");
                for (a, b) in here.mean().iter().zip(there.mean()) {
                    assert!((a - b * unit).abs() < 1e-10, "{at} {rule} at unit {unit:e}: {a} {b}");
                }
            }
        }
    }
}
