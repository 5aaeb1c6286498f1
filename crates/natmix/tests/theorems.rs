//! The theorems behind the steps, each checked against integrals and derivatives taken numerically.
//!
//! Integrals converge to rounding here (quadrature of entire functions), and derivatives are extrapolated differences
//! with errors of about 1e-10; what is compared through them agrees to 1e-6.

mod common;

use common::{diag_gaussian, distance, gaussian, slopes, solve_linear, tensor_quadrature};
use natmix::Scratch;
use natmix::estimate::{Estimator, moments_from};
use natmix::family::{CovarianceKind, Gaussian, Mixture};
use natmix::rule::plain;
use natmix::target::ClosureTarget;
use natmix::target::{EvalOut, Points, Rows, Target};

const NUMERICAL: f64 = 1e-6;
/// Length of a difference, to be extrapolated.
const H: f64 = 2e-3;
const NODES: usize = 40;

/// A smooth density far from Gaussian: `-1/2 sum a_i z_i^2 + 0.7 sin(c'z + 0.3) - 0.05 (e'z)^4`.
fn target(d: usize) -> ClosureTarget<'static> {
    const A: [f64; 2] = [0.8, 1.3];
    const C: [f64; 2] = [0.9, -0.6];
    const E: [f64; 2] = [0.5, 0.8];
    let dot = |a: &[f64], z: &[f64]| a.iter().zip(z).map(|(a, z)| a * z).sum::<f64>();
    ClosureTarget::new(d, move |z: &[f64], grad: Option<&mut [f64]>| {
        let (phase, u) = (dot(&C, z) + 0.3, dot(&E, z));
        if let Some(grad) = grad {
            for (i, g) in grad.iter_mut().enumerate() {
                *g = -A[i] * z[i] + 0.7 * phase.cos() * C[i] - 0.2 * u.powi(3) * E[i];
            }
        }
        -0.5 * z.iter().zip(A).map(|(z, a)| a * z * z).sum::<f64>() + 0.7 * phase.sin() - 0.05 * u.powi(4)
    })
    .unwrap()
    .with_hessian(move |z: &[f64], hess: &mut [f64]| {
        let (phase, u) = (dot(&C, z) + 0.3, dot(&E, z));
        for (at, h) in hess.iter_mut().enumerate() {
            let (i, j) = (at % d, at / d);
            *h = -0.7 * phase.sin() * C[i] * C[j] - 0.6 * u * u * E[i] * E[j] - if i == j { A[i] } else { 0.0 };
        }
    })
}

fn values(target: &dyn Target, points: &[f64]) -> Vec<f64> {
    let mut log_p = vec![0.0; points.len() / target.dim()];
    let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
    target.eval(Rows::All, Points::new(points, target.dim()), out, &mut Scratch::default()).unwrap();
    log_p
}

fn log_density(q: &Gaussian, points: &[f64]) -> Vec<f64> {
    Mixture::single(q.clone()).log_density(points)
}

/// `E_q[log p - log q]` by quadrature.
fn elbo(target: &dyn Target, q: &Gaussian) -> f64 {
    let (points, weights) = tensor_quadrature(q, NODES);
    let (log_p, log_q) = (values(target, &points), log_density(q, &points));
    weights.iter().zip(log_p.iter().zip(&log_q)).map(|(w, (p, q))| w * (p - q)).sum()
}

/// Minimal coordinates of a family of Gaussians: one for each sufficient statistic `z_i` and `z_i z_j`, `i <= j` (`i = j`
/// only, if diagonal).
#[derive(Clone, Copy, Debug)]
struct Family {
    d: usize,
    shape: CovarianceKind,
}

impl Family {
    const ALL: [Family; 3] = [
        Family { d: 1, shape: CovarianceKind::Diag },
        Family { d: 2, shape: CovarianceKind::Diag },
        Family { d: 2, shape: CovarianceKind::Full },
    ];

