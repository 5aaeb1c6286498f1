//! One component's step: its moments handed to the rule that the settings name.

use super::carried::Carried;
use crate::config::Config;
use crate::estimate::Moments;
use crate::family::Gaussian;
use crate::rule::{Rule, StepInfo, adam, improved, momentum, plain, trust_region};
use crate::workspace::Scratch;

/// The step of one component.
pub(crate) struct Step<'a> {
    pub config: &'a Config,
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
        carried: &mut Carried,
        moments: &Moments,
        value: &mut f64,
        scratch: &mut Scratch,
    ) -> StepInfo {
        let Step { config, rate, iteration, objective, noise } = self;
        let (grad, hess) = (&moments.grad[..], &moments.hess[..]);
        match config.rule {
            Rule::Plain => plain::step(component, grad, hess, rate, scratch),
            Rule::Improved => improved::step(component, grad, hess, rate, config.step_cap, scratch),
            Rule::TrustRegion => {
                if !carried.objective.is_nan() {
                    carried.bound = trust_region::adapt(carried.bound, objective - carried.objective, noise);
                }
                carried.objective = objective;
                trust_region::step(component, grad, hess, carried.bound, scratch)
            }
            Rule::Momentum => {
                let settings = momentum::Momentum {
                    rate,
                    momentum: config.momentum,
                    curvature_rate: config.curvature_rate.unwrap_or(rate),
                    damping: config.damping,
                    iteration,
                };
                momentum::step(component, &mut carried.velocity, grad, hess, settings, scratch)
            }
            Rule::Adam => {
                let gradients = (moments.value, grad, hess);
                let (info, logit) =
                    adam::step(component, &mut carried.adam, gradients, rate, config.momentum, iteration, scratch);
                *value = logit;
                info
            }
        }
    }
}
