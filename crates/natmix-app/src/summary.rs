//! Summaries of a finished mixture: parameters on the user's own scale, modes, the sentence of the verdict.

use natmix::answer::accuracy::{Accuracy, ErrorShare, MEAN_LIMIT, QUANTILE_LIMIT, SD_LIMIT};
use natmix::answer::delivered::{DeliveredChains, DeliveredDraws};
use natmix::answer::level::Level;
use natmix::chains::certificate::{Certificate, ChainAccuracy, judge_draws};
use natmix::diagnose::Diagnostics;
use natmix::family::Mixture;
use natmix::target::Target;
use natmix_report::{
    AccuracySummary, AnswerSummary, ChainsSummary, Draws, Parameter, ReportedEstimate, VerdictSummary,
};

/// Draws behind quantiles, marginals and `draws.zarr`.
pub const DRAWS: usize = 4_000;

/// The draws that a fit delivers, in the space that was fitted, with the component that each most likely came from.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveredSample {
    /// Values, one draw after another.
    pub z: Vec<f64>,
    /// The component of each.
    pub component: Vec<usize>,
    /// Weights that sum to one; none if all are equal.
    pub weights: Option<Vec<f64>>,
    /// The chains that they are from, if they are: chain after chain.
    pub chains: Option<DeliveredChains>,
    /// Number of draws of equal weight to choose of them.
    pub equal: usize,
}

impl DeliveredSample {
    /// The draws of chains or the weighted draws if these are the answer, else [`DRAWS`] draws of the mixture.
    pub fn of(q: &Mixture, answer: Option<&DeliveredDraws>, seed: u64) -> Self {
        Self::with_draws(q, answer, DRAWS, seed)
    }

    /// The same with another number of draws.
    pub fn with_draws(q: &Mixture, answer: Option<&DeliveredDraws>, equal: usize, seed: u64) -> Self {
        let Some(DeliveredDraws { draws, weights, chains }) = answer else {
            let z = q.sample(equal, seed);
            return Self { component: q.most_likely(&z), z, weights: None, chains: None, equal };
        };
        // Chains whose draws have unequal weights are none any more once draws of equal weight are chosen.
        let same = weights.iter().all(|weight| *weight == weights[0]);
        let chains = chains.clone().filter(|_| same);
        let weights = Some(weights.clone()).filter(|_| chains.is_none());
        Self { component: q.most_likely(draws), z: draws.clone(), weights, chains, equal }
    }

    /// The draws on the scale of the target's parameters.
    pub fn on_scale_of(&self, target: &dyn Target) -> Draws {
        let names = target.parameter_names();
        let (d, p, n) = (target.dim(), names.len(), self.component.len());
        let mut values = vec![0.0; n * p];
        for (z, out) in self.z.chunks_exact(d).zip(values.chunks_exact_mut(p)) {
            target.to_parameters(z, out);
        }
        self.with_values(names, values)
    }

    /// The draws on another scale.
    pub fn with_values(&self, names: Vec<String>, values: Vec<f64>) -> Draws {
        Draws { names, values, component: self.component.clone(), chains: self.chains.clone() }
    }

    /// Positions of draws of equal weight; `None` if all are of equal weight.
    fn chosen(&self, seed: u64) -> Option<Vec<usize>> {
        let weights = self.weights.clone()?;
        Some(DeliveredDraws { draws: Vec::new(), weights, chains: None }.choose(self.equal, seed))
    }

    /// Of these draws on another scale, some of equal weight.
    pub fn equally_weighted(&self, draws: Draws, seed: u64) -> Draws {
        let Some(chosen) = self.chosen(seed) else { return draws };
        let p = draws.names.len();
        Draws {
            values: chosen.iter().flat_map(|&i| draws.values[i * p..(i + 1) * p].iter().copied()).collect(),
            component: chosen.iter().map(|&i| draws.component[i]).collect(),
            names: draws.names,
            chains: None,
        }
    }

    /// Draws of equal weight in the space that was fitted, in the order of [`DeliveredSample::equally_weighted`].
    pub fn equally_weighted_in_order(&self, seed: u64) -> Vec<f64> {
        let d = self.z.len() / self.component.len().max(1);
        let Some(chosen) = self.chosen(seed) else { return self.z.clone() };
        chosen.iter().flat_map(|&i| self.z[i * d..(i + 1) * d].iter().copied()).collect()
    }

    /// Draws of equal weight in the space that was fitted; those of chains iteration after iteration, so that the first of them
    /// are from all chains.
    pub fn equally_weighted_points(&self, seed: u64) -> Vec<f64> {
        let d = self.z.len() / self.component.len().max(1);
        if let Some(chains) = &self.chains {
            return chains.by_iteration(&self.z, d);
        }
        self.equally_weighted_in_order(seed)
    }
}

/// Parameters whose draws are gathered at a time.
const COLUMNS: usize = 16;

/// Mean, standard deviation and quantiles of each parameter, from draws with weights; equal ones if there are none.
pub fn parameters(draws: &Draws, weights: Option<&[f64]>) -> Vec<Parameter> {
    let p = draws.names.len();
    let n = draws.values.len() / p.max(1);
    let mut columns = vec![0.0; COLUMNS.min(p) * n];
    let mut parameters = Vec::with_capacity(p);
    // A column alone would take a whole line of the cache from every row.
    for (names, first) in draws.names.chunks(COLUMNS).zip((0..).step_by(COLUMNS)) {
        for (i, row) in draws.values.chunks_exact(p).enumerate() {
            row[first..first + names.len()].iter().enumerate().for_each(|(j, x)| columns[j * n + i] = *x);
        }
        for (j, name) in names.iter().enumerate() {
            let column = &mut columns[j * n..(j + 1) * n];
            parameters.push(match weights {
                Some(weights) => weighted_parameter(name.clone(), column, weights),
                None => parameter(name.clone(), column),
            });
        }
    }
    parameters
}

