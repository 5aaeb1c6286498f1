//! Minibatches: each epoch visits every row once, in an order that depends on seed and epoch alone.

use crate::error::Error;
use crate::noise::{Noise, Purpose};

/// The order of the rows in the current epoch.
#[derive(Debug)]
pub(crate) struct Minibatches {
    order: Vec<u32>,
    size: usize,
    seed: u64,
    epoch: Option<u64>,
}

impl Minibatches {
    pub fn new(rows: usize, size: usize, seed: u64) -> Result<Self, Error> {
        if u32::try_from(rows).is_err() {
            let problem = format!("goes with at most {} rows, not {rows}", u32::MAX);
            return Err(Error::Config { setting: "minibatch", problem });
        }
        Ok(Self { order: (0..rows as u32).collect(), size, seed, epoch: None })
    }

    /// The rows of an iteration; the last batch of an epoch may be smaller.
    pub fn rows(&mut self, iteration: u64) -> &[u32] {
        let per_epoch = self.order.len().div_ceil(self.size) as u64;
        let epoch = iteration / per_epoch;
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            // From the identity each time: a resumed run knows nothing of earlier epochs.
            for (i, row) in self.order.iter_mut().enumerate() {
                *row = i as u32;
            }
            let mut noise = Noise::new(self.seed, Purpose::Minibatch, 0, epoch, 0);
            for i in (1..self.order.len()).rev() {
                self.order.swap(i, noise.index(i + 1));
            }
        }
        let first = (iteration % per_epoch) as usize * self.size;
        &self.order[first..(first + self.size).min(self.order.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_every_row_once_and_epochs_can_be_entered_anywhere() {
        let mut batches = Minibatches::new(10, 4, 3).unwrap();
        let mut rows_of = |t| batches.rows(t).to_vec();
        for epoch in 0..3 {
            let mut seen: Vec<u32> = (0..3).flat_map(|i| rows_of(3 * epoch + i)).collect();
            assert_eq!(rows_of(3 * epoch + 2).len(), 2);
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<u32>>());
        }
        let later = rows_of(7);
        assert_eq!(later, Minibatches::new(10, 4, 3).unwrap().rows(7));
        assert_ne!(rows_of(0), rows_of(3));
    }
}
