//! The rows of a table that several processes share.

use super::request::{Order, Request};
use super::{Lost, Ranks};
use crate::observations::{Observations, RowBlock, RowSource, Sections, StoredRows, add, cut};
use natmix::target::{Rows, TargetError};
use natmix::{Error, Scratch};
use std::ops::Range;
use std::sync::Arc;

/// A table of which this process holds some rows.
#[derive(Clone, Debug)]
pub struct SharedRows {
    own: Arc<OwnRows>,
    /// All rows, for what reads single ones.
    stored: StoredRows,
}

/// The rows of this process, and how to reach the others.
#[derive(Debug)]
struct OwnRows {
    ranks: Arc<Ranks>,
    sections: Sections,
    /// Which rows of the whole table they are.
    range: Range<usize>,
    /// None if there are none.
    table: Option<Observations>,
}

impl SharedRows {
    /// The rows that this process is to hold, of a table with `rows` rows.
    pub fn share(ranks: &Ranks, rows: usize) -> Range<usize> {
        Sections::of(rows).rows(ranks.rank(), ranks.ranks())
    }

    /// A table with `rows` rows, of which `own` are [those of this process](SharedRows::share); features have these names, and records
    /// have an offset and a weight if this says so.
    pub fn new(
        ranks: Arc<Ranks>,
        own: Option<Observations>,
        rows: usize,
        names: Vec<String>,
        (offset, weights): (bool, bool),
    ) -> Result<Self, Error> {
        let range = Self::share(&ranks, rows);
        if own.as_ref().map_or(0, Observations::rows) != range.len() {
            return Err(Error::InvalidInput(format!("process {} needs {} rows", ranks.rank(), range.len())));
        }
        let own = Arc::new(OwnRows { ranks, sections: Sections::of(rows), range, table: own });
        let mut stored = StoredRows::new(own.clone(), rows, names)?;
        if offset {
            stored = stored.with_offset();
        }
        if weights {
            stored = stored.with_weights();
        }
        Ok(Self { own, stored })
    }

    /// All rows as a table, if this process has them: rank 0 does if the table is small.
    pub(crate) fn whole_table(&self) -> Option<&Observations> {
        self.own.table.as_ref().filter(|_| self.own.sections.count() == 1)
    }

    /// All rows: those of other processes come from there.
    pub(crate) fn stored(&self) -> &StoredRows {
        &self.stored
    }

    /// The processes.
    pub fn ranks(&self) -> &Ranks {
        &self.own.ranks
    }

    /// Some of the rows of this process, as records.
    pub(super) fn own_records(&self, rows: &[f64]) -> Result<Vec<f64>, TargetError> {
        let mut records = vec![0.0; rows.len() * self.stored.width()];
        let places = records.chunks_exact_mut(self.stored.width());
        self.own.copy(rows.iter().map(|row| *row as usize), places)?;
        Ok(records)
    }

