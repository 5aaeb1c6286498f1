//! Every method of every kind against dense formulas; and fits of a kind that only this module and its list know.

use super::{AnyCovariance, CentredPoints, CovarianceKind, Diag, Full, LowRank, Spherical};
use crate::config::{Config, Parts};
use crate::family::{Gaussian, Mixture};
use crate::method::Method;
use crate::rule::{Rule, StepInfo};
use crate::save::{Posterior, read_posterior_bytes};
use crate::target::CurvatureShape;
use crate::workspace::Scratch;

const D: usize = 3;

/// A pseudo-random number in (-1, 1).
fn wave(i: usize) -> f64 {
    (1.7 * i as f64 + 0.3).sin()
}

fn each_kind() -> Vec<AnyCovariance> {
    let factor = vec![1.5, 0.4, -0.3, 0.0, 0.8, 0.2, 0.0, 0.0, 1.1];
    vec![
        Full::from_factor(D, factor).into(),
        Diag::new(vec![0.5, 2.0, 3.5]).unwrap().into(),
        LowRank::from_factors(&[0.5, 0.8, 1.2], &[0.4, -0.3, 0.9, 0.2, 0.7, 0.1]).unwrap().into(),
        Spherical::new(D, 2.25).unwrap().into(),
    ]
}

/// Column-major `a b`.
fn times(a: &[f64], b: &[f64], d: usize) -> Vec<f64> {
    (0..b.len()).map(|at| (0..d).map(|k| a[at % d + k * d] * b[k + at / d * d]).sum()).collect()
}

fn assert_near(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-11 * (1.0 + b.abs())), "{what}: {a:?} {b:?}");
}

/// A symmetric matrix, in the layout `shape`, and the dense matrix that a covariance of this kind makes of it.
fn curvature(c: &AnyCovariance) -> (Vec<f64>, Vec<f64>) {
    let dense: Vec<f64> = (0..D * D).map(|at| 0.4 * (wave(at % D + at / D) + wave(at % D * at / D))).collect();
    let symmetric: Vec<f64> = (0..D * D).map(|at| 0.5 * (dense[at] + dense[at / D + at % D * D])).collect();
    let diagonal: Vec<f64> = symmetric.iter().copied().step_by(D + 1).collect();
    let average = diagonal.iter().sum::<f64>() / D as f64;
    let spread = |entries: Vec<f64>| crate::linalg::diagonal(entries, D);
    match c.kind() {
        CovarianceKind::Full => (symmetric.clone(), symmetric),
        CovarianceKind::Diag | CovarianceKind::LowRank => (diagonal.clone(), spread(diagonal)),
        CovarianceKind::Spherical => (diagonal, spread(vec![average; D])),
    }
}

#[test]
fn algebra_agrees_with_dense_formulas() {
    for c in each_kind() {
        let what = c.kind().name();
        let (s, inverse) = (c.full_matrix(), c.covariance_full());
        assert_near(&times(&s, &inverse, D), &crate::linalg::diagonal([1.0; D], D), what);
        let variances: Vec<f64> = inverse.iter().copied().step_by(D + 1).collect();
        assert_near(&c.variances(), &variances, what);
        let determinant = s[0] * (s[4] * s[8] - s[5] * s[7]) - s[3] * (s[1] * s[8] - s[2] * s[7])
            + s[6] * (s[1] * s[5] - s[2] * s[4]);
        assert!((c.log_det() - determinant.ln()).abs() < 1e-12, "{what}");
        let x = [0.3, -1.2, 0.8];
        let mut out = [0.0; D];
        c.times(&x, &mut out);
        assert_near(&out, &times(&s, &x, D), what);
        c.solve(&mut out);
        assert_near(&out, &x, what);
        for shape in [CurvatureShape::Diag, CurvatureShape::Full] {
            let mut sum = vec![1.0; shape.len(D)];
            c.add_to(&mut sum, -2.0, shape);
            let step = if shape == CurvatureShape::Diag { D + 1 } else { 1 };
            assert_near(&sum, &s.iter().step_by(step).map(|s| 1.0 - 2.0 * s).collect::<Vec<_>>(), what);
        }
        let wider: Vec<f64> = inverse.iter().map(|x| 9.0 * x).collect();
        assert_near(&c.widened(3.0).covariance_full(), &wider, what);
        assert!(c.is_finite());
        for other in each_kind() {
            let trace = times(&other.full_matrix(), &inverse, D).iter().step_by(D + 1).sum::<f64>();
            assert!((c.trace_under(&*other) - trace).abs() < 1e-12, "{what}");
            let (a, b) = (Gaussian::new(vec![1.0; D], c.clone()), Gaussian::new(x.to_vec(), other.clone()));
            let delta = x.map(|x| 1.0 - x);
            let distance: f64 = times(&other.full_matrix(), &delta, D).iter().zip(&delta).map(|(a, b)| a * b).sum();
            let kl = 0.5 * (trace - D as f64 + distance + c.log_det() - other.log_det());
            assert!((a.kl(&b) - kl).abs() < 1e-12, "{what}");
        }
        let mut copy = c.widened(2.0);
        copy.copy_from(&c);
        assert_eq!(copy, c);
    }
}

