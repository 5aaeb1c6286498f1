//! Dense linear algebra on plain slices: with `number`, the only place that names the linear-algebra crate.
//!
//! Matrices are column-major. Products run on one thread: a threaded product may change its order of
//! summation with the number of threads, and then its bits.

mod number;
mod registers;

pub use number::Number;

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::matmul::triangular::BlockStructure::{Rectangular, TriangularLower, TriangularUpper};
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::{cholesky, evd, qr, triangular_solve};
use faer::{Accum, MatMut, MatRef, Par};

/// Below this dimension plain loops beat calls into the library.
const SMALL: usize = 24;

/// Scratch memory for factorisations, grown when needed and kept.
#[derive(Default)]
pub struct Memory {
    buffer: Option<MemBuffer>,
    bytes: usize,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    fn stack(&mut self, need: StackReq) -> &mut MemStack {
        if need.unaligned_bytes_required() > self.bytes {
            self.bytes = need.unaligned_bytes_required();
            self.buffer = None;
        }
        MemStack::new(self.buffer.get_or_insert_with(|| MemBuffer::new(need)))
    }
}

fn mat<T>(a: &[T], rows: usize, cols: usize) -> MatRef<'_, T> {
    MatRef::from_column_major_slice(&a[..rows * cols], rows, cols)
}

fn mat_mut<T>(a: &mut [T], rows: usize, cols: usize) -> MatMut<'_, T> {
    MatMut::from_column_major_slice_mut(&mut a[..rows * cols], rows, cols)
}

/// How a product treats its left factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transpose {
    /// As it is.
    No,
    /// Transposed.
    Yes,
}

/// `out = alpha * op(a) * b`, added to `out` if `add`; `op(a)` is m x k, `b` k x n.
///
/// # Panics
/// If a slice is shorter than its matrix.
#[allow(clippy::too_many_arguments)]
pub fn product<T: Number>(
    out: &mut [T],
    add: bool,
    alpha: T,
    a: &[T],
    op: Transpose,
    b: &[T],
    (m, k, n): (usize, usize, usize),
) {
    let accum = if add { Accum::Add } else { Accum::Replace };
    let out = mat_mut(out, m, n);
    match op {
        Transpose::No => T::multiply(out, accum, mat(a, m, k), mat(b, k, n), alpha),
        Transpose::Yes => T::multiply(out, accum, mat(a, k, m).transpose(), mat(b, k, n), alpha),
    }
}

/// `out = alpha * a * b'`, added to `out` if `add`; `a` is m x k, `b` n x k.
///
/// # Panics
/// If a slice is shorter than its matrix.
pub fn product_bt<T: Number>(out: &mut [T], add: bool, alpha: T, a: &[T], b: &[T], (m, k, n): (usize, usize, usize)) {
    product_bt_rows(out, add, alpha, a, b, n, 0, (m, k, n));
}

/// `out = alpha * a * b'`, added to `out` if `add`, where `b` is rows `first..first + n` of a matrix of `height` rows; `a` is
/// m x k, `b` n x k.
///
/// # Panics
/// If a slice is shorter than its matrix, or `b` has fewer rows.
#[allow(clippy::too_many_arguments)]
pub fn product_bt_rows<T: Number>(
    out: &mut [T],
    add: bool,
    alpha: T,
    a: &[T],
    b: &[T],
    height: usize,
    first: usize,
    (m, k, n): (usize, usize, usize),
) {
    let accum = if add { Accum::Add } else { Accum::Replace };
    let b = mat(b, height, k).subrows(first, n);
    T::multiply(mat_mut(out, m, n), accum, mat(a, m, k), b.transpose(), alpha);
}

/// A matrix and which part of it is read or written.
type Shaped<M> = (M, BlockStructure);

/// `out = alpha * a * b`, or added to `out`, where some of the matrices are triangular.
fn triangular_product(
    out: Shaped<MatMut<'_, f64>>,
    accum: Accum,
    alpha: f64,
    a: Shaped<MatRef<'_, f64>>,
    b: Shaped<MatRef<'_, f64>>,
) {
    triangular::matmul(out.0, out.1, accum, a.0, a.1, b.0, b.1, alpha, Par::Seq);
    registers::clear();
}

/// `out = x L` for lower-triangular `l` (d x d) and `x` (n x d).
pub fn times_lower(out: &mut [f64], x: &[f64], l: &[f64], n: usize, d: usize) {
    let (x, l) = ((mat(x, n, d), Rectangular), (mat(l, d, d), TriangularLower));
    triangular_product((mat_mut(out, n, d), Rectangular), Accum::Replace, 1.0, x, l);
}

/// `out += alpha * x L'` for lower-triangular `l` (d x d) and `x` (n x d).
pub fn add_times_lower_transpose(out: &mut [f64], alpha: f64, x: &[f64], l: &[f64], n: usize, d: usize) {
    let (x, l) = ((mat(x, n, d), Rectangular), (mat(l, d, d).transpose(), TriangularUpper));
    triangular_product((mat_mut(out, n, d), Rectangular), Accum::Add, alpha, x, l);
}

