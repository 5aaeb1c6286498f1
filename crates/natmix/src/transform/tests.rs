//! Every map against finite differences, quadrature and extreme coordinates.

mod interface;

use super::{Block, Constraint, Transformed};
use crate::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target, TargetError};
use crate::workspace::Scratch;

/// A log density of one variable with its first two derivatives.
type Term = Box<dyn Fn(f64) -> [f64; 3] + Send + Sync>;

/// A block and the terms of its entries.
type BlockTerms = (Block, Vec<Term>);

fn gamma(shape: f64, rate: f64) -> Term {
    let a = shape - 1.0;
    Box::new(move |x| [a * x.ln() - rate * x, a / x - rate, -a / (x * x)])
}

/// Beta over the interval from `low` to `high`, with `(x - low)^a (high - x)^b`.
fn beta(a: f64, b: f64, low: f64, high: f64) -> Term {
    Box::new(move |x| {
        let (l, h) = (x - low, high - x);
        [a * l.ln() + b * h.ln(), a / l - b / h, -a / (l * l) - b / (h * h)]
    })
}

fn normal(mean: f64, sd: f64) -> Term {
    Box::new(move |x| {
        let t = (x - mean) / sd;
        [-0.5 * t * t, -t / sd, -1.0 / (sd * sd)]
    })
}

/// A sum of terms, less `coupling / 2 * (sum_k (k + 1) x_k)^2`, which makes the Hessian full.
struct TermDensity {
    terms: Vec<Term>,
    coupling: f64,
    offers: Vec<(Curvature, CurvatureShape)>,
    gradient: bool,
}

const EXACT_FULL: (Curvature, CurvatureShape) = (Curvature::Exact, CurvatureShape::Full);
const EXACT_DIAG: (Curvature, CurvatureShape) = (Curvature::Exact, CurvatureShape::Diag);

impl TermDensity {
    fn new(terms: Vec<Term>, coupling: f64) -> Self {
        Self { terms, coupling, offers: vec![EXACT_FULL], gradient: true }
    }
}

impl Target for TermDensity {
    fn dim(&self) -> usize {
        self.terms.len()
    }

