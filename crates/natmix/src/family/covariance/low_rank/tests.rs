//! A low-rank covariance against dense formulas, and its steps on targets that it can and cannot represent.

use super::*;
use crate::family::covariance::Full;
use crate::family::{CovarianceKind, Gaussian, Mixture};
use crate::rule::trust_region;
use crate::target::{EvalOut, Points, Rows, Target};

/// A pseudo-random number in (-1, 1).
fn wave(i: usize) -> f64 {
    let x = (12.9898 * i as f64 + 78.233).sin() * 43_758.545_3;
    2.0 * (x - x.floor()) - 1.0
}

fn correlated(d: usize, factors: usize, strength: f64) -> LowRank {
    let variances: Vec<f64> = (0..d).map(|j| (1.0 + 0.9 * wave(j)).powi(2)).collect();
    let w: Vec<f64> = (0..factors * d).map(|at| strength * wave(1000 + at)).collect();
    LowRank::from_factors(&variances, &w).unwrap()
}

fn near(a: &[f64], b: &[f64], error: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= error * (1.0 + b.abs()))
}

#[test]
fn factors_make_the_covariance_of_factor_analysis() {
    let (d, factors) = (40, 4);
    let variances: Vec<f64> = (0..d).map(|j| 1.5 + wave(j)).collect();
    let w: Vec<f64> = (0..factors * d).map(|at| wave(500 + at)).collect();
    let own = LowRank::from_factors(&variances, &w).unwrap();
    let entry = |i: usize, j: usize| (0..factors).map(|k| w[k * d + i] * w[k * d + j]).sum::<f64>();
    let dense: Vec<f64> =
        (0..d * d).map(|at| entry(at % d, at / d) + if at % d == at / d { variances[at / d] } else { 0.0 }).collect();
    assert!(near(&own.covariance(), &dense, 1e-12));
    assert_eq!(own.directions().count(), factors);
    let full = Full::from_covariance(d, dense).unwrap();
    assert!((own.log_det() - full.log_det()).abs() < 1e-10);
    assert!((own.trace_under(&full) - d as f64).abs() < 1e-9 && (full.trace_under(&own) - d as f64).abs() < 1e-9);
    // The same Gaussian by either formula.
    let (a, b) = (Gaussian::new(vec![0.3; d], own.clone()), Gaussian::new(vec![0.3; d], full));
    let z: Vec<f64> = (0..5 * d).map(|at| 2.0 * wave(at)).collect();
    assert!(near(&Mixture::single(a).log_density(&z), &Mixture::single(b).log_density(&z), 1e-11));
    assert_eq!(LowRank::from_factors(&[1.0, -1.0], &[1.0, 1.0]), Err(1));
}

#[test]
fn of_many_directions_the_strongest_are_kept_and_the_result_stays_orthonormal() {
    let d = 60;
    let own = correlated(d, RANK + 5, 1.0);
    assert_eq!(own.directions().count(), RANK);
    for (i, (a, value)) in own.directions().enumerate() {
        assert!(value > 0.0 && value < 1.0);
        for (j, (b, _)) in own.directions().enumerate() {
            assert!((dot(a, b) - f64::from(i == j)).abs() < 1e-12);
        }
    }
    // Directions that are nearly the same are one.
    let twice: Vec<f64> = (0..2 * d).map(|at| wave(at % d) * if at < d { 1.0 } else { 1.0 + 1e-13 }).collect();
    assert_eq!(LowRank::from_factors(&vec![1.0; d], &twice).unwrap().directions().count(), 1);
}

#[test]
fn draws_have_the_covariance() {
    let (d, n) = (6, 20_000);
    let own = correlated(d, 2, 1.0);
    let draws = Mixture::single(Gaussian::new(vec![0.0; d], own.clone())).sample(n, 3);
    let covariance = own.covariance();
    for i in 0..d {
        for j in 0..=i {
            let products: Vec<f64> = draws.chunks_exact(d).map(|z| z[i] * z[j]).collect();
            let mean = products.iter().sum::<f64>() / n as f64;
            let se = (products.iter().map(|x| (x - mean).powi(2)).sum::<f64>()).sqrt() / n as f64;
            assert!((mean - covariance[i + j * d]).abs() < 5.0 * se, "{i} {j}");
            assert!(5.0 * se < 0.06 * (covariance[i * (d + 1)] * covariance[j * (d + 1)]).sqrt());
        }
    }
}

