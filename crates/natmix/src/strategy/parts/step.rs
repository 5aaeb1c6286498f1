//! One component's step: its moments handed to the rule that the settings name.

use super::carried::ComponentState;
use crate::config::Parts;
use crate::estimate::Moments;
use crate::family::Gaussian;
use crate::rule::{Rule, StepInfo, adam, improved, momentum, plain, trust_region};
use crate::workspace::Scratch;

/// The step of one component.
pub(crate) struct Step<'a> {
    pub settings: &'a Parts,
    pub rate: f64,
    pub iteration: u64,
    /// Own objective `E_k[b] + log w_k`, and its standard error.
    pub objective: f64,
    pub noise: f64,
}

impl Step<'_> {
    pub fn take(
        self,
        component: &mut Gaussian,
        carried: &mut ComponentState,
        moments: &Moments,
        value: &mut f64,
        scratch: &mut Scratch,
    ) -> StepInfo {
        let Step { settings, rate, iteration, objective, noise } = self;
        let (grad, hess) = (&moments.grad[..], &moments.hess[..]);
        match settings.rule {
            Rule::Plain => plain::step(component, grad, hess, rate, scratch),
            Rule::Improved => improved::step(component, grad, hess, rate, settings.step_cap, scratch),
            Rule::TrustRegion => {
                if !carried.objective.is_nan() {
                    carried.bound = trust_region::adapt(carried.bound, objective - carried.objective, noise);
                }
                carried.objective = objective;
                trust_region::step(component, grad, hess, carried.bound, scratch)
            }
            Rule::Momentum => {
                let momentum = momentum::Momentum {
                    rate,
                    momentum: settings.momentum,
                    curvature_rate: settings.curvature_rate.unwrap_or(rate),
                    damping: settings.damping,
                    iteration,
                };
                momentum::step(component, &mut carried.velocity, grad, hess, momentum, scratch)
            }
            Rule::Adam => {
                let gradients = (moments.value, grad, hess);
                let (info, logit) =
                    adam::step(component, &mut carried.adam, gradients, rate, settings.momentum, iteration, scratch);
                *value = logit;
                info
            }
        }
    }
}
