//! The steps of the rules against their closed formulas and bounds.

mod common;

use common::{diag_gaussian, distance, gaussian, wave};
use natmix::Scratch;
use natmix::family::{CovarianceKind, Gaussian};
use natmix::rule::{improved, plain, trust_region, weights};

/// Any gradient and curvature, indefinite too, of the given size.
fn any_moments(q: &Gaussian, size: f64, salt: usize) -> (Vec<f64>, Vec<f64>) {
    let d = q.dim();
    let grad = (0..d).map(|i| size * wave(salt + i)).collect();
    let entry = |i: usize, j: usize| size * wave(salt + 5000 + i.min(j) * d + i.max(j));
    let hess = match q.covariance_kind() {
        CovarianceKind::LowRank => unreachable!("has tests of its own"),
        CovarianceKind::Diag => (0..d).map(|i| entry(i, i)).collect(),
        CovarianceKind::Full => (0..d * d).map(|at| entry(at % d, at / d)).collect(),
    };
    (grad, hess)
}

/// The bisection ends at rounding, and the new precision keeps a condition number of about ten: 1e-9.
#[test]
fn trust_region_goes_to_the_bound_along_the_plain_step() {
    let (mut active, mut inactive) = (0, 0);
    for d in [1, 2, 5, 40] {
        for old in [diag_gaussian(d, 1.0, d), gaussian(d, 1.0, d)] {
            for (salt, size) in [0.003, 0.1, 1.0, 30.0].into_iter().enumerate() {
                let (grad, hess) = any_moments(&old, size, 100 * salt);
                for bound in [1e-4, 0.05, 1.0] {
                    let mut moved = old.clone();
                    let info = trust_region::step(&mut moved, &grad, &hess, bound, &mut Scratch::default());
                    let case = format!("d = {d}, {:?}, size {size}, bound {bound}", old.covariance_kind());
                    assert_eq!(info.skipped, None, "{case}");
                    if info.rate == 1.0 {
                        inactive += 1;
                        assert!(moved.kl(&old) <= bound * (1.0 + 1e-9), "{case}");
                    } else {
                        active += 1;
                        assert!(info.rate < 1.0);
                        assert!((moved.kl(&old) - bound).abs() < 1e-9 * bound.max(1e-3), "{case}: {}", moved.kl(&old));
                    }
                    let mut straight = old.clone();
                    let halved = plain::step(&mut straight, &grad, &hess, info.rate, &mut Scratch::default());
                    assert_eq!(halved.rate, info.rate, "{case}");
                    assert!(distance(moved.mean(), straight.mean()) < 1e-9, "{case}");
                    let (ours, theirs) = (moved.precision().matrix(), straight.precision().matrix());
                    assert!(distance(&ours, &theirs) < 1e-9, "{case}");
                }
            }
        }
    }
    assert!(active >= 20 && inactive >= 20, "{active} at the bound, {inactive} inside");
}

/// `S + t G + t^2/2 G S^-1 G` by plain matrix products.
fn improved_precision(old: &Gaussian, hess: &[f64], t: f64) -> Vec<f64> {
    let d = old.dim();
    if old.covariance_kind() == CovarianceKind::Diag {
        let matrix = old.precision().matrix();
        return matrix.iter().zip(hess).map(|(s, h)| s - t * h + 0.5 * t * t * h * h / s).collect();
    }
    let times = |a: &[f64], b: &[f64]| -> Vec<f64> {
        (0..d * d).map(|at| (0..d).map(|l| a[at % d + l * d] * b[l + at / d * d]).sum()).collect()
    };
    let square = times(hess, &times(&old.precision().covariance(), hess));
    let matrix = old.precision().matrix();
    matrix.iter().zip(hess).zip(&square).map(|((s, h), square)| s - t * h + 0.5 * t * t * square).collect()
}

