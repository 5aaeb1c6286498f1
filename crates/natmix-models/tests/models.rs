//! The built-in regressions as targets: derivatives, minibatches, row weights and extreme points.

#[path = "common/regressions.rs"]
mod regressions;

use natmix::Scratch;
use natmix::target::log_p_at;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target};
use natmix::testing::{CheckOptions, check_target};
use natmix_models::{
    CoefficientDraws, Dataset, Linear, Observations, Predictions, Regression, RegressionKind, Softmax, loo, predict,
    score,
};
use regressions::{KINDS, assert_close, outcomes, table, wave, with_offset_and_weights};

#[derive(Debug)]
struct Evaluation {
    log_p: Vec<f64>,
    grad: Vec<f64>,
    sums: Vec<f64>,
}

fn evaluate(
    target: &dyn Target,
    rows: Rows<'_>,
    z: &[f64],
    (kind, shape): (Curvature, CurvatureShape),
    weights: &[f64],
) -> Evaluation {
    let (d, n) = (target.dim(), z.len() / target.dim());
    let (mut log_p, mut grad) = (vec![f64::NAN; n], vec![f64::NAN; n * d]);
    let mut sums = vec![f64::NAN; weights.len() / n * shape.len(d)];
    let curv = CurvatureSums { kind, shape, weights, sums: &mut sums };
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
    target.eval(rows, Points::new(z, d), out, &mut Scratch::default()).unwrap();
    Evaluation { log_p, grad, sums }
}

#[test]
fn derivatives_and_minibatches_of_every_model() {
    for kind in KINDS {
        // More rows than one block holds; and fewer rows than features, where no normal equations are formed.
        for (rows, features) in [(300, 3), (2, 3)] {
            let plain = table(kind, rows, features);
            for table in [plain.clone(), with_offset_and_weights(plain)] {
                let model = Regression::new(kind, table, &[2.0, 1.0, 0.5]).unwrap();
                let report = check_target(model.target(), &CheckOptions::default()).unwrap();
                assert!(report.passed() && report.not_finite == 0, "{kind:?}, {rows} rows: {report}");
            }
        }
    }
}

/// Minibatches do not use the normal equations, so their derivatives are compared with those of all rows.
#[test]
fn gradients_and_curvatures_of_minibatches_average_to_the_whole() {
    for kind in KINDS {
        let model = Regression::new(kind, with_offset_and_weights(table(kind, 300, 3)), &[2.0]).unwrap();
        let d = model.target().dim();
        let z: Vec<f64> = (0..3 * d).map(|i| 0.5 * wave(9000 + i)).collect();
        let weights = [0.3, 0.9, -0.2, 1.0, 0.0, 0.5];
        let (even, odd): (Vec<u32>, Vec<u32>) = (0..300).partition(|row| row % 2 == 0);
        for &request in model.target().curvatures() {
            let at = |rows: Rows<'_>| evaluate(model.target(), rows, &z, request, &weights);
            let (whole, a, b) = (at(Rows::All), at(Rows::Subset(&even)), at(Rows::Subset(&odd)));
            let mean = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| 0.5 * (a + b)).collect() };
            assert_close(&whole.log_p, &mean(&a.log_p, &b.log_p), 1e-11, "values");
            assert_close(&whole.grad, &mean(&a.grad, &b.grad), 1e-10, "gradients");
            assert_close(&whole.sums, &mean(&a.sums, &b.sums), 1e-10, &format!("{kind:?} {request:?}"));
        }
    }
}

/// The gradient of a single row is that of a minibatch of one row minus the prior's, divided by the number of rows.
#[test]
fn the_empirical_fisher_is_the_sum_of_squared_row_gradients() {
    for kind in KINDS {
        let rows = 12;
        let plain = table(kind, rows, 2);
        let model = Regression::new(kind, plain.clone(), &[2.0]).unwrap();
        let prior_only = Regression::new(kind, plain.with_weights(vec![0.0; rows]).unwrap(), &[2.0]).unwrap();
        let d = model.target().dim();
        let z: Vec<f64> = (0..d).map(|i| 0.7 * wave(500 + i)).collect();
        let exact = (Curvature::Exact, CurvatureShape::Full);
        let prior = evaluate(prior_only.target(), Rows::All, &z, exact, &[1.0]);
        let mut expected = prior.sums.clone();
        for row in 0..rows as u32 {
            let of_row = evaluate(model.target(), Rows::Subset(&[row]), &z, exact, &[1.0]).grad;
            let of_row: Vec<f64> = of_row.iter().zip(&prior.grad).map(|(g, p)| (g - p) / rows as f64).collect();
            expected.iter_mut().enumerate().for_each(|(at, x)| *x -= of_row[at % d] * of_row[at / d]);
        }
        let fisher =
            evaluate(model.target(), Rows::All, &z, (Curvature::EmpiricalFisher, CurvatureShape::Full), &[1.0]);
        assert_close(&fisher.sums, &expected, 1e-10, &format!("{kind:?}"));
        let diagonal =
            evaluate(model.target(), Rows::All, &z, (Curvature::EmpiricalFisher, CurvatureShape::Diag), &[1.0]);
        let expected: Vec<f64> = expected.iter().step_by(d + 1).copied().collect();
        assert_close(&diagonal.sums, &expected, 1e-10, &format!("{kind:?}"));
    }
}

