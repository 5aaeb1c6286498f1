//! The rows of a table that several processes share.

use super::request::{Order, Request};
use super::sharing::Sharing;
use super::{Ranks, unexpected};
use crate::observations::{Observations, RowBlock, RowSource, Sections, StoredRows};
use natmix::target::TargetError;
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
    sharing: Sharing,
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
        let sharing = Sharing::new(ranks, Sections::of(rows));
        let range = sharing.own_rows();
        if own.as_ref().map_or(0, Observations::rows) != range.len() {
            return Err(Error::InvalidInput(format!("process {} needs {} rows", sharing.ranks().rank(), range.len())));
        }
        let own = Arc::new(OwnRows { sharing, range, table: own });
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
        self.own.table.as_ref().filter(|_| self.own.sharing.sections().count() == 1)
    }

    /// All rows: those of other processes come from there.
    pub(crate) fn stored(&self) -> &StoredRows {
        &self.stored
    }

    /// The processes.
    pub fn ranks(&self) -> &Ranks {
        self.own.sharing.ranks()
    }

    /// Some of the rows of this process, as records.
    pub(super) fn own_records(&self, rows: &[f64]) -> Result<Vec<f64>, TargetError> {
        let mut records = vec![0.0; rows.len() * self.stored.width()];
        let places = records.chunks_exact_mut(self.stored.width());
        self.own.copy(rows.iter().map(|row| *row as usize), places)?;
        Ok(records)
    }

    /// Adds what `each` adds for every block of rows to `totals`, section by section. With a request, rank 0 gets the totals: it
    /// hands the request to the others. Without one all ranks come here by themselves, and all get the totals.
    pub(crate) fn sum<const N: usize>(
        &self,
        request: Option<Request<'_>>,
        totals: [&mut [f64]; N],
        scratch: &mut Scratch,
        mut each: impl FnMut(RowBlock<'_>, [&mut [f64]; N], &mut Scratch),
    ) -> Result<(), TargetError> {
        let OwnRows { sharing, table, .. } = &*self.own;
        let of_section = |rows, mut sums: [&mut [f64]; N], scratch: &mut Scratch| {
            if let Some(table) = table {
                table.blocks_of(rows, scratch, |block, scratch| {
                    each(block, sums.each_mut().map(|sum| &mut **sum), scratch);
                });
            }
        };
        match request {
            Some(request) => sharing.ask(request, scratch)?.sum(totals, scratch, of_section),
            None => sharing.sum_together(totals, scratch, of_section),
        }
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
                return Err(format!("process {} has no row {row}", self.sharing.ranks().rank()).into());
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
        let ranks = self.sharing.ranks();
        let width = records.len() / rows.len().max(1);
        for rank in 0..ranks.ranks() {
            let held = self.sharing.rows_of(rank);
            let theirs = || rows.iter().copied().filter(|row| held.contains(row));
            let places = records.chunks_exact_mut(width).zip(rows).filter(|(_, row)| held.contains(row));
            let places = places.map(|(record, _)| record);
            if rank == ranks.rank() {
                self.copy(theirs(), places)?;
                continue;
            }
            let order = Order::send(theirs());
            if order.len() == 1 {
                continue;
            }
            let _turn = ranks.turn();
            let mut answer = Vec::new();
            ranks.communicator.send(rank, &order)?;
            ranks.communicator.receive(rank, &mut answer)?;
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
