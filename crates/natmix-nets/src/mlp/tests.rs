//! Derivatives of every likelihood and activation, against differences and against plain loops over examples.

use super::*;
use crate::{Activation, NetworkLikelihood};
use natmix::target::CurvatureSums;
use natmix::target::log_p_at;
use natmix::testing::{CheckOptions, check_target};

const LIKELIHOODS: [NetworkLikelihood; 3] =
    [NetworkLikelihood::Bernoulli, NetworkLikelihood::Categorical { classes: 3 }, NetworkLikelihood::Gaussian];

fn outcome(likelihood: NetworkLikelihood, row: usize) -> f64 {
    match likelihood {
        NetworkLikelihood::Bernoulli => f64::from(u8::from(row % 3 == 1)),
        NetworkLikelihood::Categorical { classes } => (row * row % classes) as f64,
        NetworkLikelihood::Gaussian => (1.3 * row as f64).cos(),
    }
}

fn table(likelihood: NetworkLikelihood, rows: usize) -> Observations {
    let x = (0..2 * rows).map(|i| (1.7 * i as f64).sin()).collect();
    Observations::new(x, 2, (0..rows).map(|r| outcome(likelihood, r)).collect()).unwrap()
}

fn model(likelihood: NetworkLikelihood, activation: Activation, hidden: &[usize], weighted: bool) -> Mlp {
    let rows = 17;
    let mut table = table(likelihood, rows);
    if weighted {
        table = table.with_weights((0..rows).map(|r| f64::from(r as u32 % 3)).collect()).unwrap();
    }
    Mlp::new(Network::new(2, hidden, activation, likelihood).unwrap(), table, &[1.5]).unwrap()
}

fn point(dim: usize) -> Vec<f64> {
    (0..dim).map(|i| 0.6 * (2.3 * i as f64 + 0.4).sin()).collect()
}

#[test]
fn derivatives_agree_with_differences() {
    for likelihood in LIKELIHOODS {
        for activation in [Activation::Relu, Activation::Tanh] {
            for hidden in [&[][..], &[4], &[4, 3]] {
                let model = model(likelihood, activation, hidden, hidden.len() == 1);
                // Small steps, because kinks of relu would count as errors.
                let options = CheckOptions { spread: 0.5, points: 3, ..CheckOptions::default() };
                let report = check_target(&model, &options).unwrap();
                assert!(
                    report.passed() && report.not_finite == 0,
                    "{likelihood:?} {activation:?} {hidden:?}\n{report}"
                );
            }
        }
    }
}

/// Gradient of row `row` alone, without the prior: as a minibatch of one it is scaled to all rows.
fn of_row(model: &Mlp, z: &[f64], row: u32) -> Vec<f64> {
    let (mut log_p, mut grad) = ([0.0], vec![0.0; z.len()]);
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
    model.eval(Rows::Subset(&[row]), Points::new(z, z.len()), out, &mut Scratch::default()).unwrap();
    let n = model.table.rows() as f64;
    grad.iter().zip(prior_gradient(model, z)).map(|(g, prior)| (g - prior) / n).collect()
}

fn prior_gradient(model: &Mlp, z: &[f64]) -> Vec<f64> {
    let mut grad: Vec<f64> = z.iter().map(|z| -z / (1.5 * 1.5)).collect();
    if let Some(s) = z.get(model.network.noise_at()) {
        grad[model.network.noise_at()] = noise_prior(*s).1;
    }
    grad
}

fn curvature(model: &Mlp, z: &[f64], kind: Curvature, shape: CurvatureShape) -> Vec<f64> {
    let mut sums = vec![0.0; shape.len(z.len())];
    let curv = CurvatureSums { kind, shape, weights: &[1.0], sums: &mut sums };
    let (mut log_p, mut grad) = ([0.0], vec![0.0; z.len()]);
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
    model.eval(Rows::All, Points::new(z, z.len()), out, &mut Scratch::default()).unwrap();
    sums
}