#[test]
fn a_weight_counts_as_repeated_rows() {
    for kind in KINDS {
        let (x, y) = ((0..10).map(wave).collect::<Vec<_>>(), outcomes(kind, 5));
        let weighted = Observations::new(x.clone(), 2, y.clone()).unwrap();
        let weighted = weighted.with_weights(vec![1.0, 2.0, 1.0, 1.0, 0.0]).unwrap();
        let repeated = |list: &[f64], width: usize| -> Vec<f64> {
            [0, 1, 1, 2, 3].iter().flat_map(|&r| list[r * width..(r + 1) * width].to_vec()).collect()
        };
        let plain = Observations::new(repeated(&x, 2), 2, repeated(&y, 1)).unwrap();
        let (weighted, plain) =
            (Regression::new(kind, weighted, &[1.0]).unwrap(), Regression::new(kind, plain, &[1.0]).unwrap());
        let z: Vec<f64> = (0..plain.target().dim()).map(|i| wave(40 + i)).collect();
        let (a, b) = (log_p_at(weighted.target(), &z).unwrap(), log_p_at(plain.target(), &z).unwrap());
        assert!((a - b).abs() < 1e-12, "{kind:?}: {a} {b}");
    }
}

#[test]
fn softmax_with_two_classes_is_logistic() {
    let data = with_offset_and_weights(table(RegressionKind::Logistic, 300, 3));
    let logistic = Regression::new(RegressionKind::Logistic, data.clone(), &[2.0, 1.0, 0.5]).unwrap();
    let softmax = Regression::new(RegressionKind::Softmax { classes: 2 }, data, &[2.0, 1.0, 0.5]).unwrap();
    let z: Vec<f64> = (0..12).map(|i| 3.0 * wave(300 + i)).collect();
    let weights = [0.5, 1.0, -0.3, 2.0];
    for &request in logistic.target().curvatures() {
        let [a, b] = [&logistic, &softmax].map(|m| evaluate(m.target(), Rows::All, &z, request, &weights));
        assert_close(&a.log_p, &b.log_p, 1e-12, "values");
        assert_close(&a.grad, &b.grad, 1e-12, "gradients");
        assert_close(&a.sums, &b.sums, 1e-12, "curvatures");
    }
    let Dataset::Memory(table) = logistic.data() else { panic!("the table is in memory") };
    let [(one, binary), (two, classes)] = [&logistic, &softmax].map(|model| {
        let draws = CoefficientDraws::new(model.kind(), 3, &z).unwrap();
        (score(&draws, model.data()).unwrap().scores, predict(&draws, table.into()).unwrap())
    });
    let (Predictions::Binary { probability, .. }, Predictions::Classes { probability: of_classes, .. }) =
        (binary, classes)
    else {
        panic!()
    };
    let ones: Vec<f64> = of_classes.iter().skip(1).step_by(2).copied().collect();
    assert_close(&probability, &ones, 1e-12, "probabilities");
    let listed = |s: &natmix_models::RowScores| [s.nll, s.accuracy.unwrap(), s.ece.unwrap()];
    assert_close(&listed(&one), &listed(&two), 1e-12, "scores");
    assert!((2.0 * one.brier.unwrap() - two.brier.unwrap()).abs() < 1e-12);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for kind in KINDS {
        let model = Regression::new(kind, with_offset_and_weights(table(kind, 700, 3)), &[2.0]).unwrap();
        let d = model.target().dim();
        let z: Vec<f64> = (0..200 * d).map(|i| wave(9000 + i)).collect();
        let base: Vec<f64> = (0..200).map(wave).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let draws = CoefficientDraws::new(kind, 3, &z).unwrap();
                let scores = score(&draws, model.data()).unwrap();
                (scores, loo::loo(&model, &z, &base, loo::MOST_TERMS).unwrap())
            })
        };
        assert_eq!(format!("{:?}", run(1)), format!("{:?}", run(3)));
    }
}

#[test]
fn extreme_points_give_nan_or_low_density_without_panic() {
    let model = Linear::new(table(RegressionKind::Linear { noise_sd: None }, 20, 2), &[1.0], None).unwrap();
    for z in [[0.0, 0.0, -1e3], [0.0, 0.0, 1e3], [1e200, 0.0, 0.0], [f64::NAN, 0.0, 0.0], [0.0, 0.0, f64::NAN]] {
        let found = log_p_at(&model, &z).unwrap();
        assert!(found.is_nan() || found <= 0.0, "{z:?}: {found}");
    }
    // The density falls like a power of sigma, so it is still finite here.
    assert!(log_p_at(&model, &[0.0, 0.0, 300.0]).unwrap().is_finite());
    let softmax = Softmax::new(table(RegressionKind::Softmax { classes: 3 }, 20, 1), 3, &[1e3]).unwrap();
    assert!(log_p_at(&softmax, &[1e4, -1e4]).unwrap().is_finite());
    assert!(log_p_at(&softmax, &[f64::NAN, 0.0]).unwrap().is_nan());
    let message = Linear::new(table(RegressionKind::Poisson, 5, 1), &[1.0], Some(0.0)).unwrap_err().to_string();
    assert!(message.contains("noise sd 0"), "{message}");
}
