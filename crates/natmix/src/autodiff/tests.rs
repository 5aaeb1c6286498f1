//! Every derivative rule against finite differences, and whole densities against closed forms.

use super::*;

/// All results for `points`; one curvature sum for each run of weights.
struct Evaluated {
    log_p: Vec<f64>,
    grad: Vec<f64>,
    sums: Vec<f64>,
}

fn evaluate<D: Density>(density: &D, points: &[f64], shape: CurvatureShape, weights: &[f64]) -> Evaluated {
    let dim = density.dim();
    let n = points.len() / dim;
    // Filled with garbage: everything must be overwritten.
    let (mut log_p, mut grad) = (vec![7.0; n], vec![7.0; points.len()]);
    let mut sums = vec![7.0; weights.len() / n * shape.len(dim)];
    let curv = CurvatureSums { kind: Curvature::Exact, shape, weights, sums: &mut sums };
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
    let scratch = &mut Scratch::default();
    AutoDiff(density).eval(Rows::All, Points::new(points, dim), out, scratch).unwrap();
    Evaluated { log_p, grad, sums }
}

impl<D: Density> Density for &D {
    fn dim(&self) -> usize {
        (**self).dim()
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        (**self).log_p(z)
    }
}

fn gradient<D: Density>(density: &D, z: &[f64]) -> Vec<f64> {
    let (mut log_p, mut grad) = ([0.0], vec![0.0; z.len()]);
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
    AutoDiff(density).eval(Rows::All, Points::new(z, z.len()), out, &mut Scratch::default()).unwrap();
    assert_eq!(log_p[0].to_bits(), density.log_p(z).to_bits(), "recording must not change the value at {z:?}");
    grad
}

#[track_caller]
fn assert_close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance * (1.0 + want.abs()), "{what}: {got:e}, not {want:e}");
}

/// Gradient and Hessian at `z` against central differences of the value and of the gradient.
#[track_caller]
fn check_derivatives<D: Density>(density: &D, z: &[f64], what: &str) {
    let dim = density.dim();
    let full = evaluate(density, z, CurvatureShape::Full, &[1.0]);
    let diag = evaluate(density, z, CurvatureShape::Diag, &[1.0]);
    assert_eq!(full.log_p[0].to_bits(), density.log_p(z).to_bits(), "{what}");
    assert_eq!(full.log_p, diag.log_p, "{what}");
    let grad = gradient(density, z);
    for j in 0..dim {
        assert_close(full.grad[j], grad[j], 1e-13, what);
        assert_eq!(diag.sums[j], full.sums[j * dim + j], "{what}");
        let step = 1e-5 * (1.0 + z[j].abs());
        let (mut up, mut down) = (z.to_vec(), z.to_vec());
        up[j] += step;
        down[j] -= step;
        let width = up[j] - down[j];
        let slope = (density.log_p(&up) - density.log_p(&down)) / width;
        assert_close(grad[j], slope, 3e-8, &format!("{what}, slope {j} at {z:?}"));
        let (grad_up, grad_down) = (gradient(density, &up), gradient(density, &down));
        for i in 0..dim {
            let entry = (grad_up[i] - grad_down[i]) / width;
            assert_close(full.sums[i * dim + j], entry, 3e-8, &format!("{what}, Hessian entry {i}, {j} at {z:?}"));
        }
    }
}

