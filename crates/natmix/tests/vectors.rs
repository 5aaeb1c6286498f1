//! Reference values that another program computed: derivatives of a mixture, and one exact step of every rule.
//!
//! The file speaks of `h = log q - log p`; here everything is of `b = -h`.

mod common;

use common::tensor_quadrature;
use natmix::Scratch;
use natmix::estimate::{Estimator, Moments, moments_from};
use natmix::family::{Covariances, Gaussian, Mixture};
use natmix::rule::{improved, plain, weights};
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target};
use serde::Deserialize;

/// Of closed formulas: what rounding leaves.
const POINTWISE: f64 = 1e-10;
/// Of quadrature with 120 nodes per axis, here on other axes than in the reference.
const QUADRATURE: f64 = 1e-7;
const NODES: usize = 120;

type Matrix = Vec<Vec<f64>>;

#[derive(Deserialize)]
struct Vectors {
    pointwise: Pointwise,
    exact_step: ExactStep,
}

#[derive(Deserialize)]
struct MixtureMoments {
    weights: Vec<f64>,
    means: Vec<Vec<f64>>,
    covariances: Vec<Matrix>,
}

#[derive(Deserialize)]
struct Pointwise {
    #[serde(flatten)]
    q: MixtureMoments,
    points: Vec<Vec<f64>>,
    at: Vec<At>,
}

#[derive(Deserialize)]
struct At {
    log_q: f64,
    grad: Vec<f64>,
    hessian: Matrix,
    responsibilities: Vec<f64>,
}

#[derive(Deserialize)]
struct ExactStep {
    #[serde(flatten)]
    q: MixtureMoments,
    target: MixtureMoments,
    elbo: f64,
    #[serde(rename = "E_h")]
    h: Vec<f64>,
    #[serde(rename = "E_grad_h")]
    grad_h: Vec<Vec<f64>>,
    #[serde(rename = "E_hess_h")]
    hess_h: Vec<Matrix>,
    grad_elbo: GradElbo,
    beta: f64,
    beta_weights: f64,
    step_plain: Vec<Moved>,
    step_improved: Vec<Moved>,
    new_weights: Vec<f64>,
}

#[derive(Deserialize)]
struct GradElbo {
    mean: Vec<Vec<f64>>,
    covariance: Vec<Matrix>,
    weight_vs_last: Vec<f64>,
}

#[derive(Deserialize)]
struct Moved {
    mean: Vec<f64>,
    precision: Matrix,
}

impl MixtureMoments {
    fn mixture(&self) -> Mixture {
        Mixture::from_moments(&self.weights, &self.means, Covariances::Full(&self.covariances)).unwrap()
    }
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../testdata/vectors.json")).expect("vectors.json is valid")
}

/// Largest difference relative to the largest reference value.
fn assert_near(ours: &[f64], reference: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), reference.len(), "{what}");
    let size = reference.iter().fold(0.0_f64, |size, x| size.max(x.abs()));
    for (a, b) in ours.iter().zip(reference) {
        assert!((a - b).abs() <= tolerance * size, "{what}: {ours:?} against {reference:?}");
    }
}

fn scaled(x: &[f64], factor: f64) -> Vec<f64> {
    x.iter().map(|x| factor * x).collect()
}

#[test]
fn family_agrees_at_every_point() {
    let Pointwise { q, points, at } = vectors().pointwise;
    let q = q.mixture();
    let log_q: Vec<f64> = at.iter().map(|at| at.log_q).collect();
    assert_near(&q.log_density(&points.concat()), &log_q, POINTWISE, "log q");
    for (point, at) in points.iter().zip(&at) {
        let ours = q.log_responsibilities(point);
        // In log space a difference is relative, however small the responsibility.
        for (ours, reference) in ours.iter().zip(&at.responsibilities) {
            assert!((ours - reference.ln()).abs() <= POINTWISE, "responsibility {} against {reference}", ours.exp());
        }
    }
}

