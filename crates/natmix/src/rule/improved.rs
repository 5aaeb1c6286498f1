//! The improved step: `m <- m + t S^-1 E[grad b]` with the old S, `S <- S + t G + t^2/2 G S^-1 G`, `G = -E[hess b]`.
//!
//! The new precision is `(S + U'U)/2` with `U = L' + t L^-1 G`, positive definite for every symmetric G and never
//! below `S/2`. The step is scaled so that `|t L^-1 G L^-T|` stays under a cap, since it overshoots beyond.
//!
//! ```
//! use natmix::family::Gaussian;
//! let mut q = Gaussian::isotropic(vec![0.0], 1.0);
//! natmix::rule::improved::step(&mut q, &[1.0], &[-1.0], 0.5, 1.0, &mut Default::default());
//! assert_eq!(q.mean()[0], 0.5);
//! assert!((q.precision().matrix()[0] - (1.0 + 0.5 + 0.125)).abs() < 1e-15);
//! ```

use super::{Skipped, StepInfo, finite};
use crate::family::Gaussian;
use crate::workspace::Scratch;

/// Moves `component` by a step of size `rate`, or a smaller one that respects `cap`.
pub fn step(
    component: &mut Gaussian,
    grad: &[f64],
    hess: &[f64],
    rate: f64,
    cap: f64,
    scratch: &mut Scratch,
) -> StepInfo {
    if !finite(grad, hess) || !rate.is_finite() {
        return StepInfo::skipped(Skipped::NotFinite);
    }
    let capped = |norm: f64| if rate * norm > cap { cap / norm } else { rate };
    component.update(|mean, prec| prec.improved_step(mean, grad, hess, &capped, scratch))
}
