//! Shared by the tests: data files, statistics, small matrices.
#![allow(dead_code)]

use natmix::family::{AnyCovariance, Full, Gaussian, Mixture};
use std::path::PathBuf;

/// A file below the folder that `NATMIX_DATA` names; none, with a note on standard error, if that is not set. A missing file
/// is a failure.
pub fn data(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("NATMIX_DATA") else {
        eprintln!("not checked: NATMIX_DATA is not set, so {name} cannot be read");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}

/// Fails if the mean of `samples` is farther than 5 standard errors from `truth`, and if 5 standard errors are larger
/// than `resolution`: a test must not pass by being weak.
pub fn assert_mean(samples: &[f64], truth: f64, resolution: f64, what: &str) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let se = (samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    assert!(5.0 * se <= resolution, "{what}: 5 se = {} is coarser than {resolution}", 5.0 * se);
    assert!((mean - truth).abs() <= 5.0 * se + 1e-12, "{what}: mean {mean} +- {se} against {truth}");
}

/// Deterministic numbers in (-1, 1), without a generator.
pub fn wave(i: usize) -> f64 {
    let x = (i as f64 * 12.9898 + 4.1414).sin() * 43_758.545_3;
    2.0 * (x - x.floor()) - 1.0
}

/// A well-conditioned lower-triangular matrix with positive diagonal (column-major), the `salt`-th of its kind.
pub fn lower(d: usize, salt: usize) -> Vec<f64> {
    let mut l = vec![0.0; d * d];
    for j in 0..d {
        for i in j..d {
            let x = wave(1000 * salt + j * d + i);
            l[i + j * d] = if i == j { 1.0 + 0.5 * x } else { 0.6 * x / (d as f64).sqrt() };
        }
    }
    l
}

/// A full Gaussian, the `salt`-th of its kind; means spread over (-spread, spread).
pub fn gaussian(d: usize, spread: f64, salt: usize) -> Gaussian {
    let mean = (0..d).map(|i| spread * wave(7919 * salt + i)).collect();
    Gaussian::new(mean, Full::from_factor(d, lower(d, salt)))
}

/// A mixture of `k` full Gaussians, the `salt`-th of its kind.
pub fn mixture(d: usize, k: usize, spread: f64, salt: usize) -> Mixture {
    let weights: Vec<f64> = (0..k).map(|i| 1.5 + wave(31 * salt + i)).collect();
    Mixture::new(&weights, (0..k).map(|i| gaussian(d, spread, salt * 100 + i)).collect()).unwrap()
}

/// Largest difference, relative to the larger of 1 and the values.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |worst, (a, b)| {
        let gap = (a - b).abs() / a.abs().max(b.abs()).max(1.0);
        if gap.is_nan() { f64::INFINITY } else { worst.max(gap) }
    })
}

/// Nodes and weights of Gauss-Hermite quadrature under the standard normal. The nodes are the zeros of the orthonormal
/// Hermite polynomial `h_n`, bracketed on a grid much finer than their spacing and bisected to the last digit; the
/// weights are `1 / (n h_{n-1}^2)`.
pub fn gauss_hermite(n: usize) -> (Vec<f64>, Vec<f64>) {
    let last_two = |x: f64| {
        let (mut before, mut h) = (0.0, 1.0);
        for i in 0..n {
            (before, h) = (h, (x * h - (i as f64).sqrt() * before) / ((i + 1) as f64).sqrt());
        }
        (before, h)
    };
    let (mut nodes, mut weights) = (Vec::new(), Vec::new());
    let edge = 2.0 * (n as f64).sqrt() + 1.0;
    // An odd number of cells: zero, a node for odd n, lies inside one.
    let cells = 40 * n + 1;
    let grid = |i: usize| edge * (2.0 * i as f64 / cells as f64 - 1.0);
    for i in 0..cells {
        let (mut low, mut high) = (grid(i), grid(i + 1));
        let sign = last_two(low).1.signum();
        if sign == last_two(high).1.signum() {
            continue;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if last_two(middle).1.signum() == sign { low = middle } else { high = middle }
        }
        nodes.push(0.5 * (low + high));
        weights.push((n as f64 * last_two(low).0.powi(2)).recip());
    }
    assert_eq!(nodes.len(), n);
    (nodes, weights)
}

