//! Full covariances for small regression networks: trained components go on as full Gaussians in the engine.
//!
//! Components of a trained mixture lie so far apart that `log q` does not couple them, so each goes on alone and keeps its weight.

use anyhow::Result;
use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::family::{Gaussian, Mixture, Precision};
use natmix::target::Shape;
use natmix::{Config, Fit, Method};
use natmix_models::Observations;
use natmix_nets::{Examples, Mlp, Network};

/// Iterations: enough for the falling step to forget the start, where Gauss-Newton matrices make each of them count.
const ITERATIONS: u64 = 150;

/// Starts at the means and precisions of `q`, and seeks the best ELBO under the prior with full covariances and Gauss-Newton curvature.
pub fn refine(
    network: &Network,
    train: &Examples,
    q: &Mixture,
    prior_precision: f64,
    (seed, threads): (u64, usize),
) -> Result<Mixture> {
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect();
    let rows = Observations::new(wide(train.x()), network.inputs(), wide(train.outcome()))?;
    let target = Mlp::new(network.clone(), rows, &[prior_precision.sqrt().recip()])?;
    let config = Config {
        covariance: Shape::Full,
        estimator: Estimator::GaussNewton,
        draws: Plan::Antithetic,
        draws_per_component: 2,
        rate: 0.3,
        decay: 0.5,
        tolerance: f64::MIN_POSITIVE,
        max_iterations: ITERATIONS,
        diagnostic_draws: 0,
        seed,
        threads,
        ..Config::new(Method::Von)
    };
    let components = q.components().iter().map(|component| {
        let start = Mixture::single(Gaussian::new(component.mean().to_vec(), full(component)?));
        let fitted = Fit::new(&target, config.clone()).start(start).run()?;
        Ok(fitted.mixture.components()[0].clone())
    });
    Ok(Mixture::new(&q.weights(), components.collect::<Result<_>>()?)?)
}

/// The diagonal precision of a component as a full matrix.
fn full(component: &Gaussian) -> Result<Precision> {
    let d = component.mean().len();
    let mut entries = vec![0.0; d * d];
    entries.iter_mut().step_by(d + 1).zip(component.precision().matrix()).for_each(|(to, s)| *to = *s);
    Precision::from_matrix(d, entries).map_err(|i| anyhow::anyhow!("the precision of weight {i} is not positive"))
}