#[test]
fn a_step_with_low_rank_curvature_is_the_dense_one() {
    // In few dimensions nothing is cut off.
    let (d, rate) = (7, 0.2);
    let own = correlated(d, 2, 0.7);
    let g: Vec<f64> = (0..d).map(wave).collect();
    let mut h: Vec<f64> = (0..LowRank::curvature_len(d)).map(|at| 0.3 * wave(50 + at)).collect();
    h[d + 3 * d..d + rank(d) * d].fill(0.0);
    h[d + rank(d) * d + 3..].fill(0.0);
    let (w, c) = (h[d..d + rank(d) * d].to_vec(), h[d + rank(d) * d..].to_vec());
    let mut dense = own.matrix().into_owned();
    for (at, s) in dense.iter_mut().enumerate() {
        let (i, j) = (at % d, at / d);
        let low: f64 = (0..3).map(|k| c[k] * w[k * d + i] * w[k * d + j]).sum();
        *s -= rate * (low + if i == j { h[i] } else { 0.0 });
    }
    let (mut step, mut mean, mut scratch) = (own.clone(), vec![0.0; d], Scratch::default());
    assert!(step.natural_step(&mut mean, &g, &h, rate, &mut scratch));
    assert!(near(&step.matrix(), &dense, 1e-12));
    let mut shift: Vec<f64> = g.iter().map(|g| rate * g).collect();
    Full::from_precision(d, &dense).unwrap().solve(&mut shift);
    assert!(near(&mean, &shift, 1e-11));
    // Within its KL bound, but for what a few dimensions count twice.
    for bound in [0.01, 0.3] {
        let old = Gaussian::new(vec![0.0; d], own.clone());
        let mut moved = old.clone();
        let far: Vec<f64> = h.iter().map(|h| 5.0 * h).collect();
        assert_eq!(trust_region::step(&mut moved, &g, &far, bound, &mut scratch).skipped, None);
        let kl = moved.kl(&old);
        assert!(kl <= 1.2 * bound && kl > 0.2 * bound, "{kl} {bound}");
    }
    // What leaves the positive definite cone is refused, and nothing moves.
    let (mut same, mut mean) = (own.clone(), vec![0.0; d]);
    let mut far = h.clone();
    far[d + rank(d) * d] = 1e6;
    assert!(!same.natural_step(&mut mean, &g, &far, 1.0, &mut scratch));
    assert_eq!((same, mean), (own, vec![0.0; d]));
}

/// A Gaussian target that is not a mixture.
struct Normal(Gaussian);

impl Target for Normal {
    fn dim(&self) -> usize {
        self.0.dim()
    }
    fn eval(
        &self,
        rows: Rows<'_>,
        z: Points<'_>,
        out: EvalOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), crate::target::TargetError> {
        Mixture::single(self.0.clone()).eval(rows, z, out, scratch)
    }
    fn is_log_concave(&self) -> bool {
        true
    }
}

#[test]
fn a_fit_finds_a_gaussian_of_its_own_kind() {
    use crate::config::{Config, Finish};
    let d = 700;
    let truth = Gaussian::new((0..d).map(|j| 3.0 * wave(j)).collect(), correlated(d, 5, 1.0));
    let config = Config {
        covariance: CovarianceKind::LowRank,
        diagnostic_draws: 1_000,
        finish: Finish::Never,
        threads: 1,
        ..Config::default()
    };
    let fitted = crate::fit(&Normal(truth.clone()), &config).unwrap();
    let [found] = fitted.mixture.components() else { panic!("{} components", fitted.mixture.len()) };
    let kl = found.kl(&truth);
    println!("kl {kl} evals {} stop {:?}", fitted.evals, fitted.stop);
    assert!(kl < 0.01, "{kl}");
    let diagnostics = fitted.diagnostics.unwrap();
    println!("{:?} {} {:?}", diagnostics.elbo, diagnostics.k_hat, diagnostics.verdict);
    assert!(diagnostics.verdict.trusted);
}
