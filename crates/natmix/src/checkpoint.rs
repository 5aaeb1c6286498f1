//! Checkpoints: a run in a file, to go on from as if it had never stopped.
//!
//! A checkpoint holds the whole [`State`] and the [`Config`], exact to the bit, in the format of [`crate::save`]. All
//! noise is keyed by seed, component and iteration, so a resumed run gives the same bits as an unbroken one.
//!
//! ```
//! use natmix::checkpoint::{Checkpoint, Checkpointer};
//! use natmix::family::{Gaussian, Mixture};
//! use natmix::{Config, Fit};
//!
//! let path = std::env::temp_dir().join(format!("natmix-doc-checkpoint-{}", std::process::id()));
//! let target = Mixture::single(Gaussian::isotropic(vec![3.0], 0.5));
//! let config = Config { max_iterations: 6, ..Config::default() };
//! let unbroken = Fit::new(&target, config).observe(&mut Checkpointer::new(&path, 4)).run().unwrap();
//!
//! let Checkpoint { state, config } = Checkpoint::load(&path).unwrap();
//! assert_eq!(state.iteration(), 4);
//! let resumed = Fit::new(&target, config).resume(state).run().unwrap();
//! assert_eq!(resumed.mixture, unbroken.mixture);
//! # std::fs::remove_file(path).unwrap();
//! ```

use crate::automatic::{Kept, Phase, SearchSummary, Witnesses};
use crate::config::Config;
use crate::error::Error;
use crate::estimate::trick::Coefficients;
use crate::method::Method;
use crate::observe::{Iteration, Observer};
use crate::rule::Rule;
use crate::rule::adam::AdamState;
use crate::save::bundle::{self, Layout, Stored, Tensors};
use crate::save::parts::{Outline, add_mixture, check_all, take_mixture};
use crate::state::{Best, Carried, State};
use crate::stop::{History, HistoryParts};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Numbers in a bin of the history, and in one of its latest estimates.
const BIN: usize = 4;
const PAIR: usize = 2;
/// No run counts this far; what is below can be added up without care.
const MOST_COUNT: u64 = 1 << 53;

/// A run between two iterations, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Where the run stands.
    pub state: State,
    /// Its settings.
    pub config: Config,
}

impl Checkpoint {
    /// Writes the checkpoint to a file. A file of that name is replaced only when the new one is complete.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        bundle::write_file(path, &self.to_bytes()?)
    }

    /// Reads a checkpoint from a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        bundle::read_file(path)
    }

    /// The bytes that [`Checkpoint::save`] writes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        encode(&self.state, &self.config)
    }
}

/// Reads a checkpoint from the bytes of a file, with the same checks as [`Checkpoint::load`].
pub fn read_checkpoint_bytes(bytes: &[u8]) -> Result<Checkpoint, Error> {
    bundle::read_bytes(bytes, "checkpoint")
}

/// An observer that writes a checkpoint from time to time, always to the same file.
#[derive(Clone, Debug)]
pub struct Checkpointer {
    path: PathBuf,
    every: u64,
}

impl Checkpointer {
    /// Writes to `path` after every `every_iterations` iterations; zero counts as one.
    pub fn new(path: impl Into<PathBuf>, every_iterations: u64) -> Self {
        Self { path: path.into(), every: every_iterations.max(1) }
    }
}

