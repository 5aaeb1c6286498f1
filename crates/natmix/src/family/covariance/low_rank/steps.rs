//! Steps of a low-rank covariance: more directions are added, and those that matter most are kept.

use super::{LowRank, dot, fits};
use crate::family::Covariance;
use crate::family::covariance::InverseRate;
use crate::linalg::{self, Transpose};
use crate::rule::{Skipped, StepInfo, finite, move_both};
use crate::workspace::Scratch;

/// Share of its length that a vector must have beside the others to count as another direction.
const APART: f64 = 1e-9;
/// Divergence below which a direction is not worth keeping: it is rounding.
const NEGLIGIBLE: f64 = 1e-24;
/// Largest share of a precision that one step of [`newton`] takes away.
const MOST_WIDENED: f64 = 0.95;
/// Times that a step is halved where the new precision is not positive definite.
const HALVINGS: usize = 40;

/// The parts of curvature in the layout of the module page: diagonal, vectors and coefficients.
fn split(h: &[f64], d: usize) -> (&[f64], &[f64], &[f64]) {
    let (diagonal, rest) = h.split_at(d);
    let (vectors, coefficients) = rest.split_at(rest.len() / (d + 1) * d);
    (diagonal, vectors, coefficients)
}

/// Orthonormal vectors that span `columns`, in place, by Gram and Schmidt, twice; `coordinates` (`m * m`, column after column)
/// are those of the old columns. Returns how many vectors there are; they come first.
fn orthonormalise(columns: &mut [f64], coordinates: &mut [f64], d: usize, m: usize) -> usize {
    let mut found = 0;
    coordinates.fill(0.0);
    for at in 0..m {
        let (done, rest) = columns.split_at_mut(at * d);
        let own = &mut coordinates[at * m..(at + 1) * m];
        let x = &mut rest[..d];
        let before = dot(x, x).sqrt();
        for _ in 0..2 {
            for (q, coordinate) in done.chunks_exact(d).take(found).zip(own.iter_mut()) {
                let along = dot(q, x);
                *coordinate += along;
                x.iter_mut().zip(q).for_each(|(x, q)| *x -= along * q);
            }
        }
        let left = dot(x, x).sqrt();
        if left > APART * before {
            x.iter_mut().for_each(|x| *x /= left);
            own[found] = left;
            if found < at {
                columns.copy_within(at * d..(at + 1) * d, found * d);
            }
            found += 1;
        }
    }
    found
}

/// Takes from orthonormal `vectors` with these `values` those that matter most: by the divergence between Gaussians with and
/// without them.
pub(super) fn keep_most(own: &mut LowRank, vectors: &[f64], values: &[f64]) {
    let d = own.dim();
    let worth = |i: usize| (values[i] - 1.0).powi(2) / values[i];
    own.directions.fill(0.0);
    own.values.fill(1.0);
    let (mut least, mut last) = (f64::INFINITY, 0);
    for (kept, direction) in own.values.iter_mut().zip(own.directions.chunks_exact_mut(d)) {
        let left = (0..values.len()).filter(|&i| worth(i) < least || worth(i) == least && i > last);
        let best = left.reduce(|a, b| if worth(b) > worth(a) { b } else { a });
        let Some(best) = best.filter(|&i| worth(i) > NEGLIGIBLE) else { break };
        *kept = values[best];
        direction.copy_from_slice(&vectors[best * d..(best + 1) * d]);
        (least, last) = (worth(best), best);
    }
}

