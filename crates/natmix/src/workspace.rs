//! Buffers that are lent and taken back, so that an iteration allocates nothing once it is warm.

use crate::linalg::Memory;

/// A pool of buffers for one thread of work.
///
/// ```
/// let mut scratch = natmix::Scratch::default();
/// let buffer = scratch.take(3);
/// assert_eq!(buffer, [0.0; 3]);
/// scratch.give(buffer);
/// ```
#[derive(Debug, Default)]
pub struct Scratch {
    free: Vec<Vec<f64>>,
    pub(crate) memory: Memory,
}

impl Scratch {
    /// Lends a buffer of `len` zeros. Give it back with [`Scratch::give`].
    pub fn take(&mut self, len: usize) -> Vec<f64> {
        // The smallest buffer that fits: a large one must not be lost to a small request.
        let best =
            (0..self.free.len()).filter(|&i| self.free[i].capacity() >= len).min_by_key(|&i| self.free[i].capacity());
        let mut buffer = match best {
            Some(i) => self.free.swap_remove(i),
            // Rounded up: requests that vary a little should find the same buffer.
            None => Vec::with_capacity(len.next_power_of_two()),
        };
        buffer.clear();
        buffer.resize(len, 0.0);
        buffer
    }

    /// Takes a buffer back for later use.
    pub fn give(&mut self, buffer: Vec<f64>) {
        self.free.push(buffer);
    }
}
