//! Arithmetic on the same quantity of several points at once: plain loops over arrays, which the compiler turns into vector
//! instructions if it knows that nothing else lies in the same memory. So everything is copied to local arrays first.

/// Points that are evaluated together.
pub(super) const LANES: usize = 8;

/// One number for each of these points.
pub(super) type Lane = [f64; LANES];

/// The lane at position `at` of a run of lanes.
#[inline(always)]
pub(super) fn lane(lanes: &[f64], at: usize) -> &Lane {
    lanes[at * LANES..].first_chunk().expect("whole lanes")
}

/// The lane at position `at` of a run of lanes, to be changed.
#[inline(always)]
pub(super) fn lane_mut(lanes: &mut [f64], at: usize) -> &mut Lane {
    lanes[at * LANES..].first_chunk_mut().expect("whole lanes")
}

/// Calls `f` with the number of each lane.
#[inline(always)]
pub(super) fn each(mut f: impl FnMut(usize) -> f64) -> Lane {
    let mut out = [0.0; LANES];
    for (c, out) in out.iter_mut().enumerate() {
        *out = f(c);
    }
    out
}

/// `sum += factor * x`.
#[inline(always)]
pub(super) fn add(sum: &mut Lane, factor: f64, x: &Lane) {
    let (mut local, x) = (*sum, *x);
    for c in 0..LANES {
        local[c] = factor.mul_add(x[c], local[c]);
    }
    *sum = local;
}

/// `sum += x * y`.
#[inline(always)]
pub(super) fn add_product(sum: &mut Lane, x: &Lane, y: &Lane) {
    let (mut local, x, y) = (*sum, *x, *y);
    for c in 0..LANES {
        local[c] = x[c].mul_add(y[c], local[c]);
    }
    *sum = local;
}
