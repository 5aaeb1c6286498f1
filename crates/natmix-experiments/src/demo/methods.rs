//! Every named method on the same small network: ELBO, evaluations, seconds.

use super::{POINTS, START_SPREAD};
use anyhow::Result;
use natmix::config::Finish;
use natmix::estimate::Estimator;
use natmix::target::Target;
use natmix::{Config, Fit, Method, Parts};
use natmix_app::networks::engine::random_start;
use natmix_nets::Mlp;
use serde::Serialize;

/// Evaluations that each method gets.
const EVALS: u64 = 12_000;
/// Components of the methods for mixtures.
const COMPONENTS: usize = 3;
/// Fresh draws for the ELBO.
const ELBO_DRAWS: usize = 4_000;

/// What one method reached.
#[derive(Debug, Serialize)]
pub struct MethodRow {
    pub method: &'static str,
    pub about: &'static str,
    pub components: usize,
    pub elbo: f64,
    pub elbo_se: f64,
    pub evals: u64,
    pub iterations: u64,
    pub seconds: f64,
}

/// Runs every method from the same start with the same number of evaluations.
pub fn compare(network: &Mlp, seed: u64) -> Result<Vec<MethodRow>> {
    let mut rows = Vec::new();
    // `auto` is left out: it is not one of the composed methods.
    for (method, name, about) in Method::ALL.into_iter().filter(|entry| entry.0 != Method::Auto) {
        let components = match method {
            Method::MixtureDraws | Method::ComponentDraws => COMPONENTS,
            _ => 1,
        };
        let settings = Config::new(method).with_components(components);
        let settings = Config {
            max_evals: Some(EVALS),
            tolerance: 1e-3,
            diagnostic_draws: ELBO_DRAWS,
            finish: Finish::Never,
            seed,
            ..settings.with_parts(|parts| Parts {
                estimator: match method {
                    // A network of max(x, 0) units offers no exact Hessian; its Gauss-Newton matrix is used instead.
                    Method::Von => Estimator::GaussNewton,
                    _ => parts.estimator,
                },
                draws_per_component: match method {
                    Method::Bbvi => 200,
                    Method::Von | Method::Vogn => 20,
                    _ => POINTS,
                },
                // Small steps: with larger ones the precision of a 41-dimensional Gaussian soon stops being positive
                // definite.
                rate: match method {
                    Method::Von | Method::Ngvi | Method::MixtureDraws => 0.03,
                    _ => parts.rate,
                },
                ..parts
            })
        };
        let start = random_start(components, settings.covariance, network.dim(), START_SPREAD, seed)?;
        let fitted = Fit::new(network, settings).start(start).run()?;
        let elbo = fitted.diagnostics.as_ref().map(|d| d.elbo);
        rows.push(MethodRow {
            method: name,
            about,
            components,
            elbo: elbo.map_or(f64::NAN, |e| e.mean),
            elbo_se: elbo.map_or(f64::NAN, |e| e.se),
            evals: fitted.evals,
            iterations: fitted.iterations,
            seconds: fitted.seconds,
        });
    }
    Ok(rows)
}