#[test]
fn each_function_has_its_first_and_second_derivative() {
    macro_rules! check {
        ($($name:ident: |$x:ident| $body:expr, at $points:expr;)*) => {$({
            struct Function;
            impl Density for Function {
                fn dim(&self) -> usize {
                    1
                }
                fn log_p<R: Real>(&self, z: &[R]) -> R {
                    let $x = z[0];
                    $body
                }
            }
            for z in $points {
                check_derivatives(&Function, &[z], stringify!($name));
            }
        })*};
    }
    check! {
        exp: |x| x.exp(), at [-3.0, 0.0, 1.7];
        exp_m1: |x| x.exp_m1(), at [-3.0, 1e-9, 1.7];
        ln: |x| x.ln(), at [0.3, 1.0, 40.0];
        ln_1p: |x| x.ln_1p(), at [-0.6, 1e-9, 3.0];
        sqrt: |x| x.sqrt(), at [0.3, 2.0, 50.0];
        recip: |x| x.recip(), at [-2.0, 0.4, 7.0];
        powi_0: |x| x.powi(0), at [-1.0, 0.0, 2.0];
        powi_1: |x| x.powi(1), at [-1.0, 0.0, 2.0];
        powi_2: |x| x.powi(2), at [-1.0, 0.0, 2.0];
        powi_5: |x| x.powi(5), at [-1.3, 0.0, 1.2];
        powi_minus_3: |x| x.powi(-3), at [-1.3, 0.8, 2.0];
        powf_0: |x| x.powf(0.0), at [0.0, 2.0];
        powf_2: |x| x.powf(2.0), at [-1.0, 0.0, 2.0];
        powf_minus_half: |x| x.powf(-0.5), at [0.7, 2.0, 9.0];
        sin: |x| x.sin(), at [-2.0, 0.0, 1.1];
        cos: |x| x.cos(), at [-2.0, 0.0, 1.1];
        tan: |x| x.tan(), at [-1.0, 0.0, 0.9];
        tanh: |x| x.tanh(), at [-30.0, -1.0, 0.0, 0.4, 400.0];
        atan: |x| x.atan(), at [-5.0, 0.0, 0.8];
        abs: |x| x.abs() * x, at [-2.0, 3.0];
        max: |x| (x * x).max(x * 3.0), at [-1.0, 2.0, 4.0];
        min: |x| (x * x).min(x * 3.0), at [-1.0, 2.0, 4.0];
        sigmoid: |x| x.sigmoid(), at [-800.0, -3.0, 0.0, 2.0, 800.0];
        log1p_exp: |x| x.log1p_exp(), at [-800.0, -3.0, 0.0, 2.0, 800.0];
        ln_gamma: |x| Real::ln_gamma(x), at [-1.4, 0.4, 1.0, 2.0, 4.5, 12.0];
        neg: |x| (-x).exp(), at [-1.0, 1.0];
        add_constant: |x| (x + 2.0).powi(3) + R::constant(1.0), at [-1.0, 1.0];
        sub_constant: |x| (x - 2.0).powi(3) - R::constant(1.0), at [-1.0, 1.0];
        mul_constant: |x| (x * 2.0).exp() * R::constant(3.0), at [-1.0, 1.0];
        div_constant: |x| (x / 2.0).exp() / R::constant(3.0), at [-1.0, 1.0];
        constant_on_the_left: |x| R::constant(2.0) * x.exp() / (R::constant(1.0) - x), at [0.7, 2.0];
        assign_numbers: |x| { let mut y = x; y += x.exp(); y -= x.sin(); y *= x; y /= x.exp(); y }, at [0.7, 2.0];
        assign_constants: |x| { let mut y = x; y += 2.0; y *= x; y -= 1.0; y *= 3.0; y /= 4.0; y }, at [0.7, 2.0];
    }
}

#[test]
fn each_operator_of_two_numbers_has_its_derivatives() {
    struct Operator(usize);
    impl Density for Operator {
        fn dim(&self) -> usize {
            2
        }
        fn log_p<R: Real>(&self, z: &[R]) -> R {
            let (x, y) = (z[0].sin(), z[1].exp());
            let pair = match self.0 {
                0 => x + y,
                1 => x - y,
                2 => x * y,
                3 => x / y,
                4 => R::dot(&[2.0, -3.0, 0.5], &[x, y, R::constant(4.0)]),
                5 => log_sum_exp(&[x, y, R::constant(0.3)]),
                _ => [x, y, x].into_iter().sum(),
            };
            pair.powi(2)
        }
    }
    for operator in 0..=6 {
        for z in [[0.4, -0.3], [2.0, 0.5], [-1.0, 0.1]] {
            check_derivatives(&Operator(operator), &z, &format!("operator {operator}"));
        }
    }
}

#[test]
fn closed_form_of_rosenbrock() {
    struct Rosenbrock;
    impl Density for Rosenbrock {
        fn dim(&self) -> usize {
            2
        }
        fn log_p<R: Real>(&self, z: &[R]) -> R {
            -(-z[0] + 1.0).powi(2) - (z[1] - z[0].powi(2)).powi(2) * 100.0
        }
    }
    for [x, y] in [[1.0, 1.0], [-1.2, 1.0], [0.3, -0.7]] {
        let got = evaluate(&Rosenbrock, &[x, y], CurvatureShape::Full, &[1.0]);
        let gap = y - x * x;
        let grad = [2.0 * (1.0 - x) + 400.0 * x * gap, -200.0 * gap];
        let hess = [-2.0 + 400.0 * gap - 800.0 * x * x, 400.0 * x, 400.0 * x, -200.0];
        got.grad.iter().zip(grad).for_each(|(&got, want)| assert_close(got, want, 1e-12, "gradient"));
        got.sums.iter().zip(hess).for_each(|(&got, want)| assert_close(got, want, 1e-12, "Hessian"));
    }
}

