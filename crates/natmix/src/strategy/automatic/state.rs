//! The state of an automatic run between iterations, also as a document and tensors.

use super::{SearchSummary, missed::CandidatePoints, shared::PreviousPoints};
use crate::config::{Config, StrategyConfig};
use crate::error::Error;
use crate::family::{CovarianceKind, Mixture};
use crate::save::bundle::{Layout, Tensors};
use crate::save::parts::{Outline, add_mixture, take_mixture};
use crate::strategy::record::{MOST_COUNT, Record, RecordOutline, take};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An automatic run between two iterations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AutomaticState {
    pub mixture: Mixture,
    pub record: Record,
    pub step_memory: Vec<StepMemory>,
    pub phase: AutomaticPhase,
}

/// What the next step of a component depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepMemory {
    /// KL bound of its steps.
    pub bound: f64,
    /// Own objective `E_k[b] + log w_k` of the previous iteration; NaN before the first.
    pub objective: f64,
}

/// How far a run has come, and what its next stages depend on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AutomaticPhase {
    pub search: SearchSummary,
    /// Splits done.
    pub stage: u64,
    /// Iterations done when the stage began.
    pub stage_start: u64,
    /// ELBO with which the previous stage ended.
    pub previous_elbo: f64,
    /// Iterations left before the end, once the run settles.
    pub settling_left: Option<u64>,
    /// Factor on the number of points while it settles.
    pub settling_factor: usize,
    /// Whether the run had converged when the settling began.
    pub converged: bool,
    /// Whether it settles because the answer was seen to hold.
    pub answer_holds: bool,
    /// Evaluations from which on the next look may be taken.
    pub next_look: u64,
    pub next_id: u64,
    /// Points that each component draws next.
    pub draws: Vec<usize>,
    /// Running means of the residual's variance under each component, and of the radial share of that.
    pub residual_variance: Vec<f64>,
    pub radial_share: Vec<f64>,
    /// How many times components were added where the mixture missed mass, and the points where it may miss more.
    pub missed_rounds: u64,
    pub candidates: CandidatePoints,
    /// Points of the previous iteration, to be used once more.
    pub previous_points: PreviousPoints,
}

impl AutomaticState {
    /// A state around a first mixture, with the first KL bound of its components, which draw `draws` points each.
    pub fn new(mixture: Mixture, search: SearchSummary, bound: f64, draws: usize) -> Self {
        let count = mixture.len();
        Self {
            mixture,
            record: Record::default(),
            step_memory: vec![StepMemory { bound, objective: f64::NAN }; count],
            phase: AutomaticPhase {
                search,
                stage: 0,
                stage_start: 0,
                previous_elbo: f64::NEG_INFINITY,
                settling_left: None,
                settling_factor: 1,
                converged: false,
                answer_holds: false,
                next_look: 0,
                next_id: count as u64,
                draws: vec![draws; count],
                residual_variance: vec![f64::NAN; count],
                radial_share: vec![0.0; count],
                missed_rounds: 0,
                candidates: CandidatePoints::default(),
                previous_points: PreviousPoints::default(),
            },
        }
    }
}

/// The part of the state that is not in tensors.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AutomaticDocument {
    mixture: Outline,
    record: RecordOutline,
    search: SearchSummary,
    stage: u64,
    stage_start: u64,
    settling_left: Option<u64>,
    settling_factor: usize,
    converged: bool,
    #[serde(default)]
    answer_holds: bool,
    #[serde(default)]
    next_look: u64,
    next_id: u64,
    draws: Vec<usize>,
    missed_rounds: u64,
    candidates: usize,
    previous_points: usize,
}

fn read(document: &Value) -> Result<AutomaticDocument, String> {
    AutomaticDocument::deserialize(document).map_err(|error| error.to_string())
}

pub(super) fn save(state: &AutomaticState, tensors: &mut Tensors) -> Result<Value, Error> {
    let AutomaticState { mixture, record, step_memory, phase } = state;
    let (d, count, candidates, previous) = (mixture.dim(), mixture.len(), &phase.candidates, &phase.previous_points);
    add_mixture(tensors, "", mixture);
    tensors.add("bounds", vec![count], step_memory.iter().map(|step_memory| step_memory.bound).collect());
    tensors.add("objectives", vec![count], step_memory.iter().map(|step_memory| step_memory.objective).collect());
    tensors.add("previous_elbo", vec![1], vec![phase.previous_elbo]);
    tensors.add("residual_variance", vec![count], phase.residual_variance.clone());
    tensors.add("radial_share", vec![count], phase.radial_share.clone());
    tensors.add("candidates", vec![candidates.len(), d], candidates.z.clone());
    tensors.add("candidate_grads", vec![candidates.len(), d], candidates.grad.clone());
    tensors.add("candidate_log_p", vec![candidates.len()], candidates.log_p.clone());
    tensors.add("candidate_excess", vec![candidates.len()], candidates.excess.clone());
    tensors.add("previous_points", vec![previous.len(), d], previous.z.clone());
    tensors.add("previous_grads", vec![previous.len(), d], previous.grad.clone());
    tensors.add("previous_log_p", vec![previous.len()], previous.log_p.clone());
    tensors.add("previous_log_s", vec![previous.len()], previous.log_s.clone());
    let document = AutomaticDocument {
        mixture: Outline::of(mixture),
        record: record.save(tensors),
        search: phase.search.clone(),
        stage: phase.stage,
        stage_start: phase.stage_start,
        settling_left: phase.settling_left,
        settling_factor: phase.settling_factor,
        converged: phase.converged,
        answer_holds: phase.answer_holds,
        next_look: phase.next_look,
        next_id: phase.next_id,
        draws: phase.draws.clone(),
        missed_rounds: phase.missed_rounds,
        candidates: candidates.len(),
        previous_points: previous.len(),
    };
    serde_json::to_value(document).map_err(|error| Error::InvalidInput(format!("this run cannot be saved: {error}")))
}