    fn member(self) -> Gaussian {
        match self.shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Diag => diag_gaussian(self.d, 1.5, 4),
            CovarianceKind::Full => gaussian(self.d, 1.5, 4),
        }
    }

    fn pairs(self) -> Vec<(usize, usize)> {
        let full = self.shape == CovarianceKind::Full;
        (0..self.d).flat_map(|j| (0..=j).map(move |i| (i, j))).filter(|(i, j)| full || i == j).collect()
    }

    /// Vector and symmetric matrix as coordinates; `twice` is the weight of an entry off the diagonal.
    fn flatten(self, vector: &[f64], matrix: &[f64], twice: f64) -> Vec<f64> {
        let entry = |(i, j): (usize, usize)| match self.shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Diag => matrix[i],
            CovarianceKind::Full => matrix[i + j * self.d] * if i == j { 1.0 } else { twice },
        };
        vector.iter().copied().chain(self.pairs().into_iter().map(entry)).collect()
    }

    fn unflatten(self, flat: &[f64], twice: f64) -> (Vec<f64>, Vec<f64>) {
        let mut matrix = vec![0.0; self.shape.curvature_shape().len(self.d)];
        for ((i, j), x) in self.pairs().into_iter().zip(&flat[self.d..]) {
            match self.shape {
                CovarianceKind::LowRank => unreachable!("has tests of its own"),
                CovarianceKind::Diag => matrix[i] = *x,
                CovarianceKind::Full => {
                    let x = if i == j { *x } else { x / twice };
                    (matrix[i + j * self.d], matrix[j + i * self.d]) = (x, x);
                }
            }
        }
        (flat[..self.d].to_vec(), matrix)
    }

    fn natural(self, q: &Gaussian) -> Vec<f64> {
        let (eta1, eta2) = q.natural();
        self.flatten(&eta1, &eta2, 2.0)
    }

    fn at_natural(self, flat: &[f64]) -> Gaussian {
        let (eta1, eta2) = self.unflatten(flat, 2.0);
        Gaussian::from_natural(&eta1, &eta2).unwrap()
    }

    fn expectation(self, q: &Gaussian) -> Vec<f64> {
        let (mean, second) = q.expectation();
        self.flatten(&mean, &second, 1.0)
    }

    fn at_expectation(self, flat: &[f64]) -> Option<Gaussian> {
        let (mean, second) = self.unflatten(flat, 1.0);
        Gaussian::from_expectation(&mean, &second).ok()
    }

    /// Gradient of the ELBO in the expectation parameters, by differences.
    fn expectation_gradient(self, target: &dyn Target, q: &Gaussian) -> Vec<f64> {
        let elbo_at = |m: &[f64]| vec![elbo(target, &self.at_expectation(m).unwrap())];
        slopes(elbo_at, &self.expectation(q), H).concat()
    }
}

/// Theorem 1: the natural gradient in the natural parameters is the plain gradient in the expectation parameters.
#[test]
fn natural_gradient_is_the_gradient_in_expectation_parameters() {
    for family in Family::ALL {
        let (p, q) = (target(family.d), family.member());
        let eta = family.natural(&q);
        let (points, weights) = tensor_quadrature(&q, NODES);
        let scores = slopes(|eta| log_density(&family.at_natural(eta), &points), &eta, H);
        let inner =
            |a: &[f64], b: &[f64]| weights.iter().zip(a.iter().zip(b)).map(|(w, (a, b))| w * a * b).sum::<f64>();
        let fisher: Vec<Vec<f64>> = scores.iter().map(|a| scores.iter().map(|b| inner(a, b)).collect()).collect();
        let gradient = slopes(|eta| vec![elbo(&p, &family.at_natural(eta))], &eta, H).concat();
        let natural = solve_linear(fisher, gradient);
        let plain = family.expectation_gradient(&p, &q);
        assert!(plain.iter().any(|g| g.abs() > 0.1), "nothing to compare");
        assert!(distance(&natural, &plain) < NUMERICAL, "{family:?}: {natural:?} against {plain:?}");

        // And it is what the estimators give: (E[grad b] - E[hess b] m, E[hess b] / 2).
        let moments =
            moments_from(&p, &Mixture::single(q.clone()), 0, &points, &weights, Estimator::Stein, 0.0).unwrap();
        let curvature = |i: usize, j: usize| match family.shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Diag if i == j => moments.hess[i],
            CovarianceKind::Diag => 0.0,
            CovarianceKind::Full => moments.hess[i + j * family.d],
        };
        let first: Vec<f64> = (0..family.d)
            .map(|i| moments.grad[i] - (0..family.d).map(|j| curvature(i, j) * q.mean()[j]).sum::<f64>())
            .collect();
        let half: Vec<f64> = moments.hess.iter().map(|h| 0.5 * h).collect();
        let estimated = family.flatten(&first, &half, 2.0);
        assert!(distance(&estimated, &plain) < NUMERICAL, "{family:?}: {estimated:?} against {plain:?}");
    }
}