/// Logistic regression: `H = -X' diag(s (1 - s)) X - I`. More columns than one sweep holds.
struct Logistic {
    dim: usize,
    rows: Vec<f64>,
    signs: Vec<f64>,
}

impl Logistic {
    fn new(dim: usize, n: usize) -> Self {
        let rows = (0..n * dim).map(|i| (i as f64 * 1.7).sin()).collect();
        Self { dim, rows, signs: (0..n).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect() }
    }
    fn data(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.rows.chunks_exact(self.dim).zip(self.signs.iter().copied())
    }
}

impl Density for Logistic {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let prior = z.iter().map(|z| z.powi(2)).sum::<R>() * -0.5;
        let log_lik = self.data().map(|(x, sign)| -(R::dot(x, z) * -sign).log1p_exp()).sum::<R>();
        prior + log_lik
    }
    fn parameter_names(&self) -> Vec<String> {
        (0..self.dim).map(|i| format!("beta[{i}]")).collect()
    }
}

#[test]
fn closed_form_of_logistic_regression() {
    for dim in [1, 3, 4, 5, 9] {
        let density = Logistic::new(dim, 20);
        let z: Vec<f64> = (0..dim).map(|i| (i as f64).cos()).collect();
        let (mut grad, mut hess) = (vec![0.0; dim], vec![0.0; dim * dim]);
        for i in 0..dim {
            grad[i] -= z[i];
            hess[i * dim + i] -= 1.0;
        }
        for (x, sign) in density.data() {
            let eta: f64 = x.iter().zip(&z).map(|(x, z)| x * z).sum();
            let s = 1.0 / (1.0 + eta.exp());
            for i in 0..dim {
                grad[i] += x[i] * if sign > 0.0 { s } else { s - 1.0 };
                for j in 0..dim {
                    hess[i * dim + j] -= x[i] * x[j] * s * (1.0 - s);
                }
            }
        }
        let got = evaluate(&density, &z, CurvatureShape::Full, &[1.0]);
        got.grad.iter().zip(grad).for_each(|(&got, want)| assert_close(got, want, 1e-12, "gradient"));
        got.sums.iter().zip(&hess).for_each(|(&got, &want)| assert_close(got, want, 1e-12, "Hessian"));
        let diag = evaluate(&density, &z, CurvatureShape::Diag, &[1.0]).sums;
        (0..dim).for_each(|i| assert_close(diag[i], hess[i * dim + i], 1e-12, "diagonal"));
    }
}

/// Schools with a common mean `m` and spread `e^s`, effects not centred, Student noise.
struct Schools;
impl Density for Schools {
    fn dim(&self) -> usize {
        6
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let (mean, log_spread, log_freedom, effects) = (z[0], z[1], z[2], &z[3..]);
        let (spread, freedom) = (log_spread.exp(), log_freedom.exp() + 1.0);
        let mut log_p = mean.powi(2) * -0.02 - (spread * 0.2).powi(2).ln_1p() + log_spread - log_freedom.powi(2);
        for (&effect, y) in effects.iter().zip([28.0, -3.0, 7.0]) {
            let residual = (mean + spread * effect - y) / 10.0;
            let norm = Real::ln_gamma((freedom + 1.0) * 0.5) - Real::ln_gamma(freedom * 0.5) - freedom.ln() * 0.5;
            log_p += norm - (freedom + 1.0) * 0.5 * (residual.powi(2) / freedom).ln_1p() - effect.powi(2) * 0.5;
        }
        log_p
    }
}

#[test]
fn whole_densities_against_finite_differences() {
    for z in [[4.0, 1.0, 0.3, 0.1, -0.5, 0.9], [-2.0, -0.5, 1.0, 1.3, 0.2, -1.1]] {
        check_derivatives(&Schools, &z, "schools");
    }
    check_derivatives(&Logistic::new(5, 8), &[0.1, -0.4, 1.0, 0.0, 2.0], "logistic");
}

