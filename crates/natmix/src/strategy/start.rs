//! The start of a run: around the centre in the settings, or from a mixture.

use crate::config::Config;
use crate::error::Error;
use crate::family::{AnyCovariance, CovarianceKind, Gaussian, Mixture};
use crate::noise::{Noise, Purpose};

/// Whether a run in dimension `dim` can start from `mixture`; with `count` components, if that is fixed.
pub(crate) fn check_start(mixture: &Mixture, config: &Config, dim: usize, count: Option<usize>) -> Result<(), Error> {
    let number = count.is_none_or(|count| mixture.len() == count);
    if mixture.dim() != dim || mixture.covariance_kind() != config.covariance || !number {
        return Err(Error::InvalidInput(format!(
            "the start has dimension {}, {} covariance and {} components; the run needs {dim}, {} and {}",
            mixture.dim(),
            mixture.covariance_kind().name(),
            mixture.len(),
            config.covariance.name(),
            count.map_or("any number".into(), |count| count.to_string()),
        )));
    }
    if let Some(k) = mixture.components().iter().position(|component| !component.is_sound()) {
        return Err(Error::InvalidInput(format!("the start has no finite mean or precision in component {k}")));
    }
    Ok(())
}

/// Centre and spread of the start, in each of `dim` coordinates.
pub(crate) fn spread_out(config: &Config, dim: usize) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let expand = |setting: &'static str, list: &[f64]| match list.len() {
        1 => Ok(vec![list[0]; dim]),
        n if n == dim => Ok(list.to_vec()),
        n => Err(Error::Config { setting, problem: format!("has {n} numbers, but the target has dimension {dim}") }),
    };
    Ok((expand("init_mean", &config.init_mean)?, expand("init_sd", &config.init_sd)?))
}

/// The first mixture: a single component lies at the centre of the start, several are drawn around it.
pub(crate) fn first_mixture(config: &Config, count: usize, dim: usize) -> Result<Mixture, Error> {
    let (centre, sd) = spread_out(config, dim)?;
    let components = (0..count).map(|k| {
        let mut mean = vec![0.0; dim];
        if count > 1 {
            Noise::new(config.seed, Purpose::Start, k as u64, 0, 0).normals(&mut mean);
        }
        for ((m, centre), sd) in mean.iter_mut().zip(&centre).zip(&sd) {
            *m = centre + sd * *m;
        }
        Ok(Gaussian::new(mean, precision_from_sd(&sd, config.covariance)?))
    });
    Mixture::new(&vec![1.0; count], components.collect::<Result<_, Error>>()?)
}

pub(crate) fn precision_from_sd(sd: &[f64], kind: CovarianceKind) -> Result<AnyCovariance, Error> {
    let wrong =
        |i: usize| Error::Config { setting: "init_sd", problem: format!("must have finite squares, not {}", sd[i]) };
    kind.with_sd(sd).map_err(wrong)
}