/// Makes the directions those of `I + sum_i f_i x_i x_i'` with the vectors `x` in `columns`, which are overwritten. Returns
/// whether that is positive definite; if not, nothing changes.
pub(super) fn set_directions(own: &mut LowRank, columns: &mut [f64], f: &[f64], scratch: &mut Scratch) -> bool {
    let (d, m) = (own.dim(), f.len());
    let mut coordinates = scratch.take_used(m * m);
    let found = orthonormalise(columns, &mut coordinates, d, m);
    // X diag(f) X' in the orthonormal basis, then its eigenvectors.
    let mut inner = scratch.take(found * found);
    for (x, f) in coordinates.chunks_exact(m.max(1)).zip(f) {
        for (column, a) in inner.chunks_exact_mut(found.max(1)).zip(x) {
            column.iter_mut().zip(x).for_each(|(sum, b)| *sum += f * a * b);
        }
    }
    let (mut values, mut turned) = (scratch.take(found), scratch.take(found * found));
    let mut vectors = scratch.take_used(found * d);
    let good = found == 0
        || linalg::symmetric_eigen(&mut values, &mut turned, &inner, found, &mut scratch.memory)
            && values.iter().all(|x| fits(1.0 + x));
    if good {
        values.iter_mut().for_each(|x| *x += 1.0);
        if found > 0 {
            linalg::product(&mut vectors, false, 1.0, columns, Transpose::No, &turned, (d, found, found));
        }
        keep_most(own, &vectors, &values);
    }
    for buffer in [coordinates, inner, values, turned, vectors] {
        scratch.give(buffer);
    }
    good
}

/// Makes the precision `diag(prec) + R V diag(v - 1) V' R + sum_i f_i w_i w_i'`, if that is positive definite.
fn set(own: &mut LowRank, prec: &[f64], w: &[f64], f: &[f64], scratch: &mut Scratch) -> bool {
    if !prec.iter().all(|x| fits(*x)) {
        return false;
    }
    let (d, used) = (own.dim(), own.used());
    let m = used + f.iter().filter(|x| **x != 0.0).count();
    let (mut columns, mut strengths) = (scratch.take_used(m * d), scratch.take_used(m));
    let (mut root, mut ratio) = (scratch.take_used(d), scratch.take_used(d));
    for (((root, ratio), old), new) in root.iter_mut().zip(&mut ratio).zip(&own.root).zip(prec) {
        *root = new.sqrt();
        *ratio = old / *root;
    }
    let (old, more) = columns.split_at_mut(used * d);
    for (to, v) in old.chunks_exact_mut(d).zip(own.directions.chunks_exact(d)) {
        to.iter_mut().zip(v).zip(&ratio).for_each(|((to, v), ratio)| *to = v * ratio);
    }
    strengths.iter_mut().zip(&own.values).take(used).for_each(|(s, v)| *s = v - 1.0);
    let strong = w.chunks_exact(d).zip(f).filter(|(_, f)| **f != 0.0);
    for ((to, strength), (w, f)) in more.chunks_exact_mut(d).zip(&mut strengths[used..]).zip(strong) {
        to.iter_mut().zip(w).zip(&root).for_each(|((to, w), root)| *to = w / root);
        *strength = *f;
    }
    let good = set_directions(own, &mut columns, &strengths, scratch);
    if good {
        own.prec.copy_from_slice(prec);
        own.root.copy_from_slice(&root);
    }
    for buffer in [columns, strengths, root, ratio] {
        scratch.give(buffer);
    }
    good
}

/// A copy of a covariance in lent buffers, to go back to.
struct Backup([Vec<f64>; 4]);

impl Backup {
    fn of(own: &LowRank, scratch: &mut Scratch) -> Self {
        Self([&own.prec, &own.root, &own.directions, &own.values].map(|from| {
            let mut to = scratch.take_used(from.len());
            to.copy_from_slice(from);
            to
        }))
    }

    fn restore(&self, own: &mut LowRank) {
        let fields = [&mut own.prec, &mut own.root, &mut own.directions, &mut own.values];
        fields.into_iter().zip(&self.0).for_each(|(to, from)| to.copy_from_slice(from));
    }

    fn release(self, scratch: &mut Scratch) {
        self.0.into_iter().for_each(|buffer| scratch.give(buffer));
    }
}

