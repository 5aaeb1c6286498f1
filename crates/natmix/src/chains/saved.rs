//! The state of chains as a document and tensors, exact to the bit: see [`crate::save`].
//!
//! | tensor, after `chains_` | shape | holds |
//! |---|---|---|
//! | `z`, `log_p`, `grad` | `[64, d]`, `[64]`, `[64, d]` | where the chains are |
//! | `metric`, `factor` | `[d, d]`, or `[d]` and none | their metric |
//! | `tails`, `scales`, `locations`, `scaled` | | the coordinates in which they move, if these are not the target's own |
//! | `step` | `[3]` | log of the step, the share of accepted trajectories that it aims at, R-hat (0 if not known) |
//! | `window` | `[n, d]` | draws of the warm-up |
//! | `kept_draws`, `kept_figures` | `[n, d]`, `[3, n]` | what was kept: draws; log p, energies and divergences |
//! | `before_...` | as `kept_...` | what an earlier attempt has left |
//! | `mode0_...` and so on | | the chains of modes that are done: see [`super::earlier`] |

use super::coordinates::{CoordinateCounts, Coordinates};
use super::earlier::EarlierDocument;
use super::keep::{Kept, Round};
use super::run::{CHAINS, ChainProgress};
use super::state::ChainState;
use super::warm_up::Window;
use super::{Metric, Walkers};
use crate::evaluate::Spent;
use crate::save::bundle::{Layout, Tensors};
use crate::strategy::record::MOST_COUNT;
use serde::{Deserialize, Serialize};

/// Most numbers of chains that are saved: more take too much memory and time to write again and again.
const MOST_NUMBERS: usize = 20_000_000;

/// What the names of all tensors begin with.
const PREFIX: &str = "chains";
/// What is wrong if coordinates are not those of chains.
const IMPOSSIBLE: &str = "its chains have impossible coordinates";

/// Chains between two iterations, ready for a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SavedChains {
    pub document: ChainsDocument,
    pub tensors: Tensors,
}

/// All of them but their tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChainsDocument {
    seed: u64,
    dim: usize,
    /// Whether the metric is a whole covariance.
    dense: bool,
    scales: Option<CoordinateCounts>,
    careful: bool,
    scaled: bool,
    iteration: u64,
    kept_iterations: u64,
    adapted: u64,
    evals: u64,
    dropped: u64,
    warm: bool,
    window: Window,
    /// Draws of the warm-up, draws that were kept, and those of an earlier attempt.
    drawn: usize,
    kept: usize,
    before: Option<usize>,
    round: Round,
    #[serde(default)]
    earlier: EarlierDocument,
}

/// The tensors of draws that were kept.
pub(super) fn kept_layout(prefix: &str, count: usize, d: usize) -> Layout {
    vec![(format!("{prefix}_draws"), vec![count, d]), (format!("{prefix}_figures"), vec![3, count])]
}

/// Adds draws that were kept, with log p, energies and divergences.
pub(super) fn add_kept(
    tensors: &mut Tensors,
    prefix: &str,
    (draws, log_p, energy, diverged): (&[f64], &[f64], &[f64], &[bool]),
    d: usize,
) {
    let (count, diverged) = (log_p.len(), diverged.iter().map(|yes| f64::from(u8::from(*yes))).collect::<Vec<f64>>());
    tensors.add(&format!("{prefix}_draws"), vec![count, d], draws.to_vec());
    tensors.add(&format!("{prefix}_figures"), vec![3, count], [log_p, energy, &diverged].concat());
}

/// Takes draws that were kept.
pub(super) fn take_kept(tensors: &mut Tensors, prefix: &str) -> Kept {
    let draws = tensors.take(&format!("{prefix}_draws"));
    let mut log_p = tensors.take(&format!("{prefix}_figures"));
    let mut energy = log_p.split_off(log_p.len() / 3);
    let diverged = energy.split_off(energy.len() / 2).into_iter().map(|x| x != 0.0).collect();
    Kept { draws, log_p, energy, diverged }
}

impl ChainsDocument {
    /// The tensors that it calls for; fails with what is wrong.
    pub fn layout(&self) -> Result<Layout, String> {
        let Self { dim: d, dense, scales, window, drawn, kept, before, round, .. } = self;
        let Round { attempt, number, settled, done, next, most, .. } = round;
        let counts = [self.iteration, self.kept_iterations, self.adapted, self.evals, self.dropped, window.done];
        let counts = counts.iter().chain([attempt, number, settled, done, next, most]);
        if *d == 0 || window.number.max(window.diverged) as u64 > MOST_COUNT || counts.max() > Some(&MOST_COUNT) {
            return Err("a counter of its chains is out of range".into());
        }
        let fewest = |done: u64| usize::try_from(done).map_or(usize::MAX, |done| done.saturating_mul(CHAINS));
        if !self.warm && *drawn < fewest(window.done) || *kept < fewest(*done) {
            return Err("draws of its chains are missing".into());
        }
        if !kept.is_multiple_of(CHAINS) || before.is_some_and(|before| !before.is_multiple_of(CHAINS)) {
            return Err("its chains have kept different numbers of draws".into());
        }
        let mut layout = vec![
            ("z".to_owned(), vec![CHAINS, *d]),
            ("log_p".to_owned(), vec![CHAINS]),
            ("grad".to_owned(), vec![CHAINS, *d]),
            ("step".to_owned(), vec![3]),
            ("window".to_owned(), vec![*drawn, *d]),
            ("metric".to_owned(), if *dense { vec![*d, *d] } else { vec![*d] }),
        ];
        if *dense {
            layout.push(("factor".to_owned(), vec![*d, *d]));
        }
        for (name, count) in [("kept", Some(*kept)), ("before", *before)] {
            layout.extend(count.map_or_else(Vec::new, |count| kept_layout(name, count, *d)));
        }
        let mut layout: Layout = layout.into_iter().map(|(name, shape)| (format!("{PREFIX}_{name}"), shape)).collect();
        layout.extend(scales.map_or_else(Vec::new, |counts| Coordinates::layout(PREFIX, counts)));
        layout.extend(self.earlier.layout(*d)?);
        Ok(layout)
    }
}

