//! Log density of 1,000 points under one Gaussian: the crate's path against the alternatives.
//!
//! `cargo bench -p natmix --bench density [-- --instructions]`

mod common;

use common::{Case, case, run};
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, Par};
use natmix::Scratch;
use natmix::family::{Full, Gaussian, Mixture};
use std::hint::black_box;

const N: usize = 1000;

fn wave(i: usize) -> f64 {
    (i as f64 * 0.7312).sin()
}

fn factor(d: usize) -> Vec<f64> {
    let entry = |i: usize, j: usize| if i == j { 1.5 + 0.3 * wave(i) } else { 0.1 * wave(i * d + j) };
    (0..d * d).map(|at| if at % d >= at / d { entry(at % d, at / d) } else { 0.0 }).collect()
}

fn main() {
    let mut cases: Vec<Case> = Vec::new();
    for d in [2, 10, 50, 200] {
        cases.push(case(format!("d={d} n={N} natmix"), move || {
            let q = Mixture::single(Gaussian::new((0..d).map(wave).collect(), Full::from_factor(d, factor(d))));
            let points: Vec<f64> = (0..N * d).map(wave).collect();
            let (mut log_q, mut scratch) = (vec![0.0; N], Scratch::default());
            Box::new(move || q.log_density_into(black_box(&points), black_box(&mut log_q), &mut scratch))
        }));
        cases.push(case(format!("d={d} n={N} library, triangular product"), move || library(d, true)));
        cases.push(case(format!("d={d} n={N} library, full product"), move || library(d, false)));
        cases.push(case(format!("d={d} n={N} plain loops"), move || loops(d)));
    }
    let times = run(&cases);
    if times.len() == cases.len() {
        println!();
        for (d, times) in [2, 10, 50, 200].iter().zip(times.chunks(4)) {
            let best = times.iter().copied().fold(f64::INFINITY, f64::min);
            println!("d={d}: natmix takes {:.2} times the best of these", times[0] / best);
        }
    }
}

/// One product with the factor, then row sums of squares, with buffers kept.
fn library(d: usize, use_triangle: bool) -> Box<dyn FnMut()> {
    let l = factor(d);
    let l = Mat::from_fn(d, d, |i, j| l[i + j * d]);
    let points: Vec<f64> = (0..N * d).map(wave).collect();
    let mean: Vec<f64> = (0..d).map(wave).collect();
    let (mut delta, mut y) = (Mat::<f64>::zeros(d, N), Mat::<f64>::zeros(d, N));
    let mut out = vec![0.0; N];
    Box::new(move || {
        for i in 0..N {
            let column = delta.col_as_slice_mut(i);
            for (j, x) in column.iter_mut().enumerate() {
                *x = points[i * d + j] - mean[j];
            }
        }
        let structure = if use_triangle { BlockStructure::TriangularUpper } else { BlockStructure::Rectangular };
        triangular::matmul(
            y.as_mut(),
            BlockStructure::Rectangular,
            Accum::Replace,
            l.transpose(),
            structure,
            delta.as_ref(),
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
        for (i, out) in out.iter_mut().enumerate() {
            *out = -0.5 * y.col_as_slice(i).iter().map(|x| x * x).sum::<f64>();
        }
        black_box(&mut out);
    })
}

/// Point by point, column by column, as one would write it first.
fn loops(d: usize) -> Box<dyn FnMut()> {
    let l = factor(d);
    let points: Vec<f64> = (0..N * d).map(wave).collect();
    let mean: Vec<f64> = (0..d).map(wave).collect();
    let (mut delta, mut out) = (vec![0.0; d], vec![0.0; N]);
    Box::new(move || {
        for (z, out) in points.chunks_exact(d).zip(&mut out) {
            for ((delta, z), m) in delta.iter_mut().zip(z).zip(&mean) {
                *delta = z - m;
            }
            let mut sum = 0.0;
            for (j, column) in l.chunks_exact(d).enumerate() {
                let y: f64 = column[j..].iter().zip(&delta[j..]).map(|(l, x)| l * x).sum();
                sum += y * y;
            }
            *out = -0.5 * sum;
        }
        black_box(&mut out);
    })
}
