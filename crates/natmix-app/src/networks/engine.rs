//! Small networks as targets of the engine: any method, full covariance included.

use super::data::NetworkData;
use crate::Error;
use crate::settings::{FitMethod, Settings};
use natmix::Config;
use natmix::config::{About, Finish};
use natmix::family::{CovarianceKind, Gaussian, Mixture};
use natmix::target::Target;
use natmix_models::Observations;
use natmix_nets::Mlp;
use natmix_nets::train::Optimiser;

/// Most weights that the engine fits.
const MOST_WEIGHTS: usize = 5_000;
/// Spread of the points at which components start, and each component's own standard deviation as a share of it.
const START_SPREAD: f64 = 0.7;
const OWN_SHARE: f64 = 0.4;

/// The network as a target: its weights given its data.
pub fn target(settings: &Settings, data: &NetworkData) -> Result<Mlp, Error> {
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect();
    let rows = Observations::new(wide(data.train.x()), data.network.inputs(), wide(data.train.outcome()))?;
    Ok(Mlp::new(data.network.clone(), rows.with_names(data.names.clone())?, &prior_sd(settings, data)?)?)
}

/// The engine's settings for such a target, and a start.
pub fn prepare(settings: &Settings, target: &Mlp) -> Result<(Config, Mixture), Error> {
    let weights = target.dim();
    let method = settings.fit.method.map_or("auto", FitMethod::name);
    if weights > MOST_WEIGHTS {
        let problem = format!("must be vogn, ivon or adam, not {method}, for {weights} weights");
        return Err(Error::setting("method", problem));
    }
    settings.check_engine_network(method)?;
    if settings.engine.finish == Some(Finish::Always) {
        let problem = "must not be always for networks: their predictions average over the mixture, which chains would \
                       not change (use never or auto)";
        return Err(Error::setting("finish", problem));
    }
    let spread = settings.engine.init_sd.as_ref().and_then(|sd| sd.0.first().copied()).unwrap_or(START_SPREAD);
    let about =
        About { dim: weights, rows: target.num_rows(), init: (&[0.0], &[spread]), one_mode: true, ..About::default() };
    // One Gaussian unless a number is given.
    let count = settings.engine.components.unwrap_or_default().given().unwrap_or(1);
    let config = Config { finish: Finish::Never, ..settings.config(&about)?.with_components(count) };
    // Hidden units are interchangeable: a start at the centre would not break the symmetry.
    let start = random_start(count, config.covariance, weights, spread, settings.seed())?;
    Ok((config, start))
}

/// Components at random points.
pub fn random_start(
    components: usize,
    kind: CovarianceKind,
    dim: usize,
    spread: f64,
    seed: u64,
) -> Result<Mixture, Error> {
    let means = Mixture::single(Gaussian::isotropic(vec![0.0; dim], spread)).sample(components, seed);
    let precisions = vec![(OWN_SHARE * spread).powi(-2); dim];
    let parts = means.chunks_exact(dim).map(|mean| {
        let precision = kind.with_precisions(&precisions);
        precision
            .map(|precision| Gaussian::new(mean.to_vec(), precision))
            .map_err(|_| Error::setting("init_sd", format!("must be a positive number, not {spread}")))
    });
    Ok(Mixture::new(&vec![1.0; components], parts.collect::<Result<_, Error>>()?)?)
}

/// Prior standard deviation of every weight: as given, or that of training.
fn prior_sd(settings: &Settings, data: &NetworkData) -> Result<Vec<f64>, Error> {
    let config = settings.network.train(&settings.engine, &data.network, data.train.rows(), Optimiser::Vogn)?;
    let layers = data.network.layers().iter().zip(&config.prior_precision);
    Ok(layers.flat_map(|(layer, prior)| std::iter::repeat_n(prior.sqrt().recip(), layer.end() - layer.start)).collect())
}
