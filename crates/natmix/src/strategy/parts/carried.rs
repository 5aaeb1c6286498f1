//! What each component of a composed method carries from one iteration to the next.

use crate::config::Parts;
use crate::estimate::trick::Coefficients;
use crate::family::Mixture;
use crate::rule::Rule;
use crate::rule::adam::AdamState;
use crate::save::bundle::{Layout, Tensors};
use crate::save::parts::Outline;
use crate::strategy::record::take;
use crate::target::CurvatureShape;

/// What one component carries from one iteration to the next, besides its Gaussian.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComponentState {
    /// KL bound of the trust region.
    pub bound: f64,
    /// Own objective `E_k[b] + log w_k` of the previous iteration; NaN before the first.
    pub objective: f64,
    pub trick: Coefficients,
    /// Momentum, if the rule has any.
    pub velocity: Vec<f64>,
    pub adam: AdamState,
}

impl ComponentState {
    pub fn new(mixture: &Mixture, settings: &Parts) -> Self {
        let (dim, shape) = (mixture.dim(), mixture.curvature_shape());
        Self {
            bound: settings.trust_region,
            objective: f64::NAN,
            trick: settings.entropy_trick.start(settings, dim),
            velocity: vec![0.0; if settings.rule == Rule::Momentum { dim } else { 0 }],
            adam: match settings.rule {
                Rule::Adam => AdamState::new(dim, shape.len(dim)),
                _ => AdamState { first: Vec::new(), second: Vec::new() },
            },
        }
    }
}

/// Numbers of momentum, and of each of Adam's moments, per component.
fn lens(rule: Rule, shape: CurvatureShape, dim: usize) -> (usize, usize) {
    match rule {
        Rule::Momentum => (dim, 0),
        Rule::Adam => (0, 1 + dim + shape.len(dim)),
        _ => (0, 0),
    }
}

/// Adds what all components carry to `tensors`.
pub(crate) fn save(carried: &[ComponentState], rule: Rule, mixture: &Mixture, tensors: &mut Tensors) {
    let count = carried.len();
    let (velocity, adam) = lens(rule, mixture.curvature_shape(), mixture.dim());
    let collect = |part: fn(&ComponentState) -> &[f64]| carried.iter().flat_map(part).copied().collect::<Vec<f64>>();
    let each = |part: fn(&ComponentState) -> f64| carried.iter().map(part).collect::<Vec<f64>>();
    tensors.add("bounds", vec![count], each(|carried| carried.bound));
    tensors.add("objectives", vec![count], each(|carried| carried.objective));
    tensors.add("value_tricks", vec![count], each(|carried| carried.trick.value));
    tensors.add("grad_tricks", vec![count], each(|carried| carried.trick.grad));
    tensors.add("velocities", vec![count, velocity], collect(|carried| &carried.velocity));
    tensors.add("adam_first", vec![count, adam], collect(|carried| &carried.adam.first));
    tensors.add("adam_second", vec![count, adam], collect(|carried| &carried.adam.second));
}

/// Adds the tensors of [`save`].
pub(crate) fn add_layout(layout: &mut Layout, rule: Rule, mixture: &Outline) {
    let count = mixture.ids.len();
    let (velocity, adam) = lens(rule, mixture.covariance.curvature_shape(), mixture.dim);
    for name in ["bounds", "objectives", "value_tricks", "grad_tricks"] {
        layout.push((name.into(), vec![count]));
    }
    layout.push(("velocities".into(), vec![count, velocity]));
    layout.push(("adam_first".into(), vec![count, adam]));
    layout.push(("adam_second".into(), vec![count, adam]));
}

/// What [`save`] has added.
pub(crate) fn load(rule: Rule, mixture: &Outline, tensors: &mut Tensors) -> Result<Vec<ComponentState>, String> {
    let count = mixture.ids.len();
    let (velocity, adam) = lens(rule, mixture.covariance.curvature_shape(), mixture.dim);
    let bounds = take(tensors, "bounds", |x| x.is_finite() && x > 0.0)?;
    // NaN before the first iteration.
    let objectives = take(tensors, "objectives", |_| true)?;
    let (values, grads) =
        (take(tensors, "value_tricks", f64::is_finite)?, take(tensors, "grad_tricks", f64::is_finite)?);
    let velocities = take(tensors, "velocities", f64::is_finite)?;
    let (first, second) = (take(tensors, "adam_first", f64::is_finite)?, take(tensors, "adam_second", |x| x >= 0.0)?);
    let of = |data: &[f64], k: usize, len: usize| data[k * len..][..len].to_vec();
    let carried = (0..count).map(|k| ComponentState {
        bound: bounds[k],
        objective: objectives[k],
        trick: Coefficients { value: values[k], grad: grads[k] },
        velocity: of(&velocities, k, velocity),
        adam: AdamState { first: of(&first, k, adam), second: of(&second, k, adam) },
    });
    Ok(carried.collect())
}
