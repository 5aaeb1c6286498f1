//! The other processes of a fit, if natmix was started several times by `mpirun`.

use natmix_models::ranks::{Communicator, Lost, Ranks};
use natmix_mpi::{Launched, World};
use std::process::ExitCode;
use std::sync::Arc;

/// This process among those that were started together.
pub struct Processes {
    launched: Option<Launched>,
    session: Option<Result<Session, String>>,
}

/// This process as part of an MPI job, until it is dropped.
struct Session {
    world: Arc<World>,
    ranks: Arc<Ranks>,
}

impl Processes {
    /// Joins the others.
    pub fn start() -> Self {
        let launched = Launched::find();
        // One process that mpirun has started needs no MPI.
        let session = launched.filter(|launched| launched.ranks > 1).map(|launched| {
            let world = Arc::new(World::join(&launched)?);
            Ok(Session { ranks: Arc::new(Ranks::new(Messages(world.clone()))), world })
        });
        Self { launched, session }
    }

    /// Whether this process writes messages.
    pub fn speaks(&self) -> bool {
        self.launched.is_none_or(|launched| launched.rank == 0)
    }

    /// The processes, if there are several.
    pub fn ranks(&self) -> anyhow::Result<Option<&Arc<Ranks>>> {
        match &self.session {
            None => Ok(None),
            Some(Err(problem)) => Err(anyhow::anyhow!("{problem}")),
            Some(Ok(session)) => Ok(Some(&session.ranks)),
        }
    }

    /// Runs `work`. If it panics, all processes end, which would wait for this one otherwise.
    pub fn guard(&self, work: impl FnOnce() -> ExitCode) -> ExitCode {
        let Some(Ok(session)) = &self.session else { return work() };
        // Nothing is used after a panic.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok(code) => code,
            Err(_) => session.world.abort(2),
        }
    }
}

/// Messages by MPI, which ends all processes when one of them is lost.
#[derive(Debug)]
struct Messages(Arc<World>);

impl Communicator for Messages {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    fn send(&self, to: usize, message: &[f64]) -> Result<(), Lost> {
        self.0.send(to, message);
        Ok(())
    }

    fn receive(&self, from: usize, message: &mut Vec<f64>) -> Result<(), Lost> {
        self.0.receive(from, message);
        Ok(())
    }
}
