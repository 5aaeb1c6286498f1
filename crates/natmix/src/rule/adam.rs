//! Adam on the Euclidean parameters of black-box VI: logit, mean, and factor with logarithmic diagonal.

use super::{Skipped, StepInfo, finite};
use crate::family::Gaussian;
use crate::workspace::Scratch;

/// Decay of the second moment and the constant added to its root, as in the paper that introduced Adam.
const SECOND_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;
/// Gradients are clipped at this size.
const MOST_GRADIENT: f64 = 1e50;
/// Largest change of a log-diagonal at once.
const MOST_LOG_STEP: f64 = 1.0;

/// Running moments of one component's gradients: logit, mean, factor.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamState {
    /// Means of the gradients.
    pub first: Vec<f64>,
    /// Means of their squares.
    pub second: Vec<f64>,
}

impl AdamState {
    /// Zero moments for one component with `factor_len` factor entries.
    pub fn new(dim: usize, factor_len: usize) -> Self {
        let len = 1 + dim + factor_len;
        Self { first: vec![0.0; len], second: vec![0.0; len] }
    }
}

/// Moves `component` along the gradients (logit, mean, factor); returns the step of the logit as well.
#[allow(clippy::too_many_arguments)]
pub fn step(
    component: &mut Gaussian,
    state: &mut AdamState,
    (logit, mean, factor): (f64, &[f64], &[f64]),
    rate: f64,
    momentum: f64,
    iteration: u64,
    scratch: &mut Scratch,
) -> (StepInfo, f64) {
    if !(logit.is_finite() && finite(mean, factor)) {
        return (StepInfo::skipped(Skipped::NotFinite), 0.0);
    }
    let t = iteration.min(1 << 20) as i32;
    let (bias1, bias2) = (1.0 - momentum.powi(t), 1.0 - SECOND_DECAY.powi(t));
    let mut steps = scratch.take(state.first.len());
    let gradients = std::iter::once(&logit).chain(mean).chain(factor);
    for (((g, first), second), step) in gradients.zip(&mut state.first).zip(&mut state.second).zip(steps.iter_mut()) {
        // A square that overflows, or comes near it, would freeze the coordinate forever.
        let g = g.clamp(-MOST_GRADIENT, MOST_GRADIENT);
        *first = momentum * *first + (1.0 - momentum) * g;
        *second = SECOND_DECAY * *second + (1.0 - SECOND_DECAY) * g * g;
        *step = rate * (*first / bias1) / ((*second / bias2).sqrt() + EPSILON);
    }
    let d = mean.len();
    let info = component.update(|mean, prec| {
        let (shift, turn) = steps[1..].split_at(d);
        let moved = prec.factor_step(mean, shift, turn, MOST_LOG_STEP, scratch);
        if moved { StepInfo::taken(rate) } else { StepInfo::skipped(Skipped::NotFinite) }
    });
    // All of it moves, or nothing.
    let logit_step = if info.skipped.is_none() { steps[0] } else { 0.0 };
    scratch.give(steps);
    (info, logit_step)
}