#[test]
fn whitening_undoes_colouring() {
    for c in each_kind() {
        let (what, mut scratch) = (c.kind().name(), Scratch::default());
        // Eight points: exactly one lane.
        let (n, mean) = (8, [0.5, -0.2, 0.1]);
        let eps: Vec<f64> = (0..n * D).map(wave).collect();
        let mut z = eps.clone();
        c.colour(&mut z);
        let at = |i: usize, j: usize| z[i * D + j] + mean[j];
        let transposed: Vec<f64> = (0..n * D).map(|k| at(k % n, k / n)).collect();
        let (mut y, mut quad) = (vec![0.0; n * D], vec![0.0; n]);
        c.whiten(&mut y, &mut quad, &transposed, &mean, &mut scratch);
        assert_near(&y, &(0..n * D).map(|k| eps[k % n * D + k / n]).collect::<Vec<_>>(), what);
        let squares = |i: usize| eps[i * D..][..D].iter().map(|x| x * x).sum::<f64>();
        assert_near(&quad, &(0..n).map(squares).collect::<Vec<_>>(), what);
        // L y = S (z - m).
        let (mut out, scale) = (vec![1.0; n * D], vec![2.0; n]);
        c.add_scaled_times_factor(&mut out, &scale, &y, &mut scratch);
        let expected = |k: usize| 1.0 + 2.0 * times(&c.full_matrix(), &z[k % n * D..][..D], D)[k / n];
        assert_near(&out, &(0..n * D).map(expected).collect::<Vec<_>>(), what);
        let points: Vec<f64> = (0..n * D).map(|k| at(k / D, k % D)).collect();
        let mut log_q = vec![0.0; n];
        if c.log_density_at_once(&mut log_q, &points, &mean, 0.25) {
            assert_near(&log_q, &quad.iter().map(|q| 0.25 - 0.5 * q).collect::<Vec<_>>(), what);
        }
    }
}

#[test]
fn steps_agree_with_dense_formulas() {
    let (g, rate) = ([0.2, -0.5, 0.3], 0.1);
    for c in each_kind() {
        let (what, mut scratch) = (c.kind().name(), Scratch::default());
        let (h, dense) = curvature(&c);
        let (s, inverse) = (c.full_matrix(), c.covariance_full());
        let natural: Vec<f64> = s.iter().zip(&dense).map(|(s, h)| s - rate * h).collect();
        let shifted = |prec: &AnyCovariance| {
            let mut shift = g.map(|g| rate * g);
            prec.solve(&mut shift);
            shift
        };

        let (mut plain, mut mean) = (c.clone(), [0.0; D]);
        assert!(plain.natural_step(&mut mean, &g, &h, rate, &mut scratch));
        assert_near(&plain.full_matrix(), &natural, what);
        assert_near(&mean, &shifted(&plain), what);

        let (mut spectral, mut mean) = (c.clone(), [0.0; D]);
        let info = spectral.spectral_step(&mut mean, &g, &h, &|_, _| Some(rate.recip()), &mut scratch);
        assert_eq!(info, StepInfo::taken(rate));
        assert_near(&spectral.full_matrix(), &natural, what);
        assert_near(&mean, &shifted(&plain), what);

        let (mut improved, mut mean) = (c.clone(), [0.0; D]);
        let info = improved.improved_step(&mut mean, &g, &h, &|_| rate, &mut scratch);
        assert_eq!(info, StepInfo::taken(rate));
        let square = times(&times(&dense, &inverse, D), &dense, D);
        let expected = (0..D * D).map(|at| natural[at] + 0.5 * rate * rate * square[at]);
        assert_near(&improved.full_matrix(), &expected.collect::<Vec<_>>(), what);
        assert_near(&mean, &shifted(&c), what);

        let (mut turned, mut mean) = (c.clone(), [0.0; D]);
        let turn = vec![0.1; h.len()];
        assert!(turned.factor_step(&mut mean, &g, &turn, 1.0, &mut scratch));
        assert_near(&mean, &g, what);
        if c.kind() != CovarianceKind::Full {
            assert_near(
                &turned.covariance_full(),
                &inverse.iter().map(|x| x * (-0.2f64).exp()).collect::<Vec<_>>(),
                what,
            );
        }

        // What leaves the positive definite cone is refused, and nothing moves.
        let (mut same, mut mean) = (c.clone(), [0.0; D]);
        let mut far = vec![0.0; c.kind().curvature_shape().len(D)];
        c.add_to(&mut far, 2.0, c.kind().curvature_shape());
        assert!(!same.natural_step(&mut mean, &g, &far, 1.0, &mut scratch));
        assert_eq!((same, mean), (c, [0.0; D]));
    }
}

