//! The largest plain step within a KL ball: the smallest `eta >= 1` with `KL(N_new || N_old) <= eps`, step `1/eta`.
//!
//! With `S = LL'`, eigen `-L^-1 E[hess b] L^-T = U diag(lam) U'`, `c = U' L^-1 E[grad b]` and `s_i = 1 + lam_i/eta`:
//!
//! ```text
//! KL(eta) = 1/2 sum_i [ 1/s_i - 1 + log s_i + (c_i/(eta s_i))^2 ]       falling in eta
//! m_new = m + L^-T U (c/(eta s)),    S_new = L U diag(s) U' L'
//! ```
//!
//! One eigendecomposition, then O(d) for each trial of eta, exactly.
//!
//! ```
//! use natmix::family::Gaussian;
//! // Target N(3, 1/4) as on the page of the plain step, but no farther than KL 0.1 at once.
//! let old = Gaussian::isotropic(vec![0.0], 1.0);
//! let mut q = old.clone();
//! natmix::rule::trust_region::step(&mut q, &[12.0], &[-3.0], 0.1, &mut Default::default());
//! assert!((q.kl(&old) - 0.1).abs() < 1e-10);
//! ```

use super::{Skipped, StepInfo, finite};
use crate::family::Gaussian;
use crate::workspace::Scratch;

/// Factors by which a component's bound grows when its own objective rose, and shrinks when it fell: the latter faster
/// when the fall exceeds the noise, since a bound that is too large undoes many good steps at once.
const GROW: f64 = 1.15;
const SHRINK: f64 = 0.85;
const RETREAT: f64 = 0.5;
/// Standard errors beyond which a change exceeds the noise.
const CLEAR: f64 = 3.0;
/// Bound above which only clear gains let it grow: a step of this size is as large as the component itself.
const CAREFUL: f64 = 1.0;
/// Limits of the bound.
pub(crate) const LEAST: f64 = 1e-5;
pub(crate) const MOST: f64 = 1e3;
/// Trials: 2^-60 of the bracket is below rounding.
const BISECTIONS: usize = 60;

/// The bound for the next iteration, given by how much the component's own objective rose, and its standard error.
pub(crate) fn adapt(bound: f64, rise: f64, noise: f64) -> f64 {
    let clear = rise.abs() > CLEAR * noise;
    let new = match (rise > 0.0, clear) {
        (true, true) => bound * GROW,
        (true, false) => (bound * GROW).min(bound.max(CAREFUL)),
        (false, false) => bound * SHRINK,
        (false, true) => bound * RETREAT,
    };
    new.clamp(LEAST, MOST)
}

/// Moves `component` as far as `bound` allows, at most by a step of size one.
pub fn step(component: &mut Gaussian, grad: &[f64], hess: &[f64], bound: f64, scratch: &mut Scratch) -> StepInfo {
    if !finite(grad, hess) || bound.is_nan() || bound <= 0.0 {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    let eta = |lam: &[f64], c: &[f64]| smallest_eta(lam, c, bound);
    component.update(|mean, prec| prec.spectral_step(mean, grad, hess, &eta, scratch))
}

/// `KL(N_new || N_old)` at `eta`, infinite where the new precision is not positive definite.
fn kl(lam: &[f64], c: &[f64], eta: f64) -> f64 {
    let mut sum = 0.0;
    for (lam, c) in lam.iter().zip(c) {
        let x = lam / eta;
        let s = 1.0 + x;
        if s.is_nan() || s <= 0.0 {
            return f64::INFINITY;
        }
        let shift = c / eta / s;
        // 1/s - 1 + log s, in a form that keeps its digits where s is near one.
        sum += x.ln_1p() - x / s + shift * shift;
    }
    0.5 * sum
}

/// The smallest feasible `eta >= 1`, or none if there is none.
fn smallest_eta(lam: &[f64], c: &[f64], bound: f64) -> Option<f64> {
    let fits = |eta: f64| kl(lam, c, eta) <= bound;
    if fits(1.0) {
        return Some(1.0);
    }
    let mut low = 1.0_f64;
    let mut high = 2.0_f64;
    while !fits(high) {
        low = high;
        high *= 4.0;
        if !high.is_finite() {
            return None;
        }
    }
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}