    /// Adds what `each` adds for every block of rows to `totals`, section by section. With a request, rank 0 gets the totals: it
    /// hands the request to the others, which come here by [`Ranks::serve`]. Without one all ranks come here by themselves, and all get
    /// the totals.
    pub(crate) fn sum<const N: usize>(
        &self,
        request: Option<Request<'_>>,
        mut totals: [&mut [f64]; N],
        scratch: &mut Scratch,
        mut each: impl FnMut(RowBlock<'_>, [&mut [f64]; N], &mut Scratch),
    ) -> Result<(), TargetError> {
        let OwnRows { ranks, sections, .. } = &*self.own;
        let (communicator, leads) = (&ranks.communicator, ranks.leads());
        let _turn = ranks.turn();
        let holders = || (1..ranks.ranks()).filter(|rank| !sections.share(*rank, ranks.ranks()).is_empty());
        if let Some(request) = request.filter(|_| leads) {
            let message = request.message(scratch);
            holders().try_for_each(|rank| communicator.send(rank, &message))?;
            scratch.give(message);
        }
        let lens = totals.each_ref().map(|total| total.len());
        let len = lens.iter().sum::<usize>();
        if sections.count() == 1 {
            if let Some(table) = &self.own.table {
                table.blocks(Rows::All, scratch, |rows, scratch| {
                    each(rows, totals.each_mut().map(|total| &mut **total), scratch);
                });
            }
            return if request.is_none() { Ok(self.spread(&mut totals, &mut Vec::new())?) } else { Ok(()) };
        }
        let mut message = self.own_sums(lens, scratch, each);
        if leads {
            message.chunks_exact(len.max(1)).for_each(|section| add(&mut totals, section));
            for rank in holders() {
                communicator.receive(rank, &mut message)?;
                if message.len() != sections.share(rank, ranks.ranks()).len() * len {
                    return Err(unexpected(rank, &message));
                }
                message.chunks_exact(len.max(1)).for_each(|section| add(&mut totals, section));
            }
        } else if !message.is_empty() {
            communicator.send(0, &message)?;
        }
        if request.is_none() {
            self.spread(&mut totals, &mut message)?;
        }
        scratch.give(message);
        Ok(())
    }

    /// The sums of the sections of this process, one after the other.
    fn own_sums<const N: usize>(
        &self,
        lens: [usize; N],
        scratch: &mut Scratch,
        mut each: impl FnMut(RowBlock<'_>, [&mut [f64]; N], &mut Scratch),
    ) -> Vec<f64> {
        let OwnRows { ranks, sections, table, .. } = &*self.own;
        let len = lens.iter().sum::<usize>();
        let mut sums = scratch.take(sections.share(ranks.rank(), ranks.ranks()).len() * len);
        if let Some(table) = table {
            let mut block = 0;
            table.blocks(Rows::All, scratch, |rows, scratch| {
                let section = &mut sums[block / sections.blocks * len..][..len];
                each(rows, cut(section, lens), scratch);
                block += 1;
            });
        }
        sums
    }

    /// Gives every rank the totals of rank 0.
    fn spread<const N: usize>(&self, totals: &mut [&mut [f64]; N], message: &mut Vec<f64>) -> Result<(), Lost> {
        let ranks = &self.own.ranks;
        if ranks.leads() {
            message.clear();
            totals.iter().for_each(|total| message.extend_from_slice(total));
            return (1..ranks.ranks()).try_for_each(|rank| ranks.communicator.send(rank, message));
        }
        ranks.communicator.receive(0, message)?;
        totals.iter_mut().for_each(|total| total.fill(0.0));
        add(totals, message);
        Ok(())
    }
}

impl OwnRows {
    /// Writes rows of this process, by their numbers in the whole table.
    fn copy<'a>(
        &self,
        rows: impl Iterator<Item = usize>,
        records: impl Iterator<Item = &'a mut [f64]>,
    ) -> Result<(), TargetError> {
        for (row, record) in rows.zip(records) {
            let Some(table) = self.table.as_ref().filter(|_| self.range.contains(&row)) else {
                return Err(format!("process {} has no row {row}", self.ranks.rank()).into());
            };
            let row = row - self.range.start;
            let (x, rest) = record.split_at_mut(table.features());
            x.copy_from_slice(&table.design()[row * x.len()..][..x.len()]);
            rest[0] = table.outcome()[row];
            let more = [table.offset(), table.weights()].into_iter().flatten();
            rest[1..].iter_mut().zip(more).for_each(|(to, from)| *to = from[row]);
        }
        Ok(())
    }
}

impl RowSource for Arc<OwnRows> {
    fn read(&self, first: usize, records: &mut [f64]) -> Result<(), TargetError> {
        let count = self.table.as_ref().map_or(0, |table| records.len() / width(table));
        self.read_some(&(first..first + count).collect::<Vec<_>>(), records)
    }

    /// One message to each process that has some of the rows, and one back.
    fn read_some(&self, rows: &[usize], records: &mut [f64]) -> Result<(), TargetError> {
        let count = self.ranks.ranks();
        let width = records.len() / rows.len().max(1);
        for rank in 0..count {
            let held = self.sections.rows(rank, count);
            let theirs = || rows.iter().copied().filter(|row| held.contains(row));
            let places = records.chunks_exact_mut(width).zip(rows).filter(|(_, row)| held.contains(row));
            let places = places.map(|(record, _)| record);
            if rank == self.ranks.rank() {
                self.copy(theirs(), places)?;
                continue;
            }
            let order = Order::send(theirs());
            if order.len() == 1 {
                continue;
            }
            let _turn = self.ranks.turn();
            let mut answer = Vec::new();
            self.ranks.communicator.send(rank, &order)?;
            self.ranks.communicator.receive(rank, &mut answer)?;
            if answer.len() != (order.len() - 1) * width {
                return Err(unexpected(rank, &answer));
            }
            places.zip(answer.chunks_exact(width)).for_each(|(to, from)| to.copy_from_slice(from));
        }
        Ok(())
    }
}

/// Numbers per record.
fn width(table: &Observations) -> usize {
    table.features() + 1 + usize::from(table.offset().is_some()) + usize::from(table.weights().is_some())
}

fn unexpected(rank: usize, message: &[f64]) -> TargetError {
    format!("process {rank} has sent {} numbers, which is not what it was asked for", message.len()).into()
}
