//! Full covariances for small regression networks: the engine continues to fit trained components as full Gaussians.
//!
//! Components of a trained mixture lie so far apart that `log q` does not couple them, so each is fitted alone and
//! keeps its weight.

use anyhow::Result;
use natmix::draws::Plan;
use natmix::estimate::Estimator;
use natmix::family::{CovarianceKind, Full, Gaussian, Mixture};
use natmix::{Config, Fit, Method, Parts};
use natmix_models::Observations;
use natmix_nets::{Examples, Mlp, Network};

/// Iterations: enough to forget the start with decreasing steps, given accurate Gauss-Newton matrices.
const ITERATIONS: u64 = 150;

/// Starts at the means and precisions of `q`, and maximises the ELBO under the prior with full covariances and
/// Gauss-Newton curvature.
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
        covariance: CovarianceKind::Full,
        tolerance: f64::MIN_POSITIVE,
        max_iterations: ITERATIONS,
        diagnostic_draws: 0,
        seed,
        threads,
        ..Parts {
            estimator: Estimator::GaussNewton,
            draws: Plan::Antithetic,
            draws_per_component: 2,
            rate: 0.3,
            decay: 0.5,
            ..Parts::new(Method::Von)
        }
        .into()
    };
    let components = q.components().iter().map(|component| {
        let start = Mixture::single(Gaussian::new(component.mean().to_vec(), full(component)?));
        let fitted = Fit::new(&target, config.clone()).start(start).run()?;
        Ok(fitted.mixture.components()[0].clone())
    });
    Ok(Mixture::new(&q.weights(), components.collect::<Result<_>>()?)?)
}

/// The diagonal precision of a component as a full matrix.
fn full(component: &Gaussian) -> Result<Full> {
    Full::from_precision(component.dim(), &component.precision().full_matrix())
        .map_err(|i| anyhow::anyhow!("the precision of weight {i} is not positive"))
}