fn parameter(name: String, column: &mut [f64]) -> Parameter {
    let n = column.len() as f64;
    let mean = column.iter().sum::<f64>() / n;
    let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    column.sort_unstable_by(f64::total_cmp);
    Parameter {
        name,
        mean,
        sd: variance.sqrt(),
        q05: quantile(column, 0.05),
        q50: quantile(column, 0.5),
        q95: quantile(column, 0.95),
        r_hat: None,
        ess: None,
    }
}

fn weighted_parameter(name: String, column: &[f64], weights: &[f64]) -> Parameter {
    let mut draws: Vec<(f64, f64)> = column.iter().copied().zip(weights.iter().copied()).collect();
    draws.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = draws.iter().map(|(x, w)| w * x).sum::<f64>();
    let variance = draws.iter().map(|(x, w)| w * (x - mean).powi(2)).sum::<f64>();
    let mut up_to = 0.0;
    let cumulative: Vec<f64> = draws
        .iter()
        .map(|(_, w)| {
            up_to += w;
            up_to - 0.5 * w
        })
        .collect();
    let quantile = |share: f64| {
        let high = cumulative.partition_point(|x| *x < share).clamp(1, draws.len().max(2) - 1);
        let (low, step) = (high - 1, cumulative[high] - cumulative[high - 1]);
        let part = if step > 0.0 { ((share - cumulative[low]) / step).clamp(0.0, 1.0) } else { 1.0 };
        draws[low].0 + part * (draws[high].0 - draws[low].0)
    };
    let [q05, q50, q95] = [0.05, 0.5, 0.95].map(quantile);
    Parameter { name, mean, sd: variance.sqrt(), q05, q50, q95, r_hat: None, ess: None }
}

/// How well chains know every parameter: as their certificate says, or, for parameters that it does not know (a model in
/// another language has its own), as the draws say that are delivered. Nothing if chains have not delivered the draws.
pub(crate) fn mixing(draws: &Draws, certificate: Option<&Certificate>) -> Vec<ChainAccuracy> {
    let Some(chains) = &draws.chains else { return Vec::new() };
    let p = draws.names.len();
    if let Some(known) = certificate.filter(|certificate| certificate.parameters.len() == p) {
        return known.parameters.clone();
    }
    judge_draws(&chains.by_iteration(&draws.values, p), p, (chains.count, chains.per_start))
}

/// The answer for a report: its level and the accuracy of every parameter. Without weights there are `draws` draws.
pub(crate) fn answer(
    diagnostics: &Diagnostics,
    (delivered, draws): (Option<&DeliveredDraws>, usize),
    parameters: &[Parameter],
    mixing: &[ChainAccuracy],
    chains: Option<ChainsSummary>,
) -> AnswerSummary {
    let bound = |share: &ErrorShare, limit: f64| ReportedEstimate { mean: limit * share.error, se: limit * share.se };
    let known: Vec<&Accuracy> = match mixing.is_empty() {
        true => diagnostics.accuracy.iter().collect(),
        false => mixing.iter().map(|one| &one.accuracy).collect(),
    };
    // A model in another language has its own parameters, whose accuracy was not measured one by one.
    let same = known.len() == parameters.len();
    let measured = known.into_iter().zip(parameters).filter(|_| same);
    AnswerSummary {
        level: diagnostics.level,
        draws: delivered.map_or(draws, |answer| answer.weights.len()),
        ess: match mixing.is_empty() {
            true => delivered.map_or(draws as f64, |_| diagnostics.ess),
            false => mixing.iter().map(|one| one.ess).fold(f64::INFINITY, f64::min),
        },
        r_hat: (!mixing.is_empty()).then(|| mixing.iter().map(|one| one.r_hat).fold(1.0, f64::max)),
        chains,
        missed_mass: diagnostics.missed_mass.map(|missed| ReportedEstimate { mean: missed.mean, se: missed.se }),
        accuracy: measured
            .map(|(one, parameter)| AccuracySummary {
                name: parameter.name.clone(),
                quantile: bound(&one.quantile, QUANTILE_LIMIT),
                mean: bound(&one.mean, MEAN_LIMIT),
                sd: bound(&one.sd, SD_LIMIT),
                ess: one.ess,
                heavy_tails: one.heavy_tails,
                holds: one.holds,
            })
            .collect(),
    }
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
pub fn verdict(what: &str, modes: usize, components: usize, diagnostics: &Diagnostics) -> VerdictSummary {
    let found = match (modes, components) {
        (1, 1) => "one mode, fitted by one Gaussian".to_owned(),
        (1, k) => format!("one mode, fitted by {k} Gaussians"),
        (m, k) => format!("{m} modes, fitted by {k} Gaussians"),
    };
    let engine = &diagnostics.verdict;
    let trust = match (engine.trusted, diagnostics.level, &engine.reasons[..]) {
        (true, Level::Weighted, _) => {
            "As far as the tests can tell, its weighted draws are right for every parameter: you can use them."
        }
        (true, Level::Chains, _) => {
            "As far as the tests can tell, the draws of its chains are right for every parameter: you can use them."
        }
        (true, _, _) => "As far as the tests can tell, its draws are right for every parameter: you can use them.",
        (false, _, [_]) => "Do not rely on it as it stands, for the reason below.",
        (false, _, _) => "Do not rely on it as it stands, for the reasons below.",
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
