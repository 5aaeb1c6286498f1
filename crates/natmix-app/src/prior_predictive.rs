//! What priors say before there are data: the parameters and outcomes that they expect, in the units of the data.

use crate::summary::quantile;
use natmix::target::Target;
use natmix_models::effects::EffectsStudy;
use serde::Serialize;

/// Draws from the prior in figures.
#[derive(Clone, Debug, Serialize)]
pub struct PriorPredictive {
    /// The priors in words, one for each.
    pub priors: Vec<String>,
    /// Number of draws.
    pub draws: usize,
    /// What each parameter may be, those of single groups left out.
    pub parameters: Vec<PriorRange>,
    /// Statistics of the outcomes that the priors expect, with those of the data.
    pub outcomes: Vec<PriorRange>,
    /// The drawn outcomes, draw by draw.
    #[serde(skip)]
    pub drawn: Vec<f64>,
}

/// Where most of the draws of a quantity are.
#[derive(Clone, Debug, Serialize)]
pub struct PriorRange {
    /// The parameter or the statistic.
    pub name: String,
    /// 5% quantile.
    pub q05: f64,
    /// Median.
    pub q50: f64,
    /// 95% quantile.
    pub q95: f64,
    /// The value for the data, if it is a statistic of outcomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<f64>,
}

impl PriorRange {
    fn of(name: &str, mut values: Vec<f64>, observed: Option<f64>) -> Self {
        values.retain(|x| !x.is_nan());
        values.sort_by(f64::total_cmp);
        let [q05, q50, q95] = [0.05, 0.5, 0.95].map(|share| quantile(&values, share));
        Self { name: name.into(), q05, q50, q95, observed }
    }
}

/// Draws parameters from the prior, and for each draw outcomes for all rows.
pub fn prior_predictive(study: &EffectsStudy, draws: usize, seed: u64) -> PriorPredictive {
    let (model, d) = (&study.model, study.model.dim());
    let z = model.prior_draws(draws, seed);
    let mut parameters = vec![0.0; z.len()];
    z.chunks_exact(d).zip(parameters.chunks_exact_mut(d)).for_each(|(z, own)| model.to_parameters(z, own));
    let names = model.parameter_names();
    let groups = study.memory.layout.groupings();
    // Effects of single groups say nothing that their standard deviations do not say.
    let of_a_group = |j: usize| {
        groups.iter().any(|group| {
            (group.first_effect..group.first_effect + group.levels.len() * group.columns.len()).contains(&j)
        })
    };
    let of_parameter = |j: usize| {
        let values = parameters.iter().skip(j).step_by(d).copied().collect();
        PriorRange::of(&names[j], values, None)
    };
    let each = z.chunks_exact(d).enumerate().map(|(draw, z)| model.outcomes_at(z, seed.wrapping_add(draw as u64)));
    let drawn: Vec<f64> = each.flatten().collect();
    let rows = study.rows.rows;
    let observed = study.rows.outcome.as_deref().unwrap_or_default();
    let statistics: [(&str, Statistic); 4] = [
        ("mean", mean),
        ("sd", sd),
        ("smallest", |y| y.iter().copied().fold(f64::INFINITY, f64::min)),
        ("largest", |y| y.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
    ];
    let outcomes = statistics.iter().map(|(name, of)| {
        let name = format!("{name} of {}", study.memory.outcome());
        PriorRange::of(&name, drawn.chunks_exact(rows).map(of).collect(), Some(of(observed)))
    });
    PriorPredictive {
        priors: model.priors().iter().map(|prior| format!("{prior:.4}")).collect(),
        draws,
        parameters: (0..d).filter(|j| !of_a_group(*j)).map(of_parameter).collect(),
        outcomes: outcomes.collect(),
        drawn,
    }
}

/// A number about the outcomes of all rows.
type Statistic = fn(&[f64]) -> f64;

fn mean(y: &[f64]) -> f64 {
    y.iter().sum::<f64>() / y.len() as f64
}

fn sd(y: &[f64]) -> f64 {
    let mean = mean(y);
    (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (y.len() as f64 - 1.0).max(1.0)).sqrt()
}
