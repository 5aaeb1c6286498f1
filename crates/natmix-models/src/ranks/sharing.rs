//! Sums over the rows of a table of which every process has some sections.

use super::request::Request;
use super::{Ranks, unexpected};
use crate::observations::{Sections, add, cut};
use natmix::Scratch;
use natmix::target::TargetError;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

/// Which rows this process has, and how to reach the others.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    ranks: Arc<Ranks>,
    sections: Sections,
}

impl Sharing {
    /// For a table that is cut like this.
    pub fn new(ranks: Arc<Ranks>, sections: Sections) -> Self {
        Self { ranks, sections }
    }

    /// The processes.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// How the table is cut.
    pub fn sections(&self) -> Sections {
        self.sections
    }

    /// The rows that this process has.
    pub fn own_rows(&self) -> Range<usize> {
        self.rows_of(self.ranks.rank())
    }

    /// The rows that a process has.
    pub fn rows_of(&self, rank: usize) -> Range<usize> {
        self.sections.rows(rank, self.ranks.ranks())
    }

    /// Hands a request to the others, which come here by [`Ranks::serve`] and make the same sums. Nobody else may ask until the turn is over.
    pub fn ask(&self, request: Request<'_>, scratch: &mut Scratch) -> Result<Turn<'_>, TargetError> {
        let turn = Turn { sharing: self, _turn: self.ranks.turn() };
        if self.ranks.leads() {
            let message = request.message(scratch);
            turn.holders().try_for_each(|rank| self.ranks.communicator.send(rank, &message))?;
            scratch.give(message);
        }
        Ok(turn)
    }

    /// Adds up sums that all ranks make by themselves: all get the totals.
    pub fn sum_together<const N: usize>(
        &self,
        mut totals: [&mut [f64]; N],
        scratch: &mut Scratch,
        each: impl FnMut(Range<usize>, [&mut [f64]; N], &mut Scratch),
    ) -> Result<(), TargetError> {
        let turn = Turn { sharing: self, _turn: self.ranks.turn() };
        turn.sum(totals.each_mut().map(|total| &mut **total), scratch, each)?;
        let (communicator, mut message) = (&self.ranks.communicator, Vec::new());
        if self.ranks.leads() {
            totals.iter().for_each(|total| message.extend_from_slice(total));
            return Ok((1..self.ranks.ranks()).try_for_each(|rank| communicator.send(rank, &message))?);
        }
        communicator.receive(0, &mut message)?;
        totals.iter_mut().for_each(|total| total.fill(0.0));
        add(&mut totals, &message);
        Ok(())
    }
}

/// The right to exchange messages about one request.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    sharing: &'a Sharing,
    _turn: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Whether this process gets the totals.
    pub fn leads(&self) -> bool {
        self.sharing.ranks.leads()
    }

    fn share(&self, rank: usize) -> Range<usize> {
        self.sharing.sections.share(rank, self.sharing.ranks.ranks())
    }

    /// The other ranks that have rows.
    fn holders(&self) -> impl Iterator<Item = usize> {
        (1..self.sharing.ranks.ranks()).filter(|rank| !self.share(*rank).is_empty())
    }

    /// Adds to the `totals` of rank 0 what `each` adds for the rows of every section, wherever they are; rows are numbered from the
    /// first one of the process on.
    pub fn sum<const N: usize>(
        &self,
        mut totals: [&mut [f64]; N],
        scratch: &mut Scratch,
        mut each: impl FnMut(Range<usize>, [&mut [f64]; N], &mut Scratch),
    ) -> Result<(), TargetError> {
        let Sharing { ranks, sections } = self.sharing;
        let (communicator, leads) = (&ranks.communicator, ranks.leads());
        let (lens, first) = (totals.each_ref().map(|total| total.len()), self.sharing.own_rows().start);
        let len = lens.iter().sum::<usize>();
        if len == 0 {
            return Ok(());
        }
        if sections.count() == 1 {
            if leads {
                each(sections.section(0), totals, scratch);
            }
            return Ok(());
        }
        let own = self.share(ranks.rank());
        let mut message = scratch.take(own.len() * len);
        for (section, sums) in own.zip(message.chunks_exact_mut(len)) {
            let rows = sections.section(section);
            each(rows.start - first..rows.end - first, cut(sums, lens), scratch);
        }
        if leads {
            message.chunks_exact(len).for_each(|section| add(&mut totals, section));
            for rank in self.holders() {
                communicator.receive(rank, &mut message)?;
                if message.len() != self.share(rank).len() * len {
                    return Err(unexpected(rank, &message));
                }
                message.chunks_exact(len).for_each(|section| add(&mut totals, section));
            }
        } else if !message.is_empty() {
            communicator.send(0, &message)?;
        }
        scratch.give(message);
        Ok(())
    }
}
