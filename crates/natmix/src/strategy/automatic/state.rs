//! All that an automatic run carries from one iteration to the next, also as a document and tensors.

use super::{SearchSummary, missed::Witnesses, shared::Kept};
use crate::config::Config;
use crate::error::Error;
use crate::family::Mixture;
use crate::save::bundle::{Layout, Tensors};
use crate::save::parts::{Outline, add_mixture, take_mixture};
use crate::strategy::record::{MOST_COUNT, Record, RecordOutline, take};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An automatic run between two iterations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub mixture: Mixture,
    pub record: Record,
    pub carried: Vec<Carried>,
    pub phase: Phase,
}

/// What one component carries along.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Carried {
    /// KL bound of its steps.
    pub bound: f64,
    /// Own objective `E_k[b] + log w_k` of the previous iteration; NaN before the first.
    pub objective: f64,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    pub search: SearchSummary,
    /// Splits done.
    pub stage: u64,
    /// Iterations done when the stage began.
    pub since: u64,
    /// ELBO with which the previous stage ended.
    pub before: f64,
    /// Iterations of settling that are left; none while there is still something to gain.
    pub settling: Option<u64>,
    /// Times as many points that are drawn while it settles.
    pub fuller: usize,
    /// Whether the run had come to rest when the settling began.
    pub rested: bool,
    pub next_id: u64,
    /// Points that each component draws next.
    pub counts: Vec<usize>,
    /// Running means of the residual's variance under each component, and of the share that goes with the distance.
    pub spread: Vec<f64>,
    pub radial: Vec<f64>,
    /// Rounds of components that were added where the mixture missed mass, and the points that tell where it may.
    pub rounds: u64,
    pub witnesses: Witnesses,
    /// Points of the iteration before, for use with those of the next.
    pub kept: Kept,
}

impl State {
    /// A state around a first mixture, with the first KL bound of its components, which draw `draws` points each.
    pub fn new(mixture: Mixture, search: SearchSummary, bound: f64, draws: usize) -> Self {
        let count = mixture.len();
        Self {
            mixture,
            record: Record::default(),
            carried: vec![Carried { bound, objective: f64::NAN }; count],
            phase: Phase {
                search,
                stage: 0,
                since: 0,
                before: f64::NEG_INFINITY,
                settling: None,
                fuller: 1,
                rested: false,
                next_id: count as u64,
                counts: vec![draws; count],
                spread: vec![f64::NAN; count],
                radial: vec![0.0; count],
                rounds: 0,
                witnesses: Witnesses::default(),
                kept: Kept::default(),
            },
        }
    }
}

/// What the document says: all but the numbers for each component and point.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    mixture: Outline,
    record: RecordOutline,
    search: SearchSummary,
    stage: u64,
    since: u64,
    settling: Option<u64>,
    fuller: usize,
    rested: bool,
    next_id: u64,
    counts: Vec<usize>,
    rounds: u64,
    witnesses: usize,
    kept: usize,
}

fn read(document: &Value) -> Result<Document, String> {
    Document::deserialize(document).map_err(|error| error.to_string())
}

pub(super) fn save(state: &State, tensors: &mut Tensors) -> Result<Value, Error> {
    let State { mixture, record, carried, phase } = state;
    let (d, count, witnesses, kept) = (mixture.dim(), mixture.len(), &phase.witnesses, &phase.kept);
    add_mixture(tensors, "", mixture);
    tensors.add("bounds", vec![count], carried.iter().map(|carried| carried.bound).collect());
    tensors.add("objectives", vec![count], carried.iter().map(|carried| carried.objective).collect());
    tensors.add("before", vec![1], vec![phase.before]);
    tensors.add("spread", vec![count], phase.spread.clone());
    tensors.add("radial", vec![count], phase.radial.clone());
    tensors.add("witnesses", vec![witnesses.len(), d], witnesses.z.clone());
    tensors.add("witness_grads", vec![witnesses.len(), d], witnesses.grad.clone());
    tensors.add("witness_log_p", vec![witnesses.len()], witnesses.log_p.clone());
    tensors.add("witness_excess", vec![witnesses.len()], witnesses.excess.clone());
    tensors.add("kept", vec![kept.len(), d], kept.z.clone());
    tensors.add("kept_grads", vec![kept.len(), d], kept.grad.clone());
    tensors.add("kept_log_p", vec![kept.len()], kept.log_p.clone());
    tensors.add("kept_log_s", vec![kept.len()], kept.log_s.clone());
    let document = Document {
        mixture: Outline::of(mixture),
        record: record.save(tensors),
        search: phase.search.clone(),
        stage: phase.stage,
        since: phase.since,
        settling: phase.settling,
        fuller: phase.fuller,
        rested: phase.rested,
        next_id: phase.next_id,
        counts: phase.counts.clone(),
        rounds: phase.rounds,
        witnesses: witnesses.len(),
        kept: kept.len(),
    };
    serde_json::to_value(document).map_err(|error| Error::InvalidInput(format!("this run cannot be saved: {error}")))
}