#[test]
fn estimates_agree_with_dense_formulas() {
    for c in each_kind() {
        let (what, mut scratch) = (c.kind().name(), Scratch::default());
        let shape = c.kind().curvature_shape();
        // Gradients that are linear in the points: S A with a slope A in the layout, which regression finds exactly.
        let n = 16;
        let (h, dense) = match c.kind() {
            CovarianceKind::Full => curvature(&c),
            _ => (vec![0.3; D], crate::linalg::diagonal([0.3; D], D)),
        };
        // Squares: waves of one frequency would lie in a plane.
        let mut y: Vec<f64> = (0..n * D).map(|k| wave(k * k)).collect();
        let weights = vec![1.0 / n as f64; n];
        for y in y.chunks_exact_mut(n) {
            let mean = y.iter().sum::<f64>() / n as f64;
            y.iter_mut().for_each(|y| *y -= mean);
        }
        // z - m = L^-T y; its gradient is H (z - m).
        let mut z: Vec<f64> = (0..n * D).map(|k| y[k / D + k % D * n]).collect();
        c.colour(&mut z);
        let along: Vec<f64> = z.chunks_exact(D).flat_map(|z| times(&dense, z, D)).collect();
        let gradients: Vec<f64> = (0..n * D).map(|k| along[k % n * D + k / n]).collect();
        let zero = [0.0; D];
        let points = CentredPoints {
            y: &y,
            gradients: &gradients,
            weights: &weights,
            mean_y: &zero,
            mean_gradient: &[1.0, 2.0, 3.0],
            ess: n as f64,
        };
        let (mut grad, mut hess) = ([0.0; D], vec![0.0; c.kind().curvature_len(D)]);
        c.regress(&points, 0.0, &mut grad, &mut hess, &mut scratch);
        assert_near(&grad, &[1.0, 2.0, 3.0], what);
        if c.kind() != CovarianceKind::LowRank {
            assert_near(&hess, &h, what);
        }

        // With unit second moment of y, L times the slope is what the gradients are made of.
        let mut slope: Vec<f64> = h.clone();
        let dense_slope =
            if shape == CurvatureShape::Full { slope.clone() } else { crate::linalg::diagonal(slope.clone(), D) };
        c.unwhiten_slope(&mut slope, &mut scratch);
        let mut factor = crate::linalg::diagonal([1.0; D], D);
        // Columns of L, from L^-T.
        c.colour(&mut factor);
        let s = c.full_matrix();
        let l = times(&s, &factor, D);
        let product = times(&l, &dense_slope, D);
        let symmetric: Vec<f64> = (0..D * D).map(|at| 0.5 * (product[at] + product[at / D + at % D * D])).collect();
        let step = if shape == CurvatureShape::Full { 1 } else { D + 1 };
        assert_near(&slope, &symmetric.iter().copied().step_by(step).collect::<Vec<_>>(), what);

        // Where y has mean zero and unit variance nothing pulls at the mean or at the diagonal of the factor.
        let mut yy = if shape == CurvatureShape::Full { crate::linalg::diagonal([1.0; D], D) } else { vec![1.0; D] };
        let (mut mean, mut turn) = ([9.0; D], vec![9.0; shape.len(D)]);
        c.factor_gradient(&mut mean, &mut turn, 1.0, &zero, &mut yy);
        assert_near(&mean, &zero, what);
        assert_near(&turn.iter().copied().step_by(shape.diagonal_step(D)).collect::<Vec<_>>(), &zero, what);
    }
}

