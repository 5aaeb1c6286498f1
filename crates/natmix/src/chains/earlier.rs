//! What chains have come to before the present ones in the same fit: those of modes that are done, also as a document and
//! tensors, so that a run which is resumed does not need to repeat them.
//!
//! | tensor, after `chains_mode` and a number from 0 on | shape | holds |
//! |---|---|---|
//! | `_draws`, `_figures` | `[n, d]`, `[3, n]` | draws; log p, energies and divergences |
//! | `_diverged` | `[1]` | the share of trajectories that diverged |
//! | `_tails`, `_scales`, `_locations`, `_scaled` | | the coordinates in which they moved, if these were not the target's own |
//!
//! What is known about each parameter follows from the draws, and is not stored.

use super::certificate::{Certificate, judge_draws};
use super::coordinates::{CoordinateCounts, Coordinates};
use super::draws::ChainDraws;
use super::modes::MOST_MODES;
use super::run::{CHAINS, PER_START};
use super::saved::{add_kept, kept_layout, take_kept};
use crate::evaluate::Spent;
use crate::save::bundle::{Layout, Tensors};
use crate::strategy::record::MOST_COUNT;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What was done before the present chains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    /// The chains of the modes that are done; none where the modes have proved to be connected.
    pub modes: Vec<Arc<ChainDraws>>,
    /// Iterations of these, and what all of it has cost.
    pub iterations: u64,
    pub spent: Spent,
}

/// All of it but the tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EarlierDocument {
    iterations: u64,
    evals: u64,
    dropped: u64,
    modes: Vec<ModeDocument>,
}

/// The chains of a mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeDocument {
    kept: usize,
    scales: Option<CoordinateCounts>,
    scaled: bool,
    reasons: Vec<String>,
}

/// What the names of the tensors of a mode begin with.
fn prefix(mode: usize) -> String {
    format!("chains_mode{mode}")
}

impl Earlier {
    /// How many numbers there are to save.
    pub fn numbers(&self) -> usize {
        self.modes.iter().map(|chains| chains.draws.len()).sum()
    }

    /// Adds the tensors; returns the document.
    pub(super) fn save(&self, tensors: &mut Tensors) -> EarlierDocument {
        let modes = self.modes.iter().enumerate().map(|(mode, chains)| {
            let ChainDraws { draws, log_p, energy, diverged, certificate, scaled, scales, .. } = &**chains;
            let prefix = prefix(mode);
            add_kept(tensors, &prefix, (draws, log_p, energy, diverged), chains.dim());
            tensors.add(&format!("{prefix}_diverged"), vec![1], vec![certificate.diverged]);
            if let Some(scales) = scales {
                scales.add_to(&prefix, tensors);
            }
            let (kept, scales) = (log_p.len(), scales.as_ref().map(Coordinates::counts));
            ModeDocument { kept, scales, scaled: *scaled, reasons: certificate.reasons.clone() }
        });
        let modes = modes.collect();
        let Self { iterations, spent: Spent { evals, dropped }, .. } = *self;
        EarlierDocument { iterations, evals, dropped, modes }
    }

    /// The same with all that is known about the parameters, which files do not have.
    pub fn judged(&self, target: &dyn Target) -> Self {
        let names = target.parameter_names().len();
        let judged = |chains: &Arc<ChainDraws>| {
            if !chains.certificate.parameters.is_empty() {
                return chains.clone();
            }
            let mut values = vec![0.0; chains.log_p.len() * names];
            let rows = chains.draws.chunks_exact(chains.dim()).zip(values.chunks_exact_mut(names));
            rows.for_each(|(z, row)| target.to_parameters(z, row));
            let mut chains = ChainDraws::clone(chains);
            chains.certificate.parameters = judge_draws(&values, names, (chains.chains, chains.per_start));
            Arc::new(chains)
        };
        Self { modes: self.modes.iter().map(judged).collect(), ..*self }
    }
}

impl EarlierDocument {
    /// The tensors that it calls for, in dimension `d`; fails with what is wrong.
    pub fn layout(&self, d: usize) -> Result<Layout, String> {
        let counts = [self.iterations, self.evals, self.dropped];
        if counts.iter().any(|count| *count > MOST_COUNT) || self.modes.len() >= MOST_MODES {
            return Err("a counter of its chains is out of range".into());
        }
        let mut layout = Layout::new();
        for (mode, ModeDocument { kept, scales, .. }) in self.modes.iter().enumerate() {
            if *kept == 0 || !kept.is_multiple_of(CHAINS) {
                return Err("the chains of a mode have kept different numbers of draws".into());
            }
            let prefix = prefix(mode);
            layout.extend(kept_layout(&prefix, *kept, d));
            layout.push((format!("{prefix}_diverged"), vec![1]));
            layout.extend(scales.map_or_else(Vec::new, |counts| Coordinates::layout(&prefix, counts)));
        }
        Ok(layout)
    }

    /// From tensors that have the layout; `None` if coordinates are impossible.
    pub fn restore(&self, tensors: &mut Tensors, d: usize) -> Option<Earlier> {
        let mode = |(mode, one): (usize, &ModeDocument)| {
            let prefix = prefix(mode);
            let scales = match one.scales {
                Some(counts) => Some(Coordinates::of_tensors(&prefix, counts, tensors, d)?),
                None => None,
            };
            let diverged = *tensors.get(&format!("{prefix}_diverged")).first()?;
            let kept = take_kept(tensors, &prefix);
            Some(Arc::new(ChainDraws {
                draws: kept.draws,
                log_p: kept.log_p,
                energy: kept.energy,
                diverged: kept.diverged,
                chains: CHAINS,
                per_start: PER_START,
                certificate: Certificate { parameters: Vec::new(), diverged, reasons: one.reasons.clone() },
                scaled: one.scaled,
                scales,
                stopped: false,
                modes: None,
            }))
        };
        let modes = self.modes.iter().enumerate().map(mode).collect::<Option<_>>()?;
        let spent = Spent { evals: self.evals, dropped: self.dropped };
        Some(Earlier { modes, iterations: self.iterations, spent })
    }
}