pub(super) fn layout(config: &Config, document: &Value) -> Result<Layout, String> {
    let document = read(document)?;
    let (d, count) = (document.mixture.dim, document.mixture.ids.len());
    if config.covariance != document.mixture.covariance {
        return Err("settings and mixture differ in number or shape of the components".into());
    }
    let most = crate::config::MOST_COUNT as usize;
    if document.counts.len() != count || document.counts.iter().any(|n| *n == 0 || *n > most) {
        return Err("the number of draws does not go with the components".into());
    }
    let counters = [document.stage, document.since, document.next_id, document.rounds];
    if counters.iter().any(|n| *n > MOST_COUNT) {
        return Err("a counter is out of range".into());
    }
    let mut layout = document.mixture.layout("")?;
    document.record.add_layout(&mut layout, &document.mixture, true)?;
    let mut add = |name: &str, shape: Vec<usize>| layout.push((name.to_owned(), shape));
    ["bounds", "objectives", "spread", "radial"].iter().for_each(|name| add(name, vec![count]));
    add("before", vec![1]);
    for (count, [points, grads, one, other]) in [
        (document.witnesses, ["witnesses", "witness_grads", "witness_log_p", "witness_excess"]),
        (document.kept, ["kept", "kept_grads", "kept_log_p", "kept_log_s"]),
    ] {
        add(points, vec![count, d]);
        add(grads, vec![count, d]);
        add(one, vec![count]);
        add(other, vec![count]);
    }
    Ok(layout)
}

pub(super) fn load(document: &Value, mut tensors: Tensors) -> Result<State, String> {
    let document = read(document)?;
    let tensors = &mut tensors;
    let bounds = take(tensors, "bounds", |x| x.is_finite() && x > 0.0)?;
    // NaN before the first iteration.
    let objectives = take(tensors, "objectives", |_| true)?;
    let phase = Phase {
        search: document.search,
        stage: document.stage,
        since: document.since,
        // Minus infinity in the first stage, NaN before a component's first look.
        before: take(tensors, "before", |x| !x.is_nan())?[0],
        settling: document.settling,
        fuller: document.fuller.clamp(1, 1000),
        rested: document.rested,
        next_id: document.next_id,
        counts: document.counts,
        spread: take(tensors, "spread", |x| x.is_nan() || x >= 0.0)?,
        radial: take(tensors, "radial", |x| (0.0..=1.0).contains(&x))?,
        rounds: document.rounds,
        witnesses: Witnesses {
            z: take(tensors, "witnesses", f64::is_finite)?,
            grad: take(tensors, "witness_grads", f64::is_finite)?,
            log_p: take(tensors, "witness_log_p", f64::is_finite)?,
            // Infinite for modes.
            excess: take(tensors, "witness_excess", |x| x > 0.0)?,
        },
        kept: Kept {
            z: take(tensors, "kept", f64::is_finite)?,
            // A point that cannot be evaluated may have anything.
            grad: take(tensors, "kept_grads", |_| true)?,
            log_p: take(tensors, "kept_log_p", |_| true)?,
            log_s: take(tensors, "kept_log_s", |_| true)?,
        },
    };
    let carried = bounds.into_iter().zip(objectives).map(|(bound, objective)| Carried { bound, objective }).collect();
    let record = document.record.load(tensors)?;
    let mixture = take_mixture(tensors, "", document.mixture)?;
    Ok(State { mixture, record, carried, phase })
}
