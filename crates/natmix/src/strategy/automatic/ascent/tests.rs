use super::super::evaluate::with_evaluator;
use super::*;
use crate::target::ClosureTarget;

/// Climbs from `start` with a start distribution of standard deviation 1; also the evaluations spent.
fn climb_from(
    log_p: impl Fn(&[f64], &mut [f64]) -> f64 + Send + Sync,
    start: &[f64],
    known: &[Gaussian],
    most_evals: u64,
    tuning: &Tuning,
) -> (Option<Summit>, u64) {
    let d = start.len();
    let target = ClosureTarget::new(d, |z: &[f64], grad: Option<&mut [f64]>| {
        let mut unused = vec![0.0; d];
        log_p(z, grad.unwrap_or(&mut unused))
    });
    with_evaluator(&target.unwrap(), most_evals, |evaluator| {
        let summits = climb(evaluator, start, &vec![1.0; d], known, false, tuning).unwrap();
        (summits.into_iter().next(), evaluator.evals())
    })
}

/// A quadratic with its maximum at one, and precisions from 0.01 to 10 000.
fn badly_scaled(z: &[f64], grad: &mut [f64]) -> f64 {
    let mut log_p = 0.0;
    for (i, (z, grad)) in z.iter().zip(grad).enumerate() {
        let precision = 10_f64.powi(i as i32 - 2);
        *grad = -precision * (z - 1.0);
        log_p -= 0.5 * precision * (z - 1.0).powi(2);
    }
    log_p
}

#[test]
fn a_badly_scaled_quadratic_takes_few_evaluations() {
    let tuning = Tuning { climb_tolerance: 1e-7, ..Tuning::default() };
    let (summit, evals) = climb_from(badly_scaled, &[0.0; 7], &[], 10_000, &tuning);
    let summit = summit.unwrap();
    assert!(evals < 120 && summit.log_p > -1e-5, "{evals} {}", summit.log_p);
    assert!(summit.z.iter().all(|z| (z - 1.0).abs() < 0.05), "{:?}", summit.z);
    assert!((0.5e-4..2e-4).contains(&summit.variance[6]), "{:?}", summit.variance);
}

#[test]
fn a_climb_ends_where_its_own_curvature_promises_little() {
    // From -5 555 nats to less than one from the top: the mixture takes over from there.
    let (summit, evals) = climb_from(badly_scaled, &[0.0; 7], &[], 10_000, &Tuning::default());
    let summit = summit.unwrap();
    assert!(evals < 40 && summit.log_p > -1.0 && summit.joins.is_none(), "{evals} {}", summit.log_p);
}

#[test]
fn a_climb_joins_a_mode_whose_parabola_it_is_on() {
    let quadratic = |z: &[f64], grad: &mut [f64]| {
        grad.iter_mut().zip(z).for_each(|(g, z)| *g = -4.0 * z);
        -2.0 * z.iter().map(|z| z * z).sum::<f64>()
    };
    let mode = |x: f64, sd: f64| Gaussian::isotropic(vec![x, 0.0], sd);
    let known = [mode(30.0, 0.5), mode(0.0, 0.5)];
    let (summit, evals) = climb_from(quadratic, &[6.0, 4.0], &known, 10_000, &Tuning::default());
    assert_eq!((summit.unwrap().joins, evals), (Some(1), 2));
    // A wrong curvature does not predict the gradient, so the climb goes on to the top.
    let (summit, evals) = climb_from(quadratic, &[6.0, 4.0], &[mode(-9.0, 0.5)], 10_000, &Tuning::default());
    let summit = summit.unwrap();
    assert!(summit.joins.is_none() && evals > 2 && summit.log_p > -1e-3);
}

#[test]
fn a_climb_of_an_unbounded_density_is_given_up() {
    for power in [1, 2, 4] {
        let rising = |z: &[f64], grad: &mut [f64]| {
            grad[0] = f64::from(power) * z[0].powi(power - 1);
            z[0].powi(power)
        };
        let (summit, evals) = climb_from(rising, &[1.0], &[], 10_000, &Tuning::default());
        let summit = summit.unwrap();
        assert!(evals <= MAX_ROUNDS as u64 + 1, "{evals}");
        assert!(summit.log_p > 1e6 && summit.joins.is_none());
    }
}

#[test]
fn a_climb_stops_where_its_evaluations_end() {
    let (summit, evals) = climb_from(badly_scaled, &[0.0; 7], &[], 9, &Tuning::default());
    assert!(evals == 9 && summit.unwrap().log_p > -0.5e4);
}

#[test]
fn a_step_off_the_support_is_shortened_and_a_start_off_it_is_dropped() {
    // An exponential distribution, with its maximum at the edge of its support.
    let edge = |z: &[f64], grad: &mut [f64]| {
        grad[0] = -50.0;
        if z[0] >= 0.0 { -50.0 * z[0] } else { f64::NEG_INFINITY }
    };
    let (summit, _) = climb_from(edge, &[1.0], &[], 10_000, &Tuning::default());
    assert!((0.0..1e-3).contains(&summit.unwrap().z[0]));
    assert!(climb_from(edge, &[-1.0], &[], 10_000, &Tuning::default()).0.is_none());
}

#[test]
fn the_pairs_of_a_climb_give_the_inverse_curvature() {
    // Along both axes of a quadratic with precisions 4 and 25.
    let pairs = [(vec![0.5, 0.0], vec![2.0, 0.0], 1.0), (vec![0.0, 0.2], vec![0.0, 5.0], 1.0)].map(Arc::new).to_vec();
    let mut x = [1.0, 1.0];
    apply(&pairs, &mut x, &[3.0, 0.1]);
    assert!((x[0] - 0.25).abs() < 1e-12 && (x[1] - 0.04).abs() < 1e-12, "{x:?}");
}

#[test]
fn the_inverse_diagonal_is_that_of_the_two_loop_recursion() {
    let d = 7;
    let scale: Vec<f64> = (0..d).map(|i| 0.5 + 0.3 * i as f64).collect();
    let pairs: Vec<CurvaturePair> = (0..4)
        .map(|k| {
            let moved: Vec<f64> = (0..d).map(|i| ((3 * i + 5 * k + 1) as f64).sin()).collect();
            let fall: Vec<f64> = moved.iter().enumerate().map(|(i, x)| x * (1.0 + i as f64) + 0.1 * x.cos()).collect();
            let inverse = dot(&moved, &fall).recip();
            Arc::new((moved, fall, inverse))
        })
        .collect();
    for pairs in [&pairs[..], &pairs[..1], &[]] {
        for (i, entry) in inverse_diagonal(pairs, &scale).into_iter().enumerate() {
            let mut unit = vec![0.0; d];
            unit[i] = 1.0;
            apply(pairs, &mut unit, &scale);
            assert!((entry - unit[i]).abs() < 1e-12 * (1.0 + unit[i].abs()), "{i}: {entry} {}", unit[i]);
        }
    }
}