/// Maximises a smooth concave function by Newton's method with differences, from a point where it is finite.
fn maximise(f: impl Fn(&[f64]) -> f64, start: &[f64]) -> Vec<f64> {
    let gradient = |x: &[f64]| slopes(|x| vec![f(x)], x, H).concat();
    let mut x = start.to_vec();
    for _ in 0..50 {
        let g = gradient(&x);
        if g.iter().all(|g| g.abs() < 1e-9) {
            return x;
        }
        let direction = solve_linear(slopes(gradient, &x, H), g);
        let moved = |t: f64| -> Vec<f64> { x.iter().zip(&direction).map(|(x, d)| x - t * d).collect() };
        // Close to the top a step gains less than rounding: then it is taken whole.
        let floor = f(&x) - 1e-12;
        let size = (0..40).map(|i| 0.5f64.powi(i)).find(|t| f(&moved(*t)) >= floor);
        x = moved(size.expect("Newton's direction rises"));
    }
    panic!("no maximum after 50 steps: {x:?}");
}

/// Theorem 2: the plain step maximises `<m, grad_m L> - KL(q_m || q_old) / t` over the expectation parameters m.
#[test]
fn plain_step_is_the_mirror_step() {
    for family in Family::ALL {
        let (p, old) = (target(family.d), family.member());
        let (points, weights) = tensor_quadrature(&old, NODES);
        let slope = family.expectation_gradient(&p, &old);
        for t in [0.1, 0.4] {
            let objective = |m: &[f64]| match family.at_expectation(m) {
                Some(q) => m.iter().zip(&slope).map(|(m, g)| m * g).sum::<f64>() - q.kl(&old) / t,
                None => f64::NEG_INFINITY,
            };
            let mirror = family.at_expectation(&maximise(objective, &family.expectation(&old))).unwrap();
            for estimator in [Estimator::Exact, Estimator::Stein] {
                let q = Mixture::single(old.clone());
                let moments = moments_from(&p, &q, 0, &points, &weights, estimator, 0.0).unwrap();
                let mut moved = old.clone();
                let info = plain::step(&mut moved, &moments.grad, &moments.hess, t, &mut Scratch::default());
                assert_eq!(info.rate, t);
                assert!(moved.kl(&old) > 1e-3, "{family:?}: nothing moved");
                assert!(distance(moved.mean(), mirror.mean()) < NUMERICAL, "{family:?}: {moved:?} against {mirror:?}");
                let (ours, theirs) = (moved.precision().matrix(), mirror.precision().matrix());
                assert!(distance(&ours, &theirs) < NUMERICAL, "{family:?}: {ours:?} against {theirs:?}");
            }
        }
    }
}