#[test]
fn squared_gradients_agree_with_a_loop_over_examples() {
    for likelihood in LIKELIHOODS {
        for activation in [Activation::Relu, Activation::Tanh] {
            let model = model(likelihood, activation, &[4, 3], false);
            let z = point(model.dim());
            let mut squares = vec![0.0; z.len()];
            for row in 0..model.table.rows() as u32 {
                squares.iter_mut().zip(of_row(&model, &z, row)).for_each(|(s, g)| *s += g * g);
            }
            let mut prior: Vec<f64> = vec![1.0 / (1.5 * 1.5); z.len()];
            if let Some(s) = z.get(model.network.noise_at()) {
                prior[model.network.noise_at()] = -noise_prior(*s).2;
            }
            let fisher = curvature(&model, &z, Curvature::EmpiricalFisher, CurvatureShape::Diag);
            for (j, (found, (squares, prior))) in fisher.iter().zip(squares.iter().zip(&prior)).enumerate() {
                let expected = -squares - prior;
                assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{likelihood:?} {activation:?} {j}");
            }
        }
    }
}

/// Averaged over outcomes drawn from the model, the empirical Fisher is the Gauss-Newton matrix.
#[test]
fn gauss_newton_is_the_mean_of_the_empirical_fisher() {
    for likelihood in [NetworkLikelihood::Bernoulli, NetworkLikelihood::Categorical { classes: 3 }] {
        let network = Network::new(2, &[4], Activation::Tanh, likelihood).unwrap();
        let z = point(network.weights());
        let with = |y: f64| {
            let table = Observations::new(vec![0.3, -0.8], 2, vec![y]).unwrap();
            Mlp::new(network.clone(), table, &[1.0]).unwrap()
        };
        let classes = likelihood.outputs().max(2);
        let chances: Vec<f64> = (0..classes)
            .map(|y| {
                let prior: f64 = z.iter().map(|z| -0.5 * z * z - 0.5 * std::f64::consts::TAU.ln()).sum();
                (log_p_at(&with(y as f64), &z).unwrap() - prior).exp()
            })
            .collect();
        assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for shape in [CurvatureShape::Full, CurvatureShape::Diag] {
            let newton = curvature(&with(0.0), &z, Curvature::GaussNewton, shape);
            let fishers: Vec<Vec<f64>> =
                (0..classes).map(|y| curvature(&with(y as f64), &z, Curvature::EmpiricalFisher, shape)).collect();
            for (at, newton) in newton.iter().enumerate() {
                let mean: f64 = chances.iter().zip(&fishers).map(|(p, fisher)| p * fisher[at]).sum();
                assert!((newton - mean).abs() < 1e-12, "{likelihood:?} {shape:?} {at}: {newton} {mean}");
            }
        }
    }
}

#[test]
fn minibatches_are_unbiased_with_a_smaller_last_one() {
    let model = model(NetworkLikelihood::Categorical { classes: 3 }, Activation::Relu, &[4], false);
    let z = point(model.dim());
    let eval = |rows: Rows<'_>| {
        let (mut log_p, mut grad) = ([0.0], vec![0.0; z.len()]);
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
        model.eval(rows, Points::new(&z, z.len()), out, &mut Scratch::default()).unwrap();
        grad
    };
    let whole = eval(Rows::All);
    let rows: Vec<u32> = (0..17).collect();
    // Batches of 5, 5, 5 and 2: each is weighted by its share of the rows.
    for (j, whole) in whole.iter().enumerate() {
        let mean: f64 = rows.chunks(5).map(|batch| batch.len() as f64 / 17.0 * eval(Rows::Subset(batch))[j]).sum();
        assert!((mean - whole).abs() < 1e-9 * (1.0 + whole.abs()));
    }
}

#[test]
fn bad_input_is_named() {
    let network = |likelihood| Network::new(2, &[3], Activation::Relu, likelihood).unwrap();
    let message = |network, table: Observations| Mlp::new(network, table, &[1.0]).unwrap_err().to_string();
    let table = |y: f64| Observations::new(vec![1.0, 2.0], 2, vec![y]).unwrap();
    assert!(message(network(NetworkLikelihood::Bernoulli), table(2.0)).contains("row 0 is 2, not 0 or 1"));
    assert!(
        message(network(NetworkLikelihood::Categorical { classes: 3 }), table(3.0)).contains("a class from 0 to 2")
    );
    assert!(
        message(network(NetworkLikelihood::Gaussian), table(1.0).with_offset(vec![1.0]).unwrap()).contains("offset")
    );
    let narrow = Observations::new(vec![1.0], 1, vec![1.0]).unwrap();
    assert!(message(network(NetworkLikelihood::Gaussian), narrow).contains("1 features for a network of 2"));
    let model = Mlp::new(network(NetworkLikelihood::Bernoulli), table(1.0), &[1.0]).unwrap();
    let mut z = point(model.dim());
    z[0] = f64::NAN;
    assert!(log_p_at(&model, &z).is_ok_and(f64::is_nan));
}
