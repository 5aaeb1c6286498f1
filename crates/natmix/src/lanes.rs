//! Small dense kernels over blocks of points, vectorised for the machine that runs them.
//!
//! Points are *transposed* here: coordinate `j` of all points lies together, `t[j * stride + i]`, with
//! the number of points padded to a multiple of [`LANES`]. A kernel then treats [`LANES`] points at once
//! with plain array loops, which the compiler turns into the widest vector instructions available.

use pulp::{Arch, Simd, WithSimd};

/// Points that a kernel treats together.
pub const LANES: usize = 8;
/// Below this `exp` is zero.
const UNDERFLOW: f64 = -745.2;

/// `exp(x)`, with the same bits, but without the library's slow path where it is zero: most components are far from most
/// points.
#[inline]
pub(crate) fn exp(x: f64) -> f64 {
    if x < UNDERFLOW { 0.0 } else { x.exp() }
}

/// Largest dimension for the kernels on lanes; above it matrix products win.
pub const MAX_DIM: usize = 32;
/// Output coordinates that share one pass over the inputs.
const ROWS: usize = 4;

type Lane = [f64; LANES];

/// Padded number of points.
pub fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// Transposes points (`n` x `d`, one after the other) into `t`; padding repeats the last point.
pub fn transpose(t: &mut [f64], points: &[f64], d: usize) {
    let n = points.len() / d;
    let stride = padded(n);
    for (i, z) in points.chunks_exact(d).enumerate() {
        for (j, z) in z.iter().enumerate() {
            t[j * stride + i] = *z;
        }
    }
    for row in t.chunks_exact_mut(stride).take(d) {
        let last = row[n - 1];
        row[n..].fill(last);
    }
}

/// `out = w * x`, one weight for each point.
pub fn scale(out: &mut [f64], x: &[f64], w: &[f64]) {
    for (out, x) in out.chunks_exact_mut(w.len()).zip(x.chunks_exact(w.len())) {
        for ((out, x), w) in out.iter_mut().zip(x).zip(w) {
            *out = w * x;
        }
    }
}

#[inline(always)]
fn lane(t: &[f64], at: usize) -> &Lane {
    t[at..].first_chunk().expect("padded to whole lanes")
}

#[inline(always)]
fn lane_mut(t: &mut [f64], at: usize) -> &mut Lane {
    t[at..].first_chunk_mut().expect("padded to whole lanes")
}

/// `y = (z - mean) L` and `quad = |y|^2`, for lower-triangular `l` of dimension `d <= MAX_DIM`.
pub fn whiten(y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], l: &[f64], stride: usize) {
    // A type of its own: a closure would be compiled apart, without the vector instructions.
    struct Whiten<'a>(&'a mut [f64], &'a mut [f64], &'a [f64], &'a [f64], &'a [f64], usize);
    impl WithSimd for Whiten<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(y, quad, z, mean, l, stride) = self;
            match mean.len() {
                1 => whiten_blocks::<1>(y, quad, z, mean, l, stride),
                2 => whiten_blocks::<2>(y, quad, z, mean, l, stride),
                3 => whiten_blocks::<3>(y, quad, z, mean, l, stride),
                _ => whiten_blocks::<0>(y, quad, z, mean, l, stride),
            }
        }
    }
    Arch::new().dispatch(Whiten(y, quad, z, mean, l, stride));
}

/// `out = log_norm - |(z - mean) L|^2 / 2` for points one after the other (not transposed), `d <= MAX_DIM`.
pub fn log_density(out: &mut [f64], points: &[f64], mean: &[f64], l: &[f64], log_norm: f64) {
    struct LogDensity<'a>(&'a mut [f64], &'a [f64], &'a [f64], &'a [f64], f64);
    impl WithSimd for LogDensity<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(out, points, mean, l, log_norm) = self;
            match mean.len() {
                1 => log_density_blocks::<1>(out, points, mean, l, log_norm),
                2 => log_density_blocks::<2>(out, points, mean, l, log_norm),
                3 => log_density_blocks::<3>(out, points, mean, l, log_norm),
                _ => log_density_blocks::<0>(out, points, mean, l, log_norm),
            }
        }
    }
    Arch::new().dispatch(LogDensity(out, points, mean, l, log_norm));
}

/// `D` fixes the dimension at compile time; zero leaves it to `mean`.
#[inline(always)]
fn log_density_blocks<const D: usize>(out: &mut [f64], points: &[f64], mean: &[f64], l: &[f64], log_norm: f64) {
    let d = if D == 0 { mean.len() } else { D };
    let mut delta = [[0.0; LANES]; MAX_DIM];
    for (out, points) in out.chunks_mut(LANES).zip(points.chunks(LANES * d)) {
        if out.len() == LANES {
            for c in 0..LANES {
                let z = &points[c * d..(c + 1) * d];
                for j in 0..d {
                    delta[j][c] = z[j] - mean[j];
                }
            }
        } else {
            // The last points: the lanes beyond them keep what they held, finite or not, and are not read.
            for (c, z) in points.chunks_exact(d).enumerate() {
                for j in 0..d {
                    delta[j][c] = z[j] - mean[j];
                }
            }
        }
        let quad = whiten_block::<D>(&delta, l, d, |_, _| ());
        for (out, quad) in out.iter_mut().zip(quad) {
            *out = log_norm - 0.5 * quad;
        }
    }
}

