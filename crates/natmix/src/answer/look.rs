//! A look at a mixture while a run goes on: whether an answer from it would hold.
//!
//! A look has draws of its own. They only decide whether the run may stop; the diagnostics at its end judge with fresh ones,
//! so that stopping at the first success does not make trust cheaper.

use super::diagnose::{Measured, measure, weigh};
use super::level::{Level, NEARLY_EQUAL};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::family::Mixture;
use crate::noise::Purpose;
use crate::target::Target;
use crate::workspace::ScratchPool;

/// Draws of a look: as few as show for every parameter that the mixture is right.
pub(crate) const DRAWS: usize = 1_000;
/// Relative variance of the importance weights up to which the answer clearly holds, whatever the density is like: heavy tails
/// that draws of a Gaussian cannot see make it larger.
pub(crate) const NEARLY_EXACT: f64 = 0.01;
/// k-hat up to which weights are clearly usable.
const CLEAR_K_HAT: f64 = 0.5;
/// Most times as many draws that a weighted answer may need: about half of what the diagnostics can make.
const MOST_NEEDED: f64 = 8.0;

/// Whether an answer from `q` would clearly hold. Where the density is known to be log-concave, it has no heavy tails and no
/// further modes, so that weighted draws will do; elsewhere the mixture itself must be nearly exact.
pub(crate) fn holds(
    target: &dyn Target,
    evaluator: &mut dyn Evaluator,
    q: &Mixture,
    (seed, iteration): (u64, u64),
    scratch: &ScratchPool,
) -> Result<bool, Error> {
    let drawn = weigh(evaluator, q, (DRAWS, seed), Purpose::Look, iteration, scratch)?;
    Ok(clearly_holds(&measure(target, &drawn, false), target.is_log_concave()))
}

fn clearly_holds(measured: &Measured, log_concave: bool) -> bool {
    let Measured { weights_variance: variance, needed, .. } = *measured;
    if measured.zero + measured.failed > 0 {
        return false;
    }
    let right = measured.level == Level::Mixture;
    if log_concave {
        let usable = measured.k_hat <= CLEAR_K_HAT || variance <= NEARLY_EQUAL;
        usable && (right || needed <= MOST_NEEDED)
    } else {
        right && variance <= NEARLY_EXACT
    }
}