impl ChainState {
    /// Ready for a file; `None` if there are too many numbers.
    pub fn save(&self) -> Option<SavedChains> {
        let Self { walkers, metric, window, round, .. } = self;
        let before = self.before.as_ref().map(|before| before.log_p.len());
        let kept = (self.kept.log_p.len() + before.unwrap_or(0)) * walkers.d;
        if self.draws.len() + kept + self.earlier.numbers() > MOST_NUMBERS {
            return None;
        }
        let mut tensors = Tensors::default();
        let mut add = |name: &str, shape, data: &[f64]| tensors.add(&format!("{PREFIX}_{name}"), shape, data.to_vec());
        let (d, count) = (walkers.d, walkers.len());
        add("z", vec![count, d], &walkers.z);
        add("log_p", vec![count], &walkers.log_p);
        add("grad", vec![count, d], &walkers.grad);
        let r_hat = if self.progress.r_hat.is_nan() { 0.0 } else { self.progress.r_hat };
        add("step", vec![3], &[self.log_step, self.accepted, r_hat]);
        add("window", vec![self.draws.len() / d, d], &self.draws);
        match metric {
            Metric::Diag(variances) => add("metric", vec![d], variances),
            Metric::Dense { covariance, factor } => {
                add("metric", vec![d, d], covariance);
                add("factor", vec![d, d], factor);
            }
        }
        for (name, kept) in [("kept", Some(&self.kept)), ("before", self.before.as_ref())] {
            let Some(Kept { draws, log_p, energy, diverged }) = kept else { continue };
            add_kept(&mut tensors, &format!("{PREFIX}_{name}"), (draws, log_p, energy, diverged), d);
        }
        if let Some(scales) = walkers.scales() {
            scales.add_to(PREFIX, &mut tensors);
        }
        let document = ChainsDocument {
            seed: self.seed,
            dim: d,
            dense: matches!(metric, Metric::Dense { .. }),
            scales: walkers.scales().map(Coordinates::counts),
            careful: self.careful,
            scaled: self.scaled,
            iteration: self.progress.iteration,
            kept_iterations: self.progress.kept,
            adapted: self.adapted,
            evals: self.spent.evals,
            dropped: self.spent.dropped,
            warm: self.warm,
            window: *window,
            drawn: self.draws.len() / d,
            kept: self.kept.log_p.len(),
            before,
            round: round.clone(),
            earlier: self.earlier.save(&mut tensors),
        };
        Some(SavedChains { document, tensors })
    }

    /// Whether they are chains of a target of this dimension and with so many parameters.
    pub fn fits(&self, dim: usize, parameters: usize) -> bool {
        let known = |worst: &Vec<usize>| worst.iter().all(|&j| j < parameters);
        self.walkers.d == dim && self.round.worst.as_ref().is_none_or(known)
    }
}

impl SavedChains {
    /// Takes those of a document out of the tensors of a file. Fails with what is wrong in them.
    pub fn take(document: ChainsDocument, tensors: &mut Tensors) -> Result<Self, String> {
        let tensors = tensors.split_off(&document.layout()?);
        let saved = Self { document, tensors };
        saved.scales()?;
        Ok(saved)
    }

    fn scales(&self) -> Result<Option<Coordinates>, String> {
        let read = |counts| Coordinates::of_tensors(PREFIX, counts, &self.tensors, self.document.dim);
        self.document.scales.map(|counts| read(counts).ok_or(IMPOSSIBLE.into())).transpose()
    }

    /// The chains as they were.
    pub fn restore(self) -> Result<ChainState, String> {
        let (scales, d) = (self.scales()?, self.document.dim);
        let mut tensors = self.tensors;
        let mut kept = |name: &str| take_kept(&mut tensors, &format!("{PREFIX}_{name}"));
        let (before, kept) = (self.document.before.map(|_| kept("before")), kept("kept"));
        let earlier = self.document.earlier.restore(&mut tensors, d).ok_or(IMPOSSIBLE)?;
        let mut take = |name: &str| tensors.take(&format!("{PREFIX}_{name}"));
        let document = self.document;
        let metric = match (take("metric"), document.dense) {
            (variances, false) => Metric::Diag(variances),
            (covariance, true) => Metric::Dense { covariance, factor: take("factor") },
        };
        let walkers = Walkers::restored(d, (take("z"), take("log_p"), take("grad")), scales);
        let step = take("step");
        let r_hat = if step[2] == 0.0 { f64::NAN } else { step[2] };
        Ok(ChainState {
            seed: document.seed,
            walkers,
            metric,
            log_step: step[0],
            accepted: step[1],
            careful: document.careful,
            scaled: document.scaled,
            progress: ChainProgress { iteration: document.iteration, kept: document.kept_iterations, r_hat },
            adapted: document.adapted,
            spent: Spent { evals: document.evals, dropped: document.dropped },
            warm: document.warm,
            window: document.window,
            draws: take("window"),
            round: document.round,
            kept,
            before,
            earlier,
        })
    }
}