impl Observer for Checkpointer {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        if it.iteration.is_multiple_of(self.every) {
            bundle::write_file(&self.path, &encode(it.state, it.config)?)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// All of a checkpoint but its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[doc(hidden)]
pub struct CheckpointDocument {
    config: Config,
    mixture: Outline,
    best: Option<Outline>,
    iteration: u64,
    evals: u64,
    dropped: u64,
    barren: (u64, u64),
    history: HistoryOutline,
    #[serde(default)]
    automatic: Option<PhaseOutline>,
}

/// An automatic run, less its numbers for each component.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PhaseOutline {
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

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryOutline {
    width: u64,
    filled: u64,
    bins: usize,
    recent: usize,
}

/// Numbers of momentum, and of each of Adam's moments, that a component carries.
fn carried_lens(config: &Config, dim: usize) -> (usize, usize) {
    match config.rule {
        Rule::Momentum => (dim, 0),
        Rule::Adam => (0, 1 + dim + config.covariance.len(dim)),
        _ => (0, 0),
    }
}

fn encode(state: &State, config: &Config) -> Result<Vec<u8>, Error> {
    let HistoryParts { width, filled, bins, recent } = state.history.to_parts();
    let document = CheckpointDocument {
        config: config.clone(),
        mixture: Outline::of(&state.mixture),
        best: state.best.as_ref().map(|best| Outline::of(&best.mixture)),
        iteration: state.iteration,
        evals: state.evals,
        dropped: state.dropped,
        barren: state.barren,
        history: HistoryOutline { width, filled, bins: bins.len(), recent: recent.len() },
        automatic: state.automatic.as_ref().map(PhaseOutline::of),
    };
    let count = state.carried.len();
    let (velocity, adam) = carried_lens(config, state.mixture.dim());
    let collect = |part: fn(&Carried) -> &[f64]| state.carried.iter().flat_map(part).copied().collect::<Vec<f64>>();
    let each = |part: fn(&Carried) -> f64| state.carried.iter().map(part).collect::<Vec<f64>>();
    let mut tensors = Tensors::default();
    add_mixture(&mut tensors, "", &state.mixture);
    if let Some(best) = &state.best {
        add_mixture(&mut tensors, "best_", &best.mixture);
        tensors.add("best_elbo", vec![PAIR], vec![best.elbo, best.se]);
    }
    tensors.add("seconds", vec![1], vec![state.seconds]);
    tensors.add("history_bins", vec![bins.len(), BIN], bins.concat());
    tensors.add("history_recent", vec![recent.len(), PAIR], recent.concat());
    tensors.add("bounds", vec![count], each(|carried| carried.bound));
    tensors.add("objectives", vec![count], each(|carried| carried.objective));
    tensors.add("value_tricks", vec![count], each(|carried| carried.trick.value));
    tensors.add("grad_tricks", vec![count], each(|carried| carried.trick.grad));
    tensors.add("velocities", vec![count, velocity], collect(|carried| &carried.velocity));
    tensors.add("adam_first", vec![count, adam], collect(|carried| &carried.adam.first));
    tensors.add("adam_second", vec![count, adam], collect(|carried| &carried.adam.second));
    if let Some(phase) = &state.automatic {
        tensors.add("before", vec![1], vec![phase.before]);
        tensors.add("spread", vec![count], phase.spread.clone());
        tensors.add("radial", vec![count], phase.radial.clone());
        let (d, witnesses) = (state.mixture.dim(), &phase.witnesses);
        tensors.add("witnesses", vec![witnesses.len(), d], witnesses.z.clone());
        tensors.add("witness_grads", vec![witnesses.len(), d], witnesses.grad.clone());
        tensors.add("witness_log_p", vec![witnesses.len()], witnesses.log_p.clone());
        tensors.add("witness_excess", vec![witnesses.len()], witnesses.excess.clone());
        tensors.add("kept", vec![phase.kept.len(), d], phase.kept.z.clone());
        tensors.add("kept_grads", vec![phase.kept.len(), d], phase.kept.grad.clone());
        tensors.add("kept_log_p", vec![phase.kept.len()], phase.kept.log_p.clone());
        tensors.add("kept_log_s", vec![phase.kept.len()], phase.kept.log_s.clone());
    }
    bundle::encode::<Checkpoint>(&document, &tensors)
}

impl PhaseOutline {
    fn of(phase: &Phase) -> Self {
        let Phase { search, stage, since, settling, fuller, rested, next_id, counts, rounds, witnesses, kept, .. } =
            phase;
        Self {
            search: search.clone(),
            stage: *stage,
            since: *since,
            settling: *settling,
            fuller: *fuller,
            rested: *rested,
            next_id: *next_id,
            counts: counts.clone(),
            rounds: *rounds,
            witnesses: witnesses.len(),
            kept: kept.len(),
        }
    }
}

impl Stored for Checkpoint {
    const KIND: &'static str = "checkpoint";
    type Document = CheckpointDocument;

    fn layout(document: &CheckpointDocument) -> Result<Layout, String> {
        let CheckpointDocument { config, mixture, best, iteration, evals, dropped, barren, history, automatic } =
            document;
        config.validate().map_err(|error| error.to_string())?;
        let mut layout = mixture.layout("")?;
        let (d, count) = (mixture.dim, mixture.ids.len());
        let auto = config.method == Method::Auto;
        if automatic.is_some() != auto {
            return Err("settings and state differ in the method".into());
        }
        if !auto && config.components != count || config.covariance != mixture.covariance {
            return Err("settings and mixture differ in number or shape of the components".into());
        }
        if [iteration, evals, dropped, &barren.0, &barren.1].iter().any(|count| **count > MOST_COUNT) {
            return Err("a counter is out of range".into());
        }
        let mut add = |name: &str, shape: Vec<usize>| layout.push((name.to_owned(), shape));
        if let Some(best) = best {
            let number = auto || best.ids.len() == count;
            if (best.dim, best.covariance) != (d, mixture.covariance) || !number {
                return Err("the best mixture differs from the present one in size or shape".into());
            }
            best.layout("best_")?.into_iter().for_each(|(name, shape)| add(&name, shape));
            add("best_elbo", vec![PAIR]);
        }
        let (velocity, adam) = carried_lens(config, d);
        add("seconds", vec![1]);
        add("history_bins", vec![history.bins, BIN]);
        add("history_recent", vec![history.recent, PAIR]);
        ["bounds", "objectives", "value_tricks", "grad_tricks"].iter().for_each(|name| add(name, vec![count]));
        add("velocities", vec![count, velocity]);
        add("adam_first", vec![count, adam]);
        add("adam_second", vec![count, adam]);
        if let Some(phase) = automatic {
            let most = crate::config::MOST_COUNT as usize;
            if phase.counts.len() != count || phase.counts.iter().any(|n| *n == 0 || *n > most) {
                return Err("the number of draws does not go with the components".into());
            }
            if [phase.stage, phase.since, phase.next_id, phase.rounds].iter().any(|n| *n > MOST_COUNT)
                || phase.since > *iteration
            {
                return Err("a counter is out of range".into());
            }
            add("before", vec![1]);
            add("spread", vec![count]);
            add("radial", vec![count]);
            add("witnesses", vec![phase.witnesses, d]);
            add("witness_grads", vec![phase.witnesses, d]);
            add("witness_log_p", vec![phase.witnesses]);
            add("witness_excess", vec![phase.witnesses]);
            add("kept", vec![phase.kept, d]);
            add("kept_grads", vec![phase.kept, d]);
            add("kept_log_p", vec![phase.kept]);
            add("kept_log_s", vec![phase.kept]);
        }
        Ok(layout)
    }

