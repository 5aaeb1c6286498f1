//! Messages by MPI: the only file that names it.

use ::mpi::Threading;
use ::mpi::environment::{Universe, initialize_with_threading};
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator as _, Destination, Equivalence, Source};
use natmix_models::ranks::{Communicator, Lost, Ranks};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often a process that waits looks for a message before it pauses: MPI itself would keep its core busy.
const LOOKS: u32 = 2000;
const PAUSE: Duration = Duration::from_micros(50);

/// This process as part of an MPI job, until it is dropped.
pub struct Session {
    pub ranks: Arc<Ranks>,
    _universe: Universe,
}

impl Session {
    /// Joins the job.
    pub fn start() -> Result<Self, String> {
        // Several threads evaluate; they take turns.
        match initialize_with_threading(Threading::Serialized) {
            Some((universe, Threading::Serialized | Threading::Multiple)) => {
                let world = SimpleCommunicator::world();
                let world = World { rank: world.rank() as usize, ranks: world.size() as usize };
                Ok(Self { ranks: Arc::new(Ranks::new(world)), _universe: universe })
            }
            Some(_) => Err("this MPI library does not let threads take turns: Open MPI and MPICH do".into()),
            None => Err("MPI was started twice".into()),
        }
    }

    /// Ends all processes.
    pub fn abort(&self) -> ! {
        SimpleCommunicator::world().abort(2)
    }
}

/// All processes of the job. MPI ends them all when one of them ends too early, so that no message is lost unnoticed.
#[derive(Debug)]
struct World {
    rank: usize,
    ranks: usize,
}

impl Communicator for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn send(&self, to: usize, message: &[f64]) -> Result<(), Lost> {
        SimpleCommunicator::world().process_at_rank(to as i32).send(message);
        Ok(())
    }

    fn receive(&self, from: usize, message: &mut Vec<f64>) -> Result<(), Lost> {
        let world = SimpleCommunicator::world();
        let process = world.process_at_rank(from as i32);
        let mut looks = 0;
        let status = loop {
            match process.immediate_probe() {
                Some(status) => break status,
                None if looks < LOOKS => looks += 1,
                None => thread::sleep(PAUSE),
            }
        };
        message.resize(status.count(f64::equivalent_datatype()) as usize, 0.0);
        process.receive_into(&mut message[..]);
        Ok(())
    }
}
