//! Where a run starts: around the centre that the settings name, or from a mixture.

use crate::config::Config;
use crate::error::Error;
use crate::family::{Full, Gaussian, Mixture, Precision};
use crate::noise::{Noise, Purpose};
use crate::target::Shape;

/// Whether a run in dimension `dim` can start from `mixture`; with `count` components, if that is fixed.
pub(crate) fn check_start(mixture: &Mixture, config: &Config, dim: usize, count: Option<usize>) -> Result<(), Error> {
    let number = count.is_none_or(|count| mixture.len() == count);
    if mixture.dim() != dim || mixture.shape() != config.covariance || !number {
        return Err(Error::InvalidInput(format!(
            "the start has dimension {}, {} covariance and {} components; the run needs {dim}, {} and {}",
            mixture.dim(),
            mixture.shape().name(),
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

/// The first mixture: one component sits at the centre of the start, several are drawn around it.
pub(crate) fn first_mixture(config: &Config, dim: usize) -> Result<Mixture, Error> {
    let (centre, sd) = spread_out(config, dim)?;
    let components = (0..config.components).map(|k| {
        let mut mean = vec![0.0; dim];
        if config.components > 1 {
            Noise::new(config.seed, Purpose::Start, k as u64, 0, 0).normals(&mut mean);
        }
        for ((m, centre), sd) in mean.iter_mut().zip(&centre).zip(&sd) {
            *m = centre + sd * *m;
        }
        Ok(Gaussian::new(mean, precision_from_sd(&sd, config.covariance)?))
    });
    Mixture::new(&vec![1.0; config.components], components.collect::<Result<_, Error>>()?)
}

pub(crate) fn precision_from_sd(sd: &[f64], shape: Shape) -> Result<Precision, Error> {
    let wrong = |i: usize| Error::Config { setting: "init_sd", problem: format!("{} has no finite square", sd[i]) };
    match shape {
        Shape::Diag => {
            let prec = crate::family::Diag::new(sd.iter().map(|x| (x * x).recip()).collect());
            prec.map(Precision::Diag).map_err(wrong)
        }
        Shape::Full => {
            let mut factor = vec![0.0; sd.len() * sd.len()];
            factor.iter_mut().step_by(sd.len() + 1).zip(sd).for_each(|(l, sd)| *l = sd.recip());
            Ok(Precision::Full(Full::from_factor(sd.len(), factor)))
        }
    }
}