/// `out = L B` for lower-triangular `l` (d x d) and `b` (d x n).
pub fn lower_times(out: &mut [f64], l: &[f64], b: &[f64], d: usize, n: usize) {
    let (l, b) = ((mat(l, d, d), TriangularLower), (mat(b, d, n), Rectangular));
    triangular_product((mat_mut(out, d, n), Rectangular), Accum::Replace, 1.0, l, b);
}

/// `out = L L'`, the whole symmetric matrix.
pub fn lower_square(out: &mut [f64], l: &[f64], d: usize) {
    let (l, transposed) = ((mat(l, d, d), TriangularLower), (mat(l, d, d).transpose(), TriangularUpper));
    triangular_product((mat_mut(out, d, d), TriangularLower), Accum::Replace, 1.0, l, transposed);
    mirror_lower(out, d);
}

/// The `d` x `d` matrix with these entries on its diagonal.
pub fn diagonal(entries: impl IntoIterator<Item = f64>, d: usize) -> Vec<f64> {
    let mut a = vec![0.0; d * d];
    a.iter_mut().step_by(d + 1).zip(entries).for_each(|(a, x)| *a = x);
    a
}

/// Copies the lower triangle to the upper one.
pub fn mirror_lower(a: &mut [f64], d: usize) {
    for j in 0..d {
        for i in 0..j {
            a[i + j * d] = a[j + i * d];
        }
    }
}

/// Replaces `a` by `(a + a') / 2`.
pub fn symmetrise(a: &mut [f64], d: usize) {
    for j in 0..d {
        for i in 0..j {
            let mean = 0.5 * (a[i + j * d] + a[j + i * d]);
            a[i + j * d] = mean;
            a[j + i * d] = mean;
        }
    }
}

/// `half = L^-1 A` and `whole = L^-1 A L^-T` for symmetric `a`.
pub fn whiten_symmetric(half: &mut [f64], whole: &mut [f64], a: &[f64], l: &[f64], d: usize) {
    half.copy_from_slice(a);
    solve_lower(l, half, d, d);
    transpose(whole, half, d);
    solve_lower(l, whole, d, d);
}

/// `out = a'` for a square matrix.
pub fn transpose(out: &mut [f64], a: &[f64], d: usize) {
    for j in 0..d {
        for i in 0..d {
            out[i + j * d] = a[j + i * d];
        }
    }
}

/// `x <- L^-1 x` for each of the `n` columns of `x`.
pub fn solve_lower(l: &[f64], x: &mut [f64], d: usize, n: usize) {
    if d <= SMALL {
        for x in x[..d * n].chunks_exact_mut(d) {
            for j in 0..d {
                x[j] /= l[j + j * d];
                let (head, tail) = x.split_at_mut(j + 1);
                for (x, l) in tail.iter_mut().zip(&l[j * d + j + 1..(j + 1) * d]) {
                    *x -= l * head[j];
                }
            }
        }
    } else {
        triangular_solve::solve_lower_triangular_in_place(mat(l, d, d), mat_mut(x, d, n), Par::Seq);
        registers::clear();
    }
}

/// `x <- L^-T x` for each of the `n` columns of `x`.
pub fn solve_lower_transpose(l: &[f64], x: &mut [f64], d: usize, n: usize) {
    if d <= SMALL {
        for x in x[..d * n].chunks_exact_mut(d) {
            for j in (0..d).rev() {
                let column = &l[j * d..(j + 1) * d];
                let dot: f64 = column[j + 1..].iter().zip(&x[j + 1..]).map(|(l, x)| l * x).sum();
                x[j] = (x[j] - dot) / column[j];
            }
        }
    } else {
        triangular_solve::solve_upper_triangular_in_place(mat(l, d, d).transpose(), mat_mut(x, d, n), Par::Seq);
        registers::clear();
    }
}

/// Replaces the lower triangle of `a` by its Cholesky factor and clears the upper one.
///
/// Fails with the pivot at which `a` is not positive definite; NaN and infinities fail too.
pub fn cholesky(a: &mut [f64], d: usize, memory: &mut Memory) -> Result<(), usize> {
    if d <= SMALL {
        small_cholesky(a, d)?;
    } else {
        if let Some(bad) = a[..d * d].iter().position(|x| !x.is_finite()) {
            return Err(bad / d);
        }
        let stack =
            memory.stack(cholesky::llt::factor::cholesky_in_place_scratch::<f64>(d, Par::Seq, Default::default()));
        let factored = cholesky::llt::factor::cholesky_in_place(
            mat_mut(a, d, d),
            Default::default(),
            Par::Seq,
            stack,
            Default::default(),
        );
        registers::clear();
        if let Err(cholesky::llt::factor::LltError::NonPositivePivot { index }) = factored {
            return Err(index);
        }
    }
    for j in 0..d {
        if !(a[j + j * d] > 0.0 && a[j + j * d].is_finite()) {
            return Err(j);
        }
        a[j * d..j * d + j].fill(0.0);
    }
    Ok(())
}

