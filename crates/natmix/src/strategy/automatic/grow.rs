//! Adding and deleting components.
//!
//! A component whose residual `b` still varies under it is split into several at once. Where `b` varies with the distance
//! from the mean alone, the tails are wrong: the children share the mean and have a ladder of widths. Otherwise the children
//! lie around the old mean, each narrower, so that together they have its mean and covariance. Splitting widely and early
//! beats adding one at a time: the children share their points, and the weights show which of them are needed.

use super::fixed_components;
use super::state::{AutomaticState, StepMemory};
use super::tuning::Tuning;
use crate::config::{Automatic, Config};
use crate::error::Error;
use crate::family::{Gaussian, Mixture};
use crate::noise::{Noise, Purpose};

/// How many children each component gets, itself counted, when there may be `wanted` components in all.
pub(crate) fn children(weights: &[f64], residual_variance: &[f64], wanted: usize, tuning: &Tuning) -> Vec<usize> {
    let (count, most) = (weights.len(), tuning.growth_max_variance);
    // A component that fits has no residual variance, and gets no more children.
    let worth: Vec<f64> = (0..count).map(|k| weights[k] * residual_variance[k].min(most).sqrt()).collect();
    let total: f64 = worth.iter().sum();
    let room = wanted.saturating_sub(count);
    let mut children = vec![1; count];
    if total.is_nan() || total <= 0.0 {
        return children;
    }
    let mut left = room;
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| worth[b].total_cmp(&worth[a]));
    for &k in &order {
        let more = ((room as f64 * worth[k] / total).round() as usize).min(left);
        children[k] += more;
        left -= more;
    }
    children[order[0]] += left;
    children
}

/// The ELBO that these components would have with optimal weights: a single component in the wrong place, which is about to
/// lose its weight, can lower the present ELBO by any amount.
pub(crate) fn reachable_elbo(state: &AutomaticState) -> f64 {
    let objectives = || state.step_memory.iter().map(|step_memory| step_memory.objective).filter(|x| !x.is_nan());
    let most = objectives().fold(f64::NEG_INFINITY, f64::max);
    most + objectives().map(|x| (x - most).exp()).sum::<f64>().ln()
}

/// The weights, less what components are about to lose: one whose own objective lies far below the others' loses its weight
/// sooner or later, and its misfit is not worth a split.
pub(crate) fn lasting_weights(state: &AutomaticState) -> Vec<f64> {
    let objectives = || state.step_memory.iter().map(|step_memory| step_memory.objective);
    let most = objectives().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = objectives().map(|x| (x - most).exp()).filter(|x| !x.is_nan()).sum();
    let last = |(w, x): (f64, f64)| if x.is_nan() { w } else { w.min((x - most).exp() / total) };
    state.mixture.weights().into_iter().zip(objectives()).map(last).collect()
}

/// Splits components into `wanted` in all; returns whether any was split.
pub(crate) fn grow(
    state: &mut AutomaticState,
    config: &Config,
    settings: &Automatic,
    wanted: usize,
) -> Result<bool, Error> {
    let lasting = lasting_weights(state);
    let (tuning, fixed) = (&settings.tuning, fixed_components(settings));
    let phase = &mut state.phase;
    let old = &state.mixture;
    let weights = old.weights();
    let children = children(&lasting, &phase.residual_variance, wanted, tuning);
    if children.iter().all(|&n| n == 1) {
        return Ok(false);
    }
    let (mut components, mut ids, mut new_weights) = (Vec::new(), Vec::new(), Vec::new());
    let (mut step_memory, mut residual_variance, mut radial_share, mut draws) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (k, parent) in old.components().iter().enumerate() {
        let family = if children[k] == 1 {
            step_memory.push(state.step_memory[k]);
            ids.push(old.ids()[k]);
            vec![parent.clone()]
        } else {
            let first = phase.next_id;
            let in_tails = phase.radial_share[k] > tuning.growth_radial_share;
            let mut family = if in_tails && children[k] as f64 >= tuning.growth_min_added {
                ladder(parent, children[k].min(tuning.growth_ladder_max), tuning.growth_ladder_log_width)
            } else {
                Vec::new()
            };
            if family.is_empty() || fixed > 0 {
                let missing = family.len() as u64..children[k] as u64;
                family.extend(missing.map(|more| displaced_child(parent, config.seed, first + more, tuning)));
            }
            phase.next_id += family.len() as u64;
            ids.extend(first..phase.next_id);
            let first_step = StepMemory { bound: tuning.growth_child_trust_region, objective: f64::NAN };
            step_memory.extend(family.iter().map(|_| first_step));
            family
        };
        new_weights.extend(family.iter().map(|_| weights[k] / family.len() as f64));
        residual_variance.extend(family.iter().map(|_| phase.residual_variance[k]));
        radial_share.extend(family.iter().map(|_| phase.radial_share[k]));
        draws.extend(family.iter().map(|_| phase.draws[k]));
        components.extend(family);
    }
    state.mixture = Mixture::new(&new_weights, components)?.with_ids(ids);
    state.step_memory = step_memory;
    (phase.residual_variance, phase.radial_share, phase.draws) = (residual_variance, radial_share, draws);
    Ok(true)
}

