//! Finite-difference checks shared by the tests of all targets.

use natmix::Scratch;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target};

/// A fixed stream of numbers in `(-1, 1)` (splitmix64): tests need variety, not quality.
pub(crate) struct Uniform(pub(crate) u64);

impl Uniform {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        2.0 * ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 1.0
    }

    pub(crate) fn points(&mut self, n: usize, dim: usize, scale: f64) -> Vec<f64> {
        (0..n * dim).map(|_| scale * self.next()).collect()
    }
}

/// Value, gradient and exact Hessian at one point.
pub(crate) fn all_at(target: &dyn Target, z: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
    let (values, grads, sums) = sums_at(target, z, &[1.0], CurvatureShape::Full);
    (values[0], grads, sums)
}

fn sums_at(target: &dyn Target, z: &[f64], weights: &[f64], shape: CurvatureShape) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (dim, n) = (target.dim(), z.len() / target.dim());
    // Filled with NaN, to check that everything is overwritten.
    let (mut log_p, mut grad) = (vec![f64::NAN; n], vec![f64::NAN; n * dim]);
    let mut sums = vec![f64::NAN; weights.len() / n * shape.len(dim)];
    let curv = Some(CurvatureSums { kind: Curvature::Exact, shape, weights, sums: &mut sums });
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv };
    target.eval(Rows::All, Points::new(z, dim), out, &mut Scratch::default()).unwrap();
    (log_p, grad, sums)
}

/// Fourth-order central difference of `f` along coordinate `j`.
fn difference(z: &[f64], j: usize, step: f64, f: impl Fn(&[f64]) -> f64) -> f64 {
    let at = |shift: f64| {
        let mut z = z.to_vec();
        z[j] += shift;
        f(&z)
    };
    (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step)
}

fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let size = expected.iter().fold(1.0f64, |a, b| a.max(b.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * size, "{what}, entry {i}: {a}, expected {b}");
    }
}

/// Checks gradient and Hessian at every point against differences of step `step`, and the weighted
/// sums in both shapes, some weights being zero, against the Hessians of the single points.
pub(crate) fn check_derivatives(target: &dyn Target, points: &[f64], step: f64) {
    let (d, n) = (target.dim(), points.len() / target.dim());
    let weights: Vec<f64> = (0..2 * n).map(|i| if i % 3 == 0 { 0.0 } else { 1.0 + i as f64 }).collect();
    let mut expected = vec![0.0; 2 * d * d];
    for (i, z) in points.chunks_exact(d).enumerate() {
        let (value, grad, hess) = all_at(target, z);
        assert!(value.is_finite(), "log p is {value} at {z:?}");
        let from_values: Vec<f64> =
            (0..d).map(|j| difference(z, j, step, |z| natmix::target::log_p_at(target, z).unwrap())).collect();
        assert_close(&format!("gradient at {z:?}"), &grad, &from_values, 1e-6);
        let from_grads: Vec<f64> =
            (0..d * d).map(|e| difference(z, e % d, step, |z| all_at(target, z).1[e / d])).collect();
        assert_close(&format!("Hessian at {z:?}"), &hess, &from_grads, 1e-5);
        for c in 0..2 {
            expected[c * d * d..][..d * d].iter_mut().zip(&hess).for_each(|(sum, h)| *sum += weights[c * n + i] * h);
        }
    }
    assert_close("full sums", &sums_at(target, points, &weights, CurvatureShape::Full).2, &expected, 1e-12);
    let diagonals: Vec<f64> = (0..2 * d).map(|e| expected[e / d * d * d + e % d * (d + 1)]).collect();
    assert_close("diagonal sums", &sums_at(target, points, &weights, CurvatureShape::Diag).2, &diagonals, 1e-12);
    assert!(target.curvatures().contains(&(Curvature::Exact, CurvatureShape::Full)));
    assert!(target.curvatures().contains(&(Curvature::Exact, CurvatureShape::Diag)));
}