/// [`Covariance::natural_step`].
pub(super) fn natural(
    own: &mut LowRank,
    mean: &mut [f64],
    (g, h): (&[f64], &[f64]),
    rate: f64,
    scratch: &mut Scratch,
) -> bool {
    let d = own.dim();
    let (diagonal, w, coefficients) = split(h, d);
    let (mut prec, mut shift) = (scratch.take_used(d), scratch.take_used(d));
    let mut f = scratch.take_used(coefficients.len());
    for ((new, old), h) in prec.iter_mut().zip(&own.prec).zip(diagonal) {
        *new = old - rate * h;
    }
    f.iter_mut().zip(coefficients).for_each(|(f, c)| *f = -rate * c);
    let backup = Backup::of(own, scratch);
    let mut moved = set(own, &prec, w, &f, scratch);
    if moved {
        shift.iter_mut().zip(g).for_each(|(s, g)| *s = rate * g);
        own.solve(&mut shift);
        moved = move_both(mean, &shift, || true);
        if !moved {
            backup.restore(own);
        }
    }
    backup.release(scratch);
    for buffer in [prec, shift, f] {
        scratch.give(buffer);
    }
    moved
}

/// A whole step with the curvature that a regression has found around the mean, for a start: no scale and no direction gets
/// wider than a bound allows, since an estimate beyond it is noise. Returns the root mean square of what the scales changed by,
/// or the largest change along a direction.
pub(super) fn newton(own: &mut LowRank, curvature: &mut [f64], scratch: &mut Scratch) -> f64 {
    let d = own.dim();
    let (diagonal, rest) = curvature.split_at_mut(d);
    let coefficients = rest.len() / (d + 1) * d;
    for (h, s) in diagonal.iter_mut().zip(&own.prec) {
        *h = h.min(MOST_WIDENED * s);
    }
    rest[coefficients..].iter_mut().for_each(|c| *c = c.min(MOST_WIDENED));
    let squares: f64 = diagonal.iter().zip(&own.prec).map(|(h, s)| (h / s).powi(2)).sum();
    let change = rest[coefficients..].iter().fold((squares / d as f64).sqrt(), |most, c| most.max(c.abs()));
    let (zero, mut mean) = (scratch.take(d), scratch.take(d));
    let mut rate = 1.0;
    for _ in 0..HALVINGS {
        if natural(own, &mut mean, (&zero, curvature), rate, scratch) {
            break;
        }
        rate *= 0.5;
    }
    scratch.give(zero);
    scratch.give(mean);
    change
}