#[test]
fn starts_have_the_spread_that_was_asked_for() {
    for &kind in CovarianceKind::ALL {
        let sd = [0.5; D];
        assert_near(&kind.with_sd(&sd).unwrap().variances(), &[0.25; D], kind.name());
        assert_near(&kind.with_precisions(&[4.0; D]).unwrap().variances(), &[0.25; D], kind.name());
        assert!(kind.with_precisions(&[-1.0; D]).is_err());
        // In units of the start: nine times as curved is a third as wide.
        let curvature = crate::linalg::diagonal([9.0; D], D);
        let found = kind.with_curvature(&curvature, &sd, &|x| x).unwrap();
        assert_near(&found.variances(), &[0.25 / 9.0; D], kind.name());
        assert_eq!((found.kind(), found.dim()), (kind, D));
        let name = serde_json::to_string(&kind).unwrap();
        assert_eq!(name, format!("\"{}\"", kind.name()));
        assert_eq!(serde_json::from_str::<CovarianceKind>(&name).unwrap(), kind);
    }
}

#[test]
fn what_is_decoded_equals_what_was_encoded() {
    for c in each_kind() {
        let encoded = c.encode();
        let tensors: Vec<&[f64]> = encoded.iter().map(|x| &x[..]).collect();
        let sizes: Vec<usize> = c.kind().tensors(D).iter().map(|(_, shape)| shape.iter().product()).collect();
        assert_eq!(tensors.iter().map(|x| x.len()).collect::<Vec<_>>(), sizes);
        assert_eq!(c.kind().decode(D, &tensors).as_ref(), Some(&c));
        let wrong: Vec<Vec<f64>> = encoded.iter().map(|x| x.iter().map(|x| -x).collect()).collect();
        assert_eq!(c.kind().decode(D, &wrong.iter().map(|x| &x[..]).collect::<Vec<_>>()), None);

        let parts = vec![Gaussian::new(vec![1.0; D], c.clone()), Gaussian::new(vec![-1.0; D], c.widened(2.0))];
        let mixture = Mixture::new(&[0.3, 0.7], parts).unwrap();
        let posterior = Posterior { mixture, parameter_names: vec![], details: "".into(), answer: None };
        assert_eq!(read_posterior_bytes(&posterior.to_bytes().unwrap()).unwrap(), posterior);
    }
}

/// A kind that no rule, strategy, estimator or file names goes through all of them.
#[test]
fn another_kind_needs_nothing_but_its_file() {
    let truth = Gaussian::new(vec![1.0, -2.0], Spherical::new(2, 4.0).unwrap());
    let target = Mixture::single(truth.clone());
    let base = |method| Config { covariance: CovarianceKind::Spherical, diagnostic_draws: 0, ..Config::new(method) };
    let exact = [
        base(Method::Von),
        base(Method::Ngvi),
        base(Method::ComponentDraws).with_parts(|parts| Parts { rule: Rule::Improved, ..parts }),
        base(Method::ComponentDraws),
        base(Method::MixtureDraws),
        Config { max_evals: Some(20_000), ..base(Method::Auto) },
    ];
    for config in exact {
        let fitted = crate::fit(&target, &config).unwrap();
        let best = fitted.mixture.components().iter().map(|c| c.kl(&truth)).fold(f64::INFINITY, f64::min);
        assert!(best < 1e-3, "{:?}: {best}", config.strategy);
        assert_eq!(fitted.mixture.covariance_kind(), CovarianceKind::Spherical);
    }
    let fitted = crate::fit(&target, &Config { max_iterations: 3000, ..base(Method::Bbvi) }).unwrap();
    assert!(fitted.mixture.components()[0].kl(&truth) < 0.1);
}