#[test]
fn target_agrees_at_every_point() {
    let Pointwise { q, points, at } = vectors().pointwise;
    let q = q.mixture();
    let (d, n) = (q.dim(), points.len());
    let points = points.concat();
    let one_hot: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i % (n + 1) == 0))).collect();
    for shape in [CurvatureShape::Full, CurvatureShape::Diag] {
        let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * d]);
        let mut sums = vec![f64::NAN; n * shape.len(d)];
        let curv = CurvatureSums { kind: Curvature::Exact, shape, weights: &one_hot, sums: &mut sums };
        let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
        q.eval(Rows::All, Points::new(&points, d), out, &mut Scratch::default()).unwrap();
        for (i, at) in at.iter().enumerate() {
            assert_near(&log_p[i..=i], &[at.log_q], POINTWISE, "log q");
            assert_near(&grad[i * d..(i + 1) * d], &at.grad, POINTWISE, "gradient");
            let hessian = match shape {
                CurvatureShape::Full => at.hessian.concat(),
                CurvatureShape::Diag => (0..d).map(|j| at.hessian[j][j]).collect(),
            };
            let ours = &sums[i * shape.len(d)..(i + 1) * shape.len(d)];
            assert_near(ours, &hessian, POINTWISE, "Hessian");
        }
    }
}

/// Every way to the moments: with and without the target's Hessian, with and without the entropy trick.
fn all_moments(reference: &ExactStep) -> Vec<(String, Vec<Moments>)> {
    let (q, target) = (reference.q.mixture(), reference.target.mixture());
    let rules: Vec<_> = q.components().iter().map(|component| tensor_quadrature(component, NODES)).collect();
    let mut all = Vec::new();
    for estimator in [Estimator::Exact, Estimator::Stein] {
        for trick in [0.0, 1.0] {
            let moments = rules
                .iter()
                .enumerate()
                .map(|(k, (points, weights))| moments_from(&target, &q, k, points, weights, estimator, trick).unwrap());
            all.push((format!("{}, trick {trick}", estimator.name()), moments.collect()));
        }
    }
    all
}

#[test]
fn moments_and_gradients_agree() {
    let reference = vectors().exact_step;
    let w = reference.q.mixture().weights();
    for (way, moments) in all_moments(&reference) {
        let near = |ours: &[f64], reference: &[f64], what: &str| {
            assert_near(ours, reference, QUADRATURE, &format!("{way}: {what}"));
        };
        let values: Vec<f64> = moments.iter().map(|m| m.value).collect();
        near(&values, &scaled(&reference.h, -1.0), "E_k[b]");
        let elbo: f64 = w.iter().zip(&values).map(|(w, b)| w * b).sum();
        near(&[elbo], &[reference.elbo], "ELBO");
        let last = values[values.len() - 1];
        let in_weights: Vec<f64> = values[..values.len() - 1].iter().map(|b| b - last).collect();
        near(&in_weights, &reference.grad_elbo.weight_vs_last, "gradient in the weights");
        for (k, moments) in moments.iter().enumerate() {
            assert!(moments.usable);
            near(&moments.grad, &scaled(&reference.grad_h[k], -1.0), "E_k[grad b]");
            near(&moments.hess, &scaled(&reference.hess_h[k].concat(), -1.0), "E_k[hess b]");
            near(&scaled(&moments.grad, w[k]), &reference.grad_elbo.mean[k], "gradient in a mean");
            let in_covariance = scaled(&moments.hess, 0.5 * w[k]);
            near(&in_covariance, &reference.grad_elbo.covariance[k].concat(), "gradient in a covariance");
        }
    }
}

#[test]
fn steps_agree() {
    let reference = vectors().exact_step;
    let (q, t) = (reference.q.mixture(), reference.beta);
    let no_cap = 1e6;
    for (way, moments) in all_moments(&reference) {
        let check = |moved: &Gaussian, to: &Moved, rule: &str| {
            assert_near(moved.mean(), &to.mean, QUADRATURE, &format!("{way}: mean after {rule}"));
            let precision = to.precision.concat();
            assert_near(&moved.precision().matrix(), &precision, QUADRATURE, &format!("{way}: precision after {rule}"));
        };
        for (k, Moments { grad, hess, .. }) in moments.iter().enumerate() {
            let mut moved = q.components()[k].clone();
            assert_eq!(plain::step(&mut moved, grad, hess, t, &mut Scratch::default()).rate, t);
            check(&moved, &reference.step_plain[k], "plain");
            let mut moved = q.components()[k].clone();
            assert_eq!(improved::step(&mut moved, grad, hess, t, no_cap, &mut Scratch::default()).rate, t);
            check(&moved, &reference.step_improved[k], "improved");
        }
        let mut log_w = q.log_weights().to_vec();
        let values: Vec<f64> = moments.iter().map(|m| m.value).collect();
        weights::step(&mut log_w, &values, reference.beta_weights);
        let new_weights: Vec<f64> = log_w.iter().map(|w| w.exp()).collect();
        assert_near(&new_weights, &reference.new_weights, QUADRATURE, &format!("{way}: weights"));
    }
}
