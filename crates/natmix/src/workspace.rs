//! Buffers that are lent and taken back, so that an iteration allocates nothing once it is warm.

use crate::linalg::Memory;
use std::sync::Mutex;

/// Powers of two above a request among which a free buffer is searched.
const NEAR: usize = 6;

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
    /// Free buffers by the power of two that they hold: a large one must not be lost to a small request.
    free: Vec<Vec<Vec<f64>>>,
    pub(crate) memory: Memory,
}

impl Scratch {
    /// Lends a buffer of `len` zeros. Give it back with [`Scratch::give`].
    pub fn take(&mut self, len: usize) -> Vec<f64> {
        let mut buffer = self.take_used(len);
        buffer.fill(0.0);
        buffer
    }

    /// Lends a buffer of `len` arbitrary numbers, for callers that overwrite all of them.
    pub fn take_used(&mut self, len: usize) -> Vec<f64> {
        let class = len.next_power_of_two().trailing_zeros() as usize;
        let fitting = self.free.iter_mut().skip(class).take(NEAR).find_map(Vec::pop);
        let mut buffer = fitting.unwrap_or_else(|| Vec::with_capacity(1 << class));
        buffer.resize(len, 0.0);
        buffer
    }

    /// Takes a buffer back for later use.
    pub fn give(&mut self, buffer: Vec<f64>) {
        // A buffer from elsewhere may have any capacity: it is filed under the largest power of two that fits into it.
        let Some(class) = buffer.capacity().checked_ilog2() else { return };
        let class = class as usize;
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(buffer);
    }
}

/// One pool of buffers per thread.
#[derive(Debug)]
pub struct ScratchPool(Vec<Mutex<Scratch>>);

impl ScratchPool {
    /// Buffers for this many threads.
    pub fn new(threads: usize) -> Self {
        Self((0..threads.max(1)).map(|_| Mutex::default()).collect())
    }

    /// Runs `work` with this thread's buffers. A thread that is already inside (a target that uses the same
    /// thread pool may lead it here again) gets fresh ones.
    pub fn with<R>(&self, work: impl FnOnce(&mut Scratch) -> R) -> R {
        let own = rayon::current_thread_index().unwrap_or(0) % self.0.len();
        match self.0[own].try_lock() {
            Ok(mut scratch) => work(&mut scratch),
            Err(_) => work(&mut Scratch::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let mut scratch = Scratch::default();
        let mut buffer = scratch.take(100);
        buffer[7] = 1.0;
        let place = buffer.as_ptr();
        scratch.give(buffer);
        let small = scratch.take(1);
        assert_ne!(small.as_ptr(), place);
        let again = scratch.take(120);
        assert_eq!(again.as_ptr(), place);
        assert!(again.iter().all(|x| *x == 0.0));
        scratch.give(Vec::new());
        assert_eq!(scratch.take(0), Vec::<f64>::new());
    }
}
