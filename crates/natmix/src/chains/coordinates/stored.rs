//! Coordinates of chains as numbers, exact to the bit.

use super::Coordinates;
use crate::chains::scales::{ScaleCounts, Scales};
use crate::chains::tails::{TAIL, Tails};
use crate::save::bundle::{Layout, Tensors};
use serde::{Deserialize, Serialize};

/// The tensor of the tails, after a prefix; those of the scales follow.
const TAILS: &str = "tails";

/// How many long tails, and what of the scales, there are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::chains) struct CoordinateCounts {
    tails: usize,
    scales: Option<ScaleCounts>,
}

impl Coordinates {
    pub(in crate::chains) fn counts(&self) -> CoordinateCounts {
        CoordinateCounts { tails: self.tails.len(), scales: self.scales.as_ref().map(Scales::counts) }
    }

    /// The tensors of so many.
    pub(in crate::chains) fn layout(prefix: &str, counts: CoordinateCounts) -> Layout {
        let mut layout = vec![(format!("{prefix}_{TAILS}"), vec![counts.tails, TAIL])];
        layout.extend(counts.scales.map_or_else(Vec::new, |counts| Scales::layout(prefix, counts)));
        layout
    }

    pub(in crate::chains) fn add_to(&self, prefix: &str, tensors: &mut Tensors) {
        tensors.add(&format!("{prefix}_{TAILS}"), vec![self.tails.len(), TAIL], self.tails.numbers());
        self.scales.iter().for_each(|scales| scales.add_to(prefix, tensors));
    }

    /// From tensors that have the layout; `None` if they do not describe coordinates in dimension `d`.
    pub(in crate::chains) fn of_tensors(
        prefix: &str,
        counts: CoordinateCounts,
        tensors: &Tensors,
        d: usize,
    ) -> Option<Self> {
        let tails = Tails::of_numbers(tensors.get(&format!("{prefix}_{TAILS}")), d)?;
        let scales = match counts.scales {
            Some(_) => Some(Scales::of_tensors(prefix, tensors, d)?),
            None => None,
        };
        Self::from_parts(d, tails, scales)
    }
}