fn small_cholesky(a: &mut [f64], d: usize) -> Result<(), usize> {
    for j in 0..d {
        let (done, rest) = a.split_at_mut(j * d);
        let column = &mut rest[j..d];
        for earlier in done.chunks_exact(d) {
            let factor = earlier[j];
            for (x, l) in column.iter_mut().zip(&earlier[j..]) {
                *x -= factor * l;
            }
        }
        let pivot = column[0];
        if !(pivot > 0.0 && pivot.is_finite()) {
            return Err(j);
        }
        let root = pivot.sqrt();
        column[0] = root;
        for x in &mut column[1..] {
            *x /= root;
        }
    }
    Ok(())
}

/// The lower-triangular `l` with `l l' = a' a` and positive diagonal, from a QR of the `rows` x `d`
/// matrix `a` (destroyed). Never forms `a' a`, so nothing is squared that could lose its digits.
///
/// Returns false where a diagonal entry is not a positive finite number.
pub fn lower_from_stack(l: &mut [f64], a: &mut [f64], rows: usize, d: usize, memory: &mut Memory) -> bool {
    if d <= SMALL {
        householder_r(a, rows, d);
    } else {
        let block = qr::no_pivoting::factor::recommended_block_size::<f64>(rows, d);
        let need = StackReq::all_of(&[
            StackReq::new::<f64>(block * d),
            qr::no_pivoting::factor::qr_in_place_scratch::<f64>(rows, d, block, Par::Seq, Default::default()),
        ]);
        let (mut coefficients, stack) = memory.stack(need).make_with::<f64>(block * d, |_| 0.0);
        let coefficients = MatMut::from_column_major_slice_mut(&mut coefficients, block, d);
        qr::no_pivoting::factor::qr_in_place(mat_mut(a, rows, d), coefficients, Par::Seq, stack, Default::default());
        registers::clear();
    }
    let mut good = true;
    for i in 0..d {
        let sign = if a[i + i * rows] < 0.0 { -1.0 } else { 1.0 };
        l[i * d..i * d + i].fill(0.0);
        for j in i..d {
            l[j + i * d] = sign * a[i + j * rows];
        }
        good &= l[i + i * d] > 0.0 && l[i * d + i..(i + 1) * d].iter().all(|x| x.is_finite());
    }
    good
}

/// Householder reduction of `a` (rows x d) to its upper-triangular R, in place.
fn householder_r(a: &mut [f64], rows: usize, d: usize) {
    for j in 0..d {
        let (left, right) = a.split_at_mut((j + 1) * rows);
        let v = &mut left[j * rows + j..];
        // Scaled, so that squares of huge or tiny entries do not overflow or vanish.
        let scale = v.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        if scale == 0.0 || !scale.is_finite() {
            continue;
        }
        let norm = scale * v.iter().map(|x| (x / scale).powi(2)).sum::<f64>().sqrt();
        let alpha = if v[0] > 0.0 { -norm } else { norm };
        let head = v[0] - alpha;
        if head == 0.0 {
            continue;
        }
        // v / head has a leading one: tau = 2 / |v/head|^2 stays within [1, 2].
        for x in v[1..].iter_mut() {
            *x /= head;
        }
        let tau = -head / alpha;
        for column in right.chunks_exact_mut(rows) {
            let column = &mut column[j..];
            let dot = column[0] + v[1..].iter().zip(&column[1..]).map(|(v, x)| v * x).sum::<f64>();
            let factor = tau * dot;
            column[0] -= factor;
            for (x, v) in column[1..].iter_mut().zip(&v[1..]) {
                *x -= factor * v;
            }
        }
        v[0] = alpha;
    }
}

/// Eigenvalues (rising) and orthonormal eigenvectors (columns of `vectors`) of symmetric `a`; reads
/// its lower triangle. Returns false where the iteration fails, as it does on non-finite input.
pub fn symmetric_eigen(values: &mut [f64], vectors: &mut [f64], a: &[f64], d: usize, memory: &mut Memory) -> bool {
    if a[..d * d].iter().any(|x| !x.is_finite()) {
        return false;
    }
    if d == 1 {
        values[0] = a[0];
        vectors[0] = 1.0;
        return true;
    }
    let need = evd::self_adjoint_evd_scratch::<f64>(d, evd::ComputeEigenvectors::Yes, Par::Seq, Default::default());
    let stack = memory.stack(need);
    let found = evd::self_adjoint_evd(
        mat(a, d, d),
        DiagMut::from_slice_mut(&mut values[..d]),
        Some(mat_mut(vectors, d, d)),
        Par::Seq,
        stack,
        Default::default(),
    );
    registers::clear();
    found.is_ok() && values[..d].iter().all(|x| x.is_finite()) && vectors[..d * d].iter().all(|x| x.is_finite())
}
