//! The other processes of a fit, if natmix was started several times by `mpirun`.

#[cfg(feature = "mpi")]
mod mpi;

use natmix_models::ranks::Ranks;
use std::process::ExitCode;
use std::sync::Arc;

/// What `mpirun` tells each process: how many there are, and which of them it is.
const LAUNCHERS: [(&str, &str); 2] = [("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK")];

/// This process among those that were started together.
pub struct Processes {
    #[cfg(feature = "mpi")]
    session: Option<Result<mpi::Session, String>>,
    /// How many a launcher says there are, and which one this is.
    launched: (usize, usize),
}

impl Processes {
    /// Joins the others.
    pub fn start() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
        let launched = LAUNCHERS.iter().find_map(|(size, rank)| Some((number(size)?, number(rank)?)));
        Self {
            #[cfg(feature = "mpi")]
            session: launched.map(|_| mpi::Session::start()),
            launched: launched.unwrap_or((1, 0)),
        }
    }

    /// Whether this process writes messages.
    pub fn speaks(&self) -> bool {
        self.launched.1 == 0
    }

    /// The processes, if there are several.
    #[cfg(feature = "mpi")]
    pub fn ranks(&self) -> anyhow::Result<Option<&Arc<Ranks>>> {
        match &self.session {
            None => Ok(None),
            Some(Err(problem)) => Err(anyhow::anyhow!("{problem}")),
            Some(Ok(session)) => Ok((session.ranks.ranks() > 1).then_some(&session.ranks)),
        }
    }

    /// The processes, if there are several.
    #[cfg(not(feature = "mpi"))]
    pub fn ranks(&self) -> anyhow::Result<Option<&Arc<Ranks>>> {
        match self.launched.0 {
            1 => Ok(None),
            several => Err(anyhow::anyhow!(
                "{several} processes were started together, but this natmix was built without MPI: build it with \
                 `--features mpi`, or start it without mpirun"
            )),
        }
    }

    /// Runs `work`. If it panics, all processes end, which would wait for this one otherwise.
    #[cfg(feature = "mpi")]
    pub fn guard(&self, work: impl FnOnce() -> ExitCode) -> ExitCode {
        let Some(Ok(session)) = &self.session else { return work() };
        // Nothing is used after a panic.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok(code) => code,
            Err(_) => session.abort(),
        }
    }

    /// Runs `work`.
    #[cfg(not(feature = "mpi"))]
    pub fn guard(&self, work: impl FnOnce() -> ExitCode) -> ExitCode {
        work()
    }
}