pub(super) fn layout(config: &Config, document: &Value) -> Result<Layout, String> {
    let document = read(document)?;
    let (d, count) = (document.mixture.dim, document.mixture.ids.len());
    let dropped = matches!(&config.strategy, StrategyConfig::Automatic(settings) if settings.drop_correlations)
        && document.mixture.covariance == CovarianceKind::Diag;
    if config.covariance != document.mixture.covariance && !dropped {
        return Err("settings and mixture differ in number or shape of the components".into());
    }
    let most = crate::config::MOST_COUNT as usize;
    if document.draws.len() != count || document.draws.iter().any(|n| *n == 0 || *n > most) {
        return Err("the number of draws does not go with the components".into());
    }
    let counters = [document.stage, document.stage_start, document.next_id, document.missed_rounds];
    if counters.iter().any(|n| *n > MOST_COUNT) {
        return Err("a counter is out of range".into());
    }
    let mut layout = document.mixture.layout("")?;
    document.record.add_layout(&mut layout, &document.mixture, true)?;
    let mut add = |name: &str, shape: Vec<usize>| layout.push((name.to_owned(), shape));
    ["bounds", "objectives", "residual_variance", "radial_share"].iter().for_each(|name| add(name, vec![count]));
    add("previous_elbo", vec![1]);
    for (count, [points, grads, one, other]) in [
        (document.candidates, ["candidates", "candidate_grads", "candidate_log_p", "candidate_excess"]),
        (document.previous_points, ["previous_points", "previous_grads", "previous_log_p", "previous_log_s"]),
    ] {
        add(points, vec![count, d]);
        add(grads, vec![count, d]);
        add(one, vec![count]);
        add(other, vec![count]);
    }
    Ok(layout)
}

pub(super) fn load(document: &Value, mut tensors: Tensors) -> Result<AutomaticState, String> {
    let document = read(document)?;
    let tensors = &mut tensors;
    let bounds = take(tensors, "bounds", |x| x.is_finite() && x > 0.0)?;
    // NaN before the first iteration.
    let objectives = take(tensors, "objectives", |_| true)?;
    let phase = AutomaticPhase {
        search: document.search,
        stage: document.stage,
        stage_start: document.stage_start,
        // Minus infinity in the first stage, NaN before a component's first estimate.
        previous_elbo: take(tensors, "previous_elbo", |x| !x.is_nan())?[0],
        settling_left: document.settling_left,
        settling_factor: document.settling_factor.clamp(1, 1000),
        converged: document.converged,
        answer_holds: document.answer_holds,
        next_look: document.next_look,
        next_id: document.next_id,
        draws: document.draws,
        residual_variance: take(tensors, "residual_variance", |x| x.is_nan() || x >= 0.0)?,
        radial_share: take(tensors, "radial_share", |x| (0.0..=1.0).contains(&x))?,
        missed_rounds: document.missed_rounds,
        candidates: CandidatePoints {
            z: take(tensors, "candidates", f64::is_finite)?,
            grad: take(tensors, "candidate_grads", f64::is_finite)?,
            log_p: take(tensors, "candidate_log_p", f64::is_finite)?,
            // Infinite for modes.
            excess: take(tensors, "candidate_excess", |x| x > 0.0)?,
        },
        previous_points: PreviousPoints {
            z: take(tensors, "previous_points", f64::is_finite)?,
            // Points that could not be evaluated have any value.
            grad: take(tensors, "previous_grads", |_| true)?,
            log_p: take(tensors, "previous_log_p", |_| true)?,
            log_s: take(tensors, "previous_log_s", |_| true)?,
        },
    };
    let step_memory =
        bounds.into_iter().zip(objectives).map(|(bound, objective)| StepMemory { bound, objective }).collect();
    let record = document.record.load(tensors)?;
    let mixture = take_mixture(tensors, "", document.mixture)?;
    Ok(AutomaticState { mixture, record, step_memory, phase })
}