    fn eval(&self, rows: Rows<'_>, x: Points<'_>, mut out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        // A minibatch shows as a constant, so that a test can see it arrive.
        let seen = if let Rows::Subset(rows) = rows { rows.len() as f64 } else { 0.0 };
        let (dim, n) = (self.dim(), x.len());
        if let Some(curv) = &mut out.curv {
            assert!(self.offers.contains(&(curv.kind, curv.shape)));
            curv.sums.fill(0.0);
        }
        for (i, x) in x.iter().enumerate() {
            let weigh = |(k, x): (usize, &f64)| (k + 1) as f64 * x;
            // Without coupling an infinite x must not turn into 0 * inf.
            let line: f64 = if self.coupling == 0.0 { 0.0 } else { x.iter().enumerate().map(weigh).sum() };
            let terms = || self.terms.iter().zip(x).map(|(term, &x)| term(x));
            out.log_p[i] = terms().map(|t| t[0]).sum::<f64>() - 0.5 * self.coupling * line * line + seen;
            if let Some(grad) = &mut out.grad {
                for (k, t) in terms().enumerate() {
                    grad[i * dim + k] = t[1] - self.coupling * line * (k + 1) as f64;
                }
            }
            if let Some(curv) = &mut out.curv {
                for (sum, weights) in curv.sums.chunks_exact_mut(curv.shape.len(dim)).zip(curv.weights.chunks_exact(n))
                {
                    for (k, t) in terms().enumerate() {
                        for j in 0..dim {
                            let h = -self.coupling * ((k + 1) * (j + 1)) as f64 + if j == k { t[2] } else { 0.0 };
                            match curv.shape {
                                CurvatureShape::Full => sum[k * dim + j] += weights[i] * h,
                                CurvatureShape::Diag if j == k => sum[k] += weights[i] * h,
                                CurvatureShape::Diag => {}
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn has_gradient(&self) -> bool {
        self.gradient
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &self.offers
    }

    fn num_rows(&self) -> Option<usize> {
        Some(7)
    }
}

fn block(name: &str, size: usize, constraint: Constraint) -> Block {
    Block { name: name.into(), size, constraint }
}

/// One smooth density for each constraint, and one with all of them.
fn cases() -> Vec<Transformed<TermDensity>> {
    let parts: Vec<fn() -> BlockTerms> = vec![
        || (block("free", 2, Constraint::Free), vec![normal(0.3, 1.5), normal(-1.0, 0.7)]),
        || (block("sd", 2, Constraint::Positive), vec![gamma(3.0, 2.0), gamma(0.7, 0.5)]),
        || (block("above", 1, Constraint::LowerBound(-2.5)), vec![normal(-1.0, 0.8)]),
        || (block("below", 2, Constraint::UpperBound(1.5)), vec![normal(1.0, 0.5), normal(0.0, 2.0)]),
        || {
            let ends = Constraint::Interval { low: -1.0, high: 3.0 };
            (block("inside", 2, ends), vec![beta(1.5, 0.8, -1.0, 3.0), beta(3.0, 2.0, -1.0, 3.0)])
        },
        || (block("w", 4, Constraint::Simplex), [2.5, 0.6, 4.0, 1.3].map(|a| gamma(a, 0.0)).into()),
        || (block("cut", 3, Constraint::Ordered), vec![normal(-1.0, 0.9), normal(0.5, 1.1), normal(2.0, 0.6)]),
    ];
    let single = parts.iter().map(|part| {
        let (block, terms) = part();
        Transformed::new(TermDensity::new(terms, 0.05), vec![block]).unwrap()
    });
    let (blocks, terms): (Vec<_>, Vec<_>) = parts.iter().map(|part| part()).unzip();
    let all = Transformed::new(TermDensity::new(terms.into_iter().flatten().collect(), 0.01), blocks).unwrap();
    single.chain([all]).collect()
}

/// Reproducible coordinates between -2 and 2.
fn coordinates(dim: usize, seed: usize) -> Vec<f64> {
    (0..dim).map(|a| 2.0 * (1.7 * (a + 1) as f64 + 2.3 * (seed + 1) as f64 + (a * seed) as f64).sin()).collect()
}

/// Value, gradient and one Hessian for each point, by unit weights.
fn eval(target: &dyn Target, z: &[f64], shape: CurvatureShape) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (dim, n) = (target.dim(), z.len() / target.dim());
    let mut weights = vec![0.0; n * n];
    (0..n).for_each(|i| weights[i * n + i] = 1.0);
    let (mut log_p, mut grad, mut sums) = (vec![0.0; n], vec![0.0; n * dim], vec![0.0; n * shape.len(dim)]);
    let curv = CurvatureSums { kind: Curvature::Exact, shape, weights: &weights, sums: &mut sums };
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
    target.eval(Rows::All, Points::new(z, dim), out, &mut Scratch::default()).unwrap();
    (log_p, grad, sums)
}

/// Values and gradients without curvature: the other path.
fn eval_together(target: &dyn Target, z: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut log_p, mut grad) = (vec![0.0; z.len() / target.dim()], vec![0.0; z.len()]);
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
    target.eval(Rows::All, Points::new(z, target.dim()), out, &mut Scratch::default()).unwrap();
    (log_p, grad)
}

fn value(target: &dyn Target, z: &[f64]) -> f64 {
    let mut log_p = [0.0];
    let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
    target.eval(Rows::All, Points::new(z, target.dim()), out, &mut Scratch::default()).unwrap();
    log_p[0]
}

#[track_caller]
fn assert_close(actual: f64, expected: f64, tolerance: f64) {
    let error = (actual - expected).abs() / (1.0 + expected.abs());
    assert!(error <= tolerance, "{actual} is not {expected}: error {error:e}");
}

/// `(f(z + h e_a) - f(z - h e_a)) / 2h`, entry by entry.
fn central_difference(f: impl Fn(&[f64]) -> Vec<f64>, z: &[f64], a: usize) -> Vec<f64> {
    let step = 1e-5;
    let at = |shift: f64| {
        let mut moved = z.to_vec();
        moved[a] += shift;
        f(&moved)
    };
    at(step).iter().zip(at(-step)).map(|(up, down)| (up - down) / (2.0 * step)).collect()
}

/// `log |det|` of a small matrix, by elimination with pivots.
fn log_abs_det(mut m: Vec<Vec<f64>>) -> f64 {
    let mut log_det = 0.0;
    while let Some(pivot) = (0..m.len()).max_by(|&i, &j| m[i][0].abs().total_cmp(&m[j][0].abs())) {
        let top = m.swap_remove(pivot);
        log_det += top[0].abs().ln();
        for row in &mut m {
            let factor = row[0] / top[0];
            *row = row.iter().zip(&top).skip(1).map(|(r, t)| r - factor * t).collect();
        }
    }
    log_det
}

fn constrained(target: &Transformed<TermDensity>, z: &[f64]) -> Vec<f64> {
    let mut x = vec![0.0; target.target().dim()];
    target.constrain(z, &mut x);
    x
}

#[test]
fn there_and_back() {
    for target in cases() {
        for seed in 0..5 {
            let z: Vec<f64> = coordinates(target.dim(), seed).iter().map(|z| 4.0 * z).collect();
            let mut back = vec![0.0; z.len()];
            target.unconstrain(&constrained(&target, &z), &mut back).unwrap();
            z.iter().zip(&back).for_each(|(z, back)| assert_close(*back, *z, 1e-10));
        }
    }
}

#[test]
fn log_jacobian_is_that_of_finite_differences() {
    for target in cases() {
        let free_entries: Vec<usize> = (target.blocks().iter().zip(&target.placed))
            .flat_map(|(block, place)| place.x.clone().take(block.constraint.coordinates(block.size)))
            .collect();
        for seed in 0..5 {
            let z = coordinates(target.dim(), seed);
            let transposed = (0..z.len()).map(|a| {
                let column = central_difference(|z| constrained(&target, z), &z, a);
                free_entries.iter().map(|&k| column[k]).collect()
            });
            let log_jac = target.constrain(&z, &mut vec![0.0; target.target().dim()]);
            assert_close(log_jac, log_abs_det(transposed.collect()), 1e-8);
        }
    }
}

#[test]
fn gradient_and_hessian_are_those_of_finite_differences() {
    for target in cases() {
        let dim = target.dim();
        for seed in 0..5 {
            let z = coordinates(dim, seed);
            let (log_p, grad, hess) = eval(&target, &z, CurvatureShape::Full);
            let inner = value(target.target(), &constrained(&target, &z));
            assert_close(log_p[0], inner + target.constrain(&z, &mut vec![0.0; target.target().dim()]), 1e-14);
            for a in 0..dim {
                let slope = central_difference(|z| vec![value(&target, z)], &z, a);
                assert_close(grad[a], slope[0], 1e-6);
                let column = central_difference(|z| eval_together(&target, z).1, &z, a);
                (0..dim).for_each(|b| assert_close(hess[b * dim + a], column[b], 1e-5));
            }
        }
    }
}

#[test]
fn all_paths_agree_and_sums_are_weighted() {
    for target in cases() {
        let dim = target.dim();
        let z: Vec<f64> = (0..3).flat_map(|seed| coordinates(dim, seed)).collect();
        let (log_p, grad, hess) = eval(&target, &z, CurvatureShape::Full);
        assert_eq!(eval_together(&target, &z), (log_p.clone(), grad.clone()));
        let (diag_log_p, diag_grad, diag) = eval(&target, &z, CurvatureShape::Diag);
        assert_eq!((diag_log_p, diag_grad), (log_p, grad));
        for i in 0..3 {
            let matrix = &hess[i * dim * dim..(i + 1) * dim * dim];
            for a in 0..dim {
                assert_eq!(diag[i * dim + a], matrix[a * dim + a]);
                (0..dim).for_each(|b| assert_eq!(matrix[a * dim + b], matrix[b * dim + a]));
            }
        }
        let weights = [0.5, 0.0, -2.0, 1.0, 3.0, 0.25];
        let mut sums = vec![f64::NAN; 2 * dim * dim];
        let curv =
            CurvatureSums { kind: Curvature::Exact, shape: CurvatureShape::Full, weights: &weights, sums: &mut sums };
        let out = EvalOut { log_p: &mut [0.0; 3], grad: None, curv: Some(curv) };
        target.eval(Rows::All, Points::new(&z, dim), out, &mut Scratch::default()).unwrap();
        for (entry, sum) in sums.iter().enumerate() {
            let (c, k) = (entry / (dim * dim), entry % (dim * dim));
            let expected: f64 = (0..3).map(|i| weights[c * 3 + i] * hess[i * dim * dim + k]).sum();
            assert_close(*sum, expected, 1e-13);
        }
    }
}

#[test]
fn a_diagonal_inner_hessian_is_enough_entry_by_entry() {
    let make = |offers: &[(Curvature, CurvatureShape)]| {
        let mut density = TermDensity::new(vec![gamma(3.0, 2.0), beta(1.5, 0.8, -1.0, 3.0), normal(0.0, 1.0)], 0.1);
        density.offers = offers.to_vec();
        let ends = Constraint::Interval { low: -1.0, high: 3.0 };
        let blocks = vec![block("a", 1, Constraint::Positive), block("b", 1, ends), block("c", 1, Constraint::Free)];
        Transformed::new(density, blocks).unwrap()
    };
    let (from_diag, from_full) = (make(&[EXACT_DIAG]), make(&[EXACT_FULL]));
    assert_eq!(from_diag.curvatures(), [EXACT_DIAG]);
    assert_eq!(from_full.curvatures(), [EXACT_DIAG, EXACT_FULL]);
    let z = [0.3, -1.2, 0.8, -0.4, 2.0, 0.1];
    let (diag, full) = (eval(&from_diag, &z, CurvatureShape::Diag).2, eval(&from_full, &z, CurvatureShape::Diag).2);
    diag.iter().zip(full).for_each(|(diag, full)| assert_close(*diag, full, 1e-14));
}

/// The sum of `exp(log p)` over a grid in one or two coordinates: exact for these smooth, fast falling densities.
fn integral(target: &dyn Target, from: f64, to: f64, step: f64) -> f64 {
    let grid: Vec<f64> = (0..=((to - from) / step) as usize).map(|i| from + i as f64 * step).collect();
    let z = match target.dim() {
        1 => grid,
        _ => grid.iter().flat_map(|&a| grid.iter().flat_map(move |&b| [a, b])).collect(),
    };
    eval_together(target, &z).0.iter().map(|log_p| log_p.exp()).sum::<f64>() * step.powi(target.dim() as i32)
}

#[test]
fn densities_keep_their_integral() {
    let single =
        |term, constraint| Transformed::new(TermDensity::new(vec![term], 0.0), vec![block("x", 1, constraint)]);
    // Gamma(3) / 2^3
    assert_close(integral(&single(gamma(3.0, 2.0), Constraint::Positive).unwrap(), -25.0, 6.0, 0.05), 0.25, 1e-12);
    // (high - low)^6 B(3, 4) = 3^6 / 60
    let ends = Constraint::Interval { low: 2.0, high: 5.0 };
    assert_close(integral(&single(beta(2.0, 3.0, 2.0, 5.0), ends).unwrap(), -20.0, 20.0, 0.05), 729.0 / 60.0, 1e-10);
    // half of sqrt(2 pi)
    let half = (std::f64::consts::PI / 2.0).sqrt();
    for constraint in [Constraint::LowerBound(1.5), Constraint::UpperBound(1.5)] {
        assert_close(integral(&single(normal(1.5, 1.0), constraint).unwrap(), -40.0, 4.0, 0.02), half, 1e-10);
    }
    // Gamma(2) Gamma(3) Gamma(4) / Gamma(9)
    let dirichlet = TermDensity::new([2.0, 3.0, 4.0].map(|a| gamma(a, 0.0)).into(), 0.0);
    let dirichlet = Transformed::new(dirichlet, vec![block("w", 3, Constraint::Simplex)]).unwrap();
    assert_close(integral(&dirichlet, -18.0, 18.0, 0.1), 12.0 / 40320.0, 1e-9);
    // Two standard normals are in order half of the time.
    let sorted = TermDensity::new(vec![normal(0.0, 1.0), normal(0.0, 1.0)], 0.0);
    let sorted = Transformed::new(sorted, vec![block("x", 2, Constraint::Ordered)]).unwrap();
    assert_close(integral(&sorted, -26.0, 10.0, 0.05), std::f64::consts::PI, 1e-9);
}

#[test]
fn extreme_coordinates_spoil_no_other_point() {
    for target in cases() {
        let dim = target.dim();
        let good = coordinates(dim, 0);
        let (log_p, grad, hess) = eval(&target, &good, CurvatureShape::Full);
        for extreme in [800.0, -800.0, 1e5, -1e5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            for a in 0..dim {
                let mut z = [&good[..], &good, &good].concat();
                z[dim + a] = extreme;
                let mut sums = vec![0.0; dim * dim];
                let (mut log_ps, mut grads) = ([0.0; 3], vec![0.0; 3 * dim]);
                let weights = [0.25, 0.5, 0.75];
                let shape = CurvatureShape::Full;
                let curv = CurvatureSums { kind: Curvature::Exact, shape, weights: &weights, sums: &mut sums };
                let out = EvalOut { log_p: &mut log_ps, grad: Some(&mut grads), curv: Some(curv) };
                target.eval(Rows::All, Points::new(&z, dim), out, &mut Scratch::default()).unwrap();
                assert_eq!((log_ps[0], log_ps[2]), (log_p[0], log_p[0]));
                assert_eq!((&grads[..dim], &grads[2 * dim..]), (&grad[..], &grad[..]));
                assert!(log_ps[1] < f64::INFINITY || log_ps[1].is_nan());
                assert!(!log_ps[1].is_finite() || extreme.is_finite());
                if log_ps[1].is_finite() {
                    assert!(grads.iter().chain(&sums).all(|derivative| derivative.is_finite()));
                } else {
                    sums.iter().zip(&hess).for_each(|(sum, h)| assert_close(*sum, *h, 1e-14));
                }
                let (together, _) = eval_together(&target, &z);
                assert_eq!((together[0], together[2]), (log_p[0], log_p[0]));
            }
        }
    }
}

#[test]
fn maps_stay_precise_far_out() {
    let flat = || -> Term { Box::new(|_| [0.0; 3]) };
    let ends = Constraint::Interval { low: 0.0, high: 1.0 };
    let target = Transformed::new(TermDensity::new(vec![flat()], 0.0), vec![block("p", 1, ends)]).unwrap();
    for z in [-600.0_f64, -40.0, 40.0, 600.0] {
        assert_close(value(&target, &[z]), -z.abs(), 1e-14);
    }
    assert_close(constrained(&target, &[-600.0])[0] / (-600.0_f64).exp(), 1.0, 1e-14);

    // A density that does not notice an infinite value must not make one look like an ordinary point.
    let target =
        Transformed::new(TermDensity::new(vec![flat()], 0.0), vec![block("sd", 1, Constraint::Positive)]).unwrap();
    assert_eq!(value(&target, &[-800.0]), -800.0);
    assert!(value(&target, &[800.0]).is_nan());

    let simplex = TermDensity::new((0..3).map(|_| flat()).collect(), 0.0);
    let simplex = Transformed::new(simplex, vec![block("w", 3, Constraint::Simplex)]).unwrap();
    constrained(&simplex, &[0.0, 0.0]).iter().for_each(|x| assert_close(*x, 1.0 / 3.0, 1e-15));
    let x = constrained(&simplex, &[300.0, 200.0]);
    assert_close(x[1] / (2.0 * (-300.0_f64).exp()), 1.0, 1e-12);
    assert_close(x[2] / (2.0 * (-500.0_f64).exp()), 1.0, 1e-12);
    let mut z = [0.0; 2];
    simplex.unconstrain(&x, &mut z).unwrap();
    assert_close(z[0], 300.0, 1e-14);
    assert_close(z[1], 200.0, 1e-14);
}