#[test]
fn log_sum_exp_is_the_stable_one() {
    assert_eq!(log_sum_exp::<f64>(&[]), f64::NEG_INFINITY);
    assert_eq!(log_sum_exp(&[f64::NEG_INFINITY, 3.0]), 3.0);
    assert_eq!(log_sum_exp(&[f64::NEG_INFINITY; 2]), f64::NEG_INFINITY);
    assert_eq!(log_sum_exp(&[1e300, f64::INFINITY]), f64::INFINITY);
    assert!(log_sum_exp(&[0.0, f64::NAN]).is_nan() && log_sum_exp(&[f64::NAN, 0.0]).is_nan());
    let tape = Tape::default();
    let x = [tape.variable(1000.0), tape.variable(1000.0 + 3_f64.ln()), tape.variable(f64::NEG_INFINITY)];
    let slopes = tape.adjoints(log_sum_exp(&x));
    slopes.iter().zip([0.25, 0.75, 0.0]).for_each(|(&got, want)| assert_close(got, want, 1e-12, "softmax"));
}

#[test]
fn weights_pick_the_points_of_each_sum() {
    let density = Logistic::new(3, 5);
    let points = [0.1, 0.2, 0.3, -1.0, 0.5, 2.0, 0.0, 0.0, 1.0, 9.0, 9.0, 9.0];
    let weights = [0.5, 0.0, 2.0, 0.0, -1.0, 3.0, 0.0, 0.0];
    for shape in [CurvatureShape::Diag, CurvatureShape::Full] {
        let got = evaluate(&density, &points, shape, &weights);
        let len = shape.len(3);
        for (c, weights) in weights.chunks_exact(4).enumerate() {
            let mut want = vec![0.0; len];
            for (weight, z) in weights.iter().zip(points.chunks_exact(3)) {
                let alone = evaluate(&density, z, shape, &[1.0]).sums;
                want.iter_mut().zip(alone).for_each(|(want, h)| *want += weight * h);
            }
            got.sums[c * len..][..len].iter().zip(want).for_each(|(&got, want)| assert_close(got, want, 1e-14, "sum"));
        }
        for (i, z) in points.chunks_exact(3).enumerate() {
            assert_eq!(got.log_p[i], density.log_p(z));
            let alone = gradient(&density, z);
            got.grad[i * 3..][..3]
                .iter()
                .zip(alone)
                .for_each(|(&got, want)| assert_close(got, want, 1e-14, "gradient"));
        }
    }
}

#[test]
fn a_bad_point_spoils_only_itself() {
    /// Zero density below 0, an infinite second derivative at 0, undefined for NaN.
    struct Half;
    impl Density for Half {
        fn dim(&self) -> usize {
            2
        }
        fn log_p<R: Real>(&self, z: &[R]) -> R {
            if z[0].value() < 0.0 {
                return R::constant(f64::NEG_INFINITY);
            }
            z[0].powf(1.5) - z[1].powi(2)
        }
    }
    let points = [1.0, 2.0, f64::NAN, 1.0, 1.0, f64::NAN, -1.0, 1.0, 0.0, 1.0, 4.0, 3.0];
    let got = evaluate(&Half, &points, CurvatureShape::Full, &[1.0; 6]);
    assert_eq!((got.log_p[0], got.log_p[3], got.log_p[5]), (-3.0, f64::NEG_INFINITY, -1.0));
    assert_eq!((&got.grad[..2], &got.grad[10..]), (&[1.5, -4.0][..], &[3.0, -6.0][..]));
    assert!([1, 2, 4].iter().all(|&i: &usize| got.log_p[i].is_nan()));
    assert!(got.grad[2..10].iter().all(|g| g.is_nan()));
    assert_eq!(got.sums, [0.75 + 0.375, 0.0, 0.0, -4.0]);
    assert_eq!(evaluate(&Half, &[0.0, 1.0], CurvatureShape::Full, &[0.0]).log_p, [-1.0]);
}

#[test]
fn unsupported_requests_are_errors() {
    let target = AutoDiff(Logistic::new(2, 3));
    let scratch = &mut Scratch::default();
    let mut log_p = [0.0];
    let mut message = |rows, data: &[f64], kind| {
        let curv = Some(CurvatureSums { kind, shape: CurvatureShape::Diag, weights: &[1.0], sums: &mut [0.0; 2] });
        let points = Points::new(data, data.len());
        target.eval(rows, points, EvalOut { log_p: &mut log_p, grad: None, curv }, scratch).unwrap_err().to_string()
    };
    assert!(message(Rows::All, &[0.0; 2], Curvature::GaussNewton).contains("gauss-newton"));
    assert!(message(Rows::Subset(&[0]), &[0.0; 2], Curvature::Exact).contains("minibatch"));
    assert!(message(Rows::All, &[0.0; 3], Curvature::Exact).contains("dimension 3"));
    assert_eq!(target.parameter_names(), ["beta[0]", "beta[1]"]);
}
