//! Known properties of a target: the modes of a mixture, and the evidence of a two-dimensional density.

use super::specs::built_in;
use anyhow::{Result, anyhow};
use natmix::Scratch;
use natmix::family::{Covariances, Mixture};
use natmix::target::{EvalOut, Points, Rows, Target};
use serde::Deserialize;

/// Points per side of the grid, and its extent from the mean in standard deviations.
const GRID: usize = 1201;
const REACH: f64 = 10.0;

/// The modes of a built-in target that is a mixture, with their own metrics and weights.
pub fn true_modes(target: &str) -> Result<Option<Mixture>> {
    #[derive(Deserialize)]
    struct MixtureParts {
        kind: String,
        weights: Option<Vec<f64>>,
        #[serde(alias = "locations")]
        means: Option<Vec<Vec<f64>>>,
        #[serde(alias = "scales")]
        covariances: Option<Vec<Vec<Vec<f64>>>>,
        variances: Option<Vec<Vec<f64>>>,
    }
    let Some(spec) = built_in(target) else { return Ok(None) };
    let parts: MixtureParts = serde_json::from_str(spec)?;
    let (Some(weights), Some(means)) = (parts.weights, parts.means) else { return Ok(None) };
    // The arms of a star cross in the middle: its components are not separate modes.
    if !parts.kind.ends_with("_mixture") || target == "star" {
        return Ok(None);
    }
    let covariances = match (&parts.covariances, &parts.variances) {
        (Some(full), _) => Covariances::Full(full),
        (None, Some(diagonal)) => Covariances::Diag(diagonal),
        (None, None) => return Ok(None),
    };
    Ok(Some(Mixture::from_moments(&weights, &means, covariances)?))
}

/// How many modes have nearby components with about the right weight.
pub fn found(modes: &Mixture, q: &Mixture) -> usize {
    let metrics: Vec<Mixture> = modes.components().iter().map(|mode| Mixture::single(mode.clone())).collect();
    let mut near = vec![0.0; modes.len()];
    for (component, weight) in q.components().iter().zip(q.weights()) {
        let distance = |k: usize| modes.components()[k].log_norm() - metrics[k].log_density(component.mean())[0];
        let nearest = (0..modes.len()).min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        nearest.into_iter().for_each(|k| near[k] += weight);
    }
    near.iter().zip(modes.weights()).filter(|(near, weight)| (0.5 * weight..=2.0 * weight).contains(*near)).count()
}

/// `log Z` of a two-dimensional density, by the trapezoidal rule around a mixture that covers it: for a smooth density
/// that vanishes at the border its error falls faster than any power of the step.
pub fn quadrature(target: &dyn Target, around: &Mixture) -> Result<Option<f64>> {
    if target.dim() != 2 {
        return Ok(None);
    }
    let (mean, covariance) = (around.mean(), around.covariance());
    let reach = [covariance[0].sqrt(), covariance[3].sqrt()].map(|sd| REACH * sd);
    let step = reach.map(|reach| 2.0 * reach / (GRID - 1) as f64);
    let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
    let (mut z, mut log_p, mut scratch) = (vec![0.0; 2 * GRID], vec![0.0; GRID], Scratch::default());
    for i in 0..GRID {
        for (j, z) in z.chunks_exact_mut(2).enumerate() {
            z[0] = mean[0] - reach[0] + step[0] * i as f64;
            z[1] = mean[1] - reach[1] + step[1] * j as f64;
        }
        let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
        target.eval(Rows::All, Points::new(&z, 2), out, &mut scratch).map_err(|error| anyhow!("{error}"))?;
        for x in log_p.iter().filter(|x| x.is_finite()) {
            if *x > largest {
                sum *= (largest - x).exp();
                largest = *x;
            }
            sum += (x - largest).exp();
        }
    }
    Ok(Some(largest + (sum * step[0] * step[1]).ln()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use natmix::family::Gaussian;

    #[test]
    fn a_mode_counts_when_its_weight_is_about_right() {
        let pair = |x: f64| vec![Gaussian::isotropic(vec![0.0], 1.0), Gaussian::isotropic(vec![x], 1.0)];
        let modes = Mixture::new(&[0.5, 0.5], pair(10.0)).unwrap();
        assert_eq!(found(&modes, &modes), 2);
        assert_eq!(found(&modes, &Mixture::new(&[0.8, 0.2], pair(9.0)).unwrap()), 1);
        assert_eq!(found(&modes, &Mixture::single(Gaussian::isotropic(vec![0.1], 1.0))), 1);
    }

    #[test]
    fn quadrature_finds_the_evidence_of_a_mixture() {
        let part = |x: f64| Gaussian::isotropic(vec![x, -x], 1.0);
        let target = Mixture::new(&[0.3, 0.7], vec![part(-3.0), part(2.0)]).unwrap();
        assert!(quadrature(&target, &target).unwrap().unwrap().abs() < 1e-9);
        let line = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
        assert_eq!(quadrature(&line, &line).unwrap(), None);
    }
}