/// Adds components with the given weights and a first KL bound; the weights of the others shrink.
pub(crate) fn add_components(state: &mut AutomaticState, more: Vec<(Gaussian, f64)>, bound: f64) -> Result<(), Error> {
    let phase = &mut state.phase;
    let rest = 1.0 - more.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut weights: Vec<f64> = state.mixture.weights().iter().map(|w| w * rest).collect();
    let mut components = state.mixture.components().to_vec();
    let mut ids = state.mixture.ids().to_vec();
    let draws = phase.draws.iter().copied().max().unwrap_or(1);
    for (gaussian, weight) in more {
        components.push(gaussian);
        weights.push(weight);
        ids.push(phase.next_id);
        phase.next_id += 1;
        phase.draws.push(draws);
        phase.residual_variance.push(f64::NAN);
        phase.radial_share.push(0.0);
        state.step_memory.push(StepMemory { bound, objective: f64::NAN });
    }
    state.mixture = Mixture::new(&weights, components)?.with_ids(ids);
    Ok(())
}

/// Deletes components of negligible weight, the lightest beyond the `most` heaviest, and light ones whose weights sum to at
/// most `share`.
pub(crate) fn prune(state: &mut AutomaticState, most: usize, share: f64, tuning: &Tuning) -> Result<(), Error> {
    let least = tuning.prune_min_weight;
    let light = state.mixture.log_weights().iter().any(|w| *w < least.ln());
    if !light && state.mixture.len() <= most && share <= 0.0 {
        return Ok(());
    }
    let weights = state.mixture.weights();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let mut kept: Vec<usize> = order.into_iter().take(most.max(1)).collect();
    let mut lost = 0.0;
    while let Some(&lightest) = kept.last() {
        lost += weights[lightest];
        if kept.len() == 1 || lost > share && weights[lightest] >= least {
            break;
        }
        kept.pop();
    }
    retain(state, kept, &weights)
}

/// Merges components that are nearly equal: their KL divergence is below `max_kl`.
pub(crate) fn merge(state: &mut AutomaticState, max_kl: f64) -> Result<(), Error> {
    let mut weights = state.mixture.weights();
    let components = state.mixture.components();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let mut kept: Vec<usize> = Vec::new();
    for k in order {
        // The means first: the divergence costs a factorisation.
        let near = |&other: &usize| components[other].squared_distance(components[k].mean()) < 2.0 * max_kl;
        let twin = kept.iter().copied().filter(near).find(|&other| components[k].kl(&components[other]) < max_kl);
        match twin {
            Some(twin) => weights[twin] += weights[k],
            None => kept.push(k),
        }
    }
    retain(state, kept, &weights)
}

/// Keeps one component for each of the `most` heaviest modes, with the weight of all components there: those whose means are
/// within a squared distance of it. A mode that two components share would otherwise pass for two light ones. With fewer modes
/// nothing changes.
pub(crate) fn keep_heaviest_modes(state: &mut AutomaticState, most: usize, same_distance: f64) -> Result<(), Error> {
    let mut weights = state.mixture.weights();
    let components = state.mixture.components();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let mut kept: Vec<usize> = Vec::new();
    for k in order {
        let same = |&other: &usize| components[other].squared_distance(components[k].mean()) <= same_distance;
        match kept.iter().copied().find(same) {
            Some(other) => weights[other] += weights[k],
            None => kept.push(k),
        }
    }
    if kept.len() < most {
        return Ok(());
    }
    kept.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    kept.truncate(most);
    retain(state, kept, &weights)
}

/// Retains only the components `kept`, with the given weights.
fn retain(state: &mut AutomaticState, mut kept: Vec<usize>, weights: &[f64]) -> Result<(), Error> {
    let phase = &mut state.phase;
    if kept.len() == state.mixture.len() || kept.is_empty() {
        return Ok(());
    }
    kept.sort_unstable();
    let pick = |list: &[f64]| kept.iter().map(|&k| list[k]).collect::<Vec<f64>>();
    let components = kept.iter().map(|&k| state.mixture.components()[k].clone()).collect();
    let ids = kept.iter().map(|&k| state.mixture.ids()[k]).collect();
    state.mixture = Mixture::new(&pick(weights), components)?.with_ids(ids);
    state.step_memory = kept.iter().map(|&k| state.step_memory[k]).collect();
    (phase.residual_variance, phase.radial_share) = (pick(&phase.residual_variance), pick(&phase.radial_share));
    phase.draws = kept.iter().map(|&k| phase.draws[k]).collect();
    Ok(())
}

/// Copies of `parent` with widths from narrow to wide; `log_width` is the logarithm of the widest one's.
fn ladder(parent: &Gaussian, count: usize, log_width: f64) -> Vec<Gaussian> {
    let reach = log_width * ((count - 1) as f64 / 6.0).min(1.0);
    (0..count).map(|i| scaled(parent, (reach * (2.0 * i as f64 / (count - 1) as f64 - 1.0)).exp())).collect()
}

/// A narrower copy of `parent`, moved at random within it.
fn displaced_child(parent: &Gaussian, seed: u64, id: u64, tuning: &Tuning) -> Gaussian {
    let mut mean = vec![0.0; parent.dim()];
    Noise::new(seed, Purpose::Split, id, 0, 0).normals(&mut mean);
    mean.iter_mut().for_each(|x| *x *= tuning.growth_child_distance);
    parent.place(&mut mean);
    Gaussian::new(mean, parent.precision().widened(tuning.growth_child_width))
}

/// A copy with standard deviations times `width`.
fn scaled(parent: &Gaussian, width: f64) -> Gaussian {
    Gaussian::new(parent.mean().to_vec(), parent.precision().widened(width))
}

#[cfg(test)]
mod tests;
