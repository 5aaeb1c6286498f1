//! Summaries of a finished mixture: parameters on the user's own scale, modes, the sentence of the verdict.

use natmix::family::Mixture;
use natmix::target::Target;
use natmix_report::{Draws, Parameter, VerdictSummary};

/// Draws behind quantiles, marginals and `draws.zarr`.
pub const DRAWS: usize = 4_000;

/// Draws of a mixture in the space that was fitted, with the component that each came from.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureSample {
    /// Values, one draw after another.
    pub z: Vec<f64>,
    /// The component of each.
    pub component: Vec<usize>,
}

impl MixtureSample {
    /// [`DRAWS`] draws of a mixture.
    pub fn of(q: &Mixture, seed: u64) -> Self {
        let z = q.sample(DRAWS, seed);
        Self { component: q.most_likely(&z), z }
    }

    /// The draws on the scale of the target's parameters.
    pub fn on_scale_of(&self, target: &dyn Target) -> Draws {
        let names = target.parameter_names();
        let (d, p, n) = (target.dim(), names.len(), self.component.len());
        let mut values = vec![0.0; n * p];
        for (z, out) in self.z.chunks_exact(d).zip(values.chunks_exact_mut(p)) {
            target.to_parameters(z, out);
        }
        Draws { names, values, component: self.component.clone() }
    }
}

/// Mean, standard deviation and quantiles of each parameter.
pub fn parameters(draws: &Draws) -> Vec<Parameter> {
    let p = draws.names.len();
    let n = draws.values.len() / p.max(1);
    let mut column = vec![0.0; n];
    (0..p)
        .map(|j| {
            for (x, row) in column.iter_mut().zip(draws.values.chunks_exact(p)) {
                *x = row[j];
            }
            let mean = column.iter().sum::<f64>() / n as f64;
            let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0).max(1.0);
            column.sort_by(f64::total_cmp);
            Parameter {
                name: draws.names[j].clone(),
                mean,
                sd: variance.sqrt(),
                q05: quantile(&column, 0.05),
                q50: quantile(&column, 0.5),
                q95: quantile(&column, 0.95),
            }
        })
        .collect()
}

/// Linear interpolation between order statistics.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share * last as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (at - low as f64) * (sorted[high] - sorted[low])
}

/// The verdict in one sentence: what was fitted, how many modes it has, and whether to trust it.
pub fn verdict(what: &str, modes: usize, components: usize, engine: &natmix::diagnose::Verdict) -> VerdictSummary {
    let found = match (modes, components) {
        (1, 1) => "one mode, fitted by one Gaussian".to_owned(),
        (1, k) => format!("one mode, fitted by {k} Gaussians"),
        (m, k) => format!("{m} modes, fitted by {k} Gaussians"),
    };
    let trust = match (engine.trusted, &engine.reasons[..]) {
        (true, _) => "As far as its draws can tell, the fit covers the posterior: you can use it.",
        (false, [_]) => "Do not rely on it as it stands, for the reason below.",
        (false, _) => "Do not rely on it as it stands, for the reasons below.",
    };
    VerdictSummary {
        trusted: Some(engine.trusted),
        sentence: format!("The posterior of {what} has {found}. {trust}"),
        reasons: engine.reasons.clone(),
        notes: engine.notes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
