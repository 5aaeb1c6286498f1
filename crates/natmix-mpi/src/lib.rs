//! Messages between the processes that `mpirun` has started, through the MPI library of the machine.
//!
//! The library is looked up when such a process starts, not when the program is built. So one program runs with and without MPI, and
//! building it takes neither an MPI compiler nor headers. MPI has no common binary interface before its version 5, but there are two that
//! all common libraries share, and nine functions are all that is needed: see `library`.
//!
//! ```
//! // Not started by mpirun: there is nobody to talk to.
//! # if std::env::var_os("OMPI_COMM_WORLD_SIZE").is_none() && std::env::var_os("PMI_SIZE").is_none() {
//! assert!(natmix_mpi::Launched::find().is_none());
//! # }
//! ```

mod find;
mod library;

pub use find::{Launched, Launcher, VARIABLE};

use library::Library;
use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

/// How long a process that waits looks for a message without a pause: MPI itself would keep its core busy for ever, and take it from
/// others.
const BUSY: Duration = Duration::from_micros(50);
/// Pauses after that: this share of the time that it has waited, within these limits.
const PAUSE_SHARE: u32 = 16;
const PAUSES: [Duration; 2] = [Duration::from_micros(10), Duration::from_millis(1)];

/// All processes that were started together, as one of them sees them. MPI ends them all when one of them ends too early, so that no
/// message is lost unnoticed. Dropping it leaves the job.
#[derive(Debug)]
pub struct World {
    library: Box<dyn Library>,
    rank: usize,
    ranks: usize,
}

impl World {
    /// Joins the others. Call this once, before other threads are started; later, threads may call the functions here one at a time.
    pub fn join(launched: &Launched) -> Result<Self, String> {
        let library = library::load(&find::candidates(launched.launcher))?;
        library.init()?;
        let world = Self { rank: library.rank(), ranks: library.ranks(), library };
        if (world.ranks, world.rank) != (launched.ranks, launched.rank) {
            return Err(format!(
                "mpirun has started {} processes, but {} knows of {}: it belongs to another mpirun (name the right libmpi in {VARIABLE})",
                launched.ranks,
                world.library.file(),
                world.ranks
            ));
        }
        Ok(world)
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many processes there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Sends a message to another process. Returns when `message` may be changed, which may be before it has arrived.
    ///
    /// # Panics
    /// If the message has more than 2^31 numbers.
    pub fn send(&self, to: usize, message: &[f64]) {
        self.library.send(to as c_int, message);
    }

    /// Waits for the next message from another process, and replaces `message` by it.
    pub fn receive(&self, from: usize, message: &mut Vec<f64>) {
        let began = Instant::now();
        let count = loop {
            if let Some(count) = self.library.waiting(from as c_int) {
                break count;
            }
            let waited = began.elapsed();
            if waited > BUSY {
                thread::sleep((waited / PAUSE_SHARE).clamp(PAUSES[0], PAUSES[1]));
            }
        };
        message.resize(count, 0.0);
        self.library.receive(from as c_int, message);
    }

    /// Ends all processes.
    pub fn abort(&self, code: i32) -> ! {
        self.library.abort(code);
        std::process::exit(code)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.library.finalize();
    }
}