/// [`Covariance::improved_step`], with a diagonal `H`.
pub(super) fn improved(
    own: &mut LowRank,
    mean: &mut [f64],
    (g, h): (&[f64], &[f64]),
    rate: &dyn Fn(f64) -> f64,
    scratch: &mut Scratch,
) -> StepInfo {
    let d = own.dim();
    let (h, ..) = split(h, d);
    let variances = own.variances();
    let norm = h.iter().zip(&variances).map(|(h, variance)| (h * variance).powi(2)).sum::<f64>().sqrt();
    if !norm.is_finite() {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    let t = rate(norm);
    // H S^-1 H: a diagonal, and the directions H R^-1 V.
    let prec: Vec<f64> = h.iter().zip(&own.prec).map(|(h, s)| s - t * h + 0.5 * t * t * h * h / s).collect();
    let vectors: Vec<f64> =
        own.directions().flat_map(|(v, _)| v.iter().zip(h).zip(&own.root).map(|((v, h), r)| v * h / r)).collect();
    let f: Vec<f64> = own.directions().map(|(_, value)| 0.5 * t * t * (value.recip() - 1.0)).collect();
    let mut shift: Vec<f64> = g.iter().map(|g| t * g).collect();
    own.solve(&mut shift);
    if move_both(mean, &shift, || set(own, &prec, &vectors, &f, scratch)) {
        StepInfo::taken(t)
    } else {
        StepInfo::skipped(Skipped::NotPositiveDefinite)
    }
}

/// [`Covariance::spectral_step`]. The eigenvalues are those in the span of old and new directions, and the diagonal as that
/// of all the rest: exact but for the few coordinates' worth of the span that the diagonal counts again.
pub(super) fn spectral(
    own: &mut LowRank,
    mean: &mut [f64],
    (g, h): (&[f64], &[f64]),
    eta: &InverseRate<'_>,
    scratch: &mut Scratch,
) -> StepInfo {
    let (d, used) = (own.dim(), own.used());
    let (diagonal, w, coefficients) = split(h, d);
    let m = used + coefficients.len();
    let mut basis = scratch.take_used(m * d);
    basis[..used * d].copy_from_slice(&own.directions[..used * d]);
    basis[used * d..].copy_from_slice(w);
    for q in basis[used * d..].chunks_exact_mut(d) {
        // L^-1 w.
        q.iter_mut().zip(&own.root).for_each(|(q, root)| *q /= root);
        own.stretch_point(q, |v| v.sqrt().recip());
    }
    let mut coordinates = scratch.take_used(m * m);
    let found = orthonormalise(&mut basis, &mut coordinates, d, m);
    let mut lam = scratch.take_used(d + found);
    let mut c = scratch.take_used(d + found);
    // The whitened gradient, and its part beside the span.
    for ((c, g), root) in c.iter_mut().zip(g).zip(&own.root) {
        *c = g / root;
    }
    own.stretch_point(&mut c[..d], |v| v.sqrt().recip());
    let mut along = scratch.take(found);
    for (q, along) in basis.chunks_exact(d).zip(along.iter_mut()) {
        *along = dot(q, &c[..d]);
        c[..d].iter_mut().zip(q).for_each(|(c, q)| *c -= *along * q);
    }
    for ((lam, h), s) in lam.iter_mut().zip(diagonal).zip(&own.prec) {
        *lam = -h / s;
    }
    // -B' L^-1 H L^-T B.
    for q in basis.chunks_exact_mut(d).take(found) {
        own.stretch_point(q, |v| v.sqrt().recip());
        q.iter_mut().zip(&own.root).for_each(|(q, root)| *q /= root);
    }
    let mut inner = scratch.take(found * found);
    let mut weighted = scratch.take_used(d);
    for i in 0..found {
        let a = &basis[i * d..(i + 1) * d];
        weighted.iter_mut().zip(a).zip(diagonal).for_each(|((x, a), h)| *x = a * h);
        for (w, coefficient) in w.chunks_exact(d).zip(coefficients).filter(|(_, c)| **c != 0.0) {
            let product = coefficient * dot(w, a);
            weighted.iter_mut().zip(w).for_each(|(x, w)| *x += product * w);
        }
        for j in 0..=i {
            let product = -dot(&basis[j * d..(j + 1) * d], &weighted);
            (inner[i + j * found], inner[j + i * found]) = (product, product);
        }
    }
    let mut turned = scratch.take(found * found);
    let mut info = StepInfo::skipped(Skipped::NotFinite);
    let solved = found == 0 || linalg::symmetric_eigen(&mut lam[d..], &mut turned, &inner, found, &mut scratch.memory);
    if solved && finite(&lam[..d], &c[..d]) {
        if found > 0 {
            linalg::product(&mut c[d..], false, 1.0, &turned, Transpose::Yes, &along, (found, found, 1));
        }
        if let Some(first) = eta(&lam, &c) {
            info = StepInfo::skipped(Skipped::NotPositiveDefinite);
            let mut rate = first.recip();
            for _ in 0..HALVINGS {
                if natural(own, mean, (g, h), rate, scratch) {
                    info = StepInfo::taken(rate);
                    break;
                }
                rate *= 0.5;
            }
        }
    }
    for buffer in [basis, coordinates, lam, c, along, inner, weighted, turned] {
        scratch.give(buffer);
    }
    info
}
