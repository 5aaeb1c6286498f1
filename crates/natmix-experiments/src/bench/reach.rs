//! When a run reached its ELBO threshold.

use natmix::Error;
use natmix::observe::{Iteration, Observer};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Iterations whose mean is compared with the threshold: older ones lag behind, so the time found is rather too late.
const WINDOW: usize = 10;
/// Standard errors by which that mean must exceed the threshold.
const SIGNIFICANT: f64 = 2.0;

/// Observes a run until the mean of its last estimates is significantly above a threshold.
pub struct ThresholdObserver {
    threshold: f64,
    recent: VecDeque<(f64, f64)>,
    /// Evaluations and seconds until the threshold was reached.
    pub reached: Option<(u64, f64)>,
}

impl ThresholdObserver {
    pub fn new(threshold: f64) -> Self {
        Self { threshold, recent: VecDeque::with_capacity(WINDOW + 1), reached: None }
    }

    fn watch(&mut self, (elbo, se): (f64, f64), at: (u64, f64)) {
        if self.reached.is_some() {
            return;
        }
        self.recent.push_back((elbo, se));
        if self.recent.len() > WINDOW {
            self.recent.pop_front();
        }
        let n = self.recent.len() as f64;
        let mean = self.recent.iter().map(|(elbo, _)| elbo).sum::<f64>() / n;
        let se = self.recent.iter().map(|(_, se)| se * se).sum::<f64>().sqrt() / n;
        if self.recent.len() == WINDOW && mean - SIGNIFICANT * se >= self.threshold {
            self.reached = Some(at);
        }
    }
}

impl Observer for ThresholdObserver {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.watch((it.elbo, it.elbo_se), (it.evals, it.seconds));
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lucky_estimate_is_not_enough() {
        let mut reach = ThresholdObserver::new(-1.0);
        (0..20).for_each(|i| reach.watch((if i == 5 { 3.0 } else { -2.0 }, 0.1), (i, 0.0)));
        assert_eq!(reach.reached, None);
        (20..40).for_each(|i| reach.watch((-0.9, 0.1), (i, i as f64)));
        // The last ten are then at -0.9, 0.063 above the threshold by two standard errors.
        assert_eq!(reach.reached, Some((29, 29.0)));
    }
}
