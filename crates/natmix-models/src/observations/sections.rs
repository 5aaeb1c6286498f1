//! The order in which sums over all rows are added up: section by section, whoever holds the rows.
//!
//! A section is a run of whole blocks. Its blocks are added to a sum of its own, and the sums of the sections to the total, in their
//! order: a total then has the same bits whether one process has all rows or several have some sections each. How many rows
//! a section has depends on the number of rows only. A small table is one section, whose blocks are added to the total directly.

use super::BLOCK;
use natmix::Scratch;
use std::ops::Range;

/// Fewest blocks per section: sums of sections that others compute take time to send.
const FEWEST_BLOCKS: usize = 128;
/// Most sections of a table, and so most processes that can share it.
const MOST_SECTIONS: usize = 64;

/// How a table is cut into sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sections {
    rows: usize,
    /// Blocks per section.
    pub blocks: usize,
}

impl Sections {
    /// The sections of a table with this many rows.
    pub fn of(rows: usize) -> Self {
        Self { rows, blocks: rows.div_ceil(BLOCK).div_ceil(MOST_SECTIONS).max(FEWEST_BLOCKS) }
    }

    /// The same with at least this many rows in each: for sums so large that adding them up takes as long as some rows do.
    pub fn of_at_least(rows: usize, each: usize) -> Self {
        let Self { blocks, .. } = Self::of(rows);
        Self { rows, blocks: blocks.max(each.div_ceil(BLOCK)) }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.rows.div_ceil(self.blocks * BLOCK)
    }

    /// The sections that one of several processes has; rank 0 has all of a small table.
    pub fn share(self, rank: usize, ranks: usize) -> Range<usize> {
        (rank * self.count()).div_ceil(ranks)..((rank + 1) * self.count()).div_ceil(ranks)
    }

    /// The rows that one of several processes has.
    pub fn rows(self, rank: usize, ranks: usize) -> Range<usize> {
        let share = self.share(rank, ranks);
        self.first_row(share.start)..self.first_row(share.end)
    }

    /// The rows of a section.
    pub fn section(self, section: usize) -> Range<usize> {
        self.first_row(section)..self.first_row(section + 1)
    }

    fn first_row(self, section: usize) -> usize {
        (section * self.blocks * BLOCK).min(self.rows)
    }

    /// Adds to `totals` what `each` adds for the rows of every section, in their order, where one process has them all.
    pub fn sum<const N: usize>(
        self,
        mut totals: [&mut [f64]; N],
        scratch: &mut Scratch,
        mut each: impl FnMut(Range<usize>, [&mut [f64]; N], &mut Scratch),
    ) {
        if self.count() == 1 {
            return each(0..self.rows, totals, scratch);
        }
        let lens = totals.each_ref().map(|total| total.len());
        let mut sums = scratch.take_used(lens.iter().sum());
        for section in 0..self.count() {
            sums.fill(0.0);
            each(self.section(section), cut(&mut sums, lens), scratch);
            add(&mut totals, &sums);
        }
        scratch.give(sums);
    }
}

/// `flat`, cut into runs of these lengths.
pub(crate) fn cut<const N: usize>(flat: &mut [f64], lens: [usize; N]) -> [&mut [f64]; N] {
    let mut rest = flat;
    lens.map(|len| {
        let (run, others) = std::mem::take(&mut rest).split_at_mut(len);
        rest = others;
        run
    })
}

/// Adds the sums of a section to the totals.
pub(crate) fn add<const N: usize>(totals: &mut [&mut [f64]; N], section: &[f64]) {
    let mut numbers = section.iter();
    totals.iter_mut().flat_map(|total| total.iter_mut()).for_each(|total| *total += numbers.next().unwrap_or(&0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_belongs_to_one_process_and_blocks_stay_whole() {
        for rows in [1, BLOCK, FEWEST_BLOCKS * BLOCK, FEWEST_BLOCKS * BLOCK + 1, 2_000_000, 100_000_000] {
            let sections = Sections::of(rows);
            assert_eq!(sections.count() == 1, rows <= FEWEST_BLOCKS * BLOCK);
            assert!(sections.count() <= MOST_SECTIONS);
            for ranks in [1, 2, 3, 8, 100] {
                let mut next = 0;
                for rank in 0..ranks {
                    let own = sections.rows(rank, ranks);
                    assert!(own.start == next && (own.start.is_multiple_of(BLOCK) || own.is_empty()), "{rows} {ranks}");
                    next = own.end;
                }
                assert_eq!(next, rows);
            }
        }
        // Two processes have the same number of sections, up to one.
        let [first, second] = [0, 1].map(|rank| Sections::of(2_000_000).share(rank, 2).len());
        assert!(first.abs_diff(second) <= 1, "{first} {second}");
    }
}