/// Closed formulas: 1e-12.
#[test]
fn improved_step_is_its_formula() {
    for d in [1, 3, 40] {
        for old in [diag_gaussian(d, 1.0, d), gaussian(d, 1.0, d)] {
            for (size, t) in [(0.5, 0.1), (2.0, 0.3), (20.0, 0.05)] {
                let (grad, hess) = any_moments(&old, size, 11);
                let mut moved = old.clone();
                let info = improved::step(&mut moved, &grad, &hess, t, 1e6, &mut Scratch::default());
                assert_eq!(info.rate, t);
                let covariance = old.precision().covariance_full();
                let mean: Vec<f64> = (0..d)
                    .map(|i| old.mean()[i] + t * (0..d).map(|j| covariance[i + j * d] * grad[j]).sum::<f64>())
                    .collect();
                let case = format!("d = {d}, {:?}, size {size}", old.covariance_kind());
                assert!(distance(moved.mean(), &mean) < 1e-12, "{case}");
                let precision = improved_precision(&old, &hess, t);
                assert!(distance(&moved.precision().matrix(), &precision) < 1e-12, "{case}");

                // A cap that acts shortens the step to |t L^-1 G L^-T| = cap and changes nothing else.
                let cap = 0.01;
                let mut capped = old.clone();
                let short = improved::step(&mut capped, &grad, &hess, t, cap, &mut Scratch::default());
                assert!(short.rate < t);
                let mut direct = old.clone();
                improved::step(&mut direct, &grad, &hess, short.rate, 1e6, &mut Scratch::default());
                assert_eq!(capped, direct, "{case}");
                // |L^-1 G L^-T|^2 = tr(S^-1 G S^-1 G), and the formula's last term holds G S^-1 G.
                let linear = improved_precision(&old, &hess, 0.0);
                let (up, down) = (improved_precision(&old, &hess, 1.0), improved_precision(&old, &hess, -1.0));
                let sandwich: Vec<f64> = (0..up.len()).map(|i| up[i] + down[i] - 2.0 * linear[i]).collect();
                let inverse = old.precision().covariance();
                let norm = inverse.iter().zip(&sandwich).map(|(a, b)| a * b).sum::<f64>().sqrt();
                assert!((short.rate * norm / cap - 1.0).abs() < 1e-9, "{case}");
            }
        }
    }
}

/// The bisection resolves `rate * 2^-60`, a millionth of the shortest step here at worst: 1e-5.
#[test]
fn weights_go_to_the_bound_and_not_beyond() {
    let (mut active, mut inactive) = (0, 0);
    for k in [2, 3, 20] {
        let mut old: Vec<f64> = (0..k).map(|i| 6.0 * wave(40 + i)).collect();
        let total = natmix::family::log_sum_exp(&old);
        old.iter_mut().for_each(|w| *w -= total);
        for size in [1e-3, 1.0, 1e3, 1e6] {
            let values: Vec<f64> = (0..k).map(|i| size * (3.0 + wave(90 + i))).collect();
            for (rate, bound) in [(1.0, 0.01), (0.1, 0.3), (100.0, 1e-4)] {
                let mut new = old.clone();
                let t = weights::trust_region_step(&mut new, &values, rate, bound, &mut vec![0.0; k]);
                let kl: f64 = new.iter().zip(&old).map(|(new, old)| new.exp() * (new - old)).sum();
                let case = format!("k = {k}, size {size}, rate {rate}, bound {bound}: t = {t}, KL = {kl}");
                assert!(kl <= bound * (1.0 + 1e-9) && natmix::family::log_sum_exp(&new).abs() < 1e-12, "{case}");
                if t < rate {
                    active += 1;
                    assert!(kl >= bound * (1.0 - 1e-5), "{case}");
                } else {
                    inactive += 1;
                    assert_eq!(t, rate);
                }
                for i in 1..k {
                    let pull = (new[i] - old[i]) - (new[0] - old[0]);
                    let expected = t * (values[i] - values[0]);
                    assert!((pull - expected).abs() < 1e-9 * expected.abs().max(1.0), "{case}");
                }
            }
        }
    }
    assert!(active >= 10 && inactive >= 5, "{active} at the bound, {inactive} inside");
}