    fn assemble(document: CheckpointDocument, mut tensors: Tensors) -> Result<Self, String> {
        let CheckpointDocument { config, mixture, best, iteration, evals, dropped, barren, history, automatic } =
            document;
        let (velocity_len, adam_len) = carried_lens(&config, mixture.dim);
        let mut take = |name: &str, fine: fn(f64) -> bool| {
            let data = tensors.take(name);
            check_all(name, &data, fine)?;
            Ok::<_, String>(data)
        };
        let seconds = take("seconds", |x| x.is_finite() && x >= 0.0)?[0];
        // Sums of squares may have overflowed.
        let bins = take("history_bins", |x| !x.is_nan())?.as_chunks().0.to_vec();
        let recent = take("history_recent", f64::is_finite)?.as_chunks().0.to_vec();
        let parts = HistoryParts { width: history.width, filled: history.filled, bins, recent };
        let history = History::from_parts(parts).ok_or("its history cannot be that of a run")?;
        let bounds = take("bounds", |x| x.is_finite() && x > 0.0)?;
        // NaN before the first iteration.
        let objectives = take("objectives", |_| true)?;
        let (values, grads) = (take("value_tricks", f64::is_finite)?, take("grad_tricks", f64::is_finite)?);
        let velocities = take("velocities", f64::is_finite)?;
        let adam_first = take("adam_first", f64::is_finite)?;
        let adam_second = take("adam_second", |x| x >= 0.0)?;
        let automatic = match automatic {
            None => None,
            Some(outline) => Some(Phase {
                search: outline.search,
                stage: outline.stage,
                since: outline.since,
                // Minus infinity in the first stage, NaN before a component's first look.
                before: take("before", |x| !x.is_nan())?[0],
                settling: outline.settling,
                fuller: outline.fuller.clamp(1, 1000),
                rested: outline.rested,
                next_id: outline.next_id,
                counts: outline.counts,
                spread: take("spread", |x| x.is_nan() || x >= 0.0)?,
                radial: take("radial", |x| (0.0..=1.0).contains(&x))?,
                rounds: outline.rounds,
                witnesses: Witnesses {
                    z: take("witnesses", f64::is_finite)?,
                    grad: take("witness_grads", f64::is_finite)?,
                    log_p: take("witness_log_p", f64::is_finite)?,
                    // Infinite for modes.
                    excess: take("witness_excess", |x| x > 0.0)?,
                },
                kept: Kept {
                    z: take("kept", f64::is_finite)?,
                    // A point that cannot be evaluated has NaN.
                    grad: take("kept_grads", |_| true)?,
                    log_p: take("kept_log_p", |_| true)?,
                    log_s: take("kept_log_s", |_| true)?,
                },
            }),
        };
        let of = |data: &[f64], k: usize, len: usize| data[k * len..][..len].to_vec();
        let carried = (0..mixture.ids.len())
            .map(|k| Carried {
                bound: bounds[k],
                objective: objectives[k],
                trick: Coefficients { value: values[k], grad: grads[k] },
                velocity: of(&velocities, k, velocity_len),
                adam: AdamState { first: of(&adam_first, k, adam_len), second: of(&adam_second, k, adam_len) },
            })
            .collect();
        let best = match best {
            None => None,
            Some(outline) => {
                let elbo = take("best_elbo", |x| !x.is_nan())?;
                let mixture = take_mixture(&mut tensors, "best_", outline)?;
                Some(Best { mixture, elbo: elbo[0], se: elbo[1] })
            }
        };
        let mixture = take_mixture(&mut tensors, "", mixture)?;
        let state = State { mixture, iteration, evals, dropped, seconds, barren, history, best, carried, automatic };
        Ok(Self { state, config })
    }
}