/// `D` fixes the dimension at compile time; zero leaves it to `mean`.
#[inline(always)]
fn whiten_blocks<const D: usize>(y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], l: &[f64], stride: usize) {
    let d = if D == 0 { mean.len() } else { D };
    let mut delta = [[0.0; LANES]; MAX_DIM];
    for at in (0..stride).step_by(LANES) {
        for j in 0..d {
            let z = lane(z, j * stride + at);
            for c in 0..LANES {
                delta[j][c] = z[c] - mean[j];
            }
        }
        *lane_mut(quad, at) = whiten_block::<D>(&delta, l, d, |i, row| *lane_mut(y, i * stride + at) = *row);
    }
}

/// Rows of `y = delta L`, handed to `store` one by one, and their sum of squares.
#[inline(always)]
fn whiten_block<const D: usize>(
    delta: &[Lane; MAX_DIM],
    l: &[f64],
    d: usize,
    mut store: impl FnMut(usize, &Lane),
) -> Lane {
    let d = if D == 0 { d } else { D };
    let mut sum: Lane = [0.0; LANES];
    let mut i = 0;
    while i + ROWS <= d {
        let mut acc = [[0.0; LANES]; ROWS];
        // The corner of the triangle, then the rows that all outputs share.
        for (r, acc) in acc.iter_mut().enumerate() {
            for j in i + r..i + ROWS {
                let factor = l[(i + r) * d + j];
                for c in 0..LANES {
                    acc[c] = factor.mul_add(delta[j][c], acc[c]);
                }
            }
        }
        for (j, delta) in delta.iter().enumerate().take(d).skip(i + ROWS) {
            for (r, acc) in acc.iter_mut().enumerate() {
                let factor = l[(i + r) * d + j];
                for c in 0..LANES {
                    acc[c] = factor.mul_add(delta[c], acc[c]);
                }
            }
        }
        for (r, acc) in acc.iter().enumerate() {
            for c in 0..LANES {
                sum[c] = acc[c].mul_add(acc[c], sum[c]);
            }
            store(i + r, acc);
        }
        i += ROWS;
    }
    for i in i..d {
        let mut acc: Lane = [0.0; LANES];
        for j in i..d {
            let factor = l[i * d + j];
            for c in 0..LANES {
                acc[c] = factor.mul_add(delta[j][c], acc[c]);
            }
        }
        for c in 0..LANES {
            sum[c] = acc[c].mul_add(acc[c], sum[c]);
        }
        store(i, &acc);
    }
    sum
}

/// `out += (scale * y) L'`, with one `scale` per point; blocks whose scales are all zero cost nothing.
pub fn add_scaled_times_factor(out: &mut [f64], scale: &[f64], y: &[f64], l: &[f64], d: usize, stride: usize) {
    struct Add<'a>(&'a mut [f64], &'a [f64], &'a [f64], &'a [f64], usize, usize);
    impl WithSimd for Add<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(out, scale, y, l, d, stride) = self;
            add_scaled_blocks(out, scale, y, l, d, stride);
        }
    }
    Arch::new().dispatch(Add(out, scale, y, l, d, stride));
}

#[inline(always)]
fn add_scaled_blocks(out: &mut [f64], scale: &[f64], y: &[f64], l: &[f64], d: usize, stride: usize) {
    let mut scaled = [[0.0; LANES]; MAX_DIM];
    for at in (0..stride).step_by(LANES) {
        let scale = lane(scale, at);
        if scale.iter().all(|x| *x == 0.0) {
            continue;
        }
        for (i, scaled) in scaled.iter_mut().enumerate().take(d) {
            let y = lane(y, i * stride + at);
            for c in 0..LANES {
                scaled[c] = scale[c] * y[c];
            }
        }
        let mut j = 0;
        while j + ROWS <= d {
            let mut acc = [[0.0; LANES]; ROWS];
            for (i, scaled) in scaled.iter().enumerate().take(j) {
                for (r, acc) in acc.iter_mut().enumerate() {
                    let factor = l[i * d + j + r];
                    for c in 0..LANES {
                        acc[c] = factor.mul_add(scaled[c], acc[c]);
                    }
                }
            }
            for (r, acc) in acc.iter_mut().enumerate() {
                for i in j..=j + r {
                    let factor = l[i * d + j + r];
                    for c in 0..LANES {
                        acc[c] = factor.mul_add(scaled[i][c], acc[c]);
                    }
                }
                let out = lane_mut(out, (j + r) * stride + at);
                for c in 0..LANES {
                    out[c] += acc[c];
                }
            }
            j += ROWS;
        }
        for j in j..d {
            let mut acc: Lane = [0.0; LANES];
            for i in 0..=j {
                let factor = l[i * d + j];
                for c in 0..LANES {
                    acc[c] = factor.mul_add(scaled[i][c], acc[c]);
                }
            }
            let out = lane_mut(out, j * stride + at);
            for c in 0..LANES {
                out[c] += acc[c];
            }
        }
    }
}
