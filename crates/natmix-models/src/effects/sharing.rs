//! Sums over the rows of a regression: section by section, by this process alone or by several that share the rows.

use super::model::EffectsModel;
use crate::observations::Sections;
use crate::ranks::{Ranks, Sharing, Turn};
use natmix::Scratch;
use natmix::target::{Rows, TargetError};
use std::ops::Range;
use std::sync::Arc;

/// Rows per section, in multiples of what each section adds to: adding sections up then takes little time.
const ROWS_PER_SUM: usize = 4;

/// Rows that this process has, by their numbers here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Picked<'a> {
    /// Some that follow one another.
    Run { first: usize, count: usize },
    /// Those of a minibatch.
    Some(&'a [u32]),
}

impl Picked<'_> {
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let (run, some) = match *self {
            Picked::Run { first, count } => (first..first + count, &[][..]),
            Picked::Some(subset) => (0..0, subset),
        };
        run.chain(some.iter().map(|row| *row as usize))
    }
}

impl EffectsModel {
    /// Effects of all levels of all groupings.
    pub(super) fn effects(&self) -> usize {
        self.groups.iter().map(|group| group.shape.effects()).sum()
    }

    /// How its rows are cut.
    fn sections(&self) -> Sections {
        Sections::of_at_least(self.rows, ROWS_PER_SUM * (self.priors.len() + self.effects()))
    }

    /// Whether sums over these rows are made in one go.
    pub(super) fn in_one_section(&self, rows: Rows<'_>) -> bool {
        matches!(rows, Rows::Subset(_)) || self.sections().count() == 1
    }

    /// Adds to `totals` what `each` adds for rows: for all of them section by section, in an order that does not depend on who has them.
    pub(super) fn sum_rows<const N: usize>(
        &self,
        (rows, turn): (Rows<'_>, Option<&Turn<'_>>),
        totals: [&mut [f64]; N],
        scratch: &mut Scratch,
        mut each: impl FnMut(Picked<'_>, [&mut [f64]; N], &mut Scratch),
    ) -> Result<(), TargetError> {
        let of_run = |rows: Range<usize>| Picked::Run { first: rows.start, count: rows.len() };
        match (rows, turn) {
            (Rows::Subset(subset), _) => each(Picked::Some(subset), totals, scratch),
            (Rows::All, None) => {
                self.sections().sum(totals, scratch, |rows, sums, scratch| each(of_run(rows), sums, scratch));
            }
            (Rows::All, Some(turn)) => {
                return turn.sum(totals, scratch, |rows, sums, scratch| each(of_run(rows), sums, scratch));
            }
        }
        Ok(())
    }

    /// Keeps the rows of this process: from here on several share them. Series that stand for them take less time than messages
    /// would: then the process that leads keeps all rows, and needs no help.
    pub(super) fn share(&mut self, ranks: Arc<Ranks>) {
        if self.series.is_some() {
            return;
        }
        let sharing = Sharing::new(ranks, self.sections());
        let (own, p) = (sharing.own_rows(), self.priors.len());
        keep(&mut self.x, &own, p);
        let offset = self.offset.iter_mut();
        let outcomes = [&mut self.outcomes.y, &mut self.outcomes.other, &mut self.outcomes.weights];
        outcomes.into_iter().chain(offset).for_each(|list| keep(list, &own, 1));
        self.auxiliary.keep(&own);
        for group in &mut self.groups {
            keep(&mut group.level_of_row, &own, 1);
            keep(&mut group.z, &own, group.q);
        }
        self.sharing = Some(sharing);
    }
}

/// Keeps a run of rows of a list with `width` numbers for each, unless it has none.
pub(super) fn keep<T>(list: &mut Vec<T>, rows: &Range<usize>, width: usize) {
    if !list.is_empty() {
        list.truncate(rows.end * width);
        list.drain(..rows.start * width);
        list.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests;