/// The factor `L` of a diagonal or full precision.
pub fn factor(gaussian: &Gaussian) -> &[f64] {
    match gaussian.precision() {
        AnyCovariance::LowRank(_) => unreachable!("has tests of its own"),
        AnyCovariance::Diag(prec) => prec.root(),
        AnyCovariance::Full(prec) => prec.factor(),
    }
}

/// Moves standard normal points to `m + L^-T eps`, in place.
pub fn place(gaussian: &Gaussian, eps: &mut [f64]) {
    let (d, factor) = (gaussian.dim(), factor(gaussian));
    for z in eps.chunks_exact_mut(d) {
        for i in (0..d).rev() {
            z[i] = match gaussian.precision() {
                AnyCovariance::LowRank(_) => unreachable!("has tests of its own"),
                AnyCovariance::Diag(_) => z[i] / factor[i],
                AnyCovariance::Full(_) => {
                    (z[i] - (i + 1..d).map(|j| factor[j + i * d] * z[j]).sum::<f64>()) / factor[i * (d + 1)]
                }
            };
        }
        z.iter_mut().zip(gaussian.mean()).for_each(|(z, m)| *z += m);
    }
}

/// Tensor Gauss-Hermite quadrature under a Gaussian, `n` nodes per axis: points one after the other, and weights.
pub fn tensor_quadrature(gaussian: &Gaussian, n: usize) -> (Vec<f64>, Vec<f64>) {
    let (nodes, node_weights) = gauss_hermite(n);
    let d = gaussian.dim();
    let count = n.pow(d as u32);
    let digit = |point: usize, axis: usize| point / n.pow(axis as u32) % n;
    let mut points: Vec<f64> = (0..count * d).map(|at| nodes[digit(at / d, at % d)]).collect();
    let weights = (0..count).map(|i| (0..d).map(|axis| node_weights[digit(i, axis)]).product()).collect();
    place(gaussian, &mut points);
    (points, weights)
}

/// Derivatives of a vector-valued function in each coordinate: central differences, extrapolated once, so that the
/// error is of the order of `h^4`.
pub fn slopes(f: impl Fn(&[f64]) -> Vec<f64>, at: &[f64], h: f64) -> Vec<Vec<f64>> {
    let central = |j: usize, h: f64| -> Vec<f64> {
        let moved = |h: f64| {
            let mut x = at.to_vec();
            x[j] += h;
            f(&x)
        };
        moved(h).iter().zip(moved(-h)).map(|(up, down)| (up - down) / (2.0 * h)).collect()
    };
    let extrapolated =
        |j| central(j, 0.5 * h).iter().zip(central(j, h)).map(|(fine, coarse)| (4.0 * fine - coarse) / 3.0).collect();
    (0..at.len()).map(extrapolated).collect()
}

/// Solves `a x = b` by elimination with pivoting; `a` as rows.
pub fn solve_linear(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for c in 0..n {
        let pivot = (c..n).max_by(|&i, &j| a[i][c].abs().total_cmp(&a[j][c].abs())).unwrap();
        a.swap(c, pivot);
        b.swap(c, pivot);
        for i in c + 1..n {
            let (above, below) = a.split_at_mut(i);
            let factor = below[0][c] / above[c][c];
            below[0].iter_mut().zip(&above[c]).for_each(|(x, pivot)| *x -= factor * pivot);
            b[i] -= factor * b[c];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| a[i][j] * b[j]).sum();
        b[i] = (b[i] - known) / a[i][i];
    }
    b
}

/// A diagonal Gaussian, the `salt`-th of its kind; means spread over (-spread, spread).
pub fn diag_gaussian(d: usize, spread: f64, salt: usize) -> Gaussian {
    let mean = (0..d).map(|i| spread * wave(7919 * salt + i)).collect();
    let entries = (0..d).map(|i| 1.0 + 0.8 * wave(1000 * salt + 17 + i)).collect();
    Gaussian::new(mean, natmix::family::Diag::new(entries).unwrap())
}
