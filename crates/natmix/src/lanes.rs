//! Small dense kernels over blocks of points, vectorised for the machine that runs them.
//!
//! Points are *transposed* here: coordinate `j` of all points lies together, `t[j * stride + i]`, with
//! the number of points padded to a multiple of [`LANES`]. A kernel then treats [`LANES`] points at once
//! with plain array loops, which the compiler turns into the widest vector instructions at hand.

use pulp::Arch;

/// Points that a kernel treats together.
pub const LANES: usize = 8;
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

fn lane(t: &[f64], at: usize) -> &Lane {
    t[at..].first_chunk().expect("padded to whole lanes")
}

fn lane_mut(t: &mut [f64], at: usize) -> &mut Lane {
    t[at..].first_chunk_mut().expect("padded to whole lanes")
}

/// `y = (z - mean) L` and `quad = |y|^2`, for lower-triangular `l` of dimension `d <= MAX_DIM`.
pub fn whiten(y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64], l: &[f64], stride: usize) {
    Arch::new().dispatch(
        #[inline(always)]
        || match mean.len() {
            1 => whiten_blocks::<1>(y, quad, z, mean, l, stride),
            2 => whiten_blocks::<2>(y, quad, z, mean, l, stride),
            3 => whiten_blocks::<3>(y, quad, z, mean, l, stride),
            _ => whiten_blocks::<0>(y, quad, z, mean, l, stride),
        },
    );
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
                *lane_mut(y, (i + r) * stride + at) = *acc;
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
            *lane_mut(y, i * stride + at) = acc;
        }
        *lane_mut(quad, at) = sum;
    }
}

/// `out += (scale * y) L'`, with one `scale` a point; blocks whose scales are all zero cost nothing.
pub fn add_scaled_times_factor(out: &mut [f64], scale: &[f64], y: &[f64], l: &[f64], d: usize, stride: usize) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
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
        },
    );
}