/// Closed formulas on well-conditioned matrices: 1e-12.
#[test]
fn natural_and_expectation_parameters_round_trip() {
    for d in [1, 2, 5, 40] {
        for q in [diag_gaussian(d, 1.5, d), gaussian(d, 1.5, d)] {
            let (eta1, eta2) = q.natural();
            let (mean, second) = q.expectation();
            let natural = Gaussian::from_natural(&eta1, &eta2).unwrap();
            let expectation = Gaussian::from_expectation(&mean, &second).unwrap();
            for back in [&natural, &expectation] {
                assert!(distance(back.mean(), q.mean()) < 1e-12, "{:?} d = {d}", q.covariance_kind());
                assert!(
                    distance(&back.precision().matrix(), &q.precision().matrix()) < 1e-12,
                    "{:?} d = {d}",
                    q.covariance_kind()
                );
                assert!((back.entropy() - q.entropy()).abs() < 1e-12 * d as f64);
            }
            let (again1, again2) = expectation.natural();
            assert!(distance(&again1, &eta1) < 1e-12 && distance(&again2, &eta2) < 1e-12);
            let (again1, again2) = natural.expectation();
            assert!(distance(&again1, &mean) < 1e-12 && distance(&again2, &second) < 1e-12);
        }
    }
}

/// Quadratics are exact with few nodes: 1e-12.
#[test]
fn divergence_and_entropy_are_the_integrals() {
    for d in 1..=4 {
        let family = [diag_gaussian(d, 1.0, 1), gaussian(d, 1.0, 2), diag_gaussian(d, 1.0, 5), gaussian(d, 1.0, 8)];
        for q in &family {
            let (points, weights) = tensor_quadrature(q, 5);
            let mean = |f: &[f64]| weights.iter().zip(f).map(|(w, f)| w * f).sum::<f64>();
            let own = mean(&log_density(q, &points));
            assert!((q.entropy() + own).abs() < 1e-12);
            assert_eq!(q.entropy(), 0.5 * d as f64 - q.log_norm());
            for p in &family {
                let integral = own - mean(&log_density(p, &points));
                assert!((q.kl(p) - integral).abs() < 1e-12 * integral.max(1.0), "d = {d}: {} {integral}", q.kl(p));
            }
            assert!(q.kl(q).abs() < 1e-13);
        }
    }
}

/// The trapezoid rule on a wide grid, which converges geometrically for analytic functions that vanish at both ends;
/// unlike Gauss-Hermite quadrature it knows nothing of the Gaussians.
fn grid() -> (Vec<f64>, f64) {
    let step = 0.02;
    ((-1000..=1000).map(|i| step * f64::from(i)).collect(), step)
}

/// Bonnet's and Price's theorems for a whole mixture.
#[test]
fn elbo_gradients_are_expectations_under_the_components() {
    let p = target(1);
    let (points, step) = grid();
    let log_p = values(&p, &points);
    let mixture = |x: &[f64]| {
        let component = |m: f64, variance: f64| Gaussian::isotropic(vec![m], variance.sqrt());
        Mixture::new(&[x[4], 1.0 - x[4]], vec![component(x[0], x[2]), component(x[1], x[3])]).unwrap()
    };
    let elbo = |x: &[f64]| {
        let log_q = mixture(x).log_density(&points);
        vec![log_p.iter().zip(&log_q).map(|(p, q)| step * q.exp() * (p - q)).sum::<f64>()]
    };
    for at in [[-0.8, 0.9, 0.5, 0.3, 0.35], [-2.0, 1.5, 0.4, 0.7, 0.9], [0.2, 0.1, 1.5, 0.2, 0.5]] {
        let q = mixture(&at);
        let w = q.weights();
        let slopes = slopes(elbo, &at, H).concat();
        for estimator in [Estimator::Exact, Estimator::Stein] {
            for trick in [0.0, 1.0] {
                let moments = [0, 1].map(|k| {
                    let density = log_density(&q.components()[k], &points);
                    let weights: Vec<f64> = density.iter().map(|x| step * x.exp()).collect();
                    moments_from(&p, &q, k, &points, &weights, estimator, trick).unwrap()
                });
                let expected = [
                    w[0] * moments[0].grad[0],
                    w[1] * moments[1].grad[0],
                    0.5 * w[0] * moments[0].hess[0],
                    0.5 * w[1] * moments[1].hess[0],
                    moments[0].value - moments[1].value,
                ];
                assert!(distance(&slopes, &expected) < NUMERICAL, "{estimator:?}: {slopes:?} against {expected:?}");
            }
        }
    }
}
