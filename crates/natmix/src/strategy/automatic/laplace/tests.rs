use super::super::evaluate::with_evaluator;
use super::*;
use crate::target::ClosureTarget;

/// Laplace's approximation at zero of `-z' P z / 2`, and the evaluations that it took.
fn at_zero(precision: &[f64], sd: &[f64], kind: CovarianceKind, most_evals: u64) -> (Option<Gaussian>, u64) {
    let d = sd.len();
    let target = ClosureTarget::new(d, |z: &[f64], grad: Option<&mut [f64]>| {
        let slope: Vec<f64> =
            precision.chunks_exact(d).map(|row| -row.iter().zip(z).map(|(p, z)| p * z).sum::<f64>()).collect();
        let log_p = 0.5 * slope.iter().zip(z).map(|(g, z)| g * z).sum::<f64>();
        grad.into_iter().for_each(|grad| grad.copy_from_slice(&slope));
        log_p
    });
    let summit = Summit {
        z: vec![0.0; d],
        log_p: 0.0,
        grad: vec![0.0; d],
        joins: None,
        finished: true,
        variance: vec![0.01; d],
        path: Vec::new(),
    };
    with_evaluator(&target.unwrap(), most_evals, |evaluator| {
        let gaussian = laplace(evaluator, &summit, sd, kind, &Tuning::default()).unwrap();
        (gaussian, evaluator.evals())
    })
}

/// Rows of the precision matrix.
fn precision_of(gaussian: &Gaussian) -> Vec<f64> {
    let d = gaussian.dim();
    let mut rows = Vec::new();
    for i in 0..d {
        let (mut unit, mut row) = (vec![0.0; d], vec![0.0; d]);
        unit[i] = 1.0;
        gaussian.precision().times(&unit, &mut row);
        rows.extend(row);
    }
    rows
}

#[test]
fn the_curvature_of_a_quadratic_is_exact() {
    let precision = [4.0, -1.0, 0.5, -1.0, 90.0, 3.0, 0.5, 3.0, 0.7];
    let (gaussian, evals) = at_zero(&precision, &[1.0, 0.3, 2.0], CovarianceKind::Full, 100);
    assert_eq!(evals, 3);
    for (found, wanted) in precision_of(&gaussian.unwrap()).iter().zip(&precision) {
        assert!((found - wanted).abs() < 1e-6 * wanted.abs(), "{found} {wanted}");
    }
    let (gaussian, _) = at_zero(&precision, &[1.0, 0.3, 2.0], CovarianceKind::Diag, 100);
    for (sd, wanted) in gaussian.unwrap().sd().iter().zip([4.0_f64, 90.0, 0.7]) {
        assert!((sd * wanted.sqrt() - 1.0).abs() < 1e-6, "{sd} {wanted}");
    }
}

#[test]
fn precisions_are_bounded_in_units_of_the_start() {
    for (precision, bound) in [(1e-9, MIN_PRECISION), (1e20, MAX_PRECISION)] {
        for kind in [CovarianceKind::Full, CovarianceKind::Diag] {
            for start in [0.1_f64, 10.0] {
                let gaussian = at_zero(&[precision], &[start], kind, 100).0.unwrap();
                let wanted = bound / (start * start);
                let found = precision_of(&gaussian)[0];
                assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
            }
        }
    }
}

#[test]
fn a_direction_of_convexity_gets_the_absolute_value_of_its_curvature() {
    // A saddle: precisions 4 and -9 along axes that are turned by 45 degrees.
    let saddle = [-2.5, 6.5, 6.5, -2.5];
    let gaussian = at_zero(&saddle, &[1.0, 1.0], CovarianceKind::Full, 100).0.unwrap();
    for (found, wanted) in precision_of(&gaussian).iter().zip([6.5, -2.5, -2.5, 6.5]) {
        assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    }
}

#[test]
fn at_the_end_of_a_budget_the_climbs_own_estimate_is_used() {
    let (gaussian, evals) = at_zero(&[4.0, 0.0, 0.0, 4.0], &[1.0, 1.0], CovarianceKind::Full, 1);
    assert_eq!(evals, 0);
    assert!(gaussian.unwrap().sd().iter().all(|sd| (sd - 0.1).abs() < 1e-12));
}

#[test]
fn a_summit_among_points_that_cannot_be_evaluated_has_no_curvature() {
    assert!(at_zero(&[f64::NAN], &[1.0], CovarianceKind::Full, 100).0.is_none());
}
